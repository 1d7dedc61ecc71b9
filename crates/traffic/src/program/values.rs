//! What a changing field holds in frame number `n`: a function of `n` alone, so that any transmit core
//! computes any frame without the ones before it.

use crate::distribution::draw::{Key, Purpose};
use crate::scenario::pattern::Shape;

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
