//! How the clocks of sender and receiver relate.
//!
//! The sender asks the receiver for its time again and again. Each exchange bounds how far the
//! receiver's clock is ahead: no message arrives before it was sent, so it is at least `sent by the
//! receiver − received here` and at most `received there − sent by us`. What all exchanges allow
//! together is the estimate, and half its width the uncertainty; no assumption on the symmetry of
//! the path is made. It is taken before and after a run, and the truth in between lies within
//! both, since clocks drift one way. Pure, but for [`ClockIdentity::here`].

use std::fs;

use serde::{Deserialize, Serialize};
use wirebeat_report::assemble::Clocks;
use wirebeat_report::model::Relation;
use wirebeat_units::Nanos;

/// Which clock `CLOCK_MONOTONIC` is: two that are known and equal are one clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockIdentity {
    /// The running kernel's random name, new at each boot; `None` where it is hidden.
    pub boot_id: Option<String>,
    /// The time namespace; `None` on kernels without.
    pub time_namespace: Option<String>,
}

impl ClockIdentity {
    /// This process's.
    pub fn here() -> ClockIdentity {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let namespace = fs::read_link("/proc/self/ns/time").ok();
        ClockIdentity {
            boot_id: boot_id.map(|text| text.trim().to_owned()),
            time_namespace: namespace.map(|link| link.to_string_lossy().into_owned()),
        }
    }

    /// A name of it in 32 bits, not 0: the same for the same clock, and for two others in one of four billion cases.
    pub(crate) fn short(&self) -> u32 {
        let all = [&self.boot_id, &self.time_namespace].into_iter().flatten();
        // FNV-1a
        let bytes = all.flat_map(|text| text.bytes().chain([0]));
        let hash = bytes
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        // where the kernel hides its name, nobody else has the same
        let hash = if self.boot_id.is_none() { hash ^ std::process::id() } else { hash };
        hash.max(1)
    }

    /// Whether `other` says that it is the same clock.
    fn is(&self, other: &ClockIdentity) -> bool {
        self.boot_id.is_some() && self == other
    }
}

/// The four times of an exchange, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The question left, on our clock.
    pub asked: u64,
    /// It had arrived, on theirs.
    pub received: u64,
    /// The answer left, on theirs.
    pub answered: u64,
    /// It had arrived, on ours.
    pub heard: u64,
}

/// How far another clock is ahead of ours: no less than `low` and no more than `high`, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLead {
    low: i64,
    high: i64,
}

impl ClockLead {
    /// What all `exchanges` allow. `None` without any, or if their times cannot be: an answer before
    /// the question, or clocks further apart than 292 years.
    pub fn of(exchanges: &[Exchange]) -> Option<ClockLead> {
        let difference = |a: u64, b: u64| i64::try_from(i128::from(a) - i128::from(b)).ok();
        let mut ahead: Option<ClockLead> = None;
        for exchange in exchanges {
            if exchange.received > exchange.answered || exchange.asked > exchange.heard {
                return None;
            }
            let low = difference(exchange.answered, exchange.heard)?;
            let high = difference(exchange.received, exchange.asked)?;
            ahead = Some(match ahead {
                None => ClockLead { low, high },
                Some(ahead) => ClockLead { low: ahead.low.max(low), high: ahead.high.min(high) },
            });
        }
        // The wrong way round when the clocks drifted apart in between by more than the path
        // takes: then all that lies between them is possible.
        ahead.map(|ClockLead { low, high }| ClockLead { low: low.min(high), high: low.max(high) })
    }

    /// All that either of the two allows.
    pub fn or(self, other: ClockLead) -> ClockLead {
        ClockLead { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The least.
    pub fn low(&self) -> i64 {
        self.low
    }

    /// The most.
    pub fn high(&self) -> i64 {
        self.high
    }

    /// The middle.
    pub fn middle(&self) -> i64 {
        self.low.midpoint(self.high)
    }

    /// How far the middle can be off.
    pub fn uncertainty(&self) -> Nanos {
        Nanos::new(self.high.abs_diff(self.low).div_ceil(2))
    }

    fn allows_none(&self) -> bool {
        self.low <= 0 && self.high >= 0
    }
}

/// How the receiver's clock relates to the sender's, with everything that a report says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRelation {
    /// Same or bounded.
    pub relation: Relation,
    /// How far the receiver's clock is ahead, in ns; 0 for one clock.
    pub ahead_ns: i64,
    /// How far that can be off; 0 for one clock.
    pub uncertainty: Nanos,
    /// How it is known.
    pub explanation: String,
}

impl ClockRelation {
    /// From what both ends say of their clocks and what `exchanges` exchanges allow. Clones of a virtual
    /// machine can have the same identity and different clocks, so that it is believed only if the
    /// exchanges allow it.
    pub fn new(
        (ours, theirs): (&ClockIdentity, &ClockIdentity),
        ahead: ClockLead,
        exchanges: usize,
    ) -> ClockRelation {
        if ours.is(theirs) && ahead.allows_none() {
            return ClockRelation {
                relation: Relation::Same,
                ahead_ns: 0,
                uncertainty: Nanos::ZERO,
                explanation: "both ends run on one host and read one clock".to_owned(),
            };
        }
        ClockRelation {
            relation: Relation::Bounded,
            ahead_ns: ahead.middle(),
            uncertainty: ahead.uncertainty(),
            explanation: format!(
                "offset measured over the control connection in {exchanges} exchanges"
            ),
        }
    }

    /// The same, as a report takes it.
    pub fn clocks(&self) -> Clocks {
        match self.relation {
            Relation::Same => Clocks::Same,
            Relation::Bounded => {
                Clocks::Bounded { bound: self.uncertainty, how: self.explanation.clone() }
            }
            Relation::Unbounded => Clocks::Unbounded(self.explanation.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An exchange with a clock that is `ahead`, over a path of `there` and `back`.
    fn exchange(ahead: i64, there: u64, back: u64) -> Exchange {
        let asked = 1 << 40;
        let received = (asked + there).wrapping_add_signed(ahead);
        Exchange { asked, received, answered: received + 5, heard: asked + there + 5 + back }
    }

    fn host(boot_id: &str) -> ClockIdentity {
        ClockIdentity {
            boot_id: Some(boot_id.to_owned()),
            time_namespace: Some("time:[1]".to_owned()),
        }
    }

    #[test]
    fn the_shortest_ways_decide() {
        let exchanges = [
            exchange(1_000_000, 900, 100),
            exchange(1_000_000, 100, 700),
            exchange(1_000_000, 5000, 5000),
        ];
        let ahead = ClockLead::of(&exchanges).unwrap();
        assert_eq!(ahead, ClockLead { low: 999_900, high: 1_000_100 });
        assert_eq!((ahead.middle(), ahead.uncertainty().get()), (1_000_000, 100));
    }

    #[test]
    fn a_run_between_two_estimates_is_covered_by_both() {
        let (before, after) = (ClockLead { low: 10, high: 20 }, ClockLead { low: 35, high: 41 });
        let both = before.or(after);
        assert_eq!((both.low(), both.middle(), both.uncertainty().get()), (10, 25, 16));
    }

    #[test]
    fn times_that_cannot_be_give_nothing() {
        assert_eq!(ClockLead::of(&[]), None);
        let good = exchange(0, 10, 10);
        assert_eq!(ClockLead::of(&[good, Exchange { answered: good.received - 1, ..good }]), None);
        assert_eq!(ClockLead::of(&[Exchange { heard: good.asked - 1, ..good }]), None);
        let far = Exchange { received: u64::MAX, answered: u64::MAX, ..good };
        assert_eq!(ClockLead::of(&[far]), None);
    }

    #[test]
    fn one_host_has_one_clock() {
        let relation =
            ClockRelation::new((&host("a"), &host("a")), ClockLead { low: -9, high: 3 }, 64);
        assert_eq!((relation.relation, relation.ahead_ns), (Relation::Same, 0));
        assert_eq!(relation.clocks(), Clocks::Same);
    }

    #[test]
    fn clones_of_a_machine_have_two_clocks() {
        let ahead = ClockLead { low: 500, high: 600 };
        let relation = ClockRelation::new((&host("a"), &host("a")), ahead, 64);
        assert_eq!((relation.relation, relation.ahead_ns), (Relation::Bounded, 550));
    }

    #[test]
    fn hosts_that_do_not_say_who_they_are_have_two_clocks() {
        let unknown = ClockIdentity::default();
        let time_moved = ClockIdentity { time_namespace: Some("time:[2]".to_owned()), ..host("a") };
        for (ours, theirs) in
            [(&unknown, &unknown), (&host("a"), &host("b")), (&host("a"), &time_moved)]
        {
            let relation = ClockRelation::new((ours, theirs), ClockLead { low: -4, high: 2 }, 64);
            assert_eq!((relation.relation, relation.uncertainty.get()), (Relation::Bounded, 3));
            assert!(relation.explanation.contains("64 exchanges"));
        }
    }

    #[test]
    fn this_process_has_a_clock_of_its_own_host() {
        let here = ClockIdentity::here();
        assert!(here.is(&ClockIdentity::here()));
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_bounds(
            ahead in -1_000_000_000i64..1_000_000_000,
            ways in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 1..20),
        ) {
            let exchanges: Vec<_> =
                ways.iter().map(|&(there, back)| exchange(ahead, there, back)).collect();
            let found = ClockLead::of(&exchanges).unwrap();
            prop_assert!(found.low <= ahead && ahead <= found.high);
            prop_assert!(found.middle().abs_diff(ahead) <= found.uncertainty().get());
        }

        #[test]
        fn no_times_break_it(times in prop::collection::vec(any::<[u64; 4]>(), 0..8)) {
            let exchanges: Vec<_> = times
                .iter()
                .map(|&[asked, received, answered, heard]| Exchange { asked, received, answered, heard })
                .collect();
            if let Some(ahead) = ClockLead::of(&exchanges) {
                prop_assert!(ahead.low <= ahead.high);
                let _ = (ahead.middle(), ahead.uncertainty(), ahead.or(ahead));
            }
        }
    }
}
