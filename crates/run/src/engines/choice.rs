//! Which engine a port uses: what was asked for, or the fastest that this machine allows. There is no
//! silent change: an engine that was asked for and cannot serve is an error, and the report names the one
//! that was used.

use std::fmt;
use std::net::IpAddr;

use wirebeat_netlink::{LinkLayer, RouteKind};
use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::scenario::{FlowSpec, PortSpec, Scenario};

use super::driver;
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::timestamps;

/// The engine of a port, and why it is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) engine: Engine,
    pub(crate) reason: EngineReason,
}

/// Why a port uses its engine. Prints what the report says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EngineReason {
    /// It was asked for.
    #[default]
    Named,
    /// 'auto': nothing speaks against the first that this process may use.
    Fastest,
    /// 'auto': a faster one cannot serve, for this reason.
    Instead(String),
}

impl fmt::Display for EngineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineReason::Named => f.write_str("asked for by name"),
            EngineReason::Fastest => f.write_str("auto: the fastest that this process may use"),
            EngineReason::Instead(why) => write!(f, "auto: {why}"),
        }
    }
}

impl EngineReason {
    /// What could not be expected of an automatic choice.
    pub(crate) fn unexpected(&self) -> Option<&str> {
        match self {
            EngineReason::Instead(why) => Some(why),
            EngineReason::Named | EngineReason::Fastest => None,
        }
    }
}

impl Choice {
    /// Why it is that engine, for the person who waits, where that could not be expected.
    pub(crate) fn told(&self, port: &ResolvedPort) -> Option<String> {
        let why = self.reason.unexpected()?;
        Some(format!("port '{}' uses the engine '{}': {why}", port.name, self.engine))
    }
}

/// The engine for a port, before anything is open; [`settle`] may still change an automatic choice.
pub(crate) fn choose(port: &ResolvedPort, scenario: &Scenario) -> Result<Choice, RunError> {
    timestamps::engine(port, choose_any(port, scenario)?, scenario.run.timestamps)
}

/// The same, before it is asked whether the card is to stamp frames.
fn choose_any(port: &ResolvedPort, scenario: &Scenario) -> Result<Choice, RunError> {
    let through_the_stack = |why| Choice {
        engine: fastest(|engine| !engine.can(Ability::SeeHeaders)),
        reason: EngineReason::Instead(why),
    };
    if let Some(engine) = port.spec.engine.engine() {
        check_ethernet(port, engine)?;
        driver(engine).check_rights(port)?;
        return Ok(Choice { engine, reason: EngineReason::Named });
    }
    if let Some(why) = without_ethernet(port) {
        return Ok(through_the_stack(why));
    }
    Ok(match sends_to_itself(port, scenario)? {
        Some(address) => through_the_stack(format!("{address} is an address of this host")),
        None => Choice { engine: fastest(|_| true), reason: EngineReason::Fastest },
    })
}

/// Why frames of Ethernet cannot leave or arrive on a port's link, if so: it is a tunnel (tun, ppp, WireGuard) or
/// another that carries IP packets alone.
pub(crate) fn without_ethernet(port: &ResolvedPort) -> Option<String> {
    let link = port.link.as_ref()?;
    matches!(link.layer, LinkLayer::Other(_))
        .then(|| format!("interface {} does not carry Ethernet frames", link.name))
}

/// An engine that makes or reads Ethernet frames needs a link that carries them.
pub(crate) fn check_ethernet(port: &ResolvedPort, engine: Engine) -> Result<(), RunError> {
    match without_ethernet(port).filter(|_| engine.needs_link()) {
        Some(why) => {
            let able = Engine::names(|engine| engine.has_network() && !engine.needs_link());
            Err(RunError::usage(format!(
                "port '{}': {why}, and the engine '{engine}' needs them",
                port.name
            ))
            .hint(format!("use the engine {able}, or 'auto'")))
        }
        None => Ok(()),
    }
}

/// The fastest engine of those that `fits` that this process may use; where it may use none, the fastest, which then says what
/// is missing.
pub(crate) fn fastest(fits: impl Fn(Engine) -> bool) -> Engine {
    let able = || Engine::automatic().filter(|engine| fits(*engine));
    let permitted = able().find(|engine| driver(*engine).is_permitted());
    // the table has an automatic engine for everything that is asked here
    permitted.or_else(|| able().next()).unwrap_or(Engine::ALL[0])
}

/// The engine that takes the place of one that cannot serve, where the choice was left to the machine: the next one in
/// `auto` that sees headers or not, as that does, and that `fits`.
pub(crate) fn fallback(engine: Engine, fits: impl Fn(Engine) -> bool) -> Option<Engine> {
    let alike = |next: &Engine| next.can(Ability::SeeHeaders) == engine.can(Ability::SeeHeaders);
    let mut later = Engine::automatic().skip_while(|next| *next != engine).skip(1);
    later.find(|next| alike(next) && fits(*next))
}

/// The address of this host that a flow of the port goes to, if one does: no frame to it leaves by an interface, unless the
/// flow goes to a port on another interface.
fn sends_to_itself(port: &ResolvedPort, scenario: &Scenario) -> Result<Option<IpAddr>, RunError> {
    if port.spec.next_hop.is_some() {
        return Ok(None);
    }
    let mut netlink = port.netlink()?;
    let elsewhere = |to: &PortSpec| {
        let interfaces = port.spec.interface.as_ref().zip(to.interface.as_ref());
        interfaces.is_some_and(|(from, to)| from != to) && port.spec.namespace == to.namespace
    };
    let to_a_port = |flow: &FlowSpec| {
        let to = flow.to.as_ref().and_then(|to| scenario.ports.get(to));
        to.is_some_and(elsewhere)
    };
    let here = |flow: &FlowSpec| flow.from == port.name && !to_a_port(flow);
    let mut flows = scenario.flows.iter().filter(|(_, flow)| here(flow));
    Ok(flows.find_map(|(name, flow)| {
        let packet = flow.headers(name).ok();
        let ethernet = packet.as_ref().and_then(|packet| packet.ethernet);
        let written = ethernet.is_some_and(|ethernet| ethernet.destination.is_some());
        let destination = packet.and_then(|packet| packet.network?.destination());
        destination.filter(|_| !written).filter(|destination| {
            let route = netlink.route_to(*destination, None);
            route.is_ok_and(|route| route.kind == RouteKind::Local)
        })
    }))
}

/// The engine that sends frames of up to `frame_max` bytes without FCS at a port: where the chosen one cannot, that is an
/// error, or the next takes its place if the choice was left to the machine. May attach a program to the interface.
pub(crate) fn settle(
    port: &mut ResolvedPort,
    engine: Engine,
    frame_max: u16,
) -> Result<Choice, RunError> {
    let mut choice = Choice { engine, reason: EngineReason::Fastest };
    loop {
        let error = match driver(choice.engine).prepare(port, frame_max) {
            Ok(()) => return Ok(choice),
            Err(error) => error,
        };
        let next = fallback(choice.engine, |_| true);
        let Some(next) = next.filter(|_| port.spec.engine.engine().is_none()) else {
            return Err(error);
        };
        choice.engine = next;
        // what kept the fastest from it is the reason for all that follow
        if choice.reason.unexpected().is_none() {
            choice.reason = EngineReason::Instead(error.fault().what);
        }
    }
}

/// The engine that receives at a port: where an automatic choice cannot, the next that `fits` takes its place. May attach a
/// program to the interface.
pub(crate) fn settle_receiver(
    port: &ResolvedPort,
    choice: Choice,
    fits: impl Fn(Engine) -> bool,
) -> Result<Choice, RunError> {
    if port.spec.engine.engine().is_some() {
        return Ok(choice);
    }
    let error = match driver(choice.engine).prepare_receiver(port) {
        Ok(()) => return Ok(choice),
        Err(error) => error,
    };
    let next = fallback(choice.engine, |next| fits(next) && driver(next).is_permitted());
    let Some(engine) = next else { return Err(error) };
    Ok(Choice { engine, reason: EngineReason::Instead(error.fault().what) })
}
