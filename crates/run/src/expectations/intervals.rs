//! An expectation that has to hold in each interval.

use wirebeat_report::model::Expectation;
use wirebeat_units::human;

use super::{Asked, Found, holds_between};

/// What was found in an interval.
pub(super) struct OneInterval {
    /// When it began, from the start of the run.
    pub(super) from_ns: u64,
    /// When it ended.
    pub(super) to_ns: u64,
    pub(super) found: Found,
}

/// What is to be said of it, by the interval that is furthest from it. One in which it is not known leaves it undecided, unless
/// another breaks it.
pub(super) fn decide(asked: &Asked, intervals: impl Iterator<Item = OneInterval>) -> Expectation {
    let (mut all, mut unmet) = (0_u64, 0_u64);
    let mut worst: Option<OneInterval> = None;
    let mut unknown: Option<OneInterval> = None;
    for one in intervals {
        all += 1;
        match &one.found {
            Found::Number { low, high } => {
                let holds = holds_between(asked.comparison, (*low, *high), asked.limit);
                unmet += u64::from(holds == Some(false));
                if worst.as_ref().is_none_or(|worst| asked.is_worse(&one.found, &worst.found)) {
                    worst = Some(one);
                }
            }
            Found::TooFew { .. } | Found::Unknown(_) => unknown = unknown.or(Some(one)),
        }
    }
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
