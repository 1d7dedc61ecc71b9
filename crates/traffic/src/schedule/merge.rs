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
use crate::program::{Departures, Program};

/// What orders the flows: their deadline, then their place in `Schedule::flows`.
type MergeKey = (u64, u32);

/// The departures of some flows on one core, in the order of their deadlines; frames that are due in
/// the same nanosecond go by the flow's index in the program.
///
/// Flows without a rate are all due at their start and take turns, a burst each. A port has either
/// flows with a rate or flows without (the compiler sees to it). Since the deadlines of a flow without
/// a rate do not move, the caller has to stop it at [`crate::program::Departures::stop`].
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By flow index, with those that have ended.
    flows: Vec<FlowSchedule>,
    /// The place of the flow at work; `None` at the end of the schedule.
    current: Option<u32>,
    waiting: BinaryHeap<Reverse<MergeKey>>,
}

impl Schedule {
    /// The share `shard` of the departures of `flows`, which are indices into `program`; those that it
    /// does not have are passed over.
    pub fn new(program: &Program, flows: &[u32], shard: Shard) -> Schedule {
        Self::merge(flows, |flow| {
            Some(FlowSchedule::from_burst(flow, program.numbered_streams(flow), shard, 0))
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
            let streams = program.numbered_streams(flow);
            let burst = u64::from(streams.streams.first()?.departures.burst.max(1));
            let bursts = (in_round.get(flow as usize)? / burst).checked_mul(rounds)?;
            Some(FlowSchedule::from_burst(flow, streams, shard, bursts))
        })
    }

    fn merge(flows: &[u32], schedule: impl FnMut(u32) -> Option<FlowSchedule>) -> Schedule {
        let mut flows = flows.to_vec();
        flows.sort_unstable();
        flows.dedup();
        let flows: Vec<FlowSchedule> = flows.into_iter().filter_map(schedule).collect();
        // Indices of flows are 32 bits wide, so there are no more places than that.
        let mut waiting: BinaryHeap<Reverse<MergeKey>> = (0..)
            .zip(&flows)
            .filter(|(_, flow)| !flow.has_ended())
            .map(|(place, flow)| Reverse((flow.order(), place)))
            .collect();
        let current = waiting.pop().map(|Reverse((_, place))| place);
        Schedule { flows, current, waiting }
    }

    /// One without departures.
    pub fn empty() -> Schedule {
        Schedule { flows: Vec::new(), current: None, waiting: BinaryHeap::new() }
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
            self.take_turns(ended);
        }
        out.len() - before
    }

    /// Passes over frames of the flow whose turn it is that are due before `until`; none if its next is not. `each` is
    /// given the first of some frames, and how many they are: one, or many if `alike` says that they need not be looked
    /// at one by one.
    pub fn skip_before(
        &mut self,
        until: Nanos,
        alike: bool,
        each: &mut impl FnMut(Departure, u64),
    ) {
        let Some(flow) = self.current.and_then(|place| self.flows.get_mut(place as usize)) else {
            return;
        };
        if flow.departure().at < until {
            let ended = !flow.skip_before(until.get(), alike, each);
            self.take_turns(ended);
        }
    }

    /// From `at` on `flow` sends what `next` says, with the number of its stream, or nothing more; what the
    /// program had for it later is dropped: a change from outside overrides the schedule. A flow that has ended
    /// begins anew with it. Its frames are counted on, the same on every core, just as if the program had had the
    /// change.
    ///
    /// For that no departure at or after `at` may have been taken. A flow without a rate, which has no
    /// deadlines, ends at once, and can do nothing else.
    pub fn change(&mut self, flow: u32, at: Nanos, next: Option<(u32, Departures)>) {
        let found = self.flows.binary_search_by_key(&flow, FlowSchedule::flow);
        let Some((place, changed)) =
            found.ok().and_then(|place| Some((place as u32, self.flows.get_mut(place)?)))
        else {
            return;
        };
        let due = changed.change(at.get(), next).then(|| Reverse((changed.order(), place)));
        if let Some((current, flow)) =
            self.current.and_then(|place| Some((place, self.flows.get(place as usize)?)))
        {
            self.waiting.push(Reverse((flow.order(), current)));
        }
        self.waiting.retain(|Reverse((_, other))| *other != place);
        self.waiting.extend(due);
        self.current = self.waiting.pop().map(|Reverse((_, place))| place);
    }

    /// Until when a flow pauses that sends nothing more unless it is changed; `None` where no flow does.
    pub fn pauses_until(&self) -> Option<Nanos> {
        let ended = self.flows.iter().filter(|flow| flow.has_ended());
        ended.filter_map(FlowSchedule::pauses_until).max()
    }

    /// Gives the work to the flow whose turn it is.
    fn take_turns(&mut self, ended: bool) {
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
        self.take_turns(ended);
        Some(departure)
    }
}
