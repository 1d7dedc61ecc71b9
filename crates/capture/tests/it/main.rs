//! Captures as other programs read them: tshark, capinfos, tcpdump, zstd, and the crate pcap-file.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod contents;
mod damage;
mod filter;
mod series;
mod streams;
mod world;
