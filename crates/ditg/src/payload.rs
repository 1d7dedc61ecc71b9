//! What the payload of D-ITG's packets begins with, and its clock.
//!
//! ```text
//!  0        4        8         12            16
//! +--------+--------+---------+-------------+--------+
//! | flow   | number | seconds | microsec.   | size   |   standard; the size is there over TCP alone
//! +--------+--------+---------+-------------+--------+
//! | flow   | number | size   |                          short; the size is there over TCP alone
//! +--------+--------+--------+
//! ```
//! All big-endian (ITGSend.cpp of 2.8.1). Numbers count from 1, seconds from midnight, UTC. The size is that of the whole message.
//! Where nothing is in front (`-p 2`), a datagram is a packet, and over TCP what one read gives.

use wirebeat_units::Nanos;

use crate::control::{PayloadKind, Transport};

/// The largest payload of a packet (`MAX_PAYLOAD_SIZE`).
pub const SIZE_MAX: usize = 64_000;
/// The longest header.
pub const HEADER_MAX: usize = 20;
/// A day.
const DAY_NS: u64 = 86_400_000_000_000;

/// A point in a day, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOfDay(Nanos);

impl TimeOfDay {
    /// That of a time since 1970.
    pub fn of(unix: Nanos) -> TimeOfDay {
        TimeOfDay(Nanos::new(unix.get() % DAY_NS))
    }

    /// From the words of a header; `None` where they are no time of a day.
    fn from_words(seconds: u32, micros: u32) -> Option<TimeOfDay> {
        let ns = u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000;
        (micros < 1_000_000 && ns < DAY_NS).then_some(TimeOfDay(Nanos::new(ns)))
    }

    /// Since midnight.
    pub fn since_midnight(self) -> Nanos {
        self.0
    }

    /// From this time to `later`, in nanoseconds: within half a day either way, so that midnight may be between them.
    pub fn until(self, later: TimeOfDay) -> i64 {
        let (day, half) = (DAY_NS.cast_signed(), DAY_NS.cast_signed() / 2);
        let apart = later.0.signed_sub(self.0);
        match apart {
            apart if apart > half => apart - day,
            apart if apart <= -half => apart + day,
            apart => apart,
        }
    }
}

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of its flow.
    pub flow: u32,
    /// Its own number.
    pub sequence: u32,
    /// When it was sent.
    pub sent: Option<TimeOfDay>,
    /// Bytes of the whole message, over TCP.
    pub size: Option<u32>,
}

/// Bytes of a header.
pub const fn header_len(transport: Transport, kind: PayloadKind) -> usize {
    let size = if matches!(transport, Transport::Tcp) { 4 } else { 0 };
    match kind {
        PayloadKind::Standard => 16 + size,
        PayloadKind::Short => 8 + size,
        PayloadKind::None => 0,
    }
}

/// The word at this place.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// The number of a flow, which a packet begins with.
pub fn flow_of(bytes: &[u8]) -> Option<u32> {
    word(bytes, 0)
}

impl Header {
    /// Reads one; `None` where the bytes are too few, hold no time of a day, or where there is none.
    pub fn read(bytes: &[u8], transport: Transport, kind: PayloadKind) -> Option<Header> {
        let (flow, sequence) = (word(bytes, 0)?, word(bytes, 4)?);
        let size_at = |at| match transport {
            Transport::Tcp => word(bytes, at).map(Some),
            Transport::Udp | Transport::Other(_) => Some(None),
        };
        match kind {
            PayloadKind::Standard => {
                let sent = TimeOfDay::from_words(word(bytes, 8)?, word(bytes, 12)?)?;
                Some(Header { flow, sequence, sent: Some(sent), size: size_at(16)? })
            }
            PayloadKind::Short => Some(Header { flow, sequence, sent: None, size: size_at(8)? }),
            PayloadKind::None => None,
        }
    }

    /// Writes the standard one to the beginning of `out`, which is that of a message over TCP where there is a size.
    pub fn write(&self, out: &mut [u8]) {
        let ns = self.sent.unwrap_or_default().0.get();
        let (seconds, micros) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1_000);
        let words = [self.flow, self.sequence, seconds as u32, micros as u32];
        for (word, out) in words.into_iter().chain(self.size).zip(out.chunks_exact_mut(4)) {
            out.copy_from_slice(&word.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_day(seconds: u64, ns: u64) -> TimeOfDay {
        TimeOfDay::of(Nanos::from_secs(seconds).saturating_add(Nanos::new(ns)))
    }

    #[test]
    fn what_itgsend_sends_is_read() {
        // captured, of flow 1 over TCP: 50 B
        let bytes = [0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0x1e, 0xf2, 0, 3, 0x1c, 0xd7, 0, 0, 0, 50];
        let header = Header::read(&bytes, Transport::Tcp, PayloadKind::Standard).unwrap();
        let sent = Some(of_day(0x1_1ef2, 0x3_1cd7 * 1_000));
        assert_eq!(header, Header { flow: 1, sequence: 2, sent, size: Some(50) });
        let mut again = [0; HEADER_MAX];
        header.write(&mut again);
        assert_eq!(again, bytes);
        let udp = Header::read(&bytes[..16], Transport::Udp, PayloadKind::Standard).unwrap();
        assert_eq!(udp, Header { size: None, ..header });
        let mut again = [0xff; 18];
        udp.write(&mut again);
        assert_eq!((&again[..16], &again[16..]), (&bytes[..16], &[0xff; 2][..]));
        let short = [1, 2, 3, 4, 0, 0, 0, 9, 0, 0, 0, 12];
        let header = Header::read(&short, Transport::Tcp, PayloadKind::Short).unwrap();
        assert_eq!((header.flow, header.sequence, header.size), (0x0102_0304, 9, Some(12)));
    }

    #[test]
    fn what_is_no_header_is_not_read() {
        for transport in [Transport::Tcp, Transport::Udp] {
            for kind in [PayloadKind::Standard, PayloadKind::Short, PayloadKind::None] {
                let needed = header_len(transport, kind);
                let bytes = vec![0; needed.saturating_sub(1)];
                assert_eq!(Header::read(&bytes, transport, kind), None);
            }
        }
        let mut bytes = [0; 16];
        bytes[8..12].copy_from_slice(&86_400_u32.to_be_bytes());
        assert_eq!(Header::read(&bytes, Transport::Udp, PayloadKind::Standard), None);
        bytes[8..12].fill(0);
        bytes[12..].copy_from_slice(&1_000_000_u32.to_be_bytes());
        assert_eq!(Header::read(&bytes, Transport::Udp, PayloadKind::Standard), None);
    }

    #[test]
    fn midnight_may_be_between_sending_and_arrival() {
        assert_eq!(of_day(86_399, 0).until(of_day(86_401, 5)), 2_000_000_005);
        assert_eq!(of_day(86_401, 5).until(of_day(86_399, 0)), -2_000_000_005);
        assert_eq!(of_day(5, 0).until(of_day(7, 0)), 2_000_000_000);
    }
}
