//! What a socket is told of a flow whose headers the system makes.

use std::net::SocketAddr;

use super::links::Addresses;
use crate::program::{Endpoint, Replaced};
use crate::scenario::header::checksum::Checksum;
use crate::scenario::header::dscp::Dscp;
use crate::scenario::header::ethernet::Ethernet;
use crate::scenario::header::ipv4::Ipv4;
use crate::scenario::header::ipv6::Ipv6;
use crate::scenario::header::udp::Udp;
use crate::scenario::number::Number;
use crate::scenario::pattern::Field;
use crate::scenario::{Network, Packet};

/// The endpoint of a flow; `None` where its headers are not ones that a system makes by itself: anything but
/// UDP over IP, a field that changes, or one that a socket cannot set.
pub(super) fn endpoint(packet: &Packet<'_>, addresses: Option<&Addresses>) -> Option<Endpoint> {
    let (udp, addresses) = (packet.udp?, addresses?);
    let (ttl, tos) = match packet.network? {
        Network::V4(ip) => v4(ip)?,
        Network::V6(ip) => v6(ip)?,
        Network::Arp(_) => return None,
    };
    let (source, destination, checksum) = ports(udp)?;
    Some(Endpoint {
        source: SocketAddr::new(addresses.source, source),
        destination: SocketAddr::new(addresses.destination, destination),
        ttl,
        tos,
        checksum,
        replaced: replaced(packet),
    })
}

/// What is written that a socket cannot set.
fn replaced(packet: &Packet<'_>) -> Replaced {
    let ethernet = packet.ethernet.is_some_and(|ethernet| *ethernet != Ethernet::default());
    let (identification, flow_label) = match packet.network {
        Some(Network::V4(ip)) => (ip.identification != Ipv4::default().identification, false),
        Some(Network::V6(ip)) => (false, ip.flow_label != Ipv6::default().flow_label),
        _ => (false, false),
    };
    Replaced { ethernet, identification, flow_label }
}

/// Time to live and ToS.
fn v4(ip: &Ipv4) -> Option<(u8, u8)> {
    let usual = Ipv4::default();
    // Of these the system decides. An identification is the system's too, and does no harm.
    let plain = Ipv4 {
        source: ip.source.clone(),
        destination: ip.destination.clone(),
        ttl: ip.ttl.clone(),
        dscp: ip.dscp.clone(),
        ecn: ip.ecn.clone(),
        tos: ip.tos.clone(),
        // A socket sets the bit where the packet fits the link.
        dont_fragment: ip.dont_fragment.filter(|on| *on),
        identification: ip.identification.clone(),
        ..usual
    };
    let fixed = is_fixed(&ip.source) && is_fixed(&ip.destination);
    (plain == *ip && fixed)
        .then(|| Some((byte(&ip.ttl)?, tos(&ip.tos, &ip.dscp, &ip.ecn)?)))
        .flatten()
}

/// Hop limit and traffic class. A flow label is the system's, and does no harm.
fn v6(ip: &Ipv6) -> Option<(u8, u8)> {
    let plain = ip.length.is_none() && ip.next_header.is_none() && ip.flow_label.fixed().is_some();
    let fixed = is_fixed(&ip.source) && is_fixed(&ip.destination);
    (plain && fixed)
        .then(|| Some((byte(&ip.hop_limit)?, tos(&ip.traffic_class, &ip.dscp, &ip.ecn)?)))
        .flatten()
}

/// Source port (0: the system chooses), destination port, and whether there is a checksum.
fn ports(udp: &Udp) -> Option<(u16, u16, bool)> {
    let checksum = match udp.checksum {
        Checksum::On => true,
        Checksum::Off => false,
        Checksum::Wrong | Checksum::Set(_) => return None,
    };
    let source = match &udp.source {
        Some(source) => u16::try_from(source.fixed()?.get()).ok()?,
        None => 0,
    };
    let destination = u16::try_from(udp.destination_or_default().fixed()?.get()).ok()?;
    udp.length.is_none().then_some((source, destination, checksum))
}

fn is_fixed<T: crate::scenario::pattern::FieldValue>(field: &Option<Field<T>>) -> bool {
    field.as_ref().is_none_or(|field| field.fixed().is_some())
}

fn byte(field: &Field<Number>) -> Option<u8> {
    u8::try_from(field.fixed()?.get()).ok()
}

fn tos(
    whole: &Option<Field<Number>>,
    dscp: &Option<Field<Dscp>>,
    ecn: &Option<Field<Number>>,
) -> Option<u8> {
    if let Some(whole) = whole {
        return byte(whole);
    }
    let dscp = match dscp {
        Some(dscp) => dscp.fixed()?.to_tos(),
        None => 0,
    };
    let ecn = match ecn {
        Some(ecn) => byte(ecn)?,
        None => 0,
    };
    Some(dscp | ecn)
}
