//! The traffic language from the outside: examples, frames as an independent dissector sees them, and
//! schedules against the distributions that they were asked for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod changes;
mod dissect;
mod examples;
mod keys;
mod observer;
mod schedules;
mod world;
