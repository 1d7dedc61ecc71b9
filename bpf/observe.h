/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Observations: what the receiving or the transmitting program tells user space of each frame, through one ring for each CPU that both map. No
 * system call for a frame, and no wait: what finds its ring full is counted as lost.
 *
 * The ring has one writer, the program on its CPU, and one reader. An observation is complete when its `mark` says so,
 * which is written last. The reader's half of a ring's head is on a cache line of its own, and looked at only when the
 * ring seems full.
 */
#ifndef WIREBEAT_OBSERVE_H
#define WIREBEAT_OBSERVE_H

#include "common.h"

/* Set before loading. */
const volatile __u32 observe; /* enum wb_observe */
const volatile __u32 observed_bytes; /* bytes from the start of a frame that are handed on: a multiple of 8, WB_OBSERVED_MAX at most */
const volatile __u32 observation_slots; /* of each ring: a power of two */

/* Never read: so that BTF, and with it user space, has the type of what stands in the rings. */
const volatile struct wb_observation observation_layout;

_Static_assert(__builtin_offsetof(struct wb_observation, bytes) == WB_OBSERVATION_HEAD, "bytes begin behind the head");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* one for each CPU */
	__type(key, __u32);
	__type(value, struct wb_observer);
} observers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the rings, one after the other; set before loading, like the value's size */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WB_OBSERVATION_HEAD);
} observations SEC(".maps");

/* What is known of a frame before it is written down. */
struct wb_observed {
	__u64 arrived_ns;
	__u64 sent_ns;
	__u32 sequence;
	__u32 frame_len;
	__u16 flow;
	__u16 standing;
	__u32 payload_len;
};

/* Copies what is asked for behind the first WB_OBSERVED_PIECES bytes of a longer frame, and says how many bytes there are in all. */
static __always_inline __u32 copy_rest(struct xdp_md *ctx, struct wb_observation *to, __u64 len)
{
	__u64 rest = len > observed_bytes ? observed_bytes : len;

	rest -= WB_OBSERVED_PIECES;
	if (!wb_between(rest, 1, (__u64)observed_bytes - WB_OBSERVED_PIECES))
		return WB_OBSERVED_PIECES;
	if (bpf_xdp_load_bytes(ctx, WB_OBSERVED_PIECES, to->bytes + WB_OBSERVED_PIECES, rest))
		return WB_OBSERVED_PIECES;
	return WB_OBSERVED_PIECES + rest;
}

/*
 * Copies the first bytes of a frame, as many as are asked for and as lie in one piece, and says how many. In pieces of 8 at
 * offsets that are known beforehand, up to WB_OBSERVED_PIECES: for these few a helper (bpf_xdp_load_bytes) costs more than the
 * bytes. What is left at the end is one more piece that overlaps the one before it.
 */
static __always_inline __u32 copy_first(struct xdp_md *ctx, struct wb_observation *to)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 len = end - data, at;
	__u32 done = 0, i;

#pragma unroll
	for (i = 0; i < WB_OBSERVED_PIECES; i += 8) {
		if (i + 8 > observed_bytes || data + i + 8 > end)
			break;
		*(__u64 *)(to->bytes + i) = *(__u64 *)(data + i);
		done = i + 8;
	}
	if (done >= observed_bytes || len == done)
		return done;
	if (done == WB_OBSERVED_PIECES)
		return copy_rest(ctx, to, len);
	/* it ended before the bytes that are asked for */
	if (!wb_between(len, 8, WB_OBSERVED_PIECES))
		return done;
	at = len - 8;
	if (!wb_at_most(at, (__u64)observed_bytes - 8))
		return done;
	if (data + at + 8 > end)
		return done;
	*(__u64 *)(to->bytes + at) = *(__u64 *)(data + at);
	return len;
}

/* Writes an observation down. Not static for the sake of the verifier (headers.h). */
__noinline int wb_observe(struct xdp_md *ctx, struct wb_observed *seen)
{
	__u32 cpu = bpf_get_smp_processor_id(), at;
	struct wb_observer *mine = bpf_map_lookup_elem(&observers, &cpu);
	struct wb_observation *to;
	__u64 head;

	if (!seen || !mine)
		return 0;
	head = mine->head;
	if (head - mine->seen_consumed >= observation_slots) {
		mine->seen_consumed = mine->consumed;
		if (head - mine->seen_consumed >= observation_slots)
			goto lost;
	}
	/* softirqs of one CPU do not come between each other, but on kernels that let go of that promise (PREEMPT_RT) */
	if (__sync_val_compare_and_swap(&mine->head, head, head + 1) != head)
		goto lost;
	at = cpu * observation_slots + (head & (observation_slots - 1));
	to = bpf_map_lookup_elem(&observations, &at);
	if (!to)
		goto lost;
	to->arrived_ns = seen->arrived_ns;
	to->sent_ns = seen->sent_ns;
	to->sequence = seen->sequence;
	to->frame_len = seen->frame_len;
	to->flow = seen->flow;
	to->queue = ctx->rx_queue_index;
	to->standing = seen->standing;
	to->payload_len = seen->payload_len;
	to->caught = observed_bytes ? copy_first(ctx, to) : 0;
	/* with a barrier: a reader that sees the mark sees the rest */
	__sync_lock_test_and_set(&to->mark, head + 1);
	return 0;
lost:
	__sync_fetch_and_add(&mine->lost, 1);
	return 0;
}

#endif
