//! Whole runs over virtual cables in namespaces of their own: the one conformance suite, run against
//! every engine; the kernel's meter against the reference; and an independent observer on the link.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod conformance;
mod kernel_meter;
mod kernel_sender;
mod observer;
mod same_frames;
mod trace;
mod two_hosts;
mod world;
