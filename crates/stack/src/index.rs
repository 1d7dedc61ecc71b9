//! From the hash of a connection's addresses and ports to its handle: a table with open addressing.
//!
//! A slot is 8 bytes: 32 bits of hash, 32 bits of handle. The home of an entry follows from its hash by a multiplication, so
//! that the table has just the slots that it needs (10/7 of its entries) and not the next power of two. Neighbours are
//! probed in order; removal moves later entries back, so that there are no tombstones. What a handle stands for is asked of
//! the caller: the table knows hashes only.

use std::hint::black_box;

use crate::prefetch::prefetch;
use crate::slab::NONE;

/// A slot without an entry. It is zero, so that the memory of a new table is not touched before its slots are.
const EMPTY: u64 = 0;

/// What lies in a slot: the hash, and the complement of the handle, which is not zero, for no handle is [`NONE`].
fn entry(hash: u32, handle: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(!handle)
}

/// The handle of an entry; [`NONE`] of a slot without one.
fn handle_of(entry: u64) -> u32 {
    !(entry as u32)
}

/// The table.
#[derive(Debug)]
pub struct Index {
    slots: Vec<u64>,
    len: usize,
    capacity: usize,
}

/// All entries that there can be are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Index {
    /// A table for `capacity` entries, which fill it to 70 % at most: there a search that fails looks at 6 slots on average
    /// (Knuth, TAOCP 3, §6.4, linear probing), which is one cache line.
    pub fn new(capacity: usize) -> Index {
        let slots = (capacity.saturating_mul(10) / 7 + 2).min(u32::MAX as usize);
        Index { slots: vec![EMPTY; slots], len: 0, capacity: capacity.min(slots - 2) }
    }

    /// Has the system give all of its memory now, not page by page when sessions open: they lie all over it.
    pub fn populate(&mut self) {
        // a slot in each page, of 4 KiB or more
        for slot in self.slots.iter_mut().step_by(4096 / size_of::<u64>()) {
            *slot = black_box(*slot);
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the search for `hash` begins.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// The slots from `from` to `to`, going on at the front behind the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    #[inline]
    fn slot(&self, at: usize) -> u64 {
        self.slots.get(at).copied().unwrap_or(EMPTY)
    }

    fn set(&mut self, at: usize, entry: u64) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = entry;
        }
    }

    /// Asks for the slot that a search for `hash` reads first.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        if let Some(slot) = self.slots.get(self.home(hash)) {
            prefetch(slot);
        }
    }

    /// The handle that was put under `hash` and that `is_it` accepts.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        // There are always slots that are empty; the bound holds even if a bug fills them.
        for _ in 0..self.slots.len() {
            let entry = self.slot(at);
            let handle = handle_of(entry);
            if handle == NONE {
                return None;
            }
            if (entry >> 32) as u32 == hash && is_it(handle) {
                return Some(handle);
            }
            at = self.next(at);
        }
        None
    }

    /// Puts `handle` under `hash`. That it is not there yet is the caller's business.
    ///
    /// # Errors
    /// When all entries are there that the table was made for.
    pub fn insert(&mut self, hash: u32, handle: u32) -> Result<(), Full> {
        if self.len >= self.capacity {
            return Err(Full);
        }
        let mut at = self.home(hash);
        while handle_of(self.slot(at)) != NONE {
            at = self.next(at);
        }
        self.set(at, entry(hash, handle));
        self.len += 1;
        Ok(())
    }

    /// Where `handle` lies under `hash`.
    fn position(&self, hash: u32, handle: u32) -> Option<usize> {
        let entry = entry(hash, handle);
        let mut at = self.home(hash);
        for _ in 0..self.slots.len() {
            match self.slot(at) {
                found if found == entry => return Some(at),
                found if handle_of(found) == NONE => return None,
                _ => at = self.next(at),
            }
        }
        None
    }

    /// Puts `new` where `old` was under `hash`; `false` where it was not.
    pub fn replace(&mut self, hash: u32, old: u32, new: u32) -> bool {
        let Some(at) = self.position(hash, old) else { return false };
        self.set(at, entry(hash, new));
        true
    }

    /// Removes `handle` from under `hash`; `false` where it was not.
    pub fn remove(&mut self, hash: u32, handle: u32) -> bool {
        let Some(mut hole) = self.position(hash, handle) else { return false };
        let mut at = self.next(hole);
        loop {
            let entry = self.slot(at);
            if handle_of(entry) == NONE {
                break;
            }
            // An entry may move back to the hole if its home is not behind it.
            let home = self.home((entry >> 32) as u32);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.set(hole, entry);
                hole = at;
            }
            at = self.next(at);
        }
        self.set(hole, EMPTY);
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_takes_what_it_was_made_for_and_no_more() {
        for capacity in [0, 1, 7, 100] {
            let mut index = Index::new(capacity);
            for handle in 0..capacity as u32 {
                assert_eq!(index.insert(u32::MAX, handle), Ok(()), "all at the last slot");
            }
            assert_eq!(index.insert(1, 1), Err(Full));
            for handle in 0..capacity as u32 {
                assert_eq!(index.find(u32::MAX, |found| found == handle), Some(handle));
            }
            assert_eq!(index.find(0, |_| true), None);
        }
    }

    proptest! {
        /// Few different hashes, at both ends, so that entries collide and go round the end.
        #[test]
        fn the_table_agrees_with_a_set(
            steps in prop::collection::vec((0..3_u8, 0..12_u32, 0..8_u32), 0..300)
        ) {
            let mut index = Index::new(20);
            let mut model = BTreeSet::new();
            for (action, hash, handle) in steps {
                let hash = if hash < 6 { hash << 28 } else { u32::MAX - (hash - 6) };
                match action {
                    0 if !model.contains(&(hash, handle)) => {
                        let inserted = index.insert(hash, handle).is_ok();
                        prop_assert_eq!(inserted, model.len() < 20);
                        if inserted { model.insert((hash, handle)); }
                    }
                    1 => prop_assert_eq!(index.remove(hash, handle), model.remove(&(hash, handle))),
                    _ if model.contains(&(hash, handle)) && !model.contains(&(hash, handle + 8)) => {
                        prop_assert!(index.replace(hash, handle, handle + 8));
                        model.remove(&(hash, handle));
                        model.insert((hash, handle + 8));
                    }
                    _ => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for &(hash, handle) in &model {
                    prop_assert_eq!(index.find(hash, |found| found == handle), Some(handle));
                }
                for handle in 0..16 {
                    let there = model.contains(&(hash, handle));
                    prop_assert_eq!(index.find(hash, |found| found == handle).is_some(), there);
                }
            }
        }
    }
}
