//! Numbers and flags as the versions of iperf3 write them.
//!
//! A flag is `true`, `1` or merely there; -1 in an unsigned field is 18446744073709551615; a count of more than 15 digits may
//! have an exponent. Numbers that a type cannot hold become the nearest that it can.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::ControlError;

/// Levels of lists and objects within each other at most; iperf3's own have six.
const DEPTH_MAX: u32 = 64;

/// Reads a message, which has to be an object that is not too deep.
pub(super) fn read<'a, T: Deserialize<'a>>(
    what: &'static str,
    bytes: &'a [u8],
) -> Result<T, ControlError> {
    let refuse = |why: &str| ControlError::Json { what, why: why.to_owned() };
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(refuse("they are no object"));
    }
    if depth(bytes) > DEPTH_MAX {
        return Err(refuse("they are too deep"));
    }
    serde_json::from_slice(bytes).map_err(|error| refuse(&error.to_string()))
}

/// The most brackets that are open at a time, outside of strings.
fn depth(bytes: &[u8]) -> u32 {
    let (mut depth, mut deepest) = (0_u32, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// A whole number of any sign, whatever it was written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Whole(pub i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Whole, E> {
                // an int of -1 that was widened without its sign
                Ok(Whole(if value == u64::MAX {
                    -1
                } else {
                    i64::try_from(value).unwrap_or(i64::MAX)
                }))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Whole, E> {
                // 2^64 is what cJSON prints of such a -1 with 17 digits
                Ok(Whole(if value == u64::MAX as f64 { -1 } else { value as i64 }))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Whole, E> {
                Ok(Whole(value.into()))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

/// A flag: set unless its value is `false`, `null` or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flag(pub bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flags;
        impl<'de> Visitor<'de> for Flags {
            type Value = Flag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a flag")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Flag, E> {
                Ok(Flag(value != 0))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Flag, E> {
                Ok(Flag(value != 0))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Flag, E> {
                Ok(Flag(value != 0.0))
            }
            fn visit_unit<E>(self) -> Result<Flag, E> {
                Ok(Flag(false))
            }
            fn visit_str<E>(self, _: &str) -> Result<Flag, E> {
                Ok(Flag(true))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Flag, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Flag(true))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Flag, A::Error> {
                while items.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Flag(true))
            }
        }
        deserializer.deserialize_any(Flags)
    }
}

/// A list that is refused as soon as it has more than `MAX` items.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AtMost<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for AtMost<T, MAX> {
    fn default() -> Self {
        AtMost(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for AtMost<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MAX: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
            type Value = AtMost<T, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX} items")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(de::Error::invalid_length(MAX + 1, &self));
                    }
                    list.push(item);
                }
                Ok(AtMost(list))
            }
        }
        deserializer.deserialize_seq(Items(std::marker::PhantomData))
    }
}
