//! Intervals of a run: from plain counts to what a report says of them.

use std::collections::BTreeMap;

use wirebeat_meter::interval::FlowBooks;
use wirebeat_meter::series::{Books, Gauge};
use wirebeat_units::Nanos;

use crate::model::{FlowInterval, GaugeReport, Interval, IntervalReceived, IntervalSent, Stats};

/// What was counted in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalCounts {
    /// By the flow's key in the caller's table of names.
    pub flows: BTreeMap<u32, FlowIntervalCounts>,
    /// Of all flows that are not told apart.
    pub others: FlowIntervalCounts,
    /// Frames that senders dropped because they were too late, where there are senders.
    pub expired: Option<u64>,
    /// CPU time of this process in thousandths of a CPU.
    pub cpu_permille: Gauge,
}

/// What was counted of a flow in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowIntervalCounts {
    /// What left, where that is known.
    pub sent: Option<IntervalSent>,
    /// What arrived, where there is a receiver. What is missing by numbers is not `lost`.
    pub received: Option<FlowBooks>,
    /// Frames found to be lost, less those that came after all.
    pub lost: Option<i64>,
}

impl Books for FlowIntervalCounts {
    fn join(&mut self, later: FlowIntervalCounts) {
        if let Some(more) = later.sent {
            let sent = self.sent.get_or_insert_default();
            sent.frames = sent.frames.saturating_add(more.frames);
            sent.frame_bytes = sent.frame_bytes.saturating_add(more.frame_bytes);
        }
        if let Some(more) = later.received {
            self.received.get_or_insert_default().join(more);
        }
        self.lost = match (self.lost, later.lost) {
            (Some(lost), Some(more)) => Some(lost.saturating_add(more)),
            (lost, more) => lost.or(more),
        };
    }
}

impl Books for IntervalCounts {
    fn join(&mut self, later: IntervalCounts) {
        for (key, counts) in later.flows {
            self.flows.entry(key).or_default().join(counts);
        }
        self.others.join(later.others);
        self.expired = match (self.expired, later.expired) {
            (Some(expired), Some(more)) => Some(expired.saturating_add(more)),
            (expired, more) => expired.or(more),
        };
        self.cpu_permille.join(later.cpu_permille);
    }
}

/// One interval, from its beginning to its end, with the histograms of delays.
pub fn interval(
    (from, to): (Nanos, Nanos),
    counts: &IntervalCounts,
    names: &BTreeMap<u32, String>,
    uncertainty: Option<u64>,
) -> Interval {
    let mut total = counts.others.clone();
    counts.flows.values().for_each(|flow| total.join(flow.clone()));
    let name = |key: &u32| names.get(key).cloned().unwrap_or_default();
    let gauge = &counts.cpu_permille;
    let cpus = |permille: u64| permille as f64 / 1000.0;
    Interval {
        from_ns: from.get(),
        to_ns: to.get(),
        total: flow("total".to_owned(), &total, uncertainty),
        flows: counts
            .flows
            .iter()
            .map(|(key, counts)| flow(name(key), counts, uncertainty))
            .collect(),
        sessions: Vec::new(),
        expired: counts.expired,
        cpus: (gauge.looks > 0).then(|| GaugeReport {
            last: cpus(gauge.last),
            least: cpus(gauge.least),
            most: cpus(gauge.most),
        }),
    }
}

fn flow(name: String, counts: &FlowIntervalCounts, uncertainty: Option<u64>) -> FlowInterval {
    FlowInterval {
        name,
        sent: counts.sent,
        received: counts.received.as_ref().map(|books| received(books, uncertainty)),
        lost: counts.lost,
    }
}

fn received(books: &FlowBooks, uncertainty: Option<u64>) -> IntervalReceived {
    let delay = |bound| Stats::raised(&books.delay, books.delay_base).certain_from(bound);
    IntervalReceived {
        frames: books.frames,
        frame_bytes: books.frame_bytes,
        unique: books.unique,
        duplicates: books.duplicates,
        reordered: books.reordered,
        one_way_delay_ns: uncertainty.map(delay),
    }
}
