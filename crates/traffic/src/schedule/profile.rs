//! Departures at a rate that changes with time.
//!
//! Frame `n` is due when the integral of the rate reaches `n`; where times between frames are drawn, it is
//! due when the integral reaches the sum of gaps with a mean of one. So a Poisson process stays one, at the
//! rate of the moment.

use crate::program::pace::{self, Curve, Line};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    profile: pace::Profile,
    start: u64,
    burst: f64,
    /// The frames before the current one, as gaps of mean one.
    frames: f64,
    /// Which gap is next.
    n: u64,
    /// Nanoseconds since the beginning of the curve.
    time: f64,
    /// The line that the time lies on: its number, when it begins, and the frames before it.
    line: (usize, f64, f64),
}

impl Profile {
    pub(super) fn new(profile: &pace::Profile, start: u64, burst: u64) -> Profile {
        let mut walker = Profile {
            profile: profile.clone(),
            start,
            burst: burst as f64,
            frames: 0.0,
            n: 0,
            time: 0.0,
            line: (0, 0.0, 0.0),
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
        (self.frames, self.line) = match &self.profile.curve {
            Curve::Lines { lines, again } => before_on_lines(lines, *again, begin),
            Curve::Sine { mean, amplitude, period } => {
                (before_on_sine(begin, (*mean, *amplitude, *period)), (0, 0.0, 0.0))
            }
        };
        self.find();
    }

    /// The time at which the integral of the rate is `frames`.
    fn find(&mut self) {
        let time = match &self.profile.curve {
            Curve::Lines { lines, again } => on_lines(lines, *again, self.frames, &mut self.line),
            Curve::Sine { mean, amplitude, period } => {
                on_sine(self.frames, self.time, (*mean, *amplitude, *period))
            }
        };
        self.time = time.max(self.time);
    }
}

/// The frames before a time, and the first line of the round that it lies in.
fn before_on_lines(lines: &[Line], again: bool, time: f64) -> (f64, (usize, f64, f64)) {
    let of_round = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>();
    let lasts = of_round(|line| line.time);
    let rounds = if again && lasts > 0.0 { libm::floor(time / lasts) } else { 0.0 };
    let first = match rounds > 0.0 {
        true => (0, rounds * lasts, rounds * of_round(Line::frames)),
        false => (0, 0.0, 0.0),
    };
    let (mut left, mut frames) = (time - first.1, first.2);
    for line in lines.iter().filter(|line| line.time > 0.0) {
        let on_it = left.clamp(0.0, line.time);
        let slope = if line.time.is_finite() { (line.to - line.from) / line.time } else { 0.0 };
        frames += on_it * (line.from + slope * on_it / 2.0);
        left -= on_it;
    }
    (frames, first)
}

/// Goes along the lines to where so many frames have left; infinite where they never do.
fn on_lines(lines: &[Line], again: bool, frames: f64, line: &mut (usize, f64, f64)) -> f64 {
    // A round without any frames would be walked for ever.
    let empty = again && lines.iter().all(|line| line.frames() <= 0.0);
    while let (Some(current), false) = (lines.get(line.0), empty) {
        let on_it = frames - line.2;
        let all = current.frames();
        if on_it < all || (on_it <= 0.0 && current.from > 0.0) {
            return line.1 + along(current, on_it.max(0.0));
        }
        let next = line.0 + 1;
        let next = if again && next == lines.len() { 0 } else { next };
        *line = (next, line.1 + current.time, line.2 + all);
    }
    f64::INFINITY
}

/// How long it takes along a line until so many frames have left: the root of
/// `from * t + (to - from) / (2 * time) * t^2 = frames`, in the form that has no difference of large
/// numbers.
fn along(line: &Line, frames: f64) -> f64 {
    let slope = if line.time.is_finite() { (line.to - line.from) / line.time } else { 0.0 };
    let root = (line.from * line.from + 2.0 * slope * frames).max(0.0);
    let sum = line.from + libm::sqrt(root);
    if sum > 0.0 { 2.0 * frames / sum } else { 0.0 }
}

const TURN: f64 = std::f64::consts::TAU;

/// The frames before a time.
fn before_on_sine(t: f64, (mean, amplitude, period): (f64, f64, f64)) -> f64 {
    mean * t + amplitude * period / TURN * (1.0 - libm::cos(TURN * t / period))
}

/// The time at which `mean * t + amplitude * period / 2 pi * (1 - cos(2 pi t / period))` is `frames`: Newton's
/// method from the last time on, kept within bounds by bisection, since the rate may touch zero.
fn on_sine(frames: f64, last: f64, (mean, amplitude, period): (f64, f64, f64)) -> f64 {
    /// Each step of a bisection halves; 64 leave nothing.
    const STEPS: usize = 64;
    if mean <= 0.0 {
        return f64::INFINITY;
    }
    let integral = |t: f64| before_on_sine(t, (mean, amplitude, period));
    // The integral lies within amplitude * period / pi of mean * t.
    let (mut low, mut high) = (last, frames / mean + period);
    let mut t = last.max(frames / mean - period / 2.0);
    for _ in 0..STEPS {
        let miss = integral(t) - frames;
        if miss.abs() < 1e-9 {
            break;
        }
        if miss > 0.0 {
            high = t
        } else {
            low = t
        }
        let rate = mean + amplitude * libm::sin(TURN * t / period);
        let newton = t - miss / rate;
        t = if newton > low && newton < high { newton } else { (low + high) / 2.0 };
    }
    t
}
