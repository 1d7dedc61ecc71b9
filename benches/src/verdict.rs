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
    /// It was missed, and what the machine does by itself is beyond it already; the figure is no more than
    /// [`NEAR_NOISE`] times that.
    Noise,
    /// It was missed, and the bare loop beside it, which does less than anybody who could meet it, misses it too: with this figure.
    Floor(String),
    /// It could not be measured, for this reason.
    Unmeasured(String),
}

/// How much more than the noise of the machine is still the noise of the machine, which is another from one moment to
/// the next.
pub const NEAR_NOISE: f64 = 1.5;

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

    /// Of a target that `measured` is at most `bound`, on a machine that by itself comes to `noise`.
    pub fn at_most(
        target: impl Into<String>,
        figure: impl Into<String>,
        (measured, bound, noise): (f64, f64, f64),
    ) -> Verdict {
        let verdict = Self::of(target, figure, measured <= bound);
        let beyond = noise > bound && measured <= noise * NEAR_NOISE;
        match verdict.outcome {
            Outcome::Missed if beyond => Verdict { outcome: Outcome::Noise, ..verdict },
            _ => verdict,
        }
    }

    /// The same, where a bare loop beside it comes to `floor`, which is beyond the target too.
    #[must_use]
    pub fn or_floor(self, floor: Option<String>) -> Verdict {
        match (&self.outcome, floor) {
            (Outcome::Missed, Some(floor)) => Verdict { outcome: Outcome::Floor(floor), ..self },
            _ => self,
        }
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
            Outcome::Noise => "missed, by the machine's noise alone".to_owned(),
            Outcome::Floor(floor) => format!("missed, and by the bare loop too: {floor}"),
            Outcome::Unmeasured(why) => format!("not measured: {why}"),
        };
        table.row(vec![verdict.target.clone(), verdict.figure.clone(), outcome]);
    }
    table
}

/// How many there are of each, as a sentence.
pub fn count(verdicts: &[Verdict]) -> String {
    let of =
        |outcome: fn(&Outcome) -> bool| verdicts.iter().filter(|v| outcome(&v.outcome)).count();
    let (met, missed) =
        (of(|outcome| *outcome == Outcome::Met), of(|outcome| *outcome == Outcome::Missed));
    let noise = match of(|outcome| *outcome == Outcome::Noise) {
        0 => String::new(),
        count => format!(
            "{count} missed by the machine's noise alone (at most {NEAR_NOISE} times what it explains), "
        ),
    };
    let floor = match of(|outcome| matches!(outcome, Outcome::Floor(_))) {
        0 => String::new(),
        count => format!("{count} missed that the bare loop beside it misses too, "),
    };
    let unmeasured = of(|outcome| matches!(outcome, Outcome::Unmeasured(_)));
    format!("{met} met, {missed} missed, {noise}{floor}{unmeasured} not measured.")
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
        assert_eq!(count(&verdicts), "1 met, 1 missed, 1 not measured.");
        let text = table(&verdicts).to_string();
        assert!(text.contains("| met ") && text.contains("| **missed** "), "{text}");
        assert!(text.contains("not measured: no such program"), "{text}");
    }

    #[test]
    fn what_a_bare_loop_misses_is_said() {
        let missed = || Verdict::of("x ≤ 3", "15", false);
        let verdicts = [missed().or_floor(Some("6 ×".to_owned())), missed().or_floor(None)];
        assert!(count(&verdicts).starts_with("0 met, 1 missed, 1 missed that the bare loop"));
        let text = table(&verdicts).to_string();
        assert!(text.contains("| missed, and by the bare loop too: 6 × |"), "{text}");
        let met = Verdict::of("x ≤ 3", "2", true).or_floor(Some("6 ×".to_owned()));
        assert_eq!(met.outcome, Outcome::Met);
    }

    #[test]
    fn what_the_machine_does_is_told_from_what_we_do() {
        let outcome = |figures| Verdict::at_most("x ≤ 10", "", figures).outcome;
        assert_eq!(outcome((10.0, 10.0, 100.0)), Outcome::Met);
        assert_eq!(outcome((150.0, 10.0, 100.0)), Outcome::Noise);
        assert_eq!(outcome((151.0, 10.0, 100.0)), Outcome::Missed);
        assert_eq!(
            outcome((11.0, 10.0, 10.0)),
            Outcome::Missed,
            "a quiet machine has no part in it"
        );
        let verdicts = [Verdict::at_most("x ≤ 10", "", (150.0, 10.0, 100.0))];
        assert!(count(&verdicts).contains("1 missed by the machine's noise alone"));
    }
}
