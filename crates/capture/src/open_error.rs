//! Why a capture or a packet log cannot begin.

use std::io;

use wirebeat_units::{Fault, into_fault};

/// Why a sink cannot begin. Both say what is wrong, and what would help.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// What was asked for is invalid, or its file cannot be made.
    #[error("{0}")]
    Refused(Fault),
    /// The file system, or the device, has no room for what a file begins with.
    #[error("{0}")]
    NoRoom(Fault),
}

impl OpenError {
    /// What `why` means, which is told by `fault`.
    pub(crate) fn of(fault: Fault, why: io::ErrorKind) -> OpenError {
        match why {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::NoRoom(fault),
            _ => OpenError::Refused(fault),
        }
    }

    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            OpenError::Refused(fault) | OpenError::NoRoom(fault) => fault.clone(),
        }
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        OpenError::Refused(fault)
    }
}

into_fault!(OpenError);
