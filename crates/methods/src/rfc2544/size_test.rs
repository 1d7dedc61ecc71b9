//! What is measured with frames of one size.

use std::collections::BTreeSet;
use std::time::Instant;

use wirebeat_report::model::Report;
use wirebeat_report::test_report::{
    BackToBack, Latency, LossRate, SearchOutcome, SizeReport, TestReport, Throughput, TrialReport,
};
use wirebeat_run::RunError;
use wirebeat_search::{
    Bounds, BurstSearch, Bursts, Goal, LossRateSearch, Next, ThroughputSearch, Trial,
    conditional_throughput,
};
use wirebeat_traffic::scenario::Size;
use wirebeat_traffic::scenario::size::Of;
use wirebeat_units::{Nanos, Rate, human};

use super::{Rfc2544, Watch, pause};
use crate::bench::{Bench, Halt, Lengths, Made, MaxLoad};

/// Bytes of a frame that the MTU does not count: header, FCS and two tags (IEEE 802.3, 802.1Q).
const HEADERS: u32 = 14 + 4 + 8;
/// How often frames are sent for a device to learn by, until some come through.
const LESSONS: u32 = 5;
/// Of nothing lost among n frames: with 95 % confidence, fewer than 3/n are (Hanley and Lippman-Hand 1983).
const RULE_OF_THREE: f64 = 3.0;
/// Bytes on the line beside a frame's own (IEEE 802.3).
const OVERHEAD: f64 = 20.0;
/// A sender that is later than so many packet gaps, at the 99th percentile, is said to be late.
const LATE_GAPS: f64 = 16.0;
/// The purposes of trials, as in reports.
const THROUGHPUT: &str = "throughput";
const LATENCY: &str = "latency";
const LOSS_RATE: &str = "loss-rate";
const BURST: &str = "back-to-back";

/// A size of a test.
pub(super) struct SizeTest<'a> {
    pub method: &'a Rfc2544,
    pub size: Option<&'a Size>,
    /// Its place in the report.
    pub place: usize,
    /// When the test began, or went on.
    pub begun: Instant,
    /// How long it took before that.
    pub earlier: u64,
}

pub(super) type Step = Result<(), Halt>;

impl SizeTest<'_> {
    /// Of which nothing is known.
    pub fn new_report(size: String, sending_ports: u32) -> SizeReport {
        SizeReport {
            size,
            frame_bytes: None,
            skipped: None,
            max_frames_per_second: None,
            required_frames_per_second: None,
            sending_ports,
            throughput: Vec::new(),
            latency: None,
            loss_rate: Vec::new(),
            back_to_back: None,
            recovery: None,
            reset: None,
            trials: Vec::new(),
        }
    }

    /// Measures all that is not measured yet.
    pub fn run(&self, bench: &mut Bench, report: &mut TestReport, watch: &mut Watch<'_>) -> Step {
        if let (Some(size), Some((port, mtu))) = (self.size, bench.smallest_mtu())
            && let Some(bytes) = longest(size).filter(|bytes| *bytes > mtu + HEADERS)
        {
            let of = &mut report.sizes[self.place];
            of.skipped = Some(format!(
                "{bytes} bytes would be sent in fragments: port '{port}' has an MTU of {mtu}"
            ));
            return Ok(());
        }
        let (lengths, learned) = self.learn(bench, report, watch)?;
        let max = bench.max(self.method.max, lengths)?;
        let required = self.method.required;
        let required = required.map(|rate| match rate {
            // of what is offered at the most, which need not be what the link carries
            Rate::LinkShare(ppm) => Ok(max * f64::from(ppm) / 1e6),
            rate => bench.max(MaxLoad::Rate(rate), lengths),
        });
        let required = required.transpose()?;
        report.sizes[self.place].required_frames_per_second = required;
        let of = &mut report.sizes[self.place];
        (of.frame_bytes, of.max_frames_per_second) = (Some(lengths.frame), Some(max));
        let result = self.steps(bench, report, watch, (max, learned));
        self.conclude(report, max, lengths);
        result
    }

    fn steps(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        (max, learned): (f64, bool),
    ) -> Step {
        self.throughput(bench, report, watch, (max, learned))?;
        let measured = self.method.measured;
        if measured.latency {
            self.latency(bench, report, watch)?;
        }
        if measured.loss_rate {
            self.loss_rate(bench, report, watch, max)?;
        }
        if measured.back_to_back {
            self.bursts(bench, report, watch, max)?;
        }
        if measured.recovery {
            self.recovery(bench, report, watch, max)?;
        }
        if measured.reset {
            self.reset(bench, report, watch)?;
        }
        Ok(())
    }

    pub(super) fn name<'r>(&self, report: &'r TestReport) -> &'r str {
        report.sizes.get(self.place).map_or("", |of| of.size.as_str())
    }

    /// Lets the device learn; how long frames are, and whether one came through.
    fn learn(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
    ) -> Result<(Lengths, bool), Halt> {
        let mut last = None;
        for _ in 0..LESSONS {
            let lesson = bench.learn(self.size, (watch.observer, watch.stop))?;
            go_on(watch)?;
            let came = lesson.total.received.as_ref().is_some_and(|all| all.received.frames > 0);
            last = Some(lesson);
            if came {
                break;
            }
        }
        let lengths = last.as_ref().and_then(|lesson| bench.lengths(lesson));
        let none = last.as_ref().is_none_or(|lesson| {
            lesson.total.received.as_ref().is_none_or(|all| all.received.frames == 0)
        });
        if none {
            let name = self.name(report).to_owned();
            let why = last.as_ref().and_then(|lesson| lesson.findings.first());
            let why =
                why.map_or_else(|| "nothing was received".to_owned(), |of| of.message.clone());
            note(report, format!("no learning frame of {name} came through: {why}"));
        }
        let lengths = lengths.ok_or_else(|| RunError::Usage("no frame could be sent".into()))?;
        Ok((lengths, !none))
    }

    /// Makes a trial at a load.
    fn offer(
        &self,
        (purpose, load, time): (&'static str, f64, Nanos),
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
    ) -> Step {
        self.before_trial(bench, report, watch)?;
        let made = bench.offer((purpose, load, time), self.size, (watch.observer, watch.stop))?;
        self.keep(*made, report, watch);
        Ok(())
    }

    pub(super) fn before_trial(
        &self,
        bench: &mut Bench,
        report: &TestReport,
        watch: &mut Watch<'_>,
    ) -> Step {
        if report.sizes.iter().any(|size| !size.trials.is_empty()) {
            pause(self.method.pause, watch.stop);
        }
        if self.method.learn_each && !watch.stop.asked() {
            bench.learn(self.size, (watch.observer, watch.stop))?;
        }
        go_on(watch)
    }

    /// Keeps a trial, and tells of it.
    pub(super) fn keep(
        &self,
        Made { trial, report: last }: Made,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
    ) {
        report.duration_ns = self.earlier.saturating_add(super::nanos(self.begun.elapsed()));
        let number = report.sizes[self.place].trials.len() + 1;
        watch.observer.notice(&told(self.name(report), number, &trial));
        if let Some(doubt) = trial.doubt.as_ref().filter(|_| trial.lost > 0) {
            let name = self.name(report);
            note(report, format!("trial {number} with {name} is doubtful: {doubt}"));
        }
        if matches!(trial.purpose.as_str(), LATENCY) && trial.lost > 0 {
            let name = self.name(report);
            let (lost, share) =
                (human::counted(trial.lost, "frame"), human::percent(trial.loss_ratio));
            note(
                report,
                format!(
                    "{lost} ({share}) of latency trial {number} with {name} were lost at the throughput: trials of the throughput are too short for this device"
                ),
            );
        }
        if trial.duplicates > 0 {
            let name = self.name(report);
            let frames = human::counted(trial.duplicates, "frame");
            note(report, format!("{frames} arrived twice in trial {number} with {name}"));
        }
        report.sizes[self.place].trials.push(trial);
        report.last_trial = Some(Box::new(without_series(last)));
        (watch.keep)(report);
    }

    fn throughput(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        (max, learned): (f64, bool),
    ) -> Step {
        let search = self.search(max);
        loop {
            // nothing comes through, and lower loads would take hours to say so
            if !learned && is_dead(&report.sizes[self.place]) {
                return Ok(());
            }
            match search.next(&trials(&report.sizes[self.place])) {
                Next::Trial { load, seconds } => {
                    let time = Nanos::new((seconds * 1e9).round() as u64);
                    self.offer((THROUGHPUT, load, time), bench, report, watch)?;
                }
                Next::Done | Next::NoConvergence => return Ok(()),
            }
        }
    }

    fn search(&self, max: f64) -> ThroughputSearch {
        // one frame in a trial
        let min = (1.0 / (self.method.trial.get() as f64 / 1e9)).max(0.001).min(max);
        ThroughputSearch { goals: self.method.goals.clone(), max, min }
    }

    /// The throughput for the first goal.
    pub(super) fn found(&self, report: &TestReport) -> Option<f64> {
        let goal = self.method.goals.first()?;
        Bounds::of(goal, &trials(&report.sizes[self.place])).lower
    }

    fn latency(&self, bench: &mut Bench, report: &mut TestReport, watch: &mut Watch<'_>) -> Step {
        let Some(load) = self.found(report) else { return Ok(()) };
        let (time, repetitions) = self.method.latency;
        let of = &mut report.sizes[self.place];
        if of.latency.is_none() {
            let (tagged_ns, delay_ns) = (Vec::new(), Vec::new());
            let (tagged_mean_ns, uncertainty_ns) = (None, None);
            let trial_ns = time.get();
            of.latency = Some(Latency {
                load,
                trial_ns,
                tagged_ns,
                tagged_mean_ns,
                delay_ns,
                uncertainty_ns,
            });
        }
        let made = |report: &TestReport| {
            let of = report.sizes[self.place].trials.iter();
            of.filter(|trial| trial.purpose == LATENCY).count()
        };
        while made(report) < repetitions as usize {
            self.before_trial(bench, report, watch)?;
            let (made, tagged) =
                bench.tag((load, time), self.size, (watch.observer, watch.stop))?;
            if let Some(latency) = &mut report.sizes[self.place].latency {
                let last = &made.report;
                latency.tagged_ns.extend(tagged);
                let delay =
                    last.total.received.as_ref().and_then(|all| all.one_way_delay_ns.clone());
                latency.delay_ns.extend(delay);
                latency.uncertainty_ns =
                    last.delay_clock.as_ref().and_then(|clock| clock.uncertainty_ns);
            }
            self.keep(*made, report, watch);
        }
        Ok(())
    }

    fn loss_rate(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        max: f64,
    ) -> Step {
        let search = LossRateSearch { max, step: self.method.loss_step };
        loop {
            let made: Vec<Trial> = of_purpose(&report.sizes[self.place], LOSS_RATE);
            let Some(load) = search.next(&made) else { return Ok(()) };
            self.offer((LOSS_RATE, load, self.method.trial), bench, report, watch)?;
        }
    }

    fn bursts(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        max: f64,
    ) -> Step {
        let (time, repetitions) = self.method.bursts;
        let longest = ((max * time.get() as f64 / 1e9) as u64).max(1);
        // to a thousandth of what is found, as the width of a search
        let width = self.method.goals.first().map_or(0.001, |goal| goal.width);
        loop {
            let of = &report.sizes[self.place];
            let (done, now) = split_bursts(of, longest, width);
            if done.len() >= repetitions as usize {
                return Ok(());
            }
            let Some(frames) = burst_search(longest, width, &now).next(&now) else {
                return Ok(());
            };
            self.before_trial(bench, report, watch)?;
            let made = bench.burst((frames, max), self.size, (watch.observer, watch.stop))?;
            self.keep(*made, report, watch);
        }
    }

    /// Puts what the trials came to into the report.
    fn conclude(&self, report: &mut TestReport, max: f64, lengths: Lengths) {
        let search = self.search(max);
        let of = &report.sizes[self.place];
        let all = trials(of);
        let next = search.next(&all);
        let results: Vec<Throughput> = self
            .method
            .goals
            .iter()
            .map(|goal| result(goal, of, &all, (&next, max, lengths)))
            .collect();
        let late = late(of);
        let limited = results.iter().any(|of| of.outcome == SearchOutcome::AtLeastByTester);
        let loss_rate = of.trials.iter().filter(|trial| trial.purpose == LOSS_RATE);
        let loss_rate = loss_rate.map(|trial| LossRate {
            load: trial.offered,
            of_max: trial.offered / max,
            loss_ratio: trial.loss_ratio,
        });
        let loss_rate: Vec<LossRate> = loss_rate.collect();
        let lower = results.first().and_then(|of| of.lower);
        let back_to_back = self.back_to_back(of, max, lower);
        let name = of.size.clone();
        let again = of.trials.iter().map(|trial| u64::from(trial.repeated)).sum::<u64>();
        let of = &mut report.sizes[self.place];
        of.throughput = results;
        of.loss_rate = loss_rate;
        of.back_to_back = back_to_back;
        super::recovery::conclude(of);
        if let Some(latency) = &mut of.latency {
            let sum: f64 = latency.tagged_ns.iter().map(|ns| *ns as f64).sum();
            let count = latency.tagged_ns.len();
            latency.tagged_mean_ns = (count > 0).then(|| sum / count as f64);
        }
        if again > 0 {
            let trials = human::counted(again, "trial");
            note(
                report,
                format!(
                    "{trials} with {name} were made again because the tester disturbed itself: their frames are in no sum here, and in the counters of the device"
                ),
            );
        }
        if let Some(late) = late {
            note(report, format!("{late} with {name}: treat delays with care"));
        }
        if limited {
            note(
                report,
                format!(
                    "the tester limited the throughput with {name}: it could not offer, or not receive, more; the device may bear more"
                ),
            );
        }
    }

    fn back_to_back(&self, of: &SizeReport, max: f64, lower: Option<f64>) -> Option<BackToBack> {
        let (time, _) = self.method.bursts;
        let longest = ((max * time.get() as f64 / 1e9) as u64).max(1);
        let width = self.method.goals.first().map_or(0.001, |goal| goal.width);
        let (bursts, _) = split_bursts(of, longest, width);
        let count = bursts.len();
        if count == 0 {
            return None;
        }
        let mean = bursts.iter().map(|frames| *frames as f64).sum::<f64>() / count as f64;
        let squares = bursts.iter().map(|frames| (*frames as f64 - mean).powi(2)).sum::<f64>();
        let rates = of.trials.iter().filter(|trial| trial.purpose == BURST);
        let burst_rate = rates.map(|trial| trial.offered).fold(max, f64::min);
        let implied = mean / max * 1e9;
        // where the whole load is borne, nothing waits
        let corrected = lower.filter(|lower| *lower < max);
        let corrected = corrected.map(|lower| implied * (1.0 - lower / max));
        Some(BackToBack {
            burst_rate,
            mean: Some(mean),
            min: bursts.iter().copied().min(),
            max: bursts.iter().copied().max(),
            standard_deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            at_least: bursts.iter().all(|frames| *frames >= longest),
            implied_buffer_ns: Some(implied),
            corrected_buffer_ns: corrected,
            bursts,
        })
    }
}

/// The longest frame of a size, where it is one of frames.
fn longest(size: &Size) -> Option<u32> {
    match size {
        Size::Fixed(length) if length.of == Of::Frame => Some(u32::from(length.bytes)),
        _ => None,
    }
}

/// Whether nothing at all came through the first trials.
fn is_dead(of: &SizeReport) -> bool {
    const TRIALS: usize = 2;
    of.trials.len() >= TRIALS && of.trials.iter().all(|trial| trial.received == 0)
}

/// How late the sender was where that is more than a packet gap, in words: a device with small buffers may lose what leaves at once.
fn late(of: &SizeReport) -> Option<String> {
    let gaps = |trial: &TrialReport| {
        let late = trial.lateness_p99_ns.unwrap_or(0).max(0) as f64;
        (late, late * trial.offered / 1e9)
    };
    let trials = of.trials.iter().map(gaps).filter(|(_, gaps)| *gaps > LATE_GAPS);
    let (count, worst) = trials.fold((0u64, (0.0, 0.0)), |(count, worst), one| {
        (count + 1, if one.1 > worst.1 { one } else { worst })
    });
    (count > 0).then(|| {
        format!(
            "the sender was late in {} of {}: p99 up to {}, some {} frames at once",
            human::count(count),
            human::counted(of.trials.len() as u64, "trial"),
            human::time(worst.0),
            human::number(worst.1)
        )
    })
}

/// Whether nobody asked for an end.
fn go_on(watch: &Watch<'_>) -> Step {
    watch.stop.end().map_or(Ok(()), |end| Err(Halt::Ended(end)))
}

/// A line for the person who waits.
fn told(size: &str, number: usize, trial: &TrialReport) -> String {
    let load = human::fine_frame_rate(trial.intended);
    let offered = match trial.is_limited() {
        true => format!(", of which {} were offered", human::fine_frame_rate(trial.offered)),
        false => String::new(),
    };
    let lost = match trial.lost {
        0 => "no loss".to_owned(),
        lost => format!("lost {} ({})", human::count(lost), human::percent(trial.loss_ratio)),
    };
    format!(
        "{size}, trial {number} for {}: {load} for {}{offered}: {lost}",
        trial.purpose,
        human::long_time(trial.trial_ns)
    )
}

/// Adds a finding, once, and not without end.
pub(super) fn note(report: &mut TestReport, text: String) {
    const MOST: usize = 200;
    if report.findings.len() < MOST && !report.findings.contains(&text) {
        report.findings.push(text);
    }
}

/// What is kept of the report of a trial: it has its numbers elsewhere.
fn without_series(mut report: Report) -> Report {
    report.intervals = Vec::new();
    report.without_histograms()
}

/// The trials that say something of the throughput, for a search.
fn trials(of: &SizeReport) -> Vec<Trial> {
    of_purpose(of, THROUGHPUT)
}

fn of_purpose(of: &SizeReport, purpose: &str) -> Vec<Trial> {
    let of = of.trials.iter().filter(|trial| trial.purpose == purpose);
    of.map(|trial| Trial {
        // a trial whose losses may be the tester's says that it can do no more
        load: if lost_by_tester(trial) {
            trial.offered.min(trial.intended * (1.0 - 1e-9))
        } else {
            trial.offered
        },
        intended: trial.intended,
        seconds: trial.trial_ns as f64 / 1e9,
        loss_ratio: trial.loss_ratio,
    })
    .collect()
}

/// Whether the tester may have lost what was lost.
fn lost_by_tester(trial: &TrialReport) -> bool {
    trial.lost > 0 && trial.doubt.is_some()
}

fn result(
    goal: &Goal,
    of: &SizeReport,
    all: &[Trial],
    (next, max, lengths): (&Next, f64, Lengths),
) -> Throughput {
    let Bounds { lower, upper } = Bounds::of(goal, all);
    let at = |load: Option<f64>| all.iter().filter(move |trial| Some(trial.load) == load);
    let tester = |load| {
        let mut at = at(load).peekable();
        at.peek().is_some() && at.all(Trial::is_limited)
    };
    let dead = lower.is_none() && is_dead(of);
    let outcome = match (lower, upper) {
        _ if dead => SearchOutcome::NothingBorne,
        _ if *next == Next::NoConvergence => SearchOutcome::NoConvergence,
        _ if matches!(next, Next::Trial { .. }) => SearchOutcome::Unfinished,
        // even the lowest load was lost, or not offered, by the tester: nothing is known of the device
        (None, upper) if tester(upper) => SearchOutcome::AtLeastByTester,
        (None, _) => SearchOutcome::NothingBorne,
        (Some(_), Some(_)) if tester(upper) => SearchOutcome::AtLeastByTester,
        (Some(_), Some(_)) => SearchOutcome::Found,
        (Some(_), None) if tester(lower) => SearchOutcome::AtLeastByTester,
        (Some(_), None) => SearchOutcome::AtLeast,
    };
    let loads: BTreeSet<u64> = lower.iter().map(|load| load.to_bits()).collect();
    let here = of
        .trials
        .iter()
        .filter(|trial| trial.purpose == THROUGHPUT && loads.contains(&trial.offered.to_bits()));
    let (frames, lost) = here.fold((0u64, 0u64), |(sent, lost), trial| {
        (sent.saturating_add(trial.sent), lost.saturating_add(trial.lost))
    });
    Throughput {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        trial_ns: (goal.final_seconds * 1e9) as u64,
        duration_sum_ns: (goal.duration_sum * 1e9) as u64,
        outcome,
        lower,
        upper,
        conditional: lower.map(|load| conditional_throughput(goal, load, all)),
        frame_bits_per_second: lower.map(|load| load * lengths.frame * 8.0),
        line_bits_per_second: lower.map(|load| load * (lengths.frame + OVERHEAD) * 8.0),
        of_max: lower.map(|load| load / max),
        frames,
        // of one or two frames it says nothing
        loss_below: (frames > 3 && lost == 0).then(|| RULE_OF_THREE / frames as f64),
    }
}

/// A search for the longest burst, whose bounds come as close as `width` of what was found, and to one frame for short ones.
fn burst_search(longest: u64, width: f64, bursts: &[(u64, u64)]) -> BurstSearch {
    let found = Bursts::of(bursts).cut.unwrap_or(longest);
    BurstSearch { longest, resolution: ((found as f64 * width) as u64).max(1) }
}

/// The bursts of finished searches, each with the longest that was borne, and those of the search that goes on.
fn split_bursts(of: &SizeReport, longest: u64, width: f64) -> (Vec<u64>, Vec<(u64, u64)>) {
    let ports = u64::from(of.sending_ports.max(1));
    let (mut done, mut now) = (Vec::new(), Vec::new());
    for trial in of.trials.iter().filter(|trial| trial.purpose == BURST) {
        now.push((trial.sent / ports, trial.lost));
        if burst_search(longest, width, &now).next(&now).is_none() {
            done.push(Bursts::of(&now).whole);
            now.clear();
        }
    }
    (done, now)
}
