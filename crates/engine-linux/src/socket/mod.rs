//! The socket engine: UDP sockets, without privilege.
//!
//! A [`SocketTx`] sends datagrams to the [`Endpoint`]s of its tags, a [`SocketRx`] listens on addresses; the
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

use wirebeat_engine::port::{PortError, TxPlan};
use wirebeat_units::{Bytes, Nanos, fault};

use crate::card::Card;
pub use endpoint::{Checksum, Endpoint};
pub use receive::SocketRx;
pub use transmit::SocketTx;

const ENGINE: &str = "socket";
/// The longest payload of UDP over IPv4 (RFC 768, RFC 791); over IPv6 it is 20 bytes more.
const PAYLOAD_MAX: u16 = 65_507;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Whether arrivals say their ends ([`ends`](wirebeat_engine::port::Arrival::ends)).
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

/// Whether the plan can be carried out.
fn check(transmit: &SocketTransmit) -> Result<(), PortError> {
    let unsupported = |what| Err(PortError::Unsupported { engine: ENGINE, what });
    let (plan, endpoints) = (&transmit.plan, transmit.endpoints.len());
    if plan.frame_max.get() > PAYLOAD_MAX.into() {
        return unsupported(fault!(
            "send payloads of {} bytes", plan.frame_max.get();
            "UDP carries {PAYLOAD_MAX} at most"
        ));
    }
    if plan.tags as usize != endpoints {
        return unsupported(fault!("send {} flows to {endpoints} endpoints", plan.tags));
    }
    Ok(())
}

/// How it works, for the report.
fn mode(way: &str, card: Option<&Card>) -> String {
    let stamps = if card.is_some() { ", hardware timestamps" } else { "" };
    format!("UDP sockets, {way}{stamps}")
}
