//! What the headers of a flow mean together.

use std::net::IpAddr;

use wirebeat_units::{FCS, FrameLen};
use wirebeat_wire::frame::IpVersion;
use wirebeat_wire::probe;

use super::header::ethernet::Ethernet;
use super::header::ipv4::Ipv4;
use super::header::ipv6::Ipv6;
use super::header::payload::Payload;
use super::header::udp::Udp;
use super::header::{Header, HeaderSpec, Position};
use super::{FlowSpec, Invalid, KeyPath};

/// The headers of a packet by their place.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The link layer, where it is written out.
    pub ethernet: Option<&'a Ethernet>,
    /// The network layer.
    pub network: Network<'a>,
    /// The transport layer.
    pub udp: &'a Udp,
    /// What follows.
    pub payload: &'a Payload,
}

/// A network layer.
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// IPv4.
    V4(&'a Ipv4),
    /// IPv6.
    V6(&'a Ipv6),
}

impl Network<'_> {
    /// Which version of the Internet Protocol it is.
    pub fn version(&self) -> IpVersion {
        match self {
            Network::V4(_) => IpVersion::V4,
            Network::V6(_) => IpVersion::V6,
        }
    }
    /// The source address, where it is written out.
    pub fn source(&self) -> Option<IpAddr> {
        match self {
            Network::V4(header) => header.source.map(IpAddr::V4),
            Network::V6(header) => header.source.map(IpAddr::V6),
        }
    }
    /// The destination address, where it is written out.
    pub fn destination(&self) -> Option<IpAddr> {
        match self {
            Network::V4(header) => header.destination.map(IpAddr::V4),
            Network::V6(header) => header.destination.map(IpAddr::V6),
        }
    }
    /// Whether an address is of this family.
    pub fn speaks(&self, address: &IpAddr) -> bool {
        match self.version() {
            IpVersion::V4 => address.is_ipv4(),
            IpVersion::V6 => address.is_ipv6(),
        }
    }
}

impl FlowSpec {
    /// The headers by their place; an error when one is missing, double, or in the wrong order. `name`
    /// is the flow's.
    pub fn headers(&self, name: &str) -> Result<Packet<'_>, Invalid> {
        let at = || KeyPath::flow(name).key("packet");
        let (mut ethernet, mut network, mut udp) = (None, None, None);
        let mut payload = &Payload::Zeros;
        let mut last: Option<&Header> = None;
        for (index, header) in self.packet.iter().enumerate() {
            if let Some(last) = last.filter(|last| last.position() >= header.position()) {
                return Err(at().index(index).key(header.name()).invalid(format!(
                    "{} cannot follow {}; a packet is written from the outside in: ethernet, ipv4 or \
                     ipv6, udp, payload, each at most once",
                    header.name(),
                    last.name()
                )));
            }
            last = Some(header);
            match header {
                Header::Ethernet(header) => ethernet = Some(header),
                Header::Ipv4(header) => network = Some(Network::V4(header)),
                Header::Ipv6(header) => network = Some(Network::V6(header)),
                Header::Udp(header) => udp = Some(header),
                Header::Payload(content) => payload = content,
            }
        }
        let network = network
            .ok_or_else(|| at().invalid("a packet needs a network header: add '- ipv4: {}'"))?;
        let udp =
            udp.ok_or_else(|| at().invalid("a packet needs a transport header: add '- udp: {}'"))?;
        Ok(Packet { ethernet, network, udp, payload })
    }

    /// The shortest frame that holds the headers and, if there is one, the probe.
    pub fn shortest(&self) -> FrameLen {
        // There is an Ethernet header whether it is written out or not.
        let headers: u16 = self
            .packet
            .iter()
            .filter(|header| header.position() > Position::Link)
            .map(|header| header.spec().header_len())
            .fold(Ethernet::default().header_len(), u16::saturating_add);
        let probe = if self.probe { probe::LEN as u16 } else { 0 };
        let len = headers.saturating_add(probe).saturating_add(FCS);
        FrameLen::with_fcs(len).max(FrameLen::MIN)
    }

    /// The length of its frames.
    pub fn frame_len(&self) -> FrameLen {
        self.size.unwrap_or_else(|| self.shortest())
    }
}
