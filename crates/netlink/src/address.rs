//! The IP addresses of an interface, and which of them to send from.

use std::net::IpAddr;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_core::Parseable;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeader, AddressMessage, AddressScope,
};
use wirebeat_units::{Fault, into_fault};

use crate::{LinkIndex, Netlink, NetlinkError, attributes};

const RTM_NEWADDR: u16 = 20;
/// Bytes of `struct ifaddrmsg`.
const HEADER_LEN: usize = 8;

/// How far an address reaches (`enum rt_scope_t` of `linux/rtnetlink.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// This link only: 169.254/16, fe80::/10.
    Link,
    /// This host only: 127/8, ::1.
    Host,
}

/// An IP address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface.
    pub link: LinkIndex,
    /// The address.
    pub address: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix_len: u8,
    /// How far it reaches.
    pub scope: Scope,
    /// Whether it may be sent from: not while duplicates are looked for, found, or when it is
    /// deprecated (RFC 4862 §2).
    pub usable: bool,
}

impl InterfaceAddress {
    /// Whether `other` is in the same network.
    pub fn covers(&self, other: IpAddr) -> bool {
        shared_prefix(self.address, other).is_some_and(|bits| bits >= u32::from(self.prefix_len))
    }
}

/// Why addresses cannot be told.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct AddressError(#[from] NetlinkError);

impl AddressError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        self.0.fault()
    }
}

into_fault!(AddressError);

impl Netlink {
    /// The addresses of one interface, or of all.
    pub fn addresses(
        &mut self,
        link: Option<LinkIndex>,
    ) -> Result<Vec<InterfaceAddress>, AddressError> {
        let mut message = AddressMessage::default();
        message.header.index = link.map_or(0, LinkIndex::get);
        let ask = RouteNetlinkMessage::GetAddress(message);
        let replies = self.route.request("list the addresses", &ask, NLM_F_DUMP)?;
        Ok(replies
            .iter()
            .filter(|reply| reply.kind == RTM_NEWADDR)
            .filter_map(|reply| parse(&reply.payload))
            // A kernel that does not filter (before 5.0) sends them all.
            .filter(|address| link.is_none_or(|link| link == address.link))
            .collect())
    }

    /// The address of an interface to use as source towards `destination`; `None` when it has none
    /// of that family that may be used. The kernel's routes decide; where they do not lead over the
    /// interface, the address in the destination's network, or else the one that reaches furthest.
    pub fn source_for(
        &mut self,
        destination: IpAddr,
        link: LinkIndex,
    ) -> Result<Option<IpAddr>, AddressError> {
        let routed = self.route_to(destination, Some(link)).ok();
        if let Some(source) = routed.filter(|r| r.link == link).and_then(|r| r.source) {
            return Ok(Some(source));
        }
        Ok(choose(&self.addresses(Some(link))?, destination))
    }
}

/// The best of `addresses` towards `destination`: same network first (longest match, RFC 6724 §5
/// rule 8), then the widest scope.
fn choose(addresses: &[InterfaceAddress], destination: IpAddr) -> Option<IpAddr> {
    addresses
        .iter()
        .filter(|a| a.usable && a.address.is_ipv4() == destination.is_ipv4())
        .min_by_key(|a| {
            let shared = shared_prefix(a.address, destination).unwrap_or(0);
            (!a.covers(destination), a.scope, u32::MAX - shared)
        })
        .map(|a| a.address)
}

/// How many leading bits two addresses of one family have in common.
fn shared_prefix(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    }
}

fn parse(payload: &[u8]) -> Option<InterfaceAddress> {
    let header = AddressHeader::parse(payload).ok()?;
    let (mut local, mut address) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(header.flags.bits()));
    for attribute in attributes::iter(payload.get(HEADER_LEN..)?) {
        match AddressAttribute::parse(&attribute) {
            Ok(AddressAttribute::Local(ip)) => local = Some(ip),
            Ok(AddressAttribute::Address(ip)) => address = Some(ip),
            Ok(AddressAttribute::Flags(all)) => flags = all,
            _ => {}
        }
    }
    let unusable = AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated;
    Some(InterfaceAddress {
        link: LinkIndex::new(header.index),
        // On a point-to-point link IFA_ADDRESS is the other end's.
        address: local.or(address)?,
        prefix_len: header.prefix_len,
        scope: match header.scope {
            AddressScope::Universe | AddressScope::Site | AddressScope::Other(_) => Scope::Global,
            AddressScope::Link => Scope::Link,
            _ => Scope::Host,
        },
        usable: !flags.intersects(unusable) || flags.contains(AddressFlags::Optimistic),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str, prefix_len: u8, scope: Scope) -> InterfaceAddress {
        let address = text.parse().unwrap();
        InterfaceAddress { link: LinkIndex::new(2), address, prefix_len, scope, usable: true }
    }

    #[test]
    fn loopback_has_its_address() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.link_by_name("lo").unwrap();
        if lo.state == crate::LinkState::Down {
            return; // a bare namespace: loopback has no address until it is up
        }
        let addresses = netlink.addresses(Some(lo.index)).unwrap();
        let found = addresses.iter().find(|a| a.address == IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!((found.prefix_len, found.scope, found.usable), (8, Scope::Host, true));
    }

    #[test]
    fn the_source_in_the_destinations_network_wins_then_the_widest() {
        let v4 = [
            address("169.254.3.3", 16, Scope::Link),
            address("192.0.2.9", 24, Scope::Global),
            address("10.0.1.9", 24, Scope::Global),
        ];
        let towards =
            |list: &[_], to: &str| choose(list, to.parse().unwrap()).map(|a| a.to_string());
        assert_eq!(towards(&v4, "10.0.1.1").as_deref(), Some("10.0.1.9"));
        assert_eq!(towards(&v4, "169.254.0.1").as_deref(), Some("169.254.3.3"));
        assert_eq!(towards(&v4, "198.51.100.1").as_deref(), Some("192.0.2.9"));
        assert_eq!(towards(&v4, "fd00::1"), None);
        let v6 = [address("fe80::9", 64, Scope::Link), address("fd00:1::9", 64, Scope::Global)];
        assert_eq!(towards(&v6, "2001:db8::1").as_deref(), Some("fd00:1::9"));
        assert_eq!(towards(&v6, "fe80::1").as_deref(), Some("fe80::9"));
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_message_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
