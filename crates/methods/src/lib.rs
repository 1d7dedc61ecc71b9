//! Tests that are made of many runs on one lab: RFC 2544.
//!
//! A *trial* is a run at one load. The searches that pick the loads are pure and live in their own crate; here they meet a lab
//! (`bench.rs`), whose sender's own books say whether a load was really offered, and which is asked again where the tester was at fault
//! (`attempts.rs`). Read `bench.rs`, then `rfc2544/`.

mod attempts;
mod bench;
pub mod rfc2544;

pub use bench::MaxLoad;
pub use wirebeat_search::Goal;
