//! Why a run could not begin, and the exit code that says so.

use wirebeat_engine::port::PortError;
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
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The receiver on the other host could not be won.
    #[error(transparent)]
    Remote(#[from] crate::remote::RemoteError),
}

impl RunError {
    /// 2: wrong usage or scenario; 3: this machine can't.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Scenario(_) | RunError::Usage(_) => 2,
            RunError::Port(PortError::Unsupported { .. }) => 2,
            RunError::Machine(_) | RunError::Port(_) => 3,
            RunError::Remote(error) => error.exit_code(),
        }
    }
}
