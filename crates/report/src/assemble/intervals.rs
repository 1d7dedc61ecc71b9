//! Intervals of a run: from plain counts to what a report says of them.

use std::collections::BTreeMap;

use wirebeat_meter::interval::FlowBooks;
use wirebeat_meter::series::{Books, Gauge};
use wirebeat_units::Nanos;

use crate::model::{
    FlowInterval, GaugeReport, Interval, IntervalExtremes, IntervalPart, IntervalReceived,
    IntervalSent, Stats,
};

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
    /// What stands out of all flows together, where intervals were merged.
    pub extremes: Extremes,
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
    /// What stands out where intervals were merged.
    pub extremes: Extremes,
}

/// Of the intervals that were merged to one, those with the least and the most in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    sent: Option<[IntervalPart; 2]>,
    received: Option<[IntervalPart; 2]>,
    lost: Option<IntervalPart>,
}

impl Extremes {
    /// Of one interval, before it is merged with others, and what is told of it.
    pub fn of((from_ns, to_ns): (u64, u64), told: &FlowInterval) -> Extremes {
        let part = |frames, frame_bytes| IntervalPart { from_ns, to_ns, frames, frame_bytes };
        let received = told.received.as_ref();
        Extremes {
            sent: told.sent.map(|sent| [part(sent.frames, sent.frame_bytes); 2]),
            received: received.map(|received| [part(received.frames, received.frame_bytes); 2]),
            lost: told.lost.map(|lost| part(u64::try_from(lost).unwrap_or(0), 0)),
        }
    }

    fn join(&mut self, later: Extremes) {
        let both =
            |one: Option<[IntervalPart; 2]>, other: Option<[IntervalPart; 2]>| match (one, other) {
                (Some([least, most]), Some([less, more])) => Some([
                    if is_denser(least, less) { less } else { least },
                    if is_denser(more, most) { more } else { most },
                ]),
                (one, other) => one.or(other),
            };
        self.sent = both(self.sent, later.sent);
        self.received = both(self.received, later.received);
        self.lost = match (self.lost, later.lost) {
            (Some(one), Some(other)) if other.frames > one.frames => Some(other),
            (one, other) => one.or(other),
        };
    }

    /// What a report says of them; `None` where the intervals were alike, or this is none of several. `length` is that of the whole.
    fn report(&self, length: u64, counts: &FlowIntervalCounts) -> Option<IntervalExtremes> {
        let whole = |part: &IntervalPart| part.to_ns.saturating_sub(part.from_ns) >= length;
        // of a part that is too short beside the others nothing is said of rates
        let differs = |part: &IntervalPart, frames: u64| {
            let (own, mean) = (density(part.frames, part), frames as f64 / length.max(1) as f64);
            (own - mean).abs() > mean / 10.0
        };
        let of = |parts: Option<[IntervalPart; 2]>, frames: Option<u64>| {
            let (parts, frames) = parts.zip(frames)?;
            Some(parts.map(|part| Some(part).filter(|part| !whole(part) && differs(part, frames))))
        };
        let [sent_least, sent_most] =
            of(self.sent, counts.sent.map(|sent| sent.frames)).unwrap_or_default();
        let [received_least, received_most] =
            of(self.received, counts.received.as_ref().map(|all| all.frames)).unwrap_or_default();
        let lost_most = self.lost.filter(|part| part.frames > 0 && !whole(part));
        let all =
            IntervalExtremes { sent_least, sent_most, received_least, received_most, lost_most };
        (all != IntervalExtremes::default()).then_some(all)
    }
}

/// Frames in a nanosecond of a part.
fn density(frames: u64, part: &IntervalPart) -> f64 {
    frames as f64 / part.to_ns.saturating_sub(part.from_ns).max(1) as f64
}

fn is_denser(one: IntervalPart, other: IntervalPart) -> bool {
    density(one.frames, &one) > density(other.frames, &other)
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
        self.extremes.join(later.extremes);
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
        self.extremes.join(later.extremes);
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
    let length = to.saturating_sub(from).get();
    let name = |key: &u32| names.get(key).cloned().unwrap_or_default();
    let gauge = &counts.cpu_permille;
    let cpus = |permille: u64| permille as f64 / 1000.0;
    Interval {
        from_ns: from.get(),
        to_ns: to.get(),
        total: FlowInterval {
            extremes: counts.extremes.report(length, &total),
            ..flow("total".to_owned(), &total, uncertainty)
        },
        flows: counts
            .flows
            .iter()
            .map(|(key, counts)| FlowInterval {
                extremes: counts.extremes.report(length, counts),
                ..flow(name(key), counts, uncertainty)
            })
            .collect(),
        sessions: Vec::new(),
        stacks: Vec::new(),
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
        extremes: None,
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
