//! Heads of responses (RFC 9112 §4).

use super::{
    BodyLength, Connection, Field, Invalid, http_date, put_connection, put_field, put_fields,
    put_length,
};

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingResponse<'a> {
    /// 100 to 599.
    pub status: u16,
    /// The body. Responses to HEAD say what GET would have, and send none of it.
    pub length: BodyLength,
    /// What becomes of the connection. Behind `UntilClose` it is closed, whether said or not.
    pub connection: Connection,
    /// Date, in seconds since 1970 UTC (RFC 9110 §6.6.1); not written if there is none.
    pub date_s: Option<u64>,
    /// Further fields, in this order. Content-Length, Transfer-Encoding, Connection, and Date if it is given, are not among them.
    pub fields: &'a [Field<'a>],
}

impl OutgoingResponse<'_> {
    /// The bytes of the head, with the empty line at its end.
    ///
    /// # Errors
    ///
    /// When a part is not what its place allows, or the status cannot have such a body.
    pub fn encode(&self) -> Result<Vec<u8>, Invalid> {
        const RESERVED: [&str; 4] = ["Content-Length", "Transfer-Encoding", "Connection", "Date"];
        let Self { status, length, connection, date_s, fields } = *self;
        let fits = match status {
            100..=199 | 204 => length == BodyLength::None,
            304 => matches!(length, BodyLength::None | BodyLength::Bytes(_)),
            200..=599 => true,
            _ => return Err(Invalid::Status(status)),
        };
        if !fits {
            return Err(Invalid::LengthOfStatus(status));
        }
        let connection = match (length, connection) {
            (BodyLength::UntilClose, Connection::KeepAlive) => return Err(Invalid::UntilClose),
            (BodyLength::UntilClose, _) => Connection::Close,
            (_, connection) => connection,
        };
        let mut bytes = Vec::with_capacity(256);
        // RFC 9112 §4: the space behind the status stands even if no phrase follows.
        bytes.extend_from_slice(
            format!("HTTP/1.1 {status} {}\r\n", reason_phrase(status)).as_bytes(),
        );
        if let Some(seconds) = date_s {
            put_field(&mut bytes, "Date", &http_date(seconds));
        }
        put_length(&mut bytes, length);
        put_connection(&mut bytes, connection);
        let reserved = if date_s.is_some() { &RESERVED[..] } else { &RESERVED[..3] };
        put_fields(&mut bytes, fields, reserved)?;
        bytes.extend_from_slice(b"\r\n");
        Ok(bytes)
    }
}

/// The usual phrase of a status (RFC 9110 §15, RFC 6585); empty for others.
#[must_use]
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        511 => "Network Authentication Required",
        _ => "",
    }
}
