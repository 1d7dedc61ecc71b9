//! Linux pktgen (`struct pktgen_hdr` of net/core/pktgen.c), and the same with a time in nanoseconds, as
//! KTH's receiver patches have it.
//!
//! ```text
//!  0           4           8                       16
//! +-----------+-----------+-----------+-----------+
//! | magic     | sequence  | seconds   | microsec. |   all big-endian
//! +-----------+-----------+-----------+-----------+
//!                         | monotonic nanoseconds |   with KTH's patches
//!                         +-----------------------+
//! ```
//! Both count from 1; with the patches, number 0 is an order to the receiver and no measured packet.
//! pktgen's `NO_TIMESTAMP` leaves the time zero.

use super::{
    Clock, Facts, Format, Marks, Seen, Sent, SequenceForm, TimeForm, field, ns_of, put_front,
    u32_at,
};
use crate::ip::Version;

const LEN: usize = 16;
const MAGIC: [u8; 4] = [0xbe, 0x9b, 0xe9, 0x55];
const SEQUENCE: SequenceForm = SequenceForm::Word { at: 4 };

pub(super) struct Microseconds;

impl Format for Microseconds {
    fn min_len(&self, _: Version) -> usize {
        LEN
    }
    fn first_sequence(&self) -> u64 {
        1
    }
    fn clock(&self) -> Clock {
        Clock::Unix
    }
    fn marks(&self) -> Marks {
        Marks { sequence: SEQUENCE, time: TimeForm::Microseconds { at: 8 } }
    }
    fn blank(&self, _: &Facts, out: &mut [u8]) {
        blank(out);
    }
    fn numbers_flows(&self) -> bool {
        false
    }
    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let (sequence, time) = fields(payload)?;
        let sent = match time {
            [0, 0] => None,
            [seconds, microseconds] => Some(Sent::Unix(ns_of(seconds, microseconds)?)),
        };
        Some(Seen { flow: None, sequence: u64::from(sequence), sent, last: false })
    }
}

pub(super) struct Nanoseconds;

impl Format for Nanoseconds {
    fn min_len(&self, _: Version) -> usize {
        LEN
    }
    fn first_sequence(&self) -> u64 {
        1
    }
    fn clock(&self) -> Clock {
        Clock::Monotonic
    }
    fn marks(&self) -> Marks {
        Marks { sequence: SEQUENCE, time: TimeForm::Nanoseconds { at: 8 } }
    }
    fn blank(&self, _: &Facts, out: &mut [u8]) {
        blank(out);
    }
    fn numbers_flows(&self) -> bool {
        false
    }
    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let (sequence, [high, low]) = fields(payload)?;
        let ns = u64::from(high) << 32 | u64::from(low);
        // The patches' time is signed.
        let sent = (1..=i64::MAX as u64).contains(&ns).then_some(Sent::Monotonic(ns));
        let sequence = u64::from(sequence);
        (sequence != 0).then_some(Seen { flow: None, sequence, sent, last: false })
    }
}

/// The number, and the two words of the time, of a payload with pktgen's magic.
fn fields(payload: &[u8]) -> Option<(u32, [u32; 2])> {
    if *field(payload, 0)? != MAGIC {
        return None;
    }
    Some((u32_at(payload, 4)?, [u32_at(payload, 8)?, u32_at(payload, 12)?]))
}

fn blank(out: &mut [u8]) {
    let mut header = [0; LEN];
    header[..4].copy_from_slice(&MAGIC);
    put_front(out, &header);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u32, time: [u32; 2]) -> Vec<u8> {
        [u32::from_be_bytes(MAGIC), sequence, time[0], time[1], 0].map(u32::to_be_bytes).concat()
    }

    #[test]
    fn a_packet_without_time_has_none() {
        let seen = Seen { flow: None, sequence: 7, sent: None, last: false };
        assert_eq!(Microseconds.read(&packet(7, [0, 0])), Some(seen));
        assert_eq!(Nanoseconds.read(&packet(7, [0, 0])), Some(seen));
        assert_eq!(Nanoseconds.read(&packet(7, [1 << 31, 0])), Some(seen));
    }

    #[test]
    fn an_order_to_the_receiver_is_no_packet() {
        assert_eq!(Nanoseconds.read(&packet(0, [1, 1])), None);
    }
}
