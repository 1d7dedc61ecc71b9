//! Which datagrams leave as one message, to be taken apart again further down (UDP_SEGMENT, udp(7)).
//!
//! The kernel carries up to 64 datagrams for one endpoint through its stack as one packet, if all are
//! equally long but the last, which may be shorter. Pure: it looks at lengths and tags.

use crate::slots::Front;

/// The most datagrams in a message: `UDP_MAX_SEGMENTS` of every kernel that has it (128 since 6.9).
const SEGMENTS_MAX: usize = 64;
/// The most bytes in a message: the longest payload of UDP over IPv4.
const BYTES_MAX: usize = 65_507;

/// How many frames from `first` on can be one message. Only frames that were committed together are
/// joined, so that a frame that is committed alone leaves alone.
pub(super) fn joinable(front: &Front<'_>, first: usize, endpoint_of: &[Option<u32>]) -> usize {
    let endpoint = |index: usize| endpoint_of.get(front.tag(index) as usize).copied().flatten();
    let size = front.bytes(first);
    let (mut count, mut bytes) = (1, size);
    while count < SEGMENTS_MAX && first + count < front.len() {
        let next = first + count;
        let len = front.bytes(next);
        bytes += len;
        let fits = (1..=size).contains(&len) && bytes <= BYTES_MAX;
        if !fits || !front.with_previous(next) || endpoint(next) != endpoint(first) {
            break;
        }
        count += 1;
        if len < size {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use wirebeat_engine::port::{TxMeta, TxPlan};
    use wirebeat_units::BufferLen;

    use super::*;
    use crate::slots::{BATCH, Slots};

    /// Two tags for endpoint 0, one for endpoint 1.
    const ENDPOINTS: [Option<u32>; 3] = [Some(0), Some(0), Some(1)];

    /// The messages that commits of `(length, tag)` become.
    fn messages(commits: &[&[(u16, u32)]]) -> Vec<usize> {
        let plan =
            TxPlan { tags: 3, frame_max: BufferLen::new(u16::MAX.into()), ..TxPlan::default() };
        let mut slots = Slots::new(&plan).unwrap();
        for commit in commits {
            slots.reserve(commit.len());
            let metas: Vec<_> =
                commit.iter().map(|&(len, tag)| TxMeta { len, tag, ..TxMeta::default() }).collect();
            slots.commit("test", &metas).unwrap();
        }
        let front = slots.front();
        let mut first = 0;
        let mut counts = Vec::new();
        while first < front.len() {
            counts.push(joinable(&front, first, &ENDPOINTS));
            first += counts.last().unwrap();
        }
        counts
    }

    #[test]
    fn equal_lengths_for_one_endpoint_are_joined() {
        assert_eq!(messages(&[&[(18, 0); 5]]), [5]);
        assert_eq!(messages(&[&[(18, 0), (18, 1), (18, 0)]]), [3], "two tags, one endpoint");
        assert_eq!(messages(&[&[(18, 0), (18, 2), (18, 0)]]), [1, 1, 1], "two endpoints");
        assert_eq!(messages(&[&[(18, 0); BATCH]]), [64]);
    }

    #[test]
    fn a_shorter_one_ends_a_message() {
        assert_eq!(messages(&[&[(18, 0), (18, 0), (17, 0), (18, 0), (18, 0)]]), [3, 2]);
        assert_eq!(messages(&[&[(17, 0), (18, 0), (18, 0)]]), [1, 2]);
    }

    #[test]
    fn empty_datagrams_are_never_joined() {
        assert_eq!(messages(&[&[(0, 0), (0, 0)]]), [1, 1]);
        assert_eq!(messages(&[&[(18, 0), (0, 0), (18, 0)]]), [1, 1, 1]);
    }

    #[test]
    fn a_message_is_no_longer_than_a_datagram_may_be() {
        assert_eq!(messages(&[&[(1472, 0); 50]]), [44, 6]);
        assert_eq!(messages(&[&[(32_754, 0); 2]]), [1, 1]);
        assert_eq!(messages(&[&[(32_753, 0); 2]]), [2]);
        assert_eq!(messages(&[&[(u16::MAX, 0); 2]]), [1, 1]);
    }

    #[test]
    fn what_was_committed_apart_leaves_apart() {
        assert_eq!(messages(&[&[(18, 0)], &[(18, 0)], &[(18, 0); 3]]), [1, 1, 3]);
    }
}
