use wirebeat_report::model::{
    Bucket, End, FlowInterval, FlowReport, Interval, IntervalReceived, IntervalSent, Loss,
    LossBasis, Percentiles, Rates, Received, Sent, SessionInterval, SessionReport, Verdict, Volume,
};

use std::str::FromStr;

use super::*;
use crate::observe::{Observer, Progress, Stop};

/// A delay of 1 to 2000 µs, each once.
fn delays() -> Stats {
    Stats {
        count: 2000,
        min: Some(1_000),
        max: Some(2_000_000),
        mean: Some(1_000_500.0),
        standard_deviation: Some(577_000.0),
        percentiles: Percentiles {
            p50: Some(1_000_000),
            p99: Some(1_980_000),
            ..Percentiles::default()
        },
        histogram: (1..=2000).map(|us| Bucket(us * 1000, us * 1000, 1)).collect(),
        ..Stats::default()
    }
}

fn frames(frames: u64) -> Volume {
    Volume { frames, ..Volume::default() }
}

fn flow() -> FlowReport {
    let rates = |frames_per_second| Rates {
        frames_per_second,
        frame_bits_per_second: frames_per_second * 512.0,
        line_bits_per_second: frames_per_second * 672.0,
        payload_bits_per_second: frames_per_second * 144.0,
    };
    FlowReport {
        name: "voice".to_owned(),
        sent: Some(Sent {
            requested: frames(2010),
            sent: frames(2004),
            expired: 6,
            rates: Some(rates(1000.4)),
            rate_error_ppm: Some(-400.0),
            first_departure_ns: Some(0),
            last_departure_ns: Some(2_003_000_000),
            ..Sent::default()
        }),
        received: Some(Received {
            received: frames(2001),
            unique: 2000,
            duplicates: 1,
            reordered_ratio: Some(0.0),
            rates: Some(rates(998.0)),
            one_way_delay_ns: Some(delays()),
            ..Received::default()
        }),
        loss: Some(Loss {
            frames: 4,
            at_most: Some(4),
            ratio: Some(4.0 / 2004.0),
            basis: LossBasis::SentLessUnique,
        }),
        ..FlowReport::default()
    }
}

/// Three seconds: in the second one half is lost, and the flow ends just after the beginning of the third.
fn intervals() -> Vec<Interval> {
    let interval = |second: u64, sent: u64, received: u64| {
        let of = FlowInterval {
            name: "voice".to_owned(),
            sent: Some(IntervalSent { frames: sent, frame_bytes: 64 * sent }),
            received: Some(IntervalReceived {
                frames: received,
                frame_bytes: 64 * received,
                unique: received,
                duplicates: 25 * u64::from(second == 1),
                reordered: 5 * u64::from(second == 1),
                one_way_delay_ns: Some(Stats {
                    count: received,
                    max: Some(7000),
                    ..Stats::default()
                }),
            }),
            lost: Some(sent as i64 - received as i64),
            extremes: None,
        };
        let at = |second: u64| second * 1_000_000_000;
        Interval {
            from_ns: at(second),
            to_ns: at(second + 1),
            total: FlowInterval { name: "total".to_owned(), ..of.clone() },
            flows: vec![of],
            sessions: Vec::new(),
            stacks: Vec::new(),
            expired: None,
            cpus: None,
        }
    };
    vec![interval(0, 1000, 1000), interval(1, 1000, 500), interval(2, 4, 4)]
}

/// The report of a run that is done, of this flow alone.
fn report(flow: FlowReport) -> Report {
    let facts = wirebeat_report::assemble::RunFacts {
        wirebeat_version: "0".to_owned(),
        command_line: Vec::new(),
        seed: None,
        scenario: None,
        started: std::time::SystemTime::UNIX_EPOCH,
        duration: wirebeat_units::Nanos::from_secs(3),
        end: End::Completed,
        clocks: wirebeat_report::assemble::Clocks::Same,
        costs: Vec::new(),
        machine: Vec::new(),
        changes: Vec::new(),
        outages: Vec::new(),
        replays: Vec::new(),
        captures: Vec::new(),
        sessions: Vec::new(),
        stacks: Vec::new(),
    };
    let assembled = wirebeat_report::assemble::assemble(facts, None, None);
    let total = FlowReport { name: "total".to_owned(), ..flow.clone() };
    Report { flows: vec![flow], total, intervals: intervals(), ..assembled }
}

fn judged(text: &str, flow: FlowReport) -> Expectation {
    let mut report = report(flow);
    Expectations::of_all(vec![text.parse().unwrap()]).judge(&mut report, None);
    report.total.expectations.remove(0)
}

#[test]
fn flows_are_held_against_what_was_measured_of_them() {
    for (text, outcome) in [
        ("loss <= 0.2%", "PASS"),
        ("loss < 0.1%", "FAIL"),
        ("lost == 4", "PASS"),
        ("lost == 0", "FAIL"),
        ("duplication < 0.1%", "PASS"),
        ("reordering == 0%", "PASS"),
        ("expired == 6", "PASS"),
        ("requested >= 2010", "PASS"),
        ("rate-error <= 0.04%", "PASS"),
        ("rate-error < 399ppm", "FAIL"),
        ("rate.received >= 998pps", "PASS"),
        ("rate.received >= 1kpps", "FAIL"),
        ("rate.sent >= 672kbps@line", "PASS"),
        ("rate.sent >= 672kbps", "FAIL"),
        ("rate.received > 143kbps@payload", "PASS"),
        ("delay.p99 < 2ms", "PASS"),
        ("delay.p99 < 1.9ms", "FAIL"),
        ("delay.p95 <= 1.9ms", "PASS"),
        ("delay.p95 < 1.9ms", "FAIL"),
        ("delay.max <= 2ms", "PASS"),
        ("delay.mean > 1ms", "PASS"),
        // ten values beyond it are needed, and there are two
        ("delay.p99.9 < 1s", "UNDECIDED"),
        // nothing was measured
        ("gap.p50 < 1s", "UNDECIDED"),
        ("lateness.max < 1s", "UNDECIDED"),
    ] {
        let judged = judged(text, flow());
        assert_eq!(judged.outcome(), outcome, "{text}: {judged:?}");
        assert_eq!(judged.margin.is_some(), outcome == "FAIL", "{text}");
        assert_eq!(judged.undecided.is_some(), outcome == "UNDECIDED", "{text}");
    }
}

#[test]
fn an_unmet_one_says_by_how_much() {
    for (text, measured, margin) in [
        ("delay.p99 < 1.9ms", "1.98 ms", "80.0 µs too much"),
        ("lost == 0", "4", "4 too much"),
        ("received >= 2004", "2,001", "3 too little"),
        ("lost != 4", "4", "the same"),
    ] {
        let judged = judged(text, flow());
        assert_eq!(judged.measured, measured);
        assert_eq!(judged.margin.as_deref(), Some(margin));
    }
}

#[test]
fn what_is_not_known_is_no_pass() {
    let unreceived = FlowReport { received: None, loss: None, ..flow() };
    let unsent = FlowReport { sent: None, ..flow() };
    let why = "it has no probes".to_owned();
    let unmeasured = FlowReport { not_measured: Some(why), ..unreceived.clone() };
    for (text, flow, why) in [
        ("loss <= 100%", unreceived.clone(), "nobody received it"),
        ("received == 0", unreceived.clone(), "nobody received it"),
        ("rate.received < 1Mpps", unreceived.clone(), "nobody received it"),
        ("delay.p50 < 1s", unmeasured, "it has no probes"),
        ("sent > 0", unsent.clone(), "what was sent is not known"),
        ("interval.lost == 0", unreceived, "from 0 ns to 1.00 s: nobody received it"),
    ] {
        let judged = judged(text, flow);
        assert_eq!(judged.undecided.as_deref(), Some(why), "{text}");
    }
}

/// Duplicates that came too late hide losses: only their range is known.
#[test]
fn a_range_is_decided_where_all_of_it_agrees() {
    let loss = Loss { at_most: Some(9), ..flow().loss.unwrap() };
    let uncertain = FlowReport { loss: Some(loss), ..flow() };
    for (text, outcome) in [
        ("lost <= 9", "PASS"),
        ("lost <= 8", "UNDECIDED"),
        ("lost <= 3", "FAIL"),
        ("lost == 3", "FAIL"),
        ("lost == 5", "UNDECIDED"),
        ("lost != 5", "UNDECIDED"),
        ("lost != 3", "PASS"),
        ("loss < 0.45%", "PASS"),
        ("loss < 0.44%", "UNDECIDED"),
    ] {
        assert_eq!(judged(text, uncertain.clone()).outcome(), outcome, "{text}");
    }
}

/// Between hosts a delay is known to within the offset of their clocks.
#[test]
fn a_delay_is_as_uncertain_as_the_clocks() {
    let mut across = flow();
    let received = across.received.as_mut().unwrap();
    received.one_way_delay_ns = Some(delays().certain_from(100_000));
    for (text, outcome) in [
        ("delay.p99 < 2.1ms", "PASS"),
        ("delay.p99 < 2ms", "UNDECIDED"),
        ("delay.p99 < 1.8ms", "FAIL"),
        ("delay.min < 1ms", "UNDECIDED"),
    ] {
        assert_eq!(judged(text, across.clone()).outcome(), outcome, "{text}");
    }
}

#[test]
fn the_worst_interval_decides() {
    for (text, outcome, measured) in [
        (
            "interval.loss <= 1%",
            "FAIL",
            "50.0 % from 1.00 s to 2.00 s; not met in 1 of 3 intervals",
        ),
        ("interval.loss <= 50%", "PASS", "at worst 50.0 % (from 1.00 s to 2.00 s, of 3 intervals)"),
        ("interval.lost == 0", "FAIL", "500 from 1.00 s to 2.00 s; not met in 1 of 3 intervals"),
        (
            "interval.duplication == 0%",
            "FAIL",
            "5.00 % from 1.00 s to 2.00 s; not met in 1 of 3 intervals",
        ),
        (
            "interval.reordering <= 1%",
            "PASS",
            "at worst 1.00 % (from 1.00 s to 2.00 s, of 3 intervals)",
        ),
        // the flow was not under way in all of the third
        (
            "interval.rate.sent >= 1kpps",
            "PASS",
            "at worst 1.00000 kpps (from 0 ns to 1.00 s, of 2 intervals)",
        ),
        (
            "interval.rate.received >= 900pps",
            "FAIL",
            "500 pps from 1.00 s to 2.00 s; not met in 1 of 2 intervals",
        ),
        (
            "interval.rate.received >= 336kbps@line",
            "PASS",
            "at worst 336 kbit/s (from 1.00 s to 2.00 s, of 2 intervals)",
        ),
        (
            "interval.delay.max < 1ms",
            "PASS",
            "at worst 7.00 µs (from 0 ns to 1.00 s, of 3 intervals)",
        ),
        ("interval.delay.p50 < 1ms", "UNDECIDED", "nothing was measured"),
    ] {
        let judged = judged(text, flow());
        assert_eq!((judged.outcome(), &*judged.measured), (outcome, measured), "{text}");
    }
    let empty = Report { intervals: Vec::new(), ..report(flow()) };
    let expected = Expectations::of_all(vec!["interval.lost == 0".parse().unwrap()]);
    let mut empty = empty;
    expected.judge(&mut empty, None);
    assert_eq!(empty.total.expectations[0].outcome(), "UNDECIDED");
}

/// With none of these `--abort-on-fail` ends nothing, which is told before the run.
#[test]
fn what_is_judged_at_the_end_aborts_nothing() {
    for (text, aborts) in [
        ("interval.loss <= 1%", true),
        ("interval.delay.p99 < 1ms", true),
        ("interval.rate.received >= 1kpps", false),
        ("loss <= 1%", false),
        ("duration <= 10s", true),
        ("duration > 10s", false),
    ] {
        assert_eq!(Expectations::of_all(vec![text.parse().unwrap()]).can_abort(), aborts, "{text}");
    }
    assert!(!Expectations::default().can_abort());
    for (text, aborts) in [
        ("interval.rate.opened > 1/s", false),
        ("interval.failed == 0", true),
        ("interval.response.p99 < 1ms", true),
        ("response.p99 < 1ms", false),
        ("failed == 0", true),
        ("failed <= 1%", false),
        ("established >= 1000", false),
        ("refused == 0", false),
        ("duration < 10s", true),
        ("duration > 10s", false),
    ] {
        assert_eq!(of_sessions(text).can_abort(), aborts, "{text}");
    }
}

/// What is expected of the group `web`.
fn of_sessions(expected: &str) -> Expectations {
    let text = format!(
        "ports: {{ a: {{}} }}\nsessions: {{ web: {{ from: a, servers: {{ addresses: 10.0.0.2, ports: 80 }}, program: echo, \
         users: 1, expect: [ '{expected}' ] }} }}\n"
    );
    Expectations::of(&Scenario::from_yaml(&text, "").unwrap())
}

/// What only grows is broken for good as soon as the intervals together are above its limit, and not before.
#[test]
fn the_intervals_together_break_what_is_expected_of_the_whole_run() {
    let interval = |to_ns: u64, failed: u64| Interval {
        from_ns: to_ns - 1_000_000_000,
        to_ns,
        sessions: vec![SessionInterval { name: "web".to_owned(), failed, ..Default::default() }],
        ..Interval::empty()
    };
    let broken = |text: &str| {
        let expected = of_sessions(text);
        let mut sums = Sums::default();
        let mut each = |(second, failed): (u64, u64)| {
            expected.broken_by(&interval(second * 1_000_000_000, failed), &mut sums)
        };
        [(1, 0), (2, 2), (3, 1), (4, 0)].map(&mut each).map(|broken| broken.is_some())
    };
    for (text, each) in [
        ("failed == 0", [false, true, true, true]),
        ("failed == 2", [false, false, true, true]),
        ("failed < 3", [false, false, true, true]),
        ("failed <= 3", [false; 4]),
        ("failed >= 5", [false; 4]),
        ("established >= 5", [false; 4]),
        ("failed <= 10%", [false; 4]),
        ("interval.failed <= 1", [false, true, false, false]),
    ] {
        assert_eq!(broken(text), each, "{text}");
    }
}

/// What is told while a run goes on.
#[derive(Debug, Default)]
struct Noted(Vec<String>);

impl Observer for Noted {
    fn progress(&mut self, _: &Progress) {}

    fn notice(&mut self, message: &str) {
        self.0.push(message.to_owned());
    }
}

/// Who waits for a minute to be told "undecided" could have been told after two seconds; the first may be a part of an interval.
#[test]
fn intervals_with_too_few_values_are_told_of_once_while_the_run_goes_on() {
    let expected = of_sessions("interval.response.p99 < 1ms");
    let (stop, mut noted) = (Stop::new(), Noted::default());
    let mut watching = Watching::new(&mut noted, &expected, Some(&stop));
    for second in 1..5 {
        let response_ns = Some(Stats { count: 50, ..delays() });
        let web = SessionInterval { name: "web".to_owned(), response_ns, ..Default::default() };
        watching.interval(&Interval {
            from_ns: (second - 1) * 1_000_000_000,
            to_ns: second * 1_000_000_000,
            sessions: vec![web],
            ..Interval::empty()
        });
        assert!(!stop.asked());
    }
    assert_eq!(noted.0.len(), 1, "{noted:?}");
    let told = "undecided in each interval like the last one: web: interval.response.p99 < 1ms: p99 needs 1,000 values, and there are 50; \
                expect interval.response.max or interval.response.p50";
    assert!(noted.0[0].starts_with(told), "{noted:?}");
}

/// A limit of the time that a run takes ends it when that is over, not an interval later.
#[test]
fn a_run_that_takes_too_long_is_asked_to_stop_at_once() {
    let expected = of_sessions("duration <= 2s");
    let (stop, mut noted) = (Stop::new(), Noted::default());
    let mut watching = Watching::new(&mut noted, &expected, Some(&stop));
    assert!(watching.watches());
    for (ms, asked) in [(1000, false), (2000, false), (2001, true), (2500, true)] {
        let elapsed = Nanos::from_millis(ms);
        watching.progress(&Progress { elapsed, ..Progress::default() });
        assert_eq!(stop.asked(), asked, "{ms}");
    }
    assert_eq!(noted.0, ["ended by --abort-on-fail: web: duration <= 2s"]);
    // of flows, and of the tightest limit
    let limits = ["duration < 5s", "duration <= 2s", "duration > 1s", "lost == 0"];
    let all = limits.map(|limit| limit.parse().unwrap()).to_vec();
    let longest = Expectations::of_all(all).longest();
    assert_eq!(longest, Some((Nanos::from_secs(2), "duration <= 2s".to_owned())));
}

/// Programs get numbers, in base units; where a percentile has too few values, what they come to and what can be expected instead.
#[test]
fn an_expectation_has_numbers_too() {
    let few = |count: u64| {
        let mut flow = flow();
        let received = flow.received.as_mut().unwrap();
        received.one_way_delay_ns = Some(Stats { count, ..delays() });
        flow
    };
    for (text, flow, numbers, unit) in [
        ("delay.p99 < 1.9ms", flow(), (Some(1.98e6), 1.9e6), "ns"),
        ("lost == 0", flow(), (Some(4.0), 0.0), "count"),
        ("loss <= 0.1%", flow(), (Some(4.0 / 2004.0), 0.001), "ratio"),
        ("rate.received >= 1kpps", flow(), (Some(998.0), 1000.0), "per second"),
        ("rate.sent >= 672kbps@line", flow(), (Some(1000.4 * 672.0), 672e3), "bit/s"),
        ("interval.loss <= 1%", flow(), (Some(0.5), 0.01), "ratio"),
        ("delay.p99 < 1ms", few(86), (Some(1.98e6), 1e6), "ns"),
        ("gap.p50 < 1s", flow(), (None, 1e9), "ns"),
    ] {
        let judged = judged(text, flow);
        assert_eq!((judged.measured_value, judged.limit), (numbers.0, Some(numbers.1)), "{text}");
        assert_eq!(judged.unit.as_deref(), Some(unit), "{text}");
    }
    for (text, count, measured, told) in [
        (
            "delay.p99 < 1ms",
            86,
            "1.98 ms of 86 values",
            "p99 needs 1,000 values, and there are 86; expect delay.max or delay.p50, or measure more",
        ),
        (
            "delay.p99 < 1ms",
            1,
            "1.98 ms of 1 value",
            "p99 needs 1,000 values, and there is 1; expect delay.max, or measure more",
        ),
        (
            "delay.p1 < 1ms",
            86,
            "86 values",
            "p1 needs 1,000 values, and there are 86; expect delay.min, or measure more",
        ),
    ] {
        let judged = judged(text, few(count));
        assert_eq!((&*judged.measured, judged.undecided.as_deref()), (measured, Some(told)));
        assert!(judged.found().starts_with("measured "), "{}", judged.found());
    }
}

/// In runs of more than 256 flows: what is not there was taken for nothing lost.
#[test]
fn intervals_without_single_flows_decide_nothing_of_one() {
    let mut report = report(flow());
    report.intervals.iter_mut().for_each(|interval| interval.flows.clear());
    let expected = FlowExpectation::from_str("interval.duplicates <= 25").unwrap();
    let mut expectations = Expectations::of_all(vec![expected.clone()]);
    expectations.of_flows.insert("voice".to_owned(), vec![expected]);
    expectations.judge(&mut report, None);
    assert_eq!(report.total.expectations[0].outcome(), "PASS");
    assert_eq!(report.flows[0].expectations[0].outcome(), "UNDECIDED");
}

#[test]
fn an_expectation_that_is_not_met_decides_the_exit_code() {
    let scenario = |expect: &str| {
        let yaml = format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
             flows: {{ voice: {{ from: a, to: b, rate: 1kpps }} }}\nexpect: [ {expect} ]\n"
        );
        Scenario::from_yaml(&yaml, "a.yaml").unwrap()
    };
    for (expect, verdict, code) in [
        ("'lost == 4', 'voice: delay.p99 < 2ms'", Verdict::Done, 0),
        ("'lost == 4', voice: delay.p99 < 1ms", Verdict::Unmet, 4),
        ("'*: lost == 0'", Verdict::Unmet, 4),
        ("'delay.p99.9 < 1s'", Verdict::Unmet, 4),
        ("'duration <= 3s', 'voice: duration >= 3s'", Verdict::Done, 0),
        ("'duration <= 2999ms'", Verdict::Unmet, 4),
    ] {
        let mut report = report(flow());
        Expectations::of(&scenario(expect)).judge(&mut report, None);
        assert_eq!((report.verdict, report.exit_code), (verdict, code), "{expect}");
    }
    // what went wrong counts more
    let mut report = Report { verdict: Verdict::Unfinished, exit_code: 1, ..report(flow()) };
    Expectations::of(&scenario("'lost == 0'")).judge(&mut report, None);
    assert_eq!((report.verdict, report.exit_code), (Verdict::Unfinished, 1));
}

/// How long a run takes is asked of it without a name, though it has several groups of sessions, or of one or each of them.
#[test]
fn how_long_a_run_of_sessions_took_is_held_against_a_limit() {
    let scenario = |groups: &str, expect: &str| {
        let yaml = format!(
            "ports: {{ a: {{}} }}\nsessions:\n{groups}expect: [ {expect} ]\nrun: {{ time: 1s }}\n"
        );
        Scenario::from_yaml(&yaml, "a.yaml").unwrap_or_else(|error| panic!("{error}"))
    };
    let group = |name: &str| {
        format!(
            "  {name}: {{ from: a, servers: {{ addresses: 10.0.0.2, ports: 80 }}, program: http, count: 1 }}\n"
        )
    };
    let two = group("web") + &group("mail");
    for (groups, expect, outcomes) in [
        (group("web"), "'duration <= 3s'", vec!["web: duration <= 3s PASS"]),
        (group("web"), "'duration < 3s'", vec!["web: duration < 3s FAIL"]),
        (two.clone(), "'duration <= 3s'", vec!["duration <= 3s PASS"]),
        (two.clone(), "'duration < 2s'", vec!["duration < 2s FAIL"]),
        (
            two,
            "'*: duration <= 2s', 'mail: duration <= 4s'",
            vec![
                "web: duration <= 2s FAIL",
                "mail: duration <= 2s FAIL",
                "mail: duration <= 4s PASS",
            ],
        ),
    ] {
        let scenario = scenario(&groups, expect);
        let mut report = report(FlowReport::default());
        report.flows.clear();
        report.sessions = scenario
            .sessions
            .keys()
            .map(|name| SessionReport { name: name.clone(), ..SessionReport::default() })
            .collect();
        Expectations::of(&scenario).judge(&mut report, None);
        let found: Vec<String> = report
            .expectations()
            .map(|one| format!("{} {}", one.text(), one.expectation.outcome()))
            .collect();
        assert_eq!(found, outcomes);
        let all_met = !outcomes.iter().any(|one| one.ends_with("FAIL"));
        assert_eq!(report.exit_code, if all_met { 0 } else { 4 });
        let margin = report.expectations().find_map(|one| one.expectation.margin.clone());
        assert_eq!(margin.is_some(), !all_met);
    }
}

/// A second in which half of the frames were lost, in a run whose report has intervals of eight seconds.
#[test]
fn intervals_that_a_report_has_merged_are_judged_one_by_one() {
    let second = |number: u64, sent: u64, received: u64| Interval {
        from_ns: number * 1_000_000_000,
        to_ns: (number + 1) * 1_000_000_000,
        ..interval_of(sent, received)
    };
    let mut live: Vec<Interval> = (0..64).map(|number| second(number, 1000, 1000)).collect();
    live[20] = second(20, 1000, 500);
    // before the first departure and after the last, where no rate is asked for
    live[0] = second(0, 0, 0);
    live[63] = second(63, 0, 0);
    let merged = (0..8).map(|number| Interval {
        from_ns: number * 8_000_000_000,
        to_ns: (number + 1) * 8_000_000_000,
        ..interval_of(8000, 8000)
    });
    for (text, outcome, measured) in [
        (
            "interval.rate.received >= 900pps",
            "FAIL",
            "500 pps from 20.0 s to 21.0 s; not met in 1 of 62 intervals",
        ),
        (
            "interval.loss <= 1%",
            "FAIL",
            "50.0 % from 20.0 s to 21.0 s; not met in 1 of 62 intervals",
        ),
        ("interval.lost <= 500", "PASS", "at worst 500 (from 20.0 s to 21.0 s, of 64 intervals)"),
        (
            "interval.rate.sent >= 1kpps",
            "PASS",
            "at worst 1.00000 kpps (from 1.00 s to 2.00 s, of 62 intervals)",
        ),
    ] {
        let mut flow = flow();
        let sent = flow.sent.as_mut().unwrap();
        (sent.first_departure_ns, sent.last_departure_ns) =
            (Some(1_000_000_000), Some(62_995_000_000));
        let mut report = report(flow);
        report.intervals = merged.clone().collect();
        for expected in [
            Expectations::of_all(vec![text.parse().unwrap()]),
            Expectations {
                of_flows: BTreeMap::from([("voice".to_owned(), vec![text.parse().unwrap()])]),
                ..Expectations::default()
            },
        ] {
            let mut watched = Watched::new(&expected).unwrap();
            live.iter().for_each(|interval| watched.note(&expected, interval));
            expected.judge(&mut report, Some(&watched));
            let judged = report.total.expectations.iter().chain(&report.flows[0].expectations);
            let judged: Vec<_> = judged.collect();
            assert_eq!(judged.len(), 1);
            assert_eq!((judged[0].outcome(), &*judged[0].measured), (outcome, measured), "{text}");
        }
    }
}

/// Where the report tells all apart, it has been corrected since they ended.
#[test]
fn intervals_that_a_report_tells_apart_are_judged_by_it() {
    let expected = Expectations::of_all(vec!["interval.lost == 0".parse().unwrap()]);
    let mut watched = Watched::new(&expected).unwrap();
    let mut report = report(flow());
    report.intervals = vec![Interval { to_ns: 1_000_000_000, ..interval_of(1000, 1000) }];
    watched.note(&expected, &Interval { to_ns: 1_000_000_000, ..interval_of(1000, 999) });
    expected.judge(&mut report, Some(&watched));
    assert_eq!(report.total.expectations[0].outcome(), "PASS");
}

/// An interval in which a flow and the total sent and received so many frames.
fn interval_of(sent: u64, received: u64) -> Interval {
    let of = |name: &str| FlowInterval {
        name: name.to_owned(),
        sent: Some(IntervalSent { frames: sent, frame_bytes: sent * 64 }),
        received: Some(IntervalReceived {
            frames: received,
            frame_bytes: received * 64,
            unique: received,
            ..IntervalReceived::default()
        }),
        lost: Some(sent as i64 - received as i64),
        extremes: None,
    };
    Interval {
        from_ns: 0,
        to_ns: 0,
        total: of("total"),
        flows: vec![of("voice")],
        sessions: Vec::new(),
        stacks: Vec::new(),
        expired: None,
        cpus: None,
    }
}
