//! D-ITG's headers over UDP (ITGSend.cpp, ITG.h of 2.8.1): the standard and the short one.
//!
//! ```text
//!  0           4           8           12          16
//! +-----------+-----------+-----------+-----------+
//! | flow      | sequence  | seconds   | microsec. |   standard; all big-endian
//! +-----------+-----------+-----------+-----------+
//! | flow      | sequence  |                           short
//! +-----------+-----------+
//! ```
//! The seconds count from midnight, UTC. Numbers count from 1. Nothing tells these packets from others.

use super::{
    Clock, DAY_NS, Facts, Format, Marks, Seen, Sent, SequenceForm, TimeForm, ns_of, put_front,
    u32_at,
};
use crate::ip::Version;

const SEQUENCE: SequenceForm = SequenceForm::Word { at: 4 };

pub(super) struct Standard;

impl Format for Standard {
    fn min_len(&self, _: Version) -> usize {
        16
    }
    fn first_sequence(&self) -> u64 {
        1
    }
    fn clock(&self) -> Clock {
        Clock::Unix
    }
    fn marks(&self) -> Marks {
        Marks { sequence: SEQUENCE, time: TimeForm::OfDay { at: 8 } }
    }
    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&facts.flow.to_be_bytes());
        put_front(out, &header);
    }
    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let ns = ns_of(u32_at(payload, 8)?, u32_at(payload, 12)?)?;
        let sent = (ns < DAY_NS).then_some(Sent::OfDay(ns))?;
        Some(Seen { sent: Some(sent), ..Short.read(payload)? })
    }
    fn may_begin(&self, seen: &Seen) -> bool {
        Short.may_begin(seen)
    }
}

pub(super) struct Short;

impl Format for Short {
    fn min_len(&self, _: Version) -> usize {
        8
    }
    fn first_sequence(&self) -> u64 {
        1
    }
    fn clock(&self) -> Clock {
        Clock::None
    }
    fn marks(&self) -> Marks {
        Marks { sequence: SEQUENCE, time: TimeForm::None }
    }
    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let mut header = [0; 8];
        header[..4].copy_from_slice(&facts.flow.to_be_bytes());
        put_front(out, &header);
    }
    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let flow = Some(u32_at(payload, 0)?);
        Some(Seen { flow, sequence: u64::from(u32_at(payload, 4)?), sent: None, last: false })
    }
    fn may_begin(&self, seen: &Seen) -> bool {
        // ITGSend numbers flows from 1 in the order of its script, and packets from 1.
        seen.flow.is_some_and(|flow| flow <= MAX_FLOW) && (1..=MAX_FIRST).contains(&seen.sequence)
    }
}

/// More flows than this no script of ITGSend has, and no probe of ours can tell apart.
const MAX_FLOW: u32 = 0xffff;
/// More packets than this are not missed before the first that is seen: an hour at a million in a second.
const MAX_FIRST: u64 = 3_600_000_000;

#[cfg(test)]
mod tests {
    use crate::codec::Codec;

    #[test]
    fn a_short_header_is_not_found_in_any_payload() {
        let begins = |payload: &[u8]| {
            Codec::DitgShort.read(payload).is_some_and(|seen| Codec::DitgShort.may_begin(&seen))
        };
        let header = |flow: u32, number: u32| [flow.to_be_bytes(), number.to_be_bytes()].concat();
        assert!(begins(&header(1, 1)) && begins(&header(7, 100_000)) && begins(&header(0, 1)));
        assert!(!begins(&[0; 60]) && !begins(b"GET / HTTP/1.1\r\n"));
        assert!(
            !begins(&header(70_000, 1)) && !begins(&header(1, 0)) && !begins(&header(1, u32::MAX))
        );
        assert!(!begins(&[1; 7]));
        // 16 of 2^16 random payloads are taken for one at the most
        let mut state = 1u64;
        let found = (0..1 << 16).filter(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            begins(&(state ^ state >> 29).to_be_bytes())
        });
        assert!(found.count() <= 16);
    }
}
