//! Text: serde and the JSON Schema of values that are written as such, and what of it may stand in a message.

use wirebeat_units::Fault;

pub mod hint;
pub(crate) mod schema;

/// `text` for a message: no longer than `max` characters, control characters replaced.
pub fn printable(text: &str, max: usize) -> String {
    let replace = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut printable: String = text.chars().take(max).map(replace).collect();
    if text.chars().nth(max).is_some() {
        printable.push('…');
    }
    printable
}

/// An error of serde that keeps apart what is wrong and what would help ([`Fault::unpacked`] has both again).
pub(crate) fn custom<E: serde::de::Error>(fault: impl Into<Fault>) -> E {
    E::custom(fault.into().packed())
}

/// Serde's traits for a word or a number that has `FromStr` and `Display`. YAML gives a number as it is
/// written when a text is asked for.
macro_rules! word_or_number {
    (<$($q:ident: $bound:path)?> $type:ty) => {
        impl$(<$q: $bound>)? serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text = self.to_string();
                match text.parse::<u64>() {
                    Ok(number) => serializer.serialize_u64(number),
                    Err(_) => serializer.serialize_str(&text),
                }
            }
        }
        impl<'de $(, $q: $bound)?> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(from)?
                    .parse()
                    .map_err($crate::text::custom)
            }
        }
    };
    ($type:ty) => {
        $crate::text::word_or_number!(<> $type);
    };
}
pub(crate) use word_or_number;
