//! What can be seen of a run while it goes on: how much was sent, received and lost by now. A router loses what has no
//! hop left, so that exactly every tenth frame of a flow never arrives.

use std::collections::BTreeMap;

use wirebeat_run::{Observer, Options, Progress, Stop, prepare};
use wirebeat_testbed::{
    Capability, Neighbours, Offload, Offloads, Options as Cable, Testbed, require,
};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::world::{Engine, balanced, ports};

/// A router between two ends that know it.
fn router() -> Testbed {
    // GRO makes a veth take frames from the kernel engine without a receiver of its own
    let offloads = Offloads { gro: Offload::On, ..Offloads::default() };
    let neighbours = Neighbours::Fixed;
    Testbed::router(&Cable { neighbours, offloads, ..Cable::default() }).unwrap()
}

#[derive(Default)]
struct Looks(Vec<Progress>);

impl Observer for Looks {
    fn progress(&mut self, progress: &Progress) {
        self.0.push(*progress);
    }
}

/// Loss was what was missing of all that had been sent by the last look: less than what had arrived since, so that a run
/// of 2 s in which every tenth frame was lost showed none.
fn loss_is_seen_when_it_happens(engine: Engine) {
    let bed = router();
    let to = bed.b.ipv4;
    let flow =
        |ttl: &str| format!("[ {{ ipv4: {{ destination: {to}, ttl: {ttl} }} }}, {{ udp: {{}} }} ]");
    let text = format!(
        "{}flows:\n  good: {{ from: a, to: b, rate: 2kpps, packet: {} }}\n  \
         bad: {{ from: a, to: b, rate: 2kpps, stop: 1s, packet: {} }}\n\
         run: {{ time: 3s }}\n",
        ports(engine, ""),
        flow("64"),
        flow("{ list: [64, 64, 64, 64, 1, 64, 64, 64, 64, 64] }"),
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let namespaces = BTreeMap::from([
        ("a".to_owned(), bed.a.namespace.clone()),
        ("b".to_owned(), bed.b.namespace.clone()),
    ]);
    let interval = Nanos::from_millis(100);
    let options = Options { namespaces, interval: Some(interval), ..Options::default() };
    let mut looks = Looks::default();
    let report = prepare(&scenario, options).unwrap().start(&mut looks, &Stop::new());
    balanced(&report);
    let lost = |name: &str| {
        let flow = report.flows.iter().find(|flow| flow.name == name).unwrap();
        flow.loss.as_ref().unwrap().frames
    };
    assert_eq!((lost("good"), lost("bad")), (0, 200));
    let looks = looks.0;
    let seen: Vec<_> =
        looks.iter().map(|look| (look.elapsed.get() / 1_000_000, look.lost)).collect();
    // while it happens: half of the second would be 100
    let half = looks.iter().find(|look| look.elapsed >= Nanos::from_millis(600)).unwrap();
    assert!(half.lost.unwrap() >= 50, "{seen:?}");
    // and no more once it is over
    let over: Vec<_> = looks.iter().filter(|look| look.elapsed >= Nanos::from_secs(2)).collect();
    assert!(over.len() > 2 && over.iter().all(|look| look.lost == Some(200)), "{seen:?}");
    assert!(looks.iter().rev().skip(1).all(|look| !look.ended), "{seen:?}");
    assert!(looks.last().unwrap().ended, "{seen:?}");
}

#[test]
fn loss_is_seen_when_it_happens_by_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    loss_is_seen_when_it_happens(Engine::Kernel);
}

#[test]
fn loss_is_seen_when_it_happens_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    loss_is_seen_when_it_happens(Engine::Packet);
}

/// All frames of a flow are lost, and nothing of it arrives that could tell.
#[test]
fn a_flow_of_which_nothing_arrives_is_lost_while_it_is_sent() {
    require!(Capability::NetworkNamespaces);
    let bed = router();
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b, rate: 1kpps, count: 3000, packet: [ {{ ipv4: {{ destination: {}, \
         ttl: 1 }} }}, {{ udp: {{}} }} ] }}\n",
        ports(Engine::Packet, ""),
        bed.b.ipv4,
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let namespaces = BTreeMap::from([
        ("a".to_owned(), bed.a.namespace.clone()),
        ("b".to_owned(), bed.b.namespace.clone()),
    ]);
    let options = Options { namespaces, ..Options::default() };
    let mut looks = Looks::default();
    prepare(&scenario, options).unwrap().start(&mut looks, &Stop::new());
    let lost: Vec<u64> = looks.0.iter().map(|look| look.lost.unwrap()).collect();
    assert_eq!(lost.last(), Some(&3000), "{lost:?}");
    // what was sent by a second before the end is lost by the look before the last, or that before it
    assert!(lost.iter().rev().nth(2).is_some_and(|lost| *lost > 500), "{lost:?}");
}
