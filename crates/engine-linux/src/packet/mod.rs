//! The packet engine: frames through AF_PACKET sockets, on any interface, with CAP_NET_RAW.
//!
//! [`PacketTx`] hands over batches of frames past the queueing discipline, [`PacketRx`] reads a ring that the kernel fills
//! (`ring`) with what passes a filter (`filter`), stamped by the kernel; each has a socket of its own. [`PromptRx`] reads a ring
//! that hands each frame over at once (`slot_ring`), for protocols that answer. Knows frames, and nothing of what is in them
//! beyond what it takes to tell UDP.

mod answer;
mod core_filter;
mod filter;
mod instructions;
pub mod plain;
mod prompt;
mod receive;
mod ring;
mod segments;
mod slot_ring;
pub(crate) mod socket;
mod transmit;

use wirebeat_engine::port::PortError;
use wirebeat_netlink::{Link, LinkLayer};
use wirebeat_units::Bytes;
use wirebeat_wire::{ethernet, vlan};

use crate::card::Card;
use crate::link;
pub use prompt::PromptRx;
pub use receive::PacketRx;
pub use transmit::PacketTx;

const ENGINE: &str = "packet";
/// What a frame may have beyond the MTU: the Ethernet header and a VLAN tag.
const HEADER_MAX: u32 = (ethernet::LEN + vlan::LEN) as u32;

/// How frames are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReceive {
    /// Memory of the ring, at least 256 KiB. A 64-byte frame takes 144 bytes of it; and what comes within
    /// a millisecond takes 128 KiB, however little it is.
    pub ring: Bytes,
    /// Which frames are taken.
    pub accept: Accept,
    /// Which of these, by what they carry.
    pub kinds: Kinds,
    /// Whether other ports share the interface's frames.
    pub fanout: Fanout,
}

impl Default for PacketReceive {
    /// 32 MiB: a quarter of a second at 900 thousand 64-byte frames per second, and at less.
    fn default() -> Self {
        PacketReceive {
            ring: Bytes::new(32 << 20),
            accept: Accept::Ours,
            kinds: Kinds::Probed,
            fanout: Fanout::Alone,
        }
    }
}

/// Which frames are taken, by their destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Those to this interface, to groups and to everybody.
    Ours,
    /// All (promiscuous mode).
    All,
}

/// Which frames are taken, by what they carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// UDP, and what ends with a probe.
    Probed,
    /// Any.
    Any,
}

/// Whether several ports divide the frames of an interface among them: by a hash of addresses and ports, whatever queue of the
/// card they came by. Frames of one pair of addresses and ports stay together and in order, and so do all fragments
/// between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fanout {
    /// This port gets all.
    Alone,
    /// This port is the first of a group; [`PacketRx::group`] tells its number.
    New,
    /// This port joins a group.
    Join(u16),
}

/// An interface that carries what this engine makes.
fn link_of(interface: &str) -> Result<Link, PortError> {
    let link = link::find(ENGINE, interface)?;
    check(&link)?;
    Ok(link)
}

/// Whether the interface carries what this engine makes.
fn check(link: &Link) -> Result<(), PortError> {
    match link.layer {
        LinkLayer::Ethernet | LinkLayer::Loopback => Ok(()),
        LinkLayer::Other(_) => {
            let missing = "the interface does not carry Ethernet frames";
            Err(PortError::missing(ENGINE, &link.name, missing).with_hint("use --engine socket"))
        }
    }
}

/// How it works, for the report.
fn mode(way: &str, card: Option<&Card>) -> String {
    let stamps = if card.is_some() { ", hardware timestamps" } else { "" };
    format!("{way}{stamps}")
}
