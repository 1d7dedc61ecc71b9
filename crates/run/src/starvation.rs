//! Whether senders get the CPU that was chosen for them. One that others keep waiting is let go where it likes: nobody asked
//! for that CPU by name.

use std::fs;
use std::sync::Arc;

use wirebeat_engine_linux::scheduling::ThreadState;
use wirebeat_units::Nanos;

use crate::placement::Seat;

/// How often it is looked.
const LOOK: Nanos = Nanos::from_millis(100);
/// Of the time between two looks, a thread may wait for its CPU for one part in so many: 5 %.
const PARTS: u64 = 20;

/// A sender that runs where nobody asked for it to run.
#[derive(Debug)]
struct Watched {
    state: Arc<ThreadState>,
    spare: Vec<usize>,
    /// How long it had waited at the last look.
    waited: Option<Nanos>,
}

/// The senders that may have to be let go.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    watched: Vec<Watched>,
    looked: Nanos,
}

impl Starvation {
    /// Watches these from `now` on.
    pub(crate) fn watch<'a>(
        senders: impl Iterator<Item = (&'a Arc<ThreadState>, &'a Seat)>,
        now: Nanos,
    ) -> Starvation {
        let senders = senders.filter(|(_, seat)| seat.cpu.is_some() && !seat.spare.is_empty());
        let watched = senders.map(|(state, seat)| Watched {
            state: Arc::clone(state),
            spare: seat.spare.clone(),
            waited: None,
        });
        Starvation { watched: watched.collect(), looked: now }
    }

    /// Looks, if it is time to, and lets go whoever waited too long.
    pub(crate) fn look(&mut self, now: Nanos) {
        self.look_by(now, waited);
    }

    fn look_by(&mut self, now: Nanos, waited: impl Fn(i32) -> Option<Nanos>) {
        let elapsed = now.saturating_sub(self.looked);
        if elapsed < LOOK || self.watched.is_empty() {
            return;
        }
        self.looked = now;
        self.watched.retain_mut(|one| {
            let Some(waited) = one.state.get().and_then(|state| waited(state.thread)) else {
                return true;
            };
            let since = one.waited.replace(waited);
            let starves =
                since.is_some_and(|since| is_too_long(waited.saturating_sub(since), elapsed));
            !(starves && one.state.widen(&one.spare))
        });
    }
}

fn is_too_long(waited: Nanos, elapsed: Nanos) -> bool {
    waited.get().saturating_mul(PARTS) > elapsed.get()
}

/// How long a thread of this process has waited for a CPU while it could have run; `None` where the kernel does not count
/// it (CONFIG_SCHED_INFO).
fn waited(thread: i32) -> Option<Nanos> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    parse(&text)
}

/// The second of "running waiting slices", in nanoseconds (Documentation/scheduler/sched-stats.rst).
fn parse(schedstat: &str) -> Option<Nanos> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok().map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use wirebeat_engine_linux::affinity;
    use wirebeat_engine_linux::scheduling::ThreadOrders;
    use wirebeat_report::model::Station;

    use super::*;
    use crate::facts;

    #[test]
    fn the_time_that_a_thread_waited_is_read() {
        assert_eq!(parse("5 70 2\n"), Some(Nanos::new(70)));
        assert_eq!(parse("5"), None);
        assert_eq!(parse("a b c"), None);
    }

    #[test]
    fn a_twentieth_of_the_time_is_too_long() {
        let elapsed = Nanos::from_millis(100);
        assert!(!is_too_long(Nanos::from_millis(5), elapsed));
        assert!(is_too_long(Nanos::from_micros(5_001), elapsed));
    }

    #[test]
    fn a_sender_does_not_insist_on_a_cpu_that_others_keep() {
        let cpus = affinity::allowed();
        let [first, .., last] = cpus[..] else { return };
        let orders = ThreadOrders::on(last);
        let (state, seat) =
            (Arc::clone(&orders.state), Seat { cpu: Some(last), spare: vec![first] });
        let named = Seat { cpu: Some(last), spare: Vec::new() };
        let (told, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _applied = orders.apply().unwrap();
                let _ = wait.recv();
            });
            while state.get().is_none() {
                std::thread::yield_now();
            }
            let mut starvation =
                Starvation::watch([(&state, &seat), (&state, &named)].into_iter(), Nanos::ZERO);
            assert_eq!(starvation.watched.len(), 1, "a CPU that was named is kept");
            let at = |ms: u64, waited_ms: u64| {
                starvation.look_by(Nanos::from_millis(ms), |_| Some(Nanos::from_millis(waited_ms)));
                state.get().unwrap().cpus
            };
            let mut at = at;
            let moved_from = || {
                let mut station = Station::default();
                facts::sender(&mut station, &state, &seat);
                station.threads[0].moved_from
            };
            assert_eq!(at(100, 50), [last], "one look says nothing");
            assert_eq!(moved_from(), None);
            assert_eq!(at(200, 54), [last]);
            assert_eq!(at(250, 99), [last], "too soon");
            assert_eq!(at(300, 60), [first, last]);
            assert_eq!(moved_from(), Some(last as u32), "the report says so");
            assert!(waited(state.get().unwrap().thread).is_none_or(|waited| waited < Nanos::MAX));
            drop(told);
        });
    }
}
