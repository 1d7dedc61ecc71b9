//! Finds the line of a key.
//!
//! A scenario is plain data and does not remember its text. When something turns out to be wrong with
//! it, the text is walked once more along the path of the key. `yaml/sources.rs` asks for it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::PathStep;
use super::yaml::{self, Variables};
use super::{KeyPath, Place};

/// How many steps of `path` lead to a key in `text`, and where the last of them stands. Keys may have
/// variables in them.
pub(super) fn locate(text: &str, path: &KeyPath, variables: &Variables) -> Option<(usize, Place)> {
    let mut found = None;
    let walk = Walk { steps: path.steps(), depth: 0, variables, found: &mut found };
    // A text that breaks off behind the key is no reason to forget the key.
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, yaml::options(), |yaml| {
        walk.deserialize(yaml)
    });
    found
}

/// Goes along the steps, and notes how far it came.
struct Walk<'a> {
    steps: &'a [PathStep],
    depth: usize,
    variables: &'a Variables,
    found: &'a mut Option<(usize, Place)>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, node: D) -> Result<(), D::Error> {
        match self.steps.first() {
            Some(PathStep::Key(_)) => node.deserialize_map(self),
            Some(PathStep::Index(_)) => node.deserialize_seq(self),
            None => node.deserialize_ignored_any(IgnoredAny).map(|_| ()),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what the path says")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((PathStep::Key(wanted), rest)) = self.steps.split_first() else {
            return Err(A::Error::custom("not on the path"));
        };
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if self.variables.means(&key.value, wanted) {
                let place = Place { line: key.referenced.line(), column: key.referenced.column() };
                *self.found = Some((self.depth + 1, place));
                let Walk { depth, variables, .. } = self;
                let walk = Walk { steps: rest, depth: depth + 1, variables, found: self.found };
                map.next_value_seed(walk)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((PathStep::Index(wanted), rest)) = self.steps.split_first() else {
            return Err(A::Error::custom("not on the path"));
        };
        for _ in 0..*wanted {
            list.next_element::<IgnoredAny>()?;
        }
        let Walk { depth, variables, .. } = self;
        if rest.is_empty() {
            if let Some(element) = list.next_element::<Spanned<IgnoredAny>>()? {
                let at = element.referenced;
                *self.found = Some((depth + 1, Place { line: at.line(), column: at.column() }));
            }
        } else {
            let walk = Walk { steps: rest, depth: depth + 1, variables, found: self.found };
            list.next_element_seed(walk)?;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ports:
  a: { interface: eth1 }
flows:
  voice:
    from: a
    packet:
      - ipv4: { destination: 10.0.0.2 }
      - udp:
          source: 5
";

    fn line_and_column(path: KeyPath) -> Option<(u64, u64)> {
        let found = locate(TEXT, &path, &Variables::default());
        found.map(|(_, place)| (place.line, place.column))
    }

    #[test]
    fn keys_are_found_in_every_form() {
        assert_eq!(line_and_column(KeyPath::root("flows")), Some((3, 1)));
        assert_eq!(line_and_column(KeyPath::flow("voice").key("from")), Some((5, 5)));
        assert_eq!(line_and_column(KeyPath::port("a").key("interface")), Some((2, 8)));
        let packet = KeyPath::flow("voice").key("packet");
        assert_eq!(
            line_and_column(packet.clone().index(1).key("udp").key("source")),
            Some((9, 11))
        );
        assert_eq!(line_and_column(packet.index(0).key("ipv4").key("destination")), Some((7, 17)));
    }

    #[test]
    fn a_key_that_is_not_there_leads_to_what_holds_it() {
        assert_eq!(line_and_column(KeyPath::flow("voice").key("size")), Some((4, 3)));
        assert_eq!(line_and_column(KeyPath::flow("none")), Some((3, 1)));
        assert_eq!(line_and_column(KeyPath::root("run")), None);
    }

    #[test]
    fn a_broken_text_is_walked_as_far_as_it_goes() {
        let path = KeyPath::flow("voice").key("from");
        let broken = format!("{TEXT}  voice: [}}");
        let none = Variables::default();
        assert_eq!(locate(&broken, &path, &none).map(|(_, place)| place.line), Some(5));
        assert_eq!(locate("\0{{", &path, &none), None);
    }
}
