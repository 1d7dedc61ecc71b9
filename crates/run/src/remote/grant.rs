//! What the owner of a listener lets it send for senders on other hosts: where to, how fast and for how long.
//!
//! A [`Grant`] is written by the owner (`--allow-send`), told to each sender, and held against what a sender asks for
//! ([`AskedSending`](super::asked::AskedSending)). Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wirebeat_units::human;
use wirebeat_units::{BitRate, Fault, Nanos, fault};
use wirebeat_wire::ip::Version;
use wirebeat_wire::rewrite::Prefix;

/// The most destinations of a grant.
pub const DESTINATIONS_MAX: usize = 64;

/// What a listener may send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Where to.
    pub destinations: Vec<Prefix>,
    /// Bits per second on the line, of all flows together.
    pub rate_bps: u64,
    /// For how long in all, in ns.
    pub time_ns: u64,
}

/// Where several hosts listen, where this host does, or where IPv4 is behind IPv6. A wider prefix does not mean them.
const APART: [(IpAddr, u8); 9] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    // IPv4 addresses behind a translator (RFC 6052) and a tunnel (RFC 3056)
    (IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0)), 96),
    (IpAddr::V6(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 4),
    (IpAddr::V4(Ipv4Addr::BROADCAST), 32),
    (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
    MAPPED,
];
/// IPv4 addresses in IPv6 ones (RFC 4291 §2.5.5.2).
const MAPPED: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96);

impl Grant {
    /// The rate where none is written.
    pub const DEFAULT_RATE: BitRate = BitRate(10_000_000);
    /// The time where none is written.
    pub const DEFAULT_TIME: Nanos = Nanos::from_secs(60);

    /// For how long in all.
    pub fn time(&self) -> Nanos {
        Nanos::new(self.time_ns)
    }

    /// Whether packets may go to all addresses of a range, which is of numbers in the order of the wire.
    pub fn covers(&self, version: Version, range: &RangeInclusive<u128>) -> bool {
        let address = |bits: u128| match version {
            Version::V4 => u32::try_from(bits).ok().map(|bits| Ipv4Addr::from_bits(bits).into()),
            Version::V6 => Some(Ipv6Addr::from_bits(bits).into()),
        };
        match (address(*range.start()), address(*range.end())) {
            (Some(first), Some(last)) if first <= last => {
                self.destinations.iter().any(|prefix| covers(prefix, first, last))
            }
            _ => false,
        }
    }

    /// Whether packets may go to an address.
    pub fn covers_address(&self, address: IpAddr) -> bool {
        self.destinations.iter().any(|prefix| covers(prefix, address, address))
    }

    /// Whether a listener can mean it.
    pub(super) fn is_possible(&self) -> bool {
        self.destinations.len() <= DESTINATIONS_MAX
    }
}

/// Whether a prefix allows all addresses from the first to the last.
fn covers(prefix: &Prefix, first: IpAddr, last: IpAddr) -> bool {
    prefix.contains(first)
        && prefix.contains(last)
        && APART.iter().all(|&(address, bits)| {
            let apart = Prefix::new(address, bits);
            !meets(&apart, first, last) || lies_in(prefix, &apart)
        })
}

/// Whether a prefix and a range have an address in common.
fn meets(prefix: &Prefix, first: IpAddr, last: IpAddr) -> bool {
    let all_ones: IpAddr = match prefix.address() {
        IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX).into(),
    };
    let same = prefix.address().is_ipv4() == first.is_ipv4();
    same && first <= prefix.take_in(all_ones) && prefix.address() <= last
}

fn lies_in(inner: &Prefix, outer: &Prefix) -> bool {
    inner.bits() >= outer.bits() && outer.contains(inner.address())
}

impl FromStr for Grant {
    type Err = Fault;

    /// Reads `10.0.0.0/24,fd00::7,rate=10Mbps,time=60s`.
    fn from_str(text: &str) -> Result<Self, Fault> {
        let (mut destinations, mut rate, mut time) = (Vec::new(), None, None);
        for part in text.split(',').map(str::trim) {
            let twice = |key: &str| fault!("'{key}' is given twice"; "give it once");
            if let Some(given) = part.strip_prefix("rate=") {
                let given: BitRate =
                    given.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
                rate.replace(given).map_or(Ok(()), |_| Err(twice("rate")))?;
            } else if let Some(given) = part.strip_prefix("time=") {
                let given: Nanos =
                    given.parse().map_err(|error: wirebeat_units::UnitError| error.fault())?;
                time.replace(given).map_or(Ok(()), |_| Err(twice("time")))?;
            } else {
                destinations.push(destination(part)?);
            }
        }
        if destinations.is_empty() {
            return Err(fault!(
                "no destination is given";
                "write for example 10.0.0.0/24,rate=10Mbps,time=60s"
            ));
        }
        if destinations.len() > DESTINATIONS_MAX {
            return Err(fault!(
                "{} destinations are given, and {DESTINATIONS_MAX} is the most", destinations.len();
                "give prefixes that hold several"
            ));
        }
        let time = time.unwrap_or(Grant::DEFAULT_TIME);
        if time == Nanos::ZERO {
            return Err(fault!("a time of 0 allows nothing"; "leave --allow-send out"));
        }
        let BitRate(rate_bps) = rate.unwrap_or(Grant::DEFAULT_RATE);
        Ok(Grant { destinations, rate_bps, time_ns: time.get() })
    }
}

fn destination(text: &str) -> Result<Prefix, Fault> {
    let prefix: Prefix =
        text.parse().map_err(|error: wirebeat_wire::rewrite::PrefixError| error.fault())?;
    match lies_in(&prefix, &Prefix::new(MAPPED.0, MAPPED.1)) {
        true => Err(fault!("'{text}' is an IPv4 address in an IPv6 one"; "write it as IPv4")),
        false => Ok(prefix),
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, prefix) in self.destinations.iter().enumerate() {
            write!(f, "{}{prefix}", if number == 0 { "" } else { ", " })?;
        }
        let rate = human::bit_rate(self.rate_bps as f64);
        write!(f, "; {rate} on the line; {} in all", human::time(self.time_ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn range(first: &str, last: &str) -> RangeInclusive<u128> {
        let bits = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        bits(first)..=bits(last)
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let read = grant("10.0.0.0/24, fd00::7,rate=5Mbps, time=3s");
        assert_eq!((read.rate_bps, read.time()), (5_000_000, Nanos::from_secs(3)));
        assert_eq!(read.destinations.len(), 2);
        let read = grant("10.0.0.7");
        assert_eq!(read.rate_bps, Grant::DEFAULT_RATE.0);
        assert_eq!(read.time(), Grant::DEFAULT_TIME);
        for wrong in [
            "",
            "rate=1Mbps",
            "10.0.0.1/24",
            "lab",
            "10.0.0.0/24,rate=fast",
            "10.0.0.0/24,time=0s",
            "10.0.0.0/24,time=1s,time=2s",
            "10.0.0.0/24,rate=1Mbps,rate=1Mbps",
            "10.0.0.0/24,,",
            "::ffff:10.0.0.1",
            "::ffff:0:0/97",
            "10.0.0.0/24,rate=0bps",
        ] {
            assert!(wrong.parse::<Grant>().is_err(), "{wrong}");
        }
        let many = |count: usize| vec!["10.0.0.1"; count].join(",").parse::<Grant>();
        assert!(many(DESTINATIONS_MAX).is_ok());
        assert!(many(DESTINATIONS_MAX + 1).is_err());
    }

    #[test]
    fn a_range_is_covered_only_as_a_whole_by_one_prefix() {
        let given = grant("10.0.0.0/25,10.0.0.128/26");
        let v4 = |first, last| given.covers(Version::V4, &range(first, last));
        assert!(v4("10.0.0.0", "10.0.0.127"));
        assert!(v4("10.0.0.128", "10.0.0.191"));
        assert!(!v4("10.0.0.0", "10.0.0.128"), "of two prefixes");
        assert!(!v4("10.0.0.191", "10.0.0.192"));
        assert!(!v4("9.255.255.255", "10.0.0.0"));
        // neither the other family nor numbers that no address has
        assert!(!given.covers(Version::V6, &range("10.0.0.1", "10.0.0.1")));
        assert!(!given.covers(Version::V4, &(0..=u128::MAX)));
        assert!(!grant("0.0.0.0/0").covers(Version::V4, &(0..=1 << 32)));
    }

    #[test]
    fn groups_and_broadcasts_have_to_be_written() {
        let all = grant("0.0.0.0/0,::/0");
        for (address, as_written) in [
            ("224.0.0.1", "224.0.0.0/8"),
            ("239.255.255.255", "239.0.0.0/8"),
            ("255.255.255.255", "255.255.255.255"),
            ("ff02::1", "ff02::/16"),
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "0.0.0.0/8"),
            ("::1", "::1"),
            ("64:ff9b::a00:1", "64:ff9b::/96"),
            ("2002:a00:1::1", "2002::/16"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert!(!all.covers_address(address), "{address}");
            assert!(grant(as_written).covers_address(address), "{address}");
        }
        assert!(all.covers_address("223.255.255.255".parse().unwrap()));
        assert!(all.covers_address("2001:db8::1".parse().unwrap()));
        // a range that reaches into them, or holds them
        assert!(!all.covers(Version::V4, &range("223.255.255.255", "224.0.0.0")));
        assert!(!all.covers(Version::V4, &range("200.0.0.0", "241.0.0.0")));
        assert!(!all.covers(Version::V6, &range("fe00::", "ff00::")));
    }

    #[test]
    fn an_ipv6_address_that_a_socket_sends_ipv4_to_is_never_covered() {
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert!(!grant("::/0").covers_address(mapped));
        assert!(!grant("::/0,10.0.0.0/8").covers_address(mapped));
        assert!(!grant("::/0").covers(Version::V6, &range("::", "::1:0:0:0")));
    }
}
