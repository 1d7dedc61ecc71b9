// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The physical limit, for the benchmark: a program that redirects live frames without touching them, or
 * copies frames of several lengths into them, which is the least that anybody does who sends a mix; and one
 * that only counts and drops, or counts, reads the clock and drops, which is the least that anybody does who
 * measures delay. What Wirebeat's own programs reach is printed as a share of this.
 */
#include "common.h"

/* Set before loading: whether each arrival is timed. */
const volatile __u32 timed;

/* Set before loading: the lengths of the frames that are copied, in turn; zeros leave frames untouched. */
#define MIXED 24
const volatile __u32 mixed[MIXED];
const volatile __u32 base_len; /* length of the frames that the kernel hands to the program */
static __u8 copied[2048];
static __u32 next; /* of the lengths */

/* Per CPU: frames counted, and when the last arrived. */
struct count {
	__u64 frames;
	__u64 last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct count);
} counted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} bare_egress SEC(".maps");

SEC("xdp")
int wb_bare_transmit(struct xdp_md *ctx)
{
	__u64 turn = next, len;

	if (!wb_at_most(turn, MIXED - 1))
		turn = 0;
	next = turn + 1;
	len = mixed[turn];
	if (wb_between(len, 1, sizeof(copied))) {
		if (len != base_len && bpf_xdp_adjust_tail(ctx, (int)len - (int)base_len))
			return XDP_ABORTED;
		if (bpf_xdp_store_bytes(ctx, 0, copied, len))
			return XDP_ABORTED;
	}
	return bpf_redirect_map(&bare_egress, 0, 0);
}

SEC("xdp")
int wb_count_and_drop(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct count *count = bpf_map_lookup_elem(&counted, &zero);

	if (!count)
		return XDP_DROP;
	count->frames++;
	if (timed)
		count->last_ns = bpf_ktime_get_ns();
	return XDP_DROP;
}

/* Set before loading: whether the first 128 bytes of each frame are told, or its probe alone. */
const volatile __u32 wide;

/* What is told of a frame, and how many of them there is room for. The reader looks at `mark`, which is written last. */
#define BARE_SLOTS 65536
#define BARE_WIDE 128

struct bare_record {
	__u64 mark;
	__u64 arrived_ns;
	__u8 bytes[WB_PROBE_LEN]; /* or BARE_WIDE */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BARE_SLOTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bare_record)); /* that of wide ones is set before loading */
} bare_ring SEC(".maps");

static __u64 told;

/*
 * The least that anybody does who tells user space of each frame: finds the probe of a UDP datagram over IPv4 without options,
 * copies it, or the beginning of the frame, and says when that was. It looks at nothing else, and at no reader.
 */
SEC("xdp")
int wb_bare_ring(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 slot = told & (BARE_SLOTS - 1);
	struct bare_record *record = bpf_map_lookup_elem(&bare_ring, &slot);
	__u64 tail;

	if (!record || data + 42 > data_end)
		return XDP_DROP;
	tail = 34 + bpf_ntohs(*(__be16 *)(data + 38)) - WB_PROBE_LEN;
	if (!wb_at_most(tail, 1500) || data + tail + WB_PROBE_LEN > data_end)
		return XDP_DROP;
	if (*(__be16 *)(data + tail) != bpf_htons(WB_PROBE_MAGIC))
		return XDP_DROP;
	if (wide) {
		if (data + BARE_WIDE > data_end)
			return XDP_DROP;
		__builtin_memcpy(record->bytes, data, BARE_WIDE);
	} else {
		__builtin_memcpy(record->bytes, data + tail, WB_PROBE_LEN);
	}
	record->arrived_ns = bpf_ktime_get_ns();
	barrier();
	*(volatile __u64 *)&record->mark = ++told;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
