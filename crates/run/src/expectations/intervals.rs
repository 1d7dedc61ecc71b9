//! An expectation that has to hold in each interval.

use wirebeat_report::model::Expectation;
use wirebeat_units::human;

use super::{Asked, Found, holds_between};

/// What was found in an interval.
#[derive(Clone, Debug)]
pub(super) struct OneInterval {
    /// When it began, from the start of the run.
    pub(super) from_ns: u64,
    /// When it ended.
    pub(super) to_ns: u64,
    pub(super) found: Found,
}

/// What was found in many intervals.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    all: u64,
    unmet: u64,
    /// The one that is furthest from what is expected.
    worst: Option<OneInterval>,
    /// The first in which it is not known.
    unknown: Option<OneInterval>,
}

impl Tally {
    pub(super) fn add(&mut self, asked: &Asked, one: OneInterval) {
        self.all += 1;
        match &one.found {
            Found::Number { low, high } => {
                let holds = holds_between(asked.comparison, (*low, *high), asked.limit);
                self.unmet += u64::from(holds == Some(false));
                self.note_worst(asked, one);
            }
            Found::TooFew { .. } | Found::Unknown(_) => self.note_unknown(one),
        }
    }

    /// Adds those that came after.
    pub(super) fn join(&mut self, asked: &Asked, later: Tally) {
        self.all += later.all;
        self.unmet += later.unmet;
        later.worst.into_iter().for_each(|one| self.note_worst(asked, one));
        later.unknown.into_iter().for_each(|one| self.note_unknown(one));
    }

    fn note_worst(&mut self, asked: &Asked, one: OneInterval) {
        if self.worst.as_ref().is_none_or(|worst| asked.is_worse(&one.found, &worst.found)) {
            self.worst = Some(one);
        }
    }

    fn note_unknown(&mut self, one: OneInterval) {
        if self.unknown.as_ref().is_none_or(|first| one.from_ns < first.from_ns) {
            self.unknown = Some(one);
        }
    }
}

/// What is to be said of it, by the interval that is furthest from it. One in which it is not known leaves it undecided, unless
/// another breaks it.
pub(super) fn decide(asked: &Asked, intervals: impl Iterator<Item = OneInterval>) -> Expectation {
    let mut tally = Tally::default();
    intervals.for_each(|one| tally.add(asked, one));
    decide_by(asked, tally)
}

/// The same of a tally.
pub(super) fn decide_by(asked: &Asked, tally: Tally) -> Expectation {
    let Tally { all, unmet, worst, unknown } = tally;
    let told = match (unmet, unknown, worst) {
        (0, Some(unknown), _) => unknown,
        (_, _, Some(worst)) => worst,
        (_, unknown, None) => match unknown {
            Some(unknown) => unknown,
            None => {
                let why = "there is no interval in which it could be measured";
                return asked.decide(Found::Unknown(why.to_owned()));
            }
        },
    };
    let (from, to) = (human::time(told.from_ns as f64), human::time(told.to_ns as f64));
    let mut judged = asked.decide(told.found);
    let place = format!("from {from} to {to}");
    match &mut judged.undecided {
        Some(why) => *why = format!("{place}: {why}"),
        None if judged.met => {
            judged.measured = format!(
                "at worst {} ({place}, of {})",
                judged.measured,
                human::counted(all, "interval")
            );
        }
        None => {
            judged.measured = format!(
                "{} {place}; not met in {} of {}",
                judged.measured,
                human::count(unmet),
                human::counted(all, "interval")
            );
        }
    }
    judged
}
