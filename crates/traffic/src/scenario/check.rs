//! What can be written but not meant.
//!
//! These checks need the scenario alone. What depends on the machine (addresses, the speed of links)
//! is checked when the scenario is compiled.

use std::collections::{HashMap, HashSet};

use wirebeat_units::{Fault, Nanos, fault};
use wirebeat_wire::codec::Codec;

use super::change::Settings;
use super::header::Header;
use super::header::checksum::Checksum;
use crate::engines::{Ability, Engine};
use crate::text::hint::with_hint;

use super::{
    Change, FlowSpec, Invalid, KeyPath, LateChoice, MAX_FLOWS, Order, PortSpec, PriorityChoice,
    Probe, RunSpec, Scenario, Shared, WaitChoice, XdpModeChoice,
};

/// The longest name of a port or flow, in characters: what fits a column of a report.
const MAX_NAME: usize = 64;

impl Scenario {
    /// Finds the first thing that is invalid, with its key.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.flows.len() > MAX_FLOWS {
            return Err(KeyPath::root("flows").invalid(format!(
                "there are {} flows, and a probe has room for the numbers of {MAX_FLOWS}",
                self.flows.len()
            )));
        }
        let mut files = HashSet::new();
        let mut peers = HashSet::new();
        for (name, port) in &self.ports {
            if let Some(peer) = &port.peer
                && !peers.insert(peer)
            {
                let why =
                    fault!("another port is received there"; "send the flows of both to that one");
                return Err(KeyPath::port(name).key("peer").invalid(why));
            }
            check_name("ports", name)?;
            port.hosts
                .check()
                .map_err(|(key, why)| KeyPath::port(name).key("hosts").key(key).invalid(why))?;
            port.cable
                .check()
                .map_err(|(key, why)| KeyPath::port(name).key("cable").key(key).invalid(why))?;
            check_port(name, port, self.destination_from(name).is_some())?;
            if let Some(file) = &port.file
                && !files.insert(file)
            {
                let why = fault!("another port writes this file"; "give each its own");
                return Err(KeyPath::port(name).key("file").invalid(why));
            }
        }
        for (name, flow) in &self.flows {
            check_name("flows", name)?;
            check_ports_of(self, name, flow)?;
            flow.check_settings(name, &flow.settings())?;
            flow.check_replay(name)?;
            check_sub_flows(name, flow)?;
            check_times(name, flow, &self.run)?;
            check_out_of_order(self, name, flow)?;
            flow.check_changes(name)?;
        }
        self.check_sessions()?;
        self.check_expectations()?;
        check_run(&self.run)?;
        check_unlimited(self)
    }
}

pub(super) fn check_name(of: &str, name: &str) -> Result<(), Invalid> {
    let long = name.chars().nth(MAX_NAME).is_some();
    if name.is_empty() || long || name.chars().any(char::is_control) {
        return Err(KeyPath::root(of)
            .key(name)
            .invalid(format!("a name has 1 to {MAX_NAME} characters and no control characters")));
    }
    Ok(())
}

/// `has_way`: a flow from the port says where it goes, so that the machine knows the interface on the way.
fn check_port(name: &str, port: &PortSpec, has_way: bool) -> Result<(), Invalid> {
    let at = |key| KeyPath::port(name).key(key);
    if port.peer.is_some()
        && let Some(key) = port.beside_peer()
    {
        return Err(at(key).invalid(fault!(
            "this port is on another host, whose receiver has its own settings"; "leave '{key}' out"
        )));
    }
    if port.peer.is_none() && port.key_file.is_some() {
        return Err(at("key-file")
            .invalid(fault!("a key is for a port on another host"; "give its 'peer'")));
    }
    let engine = port.engine.engine();
    if engine.is_some_and(Engine::needs_link) && port.interface.is_none() && !has_way {
        return Err(at("interface").invalid(fault!(
            "this engine needs the name of an interface, because no flow from here has a \
             destination";
            "write for example 'interface: eth1'"
        )));
    }
    match (port.engine.can(Ability::WriteFile), &port.file) {
        (true, None) => {
            let why =
                format!("the engine {} needs the name of the file to write", port.engine.name());
            return Err(at("file").invalid(why));
        }
        (false, Some(_)) => {
            let writer = Engine::ALL.iter().find(|engine| engine.can(Ability::WriteFile));
            let writer = writer.map_or("pcap", |engine| engine.name());
            let why = fault!("only the engine {writer} writes a file"; "add 'engine: {writer}'");
            return Err(at("file").invalid(why));
        }
        _ => {}
    }
    if port.mtu.is_some_and(|mtu| !PortSpec::MTU.contains(&mtu.get())) {
        let (least, most) = (PortSpec::MTU.start(), PortSpec::MTU.end());
        return Err(at("mtu").invalid(format!("a link carries packets of {least}B to {most}B")));
    }
    if port.capture.as_ref().is_some_and(|capture| capture.file.is_empty()) {
        return Err(at("capture").key("file").invalid(fault!(
            "a capture needs the name of its file"; "write for example 'file: out.pcapng'"
        )));
    }
    if port.interface.as_deref() == Some("") {
        return Err(at("interface").invalid("the name of an interface is not empty"));
    }
    if let Some(queues) = port.queues
        && !port.cores.is_empty()
        && usize::from(queues.get()) != port.cores.len()
    {
        return Err(at("queues").invalid(fault!(
            "{queues} threads do not fit {} cores", port.cores.len();
            "leave one of the two out"
        )));
    }
    check_transmit_queues(port).map_err(|(index, why)| {
        let key = at("transmit-queues");
        index.map_or_else(|| key.clone(), |index| key.clone().index(index)).invalid(why)
    })?;
    check_receive_queues(port).map_err(|why| at("receive-queues").invalid(why))?;
    check_xdp_mode(port).map_err(|(key, why)| at(key).invalid(why))?;
    let mut seen = HashSet::new();
    match port.cores.iter().position(|core| !seen.insert(core)) {
        Some(index) => {
            Err(at("cores").index(index).invalid(fault!("a core sends once"; "name it once")))
        }
        None => Ok(()),
    }
}

/// Why frames cannot be received by so many queues.
fn check_receive_queues(port: &PortSpec) -> Result<(), Fault> {
    let most = PortSpec::RECEIVE_QUEUES_MAX;
    if port.receivers() > most {
        return Err(fault!("a port receives by {most} queues at the most"));
    }
    let able = |engine: Engine| engine.can(Ability::ReceiveQueues);
    match port.engine.engine() {
        Some(engine) if port.receivers() > 1 && !able(engine) => Err(fault!(
            "the engine '{engine}' receives by one queue";
            "use the engine {}, or leave it out",
            Engine::names(able)
        )),
        _ => Ok(()),
    }
}

/// Which setting is one of other engines.
fn check_xdp_mode(port: &PortSpec) -> Result<(), (&'static str, Fault)> {
    let written = [
        ("xdp-mode", port.xdp_mode != XdpModeChoice::Auto),
        ("busy-poll", port.busy_poll),
        ("launch-time", port.launch_time),
        ("receive-hash", port.receive_hash),
    ];
    match written.into_iter().find(|(_, is_written)| *is_written) {
        Some((key, _)) if !port.engine.can(Ability::ChooseXdpMode) => {
            let able = Engine::names(|engine| engine.can(Ability::ChooseXdpMode));
            Err((
                key,
                fault!("this is a setting of the engine {able}"; "add 'engine: {}'", able.trim_matches('\'')),
            ))
        }
        _ => Ok(()),
    }
}

/// Why transmit queues cannot be chosen so, and which one is wrong.
fn check_transmit_queues(port: &PortSpec) -> Result<(), (Option<usize>, Fault)> {
    let queues = &port.transmit_queues;
    if queues.is_empty() {
        return Ok(());
    }
    if !port.cores.is_empty() {
        let why = "the CPU decides the queue: give 'cores' or 'transmit-queues', not both";
        return Err((None, why.into()));
    }
    if port.engine.engine().is_some_and(|engine| !engine.chooses_queue()) {
        let able = Engine::names(Engine::chooses_queue);
        return Err((None, fault!("transmit queues can be chosen with the engine {able}")));
    }
    if let Some(threads) = port.queues.filter(|&all| usize::from(all.get()) != queues.len()) {
        let why = fault!(
            "{threads} threads ('queues') do not fit {} transmit queues", queues.len();
            "leave 'queues' out"
        );
        return Err((None, why));
    }
    let mut seen = HashSet::new();
    match queues.iter().position(|queue| !seen.insert(queue)) {
        Some(index) => Err((Some(index), "a queue is named once".into())),
        None => Ok(()),
    }
}

fn check_ports_of(scenario: &Scenario, name: &str, flow: &FlowSpec) -> Result<(), Invalid> {
    let known = |key: &str, port: &str| {
        if scenario.ports.contains_key(port) {
            return Ok(());
        }
        let ports = scenario.ports.keys().map(String::as_str);
        Err(KeyPath::flow(name).key(key).invalid(with_hint("there is no port", port, ports)))
    };
    known("from", &flow.from)?;
    flow.to.as_deref().map_or(Ok(()), |to| known("to", to))?;
    let is_far = |port: &str| scenario.ports.get(port).is_some_and(|port| port.peer.is_some());
    if !is_far(&flow.from) {
        return Ok(());
    }
    match flow.to.as_deref() {
        Some(to) if !is_far(to) => Ok(()),
        to => Err(KeyPath::flow(name).key("to").invalid(fault!(
            "port '{}' is on another host, and {}",
            flow.from, to.map_or("nothing here receives the flow", |_| "so is the port that it goes to");
            "give the name of a port of this host in 'to'"
        ))),
    }
}

/// Whether what a packet carries is the payload of its only UDP header, over IP; a packet without headers gets those.
pub fn is_datagram(packet: &[Header]) -> bool {
    let network = |header: &&Header| matches!(header, Header::Ipv4(_) | Header::Ipv6(_));
    let mut transport = packet.iter().filter(|header| !matches!(header, Header::Payload(_)));
    packet.is_empty()
        || packet.iter().filter(network).count() == 1
            && !packet.iter().any(|header| matches!(header, Header::Mpls(_)))
            && transport.next_back().is_some_and(|last| matches!(last, Header::Udp(_)))
}

impl FlowSpec {
    /// What is invalid of these settings, which are those of the flow by now. What others it has may be long,
    /// and was checked before.
    pub(super) fn check_settings(&self, name: &str, settings: &Settings) -> Result<(), Invalid> {
        let at = |key| KeyPath::flow(name).key(key);
        if settings.packet.is_some() {
            check_packet(name, self)?;
        }
        if let [Header::Raw(_), ..] = self.packet[..] {
            check_raw(self).map_err(|(key, why)| at(key).invalid(why))?;
        }
        if let Some(size) = &settings.size {
            size.check().map_err(|why| at("size").invalid(why))?;
        }
        self.probe.check().map_err(|why| at("probe").invalid(why))?;
        if let Probe::Carried(carried) = &self.probe
            && carried.codec != Codec::Wirebeat
            && !is_datagram(&self.packet)
        {
            let why = fault!(
                "a probe of {} is found behind UDP over IP, and in no tunnel", carried.codec;
                "leave 'probe' out for Wirebeat's own"
            );
            return Err(at("probe").invalid(why));
        }
        if let Some(rate) = &settings.rate {
            rate.check().map_err(|why| at("rate").invalid(why))?;
        }
        if let Some(departures) = &settings.departures {
            departures.check().map_err(|why| at("departures").invalid(why))?;
        }
        if let Some(sub_flows) = &self.sub_flows
            && sub_flows.order == Order::OneByOne
            && sub_flows.length.is_none()
        {
            let why = "one by one, a sub-flow ends before the next begins: give it a 'length'";
            return Err(at("sub-flows").invalid(why));
        }
        let sub_flows = self.replay.as_ref().is_some_and(|replay| replay.flow_of.is_some());
        if let (None, false, Some(packet)) = (&self.sub_flows, sub_flows, &settings.packet)
            && let Some((index, header)) =
                packet.iter().enumerate().find(|(_, header)| header.has_sub_flows())
        {
            let why = fault!(
                "a pattern advances with sub-flows, and there are none";
                "give the flow 'sub-flows', or leave 'per' out"
            );
            return Err(at("packet").index(index).key(header.name()).invalid(why));
        }
        if self.departures.file().is_some() && self.size.is_some() {
            let why =
                fault!("the file of 'departures' says how long frames are"; "leave 'size' out");
            return Err(at("size").invalid(why));
        }
        Ok(())
    }
}

/// Sub-flows that no frame shows.
fn check_sub_flows(name: &str, flow: &FlowSpec) -> Result<(), Invalid> {
    let changed = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => settings.packet.as_ref(),
        _ => None,
    });
    let shown = |packet: &Shared<Vec<Header>>| packet.iter().any(Header::has_sub_flows);
    if flow.sub_flows.is_some() && ![&flow.packet].into_iter().chain(changed).any(shown) {
        return Err(KeyPath::flow(name).key("sub-flows").invalid(fault!(
            "sub-flows differ in the fields that advance with them, and there are none";
            "give a pattern 'per: sub-flow'"
        )));
    }
    Ok(())
}

fn check_packet(name: &str, flow: &FlowSpec) -> Result<(), Invalid> {
    let at = |key| KeyPath::flow(name).key(key);
    let packet = flow.headers(name)?;
    let mut networks = 0;
    for (index, header) in flow.packet.iter().enumerate() {
        let here =
            |key: &str, why| at("packet").index(index).key(header.name()).key(key).invalid(why);
        header.spec().check().map_err(|(key, why)| here(key, why))?;
        if let Some((key, why)) = header.laid().problem() {
            return Err(here(key, why));
        }
        let ends = match header {
            Header::Ipv4(ip) => Some((ip.source.is_some(), ip.destination.is_some())),
            Header::Ipv6(ip) => Some((ip.source.is_some(), ip.destination.is_some())),
            _ => None,
        };
        if let Some((source, destination)) = ends {
            networks += 1;
            if networks > 1 && !(source && destination) {
                let key = if source { "destination" } else { "source" };
                let why =
                    fault!("the ends of a tunnelled packet are not known"; "write its addresses");
                return Err(here(key, why.to_owned()));
            }
        }
        if let Header::Udp(udp) = header
            && udp.checksum == Checksum::Off
            && matches!(before_ip(&flow.packet[..index]), Some(Header::Ipv6(_)))
            // A tunnel may leave it out (RFC 6935).
            && flow.packet.get(index + 1).is_none_or(|next| !matches!(next, Header::Vxlan(_)))
        {
            return Err(here(
                "checksum",
                fault!(
                    "UDP over IPv6 needs its checksum (RFC 8200 §8.1)";
                    "remove 'checksum', or use IPv4, or write the number that is to stand there"
                ),
            ));
        }
    }
    if let (Some(network), None) = (packet.network, &flow.to)
        && network.destination().is_none()
    {
        return Err(at("packet").invalid(fault!(
            "there is no destination";
            "give the network header one, or name the receiving port in 'to'"
        )));
    }
    Ok(())
}

/// The IP header that is nearest before the end of `headers`.
fn before_ip(headers: &[Header]) -> Option<&Header> {
    headers.iter().rev().find(|header| matches!(header, Header::Ipv4(_) | Header::Ipv6(_)))
}

/// A whole frame has nothing that could be filled in.
fn check_raw(flow: &FlowSpec) -> Result<(), (&'static str, Fault)> {
    if matches!(flow.probe, Probe::Carried(_)) {
        return Err(("probe", fault!("a whole frame stays as it is"; "leave 'probe' out")));
    }
    if flow.size.is_some() {
        return Err(("size", fault!("a whole frame has its length"; "leave 'size' out")));
    }
    if flow.departures.file().is_some() {
        return Err((
            "departures",
            "a whole frame has its length, and the file says another".into(),
        ));
    }
    Ok(())
}

fn check_times(name: &str, flow: &FlowSpec, run: &RunSpec) -> Result<(), Invalid> {
    check_times_at(KeyPath::flow(name), flow.start, flow.stop, run)
}

/// What is invalid of the start and the stop of what stands at `at`.
pub(super) fn check_times_at(
    at: KeyPath,
    start: Nanos,
    stop: Option<Nanos>,
    run: &RunSpec,
) -> Result<(), Invalid> {
    if let Some(stop) = stop.filter(|stop| *stop <= start) {
        return Err(at
            .key("stop")
            .invalid(format!("it stops at {stop}, before anything is due: it starts at {start}")));
    }
    match run.time {
        Some(time) if start >= time => Err(at.key("start").invalid(
            fault!("it starts at {start}, and the run ends at {time}"; "make 'run.time' longer"),
        )),
        _ => Ok(()),
    }
}

/// Cores that send what leaves later leave some for the rest.
fn check_out_of_order(scenario: &Scenario, name: &str, flow: &FlowSpec) -> Result<(), Invalid> {
    let own = flow.delayed_cores();
    let cores = scenario.ports.get(&flow.from).map_or(1, PortSpec::senders);
    if own == 0 || own < cores {
        return Ok(());
    }
    Err(KeyPath::flow(name).key("replay").key("out-of-order").invalid(fault!(
        "its port sends with {cores} of 'queues', and {own} of them for what leaves later leave \
         none for the rest";
        "give the port more"
    )))
}

fn check_run(run: &RunSpec) -> Result<(), Invalid> {
    let at = |key| KeyPath::root("run").key(key);
    if run.time == Some(Nanos::ZERO) {
        return Err(at("time").invalid("a run of no time sends nothing"));
    }
    if run.interval < RunSpec::SHORTEST_INTERVAL {
        return Err(at("interval").invalid(
            fault!("an interval has 10ms at least"; "give a longer one, for example 1s"),
        ));
    }
    if run.priority == PriorityChoice::Realtime && run.wait == WaitChoice::Spin {
        return Err(at("priority").invalid(fault!(
            "real time does not go with 'wait: spin': Linux takes the CPU away from a \
             real-time thread that never sleeps, for 50 ms of each second";
            "use 'wait: hybrid', or the priority 'high'"
        )));
    }
    if run.late == LateChoice::Send && run.drift != RunSpec::DEFAULT_DRIFT {
        return Err(at("drift")
            .invalid(fault!("a drift needs late frames to be dropped"; "add 'late: drop'")));
    }
    Ok(())
}

/// Flows that are as fast as the engine can share their port's time alone: they leave no gap for flows
/// with a rate, and take turns from the same start to the same stop.
fn check_unlimited(scenario: &Scenario) -> Result<(), Invalid> {
    let mut first_from: HashMap<&str, (&str, &FlowSpec)> = HashMap::new();
    for (name, flow) in &scenario.flows {
        let (first_name, first) = *first_from.entry(&flow.from).or_insert((name, flow));
        let at = |key| KeyPath::flow(name).key(key);
        if flow.is_unlimited() != first.is_unlimited() {
            return Err(at("rate").invalid(fault!(
                "flows with a rate and flows without cannot leave from one port, and \
                 '{first_name}' has {}",
                if first.is_unlimited() { "none" } else { "one" };
                "give all of them a rate, or none"
            )));
        }
        if !flow.is_unlimited() {
            continue;
        }
        let differs = if flow.start != first.start {
            "start"
        } else if flow.stop != first.stop {
            "stop"
        } else if flow.count.is_some() != first.count.is_some() {
            "count"
        } else if flow.bytes.is_some() != first.bytes.is_some() {
            "bytes"
        } else {
            continue;
        };
        return Err(at(differs).invalid(fault!(
            "flows without a rate take turns, and so start and stop together";
            "this one differs from '{first_name}'"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
