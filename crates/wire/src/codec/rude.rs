//! RUDE (include/rude.h): five words up to 0.70, and 0.8 with the destination as a socket address.
//!
//! ```text
//!  0           4           8           12          16          20
//! +-----------+-----------+-----------+-----------+-----------+
//! | sequence  | seconds   | microsec. | flow      | IPv4 dest.|   up to 0.70, big-endian
//! +-----------+-----------+-----------+-----------+-----------+----------------+
//! |                      the same                 | family port address …      |   0.8
//! +-----------------------------------------------+----------------------------+
//! ```
//! The socket address of 0.8 is the sender's `struct sockaddr_storage`, cut off where the packet ends:
//! its family is in the byte order of the sender, here always little-endian, and its port and address
//! are big-endian. A 64-bit build of the old versions writes each word into 8 bytes, zeros after it.
//! Numbers count from 0, times are UTC. Nothing tells these packets from others.

use std::net::IpAddr;

use super::{
    Clock, Facts, Format, Marks, Seen, Sent, SequenceForm, TimeForm, ns_of, put_front, u32_at,
};
use crate::ip::Version;

const MARKS: Marks =
    Marks { sequence: SequenceForm::Word { at: 0 }, time: TimeForm::Microseconds { at: 4 } };
const FLOW: usize = 12;
const DESTINATION: usize = 16;
/// Linux's numbers of the address families.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

pub(super) struct Current;

impl Format for Current {
    fn min_len(&self, version: Version) -> usize {
        // Up to the end of the address; before it family and port and, in IPv6, the flow label.
        match version {
            Version::V4 => DESTINATION + 8,
            Version::V6 => DESTINATION + 24,
        }
    }
    fn first_sequence(&self) -> u64 {
        0
    }
    fn clock(&self) -> Clock {
        Clock::Unix
    }
    fn marks(&self) -> Marks {
        MARKS
    }

    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let mut header = head(facts, [0; DESTINATION + 24]);
        let (_, address) = header.split_at_mut(DESTINATION);
        address[2..4].copy_from_slice(&facts.destination.port().to_be_bytes());
        let family = match facts.destination.ip() {
            IpAddr::V4(ip) => {
                address[4..8].copy_from_slice(&ip.octets());
                AF_INET
            }
            IpAddr::V6(ip) => {
                address[8..24].copy_from_slice(&ip.octets());
                AF_INET6
            }
        };
        address[..2].copy_from_slice(&family.to_le_bytes());
        let (header, _) = header.split_at(self.min_len(Version::of(facts.destination.ip())));
        put_front(out, header);
    }

    fn read(&self, payload: &[u8]) -> Option<Seen> {
        if payload.len() < DESTINATION + 8 {
            return None;
        }
        seen([0, 4, 8, FLOW].map(|at| u32_at(payload, at)))
    }
}

pub(super) struct Old;

impl Format for Old {
    fn min_len(&self, _: Version) -> usize {
        DESTINATION + 4
    }
    fn first_sequence(&self) -> u64 {
        0
    }
    fn clock(&self) -> Clock {
        Clock::Unix
    }
    fn marks(&self) -> Marks {
        MARKS
    }

    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let mut header = head(facts, [0; DESTINATION + 4]);
        // These versions know no IPv6; nothing reads the field.
        if let IpAddr::V4(ip) = facts.destination.ip() {
            header[DESTINATION..].copy_from_slice(&ip.octets());
        }
        put_front(out, &header);
    }

    fn read(&self, payload: &[u8]) -> Option<Seen> {
        if payload.len() < DESTINATION + 4 {
            return None;
        }
        let places = if is_wide(payload) { [0, 8, 16, 24] } else { [0, 4, 8, FLOW] };
        seen(places.map(|at| u32_at(payload, at)))
    }
}

/// Whether the words of an old packet lie in 8 bytes each. In the narrow form the first four of the
/// bytes that are zero then are the seconds since 1970, which no working clock gives as zero.
fn is_wide(payload: &[u8]) -> bool {
    [4, 12, 20, 28, 36].into_iter().all(|at| u32_at(payload, at) == Some(0))
}

/// What a packet says whose words are number, seconds, microseconds and flow.
fn seen([sequence, seconds, microseconds, flow]: [Option<u32>; 4]) -> Option<Seen> {
    Some(Seen {
        flow: Some(flow?),
        sequence: u64::from(sequence?),
        sent: Some(Sent::Unix(ns_of(seconds?, microseconds?)?)),
        last: false,
    })
}

/// The header with its flow.
fn head<const N: usize>(facts: &Facts, mut header: [u8; N]) -> [u8; N] {
    header[FLOW..DESTINATION].copy_from_slice(&facts.flow.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_eight_bytes_each_are_read_as_well() {
        let wide = |words: [u32; 5]| words.map(|word| u64::from(word) << 32).map(u64::to_be_bytes);
        let packet = wide([3, 1_795_189_310, 500_528, 7, 0x7f00_0001]).concat();
        let sent = Some(Sent::Unix(1_795_189_310_500_528_000));
        let expected = Seen { flow: Some(7), sequence: 3, sent, last: false };
        assert_eq!(Old.read(&packet), Some(expected));
    }

    #[test]
    fn microseconds_of_a_second_or_more_are_not_rudes() {
        let packet = [0_u32, 1, 1_000_000, 7, 0, 0].map(u32::to_be_bytes).concat();
        assert_eq!(Current.read(&packet), None);
        assert_eq!(Old.read(&packet), None);
    }
}
