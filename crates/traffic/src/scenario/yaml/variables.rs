//! Variables: `${rate}` in a scenario's text stands for what `variables` or whoever runs it says.
//!
//! A value is put where a scalar is read (`filled.rs`), never into the text, so that it cannot become a
//! key, a list or a comment. The braces of `${…}` would end a plain scalar in `{ rate: ${rate} }`; so
//! before parsing they are exchanged for characters that mean nothing to YAML. A character stays a
//! character, and lines and columns stay what they are.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use wirebeat_units::{Fault, fault};

use super::MAX_BYTES;
use crate::scenario::Place;
use crate::text::hint::with_hint;

/// How deep variables may be used within variables.
pub const MAX_NESTED: usize = 8;
/// The longest value of a variable, in bytes.
pub const MAX_VALUE: usize = 1 << 16;

// Characters of a private use area (Unicode §23.5), which no scenario needs.
const OPEN: char = '\u{f5e0}';
const CLOSE: char = '\u{f5e1}';
const LITERAL: char = '\u{f5e2}';
const BROKEN: char = '\u{f5e3}';
const MARKS: [char; 4] = [OPEN, CLOSE, LITERAL, BROKEN];

/// Whether a text may use variables.
pub(super) fn uses_variables(text: &str) -> bool {
    text.contains("${")
}

/// Whether this can be the name of a variable: letters, digits, `-` and `_`.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(letter)
}

/// The text with the braces of variables exchanged. The place of a character that stands for itself and
/// is one of those they are exchanged for is an error.
pub(super) fn marked(text: &str) -> Result<String, Place> {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if let Some(at) = line.chars().position(|c| MARKS.contains(&c)) {
            return Err(Place { line: number, column: at as u64 + 1 });
        }
        mark_line(line, &mut out);
    }
    Ok(out)
}

fn mark_line(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(behind) = from.strip_prefix("$${") {
            out.extend(['$', '$', LITERAL]);
            rest = behind;
            if let Some((name, behind)) = behind.split_once('}').filter(|(name, _)| is_name(name)) {
                out.push_str(name);
                out.push(CLOSE);
                rest = behind;
            }
        } else if let Some(behind) = from.strip_prefix("${") {
            let name = behind.split_once('}').filter(|(name, _)| is_name(name));
            match name {
                Some((name, behind)) => {
                    out.extend(['$', OPEN]);
                    out.push_str(name);
                    out.push(CLOSE);
                    rest = behind;
                }
                None => {
                    out.extend(['$', BROKEN]);
                    rest = behind;
                }
            }
        } else {
            out.push('$');
            rest = from.strip_prefix('$').unwrap_or("");
        }
    }
    out.push_str(rest);
}

/// A text that is read again as it is, whatever of it looks like a variable.
pub(super) fn escaped(text: String) -> String {
    if uses_variables(&text) { text.replace("${", "$${") } else { text }
}

/// A message in which the braces are braces again.
pub(super) fn unmarked(message: &str) -> String {
    message.replace([OPEN, LITERAL, BROKEN], "{").replace(CLOSE, "}")
}

/// The values of all variables, with nothing left to fill in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    values: HashMap<String, String>,
    /// Bytes that may still be filled in.
    left: Cell<usize>,
}

impl Variables {
    /// From what is written of each: marked, and the nearest only. What is said from outside holds
    /// instead, as it is. An error has the name that it is about.
    pub(super) fn resolve(
        written: &HashMap<String, String>,
        from_outside: &[(String, String)],
    ) -> Result<Variables, (String, Fault)> {
        let mut variables = Variables {
            values: from_outside.iter().cloned().collect(),
            left: Cell::new(MAX_BYTES),
        };
        let mut names: Vec<&String> = written.keys().collect();
        names.sort_unstable();
        let mut settled = HashMap::new();
        for name in names {
            let depth = variables.settle(name, written, &mut settled, 0);
            depth.map_err(|why| (name.clone(), why))?;
        }
        Ok(variables)
    }

    /// Finds the value of `name`, and those that it is made of. Returns how deep variables stand within it, which
    /// `settled` has of those that were found before; `within` is how deep it stands in others itself.
    fn settle(
        &mut self,
        name: &str,
        written: &HashMap<String, String>,
        settled: &mut HashMap<String, usize>,
        within: usize,
    ) -> Result<usize, Fault> {
        if let Some(depth) = settled.get(name) {
            return Ok(*depth);
        }
        let Some(text) = written.get(name).filter(|_| !self.values.contains_key(name)) else {
            return Ok(0);
        };
        let too_deep = || {
            fault!(
                "variables stand within variables more than {MAX_NESTED} deep, or one within itself"
            )
        };
        if within > MAX_NESTED {
            return Err(too_deep());
        }
        let mut depth = 0;
        for piece in pieces(text) {
            if let Piece::Variable(other) = piece {
                depth = depth.max(1 + self.settle(other, written, settled, within + 1)?);
            }
        }
        if depth > MAX_NESTED {
            return Err(too_deep());
        }
        let value = self.fill(text)?.into_owned();
        self.values.insert(name.to_owned(), value);
        settled.insert(name.to_owned(), depth);
        Ok(depth)
    }

    /// Whether `text` is `wanted` once it is filled in, which this does not do: it costs nothing of what may be.
    pub(crate) fn means(&self, text: &str, wanted: &str) -> bool {
        let mut rest = Some(wanted);
        for piece in pieces(text) {
            let next = match piece {
                Piece::Text(text) => Some(text),
                Piece::Open => Some("${"),
                Piece::Close => Some("}"),
                Piece::Variable(name) => self.values.get(name).map(String::as_str),
                Piece::Broken => None,
            };
            rest = rest.zip(next).and_then(|(rest, next)| rest.strip_prefix(next));
        }
        rest == Some("")
    }

    /// `text` with every variable in it replaced.
    pub(crate) fn fill<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Fault> {
        if !text.contains(MARKS) {
            return Ok(Cow::Borrowed(text));
        }
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Open => out.push_str("${"),
                Piece::Close => out.push('}'),
                Piece::Variable(name) => out.push_str(self.values.get(name).ok_or_else(|| {
                    let mut known: Vec<&str> = self.values.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    match known.is_empty() {
                        true => fault!(
                            "there is no variable '{name}'";
                            "declare it: 'variables: {{ {name}: … }}' at the top, or write $${{ \
                             for a dollar and a brace"
                        ),
                        false => with_hint("there is no variable", name, known),
                    }
                })?),
                Piece::Broken => {
                    return Err(fault!(
                        "this is not a variable";
                        "write ${{name}} with letters, digits, '-' and '_', or $${{ for a \
                         dollar and a brace"
                    ));
                }
            }
            if out.len() > MAX_VALUE {
                return Err(fault!(
                    "with its variables this is longer than {MAX_VALUE} bytes";
                    "make it shorter"
                ));
            }
        }
        let left = self.left.get().checked_sub(out.len()).ok_or_else(|| {
            fault!("variables make this text longer than the {MAX_BYTES} bytes of a scenario")
        })?;
        self.left.set(left);
        Ok(Cow::Owned(out))
    }
}

enum Piece<'t> {
    Text(&'t str),
    /// `${` as it is.
    Open,
    /// Its `}`.
    Close,
    Variable(&'t str),
    /// The beginning of a variable without its end.
    Broken,
}

/// What a marked text consists of.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find(MARKS) else {
            return Some(Piece::Text(std::mem::take(&mut rest)));
        };
        let (before, from) = rest.split_at(at);
        let mut behind = from.chars();
        let mark = behind.next();
        // Every mark has its dollars before it, unless an escape took them away.
        let dollars = match mark {
            Some(LITERAL) => "$$",
            Some(CLOSE) => "",
            _ => "$",
        };
        let before = before.strip_suffix(dollars).unwrap_or(before);
        if !before.is_empty() {
            rest = rest.get(before.len()..).unwrap_or("");
            return Some(Piece::Text(before));
        }
        rest = behind.as_str();
        Some(match mark {
            Some(LITERAL) => Piece::Open,
            Some(CLOSE) => Piece::Close,
            Some(OPEN) => match rest.split_once(CLOSE) {
                Some((name, behind)) => {
                    rest = behind;
                    Piece::Variable(name)
                }
                None => Piece::Broken,
            },
            _ => Piece::Broken,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(written: &[(&str, &str)]) -> Result<Variables, (String, Fault)> {
        let written = written
            .iter()
            .map(|(name, value)| ((*name).to_owned(), marked(value).unwrap()))
            .collect();
        Variables::resolve(&written, &[("n".to_owned(), "5".to_owned())])
    }

    fn filled(text: &str) -> Result<String, Fault> {
        let variables = variables(&[("rate", "${n}0kpps"), ("n", "4")]).unwrap();
        variables.fill(&marked(text).unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn variables_stand_for_their_values() {
        for (text, value) in [
            ("${rate}", "50kpps"),
            ("a ${n}${n} $ b", "a 55 $ b"),
            ("$${n}", "${n}"),
            ("$$${n}", "$${n}"),
            ("$n {n} $", "$n {n} $"),
            ("", ""),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_a_text_means_is_told_without_filling_it_in() {
        let variables = variables(&[("rate", "${n}0kpps"), ("n", "4")]).unwrap();
        let left = variables.left.get();
        for (text, value) in [
            ("${rate}", "50kpps"),
            ("a ${n}${n} $ b", "a 55 $ b"),
            ("$${n}", "${n}"),
            ("plain", "plain"),
        ] {
            let text = marked(text).unwrap();
            assert!(variables.means(&text, value), "{text}");
            for other in [&format!("{value} "), value.split_at(1).1, ""] {
                assert!(!variables.means(&text, other), "{text}: {other}");
            }
        }
        for text in ["${none}", "${n"] {
            assert!(!variables.means(&marked(text).unwrap(), text));
        }
        assert_eq!(variables.left.get(), left);
    }

    #[test]
    fn what_is_no_variable_is_told() {
        for (text, message) in [
            ("${rat}", "there is no variable 'rat'; did you mean 'rate'?"),
            ("${}", "this is not a variable; write ${name}"),
            ("${n", "this is not a variable"),
            ("${n:-5}", "this is not a variable"),
        ] {
            let error = filled(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_text_keeps_its_columns() {
        let text = "a: { rate: ${rate}, b: \"$${\" }\r\nc: é${n} $${n} }";
        let marked = marked(text).unwrap();
        assert_eq!(marked.chars().count(), text.chars().count());
        assert_eq!(unmarked(&marked), text);
        assert_eq!(super::marked("a\nb\u{f5e1}"), Err(Place { line: 2, column: 2 }));
    }

    #[test]
    fn nesting_and_growth_have_an_end() {
        let deep: Vec<(String, String)> =
            (0..20).map(|i| (format!("v{i:02}"), format!("${{v{:02}}}", i + 1))).collect();
        let deep: Vec<(&str, &str)> = deep.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert!(variables(&deep).unwrap_err().1.what.contains("more than 8 deep"));
        assert!(
            variables(&[("a", "${b}"), ("b", "${a}")])
                .unwrap_err()
                .1
                .what
                .contains("within itself")
        );
        // Whatever order they are settled in: nine deep is too deep, and eight is not.
        for backwards in [false, true] {
            for (links, fits) in [(8, true), (9, false)] {
                let name = |n: usize| format!("v{:02}", if backwards { links - n } else { n });
                let chain: Vec<(String, String)> = (0..=links)
                    .map(|n| {
                        (
                            name(n),
                            if n < links { format!("${{{}}}", name(n + 1)) } else { String::new() },
                        )
                    })
                    .collect();
                let chain: Vec<(&str, &str)> = chain.iter().map(|(a, b)| (&**a, &**b)).collect();
                assert_eq!(variables(&chain).is_ok(), fits, "{links} {backwards}");
            }
        }
        let empty =
            [("a", "${b}".repeat(9_000)), ("b", "${c}".repeat(9_000)), ("c", String::new())];
        let empty: Vec<(&str, &str)> = empty.iter().map(|(a, b)| (*a, &**b)).collect();
        assert_eq!(variables(&empty).unwrap().values["a"], "");
        let long = "x".repeat(MAX_VALUE / 2 + 1);
        let error = variables(&[("a", "${b}${b}"), ("b", &long)]).unwrap_err();
        assert!(error.1.what.contains("longer than 65536 bytes"), "{error:?}");
    }
}
