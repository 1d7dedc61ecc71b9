//! What to make of a run, in words.

use crate::human;
use crate::model::{Report, Verdict};

/// What was expected holds.
pub const PASS: &str = "PASS";
/// It does not.
pub const FAIL: &str = "FAIL";

/// Too little was measured to say.
pub const UNDECIDED: &str = "UNDECIDED";

/// [`PASS`] or [`FAIL`], where something was expected: only a run that is done, consistent and as expected passes.
pub fn outcome(report: &Report) -> Option<&'static str> {
    report.expectations().next()?;
    Some(if report.verdict == Verdict::Done { PASS } else { FAIL })
}

/// The verdict as programs call it.
pub const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "done",
        Verdict::Unfinished => "unfinished",
        Verdict::CountersInconsistent => "counters_inconsistent",
        Verdict::Unmet => "unmet",
    }
}

/// The verdict in a sentence.
pub fn sentence(report: &Report) -> String {
    let all = report.expectations().count();
    let unmet = report.expectations().filter(|one| !one.expectation.met).count() as u64;
    let of = human::counted(all as u64, "expectation");
    let outcome = outcome(report).map_or_else(String::new, |word| format!("{word}. "));
    outcome
        + &match (report.verdict, all) {
            (Verdict::Done, 0) => "Done: counters consistent".to_owned(),
            (Verdict::Done, 1) => "Done: counters consistent, the expectation met".to_owned(),
            (Verdict::Done, _) => format!("Done: counters consistent, all {of} met"),
            (Verdict::Unfinished, _) => {
                "Unfinished: the numbers are right as far as the run went".to_owned()
            }
            (Verdict::CountersInconsistent, _) => {
                "Counters inconsistent: the numbers cannot be trusted".to_owned()
            }
            (Verdict::Unmet, 1) => "The expectation is not met".to_owned(),
            (Verdict::Unmet, _) => format!("Expectations not met: {} of {of}", human::count(unmet)),
        }
}
