//! Several receive queues of a port, with a thread each: what they measure together.

use wirebeat_report::model::{End, Report};
use wirebeat_run::receive::ReceiveRequest;
use wirebeat_run::{Silent, Stop, receive};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{EngineChoice, Scenario};

use crate::two_hosts;
use crate::world::{balanced, cable, run, tried};

/// One flow of 50 source ports, which a hash divides among four queues.
fn spread(bed: &Testbed, receiver: &str) -> Report {
    let scenario = format!(
        "ports:
  a: {{ interface: wb0, namespace: a, engine: packet }}
  b: {{ interface: wb1, namespace: b, engine: packet{receiver} }}
flows:
  f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }},
         {{ udp: {{ source: {{ increment: 2000, count: 50 }}, destination: 9001 }} }} ],
       size: 100B, rate: 4kpps, count: 4000 }}
run: {{ interval: 100ms }}
"
    );
    run(&scenario, Some(bed))
}

#[test]
fn a_flow_over_four_queues_has_the_counters_of_one_queue() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let (one, four) = (spread(&bed, ""), spread(&bed, ", receive-queues: 4"));
    for report in [&one, &four] {
        // and the intervals add up
        balanced(report);
        let received = report.flows[0].received.as_ref().unwrap();
        assert_eq!((received.received.frames, received.unique), (4000, 4000));
        assert_eq!((received.duplicates, received.reordered, received.implausible), (0, 0, 0));
        assert_eq!(report.flows[0].loss.as_ref().unwrap().frames, 0);
        assert_eq!(received.one_way_delay_ns.as_ref().unwrap().count, 4000);
    }
    let gaps = |report: &Report| {
        let received = report.flows[0].received.as_ref().unwrap();
        (received.measured_within_queues, received.inter_arrival_ns.count)
    };
    assert_eq!(gaps(&one).1, 3999);
    let (within, count) = gaps(&four);
    assert!((3996..3999).contains(&count), "{within:?} {count}");
    assert_eq!(u64::from(within.unwrap()), 4000 - count);
    let station = |report: &Report| {
        let station = report.receivers.first().unwrap();
        (station.mode.clone(), station.threads.len())
    };
    assert_eq!(station(&one).1, 1);
    assert_eq!(station(&four).1, 4);
    assert!(station(&four).0.contains("4 queues"), "{}", station(&four).0);
}

/// Loss of every interval was garbage where a flow was divided, if each queue saw gaps where the others had frames.
#[test]
fn intervals_of_a_divided_flow_see_no_loss_between_its_queues() {
    require!(Capability::NetworkNamespaces);
    let report = spread(&cable(), ", receive-queues: 3");
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    assert!(report.intervals.len() > 5, "{}", report.intervals.len());
    // a frame that the system is late with may count as lost for a moment
    let lost = report.intervals.iter().map(|one| one.total.lost.unwrap().unsigned_abs());
    assert!(lost.sum::<u64>() < 400, "{:#?}", report.intervals);
}

#[test]
fn engines_with_one_queue_refuse_several() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let refused = |engine: &str, queues: u16| {
        let scenario = format!(
            "ports: {{ a: {{ interface: wb0, namespace: a, engine: packet }},
  b: {{ interface: wb1, namespace: b, engine: {engine}, receive-queues: {queues} }} }}
flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 10 }} }}\n"
        );
        Scenario::from_yaml(&scenario, "test")
            .map(|_| tried(&scenario, Some(&bed)).is_ok())
            .map_err(|error| error.to_string())
    };
    let why = refused("socket", 2).unwrap_err();
    assert!(why.contains("'socket' receives by one queue") && why.contains("'packet'"), "{why}");
    assert!(refused("packet", 33).unwrap_err().contains("32 queues at the most"));
    assert_eq!(refused("packet", 2), Ok(true));
    assert!(refused("kernel", 2).is_err());
}

#[test]
fn a_receiver_by_itself_says_what_does_not_go_with_several_queues() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let engine = EngineChoice::Packet;
    let refused = |change: fn(&mut ReceiveRequest)| {
        let mut request = two_hosts::request(&bed, engine);
        (request.listen, request.queues) = (None, 2);
        change(&mut request);
        let received =
            bed.b.namespace.run(|| receive(&request, &mut Silent, &Stop::new())).unwrap();
        received.map(|_| ()).unwrap_err().to_string()
    };
    let counted = refused(|request| request.count = Some(10));
    assert!(counted.contains("--count goes with one queue"), "{counted}");
    let socket = refused(|request| {
        request.engine = EngineChoice::Socket;
        request.filter.destination_port = Some(9);
    });
    assert!(socket.contains("receives by one queue") && socket.contains("'packet'"), "{socket}");
    let many = refused(|request| request.queues = 33);
    assert!(many.contains("32 queues at the most"), "{many}");
}
