//! The words of a line of D-ITG: separated by blanks, without quotes.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use wirebeat_traffic::distribution::{Bounds, Distribution, Quantity};
use wirebeat_units::Fault;

use super::distribution::Positive;
use crate::number::Decimal;
use crate::text::printable;
use crate::{Line, ScriptError};

/// The rest of a line, word by word.
pub(super) struct Words<'a> {
    line: &'a Line,
    rest: Peekable<SplitWhitespace<'a>>,
    /// The option that is being read.
    option: &'a str,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a Line, text: &'a str) -> Words<'a> {
        Words { line, rest: text.split_whitespace().peekable(), option: "" }
    }

    pub fn line(&self) -> &'a Line {
        self.line
    }

    /// The next option.
    pub fn option(&mut self) -> Option<&'a str> {
        let option = self.rest.next()?;
        self.option = option;
        Some(option)
    }

    pub fn wrong(&self, problem: impl Into<Fault>) -> ScriptError {
        self.line.wrong(problem.into().at(printable(self.option)))
    }

    /// The word that must come now.
    pub fn next(&mut self, what: &str) -> Result<&'a str, ScriptError> {
        self.rest.next().ok_or_else(|| self.wrong(format!("{what} is missing")))
    }

    /// The word that may come now: neither an option nor a model.
    pub fn optional(&mut self) -> Option<&'a str> {
        let is_model = |word: &str| super::application::Model::find(word).is_some();
        self.rest.next_if(|word| !word.starts_with('-') && !is_model(word))
    }

    /// The word that must come now, as what it means.
    pub fn value<T>(
        &mut self,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ScriptError> {
        let word = self.next(what)?;
        read(word).ok_or_else(|| self.wrong(format!("'{}' is not {what}", printable(word))))
    }

    /// A number above 0.
    pub fn positive(&mut self, what: &str) -> Result<Positive, ScriptError> {
        let read = |word: &str| Decimal::parse(word).filter(|number| !number.is_zero());
        self.value(&format!("{what} above 0"), read).map(Positive)
    }

    /// That there is something to draw from a distribution.
    pub fn check<Q: Quantity>(&self, distribution: &Distribution<Q>) -> Result<(), ScriptError> {
        distribution.check().map_err(|(key, why)| self.wrong(format!("{key}: {why}")))?;
        let anything = distribution.sampler(None, Bounds { min: None, max: None });
        anything.map(|_| ()).map_err(|why| self.wrong(why.to_string()))
    }
}
