//! How many times as fast, or as much.

use std::fmt;
use std::str::FromStr;

use crate::UnitError;
use crate::parse::{Bare, Decimal, Quantity, shortest};
use crate::text::serde_as_text;

/// A factor is kept in millionths.
const UNIT: u64 = 1_000_000;

const FACTOR: Quantity = Quantity {
    what: "a factor",
    example: "10x or 0.5x",
    units: &[("x", UNIT)],
    bare: Bare::Refused,
};

/// A factor above zero, to the millionth.
///
/// Read from `"10x"`, `"0.5x"` or `10`; printed as the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(u64);

impl Factor {
    /// Once.
    pub const ONE: Factor = Factor(UNIT);

    /// A time that passes so many times as fast; beyond the number range the longest.
    #[inline]
    pub fn divide(self, time_ns: u128) -> u64 {
        match self {
            Factor::ONE => u64::try_from(time_ns).unwrap_or(u64::MAX),
            Factor(millionths) => {
                let time = time_ns.saturating_mul(UNIT.into()) / u128::from(millionths);
                u64::try_from(time).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Factor {
    /// A time that passes so many times as slowly; beyond the number range the longest.
    pub fn multiply(self, time_ns: u64) -> u64 {
        let time = u128::from(time_ns) * u128::from(self.0) / u128::from(UNIT);
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// It as a fraction: numerator and denominator.
    pub fn fraction(self) -> (u64, u64) {
        (self.0, UNIT)
    }
}

impl Default for Factor {
    fn default() -> Factor {
        Factor::ONE
    }
}

impl FromStr for Factor {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = FACTOR.split(text)?;
        // Nothing else could be meant by a number alone.
        let size = if unit.is_empty() { UNIT } else { FACTOR.size(text, number, unit)? };
        let misfit = |_| FACTOR.refuse(text, "it is too large, or no whole number of millionths");
        match number.times(size).map_err(misfit)? {
            0 => Err(FACTOR.refuse(text, "nothing would ever come")),
            millionths => Ok(Factor(millionths)),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortest(Decimal::new(self.0.into(), 6), &[("x", 0)]))
    }
}

serde_as_text!(Factor, "a factor");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_as_they_are_printed() {
        for (text, printed) in
            [("10x", "10x"), ("0.5x", "0.5x"), ("10", "10x"), ("1.000001x", "1.000001x")]
        {
            let factor: Factor = text.parse().unwrap();
            assert_eq!(factor.to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_factor_is_told_with_an_example() {
        for text in ["", "0x", "0", "-1x", "10y", "fast", "0.0000001x", "99999999999999999x"] {
            let error = text.parse::<Factor>().unwrap_err().to_string();
            assert!(error.ends_with("write for example 10x or 0.5x"), "{error}");
        }
    }

    #[test]
    fn time_passes_so_many_times_as_fast() {
        let factor = |text: &str| text.parse::<Factor>().unwrap();
        assert_eq!(factor("10x").divide(1_000_005), 100_000);
        assert_eq!(factor("0.5x").divide(1_000_005), 2_000_010);
        assert_eq!(Factor::ONE.divide(7), 7);
        assert_eq!(factor("0.000001x").divide(u128::MAX), u64::MAX);
    }
}
