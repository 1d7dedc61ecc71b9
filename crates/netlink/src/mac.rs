//! A link-layer address of Ethernet.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An EUI-48 address in the order in which its bytes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// All ones.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// From six bytes in the order of transmission.
    pub const fn new(octets: [u8; 6]) -> Self {
        MacAddress(octets)
    }

    /// The six bytes in the order of transmission.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The group address of an IPv4 multicast address: its low 23 bits (RFC 1112 §6.4).
    pub const fn of_multicast_v4(address: Ipv4Addr) -> Self {
        let [_, b, c, d] = address.octets();
        MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address of an IPv6 multicast address: its low 32 bits (RFC 2464 §7).
    pub const fn of_multicast_v6(address: Ipv6Addr) -> Self {
        let o = address.octets();
        MacAddress([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }

    /// Whether frames to it go to more than one station (IEEE 802 §8.2.1: the I/G bit).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a MAC address; write six pairs of hexadecimal digits, for example 02:00:5e:10:00:01"
)]
pub struct MacAddressError(String);

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || MacAddressError(text.chars().take(64).collect());
        let mut octets = [0; 6];
        let mut pairs = text.split([':', '-']);
        for octet in &mut octets {
            let pair = pairs.next().ok_or_else(wrong)?;
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        if pairs.next().is_some() { Err(wrong()) } else { Ok(MacAddress(octets)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_address_reads_back() {
        let mac = MacAddress::new([0x02, 0, 0x5e, 0x10, 0, 0xfe]);
        assert_eq!(mac.to_string(), "02:00:5e:10:00:fe");
        assert_eq!(mac.to_string().parse(), Ok(mac));
        assert_eq!("02-00-5E-10-00-FE".parse(), Ok(mac));
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for wrong in
            ["", "02:00:5e:10:00", "02:00:5e:10:00:fe:01", "2:0:5e:10:0:fe", "+2:00:5e:10:00:fe"]
        {
            let error = wrong.parse::<MacAddress>().unwrap_err().to_string();
            assert!(error.contains("for example 02:00:5e:10:00:01"), "{error}");
        }
    }

    #[test]
    fn multicast_groups_map_as_the_standards_say() {
        // RFC 1112 §6.4: the top bit of the second byte is lost.
        assert_eq!(
            MacAddress::of_multicast_v4(Ipv4Addr::new(239, 129, 2, 3)).to_string(),
            "01:00:5e:01:02:03"
        );
        let group = "ff02::1:ff00:1234".parse().unwrap();
        assert_eq!(MacAddress::of_multicast_v6(group).to_string(), "33:33:ff:00:12:34");
        assert!(MacAddress::BROADCAST.is_group());
    }
}
