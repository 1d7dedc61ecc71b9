//! The clock of the day beside the monotonic one, for probes of other tools: they carry the former, and everything here is the
//! latter.
//!
//! The difference of the two is bracketed by readings and read again while a run lasts, as that of a log of packets is: a step
//! of the clock of the day is then followed within [`crate::receive`]'s and a session's next look. Who stamps and who reads
//! share one [`UnixOffset`].

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_units::{Nanos, human};

/// The clock of the day of this host.
#[derive(Debug)]
pub(crate) struct DayClock {
    clock: RealtimeToMonotonic,
    offset: UnixOffset,
    /// The widest that its bound was.
    bound: Nanos,
}

impl DayClock {
    /// As it stands now.
    pub(crate) fn new() -> DayClock {
        let clock = RealtimeToMonotonic::new();
        DayClock { offset: UnixOffset::new(clock.offset()), bound: clock.error(), clock }
    }

    /// What it is ahead of the monotonic clock, now and from each [`DayClock::refresh`] on.
    pub(crate) fn offset(&self) -> &UnixOffset {
        &self.offset
    }

    /// Looks again, if the last look is old.
    pub(crate) fn refresh(&mut self) {
        self.clock.refresh(MonotonicClock.now());
        self.offset.set(self.clock.offset());
        self.bound = self.bound.max(self.clock.error());
    }

    /// How wrong the difference of the two clocks was at most, but for the moments after a step.
    pub(crate) fn bound(&self) -> Nanos {
        self.bound
    }

    /// That it was stepped, if so.
    pub(crate) fn stepped(&self) -> Option<String> {
        let steps = self.clock.steps();
        let times = if steps == 1 { "once".to_owned() } else { format!("{steps} times") };
        (steps > 0).then(|| {
            format!(
                "the clock of the day was stepped {times} while packets of other tools were measured, which carry its time: \
                 delays and their variations around a step are wrong by up to the step"
            )
        })
    }

    /// What it adds to the uncertainty of delays, in words.
    pub(crate) fn told(&self) -> String {
        format!(
            "other tools write the clock of the day in microseconds, which is known here to {}",
            human::time(self.bound.get() as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was read once, at the start: whatever was wrong with it stayed wrong.
    #[test]
    fn whoever_reads_the_offset_gets_the_last_reading() {
        let mut day = DayClock::new();
        let shared = day.offset().clone();
        shared.set(day.offset().get().wrapping_add(9_700_000));
        MonotonicClock.sleep_until(MonotonicClock.now().saturating_add(Nanos::from_millis(11)));
        day.refresh();
        let fresh = RealtimeToMonotonic::new();
        let apart = shared.get().abs_diff(fresh.offset());
        let stepped = day.stepped().is_some();
        assert!(stepped || apart <= day.bound().get() + fresh.error().get(), "{apart}");
        assert!(day.told().contains(&human::time(day.bound().get() as f64)));
    }
}
