//! What is looked for, and how the trials at a load are judged: the search goals and the load classification of RFC 9971 (MLRsearch).

use crate::Trial;

/// What is looked for (RFC 9971, Search Goal). With `exceed_ratio` 0 and `duration_sum` as long as `final_seconds` it is the binary
/// search of RFC 2544: a load is borne if a single full trial lost no more than `loss_ratio`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The most that a trial may lose, of 1 (Goal Loss Ratio).
    pub loss_ratio: f64,
    /// Trials that lose more may take up to this share of the time, below 1 (Goal Exceed Ratio).
    pub exceed_ratio: f64,
    /// How long a full trial takes (Goal Final Trial Duration).
    pub final_seconds: f64,
    /// How long all trials at a load take together before it is judged (Goal Duration Sum).
    pub duration_sum: f64,
    /// How long the first, coarse trials take (Goal Initial Trial Duration).
    pub initial_seconds: f64,
    /// How far the two bounds may be apart at the end, as a share of the upper one (Goal Width, relative).
    pub width: f64,
}

impl Goal {
    /// The throughput of RFC 2544 §26.1, with some tolerance.
    pub fn rfc2544(loss_ratio: f64, seconds: f64, width: f64) -> Goal {
        Goal {
            loss_ratio,
            exceed_ratio: 0.0,
            final_seconds: seconds,
            duration_sum: seconds,
            initial_seconds: seconds,
            width,
        }
    }

    /// The goal of a phase with shorter trials: one of them judges a load.
    pub(crate) fn coarse(self, seconds: f64, width: f64) -> Goal {
        Goal { final_seconds: seconds, duration_sum: seconds, width, ..self }
    }
}

/// What the trials at a load say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is borne.
    Lower,
    /// It is not.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Sums of durations by kind of trial.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    good_long: f64,
    bad_long: f64,
    good_short: f64,
    bad_short: f64,
}

impl Sums {
    fn of<'a>(goal: &Goal, trials: impl Iterator<Item = &'a Trial>) -> Sums {
        let mut sums = Sums::default();
        for trial in trials {
            let sum =
                match (trial.seconds >= goal.final_seconds, trial.loss_ratio > goal.loss_ratio) {
                    (true, false) => &mut sums.good_long,
                    (true, true) => &mut sums.bad_long,
                    (false, false) => &mut sums.good_short,
                    (false, true) => &mut sums.bad_short,
                };
            *sum += trial.seconds;
        }
        sums
    }
}

/// Judges a load by the trials at it (RFC 9971, Load Classification): short trials that lost too much count against it as far as short
/// ones that did not leave them over, and what is not measured yet is taken once for good and once for bad.
pub fn classify<'a>(goal: &Goal, trials: impl Iterator<Item = &'a Trial>) -> Bound {
    let sums = Sums::of(goal, trials);
    let excused = sums.good_short * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let bad = sums.bad_long + (sums.bad_short - excused).max(0.0);
    let whole = (sums.good_long + bad).max(goal.duration_sum);
    let allowed = whole * goal.exceed_ratio;
    let if_rest_is_good = bad <= allowed;
    let if_rest_is_bad = whole - sums.good_long <= allowed;
    match (if_rest_is_good, if_rest_is_bad) {
        (true, true) => Bound::Lower,
        (false, false) => Bound::Upper,
        _ => Bound::Undecided,
    }
}

/// The rate that is forwarded at `load` (RFC 9971, Conditional Throughput): less what the worst of the trials lost that still counts.
pub fn conditional_throughput(goal: &Goal, load: f64, trials: &[Trial]) -> f64 {
    let here = |trial: &&Trial| trial.load == load;
    let sums = Sums::of(goal, trials.iter().filter(here));
    let long = |trial: &&Trial| trial.seconds >= goal.final_seconds;
    let mut long: Vec<&Trial> = trials.iter().filter(here).filter(long).collect();
    long.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let mut left =
        goal.duration_sum.max(sums.good_long + sums.bad_long) * (1.0 - goal.exceed_ratio);
    let mut lost = None;
    for trial in long {
        if lost.is_some() && left <= 0.0 {
            break;
        }
        lost = Some(trial.loss_ratio);
        left -= trial.seconds;
    }
    let lost = if left > 0.0 { 1.0 } else { lost.unwrap_or(1.0) };
    load * (1.0 - lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MLR: Goal = Goal {
        loss_ratio: 0.005,
        exceed_ratio: 0.5,
        final_seconds: 1.0,
        duration_sum: 21.0,
        initial_seconds: 1.0,
        width: 0.005,
    };

    fn trials(good: usize, bad: usize) -> Vec<Trial> {
        let of = |count, loss| vec![Trial::new(100.0, 1.0, loss); count];
        [of(good, 0.0), of(bad, 0.1)].concat()
    }

    /// With a sum of 21 s and half of it to spare, eleven trials of a kind decide, as in FD.io's labs.
    #[test]
    fn half_of_the_time_decides() {
        for (good, bad, bound) in [
            (0, 0, Bound::Undecided),
            (10, 0, Bound::Undecided),
            (11, 0, Bound::Lower),
            (11, 10, Bound::Lower),
            (0, 10, Bound::Undecided),
            (0, 11, Bound::Upper),
            (10, 10, Bound::Undecided),
        ] {
            assert_eq!(classify(&MLR, trials(good, bad).iter()), bound, "{good} good, {bad} bad");
        }
    }

    #[test]
    fn a_single_trial_decides_by_rfc_2544() {
        let goal = Goal::rfc2544(0.0, 1.0, 0.001);
        assert_eq!(classify(&goal, trials(1, 0).iter()), Bound::Lower);
        assert_eq!(classify(&goal, trials(1, 1).iter()), Bound::Upper);
        assert_eq!(classify(&goal, [].iter()), Bound::Undecided);
        // a short one shows loss, and does not show that there is none
        let short = |loss| [Trial::new(100.0, 0.5, loss)];
        assert_eq!(classify(&goal, short(0.1).iter()), Bound::Upper);
        assert_eq!(classify(&goal, short(0.0).iter()), Bound::Undecided);
    }

    #[test]
    fn short_trials_that_lost_are_excused_by_short_ones_that_did_not() {
        let short = |good: usize, bad: usize| {
            let of = |count, loss| vec![Trial::new(100.0, 0.5, loss); count];
            [of(good, 0.0), of(bad, 0.1)].concat()
        };
        assert_eq!(classify(&MLR, short(0, 22).iter()), Bound::Upper);
        assert_eq!(classify(&MLR, short(22, 22).iter()), Bound::Undecided);
    }

    #[test]
    fn conditional_throughput_is_of_the_worst_trial_that_counts() {
        let lost = [0.0, 0.001, 0.002, 0.5];
        let trials: Vec<Trial> = lost.iter().map(|lost| Trial::new(100.0, 1.0, *lost)).collect();
        let goal = Goal { duration_sum: 4.0, ..MLR };
        assert!((conditional_throughput(&goal, 100.0, &trials) - 99.9).abs() < 1e-9);
        // what is missing counts as lost
        assert!(conditional_throughput(&MLR, 100.0, &trials).abs() < 1e-9);
        assert!(conditional_throughput(&MLR, 7.0, &trials).abs() < 1e-9);
    }
}
