//! Maps in which one key says what kind of thing it is, and the others say more about it:
//! `{ increment: 10.0.0.1, count: 250 }`, `{ normal: { mean: 500B, deviation: 100B }, max: 1518B }`.
//!
//! Serde's enums take one key alone and its structs take any; this is both at once, with an error that
//! names what could have been meant. Knows nothing of what is written with it.

use std::fmt;
use std::marker::PhantomData;

use schemars::Schema;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Value, json};
use wirebeat_units::Fault;

use crate::text::custom;
use crate::text::hint::with_hint;

/// What can be written as one key with a value, and perhaps others beside it.
pub(super) trait Tagged<'de>: Sized {
    /// The keys of which one says the kind.
    const KINDS: &'static [&'static str];
    /// What it is called in messages.
    const WHAT: &'static str;
    /// What the other keys say.
    type Beside: Default;

    /// Reads the value of the kind `key`.
    fn kind<D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error>;
    /// Reads the value of another key into `beside`; false when there is no such key.
    fn beside<A: MapAccess<'de>>(
        key: &str,
        map: &mut A,
        beside: &mut Self::Beside,
    ) -> Result<bool, A::Error>;
    /// The keys that may stand beside the kind, for messages.
    const OTHERS: &'static [&'static str];
    /// Joins both.
    fn join(self, beside: Self::Beside) -> Result<Self, Fault>;
}

/// Reads the map of a [`Tagged`], once it is known to be one.
pub(super) fn from_map<'de, T: Tagged<'de>, A: MapAccess<'de>>(mut map: A) -> Result<T, A::Error> {
    let mut kind: Option<(String, T)> = None;
    let mut beside = T::Beside::default();
    while let Some(key) = map.next_key::<String>()? {
        if T::KINDS.contains(&key.as_str()) {
            if let Some((first, _)) = &kind {
                return Err(A::Error::custom(format!("it is either '{first}' or '{key}'")));
            }
            let seed = Kind::<T> { key: &key, kind: PhantomData };
            kind = Some((key.clone(), map.next_value_seed(seed)?));
        } else if !T::beside(&key, &mut map, &mut beside)? {
            let known = T::KINDS.iter().chain(T::OTHERS).copied();
            return Err(custom(with_hint("unknown key", &key, known)));
        }
    }
    let Some((_, kind)) = kind else {
        return Err(A::Error::custom(format!("{} is one of {}", T::WHAT, T::KINDS.join(", "))));
    };
    kind.join(beside).map_err(custom)
}

struct Kind<'k, T> {
    key: &'k str,
    kind: PhantomData<T>,
}

impl<'de, T: Tagged<'de>> DeserializeSeed<'de> for Kind<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<T, D::Error> {
        T::kind(self.key, value)
    }
}

/// Reads either a single value (a number or a text), with `scalar`, or a map, with [`from_map`].
pub(super) fn scalar_or_map<'de, T, S, D>(
    from: D,
    scalar: fn(S) -> Result<T, Fault>,
) -> Result<T, D::Error>
where
    T: Tagged<'de>,
    S: Deserialize<'de>,
    D: Deserializer<'de>,
{
    from.deserialize_any(ScalarOrMap { scalar, kind: PhantomData })
}

struct ScalarOrMap<T, S> {
    scalar: fn(S) -> Result<T, Fault>,
    kind: PhantomData<T>,
}

impl<T, S> ScalarOrMap<T, S> {
    fn text<'de, E: Error>(self, text: String) -> Result<T, E>
    where
        S: Deserialize<'de>,
    {
        let value = S::deserialize(StringDeserializer::<E>::new(text))?;
        (self.scalar)(value).map_err(custom)
    }
}

impl<'de, T: Tagged<'de>, S: Deserialize<'de>> Visitor<'de> for ScalarOrMap<T, S> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        self.text(text.to_owned())
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.text(number.to_string())
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.text(number.to_string())
    }
    fn visit_u128<E: Error>(self, number: u128) -> Result<T, E> {
        self.text(number.to_string())
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.text(number.to_string())
    }
    fn visit_bool<E: Error>(self, switch: bool) -> Result<T, E> {
        self.text(if switch { "on" } else { "off" }.to_owned())
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        from_map(map)
    }
}

/// Reads a map with one key as an externally tagged enum, when the key has been read already.
pub(super) struct OneKey<'k, D> {
    pub(super) key: &'k str,
    pub(super) value: Option<D>,
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for OneKey<'_, D> {
    type Error = D::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, D::Error> {
        match self.value {
            Some(_) => seed.deserialize(de::value::StrDeserializer::new(self.key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, D::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(D::Error::custom("there is no value")),
        }
    }
}

/// The enum variant `key` with `value`.
pub(super) fn variant<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    key: &str,
    value: D,
) -> Result<T, D::Error> {
    T::deserialize(MapAccessDeserializer::new(OneKey { key, value: Some(value) }))
}

/// Declares the kinds of a choice that have one value each, with a line for each: the key, the variant, how the value is read
/// and its JSON Schema. How such a kind is read, written and described follows; what a choice has beside them is its own.
macro_rules! kinds {
    ($choice:ident: $($key:literal $variant:ident $read:expr, $schema:expr;)*) => {
        impl $choice {
            /// The keys of the kinds with one value.
            const PLAIN: [&'static str; [$($key),*].len()] = [$($key),*];

            /// Reads the value of the kind `key`; gives it back where that is none of these.
            fn read_plain<'de, D: serde::Deserializer<'de>>(
                key: &str,
                value: D,
            ) -> Result<Result<Self, D>, D::Error> {
                Ok(Ok(match key {
                    $($key => $choice::$variant(($read)(value)?),)*
                    _ => return Ok(Err(value)),
                }))
            }

            /// Writes it where it is one of these; gives the serializer back where not.
            fn write_plain<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<Result<S::Ok, S>, S::Error> {
                #[allow(unreachable_patterns, reason = "some choices have no other kinds")]
                match self {
                    $($choice::$variant(value) => serializer.collect_map([($key, value)]).map(Ok),)*
                    _ => Ok(Err(serializer)),
                }
            }

            /// Their JSON Schemas.
            fn plain_schemas(
                generator: &mut schemars::SchemaGenerator,
            ) -> [serde_json::Value; [$($key),*].len()] {
                [$($crate::scenario::tagged::keyed($key, &($schema)(&mut *generator), &[])),*]
            }
        }
    };
}
pub(super) use kinds;

/// The JSON Schema of a map in which `key` says the kind and has this value; `beside` may stand beside it.
pub(super) fn keyed(key: &str, value: &Schema, beside: &[(&str, &Schema)]) -> Value {
    let all = [(key, value)].into_iter().chain(beside.iter().copied());
    let properties: Map<String, Value> =
        all.map(|(key, schema)| (key.to_owned(), schema.as_value().clone())).collect();
    json!({
        "type": "object", "additionalProperties": false, "required": [key],
        "properties": properties
    })
}

/// The JSON Schema of a value.
pub(super) fn described<T: schemars::JsonSchema>(
    generator: &mut schemars::SchemaGenerator,
) -> Schema {
    generator.subschema_for::<T>()
}

/// Two lists of words as one of `N`, which is as many as both have.
pub(super) const fn joined<const N: usize>(
    first: &[&'static str],
    second: &[&'static str],
) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    words
}
