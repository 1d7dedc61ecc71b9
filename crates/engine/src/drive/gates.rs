//! Which records of a playback are sent, from when on: a flow that pauses sends none, and of several sub-flows those of
//! the first may be sent alone. Time goes on meanwhile: what is not sent at its time is never sent.

use wirebeat_units::Nanos;

use super::feed::AHEAD;

/// From when on which records are sent.
#[derive(Clone, Debug)]
pub struct Gates {
    /// From a time on those of sub-flows below a number, in the order of time; before the first as from there.
    list: Vec<(Nanos, u32)>,
    are_open: bool,
    may_change: bool,
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is sent.
    Open,
    /// It is not.
    Shut,
    /// As things stand it is not, and that may change.
    NotYetKnown,
}

impl Default for Gates {
    /// All records are sent.
    fn default() -> Gates {
        Gates::new(Vec::new(), false)
    }
}

impl Gates {
    /// From each time on, in their order, records of sub-flows below a number are sent; whether that may change.
    pub fn new(list: Vec<(Nanos, u32)>, may_change: bool) -> Gates {
        let are_open = list.iter().all(|(_, sub_flows)| *sub_flows == u32::MAX);
        Gates { list, are_open, may_change }
    }

    /// From `at` on records of sub-flows below a number are sent; what was planned for later no longer holds.
    pub(super) fn change(&mut self, at: Nanos, sub_flows: u32) {
        self.list.retain(|(from, _)| *from < at);
        self.list.push((at, sub_flows));
        *self = Gates::new(std::mem::take(&mut self.list), self.may_change);
    }

    /// Nothing changes any more.
    pub(super) fn settle(&mut self) {
        self.may_change = false;
    }

    /// Whether all records are sent.
    #[inline]
    pub(super) fn are_open(&self) -> bool {
        self.are_open
    }

    /// Whether a record of a sub-flow is sent at a time, as things stand.
    #[inline]
    pub(super) fn let_through(&self, at: Nanos, sub_flow: u32) -> bool {
        if self.are_open {
            return true;
        }
        let begun = self.list.partition_point(|(from, _)| *from <= at);
        let gate = self.list.get(begun.saturating_sub(1));
        gate.is_none_or(|(_, sub_flows)| sub_flow < *sub_flows)
    }

    /// What becomes of a record that is due at a time. `elapsed` is the time since the start of the run.
    pub(super) fn passage(&self, due: Nanos, sub_flow: u32, elapsed: Nanos) -> Passage {
        match self.let_through(due, sub_flow) {
            true => Passage::Open,
            // so far ahead frames are handed over, and nothing changes any more (`changes.rs`)
            false if self.may_change && due > elapsed.saturating_add(AHEAD) => Passage::NotYetKnown,
            false => Passage::Shut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn each_gate_holds_until_the_next() {
        let gates = Gates::new(vec![(at(10), 2), (at(20), 0), (at(30), u32::MAX)], false);
        let through = |ms, sub_flow| gates.let_through(at(ms), sub_flow);
        assert!(!gates.are_open());
        assert_eq!(
            [through(0, 1), through(0, 2), through(19, 1), through(19, 2)],
            [true, false, true, false]
        );
        assert_eq!([through(20, 0), through(29, 0), through(30, 7)], [false, false, true]);
        assert!(Gates::new(vec![(at(0), u32::MAX)], true).are_open());
    }

    #[test]
    fn a_change_overrides_what_was_planned_for_later() {
        let mut gates = Gates::new(vec![(at(0), u32::MAX), (at(50), 0)], true);
        gates.change(at(40), 3);
        assert_eq!([gates.let_through(at(60), 2), gates.let_through(at(60), 3)], [true, false]);
        assert!(gates.let_through(at(39), 3));
        gates.change(at(0), u32::MAX);
        assert!(gates.are_open());
    }

    #[test]
    fn what_may_change_is_not_known_far_ahead() {
        let mut gates = Gates::new(vec![(at(0), 0)], true);
        assert_eq!(gates.passage(at(100), 0, at(50)), Passage::Shut);
        assert_eq!(gates.passage(at(101), 0, at(50)), Passage::NotYetKnown);
        gates.settle();
        assert_eq!(gates.passage(at(101), 0, at(50)), Passage::Shut);
    }
}
