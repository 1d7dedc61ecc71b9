//! How the command says no: what is wrong, where, how to mend it, and the exit code.
//!
//! Messages of the libraries are sentences of the form "what is wrong; what would mend it", or, where the
//! remedy is short, "what is wrong: write this". Here they are laid out for a terminal, or put together
//! again for JSON.

use std::fmt;
use std::io;

use wirebeat_run::{Exit, RunError};

/// Whose fault it is. Gives the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The command line or the scenario is wrong.
    Usage,
    /// This machine, or another one, cannot do it.
    Machine,
    /// Somebody stopped it.
    Stopped,
    /// An output could not be written.
    Output,
}

impl From<Exit> for Cause {
    fn from(exit: Exit) -> Cause {
        match exit {
            Exit::Usage => Cause::Usage,
            Exit::Machine => Cause::Machine,
            Exit::Output => Cause::Output,
            Exit::Done | Exit::Unfinished | Exit::Unmet => Cause::Stopped,
        }
    }
}

/// Whether the system has no room for what is written; any other error of making a file is a wrong name for it.
pub fn no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Why a command ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    cause: Cause,
    what: String,
    place: Option<String>,
    hint: Option<String>,
}

impl Failure {
    /// From a message with its remedy.
    pub fn new(cause: Cause, message: &str) -> Self {
        let (what, hint) = parts(message);
        Failure { cause, what: what.to_owned(), place: None, hint: hint.map(str::to_owned) }
    }

    /// From what is wrong and what would help.
    pub fn told(cause: Cause, what: String, hint: Option<String>) -> Self {
        Failure { cause, what, place: None, hint }
    }

    /// Wrong usage or a wrong scenario.
    pub fn usage(message: &str) -> Self {
        Failure::new(Cause::Usage, message)
    }

    /// Something that a machine cannot do.
    pub fn machine(message: &str) -> Self {
        Failure::new(Cause::Machine, message)
    }

    /// An output that could not be written.
    pub fn output(message: &str) -> Self {
        Failure::new(Cause::Output, message)
    }

    /// A file that could not be made: wrong usage, unless there is no room for it.
    pub fn making(error: &io::Error) -> Self {
        let cause = if no_room(error) { Cause::Output } else { Cause::Usage };
        Failure::new(cause, &format!("cannot write it: {error}"))
    }

    /// Says where: a flag, or a file with line and column.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Says how to mend it, unless the message said so itself.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert(hint.into());
        self
    }

    /// The program's exit code.
    pub fn exit_code(&self) -> u8 {
        self.exit().code()
    }

    /// How the program ends.
    pub fn exit(&self) -> Exit {
        match self.cause {
            Cause::Usage => Exit::Usage,
            Cause::Machine => Exit::Machine,
            Cause::Stopped => Exit::Unfinished,
            Cause::Output => Exit::Output,
        }
    }

    /// All of it on one line: "where: what; hint".
    pub fn sentence(&self) -> String {
        let place = self.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{place}{}{hint}", self.what)
    }
}

/// What is wrong, and what would mend it.
pub fn parts(message: &str) -> (&str, Option<&str>) {
    if let Some((what, hint)) = message.split_once("; ") {
        return (what, Some(hint));
    }
    let imperative = [": write ", ": add "].iter().find_map(|words| message.find(words));
    match imperative {
        Some(at) => (&message[..at], Some(&message[at + ": ".len()..])),
        None => (message, None),
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error.remedy() {
            Some(hint) => Failure::told(error.exit().into(), error.what(), Some(hint.to_owned())),
            None => Failure::new(error.exit().into(), &error.to_string()),
        }
    }
}

/// For a terminal, with a newline at the end.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        if let Some(place) = &self.place {
            writeln!(f, "  {place}")?;
        }
        if let Some(hint) = &self.hint {
            writeln!(f, "  hint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_laid_out_and_put_together_again() {
        let failure = Failure::usage("it has no unit; write 5pps").at("--rate 5");
        assert_eq!(failure.to_string(), "error: it has no unit\n  --rate 5\n  hint: write 5pps\n");
        assert_eq!(failure.sentence(), "--rate 5: it has no unit; write 5pps");
        assert_eq!(failure.exit_code(), 2);
    }

    #[test]
    fn a_short_remedy_stands_behind_a_colon() {
        assert_eq!(parts("this is a word: write ef"), ("this is a word", Some("write ef")));
        assert_eq!(parts("f:1: no 'x': y"), ("f:1: no 'x': y", None));
        assert_eq!(parts("a: write b; c"), ("a: write b", Some("c")));
    }

    #[test]
    fn a_message_with_a_remedy_keeps_it() {
        let own = Failure::machine("no rights; run as root").hint("other");
        assert_eq!(own.sentence(), "no rights; run as root");
        let added = Failure::machine("no rights").hint("run as root");
        assert_eq!((added.sentence(), added.exit_code()), ("no rights; run as root".to_owned(), 3));
    }
}
