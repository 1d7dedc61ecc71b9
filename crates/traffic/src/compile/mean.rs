//! How long the frames of a flow are on average, for rates in bits.

use wirebeat_units::{BitRate, FCS, FrameRate, LINE_OVERHEAD, Nanos, Rate, RateError};
use wirebeat_wire::ethernet::FRAME_MIN;

use crate::program::lengths::Lengths;
use crate::program::{Frames, gcd};

/// What so many packets are on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mean {
    packets: u64,
    /// Their frames: more where packets leave as fragments.
    frames: u64,
    /// Bytes of the frames, without FCS, with padding.
    bytes: u64,
    /// Bytes of payload, and of padding.
    payload: u64,
}

/// A mean that is no fraction of small numbers is kept to 2^-20 bytes.
const FRACTION: u64 = 1 << 20;

impl Mean {
    /// Of these.
    pub(super) fn of(frames: &Frames) -> Mean {
        let headers = u64::from(frames.headers_len());
        // Without fragments the sums that lengths know are enough.
        let known = |(bytes, packets): (u64, u64)| Mean {
            packets,
            frames: packets,
            bytes,
            payload: bytes.saturating_sub(headers * packets),
        };
        let walked = |each: &mut dyn Iterator<Item = (u32, u32)>| {
            let none = Mean { packets: 0, frames: 0, bytes: 0, payload: 0 };
            each.fold(none, |mean, (length, times)| mean.and(frames, length, times))
        };
        let mean = match frames.lengths() {
            // Nothing is known of what is replayed, and nothing asks.
            Lengths::Fixed(length) | Lengths::Recorded { longest: length, .. } => {
                walked(&mut [(*length, 1)].into_iter())
            }
            Lengths::List(list) if frames.is_cut() => {
                walked(&mut list.lengths().iter().map(|length| (*length, 1)))
            }
            Lengths::Mix(mix, _) if frames.is_cut() => walked(&mut mix.weighted()),
            Lengths::List(list) => known(list.total()),
            Lengths::Mix(mix, _) => known(mix.total()),
            Lengths::Drawn { sampler, beside, within: (min, max), .. } => {
                // Between bounds there is a mean, whatever the law.
                let middle = (f64::from(*min) + f64::from(*max)) / 2.0 - f64::from(*beside);
                let mean = sampler.mean().unwrap_or(middle) + f64::from(*beside);
                let mean = (mean.max(FRAME_MIN as f64) * FRACTION as f64) as u64;
                let cdf = |packet: u32| sampler.cdf(f64::from(packet as i32 - beside));
                known((mean, FRACTION)).cut(frames, (*min, *max), cdf)
            }
        };
        Mean { packets: mean.packets.max(1), ..mean }
    }

    /// With so many packets of `length` more.
    fn and(self, of: &Frames, length: u32, times: u32) -> Mean {
        let counted = of.counted_as(length);
        let (times, frames) = (u64::from(times), u64::from(counted.packets + counted.fragments));
        let padded = u64::from(length).max(FRAME_MIN as u64);
        Mean {
            packets: self.packets + times,
            frames: self.frames + frames * times,
            bytes: self.bytes + (u64::from(counted.bytes) - frames * u64::from(FCS)) * times,
            payload: self.payload + padded.saturating_sub(of.headers_len().into()) * times,
        }
    }

    /// With what fragments add, where packets between `min` and `max` bytes are as `cdf` says.
    fn cut(mut self, of: &Frames, (min, max): (u32, u32), cdf: impl Fn(u32) -> f64) -> Mean {
        // Each step of the number of frames is a length from which on packets are one frame more.
        let mut length = min;
        while let Some(next) = of.next_step(length).filter(|next| *next <= max) {
            let share = 1.0 - cdf(next - 1);
            let (before, after) = (of.counted_as(next - 1), of.counted_as(next));
            let more = f64::from(after.bytes - before.bytes - 1 - u32::from(FCS));
            self.frames += (share * FRACTION as f64) as u64;
            self.bytes += (share * more * FRACTION as f64) as u64;
            length = next;
        }
        self
    }

    /// Packets, frames, bytes of frames with FCS, bytes of payload.
    pub(super) fn counts(self) -> [u64; 4] {
        [self.packets, self.frames, self.with(FCS), self.payload]
    }

    /// Bytes of a packet's frames with FCS.
    pub(super) fn of_frames(self) -> f64 {
        self.with(FCS) as f64 / self.packets as f64
    }

    /// The same on the line.
    pub(super) fn on_line(self) -> f64 {
        self.with(FCS + LINE_OVERHEAD) as f64 / self.packets as f64
    }

    /// With so many bytes beside each frame.
    fn with(self, beside: u16) -> u64 {
        self.bytes + u64::from(beside) * self.frames
    }

    /// The packet rate that `rate` means for these, on a link of `link` bits per second. `None`: as fast as the
    /// engine can.
    pub(super) fn frame_rate(
        self,
        rate: Rate,
        link: Option<BitRate>,
    ) -> Result<Option<FrameRate>, RateError> {
        let layers = [self.with(FCS + LINE_OVERHEAD), self.with(FCS), self.payload];
        rate.frames_of(self.packets, layers, link)
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
