//! Whether runs of today differ from runs of before by more than what runs differ anyway.
//!
//! A run is one value: runs are resampled, never packets, because the packets of one run share what disturbed it. `metrics.rs` is what is
//! compared, `resample.rs` the statistics. Fewer than five runs a side give no verdict, and many metrics need more.

mod metrics;
mod resample;
mod rows;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use metrics::{METRICS, Metric, parts};

use crate::exit::Exit;
use crate::format::{Presentable, Rendering};
use crate::human;
use crate::json;
use crate::model::{End, Report, Verdict};

/// Fewer runs than this on a side give no verdict.
pub const LEAST_RUNS: usize = 5;
/// How often a change may be reported where there is none, over all metrics together.
const SIGNIFICANCE: f64 = 0.05;

/// Version of the model of a comparison.
const VERSION: &str = "1";

/// What runs of before and of now come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// Version of this model: "1".
    pub schema_version: String,
    /// Version of the program that compared.
    pub wirebeat_version: String,
    /// How many runs there are of before.
    pub old_runs: usize,
    /// How many runs there are of now.
    pub new_runs: usize,
    /// How many runs of each side a verdict needs: five, and more where many metrics are compared at once.
    pub runs_needed: usize,
    /// The smallest change for the worse, of the old value, that fails; `null` where none does.
    pub threshold: Option<f64>,
    /// Each metric that both sides have.
    pub metrics: Vec<MetricChange>,
    /// What makes the comparison doubtful: other scenarios, other machines.
    pub notes: Vec<String>,
    /// What to make of it.
    pub verdict: CompareVerdict,
    /// The exit code that follows: 0, or 4 where it fails.
    pub exit_code: u8,
}

/// How a metric changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricChange {
    /// The flow or the group of sessions; "total" for all flows together.
    pub of: String,
    /// What is measured, in the words of expectations: "delay.p99".
    pub metric: String,
    /// Of each run of before, in the unit of the report (ns, frames/s, bits/s, or a ratio of 1).
    pub old: Vec<f64>,
    /// Of each run of now.
    pub new: Vec<f64>,
    /// Mean of the runs of before.
    pub old_mean: f64,
    /// Mean of the runs of now.
    pub new_mean: f64,
    /// Difference of the means, of the old one; `null` where that is 0.
    pub change: Option<f64>,
    /// 95 % interval of the difference of the means, from runs drawn again from each side.
    pub difference_interval: [f64; 2],
    /// How often runs that are dealt to the two sides at random differ at least as much.
    pub p_value: f64,
    /// The same, corrected for how many metrics are compared (Holm).
    pub p_corrected: f64,
    /// What to make of it.
    pub outcome: ChangeOutcome,
}

/// What to make of the change of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// It differs by no more than runs differ anyway.
    Same,
    /// It changed for the better.
    Better,
    /// It changed for the worse, by less than the threshold, or there is none.
    Worse,
    /// It changed for the worse by the threshold or more.
    Fails,
    /// There are too few runs to say.
    Undecided,
}

/// What to make of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompareVerdict {
    /// With a threshold: nothing fails.
    Pass,
    /// A metric changed for the worse by the threshold or more.
    Fail,
    /// Without a threshold: a metric changed by more than runs differ anyway.
    Changed,
    /// Without a threshold: none did.
    Unchanged,
    /// There are too few runs; with a threshold that fails.
    Undecided,
}

/// What is asked of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareOptions {
    /// The program's version.
    pub wirebeat_version: String,
    /// The smallest change for the worse, of the old value, that fails.
    pub threshold: Option<f64>,
    /// The metrics to compare, by name; none: all.
    pub metrics: Vec<String>,
}

/// Compares runs of before with runs of now.
///
/// # Errors
/// A run that is unfinished or whose counters are inconsistent: its place among `old` and `new` together, from 0.
pub fn compare(old: &[Report], new: &[Report], options: &CompareOptions) -> Result<Changes, usize> {
    let sound = |report: &Report| matches!(report.verdict, Verdict::Done | Verdict::Unmet);
    if let Some(place) = old.iter().chain(new).position(|report| !sound(report)) {
        return Err(place);
    }
    let (mut metrics, partly) = metrics::values(old, new, &options.metrics);
    let needed = resample::runs_needed(metrics.len(), SIGNIFICANCE).max(LEAST_RUNS);
    let enough = old.len().min(new.len()) >= needed;
    let missing = metrics::missing(&options.metrics, &metrics);
    resample::correct(&mut metrics);
    for metric in &mut metrics {
        metric.outcome = match enough {
            true => outcome(metric, options.threshold),
            false => ChangeOutcome::Undecided,
        };
    }
    let any = |outcomes: &[ChangeOutcome]| {
        metrics.iter().any(|metric| outcomes.contains(&metric.outcome))
    };
    let verdict = match options.threshold {
        _ if !enough || metrics.is_empty() => CompareVerdict::Undecided,
        Some(_) if any(&[ChangeOutcome::Fails]) => CompareVerdict::Fail,
        // what was to be held against the threshold was not measured
        Some(_) if !missing.is_empty() => CompareVerdict::Undecided,
        Some(_) => CompareVerdict::Pass,
        None if any(&[ChangeOutcome::Better, ChangeOutcome::Worse]) => CompareVerdict::Changed,
        None => CompareVerdict::Unchanged,
    };
    // who gave no threshold asked what changed, and has the answer
    let exit = match (verdict, options.threshold) {
        (CompareVerdict::Fail | CompareVerdict::Undecided, Some(_)) => Exit::Unmet,
        _ => Exit::Done,
    };
    let mut notes = notes(old, new);
    if needed > LEAST_RUNS && !enough {
        notes.push(format!(
            "{} metrics are compared at once: with fewer than {needed} runs a side none of them can be told from chance; \
             give more runs, or choose with --metric",
            metrics.len()
        ));
    }
    let is_partly =
        |name: &&str| partly.iter().any(|of| of == name || metrics::parts(of).1 == *name);
    let nowhere: Vec<&str> = missing.into_iter().filter(|name| !is_partly(name)).collect();
    if !partly.is_empty() {
        notes.push(format!(
            "some runs have {} and others do not, so that it is not compared: nothing or too little arrived there (a p99 takes 1,000 values)",
            partly.join(", ")
        ));
    }
    if !nowhere.is_empty() {
        notes.push(format!(
            "no run has {}: write the name as the reports have it; a p99 takes 1,000 values",
            nowhere.join(", ")
        ));
    }
    Ok(Changes {
        schema_version: VERSION.to_owned(),
        wirebeat_version: options.wirebeat_version.clone(),
        old_runs: old.len(),
        new_runs: new.len(),
        threshold: options.threshold,
        runs_needed: needed,
        metrics,
        notes,
        verdict,
        exit_code: exit.code(),
    })
}

fn outcome(metric: &MetricChange, threshold: Option<f64>) -> ChangeOutcome {
    if metric.p_corrected > SIGNIFICANCE {
        return ChangeOutcome::Same;
    }
    let more_is_better =
        METRICS.iter().any(|known| known.name == metric.metric && known.more_is_better);
    let worse = (metric.new_mean < metric.old_mean) == more_is_better;
    // from nothing to something is more than any part of it
    let by = metric.change.map_or(f64::INFINITY, f64::abs);
    match (worse, threshold) {
        (false, _) => ChangeOutcome::Better,
        (true, Some(threshold)) if by >= threshold => ChangeOutcome::Fails,
        (true, _) => ChangeOutcome::Worse,
    }
}

/// What makes runs hard to compare.
fn notes(old: &[Report], new: &[Report]) -> Vec<String> {
    let all = || old.iter().chain(new);
    let mut notes = Vec::new();
    let Some(first) = all().next() else { return notes };
    let twice = repeated(&all().collect::<Vec<_>>());
    if twice > 0 {
        let are = if twice == 1 { "is" } else { "are" };
        notes.push(format!(
            "{} {are} given again, with the start and the numbers of another: a run that counts twice makes changes look surer \
             than they are; give each run once",
            human::counted(twice as u64, "run")
        ));
    }
    let stopped = |side: &[Report]| {
        let stopped = |run: &&Report| matches!(run.end, End::Stopped { .. });
        side.iter().filter(stopped).count()
    };
    let (of_old, of_new) = (stopped(old), stopped(new));
    if of_old + of_new > 0 {
        notes.push(format!(
            "{of_old} of before and {of_new} of now did not run to their end but were stopped: their numbers are of the time until then"
        ));
    }
    if all().any(|report| report.scenario != first.scenario) {
        notes.push("the runs are not of one scenario".to_owned());
    }
    let hosts = |report: &Report| {
        let stations = report.senders.iter().chain(&report.receivers);
        stations.map(|station| station.host.clone()).collect::<Vec<_>>()
    };
    if all().any(|report| hosts(report) != hosts(first)) {
        notes.push(
            "the runs are not of one machine, kernel and setting; see 'host' in their JSON"
                .to_owned(),
        );
    }
    if all().any(|report| report.wirebeat_version != first.wirebeat_version) {
        notes.push("the runs are of several versions of wirebeat".to_owned());
    }
    notes
}

/// How many of the runs are the same as one before them.
fn repeated(runs: &[&Report]) -> usize {
    let is_there = |(place, run): &(usize, &&Report)| {
        // most runs differ in when they started
        let mut before = runs.iter().take(*place);
        before.any(|other| other.started == run.started && other == *run)
    };
    runs.iter().enumerate().filter(is_there).count()
}

impl Presentable for Changes {
    fn text(&self, rendering: Rendering) -> String {
        text::changes(self, rendering.colour)
    }
    fn json(&self, _: Rendering) -> String {
        json::pretty(self)
    }
    fn csv(&self) -> Option<String> {
        Some(rows::csv(self))
    }
    fn junit(&self) -> Option<String> {
        Some(rows::junit(self))
    }
}

#[cfg(test)]
mod tests;
