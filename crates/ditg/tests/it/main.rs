//! Both roles against the real programs, in namespaces of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test that uses them"
)]

mod client;
mod hostile;
mod server;
mod world;
