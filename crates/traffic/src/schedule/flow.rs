//! The departures of one flow on one core: bursts, shard, stop and count.
//!
//! When bursts are due comes from a `Pace`, one line per kind. This file only counts frames: which
//! belong to this core, and which is the last. It does not know the other flows.

use wirebeat_units::Nanos;

use super::constant::Constant;
use super::{Departure, Shard};
use crate::program::Departures;

/// When the bursts of a flow are due.
#[derive(Clone, Debug)]
enum Pace {
    /// At a constant rate.
    Constant(Constant),
    /// As fast as the engine can: all at the start, in turn with the other flows of this kind.
    Unlimited { start: u64, turn: u64, turns_per_step: u64 },
}

/// The departures of one flow on one core, in order. Always at a frame that is to be sent.
#[derive(Clone, Debug)]
pub(super) struct FlowSchedule {
    flow: u32,
    /// The current frame.
    index: u64,
    /// The first frame of the current burst.
    burst_start: u64,
    /// The first index that is no longer part of the current burst, or of the flow.
    burst_end: u64,
    pace: Pace,
    /// Frames of a burst, at least 1.
    burst: u64,
    /// Frames from a burst of this core to its next.
    stride: u64,
    stop: u64,
    count: u64,
}

impl FlowSchedule {
    /// The departures of this core from its first burst on; `None` when it has none.
    pub(super) fn new(flow: u32, departures: &Departures, shard: Shard) -> Option<Self> {
        Self::from_burst(flow, departures, shard, 0)
    }

    /// The departures of this core without its first `skipped` bursts; `None` when none is left.
    pub(super) fn from_burst(
        flow: u32,
        departures: &Departures,
        shard: Shard,
        skipped: u64,
    ) -> Option<Self> {
        let burst = u64::from(departures.burst.max(1));
        let cores = u64::from(shard.cores.max(1));
        let number = skipped.checked_mul(cores)?.checked_add(u64::from(shard.core))?;
        let index = number.checked_mul(burst)?;
        let stride = burst * cores;
        let pace = match departures.rate {
            Some(rate) => Pace::Constant(Constant::new(rate, departures.start, index, stride)),
            None => {
                let start = departures.start.get();
                let turn = start.saturating_add(number);
                Pace::Unlimited { start, turn, turns_per_step: cores }
            }
        };
        let schedule = FlowSchedule {
            flow,
            index,
            burst_start: index,
            burst_end: index.saturating_add(burst).min(departures.count),
            pace,
            burst,
            stride,
            stop: departures.stop.get(),
            count: departures.count,
        };
        schedule.is_due().then_some(schedule)
    }

    /// The current departure.
    pub(super) fn departure(&self) -> Departure {
        let at = match &self.pace {
            Pace::Constant(constant) => constant.at(),
            Pace::Unlimited { start, .. } => *start,
        };
        Departure { at: Nanos::new(at), flow: self.flow, index: self.index }
    }

    /// By what flows are merged: the deadline, and for flows that are as fast as possible the number
    /// of turns they had.
    pub(super) fn order(&self) -> u64 {
        match &self.pace {
            Pace::Constant(constant) => constant.at(),
            Pace::Unlimited { turn, .. } => *turn,
        }
    }

    /// On to the next departure; false when there is none (then the schedule must not be used again).
    pub(super) fn advance(&mut self) -> bool {
        self.index += 1;
        self.index < self.burst_end || self.next_burst()
    }

    fn next_burst(&mut self) -> bool {
        let Some(next) = self.burst_start.checked_add(self.stride) else { return false };
        match &mut self.pace {
            Pace::Constant(constant) => constant.advance(),
            Pace::Unlimited { turn, turns_per_step, .. } => {
                *turn = turn.saturating_add(*turns_per_step);
            }
        }
        self.index = next;
        self.burst_start = next;
        self.burst_end = next.saturating_add(self.burst).min(self.count);
        self.is_due()
    }

    fn is_due(&self) -> bool {
        self.index < self.count && self.departure().at.get() < self.stop
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_units::FrameRate;

    use super::*;
    use crate::schedule::tests::{config, departures};

    fn collect(departures: &Departures, shard: Shard, most: usize) -> Vec<Departure> {
        let mut out = Vec::new();
        let Some(mut schedule) = FlowSchedule::new(0, departures, shard) else { return out };
        while out.len() < most {
            out.push(schedule.departure());
            if !schedule.advance() {
                break;
            }
        }
        out
    }

    fn kpps(rate: u64) -> Departures {
        Departures {
            rate: Some(FrameRate { frames: rate * 1000, per: Nanos::from_secs(1) }),
            burst: 1,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            count: u64::MAX,
        }
    }

    #[test]
    fn a_burst_leaves_back_to_back_and_the_pause_keeps_the_mean() {
        let flow = Departures { burst: 3, start: Nanos::new(50), count: 8, ..kpps(100) };
        let at: Vec<u64> = collect(&flow, Shard::WHOLE, 100).iter().map(|d| d.at.get()).collect();
        assert_eq!(at, [50, 50, 50, 30_050, 30_050, 30_050, 60_050, 60_050]);
    }

    #[test]
    fn a_core_takes_every_nth_burst() {
        let flow = Departures { burst: 2, ..kpps(1000) };
        let second = collect(&flow, Shard { core: 1, cores: 3 }, 4);
        let seen: Vec<_> = second.iter().map(|d| (d.index, d.at.get())).collect();
        assert_eq!(seen, [(2, 2000), (3, 2000), (8, 8000), (9, 8000)]);
    }

    #[test]
    fn nothing_is_due_at_the_stop() {
        let flow = Departures { stop: Nanos::new(3000), ..kpps(1000) };
        assert_eq!(collect(&flow, Shard::WHOLE, 100).len(), 3);
        let flow = Departures { start: Nanos::new(3000), ..flow };
        assert_eq!(collect(&flow, Shard::WHOLE, 100).len(), 0);
    }

    #[test]
    fn a_count_smaller_than_the_cores_leaves_some_without_work() {
        let flow = Departures { count: 1, ..kpps(1) };
        assert_eq!(collect(&flow, Shard { core: 0, cores: 2 }, 9).len(), 1);
        assert_eq!(collect(&flow, Shard { core: 1, cores: 2 }, 9).len(), 0);
    }

    #[test]
    fn a_flow_without_a_rate_is_all_due_at_its_start() {
        let flow = Departures { rate: None, start: Nanos::new(7), count: 4, ..kpps(1) };
        let seen = collect(&flow, Shard::WHOLE, 100);
        assert_eq!(seen.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(seen.iter().all(|d| d.at == Nanos::new(7)));
    }

    #[test]
    fn the_last_index_ends_the_flow_without_overflow() {
        let flow = Departures { rate: None, burst: u32::MAX, ..kpps(1) };
        let shard = Shard { core: u32::MAX - 1, cores: u32::MAX };
        let mut schedule = FlowSchedule::from_burst(0, &flow, shard, 0).unwrap();
        schedule.index = schedule.burst_end - 1;
        assert!(!schedule.advance(), "the next burst of this core begins beyond 2^64");
        assert!(FlowSchedule::from_burst(0, &flow, shard, u64::MAX).is_none());
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn every_frame_is_due_where_the_rate_says(flow in departures()) {
            let Some(rate) = flow.rate else { return Ok(()) };
            for departure in collect(&flow, Shard::WHOLE, 300) {
                let first = departure.index / u64::from(flow.burst) * u64::from(flow.burst);
                prop_assert_eq!(departure.at, flow.start.saturating_add(rate.deadline(first)));
                prop_assert!(departure.at < flow.stop && departure.index < flow.count);
            }
        }

        #[test]
        fn skipping_bursts_is_the_same_as_sending_them(flow in departures(), skip in 0..50u64) {
            let shard = Shard { core: 1, cores: 2 };
            let all = collect(&flow, shard, 2000);
            let from = all.iter().position(|d| d.index >= (1 + 2 * skip) * u64::from(flow.burst));
            let later = FlowSchedule::from_burst(0, &flow, shard, skip).map(|s| s.departure());
            if all.len() < 2000 || from.is_some() {
                prop_assert_eq!(later, from.map(|from| all[from]));
            }
        }
    }
}
