//! Goes through a shell script as a shell would, as far as pktgen's scripts need one.
//!
//! It knows variables, loops over lists and numbers, conditions on texts and numbers, functions, and the
//! helpers that pktgen's own samples define (`pgset`, `pg_set`, `pg_ctrl`, `pg_thread`, and those of
//! `functions.sh` and `parameters.sh`). Nothing is run. What it does not know is named with its line, and
//! so is what depends on the machine.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::arithmetic;
use super::condition::{concerns, holds};
use super::control::Control;
use super::helpers::braces;
use super::lexer::{Word, tokens};
use super::parser::{Command, Item, List, Node, When, parse};
use crate::draft::Draft;
use crate::{Line, ScriptError};

/// The most steps that a script may take, so that its loops end.
const MAX_STEPS: u64 = 1_000_000;
/// Whether to go on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Next {
    Step,
    /// Out of the function.
    Return,
    Exit,
}

pub(super) struct Interpreter<'a, 'd> {
    pub(super) draft: &'a mut Draft<'d>,
    pub(super) control: Control,
    pub(super) variables: HashMap<String, Option<String>>,
    pub(super) functions: HashMap<String, Rc<List>>,
    /// Lines that have been named already, so that a loop names them once.
    named: HashSet<(std::sync::Arc<str>, u64)>,
    pub(super) file: Line,
    /// The line that called the function that is gone through.
    pub(super) caller: Option<Line>,
    steps: u64,
    pub(super) expanded: usize,
    pub(super) calls: usize,
    pub(super) succeeded: bool,
}

/// Goes through the script.
pub(super) fn run(draft: &mut Draft<'_>) -> Result<Control, ScriptError> {
    let file = Line { file: draft.source.name.into(), number: 1 };
    let mut variables = HashMap::new();
    if let Some(interface) = draft.options.interface.clone() {
        variables.insert("DEV".to_owned(), Some(interface));
    }
    let list = parse(&file, tokens(&file, draft.source.text)?)?;
    let mut interpreter = Interpreter {
        draft,
        control: Control::default(),
        variables,
        functions: HashMap::new(),
        named: HashSet::new(),
        file,
        caller: None,
        steps: 0,
        expanded: 0,
        calls: 0,
        succeeded: true,
    };
    interpreter.list(&list)?;
    Ok(interpreter.control)
}

impl Interpreter<'_, '_> {
    fn line(&self, number: u64) -> Line {
        Line { number, ..self.file.clone() }
    }

    pub(super) fn leave_out(&mut self, line: &Line, what: &str, why: &str) {
        if self.named.insert((line.file.clone(), line.number)) {
            self.draft.leave_out(line, what, why);
        }
    }

    pub(super) fn list(&mut self, list: &List) -> Result<Next, ScriptError> {
        for item in list {
            let taken = match item.when {
                When::Always => true,
                When::Succeeded => self.succeeded,
                When::Failed => !self.succeeded,
            };
            if taken {
                match self.item(item)? {
                    Next::Step => {}
                    other => return Ok(other),
                }
            }
        }
        Ok(Next::Step)
    }

    fn item(&mut self, item: &Item) -> Result<Next, ScriptError> {
        let line = self.line(item.number);
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(line.wrong(format!(
                "the script takes more than {MAX_STEPS} steps; shorten its loops"
            )));
        }
        match &item.node {
            Node::Command(command) => return self.command(&line, command),
            Node::Arithmetic(text) => match self.calculate(text) {
                Some(value) => self.succeeded = value != 0,
                None => self.leave_out(&line, text, "this calculation is not read"),
            },
            Node::For { variable, words, body } => {
                return self.repeat(&line, variable, words, body);
            }
            Node::Count { header, body } => return self.count(&line, header, body),
            Node::If { arms, otherwise } => return self.choose(&line, arms, otherwise),
            Node::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
            }
            Node::Group(list) => return self.list(list),
            Node::Unknown(word) => {
                self.leave_out(&line, word, "of loops and conditions only 'for' and 'if' are read");
            }
        }
        Ok(Next::Step)
    }

    fn repeat(
        &mut self,
        line: &Line,
        variable: &str,
        words: &[Word],
        body: &List,
    ) -> Result<Next, ScriptError> {
        let mut values = Vec::new();
        for word in words {
            let expanded = self.expand(line, word)?;
            match expanded.text {
                None => {
                    self.leave_out(
                        line,
                        &word.text(),
                        "what the loop goes over depends on the machine",
                    );
                    return Ok(Next::Step);
                }
                Some(text) if expanded.quoted => values.push(text),
                Some(text) => values.extend(text.split_whitespace().flat_map(braces)),
            }
        }
        for value in values {
            self.variables.insert(variable.to_owned(), Some(value));
            let next = self.list(body)?;
            if next != Next::Step {
                return Ok(next);
            }
        }
        Ok(Next::Step)
    }

    fn count(&mut self, line: &Line, header: &str, body: &List) -> Result<Next, ScriptError> {
        let parts: Vec<&str> = header.split(';').collect();
        let [first, condition, then] = parts.as_slice() else {
            return Err(line.wrong("such a loop is written 'for ((i = 0; i < 4; i++))'"));
        };
        let mut known = self.assign(first);
        while known.is_some() {
            let more = self.calculate(condition);
            match more {
                None => known = None,
                Some(0) => return Ok(Next::Step),
                Some(_) => {
                    self.steps += 1;
                    if self.steps > MAX_STEPS {
                        return Err(
                            line.wrong(format!("the loop takes more than {MAX_STEPS} steps"))
                        );
                    }
                    let next = self.list(body)?;
                    if next != Next::Step {
                        return Ok(next);
                    }
                    known = self.assign(then);
                }
            }
        }
        self.leave_out(line, header, "what the loop counts depends on the machine");
        Ok(Next::Step)
    }

    fn assign(&mut self, text: &str) -> Option<()> {
        let (name, value) = arithmetic::assignment(text, &|name| self.number(name))?;
        self.variables.insert(name, Some(value.to_string()));
        Some(())
    }

    pub(super) fn calculate(&self, text: &str) -> Option<i64> {
        arithmetic::value(text, &|name| self.number(name))
    }

    /// What is not set is 0 in a calculation.
    fn number(&self, name: &str) -> Option<i64> {
        match self.variables.get(name) {
            None => Some(0),
            Some(value) => value.as_ref()?.trim().parse().ok(),
        }
    }

    fn choose(
        &mut self,
        line: &Line,
        arms: &[(List, List)],
        otherwise: &List,
    ) -> Result<Next, ScriptError> {
        for (condition, body) in arms {
            match self.condition(line, condition)? {
                Some(true) => return self.list(body),
                Some(false) => {}
                None => {
                    if arms.iter().any(|(_, body)| concerns(body)) || concerns(otherwise) {
                        let why = "the condition depends on the machine; neither of its branches is followed";
                        self.leave_out(line, "if", why);
                    }
                    return Ok(Next::Step);
                }
            }
        }
        self.list(otherwise)
    }

    fn condition(&mut self, line: &Line, list: &List) -> Result<Option<bool>, ScriptError> {
        let mut holds = Some(true);
        for item in list {
            let skipped = match item.when {
                When::Always => false,
                When::Succeeded => holds == Some(false),
                When::Failed => holds == Some(true),
            };
            if skipped {
                continue;
            }
            holds = match &item.node {
                Node::Arithmetic(text) => self.calculate(text).map(|value| value != 0),
                Node::Command(command) => self.test(line, command)?,
                _ => None,
            };
        }
        Ok(holds)
    }

    /// Whether a test holds; `None`: it is none, or depends on the machine.
    pub(super) fn test(
        &mut self,
        line: &Line,
        command: &Command,
    ) -> Result<Option<bool>, ScriptError> {
        let mut texts = Vec::new();
        for word in &command.words {
            match self.expand(line, word)?.text {
                Some(text) => texts.push(text),
                None => return Ok(None),
            }
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        Ok(match texts.as_slice() {
            ["[", inside @ .., "]"] | ["[[", inside @ .., "]]"] | ["test", inside @ ..] => {
                holds(inside)
            }
            ["true" | ":"] => Some(true),
            ["false"] => Some(false),
            _ => None,
        })
    }
}
