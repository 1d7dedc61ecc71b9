// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hands the frames for Ethernet addresses that have certain bits to the AF_XDP socket of the queue that they came by, for hosts that a
 * program plays on the link. All others pass to the stack: those for the host itself, and those for groups, which both have to see. A frame
 * whose queue has no socket passes, too.
 */
#include "common.h"

/* Set before loading, as frames have addresses: which bits count, and what they are. */
const volatile __u8 station[8];
const volatile __u8 mask[8];

/* The socket of each queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* set before loading */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} sockets SEC(".maps");

SEC("xdp")
int wb_station(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	__u8 *to = (void *)(long)ctx->data;
	int i;

	if ((void *)(to + 14) > data_end)
		return XDP_PASS;
	for (i = 0; i < 6; i++)
		if ((to[i] & mask[i]) != station[i])
			return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
