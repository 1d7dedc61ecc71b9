//! A comparison as rows of CSV and as cases of JUnit XML: one for each metric.

use quick_junit::{TestCase, TestCaseStatus, TestSuite};

use super::text::{changed, printed};
use super::{ChangeOutcome, Changes, CompareVerdict, MetricChange};
use crate::csv::field;
use crate::human;
use crate::junit::{failure, printable, write};

/// What the head of a file is: it begins as that of reports, by which a file is known as ours.
const HEAD: &str = "kind,name,metric,outcome,old_runs,new_runs,old_mean,new_mean,change,difference_low,difference_high,p_value,\
p_corrected\r\n";

/// Writes the rows; means and differences are in the unit of the report: ns, frames/s, bits/s, or a ratio of 1.
pub(super) fn csv(of: &Changes) -> String {
    let row = |metric: &MetricChange| {
        let [low, high] = metric.difference_interval;
        let change = metric.change.map_or_else(String::new, |change| change.to_string());
        format!(
            "change,{},{},{},{},{},{},{},{change},{low},{high},{},{}\r\n",
            field(&metric.of),
            metric.metric,
            word(metric.outcome),
            of.old_runs,
            of.new_runs,
            metric.old_mean,
            metric.new_mean,
            metric.p_value,
            metric.p_corrected
        )
    };
    HEAD.to_owned() + &of.metrics.iter().map(row).collect::<String>()
}

/// As the JSON has it.
fn word(outcome: ChangeOutcome) -> &'static str {
    match outcome {
        ChangeOutcome::Same => "same",
        ChangeOutcome::Better => "better",
        ChangeOutcome::Worse => "worse",
        ChangeOutcome::Fails => "fails",
        ChangeOutcome::Undecided => "undecided",
    }
}

/// Writes the cases. Only with a threshold one can fail.
pub(super) fn junit(of: &Changes) -> String {
    let mut suite = TestSuite::new("compare");
    suite.add_property(("wirebeat_version", printable(&of.wirebeat_version).as_str()));
    suite.add_property(("old_runs", of.old_runs.to_string().as_str()));
    suite.add_property(("new_runs", of.new_runs.to_string().as_str()));
    let mut enough = TestCase::new("a verdict can be given", verdict(of));
    enough.set_classname("compare");
    suite.add_test_case(enough);
    let bound =
        of.threshold.map(|threshold| format!(" worse by less than {}", human::percent(threshold)));
    for metric in &of.metrics {
        let value = |value| printed(&metric.metric, value);
        let (old, new) = (value(metric.old_mean), value(metric.new_mean));
        let told = format!("{old} before, {new} now: {}", changed(metric));
        let status = match (metric.outcome, of.threshold) {
            (ChangeOutcome::Fails, _) => failure("unmet", &told),
            (ChangeOutcome::Undecided, Some(_)) => failure("undecided", &told),
            _ => TestCaseStatus::success(),
        };
        let passes = matches!(status, TestCaseStatus::Success { .. });
        let name = format!("{}{}", metric.metric, bound.as_deref().unwrap_or_default());
        let mut case = TestCase::new(printable(&name), status);
        case.set_classname(printable(&metric.of));
        if passes {
            case.set_system_out(printable(&told));
        }
        suite.add_test_case(case);
    }
    if !of.notes.is_empty() {
        suite.set_system_out(printable(&of.notes.join("; ")));
    }
    write([suite])
}

fn verdict(of: &Changes) -> TestCaseStatus {
    match (of.verdict, of.threshold) {
        (CompareVerdict::Undecided, Some(_)) => {
            let why = of.notes.join("; ");
            failure("undecided", if why.is_empty() { "there are too few runs" } else { &why })
        }
        (CompareVerdict::Undecided, None) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message("there are too few runs");
            status
        }
        _ => TestCaseStatus::success(),
    }
}
