//! Bits per second.

use std::fmt;
use std::str::FromStr;

use crate::UnitError;
use crate::parse::{Bare, Decimal, Quantity, shortest};
use crate::text::serde_as_text;

pub(crate) const BIT_RATE: Quantity = Quantity {
    what: "a bit rate",
    example: "800kbps or 2Gbps",
    units: &[
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
        ("b/s", 1),
        ("kb/s", 1_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
        ("Tb/s", 1_000_000_000_000),
    ],
    bare: Bare::Refused,
};

/// What is said of a rate in bytes.
pub(crate) const BYTES: &str = "'B' is bytes, and a bit rate counts bits: 1 MB/s is written 8Mbps";

/// Bits per second. The prefixes are decimal.
///
/// Read from `"800kbps"`, `"1.5Mbps"`, `"2Gbit/s"` or `"2Gb/s"`; printed as the shortest `bps` that is
/// exact. Zero cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(pub u64);

/// Whether `unit` is a rate of bytes: the mistake that costs a factor of eight.
pub(crate) fn counts_bytes(unit: &str) -> bool {
    unit.contains('B') && (unit.ends_with("/s") || unit.ends_with("ps"))
}

/// The rate of `number` in `unit`, which were read from `given`.
pub(crate) fn read(given: &str, number: Decimal, unit: &str) -> Result<BitRate, UnitError> {
    if counts_bytes(unit) {
        return Err(BIT_RATE.refuse(given, BYTES));
    }
    let size = BIT_RATE.size(given, number, unit)?;
    match BIT_RATE.fit(given, number, size)? {
        0 => Err(BIT_RATE.refuse(given, "it is zero").instead("leave the flow out instead")),
        rate => Ok(BitRate(rate)),
    }
}

impl FromStr for BitRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = BIT_RATE.split(text)?;
        read(text, number, unit)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = &[("bps", 0), ("kbps", 3), ("Mbps", 6), ("Gbps", 9), ("Tbps", 12)];
        f.pad(&shortest(Decimal::new(self.0.into(), 0), units))
    }
}

serde_as_text!(BitRate, BIT_RATE.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bit_rates_are_read_in_every_unit() {
        for (text, bps) in [
            ("1bps", 1),
            ("800kbit/s", 800_000),
            ("1.5Mbps", 1_500_000),
            ("1.5 Mb/s", 1_500_000),
            ("2Gbps", 2_000_000_000),
            ("0.1Tbps", 100_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bps)), "{text}");
        }
    }

    #[test]
    fn bit_rates_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("1000", "it has no unit"),
            ("0bps", "it is zero"),
            ("0.5bps", "it is not a whole number of bps"),
            ("100MB/s", BYTES),
            ("100GBps", BYTES),
            ("5Kbps", "there is no unit 'Kbps', and case matters: did you mean 'kbps'?"),
            ("20000000Tbps", "it is more than 18446744073709551615bps"),
        ] {
            assert_eq!(text.parse::<BitRate>().expect_err(text).why, why, "{text}");
        }
    }

    #[test]
    fn bit_rates_print_shortest() {
        for (bps, text) in [(0, "0bps"), (2_050_000_000, "2.05Gbps"), (1_234_567, "1234567bps")] {
            assert_eq!(BitRate(bps).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_bit_rate_survives_printing_and_reading(bps in 1..=u64::MAX) {
            prop_assert_eq!(BitRate(bps).to_string().parse(), Ok(BitRate(bps)));
        }
    }
}
