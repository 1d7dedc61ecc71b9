//! How the values of a field follow one another, as numbers.

use std::sync::Arc;

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
