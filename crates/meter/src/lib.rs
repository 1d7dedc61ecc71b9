//! From arrivals to measurements: loss, duplicates, reordering (RFC 4737), one-way delay, delay
//! variation (RFC 4689, RFC 5481, RFC 3550), inter-arrival time.
//!
//! Pure: no clock, no I/O, no knowledge of where packets came from. [`summary`] is what every engine
//! delivers, whether it metered in the kernel or here, and can be added across cores and hosts.
//! [`histogram`] is the one bucket layout that eBPF, Rust and reports share.

pub mod bins;
pub mod codecs;
pub mod connections;
pub mod departures;
pub mod distribution;
pub mod filter;
pub mod flow;
pub mod headers;
pub mod histogram;
pub mod interval;
pub mod jitter;
pub mod memory;
mod merge;
pub mod meter;
mod moments;
pub mod observation;
pub mod queue_series;
pub mod queues;
mod reassembly;
mod recorder;
pub mod sequence;
pub mod series;
pub mod session;
pub mod summary;
pub mod validate;

#[cfg(test)]
mod testing {
    use proptest::test_runner::{Config, RngSeed};

    /// Every run of a property tries the same cases.
    pub fn config() -> Config {
        Config { rng_seed: RngSeed::Fixed(4737), failure_persistence: None, ..Config::default() }
    }
}
