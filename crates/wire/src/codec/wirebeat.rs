//! Wirebeat's own probe, at the end of the payload. [`crate::probe`] has its layout.

use super::{Clock, Facts, Format, Marks, Place, Seen, Sent};
use crate::ip::Version;
use crate::probe::{self, Probe};

pub(super) struct Wirebeat;

impl Format for Wirebeat {
    fn min_len(&self, _: Version) -> usize {
        probe::LEN
    }
    fn place(&self) -> Place {
        Place::Tail
    }
    fn first_sequence(&self) -> u64 {
        0
    }
    fn clock(&self) -> Clock {
        Clock::Monotonic
    }
    fn marks(&self) -> Marks {
        Marks::WIREBEAT
    }

    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        if let Some(tail) = out.last_chunk_mut() {
            *tail = Probe { flow: facts.flow as u16, sequence: 0, transmit_ns: 0 }.to_bytes();
        }
    }

    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let probe = Probe::from_tail(payload)?;
        Some(Seen {
            flow: Some(u32::from(probe.flow)),
            sequence: u64::from(probe.sequence),
            sent: Some(Sent::Monotonic(probe.transmit_ns)),
            last: false,
        })
    }
}
