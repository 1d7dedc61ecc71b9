/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel programs and user space share: map layouts, offsets, histogram buckets.
 *
 * All integers are in host order; only the probe inside a frame is big-endian. Times are nanoseconds
 * of CLOCK_MONOTONIC, which bpf_ktime_get_ns() reads too. Both programs are loaded with these sizes
 * checked against the Rust side at compile time (crates/engine-linux/src/kernel/abi.rs).
 */
#ifndef WIREBEAT_H
#define WIREBEAT_H

/* ---- the probe: magic 2, flow 2, sequence 4, time 8 (crates/wire/src/probe.rs) ---- */
#define WB_PROBE_MAGIC 0x5742
#define WB_PROBE_LEN 16

/* ---- histograms: crates/meter/src/histogram.rs ---- */
#define WB_SUB_BITS 7 /* 128 buckets per octave: an error of at most 1/128 */
#define WB_MAX_MSB 36 /* values from 2^37 ns (137 s) on share the last bucket */
#define WB_BUCKETS 3968

/*
 * How many values there are is what the buckets and `negative` add up to. Sums are in two words: the
 * low one takes 63 bits, the high one counts in 2^63, so that one test of a sign says whether anything
 * has to be carried; the squares' high word stays at ~0 once it is there. The smallest value has its sign bit turned, so that memory begins as "nothing yet".
 */
#define WB_SIGN (1ull << 63)
struct wb_moments {
	__u64 lowest; /* the smallest value ^ WB_SIGN; 0: no value yet */
	__u64 range; /* the largest less the smallest */
	__u64 sum_low;
	__s64 sum_high;
	__u64 squares_low;
	__u64 squares_high;
	__u64 negative; /* values below zero, which the histogram does not hold */
	__u64 count; /* how many values, where several share the buckets that would say it (`struct wb_departures`); else 0 */
};

struct wb_distribution {
	struct wb_moments moments;
	__u64 counts[WB_BUCKETS];
};

/* ---- transmit ---- */

/* A slot of the transmit ring: this head, then the frame, or what is before and behind that part of it which lies apart. */
struct wb_slot {
	__u64 launch_ns; /* absolute, or from the start of the round in a repeating ring; 0: at once */
	__u64 drift_ns; /* dropped when later than this; ~0: never */
	__u32 tag;
	__u16 len; /* bytes of frame, without FCS */
	__u16 probe_at; /* offsets as in crates/wire/src/stamp.rs; 0: absent */
	__u16 checksum_at;
	__u16 identification_at;
	__u32 spacing_ns; /* since the last frame of the tag left, for a frame that is late; see `credit` */
	__u16 frame_len; /* to count by: with FCS … */
	__u16 payload_len; /* … and of the payload */
	__u16 sequence_at; /* from the start of the frame, like all that follow; for forms other than 0, see `numbered` */
	__u16 time_at; /* 0: no time is written */
	__u8 form; /* enum wb_probe_form */
	__u8 first; /* the number of the first frame */
	__u16 follows; /* 1: a fragment that leaves right after the slot before it, or is dropped with it */
	__u16 followers; /* how many such slots come next */
	__u16 apart_at; /* where in the frame that part begins which lies in the shared memory … */
	__u32 apart_from; /* … where it lies there … */
	__u16 apart_len; /* … and its bytes; 0: there is none */
	__u16 numbered; /* 1: of form 0, with its number in the 32 bits from sequence_at on; else numbers are taken as frames leave */
	__u8 frame[];
};
#define WB_SLOT_HEAD 56
#define WB_SHARED_TAIL 4096 /* bytes behind the shared memory: as many as the longest frame has, and more */

/* How number and time are written: crates/wire/src/codec/marks.rs. */
enum wb_probe_form {
	WB_PROBE_OWN = 0, /* number at 4 and nanoseconds at 8 bytes from probe_at */
	WB_PROBE_NANOSECONDS = 1,
	WB_PROBE_MICROSECONDS = 2, /* seconds and microseconds since 1970 */
	WB_PROBE_OF_DAY = 3, /* the same since midnight */
};

/* How the transmit program treats its ring (rodata; one program is loaded per transmit core). */
enum wb_tx_mode {
	WB_TX_STREAM = 0, /* slots are used once, in order, up to `head` */
	WB_TX_REPEAT = 1, /* the first `round_slots` slots go round and round */
};

/* Written by user space, read by the program. */
struct wb_tx_orders {
	__u64 head; /* stream: slots written so far */
	__u64 stop; /* not zero: send nothing more */
	__u64 stop_ns; /* send nothing at or after this time */
	__u64 limit; /* repeat: send no more than this many slots in all */
	__u64 round_slots; /* repeat: slots of a round */
	__u64 round_ns; /* repeat: length of a round, whole nanoseconds … */
	__u64 round_frac; /* … and the rest in 2^-32 ns */
	__u64 patience_ns; /* longest wait inside the kernel before softirqs get their turn */
	__u64 window_ns; /* repeat: every slot is too late when it is so late, and user space counts those; 0: slots say it */
	__u64 until_ns; /* paced: what is due later than this is not waited for in this call */
	__u64 unix_offset_ns; /* the clock of the day less the monotonic one; changes while frames leave */
};

/* Written by the program, read by user space. The second half is on a cache line of its own: the feeder
 * looks at it all the time, and would take the first away from the program. */
struct wb_tx_progress {
	__u64 consumed; /* slots done: sent or expired */
	__u64 slot; /* repeat: index of the next slot */
	__u64 round_start; /* repeat: start of the current round, ns … */
	__u64 round_start_frac; /* … and 2^-32 ns */
	__u64 batch; /* paced: runs whose frames leave together; written by the thread that calls … */
	__u64 place; /* … which begins a call with 0: which of them is next */
	__u64 listened_ns; /* paced: for how long it would have known that the CPU was taken away, in all */
	__u64 seen_ns; /* paced: when it looked at the clock last; set to 0 before a call, which takes its time */

	__u64 released; /* stream: slots that may be written again; follows `consumed` by a few frames */
	__u64 refused; /* runs that could not build their frame; always 0 unless there is a bug */
	__u64 reserved_too[6];
};

/* Counters of one tag, one transmit core. */
struct wb_tx_tag {
	__u64 sent; /* handed to the driver; the next number, unless cores share numbers */
	__u64 expired;
	__u64 first_ns; /* departure of the first and of the last */
	__u64 last_ns;
	__u64 sent_bytes; /* of frames with FCS */
	__u64 sent_payload;
	__u64 expired_bytes;
	__u64 expired_payload;
};

/*
 * When the frames of one tag that had launch times left one transmit core: all that is exact. The buckets lie apart, in a
 * `struct wb_departure_counts`. Gaps are those between its frames on that core.
 */
struct wb_departures {
	struct wb_moments lateness; /* departure less launch time */
	struct wb_moments gap; /* a departure less the one before */
	struct wb_moments longer; /* gaps less the planned ones, of those that were not shorter … */
	struct wb_moments shorter; /* … and the other way round */
	__u64 late; /* how many left later than their drift, or than `late_after_ns` */
	__u64 last_ns; /* the departure before; 0 before the first … */
	__u64 last_late; /* … and how late that was */
	__u64 reserved[5];
};

struct wb_departure_counts {
	__u64 lateness[WB_BUCKETS];
	__u64 gap[WB_BUCKETS];
	__u64 longer[WB_BUCKETS];
	__u64 shorter[WB_BUCKETS];
};

/* ---- receive ---- */

#define WB_PROBE_FLOWS 65536 /* numbers of flows that probes have room for */
#define WB_HEADER_MASKS 64 /* different masks of headers by which frames without a probe are recognised */
#define WB_HEADER_WORDS 5
#define WB_GAPS 64 /* remembered jumps, for the reordering extent */
#define WB_EXTENTS 1024 /* extents counted singly; the last takes all larger ones */
#define WB_WINDOW_WORDS_MIN 64 /* a window has at least so many words, of 32 sequence numbers each … */
#define WB_WINDOW_WORDS 2048 /* … and at most so many: 65,536 numbers */
#define WB_GROWTH_BITS 4 /* log2 of how many times larger one becomes that grows: up to 1,048,576 numbers */
#define WB_BASE (1ull << 32) /* the unwrapped form of wire number 0 */
#define WB_RESTART_AFTER 500000000ull /* ns; crates/meter/src/sequence/mod.rs says why */

/*
 * A flow on all lanes. The first line says which numbers were seen (`Window` in crates/meter/src/sequence/window.rs) and
 * is hardly ever written once frames come; the second is written with each frame that is measured across lanes.
 */
struct wb_flow {
	__u64 highest; /* the highest number believed; 0 before the first. With several CPUs the highest of them may be more */
	__u64 lowest; /* 0 before the first */
	__u64 offset; /* added to numbers from the wire; changes when the sender restarts */
	__u64 restarts;
	/* the rest of the line is written by user space before the start */
	__u64 nominal_gap_ns; /* 0: none */
	__u32 window_at; /* its window in `window`: the first word … */
	__u32 window_words; /* … and how many: a power of two */
	__u32 window_turn; /* log2 of them, less 3: see `word_of` in sequence.h */
	__u32 by_lane; /* 1: what lies between two arrivals is measured on each lane by itself */
	__u32 grown_at; /* the larger window that it has instead since one was needed: the first word; 0: none */
	__u32 reserved;

	__u64 last_ns; /* the latest arrival on any lane; 0 before the first */
	__u64 last_delay; /* ^ WB_SIGN; 0 before the first */
	__u64 conflicting; /* duplicates that are no copies */
	__u64 growing; /* 1: the window became larger, or tried to */
	__u64 known_from; /* of the larger window: what lies before the word of this number (number >> 5) may have been seen … */
	__u64 former_until; /* … and a number up to this may be noted in the former window alone */
	__u64 reserved_too[2];
};

struct wb_gap {
	__u64 arrival; /* number of the arrival that jumped */
	__u64 before; /* the highest number before it */
	__u64 after; /* its own number */
};

/* Measurements of one flow on one lane (bpf/sequence.h): all that is exact. */
struct wb_rx_lane {
	__u64 frames;
	__u64 frame_bytes; /* with FCS */
	__u64 payload_bytes;
	__u64 first_ns;
	__u64 last_ns;
	__s64 last_delay;
	__u64 delays; /* how many delays were measured */

	__u64 duplicates;
	__u64 reordered;
	__u64 beyond_window;
	__u64 implausible;

	/* `Order`: what came before what on this lane */
	__u64 highest;
	__u64 highest_sent;
	__u64 arrivals; /* new numbers: how many are unique */
	__u64 held; /* 1: an arrival in doubt is held */
	__u64 held_wire;
	__u64 held_sent;
	__u64 gap_count;
	__u64 detail; /* number of its `struct wb_detail`; 0 before the first frame */
	__u64 jitter; /* RFC 3550 A.8: sixteen times the interarrival jitter in ns */
	__u64 early; /* how many gaps were shorter than the nominal one */
	__u64 reserved[3]; /* keeps the moments on cache lines of their own */

	struct wb_moments delay;
	struct wb_moments variation;
	struct wb_moments inter_arrival;
	struct wb_moments gap_error;
	struct wb_moments gap_early; /* of those that were too short */
};

/*
 * The histograms of a flow on a lane, and what extents need. The first `lane_count` are shared, each by the flows of its lane that
 * came when all others were taken; nothing is noted in their gaps.
 */
struct wb_detail {
	struct wb_gap gaps[WB_GAPS];
	__u64 extents[WB_EXTENTS];
	__u64 delay[WB_BUCKETS];
	__u64 variation[WB_BUCKETS];
	__u64 inter_arrival[WB_BUCKETS];
	__u64 gap_error[WB_BUCKETS];
	__u64 gap_early[WB_BUCKETS];
};

/*
 * Headers of a frame, in the order of crates/wire/src/headers.rs, and which mask they were taken with. What is not masked
 * is zero.
 */
struct wb_header_key {
	union {
		__u64 words[WB_HEADER_WORDS];
		struct {
			__be16 type;
			__u8 protocol;
			__u8 kind;
			__u8 ports[4];
			__u8 source[16];
			__u8 destination[16];
		};
	};
	__u64 mask;
};

struct wb_header_mask {
	__u64 words[WB_HEADER_WORDS];
};

/* Counters of one CPU; metered frames are counted by lane, of which there are no more. */
struct wb_rx_counters {
	__u64 foreign;
	__u64 malformed;
	__u64 unknown_flow;
	__u64 stale;
	__u64 fragments;
	__u64 frames; /* metered */
	__u64 frame_bytes; /* with FCS */
	__u64 reserved;
};

/* ---- observations: crates/meter/src/observation.rs ---- */

#define WB_OBSERVED_MAX 9216 /* bytes of a frame that an observation may have */
#define WB_OBSERVED_PIECES 128 /* those of them that are copied one by one */
#define WB_OBSERVATION_HEAD 48
#define WB_NO_FLOW 65535

/* Of which frames observations are made. */
enum wb_observe {
	WB_OBSERVE_NONE = 0,
	WB_OBSERVE_METERED = 1, /* those that are metered */
	WB_OBSERVE_ALL = 2,
};

/* What became of a frame: `Standing` in crates/meter/src/observation.rs. */
enum wb_standing {
	WB_NEW = 0, /* its number came for the first time */
	WB_REORDERED = 1, /* the same, and a higher one came before */
	WB_BEYOND_WINDOW = 2, /* so far behind that nobody knows whether it came before */
	WB_DUPLICATE = 3,
	WB_DOUBTFUL = 4, /* far from all others: the next one tells whether it is believed */
	WB_WITHOUT_PROBE = 5, /* metered by its headers, or as a datagram without a probe */
	/* not metered */
	WB_UNKNOWN_FLOW = 6,
	WB_STALE = 7,
	WB_FRAGMENT = 8,
	WB_MALFORMED = 9,
	WB_FOREIGN = 10,
	/* of a sender */
	WB_LEFT = 11,
};

/* An observation. */
struct wb_observation {
	__u64 mark; /* its place among all of its ring, from 1 on; written last */
	__u64 arrived_ns;
	__u64 sent_ns; /* by its probe; 0 without one; of a frame that left, when it was to leave */
	__u32 sequence; /* by its probe, as it is on the wire */
	__u32 frame_len; /* with FCS */
	__u16 flow; /* by its probe; without one, its place among those that are known by their headers, or WB_NO_FLOW */
	__u16 caught; /* how many of its first bytes follow */
	__u16 queue; /* the receive queue */
	__u16 standing; /* enum wb_standing */
	__u32 payload_len; /* of its transport payload, where it is metered; of a frame that left, what it is counted by */
	__u32 reserved;
	__u8 bytes[];
};

/* The head of a ring. The second half is written by the reader. */
struct wb_observer {
	__u64 head; /* observations begun */
	__u64 lost; /* frames of which there was no room for one */
	__u64 seen_consumed; /* `consumed`, when the program last looked */
	__u64 reserved[5];

	__u64 consumed; /* observations read */
	__u64 reserved_too[7];
};

/*
 * What a driver knows of a frame that it received, in the bytes before it (steer_metadata.bpf.c). The reader takes `has` away:
 * the next frame in this place may come without.
 */
#define WB_METADATA 1463943168 /* 0x57420000: that there is one; and beside it which of it there is */
#define WB_METADATA_STAMP 1
#define WB_METADATA_HASH 2
#define WB_METADATA_LEN 16

struct wb_receive_metadata {
	__u64 stamp; /* when it arrived, in nanoseconds of the card's clock */
	__u32 hash; /* by which the card chose its queue */
	__u32 has;
};

/* What a driver answered to redirected frames (accepted.bpf.c). */
struct wb_accepted {
	__u64 frames;  /* that it accepted */
	__u64 refused; /* that it did not */
	__u64 error;   /* errno of the last refusal that had one */
};

#endif
