//! How long the frames of a flow are on average, for rates in bits.

use wirebeat_units::{BitRate, FCS, FrameRate, LINE_OVERHEAD, Nanos, Rate, RateError};
use wirebeat_wire::ethernet::FRAME_MIN;

use crate::program::gcd;
use crate::program::lengths::Lengths;

/// The mean length of buffers (without FCS, with padding), as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mean {
    bytes: u64,
    frames: u64,
}

/// A mean that is no fraction of small numbers is kept to 2^-20 bytes.
const FRACTION: u64 = 1 << 20;

impl Mean {
    /// Of frames with these lengths.
    pub(super) fn of(lengths: &Lengths) -> Mean {
        let of = |(bytes, frames): (u64, u64)| Mean { bytes, frames: frames.max(1) };
        match lengths {
            Lengths::Fixed(length) => of((u64::from(*length).max(FRAME_MIN as u64), 1)),
            Lengths::List(list) => of(list.total()),
            Lengths::Mix(mix, _) => of(mix.total()),
            Lengths::Drawn { sampler, beside, within: (min, max), .. } => {
                // Between bounds there is a mean, whatever the law.
                let middle = (f64::from(*min) + f64::from(*max)) / 2.0 - f64::from(*beside);
                let mean = sampler.mean().unwrap_or(middle) + f64::from(*beside);
                let mean = mean.max(FRAME_MIN as f64) * FRACTION as f64;
                Mean { bytes: mean as u64, frames: FRACTION }
            }
        }
    }

    /// Bytes on the line.
    pub(super) fn on_line(self) -> f64 {
        self.bytes as f64 / self.frames as f64 + f64::from(FCS) + f64::from(LINE_OVERHEAD)
    }

    /// The frame rate that `rate` means for such frames with `headers` bytes before their payload, on a link
    /// of `link` bits per second. `None`: as fast as the engine can.
    pub(super) fn frame_rate(
        self,
        rate: Rate,
        headers: u16,
        link: Option<BitRate>,
    ) -> Result<Option<FrameRate>, RateError> {
        let payload = self.bytes.saturating_sub(u64::from(headers) * self.frames);
        let with = |beside: u64| self.bytes + beside * self.frames;
        let line = with(u64::from(FCS) + u64::from(LINE_OVERHEAD));
        rate.frames_of(self.frames, [line, with(FCS.into()), payload], link)
            .map(|rate| rate.map(|(frames, per_ns)| in_lowest_terms(frames, per_ns)))
    }
}

/// Frames in so many nanoseconds; beyond the number range rounded.
fn in_lowest_terms(frames: u128, per_ns: u128) -> FrameRate {
    let common = gcd(frames, per_ns).max(1);
    let (mut frames, mut per_ns) = (frames / common, per_ns / common);
    while frames > u64::MAX.into() || per_ns > u64::MAX.into() {
        (frames, per_ns) = (frames / 2, per_ns / 2);
    }
    FrameRate { frames: frames.max(1) as u64, per: Nanos::new(per_ns.max(1) as u64) }
}
