//! DNS messages (RFC 1035, RFC 6891): bytes in, meaning out, and the bytes of queries and of responses with addresses.
//!
//! [`Message`] reads any message: its header, its question and EDNS; the records are walked, so that a message is whole or
//! [`Bad`], and their data is not looked into. Nothing here does I/O, reads a clock or keeps anything; a name is at most 255
//! bytes in place. `name.rs` are names and their compression, `read.rs` reads, `write.rs` writes. What carries messages, and the
//! length before each over TCP (RFC 1035 §4.2.2), is the business of others.

mod codes;
mod name;
mod read;
mod write;

pub use codes::{FORMERR, NOERROR, NOTIMP, RecordType, UnknownType, rcode, rcode_name};
pub use name::{BadName, NAME_MAX, Name};
pub use read::{Bad, Edns, HEADER, Message, Question};
pub use write::{Answer, EDNS_MAX, PLAIN_MAX, Query, refuse};
