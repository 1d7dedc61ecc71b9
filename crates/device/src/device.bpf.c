// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A device between two ports: what comes in by the one leaves by the other, up to limits that are known. It decides in the kernel, on
 * the CPU that brings the frame, so that no thread of it can be kept waiting.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define NS_PER_SECOND 1000000000ull

/* What a frame takes on a line beside the bytes that we see: preamble, FCS and gap (IEEE 802.3 §3.1, §4.4.2). */
#define OVERHEAD 24

/* Set before loading. */
const volatile struct device_limits {
	__u64 bytes_per_second; /* of the line; 0: no limit */
	__u64 depth;            /* bytes that may leave at once */
	__u64 penalty_ns;       /* nothing leaves so long after a frame that found no tokens */
	__u64 every;            /* each so many-th frame is dropped; 0: none */
	__u64 random;           /* a frame is dropped where 32 random bits are below; of 2^32 */
} limits;

struct bucket {
	struct bpf_spin_lock lock;
	__u64 last_ns;
	__u64 tokens; /* bytes, in units of 1e-9 */
	__u64 until_ns; /* nothing leaves before */
	__u64 came;
	__u64 passed;
	__u64 over;    /* dropped for want of tokens */
	__u64 dropped; /* by number or at random */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Whether the device is off. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} off SEC(".maps");

/* To the other port: 0 for the way there, 1 for the way back. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} egress SEC(".maps");

SEC("xdp")
int wb_there(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bucket *bucket = bpf_map_lookup_elem(&buckets, &zero);
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u64 bytes = data_end - data + OVERHEAD, now = bpf_ktime_get_ns(), full, passed, cost;
	__u32 drawn = 0, *is_off = bpf_map_lookup_elem(&off, &zero);
	int passes = 0;

	if (!bucket || !is_off)
		return XDP_ABORTED;
	if (*is_off)
		return XDP_DROP;
	if (limits.random)
		drawn = bpf_get_prandom_u32();
	full = limits.depth * NS_PER_SECOND;
	cost = bytes * NS_PER_SECOND;
	bpf_spin_lock(&bucket->lock);
	bucket->came++;
	if ((limits.random && drawn < limits.random) || (limits.every && bucket->came % limits.every == 0)) {
		bucket->dropped++;
	} else if (limits.bytes_per_second) {
		/* another CPU may have read its clock later and come first */
		passed = now > bucket->last_ns ? now - bucket->last_ns : 0;
		bucket->last_ns += passed;
		/* after a second it is full, whatever its depth; this fits up to 18 GB/s */
		if (passed >= NS_PER_SECOND) {
			bucket->tokens = full;
		} else {
			bucket->tokens += passed * limits.bytes_per_second;
			if (bucket->tokens > full)
				bucket->tokens = full;
		}
		if (bucket->tokens < cost) {
			bucket->until_ns = now + limits.penalty_ns;
			bucket->over++;
		} else {
			bucket->tokens -= cost;
			passes = now >= bucket->until_ns;
			if (passes)
				bucket->passed++;
			else
				bucket->over++;
		}
	} else {
		bucket->passed++;
		passes = 1;
	}
	bpf_spin_unlock(&bucket->lock);
	return passes ? bpf_redirect_map(&egress, 0, 0) : XDP_DROP;
}

SEC("xdp")
int wb_back(struct xdp_md *ctx)
{
	return bpf_redirect_map(&egress, 1, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
