//! The parser's errors in the words of the language: what is wrong, of which key, and what would be right.
//!
//! The parser knows the place of what is wrong and not always its key. That is looked for in the text around the place.

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};
use wirebeat_units::{Fault, fault, human};

use super::{MAX_ALIASES, MAX_ANCHORED, MAX_DEPTH, MAX_NODES, MAX_REPLAYED};
use crate::scenario::Place;
use crate::text::hint::with_hint;
use crate::text::printable;

/// The longest key that is named, in bytes: the longest of the language has 15, and names of flows and ports 64.
const MAX_KEY: usize = 64;

/// The error in the words of the language; `at` is the text and the place that it is about.
pub(super) fn problem(error: &Error, at: Option<(&str, Place)>) -> Fault {
    match (error, at.and_then(bare_entry)) {
        (Error::WithSnippet { error, .. } | Error::AliasError { error, .. }, _) => {
            problem(error, at)
        }
        (
            Error::Unexpected { .. }
            | Error::SerdeUnknownField { .. }
            | Error::UnexpectedSequenceEnd { .. },
            Some(word),
        ) => {
            fault!("'{word}' has no value"; "write '{word}: VALUE', or '{word}: {{}}' if it has keys")
        }
        _ => of_parser(error, at),
    }
}

fn of_parser(error: &Error, at: Option<(&str, Place)>) -> Fault {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            with_hint("unknown key", field, expected.iter().copied())
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            with_hint("unknown word", variant, expected.iter().copied())
        }
        Error::SerdeMissingField { field, .. } => fault!("the key '{field}' is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            fault!("'{}' occurs twice", printable(key, 64); "give each of them a name of its own")
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            // a map has its own place, where its first key stands
            let subject = subject(at, unexpected != "map");
            fault!("{subject} is {}, and should be {}", found(unexpected), in_words(expected))
        }
        Error::SerdeInvalidLength { len, expected, .. } => {
            let wanted = expected.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
            let wanted = wanted.map_or_else(|| expected.clone(), |wanted| format!("have {wanted}"));
            let values = human::counted(*len as u64, "value");
            fault!("{} has {values}, and should {wanted}", subject(at, true))
        }
        Error::Unexpected { expected, .. } | Error::InvalidScalar { ty: expected, .. } => {
            let list = *expected == "sequence start";
            let example = at.filter(|_| list).and_then(|(text, place)| as_an_entry(text, place));
            let what = fault!("{} should be {}", subject(at, false), in_words(expected));
            match example {
                Some(entry) => what.or_hint(format!("write '{entry}'")),
                None => what,
            }
        }
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            "this should be a word, or one key with its value".into()
        }
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            fault!("only one key may stand here"; "begin the next with '- ' on a line of its own")
        }
        Error::UnknownAnchor { .. } => {
            fault!("there is no anchor of this name before here"; "anchors are written &name")
        }
        Error::Eof { .. } => {
            fault!("the text ends here"; "a scenario has the keys ports and flows")
        }
        Error::MultipleDocuments { .. } => {
            fault!("a second document begins here"; "a scenario is one, so give each a file")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => fault!(
            "the text is larger than any scenario: at most {MAX_NODES} keys and values, \
             {MAX_DEPTH} levels, {MAX_ALIASES} aliases, {MAX_ANCHORED} keys and values with \
             anchors and {MAX_REPLAYED} by aliases"
        ),
        Error::Message { msg, .. } => match msg.as_str() {
            "invalid IPv4 address syntax" => fault!("{msg}"; "write for example 10.0.0.1"),
            "invalid IPv6 address syntax" => fault!("{msg}"; "write for example 2001:db8::1"),
            "invalid IP address syntax" => {
                fault!("{msg}"; "write for example 10.0.0.1 or 2001:db8::1")
            }
            _ => match msg.strip_prefix("this should be ") {
                Some(expected) => fault!("{} should be {expected}", subject(at, false)),
                None => Fault::unpacked(msg),
            },
        },
        other => match UserMessageFormatter.format_message(other).into_owned() {
            tab if tab.starts_with("tabs disallowed") => {
                fault!("a tab stands before a key, and YAML takes none there"; "indent with spaces")
            }
            tab if tab.ends_with("found a tab") => {
                fault!(
                    "a tab stands behind this value, or before the next key";
                    "indent with spaces"
                )
            }
            told => told.into(),
        },
    }
}

/// What a type of Rust or a part of YAML is to the author of a scenario.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number up to 255",
        "u16" => "a whole number up to 65535",
        "u32" => "a whole number up to 4294967295",
        "u64" => "a whole number up to 18446744073709551615",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "a nonzero u16" | "a nonzero u32" | "a nonzero u64" => "a whole number from 1 on",
        "boolean" => "on or off",
        "floating point" => "a number, for example 2 or 0.5",
        "string scalar" => "one value, and not a list or keys with values",
        "sequence" => "a list",
        "map" => "keys with values",
        "mapping start" => "keys with values ('key: value', or '{ key: value }')",
        "sequence start" => "a list ('[a, b]', or lines that begin with '- ')",
        other => other,
    }
}

/// What was written instead, as serde's `Unexpected` says it: "integer `0`", "string \"x\"", "sequence".
fn found(unexpected: &str) -> String {
    let quoted = unexpected.split_once('`').and_then(|(_, rest)| rest.strip_suffix('`'));
    if let Some(value) = quoted {
        return printable(value, MAX_KEY);
    }
    match unexpected.strip_prefix("string ") {
        Some(text) => printable(text, MAX_KEY),
        None if unexpected == "unit value" => "empty".to_owned(),
        None => printable(in_words(unexpected), MAX_KEY),
    }
}

/// What an error is about: "'count'", "an entry of 'cores'", or "this" where that is not clear. `may_be_key` says that the
/// place may be that of the key instead of its value.
fn subject(at: Option<(&str, Place)>, may_be_key: bool) -> String {
    at.and_then(|(text, place)| named(text, place, may_be_key)).unwrap_or_else(|| "this".to_owned())
}

/// The line and the column of a place, which count from 1.
fn from_zero(place: Place) -> Option<(usize, usize)> {
    let index = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    Some((index(place.line)?, index(place.column)?))
}

/// The line that begins at `place` as the entry of a list, where it is one key.
fn as_an_entry(text: &str, place: Place) -> Option<String> {
    let (line, column) = from_zero(place)?;
    let whole = text.lines().nth(line)?;
    let line = whole.trim();
    if whole.len() - whole.trim_start().len() != column {
        return None;
    }
    let (key, _) = line.split_once(':')?;
    (is_key(key) && line.len() <= MAX_KEY).then(|| format!("- {line}"))
}

/// The word right before `place`, where it is an entry of a list by itself: the parser looked for its value in what follows.
fn bare_entry((text, place): (&str, Place)) -> Option<&str> {
    let (line, column) = from_zero(place)?;
    let begin: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let whole = text.get(begin..)?;
    let at = whole.char_indices().nth(column).map_or(whole.len(), |(at, _)| at);
    let before = text.get(..begin + at)?.trim_end();
    // the next entry, or the end of the list
    let before = before.strip_suffix(['-', ',', ']']).unwrap_or(before).trim_end();
    let list = before.trim_end_matches(is_part);
    let (word, list) = (before.get(list.len()..)?, list.trim_end_matches(' '));
    (is_key(word) && list.ends_with(['[', ',', '-'])).then_some(word)
}

fn named(text: &str, place: Place, may_be_key: bool) -> Option<String> {
    let (line, column) = from_zero(place)?;
    let whole = text.lines().nth(line)?;
    let at = whole.char_indices().nth(column).map_or(whole.len(), |(at, _)| at);
    let (before, behind) = whole.split_at(at);
    if let Some((key, _)) = behind.split_once(':').filter(|_| may_be_key)
        && is_key(key)
    {
        return Some(format!("'{key}'"));
    }
    let before = before.trim_end();
    if let Some(key) = last_key(before) {
        return Some(format!("'{key}'"));
    }
    if let Some((list, _)) = before.rsplit_once('[')
        && let Some(key) = last_key(list.trim_end())
    {
        return Some(format!("an entry of '{key}'"));
    }
    // keys with values below their key
    let above = || text.lines().take(line).filter(|line| !line.trim().is_empty()).last();
    let key = last_key(above().filter(|_| before.is_empty())?.trim_end())?;
    Some(format!("'{key}'"))
}

/// The key at the end of `text`, behind which only its colon stands.
fn last_key(text: &str) -> Option<&str> {
    let text = text.strip_suffix(':')?;
    let begin = text.rfind(|char: char| !is_part(char)).map_or(0, |at| at + 1);
    text.get(begin..).filter(|key| is_key(key))
}

fn is_key(word: &str) -> bool {
    !word.is_empty() && word.len() <= MAX_KEY && word.chars().all(is_part)
}

fn is_part(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_its_value_is_named() {
        for (text, line, column, expected) in [
            ("a: [ {b: 1}, send ]", 1, 20, Some("send")),
            ("a: [ send, {b: 1} ]", 1, 12, Some("send")),
            ("a:\n  - b: 1\n  - send\n  - c: 1\n", 4, 5, Some("send")),
            ("a:\n  - send\nb:\n", 3, 1, Some("send")),
            ("a:\n  - send:\n      b: 1\n", 3, 7, None),
            ("a: { send, b: 1 }", 1, 12, None),
            ("\u{fffd}- \u{fffd}", 1, 4, None),
            ("", 1, 1, None),
        ] {
            assert_eq!(bare_entry((text, Place { line, column })), expected, "{text}");
        }
    }

    #[test]
    fn the_key_of_a_place_is_found_in_the_text() {
        let text = "ports: { a: { cores: [1, x] } }\nflows:\n  x:\n    packet:\n\n      - udp\n    size: { é: 1 }\n";
        for (line, column, may_be_key, expected) in [
            (1, 1, true, "'ports'"),
            (1, 13, false, "'a'"),
            (1, 13, true, "'a'"),
            (1, 22, false, "'cores'"),
            (1, 26, false, "an entry of 'cores'"),
            (4, 5, true, "'packet'"),
            (4, 5, false, "'x'"),
            (6, 7, false, "'packet'"),
            (6, 9, false, "this"),
            (7, 16, false, "this"),
            (9, 1, true, "this"),
            (0, 0, true, "this"),
            (u64::MAX, u64::MAX, true, "this"),
        ] {
            let said = subject(Some((text, Place { line, column })), may_be_key);
            assert_eq!(said, expected, "{line}:{column}");
        }
        assert_eq!(subject(None, true), "this");
    }
}
