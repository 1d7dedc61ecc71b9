//! The throughput of a size out of its trials: which search each trial belongs to, and what the searches came to.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use wirebeat_report::student::mean_within;
use wirebeat_report::test_report::{self, Search, SearchOutcome, SizeReport, Throughput};
use wirebeat_search::{Bounds, Goal, Next, ThroughputSearch, Trial, conditional_throughput};

use super::size_test::{THROUGHPUT, constant_loss, is_dead};
use crate::bench::{Lengths, OVERHEAD};

/// Of nothing lost among n frames: with 95 % confidence, fewer than 3/n are (Hanley and Lippman-Hand 1983).
const RULE_OF_THREE: f64 = 3.0;

/// The trials of a size, by the search that each belongs to: a search ends with the trial after which it asks for no more.
pub(super) struct Searches {
    /// Those that are over, with how.
    pub done: Vec<(Range<usize>, Next)>,
    /// Where the one that goes on begins.
    begun: usize,
    /// What it asks for.
    pub next: (f64, f64),
    /// Trials that were looked at.
    seen: usize,
}

impl Searches {
    pub fn of(search: &ThroughputSearch, trials: &[Trial]) -> Searches {
        let next = (search.max, 0.0);
        let mut searches = Searches { done: Vec::new(), begun: 0, next, seen: 0 };
        searches.ask(search, &[]);
        searches.take(search, trials);
        searches
    }

    /// Looks at the trials that were made since.
    pub fn take(&mut self, search: &ThroughputSearch, trials: &[Trial]) {
        while self.seen < trials.len() {
            self.seen += 1;
            self.ask(search, &trials[self.begun..self.seen]);
        }
    }

    fn ask(&mut self, search: &ThroughputSearch, trials: &[Trial]) {
        match search.next(trials) {
            Next::Trial { load, seconds } => self.next = (load, seconds),
            over => {
                self.done.push((self.begun..self.seen, over));
                self.begun = self.seen;
                if let Next::Trial { load, seconds } = search.next(&[]) {
                    self.next = (load, seconds);
                }
            }
        }
    }

    /// Each search, the one that goes on too where it has trials, or where there is no other.
    pub fn all(&self) -> impl Iterator<Item = (Range<usize>, Next)> {
        let (load, seconds) = self.next;
        let open = (self.begun..self.seen, Next::Trial { load, seconds });
        let open = (self.begun < self.seen || self.done.is_empty()).then_some(open);
        self.done.iter().cloned().chain(open)
    }
}

/// Of two loads that are borne, or none.
pub(super) fn by_load(one: Option<f64>, other: Option<f64>) -> Ordering {
    one.unwrap_or(0.0).total_cmp(&other.unwrap_or(0.0))
}

/// The lowest of the throughputs that searches came to, with all of them where several were asked for.
pub(super) fn lowest(each: Vec<Throughput>, several: bool) -> Option<Throughput> {
    let of = |one: &Throughput| Search { outcome: one.outcome, lower: one.lower, upper: one.upper };
    let told: Vec<Search> = each.iter().map(of).collect();
    // what a search that goes on has so far says nothing of the mean
    let found: Option<Vec<f64>> = told
        .iter()
        .filter(|one| one.outcome != SearchOutcome::Unfinished)
        .map(|one| one.lower.filter(|_| one.outcome == SearchOutcome::Found))
        .collect();
    let (mean, within) = match found.as_deref().and_then(mean_within) {
        Some((mean, Some(within))) => (Some(mean), Some(within)),
        _ => (None, None),
    };
    let over = |one: &Throughput| one.outcome != SearchOutcome::Unfinished;
    let any = each.iter().any(over);
    let candidates = each.into_iter().filter(|one| over(one) || !any);
    let lowest = candidates.min_by(|one, other| by_load(one.lower, other.lower));
    let searches = several.then_some(test_report::Searches { each: told, mean, within });
    lowest.map(|lowest| Throughput { searches, ..lowest })
}

/// What a search came to for a goal; `all` are its trials.
pub(super) fn result(
    goal: &Goal,
    of: &SizeReport,
    all: &[Trial],
    (next, max, lengths): (&Next, f64, Lengths),
) -> Throughput {
    let Bounds { lower, upper } = Bounds::of(goal, all);
    let at = |load: Option<f64>| all.iter().filter(move |trial| Some(trial.load) == load);
    let tester = |load| {
        let mut at = at(load).peekable();
        at.peek().is_some() && at.all(Trial::is_limited)
    };
    let dead = lower.is_none() && is_dead(of);
    let by_chance = || constant_loss(of).is_some_and(|found| found.ratio > goal.loss_ratio);
    let outcome = match (lower, upper) {
        _ if dead => SearchOutcome::NothingBorne,
        _ if *next == Next::NoConvergence => SearchOutcome::NoConvergence,
        _ if matches!(next, Next::Trial { .. }) => SearchOutcome::Unfinished,
        // even the lowest load was lost, or not offered, by the tester: nothing is known of the device
        (None, upper) if tester(upper) => SearchOutcome::AtLeastByTester,
        (None, _) => SearchOutcome::NothingBorne,
        (Some(_), Some(_)) if tester(upper) => SearchOutcome::AtLeastByTester,
        (Some(_), Some(_)) if by_chance() => SearchOutcome::ByChance,
        (Some(_), Some(_)) => SearchOutcome::Found,
        (Some(_), None) if tester(lower) => SearchOutcome::AtLeastByTester,
        (Some(_), None) => SearchOutcome::AtLeast,
    };
    let loads: BTreeSet<u64> = lower.iter().map(|load| load.to_bits()).collect();
    let here = of
        .trials
        .iter()
        .filter(|trial| trial.purpose == THROUGHPUT && loads.contains(&trial.offered.to_bits()));
    let (frames, lost) = here.fold((0u64, 0u64), |(sent, lost), trial| {
        (sent.saturating_add(trial.sent), lost.saturating_add(trial.lost))
    });
    Throughput {
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        trial_ns: (goal.final_seconds * 1e9) as u64,
        duration_sum_ns: (goal.duration_sum * 1e9) as u64,
        outcome,
        lower,
        upper,
        conditional: lower.map(|load| conditional_throughput(goal, load, all)),
        frame_bits_per_second: lower.map(|load| load * lengths.frame * 8.0),
        line_bits_per_second: lower.map(|load| load * (lengths.frame + OVERHEAD) * 8.0),
        of_max: lower.map(|load| load / max),
        frames,
        // of one or two frames it says nothing
        loss_below: (frames > 3 && lost == 0).then(|| RULE_OF_THREE / frames as f64),
        searches: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of a device that bears `borne`.
    fn trials_of(search: &ThroughputSearch, borne: f64, count: usize) -> Vec<Trial> {
        let (mut all, mut now) = (Vec::new(), Vec::new());
        while all.len() < count {
            let Next::Trial { load, seconds } = search.next(&now) else {
                now.clear();
                continue;
            };
            let loss_ratio = (1.0 - borne / load).max(0.0);
            now.push(Trial { load, intended: load, seconds, loss_ratio });
            all.push(Trial { load, intended: load, seconds, loss_ratio });
        }
        all
    }

    #[test]
    fn trials_belong_to_searches_one_after_the_other() {
        let goals = vec![Goal::rfc2544(0.0, 1.0, 0.01)];
        let search = ThroughputSearch { goals, max: 1_000.0, min: 1.0 };
        let none = Searches::of(&search, &[]);
        assert_eq!((none.done.len(), none.next.0, none.all().count()), (0, 1_000.0, 1));
        let all = trials_of(&search, 333.0, 60);
        let whole = Searches::of(&search, &all);
        let lengths: Vec<usize> = whole.done.iter().map(|(of, _)| of.len()).collect();
        assert!(lengths.len() > 2 && lengths.windows(2).all(|two| two[0] == two[1]), "{lengths:?}");
        // told trial by trial, and in one
        let mut told = Searches::of(&search, &all[..7]);
        told.take(&search, &all);
        assert_eq!((told.done, told.next), (whole.done.clone(), whole.next));
        assert!(whole.all().all(|(of, _)| all[of.start].load == 1_000.0));
    }

    #[test]
    fn a_mean_is_of_searches_that_found_both_bounds() {
        let of = |outcome, lower| Throughput {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            trial_ns: 0,
            duration_sum_ns: 0,
            outcome,
            lower,
            upper: None,
            conditional: None,
            frame_bits_per_second: None,
            line_bits_per_second: None,
            of_max: None,
            frames: 0,
            loss_below: None,
            searches: None,
        };
        use SearchOutcome::{AtLeast, Found, NothingBorne, Unfinished};
        let told = |each: &[(SearchOutcome, Option<f64>)]| {
            let each = each.iter().map(|(outcome, lower)| of(*outcome, *lower)).collect();
            let lowest = lowest(each, true).unwrap();
            (lowest.outcome, lowest.lower, lowest.searches.unwrap().mean)
        };
        let (one, three) = ((Found, Some(1.0)), (Found, Some(3.0)));
        assert_eq!(told(&[three, one]), (Found, Some(1.0), Some(2.0)));
        assert_eq!(told(&[three, (AtLeast, Some(4.0))]), (Found, Some(3.0), None));
        assert_eq!(told(&[three, (NothingBorne, None)]), (NothingBorne, None, None));
        assert_eq!(told(&[three]), (Found, Some(3.0), None));
        // what goes on has nothing to say, unless it is all there is
        assert_eq!(told(&[three, one, (Unfinished, Some(0.5))]), (Found, Some(1.0), Some(2.0)));
        assert_eq!(told(&[(Unfinished, Some(0.5))]), (Unfinished, Some(0.5), None));
        assert!(lowest(vec![of(Found, Some(1.0))], false).unwrap().searches.is_none());
    }
}
