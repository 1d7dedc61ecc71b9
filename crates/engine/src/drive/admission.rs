//! What a port that holds frames is given where late ones are dropped: no more than it can send in time.
//!
//! A port drops what is late by itself. But an overloaded one would be given all that is asked for, of which it sends a
//! small part: its feeder would spend on building the rest what it needs to be ahead of it. So what the port could not
//! send in time is not built. When that is follows from what a frame costs the port, which shows once it has been
//! dropping for some time on end.

use wirebeat_units::Nanos;

/// The number of looks at the port in a row that have to find it dropping: a port that was kept from its CPU once is not
/// overloaded.
const LOOKS: usize = 4;
/// A port that drops fewer than one frame of so many that it sends is given more.
const FEW: u64 = 16;

/// See the module. Times count from the start of the run.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// What a frame costs the port; zero: it sends all that it is given.
    cost: Nanos,
    /// When it will be through with all that it has.
    free: Nanos,
    /// What a frame cost by the last looks, as long as it dropped some.
    costs: [Nanos; LOOKS],
    looks: usize,
    /// By the last look: when it was, what had been sent and what had been dropped.
    last: (Nanos, u64, u64),
}

impl Admission {
    /// Looks at what the port has sent and dropped.
    pub(super) fn look(&mut self, now: Nanos, sent: u64, dropped: u64) {
        let (before, sent_before, dropped_before) = self.last;
        self.last = (now, sent, dropped);
        let sent = sent.saturating_sub(sent_before);
        if dropped.saturating_sub(dropped_before) <= sent / FEW {
            // it may be faster now
            self.looks = 0;
            self.cost = Nanos::new(self.cost.get() - self.cost.get().div_ceil(FEW));
            return;
        }
        let took = now.saturating_sub(before);
        self.costs[self.looks % LOOKS] = Nanos::new(took.get() / sent.max(1));
        self.looks += 1;
        if self.looks >= LOOKS {
            // whatever held it up is no cost of a frame
            self.cost = self.costs.into_iter().min().unwrap_or_default();
        }
    }

    /// Frames that would be too late by this time, from the start of the run, are not to be built: one that is due at
    /// `next` and may be late by `drift` is what comes next. Where that is too late already, so much is passed over
    /// that a few of those behind it are in time.
    pub(super) fn by(&self, next: Nanos, drift: Nanos) -> impl Fn(Nanos) -> Nanos + use<> {
        let free = if self.cost > Nanos::ZERO { self.free } else { Nanos::ZERO };
        let late = next.saturating_add(drift) < free;
        move |drift| if late { free.saturating_add(Nanos::new(drift.get() / 2)) } else { free }
    }

    /// How many frames it is given until it is asked again: as many as can be sent in time if all are due at `next` and
    /// may be late by `drift`.
    pub(super) fn most(&self, next: Nanos, drift: Nanos, batch: usize) -> usize {
        if self.cost == Nanos::ZERO {
            return batch;
        }
        let slack = next.saturating_add(drift).saturating_sub(self.free);
        usize::try_from(slack.get() / self.cost.get()).unwrap_or(batch).clamp(1, batch)
    }

    /// The port was given a frame that is due at `at`.
    pub(super) fn given(&mut self, at: Nanos) {
        self.free = self.free.max(at).saturating_add(self.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// After looks each millisecond at a port that sent and dropped so many in each.
    fn after(looks: &[(u64, u64)]) -> Admission {
        let mut admission = Admission::default();
        let (mut now, mut sent, mut dropped) = (Nanos::ZERO, 0, 0);
        for look in looks {
            now = now.saturating_add(MS);
            sent += look.0;
            dropped += look.1;
            admission.look(now, sent, dropped);
        }
        admission
    }

    #[test]
    fn a_port_that_was_held_up_is_not_overloaded() {
        assert_eq!(after(&[(100, 0); 9]).cost, Nanos::ZERO);
        assert_eq!(
            after(&[(1000, 0), (10, 990), (0, 1000), (500, 500), (1000, 0)]).cost,
            Nanos::ZERO
        );
    }

    #[test]
    fn what_a_frame_costs_is_what_it_costs_undisturbed() {
        let overloaded = [(400, 9600), (500, 9500), (0, 10_000), (100, 900)];
        assert_eq!(after(&overloaded).cost, Nanos::from_micros(2));
        assert_eq!(after(&[overloaded.as_slice(), &[(500, 2)]].concat()).cost, Nanos::new(1875));
        assert_eq!(after(&[overloaded.as_slice(), &[(500, 2); 200]].concat()).cost, Nanos::ZERO);
    }

    #[test]
    fn so_many_are_given_as_can_be_sent_in_time() {
        let mut admission = after(&[(500, 9500); 4]);
        let (drift, gap) = (Nanos::from_micros(100), Nanos::new(100));
        let (mut next, mut given, mut lateness) = (Nanos::ZERO, 0_u64, Nanos::ZERO);
        // 10 M/s are asked of a port that sends 0.5 M/s; it takes them one after the other
        let mut free = Nanos::ZERO;
        while next < Nanos::from_millis(100) {
            let by = admission.by(next, drift)(drift);
            while next.saturating_add(drift) < by {
                next = next.saturating_add(gap);
            }
            for _ in 0..admission.most(next, drift, 256) {
                admission.given(next);
                free = free.max(next);
                lateness = lateness.max(free.saturating_sub(next));
                free = free.saturating_add(Nanos::from_micros(2));
                next = next.saturating_add(gap);
                given += 1;
            }
        }
        assert!((49_900..=50_100).contains(&given), "{given}");
        assert!(lateness <= drift, "{lateness:?}");
    }
}
