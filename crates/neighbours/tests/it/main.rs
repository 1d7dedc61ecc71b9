//! Our hosts on one end of a cable, and Linux on the other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod kernel;
mod station;
