//! Addresses as numbers of 4 bytes, so that both ends of a session take 12 bytes whatever the version of IP is.
//!
//! An IPv4 address is its own number. IPv6 addresses in use are kept once each, with a count of their users; the table is as
//! large as the sessions may need and never grows.

use std::net::{IpAddr, Ipv6Addr};

use crate::hash::spread;
use crate::index::Index;
use crate::slab::{Slab, Slot};

/// An address: itself, or where it lies in the table. Which of the two, its owner knows.
pub type AddressId = u32;

#[derive(Debug)]
struct Entry {
    octets: [u8; 16],
    /// 0 where the slot is vacant; `octets` then begin with the next one.
    users: u32,
}

impl Slot for Entry {
    fn vacant(next: u32) -> Entry {
        let [a, b, c, d] = next.to_le_bytes();
        Entry { octets: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], users: 0 }
    }

    fn next_vacant(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.octets;
        (self.users == 0).then_some(u32::from_le_bytes([a, b, c, d]))
    }
}

/// The addresses of IPv6 that are in use.
#[derive(Debug)]
pub struct Addresses {
    entries: Slab<Entry>,
    index: Index,
    key: [u64; 2],
}

impl Addresses {
    /// A table for `capacity` addresses of IPv6.
    pub fn new(capacity: usize, key: [u64; 2]) -> Addresses {
        Addresses { entries: Slab::new(capacity), index: Index::new(capacity), key }
    }

    fn hash(&self, octets: &[u8; 16]) -> u32 {
        let word = u128::from_ne_bytes(*octets);
        (spread(self.key, word as u64, (word >> 64) as u64) >> 32) as u32
    }

    /// The number of `address`, with one user more; `None` when the table is full.
    pub fn acquire(&mut self, address: IpAddr) -> Option<AddressId> {
        let octets = match address {
            IpAddr::V4(address) => return Some(address.to_bits()),
            IpAddr::V6(address) => address.octets(),
        };
        let hash = self.hash(&octets);
        let entries = &self.entries;
        let found =
            self.index.find(hash, |id| entries.get(id).is_some_and(|entry| entry.octets == octets));
        if let Some(id) = found {
            self.entries.get_mut(id)?.users += 1;
            return Some(id);
        }
        let id = self.entries.insert(Entry { octets, users: 1 })?;
        if self.index.insert(hash, id).is_err() {
            self.entries.remove(id);
            return None;
        }
        Some(id)
    }

    /// One user less of an address of IPv6.
    pub fn release(&mut self, id: AddressId) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.users > 1 {
            entry.users -= 1;
            return;
        }
        let octets = entry.octets;
        let hash = self.hash(&octets);
        self.index.remove(hash, id);
        self.entries.remove(id);
    }

    /// The address with this number, of IPv6 where `is_v6`.
    #[inline]
    pub fn get(&self, id: AddressId, is_v6: bool) -> IpAddr {
        if is_v6 {
            self.entries.get(id).map_or(Ipv6Addr::UNSPECIFIED, |entry| entry.octets.into()).into()
        } else {
            std::net::Ipv4Addr::from_bits(id).into()
        }
    }

    /// How many addresses of IPv6 are in use.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_number_as_long_as_it_has_users() {
        let mut addresses = Addresses::new(2, [1, 2]);
        let [a, b, c]: [IpAddr; 3] = [[1; 16].into(), [2; 16].into(), [3; 16].into()];
        let first = addresses.acquire(a).unwrap();
        assert_eq!(addresses.acquire(a), Some(first));
        let second = addresses.acquire(b).unwrap();
        assert_eq!((addresses.get(first, true), addresses.get(second, true)), (a, b));
        assert_eq!(addresses.acquire(c), None, "the table is full");
        addresses.release(first);
        assert_eq!((addresses.acquire(c), addresses.len()), (None, 2));
        addresses.release(first);
        let third = addresses.acquire(c).unwrap();
        assert_eq!((addresses.get(third, true), addresses.len()), (c, 2));
        addresses.release(99);
    }

    #[test]
    fn an_ipv4_address_is_its_own_number_and_takes_no_room() {
        let mut addresses = Addresses::new(0, [1, 2]);
        let address: IpAddr = [10, 1, 2, 3].into();
        assert_eq!(addresses.acquire(address), Some(0x0a01_0203));
        assert_eq!((addresses.get(0x0a01_0203, false), addresses.len()), (address, 0));
    }
}
