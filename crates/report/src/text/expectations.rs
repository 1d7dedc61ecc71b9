//! What was expected, and what came of it: those that were not met first, each with what was measured and by how much it missed.

use super::blocks::COLUMNS;
use super::style::{Style, clean, hang};
use crate::human;
use crate::model::{Expected, Report, Verdict};
use crate::verdict;

/// Expectations that are shown; the rest are in the JSON form.
const SHOWN: usize = 40;
/// Columns before an expectation: the longest outcome is "UNDECIDED".
const INDENT: usize = 12;

/// The expectations of a run; nothing where there are none.
pub fn expectations(report: &Report, style: Style) -> Option<String> {
    let (met, failed): (Vec<_>, Vec<_>) =
        report.expectations().partition(|expected| expected.expectation.met);
    let all = met.len() + failed.len();
    if all == 0 {
        return None;
    }
    let mut out = style.strong("expectations") + "\n";
    for expected in failed.iter().chain(&met).take(SHOWN) {
        out += &line(expected, style);
    }
    if let Some(more) = all.checked_sub(SHOWN).filter(|more| *more > 0) {
        let more = human::counted(more as u64, "more expectation");
        out += &format!("  {more}: in the JSON form of this report\n");
    }
    Some(out)
}

fn line(expected: &Expected<'_>, style: Style) -> String {
    let one = expected.expectation;
    let text = format!("{} ({})", expected.text(), one.found());
    let outcome = one.outcome();
    let prefix = format!("  {outcome:<width$}", width = INDENT - 2);
    let told = hang(&prefix, &clean(&text), COLUMNS) + "\n";
    match one.met {
        true => told,
        false => told.replacen(outcome, &style.bad(outcome), 1),
    }
}

/// Whether the run passed, where something was expected.
pub fn outcome(report: &Report, style: Style) -> Option<String> {
    verdict::outcome(report).map(|word| match report.verdict {
        Verdict::Done => style.strong(word),
        _ => style.bad(word),
    })
}
