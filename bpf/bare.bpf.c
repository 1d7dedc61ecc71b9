// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The physical limit, for the benchmark: a program that redirects live frames without touching them,
 * and one that only counts and drops, or counts, reads the clock and drops, which is the least that
 * anybody does who measures delay. What Wirebeat's own programs reach is printed as a share of this.
 */
#include "common.h"

/* Set before loading: whether each arrival is timed. */
const volatile __u32 timed;

__u64 redirected SEC(".bss.bare");

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
	redirected++;
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

char LICENSE[] SEC("license") = "Dual BSD/GPL";
