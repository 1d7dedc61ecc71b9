// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiving program: attached to an interface, it finds UDP datagrams that match the filter and other
 * frames that end with a probe, meters those that carry a probe by flow and queue, and passes or drops them
 * before the stack. Flows without a probe are metered by their headers (headers.h), where user space says which they have.
 *
 * The measurements are those of crates/meter, which is their reference and documents them; user space
 * adds the queues up (crates/engine-linux/src/kernel/receive.rs). Whatever arrives, memory stays as it
 * was laid out at the start: flows beyond `flow_count` are only counted, and flows beyond those that have histograms of their own share
 * some.
 */
#include "common.h"
#include "dissect.h"
#include "headers.h"
#include "observe.h"
#include "sequence.h"

/* Set before loading. */
const volatile __u32 flow_count; /* flows with probes that there is room for. The row behind theirs takes datagrams without one,
				  * those behind that take flows that are known by their headers */
const volatile __u32 contiguous; /* whether flows are those from `flow_base` on, in their order: then nobody looks into `places` */
const volatile __u32 flow_base;
const volatile __u32 all_detailed; /* whether there are histograms for every flow on every lane, in their order */
const volatile __u32 count_by_lane; /* whether metered frames are counted by lane, as there are too many flows to add up */
const volatile __u32 any_flow; /* whether flows that are not known yet get a place */
const volatile __u32 detail_count; /* how many `struct wb_detail` there are */
const volatile __u32 by_queue; /* whether lanes are queues */
const volatile __u32 pass; /* whether metered datagrams go on to the stack */
const volatile __u32 bin_count; /* linear inter-arrival bins; 0: none */
const volatile __u64 bin_width_ns;

const volatile __s64 delay_base_ns; /* taken off each delay before it is recorded */

/* Probes sent before this are of an earlier run. Each run that the program meters has its own. */
__u64 run_start_ns SEC(".bss.run");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_flow);
} flows SEC(".maps");

/* Which of them has a flow's number in probes: its place + 1, or 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WB_PROBE_FLOWS);
	__type(key, __u32);
	__type(value, __u64);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* in the order of `details`, bin_count + 1 bins each: the last is overflow */
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

/* Interarrival jitter: `InterarrivalJitter::record` in crates/meter/src/jitter.rs. */
static __always_inline void record_jitter(struct wb_rx_lane *lane, __u64 difference)
{
	if (difference > 1ull << 58)
		difference = 1ull << 58;
	lane->jitter += difference - ((lane->jitter + 8) >> 4);
}

/* How many flows that were not known have a place, and how many own histograms are taken. */
static __u64 flows_taken, details_taken;

/* Gives a flow that is not known a place, if there is one. Several CPUs may come at once: then a place stays empty. */
static __noinline int claim(__u64 *place)
{
	__u64 next, old;

	if (!place || !any_flow || flows_taken >= flow_count)
		return 0;
	next = __sync_fetch_and_add(&flows_taken, 1);
	if (next >= flow_count)
		return 0;
	old = __sync_val_compare_and_swap(place, 0, next + 1);
	return old ? old : next + 1;
}

/* The place of a flow + 1, or 0. */
static __always_inline __u32 place_of(__u32 number)
{
	__u64 *place = bpf_map_lookup_elem(&places, &number);

	if (!place)
		return 0;
	return *place ? *place : claim(place);
}

/* The first frame of a flow on a lane: it gets histograms of its own, or shares those of the lane. */
static __noinline int begin(struct wb_rx_lane *lane, __u32 lane_number, __u32 slot, __u64 now)
{
	__u64 next;

	if (!lane)
		return 0;
	lane->first_ns = now;
	lane->detail = all_detailed ? lane_count + slot : lane_number;
	if (all_detailed)
		return 0;
	if (lane_count + details_taken >= detail_count)
		return 0;
	next = __sync_fetch_and_add(&details_taken, 1) + lane_count;
	if (next < detail_count)
		lane->detail = next;
	return 0;
}

/* What was there before. Several CPUs may come at once. */
static __always_inline __u64 exchange(__u64 *at, __u64 value)
{
	__u64 old;

	if (several_queues)
		return __sync_lock_test_and_set(at, value);
	old = *at;
	*at = value;
	return old;
}

static __always_inline void count_bin(__s64 gap, __u32 detail)
{
	__u64 bin;
	__u64 *count;
	__u32 at;

	if (gap < 0)
		return;
	bin = (__u64)gap / bin_width_ns;
	at = detail * (bin_count + 1) + (bin < bin_count ? bin : bin_count);
	count = bpf_map_lookup_elem(&bins, &at);
	if (count)
		(*count)++;
}

/* Where a frame belongs. */
struct belongs {
	struct wb_flow *flow;
	struct wb_rx_lane *lane;
	__u32 first; /* of the flow's lanes */
	__u32 lane_number;
};

/* Says what became of the frame, for those who observe it. */
static __always_inline enum wb_standing meter(const struct belongs *to, const struct datagram *datagram,
					      __be32 *probe, __u64 now)
{
	struct wb_flow *flow = to->flow;
	struct wb_rx_lane *lane = to->lane;
	int by_lane = lane_count == 1 || flow->by_lane;
	struct wb_detail *detail;
	__u32 slot = to->first + to->lane_number, at;
	__u64 before, nominal, sent, reordered, beyond, duplicates;
	enum wb_standing standing = WB_NEW;
	__s64 gap, delay, difference;

	before = by_lane ? lane->last_ns : exchange(&flow->last_ns, now);
	if (!lane->frames)
		begin(lane, to->lane_number, slot, now);
	at = all_detailed ? lane_count + slot : (__u32)lane->detail;
	detail = bpf_map_lookup_elem(&details, &at);
	if (!detail)
		return WB_FOREIGN;
	lane->frames++;
	lane->frame_bytes += datagram->frame_len;
	lane->payload_bytes += datagram->payload_len;
	lane->last_ns = now;
	if (before) {
		gap = now - before;
		record(&lane->inter_arrival, detail->inter_arrival, gap);
		nominal = flow->nominal_gap_ns;
		if (nominal) {
			difference = gap - nominal;
			if (difference < 0) {
				difference = -difference;
				lane->early++;
				record(&lane->gap_early, detail->gap_early, difference);
			}
			record(&lane->gap_error, detail->gap_error, difference);
		}
		if (bin_count)
			count_bin(gap, at);
	}
	if (!probe)
		return WB_WITHOUT_PROBE;

	sent = bpf_be64_to_cpu(*(__be64 *)(probe + 2));
	if (observe) {
		reordered = lane->reordered;
		beyond = lane->beyond_window;
		duplicates = lane->duplicates;
	}
	if (!track(lane, flow, bpf_ntohl(probe[1]), sent, to->first)) {
		note_repeated(flow, bpf_ntohl(probe[1]), sent, to->first);
		return observe && lane->duplicates != duplicates ? WB_DUPLICATE : WB_DOUBTFUL;
	}
	if (observe) {
		if (lane->beyond_window != beyond)
			standing = WB_BEYOND_WINDOW;
		else if (lane->reordered != reordered)
			standing = WB_REORDERED;
	}
	delay = now - sent - delay_base_ns;
	/* the sign is turned, so that zero is none */
	before = by_lane ? (lane->delays ? (__u64)lane->last_delay ^ WB_SIGN : 0) :
			   exchange(&flow->last_delay, (__u64)delay ^ WB_SIGN);
	if (before) {
		difference = delay - (__s64)(before ^ WB_SIGN);
		difference = difference < 0 ? -difference : difference;
		record(&lane->variation, detail->variation, difference);
		record_jitter(lane, difference);
	}
	lane->delays++;
	lane->last_delay = delay;
	record(&lane->delay, detail->delay, delay);
	return standing;
}

/* An observation of a frame that is not metered. */
static __always_inline void observe_other(struct xdp_md *ctx, enum verdict verdict)
{
	struct wb_observed seen = { .flow = WB_NO_FLOW, .arrived_ns = bpf_ktime_get_ns() };
	__u64 len = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	seen.frame_len = len < 60 ? 64 : len + 4;
	seen.standing = verdict == FOREIGN	? WB_FOREIGN :
			verdict == FRAGMENT	? WB_FRAGMENT :
			verdict == UNKNOWN_FLOW ? WB_UNKNOWN_FLOW :
			verdict == STALE	? WB_STALE :
						  WB_MALFORMED;
	wb_observe(ctx, &seen);
}

/* What is not metered is counted. */
static __noinline int leave(struct xdp_md *ctx, enum verdict verdict)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wb_rx_counters *mine = bpf_map_lookup_elem(&counters, &cpu);

	if (observe == WB_OBSERVE_ALL)
		observe_other(ctx, verdict);
	if (!mine)
		return XDP_PASS;
	switch (verdict) {
	case FOREIGN:
		mine->foreign++;
		return XDP_PASS;
	case FRAGMENT:
		mine->fragments++;
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

/*
 * Where a frame belongs among those of its flow. A driver that runs the program itself (native XDP) serves a
 * queue on one CPU at a time, but not always on the same: what is measured between frames is measured by
 * queue. Elsewhere frames of one queue may come on several CPUs at once.
 */
static __always_inline __u32 lane_of(struct xdp_md *ctx)
{
	__u32 queue;

	if (!by_queue)
		return bpf_get_smp_processor_id();
	queue = ctx->rx_queue_index;
	return queue < lane_count ? queue : queue % lane_count;
}

/* Metered frames and their bytes, for those who look often. */
static __always_inline void count_metered(__u32 lane, __u32 frame_len)
{
	struct wb_rx_counters *mine = bpf_map_lookup_elem(&counters, &lane);

	if (mine) {
		mine->frames++;
		mine->frame_bytes += frame_len;
	}
}

/*
 * The row + 1 of a frame without a probe of a known flow: by its headers, or that of all datagrams without a probe. 0: it is
 * not metered. `verdict` is that of the dissection; what that left empty is filled in. Not static for the sake of the verifier
 * (headers.h).
 */
__noinline __u32 wb_row_without_probe(struct xdp_md *ctx, struct datagram *datagram, int verdict, int has_probe)
{
	__u32 row = 0;

	if (!datagram)
		return 0;
	/* parts of a packet have the headers of their first */
	if (header_mask_count && verdict != FRAGMENT)
		row = wb_row_by_headers(ctx);
	if (!row) {
		/* anything at all may be on a link */
		return verdict == OURS && !has_probe && !datagram->other ? flow_count + 1 : 0;
	}
	if (verdict != OURS) {
		void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
		__u64 len = data_end - data;

		datagram->frame_len = len < 60 ? 64 : len + 4;
		datagram->payload_len = len - sizeof(struct ethhdr);
	}
	return row + 1;
}

SEC("xdp")
int wb_receive(struct xdp_md *ctx)
{
	enum verdict verdict, otherwise = FOREIGN;
	__u32 flow_index, slot, row;
	struct datagram datagram;
	enum wb_standing standing;
	struct belongs to;
	__be32 *probe = 0;
	__u64 now;
	int stale;

	verdict = dissect(ctx, &datagram);
	if (verdict != OURS) {
		otherwise = verdict;
		goto no_probe;
	}
	if (datagram.tail) {
		void *data_end = (void *)(long)ctx->data_end;
		__u64 tail = datagram.tail;

		if (!wb_at_most(tail, PROBE_AT_MAX))
			return leave(ctx, MALFORMED);
		probe = (void *)(long)ctx->data + tail;
		if ((void *)(probe + 4) > data_end)
			return leave(ctx, MALFORMED);
		if (*(__be16 *)probe == bpf_htons(WB_PROBE_MAGIC)) {
			__u32 number = bpf_ntohs(*((__be16 *)probe + 1));

			if (contiguous)
				flow_index = number - flow_base;
			else
				flow_index = place_of(number) - 1;
			stale = run_start_ns && bpf_be64_to_cpu(*(__be64 *)(probe + 2)) < run_start_ns;
			if (flow_index < flow_count && !stale)
				goto found;
			if (flow_index < flow_count || !datagram.other)
				otherwise = stale ? STALE : UNKNOWN_FLOW;
			if (!header_mask_count)
				return leave(ctx, otherwise);
			row = wb_row_without_probe(ctx, &datagram, verdict, 1);
			goto by_headers;
		}
	}
no_probe:
	row = wb_row_without_probe(ctx, &datagram, verdict, 0);
by_headers:
	if (!row)
		return leave(ctx, otherwise);
	flow_index = row - 1;
	probe = 0;
found:
	to.lane_number = lane_of(ctx);
	to.first = flow_index * lane_count;
	slot = to.first + to.lane_number;
	to.lane = bpf_map_lookup_elem(&lanes, &slot);
	to.flow = bpf_map_lookup_elem(&flows, &flow_index);
	if (!to.lane || !to.flow)
		return XDP_ABORTED;
	/* here and not first: the read waits for all loads before it, and lets those after it wait */
	now = bpf_ktime_get_ns();
	standing = meter(&to, &datagram, probe, now);
	if (observe) {
		struct wb_observed seen = { .arrived_ns = now, .frame_len = datagram.frame_len, .standing = standing };

		seen.payload_len = datagram.payload_len;
		if (probe) {
			seen.flow = bpf_ntohs(*((__be16 *)probe + 1));
			seen.sequence = bpf_ntohl(probe[1]);
			seen.sent_ns = bpf_be64_to_cpu(*(__be64 *)(probe + 2));
		} else {
			seen.flow = flow_index > flow_count ? flow_index - flow_count - 1 : WB_NO_FLOW;
		}
		wb_observe(ctx, &seen);
	}
	if (count_by_lane)
		count_metered(to.lane_number, datagram.frame_len);
	return pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
