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

/*
 * Measurements by flow and lane, flow-major; after those of flows those of what has no probe. A lane is what
 * has frames one after the other: a receive queue, or a CPU (`lane` in receive.bpf.c).
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u32);
	__type(value, struct wb_rx_flow);
} flows SEC(".maps");

/*
 * With several CPUs the window's highest number is brought up now and then only (`track_ahead`). Brings it
 * up to what all of them have seen; `slot` is the flow's first.
 */
static __noinline int catch_up(struct wb_window *window, __u32 slot)
{
	__u32 i;

	if (!window)
		return 0;
	for (i = 0; i < lane_count; i++, slot++) {
		struct wb_rx_flow *flow = bpf_map_lookup_elem(&flows, &slot);

		if (flow && flow->highest > window->highest)
			window->highest = flow->highest;
	}
	return 0;
}

/* The word of a number. Words that follow each other lie on different cache lines, so that CPUs which get
 * numbers in runs of 32 do not write to the same. */
static __always_inline __u64 *word_of(struct wb_window *window, __u64 number)
{
	__u64 index = number >> 5;

	index = index << 3 | ((index >> 8) & 7);
	barrier_var(index); /* the mask comes last, for verifiers before Linux 6.18 */
	return &window->words[index & (WB_WINDOW_WORDS - 1)];
}

/* Notes `number` in its word; says whether it is new. */
static __always_inline int set(struct wb_window *window, __u64 number)
{
	__u64 *word = word_of(window, number);
	__u64 bit = 1ull << (number & 31), tag = number >> 5 << 32, old, new;
	int tries;

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
static __always_inline void reach_down(struct wb_window *window, __u64 number)
{
	__u64 old;
	int tries;

	for (tries = 0; tries < 16; tries++) {
		old = *(volatile __u64 *)&window->lowest;
		if (old && old <= number)
			return;
		if (__sync_val_compare_and_swap(&window->lowest, old, number) == old)
			return;
	}
}

/* Notes `number` in the window; says whether it is new (`Window::mark`). */
static __always_inline int mark(struct wb_window *window, __u64 number)
{
	if (number > window->highest)
		window->highest = number;
	reach_down(window, number);
	return set(window, number);
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

/* Arrival `arrival` is above all before it. */
static __always_inline void follow(struct wb_rx_flow *flow, __u64 number, __u64 arrival, __u64 sent)
{
	if (number != flow->highest + 1) {
		struct wb_gap *gap = &flow->gaps[flow->gap_count++ & (WB_GAPS - 1)];

		gap->arrival = arrival;
		gap->before = flow->highest;
		gap->after = number;
	}
	flow->highest = number;
	flow->highest_sent = sent;
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
	follow(flow, number, arrival, sent);
	return 1;
}

static __always_inline void count_late(struct wb_rx_flow *flow, struct wb_window *window,
				       __u64 number)
{
	reach_down(window, number);
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
static __noinline int doubt(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire, __u64 sent,
			    __u32 slot)
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
	if (several_queues)
		catch_up(window, slot);
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

/* The arrival of any number (`SequenceTracker::record`). Says whether it is new. */
static __noinline int track_any(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				__u64 sent, __u32 slot)
{
	__u64 number;

	if (!flow || !window)
		return 0;
	if (flow->highest > window->highest)
		window->highest = flow->highest;
	if (!window->highest)
		return count(flow, window, WB_BASE + wire, sent);
	if (place(flow, window, wire, sent, &number) != NEAR)
		return doubt(flow, window, wire, sent, slot);
	if (flow->held)
		return near_after_held(flow, window, number, sent);
	return count(flow, window, number, sent);
}

/* The same for nearly all: the number after the highest, which this lane has seen itself. */
static __always_inline int track_next(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				      __u64 sent, __u32 slot)
{
	__u64 highest = flow->highest, number = highest + 1, *word;

	if (!highest || highest != window->highest || flow->held ||
	    wire + (__u32)window->offset != (__u32)number)
		return track_any(flow, window, wire, sent, slot);
	/* the word holds the number before, or is another's as the number is the first of 32 */
	word = word_of(window, number);
	*word = number & 31 ? *word | 1ull << (number & 31) : number >> 5 << 32 | 1;
	window->highest = number;
	flow->highest = number;
	flow->highest_sent = sent;
	flow->arrivals++;
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
static __always_inline int track_ahead(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				       __u64 sent, __u32 slot)
{
	__u64 highest = flow->highest, number, ahead = window->highest;
	__u32 step = wire + (__u32)window->offset - (__u32)highest;

	if (!highest || flow->held || step - 1 >= NEAR_STEPS || sent > flow->highest_sent + WB_RESTART_AFTER)
		return track_any(flow, window, wire, sent, slot);
	number = highest + step;
	/* far behind what others have seen, or far ahead */
	if (number + WB_WINDOW_WORDS * 16 - ahead > WB_WINDOW_WORDS * 32)
		return track_any(flow, window, wire, sent, slot);
	if (!set(window, number)) {
		flow->duplicates++;
		return 0;
	}
	if (number > ahead + NEAR_STEPS)
		window->highest = number;
	follow(flow, number, flow->arrivals++, sent);
	return 1;
}

/* Judges the arrival of number `wire`; `slot` is the first of the flow's entries. */
static __always_inline int track(struct wb_rx_flow *flow, struct wb_window *window, __u32 wire,
				 __u64 sent, __u32 slot)
{
	return several_queues ? track_ahead(flow, window, wire, sent, slot) :
				track_next(flow, window, wire, sent, slot);
}

#endif
