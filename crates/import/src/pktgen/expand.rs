//! What becomes of a word: variables, calculations and the output of known helpers are put into it, and it
//! is divided at blanks where it is not quoted.

use std::borrow::Cow;

use wirebeat_units::fault;

use super::braces::alternatives;
use super::helpers::printed;
use super::interpreter::{Interpreter, Value};
use super::lexer::{Token, tokens};
use super::syntax::Input;
use super::word::{Otherwise, Part, Piece, Word};
use crate::text::printable;
use crate::{Line, ScriptError};

/// How deep commands may be put into one another: `$(seq $(seq 3))`.
const MAX_SUBSTITUTIONS: usize = 8;
/// How many bytes take as long as a piece of a word.
const PIECE: usize = 4;

/// What a word becomes.
#[derive(Clone)]
pub(super) struct Field<'w> {
    pub word: &'w Word,
    /// `None`: that depends on the machine.
    pub text: Option<String>,
    /// A variable in it that is not set.
    pub unset: Option<String>,
    /// There is nothing of it but that variable.
    pub absent: bool,
}

impl Field<'_> {
    pub fn begins_with(&self, c: char) -> bool {
        self.text.as_ref().is_some_and(|text| text.starts_with(c))
    }
}

impl Interpreter<'_, '_> {
    /// What a word becomes that must be known.
    pub(super) fn known(&self, line: &Line, field: &Field<'_>) -> Result<String, ScriptError> {
        if let Some(name) = &field.unset {
            return Err(line.wrong(fault!(
                "${} is not set", printable(name);
                "set it in the script, or give the script its arguments behind '--'"
            )));
        }
        field.text.clone().ok_or_else(|| {
            line.wrong(fault!(
                "'{}' depends on the machine or on what calls the script",
                printable(&field.word.shown());
                "write what it stands for"
            ))
        })
    }

    /// `read -r MIN MAX <<< $(parse_addr 10.0.0.0/8)`, as the samples write it.
    pub(super) fn read(
        &mut self,
        line: &Line,
        rest: &[Field<'_>],
        input: Option<&Input>,
    ) -> Result<(), ScriptError> {
        let mut names = Vec::new();
        let mut words = rest.iter().filter_map(|field| field.text.as_deref());
        while let Some(word) = words.next() {
            match word {
                "-a" => {
                    let why = "arrays are not read; what it holds is not known here";
                    self.leave_out(line, "read -a", why);
                    words.next().into_iter().for_each(|name| self.set(name, Some(None)));
                }
                "-d" | "-i" | "-n" | "-N" | "-p" | "-t" | "-u" => {
                    words.next();
                }
                option if option.starts_with('-') => {}
                name => names.push(name.to_owned()),
            }
        }
        let text = match input {
            // Other signs than blanks divide it then.
            _ if self.variables.contains_key("IFS") => None,
            Some(Input::Text(_, word)) => self.expand(line, word)?.text,
            _ => None,
        };
        let mut left = text.as_deref().map(|text| text.lines().next().unwrap_or("").trim());
        let last = names.len().saturating_sub(1);
        for (at, name) in names.iter().enumerate() {
            // The last one has all that is left.
            let (value, rest) = match left.map(|left| (left, left.split_once(char::is_whitespace)))
            {
                Some((_, Some((first, rest)))) if at < last => {
                    (Some(first), Some(rest.trim_start()))
                }
                Some((all, _)) => (Some(all), Some("")),
                None => (None, None),
            };
            self.set(name, Some(value.map(str::to_owned)));
            left = rest;
        }
        Ok(())
    }

    /// What a helper of `functions.sh` prints; `None` for other commands.
    fn helper(&mut self, line: &Line, inside: &str) -> Result<Option<String>, ScriptError> {
        self.take_bytes(line, inside.len())?;
        if self.substitutions == MAX_SUBSTITUTIONS {
            return Err(line.wrong(format!(
                "commands are put into one another more than {MAX_SUBSTITUTIONS} deep"
            )));
        }
        self.substitutions += 1;
        let mut words = Vec::new();
        for (_, token) in tokens(line, inside)? {
            match token {
                Token::Word(word) => words.push(word),
                _ => {
                    self.substitutions -= 1;
                    return Ok(None);
                }
            }
        }
        let fields = self.fields(line, &words)?;
        self.substitutions -= 1;
        let texts: Option<Vec<&str>> = fields
            .iter()
            .filter(|field| !field.absent)
            .map(|field| field.text.as_deref())
            .collect();
        Ok(texts.and_then(|texts| printed(&texts)))
    }

    /// A variable or an argument. The outer `None`: it is not set; the inner: it depends on the machine.
    pub(super) fn lookup(&self, name: &str) -> Option<Option<Cow<'_, str>>> {
        fn shown(value: &Value) -> Option<Cow<'_, str>> {
            value.as_deref().map(Cow::Borrowed)
        }
        let Some(arguments) = &self.arguments else { return self.variables.get(name).map(shown) };
        let of_arguments = |name: &str| name.starts_with(|c: char| "#@*123456789".contains(c));
        if of_arguments(name) && self.caller.is_none() {
            self.asked.set(true);
        }
        match name {
            "#" => Some(Some(arguments.len().to_string().into())),
            "@" | "*" => {
                let all: Option<Vec<&str>> = arguments.iter().map(Option::as_deref).collect();
                Some(all.map(|all| all.join(" ").into()))
            }
            name if name.starts_with(|c: char| c.is_ascii_digit()) => {
                let at = name.parse::<usize>().ok()?.checked_sub(1)?;
                Some(arguments.get(at).map_or(Some("".into()), shown))
            }
            name => self.variables.get(name).map(shown),
        }
    }

    /// The value of a part, and the variable in it that is not set.
    fn value(&mut self, line: &Line, part: &Part) -> Result<(Value, Option<String>), ScriptError> {
        // Even what becomes nothing takes its time.
        let name = if let Part::Variable { name, .. } = part { name.len() } else { 0 };
        self.take_bytes(line, PIECE + name)?;
        let value = match part {
            Part::Text(text) => Some(text.clone()),
            Part::Variable { name, otherwise } => match (self.lookup(name), otherwise) {
                (Some(Some(value)), Some(otherwise)) if value.is_empty() && otherwise.if_empty => {
                    return self.otherwise(line, name, otherwise);
                }
                (Some(value), _) => value.map(Cow::into_owned),
                (None, Some(otherwise)) => return self.otherwise(line, name, otherwise),
                (None, None) => {
                    return Ok((Some(String::new()), Some(name.clone())));
                }
            },
            Part::Arithmetic(text) => self.calculate(line, text)?.map(|value| value.to_string()),
            Part::Command(inside) => self.helper(line, inside)?,
            Part::Unknown(_) => None,
        };
        self.take_bytes(line, value.as_ref().map_or(0, String::len))?;
        Ok((value, None))
    }

    /// What stands for a variable that is not set.
    fn otherwise(
        &mut self,
        line: &Line,
        name: &str,
        otherwise: &Otherwise,
    ) -> Result<(Value, Option<String>), ScriptError> {
        let (text, unset) = self.joined(line, "", &otherwise.word.pieces)?;
        if otherwise.assigns {
            self.set(name, Some(text.clone()));
        }
        Ok((text, unset))
    }

    /// What a word becomes that stays one.
    pub(super) fn expand<'w>(
        &mut self,
        line: &Line,
        word: &'w Word,
    ) -> Result<Field<'w>, ScriptError> {
        let (text, unset) = self.joined(line, "", &word.pieces)?;
        Ok(Field { word, text, unset, absent: false })
    }

    /// What pieces become behind a text, and a variable in them that is not set.
    pub(super) fn joined(
        &mut self,
        line: &Line,
        begins: &str,
        pieces: &[Piece],
    ) -> Result<(Value, Option<String>), ScriptError> {
        self.take_bytes(line, begins.len())?;
        let (mut text, mut unset) = (Some(begins.to_owned()), None);
        for piece in pieces {
            let (value, not_set) = self.value(line, &piece.part)?;
            match (&mut text, value) {
                (Some(text), Some(value)) => text.push_str(&value),
                (text, _) => *text = None,
            }
            unset = unset.or(not_set);
        }
        Ok((text, unset))
    }

    /// What words become.
    pub(super) fn fields<'w>(
        &mut self,
        line: &Line,
        words: &'w [Word],
    ) -> Result<Vec<Field<'w>>, ScriptError> {
        let mut fields = Vec::new();
        for word in words {
            let room = self.room();
            match alternatives(word, room).map_err(|what| self.exceeded(line, what))? {
                None => fields.extend(self.divided(line, word, word)?),
                Some(words) => {
                    self.take_steps(line, words.len() as u64)?;
                    for alternative in &words {
                        fields.extend(self.divided(line, alternative, word)?);
                    }
                }
            }
        }
        Ok(fields)
    }

    /// What a word without braces becomes; `written` is the word as it stands in the script.
    fn divided<'w>(
        &mut self,
        line: &Line,
        word: &Word,
        written: &'w Word,
    ) -> Result<Vec<Field<'w>>, ScriptError> {
        let field = |text: Value| Field { word: written, text, unset: None, absent: false };
        let is_all = |piece: &Piece| {
            piece.quoted && matches!(&piece.part, Part::Variable { name, .. } if name == "@")
        };
        if let ([piece], Some(arguments)) = (word.pieces.as_slice(), self.arguments.clone())
            && is_all(piece)
        {
            self.asked.set(true);
            self.take_steps(line, arguments.len() as u64)?;
            self.take_bytes(line, arguments.iter().flatten().map(String::len).sum())?;
            return Ok(arguments.iter().map(|text| field(text.clone())).collect());
        }
        // The text that has not come to its end yet is the current one.
        let (mut texts, mut current): (Vec<String>, Option<String>) = (Vec::new(), None);
        let (mut unset, mut known) = (None, true);
        for piece in &word.pieces {
            let (value, not_set) = self.value(line, &piece.part)?;
            unset = unset.or(not_set);
            let Some(value) = value else {
                known = false;
                continue;
            };
            if piece.quoted || matches!(piece.part, Part::Text(_)) {
                current.get_or_insert_default().push_str(&value);
                continue;
            }
            // Other signs than blanks divide it then.
            known &= !self.variables.contains_key("IFS");
            self.take_steps(line, value.split_whitespace().skip(1).count() as u64)?;
            if value.starts_with(char::is_whitespace) {
                texts.extend(current.take());
            }
            for (at, text) in value.split_whitespace().enumerate() {
                if at > 0 {
                    texts.extend(current.take());
                }
                current.get_or_insert_default().push_str(text);
            }
            if value.ends_with(char::is_whitespace) {
                texts.extend(current.take());
            }
        }
        texts.extend(current);
        let mut fields: Vec<Field<'w>> = match known {
            true => texts.into_iter().map(|text| field(Some(text))).collect(),
            false => vec![field(None)],
        };
        if fields.is_empty() && unset.is_some() {
            fields.push(Field { absent: true, ..field(Some(String::new())) });
        }
        // Naming it once is enough.
        if let Some(first) = fields.first_mut() {
            first.unset = unset;
        }
        Ok(fields)
    }
}
