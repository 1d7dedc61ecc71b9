//! Finds the IP packet in a captured frame, and what it carries. Nothing is believed before it is checked; checksums
//! are not looked at, since a capture on the sender has them before the network card fills them in.

use std::net::IpAddr;
use std::ops::Range;

use wirebeat_wire::datagram::NotADatagram;
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::{Protocol, Version};
use wirebeat_wire::udp;
use wirebeat_wire::walk::{self, Policy};

use super::{Frame, LinkHeader};

/// Why nothing was taken from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Link,
    NotIp,
    Fragment,
    NotUdp,
    Cut,
    Malformed,
    Timeless,
    Long,
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: Protocol,
    /// Of protocols that have them.
    pub ports: [u16; 2],
    /// Where in the frame what it carries is: behind the IP header and its extensions.
    pub carried: Range<usize>,
}

/// The packet in a frame.
pub fn packet(frame: &Frame<'_>) -> Result<Packet, Reason> {
    // what is not there because it was not captured contradicts nothing
    let bad = if frame.is_cut() { Reason::Cut } else { Reason::Malformed };
    let (version, network) = network(frame, bad)?;
    let ip = walk::ip_packet(network, version, Policy::Strict).ok_or(bad)?;
    if ip.is_fragment() {
        return Err(Reason::Fragment);
    }
    let ports = match *ip.content {
        [a, b, c, d, ..] if ip.protocol.has_ports() => {
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        }
        _ => [0; 2],
    };
    let begin = frame.bytes.len() - network.len() + ip.headers_len;
    Ok(Packet {
        source: ip.source(),
        destination: ip.destination(),
        protocol: ip.protocol,
        ports,
        carried: begin..begin + ip.content.len(),
    })
}

/// The payload of the UDP datagram that `packet`, which is of `frame`, carries.
pub fn datagram(frame: &Frame<'_>, packet: &Packet) -> Result<Range<usize>, Reason> {
    if packet.protocol != Protocol::UDP {
        return Err(Reason::NotUdp);
    }
    let carried = frame.bytes.get(packet.carried.clone()).unwrap_or_default();
    let payload = udp::CarriedDatagram::parse(carried).ok_or(Reason::Malformed)?.payload();
    let begin = packet.carried.start + udp::LEN;
    Ok(begin..begin + payload.len())
}

/// The version of IP and its bytes, behind whatever the link has before them.
fn network<'a>(frame: &Frame<'a>, bad: Reason) -> Result<(Version, &'a [u8]), Reason> {
    let bytes = frame.bytes;
    let of_link = match frame.link.header().ok_or(Reason::Link)? {
        LinkHeader::Ethernet => walk::network(bytes),
        LinkHeader::Cooked { ether_type_at, len } => EtherType::read(bytes, ether_type_at)
            .and_then(|ether_type| walk::behind_tags(bytes, ether_type, len)),
        LinkHeader::None { skipped } => return by_version(bytes.get(skipped..).ok_or(bad)?, bad),
    };
    let (ether_type, at) = of_link.ok_or(bad)?;
    let packet = bytes.get(at..).ok_or(bad)?;
    if ether_type.is_mpls() {
        let (_, packet) = walk::behind_labels(packet).map_err(|why| match why {
            NotADatagram::Foreign => Reason::NotIp,
            NotADatagram::Malformed => bad,
        })?;
        return by_version(packet, bad);
    }
    ether_type.version().map(|version| (version, packet)).ok_or(Reason::NotIp)
}

/// The version that the first digit says.
fn by_version(packet: &[u8], bad: Reason) -> Result<(Version, &[u8]), Reason> {
    let why = if packet.is_empty() { bad } else { Reason::NotIp };
    Version::of_packet(packet).map(|version| (version, packet)).ok_or(why)
}
