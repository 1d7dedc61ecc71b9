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

/* Set before loading. */
const volatile __u32 flow_count; /* flows metered; one more entry takes datagrams without a probe */
const volatile __u32 flow_base; /* the first flow's number in probes */
const volatile __u32 cpu_count;
const volatile __u32 several_queues; /* whether frames of a flow may arrive on several CPUs at once */
const volatile __u32 pass; /* whether metered datagrams go on to the stack */
const volatile __u32 bin_count; /* linear inter-arrival bins; 0: none */
const volatile __u64 bin_width_ns;

const volatile __s64 delay_base_ns; /* taken off each delay before it is recorded */
const volatile __u64 run_start_ns; /* probes sent before this are of an earlier run */

/* The filter; zero: any. */
const volatile __u32 filtered; /* whether there is one at all */
const volatile __u32 filter_family; /* 4 or 6: that of the source address */
const volatile __u32 filter_source[4]; /* network order */
const volatile __u16 filter_source_port;
const volatile __u16 filter_port;

/* (flow_count + 1) * cpu_count entries: flow-major. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_rx_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_window);
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

/* Notes `number` in the window; says whether it is new (`Window::mark`). */
static __always_inline int mark(struct wb_window *window, __u64 number)
{
	__u64 *word = &window->words[(number >> 5) & (WB_WINDOW_WORDS - 1)];
	__u64 bit = 1ull << (number & 31), tag = number >> 5 << 32, old, new;
	int tries;

	if (number > window->highest)
		window->highest = number;
	if (number < window->lowest)
		window->lowest = number;
	if (!several_queues) {
		old = *word;
		new = (old & ~0xffffffffull) == tag ? old | bit : tag | bit;
		*word = new;
		return old != new;
	}
	/* several CPUs update the word: try again when another was faster */
	for (tries = 0; tries < 16; tries++) {
		old = *(volatile __u64 *)word;
		new = (old & ~0xffffffffull) == tag ? old | bit : tag | bit;
		if (old == new)
			return 0;
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return 1;
	}
	return 1;
}

/* The reordering extent of the newest arrival: arrivals since the one that opened the gap in which
 * `number` lies (RFC 4737 §4.2; `Order::extent`). */
static __noinline int record_extent(struct wb_rx_flow *flow, __u64 number)
{
	__u64 extent;
	__u32 i;

	if (!flow)
		return 0;
	for (i = 0; i < WB_GAPS; i++) {
		struct wb_gap *gap = &flow->gaps[i];

		if (gap->before < number && number < gap->after) {
			extent = flow->arrivals - 1 - gap->arrival;
			if (extent >= WB_EXTENTS)
				extent = WB_EXTENTS - 1;
			flow->extents[extent & (WB_EXTENTS - 1)]++;
			break;
		}
	}
	return 0;
}

/* Counts an arrival that is placed (`SequenceTracker::count`). Says whether it is new. */
static __always_inline int count(struct wb_rx_flow *flow, struct wb_window *window, __u64 number,
				 __u64 sent)
{
	__u64 arrival;

	if (!mark(window, number)) {
		flow->duplicates++;
		return 0;
	}
	arrival = flow->arrivals++;
	if (number < flow->highest) {
		flow->reordered++;
		record_extent(flow, number);
		return 1;
	}
	if (number != flow->highest + 1) {
		struct wb_gap *gap = &flow->gaps[flow->gap_count++ & (WB_GAPS - 1)];

		gap->arrival = arrival;
		gap->before = flow->highest;
		gap->after = number;
	}
	flow->highest = number;
	flow->highest_sent = sent;
	return 1;
}

static __always_inline void count_late(struct wb_rx_flow *flow, struct wb_window *window,
				       __u64 number)
{
	if (number < window->lowest)
		window->lowest = number;
	flow->reordered++;
	flow->beyond_window++;
	flow->arrivals++;
}

/* Where a number belongs (`SequenceTracker::place`). */
enum place {
	NEAR,
	LATE,
	AHEAD,
	BEHIND,
};

static __always_inline enum place place(struct wb_rx_flow *flow, struct wb_window *window,
					__u32 wire, __u64 sent, __u64 *number)
{
	__s64 distance = (__s32)(wire + (__u32)window->offset - (__u32)window->highest);

	*number = window->highest + distance;
	if (distance > 0)
		return distance <= WB_WINDOW_WORDS * 32 ? NEAR : AHEAD;
	/* a CPU that has seen nothing of the flow does not know when its highest was sent */
	if ((window->highest >> 5) - (*number >> 5) < WB_WINDOW_WORDS)
		return flow->arrivals && sent > flow->highest_sent + WB_RESTART_AFTER ? BEHIND : NEAR;
	return flow->arrivals && sent <= flow->highest_sent + WB_RESTART_AFTER ? LATE : BEHIND;
}

/* Decides the held arrival without another that confirms it (`SequenceTracker::settle_held`). */
static __always_inline void settle_held(struct wb_rx_flow *flow, struct wb_window *window)
{
	__u64 number;

	if (!flow->held)
		return;
	flow->held = 0;
	switch (place(flow, window, flow->held_wire, flow->held_sent, &number)) {
	case NEAR:
		count(flow, window, number, flow->held_sent);
		break;
	case LATE:
		count_late(flow, window, number);
		break;
	default:
		flow->implausible++;
	}
}

static __always_inline void hold(struct wb_rx_flow *flow, __u32 wire, __u64 sent)
{
	flow->held = 1;
	flow->held_wire = wire;
	flow->held_sent = sent;
}

/* Deals with an arrival that is not simply near (`SequenceTracker::doubt` and `believe`). Says whether
 * it is new. */
static __noinline int doubt(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire, __u64 sent)
{
	__u64 number, held_number;
	enum place at;
	__s32 step;

	if (!flow || !window)
		return 0;
	at = place(flow, window, wire, sent, &number);
	if (at == LATE) {
		settle_held(flow, window);
		count_late(flow, window, number);
		return 1;
	}
	step = wire - (__u32)flow->held_wire;
	if (!flow->held || !step || step > WB_WINDOW_WORDS * 32 || step < -WB_WINDOW_WORDS * 32) {
		settle_held(flow, window);
		hold(flow, wire, sent);
		return 0;
	}

	/* two in doubt agree: the sender restarted, or very much was lost */
	flow->held = 0;
	switch (place(flow, window, flow->held_wire, flow->held_sent, &held_number)) {
	case BEHIND:
		/* its number 0 follows the highest */
		held_number = window->highest + 1;
		window->restarts++;
		window->offset = (__u32)held_number;
		count(flow, window, held_number + (__u32)flow->held_wire, flow->held_sent);
		break;
	case LATE:
		count_late(flow, window, held_number);
		break;
	default:
		count(flow, window, held_number, flow->held_sent);
	}
	switch (place(flow, window, wire, sent, &number)) {
	case NEAR:
		return count(flow, window, number, sent);
	case LATE:
		count_late(flow, window, number);
		return 1;
	default:
		hold(flow, wire, sent);
		return 0;
	}
}

/* A number that is near decides the held one, too. */
static __noinline int near_after_held(struct wb_rx_flow *flow, struct wb_window *window, __u64 number,
				      __u64 sent)
{
	if (!flow || !window)
		return 0;
	settle_held(flow, window);
	return count(flow, window, number, sent);
}

/* Judges the arrival of number `wire` (`SequenceTracker::record`). Says whether it is new. */
static __noinline int track_any(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				__u64 sent)
{
	__u64 number;

	if (!flow || !window)
		return 0;
	if (!window->highest) {
		window->lowest = WB_BASE + wire;
		return count(flow, window, WB_BASE + wire, sent);
	}
	if (place(flow, window, wire, sent, &number) != NEAR)
		return doubt(flow, window, wire, sent);
	if (flow->held)
		return near_after_held(flow, window, number, sent);
	return count(flow, window, number, sent);
}

/* The same for nearly all: the number after the highest, which this CPU has seen itself. */
static __always_inline int track(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				 __u64 sent)
{
	__u64 highest = flow->highest, number = highest + 1, *word;

	if (several_queues || !highest || highest != window->highest || flow->held ||
	    wire + (__u32)window->offset != (__u32)number)
		return track_any(flow, window, wire, sent);
	/* the word holds the number before, or is another's as the number is the first of 32 */
	word = &window->words[(number >> 5) & (WB_WINDOW_WORDS - 1)];
	*word = number & 31 ? *word | 1ull << (number & 31) : number >> 5 << 32 | 1;
	window->highest = number;
	flow->highest = number;
	flow->highest_sent = sent;
	flow->arrivals++;
	return 1;
}

/* What is taken of a frame before the meter sees it. */
struct datagram {
	__u32 payload_len;
	__u32 frame_len; /* with FCS */
	__u32 tail; /* offset of the last 16 bytes of payload, or 0 */
};

static __always_inline void meter(struct wb_rx_flow *flow, struct wb_window *window,
				const struct datagram *datagram, __be32 *probe, __u64 now, __u32 slot)
{
	__u64 gap, nominal, sent;
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

	sent = bpf_be64_to_cpu(*(__be64 *)(probe + 2));
	if (!track(flow, window, bpf_ntohl(probe[1]), sent))
		return;
	delay = now - sent - delay_base_ns;
	if (flow->delays++)
		record(&flow->variation, delay > flow->last_delay ? delay - flow->last_delay :
								    flow->last_delay - delay);
	flow->last_delay = delay;
	record(&flow->delay, delay);
}

enum verdict {
	OURS,
	FOREIGN,
	MALFORMED,
	UNKNOWN_FLOW,
	STALE, /* of an earlier run */
};

static __always_inline int source_matches(const __be32 *source, __u32 words)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < 4; i++)
		if (i < words && source[i] != filter_source[i])
			return 0;
	return 1;
}

/* What IP carries: where it begins and how long it is. */
struct carried {
	__u32 at;
	__u32 len;
	__u32 filtered; /* whether the source is not the one that is wanted */
};

#define OFFSET_MASK 0x3fff /* frames are shorter; for the verifier */

/* The order of checks is that of crates/wire/src/datagram.rs: lengths, fragments, protocol. */
static __always_inline enum verdict carried_v4(void *data, void *data_end, struct carried *out)
{
	struct iphdr *ip = data + (out->at & OFFSET_MASK);
	__u32 header, total;

	if ((void *)(ip + 1) > data_end)
		return MALFORMED;
	header = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || header < sizeof(*ip) || total < header ||
	    (void *)ip + (total & 0xffff) > data_end)
		return MALFORMED;
	if (ip->frag_off & bpf_htons(0x3fff))
		return FOREIGN; /* a fragment is not a datagram */
	if (ip->protocol != IPPROTO_UDP)
		return FOREIGN;
	out->filtered = filter_family && (filter_family != 4 || !source_matches(&ip->saddr, 1));
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
		header = data + (out->at & OFFSET_MASK);
		if ((void *)(header + 8) > data_end || out->len < 8)
			return MALFORMED;
		len = 8;
		if (next == IPPROTO_FRAGMENT) {
			/* offset and "more" flag: only an atomic fragment is whole */
			if (*(__be16 *)(header + 2) & bpf_htons(0xfff9))
				return FOREIGN;
		} else {
			len += header[1] * 8;
		}
		if (len > out->len)
			return MALFORMED;
		next = header[0];
		out->at += len;
		out->len -= len;
	}
	return next == IPPROTO_UDP ? OURS : FOREIGN;
}

static __always_inline enum verdict carried_v6(void *data, void *data_end, struct carried *out)
{
	struct ipv6hdr *ip = data + (out->at & OFFSET_MASK);

	if ((void *)(ip + 1) > data_end)
		return MALFORMED;
	out->len = bpf_ntohs(ip->payload_len);
	if (ip->version != 6 || (void *)(ip + 1) + (out->len & 0xffff) > data_end)
		return MALFORMED;
	out->filtered = filter_family &&
			(filter_family != 6 || !source_matches((__be32 *)&ip->saddr, 4));
	out->at += sizeof(*ip);
	if (ip->nexthdr == IPPROTO_UDP)
		return OURS;
	return skip_extensions(data, data_end, out, ip->nexthdr);
}

/* Finds UDP over IPv4 or IPv6, behind up to two VLAN tags, and applies the filter. */
static __noinline int dissect_any(struct xdp_md *ctx, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	struct carried carried = { .at = sizeof(*ethernet) };
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
	else
		return FOREIGN;
	if (verdict != OURS)
		return verdict;

	udp = data + (carried.at & OFFSET_MASK);
	if ((void *)(udp + 1) > data_end || carried.len < sizeof(*udp))
		return MALFORMED;
	len = bpf_ntohs(udp->len);
	if (len < sizeof(*udp) || len > carried.len)
		return MALFORMED;
	if (carried.filtered || (filter_source_port && bpf_ntohs(udp->source) != filter_source_port) ||
	    (filter_port && bpf_ntohs(udp->dest) != filter_port))
		return FOREIGN;
	out->frame_len = data_end - data + 4;
	if (out->frame_len < 64)
		out->frame_len = 64;
	out->payload_len = len - sizeof(*udp);
	out->tail = out->payload_len < WB_PROBE_LEN ? 0 : carried.at + len - WB_PROBE_LEN;
	return OURS;
}

/* Words of a frame in host order, as the loads below give them. */
#define WORD(a, b, c, d) \
	(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? \
		 (__u32)(d) << 24 | (c) << 16 | (b) << 8 | (a) : \
		 (__u32)(a) << 24 | (b) << 16 | (c) << 8 | (d))

/* The frame that nearly all are, IPv4 without options or tags that carries whole UDP, in few
 * instructions; `dissect_any` judges all others. */
static __always_inline enum verdict dissect(struct xdp_md *ctx, struct datagram *out)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 frame_len = data_end - data, total, len;

	if (data + 42 > data_end)
		return dissect_any(ctx, out);
	/* type, version and header length */
	if ((*(__u32 *)(data + 12) & WORD(0xff, 0xff, 0xff, 0)) != WORD(8, 0, 0x45, 0))
		return dissect_any(ctx, out);
	/* fragment offset and "more", protocol */
	if ((*(__u32 *)(data + 20) & WORD(0x3f, 0xff, 0, 0xff)) != WORD(0, 0, 0, IPPROTO_UDP))
		return dissect_any(ctx, out);
	total = bpf_ntohs(*(__be16 *)(data + 16));
	len = bpf_ntohs(*(__be16 *)(data + 38));
	if (total + 14 > frame_len || len + 20 > total || len < 8)
		return dissect_any(ctx, out);
	if (filtered) {
		if (filter_family && (filter_family != 4 || *(__be32 *)(data + 26) != filter_source[0]))
			return FOREIGN;
		if (filter_source_port && *(__be16 *)(data + 34) != bpf_htons(filter_source_port))
			return FOREIGN;
		if (filter_port && *(__be16 *)(data + 36) != bpf_htons(filter_port))
			return FOREIGN;
	}
	out->frame_len = frame_len < 60 ? 64 : frame_len + 4;
	out->payload_len = len - 8;
	out->tail = len < 8 + WB_PROBE_LEN ? 0 : 34 + len - WB_PROBE_LEN;
	return OURS;
}

/* What is not metered is counted. */
static __noinline int leave(enum verdict verdict)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wb_rx_counters *mine = bpf_map_lookup_elem(&counters, &cpu);

	if (!mine)
		return XDP_PASS;
	switch (verdict) {
	case FOREIGN:
		mine->foreign++;
		return XDP_PASS;
	case UNKNOWN_FLOW:
		mine->unknown_flow++;
		break;
	case STALE:
		mine->stale++;
		break;
	default:
		mine->malformed++;
		return XDP_PASS;
	}
	return pass ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int wb_receive(struct xdp_md *ctx)
{
	__u32 flow_index = flow_count, slot;
	struct wb_rx_flow *flow;
	struct datagram datagram;
	struct wb_window *window;
	enum verdict verdict;
	__be32 *probe = 0;

	verdict = dissect(ctx, &datagram);
	if (verdict != OURS)
		return leave(verdict);
	if (datagram.tail) {
		void *data_end = (void *)(long)ctx->data_end;

		probe = (void *)(long)ctx->data + (datagram.tail & OFFSET_MASK);
		if ((void *)(probe + 4) > data_end)
			return leave(MALFORMED);
		if (*(__be16 *)probe != bpf_htons(WB_PROBE_MAGIC)) {
			probe = 0;
		} else {
			flow_index = bpf_ntohs(*((__be16 *)probe + 1)) - flow_base;
			if (flow_index >= flow_count)
				return leave(UNKNOWN_FLOW);
			if (run_start_ns &&
			    bpf_be64_to_cpu(*(__be64 *)(probe + 2)) < run_start_ns)
				return leave(STALE);
		}
	}
	slot = flow_index * cpu_count + bpf_get_smp_processor_id();
	flow = bpf_map_lookup_elem(&flows, &slot);
	window = bpf_map_lookup_elem(&windows, &flow_index);
	if (!flow || !window)
		return XDP_ABORTED;
	/* here and not first: the read waits for all loads before it, and lets those after it wait */
	meter(flow, window, &datagram, probe, bpf_ktime_get_ns(), slot);
	return pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
