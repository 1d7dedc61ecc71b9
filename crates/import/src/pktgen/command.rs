//! What the commands of a script do: assignments, functions, other scripts, and what is written to pktgen.

use wirebeat_units::fault;

use super::condition::holds;
use super::expand::Field;
use super::interpreter::{Function, Interpreter, Next, Value};
use super::lexer::tokens;
use super::parser::parse;
use super::syntax::Input;
use super::word::{Assignment, Part, Word, is_variable};
use crate::text::printable;
use crate::{Line, ScriptError};

/// How deep functions and scripts may call and include one another.
const MAX_CALLS: usize = 8;

/// Commands that prepare what needs no preparation here.
pub(super) const HARMLESS: [&str; 21] = [
    "clear",
    "date",
    "depmod",
    "err",
    "info",
    "insmod",
    "modprobe",
    "print_result",
    "printresult",
    "rmmod",
    "root_check_run_with_sudo",
    "shopt",
    "sync",
    "trap",
    "trap_exit",
    "usage",
    "validate_addr",
    "validate_addr6",
    "validate_ports",
    "wait",
    "warn",
];

/// Commands that show or test something.
pub(super) const SHOWS: [&str; 20] = [
    ":", "[", "[[", "cat", "cut", "echo", "false", "fgrep", "grep", "head", "less", "lsmod",
    "more", "printf", "sort", "tail", "test", "true", "wc", "which",
];

/// Commands that run the command behind them.
pub(super) const RUNS: [&str; 3] = ["command", "sudo", "time"];

/// Commands that say something of variables.
const DECLARES: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

const NO_ARRAYS: &str = "arrays are not read; what it holds is not known here";

/// What `parameters.sh` of the samples sets where the caller gives no options.
const PARAMETERS: [(&str, &str); 7] = [
    ("PKT_SIZE", "60"),
    ("F_THREAD", "0"),
    ("THREADS", "1"),
    ("L_THREAD", "0"),
    ("DELAY", "0"),
    ("IP6", ""),
    ("APPEND", ""),
];

impl Interpreter<'_, '_> {
    /// Assignments, or a command with those that hold for it alone.
    pub(super) fn simple(
        &mut self,
        line: &Line,
        words: &[Word],
        input: Option<&Input>,
    ) -> Result<Next, ScriptError> {
        let (mut rest, mut assignments) = (words, Vec::new());
        while let Some((first, behind)) = rest.split_first() {
            if first.plain().is_some_and(|word| RUNS.contains(&word)) {
                let is_option =
                    |word: &&Word| word.plain().is_some_and(|word| word.starts_with('-'));
                let options = behind.iter().take_while(is_option).count();
                rest = behind.get(options..).unwrap_or(&[]);
            } else if let Some(assignment) = first.assignment() {
                assignments.push(assignment);
                rest = behind;
            } else {
                break;
            }
        }
        let declares = rest.first().and_then(Word::plain).filter(|word| DECLARES.contains(word));
        let mut before = Vec::new();
        self.succeeded = Some(true);
        for assignment in &assignments {
            if !rest.is_empty() {
                before.push((assignment.name, self.held(line, assignment.name)?));
            }
            self.assign_to(line, assignment, false)?;
        }
        let next = match (declares, rest.split_first()) {
            (_, None) => Next::Step,
            (Some(name), Some((_, rest))) => {
                self.declare(line, name, rest)?;
                Next::Step
            }
            (None, Some((first, inside))) if first.plain() == Some("[[") => {
                let fields = inside.iter().map(|word| self.expand(line, word));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                self.succeeded = test("[[", &fields);
                Next::Step
            }
            (None, Some(_)) => {
                let fields = self.fields(line, rest)?;
                let absent = fields.iter().take_while(|field| field.absent).count();
                match fields.get(absent..).and_then(<[Field<'_>]>::split_first) {
                    Some((first, rest)) => {
                        let name = first.text.clone().unwrap_or_else(|| first.word.shown());
                        self.named_command(line, &name, rest, input)?
                    }
                    None => Next::Step,
                }
            }
        };
        for (name, value) in before.into_iter().rev() {
            self.set(name, value);
        }
        Ok(next)
    }

    /// What a variable holds, to be put back.
    fn held(&mut self, line: &Line, name: &str) -> Result<Option<Value>, ScriptError> {
        let held = self.variables.get(name).cloned();
        self.take_bytes(line, name.len() + held.iter().flatten().map(String::len).sum::<usize>())?;
        Ok(held)
    }

    fn assign_to(
        &mut self,
        line: &Line,
        assignment: &Assignment<'_>,
        integer: bool,
    ) -> Result<(), ScriptError> {
        let Assignment { name, adds, value, rest } = *assignment;
        self.take_bytes(line, name.len())?;
        if let ("", Some(Part::Unknown(array))) = (value, rest.first().map(|piece| &piece.part))
            && array.starts_with('(')
        {
            let sign = if adds { "+=" } else { "=" };
            self.leave_out(line, &format!("{name}{sign}{array}"), NO_ARRAYS);
        }
        let (mut value, _) = self.joined(line, value, rest)?;
        if integer && let Some(text) = value {
            value = self.calculate(line, &text)?.map(|number| number.to_string());
        }
        if adds && let Some(before) = self.held(line, name)? {
            value = before.zip(value).map(|(before, value)| before + &value);
        }
        if value.is_none() {
            self.succeeded = None;
        }
        self.set(name, Some(value));
        Ok(())
    }

    /// `local x y=1`, `declare -i n=5`.
    fn declare(&mut self, line: &Line, command: &str, words: &[Word]) -> Result<(), ScriptError> {
        let local = self.caller.is_some() && !matches!(command, "export" | "readonly");
        let mut integer = false;
        for word in words {
            if let Some(options) = word.plain().and_then(|word| word.strip_prefix(['-', '+'])) {
                integer |= options.contains('i');
                continue;
            }
            let assignment = word.assignment();
            let name = assignment.as_ref().map(|assignment| assignment.name).or(word.plain());
            let Some(name) = name.filter(|name| is_variable(name)) else {
                self.leave_out(line, &word.shown(), "this declaration is not read");
                continue;
            };
            if local {
                let held = self.held(line, name)?;
                self.shadowed.push((name.to_owned(), held));
            }
            match assignment {
                Some(assignment) => self.assign_to(line, &assignment, integer)?,
                None if local => self.set(name, None),
                None => {}
            }
        }
        self.succeeded = Some(true);
        Ok(())
    }

    fn named_command(
        &mut self,
        line: &Line,
        name: &str,
        rest: &[Field<'_>],
        input: Option<&Input>,
    ) -> Result<Next, ScriptError> {
        let helper = ["pgset", "pg_set", "pg_ctrl", "pg_thread", "proc_cmd", "pg"].contains(&name);
        if let Some(function) = self.functions.get(name).filter(|_| !helper).cloned() {
            return self.call(line, function, rest);
        }
        match name {
            "pgset" => {
                let device = self.variables.get("PGDEV").cloned().flatten();
                let device = device.ok_or_else(|| {
                    line.wrong(fault!(
                        "PGDEV is not set";
                        "set it to a file of /proc/net/pktgen before pgset"
                    ))
                })?;
                self.give(line, &device, rest)?;
            }
            "pg_ctrl" => self.give(line, "pgctrl", rest)?,
            "pg" => self.write(line, "pgctrl", "start")?,
            "pg_thread" | "pg_set" | "proc_cmd" => {
                let Some((target, rest)) = rest.split_first() else {
                    return Err(line.wrong(format!("{name} lacks a device or thread")));
                };
                let target = self.known(line, target)?;
                let prefix = if name == "pg_thread" { "kpktgend_" } else { "" };
                self.give(line, &format!("{prefix}{target}"), rest)?;
            }
            "echo" => self.echo(line, rest)?,
            "printf" => self.printf(line, rest)?,
            "cat" => self.cat(line, rest, input)?,
            "tee" => self.tee(line, rest, input)?,
            "." | "source" => return self.include(line, rest),
            "read" => self.read(line, rest, input)?,
            "[" | "test" | "true" | "false" | ":" => self.succeeded = test(name, rest),
            "let" => {
                for field in rest {
                    let text = self.known(line, field)?;
                    self.arithmetic(line, &text)?;
                }
            }
            "unset" => {
                for name in rest.iter().filter_map(|field| field.text.as_deref()) {
                    self.set(name, None);
                }
            }
            "set" => self.set_arguments(rest),
            "shift" => self.shift(line, rest)?,
            "break" | "continue" => {
                if rest.iter().any(|field| field.text.as_deref() != Some("1")) {
                    self.leave_out(line, name, "it is about the innermost loop alone");
                }
                return Ok(if name == "break" { Next::Break } else { Next::Continue });
            }
            "exit" => {
                if self.control.devices.is_empty() {
                    let why = "the script ends here, before it has added a device";
                    self.leave_out(line, name, why);
                }
                return Ok(Next::Exit);
            }
            "return" => {
                if let Some(field) = rest.first() {
                    self.succeeded = field.text.as_deref().map(|status| status == "0");
                }
                return Ok(Next::Return);
            }
            "getopts" | "eval" => {
                self.leave_out(line, name, "this command of the shell is not read");
                self.succeeded = None;
            }
            _ if HARMLESS.contains(&name) => self.unknown_output(line),
            _ if SHOWS.contains(&name) => {
                self.unknown_output(line);
                self.succeeded = None;
            }
            _ => {
                let why = "it is neither a command of pktgen nor a known one of the shell";
                self.leave_out(line, name, why);
                self.succeeded = None;
            }
        }
        Ok(Next::Step)
    }

    /// `set -- a b`; other options of the shell change nothing here.
    fn set_arguments(&mut self, rest: &[Field<'_>]) {
        let mut words = rest.iter().filter(|field| !field.absent).map(|field| &field.text);
        if words.any(|text| text.as_deref() == Some("--")) {
            self.arguments = Some(words.cloned().collect());
        }
    }

    fn shift(&mut self, line: &Line, rest: &[Field<'_>]) -> Result<(), ScriptError> {
        let count = match rest.first() {
            None => Some(1),
            Some(field) => field.text.as_ref().and_then(|text| text.parse::<usize>().ok()),
        };
        let (Some(given), Some(count)) = (self.arguments.clone(), count) else {
            self.leave_out(line, "shift", "what the script is given is not known here");
            return Ok(());
        };
        self.take_steps(line, given.len() as u64)?;
        self.take_bytes(line, given.iter().flatten().map(String::len).sum())?;
        self.succeeded = Some(count <= given.len());
        self.arguments = Some(given.iter().skip(count).cloned().collect());
        Ok(())
    }

    fn call(
        &mut self,
        line: &Line,
        function: Function,
        rest: &[Field<'_>],
    ) -> Result<Next, ScriptError> {
        if self.calls == MAX_CALLS {
            return Err(
                line.wrong(format!("functions call one another more than {MAX_CALLS} deep"))
            );
        }
        let given = rest.iter().filter(|field| !field.absent).map(|field| field.text.clone());
        let arguments = self.arguments.replace(given.collect());
        let shadowed = self.shadowed.len();
        let caller = self.caller.clone();
        self.caller.get_or_insert_with(|| line.clone());
        let file = std::mem::replace(&mut self.file, function.file);
        self.calls += 1;
        let next = self.list(&function.body)?;
        self.calls -= 1;
        (self.file, self.caller, self.arguments) = (file, caller, arguments);
        for (name, value) in self.shadowed.split_off(shadowed).into_iter().rev() {
            self.set(&name, value);
        }
        Ok(if next == Next::Exit { Next::Exit } else { Next::Step })
    }

    fn include(&mut self, line: &Line, rest: &[Field<'_>]) -> Result<Next, ScriptError> {
        let Some(field) = rest.first() else {
            return Err(line.wrong("the name of a script is missing"));
        };
        let written = field.word.text();
        match written.rsplit('/').next().unwrap_or("") {
            "functions.sh" => {}
            "parameters.sh" => {
                self.parameters(line)?;
                for (name, value) in PARAMETERS {
                    if !self.variables.contains_key(name) {
                        self.set(name, Some(Some(value.to_owned())));
                    }
                }
            }
            _ => match &field.text {
                Some(name) => return self.included(line, name),
                None => {
                    self.leave_out(line, &written, "where this script is depends on the machine")
                }
            },
        }
        Ok(Next::Step)
    }

    fn included(&mut self, line: &Line, name: &str) -> Result<Next, ScriptError> {
        if self.calls == MAX_CALLS {
            return Err(
                line.wrong(format!("scripts include one another more than {MAX_CALLS} deep"))
            );
        }
        let text = self.draft.include_text(line, name)?;
        if text.len() > super::MAX_SCRIPT {
            return Err(line.wrong(format!("'{}' is too long for a shell script", printable(name))));
        }
        let file = Line { file: name.into(), number: 1 };
        let list = parse(&file, tokens(&file, &text)?)?;
        let before = std::mem::replace(&mut self.file, file);
        self.calls += 1;
        let next = self.list(&list);
        self.calls -= 1;
        self.file = before;
        Ok(if next? == Next::Exit { Next::Exit } else { Next::Step })
    }
}

/// Whether a test holds; `None`: it is not read, or depends on the machine.
fn test(name: &str, rest: &[Field<'_>]) -> Option<bool> {
    let texts = rest.iter().filter(|field| !field.absent).map(|field| field.text.as_deref());
    match name {
        "true" | ":" => Some(true),
        "false" => Some(false),
        "[[" if rest.iter().any(|field| field.word.is_pattern()) => None,
        _ => match (name, texts.collect::<Option<Vec<_>>>()?.as_slice()) {
            ("[", [inside @ .., "]"]) | ("[[", [inside @ .., "]]"]) => holds(inside),
            ("test", inside) => holds(inside),
            _ => None,
        },
    }
}
