//! How the command says no: what is wrong, where, how to mend it, and the exit code.
//!
//! Errors of the libraries keep what is wrong and what would help apart ([`Fault`]). Here they are laid out for a terminal, or
//! put together for JSON.

use std::fmt;
use std::io;

use wirebeat_run::{Exit, RunError};
use wirebeat_units::Fault;

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

/// Why a command ended without a result: whose fault it is, what is wrong, where, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    cause: Cause,
    fault: Fault,
    place: Option<String>,
}

impl Failure {
    /// From what is wrong, with what would help.
    pub fn new(cause: Cause, fault: impl Into<Fault>) -> Self {
        Failure { cause, fault: fault.into(), place: None }
    }

    /// Wrong usage or a wrong scenario.
    pub fn usage(fault: impl Into<Fault>) -> Self {
        Failure::new(Cause::Usage, fault)
    }

    /// Something that a machine cannot do.
    pub fn machine(fault: impl Into<Fault>) -> Self {
        Failure::new(Cause::Machine, fault)
    }

    /// An output that could not be written.
    pub fn output(fault: impl Into<Fault>) -> Self {
        Failure::new(Cause::Output, fault)
    }

    /// A file that could not be made: wrong usage, unless there is no room for it.
    pub fn making(error: &io::Error) -> Self {
        let cause = if no_room(error) { Cause::Output } else { Cause::Usage };
        Failure::new(cause, format!("cannot write it: {error}"))
    }

    /// Says where: a flag, or a file with line and column. Of very long values the beginning.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        const LETTERS: usize = 1000;
        let mut place = place.into();
        if let Some((end, _)) = place.char_indices().nth(LETTERS) {
            place.truncate(end);
            place.push('…');
        }
        self.place = Some(place);
        self
    }

    /// Says what would help, unless that is said already.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.fault = self.fault.or_hint(hint);
        self
    }

    /// Says what would help, in the place of what was said.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.fault = Fault { hint: None, ..self.fault }.or_hint(hint);
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

    /// What is wrong, with the place before it, and what would help.
    pub fn fault(&self) -> Fault {
        match &self.place {
            Some(place) => self.fault.clone().at(place),
            None => self.fault.clone(),
        }
    }

    /// All of it on one line: "where: what; hint".
    pub fn sentence(&self) -> String {
        self.fault().to_string()
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Failure::new(error.exit().into(), error.fault())
    }
}

/// For a terminal, with a newline at the end.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.fault.what)?;
        if let Some(place) = &self.place {
            writeln!(f, "  {place}")?;
        }
        if let Some(hint) = &self.fault.hint {
            writeln!(f, "  hint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_units::fault;

    use super::*;

    #[test]
    fn a_message_is_laid_out_and_put_together_again() {
        let failure = Failure::usage(fault!("it has no unit"; "write 5pps")).at("--rate 5");
        assert_eq!(failure.to_string(), "error: it has no unit\n  --rate 5\n  hint: write 5pps\n");
        assert_eq!(failure.sentence(), "--rate 5: it has no unit; write 5pps");
        assert_eq!(failure.exit_code(), 2);
    }

    #[test]
    fn a_message_with_a_remedy_keeps_it() {
        let own = Failure::machine(fault!("no rights"; "run as root")).hint("other");
        assert_eq!(own.sentence(), "no rights; run as root");
        let added = Failure::machine("no rights").hint("run as root");
        assert_eq!((added.sentence(), added.exit_code()), ("no rights; run as root".to_owned(), 3));
    }
}
