// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiving program: attached to an interface, it finds UDP datagrams that match the filter,
 * meters those that carry a probe by flow and CPU, and passes or drops them before the stack.
 *
 * The measurements are those of crates/meter, which is their reference and documents them; user space
 * adds the CPUs up (crates/engine-linux/src/kernel/receive.rs). Whatever arrives, memory stays as it
 * was laid out at the start: flows beyond `flow_count` are only counted.
 */
#include "common.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#define WINDOW (WB_WINDOW_WORDS * 32)
#define FIRST_EPOCH (1ull << 32) /* numbers are unwrapped upwards from here */

/* Set before loading. */
const volatile __u32 flow_count; /* flows metered; one more entry takes datagrams without a probe */
const volatile __u32 flow_base; /* the first flow's number in probes */
const volatile __u32 cpu_count;
const volatile __u32 several_queues; /* whether frames of a flow may arrive on several CPUs at once */
const volatile __u32 pass; /* whether metered datagrams go on to the stack */
const volatile __u32 bin_count; /* linear inter-arrival bins; 0: none */
const volatile __u64 bin_width_ns;

/* The filter: ranges are inclusive; family 0 is both. */
const volatile __u32 filter_family;
const volatile __u32 filter_source[4];
const volatile __u32 filter_source_mask[4];
const volatile __u16 filter_source_port[2] = { 0, 0xffff };
const volatile __u16 filter_port[2] = { 0, 0xffff };

/* (flow_count + 1) * cpu_count entries: flow-major. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_rx_flow);
} flows SEC(".maps");

/* One window of seen numbers per flow: word = (number >> 5) << 32 | bitmap. */
struct window {
	__u64 words[WB_WINDOW_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* flow-major like `flows`, bin_count + 1 bins each: the last is overflow */
	__type(key, __u32);
	__type(value, __u64);
} bins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_rx_counters);
} counters SEC(".maps");

/* Marks `number` as seen. */
enum seen {
	NEW,
	DUPLICATE,
	TOO_OLD,
};

static __always_inline enum seen see(struct window *window, __u32 number)
{
	__u64 *word = &window->words[(number >> 5) & (WB_WINDOW_WORDS - 1)];
	__u64 bit = 1ull << (number & 31), tag = number >> 5, old, new;
	int tries;

	if (!several_queues) {
		old = *word;
		if (old >> 32 == tag && old) {
			*word = old | bit;
			return old & bit ? DUPLICATE : NEW;
		}
		/* 27-bit circular comparison: an older tag gives way, a newer one stays */
		if ((__u32)old && (__s32)((__u32)(tag - (old >> 32)) << 5) < 0)
			return TOO_OLD;
		*word = tag << 32 | bit;
		return NEW;
	}
	/* several CPUs update the word: try again when one was faster */
	for (tries = 0; tries < 8; tries++) {
		old = *(volatile __u64 *)word;
		if (old >> 32 == tag && old) {
			if (old & bit)
				return DUPLICATE;
			new = old | bit;
		} else {
			if ((__u32)old && (__s32)((__u32)(tag - (old >> 32)) << 5) < 0)
				return TOO_OLD;
			new = tag << 32 | bit;
		}
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return NEW;
	}
	return NEW;
}

/* The reordering extent of `number`: arrivals since the jump that passed it over (RFC 4737 §4.2.1). */
static __always_inline void record_extent(struct wb_rx_flow *flow, __u64 number, __u64 arrival)
{
	__u64 extent;
	__u32 i;

	for (i = 0; i < WB_GAPS; i++) {
		struct wb_gap *gap = &flow->gaps[i];

		if (gap->low < number && number < gap->high) {
			extent = arrival - gap->arrival;
			if (extent >= WB_EXTENTS)
				extent = WB_EXTENTS - 1;
			flow->extents[extent & (WB_EXTENTS - 1)]++;
			return;
		}
	}
	flow->extents_unknown++;
}

static __always_inline void note_gap(struct wb_rx_flow *flow, __u64 number, __u64 arrival)
{
	struct wb_gap *gap = &flow->gaps[flow->gaps_seen & (WB_GAPS - 1)];

	flow->gaps_seen++;
	gap->arrival = arrival;
	gap->low = flow->highest;
	gap->high = number;
}

/* Loss, duplicates, reordering: crates/meter/src/sequence.rs. */
static __always_inline void track(struct wb_rx_flow *flow, struct window *window, __u32 wire)
{
	__u64 arrival = flow->probed++, number;
	enum seen seen;
	__s32 step;

	if (!arrival) {
		number = FIRST_EPOCH + wire;
		flow->highest = number;
		flow->lowest = number;
		step = 0;
	} else {
		step = (__s32)(wire - (__u32)flow->highest);
		number = flow->highest + step;
	}
	seen = see(window, wire);
	if (seen == DUPLICATE) {
		flow->duplicates++;
		return;
	}
	flow->unique++;
	if (seen == TOO_OLD)
		flow->beyond_window++;
	if (step > 0) {
		if (step > 1)
			note_gap(flow, number, arrival);
		flow->highest = number;
	} else if (arrival) {
		flow->reordered++;
		record_extent(flow, number, arrival);
		if (number < flow->lowest)
			flow->lowest = number;
	}
}

/* What is taken of a frame before the meter sees it. */
struct datagram {
	__u32 payload_len;
	__u32 frame_len; /* with FCS */
	__u32 tail; /* offset of the last 16 bytes of payload, or 0 */
};

static __always_inline void meter(struct wb_rx_flow *flow, struct window *window,
				const struct datagram *datagram, __be32 *probe, __u64 now, __u32 slot)
{
	__u64 gap, nominal;
	__s64 delay;

	if (flow->frames) {
		gap = now - flow->last_ns;
		record(&flow->inter_arrival, gap);
		nominal = flow->nominal_gap_ns;
		if (nominal)
			record(&flow->gap_error, gap > nominal ? gap - nominal : nominal - gap);
		if (bin_count) {
			__u64 bin = gap / bin_width_ns;
			__u32 at = slot * (bin_count + 1) + (bin < bin_count ? bin : bin_count);
			__u64 *count = bpf_map_lookup_elem(&bins, &at);

			if (count)
				(*count)++;
		}
	} else {
		flow->first_ns = now;
	}
	flow->frames++;
	flow->frame_bytes += datagram->frame_len;
	flow->payload_bytes += datagram->payload_len;
	flow->last_ns = now;
	if (!probe)
		return;

	delay = now - bpf_be64_to_cpu(*(__be64 *)(probe + 2));
	if (flow->probed)
		record(&flow->variation, delay > flow->last_delay_ns ? delay - flow->last_delay_ns :
								       flow->last_delay_ns - delay);
	flow->last_delay_ns = delay;
	record(&flow->delay, delay);
	track(flow, window, bpf_ntohl(probe[1]));
}

static __always_inline int source_matches(const __be32 *source, __u32 words)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < 4; i++)
		if (i < words && ((source[i] ^ filter_source[i]) & filter_source_mask[i]))
			return 0;
	return 1;
}

enum verdict {
	OURS,
	FOREIGN,
	MALFORMED,
};

/* Finds UDP over IPv4 or IPv6, behind up to two VLAN tags, and applies the filter. */
static __always_inline enum verdict dissect(struct xdp_md *ctx, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	__u32 at = sizeof(*ethernet), available, udp_len, i;
	struct udphdr *udp;
	__u16 port;
	__be16 type;

	if ((void *)(ethernet + 1) > data_end)
		return MALFORMED;
	type = ethernet->h_proto;
#pragma unroll
	for (i = 0; i < 2; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (data + at + 4 > data_end)
			return MALFORMED;
		type = *(__be16 *)(data + at + 2);
		at += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + at;
		__u32 header;

		if ((void *)(ip + 1) > data_end)
			return MALFORMED;
		if (ip->protocol != IPPROTO_UDP)
			return FOREIGN;
		if (filter_family && filter_family != 4)
			return FOREIGN;
		if (!source_matches(&ip->saddr, 1))
			return FOREIGN;
		header = ip->ihl * 4;
		if (ip->version != 4 || header < sizeof(*ip) || bpf_ntohs(ip->tot_len) < header)
			return MALFORMED;
		if (ip->frag_off & bpf_htons(0x3fff))
			return FOREIGN; /* a fragment is not a datagram */
		available = bpf_ntohs(ip->tot_len) - header;
		at += header;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data + at;

		if ((void *)(ip + 1) > data_end)
			return MALFORMED;
		if (ip->nexthdr != IPPROTO_UDP)
			return FOREIGN;
		if (filter_family && filter_family != 6)
			return FOREIGN;
		if (!source_matches((__be32 *)&ip->saddr, 4))
			return FOREIGN;
		if (ip->version != 6)
			return MALFORMED;
		available = bpf_ntohs(ip->payload_len);
		at += sizeof(*ip);
	} else {
		return FOREIGN;
	}
	at &= 0xff;
	udp = data + at;
	if ((void *)(udp + 1) > data_end)
		return MALFORMED;
	port = bpf_ntohs(udp->source);
	if (port < filter_source_port[0] || port > filter_source_port[1])
		return FOREIGN;
	port = bpf_ntohs(udp->dest);
	if (port < filter_port[0] || port > filter_port[1])
		return FOREIGN;
	udp_len = bpf_ntohs(udp->len);
	if (udp_len < sizeof(*udp) || udp_len > available || data + at + (udp_len & 0x3fff) > data_end)
		return MALFORMED;
	out->frame_len = data_end - data + 4;
	if (out->frame_len < 64)
		out->frame_len = 64;
	out->payload_len = udp_len - sizeof(*udp);
	out->tail = out->payload_len < WB_PROBE_LEN ? 0 : at + udp_len - WB_PROBE_LEN;
	return OURS;
}

SEC("xdp")
int wb_receive(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id(), flow_index = flow_count, slot;
	struct wb_rx_counters *mine = bpf_map_lookup_elem(&counters, &cpu);
	struct wb_rx_flow *flow;
	struct datagram datagram;
	struct window *window;
	__be32 *probe = 0;
	__u64 now;

	if (!mine)
		return XDP_PASS;
	now = bpf_ktime_get_ns();
	switch (dissect(ctx, &datagram)) {
	case FOREIGN:
		mine->foreign++;
		return XDP_PASS;
	case MALFORMED:
		mine->malformed++;
		return XDP_PASS;
	case OURS:
		break;
	}
	if (datagram.tail) {
		void *data_end = (void *)(long)ctx->data_end;

		probe = (void *)(long)ctx->data + (datagram.tail & 0x3fff);
		if ((void *)(probe + 4) > data_end) {
			mine->malformed++;
			return XDP_PASS;
		}
		if (*(__be16 *)probe != bpf_htons(WB_PROBE_MAGIC)) {
			probe = 0;
		} else {
			flow_index = bpf_ntohs(*((__be16 *)probe + 1)) - flow_base;
			if (flow_index >= flow_count) {
				mine->unknown_flow++;
				return pass ? XDP_PASS : XDP_DROP;
			}
		}
	}
	slot = flow_index * cpu_count + cpu;
	flow = bpf_map_lookup_elem(&flows, &slot);
	window = bpf_map_lookup_elem(&windows, &flow_index);
	if (!flow || (!window && probe))
		return XDP_ABORTED;
	meter(flow, window, &datagram, probe, now, slot);
	return pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
