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
    Clock, Facts, Format, Marks, SECOND_NS, Seen, Sent, SequenceForm, TimeForm, field, ns_of,
    put_front, u32_at,
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

/// What a server says it received, in answer to the last datagram. It counts that one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Bytes of payload.
    pub bytes: u64,
    /// From the first datagram to the last, in nanoseconds.
    pub duration_ns: u64,
    /// The highest number: how many the client sent.
    pub datagrams: u64,
    /// Those of them that did not arrive, as the server reckons.
    pub lost: u64,
    /// Those that came after a higher number.
    pub out_of_order: u64,
    /// RFC 1889's jitter at the end, in nanoseconds.
    pub jitter_ns: u64,
    /// One-way delays, as far as the clocks of both hosts agree.
    pub transit: Option<Transit>,
}

/// One-way delays as a server saw them, in nanoseconds. Clocks that disagree make them negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// The smallest.
    pub min_ns: i64,
    /// The largest.
    pub max_ns: i64,
    /// The mean.
    pub mean_ns: i64,
    /// How many there were.
    pub count: u32,
}

/// Bytes before a report: room for the number and time of a datagram, which 2.1.8 leaves zero.
const REPORT: usize = 16;
/// The report's flag that is never set in a client's datagram as it comes back.
const IS_REPORT: u32 = 0x8000_0000;

impl Report {
    /// Reads a datagram from a server; `None` when it is none of its reports. A server that has reported
    /// answers further copies of the last datagram with their own bytes: those are no reports.
    pub fn parse(datagram: &[u8]) -> Option<Report> {
        let report = datagram.get(REPORT..)?;
        let flags = u32_at(report, 0)?;
        if flags & IS_REPORT == 0 {
            return None;
        }
        let wide = |low: usize, high: usize| {
            let high = if flags & SEQNO64B == 0 { 0 } else { u32_at(report, high).unwrap_or(0) };
            Some(u64::from(high) << 32 | u64::from(u32_at(report, low)?))
        };
        let [stop, jitter] = [time_at(report, 12)?, time_at(report, 32)?];
        Some(Report {
            bytes: u64::from_be_bytes(*field(report, 4)?),
            duration_ns: u64::try_from(stop).ok()?,
            lost: wide(20, 100)?,
            out_of_order: wide(24, 104)?,
            datagrams: wide(28, 108)?,
            jitter_ns: u64::try_from(jitter).ok()?,
            transit: if flags & EXTEND == 0 { None } else { transit(report) },
        })
    }
}

/// The second part of a report.
fn transit(report: &[u8]) -> Option<Transit> {
    Some(Transit {
        min_ns: time_at(report, 40)?,
        max_ns: time_at(report, 48)?,
        mean_ns: time_at(report, 64)?,
        count: u32_at(report, 88)?,
    })
}

/// A time of two signed words, seconds and microseconds, in nanoseconds.
fn time_at(bytes: &[u8], at: usize) -> Option<i64> {
    let [seconds, microseconds] = [u32_at(bytes, at)?, u32_at(bytes, at + 4)?].map(|w| w as i32);
    Some(i64::from(seconds) * SECOND_NS as i64 + i64::from(microseconds) * 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::tests::bytes;

    /// What `iperf -u -s` 2.1.8 answered to `iperf -u -c 127.0.0.1 -b 80k -l 200 -t 1`, captured on
    /// loopback. The client printed: 0.0000-1.0201 sec, 10.4 KBytes, 0.006 ms, 0/53,
    /// 0.010/0.002/0.050 ms.
    const REPLY: &str = "\
        00000000000000000000000000000000c8000000000000000000296800000001\
        00004e9100000000000000000000003500000000000000060000000000000002\
        00000000000000320000000000000220000000000000000a00000e9c000b841c\
        00000000fffffffb000000350000003300000001000000000000000000000000";

    #[test]
    fn a_servers_report_says_what_its_client_printed() {
        let transit = Transit { min_ns: 2_000, max_ns: 50_000, mean_ns: 10_000, count: 53 };
        let expected = Report {
            bytes: 10_600,
            duration_ns: 1_020_113_000,
            datagrams: 53,
            lost: 0,
            out_of_order: 0,
            jitter_ns: 6_000,
            transit: Some(transit),
        };
        assert_eq!(Report::parse(&bytes(REPLY)), Some(expected));
    }

    #[test]
    fn a_report_counts_in_64_bits_where_it_says_so() {
        let mut reply = bytes(REPLY);
        reply[16 + 108..].copy_from_slice(&2_u32.to_be_bytes());
        assert_eq!(Report::parse(&reply).map(|report| report.datagrams), Some(2 << 32 | 53));
        reply[16] &= !0x08;
        assert_eq!(Report::parse(&reply).map(|report| report.datagrams), Some(53));
    }

    #[test]
    fn a_short_report_has_no_transit_and_a_client_s_datagram_is_no_report() {
        let reply = bytes(REPLY);
        assert_eq!(Report::parse(&reply[..56]).map(|report| report.transit), Some(None));
        assert_eq!(Report::parse(&reply[..55]), None);
        let mut own = [0; 128];
        let facts = Facts { flow: 0, destination: ([127, 0, 0, 1], 5001).into() };
        Iperf2.blank(&facts, &mut own);
        assert_eq!(Report::parse(&own), None);
    }

    #[test]
    fn numbers_of_32_bits_are_read_where_the_flags_do_not_say_64() {
        let mut packet = [0; 24];
        Iperf2.marks().write(&mut packet, 7_u64.wrapping_neg(), 5000);
        let expected = Seen { flow: None, sequence: 7, sent: Some(Sent::Unix(5000)), last: true };
        assert_eq!(Iperf2.read(&packet), Some(expected));
        assert_eq!(Iperf2.read(&packet[..12]), Some(expected));
        assert_eq!(Iperf2.read(&packet[..11]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_report_or_none(mut datagram: Vec<u8>, marked: bool) {
            if marked && let Some(flags) = datagram.get_mut(16) {
                *flags |= 0xc8;
            }
            let _ = Report::parse(&datagram);
        }
    }
}
