//! The words and operators of a shell script, as far as pktgen's scripts use them.

use wirebeat_units::Fault;

use super::pieces::Ends;
use super::word::{Word, is_variable};
use crate::text::{closing, printable};
use crate::{Line, ScriptError};

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
    /// `>`, `>>` and `>|`, of what.
    Out(Stream),
    /// `<`.
    In,
    /// `<<<`.
    Here,
    /// `<<END`: the text up to that line, and the number of its first line.
    Document(u64, Word),
    Open,
    Close,
}

/// What a command writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stream {
    Output,
    Messages,
    Both,
}

/// All tokens with the numbers of their lines.
pub(super) fn tokens(line: &Line, text: &str) -> Result<Vec<(u64, Token)>, ScriptError> {
    let mut lexer = Lexer::new(line, line.number, text, 0);
    while lexer.token()? {}
    lexer.documents()?;
    Ok(lexer.tokens)
}

/// Operators, longer ones first.
const OPERATORS: [(&str, Token); 19] = [
    ("&>>", Token::Out(Stream::Both)),
    (";;&", Token::CaseEnd),
    ("<<<", Token::Here),
    ("&>", Token::Out(Stream::Both)),
    (">>", Token::Out(Stream::Output)),
    (">|", Token::Out(Stream::Output)),
    ("&&", Token::And),
    ("||", Token::Or),
    ("|&", Token::Pipe),
    (";;", Token::CaseEnd),
    (";&", Token::CaseEnd),
    (";", Token::End),
    ("|", Token::Pipe),
    ("&", Token::Background),
    (">", Token::Out(Stream::Output)),
    ("<", Token::In),
    ("(", Token::Open),
    (")", Token::Close),
    ("\n", Token::End),
];

pub(super) struct Lexer<'a> {
    pub(super) file: &'a Line,
    number: u64,
    pub(super) rest: &'a str,
    tokens: Vec<(u64, Token)>,
    /// Documents whose text begins in the next line.
    announced: Vec<Announced>,
    /// How many defaults this stands within.
    pub(super) depth: usize,
}

/// `<<END`.
struct Announced {
    /// Its token.
    at: usize,
    number: u64,
    end: String,
    /// Nothing is put into it.
    literal: bool,
    /// `<<-`: without the tabs that lines begin with.
    without_tabs: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(file: &'a Line, number: u64, rest: &'a str, depth: usize) -> Lexer<'a> {
        Lexer { file, number, rest, tokens: Vec::new(), announced: Vec::new(), depth }
    }

    pub(super) fn wrong(&self, number: u64, why: impl Into<Fault>) -> ScriptError {
        Line { number, ..self.file.clone() }.wrong(why)
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((self.number, token));
    }

    pub(super) fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Takes `text` away, counting lines.
    pub(super) fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.number += skipped.bytes().filter(|byte| *byte == b'\n').count() as u64;
        self.rest = rest;
        skipped
    }

    /// Reads one. `false`: there is none left.
    fn token(&mut self) -> Result<bool, ScriptError> {
        let Some(c) = self.next() else { return Ok(false) };
        match c {
            '\\' if self.rest.starts_with("\\\n") => {
                self.skip(2);
            }
            c if c.is_whitespace() && c != '\n' => {
                self.skip(c.len_utf8());
            }
            '#' => {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            }
            '0'..='9' if self.descriptor() => {}
            '(' if self.rest.starts_with("((") => self.arithmetic()?,
            '<' if self.rest.starts_with("<<") && !self.rest.starts_with("<<<") => {
                self.announce()?;
            }
            '<' | '>' if self.rest.get(1..).is_some_and(|rest| rest.starts_with('(')) => {
                self.word()?;
            }
            _ => match OPERATORS.iter().find(|(text, _)| self.rest.starts_with(text)) {
                Some((text, token)) => {
                    self.push(token.clone());
                    self.skip(text.len());
                    if c == '\n' {
                        self.documents()?;
                    }
                }
                None => self.word()?,
            },
        }
        Ok(true)
    }

    /// The number before `>` or `<` says what is written or read; other numbers are words.
    fn descriptor(&mut self) -> bool {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        let operator = OPERATORS.iter().find(|(text, _)| rest.starts_with(text));
        match operator {
            Some((text, Token::Out(_))) if rest.starts_with('>') => {
                let stream = if number == "1" { Stream::Output } else { Stream::Messages };
                self.push(Token::Out(stream));
                self.skip(digits + text.len());
                true
            }
            Some((_, Token::In | Token::Here)) => {
                self.skip(digits);
                true
            }
            _ => false,
        }
    }

    fn arithmetic(&mut self) -> Result<(), ScriptError> {
        let inside = self.rest.get(2..).unwrap_or("");
        match closing(inside, '(', ')') {
            Some(end) if inside.get(end..).is_some_and(|rest| rest.starts_with("))")) => {
                self.push(Token::Arithmetic(inside.get(..end).unwrap_or("").to_owned()));
                self.skip(end + 4);
            }
            // A subshell within a subshell.
            Some(_) => {
                self.push(Token::Open);
                self.skip(1);
            }
            None => return Err(self.wrong(self.number, "there is a '((' without its '))'")),
        }
        Ok(())
    }

    /// `<<END`: a document begins in the next line.
    fn announce(&mut self) -> Result<(), ScriptError> {
        let number = self.number;
        self.skip(2);
        let without_tabs = self.rest.starts_with('-');
        self.skip(usize::from(without_tabs));
        let blanks = self.rest.find(|c| c != ' ' && c != '\t').unwrap_or(self.rest.len());
        self.skip(blanks);
        self.word()?;
        let at = self.tokens.len().saturating_sub(1);
        let Some((_, token @ Token::Word(_))) = self.tokens.get_mut(at) else { return Ok(()) };
        let word = std::mem::replace(token, Token::Document(number, Word::default()));
        let Token::Word(word) = word else { return Ok(()) };
        if word.pieces.is_empty() {
            return Err(self.wrong(number, "'<<' has the line that ends its text: <<EOF"));
        }
        let literal = word.pieces.iter().any(|piece| piece.quoted);
        let end = word.text();
        self.announced.push(Announced { at, number, end, literal, without_tabs });
        Ok(())
    }

    /// The documents that have been announced.
    fn documents(&mut self) -> Result<(), ScriptError> {
        for Announced { at, number, end, literal, without_tabs } in
            std::mem::take(&mut self.announced)
        {
            let (begun, mut body) = (self.number, String::new());
            loop {
                if self.rest.is_empty() {
                    let end = printable(&end);
                    let why = format!("the text that begins with '<<' has no line '{end}'");
                    return Err(self.wrong(number, why));
                }
                let line = self.skip(self.rest.find('\n').map_or(self.rest.len(), |end| end + 1));
                let line = if without_tabs { line.trim_start_matches('\t') } else { line };
                if line.trim_end_matches(['\n', '\r']) == end {
                    break;
                }
                body.push_str(line);
            }
            let word = match literal {
                true => Word::quoted(&body),
                false => {
                    let mut word = Word::default();
                    let mut lexer = Lexer::new(self.file, begun, &body, self.depth);
                    lexer.quoted(&mut word, number, Ends::WithText)?;
                    word
                }
            };
            if let Some((_, token)) = self.tokens.get_mut(at) {
                *token = Token::Document(begun, word);
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), ScriptError> {
        let (begun, mut word) = (self.number, Word::default());
        while let Some(c) = self.next() {
            match c {
                '(' if is_assigned_to(&word) => self.unread(&mut word, begun)?,
                '<' | '>' if word.pieces.is_empty() && self.rest.get(1..2) == Some("(") => {
                    self.unread(&mut word, begun)?;
                }
                c if c.is_whitespace() || ";|&<>()".contains(c) => break,
                _ => self.piece(&mut word, begun)?,
            }
        }
        self.tokens.push((begun, Token::Word(word)));
        Ok(())
    }
}

/// Whether what follows is a value: `NAME=`, `NAME+=`.
fn is_assigned_to(word: &Word) -> bool {
    let name = word.plain().and_then(|text| text.strip_suffix('='));
    name.is_some_and(|name| is_variable(name.strip_suffix('+').unwrap_or(name)))
}
