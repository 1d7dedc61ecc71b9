//! Why a flow could not be sent, or a receiver not be run.

use std::io;
use std::net::SocketAddr;

use wirebeat_units::{Fault, Nanos, fault, into_fault};

use crate::control::{ControlError, FlowFault};

/// Why a flow could not be sent, or a receiver not be run.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum Error {
    /// This address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is no connection to be had.
    Connect {
        /// To where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A socket cannot be made, set or used.
    Socket {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The peer sent what it may not.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The peer closed the signalling connection.
    Closed {
        /// What was waited for.
        waiting_for: &'static str,
    },
    /// Nothing came for too long.
    Silent {
        /// What was waited for.
        waiting_for: &'static str,
        /// How long.
        waited: Nanos,
    },
    /// The receiver does not take a flow.
    FlowRefused {
        /// Its number.
        flow: u32,
        /// Why.
        why: FlowFault,
    },
    /// What is asked for is invalid.
    Invalid(Fault),
    /// It was asked to stop before the flows began.
    Stopped,
}

impl Error {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                fault!("cannot listen on {address}: {source}"; "another receiver runs there; choose another port")
            }
            Error::Listen { address, source } => fault!("cannot listen on {address}: {source}"),
            Error::Connect { address, source } => {
                fault!("cannot connect to {address}: {source}"; "does ITGRecv run there?")
            }
            Error::Socket { what, source } => fault!("cannot {what}: {source}"),
            Error::Control(inner) => inner.fault(),
            Error::Closed { waiting_for } => {
                fault!("the peer closed the signalling connection where {waiting_for} was expected")
            }
            Error::Silent { waiting_for, waited } => {
                fault!("no {waiting_for} within {waited}"; "is the peer still there?")
            }
            Error::FlowRefused { flow, why: FlowFault::Bind } => fault!(
                "the receiver cannot listen for flow {flow}";
                "another program may have the port; choose another with --data-port"
            ),
            Error::FlowRefused { flow, why: FlowFault::Privilege } => {
                fault!("the receiver has not the right to receive flow {flow}")
            }
            Error::FlowRefused { flow, why: FlowFault::Broken } => {
                fault!("the receiver lost flow {flow}"; "its own messages say why")
            }
            Error::Invalid(fault) => fault.clone(),
            Error::Stopped => fault!("stopped before the flows began"),
        }
    }

    pub(crate) fn socket(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Socket { what, source }
    }
}

into_fault!(Error);
