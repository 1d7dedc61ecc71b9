/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a sequence number says: new, a duplicate, reordered, of a sender that restarted, or made up. The
 * reference is crates/meter/src/sequence. It knows no frames.
 */
#ifndef WIREBEAT_SEQUENCE_H
#define WIREBEAT_SEQUENCE_H

#include "common.h"

/* Set before loading. */
const volatile __u32 several_queues; /* whether frames of a flow may arrive on several CPUs at once */
const volatile __u32 lane_count;
const volatile __u32 all_window_words; /* words of the windows of all flows; 0: each says itself */
const volatile __u32 all_window_turn;

/*
 * Measurements by flow and lane, flow-major; after those of flows those of what has no probe. A lane is what
 * has frames one after the other: a receive queue, or a CPU (`lane` in receive.bpf.c).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct wb_rx_lane);
} lanes SEC(".maps");

/* The windows of all flows: (number >> 5) << 32 | bitmap, in the order of `word_of`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, __u64);
} window SEC(".maps");

/* Histograms, gaps and extents of those that have them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct wb_detail);
} details SEC(".maps");

/*
 * With several CPUs the window's highest number is brought up now and then only (`track_ahead`). Brings it
 * up to what all of them have seen; `slot` is the first of the flow's lanes.
 */
static __noinline int catch_up(struct wb_flow *flow, __u32 slot)
{
	__u32 i;

	if (!flow)
		return 0;
	for (i = 0; i < lane_count; i++, slot++) {
		struct wb_rx_lane *lane = bpf_map_lookup_elem(&lanes, &slot);

		if (lane && lane->highest > flow->highest)
			flow->highest = lane->highest;
	}
	return 0;
}

/* The word of a number. Words that follow each other lie on different cache lines, so that CPUs which get
 * numbers in runs of 32 do not write to the same: the bits of its index are turned by three. */
static __always_inline __u64 *word_of(struct wb_flow *flow, __u64 number)
{
	__u32 mask = (all_window_words ? all_window_words : flow->window_words) - 1, index = number >> 5 & mask;
	__u32 turn = all_window_words ? all_window_turn : flow->window_turn;
	__u32 at = flow->window_at + ((index << 3 | index >> (turn & 31)) & mask);

	return bpf_map_lookup_elem(&window, &at);
}

/* How many numbers a flow's window spans. */
static __always_inline __s64 window_numbers(struct wb_flow *flow)
{
	return (__s64)(all_window_words ? all_window_words : flow->window_words) * 32;
}

/* The histograms, gaps and extents of a flow on a lane; none if it shares its histograms with others. */
static __always_inline struct wb_detail *own_detail(struct wb_rx_lane *lane)
{
	__u32 at = lane->detail;

	return at < lane_count ? 0 : bpf_map_lookup_elem(&details, &at);
}

/* Notes `number` in its word; says whether it is new. */
static __always_inline int set(struct wb_flow *flow, __u64 number)
{
	__u64 *word = word_of(flow, number);
	__u64 bit = 1ull << (number & 31), tag = number >> 5 << 32, old, new;
	int tries;

	if (!word)
		return 1;
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

/* `number` was seen: the lowest may be no higher. Several CPUs may begin at once. */
static __always_inline void reach_down(struct wb_flow *flow, __u64 number)
{
	__u64 old;
	int tries;

	for (tries = 0; tries < 16; tries++) {
		old = *(volatile __u64 *)&flow->lowest;
		if (old && old <= number)
			return;
		if (__sync_val_compare_and_swap(&flow->lowest, old, number) == old)
			return;
	}
}

/* Notes `number` in the window; says whether it is new (`Window::mark`). */
static __always_inline int mark(struct wb_flow *flow, __u64 number)
{
	if (number > flow->highest)
		flow->highest = number;
	reach_down(flow, number);
	return set(flow, number);
}

/* The reordering extent of the newest arrival: arrivals since the one that opened the gap in which
 * `number` lies (RFC 4737 §4.2; `Order::extent`). */
static __noinline int record_extent(struct wb_rx_lane *lane, __u64 number)
{
	struct wb_detail *detail;
	__u64 extent;
	__u32 i;

	if (!lane)
		return 0;
	detail = own_detail(lane);
	if (!detail)
		return 0;
	for (i = 0; i < WB_GAPS; i++) {
		struct wb_gap *gap = &detail->gaps[i];

		if (gap->before < number && number < gap->after) {
			extent = lane->arrivals - 1 - gap->arrival;
			if (extent >= WB_EXTENTS)
				extent = WB_EXTENTS - 1;
			detail->extents[extent & (WB_EXTENTS - 1)]++;
			break;
		}
	}
	return 0;
}

/* Arrival `arrival` is above all before it. */
static __always_inline void follow(struct wb_rx_lane *lane, __u64 number, __u64 arrival, __u64 sent)
{
	if (number != lane->highest + 1) {
		struct wb_detail *detail = own_detail(lane);

		if (detail) {
			struct wb_gap *gap = &detail->gaps[lane->gap_count++ & (WB_GAPS - 1)];

			gap->arrival = arrival;
			gap->before = lane->highest;
			gap->after = number;
		}
	}
	lane->highest = number;
	lane->highest_sent = sent;
}

/* Counts an arrival that is placed (`SequenceTracker::count`). Says whether it is new. */
static __always_inline int count(struct wb_rx_lane *lane, struct wb_flow *flow, __u64 number,
				 __u64 sent)
{
	__u64 arrival;

	if (!mark(flow, number)) {
		lane->duplicates++;
		return 0;
	}
	arrival = lane->arrivals++;
	if (number < lane->highest) {
		lane->reordered++;
		record_extent(lane, number);
		return 1;
	}
	follow(lane, number, arrival, sent);
	return 1;
}

static __always_inline void count_late(struct wb_rx_lane *lane, struct wb_flow *flow,
				       __u64 number)
{
	reach_down(flow, number);
	lane->reordered++;
	lane->beyond_window++;
	lane->arrivals++;
}

/* Where a number belongs (`SequenceTracker::place`). */
enum place {
	NEAR,
	LATE,
	AHEAD,
	BEHIND,
};

static __always_inline enum place place(struct wb_rx_lane *lane, struct wb_flow *flow,
					__u32 wire, __u64 sent, __u64 *number)
{
	__s64 distance = (__s32)(wire + (__u32)flow->offset - (__u32)flow->highest);

	*number = flow->highest + distance;
	if (distance > 0)
		return distance <= window_numbers(flow) ? NEAR : AHEAD;
	/* a CPU that has seen nothing of the flow does not know when its highest was sent */
	if ((flow->highest >> 5) - (*number >> 5) < window_numbers(flow) / 32)
		return lane->arrivals && sent > lane->highest_sent + WB_RESTART_AFTER ? BEHIND : NEAR;
	return lane->arrivals && sent <= lane->highest_sent + WB_RESTART_AFTER ? LATE : BEHIND;
}

/* Decides the held arrival without another that confirms it (`SequenceTracker::settle_held`). */
static __always_inline void settle_held(struct wb_rx_lane *lane, struct wb_flow *flow)
{
	__u64 number;

	if (!lane->held)
		return;
	lane->held = 0;
	switch (place(lane, flow, lane->held_wire, lane->held_sent, &number)) {
	case NEAR:
		count(lane, flow, number, lane->held_sent);
		break;
	case LATE:
		count_late(lane, flow, number);
		break;
	default:
		lane->implausible++;
	}
}

static __always_inline void hold(struct wb_rx_lane *lane, __u32 wire, __u64 sent)
{
	lane->held = 1;
	lane->held_wire = wire;
	lane->held_sent = sent;
}

/* Deals with an arrival that is not simply near (`SequenceTracker::doubt` and `believe`). Says whether
 * it is new. */
static __noinline int doubt(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire, __u64 sent,
			    __u32 slot)
{
	__u64 number, held_number;
	enum place at;
	__s32 step;

	if (!lane || !flow)
		return 0;
	at = place(lane, flow, wire, sent, &number);
	if (at == LATE) {
		settle_held(lane, flow);
		count_late(lane, flow, number);
		return 1;
	}
	step = wire - (__u32)lane->held_wire;
	if (!lane->held || !step || step > window_numbers(flow) || step < -window_numbers(flow)) {
		settle_held(lane, flow);
		hold(lane, wire, sent);
		return 0;
	}

	/* two in doubt agree: the sender restarted, or very much was lost */
	lane->held = 0;
	if (several_queues)
		catch_up(flow, slot);
	switch (place(lane, flow, lane->held_wire, lane->held_sent, &held_number)) {
	case BEHIND:
		/* its number 0 follows the highest */
		held_number = flow->highest + 1;
		flow->restarts++;
		flow->offset = (__u32)held_number;
		count(lane, flow, held_number + (__u32)lane->held_wire, lane->held_sent);
		break;
	case LATE:
		count_late(lane, flow, held_number);
		break;
	default:
		count(lane, flow, held_number, lane->held_sent);
	}
	switch (place(lane, flow, wire, sent, &number)) {
	case NEAR:
		return count(lane, flow, number, sent);
	case LATE:
		count_late(lane, flow, number);
		return 1;
	default:
		hold(lane, wire, sent);
		return 0;
	}
}

/* A number that is near decides the held one, too. */
static __noinline int near_after_held(struct wb_rx_lane *lane, struct wb_flow *flow, __u64 number,
				      __u64 sent)
{
	if (!lane || !flow)
		return 0;
	settle_held(lane, flow);
	return count(lane, flow, number, sent);
}

/* The arrival of any number (`SequenceTracker::record`). Says whether it is new. */
static __noinline int track_any(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire,
				__u64 sent, __u32 slot)
{
	__u64 number;

	if (!lane || !flow)
		return 0;
	if (lane->highest > flow->highest)
		flow->highest = lane->highest;
	if (!flow->highest)
		return count(lane, flow, WB_BASE + wire, sent);
	if (place(lane, flow, wire, sent, &number) != NEAR)
		return doubt(lane, flow, wire, sent, slot);
	if (lane->held)
		return near_after_held(lane, flow, number, sent);
	return count(lane, flow, number, sent);
}

/* The same for nearly all: the number after the highest, which this lane has seen itself. */
static __always_inline int track_next(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire,
				      __u64 sent, __u32 slot)
{
	__u64 highest = lane->highest, number = highest + 1, *word;

	if (!highest || highest != flow->highest || lane->held ||
	    wire + (__u32)flow->offset != (__u32)number)
		return track_any(lane, flow, wire, sent, slot);
	/* the word holds the number before, or is another's as the number is the first of 32 */
	word = word_of(flow, number);
	if (!word)
		return 1;
	*word = number & 31 ? *word | 1ull << (number & 31) : number >> 5 << 32 | 1;
	flow->highest = number;
	lane->highest = number;
	lane->highest_sent = sent;
	lane->arrivals++;
	return 1;
}

/* How far a number may be above those that this CPU has seen, to be placed by them alone; and how much
 * lower than what was seen the window's highest number may be. */
#define NEAR_STEPS 256

/*
 * The same with several CPUs, for a number that is a little above those which this one has seen. All that
 * they share beside the words is read here and hardly ever written: a cache line that each of them writes
 * for each frame costs more than all else (6.5 M/s became 8.0 with two). So the window's highest number is
 * brought up now and then only; what it is in the end is the highest of all (`KernelReceiver::flow`).
 */
static __always_inline int track_ahead(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire,
				       __u64 sent, __u32 slot)
{
	__u64 highest = lane->highest, number, ahead = flow->highest;
	__u32 step = wire + (__u32)flow->offset - (__u32)highest;

	if (!highest || lane->held || step - 1 >= NEAR_STEPS || sent > lane->highest_sent + WB_RESTART_AFTER)
		return track_any(lane, flow, wire, sent, slot);
	number = highest + step;
	/* far behind what others have seen, or far ahead */
	if (number + window_numbers(flow) / 2 - ahead > window_numbers(flow))
		return track_any(lane, flow, wire, sent, slot);
	if (!set(flow, number)) {
		lane->duplicates++;
		return 0;
	}
	if (number > ahead + NEAR_STEPS)
		flow->highest = number;
	follow(lane, number, lane->arrivals++, sent);
	return 1;
}

/*
 * Counts an arrival that was not new as conflicting where it is no copy: it was sent after the highest number of any lane
 * (`Order::is_conflict`). `slot` is the first of the flow's lanes.
 */
static __noinline int note_repeated(struct wb_flow *flow, __u32 wire, __u64 sent, __u32 slot)
{
	__s64 distance;
	__u64 number;
	__u32 i;

	if (!flow)
		return 0;
	for (i = 0; i < lane_count; i++, slot++) {
		struct wb_rx_lane *lane = bpf_map_lookup_elem(&lanes, &slot);

		if (!lane || !lane->arrivals)
			continue;
		distance = (__s32)(wire + (__u32)flow->offset - (__u32)lane->highest);
		number = lane->highest + distance;
		if (distance > 0 || (lane->highest >> 5) - (number >> 5) >= window_numbers(flow) / 32)
			continue;
		if (sent > lane->highest_sent && sent <= lane->highest_sent + WB_RESTART_AFTER) {
			__sync_fetch_and_add(&flow->conflicting, 1);
			return 1;
		}
	}
	return 0;
}

/* Judges the arrival of number `wire`; `slot` is the first of the flow's lanes. */
static __always_inline int track(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire,
				 __u64 sent, __u32 slot)
{
	return several_queues ? track_ahead(lane, flow, wire, sent, slot) :
				track_next(lane, flow, wire, sent, slot);
}

#endif
