//! When a run starts: soon, and right before a tick of the kernel's timer. Pure.

use wirebeat_units::Nanos;

/// From the decision to start until the first deadline: threads get going in the meantime.
const LEAD: Nanos = Nanos::from_millis(20);
/// The kernel's timer ticks lie on multiples of this on the monotonic clock (of 4 ms with `CONFIG_HZ=250`,
/// and so on), and take a CPU away for some microseconds, on a virtual machine for tens.
const TICK_GRID: Nanos = Nanos::from_millis(20);
/// A run starts so long before a tick: frames whose period divides that of the ticks then never meet one.
const BEFORE_TICK: Nanos = Nanos::from_micros(10);

/// The first time that is [`LEAD`] after `now`, or later, and right before a tick.
pub(super) fn before_a_tick(now: Nanos) -> Nanos {
    let earliest = now.saturating_add(LEAD).saturating_add(BEFORE_TICK).get();
    Nanos::new(earliest.next_multiple_of(TICK_GRID.get())).saturating_sub(BEFORE_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_starts_right_before_a_tick_and_not_too_soon() {
        for now in [0, 1, 7_777_777, 19_999_999, 20_000_000, 123_456_789_012] {
            let start = before_a_tick(Nanos::new(now)).get();
            assert!((start + BEFORE_TICK.get()).is_multiple_of(TICK_GRID.get()));
            assert!((LEAD.get()..LEAD.get() + TICK_GRID.get()).contains(&(start - now)));
        }
    }
}
