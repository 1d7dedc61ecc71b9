//! Finds the IP packet in a captured frame, and what it carries. Nothing is believed before it is checked; checksums
//! are not looked at, since a capture on the sender has them before the network card fills them in.

use std::net::IpAddr;
use std::ops::Range;

use wirebeat_wire::carrier::MAX_LABELS;
use wirebeat_wire::ethernet::{self, EtherType};
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::{ipv4, ipv6, udp, vlan};

use super::{Frame, LinkType};

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
    let at = frame.bytes.len() - network.len();
    let mut packet = match version {
        4 => v4(network, bad)?,
        _ => v6(network, bad)?,
    };
    packet.carried = packet.carried.start + at..packet.carried.end + at;
    let has_ports = matches!(packet.protocol, Protocol::TCP | Protocol::UDP | Protocol::DCCP)
        || packet.protocol == Protocol::SCTP;
    let carried = frame.bytes.get(packet.carried.clone()).unwrap_or_default();
    if let Some(&[a, b, c, d]) = carried.first_chunk().filter(|_| has_ports) {
        packet.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    }
    Ok(packet)
}

/// The payload of the UDP datagram that `packet`, which is of `frame`, carries.
pub fn datagram(frame: &Frame<'_>, packet: &Packet) -> Result<Range<usize>, Reason> {
    if packet.protocol != Protocol::UDP {
        return Err(Reason::NotUdp);
    }
    let carried = frame.bytes.get(packet.carried.clone()).unwrap_or_default();
    let payload = udp::Packet::parse(carried).ok_or(Reason::Malformed)?.payload();
    let begin = packet.carried.start + udp::LEN;
    Ok(begin..begin + payload.len())
}

/// The version of IP and its bytes, behind whatever the link has before them.
fn network<'a>(frame: &Frame<'a>, bad: Reason) -> Result<(u8, &'a [u8]), Reason> {
    /// Where the EtherType is in a "cooked" header, and how long that is.
    const SLL: (usize, usize) = (14, 16);
    const SLL2: (usize, usize) = (0, 20);
    let bytes = frame.bytes;
    let cooked = |(at, len): (usize, usize)| {
        let ether_type = bytes.get(at..)?.first_chunk()?;
        Some((EtherType(u16::from_be_bytes(*ether_type)), bytes.get(len..)?))
    };
    let (ether_type, payload) = match frame.link {
        LinkType::ETHERNET => ethernet::Frame::parse(bytes)
            .map(|frame| (frame.ether_type(), frame.payload()))
            .ok_or(bad)?,
        LinkType::LINUX_SLL => cooked(SLL).ok_or(bad)?,
        LinkType::LINUX_SLL2 => cooked(SLL2).ok_or(bad)?,
        // the family has another number on each system, and the packet says it as well
        LinkType::NULL | LinkType::LOOP => return version(bytes.get(4..).ok_or(bad)?, bad),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => return version(bytes, bad),
        link if LinkType::RAW_BSD.contains(&link) => return version(bytes, bad),
        _ => return Err(Reason::Link),
    };
    match vlan::skip(ether_type, payload).ok_or(bad)? {
        (EtherType::IPV4, packet) => Ok((4, packet)),
        (EtherType::IPV6, packet) => Ok((6, packet)),
        (EtherType::MPLS | EtherType::MPLS_MULTICAST, packet) => {
            version(behind_labels(packet, bad)?, bad)
        }
        _ => Err(Reason::NotIp),
    }
}

/// What stands behind a stack of labels (RFC 3032 §2.1).
fn behind_labels(mut packet: &[u8], bad: Reason) -> Result<&[u8], Reason> {
    for _ in 0..MAX_LABELS {
        let (label, rest) = packet.split_first_chunk::<4>().ok_or(bad)?;
        packet = rest;
        if label[2] & 1 == 1 {
            return Ok(packet);
        }
    }
    Err(Reason::NotIp)
}

/// The version that the first digit says.
fn version(packet: &[u8], bad: Reason) -> Result<(u8, &[u8]), Reason> {
    match packet.first().map(|byte| byte >> 4) {
        Some(version @ (4 | 6)) => Ok((version, packet)),
        Some(_) => Err(Reason::NotIp),
        None => Err(bad),
    }
}

fn v4(bytes: &[u8], bad: Reason) -> Result<Packet, Reason> {
    let packet = ipv4::Packet::parse(bytes).ok_or(bad)?;
    if packet.is_fragment() {
        return Err(Reason::Fragment);
    }
    let begin = packet.header_len();
    Ok(Packet {
        source: packet.source().into(),
        destination: packet.destination().into(),
        protocol: packet.protocol(),
        ports: [0; 2],
        carried: begin..begin + packet.payload().len(),
    })
}

fn v6(bytes: &[u8], bad: Reason) -> Result<Packet, Reason> {
    let packet = ipv6::Packet::parse(bytes).ok_or(bad)?;
    let (protocol, carried) = packet.upper_layer().ok_or(bad)?;
    if protocol == Protocol::FRAGMENT {
        return Err(Reason::Fragment);
    }
    let end = ipv6::LEN + packet.payload().len();
    Ok(Packet {
        source: packet.source().into(),
        destination: packet.destination().into(),
        protocol,
        ports: [0; 2],
        carried: end - carried.len()..end,
    })
}
