//! Where the keys and elements of a text stand: for texts that are no scenario, of which many places are asked for.
//!
//! `place.rs` walks a text for one place; this reads it once for all of them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::super::KeyPath;
use super::super::error::PathStep;

/// The lines of a text in YAML or JSON, by the path of a key or an element.
#[derive(Debug)]
pub struct Lines(Node);

/// A value, with the line of its key, or of itself in a list. From 1; 0: the parser did not say.
#[derive(Debug)]
struct Node {
    line: u64,
    below: Below,
}

#[derive(Debug)]
enum Below {
    Nothing,
    /// By the key; the first of two that are the same.
    Map(Vec<(Box<str>, Node)>),
    List(Vec<Node>),
}

impl Lines {
    /// Of a text. One that cannot be read has only its first line.
    pub fn of(text: &str) -> Lines {
        let read = serde_saphyr::from_str_with_options::<Spanned<Below>>(text, super::options());
        Lines(match read {
            Ok(read) => Node { line: read.referenced.line(), below: read.value },
            Err(_) => Node { line: 1, below: Below::Nothing },
        })
    }

    /// The line of what a path leads to, or of the last of it that is there. From 1.
    pub fn line(&self, path: &KeyPath) -> u64 {
        let mut here = &self.0;
        let mut line = here.line.max(1);
        for step in path.steps() {
            let next = match (&here.below, step) {
                (Below::Map(entries), PathStep::Key(key)) => {
                    let at = entries.binary_search_by(|(of, _)| (**of).cmp(key.as_str()));
                    at.ok().and_then(|at| entries.get(at)).map(|(_, node)| node)
                }
                (Below::List(elements), PathStep::Index(index)) => elements.get(*index),
                _ => None,
            };
            let Some(next) = next else { break };
            here = next;
            if here.line > 0 {
                line = here.line;
            }
        }
        line
    }
}

impl<'de> Deserialize<'de> for Below {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Below, D::Error> {
        from.deserialize_any(Walk)
    }
}

struct Walk;

macro_rules! nothing {
    ($($method:ident: $kind:ty,)*) => {
        $(fn $method<E: Error>(self, _: $kind) -> Result<Below, E> {
            Ok(Below::Nothing)
        })*
    };
}

impl<'de> Visitor<'de> for Walk {
    type Value = Below;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    nothing! {
        visit_bool: bool,
        visit_i64: i64,
        visit_u64: u64,
        visit_i128: i128,
        visit_u128: u128,
        visit_f64: f64,
        visit_str: &str,
        visit_bytes: &[u8],
    }

    fn visit_unit<E: Error>(self) -> Result<Below, E> {
        Ok(Below::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<Below, E> {
        Ok(Below::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, of: D) -> Result<Below, D::Error> {
        of.deserialize_any(Walk)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, of: D) -> Result<Below, D::Error> {
        of.deserialize_any(Walk)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Below, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<Box<str>>>()? {
            let below = map.next_value()?;
            entries.push((key.value, Node { line: key.referenced.line(), below }));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|(later, _), (first, _)| later == first);
        Ok(Below::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Below, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element::<Spanned<Below>>()? {
            let Spanned { value: below, referenced, .. } = element;
            elements.push(Node { line: referenced.line(), below });
        }
        Ok(Below::List(elements))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, of: A) -> Result<Below, A::Error> {
        use serde::de::VariantAccess;
        let (_, rest) = of.variant::<IgnoredAny>()?;
        rest.newtype_variant::<IgnoredAny>().map(|_| Below::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "{\n  \"a\": [ 1,\n    { \"b\": \"x:\\n y\",\n      \"c\": {} },\n  [ 2,\n 3 ] ],\n  \"d\": null }\n";
    const YAML: &str = "# first\n- a: 1\n  b:\n    - c : 2\n      d: 'x: 1'\n    - 3\n- e: 4\n";

    fn root(index: usize) -> KeyPath {
        KeyPath::default().index(index)
    }

    #[test]
    fn keys_and_elements_have_the_line_in_which_they_stand() {
        let lines = Lines::of(JSON);
        let a = || KeyPath::root("a");
        for (path, line) in [
            (KeyPath::default(), 1),
            (a(), 2),
            (a().index(0), 2),
            (a().index(1), 3),
            (a().index(1).key("b"), 3),
            (a().index(1).key("c"), 4),
            (a().index(2).index(1), 6),
            (KeyPath::root("d"), 7),
        ] {
            assert_eq!(lines.line(&path), line, "{path}");
        }
        let lines = Lines::of(YAML);
        for (path, line) in [
            (root(0).key("b"), 3),
            (root(0).key("b").index(0).key("d"), 5),
            (root(0).key("b").index(1), 6),
            (root(1), 7),
        ] {
            assert_eq!(lines.line(&path), line, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_has_the_line_of_what_would_hold_it() {
        let lines = Lines::of(JSON);
        assert_eq!(lines.line(&KeyPath::root("a").index(1).key("z").key("y")), 3);
        assert_eq!(lines.line(&KeyPath::root("a").index(9)), 2);
        assert_eq!(lines.line(&KeyPath::root("none")), 1);
        assert_eq!(Lines::of("{ a: [").line(&KeyPath::root("a")), 1);
        assert_eq!(Lines::of("").line(&KeyPath::root("a")), 1);
    }
}
