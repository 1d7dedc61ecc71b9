//! The view without a terminal: what keys do to it, and how it looks, in golden files that a person reviews.

use std::collections::BTreeSet;
use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use wirebeat_report::model::{
    Bucket, FlowInterval, IntervalReceived, IntervalSent, Percentiles, SessionConnections,
    SessionEnd, SessionInterval, Stats,
};
use wirebeat_units::Nanos;
use wirebeat_units::printable::is_active;

use super::draw::draw;
use super::view::{Key, PortFlows, RowKey, SortBy, View, Wish, parts};
use super::*;

/// The view in so many columns and rows.
fn shown(view: &View, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(view, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..rows {
        let line: String = (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Holds it against a golden file. `UPDATE_GOLDEN=1` writes the files anew.
fn golden(name: &str, view: &View, (columns, rows): (u16, u16)) {
    let found = shown(view, columns, rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/tui")
        .join(format!("{name}-{columns}x{rows}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == found, "{} differs; it should be:\n{found}", path.display());
}

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 12), (20, 5)];

fn delays(micros: i64) -> Stats {
    let at = |part: i64| micros * part * 10;
    Stats {
        count: 1000,
        max: Some(at(300)),
        percentiles: Percentiles {
            p50: Some(at(100)),
            p99: Some(at(250)),
            ..Percentiles::default()
        },
        histogram: vec![
            Bucket(at(60), at(61), 40),
            Bucket(at(99), at(100), 700),
            Bucket(at(140), at(141), 220),
            Bucket(at(250), at(251), 39),
            Bucket(at(300), at(301), 1),
        ],
        ..Stats::default()
    }
}

fn flow(name: &str, frames: u64, lost: i64, micros: i64) -> FlowInterval {
    let arrived = frames.saturating_add_signed(lost.saturating_neg());
    FlowInterval {
        name: name.to_owned(),
        sent: Some(IntervalSent { frames, frame_bytes: frames.saturating_mul(214) }),
        received: Some(IntervalReceived {
            frames: arrived,
            frame_bytes: arrived.saturating_mul(214),
            unique: arrived,
            one_way_delay_ns: Some(delays(micros)),
            ..IntervalReceived::default()
        }),
        lost: Some(lost),
        extremes: None,
    }
}

fn group(name: &str, end: SessionEnd) -> SessionInterval {
    SessionInterval {
        name: name.to_owned(),
        end,
        open: 57,
        opened: 1000,
        responses: 9990,
        delivered_bytes: 10_000_000,
        failed: u64::from(end == SessionEnd::Client) * 3,
        connections: Some(SessionConnections {
            round_trip_ns: Some(1_240_000),
            ..SessionConnections::default()
        }),
        ..SessionInterval::default()
    }
}

fn interval(number: u64, flows: Vec<FlowInterval>, sessions: Vec<SessionInterval>) -> Interval {
    let sum = |of: fn(&FlowInterval) -> u64| flows.iter().map(of).sum::<u64>();
    let sent = sum(|flow| flow.sent.map_or(0, |sent| sent.frames));
    let lost = flows.iter().filter_map(|flow| flow.lost).sum::<i64>();
    let total = match flows.is_empty() {
        true => FlowInterval::default(),
        false => flow("total", sent, lost, 12),
    };
    Interval {
        from_ns: number * 1_000_000_000,
        to_ns: (number + 1) * 1_000_000_000,
        total,
        flows,
        sessions,
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    }
}

fn at(seconds: u64) -> Progress {
    Progress {
        elapsed: Nanos::from_millis(seconds * 1000 + 200),
        duration: Some(Nanos::from_secs(60)),
        ..Progress::default()
    }
}

/// Three flows for 30 s.
fn of_flows() -> View {
    let mut view = View::new(true, false);
    for number in 0..30 {
        let bulk = 100_000 + number * 2000 % 17_000;
        let flows = vec![
            flow("voice", 12_500, 0, 9),
            flow("bulk", bulk, if number % 10 == 9 { 1200 } else { 0 }, 25),
            flow("sensors of the north hall", 40, 0, 400),
        ];
        view.interval(&interval(number, flows, Vec::new()));
    }
    view.progress(&at(30));
    view
}

fn of_both() -> View {
    let mut view = View::new(false, false);
    for number in 0..5 {
        let sessions = vec![group("web", SessionEnd::Client), group("web", SessionEnd::Server)];
        view.interval(&interval(number, vec![flow("voice", 12_500, 0, 9)], sessions));
    }
    view.progress(&at(5));
    view.notice("control socket: /run/wirebeat/4711.sock");
    view
}

fn of_sessions() -> View {
    let mut view = View::new(false, false);
    view.interval(&interval(0, Vec::new(), vec![group("web", SessionEnd::Client)]));
    view
}

/// Each port sends a flow to the next one.
fn of_ports(count: usize) -> View {
    let name = |number: usize| format!("f{}", number % count);
    let ports = (0..count).map(|number| PortFlows {
        name: format!("port{number}"),
        place: "eth1, kernel".to_owned(),
        sends: BTreeSet::from([name(number)]),
        receives: BTreeSet::from([name(number + count - 1)]),
    });
    let mut view = View::new(false, false).with_ports(ports.collect());
    let flows = (0..count).map(|number| flow(&name(number), 1_000 * (number as u64 + 1), 0, 12));
    view.interval(&interval(0, flows.collect(), Vec::new()));
    view
}

#[test]
fn it_looks_as_reviewed() {
    for size in SIZES {
        golden("flows", &of_flows(), size);
        golden("both", &of_both(), size);
        golden("sessions", &of_sessions(), size);
        golden("empty", &View::new(false, false), size);
        let mut helping = of_flows();
        helping.key(Key::Char('?'));
        golden("help", &helping, size);
        let mut paused = of_flows();
        paused.key(Key::Char('p'));
        paused.interval(&interval(31, vec![flow("voice", 1, 0, 1)], Vec::new()));
        golden("paused", &paused, size);
        golden("ports", &of_ports(5), size);
        golden("two-ports", &of_ports(2), size);
    }
}

#[test]
fn no_size_and_no_content_breaks_it() {
    let wild = "a\u{1b}[2J\r\n\u{202e}\u{9b}1m音声👩\u{200d}🚀e\u{301}".repeat(20);
    let mut hostile = View::new(true, true);
    let many = (0..300)
        .map(|number| flow(&format!("{wild}{number}"), u64::MAX / 1000, i64::MIN, i64::MAX / 4000));
    let many: Vec<FlowInterval> = many
        .map(|flow| FlowInterval {
            sent: Some(IntervalSent { frames: u64::MAX, frame_bytes: u64::MAX }),
            ..flow
        })
        .collect();
    let total = many[0].clone();
    for to_ns in [0, 1, u64::MAX] {
        let sessions = vec![group(&wild, SessionEnd::Server)];
        hostile.interval(&Interval {
            total: total.clone(),
            to_ns,
            ..interval(0, Vec::new(), sessions)
        });
        hostile.interval(&Interval {
            flows: many.clone(),
            total: total.clone(),
            to_ns,
            ..interval(0, Vec::new(), Vec::new())
        });
    }
    hostile.notice(&wild);
    hostile.tell(&wild);
    let views = [hostile, of_flows(), of_both(), of_sessions(), View::default()];
    for view in views {
        for columns in (0..30).chain([79, 80, 200, 500]) {
            for rows in (0..30).chain([200]) {
                let mut view = view.clone();
                let text = shown(&view, columns, rows);
                let acts = text.chars().find(|c| *c != '\n' && is_active(*c));
                assert_eq!(acts, None, "{columns}x{rows}");
                view.key(Key::Char('?'));
                shown(&view, columns, rows);
            }
        }
    }
}

#[test]
fn rows_and_the_past_have_a_limit() {
    let mut view = View::new(false, false);
    for number in 0..3000 {
        let name = format!("flow {number}");
        view.interval(&interval(number, vec![flow(&name, 1, 0, 1)], Vec::new()));
        view.notice("again");
    }
    assert_eq!(view.rows().len(), 1024);
    assert_eq!(view.seen().history.len(), 512);
    assert_eq!(view.notices().len(), 100);
}

fn names(view: &View) -> Vec<&str> {
    view.rows().into_iter().map(|(key, _)| key.name()).collect()
}

#[test]
fn keys_sort_and_select() {
    let mut view = of_flows();
    assert_eq!(names(&view), ["bulk", "sensors of the north hall", "voice"]);
    view.key(Key::Down);
    view.key(Key::Down);
    view.key(Key::Down);
    assert_eq!(view.place(), 2);
    // the flow stays selected wherever it goes
    view.key(Key::Char('s'));
    assert_eq!((view.sort(), names(&view)[0]), (SortBy::Rate, "bulk"));
    assert_eq!((view.place(), names(&view)[1]), (1, "voice"));
    view.key(Key::Right);
    assert_eq!((view.sort(), names(&view)[0]), (SortBy::Loss, "bulk"));
    view.key(Key::Right);
    assert_eq!((view.sort(), names(&view)[0]), (SortBy::Delay, "sensors of the north hall"));
    view.key(Key::Right);
    assert_eq!(view.sort(), SortBy::Name);
    view.key(Key::Left);
    assert_eq!(view.sort(), SortBy::Delay);
    view.key(Key::Up);
    view.key(Key::Up);
    view.key(Key::Up);
    assert_eq!(view.place(), 0);
    assert_eq!(view.delays().unwrap().0, &RowKey::Flow("sensors of the north hall".to_owned()));
}

#[test]
fn keys_change_the_rate_of_the_selected_flow() {
    let mut view = of_flows();
    let scale = |name: &str, percent| Some(Wish::Scale { name: name.to_owned(), percent });
    assert_eq!(view.key(Key::Char('+')), scale("bulk", 110));
    view.key(Key::Down);
    view.key(Key::Down);
    assert_eq!(view.key(Key::Char('-')), scale("voice", 90));
    view.tell("voice: 11250pps from 3.271 s on");
    assert!(shown(&view, 80, 24).contains("voice: 11250pps from 3.271 s on"));
    // the next key takes the message away
    view.key(Key::Down);
    assert_eq!(view.message(), None);
}

#[test]
fn without_a_handle_no_rate_changes_and_it_is_said_why() {
    let mut view = of_both();
    assert_eq!(view.key(Key::Char('+')), None);
    assert!(view.message().unwrap().contains("--control"));
    let mut empty = View::new(true, false);
    assert_eq!(empty.key(Key::Char('-')), None);
    assert!(empty.message().unwrap().contains("nothing"));
}

#[test]
fn a_pause_keeps_what_is_shown_and_the_run_goes_on() {
    let mut view = of_flows();
    view.key(Key::Char(' '));
    let before = view.seen().clone();
    view.interval(&interval(30, vec![flow("new", 5, 0, 9)], Vec::new()));
    view.progress(&at(31));
    assert!(view.is_paused() && *view.seen() == before);
    view.key(Key::Char('p'));
    assert!(!view.is_paused() && names(&view).contains(&"new"));
}

#[test]
fn keys_stop_the_run() {
    let mut view = of_flows();
    assert_eq!(view.key(Key::Char('x')), None);
    assert_eq!(view.key(Key::Char('q')), Some(Wish::Stop));
    assert!(view.is_stopping() && shown(&view, 20, 5).starts_with("stopping"));
    assert_eq!(of_flows().key(Key::Interrupt), Some(Wish::Interrupt));
    let mut helping = of_flows();
    helping.key(Key::Char('?'));
    helping.key(Key::Escape);
    assert!(!helping.shows_help());
}

#[test]
fn a_flow_that_does_nothing_stays_and_shows_no_rate() {
    let mut view = View::new(false, false);
    view.interval(&interval(0, vec![flow("a", 1000, 10, 9)], Vec::new()));
    view.interval(&interval(1, vec![flow("b", 1000, 0, 9)], Vec::new()));
    let text = shown(&view, 80, 24);
    let line = text.lines().find(|line| line.starts_with("a ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..], ["0", "pps", "0", "pps", "0", "bit/s", "10", "0", "%", "-", "-", "-"]);
}

#[test]
fn delays_have_parts_that_fit() {
    let bucket = |ns: i64, count| Bucket(ns, ns, count);
    assert_eq!(parts(&[], 6), []);
    assert_eq!(parts(&[bucket(90, 3), bucket(100, 4), bucket(101, 5)], 6), [(100, 7), (200, 5)]);
    assert_eq!(parts(&[bucket(1, 1), bucket(6, 2)], 6), [(1, 1), (2, 0), (5, 0), (10, 2)]);
    // the rest together
    let far = [bucket(1, 1), bucket(1_000_000, 2), bucket(i64::MAX, 3)];
    assert_eq!(parts(&far, 4), [(1, 1), (2, 0), (5, 0), (i64::MAX, 5)]);
    assert_eq!(parts(&[bucket(-5, 1), bucket(0, 1), bucket(1, 1)], 4), [(0, 2), (1, 1)]);
    assert_eq!(parts(&[Bucket(5, i64::MAX, 1)], 0), [(5_000_000_000_000_000_000, 1)]);
}
