//! Which load to try next, until the bounds of a goal are close enough.
//!
//! Phases of trials that become longer and bounds that come closer (RFC 9971 leaves this to the implementation). Within a phase: what a
//! device forwarded at a load that it did not bear is the first guess of what it bears; from there steps that double reach the other
//! bound, and halves bring the two together. With trials of one length it is a binary search that begins well.

use crate::{Bound, Goal, Trial, classify};

/// How much longer the trials of the next phase are, and how much closer its bounds.
const PHASE: f64 = 4.0;
/// A guess below what was forwarded, in widths: what is borne is a little less than what comes through an overload.
const MARGIN: f64 = 0.5;
/// A search that needs more trials than this does not converge.
pub const MOST_TRIALS: usize = 400;

/// A search for the throughput of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputSearch {
    /// What is looked for, one after the other; trials count for all of them.
    pub goals: Vec<Goal>,
    /// The highest load.
    pub max: f64,
    /// Below this nothing is tried.
    pub min: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Try this.
    Trial {
        /// The load.
        load: f64,
        /// How long, in seconds.
        seconds: f64,
    },
    /// All goals are reached, or cannot be.
    Done,
    /// The trials contradict each other too often.
    NoConvergence,
}

/// What a search came to for a goal: the relevant bounds of RFC 9971.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The highest load that is borne and below every load that is not.
    pub lower: Option<f64>,
    /// The lowest load that is not borne.
    pub upper: Option<f64>,
}

impl Bounds {
    /// Of the loads that were tried.
    pub fn of(goal: &Goal, trials: &[Trial]) -> Bounds {
        let mut loads: Vec<f64> = trials.iter().map(|trial| trial.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let bound = |load: f64| classify(goal, trials.iter().filter(|trial| trial.load == load));
        let mut bounds = Bounds { lower: None, upper: None };
        for load in loads {
            match bound(load) {
                Bound::Lower => bounds.lower = Some(load),
                Bound::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
                Bound::Undecided => {}
            }
        }
        bounds
    }

    /// Whether they are as close as `width` asks.
    fn are_close(&self, width: f64) -> bool {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => (upper - lower) / upper <= width,
            _ => false,
        }
    }
}

impl ThroughputSearch {
    /// What to do after these trials.
    pub fn next(&self, trials: &[Trial]) -> Next {
        let loads = Loads { max: self.highest(trials), min: self.min };
        for goal in &self.goals {
            let mut before = Bounds { lower: None, upper: None };
            let phases = phases(goal);
            // a load that longer trials refuse opens no earlier phase again
            let made =
                |phase: &Goal| trials.iter().any(|trial| trial.seconds >= phase.final_seconds);
            let begun = phases.iter().rposition(made).unwrap_or(0);
            for (number, phase) in phases.into_iter().enumerate() {
                if number < begun {
                    before = Bounds::of(&phase, trials);
                    continue;
                }
                if let Some((load, seconds)) = loads.next(&phase, &before, trials) {
                    return match trials.len() < MOST_TRIALS {
                        true => Next::Trial { load, seconds },
                        false => Next::NoConvergence,
                    };
                }
                before = Bounds::of(&phase, trials);
            }
        }
        Next::Done
    }

    /// The highest load that can be offered: no more than what the tester came to when more was asked of it, and no less than `min`.
    fn highest(&self, trials: &[Trial]) -> f64 {
        let limits = trials.iter().filter(|trial| trial.is_limited()).map(|trial| trial.load);
        limits.fold(self.max, f64::min).max(self.min)
    }
}

/// The phases of a goal: from short trials and a wide gap to its own.
fn phases(goal: &Goal) -> Vec<Goal> {
    let mut phases = vec![*goal];
    let mut phase = *goal;
    while phase.final_seconds > goal.initial_seconds && phases.len() < 8 {
        let seconds = (phase.final_seconds / PHASE).max(goal.initial_seconds);
        phase = goal.coarse(seconds, (phase.width * PHASE).min(0.5));
        phases.push(phase);
    }
    phases.reverse();
    phases
}

struct Loads {
    max: f64,
    min: f64,
}

impl Loads {
    /// The next trial of a phase; `None` where it is over. `before` are the bounds of the phase before it.
    fn next(&self, goal: &Goal, before: &Bounds, trials: &[Trial]) -> Option<(f64, f64)> {
        let here = Bounds::of(goal, trials);
        // what was begun is judged first
        if let Some(load) = self.begun(goal, &here, trials) {
            return Some((load, goal.final_seconds));
        }
        let next = match (here.lower, here.upper) {
            _ if here.are_close(goal.width) => None,
            (None, None) => Some(before.lower.or(before.upper).unwrap_or(self.max)),
            (Some(lower), None) if lower >= self.max => None,
            (Some(lower), None) => Some(self.above(goal, lower, before, trials)),
            (None, Some(upper)) if upper <= self.min => None,
            (None, Some(upper)) => Some(self.below(goal, upper, trials)),
            (Some(lower), Some(upper)) => Some(self.between(goal, lower, upper, trials)),
        };
        next.map(|load| (load.clamp(self.min, self.max), goal.final_seconds))
    }

    /// A load between the bounds at which a trial of this phase was made, and that is not judged.
    fn begun(&self, goal: &Goal, here: &Bounds, trials: &[Trial]) -> Option<f64> {
        let open = |load: f64| {
            here.lower.is_none_or(|lower| load > lower)
                && here.upper.is_none_or(|upper| load < upper)
        };
        let long = |trial: &&Trial| trial.seconds >= goal.final_seconds && open(trial.load);
        let last = trials.iter().rev().find(long)?;
        let same = trials.iter().filter(|trial| trial.load == last.load);
        (classify(goal, same) == Bound::Undecided && last.load <= self.max).then_some(last.load)
    }

    /// How many trials of this phase were judged so in a row, up to the last.
    fn in_a_row(goal: &Goal, trials: &[Trial], good: bool) -> i32 {
        let long = trials.iter().rev().filter(|trial| trial.seconds >= goal.final_seconds);
        let mut loads: Vec<f64> = Vec::new();
        for trial in long {
            if (trial.loss_ratio <= goal.loss_ratio) != good {
                break;
            }
            if loads.last() != Some(&trial.load) {
                loads.push(trial.load);
            }
        }
        i32::try_from(loads.len()).unwrap_or(i32::MAX).min(60)
    }

    fn above(&self, goal: &Goal, lower: f64, before: &Bounds, trials: &[Trial]) -> f64 {
        if let Some(upper) = before.upper.filter(|upper| *upper > lower) {
            return upper;
        }
        let step = goal.width * 2f64.powi(Self::in_a_row(goal, trials, true) - 1);
        lower * (1.0 + step)
    }

    fn below(&self, goal: &Goal, upper: f64, trials: &[Trial]) -> f64 {
        let steps = Self::in_a_row(goal, trials, false);
        let least_lost = trials
            .iter()
            .filter(|trial| trial.load == upper)
            .map(|trial| trial.loss_ratio)
            .fold(1.0, f64::min);
        let forwarded = upper * (1.0 - least_lost);
        let guess = forwarded * (1.0 - MARGIN * goal.width);
        // guesses that fail say little: from there in steps that double
        let stepped = upper * (1.0 - goal.width * 2f64.powi(steps - 1)).max(0.5);
        if steps < 4 && guess < upper && guess > self.min { guess.min(stepped) } else { stepped }
    }

    /// The first guess is often close to what is borne: the other bound is looked for beside it, once. Then halves.
    fn between(&self, goal: &Goal, lower: f64, upper: f64, trials: &[Trial]) -> f64 {
        let long = trials.iter().filter(|trial| trial.seconds >= goal.final_seconds).count();
        let middle = if upper > lower * 4.0 {
            (lower * upper).sqrt()
        } else {
            lower + (upper - lower) / 2.0
        };
        let beside = goal.width * (1.0 + MARGIN);
        let good = Self::in_a_row(goal, trials, true) > 0;
        match long {
            0..=3 if good => (lower * (1.0 + beside)).min(middle),
            0..=3 => (upper * (1.0 - beside)).max(middle),
            _ => middle,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs a search on a device; what it came to, and the trials.
    fn search(
        search: &ThroughputSearch,
        mut loss: impl FnMut(f64, f64, usize) -> f64,
    ) -> (Next, Vec<Trial>) {
        let mut trials = Vec::new();
        loop {
            match search.next(&trials) {
                Next::Trial { load, seconds } => {
                    let lost = loss(load, seconds, trials.len());
                    trials.push(Trial::new(load, seconds, lost));
                }
                end => return (end, trials),
            }
        }
    }

    /// A device that forwards up to `rate`, and whose queue holds `depth` frames.
    fn bucket(rate: f64, depth: f64) -> impl FnMut(f64, f64, usize) -> f64 {
        move |load, seconds, _| {
            let sent = load * seconds;
            ((sent - rate * seconds - depth) / sent).max(0.0)
        }
    }

    fn rfc2544(max: f64) -> ThroughputSearch {
        ThroughputSearch { goals: vec![Goal::rfc2544(0.0, 10.0, 0.002)], max, min: 1.0 }
    }

    proptest! {
        /// Whatever the device bears, the search ends within its width of that, and soon.
        #[test]
        fn the_throughput_of_a_bucket_is_found(rate in 10.0..9e6_f64, depth in 0.0..100.0_f64) {
            let looked_for = rfc2544(10e6);
            let (end, trials) = search(&looked_for, bucket(rate, depth));
            prop_assert_eq!(end, Next::Done);
            let bounds = Bounds::of(&looked_for.goals[0], &trials);
            let borne = rate + depth / 10.0;
            let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
            prop_assert!(lower <= borne && borne < upper, "{lower} {borne} {upper}");
            prop_assert!((upper - lower) / upper <= 0.002);
            prop_assert!(trials.len() < 30, "{} trials", trials.len());
        }

        /// A device that drops at random: the search ends, and loads that were borne are below those that were not.
        #[test]
        fn a_search_ends_whatever_the_device_does(seed in any::<u64>(), exceed in 0.0..0.9_f64) {
            let goals = vec![
                Goal { exceed_ratio: exceed, initial_seconds: 1.0, duration_sum: 21.0, ..Goal::rfc2544(0.0, 4.0, 0.01) },
                Goal { exceed_ratio: exceed, initial_seconds: 1.0, duration_sum: 21.0, ..Goal::rfc2544(0.05, 4.0, 0.01) },
            ];
            let looked_for = ThroughputSearch { goals, max: 1e6, min: 1.0 };
            let mut state = seed;
            let (_, trials) = search(&looked_for, |_, _, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 33) as f64 / f64::from(1u32 << 31) - 0.5).max(0.0)
            });
            prop_assert!(trials.len() <= MOST_TRIALS);
            prop_assert!(trials.iter().all(|trial| trial.load >= 1.0 && trial.load <= 1e6));
            for goal in &looked_for.goals {
                let bounds = Bounds::of(goal, &trials);
                if let (Some(lower), Some(upper)) = (bounds.lower, bounds.upper) {
                    prop_assert!(lower < upper);
                }
            }
        }
    }

    #[test]
    fn a_device_that_bears_all_takes_one_trial() {
        let (end, trials) = search(&rfc2544(1e6), |_, _, _| 0.0);
        assert_eq!((end, trials.len()), (Next::Done, 1));
        assert!((trials[0].load - 1e6).abs() < 1e-9);
    }

    #[test]
    fn a_device_that_forwards_nothing_is_found_out() {
        let (end, trials) = search(&rfc2544(1e6), |_, _, _| 1.0);
        assert_eq!(end, Next::Done);
        assert!(trials.len() < 40, "{} trials", trials.len());
        assert_eq!(Bounds::of(&rfc2544(1e6).goals[0], &trials).lower, None);
    }

    /// A tester that cannot offer more says so by its trials, and nothing above is asked of it again.
    #[test]
    fn a_limit_of_the_tester_is_the_highest_load() {
        let looked_for = rfc2544(1e6);
        let limited = Trial { intended: 1e6, ..Trial::new(4e5, 10.0, 0.0) };
        assert_eq!(looked_for.next(&[limited]), Next::Done);
        let limited = Trial { intended: 1e6, ..Trial::new(4e5, 10.0, 0.5) };
        let Next::Trial { load, .. } = looked_for.next(&[limited]) else { panic!("no trial") };
        assert!((199_000.0..200_000.0).contains(&load), "{load}");
    }

    /// A tester that offers nothing: the search ends all the same.
    #[test]
    fn a_tester_that_offers_nothing_is_no_endless_search() {
        let looked_for = rfc2544(1e6);
        let mut trials = Vec::new();
        while let Next::Trial { load, seconds } = looked_for.next(&trials) {
            trials.push(Trial { intended: load, ..Trial::new(0.0, seconds, 1.0) });
        }
        assert!(trials.len() <= 2, "{trials:?}");
    }

    /// A queue that short trials fill: the coarse phases are wrong, and the last one is not.
    #[test]
    fn bounds_of_short_trials_are_not_trusted() {
        let goals = vec![Goal { initial_seconds: 1.0, ..Goal::rfc2544(0.0, 16.0, 0.002) }];
        let looked_for = ThroughputSearch { goals, max: 1e6, min: 1.0 };
        let (end, trials) = search(&looked_for, bucket(1000.0, 400.0));
        assert_eq!(end, Next::Done);
        let bounds = Bounds::of(&looked_for.goals[0], &trials);
        let borne = 1000.0 + 400.0 / 16.0;
        assert!(bounds.lower.unwrap() <= borne && bounds.upper.unwrap() > borne, "{bounds:?}");
        assert!(trials.len() < 30, "{trials:#?}");
    }

    /// The second goal begins with what the first one measured.
    #[test]
    fn trials_count_for_all_goals() {
        let sum = |loss| Goal {
            exceed_ratio: 0.5,
            duration_sum: 21.0,
            ..Goal::rfc2544(loss, 1.0, 0.005)
        };
        let both = ThroughputSearch { goals: vec![sum(0.0), sum(0.005)], max: 1e6, min: 1.0 };
        let (end, trials) = search(&both, bucket(250_000.0, 0.0));
        assert_eq!(end, Next::Done);
        let bounds: Vec<Bounds> = both.goals.iter().map(|goal| Bounds::of(goal, &trials)).collect();
        assert!(bounds[0].lower.unwrap() <= 250_000.0 && bounds[0].upper.unwrap() > 250_000.0);
        let allowed = 250_000.0 / 0.995;
        assert!(bounds[1].lower.unwrap() <= allowed && bounds[1].upper.unwrap() > allowed * 0.9999);
        assert!(trials.len() < 200, "{} trials", trials.len());
    }
}
