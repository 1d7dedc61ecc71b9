//! Programs of sessions, at either end, against a peer that does what the bytes say: it answers or not, sends anything, reads as little as
//! it likes, closes and resets. No turn goes on for ever, sessions end, counters are consistent, and a server of HTTP sends no more
//! than it was asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;

// what the property test of the crate runs
#[path = "../../crates/converse/tests/it/hostile.rs"]
mod hostile;

fuzz_target!(|bytes: &[u8]| {
    hostile::run(bytes);
});
