//! Reads values out of a marked text with its variables filled in.
//!
//! This stands between the parser and the types of the language: every scalar with a variable in it, be
//! it key or value, is filled in and read as if it had been written. Everything else passes unchanged.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use wirebeat_units::fault;

use super::variables::Variables;
use crate::text::printable;

/// Anything of serde, with the variables that are filled in.
pub(super) struct Filled<'v, T> {
    inner: T,
    with: &'v Variables,
    /// The keys before this one, where it is one.
    keys: Option<&'v RefCell<HashSet<String>>>,
    wanted: Wanted,
}

/// How a scalar that was filled in is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Text,
    Number,
    Switch,
}

impl<'v, T> Filled<'v, T> {
    pub(super) fn new(inner: T, with: &'v Variables) -> Self {
        Filled { inner, with, keys: None, wanted: Wanted::Text }
    }

    /// Another with the same variables.
    fn on<U>(&self, inner: U) -> Filled<'v, U> {
        Filled { inner, with: self.with, keys: self.keys, wanted: self.wanted }
    }

    fn wanting(self, wanted: Wanted) -> Self {
        Filled { wanted, ..self }
    }
}

/// Forwards a method to the same one of the inner deserializer.
macro_rules! forward {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                let visitor = self.on(visitor);
                self.inner.$method(visitor)
            }
        )*
    };
}

/// For numbers and switches the parser says what is written, so that a text can be a variable.
macro_rules! any {
    ($($method:ident)*, $wanted:expr) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
                let visitor = self.on(visitor).wanting($wanted);
                self.inner.deserialize_any(visitor)
            }
        )*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Filled<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }
    any! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64, Wanted::Number
    }
    any! { deserialize_bool, Wanted::Switch }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.on(visitor);
        self.inner.deserialize_enum(name, variants, visitor)
    }
}

/// Forwards what is not text.
macro_rules! pass {
    ($($method:ident($type:ty))*) => {
        $(
            fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
                self.inner.$method(value)
            }
        )*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Filled<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    pass! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128)
        visit_f64(f64) visit_char(char) visit_bytes(&[u8])
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        let text = self.with.fill(text).map_err(crate::text::custom)?;
        if let Some(keys) = self.keys
            && !keys.borrow_mut().insert(text.clone().into_owned())
        {
            let twice = fault!(
                "'{}' occurs twice", printable(&text, 64);
                "give each of them a name of its own"
            );
            return Err(crate::text::custom(twice));
        }
        match self.wanted {
            Wanted::Text => self.inner.visit_string(text.into_owned()),
            Wanted::Number => match (text.parse::<u64>(), text.parse::<i64>(), text.parse::<f64>())
            {
                (Ok(number), ..) => self.inner.visit_u64(number),
                (_, Ok(number), _) => self.inner.visit_i64(number),
                (.., Ok(number)) => self.inner.visit_f64(number),
                _ => self.inner.visit_str(&text),
            },
            Wanted::Switch => match text.to_ascii_lowercase().as_str() {
                "on" | "yes" | "true" => self.inner.visit_bool(true),
                "off" | "no" | "false" => self.inner.visit_bool(false),
                _ => self.inner.visit_str(&text),
            },
        }
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let value = Filled::new(value, self.with);
        self.inner.visit_some(value)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let value = self.on(value);
        self.inner.visit_newtype_struct(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Filled::new(list, self.with))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Map { inner: map, with: self.with, keys: RefCell::default() })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Filled::new(variant, self.with))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Filled<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        let from = self.on(from);
        self.inner.deserialize(from)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Filled<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Filled::new(seed, self.with))
    }
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A map, which knows the keys it had: two may be the same only when they are filled in.
struct Map<'v, A> {
    inner: A,
    with: &'v Variables,
    keys: RefCell<HashSet<String>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Map<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = Filled { keys: Some(&self.keys), ..Filled::new(seed, self.with) };
        self.inner.next_key_seed(seed)
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Filled::new(seed, self.with))
    }
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'v, A: EnumAccess<'de>> EnumAccess<'de> for Filled<'v, A> {
    type Error = A::Error;
    type Variant = Filled<'v, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let with = self.with;
        let (value, variant) = self.inner.variant_seed(Filled::new(seed, with))?;
        Ok((value, Filled::new(variant, with)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Filled<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = Filled::new(seed, self.with);
        self.inner.newtype_variant_seed(seed)
    }
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = Filled::new(visitor, self.with);
        self.inner.tuple_variant(len, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = Filled::new(visitor, self.with);
        self.inner.struct_variant(fields, visitor)
    }
}
