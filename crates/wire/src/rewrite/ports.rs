//! Ranges of ports, and how a port moves from one to another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wirebeat_units::{Fault, fault, into_fault};

/// A port, or some that follow one another: `80`, `1000-1999`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// A text that is not a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct PortError(String);

impl PortError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let PortError(it) = self;
        fault!(
            "'{it}' is not a port";
            "write a number up to 65535, or two for a range, for example 8000-8999"
        )
    }
}

into_fault!(PortError);

impl PortRange {
    /// How many there are.
    pub fn count(&self) -> u32 {
        u32::from(self.last - self.first) + 1
    }

    /// Whether it holds this port.
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Where `port` of `from` lies here: at the same place, or at the only one there is.
    #[inline]
    pub fn take_in(&self, from: PortRange, port: u16) -> u16 {
        let place = port.saturating_sub(from.first);
        self.first.saturating_add(place).min(self.last)
    }
}

impl FromStr for PortRange {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortRange, PortError> {
        let refused = || PortError(text.chars().take(60).collect());
        let port = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            digits.then(|| text.parse::<u16>().ok()).flatten().ok_or_else(refused)
        };
        let (first, last) = text.trim().split_once('-').unwrap_or((text.trim(), text.trim()));
        let range = PortRange { first: port(first.trim())?, last: port(last.trim())? };
        if range.first > range.last { Err(refused()) } else { Ok(range) }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.first == self.last {
            true => serializer.serialize_u16(self.first),
            false => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // a number in YAML is a text as well, for whoever asks for one
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(text: &str) -> PortRange {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_keeps_its_place_or_goes_to_the_only_one() {
        let (from, to) = (ports("1000-1999"), ports("5000-5999"));
        assert_eq!((to.take_in(from, 1000), to.take_in(from, 1999)), (5000, 5999));
        assert_eq!(ports("80").take_in(from, 1500), 80);
        assert!(from.contains(1999) && !from.contains(2000));
        assert_eq!(ports("0-65535").count(), 65_536);
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for text in ["", "http", "65536", "2-1", "-1", "1-", "+5"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
        assert_eq!(ports(" 5 - 7 ").to_string(), "5-7");
    }
}
