/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is written into a frame at the last moment: number, time, identification, and the checksums that they
 * change. The references are Stamp and Marks of crates/wire. It knows no ring, and of the orders of user space only
 * what time of day it is.
 */
#ifndef WIREBEAT_STAMP_H
#define WIREBEAT_STAMP_H

#include "common.h"

struct wb_tx_orders orders SEC(".bss.orders");

/* A one's complement sum, folded to 16 bits. */
static __always_inline __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u16 *field_at(void *data, void *data_end, __u32 at, __u32 len)
{
	void *p;

	at &= 0xfff;
	p = data + at;
	return p + len > data_end ? 0 : p;
}

#define SECOND_NS 1000000000ull
#define DAY_NS (86400 * SECOND_NS)

/* Writes a word of a probe; returns what it adds to a checksum. */
static __always_inline __u64 put(struct xdp_md *ctx, __u32 at, __u32 value)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__be32 word = bpf_htonl(value);
	__be32 *p = (void *)field_at(data, data_end, at, sizeof(word));

	if (!p)
		return 0;
	*p = word;
	return word;
}

/* Number and time of a probe of another tool: Marks::write of crates/wire. All words lie at even offsets.
 * Returns the sum of what was written. */
static __always_inline __u64 write_marks(struct xdp_md *ctx, struct wb_slot *slot, __u32 number, __u64 now)
{
	__u64 sum = put(ctx, slot->sequence_at, number), unix_ns = now + orders.unix_offset_ns;
	__u32 high = now >> 32, low = now;

	if (!slot->time_at)
		return sum;
	if (slot->form == WB_PROBE_OF_DAY)
		unix_ns %= DAY_NS;
	if (slot->form != WB_PROBE_NANOSECONDS) {
		high = unix_ns / SECOND_NS;
		low = unix_ns % SECOND_NS / 1000;
	}
	return sum + put(ctx, slot->time_at, high) + put(ctx, slot->time_at + 4, low);
}

/* Writes sequence, time and identification and mends the checksums: Stamp::write of crates/wire. */
static __always_inline void stamp(struct xdp_md *ctx, struct wb_slot *slot, __u32 sequence, __u64 now)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 probe_at = slot->probe_at, checksum_at = slot->checksum_at;
	__be32 sequence_be = bpf_htonl(sequence + slot->first);
	__be64 now_be = bpf_cpu_to_be64(now);
	/* a sum of words is the sum of their halves, once folded (RFC 1071) */
	__u64 sum = (__u64)sequence_be + (__u32)now_be + (now_be >> 32);
	__u16 *p;

	if (slot->form == WB_PROBE_OWN) {
		p = probe_at ? field_at(data, data_end, probe_at, WB_PROBE_LEN) : 0;
		if (p) {
			/* the offset is known at run time only: bytes may be unaligned */
			*(__be32 *)((void *)p + 4) = sequence_be;
			*(__be64 *)((void *)p + 8) = now_be;
		}
	} else if (probe_at) {
		sum = write_marks(ctx, slot, sequence + slot->first, now);
		data = (void *)(long)ctx->data;
		data_end = (void *)(long)ctx->data_end;
	}
	p = checksum_at ? field_at(data, data_end, checksum_at, 2) : 0;
	if (p) {
		if ((probe_at - checksum_at) & 1) {
			sum = fold(sum);
			sum = ((sum & 0xff) << 8) | (sum >> 8);
		}
		sum = ~fold(sum + (__u16)~*p) & 0xffff;
		*p = sum ? sum : 0xffff; /* RFC 768: zero would mean "no checksum" */
	}
	if (slot->identification_at) {
		p = field_at(data, data_end, slot->identification_at, 8);
		if (p) {
			__u16 identification = bpf_htons(sequence);
			__u32 sum = (__u16)~p[3] + identification;

			p[0] = identification;
			p[3] = ~(sum + (sum >> 16));
		}
	}
}

#endif
