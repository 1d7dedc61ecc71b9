//! TLS between the programs of sessions and a TCP.
//!
//! [`TlsStack`] is a [`Stack`](wirebeat_converse::stack::Stack) over another one: it hands plaintext to the programs above and
//! ciphertext to the TCP below, for the groups that have TLS. Those that have none go through with one look at a table. Nothing here
//! does I/O: records and handshakes are rustls', bytes come in and go out as those of any program.
//!
//! Read `stack.rs` (where actions go down), `between.rs` (what the TCP tells and asks), `secured.rs` (one session), then `profile.rs`
//! (what a group asks of TLS), `trust.rs` (whose certificates are taken) and `certificate.rs` (one that is made for a run).

mod between;
mod certificate;
mod der;
mod profile;
mod secured;
mod stack;
#[cfg(test)]
mod tests;
mod trust;

pub use certificate::{Identity, system_authorities};
pub use profile::{ClientSettings, Ends, ServerSettings, Versions};
pub use stack::TlsStack;
pub use trust::Trusted;
