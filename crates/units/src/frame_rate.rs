//! Frames per second, exactly.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::parse::{Bare, Decimal, Quantity, shortest};
use crate::text::serde_as_text;
use crate::{Nanos, UnitError};

pub(crate) const FRAME_RATE: Quantity = Quantity {
    // of frames, or of sessions that start
    what: "a rate",
    example: "100kpps, 0.5pps or 1/10s",
    units: &[("pps", 1), ("kpps", 1_000), ("Mpps", 1_000_000), ("Gpps", 1_000_000_000)],
    bare: Bare::Refused,
};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Frames per second as an exact fraction, so that a schedule never drifts.
///
/// Read from `"12500pps"`, `"1.5Mpps"`, or a number of frames in a time: `"1000/s"`, `"1/10s"`, `"5/672ns"`. Printed
/// as the shortest of these that is exact; the fraction is for rates without a short decimal. Zero
/// cannot be read. Equal rates are equal whichever fraction they are written as.
#[derive(Clone, Copy, Debug)]
pub struct FrameRate {
    /// Frames …
    pub frames: u64,
    /// … in this many nanoseconds; never zero.
    pub per: Nanos,
}

impl FrameRate {
    /// When frame `index` is due, counted from frame 0: `floor(index * per / frames)`, exact for
    /// every index (128-bit arithmetic), saturating.
    pub fn deadline(&self, index: u64) -> Nanos {
        let ns = u128::from(index) * u128::from(self.per.get()) / u128::from(self.frames.max(1));
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }
    /// For display.
    pub fn per_second(&self) -> f64 {
        self.frames as f64 * 1e9 / self.per.get().max(1) as f64
    }

    /// As it is written of sessions, messages and what else is no frame: `"9.9/s"`, or the fraction for rates without a short decimal.
    pub fn per_second_text(&self) -> String {
        match self.to_string() {
            decimal if decimal.ends_with("pps") => format!("{}/s", self.per_second()),
            fraction => fraction,
        }
    }

    /// The fraction in lowest terms.
    fn lowest(&self) -> (u128, u128) {
        lowest(self.frames.into(), self.per.get().into())
    }

    /// Frames per second as a decimal number, where that is exact and short enough to be read back.
    fn decimal(&self) -> Option<Decimal> {
        let (frames, per) = self.lowest();
        let (frames, seconds) = lowest(frames * NANOS_PER_SECOND, per);
        // A fraction in lowest terms is a decimal when its denominator is 2^twos * 5^fives; then it
        // has as many places as the larger of these.
        let (rest, twos) = factored(seconds, 2);
        let (rest, fives) = factored(rest, 5);
        if rest != 1 {
            return None;
        }
        let scale = twos.max(fives);
        let digits = frames.checked_mul(10_u128.checked_pow(scale)? / seconds)?;
        Some(Decimal::new(digits, scale)).filter(|decimal| decimal.fits())
    }
}

/// A fraction in lowest terms.
fn lowest(numerator: u128, denominator: u128) -> (u128, u128) {
    let (mut a, mut b) = (numerator, denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    (numerator / divisor, denominator / divisor)
}

/// `number` without its factors of `prime`, and how many those were.
fn factored(number: u128, prime: u128) -> (u128, u32) {
    let (mut rest, mut count) = (number, 0);
    while rest > 1 && rest.is_multiple_of(prime) {
        rest /= prime;
        count += 1;
    }
    (rest, count)
}

impl PartialEq for FrameRate {
    fn eq(&self, other: &Self) -> bool {
        self.lowest() == other.lowest()
    }
}

impl Eq for FrameRate {}

impl Hash for FrameRate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lowest().hash(state);
    }
}

/// The rate of `number` in `unit`, which were read from `given`.
pub(crate) fn read(given: &str, number: Decimal, unit: &str) -> Result<FrameRate, UnitError> {
    if number.is_zero() {
        let instead = "leave it out instead, or write 'unlimited' for no limit";
        return Err(FRAME_RATE.refuse(given, "it is zero").instead(instead));
    }
    if let Some(per) = unit.strip_prefix('/') {
        if per.trim() == "s" {
            return read(given, number, "pps");
        }
        // '/m' is '/1m'
        let one = per.trim_start().starts_with(|c: char| c.is_ascii_alphabetic());
        let per = if one { format!("1{}", per.trim_start()) } else { per.to_owned() };
        return match (number.times(1), per.parse()?) {
            (_, Nanos::ZERO) => Err(FRAME_RATE.refuse(given, "its time is zero")),
            (Ok(frames), per) => Ok(FrameRate { frames, per }),
            (Err(_), _) => Err(FRAME_RATE.refuse(given, "it is not a whole number of frames")),
        };
    }
    let size = FRAME_RATE.size(given, number, unit)?;
    let exact = number.fraction(size).and_then(|(frames, seconds)| {
        let (frames, per) = lowest(frames, seconds.checked_mul(NANOS_PER_SECOND)?);
        Some(FrameRate { frames: frames.try_into().ok()?, per: Nanos::new(per.try_into().ok()?) })
    });
    exact.ok_or_else(|| FRAME_RATE.refuse(given, "it has too many digits to be kept exactly"))
}

impl FromStr for FrameRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = FRAME_RATE.split(text)?;
        read(text, number, unit)
    }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, per) = self.lowest();
        let fraction = format!("{frames}/{}", Nanos::new(per as u64));
        let units = &[("pps", 0), ("kpps", 3), ("Mpps", 6), ("Gpps", 9)];
        match self.decimal().map(|decimal| shortest(decimal, units)) {
            // A decimal reads better, unless it is long.
            Some(decimal) if decimal.len() <= 16 || decimal.len() <= fraction.len() => {
                f.pad(&decimal)
            }
            _ => f.pad(&fraction),
        }
    }
}

serde_as_text!(FrameRate, FRAME_RATE.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(frames: u64, per_ns: u64) -> FrameRate {
        FrameRate { frames, per: Nanos::new(per_ns) }
    }

    #[test]
    fn rates_of_other_things_have_no_unit_of_frames_and_are_read_back() {
        for text in ["9.9/s", "1000000/s", "0.4/s", "1/3s", "7/1min"] {
            let rate: FrameRate = text.parse().unwrap();
            assert_eq!(rate.per_second_text().parse::<FrameRate>().unwrap(), rate, "{text}");
        }
        let told = |text: &str| text.parse::<FrameRate>().unwrap().per_second_text();
        assert_eq!(
            [told("9.9pps"), told("2.5kpps"), told("3Mpps")],
            ["9.9/s", "2500/s", "3000000/s"]
        );
    }

    #[test]
    fn frame_rates_are_exact_fractions() {
        for (text, frames, per_ns) in [
            ("100kpps", 1, 10_000),
            ("12500pps", 12_500, 1_000_000_000),
            ("1.5Mpps", 3, 2_000),
            ("0.5pps", 1, 2_000_000_000),
            ("0.1pps", 1, 10_000_000_000),
            ("14.880952Mpps", 14_880_952, 1_000_000_000),
            ("1 Gpps", 1, 1),
            ("1/10s", 1, 10_000_000_000),
            ("5/672ns", 5, 672),
            ("1000/s", 1, 1_000_000),
            ("0.5/s", 1, 2_000_000_000),
            ("30/m", 1, 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(rate(frames, per_ns)), "{text}");
        }
    }

    #[test]
    fn frame_rates_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("1000", "it has no unit"),
            ("0pps", "it is zero"),
            ("0.0/s", "it is zero"),
            ("5mpps", "there is no unit 'mpps', and case matters: did you mean 'Mpps'?"),
            ("5/0s", "its time is zero"),
            ("5/10", "it has no unit"),
            ("5/", "it is empty"),
            ("0.5/1s", "it is not a whole number of frames"),
            ("99999999999999999999Gpps", "it has too many digits to be kept exactly"),
            ("0.00000000001pps", "it has too many digits to be kept exactly"),
        ] {
            assert_eq!(text.parse::<FrameRate>().expect_err(text).why, why, "{text}");
        }
    }

    #[test]
    fn frame_rates_print_shortest() {
        for (frames, per_ns, text) in [
            (100_000, 1_000_000_000, "100kpps"),
            (14_880_952, 1_000_000_000, "14880952pps"),
            (1, 2_000_000_000, "0.5pps"),
            (10_000_000_000, 84 * 8 * 1_000_000_000, "5/336ns"),
            (1, 3, "1/3ns"),
            (0, 7, "0pps"),
        ] {
            assert_eq!(rate(frames, per_ns).to_string(), text);
        }
    }

    #[test]
    fn equal_rates_are_equal_however_they_are_written() {
        assert_eq!(rate(1_000, 1_000_000_000), rate(1, 1_000_000));
        assert_ne!(rate(1_000, 1_000_000_001), rate(1, 1_000_000));
    }

    #[test]
    fn deadlines_do_not_drift_and_do_not_overflow() {
        let third: FrameRate = "3/10ns".parse().expect("a rate");
        assert_eq!([0, 1, 2, 3].map(|n| third.deadline(n).get()), [0, 3, 6, 10]);
        assert_eq!(third.deadline(3_000_000_000_000).get(), 10_000_000_000_000);
        assert_eq!(rate(1, u64::MAX).deadline(u64::MAX), Nanos::MAX);
    }

    proptest! {
        #[test]
        fn every_frame_rate_survives_printing_and_reading(
            frames in 1..=u64::MAX,
            per in 1..=u64::MAX,
        ) {
            let rate = rate(frames, per);
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        #[test]
        fn every_whole_rate_survives_printing_and_reading(pps in 1..=u64::MAX, digits in 0..9_u32) {
            let rate = rate(pps, 10_u64.pow(9 + digits));
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
