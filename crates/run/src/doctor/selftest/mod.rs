//! The self-test of an interface: short runs of every engine that needs one, so that the owner of a card sees what works on it.
//!
//! Each run is an ordinary one, of a scenario that is made here: frames of 64 bytes from the interface, as fast as the engine
//! sends them and then a thousand a second, to the interface at the other end of the same cable where there is one. What a run
//! has to hold is judged in `trial.rs`. `guard.rs` refuses interfaces that carry the host's own traffic. Nothing of an
//! interface is changed but by the runs, and what they change is looked for at the end.

mod guard;
mod trial;

use std::collections::BTreeMap;

use serde::Serialize;
use wirebeat_host::Interface;
use wirebeat_netlink::{LinkLayer, Namespace, XdpOffer};
use wirebeat_traffic::engines::{Ability, Engine};
use wirebeat_traffic::scenario::{
    EngineChoice, PortSpec, Scenario, TimestampsChoice, XdpModeChoice,
};
use wirebeat_units::human;
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::mac::MacAddr;

use crate::error::RunError;
use crate::observe::{Observer, Stop};
use crate::ports::{self, ResolvedPort};

pub use trial::{Load, Measured, Trial, TrialResult};

/// Where frames go without a peer: an address that no station has, locally administered and made of those that RFC 7042 §2.1.2
/// keeps for documentation.
pub const UNKNOWN_STATION: MacAddr = MacAddr([0x02, 0x00, 0x5e, 0x00, 0x53, 0x01]);

/// The names of the two ports.
const NEAR: &str = "sender";
const FAR: &str = "receiver";

/// What is to be tested.
#[derive(Clone, Debug)]
pub struct SelfTestRequest {
    /// The interface that sends.
    pub interface: String,
    /// The interface at the other end of the same cable. Without it only the sender is tested.
    pub peer_interface: Option<String>,
    /// The namespace of that: a name, or a path. `None`: the current one.
    pub peer_namespace: Option<String>,
    /// Namespaces that have no name on this machine.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Test an interface that carries the host's own traffic, too.
    pub force: bool,
    /// How long an engine sends as fast as it can.
    pub time: Nanos,
}

impl SelfTestRequest {
    /// How long an engine sends where nobody says so.
    pub const TIME: Nanos = Nanos::from_secs(1);
}

/// What a self-test found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfTest {
    /// The interface that sent, as it was before.
    pub interface: Interface,
    /// The one at the other end of its cable.
    pub peer_interface: Option<Interface>,
    /// The Ethernet address that all frames were sent to.
    pub destination: String,
    /// Each engine in each mode, in the order in which they ran.
    pub trials: Vec<Trial>,
    /// What the runs left behind on the interfaces, a sentence each.
    pub left_behind: Vec<String>,
    /// It was stopped before all had run.
    pub interrupted: bool,
    /// Something was sent, nothing failed, nothing was left behind and it was not stopped. That an engine or a mode is refused
    /// which the driver does not offer is no failure.
    pub passed: bool,
}

impl SelfTest {
    /// Whether any engine sent.
    pub fn has_sent(&self) -> bool {
        self.trials.iter().any(|trial| matches!(&trial.result, TrialResult::Ran(_)))
    }
}

/// The interfaces under test.
#[derive(Debug)]
struct Bench<'a> {
    request: &'a SelfTestRequest,
    /// The sending one, and the one at the other end.
    ports: Vec<ResolvedPort>,
}

/// Tests the engines on an interface. Takes a second and a half for each engine in each mode, and longer where a program that is
/// attached resets the link.
///
/// # Errors
/// An interface that is not there, carries no Ethernet, or carries the host's own traffic. Nothing has been sent.
pub fn self_test(
    request: &SelfTestRequest,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<SelfTest, RunError> {
    let bench = Bench::find(request)?;
    let interfaces = bench.observe()?;
    let mut trials = Vec::new();
    let mut interrupted = false;
    for how in bench.planned(&interfaces) {
        interrupted = stop.asked();
        if interrupted {
            break;
        }
        observer.notice(&format!("trying the engine {}", how.name()));
        trials.push(trial::run(&bench, how, observer, stop));
    }
    interrupted |= stop.asked();
    let left_behind = bench.left_behind()?;
    let mut interfaces = interfaces.into_iter();
    let interface = interfaces.next().ok_or_else(|| RunError::usage("there is no interface"))?;
    let mut test = SelfTest {
        interface,
        peer_interface: interfaces.next(),
        destination: bench.destination().to_string(),
        trials,
        left_behind,
        interrupted,
        passed: false,
    };
    let failed = test.trials.iter().any(Trial::has_failed);
    test.passed = test.has_sent() && !failed && test.left_behind.is_empty() && !interrupted;
    Ok(test)
}

/// How a trial uses the interfaces.
#[derive(Clone, Copy, Debug)]
struct How {
    engine: Engine,
    mode: XdpModeChoice,
    timestamps: TimestampsChoice,
    /// The driver says that it offers this.
    offered: bool,
}

impl How {
    /// The engine, its mode where it has some, and who stamps where that is the card.
    fn name(self) -> String {
        let mode = mode_name(self).map_or(String::new(), |mode| format!(", {mode}"));
        let card = self.timestamps == TimestampsChoice::Hardware;
        format!("{}{mode}{}", self.engine, if card { ", stamps of the card" } else { "" })
    }
}

/// The mode of an engine that has some, as scenarios write it.
fn mode_name(how: How) -> Option<&'static str> {
    how.engine.can(Ability::ChooseXdpMode).then_some(match how.mode {
        XdpModeChoice::Auto => "auto",
        XdpModeChoice::ZeroCopy => "zero-copy",
        XdpModeChoice::Copy => "copy",
        XdpModeChoice::Generic => "generic",
    })
}

impl Bench<'_> {
    /// Finds the interfaces, and refuses those that are not to be tested.
    fn find(request: &SelfTestRequest) -> Result<Bench<'_>, RunError> {
        let peer = request.peer_interface.as_ref();
        let same = peer == Some(&request.interface) && request.peer_namespace.is_none();
        if same {
            return Err(RunError::usage(fault!(
                "the peer of {} is the same interface", request.interface;
                "give the one at the other end of its cable, or leave the peer out"
            )));
        }
        let anything = Engine::ALL.iter().copied().find(|engine| engine.needs_link());
        let engine = anything.map(EngineChoice::from).unwrap_or_default();
        let scenario = Scenario {
            ports: ports_of(request, |spec| PortSpec { engine, ..spec }),
            ..Scenario::default()
        };
        let ports = ports::find(&scenario, &request.namespaces)?;
        for port in &ports {
            let Some(link) = &port.link else { continue };
            if link.layer != LinkLayer::Ethernet {
                return Err(RunError::usage(fault!(
                    "{} does not carry Ethernet frames", link.name;
                    "choose the interface of a card, or one of a virtual cable"
                )));
            }
            if !request.force {
                guard::check(port, link)?;
            }
        }
        Ok(Bench { request, ports })
    }

    /// What is known of the interfaces.
    fn observe(&self) -> Result<Vec<Interface>, RunError> {
        let of = |port: &ResolvedPort| {
            let mut netlink = port.netlink()?;
            match &port.link {
                Some(link) => port.enter(|| Interface::observe(&mut netlink, link)).map(Some),
                None => Ok(None),
            }
        };
        Ok(self
            .ports
            .iter()
            .map(of)
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Whether somebody receives.
    fn has_peer(&self) -> bool {
        self.request.peer_interface.is_some()
    }

    /// Where all frames go.
    fn destination(&self) -> MacAddr {
        let far = self.ports.iter().find(|port| port.name == FAR);
        let mac = far.and_then(|port| port.link.as_ref()?.mac);
        mac.unwrap_or(UNKNOWN_STATION)
    }

    /// What is to be tried: each engine that needs an interface, in each mode that it has, and with the stamps of the card where
    /// that makes some.
    fn planned(&self, interfaces: &[Interface]) -> Vec<How> {
        use XdpModeChoice::{Auto, Copy, Generic, ZeroCopy};
        let offers = |mode: XdpModeChoice| {
            interfaces.iter().all(|interface| {
                let known = interface.af_xdp.as_ref();
                known.is_some_and(|offer| match mode {
                    ZeroCopy => offer.zero_copy,
                    Copy => offer.native,
                    Auto | Generic => true,
                })
            })
        };
        let stamps = interfaces.iter().all(|interface| {
            interface.timestamps.clock.is_some() && interface.timestamps.hardware_transmit
        });
        let metadata = interfaces.iter().all(|interface| {
            let stamps = |offer: &[String]| offer.iter().any(|what| what == XdpOffer::TIMESTAMP);
            interface.af_xdp.as_ref().is_some_and(|offer| {
                stamps(&offer.receive_metadata) && stamps(&offer.transmit_metadata)
            })
        });
        let mut planned = Vec::new();
        for engine in Engine::ALL.iter().copied().filter(|engine| engine.needs_link()) {
            let modes: &[XdpModeChoice] = match engine.can(Ability::ChooseXdpMode) {
                true => &[ZeroCopy, Copy, Generic],
                false => &[Auto],
            };
            let timestamps = TimestampsChoice::Software;
            for &mode in modes {
                // what any driver does, as the engine asks for no more
                let offered = mode != Auto && offers(mode);
                planned.push(How { engine, mode, timestamps, offered });
            }
            if stamps
                && engine.can(Ability::HardwareTimestamps)
                && (!engine.can(Ability::ChooseXdpMode) || metadata)
            {
                let timestamps = TimestampsChoice::Hardware;
                planned.push(How { engine, mode: Auto, timestamps, offered: false });
            }
        }
        planned
    }

    /// What differs on the interfaces from what was there before.
    fn left_behind(&self) -> Result<Vec<String>, RunError> {
        let mut left = Vec::new();
        for port in &self.ports {
            let Some(before) = &port.link else { continue };
            let now = port.netlink()?.link_by_index(before.index);
            let now = now.map_err(|error| RunError::machine(error.fault()))?;
            if now.xdp != before.xdp {
                left.push(format!("another XDP program is attached to {} than before", now.name));
            }
            if now.mtu != before.mtu {
                left.push(format!("{} had an MTU of {} and has {}", now.name, before.mtu, now.mtu));
            }
            let queues = |link: &wirebeat_netlink::Link| (link.tx_queues, link.rx_queues);
            if queues(&now) != queues(before) {
                let there = human::counted(now.rx_queues.into(), "receive queue");
                left.push(format!("{} has other queues than before: {there}", now.name));
            }
        }
        Ok(left)
    }
}

/// The ports of a test, each as `with` has it.
fn ports_of<T: FromIterator<(String, PortSpec)>>(
    request: &SelfTestRequest,
    with: impl Fn(PortSpec) -> PortSpec,
) -> T {
    let port = |name: &str, interface: &String, namespace: &Option<String>| {
        let spec = PortSpec {
            interface: Some(interface.clone()),
            namespace: namespace.clone(),
            ..PortSpec::default()
        };
        (name.to_owned(), with(spec))
    };
    let near = port(NEAR, &request.interface, &None);
    let far = request.peer_interface.iter();
    let far = far.map(|interface| port(FAR, interface, &request.peer_namespace));
    [near].into_iter().chain(far).collect()
}
