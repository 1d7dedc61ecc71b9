//! One value after the other, and again from the first: `{ list: [10.0.0.1, 10.0.0.7] }`.

use std::sync::Arc;

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer};
use wirebeat_units::{Fault, fault};

use super::{Beside, FieldValue, PatternSpec};
use crate::values::Shape;

/// The most values of a list: the lists of all flows together stay well below the memory of a program.
pub const MAX_VALUES: usize = 1 << 20;

/// The values, in order: at least one.
#[derive(Clone, Debug)]
pub struct List<T> {
    first: T,
    values: Arc<[T]>,
    /// The same as numbers, which the frames of all phases share.
    bits: Arc<[u128]>,
    largest: u128,
}

impl<T: FieldValue> List<T> {
    /// These, one after the other; `None` without any.
    pub fn new(values: Vec<T>) -> Option<List<T>> {
        let bits: Arc<[u128]> = values.iter().map(|value| value.to_bits()).collect();
        let (first, largest) = (*values.first()?, bits.iter().copied().max()?);
        Some(List { first, values: values.into(), bits, largest })
    }

    /// The values.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    pub(super) fn read<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let none = || D::Error::custom("a list has at least one value");
        List::new(Vec::deserialize(value)?).ok_or_else(none)
    }

    pub(super) fn write<M: SerializeMap>(&self, key: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(key, self.values())
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.values, &other.values) || self.values == other.values
    }
}

impl<T: FieldValue> PatternSpec<T> for List<T> {
    fn first(&self) -> T {
        self.first
    }

    fn shape(&self, _bits: u32) -> Shape {
        Shape::List(Arc::clone(&self.bits))
    }

    fn largest(&self) -> u128 {
        self.largest
    }

    fn check(&self) -> Result<(), Fault> {
        match self.values.len() {
            many if many > MAX_VALUES => {
                Err(fault!("a list has at most {MAX_VALUES} values, and this one has {many}"))
            }
            _ => Ok(()),
        }
    }

    fn beside(&mut self, _: &mut Beside<T>) {}
}
