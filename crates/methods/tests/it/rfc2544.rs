//! Devices with known limits: what a test finds is held against what the limit is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wirebeat_device::{Device, Limits, TokenBucket};
use wirebeat_methods::rfc2544::{MLR, Measured, Rfc2544, Watch};
use wirebeat_methods::{Goal, MaxLoad};
use wirebeat_report::model::{End, Verdict};
use wirebeat_report::test_report::{SearchOutcome, SizeReport, TestReport};
use wirebeat_run::{Observer, Options, Progress, Silent, Stop};
use wirebeat_testbed::{Capability, ImpairedCable, Impairment, Program, Testbed, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::{FrameRate, Nanos, Rate};

/// Bits on the line of a frame of 64 bytes: 8 of preamble, 12 of gap (IEEE 802.3).
const BITS: u64 = (64 + 20) * 8;

fn device(there: Impairment) -> ImpairedCable {
    let options = wirebeat_testbed::Options::default();
    ImpairedCable::new(&options, there, Impairment::default()).unwrap()
}

/// One test at a time: another one that floods its device would make this one's sender late.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device whose limits are known.
fn known(limits: Limits) -> Device {
    Device::new(&wirebeat_testbed::Options::default(), limits).unwrap()
}

/// So many frames a second, of which so many may leave at once.
fn tokens(frames_per_second: u64, depth: u64) -> TokenBucket {
    let (bits_per_second, depth) = (frames_per_second * BITS, depth * BITS / 8);
    TokenBucket { bits_per_second, depth, ..TokenBucket::default() }
}

fn frames(frames: u64) -> MaxLoad {
    MaxLoad::Rate(Rate::Frames(FrameRate { frames, per: Nanos::from_secs(1) }))
}

/// The one flow of most tests.
const FLOW: &str =
    "x: { from: a, to: b, packet: [ { ipv4: { destination: 10.77.0.2 } }, { udp: {} } ] }";

fn method(trial: Nanos, max: MaxLoad) -> Rfc2544 {
    with(FLOW, "64B", (trial, max))
}

/// Flows with frames of a size.
fn with(flows: &str, size: &str, (trial, max): (Nanos, MaxLoad)) -> Rfc2544 {
    let ports = "ports: { a: { interface: wb0, namespace: a, engine: packet }, b: { interface: wb1, namespace: b, engine: packet } }";
    let text = format!("{ports}\nflows: {{ {flows} }}\nrun: {{ settle: 100ms }}\n");
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let size = (size.to_owned(), size.parse().unwrap());
    Rfc2544 {
        version: "test".to_owned(),
        ..Rfc2544::throughput(scenario, size, (trial, max, 0.005))
    }
}

fn options(bed: &Testbed) -> Options {
    let namespaces = [("a", &bed.a.namespace), ("b", &bed.b.namespace)];
    let namespaces = namespaces.map(|(name, namespace)| (name.to_owned(), namespace.clone()));
    Options { namespaces: BTreeMap::from(namespaces), ..Options::default() }
}

fn test(method: &Rfc2544, bed: &Testbed) -> TestReport {
    let mut keep = |_: &TestReport| {};
    let watch = Watch { observer: &mut Silent, stop: &Stop::new(), keep: &mut keep };
    method.run(options(bed), None, watch).unwrap_or_else(|error| panic!("{error}"))
}

fn only(report: &TestReport) -> &SizeReport {
    assert_eq!(report.sizes.len(), 1);
    &report.sizes[0]
}

/// A bucket of 50 ms, so that the sender may be late. It lets a little more through than the line carries: in trials of T, a line of N
/// frames a second with a depth of D bears N + D/T.
fn throughput_of_a_line(rate: u64) {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let (trial, depth) = (Nanos::from_secs(2), rate / 20);
    let device = known(Limits { bucket: Some(tokens(rate, depth)), ..Limits::default() });
    let mut method = method(trial, frames(rate * 40));
    method.required = Some(Rate::Frames(FrameRate { frames: rate / 2, per: Nanos::from_secs(1) }));
    let report = test(&method, &device.bed);
    let found = &only(&report).throughput[0];
    assert_eq!(found.outcome, SearchOutcome::Found, "{:#?}", only(&report).trials);
    let borne = rate as f64 + depth as f64 / (trial.get() as f64 / 1e9);
    let error = found.lower.unwrap() / borne - 1.0;
    assert!(error.abs() < 0.01, "{error} of {borne}: {:#?}", only(&report).trials);
    assert_eq!((report.verdict, report.exit_code), (Verdict::Done, 0));
}

#[test]
fn the_throughput_of_a_slow_line_is_found() {
    throughput_of_a_line(200);
}

#[test]
fn the_throughput_of_a_line_is_found() {
    throughput_of_a_line(2_000);
}

#[test]
fn the_throughput_of_a_fast_line_is_found() {
    throughput_of_a_line(20_000);
}

/// Three searches for one limit, which the mean is near, and what one search cannot say: how sure that is.
#[test]
fn a_throughput_is_searched_for_several_times() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let (rate, trial) = (2_000, Nanos::from_secs(1));
    let device = known(Limits { bucket: Some(tokens(rate, rate / 20)), ..Limits::default() });
    // each begins with a full bucket
    let pause = Nanos::from_millis(100);
    let method = Rfc2544 { searches: 3, pause, ..method(trial, frames(rate * 4)) };
    let report = test(&method, &device.bed);
    let found = &only(&report).throughput[0];
    let searches = found.searches.as_ref().unwrap();
    assert_eq!(searches.each.len(), 3, "{searches:?}");
    assert!(searches.each.iter().all(|one| one.outcome == SearchOutcome::Found), "{searches:?}");
    let lowest = searches.each.iter().filter_map(|one| one.lower).fold(f64::INFINITY, f64::min);
    assert_eq!(found.lower, Some(lowest));
    let borne = rate as f64 * 1.05;
    let (mean, within) = (searches.mean.unwrap(), searches.within.unwrap());
    assert!((mean / borne - 1.0).abs() < 0.01 && within < 0.05 * borne, "{searches:?}");
}

/// A line of so many bits a second with a depth of a twentieth of that, which trials of a second therefore find 5 % faster.
/// `exact`: how far what is found may be from that, as a share.
fn borne_of_a_line(flows: &str, size: &str, (bits_per_second, exact): (u64, f64)) -> TestReport {
    let depth = bits_per_second / 8 / 20;
    let bucket = TokenBucket { bits_per_second, depth, ..TokenBucket::default() };
    let device = known(Limits { bucket: Some(bucket), ..Limits::default() });
    let method = with(flows, size, (Nanos::from_secs(1), frames(20_000)));
    let report = test(&method, &device.bed);
    let found = &only(&report).throughput[0];
    assert_eq!(found.outcome, SearchOutcome::Found, "{:#?}", only(&report).trials);
    let error = found.line_bits_per_second.unwrap() / (bits_per_second as f64 * 1.05) - 1.0;
    assert!(error.abs() < exact, "{error}: {:#?}", only(&report).trials);
    report
}

/// The line limits the way there. Each port sends the load, so that twice as much goes through the device.
#[test]
fn both_ways_are_loaded_at_once() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let back =
        "y: { from: b, to: a, packet: [ { ipv4: { destination: 10.77.0.1 } }, { udp: {} } ] }";
    let report = borne_of_a_line(&format!("{FLOW}, {back}"), "64B", (2_000 * BITS, 0.015));
    let size = only(&report);
    assert_eq!(size.sending_ports, 2);
    for trial in &size.trials {
        assert!((trial.sent as f64 / trial.offered - 2.0).abs() < 0.01, "{trial:?}");
    }
}

/// Seven of 64, four of 594 and one of 1518 bytes: the line bears as many bits as with frames of one size. The sizes of a trial are drawn, and
/// the mean of 2,700 of them is within 6 % of what it is in the long run (three standard errors).
#[test]
fn a_mix_of_sizes_is_borne_as_its_bits_are() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let report = borne_of_a_line(FLOW, "imix", (8_000_000, 0.06));
    let mean = only(&report).frame_bytes.unwrap();
    assert!((350.0..375.0).contains(&mean), "{mean}");
}

#[test]
fn frames_of_ipv6_have_their_own_smallest_size() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let flow = "x: { from: a, to: b, packet: [ { ethernet: { source: 02:00:00:00:00:01, destination: 02:00:00:00:00:02 } }, \
                { ipv6: { source: '2001:db8::1', destination: '2001:db8::2' } }, { udp: { destination: 9 } } ] }";
    let report = borne_of_a_line(flow, "82B", (2_000 * (82 + 20) * 8, 0.015));
    assert_eq!(only(&report).frame_bytes, Some(82.0));
}

#[test]
fn jumbo_frames_pass_where_the_mtu_lets_them() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    let jumbo = wirebeat_testbed::Options { mtu: 9_000, ..Default::default() };
    let bed = Testbed::pair(&jumbo).unwrap();
    let method = with(FLOW, "9018B", (Nanos::from_millis(500), frames(1_000)));
    let report = test(&method, &bed);
    let size = only(&report);
    assert_eq!((size.skipped.as_deref(), size.frame_bytes), (None, Some(9_018.0)));
    let found = &size.throughput[0];
    assert_eq!((found.outcome, found.lower), (SearchOutcome::AtLeast, Some(1_000.0)), "{size:#?}");
}

/// Each thousandth frame is lost: a trial of twice as many finds it, whatever the load, and one that tolerates more bears all.
#[test]
fn rare_loss_is_found_and_tolerated_where_it_may_be() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let device = known(Limits { every: Some(1_000), ..Limits::default() });
    let strict = test(&method(Nanos::from_millis(500), frames(4_000)), &device.bed);
    let found = &only(&strict).throughput[0];
    // what fits between two lost frames is borne
    assert!(found.lower.is_none_or(|lower| lower < 2_000.0), "{:#?}", only(&strict).trials);
    assert!(found.upper.is_some_and(|upper| upper <= 4_000.0), "{found:#?}");
    let mut tolerant = method(Nanos::from_millis(500), frames(4_000));
    tolerant.search = MLR;
    let goal = Goal { exceed_ratio: 0.5, duration_sum: 1.5, ..tolerant.goals[0] };
    tolerant.goals = vec![Goal { loss_ratio: 0.005, ..goal }];
    let report = test(&tolerant, &device.bed);
    let found = &only(&report).throughput[0];
    assert_eq!(found.outcome, SearchOutcome::AtLeast, "{:#?}", only(&report).trials);
    let conditional = found.conditional.unwrap();
    assert!((3_990.0..4_000.0).contains(&conditional), "{conditional}");
    assert_eq!(found.loss_below, None);
}

#[test]
fn a_device_that_forwards_nothing_is_said_to() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    let device = device(Impairment { loss: 1.0, ..Impairment::default() });
    let report = test(&method(Nanos::from_millis(50), frames(1_000)), &device.bed);
    let found = &only(&report).throughput[0];
    assert_eq!((found.outcome, found.lower), (SearchOutcome::NothingBorne, None));
    assert!(report.findings.iter().any(|of| of.contains("no learning frame")), "{report:#?}");
}

#[test]
fn a_device_that_duplicates_is_said_to() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    let device = device(Impairment { duplicates: 1.0, ..Impairment::default() });
    let report = test(&method(Nanos::from_millis(200), frames(1_000)), &device.bed);
    assert_eq!(only(&report).throughput[0].outcome, SearchOutcome::AtLeast);
    assert!(report.findings.iter().any(|of| of.contains("arrived twice")), "{report:#?}");
}

/// Nothing can send so much: what the device bore is no limit of the device.
#[test]
fn a_limit_of_the_tester_is_no_throughput_of_the_device() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    let bed = Testbed::pair(&wirebeat_testbed::Options::default()).unwrap();
    let report = test(&method(Nanos::from_millis(300), frames(500_000_000)), &bed);
    let found = &only(&report).throughput[0];
    assert_eq!(found.outcome, SearchOutcome::AtLeastByTester, "{report:#?}");
    assert!(report.findings.iter().any(|of| of.contains("the tester limited")), "{report:#?}");
}

/// The depth of a bucket is what a burst may be longer than what is carried meanwhile.
#[test]
fn bursts_and_loss_rate_are_those_of_the_line() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let (rate, depth) = (2_000, 400);
    let device = known(Limits { bucket: Some(tokens(rate, depth)), ..Limits::default() });
    let mut method = method(Nanos::from_secs(1), frames(rate * 10));
    method.measured = Measured { loss_rate: true, back_to_back: true, ..Measured::default() };
    // the bucket is full again before the next trial
    method.pause = Nanos::from_millis(200);
    let report = test(&method, &device.bed);
    let size = only(&report);
    // 2,400 of 20,000, 18,000 … come through; at 10 % nothing is lost, and there is no lower one
    let first = size.loss_rate.first().unwrap();
    let lost = 1.0 - (rate + depth) as f64 / first.load;
    assert!((first.loss_ratio - lost).abs() < 0.02, "{first:?}");
    assert_eq!(size.loss_rate.len(), 10);
    let bursts = size.back_to_back.as_ref().unwrap();
    // while a burst comes in at ten times the rate, a tenth of it leaves
    let longest = depth as f64 / 0.9;
    assert!((bursts.mean.unwrap() / longest - 1.0).abs() < 0.1, "{bursts:?}");
    let corrected = bursts.corrected_buffer_ns.unwrap() / 1e9 * (rate * 10) as f64;
    assert!((corrected / depth as f64 - 1.0).abs() < 0.15, "{bursts:?}");
}

#[test]
fn the_latency_is_that_of_a_line_that_takes_its_time() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    let device = device(Impairment { delay: Duration::from_millis(5), ..Impairment::default() });
    let mut method = method(Nanos::from_millis(200), frames(500));
    method.measured = Measured { latency: true, ..Measured::default() };
    // a thread that is kept waiting may lose some
    method.goals[0].loss_ratio = 0.5;
    let report = test(&method, &device.bed);
    let latency = only(&report).latency.as_ref().unwrap();
    assert_eq!(latency.delay_ns.len(), 2);
    assert!(!latency.tagged_ns.is_empty() && latency.tagged_ns.len() <= 2, "{latency:?}");
    assert!(latency.tagged_ns.iter().all(|ns| *ns >= 5_000_000), "{latency:?}");
}

/// Nothing leaves the device for 300 ms after a frame that found no token.
#[test]
fn the_recovery_after_an_overload_is_that_of_the_device() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let bucket = TokenBucket { penalty: Duration::from_millis(300), ..tokens(2_000, 100) };
    let device = known(Limits { bucket: Some(bucket), ..Limits::default() });
    let mut method = method(Nanos::from_secs(1), frames(4_000));
    method.measured = Measured { recovery: true, ..Measured::default() };
    method.goals[0].width = 0.01;
    // the device recovers before the next trial
    method.pause = Nanos::from_millis(500);
    let report = test(&method, &device.bed);
    let recovery = only(&report).recovery.as_ref().unwrap();
    assert_eq!(recovery.times.len(), 2);
    let throughput = only(&report).throughput[0].lower.unwrap();
    assert!((recovery.overload / throughput - 1.1).abs() < 1e-3, "{recovery:?}");
    for time in &recovery.times {
        assert!(time.recovered, "{recovery:?}");
        // the parts around 300 ms are 35 ms long
        assert!((250_000_000..=300_000_000).contains(&time.least_ns), "{recovery:?}");
        assert!((280_000_000..=330_000_000).contains(&time.most_ns), "{recovery:?}");
    }
}

/// Switched off for half a second while frames are sent.
#[test]
fn a_reset_is_the_time_without_frames() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let device = known(Limits::default());
    let mut method = method(Nanos::from_millis(500), frames(1_000));
    method.measured = Measured { reset: true, ..Measured::default() };
    method.reset = Nanos::from_secs(3);
    let report = std::thread::scope(|scope| {
        let (reset, told) = std::sync::mpsc::channel();
        scope.spawn(|| {
            let told = told;
            told.recv().unwrap();
            std::thread::sleep(Duration::from_secs(1));
            device.switch(false).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            device.switch(true).unwrap();
        });
        let mut observer = ToldToReset(reset);
        let mut keep = |_: &TestReport| {};
        let watch = Watch { observer: &mut observer, stop: &Stop::new(), keep: &mut keep };
        method.run(options(&device.bed), None, watch).unwrap()
    });
    let reset = only(&report).reset.unwrap();
    assert!(reset.returned, "{reset:?}");
    let silence = reset.silence_ns.unwrap();
    assert!((490_000_000..700_000_000).contains(&silence), "{reset:?}");
}

/// Tells somebody to reset the device.
struct ToldToReset(std::sync::mpsc::Sender<()>);

impl Observer for ToldToReset {
    fn progress(&mut self, _: &Progress) {}
    fn notice(&mut self, message: &str) {
        if message.starts_with("reset the device now") {
            self.0.send(()).unwrap();
        }
    }
}

/// Killed after three trials, a test goes on with the fourth.
#[test]
fn a_test_that_was_cut_off_goes_on() {
    require!(Capability::NetworkNamespaces);
    let _alone = alone();
    // deep enough for a sender that is late
    let bucket = Some(tokens(2_000, 400));
    let device = known(Limits { bucket, ..Limits::default() });
    let method = method(Nanos::from_millis(500), frames(20_000));
    let (stop, mut kept) = (Stop::new(), None);
    let mut keep = |report: &TestReport| {
        if report.sizes[0].trials.len() == 3 {
            kept = Some(report.clone());
            stop.ask(15);
        }
    };
    let watch = Watch { observer: &mut Silent, stop: &stop, keep: &mut keep };
    let cut = method.run(options(&device.bed), None, watch).unwrap();
    assert_eq!((cut.verdict, cut.exit_code), (Verdict::Unfinished, 1));
    assert_eq!(only(&cut).throughput[0].outcome, SearchOutcome::Unfinished);
    let before = kept.unwrap();
    let mut keep = |_: &TestReport| {};
    let watch = Watch { observer: &mut Silent, stop: &Stop::new(), keep: &mut keep };
    let whole = method.run(options(&device.bed), Some(before.clone()), watch).unwrap();
    assert_eq!(only(&whole).trials[..3], only(&before).trials[..]);
    assert_eq!(only(&whole).throughput[0].outcome, SearchOutcome::Found, "{whole:#?}");
    // another test does not take them for its own
    let other = self::method(Nanos::from_millis(700), frames(20_000));
    let mut keep = |_: &TestReport| {};
    let watch = Watch { observer: &mut Silent, stop: &Stop::new(), keep: &mut keep };
    let refused = other.run(options(&device.bed), Some(before), watch).unwrap_err();
    assert!(refused.to_string().contains("another test"), "{refused}");
}

/// A link that is down says nothing of the device: the test ends, unfinished, and not with a throughput of nothing.
#[test]
fn a_link_that_is_down_is_no_result() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let device = known(Limits::default());
    let inside = device.bed.device.as_ref().unwrap();
    let down = Program::new(inside, "ip").args(["link", "set", "p1", "down"]);
    let down = down.spawn().unwrap();
    assert!(down.wait(Duration::from_secs(10)).unwrap().status.success());
    let method = method(Nanos::from_millis(100), frames(2_000));
    let mut keep = |_: &TestReport| {};
    let watch = Watch { observer: &mut Silent, stop: &Stop::new(), keep: &mut keep };
    match method.run(options(&device.bed), None, watch) {
        Ok(report) => {
            assert_eq!((report.verdict, report.exit_code), (Verdict::Unfinished, 1));
            assert!(matches!(&report.end, End::Failed { message } if message.contains("down")));
        }
        Err(error) => assert!(error.to_string().contains("down"), "{error}"),
    }
}

/// Frames that are longer than a port may send would leave as two: their size is left out, and the others are measured.
#[test]
fn a_size_beyond_the_mtu_is_left_out() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let device = known(Limits::default());
    let mut method = method(Nanos::from_millis(100), frames(1_000));
    method.sizes.push(("9000B".to_owned(), Some("9000B".parse().unwrap())));
    let report = test(&method, &device.bed);
    assert_eq!(report.sizes[0].throughput[0].lower, Some(1_000.0), "{:#?}", report.sizes[0]);
    let why = report.sizes[1].skipped.as_deref().unwrap_or_default();
    assert!(why.contains("MTU of 1500"), "{why}");
    assert_eq!((report.verdict, report.sizes[1].trials.len()), (Verdict::Done, 0));
}

/// Nothing comes through: a trial after the learning frames says so; no lower load is tried, and nothing else is measured.
#[test]
fn a_device_that_forwards_nothing_is_soon_known() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let _alone = alone();
    let device = known(Limits { loss: 1.0, ..Limits::default() });
    let mut method = method(Nanos::from_millis(100), frames(1_000));
    method.measured = Measured { loss_rate: true, back_to_back: true, ..Measured::default() };
    let report = test(&method, &device.bed);
    let found = only(&report);
    assert_eq!(found.throughput[0].outcome, SearchOutcome::NothingBorne, "{found:#?}");
    assert_eq!((found.trials.len(), found.loss_rate.len()), (1, 0));
    let told: Vec<_> =
        report.findings.iter().filter(|of| of.contains("no learning frame of 64B")).collect();
    assert!(told.len() == 1 && told[0].contains("check that the device forwards"), "{told:?}");
}
