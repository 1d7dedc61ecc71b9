//! Forms of times and data in tables: numbers since 1970, hexadecimal digits, base64.
//!
//! They append to what they are given, so that nothing is allocated for each record. What the columns mean they do
//! not know.

use std::str::FromStr;

use wirebeat_units::{Fault, fault, into_fault};

use crate::time_series::{BadTime, Timestamp};

/// How times are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeForm {
    /// ISO 8601.
    #[default]
    Iso,
    /// A number since 1970-01-01T00:00:00Z, leap seconds not counted.
    Unix(Unit),
}

/// What a number of a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// How data is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataForm {
    /// As it is: the text is the data.
    #[default]
    Text,
    /// Two hexadecimal digits to a byte.
    Hex,
    /// Base64 of RFC 4648, section 4; the `=` at its end may be missing.
    Base64,
}

/// A text that is not in the form it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BadForm {
    /// Of hexadecimal digits.
    Hex,
    /// Of base64.
    Base64,
    /// Bytes that are no text.
    Text,
    /// Of a number.
    Number,
    /// A time that is none.
    #[error(transparent)]
    Time(#[from] BadTime),
}

impl BadForm {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BadForm::Hex => {
                fault!("this is not hexadecimal"; "write two digits for each byte, 0a1b")
            }
            BadForm::Base64 => {
                fault!("this is no base64"; "write it with the alphabet of RFC 4648, section 4")
            }
            BadForm::Text => fault!("the data is not text of UTF-8"; "write it as hex or base64"),
            BadForm::Number => {
                fault!(
                    "this is not a number since 1970";
                    "write for example 1435774830, or choose another --time-form"
                )
            }
            BadForm::Time(inner) => inner.fault(),
        }
    }
}

into_fault!(BadForm);

impl Unit {
    fn ns(self) -> i128 {
        match self {
            Unit::Seconds => 1_000_000_000,
            Unit::Millis => 1_000_000,
            Unit::Micros => 1_000,
            Unit::Nanos => 1,
        }
    }

    /// A moment, from a whole number of these.
    ///
    /// # Errors
    /// Where the year does not have four digits.
    pub fn time(self, number: i64, zone_min: i16) -> Result<Timestamp, BadTime> {
        Timestamp::from_ns(i128::from(number) * self.ns(), zone_min)
    }

    /// A moment, from a number in decimal digits, with decimals if need be.
    ///
    /// # Errors
    /// Where it is none, is finer than a nanosecond, or the year does not have four digits.
    pub fn read(self, text: &[u8], zone_min: i16) -> Result<Timestamp, BadForm> {
        let (negative, digits) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let point = digits.iter().position(|&byte| byte == b'.');
        let (whole, decimals) = match point {
            Some(at) => (&digits[..at], &digits[at + 1..]),
            None => (digits, &[][..]),
        };
        // no moment has more: 9999 is 12 digits of seconds, 21 of nanoseconds
        if whole.is_empty() || whole.len() > 24 || (point.is_some() && decimals.is_empty()) {
            return Err(BadForm::Number);
        }
        let mut ns = 0;
        for &digit in whole {
            ns = ns * 10 + i128::from(decimal(digit)?);
        }
        ns *= self.ns();
        let mut weight = self.ns();
        for &digit in decimals {
            let digit = decimal(digit)?;
            weight /= 10;
            if weight == 0 && digit > 0 {
                return Err(BadTime::TooFine.into());
            }
            ns += weight * i128::from(digit);
        }
        Ok(Timestamp::from_ns(if negative { -ns } else { ns }, zone_min)?)
    }
}

fn decimal(digit: u8) -> Result<u8, BadForm> {
    if digit.is_ascii_digit() { Ok(digit - b'0') } else { Err(BadForm::Number) }
}

impl FromStr for TimeForm {
    type Err = Fault;

    fn from_str(text: &str) -> Result<TimeForm, Fault> {
        Ok(match text {
            "iso" => TimeForm::Iso,
            "s" => TimeForm::Unix(Unit::Seconds),
            "ms" => TimeForm::Unix(Unit::Millis),
            "us" => TimeForm::Unix(Unit::Micros),
            "ns" => TimeForm::Unix(Unit::Nanos),
            _ => return Err(fault!("this is not a form of a time"; "write iso, s, ms, us or ns")),
        })
    }
}

impl FromStr for DataForm {
    type Err = Fault;

    fn from_str(text: &str) -> Result<DataForm, Fault> {
        let all = [DataForm::Text, DataForm::Hex, DataForm::Base64];
        let found = all.into_iter().find(|form| form.name() == text);
        found.ok_or(fault!("this is not a form of data"; "write text, hex or base64"))
    }
}

impl DataForm {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            DataForm::Text => "text",
            DataForm::Hex => "hex",
            DataForm::Base64 => "base64",
        }
    }

    /// Appends the data that `text` stands for to `data`.
    ///
    /// # Errors
    /// Where it is not in this form; `data` then ends with some of it.
    pub fn read(self, text: &[u8], data: &mut Vec<u8>) -> Result<(), BadForm> {
        match self {
            DataForm::Text => data.extend_from_slice(text),
            DataForm::Hex => read_hex(text, data)?,
            DataForm::Base64 => read_base64(text, data)?,
        }
        Ok(())
    }

    /// Appends the text that stands for `data` to `text`.
    ///
    /// # Errors
    /// Where it is to be text, and is not UTF-8.
    pub fn write(self, data: &[u8], text: &mut Vec<u8>) -> Result<(), BadForm> {
        match self {
            DataForm::Text => {
                std::str::from_utf8(data).map_err(|_| BadForm::Text)?;
                text.extend_from_slice(data);
            }
            DataForm::Hex => text.extend(data.iter().flat_map(|&byte| {
                [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]
            })),
            DataForm::Base64 => write_base64(data, text),
        }
        Ok(())
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const SIXTY_FOUR: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// What stands for none in a table.
const NONE: u8 = 0xff;

/// What each byte means as a hexadecimal digit.
const HEX: [u8; 256] = {
    let mut table = inverse(DIGITS);
    let mut upper = b'A';
    while upper <= b'F' {
        table[upper as usize] = upper - b'A' + 10;
        upper += 1;
    }
    table
};
/// What each byte means in base64.
const BASE64: [u8; 256] = inverse(SIXTY_FOUR);

const fn inverse(alphabet: &[u8]) -> [u8; 256] {
    let mut table = [NONE; 256];
    let mut at = 0;
    while at < alphabet.len() {
        table[alphabet[at] as usize] = at as u8;
        at += 1;
    }
    table
}

fn read_hex(text: &[u8], data: &mut Vec<u8>) -> Result<(), BadForm> {
    let (pairs, rest) = text.as_chunks::<2>();
    // a digit has its upper half zero, what is none has it set
    let mut bad = 0;
    data.extend(pairs.iter().map(|&[high, low]| {
        let (high, low) = (HEX[usize::from(high)], HEX[usize::from(low)]);
        bad |= high | low;
        high << 4 | low
    }));
    if bad > 0xf || !rest.is_empty() { Err(BadForm::Hex) } else { Ok(()) }
}

fn read_base64(text: &[u8], data: &mut Vec<u8>) -> Result<(), BadForm> {
    let unpadded = match text {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] if text.len().is_multiple_of(4) => rest,
        _ => text,
    };
    for group in unpadded.chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            let six = BASE64[usize::from(byte)];
            if six == NONE {
                return Err(BadForm::Base64);
            }
            bits = bits << 6 | u32::from(six);
        }
        bits <<= 6 * (4 - group.len());
        let bytes = bits.to_be_bytes();
        // what is over is zero, so that a text stands for data and the data for that text
        let (kept, over) = bytes[1..].split_at(group.len() * 6 / 8);
        if group.len() == 1 || over.iter().any(|&byte| byte != 0) {
            return Err(BadForm::Base64);
        }
        data.extend_from_slice(kept);
    }
    Ok(())
}

fn write_base64(data: &[u8], text: &mut Vec<u8>) {
    for group in data.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        let sixes = [18, 12, 6, 0].map(|shift| SIXTY_FOUR[(bits >> shift & 63) as usize]);
        text.extend_from_slice(&sixes[..=group.len()]);
        text.extend_from_slice(&b"=="[group.len() - 1..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(form: DataForm, text: &str) -> Result<Vec<u8>, BadForm> {
        let mut data = Vec::new();
        form.read(text.as_bytes(), &mut data).map(|()| data)
    }

    fn written(form: DataForm, data: &[u8]) -> String {
        let mut text = Vec::new();
        form.write(data, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        for (data, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(written(DataForm::Base64, data.as_bytes()), text);
            assert_eq!(read(DataForm::Base64, text), Ok(data.as_bytes().to_vec()));
            let bare = text.trim_end_matches('=');
            assert_eq!(read(DataForm::Base64, bare), Ok(data.as_bytes().to_vec()));
        }
        for text in ["Z", "Zh==", "Zm9=", "Zg=", "Zm9v=", "====", "Zm 9v", "Zg==Zg=="] {
            assert_eq!(read(DataForm::Base64, text), Err(BadForm::Base64), "{text}");
        }
    }

    #[test]
    fn digits_come_in_both_cases_and_in_pairs() {
        assert_eq!(read(DataForm::Hex, "00fFa9"), Ok(vec![0, 255, 0xa9]));
        for text in ["0", "0g", "0x00", " 00", "0:00"] {
            assert_eq!(read(DataForm::Hex, text), Err(BadForm::Hex), "{text}");
        }
    }

    #[test]
    fn numbers_are_exact_to_the_nanosecond_or_refused() {
        let us = |unit: Unit, text: &str| unit.read(text.as_bytes(), 0).map(Timestamp::unix_us);
        let ns = |unit: Unit, text: &str| unit.read(text.as_bytes(), 0).map(Timestamp::unix_ns);
        let fine: Result<i64, BadForm> = Err(BadForm::Time(BadTime::TooFine));
        assert_eq!(us(Unit::Seconds, "1435774830"), Ok(1_435_774_830_000_000));
        assert_eq!(us(Unit::Seconds, "1435774830.450001"), Ok(1_435_774_830_450_001));
        assert_eq!(us(Unit::Seconds, "-0.5"), Ok(-500_000));
        assert_eq!(us(Unit::Seconds, "0.12345600000000000"), Ok(123_456));
        assert_eq!(ns(Unit::Seconds, "0.0000001"), Ok(100));
        assert_eq!(ns(Unit::Seconds, "-0.000000001"), Ok(-1));
        assert_eq!(us(Unit::Seconds, "0.00000000001"), fine);
        assert_eq!(us(Unit::Millis, "1.5"), Ok(1_500));
        assert_eq!(us(Unit::Micros, "7"), Ok(7));
        assert_eq!(ns(Unit::Micros, "7.5"), Ok(7_500));
        assert_eq!(ns(Unit::Nanos, "7.5"), fine.map(i128::from));
        assert_eq!(us(Unit::Nanos, "1435774830450001000"), Ok(1_435_774_830_450_001));
        assert_eq!(ns(Unit::Nanos, "1435774830450001001"), Ok(1_435_774_830_450_001_001));
        let year = Err(BadForm::Time(BadTime::Year));
        assert_eq!(us(Unit::Seconds, "999999999999999999999999"), year);
        assert_eq!(us(Unit::Seconds, "-1e3"), Err(BadForm::Number));
        for text in ["", "-", ".", "1.", "0x1", "1 ", "9999999999999999999999999"] {
            assert_eq!(us(Unit::Seconds, text), Err(BadForm::Number), "{text}");
        }
        assert_eq!(Unit::Nanos.time(i64::MIN, 0).map(Timestamp::unix_ns), Ok(i64::MIN.into()));
        assert_eq!(Unit::Millis.time(1, 60).map(Timestamp::zone_min), Ok(60));
    }

    proptest! {
        #[test]
        fn data_comes_back_from_every_form(data: Vec<u8>) {
            for form in [DataForm::Hex, DataForm::Base64] {
                prop_assert_eq!(read(form, &written(form, &data)), Ok(data.clone()));
            }
        }

        #[test]
        fn any_text_is_data_or_an_error(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Ok(data) = read(DataForm::Base64, &text) {
                let again = written(DataForm::Base64, &data);
                prop_assert_eq!(again.trim_end_matches('='), text.trim_end_matches('='));
            }
            let _ = read(DataForm::Hex, &text);
        }

        #[test]
        fn any_number_is_a_moment_or_an_error(text in "[-+]?[0-9]{0,26}[.]?[0-9]{0,12}") {
            for unit in [Unit::Seconds, Unit::Millis, Unit::Micros, Unit::Nanos] {
                let _ = unit.read(text.as_bytes(), 0);
            }
        }
    }
}
