/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The flow of a frame that no probe says it of, by its headers. The references are headers.rs of crates/wire/src, which
 * documents the keys, and headers.rs of crates/meter/src. It knows rows of measurements, and not what is in them.
 */
#ifndef WIREBEAT_HEADERS_H
#define WIREBEAT_HEADERS_H

#include "common.h"
#include "dissect.h"

/* Set before loading: the masks of all keys in `headers`. None: nobody is looked for. */
const volatile __u32 header_mask_count;
const volatile struct wb_header_mask header_masks[WB_HEADER_MASKS];

/* The row of the flow that has these headers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before loading */
	__type(key, struct wb_header_key);
	__type(value, __u32);
} headers SEC(".maps");

#define KIND_NOT_IP 1
#define ETHER_TYPE_MIN 0x600 /* below it is a length (IEEE 802.3 3.2.6) */

/* How many bytes of the transport header are part of the key. */
static __always_inline __u32 key_ports(__u32 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		return 4;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return 2; /* type and code */
	}
	return 0;
}

/* The key of a frame without IP: its Ethernet addresses, and the first four bytes at `network`. */
static __always_inline int key_of_others(struct xdp_md *ctx, struct wb_header_key *key, __be16 type, __u32 network)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u16 *from = data;
	__u8 *p = header_at(data, network);

	if (data + sizeof(struct ethhdr) > data_end)
		return 0;
	key->type = bpf_ntohs(type) < ETHER_TYPE_MIN ? 0 : type;
	key->kind = KIND_NOT_IP;
	__builtin_memcpy(key->destination, from, 6);
	__builtin_memcpy(key->source, from + 3, 6);
	if ((void *)(p + 4) <= data_end)
		__builtin_memcpy(key->ports, p, 4);
	return 1;
}

/* Makes the key of a frame (`HeaderKey::of`); `key` is zero before. Says whether it has one. */
static __noinline int key_of(struct xdp_md *ctx, struct wb_header_key *key)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct carried carried = { .at = sizeof(struct ethhdr), .frame = frame_length(ctx) };
	enum verdict verdict = MALFORMED;
	__u32 network, ports, i;
	__be16 type;
	__u8 *p;

	if (!key || data + sizeof(struct ethhdr) > data_end)
		return 0;
	type = ((struct ethhdr *)data)->h_proto;
#pragma unroll
	for (i = 0; i < 2; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (data + carried.at + 4 > data_end)
			return 0;
		type = *(__be16 *)(data + carried.at + 2);
		carried.at += 4;
	}
	network = carried.at;
	if (type == bpf_htons(ETH_P_IP))
		verdict = carried_v4(data, data_end, &carried);
	else if (type == bpf_htons(ETH_P_IPV6))
		verdict = carried_v6(data, data_end, &carried);
	if (verdict == MALFORMED)
		return key_of_others(ctx, key, type, network);
	/* a fragment says little of what it is part of */
	if (verdict != OURS || carried.protocol == IPPROTO_FRAGMENT)
		return 0;
	key->type = type;
	key->protocol = carried.protocol;
	p = header_at(data, network);
	if (type == bpf_htons(ETH_P_IP)) {
		if ((void *)(p + sizeof(struct iphdr)) > data_end)
			return 0;
		__builtin_memcpy(key->source, p + 12, 4);
		__builtin_memcpy(key->destination, p + 16, 4);
	} else {
		if ((void *)(p + sizeof(struct ipv6hdr)) > data_end)
			return 0;
		__builtin_memcpy(key->source, p + 8, 16);
		__builtin_memcpy(key->destination, p + 24, 16);
	}
	ports = carried.len < 4 ? 0 : key_ports(carried.protocol);
	p = header_at(data, carried.at);
	if (ports && (void *)(p + 4) <= data_end) {
		__builtin_memcpy(key->ports, p, 2);
		if (ports == 4)
			__builtin_memcpy(key->ports + 2, p + 2, 2);
	}
	return 1;
}

/*
 * The row of the flow that has a key, or 0: that is never one of them. This function and those that call it are not static,
 * so that the verifier follows each of them once, and not after every way that leads to it.
 */
__noinline __u32 wb_row_of_key(struct wb_header_key *key)
{
	struct wb_header_key masked;
	__u32 *row, i, word;

	if (!key)
		return 0;
	for (i = 0; i < WB_HEADER_MASKS && i < header_mask_count; i++) {
#pragma unroll
		for (word = 0; word < WB_HEADER_WORDS; word++)
			masked.words[word] = key->words[word] & header_masks[i].words[word];
		masked.mask = i;
		row = bpf_map_lookup_elem(&headers, &masked);
		if (row)
			return *row;
	}
	return 0;
}

/* The row of the flow that a frame is of by its headers, or 0. */
__noinline __u32 wb_row_by_headers(struct xdp_md *ctx)
{
	struct wb_header_key key = {};

	return key_of(ctx, &key) ? wb_row_of_key(&key) : 0;
}

#endif
