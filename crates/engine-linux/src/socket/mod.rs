//! The socket engine: UDP sockets, without privilege.
//!
//! A [`SocketPort`] sends datagrams to the [`Endpoint`]s of its tags and listens on addresses; the
//! operating system makes the headers. `transmit` sends batches, joined into large packets where
//! sizes allow (`joining`); `receive` takes batches with the kernel's timestamps (`control`) from sockets (`listener`), which also
//! send what a sender waits for (`reply`). Knows
//! payloads and addresses, and nothing of what is in the payloads.
//!
//! An address that is listened on cannot be a source as well: replies to a source are dropped by the
//! kernel, unread.

mod buffers;
mod control;
mod endpoint;
mod joining;
mod listener;
mod receive;
mod reply;
mod transmit;

use std::net::SocketAddr;

use wirebeat_engine::port::{
    Arrival, Caps, CardStamps, Fate, Port, PortError, TxMeta, TxPlan, TxTotals, View,
};
use wirebeat_meter::codecs::Answer;
use wirebeat_units::{Bytes, Nanos};

use crate::card::SharedCard;
use crate::halves::{Transmit, port_of_halves};
use crate::link;
use crate::slots::BATCH;
pub use endpoint::{Checksum, Endpoint};
use receive::Receiver;
use transmit::Transmitter;

const ENGINE: &str = "socket";
/// The longest payload of UDP over IPv4 (RFC 768, RFC 791); over IPv6 it is 20 bytes more.
const PAYLOAD_MAX: u16 = 65_507;

/// How a socket port is opened.
#[derive(Clone, Debug, Default)]
pub struct SocketOptions {
    /// The only interface to be used; `None`: as the routes say. The port notices when a named
    /// interface goes away even if it only receives.
    pub interface: Option<String>,
    /// What is going to be sent; `None`: nothing.
    pub transmit: Option<SocketTransmit>,
    /// How datagrams are received; `None`: not at all.
    pub receive: Option<SocketReceive>,
    /// The card that stamps them: that of the interface, which is named then. `None`: the system does.
    pub card: Option<SharedCard>,
}

/// What is going to be sent.
#[derive(Clone, Debug)]
pub struct SocketTransmit {
    /// The datagrams; lengths are those of payloads.
    pub plan: TxPlan,
    /// Where to, by tag; `None` where nothing is going to be sent.
    pub endpoints: Vec<Option<Endpoint>>,
    /// Whether datagrams may leave joined.
    pub joining: Joining,
}

/// Whether datagrams leave joined (generic segmentation offload): the cost of the system's stack is
/// then shared by up to 64 of them, and they follow each other without a gap. A device that has to take
/// them apart again and has no room for all drops some that count as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joining {
    /// Those that are committed together, go to one endpoint and are equally long.
    #[default]
    WhereSizesAllow,
    /// Never.
    Never,
}

/// How datagrams are received.
#[derive(Clone, Debug)]
pub struct SocketReceive {
    /// Addresses to listen on; port 0: the kernel chooses.
    pub listen: Vec<SocketAddr>,
    /// The kernel's buffer for each socket, of which an address has one, and a second for a source that
    /// sends much; counted as the kernel counts (a short datagram takes 768 bytes). Without CAP_NET_ADMIN
    /// no more than `net.core.rmem_max`.
    pub buffer: Bytes,
    /// Whether joined datagrams are taken as they are.
    pub gro: Gro,
    /// While datagrams keep coming, how long to wait before looking again, so that several are
    /// taken at once. They are stamped by the kernel and lose no exactness.
    pub gather: Nanos,
    /// Busy-poll the device's queue for so long (SO_BUSY_POLL); more than the system's setting takes
    /// CAP_NET_ADMIN.
    pub busy_poll: Option<Nanos>,
    /// Whether arrivals say their ends ([`Arrival::ends`]).
    pub ends: bool,
}

/// Whether joined datagrams are taken as they are (generic receive offload). They share one
/// timestamp then: that of the packet in which they travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gro {
    /// Yes: by far the fastest.
    #[default]
    On,
    /// No: the kernel takes them apart and gives them to us one by one.
    Off,
}

impl Default for SocketReceive {
    /// Nothing to listen on yet; 32 MiB, taken every 50 µs.
    fn default() -> Self {
        SocketReceive {
            listen: Vec::new(),
            buffer: Bytes::new(32 << 20),
            gro: Gro::On,
            gather: Nanos::from_micros(50),
            busy_poll: None,
            ends: false,
        }
    }
}

/// A port of the socket engine.
///
/// The lengths of arrivals are computed: payload, UDP, IP (without options) and Ethernet headers,
/// and FCS; at least 64.
#[derive(Debug)]
pub struct SocketPort {
    caps: Caps,
    transmitter: Option<Transmitter>,
    receiver: Option<Receiver>,
}

port_of_halves!(SocketPort);

impl SocketPort {
    /// Opens a port. It receives from now on, and sends nothing yet.
    pub fn open(options: &SocketOptions) -> Result<Self, PortError> {
        let link = options.interface.as_deref().map(|name| link::find(ENGINE, name)).transpose()?;
        if let Some(transmit) = &options.transmit {
            check(transmit)?;
        }
        let interface = options.interface.as_deref();
        let card = options.card.as_deref();
        let transmit = |transmit| Transmitter::open(transmit, interface, card);
        let receive = |receive| Receiver::open(receive, link.as_ref(), card);
        Ok(SocketPort {
            transmitter: options.transmit.as_ref().map(transmit).transpose()?,
            receiver: options.receive.as_ref().map(receive).transpose()?,
            caps: Caps {
                engine: ENGINE,
                mode: mode(options),
                frame_max: options
                    .transmit
                    .as_ref()
                    .map_or(PAYLOAD_MAX, |t| t.plan.frame_max)
                    .into(),
                batch: BATCH,
                view: View::Datagram,
                holds: false,
                repeats: 0,
                apart: None,
                link: link.and_then(|link| link.speed),
            },
        })
    }

    /// The addresses that it listens on, with the ports that the kernel chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.receiver.iter().flat_map(Receiver::addresses).collect()
    }
}

/// Whether the plan can be carried out.
fn check(transmit: &SocketTransmit) -> Result<(), PortError> {
    let unsupported = |what| Err(PortError::Unsupported { engine: ENGINE, what });
    let (plan, endpoints) = (&transmit.plan, transmit.endpoints.len());
    if plan.frame_max > PAYLOAD_MAX {
        return unsupported(format!(
            "send payloads of {} bytes; UDP carries {PAYLOAD_MAX} at most",
            plan.frame_max
        ));
    }
    if plan.tags as usize != endpoints {
        return unsupported(format!("send {} flows to {endpoints} endpoints", plan.tags));
    }
    Ok(())
}

fn mode(options: &SocketOptions) -> String {
    let joins = |t: &SocketTransmit| t.joining == Joining::WhereSizesAllow;
    let mut parts = Vec::new();
    if let Some(transmit) = &options.transmit {
        parts.push(if joins(transmit) { "sendmmsg, GSO where sizes allow" } else { "sendmmsg" });
    }
    if let Some(receive) = &options.receive {
        parts.push(if receive.gro == Gro::On { "recvmmsg, GRO" } else { "recvmmsg" });
    }
    let stamps = if options.card.is_some() { ", hardware timestamps" } else { "" };
    format!("UDP sockets, {}{stamps}", parts.join("; "))
}
