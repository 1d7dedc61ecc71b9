//! The packet engine: frames through AF_PACKET sockets, on any interface, with CAP_NET_RAW.
//!
//! A [`PacketPort`] has two halves on sockets of their own: `transmit` hands over batches of frames
//! past the queueing discipline, `receive` reads a ring that the kernel fills (`ring`) with what
//! passes a filter (`filter`), stamped by the kernel. Knows frames, and nothing of what is in them
//! beyond what it takes to tell UDP.

mod answer;
mod filter;
pub mod plain;
mod receive;
mod ring;
mod segments;
pub(crate) mod socket;
mod transmit;

use wirebeat_engine::port::{
    Arrival, Caps, CardStamps, Fate, Port, PortError, TxMeta, TxPlan, TxTotals, View,
};
use wirebeat_meter::codecs::Answer;
use wirebeat_netlink::{Link, LinkLayer};
use wirebeat_units::{Bytes, Nanos};

use crate::card::SharedCard;
use crate::halves::{Transmit, port_of_halves};
use crate::link;
use crate::slots::BATCH;
use receive::Receiver;
use transmit::Transmitter;

const ENGINE: &str = "packet";
/// What a frame may have beyond the MTU: the Ethernet header and a VLAN tag.
const HEADER_MAX: u32 = 14 + 4;

/// How a packet port is opened.
#[derive(Clone, Debug)]
pub struct PacketOptions {
    /// Name of the interface, in the calling thread's namespace.
    pub interface: String,
    /// What is going to be sent; `None`: nothing.
    pub transmit: Option<TxPlan>,
    /// How frames are received; `None`: not at all.
    pub receive: Option<PacketReceive>,
    /// The card that stamps them; `None`: the system does.
    pub card: Option<SharedCard>,
}

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

/// Whether several ports divide the frames of an interface among them. Frames of one pair of
/// addresses and ports stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fanout {
    /// This port gets all.
    Alone,
    /// This port is the first of a group; [`PacketPort::group`] tells its number.
    New,
    /// This port joins a group.
    Join(u16),
}

/// A port of the packet engine.
#[derive(Debug)]
pub struct PacketPort {
    caps: Caps,
    transmitter: Option<Transmitter>,
    receiver: Option<Receiver>,
}

port_of_halves!(PacketPort);

impl PacketPort {
    /// Opens a port. It receives from now on, and sends nothing yet.
    pub fn open(options: &PacketOptions) -> Result<Self, PortError> {
        let interface = &options.interface;
        let link = link::find(ENGINE, interface)?;
        check(&link)?;
        let (index, frame_max) = (link.index.get(), link.mtu.saturating_add(HEADER_MAX));
        if let Some(plan) = &options.transmit
            && u32::from(plan.frame_max) > frame_max
        {
            return Err(PortError::Unsupported {
                engine: ENGINE,
                what: format!(
                    "send frames of {} bytes by {interface}: its MTU of {} allows {} with FCS; \
                     send shorter ones, or raise the MTU",
                    u32::from(plan.frame_max) + 4,
                    link.mtu,
                    frame_max + 4
                ),
            });
        }
        let card = options.card.as_deref();
        let transmit = |plan| Transmitter::open(interface, index, (plan, card));
        let receive = |options| Receiver::open(interface, index, (options, card));
        Ok(PacketPort {
            transmitter: options.transmit.as_ref().map(transmit).transpose()?,
            receiver: options.receive.as_ref().map(receive).transpose()?,
            caps: Caps {
                engine: ENGINE,
                mode: mode(options),
                frame_max: options.transmit.map_or(frame_max as usize, |p| p.frame_max.into()),
                batch: BATCH,
                view: View::Frame,
                holds: false,
                repeats: 0,
                apart: None,
                link: link.speed,
            },
        })
    }

    /// The group of ports that divide the interface's frames among them.
    pub fn group(&self) -> Option<u16> {
        self.receiver.as_ref().and_then(Receiver::group)
    }
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

fn mode(options: &PacketOptions) -> String {
    let mode = match (options.transmit.is_some(), options.receive.is_some()) {
        (true, true) => "AF_PACKET, qdisc bypass; TPACKET_V3",
        (true, false) => "AF_PACKET, qdisc bypass",
        (false, _) => "AF_PACKET, TPACKET_V3",
    };
    let stamps = if options.card.is_some() { ", hardware timestamps" } else { "" };
    format!("{mode}{stamps}")
}
