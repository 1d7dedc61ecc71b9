/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the UDP datagram in a frame, or the payload of any other, and applies the filter. The references are
 * datagram.rs and carrier.rs of crates/wire/src. It knows no flows.
 */
#ifndef WIREBEAT_DISSECT_H
#define WIREBEAT_DISSECT_H

#include "common.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

/* The filter; zero: any. */
const volatile __u32 filtered; /* whether there is one at all */
const volatile __u32 filter_family; /* 4 or 6: that of the source address */
const volatile __u32 filter_source[4]; /* network order */
const volatile __u16 filter_source_port;
const volatile __u16 filter_port;

/* What is taken of a frame before the meter sees it. */
struct datagram {
	__u32 payload_len;
	__u32 frame_len; /* with FCS */
	__u32 tail; /* offset of the last 16 bytes of payload, or 0 */
	__u32 other; /* not zero: no UDP datagram, and ours only if it ends with a probe of a known flow */
};

/*
 * How long a frame is. A driver may give it in several buffers to a program that says that it can do with that; `data_end` is
 * then the end of the first one, where all headers are. Only a program that defines WB_SEVERAL has `several`, and the kernels
 * that have such frames (Linux 5.18) have the helper.
 */
static __always_inline __u32 frame_length(struct xdp_md *ctx)
{
#ifdef WB_SEVERAL
	if (several)
		return bpf_xdp_get_buff_len(ctx);
#endif
	return (void *)(long)ctx->data_end - (void *)(long)ctx->data;
}

enum verdict {
	OURS,
	FOREIGN,
	FRAGMENT, /* of a packet that is not put together here */
	MALFORMED,
	UNKNOWN_FLOW,
	STALE, /* of an earlier run */
};

static __always_inline int source_wanted(__u32 family, const __be32 *source)
{
	__u32 words = family == 4 ? 1 : 4, i;

	if (!filter_family)
		return 1;
	if (filter_family != family)
		return 0;
#pragma unroll
	for (i = 0; i < 4; i++)
		if (i < words && source[i] != filter_source[i])
			return 0;
	return 1;
}

static __always_inline int ports_wanted(const struct udphdr *udp)
{
	return (!filter_source_port || udp->source == bpf_htons(filter_source_port)) &&
	       (!filter_port || udp->dest == bpf_htons(filter_port));
}

/* What IP carries: where it begins and how long it is. */
struct carried {
	__u32 at;
	__u32 len;
	__u32 filtered; /* whether the source is not the one that is wanted */
	__u32 protocol;
	__u32 frame; /* how long the frame is */
};

/* Headers begin below this: at most 22 bytes of link layer, 40 of IPv6 and five extensions of 2,048 or four labels. For the
 * verifier. */
#define OFFSET_MASK 0x3fff
/* How far from the start of a frame a probe may begin: the verifier reaches 65,535 bytes into a frame. */
#define PROBE_AT_MAX (0xffff - WB_PROBE_LEN)

/* Where the header at offset `at` begins. The mask is one of 64 bits, as what is added is: see wb_between. */
static __always_inline void *header_at(void *data, __u64 at)
{
	barrier_var(at);
	at &= OFFSET_MASK;
	barrier_var(at);
	return data + at;
}

/* The order of checks is that of crates/wire/src/datagram.rs: lengths, fragments, protocol. */
static __always_inline enum verdict carried_v4(void *data, void *data_end, struct carried *out)
{
	struct iphdr *ip = header_at(data, out->at);
	__u32 header, total;

	if ((void *)(ip + 1) > data_end)
		return MALFORMED;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header || out->at + total > out->frame)
		return MALFORMED;
	if (ip->frag_off & bpf_htons(0x3fff))
		return FRAGMENT;
	out->protocol = ip->protocol;
	out->filtered = !source_wanted(4, &ip->saddr);
	out->at += header;
	out->len = total - header;
	return OURS;
}

/* Skips extension headers, five at most, as crates/wire/src/ipv6.rs does. */
static __noinline int skip_extensions(void *data, void *data_end, struct carried *out, __u32 next)
{
	__u32 i, len;
	__u8 *header;

	if (!out)
		return MALFORMED;
	for (i = 0; i < 5; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT)
			break;
		header = header_at(data, out->at);
		if ((void *)(header + 8) > data_end || out->len < 8)
			return MALFORMED;
		len = 8;
		if (next == IPPROTO_FRAGMENT) {
			/* offset and "more" flag: only an atomic fragment is whole */
			if (*(__be16 *)(header + 2) & bpf_htons(0xfff9))
				return FRAGMENT;
		} else {
			len += header[1] * 8;
		}
		if (len > out->len)
			return MALFORMED;
		next = header[0];
		out->at += len;
		out->len -= len;
	}
	out->protocol = next;
	return OURS;
}

static __always_inline enum verdict carried_v6(void *data, void *data_end, struct carried *out)
{
	struct ipv6hdr *ip = header_at(data, out->at);

	if ((void *)(ip + 1) > data_end)
		return MALFORMED;
	out->len = bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || out->at + sizeof(*ip) + out->len > out->frame)
		return MALFORMED;
	out->filtered = !source_wanted(6, (__be32 *)&ip->saddr);
	out->at += sizeof(*ip);
	out->protocol = ip->nexthdr;
	if (ip->nexthdr == IPPROTO_UDP)
		return OURS;
	return skip_extensions(data, data_end, out, ip->nexthdr);
}

/* What a frame has that is no UDP datagram: `len` bytes from `at` on. */
static __always_inline enum verdict other_payload(struct datagram *out, __u32 frame_len, __u32 at, __u32 len)
{
	out->other = 1;
	out->frame_len = frame_len < 60 ? 64 : frame_len + 4;
	out->payload_len = len;
	out->tail = len < WB_PROBE_LEN ? 0 : at + len - WB_PROBE_LEN;
	return OURS;
}

/* Skips the transport header, where it is one that is known. What contradicts itself is foreign to the caller:
 * nobody says that it was meant for us. */
static __noinline int other_protocol(struct xdp_md *ctx, struct carried *carried, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 header = 0;
	__u8 *p;

	if (!carried || !out)
		return MALFORMED;
	if (carried->filtered || filter_source_port || filter_port)
		return FOREIGN;
	p = header_at(data, carried->at);
	switch (carried->protocol) {
	case IPPROTO_TCP:
		if ((void *)(p + 13) > data_end)
			return MALFORMED;
		header = (p[12] >> 4) * 4;
		break;
	case IPPROTO_DCCP:
		if ((void *)(p + 5) > data_end)
			return MALFORMED;
		header = p[4] * 4;
		break;
	case IPPROTO_SCTP:
		header = 12 + 16; /* the common header and that of a DATA chunk (RFC 9260) */
		break;
	case IPPROTO_UDP:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_IGMP:
		header = 8;
		break;
	}
	if (header > carried->len)
		return MALFORMED;
	return other_payload(out, carried->frame, carried->at + header, carried->len - header);
}

#define MAX_LABELS 4

/* MPLS: IP behind the labels, or anything else (carrier.rs). */
static __noinline int behind_labels(struct xdp_md *ctx, struct carried *carried, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 i, bottom = 0;
	__u8 *p;

	if (!carried || !out)
		return MALFORMED;
	for (i = 0; i < MAX_LABELS && !bottom; i++) {
		p = header_at(data, carried->at);
		if ((void *)(p + 4) > data_end)
			return MALFORMED;
		bottom = p[2] & 1;
		carried->at += 4;
	}
	if (!bottom)
		return FOREIGN;
	p = header_at(data, carried->at);
	if ((void *)(p + 1) <= data_end && (*p >> 4 == 4 || *p >> 4 == 6)) {
		enum verdict verdict = *p >> 4 == 4 ? carried_v4(data, data_end, carried) :
						      carried_v6(data, data_end, carried);

		return verdict == OURS ? other_protocol(ctx, carried, out) : verdict;
	}
	if (filtered)
		return FOREIGN;
	return other_payload(out, carried->frame, carried->at, carried->frame - carried->at);
}

/* Finds UDP over IPv4 or IPv6, behind up to two VLAN tags, or else whatever there is, and applies the
 * filter. */
static __noinline int dissect_any(struct xdp_md *ctx, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct carried carried = { .at = sizeof(*ethernet), .frame = frame_length(ctx) };
	enum verdict verdict;
	struct udphdr *udp;
	__u32 len, i;
	__be16 type;

	if (!out || (void *)(ethernet + 1) > data_end)
		return MALFORMED;
	type = ethernet->h_proto;
#pragma unroll
	for (i = 0; i < 2; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (data + carried.at + 4 > data_end)
			return MALFORMED;
		type = *(__be16 *)(data + carried.at + 2);
		carried.at += 4;
	}
	if (type == bpf_htons(ETH_P_IP))
		verdict = carried_v4(data, data_end, &carried);
	else if (type == bpf_htons(ETH_P_IPV6))
		verdict = carried_v6(data, data_end, &carried);
	else if (type == bpf_htons(ETH_P_MPLS_UC) || type == bpf_htons(ETH_P_MPLS_MC))
		return behind_labels(ctx, &carried, out) == OURS ? OURS : FOREIGN;
	else if (filtered)
		return FOREIGN;
	else
		return other_payload(out, carried.frame, carried.at, carried.frame - carried.at);
	if (verdict != OURS)
		return verdict;
	if (carried.protocol != IPPROTO_UDP)
		return other_protocol(ctx, &carried, out) == OURS ? OURS : FOREIGN;

	udp = header_at(data, carried.at);
	if ((void *)(udp + 1) > data_end || carried.len < sizeof(*udp))
		return MALFORMED;
	len = bpf_ntohs(udp->len);
	if (len < sizeof(*udp) || len > carried.len)
		return MALFORMED;
	if (carried.filtered || !ports_wanted(udp))
		return FOREIGN;
	out->frame_len = carried.frame + 4;
	if (out->frame_len < 64)
		out->frame_len = 64;
	out->other = 0;
	out->payload_len = len - sizeof(*udp);
	out->tail = out->payload_len < WB_PROBE_LEN ? 0 : carried.at + len - WB_PROBE_LEN;
	return OURS;
}

/* Words of a frame in host order, as the loads below give them. */
#define WORD(a, b, c, d) \
	(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? \
		 (__u32)(d) << 24 | (c) << 16 | (b) << 8 | (a) : \
		 (__u32)(a) << 24 | (b) << 16 | (c) << 8 | (d))

/* What `dissect_any` does not write is zero. It is cleared here, because Linux 6.1 takes a pointer to the stack for one that may
 * be null, and what is cleared behind such a test for memory that may hold anything. */
static __always_inline enum verdict dissect_cleared(struct xdp_md *ctx, struct datagram *out)
{
	*out = (struct datagram){};
	return dissect_any(ctx, out);
}

/* The frame that nearly all are, IPv4 without options or tags that carries whole UDP, in few
 * instructions; `dissect_any` judges all others. */
static __always_inline enum verdict dissect(struct xdp_md *ctx, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 frame_len = frame_length(ctx), total, len;

	if (data + 42 > data_end)
		return dissect_cleared(ctx, out);
	/* type, version and header length */
	if ((*(__u32 *)(data + 12) & WORD(0xff, 0xff, 0xff, 0)) != WORD(8, 0, 0x45, 0))
		return dissect_cleared(ctx, out);
	/* fragment offset and "more", protocol */
	if ((*(__u32 *)(data + 20) & WORD(0x3f, 0xff, 0, 0xff)) != WORD(0, 0, 0, IPPROTO_UDP))
		return dissect_cleared(ctx, out);
	total = bpf_ntohs(*(__be16 *)(data + 16));
	len = bpf_ntohs(*(__be16 *)(data + 38));
	if (total + 14 > frame_len || len + 20 > total || len < 8)
		return dissect_cleared(ctx, out);
	if (filtered && (!source_wanted(4, data + 26) || !ports_wanted(data + 34))) {
		*out = (struct datagram){};
		return FOREIGN;
	}
	out->frame_len = frame_len < 60 ? 64 : frame_len + 4;
	out->other = 0;
	out->payload_len = len - 8;
	out->tail = len < 8 + WB_PROBE_LEN ? 0 : 34 + len - WB_PROBE_LEN;
	return OURS;
}

#endif
