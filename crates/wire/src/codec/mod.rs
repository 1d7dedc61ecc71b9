//! Probe codecs: how Wirebeat and the tools that it meets number and time-stamp their packets.
//!
//! One format is one file, with its layout at the head, and one line of the table below. A [`Codec`]
//! says what the format asks for, writes what stays the same for a flow ([`Codec::blank`]), and reads
//! any payload ([`Codec::read`]). What changes from packet to packet is plain data, [`Marks`], so that
//! a kernel program can write it as well. Nothing here knows clocks, engines or flows, and nothing
//! allocates.

mod ditg;
mod iperf2;
mod marks;
mod mgen;
mod pktgen;
mod rude;
mod wirebeat;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault, into_fault};

pub use self::marks::{Marks, Moment, SequenceForm, TimeForm};
use crate::ip::Version;

/// What a format writes that stays the same for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The flow's number. Wirebeat's own probe has room for its low 16 bits; pktgen and iperf2 have none.
    pub flow: u32,
    /// Where the flow goes: MGEN and RUDE repeat it, iperf2 repeats the port.
    pub destination: SocketAddr,
}

/// Where in a payload the probe lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It begins with the payload.
    Head,
    /// It ends with the payload.
    Tail,
}

/// The clock that [`Marks::write`] wants its nanoseconds of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The sender's monotonic clock.
    Monotonic,
    /// Wall-clock time since the UNIX epoch.
    Unix,
    /// None: the format has no room for a time.
    None,
}

/// When a packet was sent, in nanoseconds, as far as its format tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Of the sender's monotonic clock.
    Monotonic(u64),
    /// Since the UNIX epoch.
    Unix(u64),
    /// Since the last midnight, UTC.
    OfDay(u64),
}

impl Sent {
    /// Since the UNIX epoch. A time of day is taken for the one nearest to `near_ns`, a UNIX time such
    /// as that of the arrival; a monotonic time has no place there.
    pub fn unix_ns(self, near_ns: u64) -> Option<u64> {
        let of_day = match self {
            Sent::Monotonic(_) => return None,
            Sent::Unix(ns) => return Some(ns),
            Sent::OfDay(ns) => ns % DAY_NS,
        };
        let ahead = (of_day + DAY_NS - near_ns % DAY_NS) % DAY_NS;
        if ahead < DAY_NS / 2 {
            near_ns.checked_add(ahead)
        } else {
            near_ns.checked_sub(DAY_NS - ahead)
        }
    }
}

/// What a packet says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The flow's number, where the format has one.
    pub flow: Option<u32>,
    /// The packet's number within the flow.
    pub sequence: u64,
    /// When it was sent, where the packet says so.
    pub sent: Option<Sent>,
    /// Whether the sender marked it as its last.
    pub last: bool,
}

/// What a receiver tells a sender of its flow that asks for it with the flow's last datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes of payload that arrived.
    pub payload_bytes: u64,
    /// Nanoseconds from the first arrival to the last.
    pub span_ns: u64,
    /// Datagrams by their numbers, those that are missing included.
    pub datagrams: u64,
    /// Those that are missing.
    pub lost: u64,
    /// Those that came behind a later one.
    pub reordered: u64,
    /// Interarrival jitter (RFC 3550) in nanoseconds.
    pub jitter_ns: u64,
}

/// Bytes of the longest answer to the last datagram of a flow.
pub const ANSWER_MAX: usize = 128;

/// A payload with too little room for the probe of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct TooShort {
    /// The format.
    pub codec: Codec,
    /// Bytes of the payload.
    pub len: usize,
    /// Bytes that it needs.
    pub min_len: usize,
}

impl TooShort {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let TooShort { codec, len, min_len } = self;
        fault!(
            "a payload of {len} bytes is too short for a probe of {codec}, which takes {min_len}";
            "make the frames longer or choose another codec"
        )
    }
}

into_fault!(TooShort);

/// A text that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct UnknownCodec {
    /// The text as it was given (cut to 64 characters).
    pub given: String,
}

impl UnknownCodec {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let UnknownCodec { given } = self;
        fault!("'{given}' is not a codec"; "choose one of {}", names())
    }
}

into_fault!(UnknownCodec);

/// What every format says about itself; [`Codec`] documents the methods.
trait Format {
    fn min_len(&self, version: Version) -> usize;
    fn place(&self) -> Place {
        Place::Head
    }
    fn first_sequence(&self) -> u64;
    fn clock(&self) -> Clock;
    fn marks(&self) -> Marks;
    /// `out` is the whole payload and has `min_len` bytes at least. Bytes that belong to no field are
    /// left as they are.
    fn blank(&self, facts: &Facts, out: &mut [u8]);
    fn last(&self, _sequence: u64) -> Option<u64> {
        None
    }
    fn length_at(&self) -> Option<u16> {
        None
    }
    fn read(&self, payload: &[u8]) -> Option<Seen>;
    fn numbers_flows(&self) -> bool {
        true
    }
    fn answer(&self, _last: &[u8], _account: &Account, _out: &mut [u8; ANSWER_MAX]) -> usize {
        0
    }
    fn may_begin(&self, _seen: &Seen) -> bool {
        true
    }
}

/// Makes the enum of the codecs and what is the same for all of them.
macro_rules! codecs {
    ($($(#[$doc:meta])* $name:literal $variant:ident $format:expr;)*) => {
        /// A format of numbered, time-stamped packets.
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            PartialOrd,
            Ord,
            Hash,
            Serialize,
            Deserialize,
        )]
        pub enum Codec {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Codec {
            /// All of them, in the order of the table.
            pub const ALL: &[Codec] = &[$(Codec::$variant,)*];

            /// The word that it is written with.
            pub const fn name(self) -> &'static str {
                match self { $(Codec::$variant => $name,)* }
            }

            fn format(self) -> &'static dyn Format {
                match self { $(Codec::$variant => &$format,)* }
            }
        }
    };
}

codecs! {
    /// Wirebeat's own probe.
    "wirebeat" Wirebeat wirebeat::Wirebeat;
    /// Linux pktgen: seconds and microseconds.
    "pktgen" Pktgen pktgen::Microseconds;
    /// Linux pktgen as KTH's receiver patches have it: monotonic nanoseconds.
    "pktgen-ns" PktgenNanoseconds pktgen::Nanoseconds;
    /// MGEN, version 2 of its message.
    "mgen" Mgen mgen::Mgen;
    /// RUDE 0.8.
    "rude" Rude rude::Current;
    /// RUDE up to 0.70.
    "rude-old" RudeOld rude::Old;
    /// iperf 2, UDP.
    "iperf2" Iperf2 iperf2::Iperf2;
    /// D-ITG's standard header.
    "d-itg" DitgStandard ditg::Standard;
    /// D-ITG's short header, without time.
    "d-itg-short" DitgShort ditg::Short;
}

impl Codec {
    /// Bytes that a payload needs to carry it to an address of that version.
    pub fn min_len(self, version: Version) -> usize {
        self.format().min_len(version)
    }

    /// Where in the payload it lies.
    pub fn place(self) -> Place {
        self.format().place()
    }

    /// Where the probe begins in a payload of `len` bytes: what the offsets of [`Codec::marks`] count
    /// from. `None` when a probe at the end does not fit.
    pub fn starts_at(self, len: usize) -> Option<usize> {
        match self.place() {
            Place::Head => Some(0),
            // A probe at the end repeats no address: it is as long in IPv6.
            Place::Tail => len.checked_sub(self.min_len(Version::V4)),
        }
    }

    /// The number of a flow's first packet.
    pub fn first_sequence(self) -> u64 {
        self.format().first_sequence()
    }

    /// The clock of its transmit times.
    pub fn clock(self) -> Clock {
        self.format().clock()
    }

    /// What changes from packet to packet, and where it lies.
    pub fn marks(self) -> Marks {
        self.format().marks()
    }

    /// Writes into `payload` all that stays the same for a flow, with number and time zero. Bytes that
    /// belong to no field of the format are left as they are.
    ///
    /// # Errors
    /// When `payload` is shorter than [`Codec::min_len`]; it is then unchanged.
    pub fn blank(self, facts: &Facts, payload: &mut [u8]) -> Result<(), TooShort> {
        let min_len = self.min_len(Version::of(facts.destination.ip()));
        if payload.len() < min_len {
            return Err(TooShort { codec: self, len: payload.len(), min_len });
        }
        self.format().blank(facts, payload);
        Ok(())
    }

    /// What to write instead of the number `sequence` to make the packet the last of its flow; `None`
    /// where a format has no such mark.
    pub fn last(self, sequence: u64) -> Option<u64> {
        self.format().last(sequence)
    }

    /// Where the 16 bits lie that hold the length of the payload, for a format that has them.
    pub fn length_at(self) -> Option<u16> {
        self.format().length_at()
    }

    /// Reads a payload that is known to be of this format; `None` when it cannot be.
    pub fn read(self, payload: &[u8]) -> Option<Seen> {
        self.format().read(payload)
    }

    /// Writes into `out` what the receiver of a flow answers to `last`, the payload of its last datagram. Returns how many
    /// bytes that is: never more than `last` has, and 0 where the sender expects no answer or left no room for it. An
    /// answer is never read as the last datagram of a flow, so that two receivers cannot answer each other.
    pub fn answer(self, last: &[u8], account: &Account, out: &mut [u8; ANSWER_MAX]) -> usize {
        self.format().answer(last, account, out)
    }

    /// Whether its probes carry the number of their flow. Flows of other formats are told apart by their addresses and
    /// ports.
    pub fn numbers_flows(self) -> bool {
        self.format().numbers_flows()
    }

    /// Whether a flow that nobody announced may begin with what [`Codec::read`] found. Formats without anything to be
    /// known by would take any payload for theirs; this tells most of those that are not.
    pub fn may_begin(self, seen: &Seen) -> bool {
        self.format().may_begin(seen)
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(text: &str) -> Result<Self, UnknownCodec> {
        let named = Codec::ALL.iter().find(|codec| codec.name() == text.trim());
        named.copied().ok_or_else(|| UnknownCodec { given: text.chars().take(64).collect() })
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn names() -> String {
    Codec::ALL.iter().map(|codec| codec.name()).collect::<Vec<_>>().join(", ")
}

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Nanoseconds of a time in seconds and microseconds; `None` when the latter make up a second or more,
/// which no sender writes.
fn ns_of(seconds: u32, microseconds: u32) -> Option<u64> {
    (microseconds < 1_000_000)
        .then(|| u64::from(seconds) * SECOND_NS + u64::from(microseconds) * 1000)
}

/// The `N` bytes of `bytes` from `at`.
#[inline]
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(|field| u32::from_be_bytes(*field))
}

/// Writes the front of `header` that fits into `out`.
fn put_front(out: &mut [u8], header: &[u8]) {
    for (to, from) in out.iter_mut().zip(header) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests;
