//! Why a run could not begin, and the exit code that says so.

use wirebeat_capture::OpenError;
use wirebeat_engine::port::PortError;
use wirebeat_report::exit::Exit;
use wirebeat_traffic::compile::CompileError;
use wirebeat_units::Fault;

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

    /// That what is kept of frames cannot begin; `at` says where that was asked for.
    pub(crate) fn unopened(error: &OpenError, at: impl FnOnce(Fault) -> Fault) -> RunError {
        match error {
            OpenError::Refused(fault) => RunError::Usage(at(fault.clone())),
            OpenError::NoRoom(fault) => RunError::Output(at(fault.clone())),
        }
    }

    /// Says what would help; an error of another layer has said so itself.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> RunError {
        if let RunError::Usage(fault) | RunError::Machine(fault) | RunError::Output(fault) =
            &mut self
        {
            *fault = std::mem::take(fault).then_hint(hint);
        }
        self
    }

    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            RunError::Usage(fault) | RunError::Machine(fault) | RunError::Output(fault) => {
                fault.clone()
            }
            RunError::Scenario(error) => error.problem().fault(),
            RunError::Port(error) => error.fault(),
            RunError::Remote(error) => error.fault(),
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
