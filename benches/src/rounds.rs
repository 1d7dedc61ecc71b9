//! Rounds: everybody who is compared is measured once in each round, one after the other, so that what
//! changes on the machine in the meantime meets all of them.

use std::time::Duration;

use crate::frames::Files;
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::stats::Series;

/// The bench: where, how often and how long is measured.
#[derive(Debug)]
pub struct Bench {
    /// The cable.
    pub lab: Lab,
    /// Files for tools.
    pub files: Files,
    /// How many rounds.
    pub rounds: usize,
    /// How long one measurement takes.
    pub time: Duration,
    /// How much is measured of what grows.
    pub extent: Extent,
    /// Only those with this in their names are measured.
    pub named: Option<String>,
}

impl Bench {
    /// Whether somebody of this name is measured.
    pub fn wants(&self, name: &str) -> bool {
        self.named.as_deref().is_none_or(|part| name.contains(part))
    }
}

/// A measurement.
pub type Measure<'a, T> = Box<dyn Fn(&Bench) -> Result<T, Failure> + 'a>;

/// Somebody who is compared.
pub struct Contestant<'a, T> {
    /// The name, for the one who waits.
    pub name: String,
    /// One measurement.
    pub measure: Measure<'a, T>,
}

impl<'a, T> Contestant<'a, T> {
    /// A name and a measurement.
    pub fn new(
        name: impl Into<String>,
        measure: impl Fn(&Bench) -> Result<T, Failure> + 'a,
    ) -> Self {
        Contestant { name: name.into(), measure: Box::new(measure) }
    }
}

/// What all rounds gave for one contestant.
#[derive(Clone, Debug)]
pub struct Measured<T> {
    /// What succeeded, in the order of the rounds.
    pub values: Vec<T>,
    /// Why others did not.
    pub failures: Vec<String>,
}

impl<T> Default for Measured<T> {
    fn default() -> Self {
        Measured { values: Vec::new(), failures: Vec::new() }
    }
}

impl<T> Measured<T> {
    /// What could not be measured in any round, and why.
    pub fn failed(why: &(impl std::fmt::Display + ?Sized)) -> Measured<T> {
        Measured { values: Vec::new(), failures: vec![why.to_string()] }
    }

    /// One figure of each value.
    pub fn series(&self, figure: impl Fn(&T) -> f64) -> Series {
        Series::new(self.values.iter().map(figure).collect())
    }

    /// One figure of each round, to be paired with that of the same round of somebody else; nothing where a round failed, because
    /// what is left has lost its pairs.
    pub fn paired(&self, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        match self.failures.is_empty() {
            true => self.values.iter().map(figure).collect(),
            false => Vec::new(),
        }
    }

    /// What a reader has to know: nothing, or how many rounds failed, and why the first did.
    pub fn remark(&self) -> String {
        let (failed, all) = (self.failures.len(), self.failures.len() + self.values.len());
        match self.failures.first() {
            None => String::new(),
            Some(why) if failed == all => format!("failed: {why}"),
            Some(why) => format!("{failed} of {all} rounds failed: {why}"),
        }
    }

    /// Why there is no value at all.
    pub fn reason(&self) -> String {
        self.failures.first().cloned().unwrap_or_else(|| "it was not measured".to_owned())
    }
}

/// Measures everybody in turn. `brief` is for the one who waits.
pub fn in_turn<T>(
    bench: &mut Bench,
    contestants: &[Contestant<'_, T>],
    brief: impl Fn(&T) -> String,
) -> Vec<Measured<T>> {
    in_order(bench, contestants, |_, place| place, brief)
}

/// The same, but each round begins with somebody else, and every other round goes backwards.
pub fn in_rotation<T>(
    bench: &mut Bench,
    contestants: &[Contestant<'_, T>],
    brief: impl Fn(&T) -> String,
) -> Vec<Measured<T>> {
    let (rounds, count) = (bench.rounds, contestants.len());
    in_order(bench, contestants, |round, place| rotated(round, place, (rounds, count)), brief)
}

/// Who is measured at a place of a round, both counted from 0, of so many rounds and contestants.
fn rotated(round: usize, place: usize, (rounds, count): (usize, usize)) -> usize {
    let place = if round % 2 == 1 { count - 1 - place } else { place };
    (place + round * count / rounds.max(1)) % count.max(1)
}

/// Measures everybody once a round, in an order that follows from the round and the place in it, both from 0.
fn in_order<T>(
    bench: &mut Bench,
    contestants: &[Contestant<'_, T>],
    order: impl Fn(usize, usize) -> usize,
    brief: impl Fn(&T) -> String,
) -> Vec<Measured<T>> {
    let mut all: Vec<Measured<T>> = contestants.iter().map(|_| Measured::default()).collect();
    for round in 0..bench.rounds {
        for place in 0..contestants.len() {
            let at = order(round, place);
            let (Some(contestant), Some(measured)) = (contestants.get(at), all.get_mut(at)) else {
                continue;
            };
            if !bench.wants(&contestant.name) {
                continue;
            }
            let outcome = (contestant.measure)(bench);
            let said = match &outcome {
                Ok(value) => brief(value),
                Err(why) => format!("failed: {why}"),
            };
            eprintln!("round {} of {}: {}: {said}", round + 1, bench.rounds, contestant.name);
            match outcome {
                Ok(value) => measured.values.push(value),
                Err(why) => measured.failures.push(why.to_string()),
            }
            tidy(bench, &contestant.name);
        }
    }
    all
}

/// Sees to it that nobody leaves anything on the cable for those who come after.
fn tidy(bench: &mut Bench, name: &str) {
    match bench.lab.left_behind() {
        Ok(None) => return,
        Ok(Some(interface)) => {
            eprintln!("{name} left an XDP program on {interface}; laying the cable anew");
        }
        Err(why) => eprintln!("the cable cannot be looked at: {why}; laying it anew"),
    }
    if let Err(why) = bench.lab.renew() {
        eprintln!("the cable cannot be laid anew: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_in_each_round_and_another_place() {
        for (rounds, count) in [(1, 1), (3, 9), (4, 7), (5, 2)] {
            for round in 0..rounds {
                let order = (0..count).map(|place| rotated(round, place, (rounds, count)));
                let mut order: Vec<usize> = order.collect();
                assert!(round > 0 || order.is_sorted());
                order.sort_unstable();
                assert!(order.into_iter().eq(0..count), "{rounds} {count} {round}");
            }
        }
        assert_eq!([0, 1, 2].map(|round| rotated(round, 0, (3, 9))), [0, 2, 6]);
    }

    #[test]
    fn failed_rounds_are_reported_beside_the_others() {
        let mut measured = Measured { values: vec![1.0, 3.0], failures: Vec::new() };
        assert_eq!(measured.remark(), "");
        assert_eq!(measured.paired(|value| *value), [1.0, 3.0]);
        measured.failures.push("it died".to_owned());
        assert_eq!(measured.remark(), "1 of 3 rounds failed: it died");
        assert_eq!(measured.series(|value| value * 2.0), Series::new(vec![2.0, 6.0]));
        assert!(measured.paired(|value| *value).is_empty(), "the third may be of the second round");
        measured.values.clear();
        assert_eq!(measured.remark(), "failed: it died");
    }
}
