/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the steering programs have in common: which frames are measured, and the sockets that those go to.
 */
#ifndef WIREBEAT_STEER_H
#define WIREBEAT_STEER_H

#include "common.h"

/* Set before loading: whether frames may lie in several buffers. */
const volatile __u32 several;
#define WB_SEVERAL

#include "dissect.h"
#include "headers.h"

/* Set before loading. */
const volatile __u32 datagrams; /* whether UDP datagrams that match the filter are wanted without a probe as well */
const volatile __u32 fragments; /* whether fragments are wanted: the reader puts packets together */

/* The socket of each queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); /* set before loading */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} sockets SEC(".maps");

/* The numbers of flows that are measured, a bit for each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WB_PROBE_FLOWS / 64);
	__type(key, __u32);
	__type(value, __u64);
} flows SEC(".maps");

static __always_inline int is_measured(__u32 flow)
{
	__u32 word = flow >> 6;
	__u64 *bits = bpf_map_lookup_elem(&flows, &word);

	return bits && *bits >> (flow & 63) & 1;
}

/*
 * Whether a payload ends with a probe: of any flow in a datagram, and of one that is measured in anything else. A TCP segment of
 * the host that ends like a probe by chance would come again and again, and never arrive.
 */
static __always_inline int has_probe(struct xdp_md *ctx, __u64 tail, __u32 other)
{
	void *data_end = (void *)(long)ctx->data_end;
	__be16 *probe, beyond[2];

	if (!tail || !wb_at_most(tail, PROBE_AT_MAX))
		return 0;
	if (several) {
		/* in any of the buffers */
		if (bpf_xdp_load_bytes(ctx, tail, beyond, sizeof(beyond)) || beyond[0] != bpf_htons(WB_PROBE_MAGIC))
			return 0;
		return !other || is_measured(bpf_ntohs(beyond[1]));
	}
	probe = (void *)(long)ctx->data + tail;
	if ((void *)probe + WB_PROBE_LEN > data_end || *probe != bpf_htons(WB_PROBE_MAGIC))
		return 0;
	return !other || is_measured(bpf_ntohs(probe[1]));
}

/* Whether a frame goes to the socket of its queue. */
static __always_inline int wb_is_wanted(struct xdp_md *ctx)
{
	struct datagram datagram;
	enum verdict verdict;
	int wanted = 0;

	verdict = dissect(ctx, &datagram);
	if (verdict == OURS)
		wanted = (datagrams && !datagram.other) || has_probe(ctx, datagram.tail, datagram.other);
	else if (verdict == FRAGMENT)
		wanted = fragments;
	if (!wanted && header_mask_count && verdict != FRAGMENT)
		wanted = wb_row_by_headers(ctx) != 0;
	return wanted;
}

#endif
