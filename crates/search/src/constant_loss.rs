//! Loss that does not depend on the load: a device that loses a share of all frames has no throughput, and a search for one finds the
//! load at which by chance nothing was lost.

use crate::Trial;

/// A trial tells a share from none if it would lose as many frames: that of fewer arrive all by chance is not rare.
const TELLING: f64 = 12.0;
/// Trials that tell, at least.
const TRIALS: usize = 4;
/// How far the highest of their loads is above the lowest, at least.
const SPAN: f64 = 2.0;
/// How far the loss of each is from the median, at the most.
const FACTOR: f64 = 2.5;
/// A device that loses more is overloaded at every load that was tried.
const MOST: f64 = 0.5;

/// A share that was lost at every load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConstantLoss {
    /// The median of what trials lost, of 1.
    pub ratio: f64,
    /// The lowest load that tells.
    pub from: f64,
    /// The highest.
    pub to: f64,
}

impl ConstantLoss {
    /// Of trials; `None` where the loss depends on the load, where there is none, or where too few trials tell.
    pub fn of(trials: &[Trial]) -> Option<ConstantLoss> {
        let mut losses: Vec<f64> =
            trials.iter().map(|trial| trial.loss_ratio).filter(|loss| *loss > 0.0).collect();
        losses.sort_by(f64::total_cmp);
        let ratio = losses.get(losses.len() / 2).copied().filter(|ratio| *ratio <= MOST)?;
        let tells = |trial: &&Trial| trial.load * trial.seconds * ratio >= TELLING;
        let telling: Vec<&Trial> = trials.iter().filter(tells).collect();
        let near = |trial: &&Trial| (ratio / FACTOR..=ratio * FACTOR).contains(&trial.loss_ratio);
        let from = telling.iter().map(|trial| trial.load).fold(f64::INFINITY, f64::min);
        let to = telling.iter().map(|trial| trial.load).fold(0.0, f64::max);
        let constant = telling.len() >= TRIALS && to >= from * SPAN && telling.iter().all(near);
        constant.then_some(ConstantLoss { ratio, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goal, Next, ThroughputSearch};

    /// The trials of a search on a device whose loss at a load is this.
    fn searched(max: f64, loss: impl Fn(f64) -> f64) -> Vec<Trial> {
        let search =
            ThroughputSearch { goals: vec![Goal::rfc2544(0.0, 2.0, 0.005)], max, min: 0.5 };
        let mut trials: Vec<Trial> = Vec::new();
        while let Next::Trial { load, seconds } = search.next(&trials) {
            // whole frames are lost
            let frames = (load * seconds).floor().max(1.0);
            let lost = (loss(load) * frames).floor();
            trials.push(Trial::new(load, seconds, lost / frames));
        }
        trials
    }

    #[test]
    fn a_share_that_is_lost_at_every_load_is_told_from_an_overload() {
        let found = ConstantLoss::of(&searched(3_000.0, |_| 0.01)).unwrap();
        assert!((found.ratio - 0.01).abs() < 0.002, "{found:?}");
        assert!(found.to == 3_000.0 && found.from < 1_500.0, "{found:?}");
        for borne in [20.0, 150.0, 1_000.0, 2_000.0, 2_990.0] {
            let overload = |load: f64| ((load - borne) / load).max(0.0);
            assert_eq!(ConstantLoss::of(&searched(3_000.0, overload)), None, "{borne}");
        }
        assert_eq!(ConstantLoss::of(&searched(3_000.0, |_| 0.0)), None);
        assert_eq!(ConstantLoss::of(&searched(3_000.0, |_| 1.0)), None);
        assert_eq!(ConstantLoss::of(&[]), None);
    }
}
