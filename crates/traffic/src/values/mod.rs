//! What a changing field holds in frame number `n`, and which sub-flow the frame belongs to: functions of `n` alone, so that
//! any transmit core computes any frame without the ones before it.
//!
//! The language writes them, the compiler takes them over and programs evaluate them; this knows none of the three.

pub mod sub_flows;

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
