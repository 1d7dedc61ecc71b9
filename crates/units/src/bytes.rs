//! An amount of data.

use std::fmt;
use std::str::FromStr;

use crate::UnitError;
use crate::parse::{Bare, Decimal, Quantity, shortest};
use crate::text::serde_as_text;

/// Decimal prefixes of the SI and binary ones of IEC 80000-13.
pub(crate) const UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

const AMOUNT: Quantity = Quantity {
    what: "an amount of data",
    example: "64KiB, 1GB or 1500B",
    units: UNITS,
    bare: Bare::Finest,
};

/// An amount of data in bytes.
///
/// Read from `"1500"`, `"1500B"`, `"1.5kB"` or `"64KiB"`; printed as the shortest of these that is
/// exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// From a number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Bytes(bytes)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        AMOUNT.whole(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = &[("B", 0), ("kB", 3), ("MB", 6), ("GB", 9), ("TB", 12)];
        let mut text = shortest(Decimal::new(self.0.into(), 0), units);
        // Whole binary units only: fractions of them read badly.
        for (unit, bits) in [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)] {
            if self.0 != 0 && self.0.trailing_zeros() >= bits {
                let binary = format!("{}{unit}", self.0 >> bits);
                if binary.len() < text.len() {
                    text = binary;
                }
            }
        }
        f.pad(&text)
    }
}

serde_as_text!(Bytes, AMOUNT.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_in_decimal_and_binary_units() {
        for (text, bytes) in [
            ("1500", 1500),
            ("1500B", 1500),
            ("1.5kB", 1500),
            ("64KiB", 65_536),
            ("0.5KiB", 512),
            ("1GB", 1_000_000_000),
            ("2TiB", 2 << 40),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert_eq!(serde_json::from_str::<Bytes>("1500").ok(), Some(Bytes(1500)));
    }

    #[test]
    fn amounts_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("1.5", "it is not a whole number of B"),
            ("64KB", "there is no unit 'KB', and case matters: did you mean 'kB'?"),
            ("20000000TB", "it is more than 18446744073709551615B"),
            ("-1", "it is negative"),
        ] {
            assert_eq!(text.parse::<Bytes>().expect_err(text).why, why, "{text}");
        }
    }

    #[test]
    fn amounts_print_shortest() {
        for (bytes, text) in [
            (0, "0B"),
            (1500, "1.5kB"),
            (1514, "1514B"),
            (65_536, "64KiB"),
            (1_000_000, "1MB"),
            (2 << 40, "2TiB"),
            (1536, "1536B"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_amount_survives_printing_and_reading(bytes: u64) {
            prop_assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Bytes>();
        }
    }
}
