//! MAC addresses (IEEE 802's EUI-48).

mod sequence;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wirebeat_units::{Fault, fault, into_fault};

pub use sequence::MacSequence;

/// A MAC address, in the order of the wire.
///
/// Read from six pairs of hexadecimal digits with `:` or `-` between them; printed in lower case with
/// `:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

/// A text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct MacError {
    /// The text as it was given (cut to 64 characters).
    pub given: String,
}

impl MacError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let MacError { given } = self;
        fault!(
            "'{given}' is not a MAC address";
            "write six pairs of hexadecimal digits, for example 02:00:5e:00:53:01"
        )
    }
}

into_fault!(MacError);

impl MacAddr {
    /// To every station of the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether it means a group of stations; the broadcast address does.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether it is the address of one station: not of a group, and not all zeros.
    pub const fn is_station(self) -> bool {
        !self.is_multicast() && self.to_bits() != 0
    }

    /// The address as a number of 48 bits, the first byte the highest.
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address of a number, of which the low 48 bits count.
    pub const fn from_bits(bits: u64) -> MacAddr {
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        MacAddr([a, b, c, d, e, f])
    }

    /// What frames to a group, or to every host of the link, are addressed to: it follows from the IP
    /// address. `None` for the address of one host.
    pub const fn of_group(address: IpAddr) -> Option<MacAddr> {
        match address {
            IpAddr::V4(Ipv4Addr::BROADCAST) => Some(MacAddr::BROADCAST),
            // RFC 1112 §6.4: the low 23 bits.
            IpAddr::V4(group) if group.is_multicast() => {
                let [_, b, c, d] = group.octets();
                Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
            }
            // RFC 2464 §7: the low 32 bits.
            IpAddr::V6(group) if group.is_multicast() => {
                let [.., a, b, c, d] = group.octets();
                Some(MacAddr([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        }
    }
}

impl FromStr for MacAddr {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        parse(text.trim()).ok_or_else(|| MacError { given: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<MacAddr> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut pairs = text.split(separator);
    let mut octets = [0; 6];
    for octet in &mut octets {
        let pair = pairs.next()?;
        // `from_str_radix` alone would take a sign.
        if pair.len() != 2 || !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(MacAddr(octets))
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        f.pad(&format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}"))
    }
}

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: MacAddr = MacAddr([0x02, 0x00, 0x5e, 0x00, 0x53, 0xaf]);

    #[test]
    fn addresses_are_read_in_the_usual_forms() {
        for text in ["02:00:5e:00:53:af", "02-00-5E-00-53-AF", " 02:00:5E:00:53:aF "] {
            assert_eq!(text.parse(), Ok(ADDRESS), "{text}");
        }
        assert_eq!(serde_json::from_str("\"02:00:5e:00:53:af\"").ok(), Some(ADDRESS));
        assert_eq!(serde_json::to_string(&ADDRESS).expect("json"), "\"02:00:5e:00:53:af\"");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "02:00:5e:00:53",
            "02:00:5e:00:53:af:01",
            "2:0:5e:0:53:af",
            "02:00:5e:00:53:ag",
            "02:00:5e:00:53:+1",
            "02:00:5e-00:53:af",
            "02005e0053af",
            "02:00:5e:00:53:é",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(MacError { given: text.to_owned() }));
        }
        assert!(serde_json::from_str::<MacAddr>("\"x\"").is_err());
    }

    #[test]
    fn groups_are_told_from_stations() {
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(!ADDRESS.is_multicast());
    }

    #[test]
    fn groups_and_everybody_map_as_the_standards_say() {
        for (address, expected) in [
            ("224.0.0.251", Some("01:00:5e:00:00:fb")),
            // The top bit of the second byte is lost.
            ("239.129.2.3", Some("01:00:5e:01:02:03")),
            ("255.255.255.255", Some("ff:ff:ff:ff:ff:ff")),
            ("ff02::1", Some("33:33:00:00:00:01")),
            ("ff02::1:ff00:1234", Some("33:33:ff:00:12:34")),
            ("10.0.0.1", None),
            ("fd00::1", None),
        ] {
            let mac = MacAddr::of_group(address.parse().expect(address));
            assert_eq!(mac.map(|mac| mac.to_string()).as_deref(), expected, "{address}");
        }
    }

    proptest! {
        #[test]
        fn every_address_survives_printing_and_reading(octets: [u8; 6]) {
            prop_assert_eq!(MacAddr(octets).to_string().parse(), Ok(MacAddr(octets)));
        }
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<MacAddr>();
        }
    }
}
