//! The metrics by name: what each is, and where its values come from. One that is added gets a row in `docs/live.md`.
//!
//! The tables know no encoding: [`RunMetrics::families`] is what `prometheus.rs` and `otlp.rs` write, each in its own form.

use std::borrow::Cow;
use std::rc::Rc;

use super::RunMetrics;
use super::totals::{DelayTotals, FlowTotals, GroupTotals};

/// What a value counts, or is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Nothing,
    Frames,
    Bytes,
    Sessions,
    Requests,
    Responses,
    Handshakes,
    Segments,
    Cpus,
    Seconds,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    /// Without the name of the program before it, and without what an encoding adds for unit and kind.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: Unit,
}

/// Whose value it is: names and values of labels, in the order of `docs/live.md`.
pub(super) type Labels<'a> = Rc<[(&'static str, Cow<'a, str>)]>;

/// Values of a metric, each with its labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Samples<'a> {
    /// What its labels say.
    Info(Labels<'a>),
    /// They only grow.
    Counters(Vec<(Labels<'a>, u64)>),
    /// They also fall.
    Gauges(Vec<(Labels<'a>, f64)>),
    /// How many values there were of each size.
    Histograms(Vec<(Labels<'a>, &'a DelayTotals)>),
}

/// A metric with its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Family<'a> {
    pub(super) about: About,
    pub(super) samples: Samples<'a>,
}

/// A counter that only grows, of a `T`.
struct Counter<T> {
    name: &'static str,
    help: &'static str,
    unit: Unit,
    value: fn(&T) -> Option<u64>,
}

/// A value that also falls.
struct Gauge<T> {
    name: &'static str,
    help: &'static str,
    unit: Unit,
    value: fn(&T) -> Option<f64>,
}

const FLOW_COUNTERS: [Counter<FlowTotals>; 6] = [
    Counter {
        name: "frames_sent",
        help: "Frames that left.",
        unit: Unit::Frames,
        value: |flow| flow.sent.map(|[frames, _]| frames),
    },
    Counter {
        name: "frame_bytes_sent",
        help: "Bytes of the frames that left, with FCS.",
        unit: Unit::Bytes,
        value: |flow| flow.sent.map(|[_, bytes]| bytes),
    },
    Counter {
        name: "frames_received",
        help: "Frames that arrived, duplicates included.",
        unit: Unit::Frames,
        value: |flow| flow.received.as_ref().map(|of| of.frames),
    },
    Counter {
        name: "frame_bytes_received",
        help: "Bytes of the frames that arrived, with FCS.",
        unit: Unit::Bytes,
        value: |flow| flow.received.as_ref().map(|of| of.frame_bytes),
    },
    Counter {
        name: "frames_duplicate",
        help: "Frames that arrived with a sequence number that had been seen.",
        unit: Unit::Frames,
        value: |flow| flow.received.as_ref().map(|of| of.duplicates),
    },
    Counter {
        name: "frames_reordered",
        help: "Frames that arrived with a sequence number below one seen before (RFC 4737).",
        unit: Unit::Frames,
        value: |flow| flow.received.as_ref().map(|of| of.reordered),
    },
];

const FLOW_GAUGES: [Gauge<FlowTotals>; 1] = [Gauge {
    name: "frames_lost",
    help: "Frames that are known to be lost by now; one that arrives after all is taken off.",
    unit: Unit::Frames,
    value: |flow| flow.lost.map(|lost| lost as f64),
}];

const GROUP_COUNTERS: [Counter<GroupTotals>; 12] = [
    Counter {
        name: "sessions_due",
        help: "Sessions that were due to start.",
        unit: Unit::Sessions,
        value: |group| group.due,
    },
    Counter {
        name: "sessions_expired",
        help: "Sessions that were not opened because too many were open or they were too late.",
        unit: Unit::Sessions,
        value: |group| group.due.map(|_| group.expired),
    },
    Counter {
        name: "sessions_opened",
        help: "Sessions that were opened, or accepted.",
        unit: Unit::Sessions,
        value: |group| Some(group.opened),
    },
    Counter {
        name: "sessions_established",
        help: "Sessions that were established.",
        unit: Unit::Sessions,
        value: |group| Some(group.established),
    },
    Counter {
        name: "sessions_ended",
        help: "Sessions that ended, in whatever way.",
        unit: Unit::Sessions,
        value: |group| Some(group.ended),
    },
    Counter {
        name: "sessions_failed",
        help: "Sessions that did not end in order.",
        unit: Unit::Sessions,
        value: |group| Some(group.failed),
    },
    Counter {
        name: "session_requests",
        help: "Requests whose last byte was handed to the transport.",
        unit: Unit::Requests,
        value: |group| Some(group.requests),
    },
    Counter {
        name: "session_responses",
        help: "Responses: at a client received whole, at a server given to TCP or UDP.",
        unit: Unit::Responses,
        value: |group| Some(group.responses),
    },
    Counter {
        name: "session_handshakes",
        help: "Handshakes of TLS that were completed.",
        unit: Unit::Handshakes,
        value: |group| group.has_tls().then_some(group.handshakes),
    },
    Counter {
        name: "session_handshakes_failed",
        help: "Handshakes of TLS that failed.",
        unit: Unit::Handshakes,
        value: |group| group.has_tls().then_some(group.handshakes_failed),
    },
    Counter {
        name: "session_bytes_delivered",
        help: "Bytes that were received in order and handed to programs at this end.",
        unit: Unit::Bytes,
        value: |group| Some(group.delivered_bytes),
    },
    Counter {
        name: "session_segments_retransmitted",
        help: "TCP segments that were sent again, as far as sessions were looked at.",
        unit: Unit::Segments,
        value: |group| Some(group.retransmitted_segments),
    },
];

const GROUP_GAUGES: [Gauge<GroupTotals>; 2] = [
    Gauge {
        name: "sessions_open",
        help: "Sessions that were open at the end of the last interval.",
        unit: Unit::Sessions,
        value: |group| Some(group.open as f64),
    },
    Gauge {
        name: "session_round_trip",
        help: "Mean smoothed round-trip time of open connections in the last interval (RFC 6298).",
        unit: Unit::Seconds,
        value: |group| group.round_trip_ns.map(|ns| ns as f64 / 1e9),
    },
];

const RUN_COUNTERS: [Counter<RunMetrics>; 1] = [Counter {
    name: "frames_expired",
    help: "Frames that were dropped because they were later than the drift of their flow.",
    unit: Unit::Frames,
    value: |run| run.expired,
}];

const RUN_GAUGES: [Gauge<RunMetrics>; 2] = [
    Gauge {
        name: "run_elapsed",
        help: "From the start of the run to the end of the last interval that is counted here.",
        unit: Unit::Seconds,
        value: |run| Some(run.elapsed_ns as f64 / 1e9),
    },
    Gauge {
        name: "process_cpus",
        help: "CPUs that this process took in the last interval: 1 is one CPU all the time.",
        unit: Unit::Cpus,
        value: |run| run.cpus,
    },
];

const DELAY: About = About {
    name: "one_way_delay",
    help: "One-way delay of the frames that arrived.",
    unit: Unit::Seconds,
};
const INFO: About = About {
    name: "run",
    help: "The program and the seed of its random choices.",
    unit: Unit::Nothing,
};

/// The metrics of a table, each with a value for each of `all`; what nobody has is left out.
fn counters<'a, T>(table: &[Counter<T>], all: &[(Labels<'a>, &T)]) -> Vec<Family<'a>> {
    let family = |counter: &Counter<T>| {
        let values = all.iter().filter_map(|(of, from)| Some((of.clone(), (counter.value)(from)?)));
        let values: Vec<_> = values.collect();
        let about = About { name: counter.name, help: counter.help, unit: counter.unit };
        (!values.is_empty()).then_some(Family { about, samples: Samples::Counters(values) })
    };
    table.iter().filter_map(family).collect()
}

/// The same for gauges.
fn gauges<'a, T>(table: &[Gauge<T>], all: &[(Labels<'a>, &T)]) -> Vec<Family<'a>> {
    let family = |gauge: &Gauge<T>| {
        let values = all.iter().filter_map(|(of, from)| Some((of.clone(), (gauge.value)(from)?)));
        let values: Vec<_> = values.collect();
        let about = About { name: gauge.name, help: gauge.help, unit: gauge.unit };
        (!values.is_empty()).then_some(Family { about, samples: Samples::Gauges(values) })
    };
    table.iter().filter_map(family).collect()
}

impl RunMetrics {
    /// All metrics that have a value, in the order in which they are written.
    pub(super) fn families(&self) -> Vec<Family<'_>> {
        let seed = self.seed.map(|seed| ("seed", Cow::from(seed.to_string())));
        let program = ("version", Cow::from(self.version.as_str()));
        let program: Labels<'_> = [program].into_iter().chain(seed).collect();
        let run: [(Labels<'_>, &RunMetrics); 1] = [(Rc::new([]), self)];
        let flows = self.flows.iter().map(|(name, of)| (flow_labels(name), of));
        let flows: Vec<(Labels<'_>, &FlowTotals)> = flows.collect();
        let groups = self.groups.iter().map(|((name, end), of)| {
            let labels: Labels<'_> =
                Rc::new([("group", name.as_str().into()), ("end", end.name().into())]);
            (labels, of)
        });
        let groups: Vec<(Labels<'_>, &GroupTotals)> = groups.collect();
        let mut families = vec![Family { about: INFO, samples: Samples::Info(program) }];
        families.extend(gauges(&RUN_GAUGES, &run));
        families.extend(counters(&RUN_COUNTERS, &run));
        families.extend(counters(&FLOW_COUNTERS, &flows));
        families.extend(gauges(&FLOW_GAUGES, &flows));
        families.extend(delays(&flows));
        families.extend(counters(&GROUP_COUNTERS, &groups));
        families.extend(gauges(&GROUP_GAUGES, &groups));
        families
    }
}

fn flow_labels(name: &str) -> Labels<'_> {
    Rc::new([("flow", name.into())])
}

fn delays<'a>(flows: &[(Labels<'a>, &'a FlowTotals)]) -> Option<Family<'a>> {
    let known = flows.iter().filter_map(|(labels, flow)| {
        let delay = flow.received.as_ref()?.delay.as_ref()?;
        Some((labels.clone(), delay))
    });
    let known: Vec<_> = known.collect();
    (!known.is_empty()).then_some(Family { about: DELAY, samples: Samples::Histograms(known) })
}
