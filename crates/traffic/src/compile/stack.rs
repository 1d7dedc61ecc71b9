//! The headers of a flow with everything filled in that follows from the machine and from one another.

use std::net::IpAddr;

use super::links::Addresses;
use crate::scenario::header::Header;
use crate::scenario::header::ethernet::Ethernet;
use crate::scenario::header::vxlan;
use crate::scenario::number::Number;
use crate::scenario::pattern::{Field, Mac};
use crate::scenario::{Invalid, KeyPath, Packet};

/// The headers from the Ethernet header on, addresses and well-known ports filled in.
pub(super) fn stack(
    name: &str,
    packet: &Packet<'_>,
    addresses: Option<&Addresses>,
) -> Result<Vec<Header>, Invalid> {
    let mut stack: Vec<Header> = packet.headers.iter().map(|&header| header.clone()).collect();
    if packet.ethernet.is_none() && packet.raw.is_none() {
        stack.insert(0, Header::Ethernet(Ethernet::default()));
    }
    if let (Some(addresses), Some(Header::Ethernet(ethernet))) = (addresses, stack.first_mut()) {
        ethernet.source.get_or_insert(Field::Fixed(Mac(addresses.source_mac)));
        ethernet.destination.get_or_insert(Field::Fixed(Mac(addresses.destination_mac)));
    }
    let mut outermost = true;
    for header in &mut stack {
        if matches!(header, Header::Ipv4(_) | Header::Ipv6(_) | Header::Arp(_)) {
            if outermost {
                fill_network(header, addresses)
                    .map_err(|why| KeyPath::flow(name).key("packet").invalid(why))?;
            }
            outermost = false;
        }
    }
    for at in 1..stack.len() {
        if let [Header::Udp(udp), Header::Vxlan(_)] = &mut stack[at - 1..=at] {
            let port = Field::Fixed(Number::new(vxlan::PORT.into()));
            udp.destination.get_or_insert(port);
        }
    }
    Ok(stack)
}

/// Fills the addresses of the outermost network header in.
fn fill_network(header: &mut Header, addresses: Option<&Addresses>) -> Result<(), &'static str> {
    let Some(addresses) = addresses else { return Ok(()) };
    match (header, addresses.source, addresses.destination) {
        (Header::Ipv4(ip), IpAddr::V4(source), IpAddr::V4(destination)) => {
            ip.source.get_or_insert(Field::Fixed(source));
            ip.destination.get_or_insert(Field::Fixed(destination));
        }
        (Header::Ipv6(ip), IpAddr::V6(source), IpAddr::V6(destination)) => {
            ip.source.get_or_insert(Field::Fixed(source));
            ip.destination.get_or_insert(Field::Fixed(destination));
        }
        (Header::Arp(arp), IpAddr::V4(source), IpAddr::V4(destination)) => {
            arp.sender.get_or_insert(Field::Fixed(source));
            arp.target.get_or_insert(Field::Fixed(destination));
            arp.sender_mac.get_or_insert(Field::Fixed(Mac(addresses.source_mac)));
        }
        _ => return Err("source and destination are of different families"),
    }
    Ok(())
}
