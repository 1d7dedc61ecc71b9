// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The steering program of the xdp engine: hands the frames that are measured to the AF_XDP socket of the queue that they came
 * by, and lets all others pass to the stack, so that the host keeps its connections. A frame whose queue has no socket passes,
 * too. It measures nothing: the reader of the sockets does.
 */
#include "steer.h"

SEC("xdp")
int wb_steer(struct xdp_md *ctx)
{
	if (!wb_is_wanted(ctx))
		return XDP_PASS;
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
