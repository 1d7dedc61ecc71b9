//! A part of a scenario within a message: its JSON as a text, which the parser of scenarios reads. It is JSON, so that nothing
//! in it stands for more than is written (YAML's aliases do).

use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use wirebeat_traffic::scenario::yaml;

pub(super) fn serialize<T: Serialize, S: Serializer>(part: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&serde_json::to_string(part).map_err(ser::Error::custom)?)
}

pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    from: D,
) -> Result<Box<T>, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_str::<IgnoredAny>(&text).map_err(D::Error::custom)?;
    yaml::value(&text).map(Box::new).map_err(D::Error::custom)
}
