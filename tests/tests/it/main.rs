//! One test binary for the whole workspace: each module is one subject, with its rules at the top.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod architecture;
mod engines;
mod licences;
mod makefile;
mod packetdrill;
mod rust;
mod sources;
mod spdx;
mod workspace;

/// Fails with all of `violations`, one on a line, so that a change is mended in one go.
fn assert_none(violations: &[String], rule: &str) {
    assert!(violations.is_empty(), "{rule}:\n  {}\n", violations.join("\n  "));
}
