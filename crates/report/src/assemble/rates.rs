//! Rates of counts.
//!
//! A rate is counted from the first frame to the last, as intervals and not as frames: `n` frames at a
//! constant rate span `n - 1` gaps. Frames of a burst leave at one time, so it is the frames before the
//! last burst that the span holds.

use wirebeat_units::{FrameRate, LINE_OVERHEAD};

use crate::model::{Rates, Volume, round};

/// How many frames the time from the first to the last of `frames` holds, when they come in bursts of
/// `burst`.
pub fn intervals(frames: u64, burst: u32) -> u64 {
    let burst = u64::from(burst.max(1));
    match frames.checked_sub(1) {
        Some(before_last) => before_last / burst * burst,
        None => 0,
    }
}

/// How many of the `frames` of a flow, from its first at `own.0` to its last at `own.1`, the time of all flows holds,
/// which is `all`: as many as its rate makes of the time that it was under way. It was so from the beginning if its first
/// came within a gap of that, and likewise to the end; otherwise half a gap counts, as a flow that begins at any time has
/// waited so long on average.
pub fn share(frames: u64, burst: u32, own: (u64, u64), all: (u64, u64)) -> f64 {
    let before = own.0.saturating_sub(all.0);
    let after = all.1.saturating_sub(own.1);
    let span = own.1.saturating_sub(own.0) as f64;
    let intervals = intervals(frames, burst) as f64;
    if intervals == 0.0 || span == 0.0 {
        // the frames at both ends hold one interval less
        let ends = f64::from(u8::from(before == 0) + u8::from(after == 0));
        return frames as f64 * (1.0 - ends / 2.0);
    }
    let gap = span / intervals * f64::from(burst.max(1));
    let edge = |time: u64| if time as f64 <= gap { time as f64 } else { gap / 2.0 };
    intervals * (span + edge(before) + edge(after)) / span
}

/// The rate of `frames` frames of the kind that `volume` holds in `span_ns`; `None` when there is no
/// frame or no time.
pub fn rates(volume: &Volume, frames: f64, span_ns: u64) -> Option<Rates> {
    (frames > 0.0 && span_ns > 0).then(|| of(volume, frames * 1e9 / span_ns as f64))
}

/// The rate that was asked for, of frames of the kind that `volume` holds.
pub fn offered(volume: &Volume, rate: &FrameRate) -> Rates {
    of(volume, rate.per_second())
}

/// The part of the time `all`, from 0 to 1, in which a flow was under way from `own.0` to `own.1`. What is missing at either
/// end counts as well where it is no longer than the flow's gap: flows are staggered by parts of theirs.
pub fn part(own: (u64, u64), all: (u64, u64), gap_ns: f64) -> f64 {
    let time = all.1.saturating_sub(all.0);
    let edge = |time: u64| if time as f64 <= gap_ns { time } else { 0 };
    let (before, after) = (own.0.saturating_sub(all.0), all.1.saturating_sub(own.1));
    let span = own.1.saturating_sub(own.0);
    if span == 0 || time == 0 {
        return 0.0;
    }
    (span.saturating_add(edge(before)).saturating_add(edge(after)) as f64 / time as f64).min(1.0)
}

/// The sum of rates, each of which held for so large a part of the time; `None` where there is none.
pub fn weighted(rates: impl Iterator<Item = (Rates, f64)>) -> Option<Rates> {
    let parts = |(rates, part): (Rates, f64)| Rates {
        frames_per_second: digits(rates.frames_per_second * part),
        line_bits_per_second: digits(rates.line_bits_per_second * part),
        frame_bits_per_second: digits(rates.frame_bits_per_second * part),
        payload_bits_per_second: digits(rates.payload_bits_per_second * part),
    };
    sum(rates.map(|one| Some(parts(one))))
}

/// Frames of the kind that `volume` holds at so many in a second.
pub fn of(volume: &Volume, frames_per_second: f64) -> Rates {
    let frames = volume.frames.max(1) as f64;
    let wire = volume.fragments as f64 / frames + 1.0;
    let bits = |bytes: u64, overhead: u16| {
        let mean = bytes as f64 / frames + f64::from(overhead) * wire;
        digits(mean * 8.0 * frames_per_second)
    };
    Rates {
        frames_per_second: digits(frames_per_second),
        line_bits_per_second: bits(volume.frame_bytes, LINE_OVERHEAD),
        frame_bits_per_second: bits(volume.frame_bytes, 0),
        payload_bits_per_second: bits(volume.payload_bytes, 0),
    }
}

/// `value` to twelve digits, however small or large it is: read back as a decimal it is the same.
pub fn digits(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// The sum of all rates; `None` when one is not known or there is none.
pub fn sum(rates: impl Iterator<Item = Option<Rates>>) -> Option<Rates> {
    rates
        .reduce(|a, b| {
            let (a, b) = (a?, b?);
            Some(Rates {
                frames_per_second: a.frames_per_second + b.frames_per_second,
                line_bits_per_second: a.line_bits_per_second + b.line_bits_per_second,
                frame_bits_per_second: a.frame_bits_per_second + b.frame_bits_per_second,
                payload_bits_per_second: a.payload_bits_per_second + b.payload_bits_per_second,
            })
        })
        .flatten()
}

/// How far `rates` is from `offered`, in millionths of it.
pub fn error_ppm(rates: &Rates, offered: &Rates) -> Option<f64> {
    let wanted = offered.frames_per_second;
    (wanted > 0.0).then(|| round((rates.frames_per_second / wanted - 1.0) * 1e6))
}

#[cfg(test)]
mod tests {
    use wirebeat_units::Nanos;

    use super::*;

    const SHORTEST: Volume =
        Volume { frames: 10, fragments: 0, frame_bytes: 640, payload_bytes: 180 };

    #[test]
    fn frames_span_one_gap_less_than_they_are() {
        let found = rates(&SHORTEST, intervals(10, 1) as f64, 9_000_000).unwrap();
        assert_eq!(found.frames_per_second, 1000.0);
        assert_eq!(found.line_bits_per_second, 84.0 * 8000.0);
        assert_eq!(found.frame_bits_per_second, 64.0 * 8000.0);
        assert_eq!(found.payload_bits_per_second, 18.0 * 8000.0);
    }

    #[test]
    fn the_last_burst_is_not_in_the_span() {
        assert_eq!(intervals(12, 4), 8);
        assert_eq!(intervals(13, 4), 12);
        assert_eq!(intervals(4, 4), 0);
        assert_eq!((intervals(1, 1), intervals(0, 1), intervals(2, 0)), (0, 0, 1));
    }

    #[test]
    fn one_frame_or_no_time_has_no_rate() {
        assert_eq!(rates(&SHORTEST, 0.0, 1000), None);
        assert_eq!(rates(&SHORTEST, 9.0, 0), None);
        assert_eq!(rates(&Volume::default(), 0.0, 0), None);
    }

    #[test]
    fn an_error_is_in_millionths() {
        let rate = FrameRate { frames: 1000, per: Nanos::from_secs(1) };
        let wanted = offered(&SHORTEST, &rate);
        let found = rates(&SHORTEST, 9.0, 9_000_900).unwrap();
        let error = error_ppm(&found, &wanted).unwrap();
        assert!((error + 100.0).abs() < 0.1, "{error}");
        assert_eq!(error_ppm(&found, &Rates::default()), None);
    }

    #[test]
    fn the_rate_of_all_flows_is_the_sum_of_those_under_way() {
        let rate = |flows: &[(u64, u32, (u64, u64))]| {
            let all = (
                flows.iter().map(|flow| flow.2.0).min().unwrap(),
                flows.iter().map(|flow| flow.2.1).max().unwrap(),
            );
            let frames: f64 = flows.iter().map(|&(n, burst, own)| share(n, burst, own, all)).sum();
            frames * 1e9 / (all.1 - all.0) as f64
        };
        let near =
            |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-3, "{found}");
        const MS: u64 = 1_000_000;
        // one, and two in step
        near(rate(&[(101, 1, (0, 100 * MS))]), 1000.0);
        near(rate(&[(101, 1, (0, 100 * MS)), (101, 1, (0, 100 * MS))]), 2000.0);
        // a hundred of ten frames a second, one after the other within their gap, for a second
        let staggered = |n: u64| (10, 1, (n * MS, n * MS + 900 * MS));
        near(rate(&(0..100).map(staggered).collect::<Vec<_>>()), 1000.0);
        // bursts of five, and a hundred flows of a single frame
        near(rate(&[(55, 5, (0, 100 * MS)), (100, 1, (0, 99 * MS))]), 1500.0);
        near(rate(&(0..100).map(|n| (1, 1, (n * MS, n * MS))).collect::<Vec<_>>()), 1000.0);
        // one after the other, with a pause as long as each
        near(rate(&[(1001, 1, (0, 1000 * MS)), (1001, 1, (2000 * MS, 3000 * MS))]), 667.0);
    }

    #[test]
    fn rates_add_up_where_all_are_known() {
        let one = Rates { frames_per_second: 2.0, ..Rates::default() };
        assert_eq!(sum([Some(one), Some(one)].into_iter()).unwrap().frames_per_second, 4.0);
        assert_eq!(sum([Some(one), None].into_iter()), None);
        assert_eq!(sum(std::iter::empty()), None);
    }
}
