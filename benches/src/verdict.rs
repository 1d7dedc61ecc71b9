//! Targets of the benchmark against what was measured. A verdict is always computed from the figures,
//! never written by hand. Pure.

use crate::table::Table;

/// What became of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was reached.
    Met,
    /// It was missed.
    Missed,
    /// It could not be measured, for this reason.
    Unmeasured(String),
}

/// A target and what was measured of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was to be reached, with the bound.
    pub target: String,
    /// What was measured.
    pub figure: String,
    /// What became of it.
    pub outcome: Outcome,
}

impl Verdict {
    /// Of a target whose `figure` was measured and either holds or does not.
    pub fn of(target: impl Into<String>, figure: impl Into<String>, holds: bool) -> Verdict {
        let outcome = if holds { Outcome::Met } else { Outcome::Missed };
        Verdict { target: target.into(), figure: figure.into(), outcome }
    }

    /// Of a target that could not be measured.
    pub fn unmeasured(target: impl Into<String>, why: impl Into<String>) -> Verdict {
        let outcome = Outcome::Unmeasured(why.into());
        Verdict { target: target.into(), figure: crate::format::NOTHING.to_owned(), outcome }
    }
}

/// All verdicts as a table.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new(&["target", "measured", "verdict"]);
    for verdict in verdicts {
        let outcome = match &verdict.outcome {
            Outcome::Met => "met".to_owned(),
            Outcome::Missed => "**missed**".to_owned(),
            Outcome::Unmeasured(why) => format!("not measured: {why}"),
        };
        table.row(vec![verdict.target.clone(), verdict.figure.clone(), outcome]);
    }
    table
}

/// How many there are of each: met, missed, not measured.
pub fn count(verdicts: &[Verdict]) -> (usize, usize, usize) {
    let of =
        |outcome: fn(&Outcome) -> bool| verdicts.iter().filter(|v| outcome(&v.outcome)).count();
    (
        of(|outcome| *outcome == Outcome::Met),
        of(|outcome| *outcome == Outcome::Missed),
        of(|outcome| matches!(outcome, Outcome::Unmeasured(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_told_apart_and_counted() {
        let verdicts = [
            Verdict::of("a ≥ 2", "3", true),
            Verdict::of("b ≥ 2", "1", false),
            Verdict::unmeasured("c ≥ 2", "no such program"),
        ];
        assert_eq!(count(&verdicts), (1, 1, 1));
        let text = table(&verdicts).to_string();
        assert!(text.contains("| met ") && text.contains("| **missed** "), "{text}");
        assert!(text.contains("not measured: no such program"), "{text}");
    }
}
