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
//! its report ([`Format::answer`]):
//!
//! ```text
//!  0              16         20          28             36         40           44
//! +--------------+----------+-----------+--------------+----------+------------+-----------+--------------+----- … ----+
//! | zeros, as in | flags    | bytes, 64 | seconds, mi- | lost,    | reordered, | datagrams | jitter, s    | extension |
//! | the client's |          | bits      | croseconds   | low word | low word   | low word  | and microsec.| (72)      |
//! +--------------+----------+-----------+--------------+----------+------------+-----------+--------------+----- … ----+
//! ```
//! The extension has transit times, which are zero here, and the high words of lost, reordered and datagrams at its end.
//! A client of 2.1.8 was seen to print a report of 56 bytes and one of 128; its server sends 128, and none to
//! datagrams that are shorter. Clients whose numbers have 32 bits (2.0.5) have no zeros at 12. A server takes datagrams that end anywhere behind the microseconds; 2.1.8
//! was seen to report on all of 12, 16, 40, 76 and 152 bytes. Nothing tells these packets from others.

use super::{
    ANSWER_MAX, Account, Clock, Facts, Format, Marks, SECOND_NS, Seen, Sent, SequenceForm,
    TimeForm, ns_of, put_front, u32_at,
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
/// What follows is a report.
const VERSION1: u32 = 0x8000_0000;
/// Bytes of a report without its extension, and of one with it.
const REPORT: usize = 40;
const REPORT_EXTENDED: usize = 112;
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

    fn numbers_flows(&self) -> bool {
        false
    }

    fn answer(&self, last: &[u8], account: &Account, out: &mut [u8; ANSWER_MAX]) -> usize {
        // The number in front stays zero: who gets this by mistake must not take it for a last datagram.
        *out = [0; ANSWER_MAX];
        let wide = u32_at(last, 16).is_some_and(|flags| flags & SEQNO64B != 0);
        let start = if wide { 16 } else { 12 };
        let extended = wide && last.len() >= start + REPORT_EXTENDED;
        let len = start + if extended { REPORT_EXTENDED } else { REPORT };
        if last.len() < len {
            return 0;
        }
        let halves = |value: u64| [(value >> 32) as u32, value as u32];
        let time = |ns: u64| {
            let seconds = u32::try_from(ns / SECOND_NS).unwrap_or(u32::MAX);
            [seconds, (ns % SECOND_NS / 1000) as u32]
        };
        let low = |value: u64| match extended {
            true => value as u32,
            false => u32::try_from(value).unwrap_or(u32::MAX),
        };
        let Account { payload_bytes, span_ns, datagrams, lost, reordered, jitter_ns } = *account;
        let ([bytes_high, bytes_low], [stop, stop_us]) = (halves(payload_bytes), time(span_ns));
        let [jitter, jitter_us] = time(jitter_ns);
        let flags = if extended { VERSION1 | SEQNO64B } else { VERSION1 };
        let counts = [low(lost), low(reordered), low(datagrams)];
        let front = [flags, bytes_high, bytes_low, stop, stop_us];
        let words = front.into_iter().chain(counts).chain([jitter, jitter_us]);
        put_words(out, start, words);
        if extended {
            put_words(out, len - 12, [lost, reordered, datagrams].map(|count| halves(count)[0]));
        }
        len
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

/// Writes words from `at` on, big-endian.
fn put_words(out: &mut [u8], at: usize, words: impl IntoIterator<Item = u32>) {
    let fields = out.get_mut(at..).unwrap_or_default().chunks_exact_mut(4);
    fields.zip(words).for_each(|(field, word)| field.copy_from_slice(&word.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Account = Account {
        payload_bytes: 12_600,
        span_ns: 305_192_500,
        datagrams: 63,
        lost: 0,
        reordered: 0,
        jitter_ns: 16_400,
    };

    /// The last datagram of a client, of so many bytes.
    fn last(len: usize) -> Vec<u8> {
        let mut last = vec![0; len];
        Iperf2.blank(&Facts { flow: 0, destination: ([10, 0, 0, 1], 5001).into() }, &mut last);
        Iperf2.marks().write(&mut last, 63_u64.wrapping_neg(), 5000);
        last
    }

    /// What the server of 2.1.8 was seen to answer to 63 datagrams of 200 bytes, but for the transit times.
    #[test]
    fn the_answer_is_that_of_a_server_of_2_1_8() {
        let mut expected = [0; ANSWER_MAX];
        let words = [0x8800_0000, 0, 0x3138, 0, 0x4_a828, 0, 0, 0x3f, 0, 0x10];
        put_words(&mut expected, 16, words);
        let mut out = [1; ANSWER_MAX];
        assert_eq!(Iperf2.answer(&last(200), &ACCOUNT, &mut out), 128);
        assert_eq!(out, expected);

        let many = Account { lost: 1 << 33, datagrams: 5 << 32 | 7, ..ACCOUNT };
        Iperf2.answer(&last(128), &many, &mut out);
        assert_eq!((u32_at(&out, 36), u32_at(&out, 116)), (Some(0), Some(2)));
        assert_eq!((u32_at(&out, 44), u32_at(&out, 124)), (Some(7), Some(5)));
    }

    #[test]
    fn an_answer_is_no_longer_than_what_asked_for_it() {
        let mut out = [0; ANSWER_MAX];
        for (len, expected) in [(128, 128), (127, 56), (56, 56), (55, 0), (20, 0), (16, 52), (0, 0)]
        {
            let mut last = last(len);
            if len == 16 {
                // a client of 2.0.5: no flags
                last = vec![0xff; 52];
                last[16..20].fill(0);
            }
            assert_eq!(Iperf2.answer(&last, &ACCOUNT, &mut out), expected, "{len} bytes");
            let answer = &out[..expected];
            assert!(answer.len() <= last.len());
            assert!(Iperf2.read(answer).is_none_or(|seen| !seen.last), "{len} bytes");
        }
        let lost = Account { lost: 1 << 40, ..ACCOUNT };
        assert_eq!(Iperf2.answer(&last(56), &lost, &mut out), 56);
        assert_eq!((u32_at(&out, 16), u32_at(&out, 36)), (Some(VERSION1), Some(u32::MAX)));
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
}
