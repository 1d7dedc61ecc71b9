// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The receiving program: attached to an interface, it finds UDP datagrams that match the filter and other
 * frames that end with a probe, meters those that carry a probe by flow and queue, and passes or drops them
 * before the stack.
 *
 * The measurements are those of crates/meter, which is their reference and documents them; user space
 * adds the queues up (crates/engine-linux/src/kernel/receive.rs). Whatever arrives, memory stays as it
 * was laid out at the start: flows beyond `flow_count` are only counted.
 */
#include "common.h"
#include "dissect.h"
#include "sequence.h"

/* Set before loading. */
const volatile __u32 flow_count; /* flows metered; one more entry takes datagrams without a probe */
const volatile __u32 flow_base; /* the first flow's number in probes */
const volatile __u32 by_queue; /* whether lanes are queues */
const volatile __u32 pass; /* whether metered datagrams go on to the stack */
const volatile __u32 bin_count; /* linear inter-arrival bins; 0: none */
const volatile __u64 bin_width_ns;

const volatile __s64 delay_base_ns; /* taken off each delay before it is recorded */
const volatile __u64 run_start_ns; /* probes sent before this are of an earlier run */

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

static __always_inline void meter(struct wb_rx_flow *flow, struct wb_window *window,
				const struct datagram *datagram, __be32 *probe, __u64 now,
				__u32 first, __u32 slot)
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
	if (!track(flow, window, bpf_ntohl(probe[1]), sent, first))
		return;
	delay = now - sent - delay_base_ns;
	if (flow->delays++)
		record(&flow->variation, delay > flow->last_delay ? delay - flow->last_delay :
								    flow->last_delay - delay);
	flow->last_delay = delay;
	record(&flow->delay, delay);
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
static __always_inline __u32 lane(struct xdp_md *ctx)
{
	__u32 queue;

	if (!by_queue)
		return bpf_get_smp_processor_id();
	queue = ctx->rx_queue_index;
	return queue < lane_count ? queue : queue % lane_count;
}

SEC("xdp")
int wb_receive(struct xdp_md *ctx)
{
	__u32 flow_index = flow_count, first, slot;
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
		__u64 tail = datagram.tail;

		if (!wb_at_most(tail, PROBE_AT_MAX))
			return leave(MALFORMED);
		probe = (void *)(long)ctx->data + tail;
		if ((void *)(probe + 4) > data_end)
			return leave(MALFORMED);
		if (*(__be16 *)probe != bpf_htons(WB_PROBE_MAGIC)) {
			probe = 0;
		} else {
			flow_index = bpf_ntohs(*((__be16 *)probe + 1)) - flow_base;
			if (flow_index >= flow_count)
				return leave(datagram.other ? FOREIGN : UNKNOWN_FLOW);
			if (run_start_ns &&
			    bpf_be64_to_cpu(*(__be64 *)(probe + 2)) < run_start_ns)
				return leave(STALE);
		}
	}
	/* anything at all may be on a link */
	if (datagram.other && !probe)
		return leave(FOREIGN);
	first = flow_index * lane_count;
	slot = first + lane(ctx);
	flow = bpf_map_lookup_elem(&flows, &slot);
	window = bpf_map_lookup_elem(&windows, &flow_index);
	if (!flow || !window)
		return XDP_ABORTED;
	/* here and not first: the read waits for all loads before it, and lets those after it wait */
	meter(flow, window, &datagram, probe, bpf_ktime_get_ns(), first, slot);
	return pass ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
