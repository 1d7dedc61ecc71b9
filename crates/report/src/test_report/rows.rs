//! A test as rows: CSV with a row for each trial and each result, Markdown with the results.

use serde::Serialize;

use super::page::capital;
use super::tables::tables;
use super::{SearchOutcome, TestReport, text};
use crate::csv::field;
use crate::markdown::{MARK, escape, rows};
use crate::provenance::facts;

/// What the head of a file begins with: as that of reports, by which a file is known as ours.
const HEAD: &str = "kind,name,frame_bytes,goal_loss_ratio,outcome,intended_frames_per_second,offered_frames_per_second,\
upper_frames_per_second,trial_ns,sent_frames,received_frames,lost_frames,loss_ratio,duplicate_frames,reordered_frames,\
delay_p50_ns,delay_p99_ns,lateness_p99_ns,burst_frames,tagged_ns,doubt,recovery_least_ns,recovery_most_ns,silence_ns,repeated,\
unique_frames,purpose\r\n";

/// How many columns there are.
const CELLS: usize = 27;

/// Writes the rows of a test; docs/rfc2544.md says what the columns are.
pub(super) fn csv(test: &TestReport) -> String {
    let mut out = HEAD.to_owned();
    let mut row = |cells: [String; CELLS]| out += &(cells.join(",") + "\r\n");
    let real = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let whole = |value: Option<i64>| value.map_or_else(String::new, |value| value.to_string());
    for size in &test.sizes {
        let begin = |kind: &str| {
            let mut cells: [String; CELLS] = Default::default();
            cells[0] = kind.to_owned();
            cells[1] = field(&size.size);
            cells[2] = real(size.frame_bytes);
            cells
        };
        if let Some(why) = &size.skipped {
            let mut cells = begin("throughput");
            (cells[4], cells[20]) = ("left_out".to_owned(), field(why));
            row(cells);
        }
        for of in &size.throughput {
            let mut cells = begin("throughput");
            cells[3] = of.loss_ratio.to_string();
            cells[4] = word(of.outcome);
            cells[6] = real(of.lower);
            cells[7] = real(of.upper);
            cells[8] = of.trial_ns.to_string();
            cells[9] = of.frames.to_string();
            row(cells);
            for search in of.searches.iter().flat_map(|searches| &searches.each) {
                let mut cells = begin("search");
                cells[3] = of.loss_ratio.to_string();
                cells[4] = word(search.outcome);
                cells[6] = real(search.lower);
                cells[7] = real(search.upper);
                row(cells);
            }
        }
        if let Some(of) = &size.latency {
            for tagged in &of.tagged_ns {
                let mut cells = begin("latency");
                cells[6] = of.load.to_string();
                cells[8] = of.trial_ns.to_string();
                cells[19] = tagged.to_string();
                row(cells);
            }
            if let Some(tester) = &of.baseline {
                let mut cells = begin("baseline");
                cells[6] = tester.load.to_string();
                let delays = tester.delay_ns.as_ref().map(|delays| &delays.percentiles);
                cells[15] = whole(delays.and_then(|of| of.p50));
                cells[16] = whole(delays.and_then(|of| of.p99));
                cells[19] = real(tester.tagged_mean_ns);
                row(cells);
            }
        }
        if let Some(of) = &size.back_to_back {
            for burst in &of.repetitions {
                let mut cells = begin("back-to-back");
                cells[4] = word(match (burst.limited_by_tester, burst.at_least) {
                    (true, _) => SearchOutcome::AtLeastByTester,
                    (false, true) => SearchOutcome::AtLeast,
                    (false, false) => SearchOutcome::Found,
                });
                cells[6] = burst.burst_rate.to_string();
                cells[18] = burst.frames.to_string();
                row(cells);
            }
        }
        if let Some(of) = &size.recovery {
            if !of.overloaded {
                let mut cells = begin("recovery");
                cells[4] = "not_overloaded".to_owned();
                row(cells);
            }
            for time in &of.times {
                let mut cells = begin("recovery");
                cells[6] = of.overload.to_string();
                cells[8] = of.overload_ns.to_string();
                cells[21] = time.least_ns.to_string();
                // no bound where it was not watched for long enough
                cells[22] = if time.recovered { time.most_ns.to_string() } else { String::new() };
                row(cells);
            }
        }
        if let Some(of) = &size.reset {
            let mut cells = begin("reset");
            cells[6] = of.load.to_string();
            cells[8] = of.time_ns.to_string();
            let silence = of.silence_ns.filter(|_| of.returned);
            cells[23] = silence.map_or_else(String::new, |ns| ns.to_string());
            row(cells);
        }
        for trial in &size.trials {
            let mut cells = begin("trial");
            cells[5] = trial.intended.to_string();
            cells[6] = trial.offered.to_string();
            cells[8] = trial.trial_ns.to_string();
            cells[9] = trial.sent.to_string();
            cells[10] = trial.received.to_string();
            cells[11] = trial.lost.to_string();
            cells[12] = trial.loss_ratio.to_string();
            cells[13] = trial.duplicates.to_string();
            cells[14] = trial.reordered.to_string();
            cells[15] = whole(trial.delay_p50_ns);
            cells[16] = whole(trial.delay_p99_ns);
            cells[17] = whole(trial.lateness_p99_ns);
            cells[24] = trial.repeated.to_string();
            cells[20] = field(trial.doubt.as_deref().unwrap_or_default());
            cells[25] = trial.unique.to_string();
            cells[26] = field(&trial.purpose);
            row(cells);
        }
    }
    out
}

/// A word of the model.
fn word(of: impl Serialize) -> String {
    let word = serde_json::to_value(of).ok();
    word.and_then(|word| Some(field(word.as_str()?))).unwrap_or_default()
}

/// Writes the results of a test.
pub(super) fn markdown(test: &TestReport) -> String {
    let title = escape(test.title.as_deref().unwrap_or(&test.test));
    let verdict = escape(text::verdict(test).trim_end());
    let mut out = format!("{MARK} {title}\n\n{verdict}\n\n");
    let of_run = test.last_trial.as_deref();
    out += &format!("- standard: {}\n", escape(&test.test));
    for (name, fact) in facts(&test.started, Some(test.duration_ns), &test.command_line, of_run) {
        out += &format!("- {name}: {}\n", escape(&fact));
    }
    for table in tables(test) {
        let cells = table.rows.iter().map(|row| row.iter().map(|cell| cell.text.clone()).collect());
        out += &rows(&capital(table.title), table.heads, cells.collect());
        for note in &table.notes {
            out += &format!("\n{}\n", escape(note));
        }
    }
    for (title, notes) in
        [("Findings", &test.findings), ("Not as the standard has it", &test.deviations)]
    {
        if !notes.is_empty() {
            let lines: String = notes.iter().map(|note| format!("- {}\n", escape(note))).collect();
            out += &format!("\n## {title}\n\n{lines}");
        }
    }
    out
}
