//! The engines on virtual cables: what was sent is what arrives, down to the byte and the count.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod across;
mod allocations;
mod counting;
mod flow_memory;
mod lab;
mod packet;
mod packet_faults;
mod prompt;
mod rest;
mod socket;
mod socket_faults;
mod socket_own;
