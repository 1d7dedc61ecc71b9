/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Histograms and moments as the programs keep them. The reference is crates/meter. */
#ifndef WIREBEAT_COMMON_H
#define WIREBEAT_COMMON_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wirebeat.h"

/* Position of the highest set bit of a value below 2^37 and not below 2^8. */
static __always_inline __u32 msb(__u64 value)
{
	__u32 low = value, at = 0;

	if (value >> 32) {
		low = value >> 32;
		at = 32;
	}
	if (low >> 16) {
		low >>= 16;
		at += 16;
	}
	if (low >> 8) {
		low >>= 8;
		at += 8;
	}
	if (low >> 4) {
		low >>= 4;
		at += 4;
	}
	if (low >> 2) {
		low >>= 2;
		at += 2;
	}
	return at + (low >> 1);
}

static __always_inline __u32 bucket_of(__u64 value)
{
	__u32 shift;

	if (value < 2u << WB_SUB_BITS)
		return value;
	if (value >> (WB_MAX_MSB + 1))
		return WB_BUCKETS - 1;
	shift = msb(value) - WB_SUB_BITS;
	return (shift << WB_SUB_BITS) + (__u32)(value >> shift);
}

/* Adds a value to moments and histogram. */
static __always_inline void record(struct wb_distribution *into, __s64 value)
{
	struct wb_moments *m = &into->moments;
	__u64 magnitude = value < 0 ? -value : value;
	__u64 low, square, shifted;
	__u32 bucket;

	if (m->count == 0) {
		m->min = value;
		m->max = value;
	} else if (value < m->min) {
		m->min = value;
	} else if (value > m->max) {
		m->max = value;
	}
	m->count++;

	low = m->sum_low + (__u64)value;
	m->sum_high += (value >> 63) + (low < m->sum_low);
	m->sum_low = low;

	if (magnitude >> 32) {
		/* exact to 2^-16 of the value from 4.3 s on; cut at 2^48 ns (78 h) */
		shifted = magnitude >> 48 ? 0xffffffff : magnitude >> 16;
		square = shifted * shifted;
		m->squares_high += square >> 32;
		square <<= 32;
	} else {
		square = magnitude * magnitude;
	}
	low = m->squares_low + square;
	m->squares_high += low < square;
	m->squares_low = low;

	if (value < 0) {
		m->negative++;
		return;
	}
	bucket = bucket_of(magnitude);
	if (bucket < WB_BUCKETS)
		into->counts[bucket]++;
}

#endif
