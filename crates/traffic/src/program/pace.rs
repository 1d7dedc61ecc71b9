//! How the departures of a flow follow one another: plain data, walked by `schedule/`.

use std::sync::Arc;

use wirebeat_units::{FrameRate, Nanos};

use super::curve::Curve;
use crate::distribution::Sampler;
use crate::distribution::draw::Key;

/// When bursts are due (single frames, where a burst is one).
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the engine can.
    Unlimited,
    /// At a constant rate.
    Constant(FrameRate),
    /// Times between frames are drawn.
    Drawn(Gaps),
    /// About the times of a constant rate.
    Jittered(Jittered),
    /// On and off.
    OnOff(Box<OnOff>),
    /// Nanoseconds from one to the next, and again from the first. Never empty.
    Trace(Arc<[u64]>),
    /// At a rate that changes with time.
    Profile(Profile),
    /// Never.
    Silent,
    /// When what is replayed says; the schedule has none of it.
    Recorded {
        /// Whether it says so: without times it is as fast as the engine can.
        limited: bool,
        /// Records of sub-flows below this number; 0: none.
        sub_flows: u32,
    },
}

/// Times between frames that are drawn, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    /// From what.
    pub sampler: Arc<Sampler>,
    /// With what.
    pub key: Key,
}

impl Gaps {
    /// Number `n`.
    #[inline]
    pub fn gap(&self, n: u64) -> f64 {
        self.sampler.sample(&mut self.key.draw(n))
    }
}

/// Up to so much before or after the times of a constant rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Jittered {
    /// The rate.
    pub rate: FrameRate,
    /// How much, in nanoseconds.
    pub reach: f64,
    /// With what it is drawn.
    pub key: Key,
}

/// Bursts with pauses between them.
#[derive(Clone, Debug, PartialEq)]
pub struct OnOff {
    /// How long a burst lasts.
    pub on: Lasting,
    /// How long the pause is.
    pub pause: Pause,
    /// How frames leave within a burst.
    pub within: Pace,
}

/// When the next burst begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// The time after the last one ended.
    After(Lasting),
    /// The time after the last one began, but not before it ended.
    Every(Lasting),
}

/// How long something lasts, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub enum Lasting {
    /// Always the same.
    Fixed(Nanos),
    /// Drawn.
    Drawn(Gaps),
}

impl Lasting {
    /// How long it lasts for the `n`th time.
    pub fn nanos(&self, n: u64) -> u64 {
        match self {
            Lasting::Fixed(time) => time.get(),
            Lasting::Drawn(gaps) => gaps.gap(n) as u64,
        }
    }

    /// On average; `None` where there is no average.
    fn mean(&self) -> Option<f64> {
        match self {
            Lasting::Fixed(time) => Some(time.get() as f64),
            Lasting::Drawn(gaps) => gaps.sampler.mean(),
        }
    }
}

/// A rate that changes with time, counted from the start of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// How.
    pub curve: Curve,
    /// Times between frames as shares of what the rate says, in units of 1/[`Profile::UNIT`]; `None`: all
    /// alike.
    pub gaps: Option<Gaps>,
    /// Where on the curve it begins, in nanoseconds.
    pub begin: f64,
}

impl Profile {
    /// The mean of `gaps`: as if they were nanoseconds, and frames a millisecond apart.
    pub const UNIT: f64 = 1e6;
}

impl Pace {
    /// Whether frames have deadlines.
    pub fn is_limited(&self) -> bool {
        !matches!(self, Pace::Unlimited | Pace::Recorded { limited: false, .. })
    }

    /// The constant rate, if it is one.
    pub fn constant(&self) -> Option<FrameRate> {
        match self {
            Pace::Constant(rate) => Some(*rate),
            _ => None,
        }
    }

    /// Frames per nanosecond on average over a long time; `None` where there is no limit or no average.
    pub fn mean_rate(&self) -> Option<f64> {
        let per_nano = |rate: &FrameRate| rate.per_second() / 1e9;
        match self {
            Pace::Unlimited | Pace::Recorded { .. } => None,
            Pace::Constant(rate) => Some(per_nano(rate)),
            Pace::Jittered(jittered) => Some(per_nano(&jittered.rate)),
            Pace::Drawn(gaps) => gaps.sampler.mean().map(f64::recip),
            Pace::OnOff(on_off) => {
                let on = on_off.on.mean()?;
                let period = match &on_off.pause {
                    Pause::After(off) => on + off.mean()?,
                    // Exact where bursts do not outlast the time to the next, which is what is meant.
                    Pause::Every(every) => every.mean()?.max(on),
                };
                // Every burst begins with a frame.
                let spans = on_off.within.mean_rate()? * on;
                let frames = match (&on_off.within, &on_off.on) {
                    (Pace::Constant(_), Lasting::Fixed(_)) => spans.ceil(),
                    (Pace::Drawn(_), _) => spans + 1.0,
                    _ => spans + 0.5,
                };
                Some(frames.max(1.0) / period)
            }
            Pace::Trace(gaps) => {
                let sum: f64 = gaps.iter().map(|gap| *gap as f64).sum();
                Some(gaps.len() as f64 / sum.max(1.0))
            }
            Pace::Profile(profile) => Some(profile.curve.mean_rate()),
            Pace::Silent => Some(0.0),
        }
    }

    /// Frames per nanosecond on average where they are densest: within bursts, and at the top of a profile.
    pub fn peak_rate(&self) -> Option<f64> {
        match self {
            Pace::OnOff(on_off) => {
                let within = on_off.within.peak_rate()?;
                // Bursts shorter than a gap have a frame each all the same, and may follow closely.
                Some(self.mean_rate().map_or(within, |mean| mean.max(within)))
            }
            Pace::Profile(profile) => Some(profile.curve.peak_rate()),
            other => other.mean_rate(),
        }
    }

    /// How many nanoseconds so many frames take, on average; `None` where there is no limit or no average.
    pub(crate) fn lasts(&self, frames: u64) -> Option<f64> {
        let lasts = self.lasts_for(frames as f64)?;
        match self {
            Pace::Jittered(jittered) => Some(lasts + 2.0 * jittered.reach),
            _ => Some(lasts),
        }
    }

    /// How many nanoseconds so many frames take at their mean rate, with the time behind the last one.
    pub(super) fn lasts_for(&self, frames: f64) -> Option<f64> {
        match self {
            Pace::Profile(Profile { curve, begin, .. }) => {
                Some(curve.time_of(curve.frames_before(*begin) + frames) - begin)
            }
            other => Some(frames / other.mean_rate()?),
        }
    }

    /// How many frames leave within so many nanoseconds from the beginning, on average; `None` where there is no limit or
    /// no average.
    pub(super) fn frames_within(&self, time: f64) -> Option<f64> {
        match self {
            Pace::Profile(Profile { curve, begin, .. }) => {
                Some(curve.frames_before(begin + time) - curve.frames_before(*begin))
            }
            other => Some(other.mean_rate()? * time),
        }
    }

    /// How far a frame may be from its time, in nanoseconds.
    pub(crate) fn reach(&self) -> f64 {
        match self {
            Pace::Jittered(jittered) => jittered.reach,
            Pace::OnOff(on_off) => on_off.within.reach(),
            _ => 0.0,
        }
    }
}

/// A rate in frames per nanosecond as a fraction, rounded to a part in a million million.
pub(crate) fn frame_rate(per_nano: f64) -> Option<FrameRate> {
    // As many frames as take about 2^50 ns, 13 days: more digits than an f64 has are not needed.
    const SPAN: f64 = (1_u64 << 50) as f64;
    let frames = (per_nano * SPAN).clamp(1.0, (1_u64 << 62) as f64).round();
    let per = frames / per_nano;
    (per_nano > 0.0 && per.is_finite() && per >= 1.0)
        .then(|| FrameRate { frames: frames as u64, per: Nanos::new(per.round() as u64) })
}
