//! Slots at even distances: how fast something may happen that many sessions want.
//!
//! A slot that nobody takes in its time is gone: after a pause things do not happen in a burst.

use wirebeat_units::Nanos;

/// Gives slots away.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// From a slot to the next; zero: there are as many as are wanted.
    gap: Nanos,
    /// The next one.
    next: Nanos,
}

impl Pacer {
    pub(crate) fn new(gap: Nanos) -> Pacer {
        Pacer { gap, next: Nanos::ZERO }
    }

    /// Whether it limits anything.
    pub(crate) fn limits(&self) -> bool {
        self.gap > Nanos::ZERO
    }

    /// The next slot.
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    /// Takes the next slot: at `now`, or later.
    pub(crate) fn take(&mut self, now: Nanos) -> Nanos {
        if !self.limits() {
            return now;
        }
        let slot = self.next.max(now);
        self.next = slot.saturating_add(self.gap);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_at_even_distances_and_none_is_saved() {
        let at = Nanos::new;
        let mut pacer = Pacer::new(at(10));
        let slots = [5, 5, 7, 100, 101].map(|now| pacer.take(at(now)).get());
        assert_eq!(slots, [5, 15, 25, 100, 110]);
        let mut free = Pacer::default();
        assert_eq!([3, 3, 4].map(|now| free.take(at(now)).get()), [3, 3, 4]);
        assert!(!free.limits() && pacer.limits());
    }
}
