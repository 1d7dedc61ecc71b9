// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How many redirected frames a driver has accepted. Drivers disagree on which of their own counters has them: some count
 * them late, some not at all (vmxnet3). What they answer to each call is the same everywhere, and the kernel tells it by
 * the tracepoint xdp_devmap_xmit (kernel/bpf/devmap.c): once for up to 16 frames.
 */
#include "common.h"

#include <bpf/bpf_tracing.h>

/* The fields that are read of the kernel's own types; where they lie is taken from the running kernel's BTF. */
#define FROM_KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} FROM_KERNEL;

struct net {
	struct ns_common ns;
} FROM_KERNEL;

typedef struct {
	struct net *net;
} FROM_KERNEL possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} FROM_KERNEL;

/* Set before loading: the device, and the inode of its network namespace. */
const volatile __u32 device;
const volatile __u32 network;

struct wb_accepted accepted SEC(".bss.accepted");

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(wb_count_accepted, const struct net_device *from, const struct net_device *to, int sent, int drops, int err)
{
	if (to->ifindex != (int)device || to->nd_net.net->ns.inum != network)
		return 0;
	if (sent > 0)
		__sync_fetch_and_add(&accepted.frames, sent);
	if (drops > 0)
		__sync_fetch_and_add(&accepted.refused, drops);
	if (err < 0)
		accepted.error = -err;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
