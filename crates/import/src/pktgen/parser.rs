//! What the words of a shell script are together.

use std::rc::Rc;

use wirebeat_units::{Fault, fault};

use super::condition::concerns;
use super::lexer::{Stream, Token};
use super::syntax::{Input, Item, List, Node, Out, Redirections, Stage, When};
use super::word::Word;
use crate::{Line, ScriptError};

/// How deep loops, conditions and functions may be nested.
const MAX_DEPTH: usize = 10;

pub(super) fn parse(line: &Line, tokens: Vec<(u64, Token)>) -> Result<List, ScriptError> {
    let mut parser = Parser { file: line, tokens, at: 0 };
    let list = parser.list(&[], 0)?;
    match parser.peek() {
        None => Ok(list),
        Some(_) => Err(parser
            .wrong(fault!("this does not belong there"; "is a 'do', 'then' or '{{' missing?"))),
    }
}

struct Parser<'a> {
    file: &'a Line,
    tokens: Vec<(u64, Token)>,
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, why: impl Into<Fault>) -> ScriptError {
        Line { number: self.number(), ..self.file.clone() }.wrong(why)
    }

    fn number(&self) -> u64 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(self.file.number, |(number, _)| *number)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn next_is(&mut self, token: &Token) -> bool {
        let is = self.peek() == Some(token);
        self.at += usize::from(is);
        is
    }

    /// The unquoted word that comes next.
    fn keyword(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => word.plain(),
            _ => None,
        }
    }

    fn expect(&mut self, keyword: &str) -> Result<(), ScriptError> {
        while self.next_is(&Token::End) {}
        if self.keyword() == Some(keyword) {
            self.at += 1;
            return Ok(());
        }
        Err(self.wrong(format!("'{keyword}' is missing")))
    }

    /// Steps up to one of the keywords, or the end.
    fn list(&mut self, until: &[&str], depth: usize) -> Result<List, ScriptError> {
        if depth > MAX_DEPTH {
            return Err(self.wrong(format!("this is nested more than {MAX_DEPTH} deep")));
        }
        let mut list = List::new();
        let mut when = When::Always;
        while let Some(token) = self.peek() {
            match token {
                // A list goes on in the next line behind && and ||.
                Token::End | Token::Background => {
                    self.at += 1;
                    continue;
                }
                Token::And | Token::Or => {
                    let is_and = self.next_is(&Token::And);
                    self.at += usize::from(!is_and);
                    when = if is_and { When::Succeeded } else { When::Failed };
                    continue;
                }
                Token::Close | Token::CaseEnd => break,
                _ => {}
            }
            if self.keyword().is_some_and(|word| until.contains(&word)) {
                break;
            }
            let item = self.item(when, depth)?;
            list.push(item);
            when = When::Always;
        }
        Ok(list)
    }

    /// A command, or several in a pipe.
    fn item(&mut self, when: When, depth: usize) -> Result<Item, ScriptError> {
        let number = self.number();
        let mut negated = false;
        while self.keyword() == Some("!") {
            self.at += 1;
            negated = !negated;
        }
        let mut stages = vec![self.stage(depth)?];
        while self.next_is(&Token::Pipe) {
            while self.next_is(&Token::End) {}
            stages.push(self.stage(depth)?);
        }
        let concerns = stages.iter().any(concerns);
        Ok(Item { number, when, negated, stages, concerns })
    }

    fn stage(&mut self, depth: usize) -> Result<Stage, ScriptError> {
        let node = match self.peek() {
            Some(Token::Arithmetic(inside)) => {
                let inside = inside.clone();
                self.at += 1;
                Node::Arithmetic(inside)
            }
            Some(Token::Open) => {
                self.at += 1;
                let list = self.list(&[], depth + 1)?;
                if !self.next_is(&Token::Close) {
                    return Err(self.wrong("a '(' has no second one"));
                }
                Node::Subshell(list)
            }
            _ => match self.keyword() {
                Some("for") => self.repeat(depth)?,
                Some("if") => self.condition(depth)?,
                Some("case") => self.cases(depth)?,
                Some("while") => self.other_loop("while", depth)?,
                Some("until") => self.other_loop("until", depth)?,
                Some("select") => {
                    self.repeat(depth)?;
                    Node::Unknown("select")
                }
                Some("{") => {
                    self.at += 1;
                    let list = self.list(&["}"], depth + 1)?;
                    self.expect("}")?;
                    Node::Group(list)
                }
                Some("function") => {
                    self.at += 1;
                    self.function(depth)?
                }
                Some(_) if matches!(self.tokens.get(self.at + 1), Some((_, Token::Open))) => {
                    self.function(depth)?
                }
                _ => return self.simple(),
            },
        };
        let mut to = Redirections::default();
        while self.redirection(&mut to)? {}
        Ok(Stage { node, to })
    }

    /// `name() { … }`, with where it writes.
    fn function(&mut self, depth: usize) -> Result<Node, ScriptError> {
        let name = self.keyword().unwrap_or("").to_owned();
        self.at += 1;
        if self.next_is(&Token::Open) && !self.next_is(&Token::Close) {
            return Err(self.wrong("a function is written 'name() { … }'"));
        }
        while self.next_is(&Token::End) {}
        if self.keyword() != Some("{") && self.peek() != Some(&Token::Open) {
            return Err(self.wrong("'{' is missing"));
        }
        let body = Rc::new(vec![self.item(When::Always, depth)?]);
        Ok(Node::Function { name, body })
    }

    fn repeat(&mut self, depth: usize) -> Result<Node, ScriptError> {
        self.at += 1;
        if let Some(Token::Arithmetic(header)) = self.peek() {
            let header = header.clone();
            self.at += 1;
            return Ok(Node::Count { header, body: self.body(depth)? });
        }
        let variable = self.keyword().unwrap_or("").to_owned();
        self.at += 1;
        let mut words = None;
        if self.keyword() == Some("in") {
            self.at += 1;
            let mut given = Vec::new();
            while let Some(Token::Word(word)) = self.peek() {
                given.push(word.clone());
                self.at += 1;
            }
            words = Some(given);
        }
        Ok(Node::For { variable, words, body: self.body(depth)? })
    }

    fn body(&mut self, depth: usize) -> Result<List, ScriptError> {
        self.expect("do")?;
        let body = self.list(&["done"], depth + 1)?;
        self.expect("done")?;
        Ok(body)
    }

    fn condition(&mut self, depth: usize) -> Result<Node, ScriptError> {
        let mut arms = Vec::new();
        loop {
            // 'if' or 'elif'.
            self.at += 1;
            let condition = self.list(&["then"], depth + 1)?;
            self.expect("then")?;
            let body = self.list(&["elif", "else", "fi"], depth + 1)?;
            arms.push((condition, body));
            if self.keyword() != Some("elif") {
                break;
            }
        }
        let mut otherwise = List::new();
        if self.keyword() == Some("else") {
            self.at += 1;
            otherwise = self.list(&["fi"], depth + 1)?;
        }
        self.expect("fi")?;
        Ok(Node::If { arms, otherwise })
    }

    /// `while` and `until` end where they end, and nothing in them is done.
    fn other_loop(&mut self, word: &'static str, depth: usize) -> Result<Node, ScriptError> {
        self.at += 1;
        self.list(&["do"], depth + 1)?;
        self.body(depth)?;
        Ok(Node::Unknown(word))
    }

    /// `case WORD in PATTERN|PATTERN) … ;; esac`.
    fn cases(&mut self, depth: usize) -> Result<Node, ScriptError> {
        // 'case' and its word.
        self.at += 2;
        self.expect("in")?;
        loop {
            while self.next_is(&Token::End) {}
            if self.keyword() == Some("esac") {
                self.at += 1;
                return Ok(Node::Unknown("case"));
            }
            self.next_is(&Token::Open);
            while matches!(self.peek(), Some(Token::Word(_) | Token::Pipe)) {
                self.at += 1;
            }
            if !self.next_is(&Token::Close) {
                return Err(self.wrong("a case has patterns, a ')' and ends with 'esac'"));
            }
            self.list(&["esac"], depth + 1)?;
            self.next_is(&Token::CaseEnd);
        }
    }

    fn simple(&mut self) -> Result<Stage, ScriptError> {
        let begun = self.at;
        let mut words: Vec<Word> = Vec::new();
        let mut to = Redirections::default();
        loop {
            let double = words.first().and_then(Word::plain) == Some("[[")
                && words.last().and_then(Word::plain) != Some("]]");
            match self.peek() {
                Some(Token::Word(word)) => words.push(word.clone()),
                Some(token) if double && within_double(token).is_some() => {
                    words.extend(within_double(token).map(Word::bare));
                }
                _ => match self.redirection(&mut to)? {
                    true => continue,
                    false => break,
                },
            }
            self.at += 1;
        }
        if self.at == begun {
            return Err(self.wrong("a command is missing here"));
        }
        Ok(Stage { node: Node::Simple(words), to })
    }

    /// Reads where a command writes or what it reads, if that comes next.
    fn redirection(&mut self, to: &mut Redirections) -> Result<bool, ScriptError> {
        match self.peek() {
            Some(Token::Out(stream)) => {
                let stream = *stream;
                self.at += 1;
                let copies = self.next_is(&Token::Background);
                let file = self.file(copies)?;
                let out = match file {
                    Some(file) if !copies || !is_descriptor(&file) => Out::File(file),
                    Some(one) if one.plain() == Some("1") => return Ok(true),
                    _ => Out::Messages,
                };
                if stream != Stream::Messages {
                    to.out = Some(out);
                }
            }
            Some(Token::In) => {
                self.at += 1;
                let copies = self.next_is(&Token::Background);
                self.file(copies)?;
                to.input = Some(Input::File);
            }
            Some(Token::Here) => {
                self.at += 1;
                to.input = self.file(false)?.map(|word| Input::Text(None, word));
            }
            Some(Token::Document(number, word)) => {
                to.input = Some(Input::Text(Some(*number), word.clone()));
                self.at += 1;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The file of a redirection, which may be missing behind `&`.
    fn file(&mut self, may_lack: bool) -> Result<Option<Word>, ScriptError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(Some(word))
            }
            _ if may_lack => Ok(None),
            _ => Err(self.wrong("a file is missing behind '<' or '>'")),
        }
    }
}

/// Operators that stand within `[[ … ]]`.
fn within_double(token: &Token) -> Option<&'static str> {
    Some(match token {
        Token::And => "&&",
        Token::Or => "||",
        Token::In => "<",
        Token::Out(_) => ">",
        Token::Open => "(",
        Token::Close => ")",
        Token::Pipe => "|",
        _ => return None,
    })
}

fn is_descriptor(word: &Word) -> bool {
    let digits = |text: &str| text == "-" || text.bytes().all(|byte| byte.is_ascii_digit());
    word.plain().is_some_and(digits)
}
