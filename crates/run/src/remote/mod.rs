//! The control connection between a sender and a receiver on another host.
//!
//! A receiver listens ([`Listener`], [`serve`]) and a sender connects ([`Connection`]), so that one
//! report holds both ends. From the wire upwards: `transport` (bytes, with the `key`), `message` (what
//! is said), `session` (what follows from it), `door` and `server` (who is served), `client` (the
//! sender), `resting` (a sender between two runs), `clock` (how two clocks relate). The receiver is passive: a peer can make it count and
//! answer, and nothing else, unless its owner lets it send (`grant`, `asked`, `sent`) or serve sessions (`serve_grant`, `asked_serving`). How frames are sent and measured is not known here: a receiver brings
//! its [`Metering`]. `docs/control-connection.md` has the wire shapes, the bounds and the threats.

mod any_bytes;
mod as_text;
mod asked;
mod asked_serving;
mod client;
mod clock;
mod crowd;
mod door;
mod grant;
mod intervals;
mod key;
mod message;
mod resting;
mod sent;
mod serve_grant;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod transport;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

#[doc(hidden)]
pub use any_bytes::feed;
pub(crate) use asked::{AT_ONCE, PORT, check_program, check_sources, time_at};
pub use asked::{AskedFlow, AskedSending};
pub(crate) use asked_serving::server_part;
pub use asked_serving::{
    AskedGroup, AskedServing, ServedPlace, ServedSessions, ServedSummary, ServingLook, ServingOrder,
};
pub use client::{Caller, Connection, Measurement, RemoteOutcome};
pub use clock::{ClockIdentity, ClockRelation};
pub use grant::Grant;
pub use intervals::{AskedIntervals, IntervalBacklog};
pub use key::{Key, KeyError, generate as generate_key};
pub(crate) use message::LONGEST_SETTLE;
pub use message::{
    Count, CpuSpent, Expected, ExpectedFlow, Limits, Measured, PROTOCOL, Version, Welcome,
};
pub use resting::RestingConnection;
pub use sent::{Sent, SentFlowCounts, SentIntervals, SentLook, SentSummary};
pub(crate) use sent::{SentAmount, SentBacklog};
pub use serve_grant::{ServeGrant, ServePlace};
pub use server::{Listener, Served, Service, serve};
pub use session::{Identity, Metering, SendingSide, ServingSide};

use wirebeat_report::exit::Exit;
use wirebeat_units::human::counted;

use crate::intervals::FAR_MAX;
use crate::options::{KeySource, Peer};
use transport::TransportError;
use wirebeat_units::{Fault, fault, into_fault};

/// How long the parts of a conversation may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// At the receiver: from the first byte to the greeting.
    pub handshake: Duration,
    /// At the sender: connecting and shaking hands, with all attempts. Longer than a receiver keeps strangers, so that
    /// who comes while it has too many still gets through.
    pub waiting: Duration,
    /// A message from its first byte to its last; an answer beyond what it has to wait for.
    pub answer: Duration,
    /// A sender that says nothing for so long is gone.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            handshake: Duration::from_secs(5),
            waiting: Duration::from_secs(20),
            answer: Duration::from_secs(10),
            silence: Duration::from_secs(10),
        }
    }
}

/// Why a receiver on another host could not be won, or what became of it; or why this one cannot
/// listen.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum RemoteError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no key, and the address is not a loopback one.
    KeyNeeded {
        /// The address.
        address: SocketAddr,
        /// A key that will do.
        example: String,
    },
    /// There is no key, and the listener sends for others, or serves sessions for them.
    KeyToAct {
        /// The address.
        address: SocketAddr,
        /// What it does: "sends".
        what: &'static str,
        /// The flag that allows it.
        flag: &'static str,
        /// A key that will do.
        example: String,
    },
    /// This machine cannot listen there.
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// It could not be reached.
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Something else listens there.
    NotAReceiver {
        /// Where.
        address: SocketAddr,
    },
    /// The keys differ.
    WrongKey {
        /// Where.
        address: SocketAddr,
    },
    /// It serves another sender.
    Busy {
        /// Where.
        address: SocketAddr,
    },
    /// It has too many connections to come to this one.
    Crowded {
        /// Where.
        address: SocketAddr,
        /// How long it was tried.
        waited: Duration,
    },
    /// Something accepts connections there, and says nothing.
    Silent {
        /// Where.
        address: SocketAddr,
        /// How long it was waited.
        waited: Duration,
    },
    /// The user asked to stop before the receiver had answered.
    Stopped {
        /// Where.
        address: SocketAddr,
    },
    /// It speaks another version of the protocol.
    Incompatible {
        /// Where.
        address: SocketAddr,
        /// Its version.
        version: Version,
    },
    /// Its handshake is of another version.
    OtherHandshake {
        /// Where.
        address: SocketAddr,
        /// Its version.
        theirs: u8,
    },
    /// It measures fewer flows than are going to be sent.
    TooManyFlows {
        /// Where.
        address: SocketAddr,
        /// How many it measures.
        limit: u16,
        /// How many there are.
        asked: usize,
    },
    /// Its owner does not let it send what it is to send.
    NotAllowed {
        /// Where.
        address: SocketAddr,
        /// What is not allowed, and what is.
        why: Fault,
    },
    /// Its owner does not let it serve what it is to serve.
    NotServed {
        /// Where.
        address: SocketAddr,
        /// What is not allowed, and what is.
        why: Fault,
    },
    /// It does not do what it was asked.
    Refused {
        /// Where.
        address: SocketAddr,
        /// Its words.
        reason: String,
    },
    /// It no longer answers.
    Gone {
        /// Where it was.
        address: SocketAddr,
        /// How that was noticed.
        how: String,
    },
    /// It says what cannot be true.
    Untrue {
        /// Where.
        address: SocketAddr,
        /// What is wrong.
        what: String,
    },
    /// What it tells of intervals takes more memory than there is for it.
    LargeIntervals {
        /// Where.
        address: SocketAddr,
    },
    /// The cipher does not work on this machine.
    Cipher {
        /// The other end.
        address: SocketAddr,
        /// Why.
        what: String,
    },
}

impl RemoteError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            RemoteError::Key(inner) => inner.fault(),
            RemoteError::KeyNeeded { address, example } => {
                fault!(
                    "others can reach {address}, so the control connection there needs a key";
                    "give both ends the same, for example {example}, which was made just now, or \
                     use a loopback address"
                )
            }
            RemoteError::KeyToAct { address, what, flag, example } => {
                fault!(
                    "a key is needed: the listener at {address} {what} for those who connect";
                    "give both ends the same key, for example {example}, which was made just now, or leave {flag} out"
                )
            }
            RemoteError::Listen { address, source } => {
                fault!(
                    "cannot listen for senders on {address}: {source}";
                    "choose another address or port"
                )
            }
            RemoteError::Unreachable { address, source } => {
                fault!(
                    "cannot reach the receiver at {address}: {source}";
                    "check that it listens there and that no firewall is between"
                )
            }
            RemoteError::NotAReceiver { address } => {
                fault!(
                    "what listens at {address} is not a Wirebeat receiver";
                    "check the port, which the receiver prints when it starts"
                )
            }
            RemoteError::LargeIntervals { address } => {
                fault!(
                    "the intervals that the receiver at {address} tells take more than {} MiB, the most \
                     that a run keeps, and its numbers are not used",
                    FAR_MAX >> 20;
                    "give longer intervals with --interval, or send fewer flows"
                )
            }
            RemoteError::WrongKey { address } => {
                fault!("the receiver at {address} has another key"; "give both ends the same one")
            }
            RemoteError::Busy { address } => {
                fault!(
                    "the receiver at {address} is busy with another sender";
                    "wait until that has its result, or start a second receiver on another port"
                )
            }
            RemoteError::Crowded { address, waited } => {
                fault!(
                    "the receiver at {address} is busy: it has too many other connections and did \
                     not answer this one within {} s",
                    waited.as_secs();
                    "try again, or keep them from its port"
                )
            }
            RemoteError::Silent { address, waited } => {
                fault!(
                    "nothing was heard from {address} within {} s: it is not a Wirebeat \
                     receiver, or one that is too busy to answer",
                    waited.as_secs();
                    "check the port, which the receiver prints when it starts"
                )
            }
            RemoteError::Stopped { address } => {
                fault!("stopped while the receiver at {address} had not answered")
            }
            RemoteError::Incompatible { address, version } => {
                fault!(
                    "the receiver at {address} is Wirebeat {} and speaks version {} of the \
                     control protocol, this is {} with version {PROTOCOL}",
                    version.wirebeat, version.protocol, env!("CARGO_PKG_VERSION");
                    "run the same Wirebeat on both hosts"
                )
            }
            RemoteError::OtherHandshake { address, theirs } => {
                fault!(
                    "the receiver at {address} shakes hands by version {theirs}, this is version \
                     {}",
                    transport::VERSION;
                    "run the same Wirebeat on both hosts"
                )
            }
            RemoteError::TooManyFlows { address, limit, asked } => {
                fault!(
                    "the receiver at {address} measures at most {}, and {asked} are to be sent",
                    counted((*limit).into(), "flow");
                    "let it take more with 'receive --flows {asked}', or send fewer"
                )
            }
            RemoteError::NotAllowed { address, why } => Fault {
                what: format!("the listener at {address} may not send this: {}", why.what),
                hint: why.hint.clone(),
            },
            RemoteError::NotServed { address, why } => Fault {
                what: format!("the listener at {address} may not serve this: {}", why.what),
                hint: why.hint.clone(),
            },
            RemoteError::Refused { address, reason } => {
                fault!("the receiver at {address} refused: {reason}")
            }
            RemoteError::Gone { address, how } => {
                fault!("the receiver at {address} is gone: {how}"; "its own messages may say why")
            }
            RemoteError::Untrue { address, what } => {
                fault!(
                    "the receiver at {address} sent an invalid result: {what}";
                    "its numbers are not used"
                )
            }
            RemoteError::Cipher { address, what } => {
                fault!("cannot secure the control connection with {address}: {what}")
            }
        }
    }
}

into_fault!(RemoteError);

impl RemoteError {
    /// The number of [`RemoteError::exit`].
    pub fn exit_code(&self) -> u8 {
        self.exit().code()
    }

    /// Wrong usage; or what the machines cannot do.
    pub fn exit(&self) -> Exit {
        match self {
            RemoteError::Stopped { .. } => Exit::Unfinished,
            RemoteError::Key(KeyError::Random(_)) => Exit::Machine,
            RemoteError::Key(_)
            | RemoteError::KeyNeeded { .. }
            | RemoteError::KeyToAct { .. }
            | RemoteError::WrongKey { .. }
            | RemoteError::NotAllowed { .. }
            | RemoteError::NotServed { .. } => Exit::Usage,
            RemoteError::Listen { .. }
            | RemoteError::Unreachable { .. }
            | RemoteError::NotAReceiver { .. }
            | RemoteError::Busy { .. }
            | RemoteError::Crowded { .. }
            | RemoteError::Silent { .. }
            | RemoteError::Incompatible { .. }
            | RemoteError::OtherHandshake { .. }
            | RemoteError::TooManyFlows { .. }
            | RemoteError::Refused { .. }
            | RemoteError::Gone { .. }
            | RemoteError::Untrue { .. }
            | RemoteError::LargeIntervals { .. }
            | RemoteError::Cipher { .. } => Exit::Machine,
        }
    }

    /// What a connection to `address` ended by.
    fn broken(address: SocketAddr, error: TransportError) -> RemoteError {
        match error {
            TransportError::Foreign => RemoteError::NotAReceiver { address },
            TransportError::Version(theirs) => RemoteError::OtherHandshake { address, theirs },
            TransportError::Key => RemoteError::WrongKey { address },
            TransportError::Stopped => RemoteError::Stopped { address },
            TransportError::Closed
            | TransportError::Crowded
            | TransportError::TimedOut
            | TransportError::Failed(_) => RemoteError::Gone { address, how: error.to_string() },
            TransportError::Damaged | TransportError::TooLong(_) => {
                RemoteError::Untrue { address, what: error.to_string() }
            }
            TransportError::Cipher(_) => RemoteError::Cipher { address, what: error.to_string() },
        }
    }
}

/// The key for a connection at `address`. None is needed on a loopback address.
/// That `peer` has a key, if it needs one, and that it can be read.
pub(crate) fn check_key(peer: &Peer) -> Result<(), RemoteError> {
    key_for(peer.address, peer.key.as_ref()).map(drop)
}

fn key_for(address: SocketAddr, source: Option<&KeySource>) -> Result<Key, RemoteError> {
    match source {
        Some(source) => Ok(Key::from_source(source)?),
        None if address.ip().to_canonical().is_loopback() => Ok(Key::public()),
        None => Err(RemoteError::KeyNeeded { address, example: key::generate()? }),
    }
}
