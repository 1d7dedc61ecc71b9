//! Heads of requests (RFC 9112 §3).

use super::{
    BodyLength, Connection, Field, Invalid, is_token_text, put_connection, put_field, put_fields,
    put_length,
};
use crate::read::is_host;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingRequest<'a> {
    /// A token, such as `GET`.
    pub method: &'a str,
    /// As it stands in the request line, such as `/index.html`; already encoded (RFC 3986 §2.1).
    pub target: &'a str,
    /// The host, and the port if it is not 80. Empty where the target has none (RFC 9112 §3.2).
    pub host: &'a str,
    /// The body. POST and PUT without one say `Bytes(0)` (RFC 9110 §8.6).
    pub length: BodyLength,
    /// What becomes of the connection.
    pub connection: Connection,
    /// Further fields, in this order. Host, Content-Length, Transfer-Encoding and Connection are not among them.
    pub fields: &'a [Field<'a>],
}

impl OutgoingRequest<'_> {
    /// The bytes of the head, with the empty line at its end.
    ///
    /// # Errors
    ///
    /// When a part is not what its place allows.
    pub fn encode(&self) -> Result<Vec<u8>, Invalid> {
        const RESERVED: [&str; 4] = ["Host", "Content-Length", "Transfer-Encoding", "Connection"];
        if !is_token_text(self.method) {
            return Err(Invalid::Method(self.method.to_owned()));
        }
        if self.target.is_empty() || !self.target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Invalid::Target(self.target.to_owned()));
        }
        if !is_host(self.host.as_bytes()) {
            return Err(Invalid::Host(self.host.to_owned()));
        }
        if self.length == BodyLength::UntilClose {
            return Err(Invalid::UntilClose);
        }
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(self.method.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(self.target.as_bytes());
        bytes.extend_from_slice(b" HTTP/1.1\r\n");
        put_field(&mut bytes, "Host", self.host);
        put_length(&mut bytes, self.length);
        put_connection(&mut bytes, self.connection);
        put_fields(&mut bytes, self.fields, &RESERVED)?;
        bytes.extend_from_slice(b"\r\n");
        Ok(bytes)
    }
}
