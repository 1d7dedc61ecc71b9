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

/// The rate of `intervals` frames of the kind that `volume` holds in `span_ns`; `None` when there is no
/// interval or no time.
pub fn rates(volume: &Volume, intervals: u64, span_ns: u64) -> Option<Rates> {
    (intervals > 0 && span_ns > 0).then(|| of(volume, intervals as f64 * 1e9 / span_ns as f64))
}

/// The rate that was asked for, of frames of the kind that `volume` holds.
pub fn offered(volume: &Volume, rate: &FrameRate) -> Rates {
    of(volume, rate.per_second())
}

fn of(volume: &Volume, frames_per_second: f64) -> Rates {
    let frames = volume.frames.max(1) as f64;
    let wire = volume.fragments as f64 / frames + 1.0;
    let bits = |bytes: u64, overhead: u16| {
        let mean = bytes as f64 / frames + f64::from(overhead) * wire;
        round(mean * 8.0 * frames_per_second)
    };
    Rates {
        frames_per_second: round(frames_per_second),
        line_bits_per_second: bits(volume.frame_bytes, LINE_OVERHEAD),
        frame_bits_per_second: bits(volume.frame_bytes, 0),
        payload_bits_per_second: bits(volume.payload_bytes, 0),
    }
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
        let found = rates(&SHORTEST, intervals(10, 1), 9_000_000).unwrap();
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
        assert_eq!(rates(&SHORTEST, 0, 1000), None);
        assert_eq!(rates(&SHORTEST, 9, 0), None);
        assert_eq!(rates(&Volume::default(), 0, 0), None);
    }

    #[test]
    fn an_error_is_in_millionths() {
        let rate = FrameRate { frames: 1000, per: Nanos::from_secs(1) };
        let wanted = offered(&SHORTEST, &rate);
        let found = rates(&SHORTEST, 9, 9_000_900).unwrap();
        let error = error_ppm(&found, &wanted).unwrap();
        assert!((error + 100.0).abs() < 0.1, "{error}");
        assert_eq!(error_ppm(&found, &Rates::default()), None);
    }

    #[test]
    fn rates_add_up_where_all_are_known() {
        let one = Rates { frames_per_second: 2.0, ..Rates::default() };
        assert_eq!(sum([Some(one), Some(one)].into_iter()).unwrap().frames_per_second, 4.0);
        assert_eq!(sum([Some(one), None].into_iter()), None);
        assert_eq!(sum(std::iter::empty()), None);
    }
}
