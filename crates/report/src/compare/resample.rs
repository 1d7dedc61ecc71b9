//! Statistics of a few runs: a permutation test of the difference of means, its bootstrap interval, and Holm's correction.
//!
//! Random choices have a fixed seed, so that the same files give the same answer.

use super::MetricChange;

/// Deals that are all looked at; of more, as many are drawn.
const DEALS: u64 = 100_000;
/// Runs drawn again for an interval.
const DRAWS: usize = 10_000;

/// The mean.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A generator of Weyl and SplitMix64 (Steele, Lea, Flood 2014): small, and good enough to draw runs.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // the bias of so few runs is below 2^-50
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

/// How many ways there are to choose `some` of `all`; `u64::MAX` where that is more.
fn ways(all: usize, some: usize) -> u64 {
    let some = some.min(all - some);
    let mut ways: u128 = 1;
    for step in 1..=some {
        ways = ways * (all - some + step) as u128 / step as u128;
        if ways > u128::from(u64::MAX) {
            return u64::MAX;
        }
    }
    ways as u64
}

/// How often runs that are dealt to two sides at random differ in their means at least as much as they do.
pub(super) fn p_value(old: &[f64], new: &[f64]) -> f64 {
    let all: Vec<f64> = old.iter().chain(new).copied().collect();
    let sum: f64 = all.iter().sum();
    let (few, many) = (old.len(), new.len());
    let difference = |of_old: f64| ((sum - of_old) / many as f64 - of_old / few as f64).abs();
    let found = difference(old.iter().sum());
    // sums in another order differ in their last digits
    let least = found - 1e-9 * (found + sum.abs() / all.len() as f64);
    if ways(all.len(), few) <= DEALS {
        let (mut deals, mut as_much) = (0_u64, 0_u64);
        each_choice(&all, few, &mut |of_old| {
            deals += 1;
            as_much += u64::from(difference(of_old) >= least);
        });
        return as_much as f64 / deals.max(1) as f64;
    }
    let mut draws = Draws(1);
    let mut dealt = all;
    let mut as_much = 0_u64;
    for _ in 0..DEALS {
        for place in 0..few {
            let other = place + draws.below(dealt.len() - place);
            dealt.swap(place, other);
        }
        as_much += u64::from(difference(dealt[..few].iter().sum()) >= least);
    }
    // the deal that was found is one of them (Phipson, Smyth 2010)
    (as_much + 1) as f64 / (DEALS + 1) as f64
}

/// The sum of each choice of `some` of `values`.
fn each_choice(values: &[f64], some: usize, told: &mut impl FnMut(f64)) {
    let mut places: Vec<usize> = (0..some).collect();
    loop {
        told(places.iter().map(|place| values[*place]).sum());
        let movable = (0..some).rev().find(|at| places[*at] < values.len() - some + at);
        let Some(at) = movable else { return };
        places[at] += 1;
        for next in at + 1..some {
            places[next] = places[next - 1] + 1;
        }
    }
}

/// The middle 95 % of the differences of means of runs drawn again from each side.
pub(super) fn difference_interval(old: &[f64], new: &[f64]) -> [f64; 2] {
    let mut draws = Draws(2);
    let mut drawn = |values: &[f64]| {
        let sum: f64 = (0..values.len()).map(|_| values[draws.below(values.len())]).sum();
        sum / values.len().max(1) as f64
    };
    let mut differences: Vec<f64> = (0..DRAWS).map(|_| drawn(new) - drawn(old)).collect();
    differences.sort_by(f64::total_cmp);
    [differences[DRAWS / 40], differences[DRAWS - 1 - DRAWS / 40]]
}

/// Corrects for how many metrics are compared (Holm 1979).
pub(super) fn correct(metrics: &mut [MetricChange]) {
    let mut order: Vec<usize> = (0..metrics.len()).collect();
    order.sort_by(|a, b| metrics[*a].p_value.total_cmp(&metrics[*b].p_value));
    let mut least = 0.0_f64;
    for (rank, place) in order.iter().enumerate() {
        let left = (metrics.len() - rank) as f64;
        least = least.max((metrics[*place].p_value * left).min(1.0));
        metrics[*place].p_corrected = least;
    }
}

/// How many runs a side has to have so that the clearest difference of one of so many metrics is not taken for chance.
pub(super) fn runs_needed(metrics: usize, significance: f64) -> usize {
    // with all old runs on one side of all new ones, two deals are as far apart
    let clear = |runs: &usize| 2.0 / ways(2 * runs, *runs) as f64 * metrics as f64 <= significance;
    (super::LEAST_RUNS..40).find(clear).unwrap_or(40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_difference_of_five_runs_a_side_is_two_deals_of_252() {
        let (old, new) = ([1.0, 2.0, 3.0, 4.0, 5.0], [11.0, 12.0, 13.0, 14.0, 15.0]);
        assert_eq!(ways(10, 5), 252);
        assert!((p_value(&old, &new) - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(p_value(&old, &old), 1.0);
        // more deals than are looked at: drawn, and about the same
        let many: Vec<f64> = (0..12).map(f64::from).collect();
        let moved: Vec<f64> = many.iter().map(|value| value + 100.0).collect();
        assert!(p_value(&many, &moved) < 1e-4);
        assert!(p_value(&many, &many) > 0.9);
    }

    /// Values that are all one, and sums whose last digits differ by their order.
    #[test]
    fn equal_runs_do_not_differ() {
        assert_eq!(p_value(&[0.1; 5], &[0.1; 5]), 1.0);
        assert_eq!(p_value(&[0.0; 5], &[0.0; 5]), 1.0);
        assert_eq!(difference_interval(&[7.0; 5], &[7.0; 5]), [0.0, 0.0]);
    }

    #[test]
    fn an_interval_has_the_difference_in_it() {
        let (old, new) = ([10.0, 11.0, 9.0, 10.5, 9.5], [12.0, 13.0, 11.0, 12.5, 11.5]);
        let [low, high] = difference_interval(&old, &new);
        assert!(low > 0.0 && low < 2.0 && high > 2.0 && high < 4.0, "{low} {high}");
    }

    /// In a hundred comparisons of runs of one kind, with six metrics each, five may find a difference; here it is fewer than ten.
    #[test]
    fn chance_is_seldom_taken_for_a_change() {
        let mut draws = Draws(7);
        let mut found = 0;
        for _ in 0..100 {
            let mut run = || (0..6).map(|_| draws.below(1_000_000) as f64).collect::<Vec<_>>();
            let sides: Vec<[Vec<f64>; 2]> = (0..6).map(|_| [run(), run()]).collect();
            let mut least: Vec<f64> = sides.iter().map(|[old, new]| p_value(old, new)).collect();
            least.sort_by(f64::total_cmp);
            found += u32::from(least[0] * 6.0 <= 0.05);
        }
        assert!(found < 10, "{found}");
    }

    #[test]
    fn more_metrics_need_more_runs() {
        assert_eq!([1, 6, 7, 13].map(|metrics| runs_needed(metrics, 0.05)), [5, 5, 6, 6]);
        assert_eq!(runs_needed(30, 0.05), 7);
    }
}
