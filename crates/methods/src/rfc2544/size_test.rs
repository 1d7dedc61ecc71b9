//! What is measured with frames of one size.

use std::time::Instant;

use wirebeat_report::model::Report;
use wirebeat_report::test_report::{
    BackToBack, BurstRepetition, Latency, LossRate, SearchOutcome, SizeReport, TestReport,
    Throughput, TrialReport,
};
use wirebeat_run::RunError;
use wirebeat_search::{
    Bounds, BurstSearch, Bursts, ConstantLoss, LossRateSearch, ThroughputSearch, Trial,
};
use wirebeat_traffic::scenario::Size;
use wirebeat_traffic::scenario::size::Of;
use wirebeat_units::{Nanos, Rate, fault, human};

use super::searches::{Searches, by_load, lowest, result};
use super::{Rfc2544, Watch, findings, pause};
use crate::bench::{Bench, Halt, Lengths, Made, MaxLoad};

/// Bytes of a frame that the MTU does not count: header, FCS and two tags (IEEE 802.3, 802.1Q).
const HEADERS: u32 = 14 + 4 + 8;
/// How often frames are sent for a device to learn by, until some come through.
const LESSONS: u32 = 5;
/// The purposes of trials, as in reports.
pub(super) const THROUGHPUT: &str = "throughput";
pub(super) const LATENCY: &str = "latency";
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
            unlearned: None,
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
        let lengths = self.learn(bench, report, watch)?;
        let max = bench.max(self.method.max, lengths)?;
        let required = self.method.required;
        let required = required.map(|rate| match rate {
            // of what is offered at the most, which need not be what the link carries
            Rate::LinkShare(ppm) => Ok(max * f64::from(ppm) / 1e6),
            rate => bench.max(MaxLoad::Rate(rate), lengths),
        });
        let required = required.transpose()?;
        if let Some(required) = required.filter(|required| *required > max * 1.000_001) {
            let why = fault!(
                "of frames of {} the throughput that is required, {}, is more than the highest load, {}",
                self.name(report), human::frame_rate(required), human::frame_rate(max);
                "require less, or raise the highest load (--max-rate)"
            );
            return Err(RunError::Usage(why).into());
        }
        report.sizes[self.place].required_frames_per_second = required;
        let of = &mut report.sizes[self.place];
        (of.frame_bytes, of.max_frames_per_second) = (Some(lengths.frame), Some(max));
        let result = self.steps(bench, report, watch, max);
        self.conclude(report, max, lengths);
        result
    }

    fn steps(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        max: f64,
    ) -> Step {
        self.throughput(bench, report, watch, max)?;
        if is_dead(&report.sizes[self.place]) {
            return Ok(());
        }
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

    /// Lets the device learn; how long frames are. Why none came through is in the report.
    fn learn(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
    ) -> Result<Lengths, Halt> {
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
        let why = last.as_ref().and_then(|lesson| lesson.findings.first());
        let why = why.map_or_else(|| "nothing was received".to_owned(), |of| of.message.clone());
        report.sizes[self.place].unlearned = none.then_some(why);
        lengths.ok_or_else(|| Halt::Failed(RunError::Usage("no frame could be sent".into())))
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
        report.sizes[self.place].trials.push(trial);
        report.findings = findings::of(report);
        report.last_trial = Some(Box::new(without_series(last)));
        (watch.keep)(report);
    }

    fn throughput(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        max: f64,
    ) -> Step {
        let search = self.search(max);
        let mut searches = Searches::of(&search, &trials(&report.sizes[self.place]));
        while searches.done.len() < self.method.searches as usize {
            // nothing comes through, and lower loads would take hours to say so
            if is_dead(&report.sizes[self.place]) {
                return Ok(());
            }
            let (load, seconds) = searches.next;
            let time = Nanos::new((seconds * 1e9).round() as u64);
            self.offer((THROUGHPUT, load, time), bench, report, watch)?;
            searches.take(&search, &trials(&report.sizes[self.place]));
        }
        Ok(())
    }

    fn search(&self, max: f64) -> ThroughputSearch {
        // one frame in a trial
        let min = (1.0 / (self.method.trial.get() as f64 / 1e9)).max(0.001).min(max);
        ThroughputSearch { goals: self.method.goals.clone(), max, min }
    }

    /// The throughput for the first goal: the lowest that a search came to.
    pub(super) fn found(&self, report: &TestReport) -> Option<f64> {
        let goal = self.method.goals.first()?;
        let of = &report.sizes[self.place];
        let all = trials(of);
        let searches = Searches::of(&self.search(of.max_frames_per_second?), &all);
        let bounds = searches.all().map(|(of, _)| Bounds::of(goal, &all[of]).lower);
        bounds.min_by(|one, other| by_load(*one, *other)).flatten()
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
                baseline: None,
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
        let searches = Searches::of(&search, &all);
        let results: Vec<Throughput> = self
            .method
            .goals
            .iter()
            .filter_map(|goal| {
                let each = searches
                    .all()
                    .map(|(place, next)| result(goal, of, &all[place], (&next, max, lengths)));
                lowest(each.collect(), self.method.searches > 1)
            })
            .collect();
        let loss_rate = of.trials.iter().filter(|trial| trial.purpose == LOSS_RATE);
        let loss_rate = loss_rate.map(|trial| LossRate {
            load: trial.offered,
            of_max: trial.offered / max,
            loss_ratio: trial.loss_ratio,
        });
        let loss_rate: Vec<LossRate> = loss_rate.collect();
        let back_to_back = self.back_to_back(of, max, results.first());
        let of = &mut report.sizes[self.place];
        of.throughput = results;
        of.loss_rate = loss_rate;
        of.back_to_back = back_to_back;
        super::recovery::conclude(of);
        if let Some(latency) = &mut of.latency {
            let sum: f64 = latency.tagged_ns.iter().map(|ns| *ns as f64).sum();
            let count = latency.tagged_ns.len();
            latency.tagged_mean_ns = (count > 0).then(|| sum / count as f64);
            latency.baseline = self.method.baseline.as_ref().and_then(|test| {
                let same = test.sizes.iter().find(|size| size.size == of.size)?;
                Some(same.latency.as_ref()?.as_baseline(test))
            });
        }
        report.findings = findings::of(report);
    }

    fn back_to_back(
        &self,
        of: &SizeReport,
        max: f64,
        throughput: Option<&Throughput>,
    ) -> Option<BackToBack> {
        let (time, _) = self.method.bursts;
        let longest = ((max * time.get() as f64 / 1e9) as u64).max(1);
        let width = self.method.goals.first().map_or(0.001, |goal| goal.width);
        let (repetitions, _) = split_bursts(of, longest, width);
        let bursts: Vec<u64> = repetitions.iter().map(|one| one.frames).collect();
        let count = bursts.len();
        if count == 0 {
            return None;
        }
        let limited = repetitions.iter().filter(|one| one.limited_by_tester).count();
        let mean = bursts.iter().map(|frames| *frames as f64).sum::<f64>() / count as f64;
        let squares = bursts.iter().map(|frames| (*frames as f64 - mean).powi(2)).sum::<f64>();
        let rates = of.trials.iter().filter(|trial| trial.purpose == BURST);
        let burst_rate = rates.map(|trial| trial.offered).fold(max, f64::min);
        let implied = mean / max * 1e9;
        let lower = borne_beside_bursts(throughput, max);
        Some(BackToBack {
            burst_rate,
            mean: Some(mean),
            min: bursts.iter().copied().min(),
            max: bursts.iter().copied().max(),
            standard_deviation: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
            at_least: limited > 0 || repetitions.iter().all(|one| one.at_least),
            limited_by_tester: u32::try_from(limited).unwrap_or(u32::MAX),
            implied_buffer_ns: Some(implied),
            corrected_buffer_ns: lower.ok().map(|lower| implied * (1.0 - lower / max)),
            uncorrected: lower.err().map(str::to_owned),
            bursts,
            repetitions,
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

/// The load that is forwarded while a burst comes in, of each port; or why none can be taken off the buffer.
fn borne_beside_bursts(throughput: Option<&Throughput>, max: f64) -> Result<f64, &'static str> {
    let lower = throughput.and_then(|of| of.lower).ok_or("the throughput is not known")?;
    match throughput.map(|of| of.outcome) {
        Some(SearchOutcome::ByChance) => Err("the throughput is chance"),
        // where the whole load is borne, nothing waits
        _ if lower >= max => Err("the highest load is borne as a whole, so that nothing waits"),
        _ => Ok(lower),
    }
}

/// Whether nothing at all came through: no frame by which the device was to learn, and none of a trial.
pub(super) fn is_dead(of: &SizeReport) -> bool {
    of.unlearned.is_some()
        && !of.trials.is_empty()
        && of.trials.iter().all(|trial| trial.received == 0)
}

/// The share that is lost whatever the load, by the trials that say something of it.
pub(super) fn constant_loss(of: &SizeReport) -> Option<ConstantLoss> {
    let says = |trial: &&TrialReport| {
        matches!(trial.purpose.as_str(), THROUGHPUT | LOSS_RATE) && trial.doubt.is_none()
    };
    let trials = of.trials.iter().filter(says).map(|trial| Trial {
        load: trial.offered,
        intended: trial.intended,
        seconds: trial.trial_ns as f64 / 1e9,
        loss_ratio: trial.loss_ratio,
    });
    ConstantLoss::of(&trials.collect::<Vec<Trial>>())
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

/// A search for the longest burst, whose bounds come as close as `width` of what was found, and to one frame for short ones.
fn burst_search(longest: u64, width: f64, bursts: &[(u64, u64)]) -> BurstSearch {
    let found = Bursts::of(bursts).cut.unwrap_or(longest);
    BurstSearch { longest, resolution: ((found as f64 * width) as u64).max(1) }
}

/// The finished searches for a burst, and the bursts of the one that goes on.
fn split_bursts(
    of: &SizeReport,
    longest: u64,
    width: f64,
) -> (Vec<BurstRepetition>, Vec<(u64, u64)>) {
    let ports = u64::from(of.sending_ports.max(1));
    let (mut done, mut now, mut trials) = (Vec::new(), Vec::new(), Vec::new());
    for trial in of.trials.iter().filter(|trial| trial.purpose == BURST) {
        now.push((trial.sent / ports, trial.lost));
        trials.push(trial);
        if burst_search(longest, width, &now).next(&now).is_none() {
            done.push(repetition(&trials, &now, longest));
            now.clear();
            trials.clear();
        }
    }
    (done, now)
}

/// What the trials of a search come to, whose bursts have so many frames each, of which so many were lost.
fn repetition(trials: &[&TrialReport], bursts: &[(u64, u64)], longest: u64) -> BurstRepetition {
    let Bursts { whole, cut } = Bursts::of(bursts);
    let by_tester = |(trial, (frames, _)): (&&TrialReport, &(u64, u64))| {
        Some(*frames) == cut && lost_by_tester(trial)
    };
    BurstRepetition {
        frames: whole,
        burst_rate: trials.iter().map(|trial| trial.offered).fold(f64::INFINITY, f64::min),
        at_least: whole >= longest,
        limited_by_tester: trials.iter().zip(bursts).any(by_tester),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(sent: u64, lost: u64, doubt: Option<&str>) -> TrialReport {
        TrialReport {
            purpose: BURST.to_owned(),
            intended: 30_000.0,
            offered: 30_000.0 - lost as f64,
            trial_ns: 200_000_000,
            sent,
            received: sent - lost,
            unique: sent - lost,
            lost,
            loss_ratio: lost as f64 / sent as f64,
            duplicates: 0,
            reordered: 0,
            delay_p50_ns: None,
            delay_p99_ns: None,
            lateness_p99_ns: None,
            doubt: doubt.map(str::to_owned),
            repeated: 0,
        }
    }

    fn searched(trials: &[TrialReport]) -> BurstRepetition {
        let bursts: Vec<(u64, u64)> = trials.iter().map(|of| (of.sent, of.lost)).collect();
        repetition(&trials.iter().collect::<Vec<_>>(), &bursts, 6_000)
    }

    #[test]
    fn a_search_is_limited_by_the_tester_where_its_shortest_lossy_burst_is_doubtful() {
        let late = Some("the sender was late");
        let of_tester = searched(&[trial(6_000, 197, late), trial(5_992, 0, None)]);
        assert!(of_tester.limited_by_tester && of_tester.frames == 5_992, "{of_tester:?}");
        assert_eq!(of_tester.burst_rate, 29_803.0);
        // a doubtful burst beyond one that the device lost frames of says nothing
        let of_device =
            searched(&[trial(6_000, 197, late), trial(3_000, 9, None), trial(2_990, 0, late)]);
        assert!(!of_device.limited_by_tester && !of_device.at_least, "{of_device:?}");
        assert!(searched(&[trial(6_000, 0, None)]).at_least);
    }

    #[test]
    fn a_buffer_without_its_correction_has_a_reason() {
        assert_eq!(borne_beside_bursts(None, 10.0), Err("the throughput is not known"));
    }
}
