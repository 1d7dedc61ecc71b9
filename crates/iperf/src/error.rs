//! Why a test could not be run, or did not come to its end.

use std::io;
use std::net::SocketAddr;

use wirebeat_units::{Fault, Nanos, fault, into_fault};

use crate::control::ControlError;

/// Why a test could not be run, or did not come to its end.
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
    /// A thread cannot be started.
    Thread(#[source] io::Error),
    /// The peer sent what it may not.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The peer closed the control connection.
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
    /// The server runs another test.
    Busy,
    /// The server cannot do it, and says why in two numbers.
    ServerError {
        /// iperf3's own.
        code: i32,
        /// That of the system.
        errno: i32,
    },
    /// The peer ended the test before its time.
    Terminated,
    /// The [`Stop`](crate::Stop) was asked before the test began.
    Stopped,
    /// What is asked for is invalid, or more than is allowed.
    Refused(Refusal),
}

/// What of a test's parameters is invalid, or more than is allowed, with the number by which iperf3 knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and what would help.
    pub fault: Fault,
    /// iperf3's number, as `SERVER_ERROR` says it.
    pub code: i32,
}

impl Refusal {
    pub(crate) fn new(code: i32, fault: Fault) -> Refusal {
        Refusal { fault, code }
    }
}

impl Error {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                fault!("cannot listen on {address}: {source}"; "another server runs there; choose another port")
            }
            Error::Listen { address, source } => fault!("cannot listen on {address}: {source}"),
            // ENOENT of TCP_CONGESTION
            Error::Connect { source, .. } if source.kind() == io::ErrorKind::NotFound => fault!(
                "this machine has no such congestion control";
                "'sysctl net.ipv4.tcp_available_congestion_control' lists those there are"
            ),
            Error::Connect { address, source } => {
                fault!("cannot connect to {address}: {source}"; "does a server listen there?")
            }
            Error::Socket { what, source } => fault!("cannot {what}: {source}"),
            Error::Thread(source) => fault!("cannot start a thread: {source}"),
            Error::Control(inner) => inner.fault(),
            Error::Closed { waiting_for } => {
                fault!("the peer closed the control connection where {waiting_for} was expected")
            }
            Error::Silent { waiting_for, waited } => {
                fault!("no {waiting_for} within {waited}"; "is the peer still there?")
            }
            Error::Busy => fault!("the server runs another test"; "try again later"),
            Error::ServerError { code, errno } if *errno > 0 => {
                let system = io::Error::from_raw_os_error(*errno);
                fault!(
                    "the server refuses the test: iperf3's error {code} ({}), {system}",
                    meaning(*code)
                )
            }
            Error::ServerError { code, .. } => {
                fault!("the server refuses the test: iperf3's error {code} ({})", meaning(*code))
            }
            Error::Terminated => fault!("the peer ended the test before its time"),
            Error::Stopped => fault!("stopped before the test began"),
            Error::Refused(refusal) => refusal.fault.clone(),
        }
    }

    pub(crate) fn socket(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Socket { what, source }
    }
}

into_fault!(Error);

/// iperf3's numbers, as far as they are sent or said here (`iperf_api.h`).
pub(crate) mod code {
    pub const DURATION: i32 = 5;
    pub const STREAMS: i32 = 6;
    pub const BLOCK: i32 = 7;
    pub const WINDOW: i32 = 8;
    pub const MSS: i32 = 10;
    pub const OMIT: i32 = 12;
    pub const UNIMPLEMENTED: i32 = 13;
    pub const NO_SCTP: i32 = 18;
    pub const UDP_BLOCK: i32 = 20;
    pub const TOS: i32 = 21;
    pub const REVERSE_AND_BOTH: i32 = 25;
    pub const RATE: i32 = 27;
    pub const PARAMETERS: i32 = 114;
    pub const CONGESTION: i32 = 134;
    pub const AUTHORIZATION: i32 = 142;
    pub const STREAM_LISTEN: i32 = 202;
}

/// What iperf3 means by a number.
fn meaning(number: i32) -> &'static str {
    match number {
        code::DURATION => "the time is too long",
        code::STREAMS => "too many streams",
        code::BLOCK => "the block is too large",
        code::WINDOW => "the window is too large",
        code::MSS => "the segment is too large",
        code::OMIT => "the omitted time is invalid",
        code::UNIMPLEMENTED => "it cannot do that",
        code::NO_SCTP => "it has no SCTP",
        code::UDP_BLOCK => "the size of the datagrams is invalid",
        code::TOS => "the TOS is invalid",
        code::REVERSE_AND_BOTH => "reverse and both ways exclude each other",
        code::RATE => "the rate is more than it allows",
        code::PARAMETERS => "it cannot read the parameters",
        code::CONGESTION => "it has no such congestion control",
        code::AUTHORIZATION => "it asks for authentication",
        code::STREAM_LISTEN => "it cannot listen for streams",
        _ => "not known here",
    }
}
