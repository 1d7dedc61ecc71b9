//! What goes with a frame between the program and the driver, in the bytes before it: orders for one that is sent, and the
//! driver's answer (`struct xsk_tx_metadata` of `linux/if_xdp.h`, `Documentation/networking/xsk-tx-metadata.rst`, Linux 6.8); and
//! what the driver knew of one that arrived, as `bpf/steer_metadata.bpf.c` writes it.
//!
//! Times are nanoseconds of the card's clock, all numbers of the machine's byte order. Drivers need not obey an order, and say
//! nothing then.

use wirebeat_engine::port::CardStamps;
use wirebeat_meter::distribution::Recorder;
use wirebeat_units::Nanos;

use crate::card::{Asked, Conversion};
use crate::kernel::skeletons::constants::{
    WB_METADATA, WB_METADATA_HASH, WB_METADATA_LEN, WB_METADATA_STAMP,
};

/// Bytes of `struct xsk_tx_metadata`: flags, and orders or the answer.
pub(super) const ORDER_LEN: usize = 24;
/// Where a frame begins in its chunk: behind its orders, and aligned for copies.
pub(super) const ORDER_ROOM: usize = 32;
/// XDP_TX_METADATA, an option of a descriptor: that there are orders before the frame.
pub(super) const HAS_ORDER: u32 = libc::XDP_TX_METADATA;
/// XDP_TXMD_FLAGS_TIMESTAMP.
const STAMP: u64 = libc::XDP_TXMD_FLAGS_TIMESTAMP as u64;
/// XDP_TXMD_FLAGS_LAUNCH_TIME (Linux 6.14).
const LAUNCH: u64 = 1 << 2;
/// Where the driver writes when a frame left.
const ANSWER_AT: usize = 8;
/// Where the order has the launch time.
const LAUNCH_AT: usize = 16;
/// The time between two frames that ask for their stamps, at least: as it is for other engines, so that their samples compare.
const APART: Nanos = Nanos::from_millis(1);

/// What is ordered for a frame that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// When it is to leave, by the card's clock; `None`: at once.
    pub(super) launch: Option<u64>,
    /// That the driver says when it left.
    pub(super) stamp: bool,
}

impl Order {
    /// Nothing.
    pub(super) fn is_none(self) -> bool {
        self == Order::default()
    }

    /// As it stands before a frame.
    pub(super) fn bytes(self) -> [u8; ORDER_LEN] {
        let mut bytes = [0; ORDER_LEN];
        let flags = if self.stamp { STAMP } else { 0 } | self.launch.map_or(0, |_| LAUNCH);
        bytes[..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[LAUNCH_AT..].copy_from_slice(&self.launch.unwrap_or(0).to_ne_bytes());
        bytes
    }
}

/// The driver's answer: when a frame left, by the card's clock.
pub(super) fn answer(before: &[u8]) -> Option<u64> {
    let bytes = before.get(ANSWER_AT..)?.first_chunk()?;
    // no order has anything there
    Some(u64::from_ne_bytes(*bytes)).filter(|stamp| *stamp > 0)
}

/// Bytes before a frame that arrived.
pub(super) const KNOWN_LEN: usize = WB_METADATA_LEN as usize;

/// What the driver knew of a frame that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// When it arrived, by the card's clock.
    pub(super) stamp: Option<u64>,
    /// What the card chose its queue by.
    pub(super) hash: Option<u32>,
}

impl Known {
    /// Takes it from the bytes before a frame: the next frame in this place may come without.
    pub(super) fn take(before: &mut [u8]) -> Known {
        let Some(bytes) = before.first_chunk_mut::<KNOWN_LEN>() else { return Known::default() };
        let (stamp, rest) = bytes.split_at_mut(8);
        let (hash, has) = rest.split_at_mut(4);
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let flags = word(has);
        has.fill(0);
        if flags & !(WB_METADATA_STAMP | WB_METADATA_HASH) != WB_METADATA {
            return Known::default();
        }
        let stamp = stamp.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Known {
            stamp: (flags & WB_METADATA_STAMP != 0).then_some(stamp),
            hash: (flags & WB_METADATA_HASH != 0).then_some(word(hash)),
        }
    }
}

/// Which frames that are sent ask for their stamps, and what came of it: one at a time, and none sooner than a millisecond after
/// the last, of each batch another place.
#[derive(Debug)]
pub(super) struct SentSample {
    conversion: Conversion,
    next: Nanos,
    turn: usize,
    /// The chunk of the frame whose stamp is to come.
    waiting: Option<(usize, Asked)>,
    asked: u64,
    stamped: u64,
    send_lateness: Recorder,
    hand_over: Recorder,
}

impl SentSample {
    pub(super) fn new(conversion: Conversion) -> SentSample {
        SentSample {
            conversion,
            next: Nanos::ZERO,
            turn: 0,
            waiting: None,
            asked: 0,
            stamped: 0,
            send_lateness: Recorder::default(),
            hand_over: Recorder::default(),
        }
    }

    /// Which of the next `count` frames asks, if one does.
    #[inline]
    pub(super) fn pick(&self, now: Nanos, count: usize) -> Option<usize> {
        (count > 0 && self.waiting.is_none() && now >= self.next).then(|| self.turn % count)
    }

    /// The frame in this chunk asks.
    pub(super) fn ask(&mut self, chunk: usize, asked: Asked) {
        self.next = asked.at.saturating_add(APART);
        self.turn = self.turn.wrapping_add(1);
        self.asked += 1;
        self.waiting = Some((chunk, asked));
    }

    /// Whether the frame in this chunk, which the kernel is done with, has asked.
    #[inline]
    pub(super) fn is_of(&self, chunk: usize) -> bool {
        self.waiting.is_some_and(|(of, _)| of == chunk)
    }

    /// The answer to the one that waits; `None`: the driver has none.
    pub(super) fn take(&mut self, stamp: Option<u64>) {
        let Some((asked, stamp)) = self.waiting.take().map(|(_, asked)| asked).zip(stamp) else {
            return;
        };
        self.conversion.refresh();
        let left = self.conversion.convert(stamp);
        self.stamped += 1;
        self.hand_over.record(left.signed_sub(asked.at));
        if asked.due > Nanos::ZERO {
            self.send_lateness.record(left.signed_sub(asked.due));
        }
    }

    /// What there was.
    pub(super) fn stamps(&self) -> CardStamps {
        CardStamps {
            asked: self.asked,
            sent: self.stamped,
            send_lateness: self.send_lateness.distribution(),
            hand_over: self.hand_over.distribution(),
            error: self.conversion.error(),
            ..CardStamps::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::of_test;

    /// By the C compiler, of `struct xsk_tx_metadata` in Linux 6.14.
    #[test]
    fn orders_lie_as_the_kernel_reads_them() {
        let order = Order { launch: Some(0x0102_0304_0506_0708), stamp: true };
        let bytes = order.bytes();
        assert_eq!(u64::from_ne_bytes(bytes[..8].try_into().unwrap()), 1 | 4);
        assert_eq!(bytes[8..16], [0; 8]);
        assert_eq!(u64::from_ne_bytes(bytes[16..].try_into().unwrap()), 0x0102_0304_0506_0708);
        assert_eq!(Order::default().bytes(), [0; ORDER_LEN]);
        assert!(Order::default().is_none() && !order.is_none());
        assert_eq!(answer(&bytes), None, "nobody answered");
        let mut answered = bytes;
        answered[8..16].copy_from_slice(&77_u64.to_ne_bytes());
        assert_eq!(answer(&answered), Some(77));
        assert_eq!(answer(&[]), None);
    }

    fn before(stamp: u64, hash: u32, has: u32) -> Vec<u8> {
        let mut bytes = stamp.to_ne_bytes().to_vec();
        bytes.extend(hash.to_ne_bytes());
        bytes.extend(has.to_ne_bytes());
        bytes
    }

    #[test]
    fn what_a_driver_knew_is_taken_once() {
        let both = WB_METADATA | WB_METADATA_STAMP | WB_METADATA_HASH;
        for (has, expected) in [
            (both, Known { stamp: Some(9), hash: Some(7) }),
            (WB_METADATA | WB_METADATA_HASH, Known { stamp: None, hash: Some(7) }),
            (WB_METADATA | WB_METADATA_STAMP, Known { stamp: Some(9), hash: None }),
            (WB_METADATA, Known::default()),
            // bytes of a frame that lay here, and of another program
            (0, Known::default()),
            (3, Known::default()),
            (u32::MAX, Known::default()),
        ] {
            let mut bytes = before(9, 7, has);
            assert_eq!(Known::take(&mut bytes), expected, "{has:x}");
            assert_eq!(Known::take(&mut bytes), Known::default());
        }
        assert_eq!(Known::take(&mut [0; 3]), Known::default());
    }

    #[test]
    fn one_frame_at_a_time_asks_and_of_each_batch_another() {
        let mut sample = SentSample::new(of_test(1_000));
        let at = |us| Nanos::from_micros(us);
        assert_eq!(sample.pick(at(10), 0), None);
        let first = sample.pick(at(10), 4).unwrap();
        sample.ask(12, Asked { socket: 0, due: at(9), at: at(10) });
        assert_eq!(sample.pick(at(9_000), 4), None, "one is on its way");
        assert!(sample.is_of(12) && !sample.is_of(13));
        sample.take(Some(15_000 + 1_000));
        assert!(!sample.is_of(12));
        assert_eq!(sample.pick(at(1_009), 4), None, "too soon");
        assert_ne!(sample.pick(at(1_010), 4), Some(first));
        sample.ask(13, Asked { socket: 0, due: Nanos::ZERO, at: at(1_010) });
        sample.take(None);
        let stamps = sample.stamps();
        assert_eq!((stamps.asked, stamps.sent), (2, 1));
        assert_eq!(stamps.send_lateness.moments.max, 6_000);
        assert_eq!(stamps.hand_over.moments.max, 5_000);
    }
}
