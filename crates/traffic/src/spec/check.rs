//! What can be written but not meant.
//!
//! These checks need the scenario alone. What depends on the machine (addresses, the speed of links)
//! is checked when the scenario is compiled.

use std::collections::{HashMap, HashSet};

use wirebeat_units::{FrameLen, Nanos, Rate};

use super::hint::with_hint;
use super::{
    EngineChoice, FlowSpec, Invalid, KeyPath, LateChoice, MAX_FLOWS, Network, PortSpec, RunSpec,
    Scenario,
};

/// The longest name of a port or flow, in characters: what fits a column of a report.
const MAX_NAME: usize = 64;

impl Scenario {
    /// Finds the first thing that cannot be meant, with its key.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.flows.len() > MAX_FLOWS {
            return Err(KeyPath::root("flows").invalid(format!(
                "there are {} flows, and a probe has room for the numbers of {MAX_FLOWS}",
                self.flows.len()
            )));
        }
        for (name, port) in &self.ports {
            check_name("ports", name)?;
            check_port(name, port)?;
        }
        for (name, flow) in &self.flows {
            check_name("flows", name)?;
            check_ports_of(self, name, flow)?;
            check_packet(name, flow)?;
            check_times(name, flow, &self.run)?;
        }
        check_run(&self.run)?;
        check_unlimited(self)
    }
}

fn check_name(of: &str, name: &str) -> Result<(), Invalid> {
    let long = name.chars().nth(MAX_NAME).is_some();
    if name.is_empty() || long || name.chars().any(char::is_control) {
        return Err(KeyPath::root(of)
            .key(name)
            .invalid(format!("a name has 1 to {MAX_NAME} characters and no control characters")));
    }
    Ok(())
}

fn check_port(name: &str, port: &PortSpec) -> Result<(), Invalid> {
    let at = |key| KeyPath::port(name).key(key);
    match port.engine {
        EngineChoice::Kernel | EngineChoice::Packet if port.interface.is_none() => {
            return Err(at("interface").invalid("this engine needs the name of an interface"));
        }
        EngineChoice::Pcap if port.file.is_none() => {
            return Err(at("file").invalid("the engine pcap needs the name of the file to write"));
        }
        engine if engine != EngineChoice::Pcap && port.file.is_some() => {
            return Err(
                at("file").invalid("only the engine pcap writes a file: add 'engine: pcap'")
            );
        }
        _ => {}
    }
    if port.interface.as_deref() == Some("") {
        return Err(at("interface").invalid("the name of an interface is not empty"));
    }
    if let Some(queues) = port.queues
        && !port.cores.is_empty()
        && usize::from(queues.get()) != port.cores.len()
    {
        return Err(at("queues").invalid(format!(
            "{queues} threads do not fit {} cores; leave one of the two out",
            port.cores.len()
        )));
    }
    let mut seen = HashSet::new();
    match port.cores.iter().position(|core| !seen.insert(core)) {
        Some(index) => Err(at("cores").index(index).invalid("a core sends once; name it once")),
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
    flow.to.as_deref().map_or(Ok(()), |to| known("to", to))
}

fn check_packet(name: &str, flow: &FlowSpec) -> Result<(), Invalid> {
    let at = |key| KeyPath::flow(name).key(key);
    let packet = flow.headers(name)?;
    for (index, header) in flow.packet.iter().enumerate() {
        header.spec().check().map_err(|(key, why)| {
            at("packet").index(index).key(header.name()).key(key).invalid(why)
        })?;
    }
    if matches!(packet.network, Network::V6(_)) && !packet.udp.checksum {
        let index = flow.packet.iter().position(|header| header.name() == "udp").unwrap_or(0);
        return Err(at("packet").index(index).key("udp").key("checksum").invalid(
            "UDP over IPv6 needs its checksum (RFC 8200 §8.1); remove 'checksum', or use IPv4",
        ));
    }
    if packet.network.destination().is_none() && flow.to.is_none() {
        return Err(at("packet").invalid(
            "there is no destination; give the network header one, or name the receiving port in 'to'",
        ));
    }
    match flow.size {
        Some(size) if size < flow.shortest() => Err(at("size").invalid(format!(
            "{size} are too short for the headers{}; the shortest frame is {}",
            if flow.probe { " and the probe" } else { "" },
            flow.shortest()
        ))),
        Some(size) if size > FrameLen::MAX => {
            Err(at("size").invalid(format!("the longest frame is {}", FrameLen::MAX)))
        }
        _ => Ok(()),
    }
}

fn check_times(name: &str, flow: &FlowSpec, run: &RunSpec) -> Result<(), Invalid> {
    let start = flow.start;
    if let Some(stop) = flow.stop.filter(|stop| *stop <= start) {
        return Err(KeyPath::flow(name)
            .key("stop")
            .invalid(format!("it stops at {stop}, before anything is due: it starts at {start}")));
    }
    match run.time {
        Some(time) if start >= time => Err(KeyPath::flow(name).key("start").invalid(format!(
            "it starts at {start}, and the run ends at {time}; make 'run.time' longer"
        ))),
        _ => Ok(()),
    }
}

fn check_run(run: &RunSpec) -> Result<(), Invalid> {
    let at = |key| KeyPath::root("run").key(key);
    if run.time == Some(Nanos::ZERO) {
        return Err(at("time").invalid("a run of no time sends nothing"));
    }
    if run.late == LateChoice::Send && run.drift != RunSpec::DEFAULT_DRIFT {
        return Err(at("drift")
            .invalid("it bounds the lateness of frames that are dropped: add 'late: drop'"));
    }
    Ok(())
}

/// Flows that are as fast as the engine can share their port's time alone: they leave no gap for flows
/// with a rate, and take turns from the same start to the same stop.
fn check_unlimited(scenario: &Scenario) -> Result<(), Invalid> {
    let mut first_from: HashMap<&str, (&str, &FlowSpec)> = HashMap::new();
    for (name, flow) in &scenario.flows {
        let (first_name, first) = *first_from.entry(&flow.from).or_insert((name, flow));
        let unlimited = |flow: &FlowSpec| flow.rate == Rate::Unlimited;
        let at = |key| KeyPath::flow(name).key(key);
        if unlimited(flow) != unlimited(first) {
            return Err(at("rate").invalid(format!(
                "flows with a rate and flows without cannot leave from one port, and '{first_name}' \
                 has {}; give all of them a rate, or none",
                if unlimited(first) { "none" } else { "one" },
            )));
        }
        if !unlimited(flow) {
            continue;
        }
        let differs = if flow.start != first.start {
            "start"
        } else if flow.stop != first.stop {
            "stop"
        } else if flow.count.is_some() != first.count.is_some() {
            "count"
        } else {
            continue;
        };
        return Err(at(differs).invalid(format!(
            "flows without a rate take turns, and so start and stop together; this one differs from \
             '{first_name}'",
        )));
    }
    Ok(())
}
