//! `wirebeat demo`: exact traffic on a virtual cable, measured at its far end; or TCP sessions from one end to the other.
//!
//! The cable and the two namespaces at its ends are made for the demo and have no names: they are gone
//! when the program ends, however it ends.

use std::net::{IpAddr, Ipv4Addr};

use clap::Args as ClapArgs;
use rustix::thread::{CapabilitySet, capabilities};
use wirebeat_run::{doctor, frame_max};
use wirebeat_testbed::{Addressing, End, Options as Cabling, Testbed, userns};
use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::ipv4::Ipv4;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::session::{
    AddressPool, AddressRange, PoolSpec, PortPool, ProgramSpec, StackChoice,
};
use wirebeat_traffic::scenario::{
    EngineChoice, FlowRate, FlowSpec, PortSpec, RunSpec, Scenario, SessionSpec, Size,
};
use wirebeat_units::{Fault, FrameLen, FrameRate, Nanos, Rate, fault};

use crate::execute::execute;
use crate::failure::Failure;
use crate::load::STACKS;
use crate::output::{Output, ReportArgs};
use crate::values;

/// Sessions that start in a second, which both stacks keep on one core.
const SESSION_RATE: FrameRate = FrameRate { frames: 2_000, per: Nanos::from_secs(1) };
/// The hosts that our own TCP plays at the ends of the cable: the first and the last of the clients, and the server.
const CLIENTS: (u8, u8) = (100, 149);
const SERVER: u8 = 200;

const SENDER: &str = "sender";
const RECEIVER: &str = "receiver";
/// A rate that the kernel engine keeps on one core of a current machine.
const KERNEL_RATE: FrameRate = FrameRate { frames: 1_000_000, per: Nanos::from_secs(1) };
/// One that the other engines keep.
const OTHER_RATE: FrameRate = FrameRate { frames: 100_000, per: Nanos::from_secs(1) };
/// Bytes of the Ethernet header, which do not count to the MTU (IEEE 802.3 §3.1.1).
const HEADER: u16 = 14;

/// Show exact traffic on a virtual cable, which is removed again
///
/// Lays a virtual cable between two network namespaces of its own, sends over it, measures what arrives,
/// and leaves nothing behind; with --sessions it asks a web server at the far end. Needs no hardware and touches no interface of
/// this machine.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// How frames are sent and received [default: kernel; without root packet]
    #[arg(long, value_parser = values::receiving_engine(), hide_default_value = true, default_value = "auto")]
    engine: EngineChoice,
    /// Show TCP sessions instead of frames: HTTP from one end to the other, by our own TCP or the host's [default: own]
    #[arg(
        long,
        value_name = "STACK",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "own",
        value_parser = values::choice(&STACKS),
        conflicts_with_all = ["engine", "size"]
    )]
    sessions: Option<StackChoice>,
    /// How fast; 'unlimited' is as fast as the engine can [default: 1Mpps with kernel, else 100kpps; 2000/s of sessions]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Length of the frames, header and FCS included
    #[arg(long, value_name = "SIZE", default_value = "64B")]
    size: FrameLen,
    /// How long to send
    #[arg(long, value_name = "TIME", value_parser = values::time, default_value = "10s")]
    time: Nanos,
    #[command(flatten)]
    pub report: ReportArgs,
}

fn rate(text: &str) -> Result<Rate, Fault> {
    match text.parse() {
        Ok(Rate::LinkShare(_)) => Err(
            fault!("a virtual cable has no speed to have a share of"; "write for example 100kpps"),
        ),
        read => read.map_err(|error| error.fault()),
    }
}

/// What this process may do to networks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// Everything, eBPF included.
    Root,
    /// Everything but eBPF: it is in a user namespace.
    UserNamespace,
}

/// Shows it.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    // First of all: a user namespace can only be entered while there is one thread.
    let rights = rights()?;
    if let Some(stack) = args.sessions {
        return show_sessions(args, stack, output);
    }
    let engine = match args.engine.engine() {
        Some(engine) => match too_long(engine, args.size) {
            Some(why) => {
                return Err(Failure::usage(&why)
                    .at(format!("--size {}", args.size))
                    .hint("give a shorter one, or another --engine"));
            }
            None => engine,
        },
        None => best(args.size, rights, output),
    };
    let cable = lay(args.size)?;
    let (a, b) = (&cable.a, &cable.b);
    let scenario = scenario(args, engine, a.interface(), b.interface());
    output.notice(&announcement(args, &scenario, &cable));
    let mut options = output.options();
    for (name, end) in [(SENDER, a), (RECEIVER, b)] {
        options.namespaces.insert(name.to_owned(), end.namespace.with_label(name));
    }
    execute(&scenario, options, output, Failure::from)
}

/// Shows sessions.
fn show_sessions(args: &Args, stack: StackChoice, output: &mut Output) -> Result<u8, Failure> {
    let cable = lay(FrameLen::MIN)?;
    let (a, b) = (&cable.a, &cable.b);
    let scenario = sessions(args, stack, [a, b].map(|end| (end.interface().to_owned(), end.ipv4)));
    scenario.check().map_err(|problem| Failure::usage(problem.fault()))?;
    let whose = if stack == StackChoice::Own { "our own TCP" } else { "the host's TCP" };
    output.notice(&format!(
        "starting sessions of HTTP for {} over a virtual cable, from {} to {}, by {whose} at both ends",
        args.time,
        a.interface(),
        b.interface()
    ));
    let mut options = output.options();
    for (name, end) in [(SENDER, a), (RECEIVER, b)] {
        options.namespaces.insert(name.to_owned(), end.namespace.with_label(name));
    }
    execute(&scenario, options, output, Failure::from)
}

/// Sessions between the two ends, each an interface and its address.
fn sessions(args: &Args, stack: StackChoice, ends: [(String, Ipv4Addr); 2]) -> Scenario {
    let [from, to] = ends;
    let host = |end: &(String, Ipv4Addr), last: u8| {
        let [a, b, c, _] = end.1.octets();
        IpAddr::from(Ipv4Addr::new(a, b, c, last))
    };
    let (clients, server) = match stack {
        StackChoice::Host => (IpAddr::from(from.1).into(), IpAddr::from(to.1)),
        StackChoice::Own => {
            let (first, last) = (host(&from, CLIENTS.0), host(&from, CLIENTS.1));
            // in order, as they are written above
            let clients = AddressRange::between(first, last).unwrap_or(first.into());
            (clients, host(&to, SERVER))
        }
    };
    let port = |interface: String, namespace: &str| PortSpec {
        interface: Some(interface),
        namespace: Some(namespace.to_owned()),
        ..PortSpec::default()
    };
    let group = SessionSpec {
        from: Some(SENDER.to_owned()),
        to: Some(RECEIVER.to_owned()),
        stack,
        clients: PoolSpec { addresses: AddressPool([clients].into()), ..PoolSpec::default() },
        servers: PoolSpec {
            addresses: server.into(),
            ports: Some(PortPool::from(80)),
            ..PoolSpec::default()
        },
        rate: args.rate.unwrap_or(Rate::Frames(SESSION_RATE)).into(),
        ..SessionSpec::new(ProgramSpec::Http(Box::default()))
    };
    Scenario {
        ports: [
            (SENDER.to_owned(), port(from.0, SENDER)),
            (RECEIVER.to_owned(), port(to.0, RECEIVER)),
        ]
        .into(),
        sessions: [("demo".to_owned(), group)].into(),
        run: RunSpec { time: Some(args.time), ..RunSpec::default() },
        ..Scenario::default()
    }
}

/// Why an engine does not send frames of this size, if so.
fn too_long(engine: Engine, size: FrameLen) -> Option<String> {
    let most = FrameLen::without_fcs(frame_max(engine)?);
    (size > most)
        .then(|| format!("the {engine} engine sends frames of up to {most}, and these have {size}"))
}

/// A cable that takes frames of `size`.
fn lay(size: FrameLen) -> Result<Testbed, Failure> {
    let usual = Cabling::default();
    let mtu = usual.mtu.max(u32::from(size.buffer().saturating_sub(HEADER)));
    let cabling = Cabling { addressing: Addressing::V4, mtu, ..usual };
    Testbed::pair(&cabling).map_err(|error| {
        Failure::machine(error.fault()).hint("run as root; a container needs --privileged")
    })
}

/// What is going to happen.
fn announcement(args: &Args, scenario: &Scenario, cable: &Testbed) -> String {
    let rate = match scenario.flows.values().map(|flow| &flow.rate).next() {
        Some(FlowRate::Fixed(rate)) if *rate != Rate::Unlimited => format!("at {rate}"),
        _ => "as fast as possible".to_owned(),
    };
    let end = |end: &End| format!("{} ({})", end.interface(), end.ipv4);
    format!(
        "sending frames of {} {rate} for {} over a virtual cable, from {} to {}",
        args.size,
        args.time,
        end(&cable.a),
        end(&cable.b),
    )
}

/// Finds out, and enters a user namespace where that is needed.
fn rights() -> Result<Rights, Failure> {
    let effective = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    let own_networks = effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN);
    match (own_networks, userns::is_initial()) {
        (true, true) => Ok(Rights::Root),
        (true, false) => Ok(Rights::UserNamespace),
        (false, _) => match userns::enter() {
            Ok(()) => Ok(Rights::UserNamespace),
            Err(error) => Err(Failure::machine(error.fault())),
        },
    }
}

/// The fastest engine for frames of this size that works over a cable; says what a faster one would take.
fn best(size: FrameLen, rights: Rights, output: &Output) -> Engine {
    let mut fastest: Option<(Engine, String)> = None;
    let mut last = None;
    for engine in Engine::automatic().filter(|engine| engine.needs_link()) {
        let obstacle = too_long(engine, size).or_else(|| lacking(engine, rights));
        match (obstacle, &fastest) {
            (Some(why), _) => {
                fastest.get_or_insert((engine, why));
                last = Some(engine);
            }
            (None, Some((first, why))) => {
                output.notice(&format!("using the engine {engine} instead of {first}: {why}"));
                return engine;
            }
            (None, None) => return engine,
        }
    }
    // it says itself what it lacks
    last.unwrap_or(Engine::ALL[0])
}

/// Why an engine does not work here, if so.
fn lacking(engine: Engine, rights: Rights) -> Option<String> {
    if rights == Rights::UserNamespace && engine.can(Ability::MeterInKernel) {
        return Some(format!(
            "eBPF needs root; `sudo wirebeat demo` shows the {engine} engine, which is faster and more exact"
        ));
    }
    doctor::probe(engine).obstacle().map(ToString::to_string)
}

fn scenario(args: &Args, engine: Engine, from: &str, to: &str) -> Scenario {
    let port = |interface: &str, namespace: &str| PortSpec {
        interface: Some(interface.to_owned()),
        namespace: Some(namespace.to_owned()),
        engine: engine.into(),
        ..PortSpec::default()
    };
    let usual = if engine.can(Ability::Repeat) { KERNEL_RATE } else { OTHER_RATE };
    let flow = FlowSpec {
        to: Some(RECEIVER.to_owned()),
        packet: vec![Header::Ipv4(Ipv4::default()), Header::Udp(Udp::default())].into(),
        size: Some(Size::frame(args.size)),
        rate: args.rate.unwrap_or(Rate::Frames(usual)).into(),
        ..FlowSpec::from_port(SENDER)
    };
    Scenario {
        ports: [(SENDER.to_owned(), port(from, SENDER)), (RECEIVER.to_owned(), port(to, RECEIVER))]
            .into(),
        flows: [("demo".to_owned(), flow)].into(),
        run: RunSpec { time: Some(args.time), ..RunSpec::default() },
        ..Scenario::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_the_kernel_engine_does_not_send_are_told() {
        let most = FrameLen::without_fcs(frame_max(Engine::Kernel).unwrap());
        assert_eq!(too_long(Engine::Kernel, most), None);
        assert_eq!(too_long(Engine::Packet, "9000B".parse().unwrap()), None);
        let why = too_long(Engine::Kernel, "9000B".parse().unwrap()).unwrap();
        assert_eq!(why, "the kernel engine sends frames of up to 3504B, and these have 9000B");
    }

    #[test]
    fn the_demo_is_a_scenario_that_can_be_meant() {
        let args = Args {
            engine: EngineChoice::Auto,
            sessions: None,
            rate: None,
            size: FrameLen::MIN,
            time: Nanos::from_secs(10),
            report: ReportArgs::default(),
        };
        for (engine, rate) in [(Engine::Kernel, KERNEL_RATE), (Engine::Packet, OTHER_RATE)] {
            let scenario = scenario(&args, engine, "wb0", "wb1");
            assert_eq!(scenario.check(), Ok(()));
            assert_eq!(scenario.flows["demo"].rate, Rate::Frames(rate).into());
        }
        for stack in StackChoice::ALL {
            let ends = [1, 2].map(|last| (format!("wb{last}"), Ipv4Addr::new(10, 77, 0, last)));
            let scenario = sessions(&args, stack, ends);
            assert_eq!(scenario.check(), Ok(()));
            assert_eq!(scenario.sessions["demo"].rate, Rate::Frames(SESSION_RATE).into());
        }
    }
}
