//! Drawn from a range, each value as likely as any other: `{ random: [20000, 29999] }`. With a mask only
//! its bits are drawn, and the others are those of the range's beginning.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer};
use wirebeat_units::{Fault, fault};

use super::{Beside, FieldValue, PatternSpec};
use crate::values::Shape;

/// The range, both ends included, and the mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Random<T> {
    /// The smallest value.
    pub low: T,
    /// The largest.
    pub high: T,
    /// Which bits are drawn; `None`: all.
    pub mask: Option<T>,
}

impl<T: FieldValue> Random<T> {
    pub(super) fn read<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        <[T; 2]>::deserialize(value).map(|[low, high]| Random { low, high, mask: None })
    }

    pub(super) fn write<M: SerializeMap>(&self, key: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(key, &[self.low, self.high])?;
        if let Some(mask) = &self.mask {
            map.serialize_entry("mask", mask)?;
        }
        Ok(())
    }
}

impl<T: FieldValue> PatternSpec<T> for Random<T> {
    fn first(&self) -> T {
        self.low
    }

    fn shape(&self, _bits: u32) -> Shape {
        let (low, high) = (self.low.to_bits(), self.high.to_bits());
        Shape::Random {
            low,
            span: high.wrapping_sub(low),
            mask: self.mask.map_or(u128::MAX, FieldValue::to_bits),
        }
    }

    fn largest(&self) -> u128 {
        self.high.to_bits()
    }

    fn check(&self) -> Result<(), Fault> {
        if self.low.to_bits() > self.high.to_bits() {
            return Err(fault!("the range ends before it begins"; "write the smaller value first"));
        }
        Ok(())
    }

    fn beside(&mut self, beside: &mut Beside<T>) {
        self.mask = beside.mask.take();
    }
}
