//! What becomes of a run when one of its links goes down: `wait 5s`, or `end`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, Nanos, fault};

/// What becomes of a run when one of its links goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum OnLinkDown {
    /// It goes on if the link comes back within this time.
    Wait(Nanos),
    /// It ends.
    End,
}

impl Default for OnLinkDown {
    /// Longer than a card takes that resets.
    fn default() -> Self {
        OnLinkDown::Wait(Nanos::from_secs(5))
    }
}

impl FromStr for OnLinkDown {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        if text == "end" {
            return Ok(OnLinkDown::End);
        }
        let time = text.strip_prefix("wait").unwrap_or(text).trim();
        let wrong = || {
            fault!(
                "'{text}' is neither 'wait' with a time nor 'end'";
                "write 'wait 5s' or 'end'"
            )
        };
        time.parse().map(OnLinkDown::Wait).map_err(|_| wrong())
    }
}

impl fmt::Display for OnLinkDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OnLinkDown::Wait(time) => write!(f, "wait {time}"),
            OnLinkDown::End => f.write_str("end"),
        }
    }
}

impl TryFrom<String> for OnLinkDown {
    type Error = Fault;

    fn try_from(text: String) -> Result<Self, Fault> {
        text.parse()
    }
}

impl From<OnLinkDown> for String {
    fn from(what: OnLinkDown) -> String {
        what.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for written in ["wait 5s", "wait 250ms", "end"] {
            let read: OnLinkDown = written.parse().unwrap();
            assert_eq!(read.to_string(), written);
        }
        assert_eq!("5s".parse(), Ok(OnLinkDown::Wait(Nanos::from_secs(5))));
        let wrong = "stop".parse::<OnLinkDown>().unwrap_err().to_string();
        assert!(wrong.contains("'wait 5s' or 'end'"), "{wrong}");
    }
}
