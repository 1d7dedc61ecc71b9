//! From values to places on an axis, and the ticks of it.

use crate::human;

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Frames per second.
    FrameRate,
    /// Bits per second.
    BitRate,
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
}

/// From here on, values are written with an exponent, whatever their unit.
const HUGE: f64 = 1e18;

impl Unit {
    /// A value in words.
    pub fn show(self, value: f64) -> String {
        match self {
            // what no run comes to, but a file can have
            _ if value.is_finite() && value.abs() >= HUGE => format!("{value:.2e}"),
            Unit::Time => human::time(value),
            Unit::FrameRate => human::frame_rate(value),
            Unit::BitRate => human::bit_rate(value),
            Unit::Count if value.fract() == 0.0 && (0.0..9e15).contains(&value) => {
                human::count(value as u64)
            }
            Unit::Count => human::number(value),
            Unit::PerSecond => format!("{}/s", human::number(value)),
        }
    }

    /// The same beside a tick, without zeros behind the point.
    fn tick(self, value: f64) -> String {
        let shown = self.show(value);
        let end = shown.find([' ', '/']).unwrap_or(shown.len());
        let (number, unit) = shown.split_at(end);
        match number.contains('.') {
            true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
            false => shown,
        }
    }
}

/// Where values are on an axis: 0 at its beginning, 1 at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear {
        /// The value at the beginning.
        low: f64,
        /// The value at the end.
        high: f64,
    },
    /// Equal distances are equal ratios. What is not above 0 is at the beginning.
    Log {
        /// The value at the beginning, above 0.
        low: f64,
        /// The value at the end.
        high: f64,
    },
    /// Logarithmic on both sides of 0, and linear between.
    Signed {
        /// Up to this distance from 0, equal distances are equal differences.
        least: f64,
        /// The distance of both ends from 0.
        most: f64,
    },
    /// Percentiles as HdrHistogram plots them: each nine takes as much room as the one before, up to 99.999.
    Percentile,
}

/// The largest ratio of two values that a linear scale shows well.
const LINEAR_RATIO: f64 = 50.0;
/// The ratio of the largest and the smallest distance from 0 that [`Scale::Signed`] tells apart.
const SIGNED_RATIO: f64 = 1e5;
/// The share above the last percentile of [`Scale::Percentile`].
const LAST_SHARE: f64 = 1e-5;
/// Ticks that a linear axis has at most.
const TICKS: f64 = 6.0;

impl Scale {
    /// From 0, or from the smallest value where that is negative, to the largest: for rates and counts.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = range(values).unwrap_or((0.0, 1.0));
        Scale::linear(low.min(0.0), high.max(0.0))
    }

    /// For values that may differ much, as delays: logarithmic where they do.
    pub fn fitting(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let (low, high) = range(values.clone()).unwrap_or((0.0, 1.0));
        let positive = range(values.filter(|value| *value > 0.0));
        match positive {
            Some((least, most)) if low >= 0.0 && most > least * LINEAR_RATIO => {
                let low = 10_f64.powf(least.max(1e-9).log10().floor());
                Scale::Log { low, high: most.max(low * 10.0) * 1.1 }
            }
            _ => {
                let margin = (high - low) * 0.05;
                Scale::linear(if low >= 0.0 { 0.0 } else { low - margin }, high + margin)
            }
        }
    }

    /// For differences with a sign that may be small and large: both ends are as far from 0 as the largest.
    pub fn signed(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = range(values).unwrap_or((0.0, 0.0));
        let most = 10_f64.powf(low.abs().max(high.abs()).max(1e-9).log10().ceil());
        Scale::Signed { least: most / SIGNED_RATIO, most }
    }

    /// From one value to another, both above 0: equal distances are equal ratios.
    pub fn log(low: f64, high: f64) -> Scale {
        let low = low.max(f64::MIN_POSITIVE);
        Scale::Log { low, high: high.max(low * 10.0) }
    }

    fn linear(low: f64, high: f64) -> Scale {
        // all values are one: an axis with some length around it
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        let step = step(high - low);
        Scale::Linear { low: (low / step).floor() * step, high: (high / step).ceil() * step }
    }

    /// Where a value is: 0 to 1, whatever it is.
    pub fn place(self, value: f64) -> f64 {
        let at = match self {
            Scale::Linear { low, high } => (value - low) / (high - low),
            Scale::Log { low, high } => (value.max(low) / low).ln() / (high / low).ln(),
            Scale::Signed { least, most } => {
                let far = (value.abs() / least).ln_1p() / (most / least).ln_1p();
                0.5 + far.copysign(value) / 2.0
            }
            Scale::Percentile => {
                let share = (1.0 - value / 100.0).clamp(LAST_SHARE, 1.0);
                share.log10() / LAST_SHARE.log10()
            }
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The values that have a tick, and what is written there.
    pub fn ticks(self, unit: Unit) -> Vec<(f64, String)> {
        match self {
            Scale::Linear { low, high } => {
                let step = step(high - low);
                let count = ((high - low) / step).round().clamp(1.0, 20.0) as u32;
                let at = |n: u32| (low / step).round() * step + f64::from(n) * step;
                (0..=count).map(at).map(|value| (value, unit.tick(tidy(value, step)))).collect()
            }
            Scale::Log { low, high } => {
                let decades = (high / low).log10();
                let every = (decades / TICKS).ceil().max(1.0) as usize;
                // few decades have ticks within them, too
                let within: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let exponents = low.log10().round() as i32..=high.log10().floor() as i32;
                let values = exponents
                    .step_by(every)
                    .flat_map(|e| within.iter().map(move |times| times * 10_f64.powi(e)));
                let inside = values.filter(|value| *value <= high);
                inside.map(|value| (value, unit.tick(value))).collect()
            }
            Scale::Signed { least, most } => {
                let decades = (most / least).log10().round() as i32;
                let far = (1..=decades).map(|n| least * 10_f64.powi(n));
                let signs = far.flat_map(|value| [-value, value]).chain([0.0]);
                let mut values: Vec<f64> = signs.collect();
                values.sort_by(f64::total_cmp);
                values.into_iter().map(|value| (value, unit.tick(value))).collect()
            }
            Scale::Percentile => {
                let at = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
                at.into_iter().map(|percent| (percent, format!("{percent}"))).collect()
            }
        }
    }
}

/// Ticks of the time of a run of this many nanoseconds, at even seconds, minutes and hours.
pub fn time_ticks(length_ns: f64) -> Vec<(f64, String)> {
    const SECOND: f64 = 1e9;
    let round = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0]
        .into_iter()
        .chain([1.0, 2.0, 4.0, 6.0, 12.0, 24.0].into_iter().map(|hours| hours * 3_600.0))
        .map(|seconds| seconds * SECOND)
        .find(|step| length_ns / step <= TICKS);
    let step = match round {
        Some(step) if length_ns >= SECOND => step,
        _ => step(length_ns.max(1.0)),
    };
    let count = (length_ns / step).floor().clamp(0.0, 20.0) as u32;
    let label = |ns: f64| match ns {
        zero if zero <= 0.0 => "0".to_owned(),
        short if short < 60.0 * SECOND => Unit::Time.tick(short),
        long => human::long_time(long as u64),
    };
    (0..=count).map(|n| f64::from(n) * step).map(|ns| (ns, label(ns))).collect()
}

/// The smallest and the largest of the values that are numbers.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    // differences of what is larger may not be numbers any more
    let finite = values.filter(|value| value.is_finite()).map(|value| value.clamp(-1e30, 1e30));
    finite.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// A round distance of ticks: 1, 2 or 5 times a power of ten.
fn step(length: f64) -> f64 {
    let rough = (length / TICKS).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough);
    times.unwrap_or(10.0) * power
}

/// Without the dust of binary fractions: 0.30000000000000004 is 0.3.
fn tidy(value: f64, step: f64) -> f64 {
    if value.abs() < step / 1e6 { 0.0 } else { (value / step).round() * step }
}
