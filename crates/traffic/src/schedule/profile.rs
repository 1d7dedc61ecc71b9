//! Departures at a rate that changes with time.
//!
//! Frame `n` is due when the integral of the rate reaches `n`; where times between frames are drawn, it is
//! due when the integral reaches the sum of gaps with a mean of one. So a Poisson process stays one, at the
//! rate of the moment. When that is, `program/curve.rs` knows.

use crate::program::pace;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ProfileWalk {
    profile: pace::Profile,
    start: u64,
    burst: f64,
    /// The frames before the current one, as gaps of mean one.
    frames: f64,
    /// Which gap is next.
    n: u64,
    /// Nanoseconds since the beginning of the curve.
    time: f64,
}

impl ProfileWalk {
    pub(super) fn new(profile: &pace::Profile, start: u64, burst: u64) -> ProfileWalk {
        let mut walker = ProfileWalk {
            profile: profile.clone(),
            start,
            burst: burst as f64,
            frames: 0.0,
            n: 0,
            time: 0.0,
        };
        walker.restart(start);
        walker
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.start.saturating_add((self.time - self.profile.begin) as u64)
    }

    pub(super) fn advance(&mut self) {
        self.frames += match &self.profile.gaps {
            Some(gaps) => gaps.gap(self.n) / pace::Profile::UNIT * self.burst,
            None => self.burst,
        };
        self.n += 1;
        self.find();
    }

    pub(super) fn restart(&mut self, at: u64) {
        let begin = self.profile.begin;
        (self.start, self.time) = (at, begin);
        self.frames = self.profile.curve.frames_before(begin);
        self.find();
    }

    /// Times do not go back, whatever rounding does.
    fn find(&mut self) {
        self.time = self.profile.curve.time_of(self.frames).max(self.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::curve::{Curve, Line, Lines, Sine};

    /// Lines that come again.
    fn lines(lines: &[(f64, f64, f64)]) -> Curve {
        let line = |&(time, from, to): &(f64, f64, f64)| Line { time, from, to };
        Curve::Lines(Lines::new(lines.iter().map(line).collect(), true))
    }

    /// When the first frames leave on a curve from a time on, counted from that time.
    fn times(curve: &Curve, begin: f64, count: usize) -> Vec<u64> {
        let profile = pace::Profile { curve: curve.clone(), gaps: None, begin };
        let mut walker = ProfileWalk::new(&profile, 0, 1);
        let next = || {
            let at = walker.at();
            walker.advance();
            at
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    /// A second.
    const S: f64 = 1e9;

    #[test]
    fn a_round_that_is_much_shorter_than_a_gap_is_not_walked() {
        // One frame in ten seconds, in rounds of a nanosecond.
        let at = times(&lines(&[(1.0, 1e-10, 1e-10)]), 0.0, 1000);
        for (at, n) in at.into_iter().zip(0_u64..) {
            assert!(at.abs_diff(n * 10_000_000_000) <= 2, "frame {n} at {at}");
        }
    }

    #[test]
    fn many_lines_are_not_walked_for_each_frame() {
        // A hundred thousand lines that take 100 us together, and a frame in 100 seconds.
        let many: Vec<_> = (0..100_000).map(|_| (1.0, 1e-11, 1e-11)).collect();
        let at = times(&lines(&many), 0.0, 20_000);
        // A sum of so many lines is exact to eleven digits.
        let exact = at[19_999] as f64 / (19_999.0 * 100.0 * S) - 1.0;
        assert!(exact.abs() < 1e-11, "{exact}");
    }

    #[test]
    fn a_round_with_a_pause_at_its_end_has_all_its_frames_before_it() {
        // 15 / 1e9 * 1e9 is not 15 in floating point; of some numbers it is more, of others less.
        for per_second in [1_u64, 7, 15, 30, 61, 63, 122, 1000, 70_000] {
            let rate = per_second as f64 / 1e9;
            let at = times(&lines(&[(S, rate, rate), (S, 0.0, 0.0)]), 0.0, 300_000);
            for (at, n) in at.into_iter().zip(0_u64..) {
                let (round, within) = (n / per_second, n % per_second);
                let due = round * 2_000_000_000 + within * 1_000_000_000 / per_second;
                assert!(at.abs_diff(due) <= 1, "{per_second}: frame {n} at {at}, not {due}");
            }
        }
    }

    #[test]
    fn a_curve_that_comes_again_is_the_same_after_a_year() {
        let ramp = lines(&[(0.5 * S, 1e-4, 1e-5), (0.5 * S, 1e-5, 1e-5)]);
        let sine = Curve::Sine(Sine { mean: 1e-4, amplitude: 1e-4, period: S });
        for curve in [ramp, sine] {
            let first = times(&curve, 0.0, 200_000);
            // 2^53 ns are 104 days, and 10^5 frames a second are 10^12 frames in them.
            let later = times(&curve, 100.0 * 86_400.0 * S, 200_000);
            for (n, (first, later)) in first.iter().zip(&later).enumerate() {
                // In the trough of the sine next to no frames leave for a while: a small share of one is long.
                let trough = (7..8).contains(&(first % 1_000_000_000 / 100_000_000));
                let exact = if trough { 100_000 } else { 5 };
                assert!(first.abs_diff(*later) <= exact, "{n}: {first} {later}");
            }
        }
    }
}
