//! The frame loss rate of RFC 2544 §26.3: from the highest load down in steps, until two in a row lose nothing.

use crate::Trial;

/// A search for the load from which on nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRateSearch {
    /// The highest load.
    pub max: f64,
    /// A step down, as a share of `max`; RFC 2544 asks for 0.1 or less.
    pub step: f64,
}

impl LossRateSearch {
    /// The next load, in the order in which they are tried; `None` where the search is over.
    pub fn next(&self, trials: &[Trial]) -> Option<f64> {
        let free = |trial: &Trial| trial.loss_ratio == 0.0;
        let over = matches!(trials, [.., before, last] if free(before) && free(last));
        let steps = trials.len() as f64;
        let load = self.max * (1.0 - steps * self.step);
        // a share that is no exact number leaves a little of the last step
        (!over && load > self.max * self.step * 0.01).then_some(load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(borne: f64) -> Vec<u32> {
        let search = LossRateSearch { max: 1000.0, step: 0.1 };
        let mut trials: Vec<Trial> = Vec::new();
        while let Some(load) = search.next(&trials) {
            trials.push(Trial::new(load, 1.0, ((load - borne) / load).max(0.0)));
        }
        trials.iter().map(|trial| trial.load.round() as u32).collect()
    }

    #[test]
    fn two_in_a_row_without_loss_end_it() {
        assert_eq!(loads(1000.0), [1000, 900]);
        assert_eq!(loads(850.0), [1000, 900, 800, 700]);
        assert_eq!(loads(0.0), [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    }
}
