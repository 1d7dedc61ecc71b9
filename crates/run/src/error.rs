//! Why a run could not begin, and the exit code that says so.

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
    Usage(String),
    /// This machine lacks something.
    #[error("{0}")]
    Machine(String),
    /// There is no room to write an output.
    #[error("{0}")]
    Output(String),
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The receiver on the other host could not be won.
    #[error(transparent)]
    Remote(#[from] crate::remote::RemoteError),
}

impl RunError {
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
