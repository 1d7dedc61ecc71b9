//! MGEN's message, version 2 (mgenMsg.cpp of MGEN 5).
//!
//! ```text
//!  0     2   3   4       8          12        16       20    22    23    24
//! +-----+---+---+-------+----------+---------+--------+-----+-----+-----+---------+
//! | len | 2 | f | flow  | sequence | seconds | micro- | port| type| len | address |  big-endian
//! |     |   |   |       |          |         | seconds|      destination          |
//! +-----+---+---+-------+----------+---------+--------+-----+-----+-----+---------+
//! ```
//! The length is that of the whole message. After the destination come, as far as there is room, the
//! sender's own address (left empty here: port, type, length), where it is on Earth, the length of the
//! data, and filling. Numbers count from 0, times are UTC. The checksum that MGEN may put at the end is
//! neither written nor verified.

use std::net::IpAddr;

use super::{
    Clock, Facts, Format, Marks, Seen, Sent, SequenceForm, TimeForm, field, ns_of, put_front,
    u32_at,
};
use crate::ip::Version;

const VERSION: u8 = 2;
/// The flag that MGEN sets on every UDP message: nothing of it follows in another.
const LAST_BUFFER: u8 = 0x08;
/// Where the destination's address begins.
const ADDRESS: usize = 24;
/// What a sender writes that gives neither its address nor its place: no address (4 bytes), latitude and
/// longitude of 999 degrees, an altitude of −999 m, GPS status "invalid", user data of no bytes.
const NOWHERE: [u8; 20] = [
    0, 0, 0, 0, 0x04, 0x37, 0x68, 0x20, 0x04, 0x37, 0x68, 0x20, 0xff, 0xff, 0xfc, 0x19, 0, 0, 0, 0,
];

pub(super) struct Mgen;

impl Format for Mgen {
    fn min_len(&self, version: Version) -> usize {
        ADDRESS + version.address_len()
    }
    fn first_sequence(&self) -> u64 {
        0
    }
    fn clock(&self) -> Clock {
        Clock::Unix
    }
    fn marks(&self) -> Marks {
        Marks { sequence: SequenceForm::Word { at: 8 }, time: TimeForm::Microseconds { at: 12 } }
    }

    fn length_at(&self) -> Option<u16> {
        Some(0)
    }

    fn blank(&self, facts: &Facts, out: &mut [u8]) {
        let len = u16::try_from(out.len()).unwrap_or(u16::MAX);
        let mut header = [0; ADDRESS + 16];
        header[..2].copy_from_slice(&len.to_be_bytes());
        header[2] = VERSION;
        header[3] = LAST_BUFFER;
        header[4..8].copy_from_slice(&facts.flow.to_be_bytes());
        header[20..22].copy_from_slice(&facts.destination.port().to_be_bytes());
        let address_len = match facts.destination.ip() {
            IpAddr::V4(address) => {
                header[ADDRESS..][..4].copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                header[ADDRESS..].copy_from_slice(&address.octets());
                16
            }
        };
        header[22] = type_of(address_len);
        header[23] = address_len;
        let (header, _) = header.split_at(ADDRESS + usize::from(address_len));
        put_front(out, header);
        put_front(out.get_mut(header.len()..).unwrap_or_default(), &NOWHERE);
    }

    fn read(&self, payload: &[u8]) -> Option<Seen> {
        let header: &[u8; ADDRESS] = field(payload, 0)?;
        let len = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let address_len = header[23];
        if len != payload.len()
            || header[2] != VERSION
            || !matches!(address_len, 4 | 16)
            || header[22] != type_of(address_len)
            || payload.len() < ADDRESS + usize::from(address_len)
        {
            return None;
        }
        Some(Seen {
            flow: u32_at(header, 4),
            sequence: u64::from(u32_at(header, 8)?),
            sent: Some(Sent::Unix(ns_of(u32_at(header, 12)?, u32_at(header, 16)?)?)),
            last: false,
        })
    }
}

/// MGEN's number for the family of an address of that many bytes.
fn type_of(address_len: u8) -> u8 {
    if address_len == 4 { 1 } else { 2 }
}
