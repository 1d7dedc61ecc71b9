//! Ports: the ends of the links under test.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use wirebeat_units::{BitRate, Bytes, fault};
use wirebeat_wire::mac::MacAddr;

use super::capture::CaptureSpec;
use super::hosts::{CableSpec, HostsSpec};
use super::is_default;
use super::schema::{BitRateText, BytesText, MacText};
use crate::engines::EngineChoice;

/// How frames go between the driver of an interface and a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XdpModeChoice {
    /// As the driver offers: without a copy where it can, else with one; in the stack where it runs no XDP programs.
    #[default]
    Auto,
    /// The driver sends from the memory that frames are built in, and receives into it; refused where it cannot.
    ZeroCopy,
    /// The driver runs the XDP program, and the kernel copies each frame.
    Copy,
    /// The stack runs the XDP program, with any driver, and the kernel copies each frame.
    Generic,
}

/// An end of a link: where frames leave and arrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortSpec {
    /// The network interface. Default: the one on the way to the first destination of flows from here. The engines
    /// `kernel` and `packet` need one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interface: Option<String>,
    /// The network namespace that the interface is in, as `ip netns` names it. Default: the current one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<String>,
    /// How frames are sent and received.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: EngineChoice,
    /// The CPUs that send, one thread on each. A flow stays on one of them, unless it is the only one: then several spread
    /// it, and its order is not kept. Default: wherever the system puts them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cores: Vec<u16>,
    /// How many threads send, at most: a flow with a rate, and a device of a replay, stays on one. What is sent as fast as
    /// possible is spread. Default: one for each of `cores`, or one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queues: Option<NonZeroU16>,
    /// The transmit queues that frames leave by, one thread for each: on a CPU that sends by it, as the kernel's table (XPS) or
    /// the driver has it. Instead of `cores`. Default: those of the CPUs that send.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transmit_queues: Vec<u16>,
    /// How many threads receive, each with a queue of its own: frames are divided among them by their addresses and ports.
    /// Default: one. The engine `kernel` meters on the CPUs that frames arrive at, whatever this says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receive_queues: Option<NonZeroU16>,
    /// How frames go between the driver and the engine `xdp`. Default: as the driver allows; the report says which it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xdp_mode: XdpModeChoice,
    /// Whether the threads of the engine `xdp` serve the card's queues themselves instead of waiting for its interrupts
    /// (preferred busy polling). Default: no.
    #[serde(default, skip_serializing_if = "is_default")]
    pub busy_poll: bool,
    /// Whether the card sends each frame of the engine `xdp` at its launch time by its own clock: it has the frame half a
    /// millisecond before. Refused where the driver does not offer that. Default: no, frames leave when they are handed over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub launch_time: bool,
    /// Whether the engine `xdp` asks the driver by which hash the card chose the receive queue of each frame, for captures.
    /// Refused where the driver does not say it. Default: no.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receive_hash: bool,
    /// The port's addresses: where flows from it come from and flows to it go to, unless their packet
    /// says otherwise. Default: those of the interface.
    #[serde(default, skip_serializing_if = "is_default")]
    pub addresses: Vec<IpAddr>,
    /// The Ethernet address that every frame from here is sent to, unless its packet says otherwise.
    /// Default: the next hop towards the destination, as the system knows it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub next_hop: Option<MacAddr>,
    /// The speed of the link, where the system does not know it or knows it wrong.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BitRateText>")]
    pub speed: Option<BitRate>,
    /// The longest network packet that frames from here carry; longer ones leave as IP fragments. Default: the
    /// link's MTU, or 9000 bytes where it is not known.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub mtu: Option<Bytes>,
    /// The port is on another host: the address where `wirebeat receive --listen` listens there and measures what arrives, for
    /// example `10.0.0.2:5960`. Flows come from it only where that receiver was started with `--allow-send`, and
    /// sessions go to it only where it was started with `--allow-serve`. What else it is, that receiver says.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "listener")]
    pub peer: Option<SocketAddr>,
    /// The file that holds the key of the receiver on the other host. None is needed for a loopback address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key_file: Option<String>,
    /// Keeps the frames that the port receives, or sends, in a file while it measures them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capture: Option<CaptureSpec>,
    /// How the hosts of sessions with `stack: own` are on the link.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hosts: HostsSpec,
    /// The link in memory that the engines `loopback` and `pcap` have for sessions: what happens to frames from here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cable: CableSpec,
    /// The pcapng file that the engine `pcap` writes instead of sending.
    #[serde(default, skip_serializing_if = "is_default")]
    pub file: Option<String>,
}

/// An address where a receiver listens; the port may be left out.
fn listener<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let usual = || text.parse::<IpAddr>().map(|address| (address, PortSpec::CONTROL_PORT).into());
    let address = text.parse::<SocketAddr>().or_else(|_| usual());
    address.map(Some).map_err(|_| {
        crate::text::custom(fault!(
            "'{text}' is not an IP address with a TCP port";
            "write for example 10.0.0.2:5960 or [2001:db8::2]:5960"
        ))
    })
}

impl PortSpec {
    /// The TCP port of a control connection where none is written: IANA has not assigned it, and Linux gives out ports from
    /// 32768 on by itself.
    pub const CONTROL_PORT: u16 = 5960;
    /// What a link may carry: enough for headers, a probe and fragments that are worth it, up to IP's longest packet
    /// (RFC 791 §3.1).
    pub const MTU: RangeInclusive<u64> = 128..=65_535;
    /// The most receive queues of a port: each has a ring and a thread.
    pub const RECEIVE_QUEUES_MAX: u16 = 32;

    /// The first of these settings that is written and that a port on another host does not have.
    pub(super) fn beside_peer(&self) -> Option<&'static str> {
        let written = [
            ("interface", self.interface.is_some()),
            ("namespace", self.namespace.is_some()),
            ("engine", !is_default(&self.engine)),
            ("cores", !self.cores.is_empty()),
            ("queues", self.queues.is_some()),
            ("transmit-queues", !self.transmit_queues.is_empty()),
            ("receive-queues", !is_default(&self.receive_queues)),
            ("xdp-mode", !is_default(&self.xdp_mode)),
            ("busy-poll", self.busy_poll),
            ("launch-time", self.launch_time),
            ("receive-hash", self.receive_hash),
            ("next-hop", self.next_hop.is_some()),
            ("speed", self.speed.is_some()),
            ("mtu", self.mtu.is_some()),
            ("capture", self.capture.is_some()),
            ("hosts", !is_default(&self.hosts)),
            ("cable", !is_default(&self.cable)),
            ("file", self.file.is_some()),
        ];
        written.into_iter().find(|(_, is_written)| *is_written).map(|(key, _)| key)
    }

    /// How many threads send.
    pub fn senders(&self) -> u16 {
        match self.queues {
            Some(queues) => queues.get(),
            None => {
                let named = self.cores.len().max(self.transmit_queues.len());
                u16::try_from(named).unwrap_or(u16::MAX).max(1)
            }
        }
    }

    /// How many threads receive, where threads do.
    pub fn receivers(&self) -> u16 {
        self.receive_queues.map_or(1, NonZeroU16::get)
    }

    /// Whether it names several CPUs or transmit queues, over which one flow is spread.
    pub fn names_several(&self) -> bool {
        self.cores.len() > 1 || self.transmit_queues.len() > 1
    }
}
