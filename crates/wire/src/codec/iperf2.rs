//! iperf 2 over UDP (include/payloads.h of 2.1.8): the datagrams of a client, and the server's report.
//!
//! ```text
//!  0           4           8           12          16          20
//! +-----------+-----------+-----------+-----------+-----------+------ … ------+
//! | number    | seconds   | microsec. | number,   | flags     | what is asked |   big-endian
//! | low word  |           |           | high word |           | of the server |
//! +-----------+-----------+-----------+-----------+-----------+------ … ------+
//! ```
//! Numbers are signed, count from 1, and have 64 bits where the flags say so. The last datagram has its
//! number negated; a client repeats it, each time with the next number, until the server answers with
//! its report ([`Report`]). A server takes datagrams that end anywhere behind the microseconds; 2.1.8
//! was seen to report on all of 12, 16, 40, 76 and 152 bytes. Nothing tells these packets from others.

use super::{
    Clock, Facts, Format, Marks, Seen, Sent, SequenceForm, TimeForm, ns_of, put_front, u32_at,
};
use crate::ip::Version;

/// Bytes of the client's header that are written, where the datagram has room for them.
const HEADER: usize = 76;
/// The header has a second part, which tells the peer's version.
const EXTEND: u32 = 0x4000_0000;
/// Numbers have 64 bits.
const SEQNO64B: u32 = 0x0800_0000;
/// The low half of the flags has twice the length of the header.
const LEN_BIT: u32 = 0x0001_0000;
const FLAGS: u32 = EXTEND | SEQNO64B | LEN_BIT | (HEADER as u32) << 1;
/// The version whose header this is, 2.1.8, as that version writes it (stage 3: a release).
const VERSION: [u32; 2] = [0x0002_0001, 0x0008_0003];

pub(super) struct Iperf2;

impl Format for Iperf2 {
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
        Marks {
            sequence: SequenceForm::Halves { low_at: 0, high_at: 12 },
            time: TimeForm::Microseconds { at: 4 },
        }
    }

    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let mut header = [0; HEADER];
        let mut put = |at: usize, word: u32| {
            if let Some(field) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                *field = word.to_be_bytes();
            }
        };
        put(16, FLAGS);
        put(20, 1); // threads
        put(24, u32::from(facts.destination.port()));
        put(28, u32::try_from(out.len()).unwrap_or(u32::MAX));
        // Window, amount and rate stay zero: they are for tests that the server is to run back.
        put(52, VERSION[0]);
        put(56, VERSION[1]);
        put_front(out, &header);
    }

    fn last(&self, sequence: u64) -> Option<u64> {
        Some(sequence.wrapping_neg())
    }

    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let low = u32_at(payload, 0)?;
        let sent = Some(Sent::Unix(ns_of(u32_at(payload, 4)?, u32_at(payload, 8)?)?));
        let number = match (u32_at(payload, 12), u32_at(payload, 16)) {
            (Some(high), Some(flags)) if flags & SEQNO64B != 0 => {
                (u64::from(high) << 32 | u64::from(low)) as i64
            }
            _ => i64::from(low as i32),
        };
        Some(Seen { flow: None, sequence: number.unsigned_abs(), sent, last: number < 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_32_bits_are_read_where_the_flags_do_not_say_64() {
        let mut packet = [0; 24];
        Iperf2.marks().write(&mut packet, 7_u64.wrapping_neg(), 5000);
        let expected = Seen { flow: None, sequence: 7, sent: Some(Sent::Unix(5000)), last: true };
        assert_eq!(Iperf2.read(&packet), Some(expected));
        assert_eq!(Iperf2.read(&packet[..12]), Some(expected));
        assert_eq!(Iperf2.read(&packet[..11]), None);
    }
}
