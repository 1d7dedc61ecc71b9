//! Numbers as scripts write them: exact decimals for times and rates, C's notation for whole numbers.

use wirebeat_units::{FrameRate, Nanos};

/// More digits than this no script needs, and 64 bits do not hold.
const MAX_DIGITS: usize = 18;
/// The smallest fraction that is kept.
const MAX_SCALE: i32 = 18;

/// The most frames per second: one in each nanosecond.
pub(crate) const MAX_RATE: u64 = 1_000_000_000;

/// A decimal number from 0 on, exactly: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u64,
    scale: u32,
}

impl Decimal {
    /// Reads `12`, `0.5`, `.5` or `1e3`. `None`: it is not a number, below 0, or out of all proportion.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let fraction = fraction.trim_end_matches('0');
        if whole.is_empty() && !mantissa.starts_with('.') || mantissa == "." {
            return None;
        }
        let mut digits = format!("{}{fraction}", whole.trim_start_matches('0'));
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) || digits.len() > 2 * MAX_DIGITS {
            return None;
        }
        let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if digits.trim_matches('0').is_empty() {
            return Some(Decimal { digits: 0, scale: 0 });
        }
        // What is written out to hundreds of places is not exact in the tool that reads it either.
        while scale > MAX_SCALE && !digits.is_empty() {
            digits.pop();
            scale -= 1;
        }
        while scale < 0 && digits.len() <= MAX_DIGITS {
            digits.push('0');
            scale += 1;
        }
        if digits.len() > MAX_DIGITS || scale < 0 {
            return None;
        }
        let digits = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        Some(Decimal {
            digits,
            scale: u32::try_from(scale).ok().filter(|_| digits > 0).unwrap_or(0),
        })
    }

    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    pub fn to_f64(self) -> f64 {
        self.digits as f64 / 10f64.powi(self.scale.cast_signed())
    }

    /// A multiple of a unit of nanoseconds, to the nearest. `None`: longer than five centuries.
    pub fn times(self, unit: Nanos) -> Option<Nanos> {
        let divisor = 10u128.checked_pow(self.scale)?;
        let ns = u128::from(self.digits) * u128::from(unit.get());
        u64::try_from((ns + divisor / 2) / divisor).ok().map(Nanos::new)
    }

    /// Frames in a second. `None` for none, for more than [`MAX_RATE`], and where the fraction does
    /// not fit 64 bits.
    pub fn per_second(self) -> Option<FrameRate> {
        let per = u128::from(MAX_RATE).checked_mul(10u128.checked_pow(self.scale)?)?;
        rate(self.digits.into(), per).filter(|rate| rate.frames <= rate.per.get())
    }
}

/// `frames` in `per` nanoseconds, in lowest terms.
pub(crate) fn rate(frames: u128, per: u128) -> Option<FrameRate> {
    let common = gcd(frames, per);
    let frames = u64::try_from(frames.checked_div(common)?).ok().filter(|frames| *frames > 0)?;
    let per = u64::try_from(per.checked_div(common)?).ok().filter(|per| *per > 0)?;
    Some(FrameRate { frames, per: Nanos::new(per) })
}

/// The greatest common divisor; 0 of 0 and 0.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A number of seconds.
pub(crate) fn seconds(text: &str) -> Option<Nanos> {
    Decimal::parse(text)?.times(Nanos::from_secs(1))
}

/// A number of milliseconds.
pub(crate) fn milliseconds(text: &str) -> Option<Nanos> {
    Decimal::parse(text)?.times(Nanos::from_millis(1))
}

/// `13:30:00`, `13:30:00.5`: the time since midnight.
pub(crate) fn since_midnight(text: &str) -> Option<Nanos> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let number = |text: &str, most: u64| text.parse::<u64>().ok().filter(|number| *number < most);
    let rest = seconds(rest).filter(|rest| *rest < Nanos::from_secs(60))?;
    let whole = number(hours, 24)? * 3600 + number(minutes, 60)? * 60;
    Some(Nanos::from_secs(whole).saturating_add(rest))
}

/// A byte as C writes it.
pub(crate) fn byte(text: &str) -> Option<u8> {
    c_number(text).and_then(|byte| u8::try_from(byte).ok())
}

/// A whole number as C writes it: decimal, `0x` hexadecimal, or octal from a leading 0.
pub(crate) fn c_number(text: &str) -> Option<u64> {
    let digits = |digits: &str, radix| match digits.starts_with('+') {
        false => u64::from_str_radix(digits, radix).ok(),
        true => None,
    };
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return digits(hex, 16);
    }
    match text.strip_prefix('0').filter(|octal| !octal.is_empty()) {
        Some(octal) => digits(octal, 8),
        None => digits(text, 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let ns = |text: &str| Decimal::parse(text)?.times(Nanos::from_secs(1)).map(Nanos::get);
        for (text, expected) in [
            ("0", 0),
            ("0.0", 0),
            ("1", 1_000_000_000),
            ("0.1", 100_000_000),
            (".5", 500_000_000),
            ("1e-3", 1_000_000),
            ("2.5E2", 250_000_000_000),
            ("0.0000000004", 0),
            ("00012.500", 12_500_000_000),
        ] {
            assert_eq!(ns(text), Some(expected), "{text}");
        }
        for text in
            ["", ".", "-1", "x", "1..2", "1e", "0x10", "1e400", "99999999999999999999", "1 "]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(Decimal::parse("1e9999999999"), None);
        assert!(Decimal::parse(&format!("0.{}", "3".repeat(30))).is_some());
    }

    #[test]
    fn rates_are_fractions() {
        let rate = |text: &str| Decimal::parse(text).and_then(|decimal| decimal.per_second());
        assert_eq!(rate("0.56").unwrap().to_string(), "0.56pps");
        assert_eq!(rate("1000").unwrap().to_string(), "1kpps");
        assert_eq!(rate("1e9").unwrap().to_string(), "1Gpps");
        assert_eq!(rate("1000000000.1"), None);
        assert_eq!(rate("0"), None);
    }

    #[test]
    fn times_of_day_are_within_a_day() {
        for (text, expected) in [
            ("00:00:00", Some(0)),
            ("13:30:00.5", Some(48_600_500_000_000)),
            ("23:59:59", Some(86_399_000_000_000)),
            ("24:00:00", None),
            ("12:60:00", None),
            ("12:00:60", None),
            ("12:00", None),
            ("12:00:00:00", None),
            ("-1:00:00", None),
            ("18446744073709551615:00:00", None),
        ] {
            assert_eq!(since_midnight(text).map(Nanos::get), expected, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_those_of_c() {
        for (text, number) in [("16", 16), ("0x10", 16), ("020", 16), ("0", 0)] {
            assert_eq!(c_number(text), Some(number), "{text}");
        }
        for text in ["", "-1", "+1", "0x", "0x+1", "08", "1.5"] {
            assert_eq!(c_number(text), None, "{text}");
        }
    }
}
