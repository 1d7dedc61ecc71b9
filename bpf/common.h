/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Histograms and moments as the programs keep them. The reference is crates/meter. */
#ifndef WIREBEAT_COMMON_H
#define WIREBEAT_COMMON_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wirebeat.h"

/*
 * Whether a 64-bit variable is at most so much, in a way that all verifiers follow. Old ones (seen: Linux 6.1 and 6.12)
 * learn from a comparison only what it says of the very register that was compared, in 64 bits. The compiler prefers 32
 * bits, and compares a copy. It can do neither with what it knows nothing of.
 */
#define wb_at_most(variable, high)              \
	({                                      \
		barrier_var(variable);          \
		int within = variable <= (high); \
		barrier_var(variable);          \
		within;                         \
	})

/*
 * Whether it is no less than `low` either. The compiler makes one comparison of another register out of two
 * (`v - low < high - low`), and `!= 0`, of which Linux 6.1 learns nothing, out of `>= 1`. The upper bound comes
 * first: Linux 7.2 keeps one range of a value, and cannot take zero out of the middle of one that begins below it.
 */
#define wb_between(variable, low, high)                        \
	({                                                     \
		__u64 least = (low);                           \
		barrier_var(least);                            \
		wb_at_most(variable, high) && variable >= least; \
	})

#define WB_TIMES_4(bit) bit, bit, bit, bit
#define WB_TIMES_16(bit) WB_TIMES_4(bit), WB_TIMES_4(bit), WB_TIMES_4(bit), WB_TIMES_4(bit)
#define WB_TIMES_64(bit) WB_TIMES_16(bit), WB_TIMES_16(bit), WB_TIMES_16(bit), WB_TIMES_16(bit)

/* Position of the highest set bit of a byte. A table, because eBPF has no instruction for it and every
 * step of a search is a branch that goes another way with each value. */
const volatile __u8 top_bit[256] = {
	0, 0, 1, 1, WB_TIMES_4(2), WB_TIMES_4(3), WB_TIMES_4(3), WB_TIMES_16(4), WB_TIMES_16(5),
	WB_TIMES_16(5), WB_TIMES_64(6), WB_TIMES_64(7), WB_TIMES_64(7),
};

/* The bucket of a value below 2^32. */
static __always_inline __u32 near_bucket(__u32 value)
{
	__u32 high = value >> 8, shift = 1;

	if (!high)
		return value;
	if (high >> 8) {
		if (high >> 16) {
			high >>= 16;
			shift += 16;
		} else {
			high >>= 8;
			shift += 8;
		}
	}
	shift += top_bit[high & 0xff];
	return (shift << WB_SUB_BITS) + (value >> (shift & 31));
}

/* The bucket of a value of 2^32 and more. */
static __always_inline __u32 far_bucket(__u64 value)
{
	__u64 top = value >> 32;
	__u32 shift;

	if (value >> (WB_MAX_MSB + 1))
		return WB_BUCKETS - 1;
	/* the compiler would leave the mask out, and the verifier cannot follow why */
	barrier_var(top);
	shift = 32 - WB_SUB_BITS + top_bit[top & 0xff];
	return (shift << WB_SUB_BITS) + (__u32)(value >> (shift & 63));
}

/* Widens the range of values seen. */
static __noinline int extend(struct wb_moments *m, __u64 biased)
{
	if (!m)
		return 0;
	if (!m->lowest) {
		m->lowest = biased;
	} else if (biased < m->lowest) {
		m->range += m->lowest - biased;
		m->lowest = biased;
	} else {
		m->range = biased - m->lowest;
	}
	return 0;
}

/* Adds to the high word of the squares, which ends at its largest value: that many cannot be told. */
static __always_inline void add_squares(struct wb_moments *m, __u64 more)
{
	__u64 sum = m->squares_high + more;

	m->squares_high = sum < more ? ~0ull : sum;
}

/* Takes what has grown beyond 63 bits out of the low words. */
static __noinline int carry(struct wb_moments *m)
{
	if (!m)
		return 0;
	m->sum_high += m->sum_low >> 63;
	m->sum_low &= ~WB_SIGN;
	add_squares(m, m->squares_low >> 63);
	m->squares_low &= ~WB_SIGN;
	return 0;
}

/* Counts a value in its bucket. */
static __always_inline void count_in(__u64 *counts, __u64 bucket)
{
	if (wb_at_most(bucket, WB_BUCKETS - 1))
		counts[bucket]++;
}

/* The rest of `record` for values that are negative, or 2.1 s and more. */
static __noinline int record_far(struct wb_moments *m, __u64 *counts, __s64 value)
{
	__u64 magnitude = value < 0 ? -value : value, high = magnitude >> 32, low = magnitude & 0xffffffff;
	__u64 mixed = high * low, square, above;

	if (!m || !counts)
		return 0;
	m->sum_low += (__u64)value & ~WB_SIGN;
	m->sum_high += value >> 63;

	/* high^2 * 2^64 + 2 * high * low * 2^32 + low^2 */
	square = low * low + (mixed << 33);
	above = high * high + (mixed >> 31) + (square < mixed << 33);
	add_squares(m, above << 1 | square >> 63);
	m->squares_low += square & ~WB_SIGN;
	carry(m);

	if (value < 0) {
		m->negative++;
		return 0;
	}
	count_in(counts, magnitude >> 32 ? far_bucket(magnitude) : near_bucket(magnitude));
	return 0;
}

/* Adds a value to moments and to the counts of a histogram. */
static __always_inline void record(struct wb_moments *m, __u64 *counts, __s64 value)
{
	__u64 magnitude = value, biased = magnitude ^ WB_SIGN, sum, squares;

	if (biased - m->lowest > m->range)
		extend(m, biased);
	if (magnitude >> 31) {
		record_far(m, counts, value);
		return;
	}
	sum = m->sum_low + magnitude;
	m->sum_low = sum;
	squares = m->squares_low + magnitude * magnitude;
	m->squares_low = squares;
	if ((__s64)(sum | squares) < 0)
		carry(m);
	count_in(counts, near_bucket(magnitude));
}

#endif
