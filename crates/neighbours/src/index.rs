//! Finds an entry by its address: open addressing with linear probing over numbers of entries, as large as the table may need
//! from its start on. Nothing is allocated afterwards, and what is removed leaves no trace.

use std::net::IpAddr;

/// No entry.
const NONE: u32 = u32::MAX;

/// Bits without a pattern (the golden ratio's, and a constant of splitmix64), so that a key of few bits is no weak one.
const MIX: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

/// A hash of an address by multiplications of 64 bits to 128, folded. The key is secret, so that nobody can aim at one slot.
#[inline]
pub(crate) fn hash(key: [u64; 2], address: IpAddr) -> u64 {
    let (a, b) = match address {
        IpAddr::V4(address) => (u64::from(address.to_bits()), 4),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits as u64, (bits >> 64) as u64)
        }
    };
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        product as u64 ^ (product >> 64) as u64
    };
    let key = [key[0] ^ MIX[0], key[1] ^ MIX[1]];
    fold(fold(a ^ key[0], b ^ key[1]) ^ key[0], key[1] | 1)
}

/// Numbers of entries by their hashes.
#[derive(Debug)]
pub(crate) struct Index {
    /// The hash beside each number, so that a probe touches no entry that is not wanted. A power of two of them, at least twice
    /// the capacity.
    slots: Box<[(u32, u32)]>,
    mask: usize,
}

impl Index {
    /// For up to `capacity` entries.
    pub fn new(capacity: usize) -> Index {
        let len = (capacity.max(1) * 2).next_power_of_two();
        Index { slots: vec![(NONE, 0); len].into(), mask: len - 1 }
    }

    fn slot(&self, at: usize) -> (u32, u32) {
        self.slots.get(at & self.mask).copied().unwrap_or((NONE, 0))
    }

    fn set(&mut self, at: usize, slot: (u32, u32)) {
        if let Some(to) = self.slots.get_mut(at & self.mask) {
            *to = slot;
        }
    }

    /// The entry with this hash that `is_it`.
    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        // At least half of the slots are vacant; the bound is for the compiler and for a broken count.
        for at in (hash as usize..).take(self.slots.len()) {
            match self.slot(at) {
                (NONE, _) => return None,
                (id, other) if other == hash && is_it(id) => return Some(id),
                _ => {}
            }
        }
        None
    }

    /// Adds entry `id`, which is not in it; the caller keeps to the capacity.
    pub fn insert(&mut self, hash: u32, id: u32) {
        for at in (hash as usize..).take(self.slots.len()) {
            if self.slot(at).0 == NONE {
                self.set(at, (id, hash));
                return;
            }
        }
    }

    /// Removes entry `id`, and moves up those behind it that would not be found any more.
    pub fn remove(&mut self, hash: u32, id: u32) {
        let found = (hash as usize..)
            .take(self.slots.len())
            .find(|at| [id, NONE].contains(&self.slot(*at).0));
        let Some(mut gap) = found.filter(|at| self.slot(*at).0 == id) else { return };
        self.set(gap, (NONE, 0));
        for at in (gap + 1..).take(self.slots.len()) {
            let (other, home) = self.slot(at);
            if other == NONE {
                return;
            }
            // How far it is from where it would like to be, and how far the gap is.
            let distance = at.wrapping_sub(home as usize) & self.mask;
            if distance >= at - gap {
                self.set(gap, (other, home));
                self.set(at, (NONE, 0));
                gap = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_map_finds(steps in prop::collection::vec((0_u32..8, 0_u32..32, any::<bool>()), 0..300)) {
            // Few hashes, so that clusters are long and wrap around.
            let mut index = Index::new(16);
            let mut map: HashMap<u32, u32> = HashMap::new();
            for (hash, id, add) in steps {
                let hash = hash.wrapping_sub(4);
                if add && map.len() < 16 && !map.contains_key(&id) {
                    index.insert(hash, id);
                    map.insert(id, hash);
                } else if !add && let Some(hash) = map.remove(&id) {
                    index.remove(hash, id);
                }
                for id in 0..32 {
                    let hash = map.get(&id).copied();
                    prop_assert_eq!(index.find(hash.unwrap_or(3), |it| it == id), hash.map(|_| id));
                }
            }
        }
    }

    #[test]
    fn neighbours_are_spread() {
        for key in
            [[0, 0], [7, 1 << 40], [u64::MAX, 7], [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]]
        {
            let mut parts = [0; 64];
            for bits in 0..64_000_u32 {
                let address = IpAddr::V4((0x0a00_0000 + bits).into());
                parts[(hash(key, address) as u32 % 64) as usize] += 1;
            }
            assert!(parts.iter().all(|count| (800..1200).contains(count)), "{key:?} {parts:?}");
        }
    }
}
