//! The pieces of a word: text with and without quotes, and what is to be put into it.

use super::lexer::Lexer;
use super::word::{Otherwise, Part, Word, is_name, is_variable};
use crate::ScriptError;
use crate::text::{MAX_OPEN, closing, printable};

/// How deep defaults may stand within defaults: `${a:-${b:-c}}`.
const MAX_DEPTH: usize = 8;

/// Where a text ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ends {
    /// At the second quote.
    AtQuote,
    /// With the text.
    WithText,
}

impl Lexer<'_> {
    /// `( … )` within a word: an array, or a process (`<( … )`).
    pub(super) fn unread(&mut self, word: &mut Word, begun: u64) -> Result<(), ScriptError> {
        let open = self.rest.find('(').map_or(0, |at| at + 1);
        let inside = self.rest.get(open..).unwrap_or("");
        let end = closing(inside, '(', ')').ok_or_else(|| self.open(begun, "("))?;
        word.push(Part::Unknown(printable(self.skip(open + end + 1))), false);
        Ok(())
    }

    /// What comes next of a word without quotes.
    pub(super) fn piece(&mut self, word: &mut Word, begun: u64) -> Result<(), ScriptError> {
        match self.next() {
            Some('\'') => {
                self.skip(1);
                let end = self.rest.find('\'');
                let end = end.ok_or_else(|| self.wrong(begun, "a ' has no second one"))?;
                word.add(self.skip(end), true);
                self.skip(1);
            }
            Some('"') => {
                self.skip(1);
                self.quoted(word, begun, Ends::AtQuote)?;
            }
            Some('$' | '`') => self.expansion(word, begun, false)?,
            Some('\\') => {
                self.skip(1);
                let escaped = self.next().map_or(0, char::len_utf8);
                match self.skip(escaped) {
                    "\n" => {}
                    escaped => word.add(escaped, true),
                }
            }
            Some(c) => word.add(self.skip(c.len_utf8()), false),
            None => {}
        }
        Ok(())
    }

    /// What stands within `"`, or a document.
    pub(super) fn quoted(
        &mut self,
        word: &mut Word,
        begun: u64,
        ends: Ends,
    ) -> Result<(), ScriptError> {
        let before = word.pieces.len();
        loop {
            match self.next() {
                None if ends == Ends::AtQuote => {
                    return Err(self.wrong(begun, "a \" has no second one"));
                }
                Some('"') if ends == Ends::AtQuote => {
                    self.skip(1);
                    break;
                }
                None => break,
                Some('$' | '`') => self.expansion(word, begun, true)?,
                Some('\\') => {
                    self.skip(1);
                    let next = self.next();
                    match self.skip(next.map_or(0, char::len_utf8)) {
                        "\n" => {}
                        escaped @ ("\\" | "$" | "`") => word.add(escaped, true),
                        "\"" if ends == Ends::AtQuote => word.add("\"", true),
                        other => {
                            word.add("\\", true);
                            word.add(other, true);
                        }
                    }
                }
                Some(c) => word.add(self.skip(c.len_utf8()), true),
            }
        }
        if word.pieces.len() == before {
            // Even "" is a word.
            word.add("", true);
        }
        Ok(())
    }

    fn open(&self, begun: u64, what: &str) -> ScriptError {
        let why = format!("a {what} is not closed, or more than {MAX_OPEN} are open within it");
        self.wrong(begun, why)
    }

    fn expansion(&mut self, word: &mut Word, begun: u64, quoted: bool) -> Result<(), ScriptError> {
        if self.rest.starts_with('`') {
            self.skip(1);
            let end = self.rest.find('`').ok_or_else(|| self.open(begun, "`"))?;
            word.push(Part::Command(self.skip(end).to_owned()), quoted);
            self.skip(1);
        } else if let Some(inside) = self.rest.strip_prefix("$(") {
            let end = closing(inside, '(', ')').ok_or_else(|| self.open(begun, "$("))?;
            let inside = inside.get(..end).unwrap_or("");
            let sum = inside.strip_prefix('(').and_then(|sum| sum.strip_suffix(')'));
            // `$((1) + (2))` calculates; `$( (a); (b) )` does not.
            let sum = sum.filter(|sum| closing(sum, '(', ')').is_none());
            word.push(
                match sum {
                    Some(sum) => Part::Arithmetic(sum.to_owned()),
                    None => Part::Command(inside.to_owned()),
                },
                quoted,
            );
            self.skip(end + 3);
        } else if let Some(inside) = self.rest.strip_prefix("${") {
            let end = closing(inside, '{', '}').ok_or_else(|| self.open(begun, "${"))?;
            let part = self.braced(inside.get(..end).unwrap_or(""), begun)?;
            word.push(part, quoted);
            self.skip(end + 3);
        } else {
            self.skip(1);
            match name(self.rest) {
                // `$'…'` has escapes of its own, and `$"…"` is translated.
                "" if !quoted && self.rest.starts_with('\'') => {
                    word.push(Part::Unknown("$'".to_owned()), false);
                }
                "" if !quoted && self.rest.starts_with('"') => {}
                "" => word.add("$", quoted),
                name => {
                    let name = self.skip(name.len()).to_owned();
                    word.push(Part::Variable { name, otherwise: None }, quoted);
                }
            }
        }
        Ok(())
    }

    /// What stands in `${ … }`.
    fn braced(&self, inside: &str, begun: u64) -> Result<Part, ScriptError> {
        let unknown = || Ok(Part::Unknown(format!("${{{}}}", printable(inside))));
        let name = name(inside);
        let rest = inside.get(name.len()..).unwrap_or("");
        let (if_empty, operator) =
            rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
        let (assigns, default) = match operator.split_at_checked(1) {
            None if rest.is_empty() && !name.is_empty() => {
                return Ok(Part::Variable { name: name.to_owned(), otherwise: None });
            }
            Some(("-", default)) => (false, default),
            Some(("=", default)) if is_variable(name) => (true, default),
            _ => return unknown(),
        };
        if name.is_empty() {
            return unknown();
        }
        if self.depth == MAX_DEPTH {
            let why = format!("defaults stand within one another more than {MAX_DEPTH} deep");
            return Err(self.wrong(begun, why));
        }
        let mut word = Word::default();
        let mut lexer = Lexer::new(self.file, begun, default, self.depth + 1);
        while !lexer.rest.is_empty() {
            lexer.piece(&mut word, begun)?;
        }
        let otherwise = Some(Otherwise { word, if_empty, assigns });
        Ok(Part::Variable { name: name.to_owned(), otherwise })
    }
}

/// The name of a variable that `text` begins with.
fn name(text: &str) -> &str {
    let special = text.starts_with(['@', '*', '#', '?', '$', '!', '-'])
        || text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    text.get(..if special { 1 } else { end }).unwrap_or("")
}
