//! Flows and sessions in one run: they share ports, begin together, and are looked at and reported as one.

use std::collections::BTreeMap;

use wirebeat_report::model::{End, Report, SessionEnd, Verdict};
use wirebeat_run::{Interval, Observer, Options, Progress, Stop, prepare};
use wirebeat_testbed::{Capability, Options as Cable, Testbed, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::own_sessions::free;
use crate::sessions::{balances, side};
use crate::world::balanced;

#[derive(Default)]
struct Seen {
    looks: Vec<Progress>,
    intervals: Vec<Interval>,
    begun: u32,
}

impl Observer for Seen {
    fn progress(&mut self, progress: &Progress) {
        self.looks.push(*progress);
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
    }

    fn begins(&mut self, _start: Nanos) {
        self.begun += 1;
    }
}

fn options(bed: &Testbed) -> Options {
    let namespaces = BTreeMap::from([
        ("a".to_owned(), bed.a.namespace.clone()),
        ("b".to_owned(), bed.b.namespace.clone()),
    ]);
    Options { namespaces, interval: Some(Nanos::from_millis(500)), ..Options::default() }
}

fn run(bed: &Testbed, sessions: &str, stop: &Stop) -> (Report, Seen) {
    let text = format!(
        "ports:\n  a: {{ interface: wb0, namespace: a, addresses: [\"{a}\"] }}\n  \
         b: {{ interface: wb1, namespace: b, addresses: [\"{b}\"] }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: 1kpps, stop: 2s }}\n\
         sessions:\n{sessions}\nrun: {{ time: 3s }}\n",
        a = bed.a.ipv4,
        b = bed.b.ipv4,
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let prepared = prepare(&scenario, options(bed)).unwrap_or_else(|error| panic!("{error}"));
    let mut seen = Seen::default();
    let report = prepared.start(&mut seen, stop);
    (report, seen)
}

/// The flows end after 2 s, the sessions of the system's TCP and of ours after 3 s.
#[test]
fn flows_and_sessions_of_both_stacks_share_ports_and_a_report() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Cable::default()).unwrap();
    let sessions = format!(
        "  web: {{ from: a, to: b, servers: {{ ports: 80 }}, program: {{ http: {{ size: 10kB }} }}, rate: 50/s, expect: [\"failed == 0\"] }}\n  \
         own: {{ from: a, to: b, stack: own, clients: {{ addresses: {} }}, servers: {{ addresses: {}, ports: 80 }}, \
         program: {{ http: {{ size: 10kB }} }}, rate: 50/s }}",
        free(&bed, 50, 8),
        free(&bed, 100, 1),
    );
    let (report, seen) = run(&bed, &sessions, &Stop::new());
    balanced(&report);
    balances(&report);
    assert_eq!((report.verdict, &report.end), (Verdict::Done, &End::Completed), "{report:#?}");
    let voice = &report.flows[0];
    let arrived = voice.received.as_ref().unwrap().received.frames;
    assert_eq!((voice.sent.as_ref().unwrap().sent.frames, arrived), (2000, 2000), "{report:#?}");
    for group in ["web", "own"] {
        let client = side(&report, group, SessionEnd::Client);
        assert_eq!((client.ends.in_order, client.bytes.verified), (150, 1_500_000), "{group}");
    }
    assert_eq!(report.stacks.len(), 2);
    assert_eq!(report.sessions.iter().flat_map(|group| &group.expectations).count(), 1);
    assert!(report.duration_ns >= 2_900_000_000, "{}", report.duration_ns);
    // nothing says how much of the CPU time is whose
    assert!(report.costs.iter().all(|cost| cost.nanoseconds_per_frame.is_none()));
    let scenario = serde_json::to_value(&report.scenario).unwrap();
    assert_eq!(scenario["flows"].as_object().unwrap().len(), 1);
    assert_eq!(scenario["sessions"].as_object().unwrap().len(), 2);

    // as one run: one begin, intervals in order with both in them, one last look
    assert_eq!(seen.begun, 1);
    let ends: Vec<u64> = seen.intervals.iter().map(|interval| interval.to_ns).collect();
    assert!(ends.is_sorted_by(|a, b| a < b), "{ends:?}");
    let both = |interval: &&Interval| !interval.flows.is_empty() && !interval.sessions.is_empty();
    assert!(seen.intervals.iter().filter(both).count() >= 3, "{:#?}", seen.intervals);
    assert_eq!(seen.looks.iter().filter(|look| look.ended).count(), 1);
    let last = seen.looks.last().unwrap();
    assert!(last.ended);
    assert_eq!((last.sent.unwrap().0, last.sessions.unwrap().ended), (2000, 300), "{last:?}");
}

/// One stop ends both.
#[test]
fn a_stop_ends_flows_and_sessions() {
    require!(Capability::NetworkNamespaces);

    /// Stops the run once both have done something.
    struct Stopping<'a>(&'a Stop);

    impl Observer for Stopping<'_> {
        fn progress(&mut self, progress: &Progress) {
            let some = progress.sessions.is_some_and(|sessions| sessions.ended > 0);
            if some && progress.sent.is_some_and(|(frames, _)| frames > 0) {
                self.0.ask(2);
            }
        }
    }

    let bed = Testbed::pair(&Cable::default()).unwrap();
    let text = format!(
        "ports:\n  a: {{ interface: wb0, namespace: a, addresses: [\"{}\"] }}\n  b: {{ interface: wb1, namespace: b, addresses: [\"{}\"] }}\n\
         flows:\n  voice: {{ from: a, to: b, rate: 1kpps }}\n\
         sessions:\n  web: {{ from: a, to: b, servers: {{ ports: 80 }}, program: http, rate: 50/s }}\n\
         run: {{ time: 300s }}\n",
        bed.a.ipv4, bed.b.ipv4
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let stop = Stop::new();
    let prepared = prepare(&scenario, options(&bed)).unwrap();
    let report = prepared.start(&mut Stopping(&stop), &stop);
    balanced(&report);
    balances(&report);
    assert_eq!(report.end, End::Stopped { signal: "SIGINT".to_owned() });
    assert_eq!(report.verdict, Verdict::Done);
    assert!(report.duration_ns < 200_000_000_000);
    assert!(side(&report, "web", SessionEnd::Client).starts.opened > 0);
}

#[test]
fn what_flows_and_sessions_cannot_share_is_refused() {
    let refused = |ports: &str| {
        let text = format!(
            "ports: {{ {ports} }}\nflows: {{ voice: {{ from: a, to: b, rate: 1kpps }} }}\n\
             sessions: {{ web: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.0.1.1 }}, \
             servers: {{ addresses: 10.0.2.1, ports: 80 }}, program: http, rate: 5/s }} }}\nrun: {{ time: 1s }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap();
        prepare(&scenario, Options::default()).map(drop).unwrap_err().to_string()
    };
    let in_memory = refused("a: { engine: loopback }, b: { engine: loopback }");
    assert!(in_memory.contains("cannot share a run on a virtual clock"), "{in_memory}");
    let one_program = refused("a: { engine: kernel, interface: lo }, b: { interface: lo }");
    assert!(one_program.contains("one XDP program"), "{one_program}");
}
