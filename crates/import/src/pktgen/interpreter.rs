//! Goes through a shell script as a shell would, as far as pktgen's scripts need one.
//!
//! It knows variables, loops over lists and numbers, conditions on texts and numbers, functions, and the
//! helpers that pktgen's own samples define (`pgset`, `pg_set`, `pg_ctrl`, `pg_thread`, and those of
//! `functions.sh` and `parameters.sh`). Nothing is run. What it does not know is named with its line, and
//! so is what depends on the machine. Here is what goes where; `command.rs` has the commands, `expand.rs`
//! the words and `output.rs` what is written.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use wirebeat_units::fault;

use super::arithmetic;
use super::braces::{Exceeded, Room};
use super::control::Control;
use super::lexer::tokens;
use super::output::Output;
use super::parser::parse;
use super::syntax::{Item, List, Node, Stage, When};
use super::word::{Word, is_name, is_variable};
use crate::draft::Draft;
use crate::{Line, ScriptError};

/// The most steps that a script may take, so that its loops end.
const MAX_STEPS: u64 = 1_000_000;
/// The most bytes that all words may be put together from and to, in all.
const MAX_EXPANDED: usize = 64 << 20;
/// How many bytes take as long as one that is calculated with.
const CALCULATING: usize = 4;

/// Whether to go on.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Next {
    Step,
    /// Out of the loop.
    Break,
    /// To the next round of the loop.
    Continue,
    /// Out of the function.
    Return,
    Exit,
}

/// A function, and the script that it stands in.
#[derive(Clone)]
pub(super) struct Function {
    pub file: Line,
    pub body: Rc<List>,
}

/// A value; `None`: it depends on the machine.
pub(super) type Value = Option<String>;

pub(super) struct Interpreter<'a, 'd> {
    pub(super) draft: &'a mut Draft<'d>,
    pub(super) control: Control,
    pub(super) variables: HashMap<String, Value>,
    pub(super) functions: HashMap<String, Function>,
    /// Those of the function that is gone through, or what the script is given, where that is known.
    pub(super) arguments: Option<Rc<[Value]>>,
    /// Whether what the script is given has been asked for.
    pub(super) asked: Cell<bool>,
    /// What variables were that are local to the functions that are gone through.
    pub(super) shadowed: Vec<(String, Option<Value>)>,
    /// What variables were before each change within the subshells that this is in, and how many those are.
    changed: Vec<(String, Option<Value>)>,
    subshells: usize,
    pub(super) file: Line,
    /// The line that called the function that is gone through.
    pub(super) caller: Option<Line>,
    /// Where the command writes that is gone through.
    pub(super) output: Output,
    steps: u64,
    expanded: usize,
    pub(super) calls: usize,
    /// How many substitutions the word stands in that is put together.
    pub(super) substitutions: usize,
    /// Whether the last command succeeded; `None`: that depends on the machine.
    pub(super) succeeded: Option<bool>,
}

/// Goes through the script.
pub(super) fn run(draft: &mut Draft<'_>) -> Result<Control, ScriptError> {
    let file = Line { file: draft.source.name.into(), number: 1 };
    let mut variables = HashMap::new();
    if let Some(interface) = draft.options.interface.clone() {
        variables.insert("DEV".to_owned(), Some(interface));
    }
    let list = parse(&file, tokens(&file, draft.source.text)?)?;
    let given = &draft.options.arguments;
    let mut interpreter = Interpreter {
        draft,
        control: Control::default(),
        variables,
        functions: HashMap::new(),
        arguments: (!given.is_empty())
            .then(|| given.iter().map(|word| Some(word.clone())).collect()),
        asked: Cell::new(false),
        shadowed: Vec::new(),
        changed: Vec::new(),
        subshells: 0,
        file,
        caller: None,
        output: Output::Nobody,
        steps: 0,
        expanded: 0,
        calls: 0,
        substitutions: 0,
        succeeded: Some(true),
    };
    interpreter.list(&list)?;
    let Interpreter { draft, control, asked, file, .. } = interpreter;
    if !asked.get()
        && let Some(first) = draft.options.arguments.first()
    {
        draft.leave_out(&file, first, "the script asks for none of its arguments");
    }
    Ok(control)
}

impl Interpreter<'_, '_> {
    fn line(&self, number: u64) -> Line {
        Line { number, ..self.file.clone() }
    }

    pub(super) fn leave_out(&mut self, line: &Line, what: &str, why: &str) {
        self.draft.leave_out(line, what, why);
    }

    /// Takes so many steps.
    pub(super) fn take_steps(&mut self, line: &Line, steps: u64) -> Result<(), ScriptError> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > MAX_STEPS {
            true => Err(self.exceeded(line, Exceeded::Words)),
            false => Ok(()),
        }
    }

    /// Puts together so many bytes.
    pub(super) fn take_bytes(&mut self, line: &Line, bytes: usize) -> Result<(), ScriptError> {
        self.expanded = self.expanded.saturating_add(bytes);
        match self.expanded > MAX_EXPANDED {
            true => Err(self.exceeded(line, Exceeded::Bytes)),
            false => Ok(()),
        }
    }

    /// The steps and bytes that are left.
    pub(super) fn room(&self) -> Room {
        Room {
            words: MAX_STEPS.saturating_sub(self.steps),
            bytes: MAX_EXPANDED.saturating_sub(self.expanded),
        }
    }

    pub(super) fn exceeded(&self, line: &Line, what: Exceeded) -> ScriptError {
        match what {
            Exceeded::Words => line
                .wrong(fault!("the script takes more than {MAX_STEPS} steps"; "shorten its loops")),
            Exceeded::Bytes => {
                line.wrong(fault!("the script's words become too long"; "do its variables double?"))
            }
        }
    }

    /// Sets a variable; `None`: it is not set any more.
    pub(super) fn set(&mut self, name: &str, value: Option<Value>) {
        let before = self.change(name.to_owned(), value);
        if self.subshells > 0 {
            self.changed.push((name.to_owned(), before));
        }
    }

    fn change(&mut self, name: String, value: Option<Value>) -> Option<Value> {
        match value {
            Some(value) => self.variables.insert(name, value),
            None => self.variables.remove(&name),
        }
    }

    pub(super) fn list(&mut self, list: &List) -> Result<Next, ScriptError> {
        for item in list {
            let line = self.line(item.number);
            self.take_steps(&line, 1)?;
            let taken = match (item.when, self.succeeded) {
                (When::Always, _) => true,
                (When::Succeeded, Some(succeeded)) => succeeded,
                (When::Failed, Some(succeeded)) => !succeeded,
                (When::Succeeded | When::Failed, None) => {
                    if item.concerns {
                        let why = "whether it is done depends on the machine; it is not done here";
                        self.leave_out(&line, &item.shown(), why);
                    }
                    false
                }
            };
            if taken {
                match self.item(&line, item)? {
                    Next::Step => {}
                    other => return Ok(other),
                }
            }
        }
        Ok(Next::Step)
    }

    fn item(&mut self, line: &Line, item: &Item) -> Result<Next, ScriptError> {
        let outputs = self.outputs(line, &item.stages)?;
        let next = match item.stages.as_slice() {
            [stage] => self.with_output(line, stage, outputs.into_iter().next())?,
            // Each command of a pipe is a process of its own.
            stages => self.subshell(|shell| {
                let mut next = Next::Step;
                for (stage, output) in stages.iter().zip(outputs) {
                    next = shell.with_output(line, stage, Some(output))?;
                }
                Ok(next)
            })?,
        };
        if item.negated {
            self.succeeded = self.succeeded.map(|succeeded| !succeeded);
        }
        Ok(next)
    }

    /// Goes through something that leaves all variables as they were.
    fn subshell(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<Next, ScriptError>,
    ) -> Result<Next, ScriptError> {
        let len = self.changed.len();
        self.subshells += 1;
        inside(self)?;
        self.subshells -= 1;
        for (name, value) in self.changed.split_off(len).into_iter().rev() {
            self.change(name, value);
        }
        Ok(Next::Step)
    }

    fn with_output(
        &mut self,
        line: &Line,
        stage: &Stage,
        output: Option<Output>,
    ) -> Result<Next, ScriptError> {
        let Some(output) = output else { return Ok(Next::Step) };
        let outer = std::mem::replace(&mut self.output, output);
        let next = self.stage(line, stage);
        self.output = outer;
        next
    }

    fn stage(&mut self, line: &Line, stage: &Stage) -> Result<Next, ScriptError> {
        match &stage.node {
            // What writes to it has written where it does.
            _ if matches!(self.output, Output::HandedOn) => self.succeeded = Some(true),
            Node::Simple(words) => return self.simple(line, words, stage.to.input.as_ref()),
            Node::Arithmetic(text) => self.arithmetic(line, text)?,
            Node::For { variable, words, body } => {
                return self.repeat(line, variable, words.as_deref(), body);
            }
            Node::Count { header, body } => return self.count(line, header, body),
            Node::If { arms, otherwise } => return self.choose(line, arms, otherwise),
            Node::Function { name, body } => {
                self.take_bytes(line, name.len())?;
                let function = Function { file: self.file.clone(), body: body.clone() };
                self.functions.insert(name.clone(), function);
            }
            Node::Group(list) => return self.list(list),
            Node::Subshell(list) => return self.subshell(|shell| shell.list(list)),
            Node::Unknown(word) => {
                self.leave_out(line, word, "of loops and conditions only 'for' and 'if' are read");
                self.succeeded = None;
            }
        }
        Ok(Next::Step)
    }

    /// Calculates, and changes the variables that the calculation changes.
    pub(super) fn arithmetic(&mut self, line: &Line, text: &str) -> Result<(), ScriptError> {
        let value = match self.calculate(line, text)? {
            Some(value) => Some(value),
            None => self.assign(line, text)?,
        };
        if value.is_none() {
            self.leave_out(line, text, "this calculation is not read, or depends on the machine");
            // It may have changed any of them.
            for name in text.split(|c| !is_name(c)).filter(|name| is_variable(name)) {
                self.set(name, Some(None));
            }
        }
        self.succeeded = value.map(|value| value != 0);
        Ok(())
    }

    fn repeat(
        &mut self,
        line: &Line,
        variable: &str,
        words: Option<&[Word]>,
        body: &List,
    ) -> Result<Next, ScriptError> {
        let mut values = Vec::new();
        match words {
            Some(words) => {
                for field in self.fields(line, words)? {
                    match (field.text, field.unset) {
                        (Some(_), Some(name)) if field.absent => {
                            let why = "it is not set, so that the loop does not go over it";
                            self.leave_out(line, &format!("${name}"), why);
                        }
                        (Some(text), _) if !field.word.is_pattern() => values.push(text),
                        _ => {
                            let why = "what the loop goes over depends on the machine";
                            self.leave_out(line, &field.word.shown(), why);
                            return Ok(Next::Step);
                        }
                    }
                }
            }
            None => {
                self.asked.set(true);
                let known: Option<Vec<String>> =
                    self.arguments.iter().flat_map(|given| given.iter().cloned()).collect();
                let Some(known) = known.filter(|_| self.arguments.is_some()) else {
                    let why = "what the loop goes over depends on what calls the script";
                    self.leave_out(line, "for", why);
                    return Ok(Next::Step);
                };
                values = known;
            }
        }
        for value in values {
            self.take_steps(line, 1)?;
            self.take_bytes(line, variable.len())?;
            self.set(variable, Some(Some(value)));
            match self.list(body)? {
                Next::Step | Next::Continue => {}
                Next::Break => break,
                other => return Ok(other),
            }
        }
        Ok(Next::Step)
    }

    fn count(&mut self, line: &Line, header: &str, body: &List) -> Result<Next, ScriptError> {
        self.take_bytes(line, header.len())?;
        let parts: Vec<&str> = header.splitn(4, ';').collect();
        let [first, condition, then] = parts.as_slice() else {
            let why = "such a loop is written 'for ((i = 0; i < 4; i++))'";
            return Err(line.wrong(why));
        };
        let mut known = self.assign(line, first)?;
        while known.is_some() {
            match self.calculate(line, condition)? {
                None => break,
                Some(0) => return Ok(Next::Step),
                Some(_) => {
                    self.take_steps(line, 1)?;
                    match self.list(body)? {
                        Next::Step | Next::Continue => {}
                        Next::Break => return Ok(Next::Step),
                        other => return Ok(other),
                    }
                    known = self.assign(line, then)?;
                }
            }
        }
        self.leave_out(line, header, "what the loop counts depends on the machine");
        Ok(Next::Step)
    }

    /// Does what `i=1` or `i++` says. Its value; `None`: it says something else, or that is not known.
    fn assign(&mut self, line: &Line, text: &str) -> Result<Option<i64>, ScriptError> {
        self.take_bytes(line, text.len().saturating_mul(CALCULATING))?;
        let Some(assigned) = arithmetic::assignment(text, &|name| self.number(name)) else {
            return Ok(None);
        };
        self.set(&assigned.name, Some(Some(assigned.after.to_string())));
        Ok(Some(assigned.value))
    }

    pub(super) fn calculate(
        &mut self,
        line: &Line,
        text: &str,
    ) -> Result<Option<i64>, ScriptError> {
        self.take_bytes(line, text.len().saturating_mul(CALCULATING))?;
        Ok(arithmetic::value(text, &|name| self.number(name)))
    }

    /// What is not set is 0 in a calculation.
    fn number(&self, name: &str) -> Option<i64> {
        match self.lookup(name) {
            None if is_variable(name) => Some(0),
            None => None,
            // What is longer is not a number, whatever blanks it has.
            Some(value) => value.filter(|value| value.len() <= 64)?.trim().parse().ok(),
        }
    }

    fn choose(
        &mut self,
        line: &Line,
        arms: &[(List, List)],
        otherwise: &List,
    ) -> Result<Next, ScriptError> {
        for (condition, body) in arms {
            let next = self.list(condition)?;
            if next != Next::Step {
                return Ok(next);
            }
            match self.succeeded {
                Some(true) => return self.list(body),
                Some(false) => {}
                None => {
                    let mut bodies = arms.iter().map(|(_, body)| body).chain([otherwise]);
                    if bodies.any(|body| body.iter().any(|item| item.concerns)) {
                        let why = "the condition depends on the machine; neither of its branches is followed";
                        self.leave_out(line, "if", why);
                    }
                    return Ok(Next::Step);
                }
            }
        }
        self.succeeded = Some(true);
        self.list(otherwise)
    }
}
