//! Reports of our own TCP as people and programs get them, held against files that a person can review (see `golden`).

use crate::assemble::{RunFacts, assemble};
use crate::document::Document;
use crate::format::{Colour, Presentable, Rendering};
use crate::golden::{facts, golden, text};
use crate::model::{
    Report, StackArrivals, StackBytes, StackCable, StackConflict, StackDatagrams, StackLink,
    StackRecoveries, StackReport, StackSegments, StackSessions, StackState, Verdict,
};

fn state(state: &str, sessions: u64) -> StackState {
    StackState { state: state.to_owned(), sessions }
}

/// The end that opens sessions, on a link that loses nothing.
fn quiet() -> StackReport {
    StackReport {
        port: "a".to_owned(),
        transmit_mode: "AF_XDP, zero copy".to_owned(),
        receive_mode: "AF_XDP, zero copy".to_owned(),
        segments: StackSegments {
            all: 169_986,
            new_data: 30_000,
            syn: 10_000,
            fin: 10_000,
            ack: 119_986,
            ..StackSegments::default()
        },
        arrivals: StackArrivals { packets: 270_014, ..StackArrivals::default() },
        bytes: StackBytes {
            sent: 3_900_000,
            acked: 3_900_000,
            delivered: 307_200_000,
            ..StackBytes::default()
        },
        sessions: StackSessions { time_waits: 10_000, ..StackSessions::default() },
        states: vec![state("ESTABLISHED", 0), state("TIME-WAIT", 10_000)],
        link: StackLink { neighbour_frames: 2, ..StackLink::default() },
        ..StackReport::default()
    }
}

/// The end that accepts them, on a link with trouble: each counter has some.
fn troubled() -> StackReport {
    StackReport {
        port: "b".to_owned(),
        transmit_mode: "AF_PACKET".to_owned(),
        receive_mode: "AF_PACKET, TPACKET_V3".to_owned(),
        segments: StackSegments {
            all: 290_436,
            new_data: 240_100,
            retransmitted_timeout: 312,
            retransmitted_fast: 8_041,
            retransmitted_tail: 77,
            retransmitted_too_big: 6,
            retransmitted_syn: 21,
            syn: 1,
            syn_ack: 9_990,
            fin: 9_900,
            rst: 143,
            ack: 21_812,
            probe: 33,
        },
        arrivals: StackArrivals {
            packets: 180_412,
            foreign: 4,
            malformed: 2,
            bad_checksum: 17,
            unverified: 1_024,
            no_session: 143,
            paws: 3,
            outside_window: 12,
            bad_ack: 5,
            challenged: 1,
            duplicate_acks: 24_310,
            syn_dropped: 10,
            icmp_ignored: 8,
        },
        bytes: StackBytes {
            sent: 307_100_000,
            retransmitted: 11_200_000,
            acked: 306_800_000,
            delivered: 3_890_000,
            duplicate: 14_820,
            out_of_order: 65_000,
            dropped: 1_300,
        },
        recoveries: StackRecoveries {
            timeouts: 301,
            fast: 1_920,
            reordering: 44,
            tail: 1,
            spurious: 63,
            congestion_echoes: 12,
            path_mtu_reductions: 1,
            black_holes: 2,
        },
        sessions: StackSessions { time_waits: 1_204, time_wait_skipped: 3, half_open_dropped: 9 },
        states: vec![
            state("SYN-RECEIVED", 4),
            state("ESTABLISHED", 37),
            state("FIN-WAIT-1", 2),
            state("CLOSE-WAIT", 0),
            state("LAST-ACK", 11),
            state("TIME-WAIT", 1_204),
        ],
        link: StackLink {
            neighbour_frames: 41,
            unresolved: 6,
            receive_drops: 1_204,
            replies_dropped: 12,
        },
        cable: Some(StackCable { lost: 5, dropped: 17 }),
        datagrams: Some(StackDatagrams {
            sent: 1_210,
            packets: 1_234,
            received: 1_213,
            unverified: 7,
            malformed: 2,
            bad_checksum: 3,
            no_session: 16,
        }),
        silent_next_hop: Some("10.0.2.254".to_owned()),
        conflict: Some(StackConflict {
            address: "10.0.2.9".to_owned(),
            mac: "02:00:00:00:00:07".to_owned(),
        }),
    }
}

fn report(command: &str, stacks: Vec<StackReport>) -> Report {
    assemble(RunFacts { stacks, ..facts(command) }, None, None)
}

#[test]
fn our_own_tcp_on_two_ports() {
    let report = report("wirebeat run own.yaml", vec![quiet(), troubled()]);
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
    golden("tests/golden/stacks.txt", &text(&report));
    let summary = report.text(Rendering::default());
    let (_, part) = summary.split_once("own TCP on a").unwrap();
    let (part, _) = part.split_once("findings").unwrap();
    let too_wide: Vec<&str> = part.lines().filter(|line| line.chars().count() > 86).collect();
    assert!(too_wide.is_empty(), "{too_wide:?}");
    let coloured = report.text(Rendering { colour: Colour::Ansi, ..Rendering::default() });
    assert!(coloured.contains("\x1b[1;31m17\x1b[0m"), "{coloured}");
}

#[test]
fn the_json_form_of_our_own_tcp() {
    let report = report("wirebeat run own.yaml", vec![troubled()]);
    let json = report.json(Rendering::default());
    golden("tests/golden/stacks.json", &json);
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report)));
}
