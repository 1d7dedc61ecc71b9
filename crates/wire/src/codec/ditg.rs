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
}
