//! What the commands of a script do: assignments, functions, other scripts, and what is written to pktgen.

use super::interpreter::{Interpreter, Next};
use super::lexer::{Part, Word, tokens};
use super::parser::{Command, List, parse};
use crate::text::printable;
use crate::{Line, ScriptError};

/// How deep functions and scripts may call and include one another.
const MAX_CALLS: usize = 8;
/// Where pktgen's files are.
const FILES: &str = "/proc/net/pktgen/";

/// Commands that show something, or prepare what needs no preparation here.
const HARMLESS: [&str; 27] = [
    "cat",
    "clear",
    "date",
    "depmod",
    "err",
    "fgrep",
    "grep",
    "info",
    "insmod",
    "lsmod",
    "modprobe",
    "print_result",
    "printresult",
    "rmmod",
    "root_check_run_with_sudo",
    "set",
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
    "which",
];

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
    pub(super) fn command(&mut self, line: &Line, command: &Command) -> Result<Next, ScriptError> {
        let mut words = command.words.as_slice();
        while let Some((first, rest)) = words.split_first() {
            let skip = matches!(
                first.plain(),
                Some("export" | "local" | "declare" | "readonly" | "typeset" | "sudo")
            );
            if !(skip || self.assignment(line, first)?) {
                break;
            }
            words = rest;
        }
        let Some((first, rest)) = words.split_first() else {
            self.succeeded = true;
            return Ok(Next::Step);
        };
        let name = match self.expand(line, first)?.text {
            Some(name) => name,
            None => first.text(),
        };
        self.named_command(line, &name, rest, command)
    }

    /// Whether it is one: `NAME=value`.
    fn assignment(&mut self, line: &Line, word: &Word) -> Result<bool, ScriptError> {
        let Some(Part::Text(text)) = word.parts.first() else { return Ok(false) };
        let Some((name, value)) = text.split_once('=') else { return Ok(false) };
        let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        if !begins || !name.chars().all(super::lexer::is_name) {
            return Ok(false);
        }
        let mut rest = word.clone();
        if let Some(first) = rest.parts.first_mut() {
            *first = Part::Text(value.to_owned());
        }
        let value = self.expand(line, &rest)?.text;
        self.variables.insert(name.to_owned(), value);
        Ok(true)
    }

    fn named_command(
        &mut self,
        line: &Line,
        name: &str,
        rest: &[Word],
        command: &Command,
    ) -> Result<Next, ScriptError> {
        let helper = ["pgset", "pg_set", "pg_ctrl", "pg_thread", "proc_cmd", "pg"].contains(&name);
        if let Some(body) = self.functions.get(name).filter(|_| !helper).cloned() {
            return self.call(line, &body, rest);
        }
        self.succeeded = true;
        match name {
            "pgset" => {
                let device = self.variables.get("PGDEV").cloned().flatten();
                let device = device.ok_or_else(|| {
                    line.wrong(
                        "PGDEV is not set; set it to a file of /proc/net/pktgen before pgset",
                    )
                })?;
                self.write(line, &device, rest)?;
            }
            "pg_ctrl" => self.write(line, "pgctrl", rest)?,
            "pg" => self.write(line, "pgctrl", &[Word::of("start")])?,
            "pg_thread" | "pg_set" | "proc_cmd" => {
                let Some((target, rest)) = rest.split_first() else {
                    return Err(line.wrong(format!("{name} lacks a device or thread")));
                };
                let target = self.known(line, target)?;
                let prefix = if name == "pg_thread" { "kpktgend_" } else { "" };
                self.write(line, &format!("{prefix}{target}"), rest)?;
            }
            "echo" | "printf" => self.echo(line, rest, command)?,
            "." | "source" => return self.include(line, rest),
            "read" => self.read(line, rest, command)?,
            "[" | "[[" | "test" | "true" | "false" | ":" => {
                // What is not known is taken for not so: the defaults behind && are not set then.
                self.succeeded = self.test(line, command)?.unwrap_or(false);
            }
            "unset" => {
                for name in rest.iter().filter_map(Word::plain) {
                    self.variables.remove(name);
                }
            }
            "exit" => return Ok(Next::Exit),
            "return" => return Ok(Next::Return),
            "shift" | "getopts" | "eval" | "break" | "continue" => {
                self.leave_out(line, name, "this command of the shell is not read");
            }
            _ if HARMLESS.contains(&name) => {}
            _ => {
                let what = printable(name);
                self.leave_out(
                    line,
                    &what,
                    "it is neither a command of pktgen nor a known one of the shell",
                );
            }
        }
        Ok(Next::Step)
    }

    fn call(&mut self, line: &Line, body: &List, arguments: &[Word]) -> Result<Next, ScriptError> {
        if self.calls == MAX_CALLS {
            return Err(
                line.wrong(format!("functions call one another more than {MAX_CALLS} deep"))
            );
        }
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.expand(line, argument)?.text);
        }
        let all: Option<Vec<String>> = values.iter().cloned().collect();
        let mut given = vec![("#".to_owned(), Some(values.len().to_string()))];
        given.extend(
            ["@", "*"].map(|name| (name.to_owned(), all.as_ref().map(|all| all.join(" ")))),
        );
        given.extend(
            (1..=9).map(|n| (n.to_string(), values.get(n - 1).cloned().unwrap_or_default())),
        );
        let before: Vec<_> = given
            .into_iter()
            .map(|(name, value)| (name.clone(), self.variables.insert(name, value)))
            .collect();
        let before_call = self.caller.clone();
        self.caller.get_or_insert_with(|| line.clone());
        self.calls += 1;
        let next = self.list(body)?;
        self.calls -= 1;
        self.caller = before_call;
        for (name, value) in before {
            match value {
                Some(value) => self.variables.insert(name, value),
                None => self.variables.remove(&name),
            };
        }
        Ok(if next == Next::Return { Next::Step } else { next })
    }

    /// Only what goes to a file of pktgen matters.
    fn echo(&mut self, line: &Line, rest: &[Word], command: &Command) -> Result<(), ScriptError> {
        let Some(out) = &command.out else { return Ok(()) };
        let target = self.expand(line, out)?.text;
        let options = rest
            .iter()
            .take_while(|word| matches!(word.plain(), Some("-n" | "-e" | "-en")))
            .count();
        match target {
            Some(target) if target.starts_with(FILES) => {
                self.write(line, &target, rest.get(options..).unwrap_or(&[]))
            }
            _ if out.text().contains("/dev/") => Ok(()),
            _ => {
                let why = "it writes to a file that is not pktgen's";
                self.leave_out(line, &out.text(), why);
                Ok(())
            }
        }
    }

    /// Gives pktgen a command.
    fn write(&mut self, line: &Line, target: &str, words: &[Word]) -> Result<(), ScriptError> {
        let target = target.strip_prefix(FILES).unwrap_or(target).trim_matches('/');
        let mut parts = Vec::new();
        for word in words {
            parts.push(self.known(line, word)?);
        }
        let line = self.caller.as_ref().unwrap_or(line);
        self.control.write(self.draft, line, target, &parts.join(" "))
    }

    fn include(&mut self, line: &Line, rest: &[Word]) -> Result<Next, ScriptError> {
        let Some(word) = rest.first() else {
            return Err(line.wrong("the name of a script is missing"));
        };
        let written = word.text();
        match written.rsplit('/').next().unwrap_or("") {
            "functions.sh" => {}
            "parameters.sh" => {
                for (name, value) in PARAMETERS {
                    let value = Some(value.to_owned());
                    self.variables.entry(name.to_owned()).or_insert(value);
                }
            }
            _ => match self.expand(line, word)?.text {
                Some(name) => return self.included(line, &name),
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
