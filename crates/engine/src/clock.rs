//! Clocks and ways to wait.

use wirebeat_units::Nanos;

/// How a deadline is awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Read the clock until it is time. Most exact; one core busy.
    Spin,
    /// Sleep until 100 µs before the deadline, then spin.
    #[default]
    Hybrid,
    /// Sleep. Cheapest.
    Sleep,
}

/// A monotonic clock.
pub trait Clock: Send + Sync {
    /// The time.
    fn now(&self) -> Nanos;
    /// Returns at `deadline` or later; at once when it has passed.
    fn wait_until(&self, deadline: Nanos, wait: Wait);

    /// Whether a wait takes no time however long it is, and holds up nobody else: then it is not divided into steps.
    fn jumps(&self) -> bool {
        false
    }

    /// Whether time is only what is waited for.
    fn is_virtual(&self) -> bool {
        false
    }

    /// When a wait from `now` on is interrupted to look whether something else is asked for.
    fn step(&self, now: Nanos, step: Nanos) -> Nanos {
        if self.jumps() { Nanos::MAX } else { now.saturating_add(step) }
    }
}

/// `CLOCK_MONOTONIC` as this process sees it. Outside time namespaces it is what `bpf_ktime_get_ns()` reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

/// In [`Wait::Hybrid`], how long before a deadline the sleep ends and the spinning begins: longer than
/// a wake-up takes on a busy machine (measured: 60 µs at the 99th percentile on two virtual cores).
pub const SPIN_BEFORE: Nanos = Nanos::from_micros(100);

/// In [`Wait::Sleep`], the shortest sleep: what becomes due in the meantime leaves together.
pub const NAP: Nanos = Nanos::from_micros(125);

impl MonotonicClock {
    /// Sleeps until `deadline`, to the exactness of the kernel's timers.
    pub fn sleep_until(&self, deadline: Nanos) {
        use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
        let until = Timespec {
            tv_sec: (deadline.get() / 1_000_000_000) as i64,
            tv_nsec: (deadline.get() % 1_000_000_000) as i64,
        };
        // interrupted by a signal: sleep on; any other error means the clock cannot be slept on
        while let Err(rustix::io::Errno::INTR) =
            clock_nanosleep_absolute(ClockId::Monotonic, &until)
        {}
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Nanos::new(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn wait_until(&self, deadline: Nanos, wait: Wait) {
        match wait {
            Wait::Sleep => return self.sleep_until(deadline),
            Wait::Hybrid => {
                let wake = deadline.saturating_sub(SPIN_BEFORE);
                if self.now() < wake {
                    self.sleep_until(wake);
                }
            }
            Wait::Spin => {}
        }
        while self.now() < deadline {
            std::hint::spin_loop();
        }
    }
}
