//! What becomes of a word: variables, calculations and the output of known helpers are put into it.

use super::helpers::printed;
use super::interpreter::Interpreter;
use super::lexer::{Part, Token, Word, tokens};
use super::parser::Command;
use crate::text::printable;
use crate::{Line, ScriptError};

/// The most bytes that all variables and words may be put together to, in all.
const MAX_EXPANDED: usize = 64 << 20;
/// What a word becomes.
pub(super) struct Expanded {
    /// `None`: that depends on the machine.
    pub text: Option<String>,
    pub quoted: bool,
    /// A variable in it that is not set.
    pub unset: Option<String>,
}

impl Interpreter<'_, '_> {
    /// What a word becomes that must be known.
    pub(super) fn known(&mut self, line: &Line, word: &Word) -> Result<String, ScriptError> {
        let expanded = self.expand(line, word)?;
        if let Some(name) = expanded.unset {
            return Err(line.wrong(format!(
                "${} is not set; set it in the script, since what calls the script is not known here",
                printable(&name)
            )));
        }
        expanded.text.ok_or_else(|| {
            line.wrong(format!(
                "'{}' depends on the machine or on what calls the script; write what it stands for",
                printable(&word.text())
            ))
        })
    }

    /// `read -r MIN MAX <<< $(parse_addr 10.0.0.0/8)`, as the samples write it.
    pub(super) fn read(
        &mut self,
        line: &Line,
        rest: &[Word],
        command: &Command,
    ) -> Result<(), ScriptError> {
        let names: Vec<String> = rest
            .iter()
            .filter_map(Word::plain)
            .filter(|name| !name.starts_with('-'))
            .map(str::to_owned)
            .collect();
        let values = match command.here.as_ref().map(|word| word.parts.as_slice()) {
            Some([Part::Command(inside)]) => self.helper(line, inside)?,
            Some(_) => match &command.here {
                Some(word) => self.expand(line, word)?.text,
                None => None,
            },
            None => None,
        };
        let mut values = values.as_deref().map(str::split_whitespace);
        for name in names {
            let value = values.as_mut().map(|values| values.next().unwrap_or("").to_owned());
            self.variables.insert(name, value);
        }
        Ok(())
    }

    /// What a helper of `functions.sh` prints; `None` for other commands.
    fn helper(&mut self, line: &Line, inside: &str) -> Result<Option<String>, ScriptError> {
        let mut words = Vec::new();
        for (_, token) in tokens(line, inside)? {
            let Token::Word(word) = token else { return Ok(None) };
            match self.expand(line, &word)?.text {
                Some(text) => words.push(text),
                None => return Ok(None),
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(printed(&words))
    }

    pub(super) fn expand(&mut self, line: &Line, word: &Word) -> Result<Expanded, ScriptError> {
        let mut expanded = Expanded { text: Some(String::new()), quoted: word.quoted, unset: None };
        for part in &word.parts {
            let value = match part {
                Part::Text(text) => Some(text.clone()),
                Part::Variable { name, default } => match (self.variables.get(name), default) {
                    (Some(Some(value)), Some(default)) if value.is_empty() => Some(default.clone()),
                    (Some(value), _) => value.clone(),
                    (None, Some(default)) => Some(default.clone()),
                    (None, None) => {
                        expanded.unset.get_or_insert_with(|| name.clone());
                        Some(String::new())
                    }
                },
                Part::Arithmetic(text) => self.calculate(text).map(|value| value.to_string()),
                Part::Command(inside) => self.helper(line, inside)?,
                Part::Unknown(_) => None,
            };
            self.expanded += value.as_ref().map_or(0, String::len);
            if self.expanded > MAX_EXPANDED {
                return Err(
                    line.wrong("the script's words become too long; do its variables double?")
                );
            }
            match (&mut expanded.text, value) {
                (Some(text), Some(value)) => text.push_str(&value),
                (text, _) => *text = None,
            }
        }
        Ok(expanded)
    }
}
