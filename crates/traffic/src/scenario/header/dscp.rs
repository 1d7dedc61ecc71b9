//! Differentiated services code points and their names.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault};

use crate::text::word_or_number;

/// A code point: 6 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

/// The names of the IANA registry "Differentiated Services Field Codepoints".
const NAMES: [(&str, u8); 24] = [
    ("be", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("voice-admit", 44),
];

impl Dscp {
    /// `None` above 63.
    pub fn new(value: u8) -> Option<Dscp> {
        (value < 64).then_some(Dscp(value))
    }

    /// The byte that holds it, ECN zero.
    pub fn to_tos(self) -> u8 {
        self.0 << 2
    }
}

impl FromStr for Dscp {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        match named {
            Some((_, value)) => Ok(Dscp(*value)),
            None => text.parse().ok().and_then(Dscp::new).ok_or_else(|| {
                fault!(
                    "'{text}' is not a DSCP value";
                    "write a name such as ef, af41 or cs5, or 0 to 63"
                )
            }),
        }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

word_or_number!(Dscp);

impl schemars::JsonSchema for Dscp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "dscp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "integer"],
            "description": "A differentiated services code point: its name, or 0 to 63.",
            "examples": ["ef", "af41", "cs5", 46]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_same_code_points() {
        for (text, tos) in
            [("ef", 184), ("EF", 184), ("46", 184), ("be", 0), ("af41", 136), ("3", 12)]
        {
            assert_eq!(text.parse::<Dscp>().unwrap().to_tos(), tos, "{text}");
        }
        for text in ["64", "-1", "", "af14", "ef "] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_code_point_is_read_as_it_is_printed() {
        for value in 0..64 {
            let dscp = Dscp::new(value).unwrap();
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
        }
        assert_eq!(Dscp::new(64), None);
    }
}
