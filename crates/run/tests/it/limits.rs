//! What a receiver does with more than it was told to measure, or with what several senders number alike.

use std::collections::BTreeMap;
use std::thread;

use wirebeat_meter::filter::Filter;
use wirebeat_report::model::{FindingKind, Report};
use wirebeat_run::{Bins, Options, ReceiveRequest, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{EngineChoice, Scenario};
use wirebeat_units::Nanos;

use crate::interop::{received, receiver, while_receiving};
use crate::world::{Engine, balanced, cable};

/// A receiver at the far end, by `engine`.
fn far(bed: &Testbed, engine: Engine, flows: u16) -> ReceiveRequest {
    let choice = match engine {
        Engine::Kernel => EngineChoice::Kernel,
        Engine::Socket => EngineChoice::Socket,
        _ => EngineChoice::Packet,
    };
    ReceiveRequest {
        engine: choice,
        flows,
        filter: Filter { destination_port: Some(9), ..Filter::default() },
        codecs: Vec::new(),
        pass: false,
        ..receiver(bed, wirebeat_run::Codec::Wirebeat, None)
    }
}

/// Sends the flows of a scenario from the near end to nobody in particular.
fn send(bed: &Testbed, flows: &str) -> Report {
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: packet }} }}\nflows:\n{flows}"
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let namespaces = BTreeMap::from([("a".to_owned(), bed.a.namespace.clone())]);
    let options = Options { namespaces, ..Options::default() };
    let prepared = prepare(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    let report = prepared.start(&mut Silent, &Stop::new());
    balanced(&report);
    report
}

/// A flow of `count` datagrams to the far end, from a port.
fn flow(bed: &Testbed, name: &str, port: u16, count: u64) -> String {
    format!(
        "  {name}: {{ from: a, rate: 1kpps, count: {count}, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{ \
         source: {port}, destination: 9 }} }} ] }}\n",
        bed.b.ipv4
    )
}

/// Two senders with flow 0 each were 500 duplicates without a word.
fn two_senders_with_one_number_are_told(engine: Engine) {
    let bed = cable();
    let request = far(&bed, engine, 16);
    let (_, report) = while_receiving(&request, || {
        thread::scope(|scope| {
            let of = |port| flow(&bed, "x", port, 500);
            let senders = [1000, 2000].map(|port| {
                scope.spawn({
                    let bed = &bed;
                    move || send(bed, &of(port))
                })
            });
            senders.into_iter().for_each(|sender| {
                assert_eq!(sender.join().unwrap().total.sent.unwrap().sent.frames, 500)
            });
        });
        ((), 1000)
    });
    let flow = received(&report, 0);
    assert_eq!((flow.received.frames, flow.unique, flow.duplicates), (1000, 500, 500));
    // those of whichever sender was behind, at each moment
    assert!(flow.conflicting > 250, "{}", flow.conflicting);
    let finding = report.findings.iter().find(|one| one.kind == FindingKind::FlowNumberShared);
    let message = &finding.unwrap_or_else(|| panic!("{:#?}", report.findings)).message;
    assert!(message.contains("500 duplicates") && message.contains("--source"), "{message}");
}

#[test]
fn two_senders_with_one_number_are_told_by_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    two_senders_with_one_number_are_told(Engine::Kernel);
}

#[test]
fn two_senders_with_one_number_are_told_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    two_senders_with_one_number_are_told(Engine::Packet);
}

/// Flows beyond the limit were unknown ones, and nothing said what to do.
fn flows_beyond_the_limit_are_counted_and_the_flag_is_named(engine: Engine) {
    let bed = cable();
    let request = far(&bed, engine, 2);
    let flows: String =
        (0..4).map(|number| flow(&bed, &format!("f{number}"), 1000 + number, 50)).collect();
    let (_, report) = while_receiving(&request, || {
        send(&bed, &flows);
        ((), 100)
    });
    assert_eq!(report.flows.len(), 2);
    let found = |report: &Report| {
        let named = report.findings.iter().find(|one| one.message.contains("--flows"));
        named.map(|one| one.message.clone())
    };
    let message = found(&report).unwrap_or_else(|| panic!("{:#?}", report.findings));
    assert!(message.starts_with("2 flows were measured"), "{message}");
    // how far the flag goes
    let most = if engine == Engine::Kernel { "memory" } else { "65,535" };
    assert!(message.contains("100 frames of other flows") && message.contains(most), "{message}");
    // and no word where there is room for all
    let request = far(&bed, engine, u16::MAX);
    let (_, report) = while_receiving(&request, || {
        send(&bed, &flows);
        ((), 200)
    });
    assert_eq!((report.flows.len(), found(&report)), (4, None));
}

#[test]
fn flows_beyond_the_limit_are_counted_and_the_flag_is_named_by_the_kernel_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    flows_beyond_the_limit_are_counted_and_the_flag_is_named(Engine::Kernel);
}

#[test]
fn flows_beyond_the_limit_are_counted_and_the_flag_is_named_by_the_packet_engine() {
    require!(Capability::NetworkNamespaces);
    flows_beyond_the_limit_are_counted_and_the_flag_is_named(Engine::Packet);
}

#[test]
fn flows_beyond_the_limit_are_counted_and_the_flag_is_named_by_the_socket_engine() {
    require!(Capability::NetworkNamespaces);
    flows_beyond_the_limit_are_counted_and_the_flag_is_named(Engine::Socket);
}

/// `--bins` did nothing, and said nothing, in a run that only sends.
#[test]
fn bins_are_counted_where_frames_are_received_and_refused_elsewhere() {
    let tried = |to: &str| {
        let text = format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\nflows:\n  x: {{ from: a{to}, rate: 10kpps, \
             count: 1000, packet: [ {{ ipv4: {{ source: 10.0.0.1, destination: 10.0.0.2 }} }}, {{ udp: {{}} }} ] }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        let bins = Bins::new(Nanos::from_micros(1), 200).ok();
        prepare(&scenario, Options { bins, ..Options::default() })
    };
    let refused = tried("").err().unwrap();
    assert_eq!(refused.exit_code(), 2);
    assert!(refused.to_string().contains("nothing is received here"), "{refused}");
    let report = tried(", to: b").unwrap().start(&mut Silent, &Stop::new());
    let received = report.flows[0].received.as_ref().unwrap();
    let bins = received.inter_arrival_bins.as_ref().unwrap();
    let counted = bins.counts.iter().sum::<u64>() + bins.overflow;
    assert_eq!((bins.counts.len(), counted), (200, 999));
}
