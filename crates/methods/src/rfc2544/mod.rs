//! RFC 2544: throughput, latency, frame loss rate, back-to-back frames, system recovery and reset of a device, by frame size.
//!
//! The throughput is searched for as RFC 2544 has it (a single trial judges a load) or by the goals of RFC 9971; back-to-back frames are
//! those of RFC 9004. Every trial is kept, so that a test that was cut off goes on where it ended: the searches are functions of the
//! trials. `deviations.rs` says in what a test is not what the standards describe.

mod deviations;
mod findings;
mod recovery;
mod searches;
mod size_test;
mod sizes;

use std::time::{Duration, Instant, SystemTime};

use wirebeat_report::json::parse_test;
use wirebeat_report::model::{End, Json};
use wirebeat_report::test_report::{Parameters, TEST_SCHEMA_VERSION, TestReport, TrialReport};
use wirebeat_report::time::rfc3339;
use wirebeat_run::{Heard, Observer, Once, RunError, Stop};
use wirebeat_search::Goal;
use wirebeat_traffic::scenario::{Scenario, Size};
use wirebeat_units::{Nanos, Rate, fault, human};

use crate::bench::{Bench, Halt, MaxLoad};
pub use deviations::{BURSTS, LATENCY, LOSS_STEP, PAUSE, RECOVERY, SETTLE, SIZES, TRIAL};
use size_test::SizeTest;
pub use sizes::standard_sizes;

/// The search of RFC 9971.
pub const MLR: &str = "MLRsearch";
/// The search of RFC 2544.
pub const BINARY: &str = "binary search";

/// What to measure, and how.
#[derive(Debug)]
pub struct Rfc2544 {
    /// The flows, and the ports between which they are sent.
    pub scenario: Scenario,
    /// The frame sizes with their names; `None`: those of the scenario.
    pub sizes: Vec<(String, Option<Size>)>,
    /// The highest load of a port.
    pub max: MaxLoad,
    /// The throughput that is required of a port.
    pub required: Option<Rate>,
    /// What is looked for.
    pub goals: Vec<Goal>,
    /// "binary search" or "MLRsearch".
    pub search: &'static str,
    /// How many times the throughput is searched for.
    pub searches: u32,
    /// How long a full trial takes.
    pub trial: Nanos,
    /// How long a device is left alone after a trial.
    pub pause: Nanos,
    /// Whether the device learns before each trial, or once for each size.
    pub learn_each: bool,
    /// What is measured.
    pub measured: Measured,
    /// How long each latency trial takes, and how many there are.
    pub latency: (Nanos, u32),
    /// A step of the frame loss rate, as a share of the highest load.
    pub loss_step: f64,
    /// The longest burst in time, and how many times the longest burst is looked for.
    pub bursts: (Nanos, u32),
    /// How long an overload takes, how long frames are watched after it, and how many trials there are.
    pub recovery: (Nanos, Nanos, u32),
    /// How long frames are sent while somebody resets the device.
    pub reset: Nanos,
    /// The latency test with a cable in the place of the device, beside which latencies are shown.
    pub baseline: Option<Box<TestReport>>,
    /// What the result is headed with, as the name of the device.
    pub title: Option<String>,
    /// The version of the program.
    pub version: String,
    /// The command line.
    pub command_line: Vec<String>,
}

/// What is measured. Latency, back-to-back frames, recovery and reset need the throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The frame loss rate.
    pub loss_rate: bool,
    /// The latency.
    pub latency: bool,
    /// Back-to-back frames.
    pub back_to_back: bool,
    /// The system recovery.
    pub recovery: bool,
    /// The reset, which somebody has to make.
    pub reset: bool,
}

impl Rfc2544 {
    /// The throughput alone, of one size, by binary search to this width without loss: what the other measurements take is short.
    pub fn throughput(
        scenario: Scenario,
        size: (String, Size),
        how: (Nanos, MaxLoad, f64),
    ) -> Rfc2544 {
        let ((name, size), (trial, max, width)) = (size, how);
        Rfc2544 {
            scenario,
            sizes: vec![(name, Some(size))],
            max,
            required: None,
            goals: vec![Goal::rfc2544(0.0, trial.get() as f64 / 1e9, width)],
            search: BINARY,
            searches: 1,
            trial,
            pause: Nanos::ZERO,
            learn_each: false,
            measured: Measured::default(),
            latency: (Nanos::from_millis(200), 2),
            loss_step: LOSS_STEP,
            bursts: (Nanos::from_millis(200), 2),
            recovery: (Nanos::from_millis(500), Nanos::from_secs(2), 2),
            reset: Nanos::from_secs(2),
            baseline: None,
            title: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command_line: Vec::new(),
        }
    }
}

impl Measured {
    fn names(self) -> Vec<String> {
        let all = [
            ("throughput", true),
            ("latency", self.latency),
            ("loss-rate", self.loss_rate),
            ("back-to-back", self.back_to_back),
            ("recovery", self.recovery),
            ("reset", self.reset),
        ];
        all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name.to_owned()).collect()
    }
}

/// Who sees a test while it goes on.
pub struct Watch<'a> {
    /// What sees each run.
    pub observer: &'a mut dyn Observer,
    /// How it is asked to stop.
    pub stop: &'a Stop,
    /// What keeps the test as far as it went, after each trial.
    pub keep: &'a mut dyn FnMut(&TestReport),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Rfc2544 {
    /// Makes the test; `before` is the same test as far as it went when it was cut off.
    ///
    /// # Errors
    /// Flows that cannot be sent, a highest load that is not known, or a `before` that is of another test. A problem that comes later ends
    /// the test, which is then reported as far as it went.
    pub fn run(
        &self,
        options: wirebeat_run::Options,
        before: Option<TestReport>,
        watch: Watch<'_>,
    ) -> Result<TestReport, RunError> {
        let mut heard = Heard::default();
        let Watch { observer, stop, keep } = watch;
        let mut observer = Once { observer, heard: &mut heard };
        let mut watch = Watch { observer: &mut observer, stop, keep };
        let kept = before.as_ref().map(|before| (before.end.clone(), made(before)));
        let mut bench = Bench::open(&self.scenario, options)?;
        let begun = Instant::now();
        let mut report = self.report(bench.named(self.max)?);
        if let Some(before) = before {
            self.take_over(&mut report, before)?;
        }
        let earlier = report.duration_ns;
        let mut end = End::Completed;
        let mut unsized_all = None;
        for (place, (name, size)) in self.sizes.iter().enumerate() {
            if report.sizes.len() <= place {
                report.sizes.push(SizeTest::new_report(name.clone(), bench.sending_ports()));
            }
            let test = SizeTest { method: self, size: size.as_ref(), place, begun, earlier };
            match test.run(&mut bench, &mut report, &mut watch) {
                Ok(()) => {}
                Err(Halt::Ended(why)) => {
                    end = why;
                    break;
                }
                // this size may be none of these packets; another one may be
                Err(Halt::Failed(RunError::Scenario(error)))
                    if report.sizes[place].trials.is_empty() =>
                {
                    report.sizes[place].skipped = Some(error.problem().why.to_string());
                    unsized_all.get_or_insert(RunError::Scenario(error));
                }
                Err(Halt::Failed(error))
                    if report.sizes.iter().all(|size| size.trials.is_empty()) =>
                {
                    return Err(error);
                }
                Err(Halt::Failed(error)) => {
                    end = End::Failed { message: error.fault().to_string() };
                    break;
                }
            }
        }
        if report.sizes.iter().all(|size| size.skipped.is_some()) {
            let why = report.sizes.first().and_then(|size| size.skipped.clone());
            let none =
                || RunError::Usage(why.unwrap_or_else(|| "there is no frame size".into()).into());
            return Err(unsized_all.unwrap_or_else(none));
        }
        report.duration_ns = earlier.saturating_add(nanos(begun.elapsed()));
        report.conclude(end);
        if kept != Some((report.end.clone(), made(&report))) {
            (watch.keep)(&report);
        }
        Ok(report)
    }

    fn report(&self, max_load: String) -> TestReport {
        let width = self.goals.first().map_or(0.0, |goal| goal.width);
        TestReport {
            schema_version: TEST_SCHEMA_VERSION.to_owned(),
            wirebeat_version: self.version.clone(),
            command_line: self.command_line.clone(),
            test: "RFC 2544".to_owned(),
            title: self.title.clone(),
            started: rfc3339(SystemTime::now()),
            duration_ns: 0,
            end: End::Stopped { signal: String::new() },
            verdict: wirebeat_report::model::Verdict::Unfinished,
            exit_code: 1,
            parameters: Parameters {
                search: self.search.to_owned(),
                trial_ns: self.trial.get(),
                settle_ns: self.scenario.run.settle.get(),
                max_load,
                width,
                required: self.required.map(|rate| rate.to_string()),
                measured: self.measured.names(),
                searches: self.searches,
            },
            scenario: self.scenario.to_json().ok().and_then(|json| Json::parse(&json)),
            sizes: Vec::new(),
            deviations: deviations::of(self),
            findings: Vec::new(),
            last_trial: None,
        }
    }

    /// Goes on with the trials of a test that was cut off.
    fn take_over(&self, report: &mut TestReport, before: TestReport) -> Result<(), RunError> {
        let mut pairs = before.sizes.iter().zip(&self.sizes);
        let same_sizes =
            before.sizes.len() <= self.sizes.len() && pairs.all(|(of, (name, _))| of.size == *name);
        if let Some((size, number)) = contradictory(&before) {
            return Err(RunError::Usage(fault!(
                "trial {number} with {size} contradicts itself: its frames sent, received and lost, its load and its time do not go together";
                "give the file as it was written, or another one"
            )));
        }
        let mut other = differences(&before, report);
        if !same_sizes {
            let names = |names: Vec<&str>| names.join(", ");
            let then = names(before.sizes.iter().map(|of| of.size.as_str()).collect());
            let now = names(self.sizes.iter().map(|(name, _)| name.as_str()).collect());
            other.push(format!("its sizes ({then}; now {now})"));
        }
        if !other.is_empty() {
            let are = if other.len() == 1 { "differs" } else { "differ" };
            return Err(RunError::Usage(fault!(
                "it is of another test: {} {are}", other.join(", ");
                "give the same arguments as then, or another file"
            )));
        }
        // what is said of its trials is said anew
        report.sizes = before.sizes;
        report.started = before.started;
        report.duration_ns = before.duration_ns;
        report.last_trial = before.last_trial;
        Ok(())
    }
}

/// In what a test that was kept is another than one that begins, beside its sizes: the names of what differs, with both values where
/// they are short.
fn differences(before: &TestReport, now: &TestReport) -> Vec<String> {
    let (then, of) = (&before.parameters, &now.parameters);
    let time = |ns: u64| human::long_time(ns);
    let required = |of: &Parameters| of.required.clone().unwrap_or_else(|| "none".to_owned());
    let pairs = [
        ("version of wirebeat", before.wirebeat_version.clone(), now.wirebeat_version.clone()),
        ("search", then.search.clone(), of.search.clone()),
        ("time of a trial", time(then.trial_ns), time(of.trial_ns)),
        ("time to settle", time(then.settle_ns), time(of.settle_ns)),
        ("highest load", then.max_load.clone(), of.max_load.clone()),
        ("width", then.width.to_string(), of.width.to_string()),
        ("required throughput", required(then), required(of)),
        ("number of searches", then.searches.to_string(), of.searches.to_string()),
        ("measurements", then.measured.join(" "), of.measured.join(" ")),
    ];
    let mut all: Vec<String> = pairs
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(name, then, now)| format!("its {name} ({then}; now {now})"))
        .collect();
    // rounded times may look alike
    if all.is_empty() && then != of {
        all.push("its parameters".to_owned());
    }
    if before.scenario != now.scenario {
        all.push("its scenario".to_owned());
    }
    all
}

/// How many trials a test has.
fn made(test: &TestReport) -> usize {
    test.sizes.iter().map(|size| size.trials.len()).sum()
}

/// The first trial whose numbers cannot be those of one.
fn contradictory(test: &TestReport) -> Option<(String, usize)> {
    let sound = |trial: &TrialReport| {
        let positive = |load: f64| load.is_finite() && load > 0.0;
        let ratio = match trial.sent {
            0 => 1.0,
            sent => trial.lost as f64 / sent as f64,
        };
        let frames = trial.offered * trial.trial_ns as f64 / 1e9 * f64::from(u16::MAX);
        positive(trial.intended)
            && positive(trial.offered)
            && trial.offered <= trial.intended
            && trial.trial_ns > 0
            && trial.sent as f64 <= frames + f64::from(u16::MAX)
            && trial.lost <= trial.sent
            && trial.unique == trial.sent - trial.lost
            && (trial.loss_ratio - ratio).abs() < 1e-9
    };
    test.sizes.iter().find_map(|size| {
        let place = size.trials.iter().position(|trial| !sound(trial))?;
        Some((size.size.clone(), place + 1))
    })
}

/// Reads a test that was kept.
///
/// # Errors
/// What is no test, or one of another version.
pub fn read(json: &[u8]) -> Result<TestReport, String> {
    parse_test(json)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Leaves the device alone; ends early when asked to stop.
fn pause(time: Nanos, stop: &Stop) {
    const LOOK: Duration = Duration::from_millis(20);
    let until = Instant::now() + time.to_duration();
    while !stop.asked() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK));
    }
}
