//! Reports of sessions as people and programs get them, held against files that a person can review (see `golden`).

use wirebeat_meter::connections::{ConnectionGauges, ConnectionSample};
use wirebeat_meter::session::{SessionCounts, SessionMeter, SessionTime};
use wirebeat_units::{BitRate, FrameRate, Nanos};

use crate::assemble::{RunFacts, SessionGroup, SessionIntervalCounts, assemble};
use crate::document::Document;
use crate::format::{Colour, Presentable, Rendering};
use crate::golden::{Noise, VOICE, both, facts, golden, text};
use crate::model::{Expectation, Report, SessionEnd, SessionGoal, Verdict};

const SECOND: u64 = 1_000_000_000;
/// Bytes of a request and of its response.
const REQUEST: u64 = 130;
const RESPONSE: u64 = 10_240;

/// A group of clients that ask for three pages in each session.
struct Web {
    starts: u64,
    per_second: u64,
    /// When the server does not answer.
    stalled: Option<(u64, u64)>,
    /// How late starts are, in ns.
    lateness: f64,
}

impl Web {
    /// Runs it: every request of one that is stalled waits, those behind it in their session start late.
    fn meter(&self) -> SessionMeter {
        let mut noise = Noise(1);
        let mut meter = SessionMeter::new(1);
        let rate = FrameRate { frames: self.per_second, per: Nanos::from_secs(1) };
        for start in 0..self.starts {
            let planned = rate.deadline(start).get();
            let actual = planned + noise.time(self.lateness);
            let (planned, actual) = (Nanos::new(planned), Nanos::new(actual));
            meter.started(planned, actual);
            let mut now = self.answered(actual.get() + noise.time(90_000.0));
            meter.took(SessionTime::Connect, planned, actual, Nanos::new(now));
            for request in 0..3 {
                let due = planned.get() + request * 500_000;
                let begins = now.max(due);
                let first = self.answered(begins + noise.time(180_000.0));
                now = first + noise.time(40_000.0);
                let (due, begins) = (Nanos::new(due.min(begins)), Nanos::new(begins));
                meter.took(SessionTime::FirstByte, due, begins, Nanos::new(first));
                meter.took(SessionTime::Response, due, begins, Nanos::new(now));
                meter.status(if noise.next() > 0.999 { 404 } else { 200 });
            }
            meter.timer(0, actual, Nanos::new(now));
            now += noise.time(60_000.0);
            meter.took(SessionTime::Session, planned, actual, Nanos::new(now));
            meter.rtt(Nanos::new(noise.time(75_000.0)));
        }
        meter
    }

    /// When what would be answered at `at` is.
    fn answered(&self, at: u64) -> u64 {
        match self.stalled {
            Some((from, to)) if (from..to).contains(&at) => to + (at - from) / 20,
            _ => at,
        }
    }

    fn group(&self, counts: SessionCounts) -> SessionGroup {
        let mut meter = self.meter();
        meter.counts = counts;
        let mut summary = meter.summary(&["page".to_owned()]);
        summary.most_open = 57;
        SessionGroup {
            name: "web".to_owned(),
            end: SessionEnd::Client,
            stack: "host".to_owned(),
            program: "http".to_owned(),
            local: "10.0.1.0/24, ports of the system".to_owned(),
            remote: "10.0.2.9:80".to_owned(),
            rate: Some(FrameRate { frames: self.per_second, per: Nanos::from_secs(1) }),
            steady: true,
            under_way: Some((Nanos::ZERO, Nanos::from_secs(10))),
            summary,
            ..SessionGroup::default()
        }
    }
}

/// What clients counted of so many sessions that all did as they should.
fn done(sessions: u64) -> SessionCounts {
    SessionCounts {
        due: sessions,
        opened: sessions,
        established: sessions,
        in_order: sessions,
        requests: sessions * 3,
        responses: sessions * 3,
        offered_bytes: sessions * 3 * REQUEST,
        sent_bytes: sessions * 3 * REQUEST,
        acked_bytes: sessions * 3 * REQUEST,
        delivered_bytes: sessions * 3 * RESPONSE,
        verified_bytes: sessions * 3 * RESPONSE,
        data_segments: sessions * 3,
        ..SessionCounts::default()
    }
}

/// What the server counted of the same.
fn served(sessions: u64) -> SessionCounts {
    SessionCounts {
        due: 0,
        requests: 0,
        responses: 0,
        offered_bytes: sessions * 3 * RESPONSE,
        sent_bytes: sessions * 3 * RESPONSE,
        acked_bytes: sessions * 3 * RESPONSE,
        delivered_bytes: sessions * 3 * REQUEST,
        verified_bytes: 0,
        data_segments: sessions * 24,
        retransmitted_segments: 3,
        ..done(sessions)
    }
}

fn expectation(text: &str, measured: &str, met: bool) -> Expectation {
    let (text, measured) = (text.to_owned(), measured.to_owned());
    let margin = (!met).then(|| "by far".to_owned());
    Expectation { text, measured, met, margin, ..Expectation::default() }
}

/// Clients and servers that are both ours, and a bulk transfer to a server of somebody else.
fn plausible() -> Vec<SessionGroup> {
    let web = Web { starts: 10_000, per_second: 1_000, stalled: None, lateness: 9_000.0 };
    let client = SessionGroup {
        goal: Some(SessionGoal { established: 10_000, reached_ns: Some(9_990_000_000) }),
        paired_with: Some(1),
        expectations: vec![
            expectation("established >= 10000", "10,000", true),
            expectation("response.p99 < 5ms", "850 µs", true),
        ],
        ..web.group(done(10_000))
    };
    let mut meter = SessionMeter::new(0);
    meter.counts = served(10_000);
    let server = SessionGroup {
        name: "web".to_owned(),
        end: SessionEnd::Server,
        stack: "own".to_owned(),
        program: "http".to_owned(),
        local: "10.0.2.9:80".to_owned(),
        remote: "any address".to_owned(),
        under_way: Some((Nanos::ZERO, Nanos::from_secs(10))),
        paired_with: Some(0),
        summary: meter.summary(&[]),
        ..SessionGroup::default()
    };
    let mut meter = SessionMeter::new(0);
    meter.counts = SessionCounts {
        due: 4,
        opened: 4,
        established: 4,
        unfinished: 4,
        offered_bytes: 11_700_000_000,
        sent_bytes: 11_650_000_000,
        acked_bytes: 11_649_000_000,
        data_segments: 8_050_000,
        retransmitted_segments: 214,
        ..SessionCounts::default()
    };
    (0..4).for_each(|_| meter.note_open(Nanos::from_secs(1)));
    let mut noise = Noise(5);
    (0..4).for_each(|_| meter.rtt(Nanos::new(noise.time(310_000.0))));
    let bulk = SessionGroup {
        name: "upload".to_owned(),
        stack: "iperf3".to_owned(),
        program: "bulk".to_owned(),
        remote: "10.0.2.9:5201".to_owned(),
        under_way: Some((Nanos::from_secs(2), Nanos::from_secs(10))),
        summary: meter.summary(&[]),
        ..SessionGroup::default()
    };
    vec![client, server, bulk]
}

fn report(command: &str, sessions: Vec<SessionGroup>) -> Report {
    assemble(RunFacts { sessions, ..facts(command) }, None, None)
}

#[test]
fn sessions_that_did_what_they_should() {
    let report = report("wirebeat run web.yaml", plausible());
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
    golden("tests/golden/sessions.txt", &text(&report));
    let summary = report.text(Rendering::default());
    let too_wide: Vec<&str> = summary.lines().filter(|line| line.chars().count() > 86).collect();
    assert!(too_wide.is_empty(), "{too_wide:?}");
}

/// The server stood still for a second, this machine had too few descriptors, and what was expected is not so.
#[test]
fn sessions_of_a_bad_run() {
    let web = Web {
        starts: 9_700,
        per_second: 1_000,
        stalled: Some((4 * SECOND, 5 * SECOND)),
        lateness: 900_000.0,
    };
    let counts = SessionCounts {
        due: 10_000,
        expired: 260,
        expired_late: 12,
        opened: 9_740,
        established: 9_650,
        in_order: 9_571,
        refused: 31,
        timed_out: 12,
        reset: 40,
        unreachable: 1,
        closed_early: 5,
        malformed: 2,
        abandoned: 16,
        failed_here: 46,
        unfinished: 16,
        unexpected: 33,
        damaged: 1,
        responses: 28_713,
        delivered_bytes: 28_713 * RESPONSE,
        verified_bytes: 28_700 * RESPONSE,
        acked_bytes: 28_900 * REQUEST,
        retransmitted_segments: 1_204,
        ..done(9_740)
    };
    let client = SessionGroup {
        goal: Some(SessionGoal { established: 10_000, reached_ns: None }),
        expectations: vec![
            expectation("established >= 9600", "9,650", true),
            expectation("response.p99 < 5ms", "908 ms", false),
            expectation("failed == 0", "153", false),
        ],
        ..web.group(counts)
    };
    let report = report("wirebeat load http://10.0.2.9/ --rate 1000/s --time 10s", vec![client]);
    assert_eq!((report.verdict, report.exit_code), (Verdict::Unmet, 4));
    let of = report.sessions[0].times.response.as_ref().unwrap();
    let p99 = |of: &crate::model::Stats| of.percentiles.p99.unwrap();
    assert!(p99(&of.planned_ns) >= 800_000_000, "{of:?}");
    golden("tests/golden/sessions_bad.txt", &text(&report));
    let coloured = report.text(Rendering { colour: Colour::Ansi, ..Rendering::default() });
    assert!(coloured.contains("\x1b[1;31mFAIL\x1b[0m"), "{coloured}");
    assert!(coloured.contains("\x1b[1;31m46\x1b[0m"), "{coloured}");
}

/// A run may have flows, too.
#[test]
fn sessions_beside_a_flow() {
    let (sender, receiver) = both(&[VOICE]);
    let mut sessions = plausible();
    sessions.truncate(1);
    sessions[0].paired_with = None;
    sessions[0].name = "web\x1b[2J of the northern hall".to_owned();
    let facts = RunFacts { sessions, ..facts("wirebeat run both.yaml") };
    let report = assemble(facts, Some(sender), Some(receiver));
    golden("tests/golden/sessions_and_flow.txt", &report.text(Rendering::default()));
}

#[test]
fn the_json_form_of_sessions() {
    let web = Web { starts: 40, per_second: 4, stalled: None, lateness: 9_000.0 };
    let mut connections = ConnectionGauges::default();
    for (ms, cwnd) in [(2, 14_600), (4, 29_200)] {
        connections.add(&ConnectionSample {
            rtt: Some(Nanos::from_millis(ms)),
            cwnd: Some(cwnd),
            delivery_rate: Some(BitRate(40_000_000)),
            ..ConnectionSample::default()
        });
    }
    let half = |from, counts| SessionIntervalCounts {
        from: Nanos::from_secs(from),
        to: Nanos::from_secs(from + 5),
        counts,
        open: 1,
        connections: Some(connections),
        ..SessionIntervalCounts::default()
    };
    let group = SessionGroup {
        expectations: vec![expectation("established >= 40", "40", true)],
        intervals: vec![half(0, done(20)), half(5, done(20))],
        ..web.group(done(40))
    };
    let report = report("wirebeat load http://10.0.2.9/ --rate 4/s --time 10s", vec![group]);
    let json = report.json(Rendering::default());
    golden("tests/golden/sessions.json", &json);
    let read: Document = serde_json::from_str(&json).unwrap();
    assert_eq!(read, Document::Report(Box::new(report.without_histograms())));
}

/// Of a client of iperf3, which hears of no acknowledgments, there was no rate at all.
#[test]
fn a_group_that_only_sends_has_a_rate() {
    let mut meter = SessionMeter::new(0);
    meter.counts = SessionCounts { sent_bytes: 5_987_500_000, ..SessionCounts::default() };
    let group = SessionGroup {
        name: "iperf3".to_owned(),
        under_way: Some((Nanos::ZERO, Nanos::from_secs(10))),
        summary: meter.summary(&[]),
        ..SessionGroup::default()
    };
    let text = report("wirebeat load --iperf3 10.0.2.9", vec![group]).text(Rendering::default());
    assert!(text.contains("\n  rates: sent 4.79 Gbit/s\n"), "{text}");
}

#[test]
fn of_many_groups_the_first_are_shown() {
    let group = |name: usize| SessionGroup { name: format!("g{name}"), ..SessionGroup::default() };
    let report = report("wirebeat run many.yaml", (0..50).map(group).collect());
    let text = report.text(Rendering::default());
    assert!(text.contains("\ng7 (client") && !text.contains("\ng8 (client"), "{text}");
    assert!(text.contains("42 more groups of sessions: in the JSON form of this report"), "{text}");
}
