//! HTTP/1.1 messages (RFC 9110, 9112), sans I/O, for a load generator with millions of sessions.
//!
//! A [`ResponseReader`] (client) or [`RequestReader`] (server) takes the bytes of a connection as they arrive, in any pieces, and
//! says what they mean. Both are 32 bytes. A head that arrives whole is read in place; a head in pieces is kept until its last
//! byte is there, at most [`HEAD_MAX`] bytes; bodies are never kept. Every split of a connection's bytes gives the same events and
//! the same error, apart from where a body's bytes are divided. [`OutgoingRequest`] and [`OutgoingResponse`] are heads that are encoded once for a program;
//! [`ChunkedBody`] is a chunked body as a function of the offset, for senders that keep nothing.
//!
//! The crate knows no sessions, sockets or clocks, and does not decode content (`gzip` and its like are bytes).
//!
//! # Where to read
//!
//! [`Bad`] is what makes a message invalid, and the status that a server answers with. `head` finds the end of a head and what
//! its fields say; `body` counts bodies, `chunked` their chunks; [`ResponseReader`] and [`RequestReader`] put both together.
//! `write` is the other direction.
//!
//! # Where it is strict, and where it is not
//!
//! - A line of a head may end with LF alone (RFC 9112 §2.2). In chunked framing CRLF is needed, but for trailer fields.
//! - Empty lines before a request are skipped (§2.2), before a status line they are an error.
//! - Folded lines (§5.2) are read in responses and an error in requests, as is a space before the colon (§5.1).
//! - A request with both Transfer-Encoding and Content-Length is an error (§6.1); in a response Transfer-Encoding wins, and
//!   the connection ends after it.
//! - A minor version above 1 is read as 1 (RFC 9110 §2.5).

mod bad;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use bad::Bad;
pub use read::{
    After, End, Fields, Framing, Limits, Method, RequestEvent, RequestHead, RequestKind,
    RequestLine, RequestReader, ResponseEvent, ResponseHead, ResponseReader,
};
pub use write::{
    BodyLength, ChunkedBody, Connection, Field, Invalid, OutgoingRequest, OutgoingResponse,
    http_date, reason_phrase,
};

/// Bytes that a head may have, empty lines before it and the empty line at its end included. Trailer sections have the same limit.
pub const HEAD_MAX: usize = 64 * 1024;
/// Fields that a head may have.
pub const FIELDS_MAX: usize = 128;
/// Bytes that the size line of a chunk may have, extensions included, without its CRLF.
pub const CHUNK_LINE_MAX: usize = 4096;
