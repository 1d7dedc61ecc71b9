//! Why a message is invalid, in one table: what to say, and the status that a server answers with.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $says:literal;)*) => {
        /// What is wrong with a message. The connection cannot be read any further: where the next message would begin is not known.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Bad {
            $($(#[$doc])* $name,)*
        }

        impl Bad {
            /// All of them, in the order of their declaration: tables of counters are indexed by `bad as usize`.
            pub const ALL: &[Bad] = &[$(Bad::$name,)*];

            /// The status that a server answers with (RFC 9110 §15, RFC 9112). For what only a client can see it is 0.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Bad::$name => $status,)*
                }
            }

            /// What is wrong, as a part of a sentence.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Bad::$name => $says,)*
                }
            }
        }
    };
}

reasons! {
    /// Bytes that are no response: not `HTTP/` (RFC 9112 §4).
    NotHttp = 0, "not an HTTP response";
    /// The version of a status line is not `HTTP/1.x`, or the status not three digits from 100 on (RFC 9112 §4).
    StatusLine = 0, "invalid status line";
    /// A response with no request outstanding (RFC 9112 §9.2).
    Unsolicited = 0, "response without a request";
    /// The method is not a token (RFC 9112 §3.1).
    Method = 400, "invalid method";
    /// The target is empty, is not ASCII, or its form does not fit the method (RFC 9112 §3.2).
    Target = 400, "invalid request target";
    /// The target is longer than [`Limits::target`](crate::Limits) (RFC 9112 §3).
    TargetTooLong = 414, "request target too long";
    /// The version is not `HTTP/` digit `.` digit (RFC 9112 §2.3).
    VersionSyntax = 400, "invalid HTTP version";
    /// The major version is not 1 (RFC 9110 §15.6.6).
    Version = 505, "unsupported HTTP version";
    /// A CR that no LF follows, at the end of a head (RFC 9112 §2.2).
    LineEnd = 400, "invalid end of line";
    /// The name of a field is not a token, a space stands before the colon, the colon is missing, or the line is folded where it may
    /// not be (RFC 9112 §5.1, §5.2).
    FieldName = 400, "invalid field name";
    /// A control character in the value of a field (RFC 9110 §5.5).
    FieldValue = 400, "invalid field value";
    /// More than [`FIELDS_MAX`](crate::FIELDS_MAX) fields (RFC 6585 §5).
    FieldsTooMany = 431, "too many fields";
    /// A head of more than [`HEAD_MAX`](crate::HEAD_MAX) bytes (RFC 6585 §5).
    HeadTooLong = 431, "head too long";
    /// HTTP/1.1 without Host (RFC 9112 §3.2).
    HostMissing = 400, "no Host";
    /// More than one Host (RFC 9112 §3.2).
    HostRepeated = 400, "several Hosts";
    /// A Host that is not a host with an optional port (RFC 9110 §7.2).
    HostInvalid = 400, "invalid Host";
    /// A Content-Length that is not a number (RFC 9112 §6.3).
    ContentLength = 400, "invalid Content-Length";
    /// Several values of Content-Length that differ (RFC 9112 §6.3).
    ContentLengthDiffers = 400, "differing Content-Length";
    /// Transfer-Encoding and Content-Length in one request (RFC 9112 §6.1).
    LengthTwice = 400, "both Transfer-Encoding and Content-Length";
    /// Chunked is applied twice, or it is not the last coding of a request, or the field is empty (RFC 9112 §6.1, §6.3).
    TransferEncoding = 400, "invalid Transfer-Encoding";
    /// Transfer-Encoding in a request of HTTP/1.0 (RFC 9112 §6.1).
    TransferEncodingVersion = 400, "Transfer-Encoding in HTTP/1.0";
    /// A request with a transfer coding other than chunked (RFC 9112 §6.1).
    TransferCoding = 501, "unknown transfer coding";
    /// An expectation other than `100-continue` (RFC 9110 §10.1.1).
    Expectation = 417, "unknown expectation";
    /// A body of more than [`Limits::body`](crate::Limits) bytes, or a length beyond 64 bits (RFC 9110 §15.5.14).
    BodyTooLong = 413, "body too long";
    /// The size of a chunk is not hexadecimal digits, or is beyond 64 bits (RFC 9112 §7.1).
    ChunkSize = 400, "invalid chunk size";
    /// A control character in the extensions of a chunk, or LF without CR (RFC 9112 §7.1.1).
    ChunkExtension = 400, "invalid chunk extension";
    /// A chunk's size line of more than [`CHUNK_LINE_MAX`](crate::CHUNK_LINE_MAX) bytes (RFC 9112 §7.1.1).
    ChunkLineTooLong = 400, "chunk size line too long";
    /// No CRLF where the data of a chunk ends (RFC 9112 §7.1).
    ChunkEnd = 400, "chunk longer than its size";
    /// A trailer field that is invalid (RFC 9112 §7.1.2).
    Trailer = 400, "invalid trailer field";
    /// A trailer section of more than [`HEAD_MAX`](crate::HEAD_MAX) bytes (RFC 9112 §7.1.2).
    TrailerTooLong = 431, "trailer section too long";
    /// The connection ended within a head (RFC 9112 §8).
    HeadIncomplete = 0, "connection closed within a head";
    /// The connection ended within a body of known length or in chunks (RFC 9112 §8).
    BodyIncomplete = 0, "connection closed within a body";
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Bad {}
