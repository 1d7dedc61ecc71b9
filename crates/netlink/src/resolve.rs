//! From a destination to everything a frame needs to get there.
//!
//! The one question that engines and the command line ask of this crate: which interface, which
//! addresses in the Ethernet and IP headers, through which router.

use std::net::IpAddr;
use std::time::Duration;

use wirebeat_units::{Fault, fault, into_fault};

use crate::{
    AddressError, Link, LinkError, LinkIndex, LinkLayer, LinkState, MacAddr, NeighbourError,
    Netlink, Route, RouteError, RouteKind,
};

/// How long to wait for a neighbour: as long as the kernel itself asks (3 requests, 1 s apart).
const PATIENCE: Duration = Duration::from_secs(3);

/// What is given beside the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveOptions {
    /// Send on this interface, whatever the routes say.
    pub interface: Option<LinkIndex>,
    /// Send from this address; it need not be one of this host.
    pub source: Option<IpAddr>,
    /// Send to this station; nobody is asked.
    pub destination_mac: Option<MacAddr>,
    /// How long to wait for a neighbour.
    pub timeout: Duration,
}

impl Default for ResolveOptions {
    fn default() -> Self {
        ResolveOptions { interface: None, source: None, destination_mac: None, timeout: PATIENCE }
    }
}

/// How to reach a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The interface to send on; its speed, MTU and queues are here too.
    pub link: Link,
    /// The interface's own link-layer address.
    pub source_mac: MacAddr,
    /// The address to send from; `None` when the interface has none of this family.
    pub source_address: Option<IpAddr>,
    /// The link-layer address of the destination or of the router on the way.
    pub destination_mac: MacAddr,
    /// The router on the way; `None` when the destination is on the link.
    pub via: Option<IpAddr>,
}

/// Why a destination cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ResolveError {
    /// There is no such interface.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Nothing leads there.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The addresses cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The interface cannot send.
    NotUp {
        /// The interface.
        name: String,
        /// Its state.
        state: LinkState,
    },
    /// The interface does not carry Ethernet frames.
    NotEthernet(String),
    /// The destination is this host.
    Local {
        /// Where to.
        destination: IpAddr,
        /// The interface that was asked for.
        interface: String,
    },
    /// The interface does not ask for neighbours.
    NoResolution(String),
    /// The neighbour did not answer.
    NoAnswer {
        /// Whom we asked for: the destination, or the router on the way.
        address: IpAddr,
        /// On which interface.
        interface: String,
        /// How long we waited.
        waited: Duration,
    },
    /// The neighbour cannot be asked for.
    Neighbour(#[source] NeighbourError),
}

impl ResolveError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ResolveError::Link(inner) => inner.fault(),
            ResolveError::Route(inner) => inner.fault(),
            ResolveError::Address(inner) => inner.fault(),
            ResolveError::NotUp { name, state } => {
                fault!("interface {name} is {state}"; "{}", remedy(*state))
            }
            ResolveError::NotEthernet(it) => {
                fault!(
                    "interface {it} does not carry Ethernet frames";
                    "use the engine 'socket' there"
                )
            }
            ResolveError::Local { destination, interface } => {
                fault!(
                    "{destination} is an address of this host, frames to it do not leave through \
                     {interface}";
                    "put the receiver into another network namespace, or give the port a 'next-hop'"
                )
            }
            ResolveError::NoResolution(it) => {
                fault!(
                    "interface {it} does not ask for its neighbours' addresses (NOARP)";
                    "give the port a 'next-hop'"
                )
            }
            ResolveError::NoAnswer { address, interface, waited } => {
                fault!(
                    "no neighbour answered for {address} on {interface} within {} s",
                    waited.as_secs_f64();
                    "is it up? give the port a 'next-hop' to override"
                )
            }
            ResolveError::Neighbour(it) => fault!("{it}, or give the port a 'next-hop'"),
        }
    }
}

into_fault!(ResolveError);

fn remedy(state: LinkState) -> &'static str {
    match state {
        LinkState::Down => "set it up first (`ip link set … up`)",
        _ => "connect its other end, or set that up",
    }
}

impl Netlink {
    /// Finds out how to reach `destination`. May have the kernel ask for a neighbour, which takes
    /// CAP_NET_ADMIN and up to the timeout.
    pub fn resolve(
        &mut self,
        destination: IpAddr,
        options: &ResolveOptions,
    ) -> Result<Resolved, ResolveError> {
        let (link, route) = self.way(destination, options)?;
        if link.state != LinkState::Up {
            return Err(ResolveError::NotUp { name: link.name, state: link.state });
        }
        let source_mac = match (link.layer, link.mac) {
            (LinkLayer::Ethernet | LinkLayer::Loopback, Some(mac)) => mac,
            _ => return Err(ResolveError::NotEthernet(link.name)),
        };
        let source_address = match options.source.or(route.and_then(|route| route.source)) {
            Some(source) => Some(source),
            None => self.source_for(destination, link.index)?,
        };
        let via = route.and_then(|route| route.gateway);
        let destination_mac = match options.destination_mac {
            Some(mac) => mac,
            None => self.next_hop(destination, &link, route, options.timeout)?,
        };
        Ok(Resolved { link, source_mac, source_address, destination_mac, via })
    }

    /// The interface, and the route over it where one is needed or there is one.
    fn way(
        &mut self,
        destination: IpAddr,
        options: &ResolveOptions,
    ) -> Result<(Link, Option<Route>), ResolveError> {
        let Some(index) = options.interface else {
            let route = self.route_to(destination, None)?;
            return Ok((self.link_by_index(route.link)?, Some(route)));
        };
        let link = self.link_by_index(index)?;
        match self.route_to(destination, Some(index)) {
            Ok(route) if route.link == index => Ok((link, Some(route))),
            // With the station given no route is needed; groups and broadcasts need none either.
            _ if options.destination_mac.is_some() || MacAddr::of_group(destination).is_some() => {
                Ok((link, None))
            }
            Ok(route) if route.kind == RouteKind::Local => {
                Err(ResolveError::Local { destination, interface: link.name })
            }
            Ok(_) => Err(RouteError::NoRoute { destination, interface: Some(link.name) }.into()),
            Err(_) if link.state != LinkState::Up => Ok((link, None)),
            Err(e) => Err(e.into()),
        }
    }

    /// The station that a frame to `destination` goes to first.
    fn next_hop(
        &mut self,
        destination: IpAddr,
        link: &Link,
        route: Option<Route>,
        timeout: Duration,
    ) -> Result<MacAddr, ResolveError> {
        if let Some(mac) = MacAddr::of_group(destination) {
            return Ok(mac);
        }
        if route.is_some_and(|route| route.kind == RouteKind::Broadcast) {
            return Ok(MacAddr::BROADCAST);
        }
        if link.layer == LinkLayer::Loopback {
            return Ok(MacAddr::default());
        }
        if !link.resolves {
            return Err(ResolveError::NoResolution(link.name.clone()));
        }
        let next = route.and_then(|route| route.gateway).unwrap_or(destination);
        self.neighbour(next, link.index, timeout).map_err(|error| match error {
            NeighbourError::NoAnswer { address, waited, .. } => {
                ResolveError::NoAnswer { address, interface: link.name.clone(), waited }
            }
            error => ResolveError::Neighbour(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_neighbour() {
        let mut netlink = Netlink::open().unwrap();
        if netlink.link_by_name("lo").unwrap().state == LinkState::Down {
            return; // a bare namespace
        }
        let to = IpAddr::from([127, 0, 0, 1]);
        let resolved = netlink.resolve(to, &ResolveOptions::default()).unwrap();
        assert_eq!(resolved.link.name, "lo");
        assert_eq!(resolved.destination_mac, MacAddr::default());
        assert_eq!(resolved.source_address, Some(to));
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = ResolveError::NoAnswer {
            address: [10, 0, 0, 2].into(),
            interface: "eth1".to_owned(),
            waited: PATIENCE,
        };
        assert_eq!(
            error.to_string(),
            "no neighbour answered for 10.0.0.2 on eth1 within 3 s; is it up? give the port a 'next-hop' to override"
        );
    }
}
