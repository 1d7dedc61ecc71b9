//! Slots at even distances: how fast something may happen that many sessions want.
//!
//! A slot that nobody takes in its time is gone: after a pause things do not happen in a burst. One that somebody waited for is taken
//! even if this machine was late for it, so that its delays do not make the rate lower.

use wirebeat_units::Nanos;

/// Slots that this machine was late for by more are gone too.
const LATE_MAX: Nanos = Nanos::from_millis(100);

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

    /// Takes the next slot, which somebody waited for and whose time has come.
    pub(crate) fn take_due(&mut self, now: Nanos) {
        let next = self.next.saturating_add(self.gap);
        self.next = next.max(now.saturating_sub(LATE_MAX));
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
        // one that was waited for, and came late
        let mut late = Pacer { gap: at(10), next: at(20) };
        late.take_due(at(27));
        assert_eq!(late.next(), at(30));
        let after = LATE_MAX.saturating_add(at(1000));
        late.take_due(after);
        assert_eq!(late.next(), at(1000));
        let mut free = Pacer::default();
        assert_eq!([3, 3, 4].map(|now| free.take(at(now)).get()), [3, 3, 4]);
        assert!(!free.limits() && pacer.limits());
    }
}
