//! Looks at the far end while somebody sends as fast as it can: waits until it is under way, and
//! counts over a time in the middle, so that neither start nor end is in the figure.

use std::thread::sleep;
use std::time::{Duration, Instant};

use wirebeat_units::FCS;

use crate::lab::{Failure, Lab, Volume};
use crate::sinks::OpenSink;

/// A sender that goes flat out is under way when this many frames arrive in one step: far more than
/// tools exchange to agree on a test, far fewer than the slowest of them sends.
pub const FLAT_OUT: u64 = 200;
/// How long a step is.
pub const STEP: Duration = Duration::from_millis(20);
/// The longest that a tool takes to get going (measured: a second, for DPDK).
const PATIENCE: Duration = Duration::from_secs(4);
/// Between being under way and the count.
const WARM_UP: Duration = Duration::from_millis(200);

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Frames per second that arrived at the far interface.
    pub sent: f64,
    /// Datagrams per second that were read there.
    pub read: f64,
    /// Mean length of a frame in bytes with FCS, by the interface's counters.
    pub frame_len: f64,
}

/// One look.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    volume: Volume,
    read: u64,
}

impl Look {
    fn now(lab: &Lab, sink: &OpenSink) -> Result<Look, Failure> {
        let read = lab.read()?;
        let volume = sink.arrived(lab)?;
        Ok(Look { at: Instant::now(), volume, read })
    }

    fn since(&self, earlier: &Look) -> Window {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let frames = self.volume.frames.saturating_sub(earlier.volume.frames) as f64;
        let bytes = self.volume.bytes.saturating_sub(earlier.volume.bytes) as f64;
        Window {
            sent: frames / seconds,
            read: self.read.saturating_sub(earlier.read) as f64 / seconds,
            frame_len: if frames > 0.0 { bytes / frames + f64::from(FCS) } else { 0.0 },
        }
    }
}

/// How many frames arrive in a [`STEP`] of a sender that sends `rate` frames per second: half, so that
/// one that misses its rate is seen as well, but more than two tools exchange to agree on a test.
pub fn enough(rate: u64) -> u64 {
    (rate / 100).clamp(10, FLAT_OUT)
}

/// Waits until at least `enough` frames arrive in one [`STEP`]. `running` says whether the sender still
/// works.
pub fn under_way(
    enough: u64,
    arrived: impl Fn() -> Result<u64, Failure>,
    running: impl Fn() -> bool,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut before = arrived()?;
    while running() {
        sleep(STEP);
        let now = arrived()?;
        if now.saturating_sub(before) >= enough {
            return Ok(());
        }
        before = now;
        if begun.elapsed() > PATIENCE {
            return Err(format!("nothing arrived in {} s", PATIENCE.as_secs()).into());
        }
    }
    Err("it ended before it sent".into())
}

/// Waits until the sender is under way and counts for `time`.
pub fn observe(
    lab: &Lab,
    sink: &OpenSink,
    time: Duration,
    running: impl Fn() -> bool,
) -> Result<Window, Failure> {
    under_way(FLAT_OUT, || Ok(sink.arrived(lab)?.frames), running)?;
    sleep(WARM_UP);
    let first = Look::now(lab, sink)?;
    sleep(time);
    Ok(Look::now(lab, sink)?.since(&first))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn rates_are_counts_over_the_time_between_two_looks() {
        let at = Instant::now();
        let volume = Volume { frames: 100, bytes: 6000 };
        let first = Look { at, volume, read: 10 };
        let volume = Volume { frames: 1100, bytes: 66_000 };
        let second = Look { at: at + Duration::from_millis(500), volume, read: 510 };
        let expected = Window { sent: 2000.0, read: 1000.0, frame_len: 64.0 };
        assert_eq!(second.since(&first), expected);
    }

    #[test]
    fn a_sender_that_ended_is_not_waited_for() {
        assert!(under_way(1, || Ok(0), || false).unwrap_err().to_string().contains("ended"));
    }

    #[test]
    fn a_sender_is_under_way_when_it_is_fast() {
        let count = Cell::new(0);
        let arrived = || {
            count.set(count.get() + FLAT_OUT);
            Ok(count.get())
        };
        assert!(under_way(FLAT_OUT, arrived, || true).is_ok());
    }
}
