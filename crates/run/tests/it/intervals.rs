//! The intervals of runs: that they add up to the whole is held in every test that holds its counters against each other
//! ([`add_up`]); here is what each of them has to say for itself.

use std::collections::BTreeMap;

use wirebeat_engine::loopback::Link;
use wirebeat_report::model::{End, FlowInterval, Interval, Report};
use wirebeat_run::{Observer, Options, Progress, Stop, prepare};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::world::{Engine, balanced, cable, ports};

type Count = fn(&FlowInterval) -> Option<u64>;

/// That the intervals of a report add up to the whole, flow by flow, and follow each other.
pub fn add_up(report: &Report) {
    let counts: [(Count, &str); 8] = [
        (|one| Some(one.sent?.frames), "sent"),
        (|one| Some(one.sent?.frame_bytes), "bytes sent"),
        (|one| Some(one.received.as_ref()?.frames), "received"),
        (|one| Some(one.received.as_ref()?.frame_bytes), "bytes received"),
        (|one| Some(one.received.as_ref()?.unique), "unique"),
        (|one| Some(one.received.as_ref()?.duplicates), "duplicates"),
        (|one| Some(one.received.as_ref()?.reordered), "reordered"),
        (|one| Some(one.received.as_ref()?.one_way_delay_ns.as_ref()?.count), "delays"),
    ];
    // of very many flows there is the total alone
    let told_apart = report.intervals.iter().any(|interval| !interval.flows.is_empty());
    for flow in report.flows.iter().filter(|_| told_apart).chain([&report.total]) {
        let of: Vec<&FlowInterval> = report
            .intervals
            .iter()
            .flat_map(|interval| interval.flows.iter().chain([&interval.total]))
            .filter(|one| one.name == flow.name)
            .collect();
        let (sent, received) = (flow.sent.as_ref(), flow.received.as_ref());
        let whole = [
            sent.map(|sent| sent.sent.frames),
            sent.map(|sent| sent.sent.frame_bytes),
            received.map(|received| received.received.frames),
            received.map(|received| received.received.frame_bytes),
            received.map(|received| received.unique),
            received.map(|received| received.duplicates),
            received.map(|received| received.reordered),
            received.and_then(|received| Some(received.one_way_delay_ns.as_ref()?.count)),
        ];
        for ((count, what), whole) in counts.iter().zip(whole) {
            let sum: u64 = of.iter().filter_map(|one| count(one)).sum();
            assert_eq!(sum, whole.unwrap_or(sum), "{what} of {}: {of:#?}", flow.name);
        }
        let lost: i64 = of.iter().filter_map(|one| one.lost).sum();
        let whole = flow.loss.map_or(lost, |loss| loss.frames as i64);
        assert_eq!(lost, whole, "lost of {}: {of:#?}", flow.name);
    }
    let expired: u64 = report.intervals.iter().filter_map(|interval| interval.expired).sum();
    let whole = report.total.sent.as_ref().map_or(expired, |sent| sent.expired);
    assert_eq!(expired, whole, "{:#?}", report.intervals);
    for (one, next) in report.intervals.iter().zip(report.intervals.iter().skip(1)) {
        assert!(one.from_ns < one.to_ns && one.to_ns == next.from_ns, "{one:#?} {next:#?}");
    }
}

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Told {
    intervals: Vec<Interval>,
    /// Stops the run once it was told so many.
    most: Option<(usize, Stop)>,
}

impl Observer for Told {
    fn progress(&mut self, _progress: &Progress) {}

    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
        if let Some((_, stop)) =
            self.most.as_ref().filter(|(most, _)| self.intervals.len() >= *most)
        {
            stop.ask(2);
        }
    }
}

/// Runs a scenario in intervals of `interval`, and gives what was told while it ran.
fn told(
    text: &str,
    bed: Option<&Testbed>,
    (interval, loopback): (Nanos, Link),
    most: Option<usize>,
) -> (Report, Vec<Interval>) {
    let scenario = Scenario::from_yaml(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let mut namespaces = BTreeMap::new();
    if let Some(bed) = bed {
        namespaces.insert("a".to_owned(), bed.a.namespace.clone());
        namespaces.insert("b".to_owned(), bed.b.namespace.clone());
    }
    let interval = Some(interval);
    let options = Options { namespaces, interval, loopback, ..Options::default() };
    let stop = Stop::new();
    let most = most.map(|most| (most, stop.clone()));
    let mut told = Told { most, ..Told::default() };
    let report = prepare(&scenario, options).unwrap().start(&mut told, &stop);
    balanced(&report);
    (report, told.intervals)
}

fn flow(name: &str, more: &str) -> String {
    format!(
        "  {name}: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], {more} }}\n"
    )
}

/// A day in intervals of a second are 86,400 of them, on a link that loses, repeats and swaps frames.
#[test]
fn a_long_run_has_a_bounded_number_of_intervals_that_add_up() {
    let text = format!(
        "{}flows:\n{}run: {{ time: 24h }}\n",
        ports(Engine::Loopback, ""),
        flow("x", "rate: 1pps")
    );
    let link =
        Link { delay: Nanos::from_millis(3), lose_every: 10, duplicate_every: 7, swap_every: 13 };
    let (report, told) = told(&text, None, (Nanos::from_secs(1), link), None);
    let frames = report.total.sent.as_ref().unwrap().sent.frames;
    assert_eq!(frames, 86_400);
    assert!((256..=512).contains(&report.intervals.len()), "{}", report.intervals.len());
    let length = report.intervals[0].to_ns;
    assert_eq!(length, 256_000_000_000);
    assert_eq!(report.intervals.last().unwrap().to_ns, 86_400_000_000_000);
    for interval in &report.intervals[..report.intervals.len() - 1] {
        let total = &interval.total;
        assert_eq!(interval.to_ns - interval.from_ns, length);
        // the first frame leaves at once; each tenth is lost, and a swap may cross the end
        assert!((255..=257).contains(&total.sent.unwrap().frames), "{interval:#?}");
        assert!((24..=27).contains(&total.lost.unwrap()), "{interval:#?}");
    }
    // before, they are told apart as far as there is room for them, and add up to the same
    assert_eq!(told.len(), 43_200);
    let sum = |all: &[Interval], of: fn(&FlowInterval) -> i64| -> i64 {
        all.iter().map(|interval| of(&interval.total)).sum()
    };
    let counts: [fn(&FlowInterval) -> i64; 3] = [
        |of| of.sent.unwrap().frames as i64,
        |of| of.received.as_ref().unwrap().frames as i64,
        |of| of.lost.unwrap(),
    ];
    for of in counts {
        assert_eq!(sum(&told, of), sum(&report.intervals, of));
    }
}

/// Sending ends in the middle of an interval, and frames are under way beyond the end of it.
#[test]
fn what_arrives_after_sending_ended_is_in_the_next_interval_without_a_gap() {
    let text =
        format!("{}flows:\n{}", ports(Engine::Loopback, ""), flow("x", "rate: 500pps, count: 20"));
    let link = Link { delay: Nanos::from_millis(25), ..Link::default() };
    let (report, _) = told(&text, None, (Nanos::from_millis(10), link), None);
    let times: Vec<(u64, u64)> = report
        .intervals
        .iter()
        .map(|one| (one.from_ns / 1_000_000, one.to_ns / 1_000_000))
        .collect();
    // the last of 20 frames leaves at 38 ms, and arrives 25 ms later
    let (sending, after) = times.split_at(4);
    assert_eq!(sending, [(0, 10), (10, 20), (20, 30), (30, 38)]);
    assert_eq!(after.first().map(|(from, _)| *from), Some(38), "{times:?}");
}

/// Intervals are those of the schedule on a virtual clock, to the frame.
#[test]
fn each_interval_has_its_own_frames_and_delays() {
    let text = format!(
        "{}flows:\n{}{}run: {{ interval: 100ms }}\n",
        ports(Engine::Loopback, ""),
        flow("steady", "rate: 1kpps, stop: 500ms"),
        flow("later", "rate: 2kpps, start: 200ms, stop: 400ms"),
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    let loopback = Link { delay: Nanos::from_micros(700), ..Link::default() };
    let options = Options { loopback, ..Options::default() };
    let mut told = Told::default();
    let report = prepare(&scenario, options).unwrap().start(&mut told, &Stop::new());
    balanced(&report);
    let frames: Vec<_> = report
        .intervals
        .iter()
        .map(|interval| {
            let of = |name: &str| {
                let flow = interval.flows.iter().find(|flow| flow.name == name);
                flow.map_or(0, |flow| flow.sent.unwrap().frames)
            };
            (interval.from_ns / 1_000_000, of("steady"), of("later"))
        })
        .collect();
    assert_eq!(
        frames,
        [(0, 100, 0), (100, 100, 0), (200, 100, 200), (300, 100, 200), (400, 100, 0)]
    );
    for interval in &report.intervals {
        let delay = interval.total.received.as_ref().unwrap().one_way_delay_ns.as_ref().unwrap();
        let median = delay.percentiles.p50.unwrap();
        assert!((697_000..=703_000).contains(&median), "{delay:#?}");
        assert!(delay.histogram.is_empty());
    }
    assert_eq!(told.intervals, report.intervals);
}

/// What is told while it runs is what the report has in the end, and the whole even if somebody stops it.
fn a_stopped_run_adds_up(engine: Engine) {
    let bed = cable();
    let text = format!(
        "{}flows:\n{}{}run: {{ time: 60s }}\n",
        ports(engine, ""),
        flow("steady", "rate: 5kpps"),
        flow("other", "rate: 1kpps"),
    );
    let (report, told) =
        told(&text, Some(&bed), (Nanos::from_millis(100), Link::default()), Some(6));
    assert_eq!(report.end, End::Stopped { signal: "SIGINT".to_owned() });
    assert!(report.intervals.len() >= 6, "{:#?}", report.intervals);
    assert_eq!(told.len(), report.intervals.len());
    for (told, kept) in told.iter().zip(&report.intervals) {
        assert_eq!((told.from_ns, &told.total.sent), (kept.from_ns, &kept.total.sent));
        assert_eq!(told.flows.len(), kept.flows.len());
    }
    // all but the last have their percentiles and a share of a CPU
    for interval in &report.intervals[..5] {
        let received = interval.total.received.as_ref().unwrap();
        let delay = received.one_way_delay_ns.as_ref().unwrap();
        assert!(delay.percentiles.p50.is_some() && delay.percentiles.p99.is_some(), "{delay:#?}");
        assert!(interval.cpus.is_some());
    }
}

#[test]
fn a_stopped_run_of_the_kernel_engine_adds_up() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    a_stopped_run_adds_up(Engine::Kernel);
}

#[test]
fn a_stopped_run_of_the_packet_engine_adds_up() {
    require!(Capability::NetworkNamespaces);
    a_stopped_run_adds_up(Engine::Packet);
}

#[test]
fn a_stopped_run_of_the_socket_engine_adds_up() {
    require!(Capability::NetworkNamespaces);
    a_stopped_run_adds_up(Engine::Socket);
}
