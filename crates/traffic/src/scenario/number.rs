//! Whole numbers as fields hold them: decimal, or hexadecimal with `0x`.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault};

use crate::text::word_or_number;

/// A whole number up to 2^64 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

impl Number {
    /// From its value.
    pub const fn new(value: u64) -> Number {
        Number(value)
    }
    /// Its value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Number {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => {
                u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
            }
            None => text.parse().ok(),
        };
        number
            .map(Number)
            .ok_or_else(|| fault!("this is not a whole number"; "write for example 4096 or 0x1000"))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

word_or_number!(Number);

impl schemars::JsonSchema for Number {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "number".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A whole number, decimal or hexadecimal.",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^(0[xX][0-9A-Fa-f]+|[0-9]+)$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_hexadecimal_are_the_same_numbers() {
        for (text, number) in [("0", 0), ("4096", 4096), ("0x1000", 4096), ("0XfF", 255)] {
            assert_eq!(text.parse(), Ok(Number(number)), "{text}");
        }
        for text in ["", "-1", "0x", "0x+1", "1.5", "1e3", "18446744073709551616"] {
            assert!(text.parse::<Number>().is_err(), "{text}");
        }
    }
}
