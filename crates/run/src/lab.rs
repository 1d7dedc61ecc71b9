//! A lab: the ports of a scenario, found and ready, for any number of runs.
//!
//! What is slow to get or disturbs a link is done once: interfaces are found and engines chosen, XDP programs attached (which takes the
//! link of many cards down for seconds), cards told to stamp, neighbours asked for. What the first run opens to send and to receive
//! by (sockets, rings, programs) rests until the next one, which compiles its flows and re-arms it: another program or meter,
//! counters from zero, nothing of what is left from before. Flows that take something else have that opened. A scenario by itself is a lab with one run. What a run does is in
//! `flows/`; here is what outlives it.

use std::collections::HashMap;
use std::net::IpAddr;

use wirebeat_engine_linux::kernel::Accepted;
use wirebeat_host::Machine;
use wirebeat_netlink::LinkWatch;
use wirebeat_report::model::Report;
use wirebeat_traffic::compile::{CompileError, Links, Route};
use wirebeat_traffic::program::Flow;
use wirebeat_traffic::scenario::{FlowSpec, Scenario};
use wirebeat_units::{BitRate, Nanos};

use crate::day_clock::DayClock;
use crate::engines::{self, Ability, Engine};
use crate::error::RunError;
use crate::flows::{self, chosen, overwritten};
use crate::granted::Bounds;
use crate::observe::{Observer, Stop};
use crate::options::{KeySource, Options, Peer};
use crate::placement::Cpus;
use crate::ports::{self, ResolvedPort};
use crate::receivers::Receiver;
use crate::remote::{Connection, RestingConnection};
use crate::transmit::RestingTx;

/// Ports that stay open from one run to the next.
///
/// ```no_run
/// use wirebeat_run::{Lab, Options, Silent, Stop};
/// use wirebeat_traffic::scenario::Scenario;
/// use wirebeat_units::Nanos;
///
/// let text = std::fs::read_to_string("examples/single.yaml")?;
/// let scenario = Scenario::from_yaml(&text, "single.yaml")?;
/// let mut lab = Lab::open(&scenario, Options::default())?;
/// for _ in 0..200 {
///     let time = Some(Nanos::from_millis(50));
///     let report = lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new())?;
///     assert!(report.consistency_checks.iter().all(|check| check.balances()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(missing_debug_implementations, reason = "a connection has no readable form")]
pub struct Lab {
    /// The scenario that it was opened with: its ports, its seed, and how it is run.
    scenario: Scenario,
    pub(crate) options: Options,
    pub(crate) cpus: Cpus,
    pub(crate) ports: Vec<ResolvedPort>,
    /// The engine of each port, as chosen before anything opened.
    pub(crate) engines: Vec<Engine>,
    /// Interfaces and engines that were not written and had to be chosen, for the person who waits; told once.
    pub(crate) notices: Vec<String>,
    pub(crate) machine: Machine,
    /// The clock of the day, for probes of other tools.
    pub(crate) day: DayClock,
    /// The ways that neighbours were asked for, by port and destination.
    known: KnownRoutes,
    /// Receivers that rest until a run needs them, and transmitters, those of a port in the order of its cores.
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) transmitters: Vec<RestingTx>,
    /// What tells of links between runs, and what counts by port what drivers accept.
    pub(crate) watches: Vec<LinkWatch>,
    pub(crate) accepted: Vec<Option<Accepted>>,
    /// The connections to receivers on other hosts, between runs.
    pub(crate) connections: Vec<(Host, RestingConnection)>,
    /// What bounds its runs, where they are sent for another host.
    pub(crate) bounds: Option<Bounds>,
    /// Runs that have made the files of captures and of a packet log.
    pub(crate) runs_with_files: u32,
}

/// A receiver on another host, as a run names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// That of all flows that go to no port ([`Options::peer`]).
    OfRun,
    /// The port of this name.
    Port(String),
}

impl Host {
    /// Whether it measures `flow`.
    pub(crate) fn receives(&self, flow: &Flow) -> bool {
        match (self, &flow.to) {
            (Host::OfRun, to) => to.is_none(),
            (Host::Port(name), to) => to.as_ref() == Some(name),
        }
    }
}

/// The receivers on other hosts that ports of `scenario` name.
pub(crate) fn peers_of_ports(
    scenario: &Scenario,
    options: &Options,
) -> impl Iterator<Item = (Host, Peer)> {
    scenario.ports.iter().filter_map(|(name, port)| {
        let address = port.peer?;
        let key = port.key_file.as_ref().map(|file| KeySource::File(options.path(file)));
        // one that is no file comes from the command line
        let given = options.peer.as_ref().filter(|peer| peer.address == address);
        let key = key.or_else(|| given.and_then(|peer| peer.key.clone()));
        Some((Host::Port(name.clone()), Peer { address, key }))
    })
}

/// Ways that were looked up, by the name of the port and the destination.
pub(crate) type KnownRoutes = HashMap<(String, IpAddr), Route>;

impl Lab {
    /// Finds the ports of `scenario`, chooses their engines, and waits for their links. Nothing is sent.
    ///
    /// # Errors
    /// A port that this machine does not have, or an engine that cannot serve it.
    pub fn open(scenario: &Scenario, options: Options) -> Result<Lab, RunError> {
        let cpus = Cpus::here();
        for (name, port) in &scenario.ports {
            cpus.check(&format!("port '{name}'"), &port.cores)?;
        }
        let mut ports = ports::find(scenario, &options.namespaces)?;
        let choices = ports
            .iter()
            .map(|port| engines::choose(port, scenario))
            .collect::<Result<Vec<_>, _>>()?;
        let engines: Vec<Engine> = choices.iter().map(|choice| choice.engine).collect();
        for (port, choice) in ports.iter_mut().zip(&choices) {
            port.engine_reason = choice.reason.clone();
        }
        let mut notices = chosen(scenario, &ports, &choices);
        notices.extend(overwritten(&ports, &engines, &options));
        // neighbours answer only then
        let timeout = scenario.run.link_timeout;
        notices.extend(flows::await_links(&ports, &engines, timeout)?);
        Ok(Lab {
            scenario: scenario.clone(),
            options,
            cpus,
            ports,
            engines,
            notices,
            machine: Machine::observe(),
            day: DayClock::new(),
            known: HashMap::new(),
            receivers: Vec::new(),
            transmitters: Vec::new(),
            watches: Vec::new(),
            accepted: Vec::new(),
            connections: Vec::new(),
            bounds: None,
            runs_with_files: 0,
        })
    }

    /// Sends these flows between the ports of the lab, each for as long as it says and at most for `time`, and reports.
    /// Ports stay as they are, for the next run.
    ///
    /// # Errors
    /// Flows that cannot be sent as they are, or a machine that cannot do it. Nothing has been sent, and the lab is as before.
    pub fn run(
        &mut self,
        flows: impl IntoIterator<Item = (String, FlowSpec)>,
        time: Option<Nanos>,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Report, RunError> {
        let flows = flows.into_iter().collect();
        let mut scenario = Scenario { flows, ..self.without_flows() };
        scenario.run.time = time;
        scenario.check().map_err(CompileError::from)?;
        flows::run(self, &scenario, observer, stop)
    }

    /// The speed of the link of a port: as the scenario has it, else as its card says. `None` where it is not known, or only nominal,
    /// as that of a virtual cable.
    pub fn link_speed(&self, port: &str) -> Option<BitRate> {
        let port = self.ports.iter().find(|resolved| resolved.name == port)?;
        port.spec.speed.or_else(|| port.link.as_ref()?.speed)
    }

    /// The MTU of the interface of a port: bytes of a packet behind the link-layer header. `None` where the port has no interface here.
    pub fn mtu(&self, port: &str) -> Option<u32> {
        self.ports.iter().find(|resolved| resolved.name == port)?.link.as_ref().map(|link| link.mtu)
    }

    /// Its scenario without the flows.
    fn without_flows(&self) -> Scenario {
        let Scenario { seed, ports, run, .. } = &self.scenario;
        Scenario { seed: *seed, ports: ports.clone(), run: run.clone(), ..Scenario::default() }
    }

    /// What the compiler has to know of the links; ways that earlier runs looked up are known.
    pub(crate) fn links(&mut self, scenario: &Scenario) -> Result<Links, RunError> {
        ports::links(scenario, &self.ports, &self.engines, &mut self.known)
    }

    /// The receivers on other hosts, and who they are.
    pub(crate) fn peers(&self) -> Vec<(Host, Peer)> {
        let of_run = self.options.peer.iter().map(|peer| (Host::OfRun, peer.clone()));
        let serves = |port: &String| {
            self.scenario.sessions.values().any(|group| group.to.as_ref() == Some(port))
        };
        // a listener that serves sessions measures no flows, and takes one connection
        let ports = peers_of_ports(&self.scenario, &self.options)
            .filter(|(host, _)| !matches!(host, Host::Port(port) if serves(port)));
        of_run.chain(ports).collect()
    }

    /// The connections to all of them: those that rest, or new ones.
    ///
    /// # Errors
    /// A receiver cannot be reached, or serves another sender.
    pub(crate) fn connect(&mut self) -> Result<Vec<(Host, Connection)>, RunError> {
        let mut resting = std::mem::take(&mut self.connections);
        let connect = |(host, peer): (Host, Peer)| {
            let at = resting.iter().position(|(other, _)| *other == host);
            let kept = at.and_then(|at| resting.swap_remove(at).1.wake());
            Ok((host, kept.map_or_else(|| Connection::open(&peer), Ok)?))
        };
        self.peers().into_iter().map(connect).collect()
    }

    /// Keeps the connection to the receiver on another host for the next run. Where it cannot be kept, that one connects anew.
    pub(crate) fn keep_connection(&mut self, host: Host, connection: Connection) {
        let resting = RestingConnection::new(connection).ok();
        self.connections.extend(resting.map(|resting| (host, resting)));
    }

    /// The receiver that rests at a port, if there is one.
    pub(crate) fn take_receiver(&mut self, place: usize) -> Option<Receiver> {
        let at = self.receivers.iter().position(|receiver| receiver.place == place)?;
        Some(self.receivers.swap_remove(at))
    }

    /// The transmitters that rest at a port.
    pub(crate) fn take_transmitters(&mut self, place: usize) -> Vec<RestingTx> {
        let resting = std::mem::take(&mut self.transmitters);
        let (mine, others) = resting.into_iter().partition(|one| one.place == place);
        self.transmitters = others;
        mine
    }

    /// Closes the sockets that rest and have addresses: a run that opens others may need those elsewhere.
    pub(crate) fn free_addresses(&mut self) {
        self.receivers.retain(|receiver| receiver.engine.can(Ability::SeeHeaders));
        self.transmitters.retain(|transmitter| transmitter.engine.can(Ability::SeeHeaders));
    }

    /// Whether flows may change while they are sent.
    pub(crate) fn is_controlled(&self) -> bool {
        self.options.control != crate::control::Controlled::No
    }

    /// Whether it runs on a virtual clock.
    pub(crate) fn is_virtual(&self) -> bool {
        self.engines.iter().any(|engine| engine.is_virtual())
    }
}
