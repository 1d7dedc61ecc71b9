//! Sessions in one piece of memory, each known by a number of 4 bytes.
//!
//! The memory is reserved at the start and used from its beginning, so that pages that no session needed are never touched, but for those
//! that are known to be needed ([`Slab::populate`]).
//! Vacant slots are chained through themselves: there is no list beside them.

/// No slot.
pub const NONE: u32 = u32::MAX;

/// What a [`Slab`] holds.
pub trait Slot {
    /// A vacant slot, which remembers the vacant slot after it ([`NONE`] at the end).
    fn vacant(next: u32) -> Self;
    /// The vacant slot after this one, where this one is vacant.
    fn next_vacant(&self) -> Option<u32>;
}

/// Slots of which each is taken or vacant.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<T>,
    capacity: usize,
    vacant: u32,
    len: usize,
}

impl<T: Slot> Slab<T> {
    /// A slab of `capacity` slots, at most 2^30.
    pub fn new(capacity: usize) -> Slab<T> {
        let capacity = capacity.min(1 << 30);
        Slab { slots: Vec::with_capacity(capacity), capacity, vacant: NONE, len: 0 }
    }

    /// Has the system give the memory of the first `slots` now, where none was taken yet.
    pub fn populate(&mut self, slots: usize) {
        if self.slots.is_empty() {
            self.slots.resize_with(slots.min(self.capacity), || T::vacant(NONE));
            self.slots.clear();
        }
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many slots there is memory for.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.slots.capacity()
    }

    /// Bytes of slots that were taken at some time.
    #[cfg(test)]
    pub(crate) fn touched(&self) -> usize {
        self.slots.len() * size_of::<T>()
    }

    /// Whether all are taken.
    pub fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    /// Takes a slot for `value`; `None` when all are taken.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let at = self.vacant_slot()?;
        // The value is made in its place, not copied there from the stack, which a processor that waits for parts of it could not do
        // before it has them.
        let slot = self.slots.get_mut(at as usize)?;
        self.vacant = slot.next_vacant()?;
        *slot = value;
        self.len += 1;
        Some(at)
    }

    /// The slot that is taken next.
    #[inline]
    fn vacant_slot(&mut self) -> Option<u32> {
        if self.vacant == NONE && self.slots.len() < self.capacity {
            self.vacant = self.slots.len() as u32;
            self.slots.push(T::vacant(NONE));
        }
        (self.vacant != NONE).then_some(self.vacant)
    }

    /// The one at `at`, if it is taken.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize).filter(|slot| slot.next_vacant().is_none())
    }

    /// The slot at `at`, taken or vacant: for who asks for it before it is needed.
    #[inline(always)]
    pub fn slot(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize)
    }

    /// The one at `at`, if it is taken.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.slots.get_mut(at as usize).filter(|slot| slot.next_vacant().is_none())
    }

    /// Makes the slot at `at` vacant; `false` where it was.
    pub fn remove(&mut self, at: u32) -> bool {
        let vacant = self.vacant;
        let Some(slot) = self.get_mut(at) else { return false };
        *slot = T::vacant(vacant);
        self.vacant = at;
        self.len -= 1;
        true
    }

    /// Those that are taken.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let taken = |(at, slot): (usize, _)| (at as u32, slot);
        self.slots.iter().enumerate().map(taken).filter(|(_, slot)| slot.next_vacant().is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    enum Word {
        Taken(u8),
        Vacant(u32),
    }

    impl Slot for Word {
        fn vacant(next: u32) -> Word {
            Word::Vacant(next)
        }
        fn next_vacant(&self) -> Option<u32> {
            match *self {
                Word::Taken(_) => None,
                Word::Vacant(next) => Some(next),
            }
        }
    }

    proptest! {
        #[test]
        fn a_slab_agrees_with_a_map(
            populated in 0..20_usize,
            steps in prop::collection::vec((any::<bool>(), any::<u8>()), 0..200),
        ) {
            const CAPACITY: usize = 16;
            let mut slab = Slab::new(CAPACITY);
            slab.populate(populated);
            let mut model = BTreeMap::new();
            for (insert, value) in steps {
                if insert {
                    let at = slab.insert(Word::Taken(value));
                    prop_assert_eq!(at.is_none(), model.len() == CAPACITY);
                    if let Some(at) = at {
                        prop_assert!(model.insert(at, value).is_none(), "a slot was given twice");
                    }
                } else {
                    let at = u32::from(value) % 20;
                    prop_assert_eq!(slab.remove(at), model.remove(&at).is_some());
                }
                prop_assert_eq!((slab.len(), slab.is_full()), (model.len(), model.len() == CAPACITY));
                for at in 0..20 {
                    let found = slab.get(at).map(|word| matches!(word, Word::Taken(v) if Some(v) == model.get(&at)));
                    prop_assert_eq!(found, model.get(&at).map(|_| true));
                }
                prop_assert_eq!(slab.iter().map(|(at, _)| at).collect::<Vec<_>>(), model.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
