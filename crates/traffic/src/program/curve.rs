//! Rates over time, and when so many frames have left at them.
//!
//! A curve that comes again is looked at within a single round: whole rounds are found by division, so that
//! short ones are not walked, and large numbers of frames keep their digits. `schedule/profile.rs` makes
//! departures of it.

use std::f64::consts::TAU;
use std::sync::Arc;

/// Rates over time, in frames per nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// Straight lines, one after the other.
    Lines(Lines),
    /// Up and down.
    Sine(Sine),
}

/// Straight lines, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    lines: Arc<[Line]>,
    /// The time and the frames before each of them, and before the end of the last.
    before: Arc<[(f64, f64)]>,
    /// Whether they begin again at the end.
    again: bool,
    /// The highest rate.
    peak: f64,
}

/// A rate that changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How long, in nanoseconds; may be infinite where both rates are the same.
    pub time: f64,
    /// At the beginning, in frames per nanosecond.
    pub from: f64,
    /// At the end.
    pub to: f64,
}

/// `mean + amplitude * sin(2 pi t / period)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sine {
    /// In the middle.
    pub mean: f64,
    /// Up and down; at most the mean.
    pub amplitude: f64,
    /// In nanoseconds.
    pub period: f64,
}

impl Curve {
    /// Whether it begins again, and does not go on at its last rate.
    pub fn comes_again(&self) -> bool {
        match self {
            Curve::Sine(_) => true,
            Curve::Lines(lines) => lines.again,
        }
    }

    /// On average over a long time.
    pub(super) fn mean_rate(&self) -> f64 {
        match self {
            Curve::Sine(sine) => sine.mean,
            Curve::Lines(lines) => match lines.all() {
                (time, frames) if time.is_finite() && time > 0.0 => frames / time,
                _ => lines.lines.last().map_or(0.0, |line| line.to),
            },
        }
    }

    /// At the most.
    pub(super) fn peak_rate(&self) -> f64 {
        match self {
            Curve::Sine(Sine { mean, amplitude, .. }) => mean + amplitude,
            Curve::Lines(lines) => lines.peak,
        }
    }

    /// How long a round takes and how many frames it has; `None` where nothing comes again.
    fn round(&self) -> Option<(f64, f64)> {
        match self {
            Curve::Sine(Sine { mean, period, .. }) => Some((*period, mean * period)),
            Curve::Lines(lines) => Some(lines.all()).filter(|_| lines.again),
        }
    }

    /// The frames before a time from its beginning, in nanoseconds.
    pub(crate) fn frames_before(&self, time: f64) -> f64 {
        let (left, of_rounds) = match self.round().filter(|(lasts, _)| *lasts > 0.0) {
            Some((lasts, frames)) => {
                let rounds = libm::floor(time / lasts);
                (time - rounds * lasts, rounds * frames)
            }
            None => (time, 0.0),
        };
        let within = match self {
            Curve::Lines(lines) => lines.frames_before(left),
            Curve::Sine(sine) => sine.frames_before(left),
        };
        of_rounds + within
    }

    /// The time from its beginning at which so many frames have left and the next one does; infinite where that
    /// never is.
    pub(crate) fn time_of(&self, frames: f64) -> f64 {
        // How far the sum may be off by rounding. Where a line ends at a whole number of frames, the next one
        // is that of the next line, and the rate may be zero before that.
        let exact = 1e-9 + frames * 1e-14;
        let Some((lasts, of_round)) = self.round() else { return self.within(frames, exact) };
        // A round without any frames would be walked for ever.
        if of_round <= 0.0 {
            return f64::INFINITY;
        }
        // Of less than a frame a share.
        let exact = exact.min(of_round * 1e-6);
        let rounds = libm::floor((frames + exact) / of_round);
        match self.within(frames - rounds * of_round, exact) {
            within if within.is_finite() => rounds * lasts + within,
            // Rounding may leave all frames of a round, which is the beginning of the next.
            _ => (rounds + 1.0) * lasts + self.within(0.0, exact),
        }
    }

    /// The time of a round at which so many of its frames have left.
    fn within(&self, frames: f64, exact: f64) -> f64 {
        match self {
            Curve::Lines(lines) => lines.time_of(frames, exact),
            Curve::Sine(sine) => sine.time_of(frames),
        }
    }
}

impl Lines {
    /// These, and again from the first where they come again.
    pub fn new(lines: Vec<Line>, again: bool) -> Lines {
        let mut sums = (0.0, 0.0);
        let mut before = Vec::with_capacity(lines.len() + 1);
        before.push(sums);
        for line in &lines {
            sums = (sums.0 + line.time, sums.1 + line.frames());
            before.push(sums);
        }
        let peak = lines.iter().map(|line| line.from.max(line.to)).fold(0.0, f64::max);
        Lines { lines: lines.into(), before: before.into(), again, peak }
    }

    /// How long all of them take, and their frames.
    fn all(&self) -> (f64, f64) {
        self.before.last().copied().unwrap_or((0.0, 0.0))
    }

    /// The frames of a round before a time.
    fn frames_before(&self, time: f64) -> f64 {
        let number = self.before.partition_point(|(begin, _)| *begin <= time).saturating_sub(1);
        let Some(&(begin, frames)) = self.before.get(number) else { return 0.0 };
        let Some(line) = self.lines.get(number) else { return frames };
        let on_it = time - begin;
        frames + on_it * (line.from + line.slope() * on_it / 2.0)
    }

    /// When so many frames of a round have left, give or take `exact`; infinite where that is more than all.
    fn time_of(&self, frames: f64, exact: f64) -> f64 {
        let ends = self.before.get(1..).unwrap_or_default();
        let number = ends.partition_point(|(_, end)| *end <= frames + exact);
        match (self.lines.get(number), self.before.get(number)) {
            (Some(line), Some((time, before))) => time + line.time_of((frames - before).max(0.0)),
            _ => f64::INFINITY,
        }
    }
}

impl Line {
    /// Frames along it.
    fn frames(&self) -> f64 {
        match self.from + self.to {
            0.0 => 0.0,
            rates => rates / 2.0 * self.time,
        }
    }

    /// How much the rate changes in a nanosecond.
    fn slope(&self) -> f64 {
        match self.to - self.from {
            0.0 => 0.0,
            change => change / self.time,
        }
    }

    /// How long it takes along it until so many frames have left: the root of
    /// `from * t + slope / 2 * t^2 = frames`, in the form that has no difference of large numbers.
    fn time_of(&self, frames: f64) -> f64 {
        let root = (self.from * self.from + 2.0 * self.slope() * frames).max(0.0);
        let sum = self.from + libm::sqrt(root);
        if sum > 0.0 { 2.0 * frames / sum } else { 0.0 }
    }
}

impl Sine {
    /// The frames of a period before a time.
    fn frames_before(&self, t: f64) -> f64 {
        let Sine { mean, amplitude, period } = self;
        mean * t + amplitude * period / TAU * (1.0 - libm::cos(TAU * t / period))
    }

    /// The time of a period at which so many frames of it have left: Newton's method, kept within bounds by
    /// bisection, since the rate may touch zero.
    fn time_of(&self, frames: f64) -> f64 {
        /// Where the rate touches zero, a step of Newton's method takes a third off.
        const STEPS: usize = 100;
        /// Nanoseconds.
        const EXACT: f64 = 1e-3;
        let (mut low, mut high) = (0.0, self.period);
        let mut t = (frames / self.mean).max(low).min(high);
        for _ in 0..STEPS {
            let miss = self.frames_before(t) - frames;
            if miss > 0.0 {
                high = t;
            } else {
                low = t;
            }
            let rate = self.mean + self.amplitude * libm::sin(TAU * t / self.period);
            let newton = t - miss / rate;
            let next = if newton >= low && newton <= high { newton } else { (low + high) / 2.0 };
            if (next - t).abs() < EXACT {
                return next;
            }
            t = next;
        }
        t
    }
}
