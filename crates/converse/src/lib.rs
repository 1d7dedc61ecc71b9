//! Conversations: programs of sessions, run over any TCP.
//!
//! [`stack`] is what a TCP has to do and what it is told: two traits, so that programs do not know whose TCP speaks.
//! [`Conversations`] are the sessions of a core: they are started, told what happens, and asked what they want. Nothing here does
//! I/O or reads a clock: times and bytes come in, wishes go out. [`converse`] is the loop that drives
//! both. Read `stack.rs`, then `conversations.rs`, then `interpreter.rs`.

mod alarms;
mod conversations;
pub mod converse;
mod dns;
mod events;
mod few;
mod gates;
mod greeting;
mod http;
mod http_message;
mod interpreter;
mod messages;
mod misbehaviour;
pub mod newcomers;
mod one_way;
mod outgoing;
mod pacer;
mod packed;
mod reading;
mod samples;
mod session;
mod sessions;
pub mod stack;
mod stamp;
mod sweeps;
#[cfg(test)]
mod tests;
mod tls;

pub use conversations::Conversations;
pub use converse::{Converse, Waiting};
pub use gates::Gates;
pub use samples::SAMPLED_MAX;
pub use session::End;
pub use sessions::Room;
