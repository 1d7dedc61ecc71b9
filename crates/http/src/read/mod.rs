//! From bytes to meaning: both readers, and what they have in common.
//!
//! A reader is a head that is being gathered, or a body that is being counted, or the connection is of no more use. `head` finds
//! the end of a head in any pieces, httparse divides it into its parts, `fields` reads those that frame a message; `body`
//! counts.

mod body;
mod chunked;
mod fields;
mod head;
mod request;
mod response;

pub use fields::Fields;
pub(crate) use fields::is_host;
pub(crate) use head::{is_field_value, is_token};
pub use request::{Limits, Method, RequestEvent, RequestHead, RequestLine, RequestReader};
pub use response::{RequestKind, ResponseEvent, ResponseHead, ResponseReader};

use crate::Bad;
use body::Body;
use head::{Pieces, Scan};

/// How the end of a message's body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is no body.
    None,
    /// Bytes of the body, by Content-Length.
    Length(u64),
    /// The body is in chunks (RFC 9112 §7.1).
    Chunked,
    /// The body ends with the connection (RFC 9112 §6.3, rule 8). Responses only.
    UntilClose,
    /// HTTP ends with this head: 101, or 2xx to CONNECT. What follows is left unread.
    Tunnel,
}

/// What becomes of the connection after a message (RFC 9112 §9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum After {
    /// The next message follows.
    Keep,
    /// No further message: it was announced, or the framing leaves no other way.
    Close,
    /// No further message, since the sender's framing is doubtful (RFC 9112 §6.1): both Transfer-Encoding and Content-Length, or chunks in
    /// HTTP/1.0. Responses only.
    Doubtful,
    /// The connection speaks another protocol (RFC 9110 §7.8, §9.3.6).
    Tunnel,
}

/// A message that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// Bytes of the whole message on the connection: head, body and the framing of chunks, and empty lines before a request. The
    /// lengths of a connection's messages, with those of interim responses, add up to the bytes that were read.
    pub message_len: u64,
    /// Bytes of the body: chunks without their framing, transfer codings other than chunked not undone.
    pub body_len: u64,
    /// What becomes of the connection.
    pub after: After,
}

/// Which end of a connection reads: a client is lenient where RFC 9112 lets it, a server is strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// Where a reader stands.
#[derive(Debug)]
enum State {
    /// Before or within a head: its bytes, if it comes in pieces, and what they end with.
    Head(Option<Box<Pieces>>, Scan),
    /// Behind a head, its end included.
    Body(Body),
    /// No message comes any more.
    Over,
    /// It stays invalid.
    Failed(Bad),
}

/// What was found behind a head.
enum Progress<'b> {
    Data(&'b [u8]),
    End(End),
    More,
}

impl State {
    fn new(side: Side) -> State {
        State::Head(None, Scan::new(side))
    }

    fn fail(&mut self, bad: Bad) -> Bad {
        *self = State::Failed(bad);
        bad
    }

    /// Goes on behind a head; called with [`State::Body`] only.
    fn read_body<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        side: Side,
        limit: u64,
    ) -> Result<Progress<'b>, Bad> {
        let State::Body(body) = self else { return Ok(Progress::More) };
        match body.read(bytes, side, limit) {
            Ok(Progress::End(end)) => {
                *self = match end.after {
                    After::Keep => State::new(side),
                    After::Close | After::Doubtful | After::Tunnel => State::Over,
                };
                Ok(Progress::End(end))
            }
            Ok(progress) => Ok(progress),
            Err(bad) => Err(self.fail(bad)),
        }
    }

    fn finish(&mut self) -> Result<Option<End>, Bad> {
        let result = match self {
            // Empty lines before a request are nothing.
            State::Head(pieces, scan) if pieces.is_none() || *scan == Scan::Empty => Ok(None),
            State::Head(..) => Err(Bad::HeadIncomplete),
            State::Body(body) => body.finish().map(Some),
            State::Over => Ok(None),
            State::Failed(bad) => Err(*bad),
        };
        *self = match result {
            Ok(_) => State::Over,
            Err(bad) => State::Failed(bad),
        };
        result
    }

    /// Bytes of the present message, and of its body.
    fn progress(&self) -> (u64, u64) {
        match self {
            State::Head(pieces, _) => (pieces.as_ref().map_or(0, |pieces| pieces.len() as u64), 0),
            State::Body(body) => (body.message_len(), body.body_len()),
            State::Over | State::Failed(_) => (0, 0),
        }
    }

    /// Whether it is as [`State::new`] made it.
    fn is_new(&self, side: Side) -> bool {
        matches!(self, State::Head(None, scan) if *scan == Scan::new(side))
    }

    /// Bytes of memory beside the reader itself.
    fn held(&self) -> usize {
        match self {
            State::Head(pieces, _) => pieces.as_ref().map_or(0, |pieces| pieces.capacity()),
            State::Body(_) | State::Over | State::Failed(_) => 0,
        }
    }
}
