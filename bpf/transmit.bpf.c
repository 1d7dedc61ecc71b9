// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The transmitting program: run in the kernel with live frames (BPF_PROG_TEST_RUN with
 * BPF_F_TEST_XDP_LIVE_FRAMES), it takes the next slot of the ring, waits for its launch time, copies
 * the frame into the page it was given, writes sequence number and time, and redirects it to the
 * interface. User space lays out the ring (crates/engine-linux/src/kernel/ring.rs).
 *
 * It knows nothing of flows or rates: a slot carries a launch time, a tag to count by and the offsets
 * of what is to be written at the last moment.
 */
#include "common.h"
#include "stamp.h"
#include "observe.h"

#include <linux/if_ether.h>

/* Set before loading. */
const volatile __u32 tx_mode;
const volatile __u32 slot_mask; /* slots of the ring - 1 */
const volatile __u32 frame_max; /* largest frame that a slot can hold */
const volatile __u32 base_len; /* length of the frames that the kernel hands to the program */
const volatile __u32 paced; /* whether any slot has a launch time */
const volatile __u32 shared_sequences; /* whether several cores number the same tags */
const volatile __u32 blocks; /* whether they take numbers many at a time; see `number` */
const volatile __u32 own_histograms; /* tags from this on share theirs */
const volatile __u64 late_after_ns; /* later than this is late, for frames without a drift */
const volatile __u32 shared_len; /* bytes of the shared memory, without what lies behind for the longest frame */
/* Never read: so that BTF, and with it user space, has the type of what stands in the ring. */
const volatile struct wb_slot slot_layout;

_Static_assert(__builtin_offsetof(struct wb_slot, frame) == WB_SLOT_HEAD, "frames begin behind the head of their slot");

/* Up to so many bytes before a part that lies apart are copied without a call. */
#define SHORT_HEAD 64
/* The most bytes behind it: a probe. */
#define TAIL_MAX 64

/* Slots of a flat-out stream are given back to the feeder so many at a time. */
#define RELEASE_EVERY 32

struct wb_tx_progress progress SEC(".bss.progress");
/* For how long the CPU was taken away from the program. */
struct wb_distribution interruptions SEC(".bss.taken");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading, like the value's size */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WB_SLOT_HEAD + 64);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_tx_tag);
} tags SEC(".maps");

/* Memory of all cores that what is replayed is read into: one value, which ends with room for a frame. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WB_SHARED_TAIL); /* set before loading */
} shared SEC(".maps");

/* Sequence numbers of all cores, when they share them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} sequences SEC(".maps");

/* Departures by tag: what is exact. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_departures);
} departures SEC(".maps");

/* Their histograms: those of the first `own_histograms` tags, and behind them those that all others share, if there are any. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wb_departure_counts);
} histograms SEC(".maps");

/* Where frames go. */
enum {
	EGRESS, /* the interface */
	WARM_UP, /* a cable that nobody else sees (crates/engine-linux/src/kernel/warm_up.rs), or nothing */
	TARGETS,
};

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, TARGETS);
	__type(key, __u32);
	__type(value, __u32);
} egress SEC(".maps");

/* Two readings of the clock in a wait are some 30 ns apart; with this much between them somebody else had the CPU: a timer
 * tick, an interrupt, the hypervisor. From one wait to the next are the frames of a batch and its end, 1 or 2 us. */
#define INTERRUPTION_NS 1000
#define INTERRUPTION_BETWEEN_NS 10000

/*
 * Frames of a batch leave at its end, and ending one costs as much as all else that is done for a frame. A batch that
 * finds nothing due lets its runs go by and waits in the last, so that what it sends leaves at once. A batch that
 * finds something due sends that, and what else is due by then: whoever is late catches up several at a time.
 */
enum {
	FRESH, /* nothing was sent, and nobody waits yet */
	WAITING, /* for the last run */
	LATE, /* something was sent: what is due by now leaves with it */
	DONE, /* and nothing else is due */
};
static __u32 batch_state;
/*
 * Late frames keep a distance from each other. While a batch ends and the next begins none can leave: what
 * would have been due in that time leaves with the first of the next batch. This is how long it was, less
 * what was made up for. Where a batch takes longer than the distance, a sender that is late would never be
 * in time again without it: 1 M/s and 2 M/s ended at 0.9 and 1.0 M/s on a machine whose batches take a
 * microsecond, and hold now.
 */
static __u64 credit;

/* bpf_loop callback: reads the clock until the deadline. */
struct wait {
	__u64 deadline;
	__u64 now;
};

static long look_at_clock(__u32 index, struct wait *wait)
{
	__u64 before = wait->now, now = bpf_ktime_get_ns();

	wait->now = now;
	if (now - before >= INTERRUPTION_NS)
		record(&interruptions.moments, interruptions.counts, now - before);
	return now >= wait->deadline;
}

static __always_inline void wait_until(struct wait *wait)
{
	__u64 begun = wait->now;

	bpf_loop(1 << 20, look_at_clock, wait, 0);
	progress.listened_ns += wait->now - begun;
	progress.seen_ns = wait->now;
}

/* The time, between two waits. */
static __always_inline __u64 time_between(void)
{
	__u64 before = progress.seen_ns, now = bpf_ktime_get_ns();

	if (batch_state == FRESH)
		credit = 0;
	if (before) {
		progress.listened_ns += now - before;
		if (now - before >= INTERRUPTION_BETWEEN_NS)
			record(&interruptions.moments, interruptions.counts, now - before);
		else if (batch_state == FRESH)
			credit = now - before;
	}
	progress.seen_ns = now;
	return now;
}

/* Returns the time when `deadline` is reached, or 0 when it is further away than our patience. */
static __always_inline __u64 wait_for(__u64 deadline)
{
	struct wait wait = { .deadline = deadline, .now = time_between() };
	__u64 patience = orders.patience_ns;

	if (wait.now >= deadline)
		return wait.now;
	if (deadline - wait.now > 2 * patience) {
		/* far away: spend our patience, then softirqs and signals have their turn */
		wait.deadline = wait.now + patience;
		wait_until(&wait);
		return 0;
	}
	wait_until(&wait);
	return wait.now;
}

/* Fills the page with a frame of which a part lies apart. Zero on success. */
static __always_inline int gather(struct xdp_md *ctx, struct wb_slot *slot)
{
	__u64 at = slot->apart_at, part = slot->apart_len, from = slot->apart_from, rest = slot->len - at - part;
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end, *memory;
	__u32 zero = 0;

	memory = bpf_map_lookup_elem(&shared, &zero);
	if (!memory || !wb_at_most(from, shared_len) || !wb_between(part, 1, WB_SHARED_TAIL))
		return -1;
	if (!wb_at_most(at, frame_max - TAIL_MAX))
		return -1;
	if (at <= SHORT_HEAD && data + SHORT_HEAD <= data_end) {
		/* what is too much is written over in a moment */
		__builtin_memcpy(data, slot->frame, SHORT_HEAD);
	} else if (wb_between(at, 1, frame_max - TAIL_MAX) && bpf_xdp_store_bytes(ctx, 0, slot->frame, at)) {
		return -1;
	}
	if (bpf_xdp_store_bytes(ctx, at, memory + from, part))
		return -1;
	if (!wb_between(rest, 1, TAIL_MAX))
		return rest ? -1 : 0;
	return bpf_xdp_store_bytes(ctx, at + part, slot->frame + at, rest);
}

/* Fills the page with the slot's frame. Zero on success. */
static __always_inline int build(struct xdp_md *ctx, struct wb_slot *slot)
{
	__u64 len = slot->len;
	void *data, *data_end;

	if (!wb_between(len, ETH_HLEN, frame_max))
		return -1;
	if (len != base_len && bpf_xdp_adjust_tail(ctx, (int)len - (int)base_len))
		return -1;
	if (slot->apart_len)
		return gather(ctx, slot);
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (len == 60 && data + 60 <= data_end) {
		__u64 *to = data, *from = (void *)slot->frame;

		to[0] = from[0];
		to[1] = from[1];
		to[2] = from[2];
		to[3] = from[3];
		to[4] = from[4];
		to[5] = from[5];
		to[6] = from[6];
		*(__u32 *)(to + 7) = *(__u32 *)(from + 7);
		return 0;
	}
	return bpf_xdp_store_bytes(ctx, 0, slot->frame, len);
}

/* Stream: lets the feeder write over the slots that are done. The exchange is a full barrier: what was
 * read of a slot was read before. */
static __always_inline void release(__u64 consumed)
{
	(void)__sync_lock_test_and_set(&progress.released, consumed);
}

/* The start of the round that is so many rounds further. */
static __always_inline void next_rounds(__u64 rounds)
{
	progress.round_start_frac += rounds * orders.round_frac;
	progress.round_start += rounds * orders.round_ns + (progress.round_start_frac >> 32);
	progress.round_start_frac &= 0xffffffff;
}

/* Moves on to the next slot. */
static __always_inline void advance(__u64 consumed)
{
	progress.consumed = ++consumed;
	if (tx_mode != WB_TX_REPEAT) {
		if (paced || consumed % RELEASE_EVERY == 0)
			release(consumed);
		return;
	}
	if (++progress.slot < orders.round_slots)
		return;
	progress.slot = 0;
	if (paced)
		next_rounds(1);
}

/*
 * When flat-out frames leave. The kernel hands redirected frames to the driver sixteen at a time
 * (DEV_MAP_BULK_SIZE in kernel/bpf/devmap.c), so sixteen leave together and carry one time: the clock,
 * which costs as much as everything else done here, is read at the first of each sixteen runs, and again
 * after a run that sent nothing. Batches are multiples of sixteen, so that none of these spans two.
 */
#define BULK 16
static __u64 seen_head;
static __u64 dropped_until; /* slots before this one that follow another were dropped with it */
static __u64 bulk_ns; /* 0: to be read */
static __u32 run;

static __always_inline __u64 bulk_time(void)
{
	if (run++ % BULK && bulk_ns)
		return bulk_ns;
	bulk_ns = bpf_ktime_get_ns();
	return bulk_ns;
}

/*
 * Sequence numbers of several cores. One at a time they cost a cache line that another core has just
 * written. So they are taken in blocks: as many as the receiver keeps in one word. None may be left over at
 * the end, so that this is for what nothing ends in the middle of a block: flat out, a repeating ring, one
 * tag. Batches are multiples of a block, and a stop waits for its end.
 */
#define BLOCK 32
static __u32 block_next, block_left;

/* The number of the next frame of a tag, of which `sent` have left from here. Less than 2^32, or an error. */
static __always_inline __u64 number(__u32 tag, __u64 sent)
{
	__u64 *shared, left;
	__u32 wanted;

	if (!shared_sequences)
		return (__u32)sent;
	if (blocks && block_left) {
		block_left--;
		return block_next++;
	}
	shared = bpf_map_lookup_elem(&sequences, &tag);
	if (!shared)
		return ~0ull;
	if (!blocks)
		return (__u32)__sync_fetch_and_add(shared, 1);
	/* as many as there are runs until the next multiple */
	wanted = BLOCK - (run - 1) % BLOCK;
	left = orders.limit - progress.consumed;
	if (wanted > left)
		wanted = left;
	block_next = __sync_fetch_and_add(shared, wanted);
	block_left = wanted - 1;
	return block_next++;
}

/* The number that a slot brings along: a record that leaves behind others keeps the one of its place. */
static __always_inline __u32 own_number(struct wb_slot *slot)
{
	return *(__u32 *)&slot->sequence_at;
}

/* `record` for moments whose buckets do not say how many values there are. */
static __always_inline void record_counted(struct wb_moments *moments, __u64 *counts, __u64 value)
{
	moments->count++;
	record(moments, counts, value);
}

/* Counts a frame that left at `now`, and how late. One that may leave however late it is has the usual limit. */
static __always_inline void record_departure(struct wb_slot *slot, __u32 tag, __u64 now, __u64 late)
{
	__u64 limit = slot->drift_ns == ~0ull ? late_after_ns : slot->drift_ns;
	struct wb_departures *of = bpf_map_lookup_elem(&departures, &tag);
	__u32 at = tag < own_histograms ? tag : own_histograms;
	struct wb_departure_counts *counts = bpf_map_lookup_elem(&histograms, &at);
	__u64 before;

	if (!of || !counts)
		return;
	if (late > limit)
		of->late++;
	record_counted(&of->lateness, counts->lateness, late);
	before = of->last_late;
	if (of->last_ns) {
		record_counted(&of->gap, counts->gap, now - of->last_ns);
		if (late < before)
			record_counted(&of->shorter, counts->shorter, before - late);
		else
			record_counted(&of->longer, counts->longer, late - before);
	}
	of->last_ns = now;
	of->last_late = late;
}

/* A run that sends nothing. */
static __always_inline int idle(void)
{
	if (paced) {
		progress.seen_ns = 0; /* what goes by now was not taken from us */
	} else {
		bulk_ns = 0;
		run++;
	}
	return XDP_DROP;
}

/*
 * Whether a slot is too late for its window; then it is counted as such. Slots that follow have no launch time and no
 * drift: they are never in time, and look here what became of the first.
 */
static __always_inline int expired(struct wb_slot *slot, struct wb_tx_tag *counters, __u64 launch, __u64 now)
{
	__u64 consumed = progress.consumed;

	if (now < launch || now - launch <= slot->drift_ns || (slot->follows && consumed >= dropped_until))
		return 0;
	if (!slot->follows)
		dropped_until = consumed + 1 + slot->followers;
	counters->expired++;
	counters->expired_bytes += slot->frame_len;
	counters->expired_payload += slot->payload_len;
	return 1;
}

/* The slot that is next in line, where one is known to be there. */
static __always_inline struct wb_slot *next_slot(void)
{
	__u64 consumed = progress.consumed;
	__u32 index = (tx_mode == WB_TX_REPEAT ? progress.slot : consumed) & slot_mask;

	if (consumed >= (tx_mode == WB_TX_REPEAT ? orders.limit : seen_head))
		return 0;
	return bpf_map_lookup_elem(&slots, &index);
}

static __always_inline __u64 launch_of(struct wb_slot *slot)
{
	return tx_mode == WB_TX_REPEAT ? slot->launch_ns + progress.round_start : slot->launch_ns;
}

/* bpf_loop callback: drops the next slot if it is too late at a time as well. */
static long drop_next(__u32 i, __u64 *at)
{
	struct wb_slot *slot = next_slot();
	struct wb_tx_tag *counters;
	__u32 tag;

	if (!slot)
		return 1;
	tag = slot->tag;
	counters = bpf_map_lookup_elem(&tags, &tag);
	if (!counters || !expired(slot, counters, launch_of(slot), *at))
		return 1;
	advance(progress.consumed);
	return 0;
}

#define DROPPED_AT_ONCE 1024

/* bpf_loop callback: one step of a search for the first slot of a round from `low` on that is not due before `due`. */
struct search {
	__u64 due; /* from the start of the round */
	__u32 low;
	__u32 high;
};

static long halve(__u32 i, struct search *search)
{
	__u32 middle = (search->low + search->high) / 2;
	struct wb_slot *slot;

	if (search->low >= search->high)
		return 1;
	slot = bpf_map_lookup_elem(&slots, &middle);
	if (!slot)
		return 1;
	if (slot->launch_ns < search->due)
		search->low = middle + 1;
	else
		search->high = middle;
	return 0;
}

#define ROUND_BITS 13 /* a round has 4096 slots at the most: so many steps find one */
#define BEHIND_MAX (1ull << 34) /* 17 s: what is more takes another turn; no product exceeds 64 bits */


/*
 * A ring that repeats, and all slots of which may be equally late: goes to the first slot that is not due before `due`,
 * in a time that does not depend on how many lie between. Which those were follows from where it stands, so that user
 * space counts them (crates/engine-linux/src/kernel/round.rs): an overloaded sender must not spend on what it drops
 * the time that it needs for what it sends.
 */
static __always_inline void skip_to(__u64 due)
{
	struct search search = { .low = progress.slot, .high = orders.round_slots };
	__u64 length = (orders.round_ns << 16) + (orders.round_frac >> 16) + 1, behind, rounds, left;
	struct wb_slot *slot = next_slot();

	/* The length is a little too much, so the first division falls short by a few rounds of many, and the second by
	 * one at the most. */
	for (int i = 0; i < 2 && slot; i++) {
		behind = slot->launch_ns + progress.round_start;
		if (due <= behind)
			return;
		behind = due - behind;
		if (behind > BEHIND_MAX)
			behind = BEHIND_MAX;
		rounds = (behind << 16) / length;
		left = (orders.limit - progress.consumed) / orders.round_slots;
		if (rounds > left)
			rounds = left;
		progress.consumed += rounds * orders.round_slots;
		next_rounds(rounds);
		slot = next_slot();
	}
	search.due = due > progress.round_start ? due - progress.round_start : 0;
	bpf_loop(ROUND_BITS, halve, &search, 0);
	left = orders.limit - progress.consumed;
	if (search.low > progress.slot && search.low - progress.slot > left)
		search.low = progress.slot + left;
	if (search.low <= progress.slot)
		return;
	progress.consumed += search.low - progress.slot;
	progress.slot = search.low;
	if (search.low < orders.round_slots)
		return;
	progress.slot = 0;
	next_rounds(1);
}

/*
 * Who drops what is late has to be ahead of it then: what would be too late by the time when a batch has left is dropped
 * with it. Without that each run would find the next slot too late by as much as dropping the one before took, and
 * nothing would leave (14 M/s asked of a sender of 1 M/s: 4 frames in 2 s). So much time is reckoned, and no more than
 * half of what a frame may be late.
 */
#define HEAD_START_NS 2000
#define TURNS 4

/*
 * Drops what is too late, if the slot that is next is: returns whether it was. `now` is the time, also afterwards. The
 * run that drops is the one that sends what is next, so that dropping takes no run from what is sent.
 */
static __always_inline int drop_late(struct wb_slot *slot, struct wb_tx_tag *counters, __u64 launch, __u64 *now)
{
	__u64 head_start = slot->drift_ns / 2, at;
	int skips = tx_mode == WB_TX_REPEAT && orders.window_ns;

	if (skips) {
		if (*now < launch || *now - launch < orders.window_ns)
			return 0;
	} else {
		if (!expired(slot, counters, launch, *now))
			return 0;
		advance(progress.consumed);
	}
	if (head_start > HEAD_START_NS)
		head_start = HEAD_START_NS;
	for (int i = 0; i < TURNS; i++) {
		at = *now + head_start;
		if (skips)
			skip_to(at - orders.window_ns + 1);
		else
			bpf_loop(DROPPED_AT_ONCE, drop_next, &at, 0);
		*now = bpf_ktime_get_ns();
		slot = next_slot();
		if (!slot || launch_of(slot) + slot->drift_ns >= *now)
			break;
	}
	progress.seen_ns = 0; /* that takes longer than a batch */
	return 1;
}

/* Lets what the feeder wrote on another CPU come nearer while this frame is on its way: 3.6 M/s become 4.0. */
static __always_inline void fetch_next(void)
{
	struct wb_slot *slot = next_slot();

	if (slot) {
		*(volatile __u64 *)slot;
		*(volatile __u64 *)(slot->frame + 8); /* the next cache line */
	}
}

/* Tells user space of a frame that leaves now. */
static __always_inline void observe_departure(struct xdp_md *ctx, struct wb_slot *slot, __u32 sequence, __u64 launch,
					      __u64 now)
{
	__u64 len = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	struct wb_observed seen = {
		.arrived_ns = now, .sent_ns = launch, .sequence = sequence, .flow = WB_NO_FLOW, .standing = WB_LEFT
	};

	seen.frame_len = len < 60 ? 64 : len + 4;
	seen.payload_len = slot->tag;
	wb_observe(ctx, &seen);
}

/* Whether this is the last run of its batch. */
static __always_inline int last_run(void)
{
	__u64 place = progress.place;

	if (!place)
		batch_state = FRESH;
	if (place + 1 >= progress.batch) {
		progress.place = 0;
		return 1;
	}
	progress.place = place + 1;
	return 0;
}

SEC("xdp")
int wb_transmit(struct xdp_md *ctx)
{
	__u64 consumed = progress.consumed, launch = 0, due, now, sequence;
	__u32 tag, last = 0;
	struct wb_tx_tag *counters;
	struct wb_slot *slot;

	if (paced) {
		last = last_run();
		if (batch_state == DONE || (batch_state == WAITING && !last))
			return XDP_DROP;
	}
	if (orders.stop && !block_left)
		return idle();
	/* the head is looked at when what was seen of it is used up; adding nothing to it is a full barrier:
	 * what is read of a slot is read after */
	if (tx_mode != WB_TX_REPEAT && consumed >= seen_head)
		seen_head = __sync_fetch_and_add(&orders.head, 0);
	slot = next_slot();
	if (!slot) {
		if (tx_mode != WB_TX_REPEAT)
			release(consumed);
		return idle();
	}
	tag = slot->tag;
	counters = bpf_map_lookup_elem(&tags, &tag);
	if (!counters)
		return XDP_ABORTED;

	if (paced) {
		launch = launch_of(slot);
		/* those that are late do not leave in a burst */
		due = counters->last_ns + slot->spacing_ns;
		if (batch_state == LATE)
			due -= credit < due ? credit : due;
		if (due < launch)
			due = launch;
		if (last && batch_state != LATE) {
			if (launch > orders.until_ns)
				return XDP_DROP; /* runs that are left over: the thread sleeps until then */
			now = wait_for(due);
			if (!now)
				return bpf_redirect_map(&egress, WARM_UP, XDP_DROP); /* dropped where there is none */
		} else {
			now = time_between();
			if (now < due) {
				batch_state = batch_state == LATE ? DONE : WAITING;
				return XDP_DROP;
			}
		}
		if (drop_late(slot, counters, launch, &now)) {
			/* what is next leaves at once, if it is due and in time */
			consumed = progress.consumed;
			slot = next_slot();
			if (!slot)
				return idle();
			tag = slot->tag;
			counters = bpf_map_lookup_elem(&tags, &tag);
			if (!counters)
				return XDP_ABORTED;
			launch = launch_of(slot);
			if (now < launch || now < counters->last_ns + slot->spacing_ns || now - launch > slot->drift_ns)
				return XDP_DROP;
		}
	} else {
		now = bulk_time();
	}
	if (now >= orders.stop_ns && !block_left) {
		orders.stop = 1;
		return XDP_DROP;
	}

	if (build(ctx, slot)) {
		progress.refused++;
		orders.stop = 1;
		return XDP_ABORTED;
	}
	sequence = slot->numbered ? own_number(slot) : number(tag, counters->sent);
	if (sequence >> 32)
		return XDP_ABORTED;
	counters->sent++;
	counters->sent_bytes += slot->frame_len;
	counters->sent_payload += slot->payload_len;
	if (counters->sent == 1)
		counters->first_ns = now;
	counters->last_ns = now;
	stamp(ctx, slot, sequence, now);
	if (observe)
		observe_departure(ctx, slot, sequence, launch, now);
	if (paced) {
		if (batch_state == LATE)
			credit -= credit < slot->spacing_ns ? credit : slot->spacing_ns;
		batch_state = LATE;
	}
	if (paced && launch)
		record_departure(slot, tag, now, now - launch);
	advance(consumed);
	if (tx_mode != WB_TX_REPEAT)
		fetch_next();
	return bpf_redirect_map(&egress, EGRESS, 0);
}

/* Attached to the sending interface where its driver wants a program before it takes redirected frames. */
SEC("xdp")
int wb_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Attached to the far end of the warm-up cable. */
SEC("xdp")
int wb_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
