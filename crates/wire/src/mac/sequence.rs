//! MAC addresses in a row: one for each host of a pool, as a function of the host's number.

use std::sync::Arc;

use wirebeat_units::{Fault, fault};

use super::MacAddr;

/// All MAC addresses have 48 bits; the highest byte of them has the bits that say what kind of address it is (IEEE 802 §8.2.2).
const BITS: u32 = 48;
const KIND_AT: u32 = 40;

/// MAC addresses by number, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacSequence {
    /// `count` addresses, each `step` above the one before (below it where `step` is negative), and again from the first.
    Step {
        /// The first address.
        first: MacAddr,
        /// The distance of two addresses.
        step: i64,
        /// How many addresses there are, at least 1.
        count: u64,
    },
    /// These, and again from the first.
    List(Arc<[MacAddr]>),
}

impl MacSequence {
    /// The same address for every number.
    pub const fn all(mac: MacAddr) -> MacSequence {
        MacSequence::Step { first: mac, step: 0, count: 1 }
    }

    /// The address of a number.
    #[inline]
    pub fn get(&self, number: u64) -> MacAddr {
        match self {
            MacSequence::Step { first, step, count } => {
                let times = if number < *count { number } else { number % (*count).max(1) };
                let way = step.wrapping_mul(times as i64);
                MacAddr::from_bits(first.to_bits().wrapping_add_signed(way))
            }
            MacSequence::List(list) => {
                let at = number % list.len().max(1) as u64;
                list.get(at as usize).copied().unwrap_or_default()
            }
        }
    }

    /// Checks that the first `numbers` addresses are those of single stations.
    ///
    /// # Errors
    /// An address of a group, the address of all zeros, or a row that leaves the first byte of its first address.
    pub fn check(&self, numbers: u64) -> Result<(), Fault> {
        let no_station = |mac: &MacAddr| fault!("{mac} is not the address of one station"; "give one whose first byte is even, for example 02:00:00:00:00:01");
        match self {
            MacSequence::List(list) => match list.iter().find(|mac| !mac.is_station()) {
                Some(mac) => Err(no_station(mac)),
                None if list.is_empty() => Err(fault!("a list has at least one address")),
                None => Ok(()),
            },
            MacSequence::Step { first, step, count } => {
                let times = numbers.min(*count).saturating_sub(1);
                let last = i128::from(first.to_bits()) + i128::from(*step) * i128::from(times);
                let last = u64::try_from(last).ok().filter(|last| last >> BITS == 0);
                // within one first byte no address of a group lies between two of stations
                let last = last.filter(|last| last >> KIND_AT == first.to_bits() >> KIND_AT);
                let Some(last) = last.map(MacAddr::from_bits) else {
                    return Err(fault!(
                        "{} addresses from {first} on do not have the same first byte, and some may be those of groups", times + 1;
                        "write a smaller 'step', or a 'count'"
                    ));
                };
                match [first, &last].into_iter().find(|mac| !mac.is_station()) {
                    Some(mac) => Err(no_station(mac)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Bits that are the same in the first `numbers` addresses: their value, and a mask over them. Other addresses may have them too.
    pub fn common_bits(&self, numbers: u64) -> (u64, u64) {
        let all = (1 << BITS) - 1;
        match self {
            MacSequence::Step { count, .. } => {
                let first = self.get(0).to_bits();
                let last = self.get(numbers.min(*count).saturating_sub(1)).to_bits();
                // between two numbers with the same high bits lie only numbers with these
                let differing = u64::BITS - (first ^ last).leading_zeros();
                let mask = all & u64::MAX.checked_shl(differing).unwrap_or(0);
                (first & mask, mask)
            }
            MacSequence::List(list) => {
                let first = self.get(0).to_bits();
                let used = list.iter().take(usize::try_from(numbers).unwrap_or(usize::MAX));
                let differing = used.fold(0, |bits, mac| bits | (mac.to_bits() ^ first));
                (first & all & !differing, all & !differing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mac(text: &str) -> MacAddr {
        text.parse().expect(text)
    }

    #[test]
    fn steps_go_up_and_down_and_begin_again() {
        let up = MacSequence::Step { first: mac("02:00:00:00:00:fe"), step: 1, count: 3 };
        let down = MacSequence::Step { first: mac("02:00:00:00:01:00"), step: -256, count: 2 };
        let get = |of: &MacSequence, n| of.get(n).to_string();
        assert_eq!(get(&up, 2), "02:00:00:00:01:00");
        assert_eq!(get(&up, 3), "02:00:00:00:00:fe");
        assert_eq!(get(&down, 1), "02:00:00:00:00:00");
        assert_eq!(get(&down, u64::MAX), "02:00:00:00:00:00");
        let list = MacSequence::List([mac("02:00:00:00:00:09"), mac("06:00:00:00:00:01")].into());
        assert_eq!(get(&list, 5), "06:00:00:00:00:01");
        assert_eq!(MacSequence::all(mac("02:00:00:00:00:09")).get(77), list.get(0));
    }

    #[test]
    fn rows_that_are_not_of_stations_are_refused() {
        let row = |first, step, count| MacSequence::Step { first: mac(first), step, count };
        for (row, numbers) in [
            (row("01:00:00:00:00:00", 0, 1), 1),
            (row("00:00:00:00:00:00", 1, 5), 5),
            (row("00:00:00:00:00:04", -1, 5), 5),
            (row("02:ff:ff:ff:ff:fe", 1, u64::MAX), 3),
            (row("02:00:00:00:00:00", -1, u64::MAX), 2),
            (row("02:00:00:00:00:00", 1 << 40, 2), 2),
            (MacSequence::List([mac("02:00:00:00:00:01"), MacAddr::BROADCAST].into()), 1),
            (MacSequence::List([].into()), 1),
        ] {
            assert!(row.check(numbers).is_err(), "{row:?}");
        }
        assert_eq!(row("02:ff:ff:ff:ff:fe", 1, u64::MAX).check(2), Ok(()));
        assert_eq!(row("02:00:00:00:00:00", 1 << 40, 1).check(u64::MAX), Ok(()));
        assert_eq!(row("00:00:00:00:00:05", -1, 5).check(5), Ok(()));
    }

    proptest! {
        #[test]
        fn all_addresses_of_a_row_that_is_not_refused_are_of_stations_and_have_the_common_bits(
            first: [u8; 6], step in -(1_i64 << 42)..1 << 42, count in 1_u64..50, numbers in 1_u64..100,
        ) {
            let row = MacSequence::Step { first: MacAddr(first), step, count };
            if row.check(numbers).is_ok() {
                let (value, mask) = row.common_bits(numbers);
                for number in 0..numbers {
                    prop_assert!(row.get(number).is_station());
                    prop_assert_eq!(row.get(number).to_bits() & mask, value);
                }
            }
        }

        #[test]
        fn addresses_of_a_list_have_the_common_bits(list: Vec<[u8; 6]>) {
            let row = MacSequence::List(list.iter().copied().map(MacAddr).collect());
            let (value, mask) = row.common_bits(list.len() as u64);
            for mac in list {
                prop_assert_eq!(MacAddr(mac).to_bits() & mask, value);
            }
        }
    }
}
