//! The flows of a port in the order of their deadlines.
//!
//! One flow is at work; the others wait in a binary heap. The flow at work goes on until the first of
//! those waiting comes before it, and then changes places with it: one sift of the heap per change,
//! and none at all for a single flow. Nothing is allocated after the start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use wirebeat_units::Nanos;

use super::flow::FlowSchedule;
use super::{Departure, Period, Shard};
use crate::program::Program;

/// What orders the flows: their deadline, then their place in `Schedule::flows`.
type Key = (u64, u32);

/// The departures of some flows on one core, in the order of their deadlines; frames that are due in
/// the same nanosecond go by the flow's index in the program.
///
/// Flows without a rate are all due at their start and take turns, a burst each. A port has either
/// flows with a rate or flows without (the compiler sees to it). Since the deadlines of a flow without
/// a rate do not move, the caller has to stop it at [`crate::program::Departures::stop`].
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By flow index; those that have ended are no longer referred to.
    flows: Vec<FlowSchedule>,
    /// The place of the flow at work; `None` at the end of the schedule.
    current: Option<u32>,
    waiting: BinaryHeap<Reverse<Key>>,
}

impl Schedule {
    /// The share `shard` of the departures of `flows`, which are indices into `program`; those that it
    /// does not have are passed over.
    pub fn new(program: &Program, flows: &[u32], shard: Shard) -> Schedule {
        Self::merge(flows, |flow| {
            let departures = &program.flows.get(flow as usize)?.departures;
            FlowSchedule::new(flow, departures, shard)
        })
    }

    /// The schedule that goes on after the first `rounds` rounds of `period`, which must be a period of
    /// the same flows and the same shard.
    pub fn after_rounds(
        program: &Program,
        flows: &[u32],
        shard: Shard,
        period: &Period,
        rounds: u64,
    ) -> Schedule {
        let mut in_round = vec![0_u64; program.flows.len()];
        for departure in &period.round {
            if let Some(frames) = in_round.get_mut(departure.flow as usize) {
                *frames += 1;
            }
        }
        Self::merge(flows, |flow| {
            let departures = &program.flows.get(flow as usize)?.departures;
            let frames = in_round.get(flow as usize)?;
            let bursts = (frames / u64::from(departures.burst.max(1))).checked_mul(rounds)?;
            FlowSchedule::from_burst(flow, departures, shard, bursts)
        })
    }

    fn merge(flows: &[u32], schedule: impl FnMut(u32) -> Option<FlowSchedule>) -> Schedule {
        let mut flows = flows.to_vec();
        flows.sort_unstable();
        flows.dedup();
        let flows: Vec<FlowSchedule> = flows.into_iter().filter_map(schedule).collect();
        // Indices of flows are 32 bits wide, so there are no more places than that.
        let mut waiting: BinaryHeap<Reverse<Key>> =
            (0..).zip(&flows).map(|(place, flow)| Reverse((flow.order(), place))).collect();
        let current = waiting.pop().map(|Reverse((_, place))| place);
        Schedule { flows, current, waiting }
    }

    /// The next departure, which stays the next.
    pub fn peek(&self) -> Option<Departure> {
        self.flows.get(self.current? as usize).map(FlowSchedule::departure)
    }

    /// Appends up to `max` departures to `out` and returns how many; 0 at the end of the schedule.
    pub fn next_batch(&mut self, out: &mut Vec<Departure>, max: usize) -> usize {
        self.next_due(Nanos::MAX, out, max)
    }

    /// Appends up to `max` departures that are due at or before `until` to `out`, and returns how many.
    pub fn next_due(&mut self, until: Nanos, out: &mut Vec<Departure>, max: usize) -> usize {
        let before = out.len();
        let mut left = max;
        while left > 0 {
            let Some(place) = self.current else { break };
            let Some(flow) = self.flows.get_mut(place as usize) else { break };
            let first_waiting = self.waiting.peek().map(|Reverse(key)| *key);
            let mut ended = false;
            while left > 0 && !ended && first_waiting.is_none_or(|key| (flow.order(), place) < key)
            {
                let departure = flow.departure();
                if departure.at > until {
                    return out.len() - before;
                }
                out.push(departure);
                left -= 1;
                ended = !flow.advance();
            }
            self.change(ended);
        }
        out.len() - before
    }

    /// Gives the work to the flow whose turn it is.
    fn change(&mut self, ended: bool) {
        let Some(place) = self.current else { return };
        let Some(mut first) = self.waiting.peek_mut() else {
            if ended {
                self.current = None;
            }
            return;
        };
        if ended {
            let Reverse((_, next)) = PeekMut::pop(first);
            self.current = Some(next);
            return;
        }
        let Some(flow) = self.flows.get(place as usize) else { return };
        let key = (flow.order(), place);
        if first.0 < key {
            let Reverse((_, next)) = std::mem::replace(&mut *first, Reverse(key));
            self.current = Some(next);
        }
    }
}

impl Iterator for Schedule {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        let place = self.current?;
        let flow = self.flows.get_mut(place as usize)?;
        let departure = flow.departure();
        let ended = !flow.advance();
        self.change(ended);
        Some(departure)
    }
}
