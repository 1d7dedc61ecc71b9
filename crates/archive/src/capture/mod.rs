//! Captures: pcap and pcapng, read frame by frame in bounded memory, whatever their bytes are.
//!
//! [`Frames`] reads both; `pcap` and `pcapng` know how each is laid out, `input` is the window of the file that
//! they look at. A frame is lent from that window: nothing is allocated for it. What its bytes mean is not looked
//! at here: [`payloads`] makes records of what packets carry, [`conversations`] puts
//! together what ends said to each other, [`ethernet`] makes frames that can be sent, and [`sides`] says which end of its
//! conversation sent one.

pub mod conversations;
mod dissect;
pub mod ethernet;
mod frames;
mod input;
pub mod payloads;
mod pcap;
mod pcapng;
mod resume;
pub mod sides;
pub mod steady;
mod window;

use std::fmt;

pub use frames::{Frames, Tally};
pub use payloads::Payloads;
pub use window::Window;

use wirebeat_units::{Fault, fault, into_fault};

use crate::bad;

/// Bytes of the longest frame: the longest that libpcap captures (its `MAXIMUM_SNAPLEN`).
pub const FRAME_MAX: usize = 262_144;

/// Whether a file that begins so is a capture.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&pcapng::SECTION) || pcap::Pcap::magic(bytes).is_some()
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970-01-01T00:00:00Z; `None` where the capture does not say.
    pub time_ns: Option<i64>,
    /// The interface that it was captured at, from 0 in each section of pcapng; 0 in pcap.
    pub interface: u32,
    /// What its bytes begin with.
    pub link: LinkType,
    /// What was captured of it, without FCS.
    pub bytes: &'a [u8],
    /// Bytes that it had on the line, without FCS.
    pub original: u32,
}

impl Frame<'_> {
    /// Whether not all of it was captured.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.original as usize
    }
}

/// What frames begin with, by the number that <https://www.tcpdump.org/linktypes.html> gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// The family of the address in four bytes, in the byte order of whoever captured.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP, as some systems number it.
    pub const RAW_BSD: [LinkType; 2] = [LinkType(12), LinkType(14)];
    /// IP.
    pub const RAW: LinkType = LinkType(101);
    /// The family of the address in four bytes.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux "cooked" capture: of the device `any`.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);

    /// What stands before the network packet in such frames; `None` where that is not known.
    pub(crate) fn header(self) -> Option<LinkHeader> {
        Some(match self {
            LinkType::ETHERNET => LinkHeader::Ethernet,
            LinkType::LINUX_SLL => LinkHeader::Cooked { ether_type_at: 14, len: 16 },
            LinkType::LINUX_SLL2 => LinkHeader::Cooked { ether_type_at: 0, len: 20 },
            // the family has another number on each system, and the packet says it as well
            LinkType::NULL | LinkType::LOOP => LinkHeader::None { skipped: 4 },
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => LinkHeader::None { skipped: 0 },
            link if LinkType::RAW_BSD.contains(&link) => LinkHeader::None { skipped: 0 },
            _ => return None,
        })
    }
}

/// What stands before the network packet of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkHeader {
    /// Ethernet.
    Ethernet,
    /// A "cooked" header of so many bytes.
    Cooked {
        /// Where in it the EtherType is.
        ether_type_at: usize,
        /// Its bytes.
        len: usize,
    },
    /// Nothing that is needed: the packet says its version itself.
    None {
        /// Bytes before the packet.
        skipped: usize,
    },
}

/// Where a frame stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the file before it, or before its block.
    pub offset: u64,
    /// Its number, from 1; those that were skipped count.
    pub number: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {} at byte {}", self.number, self.offset)
    }
}

/// What is wrong with a frame, or with a block that holds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum Defect {
    /// It does not begin as a capture does.
    NoCapture,
    /// The file ends inside it.
    Cut {
        /// Bytes there are.
        have: u64,
        /// Bytes it says it has.
        need: u64,
    },
    /// A length that no block of pcapng has.
    Block(u32),
    /// A block of pcapng that says two lengths.
    Ends {
        /// What its beginning says.
        first: u32,
        /// What its end says.
        last: u32,
    },
    /// A section of pcapng in no byte order.
    ByteOrder,
    /// More bytes than a frame has.
    Long(u32),
    /// More bytes than its block.
    Room {
        /// Bytes it says it has.
        captured: u32,
        /// Bytes there can be.
        room: u32,
    },
    /// More bytes than it had on the line.
    More {
        /// Bytes it says it has.
        captured: u32,
        /// Bytes it had.
        original: u32,
    },
    /// A length that spans other frames.
    Spans {
        /// What it says, with its header.
        length: usize,
        /// Where the first of them begins, in bytes from its own beginning.
        inside: usize,
    },
    /// An interface that the capture does not describe.
    Interface(u32),
    /// More interfaces than there are numbers of.
    Interfaces,
    /// A unit of time that no clock has.
    Resolution(u8),
    /// A part of a second that is more than one.
    Fraction(u32),
    /// A time that is beyond what can be said.
    Time,
    /// A link type that is not known.
    Link(LinkType),
}

impl Defect {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Defect::NoCapture => fault!("this is not a capture"; "name a file of pcap or pcapng"),
            Defect::Cut { have, need } => {
                fault!("the file ends after {have} of its {need} bytes")
            }
            Defect::Block(it) => fault!("the length of its block is {it}, which no such block has"),
            Defect::Ends { first, last } => {
                fault!("its block has {first} bytes by its beginning and {last} by its end")
            }
            Defect::ByteOrder => fault!("its section does not say which byte comes first"),
            Defect::Long(it) => fault!("it has {it} bytes, and no frame has more than {FRAME_MAX}"),
            Defect::Room { captured, room } => {
                fault!("its captured length is {captured} bytes, but its block has room for {room}")
            }
            Defect::More { captured, original } => {
                fault!(
                    "its captured length is {captured} bytes, more than its original length of {original}"
                )
            }
            Defect::Spans { length, inside } => fault!(
                "its length is {length}, and other frames begin {inside} bytes behind its beginning"
            ),
            Defect::Interface(it) => {
                fault!("it is of interface {it}, which the capture does not describe")
            }
            Defect::Interfaces => fault!("its section has more interfaces than packets can be of"),
            Defect::Resolution(it) => {
                fault!("its interface has an invalid unit of time: {}", unit(*it))
            }
            Defect::Fraction(it) => {
                fault!("its time has {it} parts of a second, which is more than a second")
            }
            Defect::Time => fault!("its time is not between the years 1678 and 2262"),
            Defect::Link(it) => {
                fault!("its link type is {}, and what is in such frames is not known here", it.0)
            }
        }
    }
}

into_fault!(Defect);

/// A unit of time, as `if_tsresol` says it (draft-ietf-opsawg-pcapng §4.2).
fn unit(resolution: u8) -> String {
    let base = if resolution & 0x80 == 0 { 10 } else { 2 };
    format!("{base}^-{} s", resolution & 0x7f)
}

/// Something that is wrong with a capture, and where.
pub type Bad = bad::Bad<Place, Defect>;

/// Why the reading of a capture ended.
pub type ReadError = bad::ReadError<Place, Defect>;
