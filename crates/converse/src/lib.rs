//! Conversations: programs of sessions, run over any TCP.
//!
//! [`stack`] is what a TCP has to do and what it is told: two traits, so that programs do not know whose TCP speaks. Nothing here
//! does I/O or reads a clock: times and bytes come in, wishes go out.

pub mod stack;
