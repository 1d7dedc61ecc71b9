//! The testbed, and netlink across it: what the engines' tests, the benchmark and the demo stand on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod cable;
mod life;
mod programs;
mod resolve;
mod watch;

use std::time::{Duration, Instant};

/// Long enough for a loaded machine; nothing here takes more than a fraction of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `done`, and says whether it came to that.
fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
