// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The physical limit, for the benchmark: a program that redirects live frames without touching them,
 * and one that only counts and drops. What Wirebeat's own programs reach is printed as a share of this.
 */
#include "common.h"

__u64 redirected SEC(".bss.bare");

/* Per CPU: frames counted. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
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
	__u64 *count = bpf_map_lookup_elem(&counted, &zero);

	if (count)
		(*count)++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
