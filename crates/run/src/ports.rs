//! The ports of a scenario on this machine: their namespaces, links, addresses and engines.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wirebeat_engine_linux::card::SharedCard;
use wirebeat_engine_linux::kernel::{Attachment, XdpBuffers, XdpPlace};
use wirebeat_engine_linux::xdp::needs_several_buffers;
use wirebeat_netlink::{
    Channels, Link, LinkError, LinkIndex, LinkLayer, Namespace, Netlink, ResolveError,
    ResolveOptions, RouteKind, XdpFeatures, XdpMode,
};
use wirebeat_traffic::compile::{Destination, Link as Facts, Links, Route, destinations};
use wirebeat_traffic::scenario::{PortSpec, Scenario, XdpModeChoice};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::mac::MacAddr;

use crate::engines::{Ability, Engine, EngineReason};
use crate::error::RunError;
use crate::lab::KnownRoutes;

/// A port, found on this machine.
#[derive(Debug)]
pub(crate) struct ResolvedPort {
    pub(crate) name: String,
    pub(crate) spec: PortSpec,
    pub(crate) namespace: Option<Namespace>,
    /// `None` for engines without one.
    pub(crate) link: Option<Link>,
    /// Why it uses its engine.
    pub(crate) engine_reason: EngineReason,
    /// The XDP program on it, once the kernel engine needs one.
    pub(crate) attachment: OnceLock<Arc<Attachment>>,
    /// Its card, where that stamps frames.
    pub(crate) card: OnceLock<SharedCard>,
    /// What its engine keeps from opening its receiver until it opens its transmitters.
    pub(crate) engine_state: Mutex<Option<Box<dyn Any + Send>>>,
}

impl ResolvedPort {
    /// Runs `work` in the port's namespace.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, RunError> {
        match &self.namespace {
            Some(namespace) => {
                namespace.run(work).map_err(|error| RunError::machine(error.fault()))
            }
            None => Ok(work()),
        }
    }

    /// A handle on the port's namespace.
    pub(crate) fn netlink(&self) -> Result<Netlink, RunError> {
        match &self.namespace {
            Some(namespace) => {
                Netlink::open_in(namespace).map_err(|error| RunError::machine(error.fault()))
            }
            None => Netlink::open().map_err(|error| RunError::machine(error.fault())),
        }
    }

    /// The longest frame, without FCS, that a session which can be changed has room for in any case: what the link
    /// carries, up to that of plain Ethernet.
    pub(crate) fn room(&self) -> u16 {
        const PLAIN: u32 = 1500;
        const HEADER: u16 = 14;
        let mtu = self.link.as_ref().map_or(PLAIN, |link| link.mtu.min(PLAIN));
        HEADER + mtu as u16
    }

    /// Its interface, for messages.
    pub(crate) fn interface(&self) -> &str {
        self.link.as_ref().map_or("no interface", |link| link.name.as_str())
    }

    /// How many receive queues are in use.
    fn queues(&self) -> Option<u32> {
        let link = self.link.as_ref()?;
        let used = self.channels().and_then(|channels| used(channels.rx, channels.combined));
        Some(used.unwrap_or(link.rx_queues))
    }

    /// How many transmit queues are in use.
    pub(crate) fn transmit_queues(&self) -> Option<u32> {
        let link = self.link.as_ref()?;
        let used = self.channels().and_then(|channels| used(channels.tx, channels.combined));
        Some(used.unwrap_or(link.tx_queues))
    }

    /// What the driver says of its queues. A virtual cable has as many as the machine CPUs, and uses one until somebody
    /// asks for more.
    fn channels(&self) -> Option<Channels> {
        self.netlink().ok()?.channels(self.link.as_ref()?.index).ok()
    }

    /// Whether all frames come in through one queue, one after the other.
    pub(crate) fn has_one_queue(&self) -> bool {
        self.queues() == Some(1)
    }

    /// How many receive queues are in use, where the driver runs XDP programs itself: then each is served by one CPU
    /// at a time. `None` where the kernel does not tell (Linux 6.3).
    pub(crate) fn served_queues(&self) -> Option<u32> {
        let features = self.link.as_ref()?.xdp_features?;
        features.contains(XdpFeatures::BASIC).then(|| self.queues()).flatten()
    }

    /// The program on its interface, which is attached when it is asked for first. There is one for all of a port.
    pub(crate) fn attach(&self, engine: Engine) -> Result<Arc<Attachment>, RunError> {
        if let Some(attachment) = self.attachment.get() {
            return Ok(Arc::clone(attachment));
        }
        let Some(link) = &self.link else {
            return Err(RunError::usage(format!(
                "port '{}' has no interface, and the {engine} engine needs one",
                self.name
            )));
        };
        let place = match self.spec.xdp_mode {
            XdpModeChoice::Auto => XdpPlace::Best,
            XdpModeChoice::ZeroCopy | XdpModeChoice::Copy => XdpPlace::Driver,
            XdpModeChoice::Generic => XdpPlace::Stack,
        };
        // of a driver that gives no program such frames none is taken where they are long
        let offered = link.xdp_features.is_some_and(|known| known.contains(XdpFeatures::RX_SG));
        let buffers = match engine.can(Ability::SeveralBuffers) && offered {
            true if place != XdpPlace::Stack && needs_several_buffers(link.mtu) => {
                XdpBuffers::Several
            }
            _ => XdpBuffers::One,
        };
        let on = (link.index.get(), link.name.as_str());
        let opened = self.enter(|| Attachment::open(on, place, buffers))?;
        let opened = opened.map_err(|error| error.of_engine(engine.name()))?;
        Ok(Arc::clone(self.attachment.get_or_init(|| Arc::new(opened))))
    }

    /// What was kept, if that is of this type; it is kept no longer.
    pub(crate) fn take_engine_state<T: Any>(&self) -> Option<T> {
        let mut kept = self.engine_state.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().and_then(|kept| kept.downcast().ok()).map(|kept| *kept)
    }

    /// Keeps something for the same engine at the same port.
    pub(crate) fn keep_engine_state<T: Any + Send>(&self, state: T) {
        let mut kept = self.engine_state.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(Box::new(state));
    }

    /// How many receive queues are in use.
    pub(crate) fn receive_queues(&self) -> Option<u32> {
        self.queues()
    }

    /// How the program on its interface runs now.
    pub(crate) fn attached_mode(&self) -> Result<Option<XdpMode>, RunError> {
        let Some(link) = &self.link else { return Ok(None) };
        let link = self.netlink()?.link_by_index(link.index).map_err(machine)?;
        Ok(link.xdp.map(|attached| attached.mode))
    }

    /// Whether the driver takes frames that a program redirects, as far as the kernel tells (Linux
    /// 6.3): `None` when it does not tell.
    pub(crate) fn takes_redirected(&self) -> Result<Option<bool>, RunError> {
        let Some(link) = &self.link else { return Ok(Some(false)) };
        let link = self.netlink()?.link_by_index(link.index).map_err(machine)?;
        Ok(link.xdp_features.map(|features| features.contains(XdpFeatures::NDO_XMIT)))
    }
}

/// Queues of one direction and those of both, where the driver tells of either.
fn used(one: Option<u32>, combined: Option<u32>) -> Option<u32> {
    (one.is_some() || combined.is_some()).then(|| one.unwrap_or(0) + combined.unwrap_or(0))
}

fn machine(error: impl Into<Fault>) -> RunError {
    RunError::machine(error)
}

/// The namespace that a scenario names: one of the caller's, a path, or one of `ip netns`.
pub(crate) fn namespace(
    name: Option<&str>,
    known: &BTreeMap<String, Namespace>,
) -> Result<Option<Namespace>, RunError> {
    let Some(name) = name else { return Ok(None) };
    if let Some(namespace) = known.get(name) {
        return Ok(Some(namespace.clone()));
    }
    let opened =
        if name.contains('/') { Namespace::open(Path::new(name)) } else { Namespace::named(name) };
    opened.map(Some).map_err(|error| RunError::usage(error.fault()))
}

/// Finds the ports of `scenario`.
pub(crate) fn find(
    scenario: &Scenario,
    known: &BTreeMap<String, Namespace>,
) -> Result<Vec<ResolvedPort>, RunError> {
    let mut ports = unlinked(scenario);
    ports.retain(|port| !has_sessions_alone(scenario, &port.name));
    for port in &mut ports {
        port.namespace = namespace(port.spec.namespace.as_deref(), known)?;
        port.link = link(port, scenario)?;
    }
    Ok(ports)
}

/// Whether a port is an end of sessions and of no flow: what it needs is found by `sessions/ports.rs`.
fn has_sessions_alone(scenario: &Scenario, name: &str) -> bool {
    let ends = |from: Option<&String>, to: Option<&String>| {
        [from, to].into_iter().flatten().any(|end| end == name)
    };
    let mut flows = scenario.flows.values();
    let mut groups = scenario.sessions.values();
    groups.any(|group| ends(group.from.as_ref(), group.to.as_ref()))
        && !flows.any(|flow| ends(Some(&flow.from), flow.to.as_ref()))
}

/// The ports of `scenario` on this machine, before anything is looked for: in the current namespace, and without a link. Those
/// on other hosts are found by their receivers.
pub(crate) fn unlinked(scenario: &Scenario) -> Vec<ResolvedPort> {
    let here = scenario.ports.iter().filter(|(_, spec)| spec.peer.is_none());
    let port = |(name, spec): (&String, &PortSpec)| ResolvedPort {
        name: name.clone(),
        spec: spec.clone(),
        namespace: None,
        link: None,
        engine_reason: EngineReason::default(),
        attachment: OnceLock::new(),
        card: OnceLock::new(),
        engine_state: Mutex::default(),
    };
    here.map(port).collect()
}

/// The link of a port: the interface that it names, or the one on the way to where it sends.
pub(crate) fn link(port: &ResolvedPort, scenario: &Scenario) -> Result<Option<Link>, RunError> {
    let asked = port.spec.engine.engine();
    if asked.is_some_and(|engine| !engine.has_network()) {
        return Ok(None);
    }
    let optional = asked.is_some_and(|engine| !engine.needs_link());
    let mut netlink = port.netlink()?;
    if let Some(interface) = &port.spec.interface {
        let told = |error: LinkError| error.fault().at(format!("port '{}'", port.name));
        let link = netlink.link_by_name(interface);
        return link.map(Some).map_err(|error| RunError::usage(told(error)));
    }
    match scenario.destination_from(&port.name) {
        Some(destination) => match netlink.route_to(destination, None) {
            Ok(route) => Ok(Some(netlink.link_by_index(route.link).map_err(machine)?)),
            Err(_) if optional => Ok(None),
            Err(error) => Err(machine(error)),
        },
        None if optional => Ok(None),
        None => Err(RunError::usage(fault!(
            "port '{}' has no interface", port.name;
            "give it one, for example 'interface: eth1'"
        ))),
    }
}

/// The link on the way from a port to `destination`.
pub(crate) fn link_towards(port: &ResolvedPort, destination: IpAddr) -> Result<Link, RunError> {
    let mut netlink = port.netlink()?;
    let route = netlink.route_to(destination, None).map_err(machine)?;
    let link = netlink.link_by_index(route.link).map_err(machine)?;
    if link.layer == LinkLayer::Loopback {
        return Err(RunError::usage(fault!(
            "{destination} is an address of this host, and frames of our own TCP leave by an interface";
            "write an address of another host, or use 'stack: host'"
        )
        .at(format!("ports.{}", port.name))));
    }
    Ok(link)
}

/// What the compiler has to know about the links. `known` are the ways that were looked up before, and now.
pub(crate) fn links(
    scenario: &Scenario,
    ports: &[ResolvedPort],
    engines: &[Engine],
    known: &mut KnownRoutes,
) -> Result<Links, RunError> {
    let mut links = Links::default();
    for ((number, port), engine) in (0u16..).zip(ports).zip(engines) {
        links.ports.insert(port.name.clone(), link_facts(number, port, *engine)?);
    }
    // what a port on another host sends, its listener compiles with its own links
    for (name, _) in scenario.ports.iter().filter(|(_, spec)| spec.peer.is_some()) {
        links.ports.insert(name.clone(), Facts::of_sockets());
    }
    for Destination { port: name, address, next_hop } in destinations(scenario, &links)? {
        let found = ports.iter().zip(engines).find(|(port, _)| port.name == name);
        let Some((port, engine)) = found else { continue };
        let Some(link) = port.link.as_ref().filter(|_| engine.can(Ability::SeeHeaders)) else {
            continue;
        };
        let place = (name.clone(), address);
        // where a flow writes the station, nobody has to be asked
        let looked_up = known.get(&place).filter(|_| next_hop.is_none());
        let route = match looked_up {
            Some(route) => *route,
            None => {
                let station = station_at(scenario, &links, (&name, address));
                route(port, link.index, (address, next_hop, station))?
            }
        };
        if next_hop.is_none() {
            known.insert(place, route);
        }
        if let Some(facts) = links.ports.get_mut(&name) {
            facts.routes.insert(address, route);
        }
    }
    Ok(links)
}

/// The station at an address that a port of the same scenario has, to which flows go from here: the port's own link-layer
/// address.
fn station_at(scenario: &Scenario, links: &Links, (from, to): (&str, IpAddr)) -> Option<MacAddr> {
    // ports are few, flows and their destinations may be very many: flows are looked at only where an address fits
    let goes_to = |name: &String| {
        scenario.flows.values().any(|flow| flow.from == from && flow.to.as_ref() == Some(name))
    };
    links.ports.iter().find_map(|(name, facts)| {
        let written = scenario.ports.get(name).is_some_and(|port| port.addresses.contains(&to));
        let has_it = written || facts.addresses.contains(&to);
        facts.mac.filter(|_| has_it && goes_to(name))
    })
}

/// The longest packet that a frame carries here: the usual length of jumbo frames.
const JUMBO: u32 = 9000;

fn link_facts(number: u16, port: &ResolvedPort, engine: Engine) -> Result<Facts, RunError> {
    let Some(link) = &port.link else {
        return Ok(match engine.can(Ability::SeeHeaders) {
            true => Facts::imaginary(number),
            false => Facts::of_sockets(),
        });
    };
    let found = port.netlink()?.addresses(Some(link.index)).map_err(machine)?;
    let addresses = found.into_iter().filter(|a| a.usable).map(|a| a.address).collect();
    if !engine.can(Ability::SeeHeaders) {
        // a port that is sent to still has the addresses of its interface
        let mtu = Some(link.mtu);
        return Ok(Facts { addresses, speed: link.speed, mtu, ..Facts::of_sockets() });
    }
    // What a link carries beyond jumbo frames of the usual length, no engine does.
    let mtu = Some(link.mtu.min(JUMBO));
    Ok(Facts { mac: link.mac, addresses, speed: link.speed, mtu, ..Facts::default() })
}

/// The way from a port to a destination, by this station if one is written; `known` is who has the address on this host.
fn route(
    port: &ResolvedPort,
    interface: LinkIndex,
    (to, next_hop, known): (IpAddr, Option<MacAddr>, Option<MacAddr>),
) -> Result<Route, RunError> {
    let mut netlink = port.netlink()?;
    let mut options = ResolveOptions {
        interface: Some(interface),
        source: port.spec.addresses.iter().copied().find(|from| from.is_ipv4() == to.is_ipv4()),
        destination_mac: next_hop.or(port.spec.next_hop),
        ..ResolveOptions::default()
    };
    let owner = known;
    let known = known.filter(|_| options.destination_mac.is_none());
    let known = known.filter(|_| is_neighbour(&mut netlink, interface, to));
    if known.is_some() && is_local(&mut netlink, to) {
        // Linux does not answer ARP requests that come from one of its own addresses
        options.destination_mac = known;
    }
    let resolved = match (netlink.resolve(to, &options), known) {
        (Err(ResolveError::NoAnswer { address, .. }), Some(_)) if address == to => {
            options.destination_mac = known;
            netlink.resolve(to, &options)
        }
        (resolved, _) => resolved,
    };
    let resolved = resolved.map_err(|error| {
        let told = match (&error, owner) {
            // nobody but its own host knows who has it
            (ResolveError::NoAnswer { address, interface, .. }, Some(mac)) if *address == to => fault!(
                "no neighbour answered for {to} on {interface}, and that is the address of another port of this scenario, in a network \
                 that {interface} has no part in";
                "give the port a 'next-hop': the router's between them, or {mac}, that port's own"
            ),
            _ => error.fault(),
        };
        let told = told.at(format!("port '{}'", port.name));
        match error {
            // what was asked for does not go together
            ResolveError::NotEthernet(_) | ResolveError::Local { .. } => RunError::usage(told),
            // the way is missing: no route, no neighbour, no carrier
            _ => RunError::machine(told),
        }
    })?;
    Ok(Route { source: resolved.source_address, next_hop: Some(resolved.destination_mac) })
}

/// Whether `to` is an address of the namespace itself.
fn is_local(netlink: &mut Netlink, to: IpAddr) -> bool {
    netlink.route_to(to, None).is_ok_and(|route| route.kind == RouteKind::Local)
}

/// Whether frames from an interface go to `to` directly: no router lies on the way, and `to` is in one of the interface's
/// networks, as far as it has any. (Linux takes any address for a neighbour where it has no route.)
fn is_neighbour(netlink: &mut Netlink, interface: LinkIndex, to: IpAddr) -> bool {
    let by_router = netlink.route_to(to, Some(interface)).is_ok_and(|way| way.gateway.is_some());
    let addresses = netlink.addresses(Some(interface)).unwrap_or_default();
    let mut family = addresses.iter().filter(|own| own.address.is_ipv4() == to.is_ipv4());
    let networks = family.clone().count();
    !by_router && (networks == 0 || family.any(|own| own.covers(to)))
}
