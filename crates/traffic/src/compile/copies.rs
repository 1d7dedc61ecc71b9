//! Copies of a capture: their starts are compiled as the frames of a flow that nobody sends, as those of sessions are, so that
//! every law that there is for frames is there for copies.
//!
//! Two flows that send the two sides of a capture draw the same: what they draw follows from what they have in common.

use std::sync::Arc;

use wirebeat_units::Nanos;

use super::sessions::stand_in;
use super::{CompileError, Link, Links, Maker, compile_numbered};
use crate::distribution::draw::{Key, Purpose};
use crate::program::Copies;
use crate::program::script::PoolWalk;
use crate::scenario::replay::Copies as CopiesSpec;
use crate::scenario::{
    FlowSpec, Invalid, KeyPath, PortSpec, Replay, RunSpec, Scenario, StaggerChoice,
};
use crate::values::session::{PortPool, PortRange};

/// The ports of clients where none are written: those that no service is registered for by the system (RFC 6335 §6).
const CLIENT_PORTS: PortRange = PortRange { first: 1024, last: u16::MAX };

/// The copies that a flow sends, if it does.
pub(super) fn copies(
    maker: &Maker<'_>,
    spec: &FlowSpec,
) -> Result<Option<Arc<Copies>>, CompileError> {
    let Some(replay) = &spec.replay else { return Ok(None) };
    let Some(written) = &replay.copies else { return Ok(None) };
    let (name, scenario) = (maker.context.name, maker.scenario);
    let number = number(scenario, name, replay);
    let seed = scenario.seed;
    let key = |law| Key::new(seed, number.into(), Purpose::Session(law));
    let mut clients = written.clients.pool();
    if clients.ports.is_none() && !written.keep_ports {
        clients.ports = Some(PortPool(vec![CLIENT_PORTS]));
    }
    Ok(Some(Arc::new(Copies {
        starts: starts(maker, spec, (written, number))?,
        clients: PoolWalk::new(&clients, key(0)),
        servers: PoolWalk::new(&written.servers.pool(), key(1)),
        per_pair: written.per_pair.get().into(),
        tuples: written.tuples.map(Into::into),
        keep_ports: written.keep_ports,
        gap: written.gap,
        turnaround: written.turnaround,
        min_gap: written.min_gap.unwrap_or(Nanos::ZERO),
    })))
}

/// When no copy starts any more, from the start of the flow.
fn stop(scenario: &Scenario, spec: &FlowSpec, copies: &CopiesSpec) -> Nanos {
    let ends = [spec.stop, scenario.run.time].into_iter().flatten().min();
    match ends {
        Some(end) => end.saturating_sub(spec.start),
        None if copies.count.is_some() => Nanos::MAX,
        None => RunSpec::DEFAULT_TIME,
    }
}

fn starts(
    maker: &Maker<'_>,
    spec: &FlowSpec,
    (written, number): (&CopiesSpec, u16),
) -> Result<crate::program::Program, CompileError> {
    let Maker { scenario, context, .. } = maker;
    let name = context.name;
    let here = || KeyPath::flow(name).key("replay").key("copies");
    let mut flow = written.starts().map_err(|why| here().key("multiply").invalid(why))?;
    flow.stop = Some(stop(scenario, spec, written)).filter(|stop| *stop < Nanos::MAX);
    let mut all = Scenario { seed: scenario.seed, ..Scenario::default() };
    all.run.stagger = StaggerChoice::Off;
    all.ports.insert(name.to_owned(), PortSpec::default());
    all.flows.insert(name.to_owned(), stand_in(name, flow));
    let links = Links { ports: [(name.to_owned(), Link::imaginary(0))].into() };
    compile_numbered(&all, &links, context.files, |_| number).map_err(|error| {
        let Invalid { at, why } = error.problem().clone();
        CompileError::Invalid(at.below(&KeyPath::flow(name), here()).invalid(why))
    })
}

/// What the draws of a flow follow from: what is the same in the flow that sends the other side, so that copy `n` is the same
/// copy in both; and which of the flows that say the same it is.
fn number(scenario: &Scenario, name: &str, replay: &Replay) -> u16 {
    let alike = |other: &Replay| other.capture == replay.capture && other.copies == replay.copies;
    let before = scenario.flows.iter().take_while(|(other, _)| other.as_str() != name);
    let before = before.filter_map(|(_, flow)| flow.replay.as_ref());
    let same_side = before.filter(|other| other.side == replay.side && alike(other)).count();
    let said = serde_json::to_string(&(&replay.capture, &replay.copies, same_side));
    // FNV-1a of 32 bits, folded: the same everywhere and for ever
    let hash = said
        .unwrap_or_default()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 16 ^ hash & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::compile::{Files, compile};

    /// The copies of flows `a` and `b`, which send the two sides.
    fn both(copies: &str, more: &str) -> [Arc<Copies>; 2] {
        let text = format!(
            "ports: {{ a: {{}}, b: {{}} }}\nflows:\n  a: {{ from: a, replay: &r {{ capture: day.pcap, side: client, copies: {{ {copies} }} }}{more} }}\n  \
             b: {{ from: b, replay: {{ <<: *r, side: server }}{more} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let ports = [("a".to_owned(), Link::imaginary(0)), ("b".to_owned(), Link::imaginary(1))];
        let links = Links { ports: ports.into() };
        let program = compile(&scenario, &links, &Files::default());
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        [0, 1].map(|flow: usize| program.flows[flow].copies.clone().unwrap())
    }

    fn tuple(copies: &Copies, n: u64) -> (String, u16, String) {
        let ends = copies.ends(n);
        let shown = |ip: Option<IpAddr>| ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        (shown(ends.client), copies.client_port(&ends, (0, 1)), shown(ends.server))
    }

    #[test]
    fn copies_take_addresses_first_and_then_the_next_port() {
        let [copies, _] = both(
            "rate: 1/s, clients: { addresses: 10.0.0.1-10.0.0.2, ports: 5000-5001 }, servers: { addresses: 10.1.0.1-10.1.0.3 }",
            "",
        );
        let all: Vec<_> = (0..5).map(|n| tuple(&copies, n)).collect();
        let of = |client: &str, port, server: &str| (client.to_owned(), port, server.to_owned());
        assert_eq!(
            all,
            [
                of("10.0.0.1", 5000, "10.1.0.1"),
                of("10.0.0.2", 5000, "10.1.0.2"),
                of("10.0.0.1", 5001, "10.1.0.3"),
                of("10.0.0.2", 5001, "10.1.0.1"),
                of("10.0.0.1", 5000, "10.1.0.2"),
            ]
        );
        assert_eq!(copies.different(1), Some(12));
        let seen: std::collections::HashSet<_> = (0..12).map(|n| tuple(&copies, n)).collect();
        assert_eq!((seen.len(), tuple(&copies, 12)), (12, tuple(&copies, 0)));
        assert_eq!(copies.different(2), Some(6));
    }

    #[test]
    fn copies_of_a_pair_differ_in_their_port_alone() {
        let [copies, _] = both(
            "rate: 1/s, per-pair: 2, clients: { addresses: 10.0.0.1-10.0.0.2 }, servers: { addresses: 10.1.0.1-10.1.0.9 }",
            "",
        );
        let all: Vec<_> = (0..5).map(|n| tuple(&copies, n)).collect();
        let of = |client: &str, port, server: &str| (client.to_owned(), port, server.to_owned());
        assert_eq!(
            all,
            [
                of("10.0.0.1", 1024, "10.1.0.1"),
                of("10.0.0.1", 1025, "10.1.0.1"),
                of("10.0.0.2", 1024, "10.1.0.2"),
                of("10.0.0.2", 1025, "10.1.0.2"),
                of("10.0.0.1", 1026, "10.1.0.3"),
            ]
        );
    }

    #[test]
    fn tuples_come_again_and_ports_of_a_copy_differ() {
        let [copies, _] =
            both("rate: 1/s, tuples: 3, clients: { addresses: 10.0.0.0/24, ports: 10-16 }", "");
        assert_eq!((copies.ends(3), copies.ends(7)), (copies.ends(0), copies.ends(1)));
        assert_eq!(copies.different(3), Some(3));
        let all: Vec<u16> = (0..3)
            .flat_map(|turn| {
                let ends = CopiesTurn(turn).ends(&copies);
                [0, 1, 2].map(|number| copies.client_port(&ends, (number, 3)))
            })
            .collect();
        assert_eq!(all, [10, 11, 12, 13, 14, 15, 10, 11, 12]);
    }

    /// The ends of the first client address when all had so many turns.
    struct CopiesTurn(u64);

    impl CopiesTurn {
        fn ends(&self, copies: &Copies) -> crate::program::CopyEnds {
            let all = Copies { tuples: None, ..copies.clone() };
            all.ends(self.0 * 254)
        }
    }

    #[test]
    fn both_sides_of_a_capture_draw_the_same() {
        let [client, server] = both(
            "rate: 1000/s, departures: exponential, clients: { addresses: 10.0.0.0/16, order: random }, servers: { addresses: 10.1.0.0/16, order: random }",
            "",
        );
        assert_eq!(
            client.starts().take(1000).collect::<Vec<_>>(),
            server.starts().take(1000).collect::<Vec<_>>()
        );
        assert!((0..1000).all(|n| tuple(&client, n) == tuple(&server, n)));
        let gaps: std::collections::HashSet<_> = client.starts().take(100).collect();
        assert!(gaps.len() > 90, "they are drawn");
        assert_eq!(client.different(1), None);
    }

    #[test]
    fn starts_follow_the_rate_from_the_start_of_the_flow_to_its_stop() {
        let starts = |copies: &str, more: &str| {
            let [copies, _] = both(copies, more);
            copies.starts().map(Nanos::get).collect::<Vec<_>>()
        };
        let us = |all: &[u64]| all.iter().map(|at| at * 1000).collect::<Vec<_>>();
        assert_eq!(starts("rate: 1000/s", ", start: 5ms, stop: 8ms"), us(&[0, 1000, 2000]));
        assert_eq!(starts("rate: 1000/s, burst: 2, count: 5", ""), us(&[0, 0, 2000, 2000, 4000]));
        assert_eq!(
            starts("rate: 1000/s, multiply: 2x", ", start: 1s, stop: 1001ms"),
            us(&[0, 500])
        );
        assert_eq!(starts("count: 3", ""), [0, 0, 0]);
        assert_eq!(
            starts("rate: { steps: { 0s: 2000/s, 1ms: 500/s }, every: 5ms }", ", stop: 9ms").len(),
            8
        );
        // without an end of its own a flow has that of any other
        assert_eq!(starts("rate: 3/s", "").len(), 30);
    }

    #[test]
    fn starts_may_be_those_of_a_file() {
        let text = "ports: { a: {} }\nflows: { x: { from: a, replay: { capture: a.pcap, copies: { departures: { trace: times.txt }, count: 4 } } } }\n";
        let scenario = Scenario::from_yaml(text, "").unwrap_or_else(|error| panic!("{error}"));
        assert!(Files::named_in(&scenario).contains("times.txt"));
        let place = Files::place_of(&scenario, "times.txt").to_string();
        assert_eq!(place, "flows.x.replay.copies.departures");
        let mut files = Files::default();
        files.insert("times.txt".to_owned(), b"64B 10us\n64B 30us\n".to_vec());
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let program = compile(&scenario, &links, &files).unwrap_or_else(|why| panic!("{why}"));
        let copies = program.flows[0].copies.clone().unwrap();
        let starts: Vec<u64> = copies.starts().map(|at| at.get() / 1000).collect();
        assert_eq!(starts, [0, 10, 40, 50]);
    }

    #[test]
    fn what_starts_cannot_be_is_said_of_its_key() {
        let text = "ports: { a: {} }\nflows: { x: { from: a, replay: { capture: a.pcap, copies: { rate: 1/s, departures: { jitter: 2s } } } } }\n";
        let scenario = Scenario::from_yaml(text, "").unwrap_or_else(|error| panic!("{error}"));
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let error = compile(&scenario, &links, &Files::default()).unwrap_err().to_string();
        assert!(error.starts_with("flows.x.replay.copies.departures: "), "{error}");
    }
}
