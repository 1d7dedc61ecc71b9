//! How long the frames of a flow are on average, for rates in bits.

use wirebeat_units::{
    BitRate, BufferLen, FCS, FrameRate, LINE_OVERHEAD, Nanos, PacketLen, Rate, RateError,
};

use crate::program::Frames;
use crate::program::frames::Payload;
use crate::program::lengths::{Lengths, Total};
use crate::values::gcd;

/// What so many packets are on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mean {
    packets: u64,
    /// Their frames: more where packets leave as fragments.
    frames: u64,
    /// Bytes of the frames, without FCS, with padding.
    bytes: u64,
    /// Bytes that are counted as payload.
    payload: u64,
}

/// A mean that is not a fraction of small numbers is kept to 2^-20 bytes.
const FRACTION: u64 = 1 << 20;

impl Mean {
    /// Of these.
    pub(super) fn of(frames: &Frames) -> Mean {
        // Without fragments the sums that lengths know are enough: no packet is shorter than its headers.
        let known = |total: Total| Mean {
            packets: total.packets,
            frames: total.packets,
            bytes: total.padded,
            payload: match frames.payload {
                Payload::Behind(headers) => {
                    total.bare.saturating_sub(u64::from(headers) * total.packets)
                }
                Payload::Padded(headers) => {
                    total.padded.saturating_sub(u64::from(headers) * total.packets)
                }
                Payload::Fixed(payload) => u64::from(payload) * total.packets,
            },
        };
        let walked = |each: &mut dyn Iterator<Item = (PacketLen, u32)>| {
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
                let (min, max) = (min.get(), max.get());
                // Between bounds there is a mean, whatever the distribution.
                let middle = (f64::from(min) + f64::from(max)) / 2.0 - f64::from(*beside);
                let mean = sampler.mean().unwrap_or(middle) + f64::from(*beside);
                let mean = mean.max(f64::from(min));
                let cdf = |packet: u32| sampler.cdf(f64::from(packet as i32 - beside));
                // A packet has a byte of padding for each length below the shortest frame that it is no longer than.
                // Lengths are rounded, so those to the middle between two whole numbers have the lower one.
                let no_longer = |length: u32| sampler.cdf(f64::from(length as i32 - beside) + 0.5);
                let padding = (min..BufferLen::MIN.get()).map(no_longer).sum::<f64>();
                let parts = |bytes: f64| (bytes * FRACTION as f64) as u64;
                let (bare, padded) = (parts(mean), parts(mean + padding));
                known(Total { packets: FRACTION, bare, padded }).cut(frames, min, max, cdf)
            }
        };
        Mean { packets: mean.packets.max(1), ..mean }
    }

    /// With so many packets of `length` more.
    fn and(self, of: &Frames, length: PacketLen, times: u32) -> Mean {
        let counted = of.counted_as(length);
        let (times, frames) = (u64::from(times), u64::from(counted.packets + counted.fragments));
        Mean {
            packets: self.packets + times,
            frames: self.frames + frames * times,
            bytes: self.bytes + (u64::from(counted.bytes) - frames * u64::from(FCS)) * times,
            payload: self.payload + u64::from(counted.payload) * times,
        }
    }

    /// With what fragments add, where packets between `min` and `max` bytes are as `cdf` says.
    fn cut(mut self, of: &Frames, min: u32, max: u32, cdf: impl Fn(u32) -> f64) -> Mean {
        // Each step of the number of frames is a length from which on packets are one frame more.
        let mut length = PacketLen::new(min);
        while let Some(next) = of.next_step(length).filter(|next| next.get() <= max) {
            let share = 1.0 - cdf(next.get() - 1);
            let below = PacketLen::new(next.get() - 1);
            let (before, after) = (of.counted_as(below), of.counted_as(next));
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

#[cfg(test)]
mod tests {
    use crate::compile::{Files, Link, Links, compile};
    use crate::scenario::Scenario;

    /// Packets, frames, bytes with FCS and bytes of payload of a flow with these keys.
    fn counts(keys: &str) -> [f64; 4] {
        let text = format!("ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, to: a, {keys} }} }}\n");
        let links = Links { ports: [("a".to_owned(), Link::imaginary(0))].into() };
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|e| panic!("{e}"));
        let program = compile(&scenario, &links, &Files::default()).unwrap();
        let counts = super::Mean::of(&program.streams[0].frames).counts();
        counts.map(|count| count as f64 / counts[0] as f64)
    }

    const UDP: &str =
        "probe: off, packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: { destination: 9 } } ]";

    /// Their padding was counted, so that `rate: 16kbps@payload` of 2 bytes each were 111 packets a second and not 1,000.
    #[test]
    fn padding_of_short_frames_is_no_payload() {
        for (size, payload) in [
            ("2B@payload", 2.0),
            ("18B@payload", 18.0),
            ("30B@payload", 30.0),
            ("{ list: [ 2B@payload, 100B@payload ] }", 51.0),
            ("{ mix: { 2B@payload: 3, 102B@payload: 1 } }", 27.0),
        ] {
            let [_, _, bytes, counted] = counts(&format!("{UDP}, size: {size}"));
            assert_eq!(counted, payload, "{size}");
            assert!(bytes >= 64.0, "{size}: {bytes}");
        }
    }

    /// A mean above the shortest frame said nothing of those below it.
    #[test]
    fn drawn_lengths_have_their_mean_payload_and_their_padding() {
        // payloads of 0 to 36 bytes: every second one is padded, to 18 bytes
        let size = "{ uniform: { min: 0, max: 36 }, of: payload }";
        let [_, _, bytes, payload] = counts(&format!("{UDP}, size: {size}"));
        assert!((payload - 18.0).abs() < 0.1, "{payload}");
        let exact = 42.0 + 4.0 + (0..=36).map(|l| f64::from(l.max(18))).sum::<f64>() / 37.0;
        assert!((bytes - exact).abs() < 0.3, "{bytes}, not {exact}");
    }

    /// No header says how much of an Ethernet frame of 30 bytes is padding, so a receiver counts all behind the header.
    #[test]
    fn padding_that_no_header_tells_is_payload() {
        let ethernet = "probe: off, packet: [ { ethernet: { source: 02:00:00:00:00:01, destination: \
                        02:00:00:00:00:02, type: 0x88b5 } } ], size: 16B@payload";
        assert_eq!(counts(ethernet), [1.0, 1.0, 64.0, 46.0]);
    }
}
