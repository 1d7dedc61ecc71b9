//! Ethernet addresses of hosts that do not share that of the link.

use std::net::IpAddr;

use wirebeat_units::{Fault, fault, into_fault};
use wirebeat_wire::mac::{MacAddr, MacSequence};

/// Hosts with Ethernet addresses of their own: those from a first to a last IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationRange {
    /// The first IP address.
    pub first: IpAddr,
    /// The last one, of the same version of IP and not before the first.
    pub last: IpAddr,
    /// The number of the first host among `macs`; those that follow have the next numbers.
    pub number: u64,
    /// The Ethernet addresses by the number of the host.
    pub macs: MacSequence,
}

impl StationRange {
    /// How many hosts there are, at most the largest number of 64 bits.
    fn len(&self) -> u64 {
        let apart = bits(self.last).saturating_sub(bits(self.first)).saturating_add(1);
        u64::try_from(apart).unwrap_or(u64::MAX)
    }

    fn check(&self) -> Result<(), Fault> {
        let StationRange { first, last, .. } = self;
        if first.is_ipv4() != last.is_ipv4() || bits(*last) < bits(*first) {
            return Err(fault!("{first} to {last} is not a range of addresses"));
        }
        self.macs.check(self.number.saturating_add(self.len()))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Why hosts cannot have these Ethernet addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationsError(Fault);

impl StationsError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        self.0.clone()
    }
}

impl std::fmt::Display for StationsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for StationsError {}

into_fault!(StationsError);

/// Which hosts have which Ethernet addresses. To ask for one takes a comparison where there is one range of its version of IP, and a
/// binary search where there are more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stations {
    /// In ascending order, without overlaps.
    v4: Box<[StationRange]>,
    v6: Box<[StationRange]>,
}

impl Stations {
    /// The hosts of these ranges; a range may be there twice if it says the same.
    pub fn new(ranges: impl IntoIterator<Item = StationRange>) -> Result<Stations, StationsError> {
        let mut all: Vec<StationRange> = ranges.into_iter().collect();
        all.iter().try_for_each(StationRange::check).map_err(StationsError)?;
        all.sort_by_key(|range| (range.first.is_ipv6(), bits(range.first), bits(range.last)));
        all.dedup();
        let overlap = all.windows(2).find_map(|pair| {
            let [one, next] = pair else { return None };
            let same_version = one.first.is_ipv4() == next.first.is_ipv4();
            (same_version && bits(next.first) <= bits(one.last)).then_some(next.first)
        });
        if let Some(address) = overlap {
            return Err(StationsError(fault!(
                "{address} is in two pools whose hosts have different Ethernet addresses";
                "write the same addresses and the same 'mac' in both, or give each pool addresses of its own"
            )));
        }
        let v6 = all.split_off(all.partition_point(|range| range.first.is_ipv4()));
        Ok(Stations { v4: all.into(), v6: v6.into() })
    }

    /// The Ethernet address of the host at `address`, where it has one of its own.
    #[inline]
    pub fn mac_of(&self, address: IpAddr) -> Option<MacAddr> {
        let ranges = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        if ranges.is_empty() {
            return None;
        }
        let at = bits(address);
        let above = ranges.partition_point(|range| bits(range.first) <= at);
        let range = ranges.get(above.checked_sub(1)?)?;
        // less than the length of a range, whose hosts have numbers of 64 bits, and again from the first
        let number = range.number.wrapping_add((at - bits(range.first)) as u64);
        (at <= bits(range.last)).then(|| range.macs.get(number))
    }

    /// Whether all hosts share the address of the link.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many hosts have an address of their own.
    pub fn count(&self) -> u128 {
        let ranges = self.v4.iter().chain(&self.v6);
        let len = |range: &StationRange| (bits(range.last) - bits(range.first)).saturating_add(1);
        ranges.map(len).fold(0, u128::saturating_add)
    }

    /// Bits that all Ethernet addresses of hosts, and `mac` if there is one, have in common: their value, and a mask over them.
    pub fn common_bits(&self, mac: Option<MacAddr>) -> (u64, u64) {
        let ranges = self.v4.iter().chain(&self.v6);
        let of_range =
            |range: &StationRange| range.macs.common_bits(range.number.saturating_add(range.len()));
        let of_mac = mac.map(|mac| (mac.to_bits(), (1 << 48) - 1));
        let common = of_mac.into_iter().chain(ranges.map(of_range));
        let common = common.reduce(|(value, mask), (other, of_other)| {
            let mask = mask & of_other & !(value ^ other);
            (value & mask, mask)
        });
        common.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str, number: u64, macs: &str) -> StationRange {
        let macs = MacSequence::Step { first: macs.parse().unwrap(), step: 1, count: 1000 };
        StationRange { first: first.parse().unwrap(), last: last.parse().unwrap(), number, macs }
    }

    #[test]
    fn each_host_has_the_next_address() {
        let stations = Stations::new([
            range("fd00::1", "fd00::ff", 0, "02:00:00:00:06:00"),
            range("10.0.0.20", "10.0.0.29", 10, "02:00:00:00:04:00"),
            range("10.0.0.1", "10.0.0.10", 0, "02:00:00:00:04:00"),
            range("10.0.0.1", "10.0.0.10", 0, "02:00:00:00:04:00"),
        ])
        .unwrap();
        let mac =
            |address: &str| stations.mac_of(address.parse().unwrap()).map(|mac| mac.to_string());
        for (address, expected) in [
            ("10.0.0.0", None),
            ("10.0.0.1", Some("02:00:00:00:04:00")),
            ("10.0.0.10", Some("02:00:00:00:04:09")),
            ("10.0.0.11", None),
            ("10.0.0.20", Some("02:00:00:00:04:0a")),
            ("10.0.0.30", None),
            ("fd00::2", Some("02:00:00:00:06:01")),
            ("fd00::100", None),
        ] {
            assert_eq!(mac(address).as_deref(), expected, "{address}");
        }
        // 06 and 02 differ in a bit, 4 and 6 in one, and ranges in their low bits
        let mac = "06:00:00:00:04:00".parse().ok();
        assert_eq!(stations.common_bits(mac), (0x0200_0000_0400, 0xfbff_ffff_fd00));
        assert_eq!(stations.common_bits(None), (0x0200_0000_0400, 0xffff_ffff_fd00));
        assert_eq!(stations.count(), 20 + 255);
    }

    #[test]
    fn an_address_has_one_station() {
        let error = Stations::new([
            range("10.0.0.1", "10.0.0.10", 0, "02:00:00:00:04:00"),
            range("10.0.0.1", "10.0.0.11", 0, "02:00:00:00:04:00"),
        ]);
        assert!(error.unwrap_err().fault().what.contains("10.0.0.1 is in two pools"));
        let error = Stations::new([range("10.0.0.1", "10.0.0.10", 0, "03:00:00:00:04:00")]);
        assert!(error.is_err());
    }
}
