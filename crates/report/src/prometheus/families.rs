//! The metrics by name: what each is, and where its values come from. One that is added gets a row in `docs/live.md`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::RunMetrics;
use super::totals::{DelayTotals, FlowTotals, GroupTotals};

/// A counter that only grows, of a `T`.
struct Counter<T> {
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> Option<u64>,
}

/// A value that also falls.
struct Gauge<T> {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: fn(&T) -> Option<f64>,
}

const FLOW_COUNTERS: [Counter<FlowTotals>; 6] = [
    Counter {
        name: "frames_sent",
        help: "Frames that left.",
        value: |flow| flow.sent.map(|[frames, _]| frames),
    },
    Counter {
        name: "frame_bytes_sent",
        help: "Bytes of the frames that left, with FCS.",
        value: |flow| flow.sent.map(|[_, bytes]| bytes),
    },
    Counter {
        name: "frames_received",
        help: "Frames that arrived, duplicates included.",
        value: |flow| flow.received.as_ref().map(|of| of.frames),
    },
    Counter {
        name: "frame_bytes_received",
        help: "Bytes of the frames that arrived, with FCS.",
        value: |flow| flow.received.as_ref().map(|of| of.frame_bytes),
    },
    Counter {
        name: "frames_duplicate",
        help: "Frames that arrived with a sequence number that had been seen.",
        value: |flow| flow.received.as_ref().map(|of| of.duplicates),
    },
    Counter {
        name: "frames_reordered",
        help: "Frames that arrived with a sequence number below one seen before (RFC 4737).",
        value: |flow| flow.received.as_ref().map(|of| of.reordered),
    },
];

const FLOW_GAUGES: [Gauge<FlowTotals>; 1] = [Gauge {
    name: "frames_lost",
    help: "Frames that are known to be lost by now; one that arrives after all is taken off.",
    unit: None,
    value: |flow| flow.lost.map(|lost| lost as f64),
}];

const GROUP_COUNTERS: [Counter<GroupTotals>; 10] = [
    Counter {
        name: "sessions_due",
        help: "Sessions that were due to start.",
        value: |group| group.due,
    },
    Counter {
        name: "sessions_expired",
        help: "Sessions that were not opened because too many were open or they were too late.",
        value: |group| group.due.map(|_| group.expired),
    },
    Counter {
        name: "sessions_opened",
        help: "Sessions that were opened, or accepted.",
        value: |group| Some(group.opened),
    },
    Counter {
        name: "sessions_established",
        help: "Sessions that were established.",
        value: |group| Some(group.established),
    },
    Counter {
        name: "sessions_ended",
        help: "Sessions that ended, in whatever way.",
        value: |group| Some(group.ended),
    },
    Counter {
        name: "sessions_failed",
        help: "Sessions that did not end in order.",
        value: |group| Some(group.failed),
    },
    Counter {
        name: "session_requests",
        help: "Requests whose last byte was handed to the transport.",
        value: |group| Some(group.requests),
    },
    Counter {
        name: "session_responses",
        help: "Responses that were received whole.",
        value: |group| Some(group.responses),
    },
    Counter {
        name: "session_bytes_delivered",
        help: "Bytes that were received in order and handed to programs at this end.",
        value: |group| Some(group.delivered_bytes),
    },
    Counter {
        name: "session_segments_retransmitted",
        help: "TCP segments that were sent again, as far as sessions were looked at.",
        value: |group| Some(group.retransmitted_segments),
    },
];

const GROUP_GAUGES: [Gauge<GroupTotals>; 2] = [
    Gauge {
        name: "sessions_open",
        help: "Sessions that were open at the end of the last interval.",
        unit: None,
        value: |group| Some(group.open as f64),
    },
    Gauge {
        name: "session_round_trip",
        help: "Mean smoothed round-trip time of open connections in the last interval (RFC 6298).",
        unit: Some(Unit::Seconds),
        value: |group| group.round_trip_ns.map(|ns| ns as f64 / 1e9),
    },
];

const RUN_COUNTERS: [Counter<RunMetrics>; 1] = [Counter {
    name: "frames_expired",
    help: "Frames that were dropped because they were later than the drift of their flow.",
    value: |run| run.expired,
}];

const RUN_GAUGES: [Gauge<RunMetrics>; 2] = [
    Gauge {
        name: "run_elapsed",
        help: "From the start of the run to the end of the last interval that is counted here.",
        unit: Some(Unit::Seconds),
        value: |run| Some(run.elapsed_ns as f64 / 1e9),
    },
    Gauge {
        name: "process_cpus",
        help: "CPUs that this process took in the last interval: 1 is one CPU all the time.",
        unit: None,
        value: |run| run.cpus,
    },
];

const DELAY_NAME: &str = "one_way_delay";
const DELAY_HELP: &str = "One-way delay of the frames that arrived.";
const INFO_NAME: &str = "run";
const INFO_HELP: &str = "The program and the seed of its random choices.";

/// The metrics of a table, each with a line for each of `all`; what nobody has is left out.
fn counters<T, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    table: &[Counter<T>],
    all: &[(L, &T)],
) -> fmt::Result {
    for counter in table {
        let mut values = all.iter().filter_map(|(labels, of)| Some((labels, (counter.value)(of)?)));
        let Some(first) = values.next() else { continue };
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor(counter.name, counter.help, None, kind)?;
        for (labels, value) in [first].into_iter().chain(values) {
            let exemplar = None;
            metric
                .encode_family(labels)?
                .encode_counter::<NoLabelSet, u64, f64>(&value, exemplar)?;
        }
    }
    Ok(())
}

/// The same for gauges.
fn gauges<T, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    table: &[Gauge<T>],
    all: &[(L, &T)],
) -> fmt::Result {
    for gauge in table {
        let mut values = all.iter().filter_map(|(labels, of)| Some((labels, (gauge.value)(of)?)));
        let Some(first) = values.next() else { continue };
        let (unit, kind) = (gauge.unit.as_ref(), MetricType::Gauge);
        let mut metric = encoder.encode_descriptor(gauge.name, gauge.help, unit, kind)?;
        for (labels, value) in [first].into_iter().chain(values) {
            metric.encode_family(labels)?.encode_gauge(&value)?;
        }
    }
    Ok(())
}

impl Collector for RunMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let seed = self.seed.map(|seed| ("seed", seed.to_string()));
        let labels: Vec<_> = [("version", self.version.clone())].into_iter().chain(seed).collect();
        encoder
            .encode_descriptor(INFO_NAME, INFO_HELP, None, MetricType::Info)?
            .encode_info(&labels)?;
        let run: [([(&str, &str); 0], &RunMetrics); 1] = [([], self)];
        gauges(&mut encoder, &RUN_GAUGES, &run)?;
        counters(&mut encoder, &RUN_COUNTERS, &run)?;
        let flows: Vec<_> =
            self.flows.iter().map(|(name, flow)| ([("flow", name.as_str())], flow)).collect();
        counters(&mut encoder, &FLOW_COUNTERS, &flows)?;
        gauges(&mut encoder, &FLOW_GAUGES, &flows)?;
        self.delays(&mut encoder)?;
        let group = |((name, end), group)| ([("group", name), ("end", end)], group);
        let groups = self.groups.iter().map(|((name, end), of)| ((name.as_str(), end.name()), of));
        let groups: Vec<_> = groups.map(group).collect();
        counters(&mut encoder, &GROUP_COUNTERS, &groups)?;
        gauges(&mut encoder, &GROUP_GAUGES, &groups)
    }
}

impl RunMetrics {
    fn delays(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut known: Vec<(&str, &DelayTotals)> = Vec::new();
        for (name, flow) in &self.flows {
            let delay = flow.received.as_ref().and_then(|received| received.delay.as_ref());
            known.extend(delay.map(|delay| (name.as_str(), delay)));
        }
        if known.is_empty() {
            return Ok(());
        }
        let (unit, kind) = (Unit::Seconds, MetricType::Histogram);
        let mut metric = encoder.encode_descriptor(DELAY_NAME, DELAY_HELP, Some(&unit), kind)?;
        for (name, delay) in known {
            let (sum, buckets) = (delay.sum_ns / 1e9, delay.in_seconds());
            metric.encode_family(&[("flow", name)])?.encode_histogram::<NoLabelSet>(
                sum,
                delay.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}
