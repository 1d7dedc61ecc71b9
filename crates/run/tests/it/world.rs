//! Testbeds and scenarios for the tests of this binary.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wirebeat_report::model::Report;
use wirebeat_run::{Observer, Options, Prepared, Progress, RunError, Silent, Stop, prepare};
use wirebeat_testbed::{Neighbours, Options as Cable, Testbed, has_cards, is_emulated};
use wirebeat_traffic::scenario::Scenario;

/// An engine under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Loopback,
    Kernel,
    Packet,
    /// The same with two receive queues.
    PacketQueues,
    Socket,
    Xdp,
    /// The same, and the stack runs the program.
    XdpGeneric,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Loopback => "loopback",
            Engine::Kernel => "kernel",
            Engine::Packet | Engine::PacketQueues => "packet",
            Engine::Socket => "socket",
            Engine::Xdp | Engine::XdpGeneric => "xdp",
        }
    }
}

/// Two ends of a cable, with addresses that know each other.
pub fn cable() -> Testbed {
    Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap()
}

/// The same with this number of transmit and receive queues at each end.
pub fn cable_with_queues(queues: u32) -> Testbed {
    Testbed::pair(&Cable { queues, neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap()
}

/// The `ports` part of a scenario for `engine`, with `more` keys for the sending one.
pub fn ports(engine: Engine, more: &str) -> String {
    let name = engine.name();
    match engine {
        Engine::Loopback => {
            format!("ports: {{ a: {{ engine: {name}{more} }}, b: {{ engine: {name} }} }}\n")
        }
        _ => {
            // an emulated card is slower than what some tests ask for, and that is what they want to see
            let speed = if has_cards() { ", speed: 400Gbps" } else { "" };
            let two = engine == Engine::PacketQueues;
            let queues = match engine {
                Engine::XdpGeneric => ", xdp-mode: generic",
                _ if two => ", receive-queues: 2",
                _ => "",
            };
            format!(
                "ports:\n  a: {{ interface: wb0, namespace: a, engine: {name}{speed}{queues}{more} }}\n  \
                 b: {{ interface: wb1, namespace: b, engine: {name}{speed}{queues} }}\n"
            )
        }
    }
}

/// Prepares a scenario on `bed`.
pub fn prepared(text: &str, bed: Option<&Testbed>) -> Prepared {
    tried(text, bed).unwrap_or_else(|error| panic!("{error}"))
}

/// Prepares a scenario on `bed` that may be refused.
pub fn tried(text: &str, bed: Option<&Testbed>) -> Result<Prepared, RunError> {
    // an emulated machine loses frames at rates that a real one does not notice: a tenth, and ten times as long
    let slower = if is_emulated() { text.replace("kpps", "00pps") } else { text.to_owned() };
    let scenario = Scenario::from_yaml(&slower, "test").unwrap_or_else(|error| panic!("{error}"));
    let mut namespaces = BTreeMap::new();
    if let Some(bed) = bed {
        namespaces.insert("a".to_owned(), bed.a.namespace.clone());
        namespaces.insert("b".to_owned(), bed.b.namespace.clone());
    }
    let options = Options { namespaces, ..Options::default() };
    prepare(&scenario, options)
}

/// Runs a scenario to its end.
pub fn run(text: &str, bed: Option<&Testbed>) -> Report {
    prepared(text, bed).start(&mut Silent, &Stop::new())
}

/// That the counters are consistent, with the whole report if they do not.
pub fn balanced(report: &Report) {
    assert!(
        report.consistency_checks.iter().all(|book| book.balances()),
        "{:#?}",
        report.consistency_checks
    );
    assert!(!report.consistency_checks.is_empty());
    crate::intervals::add_up(report);
}

/// Remembers what it is told.
#[derive(Debug, Default)]
pub struct Notices(pub Vec<String>);

impl Observer for Notices {
    fn progress(&mut self, _progress: &Progress) {}

    fn notice(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }
}

/// Where files of tests go: an emulated guest does not have the folder of the build.
pub fn scratch_folder() -> PathBuf {
    let of_build = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    if of_build.is_dir() { of_build } else { std::env::temp_dir() }
}
