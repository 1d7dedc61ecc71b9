//! Serde for quantities: text both ways.
//!
//! A number is read as if it had been written as text, so that the same rules decide whether it may
//! go without a unit.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};

use crate::UnitError;

/// Reads a `T` from text, or from a number by way of its text.
pub(crate) struct TextVisitor<T> {
    what: &'static str,
    quantity: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    pub fn new(what: &'static str) -> Self {
        TextVisitor { what, quantity: PhantomData }
    }
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|error: UnitError| E::custom(error.fault().packed()))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Serde's traits for a type that has `FromStr` and `Display`.
macro_rules! serde_as_text {
    ($type:ty, $what:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::text::TextVisitor::<$type>::new($what))
            }
        }
    };
}
pub(crate) use serde_as_text;
