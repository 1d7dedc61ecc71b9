//! Sessions out of captures, as whoever reads captures hands them over.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use wirebeat_units::{Fault, Nanos, fault};

use crate::values::session::Transport;

/// What one end said until the other did, or until it made a pause; over UDP, a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    /// Whether the client said it.
    pub by_client: bool,
    /// What.
    pub bytes: Arc<[u8]>,
    /// How long after the end of what was said before.
    pub after: Nanos,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEnd {
    /// The client closed first, or nobody did.
    Client,
    /// The server closed first.
    Server,
    /// By RST of the client.
    ClientReset,
    /// By RST of the server.
    ServerReset,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSession {
    /// What carried it.
    pub transport: Transport,
    /// What was said.
    pub turns: Vec<RecordedTurn>,
    /// How it ended.
    pub end: RecordedEnd,
    /// Bytes that the capture does not have; with any, the session cannot be said again.
    pub missing: u64,
    /// Whether its beginning was captured.
    pub is_from_the_start: bool,
}

/// The sessions of a capture that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedSessions {
    /// How many the capture has in all.
    pub count: u64,
    /// Those that were asked for, by their number from 1.
    pub sessions: BTreeMap<u64, RecordedSession>,
}

impl RecordedSessions {
    /// Session `number`, or the only one.
    pub(super) fn get(
        &self,
        file: &str,
        number: Option<NonZeroU64>,
    ) -> Result<&RecordedSession, Fault> {
        const SHOWN: &str = "'wirebeat convert' with the capture shows them";
        let number = match (number, self.count) {
            (Some(number), _) => number.get(),
            (None, 1) => 1,
            (None, 0) => {
                return Err(
                    fault!("the capture '{file}' has no sessions of TCP or UDP"; "{SHOWN}"),
                );
            }
            (None, count) => {
                return Err(fault!(
                    "the capture '{file}' has {count} sessions"; "say which one with 'session'; {SHOWN}"
                ));
            }
        };
        let session = self.sessions.get(&number).ok_or_else(|| {
            let count = self.count;
            fault!("the capture '{file}' has {count} sessions, and none has the number {number}"; "{SHOWN}")
        })?;
        if session.missing > 0 {
            return Err(fault!(
                "session {number} of the capture '{file}' lacks {} bytes: it was cut, or frames were lost", session.missing;
                "capture it whole (tcpdump -s 0), or take another; {SHOWN}"
            ));
        }
        if !session.is_from_the_start {
            return Err(fault!(
                "session {number} of the capture '{file}' began before the capture did";
                "take another; {SHOWN}"
            ));
        }
        if session.turns.is_empty() && session.transport == Transport::Udp {
            return Err(
                fault!("nothing is said in session {number} of the capture '{file}'"; "{SHOWN}"),
            );
        }
        Ok(session)
    }
}
