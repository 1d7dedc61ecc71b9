//! What waits for times that are all equally long, in the order in which they end: delayed acknowledgments, and timers that were set
//! a short time ago.
//!
//! What begins first ends first: a queue, and no sorting, where the wheel would have to touch the memory of neighbours for each. An
//! entry stays where it is when the acknowledgment goes with data before its time, or the timer is not needed any more; the session is
//! asked when the time has come.

use wirebeat_units::Nanos;

use crate::ring::Ring;
use crate::tick::Tick;

/// Entries that there may be beside one for each session: one session may have several, of which the last counts.
const SPARE: usize = 1 << 16;

/// The queues, one for each length of delay.
#[derive(Debug)]
pub(crate) struct Waits {
    queues: Vec<Queue>,
    capacity: usize,
}

#[derive(Debug)]
struct Queue {
    delay: Nanos,
    entries: Ring<(Tick, u32)>,
}

impl Waits {
    /// Queues for `delays`, of a stack with `sessions`.
    pub fn new(sessions: usize, delays: impl Iterator<Item = Nanos>) -> Waits {
        let mut waits = Waits { queues: Vec::new(), capacity: sessions + SPARE };
        delays.for_each(|delay| waits.prepare(delay));
        waits
    }

    /// Makes room for delays of this length.
    pub fn prepare(&mut self, delay: Nanos) {
        if delay > Nanos::ZERO && self.queues.iter().all(|queue| queue.delay != delay) {
            self.queues.push(Queue { delay, entries: Ring::new(self.capacity) });
        }
    }

    /// Has `node` called at `at`, which is `delay` from now. When it is called in fact; `None` where there is no room.
    #[inline]
    pub fn push(&mut self, delay: Nanos, at: Tick, node: u32) -> Option<Tick> {
        let queue = self.queues.iter_mut().find(|queue| queue.delay == delay)?;
        // A clock of the embedder's that goes back does not bring the order into disorder.
        let at =
            queue.entries.back().map_or(at, |(last, _)| if at.is_due(last) { last } else { at });
        queue.entries.push_back((at, node)).then_some(at)
    }

    /// Whether the time of a node has come at `now`.
    #[inline]
    pub fn is_due(&self, now: Tick) -> bool {
        let mut fronts = self.queues.iter().filter_map(|queue| queue.entries.front());
        fronts.any(|(at, _)| at.is_due(now))
    }

    /// The next node whose time has come at `now`, and that time.
    #[inline]
    pub fn due(&mut self, now: Tick) -> Option<(u32, Tick)> {
        self.queues.iter_mut().find_map(|queue| {
            let is_due = queue.entries.front().is_some_and(|(at, _)| at.is_due(now));
            if is_due { queue.entries.pop_front().map(|(at, node)| (node, at)) } else { None }
        })
    }

    /// When the next one is due.
    pub fn next_tick(&self) -> Option<Tick> {
        let fronts = self.queues.iter().filter_map(|queue| queue.entries.front());
        fronts.map(|(at, _)| at).reduce(Tick::min)
    }

    /// Whether `node` is called at a tick that `is_it` accepts.
    #[cfg(test)]
    pub fn holds(&self, node: u32, is_it: impl Fn(Tick) -> bool) -> bool {
        let mut entries = self.queues.iter().flat_map(|queue| queue.entries.iter(usize::MAX));
        entries.any(|(at, of)| of == node && is_it(at))
    }

    #[cfg(test)]
    pub fn reserved(&self) -> usize {
        self.queues.iter().map(|queue| queue.entries.reserved()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_began_first_is_called_first_and_lengths_do_not_mix() {
        let [short, long] = [40, 200].map(Nanos::from_millis);
        let mut waits = Waits::new(2, [short, Nanos::ZERO, short, long].into_iter());
        assert_eq!(waits.queues.len(), 2);
        for (delay, at, node) in [(long, 700, 1), (short, 160, 2), (short, 161, 3)] {
            assert_eq!(waits.push(delay, Tick(at), node), Some(Tick(at)));
        }
        assert_eq!(waits.push(short, Tick(100), 4), Some(Tick(161)), "the clock went back");
        assert_eq!(waits.push(Nanos::from_secs(1), Tick(100), 4), None, "no such length");
        assert_eq!((waits.next_tick(), waits.due(Tick(159))), (Some(Tick(160)), None));
        let mut called = Vec::new();
        while let Some((node, _)) = waits.due(Tick(161)) {
            called.push(node);
        }
        assert_eq!((called, waits.next_tick()), (vec![2, 3, 4], Some(Tick(700))));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let delay = Nanos::from_millis(40);
        let mut waits = Waits::new(2, std::iter::once(delay));
        let count = (0..).take_while(|_| waits.push(delay, Tick(5), 0).is_some()).count();
        assert_eq!(count, 2 + SPARE);
        let reserved = waits.reserved();
        waits.due(Tick(5));
        assert!(waits.push(delay, Tick(6), 0).is_some() && waits.reserved() == reserved);
    }
}
