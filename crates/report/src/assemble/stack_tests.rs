//! What a report makes of our own TCP.

use super::tests::{facts, kinds};
use super::*;
use crate::document::Document;
use crate::format::{Presentable, Rendering};
use crate::model::{
    FindingKind, SessionReport, StackCable, StackDatagrams, StackReport, StackSegments, StackState,
};

/// What a thread counted on a port, with another number of each kind.
fn stack(port: &str) -> StackReport {
    let segments = StackSegments {
        all: 8_190,
        new_data: 4_096,
        retransmitted_timeout: 1,
        retransmitted_fast: 2,
        retransmitted_tail: 4,
        retransmitted_too_big: 8,
        retransmitted_syn: 16,
        syn: 32,
        syn_ack: 64,
        fin: 128,
        rst: 256,
        ack: 512,
        probe: 3_071,
    };
    StackReport { port: port.to_owned(), segments, ..StackReport::default() }
}

fn state(state: &str, sessions: u64) -> StackState {
    StackState { state: state.to_owned(), sessions }
}

fn run(stacks: impl Into<Vec<StackReport>>) -> Report {
    assemble(RunFacts { stacks: stacks.into(), ..facts() }, None, None)
}

type Change = fn(&mut StackSegments);

fn message(report: &Report, kind: FindingKind) -> &str {
    report.findings.iter().find(|finding| finding.kind == kind).map_or("", |found| &found.message)
}

#[test]
fn segments_sent_are_the_sum_of_their_kinds() {
    let report = run([stack("a")]);
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
    let check = report.consistency_checks.last().unwrap();
    assert_eq!((check.scope.as_str(), check.left.name.as_str()), ("own TCP on a", "segments sent"));
    assert_eq!((check.left.value, check.right.len(), check.difference), (8_190, 12, 0));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Each kind counts: one segment more of it, and the sum is wrong.
#[test]
fn a_wrong_sum_of_segments_makes_counters_inconsistent() {
    let changes: [(Change, i64); 13] = [
        (|of| of.all += 3, 3),
        (|of| of.new_data += 1, -1),
        (|of| of.retransmitted_timeout += 1, -1),
        (|of| of.retransmitted_fast += 1, -1),
        (|of| of.retransmitted_tail += 1, -1),
        (|of| of.retransmitted_too_big += 1, -1),
        (|of| of.retransmitted_syn += 1, -1),
        (|of| of.syn += 1, -1),
        (|of| of.syn_ack += 1, -1),
        (|of| of.fin += 1, -1),
        (|of| of.rst += 1, -1),
        (|of| of.ack += 1, -1),
        (|of| of.probe += 1, -1),
    ];
    for (change, difference) in changes {
        let mut wrong = stack("a");
        change(&mut wrong.segments);
        let report = run([stack("b"), wrong]);
        assert_eq!((report.verdict, report.exit_code), (Verdict::CountersInconsistent, 1));
        let off: Vec<_> = report.consistency_checks.iter().filter(|of| !of.balances()).collect();
        assert_eq!((off.len(), off[0].scope.as_str()), (1, "own TCP on a"));
        assert_eq!(off[0].difference, difference);
        let told = message(&report, FindingKind::CountersInconsistent);
        assert!(told.contains("(own TCP on a): segments were counted twice"), "{told}");
    }
}

/// The largest numbers neither overflow nor balance by overflow.
#[test]
fn sums_of_the_largest_numbers_are_wrong_and_do_not_panic() {
    let mut most = stack("a");
    let all = u64::MAX;
    most.segments = StackSegments { all, new_data: all, ack: all, ..StackSegments::default() };
    most.link.receive_drops = all;
    most.states = vec![state("ESTABLISHED", all)];
    let report = run([most.clone(), most]);
    assert_eq!(report.verdict, Verdict::CountersInconsistent);
    assert_eq!(report.stacks[0].states[0].sessions, all);
    assert!(!report.text(Rendering { details: true, ..Rendering::default() }).is_empty());
}

#[test]
fn threads_of_a_port_are_added_and_others_are_not() {
    let mut first = stack("a");
    first.states = vec![state("ESTABLISHED", 3), state("TIME-WAIT", 0)];
    first.arrivals.paws = 5;
    let mut second = first.clone();
    second.states = vec![state("TIME-WAIT", 7), state("ESTABLISHED", 1)];
    second.link.unresolved = 9;
    let other = StackReport { receive_mode: "AF_XDP, copy".to_owned(), ..stack("a") };
    let report = run([first, stack("b"), second, other]);
    let [a, b, other] = &report.stacks[..] else { panic!("{:?}", report.stacks) };
    assert_eq!((a.segments.all, b.segments.all, other.segments.all), (16_380, 8_190, 8_190));
    assert_eq!((a.segments.probe, a.arrivals.paws, a.link.unresolved), (6_142, 10, 9));
    let states: Vec<_> = a.states.iter().map(|of| (of.state.as_str(), of.sessions)).collect();
    assert_eq!(states, [("ESTABLISHED", 4), ("TIME-WAIT", 7)]);
    assert!(report.consistency_checks.iter().all(|check| check.balances()));
}

#[test]
fn frames_lost_before_tcp_and_wrong_checksums_are_findings() {
    let lossy = |port: &str, frames, segments| {
        let mut facts = stack(port);
        facts.link.receive_drops = frames;
        facts.arrivals.bad_checksum = segments;
        facts
    };
    let report = run([lossy("a", 0, 0), lossy("b", 1_204, 0)]);
    assert_eq!((kinds(&report), report.exit_code), (vec![FindingKind::ReceiverDrops], 0));
    let told = message(&report, FindingKind::ReceiverDrops);
    let expected = "the tester lost 1,204 frames before its TCP saw them (port 'b'): ";
    assert!(told.starts_with(expected), "{told}");

    let report = run([lossy("a", 1, 0), lossy("b", 0, 1)]);
    assert_eq!(kinds(&report), [FindingKind::ReceiverDrops, FindingKind::ChecksumsWrong]);
    let told = message(&report, FindingKind::ReceiverDrops);
    assert!(
        told.starts_with("the tester lost 1 frame before its TCP saw it (port 'a'): "),
        "{told}"
    );
    let told = message(&report, FindingKind::ChecksumsWrong);
    let expected = "1 packet with a wrong checksum came in and was dropped (port 'b'): ";
    assert!(told.starts_with(expected), "{told}");

    let many: Vec<_> = (1..=5).map(|port| lossy(&format!("p{port}"), 0, port)).collect();
    let told = run(many);
    let told = message(&told, FindingKind::ChecksumsWrong);
    let ports = "15 packets with a wrong checksum came in and were dropped (port 'p1': 1, port 'p2': 2, port 'p3': 3, and 2 more)";
    assert!(told.starts_with(ports), "{told}");
}

#[test]
fn syns_without_room_are_a_finding() {
    let full = |port: &str, syns, half_open| {
        let mut facts = stack(port);
        facts.arrivals.syn_dropped = syns;
        facts.sessions.half_open_dropped = half_open;
        facts
    };
    let report = run([full("a", 0, 0), full("b", 1_200, 34)]);
    assert_eq!((kinds(&report), report.exit_code), (vec![FindingKind::SynsDropped], 0));
    let told = message(&report, FindingKind::SynsDropped);
    let expected =
        "1,234 SYNs of peers found no room in our own TCP (port 'b'), which left them unanswered: ";
    assert!(told.starts_with(expected), "{told}");
    assert!(kinds(&run([full("a", 0, 0)])).is_empty());
}

#[test]
fn what_a_cable_in_memory_drops_is_a_finding_and_what_it_is_to_lose_is_none() {
    let over = |port: &str, lost, dropped| StackReport {
        cable: Some(StackCable { lost, dropped }),
        datagrams: Some(StackDatagrams::default()),
        ..stack(port)
    };
    assert!(kinds(&run([over("a", 9, 0)])).is_empty());
    let of_tcp = StackReport { datagrams: None, ..over("b", 0, 1_234) };
    assert!(kinds(&run([of_tcp.clone()])).is_empty());
    let mut timed_out = SessionReport::default();
    timed_out.ends.timed_out = 3;
    let told = stacks::findings(&[of_tcp], &[timed_out]);
    assert!(
        told[0].message.contains("(port 'b'): sessions over TCP timed out by that"),
        "{told:?}"
    );
    let report = run([over("a", 9, 0), over("b", 0, 1_234)]);
    assert_eq!((kinds(&report), report.exit_code), (vec![FindingKind::CableQueueFull], 0));
    let told = message(&report, FindingKind::CableQueueFull);
    let expected =
        "the cable in memory dropped 1,234 frames because its queue was full (port 'b'): ";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn a_run_without_our_own_tcp_does_not_speak_of_it() {
    let report = run([]);
    let json = report.json(Rendering::default());
    assert!(!json.contains("\"stacks\"") && !report.text(Rendering::default()).contains("own TCP"));
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report)));
}

/// What is zero says nothing, but that nothing was sent again.
#[test]
fn text_says_that_nothing_was_sent_again_and_leaves_other_zeros_out() {
    let mut quiet = StackReport { port: "a".to_owned(), ..StackReport::default() };
    quiet.segments = StackSegments { all: 7, new_data: 7, ..StackSegments::default() };
    quiet.states = vec![state("CLOSED", 0)];
    let text = run([quiet.clone()]).text(Rendering::default());
    let (_, part) = text.split_once("own TCP on a\n").unwrap();
    let part: Vec<&str> = part.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(
        part,
        [
            "  segments sent         packets received",
            "  all               7   all            0",
            "  new data          7",
            "  retransmitted  none",
        ]
    );
    quiet.segments = StackSegments::default();
    let text = run([quiet]).text(Rendering::default());
    assert!(!text.contains("retransmitted"), "{text}");
}

#[test]
fn of_many_ports_the_first_are_shown_and_wrong_sums_are_kept() {
    let mut stacks: Vec<_> = (0..150).map(|port| stack(&format!("p{port}."))).collect();
    stacks[140].segments.all += 1;
    let report = run(stacks);
    assert_eq!(report.stacks.len(), 150);
    let scopes: Vec<&str> =
        report.consistency_checks.iter().map(|check| check.scope.as_str()).collect();
    assert_eq!(scopes, ["own TCP on p140."]);
    let text = report.text(Rendering::default());
    assert!(text.contains("\nown TCP on p7.\n") && !text.contains("\nown TCP on p8.\n"), "{text}");
    assert!(text.contains("142 more ports with our own TCP: in the JSON form"), "{text}");
}

/// Names and modes come from users.
#[test]
fn names_of_ports_and_states_do_not_reach_the_terminal() {
    let mut facts = stack("a\x1b[2J");
    facts.transmit_mode = "m\x1b[31m".to_owned();
    facts.states = vec![state("S\x1b[31m", 1)];
    facts.arrivals.bad_checksum = 1;
    let text = run([facts]).text(Rendering { details: true, ..Rendering::default() });
    assert!(text.contains("own TCP on a") && !text.contains('\x1b'), "{text:?}");
}

/// Every counter of the facts is a number of its own in the report.
#[test]
fn every_counter_comes_through() {
    let report = run([every_counter("a")]);
    let json = serde_json::to_value(&report.stacks[0]).unwrap();
    let mut found: Vec<u64> = Vec::new();
    for part in ["segments", "arrivals", "bytes", "recoveries", "sessions", "link"] {
        found.extend(json[part].as_object().unwrap().values().filter_map(|of| of.as_u64()));
    }
    found.sort_unstable();
    assert_eq!(found, (1..=48).collect::<Vec<u64>>());
    assert_eq!(serde_json::from_value::<StackReport>(json).unwrap(), report.stacks[0]);
}

/// Facts whose 48 counters are 1, 2, 3 and so on.
fn every_counter(port: &str) -> StackReport {
    let mut next = 0u64..;
    let mut number = |value: &mut serde_json::Value| {
        for counter in value.as_object_mut().unwrap().values_mut() {
            *counter = (next.next().unwrap() + 1).into();
        }
    };
    macro_rules! filled {
        ($of:expr) => {{
            let mut value = serde_json::to_value($of).unwrap();
            number(&mut value);
            serde_json::from_value(value).unwrap()
        }};
    }
    let empty = StackReport::default();
    StackReport {
        port: port.to_owned(),
        segments: filled!(empty.segments),
        arrivals: filled!(empty.arrivals),
        bytes: filled!(empty.bytes),
        recoveries: filled!(empty.recoveries),
        sessions: filled!(empty.sessions),
        link: filled!(empty.link),
        ..empty
    }
}
