use super::*;
use crate::model::{
    Bucket, FlowInterval, IntervalReceived, IntervalSent, SessionConnections, SessionInterval,
    Stats,
};

pub(super) fn interval(number: u64, total: FlowInterval, flows: Vec<FlowInterval>) -> Interval {
    Interval {
        from_ns: number * 1_000_000_000,
        to_ns: (number + 1) * 1_000_000_000,
        total,
        flows,
        sessions: Vec::new(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    }
}

fn sent(name: &str, frames: u64) -> FlowInterval {
    let sent = Some(IntervalSent { frames, frame_bytes: frames * 64 });
    FlowInterval { name: name.to_owned(), sent, ..FlowInterval::default() }
}

/// Delays of 1 ms, one beyond all bounds, and one below zero.
fn delays() -> Stats {
    Stats {
        count: 6,
        mean: Some(4_000_000_000.0),
        max: Some(30_000_000_000),
        below_histogram: 1,
        histogram: vec![
            Bucket(998_000, 1_000_000, 3),
            Bucket(1_000_001, 1_004_000, 1),
            Bucket(20_000_000_000, i64::MAX, 1),
        ],
        ..Stats::default()
    }
}

pub(super) fn both(name: &str, lost: i64) -> FlowInterval {
    let received = Some(IntervalReceived {
        frames: 6,
        frame_bytes: 384,
        unique: 6,
        duplicates: 1,
        reordered: 2,
        one_way_delay_ns: Some(delays()),
    });
    FlowInterval { received, lost: Some(lost), ..sent(name, 10) }
}

/// The value of a line that begins so.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[test]
fn what_intervals_say_adds_up() {
    let mut run = RunMetrics::new("0.1.0", Some(7));
    run.add(&Interval {
        expired: Some(3),
        ..interval(0, both("voice", 4), vec![both("voice", 4)])
    });
    run.add(&interval(1, both("voice", -1), vec![both("voice", -1)]));
    let text = run.text(Exposition::Prometheus);
    for (name, expected) in [
        ("wirebeat_run_info{version=\"0.1.0\",seed=\"7\"}", 1.0),
        ("wirebeat_run_elapsed_seconds", 2.0),
        ("wirebeat_frames_expired_total", 3.0),
        ("wirebeat_frames_sent_total{flow=\"voice\"}", 20.0),
        ("wirebeat_frame_bytes_sent_total{flow=\"voice\"}", 1280.0),
        ("wirebeat_frames_received_total{flow=\"voice\"}", 12.0),
        ("wirebeat_frames_duplicate_total{flow=\"voice\"}", 2.0),
        ("wirebeat_frames_reordered_total{flow=\"voice\"}", 4.0),
        ("wirebeat_frames_lost{flow=\"voice\"}", 3.0),
        ("wirebeat_one_way_delay_seconds_bucket{flow=\"voice\",le=\"1e-07\"}", 2.0),
        ("wirebeat_one_way_delay_seconds_bucket{flow=\"voice\",le=\"0.001\"}", 8.0),
        ("wirebeat_one_way_delay_seconds_bucket{flow=\"voice\",le=\"0.0025\"}", 10.0),
        ("wirebeat_one_way_delay_seconds_bucket{flow=\"voice\",le=\"10\"}", 10.0),
        ("wirebeat_one_way_delay_seconds_bucket{flow=\"voice\",le=\"+Inf\"}", 12.0),
        ("wirebeat_one_way_delay_seconds_count{flow=\"voice\"}", 12.0),
        ("wirebeat_one_way_delay_seconds_sum{flow=\"voice\"}", 48.0),
    ] {
        assert_eq!(value(&text, name), Some(expected), "{name}\n{text}");
    }
    assert!(!text.contains("(others)"), "{text}");
    for line in [
        "# TYPE wirebeat_frames_sent_total counter",
        "# TYPE wirebeat_frames_lost gauge",
        "# TYPE wirebeat_one_way_delay_seconds histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let open = run.text(Exposition::OpenMetrics);
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(open.contains("# TYPE wirebeat_frames_sent counter\n"), "{open}");
    assert_eq!(value(&open, "wirebeat_frames_sent_total{flow=\"voice\"}"), Some(20.0));
    assert_eq!(open.matches("le=\"+Inf\"").count(), 1, "{open}");
}

#[test]
fn each_end_says_what_it_knows() {
    let mut run = RunMetrics::new("0.1.0", None);
    run.add(&interval(0, sent("total", 5), vec![sent("x", 5)]));
    let text = run.text(Exposition::Prometheus);
    assert!(text.contains("wirebeat_frames_sent_total{flow=\"x\"} 5\n"), "{text}");
    for unknown in ["received", "lost", "delay", "seed=", "expired", "sessions"] {
        assert!(!text.contains(unknown), "{unknown}: {text}");
    }
}

#[test]
fn flows_that_are_not_told_apart_are_together_and_the_sum_is_the_whole() {
    let mut run = RunMetrics::new("0.1.0", None);
    // more than 256: intervals have no flows
    run.add(&interval(0, both("total", 2), Vec::new()));
    let text = run.text(Exposition::Prometheus);
    assert_eq!(value(&text, "wirebeat_frames_sent_total{flow=\"(others)\"}"), Some(10.0));
    // a receiver lists the first 256 of its flows, and sees others
    run.add(&interval(1, both("total", 2), vec![sent("a", 3)]));
    let text = run.text(Exposition::Prometheus);
    assert_eq!(value(&text, "wirebeat_frames_sent_total{flow=\"a\"}"), Some(3.0));
    assert_eq!(value(&text, "wirebeat_frames_sent_total{flow=\"(others)\"}"), Some(17.0));
    assert_eq!(value(&text, "wirebeat_one_way_delay_seconds_count{flow=\"(others)\"}"), Some(12.0));
}

#[test]
fn names_that_come_and_go_have_a_limit() {
    let mut run = RunMetrics::new("0.1.0", None);
    for number in 0..1000 {
        let name = format!("flow {number}");
        run.add(&interval(number, sent("total", 1), vec![sent(&name, 1)]));
        let group = SessionInterval { name, opened: 1, ..SessionInterval::default() };
        run.add(&Interval {
            sessions: vec![group],
            ..interval(number, FlowInterval::default(), Vec::new())
        });
    }
    let text = run.text(Exposition::Prometheus);
    let of = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(of("wirebeat_frames_sent_total{"), NAMES_MAX + 1);
    assert_eq!(of("wirebeat_sessions_opened_total{"), NAMES_MAX + 1);
    assert_eq!(value(&text, "wirebeat_frames_sent_total{flow=\"(others)\"}"), Some(744.0));
    let others = "wirebeat_sessions_opened_total{group=\"(others)\",end=\"client\"}";
    assert_eq!(value(&text, others), Some(744.0));
}

#[test]
fn sessions_are_counted_by_group_and_end() {
    let client = SessionInterval {
        name: "web".to_owned(),
        due: Some(12),
        expired: 1,
        opened: 11,
        in_order: 7,
        failed: 2,
        unfinished: 1,
        responses: 30,
        delivered_bytes: 5000,
        open: 1,
        connections: Some(SessionConnections {
            round_trip_ns: Some(1_500_000),
            ..SessionConnections::default()
        }),
        ..SessionInterval::default()
    };
    let server = SessionInterval { end: SessionEnd::Server, due: None, ..client.clone() };
    let mut run = RunMetrics::new("0.1.0", None);
    for number in 0..2 {
        let sessions = vec![client.clone(), server.clone()];
        run.add(&Interval { sessions, ..interval(number, FlowInterval::default(), Vec::new()) });
    }
    let text = run.text(Exposition::Prometheus);
    for (name, expected) in [
        ("sessions_due_total", Some(24.0)),
        ("sessions_expired_total", Some(2.0)),
        ("sessions_opened_total", Some(22.0)),
        ("sessions_ended_total", Some(20.0)),
        ("sessions_failed_total", Some(4.0)),
        ("session_responses_total", Some(60.0)),
        ("session_bytes_delivered_total", Some(10_000.0)),
        ("sessions_open", Some(1.0)),
        ("session_round_trip_seconds", Some(0.0015)),
    ] {
        let of = |end| value(&text, &format!("wirebeat_{name}{{group=\"web\",end=\"{end}\"}}"));
        assert_eq!(of("client"), expected, "{name}\n{text}");
        let accepts = !["sessions_due_total", "sessions_expired_total"].contains(&name);
        assert_eq!(of("server"), expected.filter(|_| accepts), "{name}\n{text}");
    }
}

/// A name may come from a scenario of anybody: it must not make lines of its own, nor steer a terminal.
#[test]
fn a_hostile_name_is_only_a_label() {
    let wild = "a\"} 1\nwirebeat_frames_sent_total{flow=\"b\\\x1b[2J\r\u{202e}\u{2028}";
    let mut run = RunMetrics::new("0.1.0", None);
    run.add(&interval(0, both(wild, 0), vec![both(wild, 0)]));
    let group = SessionInterval { name: wild.to_owned(), opened: 1, ..SessionInterval::default() };
    run.add(&Interval {
        sessions: vec![group],
        ..interval(1, FlowInterval::default(), Vec::new())
    });
    for exposition in [Exposition::Prometheus, Exposition::OpenMetrics] {
        let text = run.text(exposition);
        assert!(
            text.chars().all(|c| c == '\n' || !wirebeat_units::printable::is_active(c)),
            "{text:?}"
        );
        let sent: Vec<&str> =
            text.lines().filter(|line| line.starts_with("wirebeat_frames_sent_total")).collect();
        let shown =
            r#"a\"} 1"#.to_owned() + "\u{fffd}" + r#"wirebeat_frames_sent_total{flow=\"b\\"#;
        assert_eq!(sent.len(), 1, "{text}");
        assert!(sent[0].contains(&shown), "{}", sent[0]);
    }
}

/// Clocks that do not agree, or a listener that lies, make any number.
#[test]
fn no_number_breaks_it() {
    let stats = Stats {
        count: u64::MAX,
        mean: Some(f64::MAX),
        below_histogram: u64::MAX,
        histogram: vec![Bucket(i64::MIN, i64::MAX, u64::MAX), Bucket(5, 4, 3)],
        ..Stats::default()
    };
    let received = IntervalReceived {
        frames: u64::MAX,
        frame_bytes: u64::MAX,
        unique: 0,
        duplicates: u64::MAX,
        reordered: 0,
        one_way_delay_ns: Some(stats),
    };
    let flow = FlowInterval {
        name: "x".to_owned(),
        sent: None,
        received: Some(received),
        lost: Some(i64::MIN),
        extremes: None,
    };
    let mut run = RunMetrics::new("", None);
    for number in 0..3 {
        run.add(&interval(number, flow.clone(), vec![flow.clone(), flow.clone()]));
    }
    for exposition in [Exposition::Prometheus, Exposition::OpenMetrics] {
        assert!(run.text(exposition).contains("flow=\"x\""));
    }
}

#[test]
fn every_metric_has_a_row_in_the_documentation() {
    let docs = std::fs::read_to_string("../../docs/live.md").unwrap();
    let mut run = RunMetrics::new("0.1.0", Some(1));
    let group = SessionInterval {
        due: Some(1),
        connections: Some(SessionConnections {
            round_trip_ns: Some(1),
            ..SessionConnections::default()
        }),
        ..SessionInterval::default()
    };
    let cpus = Some(crate::model::GaugeReport { last: 1.0, least: 1.0, most: 1.0 });
    run.add(&Interval {
        sessions: vec![group],
        stacks: Vec::new(),
        expired: Some(0),
        cpus,
        ..interval(0, both("x", 0), vec![both("x", 0)])
    });
    let text = run.text(Exposition::Prometheus);
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert_eq!(names.len(), 24, "{names:?}");
    for name in names {
        assert!(docs.contains(&format!("| `{name}` |")), "docs/live.md has no row for {name}");
    }
}
