//! The flows of a run as its intervals know them: how counts are told apart, and what was found to be lost of each by then.

use std::collections::{BTreeMap, VecDeque};

use wirebeat_meter::interval::LISTED;
use wirebeat_report::assemble::{Attribution, FlowIntervalCounts};
use wirebeat_report::model::{FlowReport, IntervalSent, Report};
use wirebeat_traffic::program::Program;

/// The key of datagrams without a probe; numbers of flows are below.
const UNPROBED: u32 = 1 << 16;
/// The key of all flows together.
pub(super) const TOGETHER: u32 = u32::MAX;
/// The name of what has it, as in the report.
pub(super) const UNPROBED_NAME: &str = "(no probe)";

/// What the loss of a flow is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// Sequence numbers, and how many were sent.
    Numbers,
    /// How many were sent, and how many arrived.
    Frames,
    /// Sequence numbers alone.
    NumbersAlone,
    /// Nothing: it is not received, or not recognised.
    None,
}

/// The flows of a run, and how counts are told apart.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) names: BTreeMap<u32, String>,
    pub(super) bases: BTreeMap<u32, Basis>,
    pub(super) of_tag: Vec<u32>,
    pub(super) of_id: BTreeMap<u16, u32>,
    pub(super) unprobed: Option<u32>,
    /// All are counted together, for there are too many.
    pub(super) together: bool,
    /// Flows are those that arrive.
    pub(super) as_they_come: bool,
    pub(super) sends: bool,
    pub(super) receives: bool,
}

/// What is known of the loss of a flow.
#[derive(Debug, Default)]
pub(super) struct LossSum {
    /// Frames sent by the end of each of the last intervals, and of all before them.
    sent: VecDeque<u64>,
    /// Frames that arrived, copies left out.
    arrived: u64,
    /// Numbers that are missing.
    missing: i64,
    /// What was told.
    told: i64,
}

impl Flows {
    /// Those of a program, received here or elsewhere as `attributions` say.
    pub(super) fn of_program(
        program: &Program,
        attributions: &BTreeMap<u16, Attribution>,
    ) -> Flows {
        let together = program.tags() as usize > LISTED;
        let mut flows = Flows { together, sends: true, ..Flows::default() };
        flows.of_tag = vec![u32::MAX; program.tags() as usize];
        for (key, flow) in (0u32..).zip(&program.flows) {
            let attribution = attributions.get(&flow.id).unwrap_or(&Attribution::NoReceiver);
            flows.names.insert(key, flow.name.clone());
            for tag in program.tags_of(key) {
                flows.of_tag[tag as usize] = key;
            }
            let basis = match attribution {
                Attribution::Probe => {
                    flows.of_id.extend(program.probes_of(flow).map(|id| (id, key)));
                    Basis::Numbers
                }
                Attribution::Headers(id) => {
                    flows.of_id.insert(*id, key);
                    Basis::Frames
                }
                Attribution::Unprobed => {
                    flows.unprobed = Some(key);
                    Basis::Frames
                }
                Attribution::NoReceiver | Attribution::NotMeasured(_) => Basis::None,
            };
            flows.receives |= basis != Basis::None;
            flows.bases.insert(key, basis);
        }
        flows
    }

    /// Those that arrive at a receiver by itself.
    pub(super) fn as_they_come() -> Flows {
        Flows { as_they_come: true, receives: true, unprobed: Some(UNPROBED), ..Flows::default() }
    }

    pub(super) fn of_id(&mut self, id: u16) -> Option<u32> {
        if self.as_they_come {
            let key = u32::from(id);
            self.names.entry(key).or_insert_with(|| format!("flow {id}"));
            self.bases.entry(key).or_insert(Basis::NumbersAlone);
            return Some(key);
        }
        self.of_id.get(&id).copied()
    }

    /// What is counted in an interval in which nothing happens.
    pub(super) fn nothing(&self) -> FlowIntervalCounts {
        FlowIntervalCounts {
            sent: self.sends.then(IntervalSent::default),
            received: self.receives.then(Default::default),
            lost: self.receives.then_some(0),
            ..FlowIntervalCounts::default()
        }
    }

    /// Whether somebody receives a flow.
    pub(super) fn is_received(&self, key: u32) -> bool {
        self.as_they_come || self.bases.get(&key).is_some_and(|basis| *basis != Basis::None)
    }

    /// What loss is counted of, and how.
    pub(super) fn counted(&self) -> Vec<(u32, Basis)> {
        let bases = || self.bases.iter().map(|(key, basis)| (*key, *basis));
        let counted = bases().filter(|(_, basis)| *basis != Basis::None);
        if !self.together {
            return counted.collect();
        }
        // where not all are measured, what was sent does not say what is to arrive
        let all = bases().map(|(_, basis)| basis).reduce(|all, one| match (all, one) {
            (all, one) if all == one => all,
            _ => Basis::NumbersAlone,
        });
        all.filter(|_| self.receives).map(|basis| (TOGETHER, basis)).into_iter().collect()
    }

    /// What a report says of a flow.
    pub(super) fn find<'a>(&self, report: &'a Report, key: u32) -> Option<&'a FlowReport> {
        let id = |key: u32| u16::try_from(key).ok();
        match key {
            TOGETHER => Some(&report.total),
            key if self.as_they_come => report.flows.iter().find(|flow| flow.id == id(key)),
            key => report.flows.get(key as usize),
        }
    }
}

impl LossSum {
    /// An interval is told in which this was counted; says how many frames were found to be lost. Frames that were sent
    /// `overdue` intervals before its end should have arrived.
    pub(super) fn tell(
        &mut self,
        counts: &FlowIntervalCounts,
        basis: Basis,
        overdue: Option<usize>,
    ) -> i64 {
        let sent = self.sent.back().copied().unwrap_or(0);
        let more = counts.sent.map_or(0, |sent| sent.frames);
        self.sent.push_back(sent.saturating_add(more));
        if let Some(books) = &counts.received {
            let arrived = if basis == Basis::Frames { books.frames } else { books.unique };
            self.arrived = self.arrived.saturating_add(arrived);
            self.missing = self.missing.saturating_add(books.lost);
        }
        let by_numbers = if basis == Basis::Frames { 0 } else { self.missing };
        while overdue.is_some_and(|overdue| self.sent.len() > overdue.saturating_add(1)) {
            self.sent.pop_front();
        }
        let due = match overdue {
            Some(overdue) if self.sent.len() > overdue => self.sent.front().copied(),
            _ => None,
        };
        let due = due.filter(|_| basis != Basis::NumbersAlone).unwrap_or(0);
        let unseen = i64::try_from(due.saturating_sub(self.arrived)).unwrap_or(i64::MAX);
        self.known(by_numbers.max(unseen))
    }

    /// This number is known to be lost now; says how many more than were told.
    pub(super) fn known(&mut self, lost: i64) -> i64 {
        let more = lost.saturating_sub(self.told);
        self.told = lost;
        more
    }
}
