//! Text: serde for values that are written as such, and what of it may stand in a message.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};

/// `text` for a message: no longer than `max` characters, control characters replaced.
pub(super) fn printable(text: &str, max: usize) -> String {
    let replace = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut printable: String = text.chars().take(max).map(replace).collect();
    if text.chars().nth(max).is_some() {
        printable.push('…');
    }
    printable
}

/// Reads a `T` from text, or from a number by way of its text.
pub(super) struct TextVisitor<T> {
    what: &'static str,
    value: PhantomData<T>,
}

impl<T> TextVisitor<T> {
    pub(super) fn new(what: &'static str) -> Self {
        TextVisitor { what, value: PhantomData }
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|error| E::custom(error))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Serde's traits for a type that has `FromStr` and `Display`; what prints as a number is written as one.
macro_rules! text_type {
    ($type:ty, $what:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = self.to_string();
                match text.parse::<u64>() {
                    Ok(number) => serializer.serialize_u64(number),
                    Err(_) => serializer.serialize_str(&text),
                }
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::spec::text::TextVisitor::<$type>::new($what))
            }
        }
    };
}
pub(super) use text_type;
