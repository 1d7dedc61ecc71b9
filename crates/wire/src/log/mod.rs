//! Text logs of received packets in the forms that other tools write: one line per packet, one file per
//! tool. Scripts made for those logs go on working with Wirebeat's.
//!
//! Each file writes a line with `Display` and reads one back. Nothing here opens a file or knows the
//! time; a line carries no line break. Where two logs write the same thing, it is below.

pub mod crude;
pub mod mgen;

use std::net::{IpAddr, SocketAddr};

use wirebeat_units::{Fault, fault, into_fault};

use crate::codec::SECOND_NS;

/// What a log says about a packet. Times are UNIX times in nanoseconds; logs give them in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// When it arrived.
    pub arrived_ns: u64,
    /// When it was sent, where that is known; the logs have zero for what is not.
    pub sent_ns: Option<u64>,
    /// The flow's number.
    pub flow: u32,
    /// Its number within the flow.
    pub sequence: u64,
    /// Where it came from.
    pub source: SocketAddr,
    /// Where it went.
    pub destination: SocketAddr,
    /// Bytes of UDP payload.
    pub size: u32,
    /// The time to live or hop limit it arrived with, where that is known.
    pub ttl: Option<u8>,
}

/// A line that is not of its log's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct Malformed {
    /// The tool whose log it should be.
    pub log: &'static str,
    /// What could not be read.
    pub field: &'static str,
}

impl Malformed {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let Malformed { log, field } = self;
        fault!(
            "this is not a line of {log}: {field} is missing or cannot be read";
            "give the text log as {log} wrote it"
        )
    }
}

into_fault!(Malformed);

/// The first of `words` that begins with `key`, without it.
fn value<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    words.split_ascii_whitespace().find_map(|word| word.strip_prefix(key))
}

/// A number of decimal digits and nothing else.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok())?
}

/// An address, `separator` and a port. The address is as it is without a port: IPv6 in no brackets.
fn endpoint(text: &str, separator: char) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(separator)?;
    Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, digits(port)?))
}

/// Seconds with six decimals, in nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.')?;
    if decimals.len() != 6 {
        return None;
    }
    let microseconds: u64 = digits(decimals)?;
    digits::<u64>(whole)?.checked_mul(SECOND_NS)?.checked_add(microseconds * 1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn any_received() -> impl Strategy<Value = Received> {
        // What a log can say: microseconds, and no address but one that parses as it prints.
        let micros = 1..u64::from(u32::MAX) * 1_000_000;
        let address = any::<(IpAddr, u16)>().prop_map(SocketAddr::from);
        let endpoints = (address.clone(), address);
        (micros, -1000..1000_i64, any::<(bool, u32, u64, u32, Option<u8>)>(), endpoints).prop_map(
            |(micros, late, (timed, flow, sequence, size, ttl), (source, destination))| Received {
                arrived_ns: micros * 1000,
                sent_ns: timed.then_some(micros.saturating_add_signed(late).max(1) * 1000),
                flow,
                sequence,
                source,
                destination,
                size,
                ttl,
            },
        )
    }

    #[test]
    fn numbers_have_digits_and_nothing_else() {
        assert_eq!(digits::<u32>("4294967295"), Some(u32::MAX));
        for text in ["", "+1", "-1", "1 ", "4294967296"] {
            assert_eq!(digits::<u32>(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_have_six_decimals() {
        assert_eq!(seconds("12.000345"), Some(12_000_345_000));
        for text in ["12", "12.", "12.00034", "12.0003456", ".000345x", "-1.000000"] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(seconds(&format!("{}.000000", u64::MAX)), None);
    }
}
