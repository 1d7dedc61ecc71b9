//! Servers that several templates have at one port. T-Rex plays packets, or finds a template by its port; here a server has to know what to
//! say, so each template has addresses of its own: those that it has alone, and a part of those which others have too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirebeat_traffic::scenario::session::AddressRange;

/// An address as a number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// From the first number to the last, as addresses of a version of IP.
fn range(first: u128, last: u128, is_ipv6: bool) -> Option<AddressRange> {
    let address = |bits: u128| -> Option<IpAddr> {
        match is_ipv6 {
            true => Some(Ipv6Addr::from_bits(bits).into()),
            false => Some(Ipv4Addr::from_bits(u32::try_from(bits).ok()?).into()),
        }
    };
    AddressRange::between(address(first)?, address(last)?).ok()
}

/// A port of UDP or of TCP.
pub(super) type Port = (bool, u16);

/// The servers of each template, in their order, where each says its port and its pool: those at one port share the addresses that several of
/// them have; nothing where others have all of its own.
pub(super) fn divide_by_port(all: &[(Port, AddressRange)]) -> Vec<Vec<AddressRange>> {
    let mut at_port = BTreeMap::<Port, (Vec<usize>, Vec<AddressRange>)>::new();
    for (index, (port, range)) in all.iter().enumerate() {
        let (indices, ranges) = at_port.entry(*port).or_default();
        indices.push(index);
        ranges.push(*range);
    }
    let mut servers = vec![Vec::new(); all.len()];
    for (indices, ranges) in at_port.values() {
        for (&index, part) in indices.iter().zip(divide(ranges)) {
            if let Some(of) = servers.get_mut(index) {
                *of = part;
            }
        }
    }
    servers
}

/// What each of `all` has, in their order; nothing where there are fewer addresses than templates.
fn divide(all: &[AddressRange]) -> Vec<Vec<AddressRange>> {
    let mut parts: Vec<Vec<AddressRange>> = vec![Vec::new(); all.len()];
    for is_ipv6 in [false, true] {
        let of_version: Vec<(usize, u128, u128)> = all
            .iter()
            .enumerate()
            .filter(|(_, range)| range.is_ipv6() == is_ipv6)
            .map(|(index, range)| (index, bits(range.first), bits(range.last)))
            .collect();
        let bounds: BTreeSet<u128> = of_version
            .iter()
            .flat_map(|(_, first, last)| [*first, last.saturating_add(1)])
            .collect();
        for (&from, &to) in bounds.iter().zip(bounds.iter().skip(1)) {
            let mut sharing: Vec<&(usize, u128, u128)> = of_version
                .iter()
                .filter(|(_, first, last)| *first <= from && to.saturating_sub(1) <= *last)
                .collect();
            let count = sharing.len() as u128;
            if count == 0 {
                continue;
            }
            if to - from < count {
                // first those that have nothing else
                let has_some = |index: usize| parts.get(index).is_some_and(|had| !had.is_empty());
                sharing.sort_by_key(|(index, first, last)| (has_some(*index), last - first));
            }
            let each = ((to - from) / count).max(1);
            for ((index, ..), place) in sharing.iter().zip(0_u128..) {
                let first = from + place * each;
                if first >= to {
                    break;
                }
                let mine = range(first, first + (each - 1), is_ipv6);
                if let (Some(mine), Some(had)) = (mine, parts.get_mut(*index)) {
                    add(had, mine);
                }
            }
        }
    }
    parts
}

/// Adds addresses to those of a template; such as follow the last ones go on with their range.
fn add(had: &mut Vec<AddressRange>, mine: AddressRange) {
    if let Some(last) = had.last_mut()
        && bits(last.last).checked_add(1) == Some(bits(mine.first))
        && let Ok(whole) = AddressRange::between(last.first, mine.last)
    {
        *last = whole;
        return;
    }
    had.push(mine);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(ranges: &[&str]) -> Vec<String> {
        let ranges: Vec<AddressRange> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        let text = |of: &Vec<AddressRange>| {
            of.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        divide(&ranges).iter().map(text).collect()
    }

    #[test]
    fn pools_of_which_one_is_alone_are_as_they_are() {
        let pools = ["48.0.0.1-48.0.0.255", "49.0.0.1-49.0.0.9", "2001:db8::1-2001:db8::9"];
        assert_eq!(divided(&pools), pools);
        assert_eq!(divided(&[]), [""; 0]);
    }

    #[test]
    fn the_same_pool_is_divided_in_equal_parts() {
        assert_eq!(
            divided(&["48.0.0.1-48.0.0.9", "48.0.0.1-48.0.0.9"]),
            ["48.0.0.1-48.0.0.4", "48.0.0.5-48.0.0.8"]
        );
        assert_eq!(divided(&["48.0.0.1", "48.0.0.1"]), ["48.0.0.1", ""]);
    }

    #[test]
    fn pools_that_overlap_share_what_both_have_alone() {
        assert_eq!(
            divided(&["48.0.0.1-48.0.0.20", "48.0.0.11-48.0.0.30"]),
            ["48.0.0.1-48.0.0.15", "48.0.0.16-48.0.0.30"]
        );
        // one server within a pool is that template's
        assert_eq!(
            divided(&["48.0.0.1-48.0.0.9", "48.0.0.5"]),
            ["48.0.0.1-48.0.0.4 48.0.0.6-48.0.0.9", "48.0.0.5"]
        );
        assert_eq!(
            divided(&["255.255.255.254-255.255.255.255", "255.255.255.255"]),
            ["255.255.255.254", "255.255.255.255"]
        );
    }

    #[test]
    fn those_at_other_ports_share_nothing() {
        let pool: AddressRange = "48.0.0.1-48.0.0.2".parse().unwrap();
        let parts = divide_by_port(&[((false, 80), pool), ((true, 80), pool), ((false, 80), pool)]);
        let lengths: Vec<u64> =
            parts.iter().map(|part| part.iter().map(AddressRange::len).sum()).collect();
        assert_eq!(lengths, [1, 2, 1]);
    }
}
