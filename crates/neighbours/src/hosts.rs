//! Which addresses are ours: ranges of unicast addresses, sorted and merged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_units::{Fault, fault, into_fault};
use wirebeat_wire::ip::Version;
use wirebeat_wire::mac::MacAddr;

use crate::Link;
use crate::stations::{StationRange, Stations, StationsError};

/// A range that no host may have addresses of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostsError {
    /// The first address of the range.
    pub first: IpAddr,
    /// The last address of the range.
    pub last: IpAddr,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Versions,
    Order,
    NotUnicast(IpAddr),
}

impl HostsError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let HostsError { first, last, reason } = self;
        match reason {
            Reason::Versions => fault!(
                "the range {first} to {last} has two versions of IP";
                "give a range for each version"
            ),
            Reason::Order => fault!(
                "the range {first} to {last} ends before it begins";
                "write {last} first"
            ),
            Reason::NotUnicast(address) => fault!(
                "the range {first} to {last} has {address}, which no host on a link can have";
                "leave out 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4, 255.255.255.255, ::, ::1 and ff00::/8"
            ),
        }
    }
}

impl std::fmt::Display for HostsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.fault().fmt(f)
    }
}

impl std::error::Error for HostsError {}

into_fault!(HostsError);

/// What no host on a link can have as its own address (RFC 1122 §3.2.1.3, RFC 4291 §2.5 and §2.7).
const NOT_UNICAST_V4: [(u32, u32); 4] = [
    (0, 0x00ff_ffff),
    (0x7f00_0000, 0x7fff_ffff),
    (0xe000_0000, 0xefff_ffff),
    (0xffff_ffff, 0xffff_ffff),
];
const NOT_UNICAST_V6: [(u128, u128); 2] = [(0, 1), (0xff << 120, u128::MAX)];

/// Whether a host on a link can have this address as its own.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !contains(&NOT_UNICAST_V4, address.to_bits()),
        IpAddr::V6(address) => !contains(&NOT_UNICAST_V6, address.to_bits()),
    }
}

/// Ranges of addresses. To ask for one takes a comparison where there is one range of its version, and a binary search where
/// there are more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// From the first address to the last one, sorted, and neither overlapping nor adjacent.
    v4: Box<[(u32, u32)]>,
    v6: Box<[(u128, u128)]>,
    /// Those that do not have the Ethernet address of the link.
    stations: Stations,
}

#[inline]
fn contains<T: Copy + Ord>(ranges: &[(T, T)], address: T) -> bool {
    match ranges {
        [] => false,
        [(first, last)] => (*first..=*last).contains(&address),
        many => {
            let above = many.partition_point(|(first, _)| *first <= address);
            let below = above.checked_sub(1).and_then(|at| many.get(at));
            below.is_some_and(|(_, last)| address <= *last)
        }
    }
}

/// Sorts ranges, and makes one of those that overlap or are adjacent.
fn merge(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    merged
}

impl Hosts {
    /// The addresses of these ranges, each from its first to its last one.
    ///
    /// # Errors
    /// A range with two versions of IP, that ends before it begins, or with an address that no host on a link can have.
    pub fn new(ranges: impl IntoIterator<Item = (IpAddr, IpAddr)>) -> Result<Hosts, HostsError> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (first, last) in ranges {
            let error = |reason| HostsError { first, last, reason };
            let (bits, is_v4, forbidden) = match (first, last) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    let (first, last) = (first.to_bits(), last.to_bits());
                    let forbidden = NOT_UNICAST_V4.iter().find(|it| it.0 <= last && first <= it.1);
                    let forbidden = forbidden.map(|it| Ipv4Addr::from_bits(it.0.max(first)).into());
                    ((u128::from(first), u128::from(last)), true, forbidden)
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    let (first, last) = (first.to_bits(), last.to_bits());
                    let forbidden = NOT_UNICAST_V6.iter().find(|it| it.0 <= last && first <= it.1);
                    let forbidden = forbidden.map(|it| Ipv6Addr::from_bits(it.0.max(first)).into());
                    ((first, last), false, forbidden)
                }
                _ => return Err(error(Reason::Versions)),
            };
            if bits.0 > bits.1 {
                return Err(error(Reason::Order));
            }
            if let Some(address) = forbidden {
                return Err(error(Reason::NotUnicast(address)));
            }
            if is_v4 { &mut v4 } else { &mut v6 }.push(bits);
        }
        let v4 = merge(v4).into_iter().map(|(first, last)| (first as u32, last as u32)).collect();
        Ok(Hosts { v4, v6: merge(v6).into(), stations: Stations::default() })
    }

    /// The same hosts, of which these have Ethernet addresses of their own.
    ///
    /// # Errors
    /// A range that is none, hosts in two ranges that do not say the same, or an Ethernet address that is not of one station.
    pub fn with_stations(
        self,
        ranges: impl IntoIterator<Item = StationRange>,
    ) -> Result<Hosts, StationsError> {
        Ok(Hosts { stations: Stations::new(ranges)?, ..self })
    }

    /// The link as the host at `address` is on it: with its Ethernet address.
    #[inline]
    pub fn link_of(&self, link: &Link, address: IpAddr) -> Link {
        Link { mac: self.mac_of(address).unwrap_or(link.mac), ..*link }
    }

    /// The Ethernet address of the host at `address`, where that is not the one of the link.
    #[inline]
    pub(crate) fn mac_of(&self, address: IpAddr) -> Option<MacAddr> {
        self.stations.mac_of(address)
    }

    /// Whether all hosts have the Ethernet address of the link.
    #[inline]
    pub fn share_one_station(&self) -> bool {
        self.stations.is_empty()
    }

    /// Bits that the Ethernet addresses of all hosts have in common: their value, and a mask over them. `mac` is that of the link,
    /// which all have that have none of their own.
    pub fn common_bits(&self, mac: MacAddr) -> (u64, u64) {
        let count = [Version::V4, Version::V6].map(|version| self.count(version));
        let all = count.iter().fold(0, |sum: u128, count| sum.saturating_add(*count));
        self.stations.common_bits((self.stations.count() < all).then_some(mac))
    }

    /// Whether `address` is one of ours.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.contains_v4(address),
            IpAddr::V6(address) => self.contains_v6(address),
        }
    }

    /// The same for IPv4.
    #[inline]
    pub fn contains_v4(&self, address: Ipv4Addr) -> bool {
        contains(&self.v4, address.to_bits())
    }

    /// The same for IPv6.
    #[inline]
    pub fn contains_v6(&self, address: Ipv6Addr) -> bool {
        contains(&self.v6, address.to_bits())
    }

    /// The addresses of one version in ascending order, made as they are asked for.
    pub fn addresses(&self, version: Version) -> impl Iterator<Item = IpAddr> + use<> {
        let (v4, v6) = match version {
            Version::V4 => (self.v4.clone(), Box::default()),
            Version::V6 => (Box::default(), self.v6.clone()),
        };
        let v4 = v4.into_iter().flat_map(|(first, last)| first..=last);
        let v6 = v6.into_iter().flat_map(|(first, last)| first..=last);
        v4.map(|bits| Ipv4Addr::from_bits(bits).into())
            .chain(v6.map(|bits| Ipv6Addr::from_bits(bits).into()))
    }

    /// How many addresses of one version there are; stops at the largest number.
    pub fn count(&self, version: Version) -> u128 {
        match version {
            Version::V4 => self.v4.iter().map(|(a, b)| u128::from(b - a) + 1).sum(),
            Version::V6 => self
                .v6
                .iter()
                .fold(0, |sum: u128, (a, b)| sum.saturating_add(b - a).saturating_add(1)),
        }
    }

    /// The ranges, from the first address to the last one, in ascending order: IPv4, then IPv6.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        let v4 = self.v4.iter().map(|it| (Ipv4Addr::from_bits(it.0), Ipv4Addr::from_bits(it.1)));
        let v6 = self.v6.iter().map(|it| (Ipv6Addr::from_bits(it.0), Ipv6Addr::from_bits(it.1)));
        let v4 = v4.map(|(first, last)| (first.into(), last.into()));
        v4.chain(v6.map(|(first, last)| (first.into(), last.into())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn hosts(ranges: &[(&str, &str)]) -> Result<Hosts, HostsError> {
        Hosts::new(ranges.iter().map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())))
    }

    #[test]
    fn ranges_are_merged_and_sorted() {
        let hosts = hosts(&[
            ("fd00::10", "fd00::1f"),
            ("10.0.0.5", "10.0.0.9"),
            ("10.0.0.20", "10.0.0.20"),
            ("10.0.0.1", "10.0.0.4"),
            ("fd00::18", "fd00::20"),
            ("10.0.0.7", "10.0.0.8"),
        ])
        .unwrap();
        let ranges: Vec<_> = hosts.ranges().map(|(a, b)| format!("{a} {b}")).collect();
        assert_eq!(ranges, ["10.0.0.1 10.0.0.9", "10.0.0.20 10.0.0.20", "fd00::10 fd00::20"]);
        assert_eq!((hosts.count(Version::V4), hosts.count(Version::V6)), (10, 17));
        let last: Vec<_> = hosts.addresses(Version::V4).skip(8).map(|it| it.to_string()).collect();
        assert_eq!(last, ["10.0.0.9", "10.0.0.20"]);
        assert_eq!(hosts.addresses(Version::V6).count(), 17);
    }

    #[test]
    fn a_range_may_be_as_large_as_all_of_ipv6_that_is_unicast() {
        let hosts = hosts(&[("::2", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]).unwrap();
        assert_eq!(hosts.count(Version::V6), (0xff << 120) - 2);
        assert_eq!(hosts.addresses(Version::V6).take(2).count(), 2);
        assert!(hosts.contains("2001:db8::1".parse().unwrap()));
        assert!(!hosts.contains("ff02::1".parse().unwrap()));
    }

    #[test]
    fn invalid_ranges_are_told() {
        for (range, what) in [
            (("10.0.0.1", "fd00::1"), "the range 10.0.0.1 to fd00::1 has two versions of IP"),
            (("10.0.0.2", "10.0.0.1"), "the range 10.0.0.2 to 10.0.0.1 ends before it begins"),
            (
                ("126.0.0.0", "128.0.0.1"),
                "the range 126.0.0.0 to 128.0.0.1 has 127.0.0.0, which no host on a link can have",
            ),
            (
                ("240.0.0.0", "255.255.255.255"),
                "the range 240.0.0.0 to 255.255.255.255 has 255.255.255.255, which no host on a link can have",
            ),
            (("::", "::5"), "the range :: to ::5 has ::, which no host on a link can have"),
            (
                ("ff02::5", "ff02::6"),
                "the range ff02::5 to ff02::6 has ff02::5, which no host on a link can have",
            ),
        ] {
            let fault = hosts(&[range]).unwrap_err().fault();
            assert_eq!(fault.what, what);
            assert!(fault.hint.is_some());
        }
    }

    proptest! {
        #[test]
        fn contained_is_what_was_given(
            ranges in prop::collection::vec((0_u8..250, 0_u8..5), 0..40),
            v6: bool,
        ) {
            let address = |last: u8| -> IpAddr {
                if v6 { [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into() } else { [10, 0, 0, last].into() }
            };
            let given: BTreeSet<u8> = ranges.iter().flat_map(|(first, more)| *first..=first + more).collect();
            let hosts = Hosts::new(ranges.iter().map(|(first, more)| (address(*first), address(first + more)))).unwrap();
            for last in 0..=255 {
                prop_assert_eq!(hosts.contains(address(last)), given.contains(&last));
            }
            let version = if v6 { Version::V6 } else { Version::V4 };
            prop_assert!(hosts.addresses(version).eq(given.iter().map(|last| address(*last))));
            prop_assert_eq!(hosts.count(version), given.len() as u128);
        }
    }
}
