//! Searches for the load that a device bears: trials in, the next load out.
//!
//! A search is a function of the trials that were made so far, in whatever order: it has no state, no clock and no device. So a search
//! that was cut off goes on with the trials that it had, and a simulated device shows what a search is worth. `trial.rs` says what a
//! trial is, `goal.rs` what is looked for and how a load is judged (RFC 9971), `throughput.rs` picks the next load, `loss_rate.rs` and
//! `burst.rs` are the other searches of RFC 2544 and RFC 9004; `constant_loss.rs` says where none of them means anything.
//!
//! Loads are frames per second (or whatever else the caller counts in), times are seconds.

mod burst;
mod constant_loss;
mod goal;
mod loss_rate;
mod throughput;
mod trial;

pub use burst::{BurstSearch, Bursts};
pub use constant_loss::ConstantLoss;
pub use goal::{Bound, Goal, classify, conditional_throughput};
pub use loss_rate::LossRateSearch;
pub use throughput::{Bounds, Next, ThroughputSearch};
pub use trial::Trial;
