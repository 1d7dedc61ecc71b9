//! From meaning to bytes: heads, encoded once for a program, and chunked bodies as a function of the offset.
//!
//! What a user gives is checked when it is encoded: no line end can come in by a value, and no field that frames the message
//! beside the framing that was asked for.

mod chunks;
mod date;
mod request;
mod response;

pub use chunks::ChunkedBody;
pub use date::http_date;
pub use request::OutgoingRequest;
pub use response::{OutgoingResponse, reason_phrase};

use std::fmt;

use crate::read::{is_field_value, is_token};

/// A field of one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// A token (RFC 9110 §5.1).
    pub name: &'a str,
    /// Visible characters, with spaces and tabs between them only (RFC 9110 §5.5).
    pub value: &'a str,
}

/// How the end of a body is found by the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Nothing is said: no body, or one that was asked for by HEAD.
    None,
    /// Content-Length.
    Bytes(u64),
    /// Transfer-Encoding: chunked.
    Chunked,
    /// The body ends with the connection; Connection: close is written. Responses only.
    UntilClose,
}

/// What Connection says (RFC 9112 §9.3, §9.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Nothing: it stays open.
    Unsaid,
    /// `close`
    Close,
    /// `keep-alive`, for peers of HTTP/1.0.
    KeepAlive,
}

/// Why a head cannot be encoded. A place is an index into the fields that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// Not a token (RFC 9112 §3.1).
    Method(String),
    /// Empty, or with spaces, controls or bytes beyond ASCII (RFC 9112 §3.2).
    Target(String),
    /// Not a host with an optional port (RFC 9110 §7.2).
    Host(String),
    /// Not from 100 to 599 (RFC 9110 §15).
    Status(u16),
    /// 1xx and 204 have no body, and say no length (RFC 9110 §8.6, RFC 9112 §6.1); 304 has none to end a connection or to be in chunks.
    LengthOfStatus(u16),
    /// A request does not end with the connection (RFC 9112 §6.3); and what ends with it is not kept alive.
    UntilClose,
    /// The name is not a token.
    FieldName {
        /// Its index.
        index: usize,
        /// As it was given.
        name: String,
    },
    /// CR, LF, NUL or another control character, or a space at an end.
    FieldValue {
        /// Its index.
        index: usize,
        /// The field's name.
        name: String,
    },
    /// Another part of the head writes this field.
    FieldReserved {
        /// Its index.
        index: usize,
        /// As it was given.
        name: String,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Method(method) => write!(f, "method {method:?} is not a token"),
            Invalid::Target(target) => {
                write!(
                    f,
                    "target {target:?} is empty, or has spaces, controls or non-ASCII characters"
                )
            }
            Invalid::Host(host) => write!(f, "{host:?} is not a host with an optional port"),
            Invalid::Status(status) => write!(f, "status {status} is not from 100 to 599"),
            Invalid::LengthOfStatus(status) => {
                write!(f, "a response with status {status} cannot have this body length")
            }
            Invalid::UntilClose => {
                f.write_str("only a response without keep-alive can end with the connection")
            }
            Invalid::FieldName { index, name } => {
                write!(f, "field {}: name {name:?} is not a token", index + 1)
            }
            Invalid::FieldValue { index, name } => write!(
                f,
                "field {} ({name}): the value has a line end or another control character, or a space at an end",
                index + 1
            ),
            Invalid::FieldReserved { index, name } => {
                write!(f, "field {}: {name} is written from other parts of the message", index + 1)
            }
        }
    }
}

impl std::error::Error for Invalid {}

fn is_token_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token)
}

/// Writes fields of one's own behind checks.
fn put_fields(into: &mut Vec<u8>, fields: &[Field<'_>], reserved: &[&str]) -> Result<(), Invalid> {
    for (index, Field { name, value }) in fields.iter().enumerate() {
        if !is_token_text(name) {
            return Err(Invalid::FieldName { index, name: (*name).to_owned() });
        }
        if reserved.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(Invalid::FieldReserved { index, name: (*name).to_owned() });
        }
        let spaced = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
        if spaced || !value.bytes().all(is_field_value) {
            return Err(Invalid::FieldValue { index, name: (*name).to_owned() });
        }
        put_field(into, name, value);
    }
    Ok(())
}

fn put_field(into: &mut Vec<u8>, name: &str, value: &str) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    into.extend_from_slice(value.as_bytes());
    into.extend_from_slice(b"\r\n");
}

fn put_length(into: &mut Vec<u8>, length: BodyLength) {
    match length {
        BodyLength::None | BodyLength::UntilClose => {}
        BodyLength::Bytes(bytes) => put_field(into, "Content-Length", &bytes.to_string()),
        BodyLength::Chunked => put_field(into, "Transfer-Encoding", "chunked"),
    }
}

fn put_connection(into: &mut Vec<u8>, connection: Connection) {
    match connection {
        Connection::Unsaid => {}
        Connection::Close => put_field(into, "Connection", "close"),
        Connection::KeepAlive => put_field(into, "Connection", "keep-alive"),
    }
}
