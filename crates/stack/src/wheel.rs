//! The timers of all sessions, but for delayed acknowledgments (`waits`): one wheel of four levels with 256 slots each, in ticks of [`crate::tick`].
//!
//! The wheel is lazy. A session keeps its deadlines itself; the wheel only promises to call no later than the tick it was
//! given. A deadline that moves to a later time (each acknowledgment moves the retransmission timer) costs nothing here: the
//! call comes at the old time, and the session asks for the rest. A node of 12 bytes per session holds the links; those of sessions that never
//! waited here are zeros that the system has not made pages for.

use crate::slab::NONE;
use crate::tick::Tick;

const LEVELS: usize = 4;
const SLOTS: usize = 256;
/// The list of nodes whose tick has come; those before it are the slots.
const DUE: u32 = (LEVELS * SLOTS) as u32;
/// In `prev`: the node is the first of the list with this number.
const HEAD: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct Node {
    next: u32,
    /// The node before it, or [`HEAD`] and its list, or [`NONE`] when it is in no list.
    prev: u32,
    at: Tick,
}

/// A node as it lies in memory: `next` and `prev` complemented, so that one in no list is zeros; and its tick.
type Stored = [u32; 3];

impl Node {
    #[inline]
    fn of([next, prev, at]: Stored) -> Node {
        Node { next: !next, prev: !prev, at: Tick(at) }
    }

    #[inline]
    fn stored(self) -> Stored {
        [!self.next, !self.prev, self.at.0]
    }

    fn is_armed(&self) -> bool {
        self.prev != NONE
    }
}

/// The wheel. Nodes are numbers from 0 up to a capacity.
#[derive(Debug)]
pub struct Wheel {
    nodes: Vec<Stored>,
    heads: Vec<u32>,
    /// Which slots hold nodes, a bit each.
    occupied: [[u64; SLOTS / 64]; LEVELS],
    current: Tick,
}

impl Wheel {
    /// A wheel for `capacity` nodes that stands at `now`.
    pub fn new(capacity: usize, now: Tick) -> Wheel {
        Wheel {
            nodes: vec![[0; 3]; capacity],
            heads: vec![NONE; DUE as usize + 1],
            occupied: [[0; SLOTS / 64]; LEVELS],
            current: now,
        }
    }

    #[inline]
    fn node(&self, node: u32) -> Option<Node> {
        self.nodes.get(node as usize).copied().map(Node::of)
    }

    #[inline]
    fn set(&mut self, node: u32, to: Node) {
        if let Some(stored) = self.nodes.get_mut(node as usize) {
            *stored = to.stored();
        }
    }

    /// Makes sure that `node` is called at `at` or before. A tick that has passed is called at the next look.
    #[inline]
    pub fn arm(&mut self, node: u32, at: Tick) {
        let Some(entry) = self.node(node) else { return };
        if entry.is_armed() {
            if entry.at.is_due(at) {
                return;
            }
            self.unlink(node);
        }
        self.link(node, at);
    }

    /// Makes sure that `node` is not called.
    pub fn disarm(&mut self, node: u32) {
        if self.node(node).is_some_and(|entry| entry.is_armed()) {
            self.unlink(node);
        }
    }

    /// The tick at which `node` is called, if it is armed.
    pub fn armed(&self, node: u32) -> Option<Tick> {
        self.node(node).filter(Node::is_armed).map(|entry| entry.at)
    }

    /// How many nodes there is memory for.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.nodes.capacity()
    }

    /// The next node whose tick has come at `now`, which is no longer armed then. Ask until there is none; who stops before
    /// that gets the rest at the next call, whatever `now` is then.
    pub fn expire(&mut self, now: Tick) -> Option<u32> {
        loop {
            if let Some(&node) = self.heads.get(DUE as usize).filter(|&&node| node != NONE) {
                self.unlink(node);
                return Some(node);
            }
            let Some((level, slot, start)) =
                self.upcoming().filter(|(_, _, start)| start.is_due(now))
            else {
                // Time does not run backwards for the wheel, whatever the caller's clock does.
                if self.current.is_due(now) {
                    self.current = now;
                }
                return None;
            };
            self.current = start;
            if level == 0 {
                self.all_due(slot);
            } else {
                self.spread(level, slot);
            }
        }
    }

    /// A tick before which nothing is due; `None` when nothing is armed. Something may still not be due then.
    pub fn next_tick(&self) -> Option<Tick> {
        if self.heads.get(DUE as usize).is_some_and(|&node| node != NONE) {
            return Some(self.current);
        }
        self.upcoming().map(|(_, _, start)| start)
    }

    /// The next slot with nodes, and the tick at which it begins.
    fn upcoming(&self) -> Option<(usize, usize, Tick)> {
        for (level, occupied) in self.occupied.iter().enumerate() {
            let shift = 8 * level as u32;
            let here = (self.current.0 >> shift) as usize % SLOTS;
            // Below the top level all nodes are ahead in the same turn; the top level is the whole circle.
            let found = first_bit(occupied, here + 1);
            let found =
                if level + 1 == LEVELS { found.or_else(|| first_bit(occupied, 0)) } else { found };
            if let Some(slot) = found {
                let above = u64::from(self.current.0) >> (shift + 8) << (shift + 8);
                return Some((level, slot, Tick((above + ((slot as u64) << shift)) as u32)));
            }
        }
        None
    }

    /// The nodes of a slot of the first level are due, all of them. Those that were before are called already.
    fn all_due(&mut self, slot: usize) {
        let Some(first) = self.heads.get_mut(slot).map(|head| std::mem::replace(head, NONE)) else {
            return;
        };
        if let Some(word) = self.occupied.first_mut().and_then(|level| level.get_mut(slot / 64)) {
            *word &= !(1 << (slot % 64));
        }
        if let Some(due) = self.heads.get_mut(DUE as usize) {
            *due = first;
        }
        if let Some(node) = self.node(first) {
            self.set(first, Node { prev: HEAD | DUE, ..node });
        }
    }

    /// Takes the nodes of a slot to where they belong now that the slot has begun.
    fn spread(&mut self, level: usize, slot: usize) {
        let list = level * SLOTS + slot;
        while let Some(&node) = self.heads.get(list).filter(|&&node| node != NONE) {
            let Some(Node { at, .. }) = self.node(node) else { break };
            self.unlink(node);
            self.link(node, at);
        }
    }

    fn link(&mut self, node: u32, at: Tick) {
        let list = if at.is_due(self.current) {
            DUE
        } else {
            let level = (31 - (at.0 ^ self.current.0).leading_zeros()) / 8;
            let slot = (at.0 >> (8 * level)) as usize % SLOTS;
            if let Some(word) =
                self.occupied.get_mut(level as usize).and_then(|l| l.get_mut(slot / 64))
            {
                *word |= 1 << (slot % 64);
            }
            level * SLOTS as u32 + slot as u32
        };
        let Some(head) = self.heads.get_mut(list as usize) else { return };
        let next = std::mem::replace(head, node);
        if let Some(entry) = self.node(next) {
            self.set(next, Node { prev: node, ..entry });
        }
        self.set(node, Node { next, prev: HEAD | list, at });
    }

    fn unlink(&mut self, node: u32) {
        let Some(Node { next, prev, at }) = self.node(node) else { return };
        self.set(node, Node { next: NONE, prev: NONE, at });
        if let Some(after) = self.node(next) {
            self.set(next, Node { prev, ..after });
        }
        if prev & HEAD == 0 {
            if let Some(before) = self.node(prev) {
                self.set(prev, Node { next, ..before });
            }
            return;
        }
        let list = (prev & !HEAD) as usize;
        if let Some(head) = self.heads.get_mut(list) {
            *head = next;
        }
        if next == NONE
            && let Some(word) =
                self.occupied.get_mut(list / SLOTS).and_then(|l| l.get_mut(list % SLOTS / 64))
        {
            *word &= !(1 << (list % 64));
        }
    }
}

/// The first bit that is set at `from` or behind it.
fn first_bit(words: &[u64; SLOTS / 64], from: usize) -> Option<usize> {
    let mut mask = u64::MAX << (from % 64);
    for (at, word) in words.iter().enumerate().skip(from / 64) {
        if word & mask != 0 {
            return Some(at * 64 + (word & mask).trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_later_deadline_costs_nothing_and_an_earlier_one_counts() {
        let mut wheel = Wheel::new(4, Tick(0));
        wheel.arm(1, Tick(1000));
        wheel.arm(1, Tick(5000));
        assert_eq!(wheel.armed(1), Some(Tick(1000)));
        wheel.arm(1, Tick(10));
        assert_eq!(wheel.armed(1), Some(Tick(10)));
        assert_eq!(wheel.expire(Tick(9)), None);
        assert_eq!((wheel.expire(Tick(10)), wheel.expire(Tick(9000))), (Some(1), None));
        wheel.arm(9, Tick(1));
        assert_eq!((wheel.armed(9), wheel.next_tick()), (None, None), "a node that is not there");
    }

    #[test]
    fn those_that_are_due_wait_for_the_next_look() {
        let mut wheel = Wheel::new(4, Tick(0));
        (0..4).for_each(|node| wheel.arm(node, Tick(7)));
        let first = wheel.expire(Tick(7)).unwrap();
        assert_eq!(wheel.next_tick(), Some(Tick(7)));
        wheel.disarm((first + 1) % 4);
        let mut rest: Vec<u32> = std::iter::from_fn(|| wheel.expire(Tick(7))).collect();
        rest.sort_unstable();
        let mut expected = [(first + 2) % 4, (first + 3) % 4];
        expected.sort_unstable();
        assert_eq!(rest, expected);
    }

    proptest! {
        /// The model: each armed node with its tick. Times jump by anything from nothing to hours, over the end of the circle.
        #[test]
        fn the_wheel_agrees_with_a_list(
            start: u32,
            steps in prop::collection::vec((0..4_u8, 0..8_u32, any::<u32>(), 0..31_u32), 0..200),
        ) {
            let mut now = Tick(start);
            let mut wheel = Wheel::new(8, now);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut plain = u64::from(start);
            for (action, node, amount, shift) in steps {
                let span = (amount >> 1) >> shift;
                match action {
                    0 => { wheel.disarm(node); model.remove(&node); }
                    1 | 2 => {
                        let at = plain + u64::from(span);
                        wheel.arm(node, Tick(at as u32));
                        let kept = model.entry(node).or_insert(at);
                        *kept = (*kept).min(at);
                    }
                    _ => {
                        // The wheel may be asked late, but not by more than half a circle after what is due.
                        let earliest = model.values().copied().min().unwrap_or(plain);
                        plain = (plain + u64::from(span)).min(earliest.max(plain) + (1 << 30));
                        now = Tick(plain as u32);
                        if let Some(next) = wheel.next_tick() {
                            prop_assert!(next.is_due(Tick(earliest as u32)), "{:?} after {}", next, earliest);
                        }
                        let mut fired: Vec<u32> = std::iter::from_fn(|| wheel.expire(now)).collect();
                        fired.sort_unstable();
                        let due: Vec<u32> = model.iter().filter(|(_, at)| **at <= plain).map(|(node, _)| *node).collect();
                        prop_assert_eq!(&fired, &due);
                        due.iter().for_each(|node| { model.remove(node); });
                    }
                }
                for node in 0..8 {
                    prop_assert_eq!(wheel.armed(node), model.get(&node).map(|at| Tick(*at as u32)));
                }
                prop_assert_eq!(wheel.next_tick().is_some(), !model.is_empty());
            }
        }
    }
}
