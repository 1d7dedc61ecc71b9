//! A comparison for people: what changed first, then what did not.

use super::{ChangeOutcome, Changes, CompareVerdict, MetricChange};
use crate::format::Colour;
use crate::human;
use crate::text::style::{Style, clean, cut, hang};
use crate::text::table::{Cell, Table};

/// Columns of a name.
const NAME: usize = 16;
/// Columns of a note.
const COLUMNS: usize = 100;

pub(super) fn changes(of: &Changes, colour: Colour) -> String {
    let style = Style::new(colour);
    let runs = |count: usize| human::counted(count as u64, "run");
    let verdict = match of.verdict {
        CompareVerdict::Pass => style.strong("PASS"),
        CompareVerdict::Fail => style.bad("FAIL"),
        CompareVerdict::Changed => style.strong("CHANGED"),
        CompareVerdict::Unchanged => style.strong("UNCHANGED"),
        CompareVerdict::Undecided if of.threshold.is_none() => style.strong("NO VERDICT"),
        CompareVerdict::Undecided => style.bad("UNDECIDED"),
    };
    let mut out = format!(
        "{verdict}  {} of before, {} of now. {}\n",
        runs(of.old_runs),
        runs(of.new_runs),
        summary(of)
    );
    if of.metrics.is_empty() {
        return out + "no metric is in all of them\n" + &notes(of);
    }
    let heading = ["", "metric", "before", "now", "change", "95 % interval", "p", ""];
    let mut table = Table::new(&heading);
    let mut sorted: Vec<&MetricChange> = of.metrics.iter().collect();
    sorted.sort_by_key(|metric| gravity(metric.outcome));
    for metric in sorted {
        table.row(row(metric));
    }
    out += "\n";
    out += &table.render(0, style);
    out + &notes(of)
}

fn notes(of: &Changes) -> String {
    of.notes.iter().map(|note| hang("note: ", &clean(note), COLUMNS) + "\n").collect()
}

fn gravity(outcome: ChangeOutcome) -> u8 {
    match outcome {
        ChangeOutcome::Fails => 0,
        ChangeOutcome::Worse => 1,
        ChangeOutcome::Better => 2,
        ChangeOutcome::Same | ChangeOutcome::Undecided => 3,
    }
}

fn summary(of: &Changes) -> String {
    let fewer = of.old_runs.min(of.new_runs) < of.runs_needed;
    if fewer && !of.metrics.is_empty() {
        let needed = of.runs_needed;
        return format!("With fewer than {needed} runs a side it cannot be said what changed.");
    }
    let count = |outcome| of.metrics.iter().filter(|metric| metric.outcome == outcome).count();
    let worse = count(ChangeOutcome::Fails) + count(ChangeOutcome::Worse);
    let better = count(ChangeOutcome::Better);
    let all = human::counted(of.metrics.len() as u64, "metric");
    match (worse, better) {
        (0, 0) => format!("None of {all} changed by more than runs differ."),
        (worse, better) => {
            format!("Of {all} {worse} changed for the worse, {better} for the better.")
        }
    }
}

fn row(metric: &MetricChange) -> Vec<Cell> {
    let written = |value: f64| printed(&metric.metric, value);
    let [low, high] = metric.difference_interval;
    let (outcome, bad) = match metric.outcome {
        ChangeOutcome::Same => ("same", false),
        ChangeOutcome::Better => ("better", false),
        ChangeOutcome::Worse => ("worse", true),
        ChangeOutcome::Fails => ("FAILS", true),
        ChangeOutcome::Undecided => ("undecided", false),
    };
    vec![
        cut(&clean(&metric.of), NAME).into(),
        metric.metric.clone().into(),
        written(metric.old_mean).into(),
        written(metric.new_mean).into(),
        changed(metric).into(),
        format!("{} to {}", written(low), written(high)).into(),
        format!("{:.3}", metric.p_corrected).into(),
        Cell { bad, ..Cell::from(outcome.to_owned()) },
    ]
}

/// By how much a metric changed.
pub(super) fn changed(metric: &MetricChange) -> String {
    match metric.change {
        Some(change) => format!("{:+.1} %", change * 100.0),
        None if metric.new_mean == 0.0 => "0 %".to_owned(),
        None => "from 0".to_owned(),
    }
}

/// A value of a metric, or a difference of two.
pub(super) fn printed(metric: &str, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let text = match metric {
        "loss" | "failed" => human::percent(size),
        "rate.received" => human::frame_rate(size),
        "rate.goodput" => human::bit_rate(size),
        rate if rate.starts_with("rate.") => format!("{}/s", human::number(size)),
        _ => human::time(size),
    };
    format!("{sign}{text}")
}
