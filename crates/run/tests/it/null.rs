//! The engine `null`: a whole run without input and output.

use wirebeat_report::model::End;
use wirebeat_run::{Silent, Stop, receive};
use wirebeat_traffic::scenario::EngineChoice;

use crate::interop::request;
use crate::world::{balanced, run, tried};

const UDP: &str =
    "[ { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: { destination: 9 } } ]";

/// A scenario of one port, with these flows.
fn scenario(flows: &[(&str, &str)]) -> String {
    let mut text = "ports: { a: { engine: 'null', mtu: 1500B } }\nflows:\n".to_owned();
    for (name, keys) in flows {
        text += &format!("  {name}: {{ from: a, packet: {UDP}, {keys} }}\n");
    }
    text
}

#[test]
fn every_frame_is_made_counted_and_dropped_and_the_books_balance() {
    let paced = [
        ("constant", "size: 64B, rate: 20kpps, count: 2000"),
        (
            "drawn",
            "size: { mix: { 64B: 1, 1518B: 1 } }, rate: 10kpps, departures: exponential, count: 1000",
        ),
        ("fragments", "size: 4000B, rate: 1kpps, count: 100"),
    ];
    let report = run(&scenario(&paced), None);
    assert_eq!(report.end, End::Completed);
    balanced(&report);
    for (flow, count) in report.flows.iter().zip([2000, 1000, 100]) {
        let sent = flow.sent.as_ref().unwrap();
        assert_eq!((sent.requested.frames, sent.sent.frames), (count, count), "{flow:#?}");
        assert_eq!(sent.send_lateness_ns.count, count);
        assert!(sent.send_lateness_ns.min.unwrap() >= 0, "{flow:#?}");
        assert!(flow.received.is_none(), "{flow:#?}");
    }
    let bytes = &report.flows[0].sent.as_ref().unwrap().sent;
    assert_eq!(bytes.frame_bytes, 2000 * 64);
    assert_eq!(report.senders[0].engine, "null");
}

#[test]
fn flat_out_sends_exactly_the_count_from_several_threads() {
    let text = scenario(&[("flood", "size: 64B, count: 300000")]);
    for queues in ["", ", queues: 2"] {
        let text = text.replace("engine: 'null',", &format!("engine: 'null'{queues},"));
        let report = run(&text, None);
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap();
        assert_eq!((sent.requested.frames, sent.sent.frames), (300_000, 300_000), "{queues}");
    }
}

#[test]
fn nothing_is_received_from_it_or_by_it() {
    let to = |ports: &str| {
        let text = format!(
            "ports: {{ {ports} }}\nflows:\n  x: {{ from: a, to: b, packet: {UDP}, rate: 1kpps, count: 1 }}\n"
        );
        match tried(&text, None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it was prepared"),
        }
    };
    let receiver = to("a: { engine: socket, addresses: [127.0.0.1] }, b: { engine: 'null' }");
    assert!(
        receiver.contains("port 'b' of the engine 'null', which receives nothing"),
        "{receiver}"
    );
    let sender = to("a: { engine: 'null' }, b: { engine: socket, addresses: [127.0.0.1] }");
    assert!(
        sender.contains("nothing arrives that port 'a' of the engine 'null' sends"),
        "{sender}"
    );
    for hint in [receiver, sender] {
        assert!(hint.contains("leave 'to' out"), "{hint}");
    }

    let asked = request(EngineChoice::Null);
    let error = receive(&asked, &mut Silent, &Stop::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the engine 'null' has no network to receive from; use the engine 'kernel', 'packet', 'socket' or 'xdp'"
    );
    assert_eq!(error.exit_code(), 2);
}
