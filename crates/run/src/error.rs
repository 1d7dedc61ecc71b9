//! Why a run could not begin, and the exit code that says so.

use std::fmt;

use wirebeat_engine::port::PortError;
use wirebeat_report::exit::Exit;
use wirebeat_traffic::compile::CompileError;

/// Why a run could not begin. Nothing has been sent.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario cannot be run as it is.
    #[error(transparent)]
    Scenario(#[from] CompileError),
    /// What was asked for does not exist or does not go together.
    #[error("{0}")]
    Usage(Fault),
    /// This machine lacks something.
    #[error("{0}")]
    Machine(Fault),
    /// There is no room to write an output.
    #[error("{0}")]
    Output(Fault),
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The receiver on the other host could not be won.
    #[error(transparent)]
    Remote(#[from] crate::remote::RemoteError),
}

/// What is wrong, and what would help: each a sentence without a full stop, the first with where it is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, and where.
    pub what: String,
    /// What would help.
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl<T: Into<String>> From<T> for Fault {
    fn from(what: T) -> Fault {
        Fault { what: what.into(), hint: None }
    }
}

impl RunError {
    /// What was asked for does not exist or does not go together.
    pub(crate) fn usage(what: impl Into<Fault>) -> RunError {
        RunError::Usage(what.into())
    }

    /// This machine lacks something.
    pub(crate) fn machine(what: impl Into<Fault>) -> RunError {
        RunError::Machine(what.into())
    }

    /// There is no room to write an output.
    pub(crate) fn output(what: impl Into<Fault>) -> RunError {
        RunError::Output(what.into())
    }

    /// Says what would help; an error of another layer has said so itself.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> RunError {
        if let RunError::Usage(fault) | RunError::Machine(fault) | RunError::Output(fault) =
            &mut self
        {
            fault.hint = Some(hint.into());
        }
        self
    }

    /// What is wrong and where, without what would help.
    pub fn what(&self) -> String {
        match self {
            RunError::Usage(fault) | RunError::Machine(fault) | RunError::Output(fault) => {
                fault.what.clone()
            }
            RunError::Port(error) => error.what(),
            other => other.to_string(),
        }
    }

    /// What would help, where that is known beside what is wrong.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            RunError::Usage(fault) | RunError::Machine(fault) | RunError::Output(fault) => {
                fault.hint.as_deref()
            }
            RunError::Port(error) => error.hint(),
            _ => None,
        }
    }

    /// The number of [`RunError::exit`].
    pub fn exit_code(&self) -> u8 {
        self.exit().code()
    }

    /// Wrong usage or scenario; or what this machine cannot do.
    pub fn exit(&self) -> Exit {
        match self {
            RunError::Scenario(_) | RunError::Usage(_) => Exit::Usage,
            RunError::Port(PortError::Unsupported { .. }) => Exit::Usage,
            RunError::Machine(_) | RunError::Port(_) => Exit::Machine,
            RunError::Output(_) => Exit::Output,
            RunError::Remote(error) => error.exit(),
        }
    }
}
