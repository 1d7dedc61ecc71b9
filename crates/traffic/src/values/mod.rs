//! What a changing field holds in frame number `n`, and which sub-flow the frame belongs to: functions of `n` alone, so that
//! any transmit core computes any frame without the ones before it.
//!
//! The language writes them, the compiler takes them over and programs evaluate them; this knows none of the three.

pub mod session;
pub mod sub_flows;

use std::ops::RangeInclusive;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::draw::{Key, Purpose};

/// With what a pattern advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// With every frame of the flow.
    #[default]
    Frame,
    /// With every new sub-flow.
    SubFlow,
}

/// All ones in the low `bits` bits.
pub(crate) fn low_bits(bits: u32) -> u128 {
    match bits {
        128.. => u128::MAX,
        bits => (1 << bits) - 1,
    }
}

/// A pattern without its type; which flow draws it does not matter here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// These, and again from the first.
    List(Arc<[u128]>),
    /// `count` values, each a step further than the last, and again from the first; cut to the bits of `field`.
    Step { from: u128, step: u128, count: u64, field: u128 },
    /// From `low` to `low + span`; where the mask has no bit, that of `low`.
    Random { low: u128, span: u128, mask: u128 },
}

impl Shape {
    /// Ranges in which every value lies, of a list one for each. They may hold more than that.
    pub(crate) fn ranges(&self) -> Vec<RangeInclusive<u128>> {
        let range = match self {
            Shape::List(values) => return values.iter().map(|value| *value..=*value).collect(),
            Shape::Step { from, step, count, field } => steps(*from, *step, *count, *field),
            Shape::Random { low, span, mask: u128::MAX } => *low..=low.saturating_add(*span),
            Shape::Random { low, span, mask } => {
                // no bit above the highest of the range changes
                let high = low.saturating_add(*span);
                let most = u128::MAX.checked_shr(high.leading_zeros()).unwrap_or(0);
                low & !mask..=(low & !mask) | (mask & most)
            }
        };
        vec![range]
    }
}

/// The values from `from` on, cut to the bits of `field`: all that it holds where they run over its end.
fn steps(from: u128, step: u128, count: u64, field: u128) -> RangeInclusive<u128> {
    let times = u128::from(count.saturating_sub(1));
    let (from, up, down) = (from & field, step & field, step.wrapping_neg() & field);
    let last = up.checked_mul(times).and_then(|way| from.checked_add(way));
    if let Some(last) = last.filter(|last| *last <= field) {
        return from..=last;
    }
    match down.checked_mul(times).and_then(|way| from.checked_sub(way)) {
        Some(last) => last..=from,
        None => 0..=field,
    }
}

/// The values of a field, by the number of the frame or of the sub-flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    shape: Shape,
    /// Of a random one.
    key: Option<Key>,
}

impl Values {
    /// Of field number `field` of flow `flow`.
    pub(crate) fn new(shape: Shape, seed: u64, flow: u32, field: u16) -> Values {
        let key = match shape {
            Shape::Random { .. } => Some(Key::new(seed, flow, Purpose::Field(field))),
            _ => None,
        };
        Values { shape, key }
    }

    /// The value of number `n`.
    #[inline]
    pub fn value(&self, n: u64) -> u128 {
        match &self.shape {
            Shape::List(values) => {
                let at = n % values.len().max(1) as u64;
                values.get(at as usize).copied().unwrap_or(0)
            }
            Shape::Step { from, step, count, field } => {
                let times = if n < *count { n } else { n % (*count).max(1) };
                from.wrapping_add(step.wrapping_mul(times.into())) & field
            }
            Shape::Random { low, span, mask } => {
                let Some(key) = self.key else { return *low };
                let mut draw = key.draw(n);
                let drawn = low.wrapping_add(below(*span, &mut || draw.bits()));
                low & !mask | drawn & mask
            }
        }
    }

    /// After how many numbers they repeat; `None` if they do not.
    pub fn period(&self) -> Option<u64> {
        match &self.shape {
            Shape::List(values) => Some(values.len() as u64),
            Shape::Step { count, .. } => Some(*count),
            Shape::Random { .. } => None,
        }
    }
}

/// A number from 0 to `span`, both included. What the multiplication favours some values by is at most one
/// in 2^64 / `span`, so nothing that can be seen in the fields of frames.
#[inline]
fn below(span: u128, word: &mut impl FnMut() -> u64) -> u128 {
    match u64::try_from(span) {
        Ok(u64::MAX) => word().into(),
        Ok(span) => (u128::from(word()) * u128::from(span + 1)) >> 64,
        Err(_) => {
            let drawn = u128::from(word()) << 64 | u128::from(word());
            match span.checked_add(1) {
                Some(values) => drawn % values,
                None => drawn,
            }
        }
    }
}

/// The greatest common divisor; that of anything and 0 is the other.
pub(crate) fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple of two numbers, where it is one of 64 bits.
pub(crate) fn common_multiple(a: u64, b: u64) -> Option<u64> {
    let common = gcd(a.into(), b.into()).max(1);
    u64::try_from(u128::from(a) / common * u128::from(b)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape() -> impl Strategy<Value = Shape> {
        let field = prop_oneof![Just(0xff_u128), Just(0xffff_ffff), Just(u128::MAX)];
        let number = prop_oneof![0u128..300, (u128::MAX - 300)..=u128::MAX, any::<u128>()];
        let step = (number.clone(), number.clone(), 1u64..500, field).prop_map(
            |(from, step, count, field)| Shape::Step {
                from: from & field,
                step: step & field,
                count,
                field,
            },
        );
        let mask = prop_oneof![Just(u128::MAX), 0u128..300, any::<u128>()];
        let random = (number.clone(), number.clone(), mask).prop_map(|(low, high, mask)| {
            let (low, high) = (low.min(high), low.max(high));
            Shape::Random { low, span: high - low, mask }
        });
        let list = prop::collection::vec(number, 1..9).prop_map(|all| Shape::List(all.into()));
        prop_oneof![step, random, list]
    }

    proptest! {
        #[test]
        fn every_value_lies_in_a_range(shape in shape(), seed: u64) {
            let ranges = shape.ranges();
            let values = Values::new(shape, seed, 1, 1);
            for number in (0..600).chain([u64::MAX, u64::MAX / 2]) {
                let value = values.value(number);
                prop_assert!(ranges.iter().any(|range| range.contains(&value)), "{value:x}: {ranges:x?}");
            }
        }
    }

    #[test]
    fn ranges_are_no_wider_than_they_have_to_be() {
        let step = |from, step, count| Shape::Step { from, step, count, field: 0xff };
        assert_eq!(step(10, 2, 5).ranges(), [10..=18]);
        // down by 3
        assert_eq!(step(10, 0xfd, 4).ranges(), [1..=10]);
        assert_eq!(step(10, 0xfd, 5).ranges(), [0..=0xff]);
        assert_eq!(step(250, 1, 7).ranges(), [0..=0xff]);
        assert_eq!(Shape::Random { low: 3, span: 4, mask: u128::MAX }.ranges(), [3..=7]);
        assert_eq!(Shape::Random { low: 0x103, span: 0x10, mask: 0xf }.ranges(), [0x100..=0x10f]);
    }
}
