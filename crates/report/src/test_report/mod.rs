//! What a standard test of a device came to: RFC 2544 with its throughput, latency, frame loss rate and back-to-back frames.
//!
//! A test is many trials on one lab; each keeps the sender's own books, so that a load that was not offered is not taken for one.
//! Terms are those of RFC 1242 and RFC 9971. What text, page and Markdown have in common is in `tables.rs`; renderings: `text.rs`,
//! `page.rs`, `rows.rs` (CSV, Markdown), `figures.rs`.

mod figures;
mod page;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{Presentable, Rendering};
use crate::json;
use crate::junit;
use crate::model::{End, Json, Report, Stats, Verdict};
use crate::pictures::Picture;
use crate::verdict;

/// Version of the model of a test.
pub const TEST_SCHEMA_VERSION: &str = "1";

/// What a test came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Version of this model: "1".
    pub schema_version: String,
    /// Version of the program.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// The standard: "RFC 2544".
    pub test: String,
    /// What the result is headed with, as the name of the device; absent where nothing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it started: RFC 3339, UTC.
    pub started: String,
    /// How long it took.
    pub duration_ns: u64,
    /// Why it ended.
    pub end: End,
    /// What to make of it.
    pub verdict: Verdict,
    /// The exit code that follows from the verdict.
    pub exit_code: u8,
    /// What was asked for.
    pub parameters: Parameters,
    /// The scenario whose flows were sent, at other rates and lengths.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub scenario: Option<Json>,
    /// Each frame size.
    pub sizes: Vec<SizeReport>,
    /// In what the test is not what the standard describes.
    pub deviations: Vec<String>,
    /// What limited the test or makes its numbers less certain.
    pub findings: Vec<String>,
    /// The report of the last trial, which has where and how it took place; `null` where there was none.
    pub last_trial: Option<Box<Report>>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parameters {
    /// "binary search" or "MLRsearch".
    pub search: String,
    /// How long a full trial takes.
    pub trial_ns: u64,
    /// How long to go on receiving after the last frame of a trial.
    pub settle_ns: u64,
    /// The highest load of a port in words: a rate, or the speed of its link.
    pub max_load: String,
    /// How far the bounds of a search may be apart, of the upper one.
    pub width: f64,
    /// The throughput that was required, in words; `null` where none was.
    pub required: Option<String>,
    /// What is measured: "throughput", "latency", "loss-rate", "back-to-back", "recovery", "reset".
    pub measured: Vec<String>,
    /// How many times the throughput is searched for.
    #[serde(default = "once")]
    pub searches: u32,
}

/// Results without the number are of tests with one search.
fn once() -> u32 {
    1
}

/// What was measured with frames of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeReport {
    /// The size as it was asked for: "64B", "imix", or "scenario".
    pub size: String,
    /// Bytes of a frame on average, with FCS; `null` where none was sent.
    pub frame_bytes: Option<f64>,
    /// Why nothing was measured.
    pub skipped: Option<String>,
    /// Why no frame came through by which the device was to learn; absent where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlearned: Option<String>,
    /// The highest load of a port, in frames per second.
    pub max_frames_per_second: Option<f64>,
    /// The throughput that was required, in frames per second of each sending port.
    pub required_frames_per_second: Option<f64>,
    /// How many ports send. A load is what each of them sends.
    pub sending_ports: u32,
    /// The throughput, for each goal.
    pub throughput: Vec<Throughput>,
    /// The latency at the throughput.
    pub latency: Option<Latency>,
    /// The frame loss rate (RFC 2544 §26.3), from the highest load down.
    pub loss_rate: Vec<LossRate>,
    /// Back-to-back frames (RFC 9004).
    pub back_to_back: Option<BackToBack>,
    /// The system recovery (RFC 2544 §26.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// The reset (RFC 2544 §26.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<Reset>,
    /// Every trial, in the order in which they were made.
    pub trials: Vec<TrialReport>,
}

/// The throughput of a device for a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// The most that a trial may lose, of 1.
    pub loss_ratio: f64,
    /// Trials that lose more may take this share of the time (RFC 9971).
    pub exceed_ratio: f64,
    /// How long a full trial takes.
    pub trial_ns: u64,
    /// How long all trials at a load take together.
    pub duration_sum_ns: u64,
    /// How the search ended.
    pub outcome: SearchOutcome,
    /// The highest load that is borne, of each sending port, in frames per second: the throughput of RFC 2544, the relevant lower bound of
    /// RFC 9971.
    pub lower: Option<f64>,
    /// The lowest load that is not borne.
    pub upper: Option<f64>,
    /// What is forwarded at the lower bound (RFC 9971, Conditional Throughput).
    pub conditional: Option<f64>,
    /// The lower bound in bits per second of frames, FCS included.
    pub frame_bits_per_second: Option<f64>,
    /// The lower bound in bits per second on the line, with preamble and gap.
    pub line_bits_per_second: Option<f64>,
    /// The lower bound as a share of the highest load.
    pub of_max: Option<f64>,
    /// Frames that were sent at the lower bound.
    pub frames: u64,
    /// Of a lower bound at which nothing was lost: with 95 % confidence fewer than this share is (3/n).
    pub loss_below: Option<f64>,
    /// What several searches came to, of which the lowest is the result above; absent where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searches: Option<Searches>,
}

/// What searches for one throughput came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searches {
    /// Each search, in the order in which they were made.
    pub each: Vec<Search>,
    /// The mean of their lower bounds in frames per second; `null` where fewer than two searches have found one, or one has not.
    pub mean: Option<f64>,
    /// How far the true mean is from `mean` in 95 % of all cases (Student's t).
    pub within: Option<f64>,
}

/// A search for a throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// How it ended.
    pub outcome: SearchOutcome,
    /// The highest load that is borne, in frames per second.
    pub lower: Option<f64>,
    /// The lowest load that is not borne.
    pub upper: Option<f64>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// Both bounds are known, and close.
    Found,
    /// The highest load is borne: the device may bear more.
    AtLeast,
    /// The device bore the most that the tester could offer or receive: it may bear more.
    AtLeastByTester,
    /// No load was borne (RFC 9971: irregular).
    NothingBorne,
    /// The trials contradicted each other until the search gave up.
    NoConvergence,
    /// The device loses a share of all frames whatever the load: the bounds say where none was lost by chance.
    ByChance,
    /// The test ended before the search did.
    Unfinished,
}

/// The latency of a device at a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The load of a port, in frames per second.
    pub load: f64,
    /// How long each trial took.
    pub trial_ns: u64,
    /// The delay of the tagged frame of each trial (RFC 2544 §26.2).
    pub tagged_ns: Vec<i64>,
    /// Their mean.
    pub tagged_mean_ns: Option<f64>,
    /// The delays of all frames, by trial.
    pub delay_ns: Vec<Stats>,
    /// Nanoseconds that delays are uncertain by; `null` where both ends have one clock.
    pub uncertainty_ns: Option<u64>,
    /// The latency of the tester itself, back to back; absent where it was not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
}

/// The latency of the tester itself, by an earlier test with a cable in the place of the device. It is subtracted from nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// When that test started: RFC 3339, UTC.
    pub started: String,
    /// Its command line.
    pub command_line: Vec<String>,
    /// The load of a port, in frames per second.
    pub load: f64,
    /// The mean of the delays of its tagged frames.
    pub tagged_mean_ns: Option<f64>,
    /// How many tagged frames arrived.
    pub tagged: u64,
    /// The delays of all frames of its last trial; `null` where none arrived.
    pub delay_ns: Option<Stats>,
}

/// What was lost at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossRate {
    /// The load of a port, in frames per second.
    pub load: f64,
    /// Of the highest load.
    pub of_max: f64,
    /// Lost of sent.
    pub loss_ratio: f64,
}

/// The longest burst of which nothing is lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// The rate within a burst, in frames per second.
    pub burst_rate: f64,
    /// The longest burst of each repetition, in frames.
    pub bursts: Vec<u64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// Their smallest.
    pub min: Option<u64>,
    /// Their largest.
    pub max: Option<u64>,
    /// Their sample standard deviation.
    pub standard_deviation: Option<f64>,
    /// Whether the device may bear longer ones: the longest burst that was tried was borne, or the tester may have lost frames of a
    /// longer one itself.
    pub at_least: bool,
    /// How many of `bursts` were limited by the tester: of the shortest burst that was not borne it may have lost the frames itself.
    #[serde(default)]
    pub limited_by_tester: u32,
    /// Each repetition, in the order of `bursts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repetitions: Vec<BurstRepetition>,
    /// How long the mean burst takes (RFC 9004, Implied DUT Buffer Time).
    pub implied_buffer_ns: Option<f64>,
    /// The same less what was forwarded meanwhile (RFC 9004, Corrected DUT Buffer Time).
    pub corrected_buffer_ns: Option<f64>,
    /// Why there is no `corrected_buffer_ns`; absent where there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected: Option<String>,
}

/// One search for the longest burst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BurstRepetition {
    /// The longest burst of which nothing was lost, in frames.
    pub frames: u64,
    /// The lowest rate within its bursts, in frames per second.
    pub burst_rate: f64,
    /// Whether the longest burst that was tried was borne.
    pub at_least: bool,
    /// Whether the tester may have lost frames of the shortest burst that was not borne.
    pub limited_by_tester: bool,
}

/// How long a device goes on losing frames after an overload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// The overload of a port, in frames per second: 110 % of the throughput, and no more than the highest load.
    pub overload: f64,
    /// How long it took.
    pub overload_ns: u64,
    /// The load after it: half of it.
    pub load: f64,
    /// How long that took.
    pub window_ns: u64,
    /// Whether the overload was above the throughput; else there are no trials.
    #[serde(default = "yes")]
    pub overloaded: bool,
    /// Each trial.
    pub times: Vec<RecoveryTime>,
    /// The mean of the upper bounds; `null` where there is no trial.
    pub mean_ns: Option<f64>,
}

/// Results without the word are of devices that were overloaded.
fn yes() -> bool {
    true
}

/// When the last frame was lost after an overload, by the time at which it was due, from the end of the overload: between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryTime {
    /// No earlier; 0 where none was lost.
    pub least_ns: u64,
    /// No later.
    pub most_ns: u64,
    /// Whether frames were watched for so long that no more were lost.
    pub recovered: bool,
}

/// For how long a reset silences a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    /// The load of a port, in frames per second.
    pub load: f64,
    /// How long frames were sent.
    pub time_ns: u64,
    /// The longest time between two frames that arrived one after the other; `null` where fewer than two did.
    pub silence_ns: Option<u64>,
    /// Whether frames arrived at the end.
    pub returned: bool,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialReport {
    /// What it was for: "throughput", "latency", "loss-rate", "back-to-back", "recovery", "reset".
    pub purpose: String,
    /// The load of a port that was asked for, in frames per second.
    pub intended: f64,
    /// The load that was offered, by the sender's books.
    pub offered: f64,
    /// How long it took; of a burst, how long it would have.
    pub trial_ns: u64,
    /// Frames sent, by all ports.
    pub sent: u64,
    /// Frames received, duplicates included, as in reports of runs.
    pub received: u64,
    /// Different frames received: those sent less those lost.
    #[serde(default)]
    pub unique: u64,
    /// Frames lost.
    pub lost: u64,
    /// Lost of sent, of 1.
    pub loss_ratio: f64,
    /// Frames that arrived more than once.
    pub duplicates: u64,
    /// Frames that arrived after later ones.
    pub reordered: u64,
    /// The median of the one-way delay.
    pub delay_p50_ns: Option<i64>,
    /// The 99th percentile of it.
    pub delay_p99_ns: Option<i64>,
    /// The 99th percentile of how late frames left.
    pub lateness_p99_ns: Option<i64>,
    /// What the tester itself did wrong in it; `null` where nothing is known of such.
    pub doubt: Option<String>,
    /// How often it was made again because of such doubts.
    #[serde(default)]
    pub repeated: u32,
}

impl SizeReport {
    /// Whether the device bears what was required, for every goal; `None` where nothing was. What was not measured, or is chance, is
    /// not met.
    pub fn met(&self) -> Option<bool> {
        let required = self.required_frames_per_second?;
        let bears = |of: &Throughput| {
            of.outcome != SearchOutcome::ByChance && of.lower.is_some_and(|lower| lower >= required)
        };
        Some(!self.throughput.is_empty() && self.throughput.iter().all(bears))
    }
}

impl Latency {
    /// The same as what a later test is held beside.
    pub fn as_baseline(&self, of: &TestReport) -> Baseline {
        Baseline {
            started: of.started.clone(),
            command_line: of.command_line.clone(),
            load: self.load,
            tagged_mean_ns: self.tagged_mean_ns,
            tagged: self.tagged_ns.len() as u64,
            delay_ns: self.delay_ns.last().cloned(),
        }
    }
}

impl TrialReport {
    /// Whether the tester offered less than was asked for.
    pub fn is_limited(&self) -> bool {
        self.offered < self.intended
    }
}

impl TestReport {
    /// The same without the histograms behind percentiles.
    fn without_histograms(mut self) -> TestReport {
        for size in &mut self.sizes {
            let stats = size.latency.iter_mut().flat_map(|latency| &mut latency.delay_ns);
            stats.for_each(|stats| stats.histogram = Vec::new());
            let baseline = size.latency.iter_mut().filter_map(|latency| latency.baseline.as_mut());
            let stats = baseline.filter_map(|baseline| baseline.delay_ns.as_mut());
            stats.for_each(|stats| stats.histogram = Vec::new());
        }
        let last = self.last_trial.take();
        self.last_trial = last.map(|report| Box::new(report.without_histograms()));
        self
    }

    /// Sets the verdict and the exit code, by how it ended and by what was required.
    pub fn conclude(&mut self, end: End) {
        let met = self.sizes.iter().all(|size| size.met() != Some(false));
        self.verdict = match (&end, met) {
            (End::Completed, true) => Verdict::Done,
            (End::Completed, false) => Verdict::Unmet,
            _ => Verdict::Unfinished,
        };
        self.exit_code = self.verdict.exit_code();
        self.end = end;
    }

    /// "PASS" or "FAIL", where a throughput was required.
    pub(crate) fn outcome(&self) -> Option<&'static str> {
        self.parameters.required.as_ref()?;
        Some(if self.verdict == Verdict::Done { verdict::PASS } else { verdict::FAIL })
    }
}

impl Presentable for TestReport {
    fn text(&self, rendering: Rendering) -> String {
        text::test(self, rendering)
    }
    fn json(&self, rendering: Rendering) -> String {
        match rendering.histograms {
            true => json::pretty_or_line(self, rendering),
            false => json::pretty_or_line(&self.clone().without_histograms(), rendering),
        }
    }
    fn html(&self, _: Rendering) -> String {
        page::test(self)
    }
    fn csv(&self) -> Option<String> {
        Some(rows::csv(self))
    }
    fn markdown(&self, _: Rendering) -> String {
        rows::markdown(self)
    }
    fn pictures(&self) -> Vec<Picture> {
        figures::pictures(self)
    }
    fn junit(&self) -> Option<String> {
        Some(junit::test(self))
    }
}
