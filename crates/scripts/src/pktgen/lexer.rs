//! The words and operators of a shell script, as far as pktgen's scripts use them.

use crate::text::printable;
use crate::{Line, ScriptError};

/// A word, with what is to be put into it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    pub parts: Vec<Part>,
    /// Whether some of it was quoted: then it is one word, however many blanks it has.
    pub quoted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// `$NAME`, `${NAME:-default}`.
    Variable {
        name: String,
        default: Option<String>,
    },
    /// `$(( … ))`.
    Arithmetic(String),
    /// `$( … )` or backquotes.
    Command(String),
    /// An expansion that is not read.
    Unknown(String),
}

impl Word {
    pub fn of(text: &str) -> Word {
        Word { parts: vec![Part::Text(text.to_owned())], quoted: false }
    }

    /// The word, if nothing is to be put into it and it is not quoted.
    pub fn plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] if !self.quoted => Some(text),
            _ => None,
        }
    }

    /// What is written in it, whatever is put into it: the last of it at least is often known.
    pub fn text(&self) -> String {
        let text = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Variable { name, .. } => format!("${name}"),
            Part::Arithmetic(inside) => format!("$(({inside}))"),
            Part::Command(inside) => format!("$({inside})"),
            Part::Unknown(inside) => inside.clone(),
        });
        text.collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(Word),
    /// `(( … ))`.
    Arithmetic(String),
    /// A new line, or `;`.
    End,
    /// `;;`: the end of a case.
    CaseEnd,
    And,
    Or,
    Pipe,
    Background,
    /// `>` and `>>`.
    Out,
    /// `<`.
    In,
    /// `<<<`.
    Here,
    Open,
    Close,
}

/// All tokens with the numbers of their lines.
pub(super) fn tokens(line: &Line, text: &str) -> Result<Vec<(u64, Token)>, ScriptError> {
    let mut lexer = Lexer { file: line, number: line.number, rest: text, tokens: Vec::new() };
    while lexer.token()? {}
    Ok(lexer.tokens)
}

/// Operators, longer ones first.
const OPERATORS: [(&str, Token); 12] = [
    ("<<<", Token::Here),
    (">>", Token::Out),
    ("&&", Token::And),
    ("||", Token::Or),
    (";;", Token::CaseEnd),
    (";", Token::End),
    ("|", Token::Pipe),
    ("&", Token::Background),
    (">", Token::Out),
    ("<", Token::In),
    ("(", Token::Open),
    (")", Token::Close),
];

struct Lexer<'a> {
    file: &'a Line,
    number: u64,
    rest: &'a str,
    tokens: Vec<(u64, Token)>,
}

impl<'a> Lexer<'a> {
    fn wrong(&self, number: u64, why: &str) -> ScriptError {
        Line { number, ..self.file.clone() }.wrong(why)
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((self.number, token));
    }

    /// Takes `text` away, counting lines.
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.number += skipped.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.rest = rest;
        skipped
    }

    /// Reads one. `false`: there is none left.
    fn token(&mut self) -> Result<bool, ScriptError> {
        let Some(c) = self.rest.chars().next() else { return Ok(false) };
        match c {
            '\n' => {
                self.push(Token::End);
                self.skip(1);
            }
            '\\' if self.rest.starts_with("\\\n") => {
                self.skip(2);
            }
            c if c.is_whitespace() => {
                self.skip(c.len_utf8());
            }
            '#' => {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            }
            '(' if self.rest.starts_with("((") => self.arithmetic()?,
            '<' if self.rest.starts_with("<<") && !self.rest.starts_with("<<<") => self.document(),
            _ => match OPERATORS.iter().find(|(text, _)| self.rest.starts_with(text)) {
                Some((text, token)) => {
                    self.push(token.clone());
                    self.skip(text.len());
                }
                None => self.word()?,
            },
        }
        Ok(true)
    }

    fn arithmetic(&mut self) -> Result<(), ScriptError> {
        let begun = self.number;
        match self.rest.find("))") {
            Some(end) => {
                let inside = self.rest.get(2..end).unwrap_or("").to_owned();
                self.push(Token::Arithmetic(inside));
                self.skip(end + 2);
                Ok(())
            }
            None => Err(self.wrong(begun, "there is a '((' without its '))'")),
        }
    }

    /// A document within the script (`<<END`) is text for another program.
    fn document(&mut self) {
        self.skip(2);
        let line = self.rest.lines().next().unwrap_or("");
        let mark = line.trim_start_matches('-').split_whitespace().next().unwrap_or("");
        let mark = mark.trim_matches(['"', '\'']).to_owned();
        while !self.rest.is_empty() && !mark.is_empty() {
            self.skip(self.rest.find('\n').map_or(self.rest.len(), |end| end + 1));
            if self.rest.lines().next().is_some_and(|line| line.trim() == mark) {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
                break;
            }
        }
        self.push(Token::End);
    }

    fn word(&mut self) -> Result<(), ScriptError> {
        let (begun, mut word) = (self.number, Word::default());
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\'' => {
                    word.quoted = true;
                    self.skip(1);
                    let end = self.rest.find('\'');
                    let end = end.ok_or_else(|| self.wrong(begun, "a ' has no second one"))?;
                    add(&mut word, self.skip(end));
                    self.skip(1);
                }
                '"' => {
                    word.quoted = true;
                    self.skip(1);
                    self.quoted(&mut word, begun)?;
                }
                '$' | '`' => self.expansion(&mut word, begun)?,
                '\\' => {
                    self.skip(1);
                    let escaped = self.rest.chars().next().map_or(0, char::len_utf8);
                    match self.skip(escaped) {
                        "\n" => {}
                        escaped => add(&mut word, escaped),
                    }
                }
                c if c.is_whitespace() || ";|&<>()".contains(c) => break,
                c => add(&mut word, self.skip(c.len_utf8())),
            }
        }
        self.tokens.push((begun, Token::Word(word)));
        Ok(())
    }

    fn quoted(&mut self, word: &mut Word, begun: u64) -> Result<(), ScriptError> {
        // Even "" is a word.
        add(word, "");
        loop {
            match self.rest.chars().next() {
                None => return Err(self.wrong(begun, "a \" has no second one")),
                Some('"') => {
                    self.skip(1);
                    return Ok(());
                }
                Some('$' | '`') => self.expansion(word, begun)?,
                Some('\\') => {
                    self.skip(1);
                    let next = self.rest.chars().next();
                    match self.skip(next.map_or(0, char::len_utf8)) {
                        "\n" => {}
                        escaped @ ("\"" | "\\" | "$" | "`") => add(word, escaped),
                        other => {
                            add(word, "\\");
                            add(word, other);
                        }
                    }
                }
                Some(c) => add(word, self.skip(c.len_utf8())),
            }
        }
    }

    fn expansion(&mut self, word: &mut Word, begun: u64) -> Result<(), ScriptError> {
        let open =
            |lexer: &Lexer<'_>, what: &str| lexer.wrong(begun, &format!("a {what} is not closed"));
        if self.rest.starts_with('`') {
            self.skip(1);
            let end = self.rest.find('`').ok_or_else(|| open(self, "`"))?;
            let inside = self.skip(end).to_owned();
            self.skip(1);
            word.parts.push(Part::Command(inside));
        } else if let Some(inside) = self.rest.strip_prefix("$((") {
            let end = inside.find("))").ok_or_else(|| open(self, "$(("))?;
            word.parts.push(Part::Arithmetic(inside.get(..end).unwrap_or("").to_owned()));
            self.skip(end + 5);
        } else if let Some(inside) = self.rest.strip_prefix("$(") {
            let end = closing(inside).ok_or_else(|| open(self, "$("))?;
            word.parts.push(Part::Command(inside.get(..end).unwrap_or("").to_owned()));
            self.skip(end + 3);
        } else if let Some(inside) = self.rest.strip_prefix("${") {
            let end = inside.find('}').ok_or_else(|| open(self, "${"))?;
            word.parts.push(braced(inside.get(..end).unwrap_or("")));
            self.skip(end + 3);
        } else {
            self.skip(1);
            let special = self.rest.starts_with(['@', '*', '#', '?', '$', '!'])
                || self.rest.starts_with(|c: char| c.is_ascii_digit());
            let end = self.rest.find(|c: char| !is_name(c)).unwrap_or(self.rest.len());
            match if special { 1 } else { end } {
                0 => add(word, "$"),
                end => {
                    let name = self.skip(end).to_owned();
                    word.parts.push(Part::Variable { name, default: None });
                }
            }
        }
        Ok(())
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What stands in `${ … }`.
fn braced(inside: &str) -> Part {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inside, None),
    };
    let known = !name.is_empty() && name.chars().all(is_name);
    match known && !default.as_ref().is_some_and(|default| default.contains(['$', '`'])) {
        true => Part::Variable { name: name.to_owned(), default },
        false => Part::Unknown(format!("${{{}}}", printable(inside))),
    }
}

fn add(word: &mut Word, text: &str) {
    match word.parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => word.parts.push(Part::Text(text.to_owned())),
    }
}

/// Where the parenthesis closes that has been opened.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1u32;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => continue,
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}
