//! A clock that takes no time: it moves when it is read or waited on.
//!
//! One thread alone makes it go to what it waits for. Several that send are its *waiters*: it then goes on when all of them
//! wait, and to the earliest of what they wait for, so that a day on which nobody has anything to send is one step, and nobody
//! finds that it has passed what he still had to send. Knows no frames.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wirebeat_units::Nanos;

use crate::clock::{Clock, Wait};

/// A clock that moves when it is read or waited on.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now: Arc<AtomicU64>,
    waiter: Option<Waiter>,
    /// Looks do not move it.
    still: bool,
}

/// How far a look at the virtual clock moves it: what reading a real one costs.
const TICK: u64 = 20;
/// After so long a waiting thread looks by itself: somebody who does not wait has moved the clock by reading it.
const LOOK: Duration = Duration::from_millis(1);

/// The place of one thread among those that wait on a clock.
#[derive(Debug)]
struct Waiter {
    table: Arc<Table>,
    place: usize,
}

/// The threads that wait on a clock.
#[derive(Debug, Default)]
struct Table {
    waiters: Mutex<Vec<Doing>>,
    moved: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Working,
    Waiting(Nanos),
    Gone,
}

impl VirtualClock {
    /// Starts at `origin`.
    pub fn new(origin: Nanos) -> VirtualClock {
        let now = Arc::new(AtomicU64::new(origin.get()));
        VirtualClock { now, waiter: None, still: false }
    }

    /// The same clock for each of so many threads, and nobody else waits on it. One that is dropped waits no more.
    pub fn waiters(&self, count: usize) -> Vec<VirtualClock> {
        let waiters = Mutex::new(vec![Doing::Working; count]);
        let table = Arc::new(Table { waiters, moved: Condvar::new() });
        let waiter = |place| {
            let waiter = Some(Waiter { table: Arc::clone(&table), place });
            VirtualClock { now: Arc::clone(&self.now), waiter, still: false }
        };
        (0..count).map(waiter).collect()
    }

    /// The same clock for somebody who looks at it as often as its thread happens to run, as receivers do: that moves nothing,
    /// or a run would not be the same every time.
    #[must_use]
    pub fn of_onlooker(&self) -> VirtualClock {
        let mut clock = self.clone();
        clock.still = true;
        clock
    }

    /// The time, without moving it.
    pub(crate) fn read(&self) -> Nanos {
        Nanos::new(self.now.load(Ordering::Relaxed))
    }
}

impl Clone for VirtualClock {
    /// The same clock for somebody who does not wait on it: a waiter is one thread.
    fn clone(&self) -> VirtualClock {
        VirtualClock { now: Arc::clone(&self.now), waiter: None, still: self.still }
    }
}

impl Drop for VirtualClock {
    fn drop(&mut self) {
        if let Some(Waiter { table, place }) = &self.waiter {
            let mut waiters = table.take(*place, Doing::Gone);
            table.go_on(&mut waiters, &self.now);
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        match self.still {
            true => self.read(),
            false => Nanos::new(self.now.fetch_add(TICK, Ordering::Relaxed)),
        }
    }

    fn wait_until(&self, deadline: Nanos, _wait: Wait) {
        let Some(Waiter { table, place }) = &self.waiter else {
            self.now.fetch_max(deadline.get(), Ordering::Relaxed);
            return;
        };
        let mut waiters = table.take(*place, Doing::Waiting(deadline));
        while self.read() < deadline {
            if table.go_on(&mut waiters, &self.now) {
                continue;
            }
            let woken = table.moved.wait_timeout(waiters, LOOK);
            (waiters, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(doing) = waiters.get_mut(*place) {
            *doing = Doing::Working;
        }
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn jumps(&self) -> bool {
        self.waiter.is_some()
    }
}

impl Table {
    /// Notes what a thread does.
    fn take(&self, place: usize, doing: Doing) -> MutexGuard<'_, Vec<Doing>> {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = waiters.get_mut(place) {
            *waiter = doing;
        }
        waiters
    }

    /// Moves the clock to the earliest of what is waited for, if everybody waits; says whether it moved.
    fn go_on(&self, waiters: &mut [Doing], now: &AtomicU64) -> bool {
        let earliest = waiters.iter().try_fold(Nanos::MAX, |earliest, doing| match doing {
            Doing::Working => None,
            Doing::Waiting(deadline) => Some(earliest.min(*deadline)),
            Doing::Gone => Some(earliest),
        });
        let somebody = waiters.iter().any(|doing| matches!(doing, Doing::Waiting(_)));
        let Some(earliest) = earliest.filter(|_| somebody) else { return false };
        let before = now.fetch_max(earliest.get(), Ordering::Relaxed);
        if before < earliest.get() {
            self.moved.notify_all();
        }
        before < earliest.get()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    const HOUR: Nanos = Nanos::from_secs(3600);

    /// What a thread found when it waited for each of these, as `(deadline, time)`.
    fn wait_for(clock: &VirtualClock, deadlines: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let each = |deadline: u64| {
            clock.wait_until(Nanos::new(deadline), Wait::Hybrid);
            (deadline, clock.read().get())
        };
        deadlines.map(each).collect()
    }

    #[test]
    fn several_threads_go_on_to_the_earliest_of_what_they_wait_for() {
        let waiters = VirtualClock::default().waiters(3);
        let found: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (1..=3)
                .zip(waiters)
                .map(|(step, clock)| {
                    let deadlines = (1..=60 / step).map(move |n| n * step * HOUR.get());
                    scope.spawn(move || wait_for(&clock, deadlines))
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(found.len(), 60 + 30 + 20);
        for (deadline, time) in found {
            assert_eq!(deadline, time, "a thread found that its time had passed");
        }
    }

    #[test]
    fn who_has_ended_keeps_nobody_waiting() {
        let mut waiters = VirtualClock::default().waiters(2);
        drop(waiters.pop());
        let found = wait_for(&waiters[0], [5, 10].into_iter());
        assert_eq!(found, [(5, 5), (10, 10)]);
    }

    #[test]
    fn who_ends_while_the_other_waits_lets_it_go_on() {
        let mut waiters = VirtualClock::default().waiters(2);
        let (last, other) = (waiters.pop().unwrap(), waiters.pop().unwrap());
        let reached = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                other.wait_until(HOUR, Wait::Sleep);
                reached.fetch_add(1, Ordering::Release);
            });
            assert_eq!(reached.load(Ordering::Acquire), 0);
            drop(last);
        });
        assert_eq!((reached.into_inner(), other.read()), (1, HOUR));
    }

    #[test]
    fn a_thread_that_reads_the_clock_brings_others_to_their_time() {
        let mut waiters = VirtualClock::default().waiters(2);
        let (busy, waiting) = (waiters.pop().unwrap(), waiters.pop().unwrap());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| waiting.wait_until(Nanos::new(1_000), Wait::Sleep));
            while !waiter.is_finished() {
                busy.now();
            }
        });
    }
}
