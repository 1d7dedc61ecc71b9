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
const volatile __u32 spare_at; /* where in `window` the words begin that windows may grow by … */
const volatile __u32 spare_words; /* … and how many there are */

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

/*
 * The windows of all flows: (number >> 5) << 32 | bitmap, in the order of `word_in`. Behind them the words of windows that
 * grow. Such a window begins empty: a word that has another tag there is taken from the former window, which nothing is
 * written to any more. So nothing is copied at once, in which time frames would be lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* emptied between runs */
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

/* The word of a number in a window of `words` words from `first` on; `turn` is log2 of them, less 3. Words that follow each
 * other lie on different cache lines, so that CPUs which get numbers in runs of 32 do not write to the same: the bits of its
 * index are turned by three. */
static __always_inline __u64 *word_in(__u32 first, __u32 words, __u32 turn, __u64 number)
{
	__u32 mask = words - 1, index = number >> 5 & mask;
	__u32 at = first + ((index << 3 | index >> (turn & 31)) & mask);

	return bpf_map_lookup_elem(&window, &at);
}

/* Words of the window that a flow begins with. */
static __always_inline __u32 window_words(struct wb_flow *flow)
{
	return all_window_words ? all_window_words : flow->window_words;
}

static __always_inline __u32 window_turn(struct wb_flow *flow)
{
	return all_window_words ? all_window_turn : flow->window_turn;
}

/* How many numbers that spans, and so how far ahead an arrival is believed. */
static __always_inline __s64 window_numbers(struct wb_flow *flow)
{
	return (__s64)window_words(flow) * 32;
}

/* The word of a number in the window that a flow begins with. */
static __always_inline __u64 *first_word_of(struct wb_flow *flow, __u64 number)
{
	return word_in(flow->window_at, window_words(flow), window_turn(flow), number);
}

/* The same in a larger one. */
static __always_inline __u64 *grown_word_of(struct wb_flow *flow, __u32 grown_at, __u64 number)
{
	return word_in(grown_at, window_words(flow) << WB_GROWTH_BITS, window_turn(flow) + WB_GROWTH_BITS, number);
}

/* The word of a number in a flow's window. */
static __always_inline __u64 *word_of(struct wb_flow *flow, __u64 number)
{
	__u32 grown_at = flow->grown_at;

	return __builtin_expect(grown_at, 0) ? grown_word_of(flow, grown_at, number) : first_word_of(flow, number);
}

/* The word of a number in a larger window that has nothing of it yet: what the former one knows of it. */
static __always_inline __u64 former_word(struct wb_flow *flow, __u64 number)
{
	__u64 tag = number >> 5 << 32, *word;

	if (number > flow->former_until)
		return tag;
	word = first_word_of(flow, number);
	return word && (*word & ~0xffffffffull) == tag ? *word : tag;
}

/* Whether a number `back` words behind the highest one is told from others in the flow's window. */
static __always_inline int reaches(struct wb_flow *flow, __u64 number, __u64 back)
{
	if (back < window_words(flow))
		return 1;
	return flow->grown_at && back < (__u64)window_words(flow) << WB_GROWTH_BITS && number >> 5 >= flow->known_from;
}

/* How many words for windows to grow are taken. */
static __u64 spare_taken;

/*
 * Gives a flow a larger window, once; says whether it did. `slot` is the first of its lanes. Nothing is forgotten: the former
 * window knows all numbers that it reaches, and all if it has reached the lowest so far.
 */
__noinline int wb_grow(struct wb_flow *flow, __u32 slot)
{
	__u64 words, next, top, *from, *to;
	__u32 at;

	if (!flow || flow->growing)
		return 0;
	words = (__u64)window_words(flow) << WB_GROWTH_BITS;
	if (spare_taken + words > spare_words)
		return 0;
	/* several CPUs may come at once */
	if (__sync_val_compare_and_swap(&flow->growing, 0, 1))
		return 0;
	next = __sync_fetch_and_add(&spare_taken, words);
	if (next + words > spare_words)
		return 0;
	if (several_queues)
		catch_up(flow, slot);
	top = flow->highest >> 5;
	flow->known_from = top - (flow->lowest >> 5) < window_words(flow) ? 0 : top - window_words(flow) + 1;
	/* other CPUs may be ahead by less than a window */
	flow->former_until = flow->highest + window_numbers(flow);
	at = spare_at + next;
	if (!several_queues) {
		/* what follows the highest number is noted without a look at the tag (`track_next`) */
		from = first_word_of(flow, flow->highest);
		to = grown_word_of(flow, at, flow->highest);
		if (!from || !to)
			return 0;
		*to = *from;
	}
	/* a full barrier: who sees it sees what was written before */
	__sync_lock_test_and_set(&flow->grown_at, at);
	return 1;
}

/* The histograms, gaps and extents of a flow on a lane; none if it shares its histograms with others. */
static __always_inline struct wb_detail *own_detail(struct wb_rx_lane *lane)
{
	__u32 at = lane->detail;

	return at < lane_count ? 0 : bpf_map_lookup_elem(&details, &at);
}

/*
 * Notes `number` in its word, whichever window that is in and however many CPUs update it; says whether it is new. Not static,
 * like others below, so that the verifier looks at it once and not on each of the ways that lead here.
 */
__noinline int wb_set(struct wb_flow *flow, __u64 number)
{
	__u64 bit = 1ull << (number & 31), tag = number >> 5 << 32, old, known, *word;
	__u32 grown_at;
	int tries;

	if (!flow)
		return 0;
	grown_at = flow->grown_at;
	word = grown_at ? grown_word_of(flow, grown_at, number) : first_word_of(flow, number);
	if (!word)
		return 1;
	/* try again when another was faster */
	for (tries = 0; tries < 16; tries++) {
		known = old = *(volatile __u64 *)word;
		if ((known & ~0xffffffffull) != tag)
			known = grown_at ? former_word(flow, number) : tag;
		if (known & bit)
			return 0;
		if (!several_queues) {
			*word = known | bit;
			return 1;
		}
		if (__sync_val_compare_and_swap(word, old, known | bit) == old)
			return 1;
	}
	return 1;
}

/* The same for nearly all: in the window that the flow began with, when no other CPU is at it. */
static __always_inline int set(struct wb_flow *flow, __u64 number)
{
	__u64 bit = 1ull << (number & 31), tag = number >> 5 << 32, old, known, *word;

	if (__builtin_expect(flow->grown_at, 0))
		return wb_set(flow, number);
	word = first_word_of(flow, number);
	if (!word)
		return 1;
	old = several_queues ? *(volatile __u64 *)word : *word;
	known = (old & ~0xffffffffull) == tag ? old : tag;
	if (known & bit)
		return 0;
	if (!several_queues) {
		*word = known | bit;
		return 1;
	}
	if (__sync_val_compare_and_swap(word, old, known | bit) != old)
		return wb_set(flow, number);
	/* another CPU may have given the flow a larger window, into which it takes words as they were before */
	if (__builtin_expect(*(volatile __u32 *)&flow->grown_at, 0))
		wb_set(flow, number);
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

/* The same, and that it was seen (`Window::mark`). */
__noinline int wb_mark(struct wb_flow *flow, __u64 number)
{
	if (!flow)
		return 0;
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

	if (!wb_mark(flow, number)) {
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

/* Whether a number that is no higher than those of the flow was sent so long after them that its sender began anew. A CPU that was
 * idle for long asks all: another may have seen what was sent meanwhile. */
static __noinline int long_after(struct wb_rx_lane *lane, struct wb_flow *flow, __u64 sent, __u32 slot)
{
	__u32 i;

	if (!lane || !flow || (lane->arrivals && sent <= lane->highest_sent + WB_RESTART_AFTER))
		return 0;
	if (!several_queues)
		return 1;
	for (i = 0; i < lane_count; i++, slot++) {
		struct wb_rx_lane *other = bpf_map_lookup_elem(&lanes, &slot);

		if (other && other->arrivals && sent <= other->highest_sent + WB_RESTART_AFTER)
			return 0;
	}
	return 1;
}

static __always_inline enum place place(struct wb_rx_lane *lane, struct wb_flow *flow,
					__u32 wire, __u64 sent, __u32 slot, __u64 *number)
{
	__s64 distance = (__s32)(wire + (__u32)flow->offset - (__u32)flow->highest);

	*number = flow->highest + distance;
	if (distance > 0)
		return distance <= window_numbers(flow) ? NEAR : AHEAD;
	if (reaches(flow, *number, (flow->highest >> 5) - (*number >> 5)))
		return lane->arrivals && long_after(lane, flow, sent, slot) ? BEHIND : NEAR;
	return long_after(lane, flow, sent, slot) ? BEHIND : LATE;
}

/* Decides the held arrival without another that confirms it (`SequenceTracker::settle_held`). */
static __always_inline void settle_held(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 slot)
{
	__u64 number;

	if (!lane->held)
		return;
	lane->held = 0;
	switch (place(lane, flow, lane->held_wire, lane->held_sent, slot, &number)) {
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
	at = place(lane, flow, wire, sent, slot, &number);
	if (at == LATE) {
		settle_held(lane, flow, slot);
		count_late(lane, flow, number);
		return 1;
	}
	step = wire - (__u32)lane->held_wire;
	if (!lane->held || !step || step > window_numbers(flow) || step < -window_numbers(flow)) {
		settle_held(lane, flow, slot);
		hold(lane, wire, sent);
		return 0;
	}

	/* two in doubt agree: the sender restarted, or very much was lost */
	lane->held = 0;
	if (several_queues)
		catch_up(flow, slot);
	switch (place(lane, flow, lane->held_wire, lane->held_sent, slot, &held_number)) {
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
	switch (place(lane, flow, wire, sent, slot, &number)) {
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
				      __u64 sent, __u32 slot)
{
	if (!lane || !flow)
		return 0;
	settle_held(lane, flow, slot);
	return count(lane, flow, number, sent);
}

/* Whether a number came so far behind the highest one that the flow is to have a larger window: in the outer half of its
 * window, or behind it. */
static __always_inline int wants_more(struct wb_flow *flow, enum place at, __u64 number)
{
	__s64 back = (flow->highest >> 5) - (number >> 5);

	return at == LATE || (at == NEAR && back >= window_words(flow) / 2);
}

/* The arrival of any number (`SequenceTracker::record`). Says whether it is new. */
static __noinline int track_any(struct wb_rx_lane *lane, struct wb_flow *flow, __u32 wire,
				__u64 sent, __u32 slot)
{
	enum place at;
	__u64 number;

	if (!lane || !flow)
		return 0;
	if (lane->highest > flow->highest)
		flow->highest = lane->highest;
	if (!flow->highest)
		return count(lane, flow, WB_BASE + wire, sent);
	at = place(lane, flow, wire, sent, slot, &number);
	if (wants_more(flow, at, number) && wb_grow(flow, slot))
		at = place(lane, flow, wire, sent, slot, &number);
	if (at != NEAR)
		return doubt(lane, flow, wire, sent, slot);
	if (lane->held)
		return near_after_held(lane, flow, number, sent, slot);
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
		if (distance > 0 || !reaches(flow, number, (lane->highest >> 5) - (number >> 5)))
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
