//! Prefixes of IP addresses, and how an address moves from one to another.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wirebeat_units::{Fault, fault, into_fault};

/// All addresses that begin alike: `10.1.0.0/16`. An address alone is a prefix of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// A text that is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum PrefixError {
    /// No address, or no length behind it.
    Text(String),
    /// Bits behind the prefix.
    Bits {
        /// As it was given.
        given: String,
        /// What it could mean.
        prefix: Prefix,
    },
}

impl PrefixError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            PrefixError::Text(it) => {
                fault!(
                    "'{it}' is not an IP prefix";
                    "write for example 10.1.0.0/16 or 2001:db8::/32"
                )
            }
            PrefixError::Bits { given, prefix } => {
                fault!("'{given}' has bits behind its prefix"; "write {prefix}")
            }
        }
    }
}

into_fault!(PrefixError);

impl Prefix {
    /// The first `len` bits of `address`; of more bits than it has, all.
    pub fn new(address: IpAddr, len: u8) -> Prefix {
        match address {
            IpAddr::V4(address) => {
                let len = len.min(32);
                let bits = address.to_bits() & mask4(len);
                Prefix { address: Ipv4Addr::from_bits(bits).into(), len }
            }
            IpAddr::V6(address) => {
                let len = len.min(128);
                let bits = address.to_bits() & mask6(len);
                Prefix { address: Ipv6Addr::from_bits(bits).into(), len }
            }
        }
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits its addresses have in common.
    pub fn bits(&self) -> u8 {
        self.len
    }

    /// Whether it holds this address.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask4(self.len) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()) & mask6(self.len) == 0
            }
            _ => false,
        }
    }

    /// The address in this prefix whose other bits are those of `address`; of another version, `address` itself.
    #[inline]
    pub fn take_in(&self, address: IpAddr) -> IpAddr {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                Ipv4Addr::from_bits(own.to_bits() | other.to_bits() & !mask4(self.len)).into()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                Ipv6Addr::from_bits(own.to_bits() | other.to_bits() & !mask6(self.len)).into()
            }
            _ => address,
        }
    }
}

fn mask4(len: u8) -> u32 {
    !u32::MAX.checked_shr(len.into()).unwrap_or(0)
}

fn mask6(len: u8) -> u128 {
    !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let given = || text.chars().take(60).collect::<String>();
        let refused = || PrefixError::Text(given());
        let (address, len) = match text.trim().split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            Some(len) if len.bytes().all(|digit| digit.is_ascii_digit()) => {
                len.parse().ok().filter(|len| *len <= most).ok_or_else(refused)?
            }
            Some(_) => return Err(refused()),
            None => most,
        };
        let prefix = Prefix::new(address, len);
        match prefix.address == address {
            true => Ok(prefix),
            false => Err(PrefixError::Bits { given: given(), prefix }),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.len == whole { Ok(()) } else { write!(f, "/{}", self.len) }
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_moves_with_its_other_bits() {
        let moved = |from: &str, to: &str, address: &str| {
            let address = address.parse().unwrap();
            assert!(prefix(from).contains(address));
            prefix(to).take_in(address).to_string()
        };
        assert_eq!(moved("10.1.0.0/16", "192.168.0.0/16", "10.1.2.3"), "192.168.2.3");
        assert_eq!(moved("10.1.2.3", "9.9.9.9", "10.1.2.3"), "9.9.9.9");
        assert_eq!(moved("0.0.0.0/0", "10.0.0.0/8", "1.2.3.4"), "10.2.3.4");
        assert_eq!(moved("fd00::/16", "2001:db8::/32", "fd00::7"), "2001:db8::7");
        assert!(!prefix("10.1.0.0/16").contains("10.2.0.0".parse().unwrap()));
        assert!(!prefix("0.0.0.0/0").contains("::".parse().unwrap()));
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_what_could_be_meant() {
        for text in ["", "10.1", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "a/8"] {
            let why = text.parse::<Prefix>().unwrap_err().to_string();
            assert!(why.contains("write for example 10.1.0.0/16"), "{why}");
        }
        let why = "10.1.2.3/16".parse::<Prefix>().unwrap_err().to_string();
        assert_eq!(why, "'10.1.2.3/16' has bits behind its prefix; write 10.1.0.0/16");
    }

    proptest! {
        #[test]
        fn a_prefix_is_read_as_it_is_printed(address: u32, wide: u128, len in 0..=128_u8) {
            for prefix in [
                Prefix::new(Ipv4Addr::from_bits(address).into(), len),
                Prefix::new(Ipv6Addr::from_bits(wide).into(), len),
            ] {
                prop_assert_eq!(prefix.to_string().parse::<Prefix>(), Ok(prefix));
                prop_assert!(prefix.contains(prefix.address()));
            }
        }
    }
}
