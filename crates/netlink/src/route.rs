//! Which way the kernel would send.

use std::net::IpAddr;

use netlink_packet_core::ParseableParametrized;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use wirebeat_units::{Fault, fault, into_fault};

use crate::{LinkIndex, Netlink, NetlinkError, attributes};

const RTM_NEWROUTE: u16 = 24;
/// Bytes of `struct rtmsg`.
const HEADER_LEN: usize = 12;

/// What kind of destination a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// One station elsewhere.
    Unicast,
    /// This host itself.
    Local,
    /// Every station of a network.
    Broadcast,
    /// A group of stations.
    Multicast,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface to send on.
    pub link: LinkIndex,
    /// The next router; `None` when the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The address to send from, where the kernel names one.
    pub source: Option<IpAddr>,
    /// What is there.
    pub kind: RouteKind,
}

/// Why there is no way.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No route leads there.
    #[error("{}", self.fault())]
    NoRoute {
        /// Where to.
        destination: IpAddr,
        /// The interface that was asked for: its name, or its number where it has gone.
        interface: Option<String>,
    },
    /// A route leads there that forbids or swallows the traffic.
    #[error("the route to {destination} refuses traffic (prohibit, blackhole or unreachable)")]
    Refused {
        /// Where to.
        destination: IpAddr,
    },
    /// Netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl RouteError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            RouteError::NoRoute { destination, interface: Some(name) } => fault!(
                "there is no route to {destination} over {name}";
                "add one, or give the port a 'next-hop'"
            ),
            RouteError::NoRoute { destination, interface: None } => {
                fault!("there is no route to {destination}"; "add one, or give the interface")
            }
            RouteError::Refused { .. } => self.to_string().into(),
            RouteError::Netlink(error) => error.fault(),
        }
    }
}

into_fault!(RouteError);

impl Netlink {
    /// The route that the kernel would take to `destination` now, if `link` is given only over it.
    pub fn route_to(
        &mut self,
        destination: IpAddr,
        link: Option<LinkIndex>,
    ) -> Result<Route, RouteError> {
        let mut message = RouteMessage::default();
        (message.header.address_family, message.header.destination_prefix_length) =
            match destination {
                IpAddr::V4(_) => (AddressFamily::Inet, 32),
                IpAddr::V6(_) => (AddressFamily::Inet6, 128),
            };
        message.attributes.push(RouteAttribute::Destination(destination.into()));
        message.attributes.extend(link.map(|link| RouteAttribute::Oif(link.get())));
        let attempt = format!("find the route to {destination}");
        let ask = RouteNetlinkMessage::GetRoute(message);
        let replies = match self.route.request(&attempt, &ask, 0) {
            Ok(replies) => replies,
            Err(e) => {
                return Err(match e.errno() {
                    Some(Errno::NETUNREACH | Errno::NODEV) => {
                        RouteError::NoRoute { destination, interface: self.called(link) }
                    }
                    // What blackhole, prohibit and unreachable routes answer with.
                    Some(Errno::INVAL | Errno::ACCESS | Errno::HOSTUNREACH) => {
                        RouteError::Refused { destination }
                    }
                    _ => e.into(),
                });
            }
        };
        let reply = replies.iter().find(|reply| reply.kind == RTM_NEWROUTE);
        match reply.and_then(|reply| parse(&reply.payload)) {
            Some(Parsed::Route(route)) => Ok(route),
            Some(Parsed::Refusal) => Err(RouteError::Refused { destination }),
            None => Err(NetlinkError::malformed(&attempt, "no route in it").into()),
        }
    }
}

impl Netlink {
    /// What messages call the interface `link`.
    fn called(&mut self, link: Option<LinkIndex>) -> Option<String> {
        let link = link?;
        Some(self.link_by_index(link).map_or_else(|_| link.to_string(), |found| found.name))
    }
}

enum Parsed {
    Route(Route),
    Refusal,
}

fn parse(payload: &[u8]) -> Option<Parsed> {
    let header = RouteHeader::parse(payload).ok()?;
    let kind = match header.kind {
        RouteType::Unicast | RouteType::Anycast => RouteKind::Unicast,
        RouteType::Local => RouteKind::Local,
        RouteType::Broadcast => RouteKind::Broadcast,
        RouteType::Multicast => RouteKind::Multicast,
        _ => return Some(Parsed::Refusal),
    };
    let (mut link, mut gateway, mut source) = (None, None, None);
    for attribute in attributes::iter(payload.get(HEADER_LEN..)?) {
        // The encapsulation type only matters to attributes that are not read here.
        let param = (header.address_family, header.kind, Default::default());
        match RouteAttribute::parse_with_param(&attribute, param) {
            Ok(RouteAttribute::Oif(index)) => link = Some(LinkIndex::new(index)),
            Ok(RouteAttribute::Gateway(address)) => gateway = ip(address),
            Ok(RouteAttribute::Via(RouteVia::Inet(address))) => gateway = Some(address.into()),
            Ok(RouteAttribute::Via(RouteVia::Inet6(address))) => gateway = Some(address.into()),
            Ok(RouteAttribute::PrefSource(address)) => source = ip(address),
            _ => {}
        }
    }
    Some(Parsed::Route(Route { link: link?, gateway, source, kind }))
}

fn ip(address: RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(address.into()),
        RouteAddress::Inet6(address) => Some(address.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_way_to_loopback_is_local() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.link_by_name("lo").unwrap();
        if lo.state == crate::LinkState::Down {
            return; // a bare namespace
        }
        let route = netlink.route_to([127, 0, 0, 1].into(), None).unwrap();
        assert_eq!((route.link, route.gateway, route.kind), (lo.index, None, RouteKind::Local));
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_message_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
