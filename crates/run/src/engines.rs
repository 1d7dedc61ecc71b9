//! Which engine a port uses: what was asked for, or the fastest that this machine allows. There is no
//! silent change: an engine that was asked for and cannot serve is an error, and the report names the one
//! that was used.

use std::net::IpAddr;

use wirebeat_engine_linux::kernel;
use wirebeat_host::Machine;
use wirebeat_netlink::{LinkLayer, RouteKind, XdpMode};
use wirebeat_traffic::scenario::{EngineChoice, FlowSpec, PortSpec, Scenario};

use crate::error::RunError;
use crate::ports::PortHere;
use crate::timestamps;

/// The engine of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Kernel,
    Packet,
    Socket,
    Pcap,
    Loopback,
}

impl Engine {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Kernel => "kernel",
            Engine::Packet => "packet",
            Engine::Socket => "socket",
            Engine::Pcap => "pcap",
            Engine::Loopback => "loopback",
        }
    }

    /// The engine that was asked for; `None` leaves it to this machine.
    pub(crate) fn asked(choice: EngineChoice) -> Option<Engine> {
        match choice {
            EngineChoice::Auto => None,
            EngineChoice::Kernel => Some(Engine::Kernel),
            EngineChoice::Packet => Some(Engine::Packet),
            EngineChoice::Socket => Some(Engine::Socket),
            EngineChoice::Pcap => Some(Engine::Pcap),
            EngineChoice::Loopback => Some(Engine::Loopback),
        }
    }
}

/// The engine of a port, and why an automatic choice fell on one that could not be expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) engine: Engine,
    pub(crate) because: Option<String>,
}

impl Choice {
    /// Why it is that engine, for the person who waits, where that could not be expected.
    pub(crate) fn told(&self, port: &PortHere) -> Option<String> {
        let why = self.because.as_ref()?;
        Some(format!("port '{}' uses the engine '{}': {why}", port.name, self.engine.name()))
    }
}

/// The engine for a port, before anything is open; [`settle`] may still change an automatic choice.
pub(crate) fn choose(port: &PortHere, scenario: &Scenario) -> Result<Choice, RunError> {
    timestamps::engine(port, choose_any(port, scenario)?, scenario.run.timestamps)
}

/// The same, before it is asked whether the card is to stamp frames.
fn choose_any(port: &PortHere, scenario: &Scenario) -> Result<Choice, RunError> {
    let expected = |engine| Choice { engine, because: None };
    let socket = |why| Choice { engine: Engine::Socket, because: Some(why) };
    if let Some(engine) = Engine::asked(port.spec.engine) {
        check_ethernet(port, engine)?;
        check_rights(port, engine)?;
        return Ok(expected(engine));
    }
    if let Some(why) = without_ethernet(port) {
        return Ok(socket(why));
    }
    Ok(match sends_to_itself(port, scenario)? {
        Some(address) => socket(format!("{address} is an address of this host")),
        None => expected(by_privilege()),
    })
}

/// Why frames of Ethernet cannot leave or arrive on a port's link, if so: it is a tunnel (tun, ppp, WireGuard) or
/// another that carries IP packets alone.
pub(crate) fn without_ethernet(port: &PortHere) -> Option<String> {
    let link = port.link.as_ref()?;
    matches!(link.layer, LinkLayer::Other(_))
        .then(|| format!("interface {} does not carry Ethernet frames", link.name))
}

/// An engine that makes or reads Ethernet frames needs a link that carries them.
pub(crate) fn check_ethernet(port: &PortHere, engine: Engine) -> Result<(), RunError> {
    match without_ethernet(port) {
        Some(why) if matches!(engine, Engine::Kernel | Engine::Packet) => {
            Err(RunError::Usage(format!(
                "port '{}': {why}, and the engine '{}' needs them; use the engine 'socket', or 'auto'",
                port.name,
                engine.name()
            )))
        }
        _ => Ok(()),
    }
}

/// The kernel engine loads programs and opens maps.
fn check_rights(port: &PortHere, engine: Engine) -> Result<(), RunError> {
    if engine != Engine::Kernel {
        return Ok(());
    }
    let may = Machine::observe().privileges;
    let rights = [(may.bpf, "CAP_BPF"), (may.net_admin, "CAP_NET_ADMIN")];
    let lacks = rights.iter().filter(|(has, _)| *has == Some(false)).map(|(_, name)| *name);
    let lacks: Vec<&str> = lacks.collect();
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(RunError::Machine(format!(
            "the kernel engine of port '{}' needs {}, which this process lacks; run as root, or use the engine '{}'",
            port.name,
            lacks.join(" and "),
            if may.net_raw == Some(true) { "packet" } else { "socket" }
        ))),
    }
}

/// The fastest engine that this process may use.
pub(crate) fn by_privilege() -> Engine {
    let may = Machine::observe().privileges;
    if may.bpf == Some(true) && may.net_admin == Some(true) && kernel::probe().is_ok() {
        Engine::Kernel
    } else if may.net_raw == Some(true) {
        Engine::Packet
    } else {
        Engine::Socket
    }
}

/// The address of this host that a flow of the port goes to, if one does: no frame to it leaves by an interface, unless the
/// flow goes to a port on another interface.
fn sends_to_itself(port: &PortHere, scenario: &Scenario) -> Result<Option<IpAddr>, RunError> {
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

/// The engine that sends frames of up to `frame_max` bytes without FCS at a port: where the kernel's cannot, that is said, or
/// another takes its place if the choice was left to us. Attaches a program to the interface where its driver wants one.
pub(crate) fn settle(
    port: &mut PortHere,
    engine: Engine,
    frame_max: u16,
) -> Result<Choice, RunError> {
    if engine != Engine::Kernel {
        return Ok(Choice { engine, because: None });
    }
    let fits = match frame_max > kernel::FRAME_MAX {
        true => Err(RunError::Usage(format!(
            "the kernel engine sends frames of up to {} bytes; use the engine 'packet' for longer ones",
            kernel::FRAME_MAX + 4
        ))),
        false => take_redirected(port),
    };
    match fits {
        Err(error) if port.spec.engine == EngineChoice::Auto => {
            // it is used now
            let why = error.to_string().replace(", or use the engine 'packet'", "");
            let why = why.split("; use the engine").next().map(str::to_owned);
            Ok(Choice { engine: Engine::Packet, because: why })
        }
        fits => fits.map(|()| Choice { engine: Engine::Kernel, because: None }),
    }
}

/// Sees to it that the driver of a port takes redirected frames. Most drivers of cards do only while an XDP program is
/// attached to the very interface, and say so among its features only then.
fn take_redirected(port: &mut PortHere) -> Result<(), RunError> {
    let takes = port.takes_redirected()?;
    let is_cable = port.link.as_ref().is_some_and(|link| link.kind.as_deref() == Some("veth"));
    if takes == Some(true) || (is_cable && takes.is_none()) {
        return Ok(());
    }
    if is_cable {
        return Err(RunError::Machine(missing_redirect(port, "")));
    }
    let was_attached = port.attachment.get().is_some();
    // perhaps the one that this is typed over
    if port.spec.engine == EngineChoice::Auto && port.spec.interface.is_none() && !was_attached {
        return Err(RunError::Machine(format!(
            "{} was not named, and its driver takes redirected frames only with an XDP program attached, which takes the \
             link of many cards down for seconds (name it with --interface); use the engine 'packet'",
            port.interface()
        )));
    }
    port.attach()?;
    let why = match port.takes_redirected()? {
        Some(true) => return Ok(()),
        // without the driver the stack runs the program, and no frame gets past it
        None if port.attached_mode()? == Some(XdpMode::Native) => return Ok(()),
        None => "it does not run XDP programs itself",
        Some(false) => "it has no NDO_XMIT among its XDP features",
    };
    if !was_attached {
        port.attachment.take();
    }
    Err(RunError::Machine(missing_redirect(port, why)))
}

/// That a driver does not take redirected frames, and what would mend it.
fn missing_redirect(port: &PortHere, why: &str) -> String {
    let interface = port.interface();
    let kind = port.link.as_ref().and_then(|link| link.kind.as_deref());
    match kind {
        Some("veth") => format!(
            "the kernel engine cannot send on {interface}: the other end of a virtual cable takes \
             redirected frames only while an XDP program is attached to it or its GRO is on; switch that on \
             there ('ethtool -K <other end> gro on'), or use the engine 'packet'"
        ),
        _ => format!(
            "the kernel engine cannot send on {interface}: its driver does not take redirected frames ({why}); use the \
             engine 'packet'"
        ),
    }
}
