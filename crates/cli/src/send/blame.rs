//! What is wrong with the scenario of a command line, in the words of the command line.
//!
//! Who typed flags has not seen the scenario that they mean, so a key is told as its flag, and a remedy
//! for a file as one for the command line.

use std::net::IpAddr;

use wirebeat_run::{Exit, RunError};
use wirebeat_traffic::scenario::{Invalid, Scenario};

use super::scenario::FLOW;
use crate::failure::Failure;
use crate::replay::FLOW as REPLAY;

/// Keys of a scenario, without the places in lists, and the flags that they come from.
const FLAGS: &[(&str, &str)] = &[
    ("rate", "--rate"),
    ("size", "--size"),
    ("burst", "--burst"),
    ("count", "--count"),
    ("packet.ethernet.source", "--source-mac"),
    ("packet.ethernet.destination", "--destination-mac"),
    ("packet.ipv4.ttl", "--ttl"),
    ("packet.ipv6.hop-limit", "--ttl"),
    ("packet.udp.checksum", "--no-udp-checksum"),
    ("packet.payload.text", "--payload"),
    ("packet.payload", "--payload"),
    ("departures", "--departures"),
    ("expect", "--expect"),
    ("ports.sender.interface", "--interface"),
    ("ports.sender.namespace", "--namespace"),
    ("ports.sender.cores", "--cpu"),
    ("ports.sender.queues", "--queues"),
    ("ports.sender.transmit-queues", "--transmit-queue"),
    ("ports.sender.xdp-mode", "--xdp-mode"),
    ("ports.sender.busy-poll", "--busy-poll"),
    ("replay.archive", "the archive"),
    ("replay.capture", "the capture"),
    ("replay.devices", "--device"),
    ("replay.flow-of", "--flow-of"),
    ("replay.sub-flows", "--sub-flows"),
    ("replay.statistics", "--statistics"),
    ("replay.filter", "--filter"),
    ("replay.rewrite", "--map-address, --map-port, --vlan"),
    ("replay.rewrite.vlan", "--vlan"),
    ("replay.rewrite.addresses", "--map-address"),
    ("replay.rewrite.ports", "--map-port"),
    ("replay.side", "--side"),
    ("replay.truncated", "--truncated"),
    ("replay.readers", "--readers"),
    ("replay.speed", "--fast-forward"),
    ("replay.tight-loop", "--tight-loop"),
    ("replay.drift", "--drift"),
    ("replay.to", "--until"),
    ("replay.buffer", "--buffer"),
    ("replay.workers", "--workers"),
    ("run.time", "--time"),
    ("run.drift", "--drift"),
    ("run.priority", "--priority"),
];

/// Phrases about scenarios, and what they are on a command line; tried in this order.
const WORDS: &[(&str, &str)] = &[
    ("add 'late: drop'", "add --late drop"),
    ("'wait: spin'", "--wait spin"),
    ("'wait: hybrid', or the priority 'high'", "--wait hybrid, or --priority high"),
    ("use priority 'high'", "use --priority high"),
    ("'run.priority'", "--priority"),
    ("give 'cores'", "give --cpu"),
    ("'transmit-queues'", "--transmit-queue"),
    ("'xdp-mode: auto'", "--xdp-mode auto"),
    ("'xdp-mode: copy'", "--xdp-mode copy"),
    ("'xdp-mode: generic'", "--xdp-mode generic"),
    ("add 'engine: xdp'", "add --engine xdp"),
    ("name CPUs with 'cores'", "name CPUs with --cpu"),
    ("remove 'checksum', or use IPv4", "remove --no-udp-checksum, or send to an IPv4 address"),
    ("give the network header a 'source', or the port 'addresses'", "give --source"),
    ("give the port a 'next-hop'", "give --destination-mac"),
    ("or leave 'run.start-at' out", "or leave --start-at out"),
    (
        "use fewer 'queues', or name other 'cores'",
        "give fewer --queues, or name other CPUs with --cpu",
    ),
    ("give the flow a 'rate'", "give --rate"),
    ("give the packet an ethernet header with a 'source'", "give --source-mac"),
    ("because no flow from here has a destination", "because nothing says where frames go"),
    ("for example 'interface: eth1'", "for example --interface eth1"),
    ("use the engine 'packet'", "use --engine packet"),
    ("give port 'sender' its 'speed'", "give --speed"),
    ("correct the port's 'speed'", "correct --speed"),
    ("port 'sender': ", ""),
    ("port 'sender'", "the sender"),
];

/// For what says itself what is wrong, and no more.
const LAST_HINT: &str = "leave it out, or give another value";

/// Why the scenario is invalid.
pub fn invalid(problem: &Invalid, scenario: &Scenario) -> Failure {
    let failure = Failure::usage(problem.why.clone().map(in_flags)).hint(LAST_HINT);
    match place(&problem.at.to_string(), scenario) {
        Some(place) => failure.at(place),
        None => failure.at(format!("{} of --print-scenario", problem.at)),
    }
}

/// Why the scenario cannot be run.
pub fn error(error: RunError, scenario: &Scenario) -> Failure {
    if let RunError::Scenario(error) = &error {
        return invalid(error.problem(), scenario);
    }
    let mut fault = error.fault().map(in_flags);
    if let Some(target) = perhaps_a_port(scenario).filter(|_| error.exit() == Exit::Machine) {
        fault = fault.and_hint(format!("write {target} if its end is the UDP port"));
    }
    Failure::new(error.exit().into(), fault)
}

/// A destination of IPv6 that ends like one with a port, as it would be with it: `[fd00::2]:5000` of `fd00::2:5000`.
fn perhaps_a_port(scenario: &Scenario) -> Option<String> {
    scenario.flows.iter().find_map(|(name, flow)| {
        let IpAddr::V6(address) = flow.headers(name).ok()?.network?.destination()? else {
            return None;
        };
        let text = address.to_string();
        let (host, end) = text.rsplit_once(':')?;
        let port = end.parse::<u16>().ok().filter(|port| *port > 0 && end.len() > 2)?;
        host.parse::<IpAddr>().is_ok().then(|| format!("[{host}]:{port}"))
    })
}

fn in_flags(message: &str) -> String {
    WORDS.iter().fold(message.to_owned(), |message, (key, flag)| message.replace(key, flag))
}

/// The flag, or the flow and its key, that a key of the scenario comes from.
fn place(at: &str, scenario: &Scenario) -> Option<String> {
    let flow = scenario.flows.keys().find_map(|name| {
        let key = at.strip_prefix("flows.")?.strip_prefix(name.as_str())?;
        Some((name, key.strip_prefix('.').or(key.is_empty().then_some(""))?))
    });
    let Some((name, key)) = flow else {
        return flag(at).map(str::to_owned);
    };
    if scenario.flows.len() == 1 && [FLOW, REPLAY].contains(&name.as_str()) {
        return flag(key).map(str::to_owned);
    }
    let key = flag(key).and_then(|flag| flag.strip_prefix("--"));
    Some(match key {
        Some(key) => format!("--flow name={name}, {key}"),
        None => format!("--flow name={name}"),
    })
}

fn flag(key: &str) -> Option<&'static str> {
    let mut inside = false;
    let key: String = key
        .chars()
        .filter(|letter| {
            inside = *letter == '[' || inside && *letter != ']';
            !inside && *letter != ']'
        })
        .collect();
    FLAGS.iter().find(|(known, _)| *known == key).map(|(_, flag)| *flag)
}

#[cfg(test)]
mod tests {
    use wirebeat_traffic::compile::{Link, Links, compile};
    use wirebeat_traffic::scenario::KeyPath;
    use wirebeat_units::fault;

    use super::*;
    use crate::send::tests::scenario;
    use crate::sender::PORT;

    /// What is said of a command line when `links` are all that is known of the machine.
    fn told(line: &str, links: Links) -> String {
        let scenario = scenario(line).unwrap();
        let error = compile(&scenario, &links, &Default::default()).unwrap_err();
        super::error(RunError::Scenario(error), &scenario).sentence()
    }

    fn link(link: Link) -> Links {
        Links { ports: [(PORT.to_owned(), link)].into() }
    }

    #[test]
    fn what_the_machine_does_not_know_is_asked_for_by_flags() {
        let line = "--to 10.0.0.2";
        assert!(told(line, Links::default()).ends_with("to send from; give --source"));
        let addresses = vec!["10.0.0.1".parse().unwrap()];
        let with_address = Link { addresses, ..Link::default() };
        assert!(told(line, link(with_address.clone())).ends_with("give --source-mac"));
        let with_mac = Link { mac: Some("02:00:00:00:00:01".parse().unwrap()), ..with_address };
        assert!(told(line, link(with_mac)).ends_with("or give --destination-mac"));
        let share = told("--to 10.0.0.2 --rate 50%", link(Link::imaginary(0)));
        assert!(share.starts_with("--rate: ") && share.ends_with("or give --speed"), "{share}");
    }

    #[test]
    fn an_address_of_ipv6_with_a_port_behind_it_is_recognised() {
        let told = |to: &str| {
            let missing = RunError::Machine("no neighbour answered for it".into());
            super::error(missing, &scenario(&format!("--to {to}")).unwrap()).sentence()
        };
        assert!(told("fd00::2:5000").contains("write [fd00::2]:5000 if its end is the UDP port"));
        for to in ["fd00::2", "fd00::5000", "fd00::2:500f", "10.0.0.2", "[fd00::2]:5000"] {
            assert!(!told(to).contains("if its end is"), "{to}");
        }
    }

    #[test]
    fn keys_are_told_as_flags() {
        let one = scenario("--to 10.0.0.2").unwrap();
        let two = scenario("--flow name=a.b,to=10.0.0.2 --flow to=10.0.0.3").unwrap();
        let packet = |flow: &str| KeyPath::flow(flow).key("packet").index(1);
        for (at, scenario, expected) in [
            (KeyPath::flow(FLOW).key("size"), &one, "--size"),
            (packet(FLOW).key("udp").key("checksum"), &one, "--no-udp-checksum"),
            (KeyPath::port(PORT).key("cores").index(3), &one, "--cpu"),
            (KeyPath::root("run").key("drift"), &one, "--drift"),
            (KeyPath::flow("a.b").key("size"), &two, "--flow name=a.b, size"),
            (KeyPath::flow("flow-2"), &two, "--flow name=flow-2"),
            (packet("flow-2").key("ipv4").key("ttl"), &two, "--flow name=flow-2, ttl"),
            (KeyPath::root("seed"), &one, "seed of --print-scenario"),
        ] {
            let failure = invalid(&at.invalid(fault!("why"; "hint")), scenario);
            assert_eq!(failure.sentence(), format!("{expected}: why; hint"));
        }
    }
}
