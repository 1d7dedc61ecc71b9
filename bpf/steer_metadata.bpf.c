// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The steering program where the card's word on each frame is wanted: what the driver knows of it goes into the bytes before the
 * frame, where the reader of the socket finds it. It is loaded for one interface (BPF_F_XDP_DEV_BOUND_ONLY), whose driver it
 * asks, and needs the kernel's own types (BTF): an object of its own, so that steering alone needs neither.
 */
#include "steer.h"

_Static_assert(sizeof(struct wb_receive_metadata) == WB_METADATA_LEN, "the reader has its length by number");

/* Set before loading: what is asked for. */
const volatile __u32 wants_stamp;
const volatile __u32 wants_hash;

/* Documentation/networking/xdp-rx-metadata.rst. Of the kinds of hashes only the size matters here. */
enum xdp_rss_hash_type { WB_HASH_OF_NOTHING };
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym;
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, __u32 *hash, enum xdp_rss_hash_type *kind) __ksym;

SEC("xdp")
int wb_steer_metadata(struct xdp_md *ctx)
{
	struct wb_receive_metadata *metadata;
	enum xdp_rss_hash_type kind = 0;
	__u32 hash = 0, has = WB_METADATA;
	__u64 stamp = 0;

	if (!wb_is_wanted(ctx))
		return XDP_PASS;
	/* before the frame is moved in its buffer: drivers find their word by the buffer */
	if (wants_stamp && !bpf_xdp_metadata_rx_timestamp(ctx, &stamp) && stamp)
		has |= WB_METADATA_STAMP;
	if (wants_hash && !bpf_xdp_metadata_rx_hash(ctx, &hash, &kind))
		has |= WB_METADATA_HASH;
	/* without room there is none, and the reader sees that */
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(*metadata))) {
		metadata = (void *)(long)ctx->data_meta;
		if ((void *)(metadata + 1) > (void *)(long)ctx->data)
			return XDP_PASS;
		metadata->stamp = stamp;
		metadata->hash = hash;
		metadata->has = has;
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
