//! Tests that are made of many runs: RFC 2544 on one lab, and what other tests need to know of their runs (`limited.rs`).
//!
//! A *trial* is a run at one load. The searches that pick the loads are pure and live in their own crate; here they meet a lab
//! (`bench.rs`), whose sender's own books say whether a load was really offered, and which is asked again where the tester was at fault
//! (`attempts.rs`). Read `bench.rs`, then `rfc2544/`.

mod attempts;
mod bench;
pub mod limited;
pub mod rfc2544;

pub use bench::MaxLoad;
pub use wirebeat_search::Goal;
