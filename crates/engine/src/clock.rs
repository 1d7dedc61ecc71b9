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
}
