//! Queues in memory that is reserved at the start, of which as much is touched as they are long.
//!
//! A ring goes round through all of its memory, however few entries it has. This one goes round in a part of it, which grows when it is
//! full and begins anew when nothing is left: a queue that might hold millions and holds a few takes a few pages.

/// Entries that the part has room for at first: a few pages.
const FIRST: usize = 4096;

/// A queue.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// The part in use.
    slots: Vec<T>,
    capacity: usize,
    /// Where the first entry lies.
    first: usize,
    len: usize,
}

impl<T: Copy> Ring<T> {
    /// A queue for at most `capacity` entries.
    pub fn new(capacity: usize) -> Ring<T> {
        Ring { slots: Vec::with_capacity(capacity), capacity, first: 0, len: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn front(&self) -> Option<T> {
        if self.len > 0 { self.slots.get(self.first).copied() } else { None }
    }

    #[inline]
    pub fn back(&self) -> Option<T> {
        if self.len > 0 { self.slots.get(self.place(self.len - 1)).copied() } else { None }
    }

    /// The entry that has `before` before it.
    #[inline]
    pub fn get(&self, before: usize) -> Option<T> {
        if before < self.len { self.slots.get(self.place(before)).copied() } else { None }
    }

    /// Where the entry lies that has `before` before it.
    #[inline]
    fn place(&self, before: usize) -> usize {
        let at = self.first + before;
        if at >= self.slots.len() { at - self.slots.len() } else { at }
    }

    /// Adds an entry at the end; `false` where there is no room.
    #[inline]
    pub fn push_back(&mut self, entry: T) -> bool {
        if self.len == self.slots.len() && !self.grow(entry) {
            return false;
        }
        let at = self.place(self.len);
        self.len += 1;
        self.set(at, entry);
        true
    }

    /// Adds an entry before the first; `false` where there is no room.
    pub fn push_front(&mut self, entry: T) -> bool {
        if self.len == self.slots.len() && !self.grow(entry) {
            return false;
        }
        self.first = if self.first == 0 { self.slots.len() - 1 } else { self.first - 1 };
        self.len += 1;
        self.set(self.first, entry);
        true
    }

    #[inline]
    fn set(&mut self, at: usize, entry: T) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = entry;
        }
    }

    /// Makes the part larger, which is full; new slots hold `filler`. `false` where it is as large as it may be.
    #[cold]
    fn grow(&mut self, filler: T) -> bool {
        let before = self.slots.len();
        let grown = (2 * before).max(FIRST).min(self.capacity);
        if grown == before {
            return false;
        }
        self.slots.resize(grown, filler);
        // Entries that went on at the beginning go on behind the others, as far as there is room.
        let moved = self.first.min(grown - before);
        self.slots.copy_within(..moved, before);
        self.slots.copy_within(moved..self.first, 0);
        true
    }

    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let entry = self.front()?;
        self.first = self.place(1);
        self.len -= 1;
        if self.len == 0 {
            self.first = 0;
            self.slots.truncate(FIRST);
        }
        Some(entry)
    }

    /// The first `count` entries, or those that there are.
    #[inline]
    pub fn iter(&self, count: usize) -> impl Iterator<Item = T> + Clone {
        let count = count.min(self.len);
        let (begin, end) = self.slots.split_at_checked(self.first).unwrap_or_default();
        let end = end.get(..count).unwrap_or(end);
        end.iter().chain(begin.iter().take(count - end.len())).copied()
    }

    /// How many entries there is memory for.
    #[cfg(test)]
    pub fn reserved(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Adds and takes numbers of entries, with room for one part and a half more.
        #[test]
        fn a_ring_agrees_with_a_queue(steps in prop::collection::vec((0..4_u8, 0..3000_u32), 0..40)) {
            const CAPACITY: usize = 2 * FIRST + FIRST / 2;
            let (mut ring, mut model) = (Ring::new(CAPACITY), VecDeque::new());
            let reserved = ring.reserved();
            let mut next = 0_u32;
            for (action, count) in steps {
                for _ in 0..count {
                    next += 1;
                    let has_room = model.len() < CAPACITY;
                    match action {
                        0 | 1 => {
                            prop_assert_eq!(ring.push_back(next), has_room);
                            if has_room { model.push_back(next); }
                        }
                        2 => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                        _ if next.is_multiple_of(3) => {
                            prop_assert_eq!(ring.push_front(next), has_room);
                            if has_room { model.push_front(next); }
                        }
                        _ => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                    }
                    prop_assert_eq!((ring.len(), ring.front(), ring.back()), (model.len(), model.front().copied(), model.back().copied()));
                }
                prop_assert!(ring.iter(usize::MAX).eq(model.iter().copied()));
                prop_assert!(ring.iter(5).eq(model.iter().copied().take(5)));
            }
            prop_assert_eq!(ring.reserved(), reserved);
        }
    }

    #[test]
    fn a_short_queue_touches_little_memory() {
        let mut ring = Ring::new(1 << 20);
        ring.push_back(0);
        for number in 1..1 << 20 {
            assert!(ring.push_back(number) && ring.pop_front() == Some(number - 1));
        }
        assert_eq!(ring.slots.len(), FIRST);
    }
}
