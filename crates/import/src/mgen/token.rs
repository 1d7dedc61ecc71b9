//! The words of an MGEN script: separated by blanks, and what stands in brackets as one.

use crate::text::{closing, printable};
use crate::{Line, ScriptError};

/// A word, or what stands between `[` and the `]` that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MgenToken<'a> {
    Word(&'a str),
    Group(&'a str),
}

/// The rest of a line, word by word.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    line: &'a Line,
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub fn of(line: &'a Line, text: &'a str) -> Tokens<'a> {
        Tokens { line, rest: text.trim() }
    }

    pub fn line(&self) -> &'a Line {
        self.line
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn next(&mut self) -> Result<Option<MgenToken<'a>>, ScriptError> {
        let token = if self.rest.is_empty() {
            return Ok(None);
        } else if let Some(inside) = self.rest.strip_prefix('[') {
            let end = closing(inside, '[', ']')
                .ok_or_else(|| self.line.wrong("there is a '[' without its ']' on this line"))?;
            self.rest = inside.get(end + 1..).unwrap_or("");
            MgenToken::Group(inside.get(..end).unwrap_or("").trim())
        } else {
            let end = self.rest.find(|c: char| c.is_whitespace() || c == '[');
            let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest;
            MgenToken::Word(word)
        };
        self.rest = self.rest.trim_start();
        Ok(Some(token))
    }

    /// That nothing comes now.
    pub fn end(&self) -> Result<(), ScriptError> {
        match self.rest {
            "" => Ok(()),
            rest => Err(self.line.wrong(format!("'{}' is too much", printable(rest)))),
        }
    }

    /// The word that must come now.
    pub fn word(&mut self, what: &str) -> Result<&'a str, ScriptError> {
        match self.next()? {
            Some(MgenToken::Word(word)) => Ok(word),
            _ => Err(self.line.wrong(format!("{what} is missing"))),
        }
    }

    /// The word that must come now, as what it means.
    pub fn value<T>(
        &mut self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ScriptError> {
        let word = self.word(what)?;
        read(word).ok_or_else(|| self.line.wrong(format!("'{}' is not {what}", printable(word))))
    }

    /// What must come now in brackets.
    pub fn group(&mut self, what: &str) -> Result<&'a str, ScriptError> {
        match self.next()? {
            Some(MgenToken::Group(group)) => Ok(group),
            _ => Err(self.line.wrong(format!("{what} stands in brackets: [ … ]"))),
        }
    }
}
