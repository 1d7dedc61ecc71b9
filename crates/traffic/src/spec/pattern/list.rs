//! One value after the other, and again from the first: `{ list: [10.0.0.1, 10.0.0.7] }`.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer};

use super::shape::Shape;
use super::{Beside, FieldValue, PatternSpec};

/// The most values of a list: the lists of all flows together stay well below the memory of a program.
pub const MAX_VALUES: usize = 1 << 20;

/// The values, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T> {
    /// At least one.
    pub values: Vec<T>,
}

impl<T: FieldValue> List<T> {
    pub(super) fn read<'de, D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        Vec::deserialize(value).map(|values| List { values })
    }

    pub(super) fn write<M: SerializeMap>(&self, key: &str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(key, &self.values)
    }
}

impl<T: FieldValue> PatternSpec<T> for List<T> {
    fn first(&self) -> T {
        // Checked not to be empty before anything is made of it.
        #[expect(clippy::indexing_slicing, reason = "`check` comes first")]
        self.values[0]
    }

    fn shape(&self, _bits: u32) -> Shape {
        Shape::List(self.values.iter().map(|value| value.to_bits()).collect())
    }

    fn largest(&self) -> u128 {
        self.values.iter().map(|value| value.to_bits()).max().unwrap_or(0)
    }

    fn check(&self) -> Result<(), String> {
        match self.values.len() {
            0 => Err("a list has at least one value".to_owned()),
            many if many > MAX_VALUES => {
                Err(format!("a list has at most {MAX_VALUES} values, and this one has {many}"))
            }
            _ => Ok(()),
        }
    }

    fn beside(&mut self, _: &mut Beside<T>) {}
}
