//! Numbers with units, as people write them: the part of reading that all quantities share.
//!
//! A quantity is a decimal number and a unit (`"1.5Mpps"`). Numbers are read as integers with a
//! decimal scale, never as floating point, so that `"0.1"` is a tenth. What the units are and which
//! values make sense is the business of each quantity's own file.

use crate::{Fault, fault, into_fault};

/// Why a quantity could not be read. Prints what was given, what is wrong and an example that works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct UnitError {
    /// The text as it was given (cut to 64 characters, control characters replaced).
    pub given: String,
    /// What was expected: "a rate", "a frame length".
    pub what: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// What could be written in its place, beside an example.
    pub instead: Option<&'static str>,
    /// A value that would be right.
    pub example: &'static str,
}

impl UnitError {
    /// What is wrong, and what would be right.
    pub fn fault(&self) -> Fault {
        let UnitError { given, what, why, instead, example } = self;
        let instead = instead.map(|instead| format!("{instead}; ")).unwrap_or_default();
        fault!("'{given}' is not {what}: {why}"; "{instead}write for example {example}")
    }

    /// With what could be written in its place.
    pub(crate) fn instead(self, instead: &'static str) -> UnitError {
        UnitError { instead: Some(instead), ..self }
    }
}

into_fault!(UnitError);

/// The most significant digits of a number. 25 digits times the largest unit (one hour in
/// nanoseconds, 3.6e12) stay below 2^128, and 2^64 has 20 digits.
const MAX_DIGITS: usize = 25;

/// What a number without a unit means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    /// A mistake, but for zero.
    OnlyZero,
    /// A mistake.
    Refused,
    /// The finest unit.
    Finest,
}

/// A kind of quantity: its units and how to speak of it.
pub(crate) struct Quantity {
    /// With its article, for messages.
    pub what: &'static str,
    /// For messages.
    pub example: &'static str,
    /// The units and their size in the finest one, which is the smallest that can be held.
    pub units: &'static [(&'static str, u64)],
    /// What a number without a unit means.
    pub bare: Bare,
}

/// A decimal number: `digits / 10^scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    scale: u32,
}

/// Why a number times a unit is not a whole number of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    TooLarge,
    Fraction,
}

impl Quantity {
    /// The error for `given`.
    pub fn refuse(&self, given: &str, why: impl Into<String>) -> UnitError {
        let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        UnitError {
            given: given.chars().take(64).map(printable).collect(),
            what: self.what,
            instead: None,
            why: why.into(),
            example: self.example,
        }
    }

    /// Whether `unit` is one of its units.
    pub fn has(&self, unit: &str) -> bool {
        self.units.iter().any(|(name, _)| *name == unit)
    }

    /// Splits `given` into its number and its unit, which may be empty.
    pub fn split<'t>(&self, given: &'t str) -> Result<(Decimal, &'t str), UnitError> {
        let text = given.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.refuse(given, not_a_number(text)));
        }
        if rest.starts_with([',', '_', '\'']) {
            return Err(
                self.refuse(given, "digits are not grouped, and the decimal separator is a point")
            );
        }
        if is_exponent(rest) {
            return Err(self.refuse(given, "a power of ten is written as a unit, not as 'e'"));
        }
        match Decimal::parse(number) {
            Ok(decimal) => Ok((decimal, rest.trim_start())),
            Err(why) => Err(self.refuse(given, why)),
        }
    }

    /// The size of `unit` in the finest one.
    pub fn size(&self, given: &str, number: Decimal, unit: &str) -> Result<u64, UnitError> {
        if unit.is_empty() {
            return match self.bare {
                Bare::Finest => Ok(1),
                Bare::OnlyZero if number.is_zero() => Ok(1),
                Bare::OnlyZero | Bare::Refused => Err(self.refuse(given, "it has no unit")),
            };
        }
        match self.units.iter().find(|(name, _)| *name == unit) {
            Some((_, size)) => Ok(*size),
            None => Err(self.refuse(given, unknown_unit(unit, &[self.units]))),
        }
    }

    /// Reads `given` as a whole number of the finest unit.
    pub fn whole(&self, given: &str) -> Result<u64, UnitError> {
        let (number, unit) = self.split(given)?;
        let size = self.size(given, number, unit)?;
        self.fit(given, number, size)
    }

    /// `number` times `size`, which must be a whole number of the finest unit.
    pub fn fit(&self, given: &str, number: Decimal, size: u64) -> Result<u64, UnitError> {
        number.times(size).map_err(|misfit| {
            let finest = self.units.first().map_or("", |(name, _)| name);
            self.refuse(
                given,
                match misfit {
                    Misfit::TooLarge => format!("it is more than {}{finest}", u64::MAX),
                    Misfit::Fraction => format!("it is not a whole number of {finest}"),
                },
            )
        })
    }
}

/// Says why `text`, which does not begin with a digit, is not a number.
fn not_a_number(text: &str) -> &'static str {
    match text.chars().next() {
        None => "it is empty",
        Some('-') => "it is negative",
        Some(_) => "it does not begin with a digit",
    }
}

/// Whether what follows a number is an exponent, as in `1e6`.
fn is_exponent(rest: &str) -> bool {
    rest.strip_prefix(['e', 'E'])
        .is_some_and(|tail| tail.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+'))
}

/// Says that `unit` is in none of `tables`, and what it may have been meant to be.
pub(crate) fn unknown_unit(unit: &str, tables: &[&[(&str, u64)]]) -> String {
    let unit: String = unit.chars().take(16).collect();
    let mut names = Vec::new();
    for units in tables {
        for (index, (name, size)) in units.iter().enumerate() {
            if name.eq_ignore_ascii_case(&unit) {
                return format!(
                    "there is no unit '{unit}', and case matters: did you mean '{name}'?"
                );
            }
            // Of several names for one size the first is enough.
            if units.iter().position(|(_, other)| other == size) == Some(index) {
                names.push(*name);
            }
        }
    }
    format!("there is no unit '{unit}' among {}", names.join(", "))
}

impl Decimal {
    /// `digits / 10^scale`.
    pub fn new(digits: u128, scale: u32) -> Self {
        let mut decimal = Decimal { digits, scale };
        while decimal.scale > 0 && decimal.digits.is_multiple_of(10) {
            decimal.digits /= 10;
            decimal.scale -= 1;
        }
        decimal
    }

    /// Reads ASCII digits with at most one point between them.
    fn parse(number: &str) -> Result<Decimal, &'static str> {
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return Err("there is no digit after the point"),
            Some((whole, fraction)) => (whole.trim_start_matches('0'), fraction),
            None => (number.trim_start_matches('0'), ""),
        };
        if fraction.contains('.') {
            return Err("it has two points");
        }
        let fraction = fraction.trim_end_matches('0');
        if whole.len() + fraction.len() > MAX_DIGITS {
            return Err("it has more than 25 digits");
        }
        let digits = whole.bytes().chain(fraction.bytes());
        let digits = digits.fold(0, |sum: u128, digit| sum * 10 + u128::from(digit - b'0'));
        Ok(Decimal { digits, scale: fraction.len() as u32 })
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// This number times `size` as a fraction: numerator and denominator. `None` beyond 128 bits.
    pub fn fraction(self, size: u64) -> Option<(u128, u128)> {
        Some((self.digits.checked_mul(size.into())?, 10_u128.checked_pow(self.scale)?))
    }

    /// This number times `size`, where that is a whole number.
    pub fn times(self, size: u64) -> Result<u64, Misfit> {
        let (numerator, denominator) = self.fraction(size).ok_or(Misfit::TooLarge)?;
        if !numerator.is_multiple_of(denominator) {
            return Err(Misfit::Fraction);
        }
        u64::try_from(numerator / denominator).map_err(|_| Misfit::TooLarge)
    }

    /// Whether it is at least 10^`exponent`.
    pub fn reaches(self, exponent: u32) -> bool {
        10_u128.checked_pow(self.scale + exponent).is_some_and(|bound| self.digits >= bound)
    }

    /// This number divided by 10^`exponent`.
    pub fn shifted(self, exponent: u32) -> Decimal {
        Decimal::new(self.digits, self.scale + exponent)
    }

    /// Whether it has so few digits that it can be read back.
    pub fn fits(self) -> bool {
        self.scale as usize <= MAX_DIGITS && self.digits < 10_u128.pow(MAX_DIGITS as u32)
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.digits);
        }
        // At least one digit before the point.
        let width = self.scale as usize + 1;
        let digits = format!("{:0width$}", self.digits);
        let (whole, fraction) = digits.split_at(digits.len() - self.scale as usize);
        write!(f, "{whole}.{fraction}")
    }
}

/// Prints `value` in the unit that makes it shortest and is not larger than it; of two equally short
/// ones in the larger. `units` are names and powers of ten, rising from 0.
pub(crate) fn shortest(value: Decimal, units: &[(&str, u32)]) -> String {
    let mut best = String::new();
    for (index, (unit, exponent)) in units.iter().enumerate() {
        if index > 0 && !value.reaches(*exponent) {
            break;
        }
        let text = format!("{}{unit}", value.shifted(*exponent));
        if best.is_empty() || text.len() <= best.len() {
            best = text;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Quantity = Quantity {
        what: "a length",
        example: "3m",
        units: &[("mm", 1), ("m", 1000)],
        bare: Bare::Refused,
    };

    fn why(given: &str) -> String {
        LENGTH.whole(given).expect_err(given).why
    }

    #[test]
    fn numbers_are_exact_decimals() {
        assert_eq!(LENGTH.whole("0.1m"), Ok(100));
        assert_eq!(LENGTH.whole(" 1.50 m "), Ok(1500));
        assert_eq!(LENGTH.whole("0007mm"), Ok(7));
        assert_eq!(LENGTH.whole("18446744073709551615mm"), Ok(u64::MAX));
        assert_eq!(LENGTH.whole("18446744073709551.615m"), Ok(u64::MAX));
    }

    #[test]
    fn what_is_no_number_is_refused_with_the_reason() {
        assert_eq!(why(""), "it is empty");
        assert_eq!(why("  "), "it is empty");
        assert_eq!(why("-1m"), "it is negative");
        for text in ["NaN", "inf", "m", "+1m", ".5m", "٣m", "\0"] {
            assert_eq!(why(text), "it does not begin with a digit", "{text}");
        }
        assert_eq!(why("1.m"), "there is no digit after the point");
        assert_eq!(why("1.2.3m"), "it has two points");
        assert_eq!(why("1..2m"), "it has two points");
        for text in ["1,5m", "1_000m", "1'000m"] {
            assert!(why(text).starts_with("digits are not grouped"), "{text}");
        }
        for text in ["1e3m", "1E-3m", "1e+3m"] {
            assert!(why(text).contains("not as 'e'"), "{text}");
        }
        assert_eq!(why("1.00000000000000000000000001m"), "it has more than 25 digits");
        assert_eq!(why(&"9".repeat(5000)), "it has more than 25 digits");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(why("18446744073709551616mm"), "it is more than 18446744073709551615mm");
        assert_eq!(why("0.5mm"), "it is not a whole number of mm");
        assert_eq!(why("0.0001m"), "it is not a whole number of mm");
    }

    #[test]
    fn units_must_be_known_and_their_case_right() {
        assert_eq!(why("5"), "it has no unit");
        assert_eq!(why("0"), "it has no unit");
        assert_eq!(why("5km"), "there is no unit 'km' among mm, m");
        assert_eq!(why("5MM"), "there is no unit 'MM', and case matters: did you mean 'mm'?");
    }

    #[test]
    fn the_error_is_one_sentence_with_an_example() {
        assert_eq!(
            LENGTH.whole("5").expect_err("no unit").to_string(),
            "'5' is not a length: it has no unit; write for example 3m"
        );
        let error = LENGTH.whole(&"ü\n".repeat(100)).expect_err("no number");
        assert_eq!(error.given.chars().count(), 64);
        assert!(!error.given.contains('\n'));
    }

    #[test]
    fn the_shortest_form_wins_and_then_the_larger_unit() {
        let units = &[("ns", 0), ("us", 3), ("ms", 6)];
        let print = |value| shortest(Decimal::new(value, 0), units);
        assert_eq!(print(0), "0ns");
        assert_eq!(print(999), "999ns");
        assert_eq!(print(1500), "1.5us");
        assert_eq!(print(1234), "1234ns");
        assert_eq!(print(100_000), "100us");
        assert_eq!(print(1_250_000), "1.25ms");
    }
}
