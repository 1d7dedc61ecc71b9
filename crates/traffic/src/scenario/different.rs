//! Maps by a quantity, such as lengths with their weights: two keys may mean the same in different words, and then
//! one of them would be lost without a word.

use std::fmt::{self, Display};
use std::hash::Hash;
use std::marker::PhantomData;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use wirebeat_units::fault;

/// Reads a map whose keys are all different in what they mean: `64B` and `64` are the same length.
pub(super) fn map<'de, D, M, K, V>(from: D) -> Result<M, D::Error>
where
    D: Deserializer<'de>,
    M: From<IndexMap<K, V>>,
    K: Deserialize<'de> + Display + Eq + Hash,
    V: Deserialize<'de>,
{
    from.deserialize_map(Different(PhantomData)).map(M::from)
}

struct Different<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Different<K, V>
where
    K: Deserialize<'de> + Display + Eq + Hash,
    V: Deserialize<'de>,
{
    type Value = IndexMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = IndexMap::new();
        while let Some((key, value)) = map.next_entry()? {
            match all.entry(key) {
                Entry::Vacant(entry) => entry.insert(value),
                Entry::Occupied(entry) => {
                    let why = fault!("{} occurs twice", entry.key(); "write it once");
                    return Err(crate::text::custom(why));
                }
            };
        }
        Ok(all)
    }
}
