//! What the words of a shell script are together: commands, loops, conditions and functions.

use std::rc::Rc;

use super::lexer::{Token, Word};
use crate::{Line, ScriptError};

/// How deep loops, conditions and functions may be nested.
const MAX_DEPTH: usize = 10;

/// One after the other.
pub(super) type List = Vec<Item>;

/// A step, and when it is taken.
#[derive(Debug)]
pub(super) struct Item {
    pub number: u64,
    pub when: When,
    pub node: Node,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum When {
    Always,
    /// After `&&`.
    Succeeded,
    /// After `||`.
    Failed,
}

#[derive(Debug)]
pub(super) enum Node {
    Command(Command),
    /// `(( … ))`.
    Arithmetic(String),
    /// `for NAME in WORDS`.
    For {
        variable: String,
        words: Vec<Word>,
        body: List,
    },
    /// `for ((first; while; then))`.
    Count {
        header: String,
        body: List,
    },
    /// Conditions with what follows, and what follows otherwise.
    If {
        arms: Vec<(List, List)>,
        otherwise: List,
    },
    Function {
        name: String,
        body: Rc<List>,
    },
    /// `{ … }`.
    Group(List),
    /// What is not read: its first word.
    Unknown(String),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub words: Vec<Word>,
    /// Where its output goes.
    pub out: Option<Word>,
    /// What it reads.
    pub here: Option<Word>,
}

pub(super) fn parse(line: &Line, tokens: Vec<(u64, Token)>) -> Result<List, ScriptError> {
    let mut parser = Parser { file: line, tokens, at: 0 };
    let list = parser.list(&[], 0)?;
    match parser.peek() {
        None => Ok(list),
        Some(_) => {
            Err(parser.wrong("this does not belong there; is a 'do', 'then' or '{' missing?"))
        }
    }
}

struct Parser<'a> {
    file: &'a Line,
    tokens: Vec<(u64, Token)>,
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, why: &str) -> ScriptError {
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
        Err(self.wrong(&format!("'{keyword}' is missing")))
    }

    /// Steps up to one of the keywords, or the end.
    fn list(&mut self, until: &[&str], depth: usize) -> Result<List, ScriptError> {
        if depth > MAX_DEPTH {
            return Err(self.wrong(&format!("this is nested more than {MAX_DEPTH} deep")));
        }
        let mut list = List::new();
        let mut when = When::Always;
        while let Some(token) = self.peek() {
            match token {
                Token::End | Token::Background => {
                    self.at += 1;
                    // A list goes on in the next line behind && and ||.
                    if list.is_empty() || when == When::Always {
                        when = When::Always;
                    }
                    continue;
                }
                Token::And => {
                    self.at += 1;
                    when = When::Succeeded;
                    continue;
                }
                Token::Or => {
                    self.at += 1;
                    when = When::Failed;
                    continue;
                }
                Token::Close | Token::CaseEnd => break,
                _ => {}
            }
            if self.keyword().is_some_and(|word| until.contains(&word)) {
                break;
            }
            let number = self.number();
            let node = self.node(depth)?;
            list.push(Item { number, when, node });
            when = When::Always;
        }
        Ok(list)
    }

    fn node(&mut self, depth: usize) -> Result<Node, ScriptError> {
        if let Some(Token::Arithmetic(inside)) = self.peek() {
            let inside = inside.clone();
            self.at += 1;
            return Ok(Node::Arithmetic(inside));
        }
        match self.keyword() {
            Some("for") => self.repeat(depth),
            Some("if") => self.condition(depth),
            Some(word @ ("while" | "until" | "select" | "case")) => {
                let (word, end) = (word.to_owned(), if word == "case" { "esac" } else { "done" });
                self.skip_to(end)?;
                Ok(Node::Unknown(word))
            }
            Some("{") => {
                self.at += 1;
                self.block(depth).map(Node::Group)
            }
            Some("function") => {
                self.at += 1;
                self.function(depth)
            }
            Some(_) if matches!(self.tokens.get(self.at + 1), Some((_, Token::Open))) => {
                self.function(depth)
            }
            _ => self.command(),
        }
    }

    fn block(&mut self, depth: usize) -> Result<List, ScriptError> {
        let list = self.list(&["}"], depth + 1)?;
        self.expect("}")?;
        Ok(list)
    }

    fn function(&mut self, depth: usize) -> Result<Node, ScriptError> {
        let name = self.keyword().unwrap_or("").to_owned();
        self.at += 1;
        if self.next_is(&Token::Open) && !self.next_is(&Token::Close) {
            return Err(self.wrong("a function is written 'name() { … }'"));
        }
        self.expect("{")?;
        let body = Rc::new(self.block(depth)?);
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
        self.expect("in")?;
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
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

    /// Goes over what is not read, and what is nested in it.
    fn skip_to(&mut self, end: &str) -> Result<(), ScriptError> {
        let opens: &[&str] =
            if end == "esac" { &["case"] } else { &["while", "until", "for", "select"] };
        let mut open = 0u32;
        while let Some(token) = self.peek() {
            if let Token::Word(word) = token {
                match word.plain() {
                    Some(word) if opens.contains(&word) => open += 1,
                    Some(word) if word == end => open -= 1,
                    _ => {}
                }
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
        Err(self.wrong(&format!("'{end}' is missing")))
    }

    fn command(&mut self) -> Result<Node, ScriptError> {
        let double = self.keyword() == Some("[[");
        let begun = self.at;
        // The commands of a pipe: what the first one writes is the input of the next.
        let mut stages = vec![Command::default()];
        while let (Some(command), Some((_, token))) = (stages.last_mut(), self.tokens.get(self.at))
        {
            let within = double && command.words.last().and_then(Word::plain) != Some("]]");
            match token {
                Token::Word(word) => command.words.push(word.clone()),
                Token::And if within => command.words.push(Word::of("&&")),
                Token::Or if within => command.words.push(Word::of("||")),
                Token::In if within => command.words.push(Word::of("<")),
                Token::Out if within => command.words.push(Word::of(">")),
                Token::Out => {
                    // `2>` sends messages elsewhere, and `>&2` goes to them.
                    let messages = command.words.last().and_then(Word::plain) == Some("2");
                    if messages {
                        command.words.pop();
                    }
                    self.at += 1;
                    let to_messages = self.next_is(&Token::Background);
                    let target = self.target();
                    if let Some(command) = stages.last_mut().filter(|_| !messages && !to_messages) {
                        command.out = target;
                    }
                    continue;
                }
                Token::In => {
                    self.at += 1;
                    self.target();
                    continue;
                }
                Token::Here => {
                    self.at += 1;
                    let here = self.target();
                    if let Some(command) = stages.last_mut() {
                        command.here = here;
                    }
                    continue;
                }
                Token::Pipe => stages.push(Command::default()),
                _ => break,
            }
            self.at += 1;
        }
        if self.at == begun {
            return Err(self.wrong("a command is missing here"));
        }
        let mut stages = stages.into_iter();
        let mut command = stages.next().unwrap_or_default();
        command.out = command.out.or_else(|| stages.find_map(|stage| written_by_tee(&stage)));
        Ok(Node::Command(command))
    }

    fn target(&mut self) -> Option<Word> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }
}

/// `| tee FILE` writes what comes before it. Other programs of a pipe only show it.
fn written_by_tee(stage: &Command) -> Option<Word> {
    let mut words = stage.words.iter().filter(|word| word.plain() != Some("sudo"));
    words.next().filter(|word| word.plain() == Some("tee"))?;
    words.find(|word| !word.text().starts_with('-')).cloned()
}
