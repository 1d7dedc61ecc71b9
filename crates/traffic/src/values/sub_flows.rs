//! Which sub-flow frame number `n` belongs to: a function of `n` alone, with nothing to remember, so that
//! a million sub-flows cost no more than one.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::draw::Key;

/// Which sub-flow the next frame belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each in turn, a frame each.
    #[default]
    InTurn,
    /// All frames of one, then all of the next (pktgen's FLOW_SEQ).
    OneByOne,
    /// Drawn; each has exactly its length in frames (pktgen's FLOW_RND).
    Random,
}

/// The order of sub-flows.
#[derive(Clone, Debug, PartialEq)]
pub struct SubFlowOrder {
    count: u64,
    /// Frames of a sub-flow; `u64::MAX`: it does not end.
    length: u64,
    order: Order,
    key: Key,
}

impl SubFlowOrder {
    /// Of so many sub-flows at a time, each of so many frames unless it does not end; what is drawn is drawn with `key`.
    pub(crate) fn new(
        count: NonZeroU32,
        length: Option<NonZeroU64>,
        order: Order,
        key: Key,
    ) -> SubFlowOrder {
        let length = length.map_or(u64::MAX, u64::from);
        SubFlowOrder { count: u64::from(count.get()), length, order, key }
    }

    /// The number of the sub-flow of frame `n`. Each new one has a number that none before it had.
    #[inline]
    pub fn number(&self, n: u64) -> u64 {
        match (self.order, self.length) {
            (Order::InTurn, u64::MAX) => n % self.count,
            (Order::InTurn, length) => {
                (n / self.count / length).wrapping_mul(self.count) + n % self.count
            }
            (Order::OneByOne, length) => n / length,
            (Order::Random, u64::MAX) => self.key.draw(n).below(self.count),
            (Order::Random, length) => {
                // A block holds all frames of `count` sub-flows, in an order of its own.
                let block = self.count.saturating_mul(length);
                let place = shuffled(n % block, block, self.key.draw(n / block).bits());
                (n / block).wrapping_mul(self.count) + place % self.count
            }
        }
    }

    /// After how many frames numbers that count modulo `values` repeat; `None` if they do not.
    pub fn period(&self, values: u64) -> Option<u64> {
        match (self.order, self.length) {
            (Order::InTurn, u64::MAX) => Some(self.count),
            (Order::InTurn, length) => {
                // New ones come by `count`, until their numbers are a multiple of `values` too.
                super::common_multiple(self.count, values)?.checked_mul(length)
            }
            (Order::OneByOne, length) => length.checked_mul(values),
            (Order::Random, _) => None,
        }
    }
}

/// Where `place` comes in an order of the places `0..of` that depends on `key`: each place once.
///
/// Multiplying by an odd number and mixing high bits into low ones are one to one modulo a power of two;
/// what falls beyond `of` is taken round again.
#[inline]
fn shuffled(place: u64, of: u64, key: u64) -> u64 {
    let bits = u64::BITS - of.saturating_sub(1).leading_zeros();
    if bits == 0 {
        return 0;
    }
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let half = (bits / 2).max(1);
    let mut x = place;
    loop {
        // Odd constants of MurmurHash3's finaliser (public domain).
        x = (x ^ key) & mask;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd) & mask;
        x ^= x >> half;
        x = x.wrapping_add(key >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53) & mask;
        x ^= x >> half;
        x = x.wrapping_mul(key | 1) & mask;
        x ^= x >> half;
        if x < of {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::distribution::draw::Purpose;

    fn order(count: u32, length: Option<u64>, order: Order) -> SubFlowOrder {
        let length = length.and_then(NonZeroU64::new);
        let key = Key::new(7, 3, Purpose::SubFlow);
        SubFlowOrder::new(NonZeroU32::new(count).unwrap(), length, order, key)
    }

    fn numbers(order: &SubFlowOrder, frames: u64) -> Vec<u64> {
        (0..frames).map(|n| order.number(n)).collect()
    }

    #[test]
    fn in_turn_each_sends_a_frame_and_new_ones_follow() {
        assert_eq!(numbers(&order(3, None, Order::InTurn), 7), [0, 1, 2, 0, 1, 2, 0]);
        let two_frames = order(3, Some(2), Order::InTurn);
        assert_eq!(numbers(&two_frames, 12), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
        assert_eq!(two_frames.period(6), Some(12));
        assert_eq!(two_frames.period(4), Some(24));
    }

    #[test]
    fn one_by_one_each_sends_all_its_frames() {
        assert_eq!(numbers(&order(3, Some(2), Order::OneByOne), 7), [0, 0, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn at_random_each_has_exactly_its_frames() {
        for (count, length) in [(1, 1), (1, 5), (7, 3), (64, 16), (1000, 10)] {
            let order = order(count, Some(length), Order::Random);
            let block = u64::from(count) * length;
            let mut frames: HashMap<u64, u64> = HashMap::new();
            for number in numbers(&order, 3 * block) {
                *frames.entry(number).or_default() += 1;
            }
            assert_eq!(frames.len() as u64, 3 * u64::from(count), "{count} of {length}");
            assert!(frames.values().all(|frames| *frames == length));
        }
    }

    #[test]
    fn at_random_the_next_does_not_follow_from_the_last() {
        const COUNT: usize = 16;
        for length in [None, Some(4096)] {
            let order = order(COUNT as u32, length, Order::Random);
            let mut pairs = vec![0_u64; COUNT * COUNT];
            let mut last = order.number(0) as usize % COUNT;
            const FRAMES: u64 = 65_536;
            for n in 1..=FRAMES {
                let next = order.number(n) as usize % COUNT;
                pairs[last * COUNT + next] += 1;
                last = next;
            }
            let expected = vec![FRAMES as f64 / pairs.len() as f64; pairs.len()];
            let fit = crate::distribution::fit::chi_square(&pairs, &expected);
            assert!(fit.passes(), "length {length:?}: {fit:?}");
        }
    }
}
