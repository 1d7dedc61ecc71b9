//! What a log says of its run beside its rows: what it takes to make the same measurements from them once more.
//!
//! It lies in the metadata of the file as JSON, under the keys `RUN` and `END`: the former from the first byte on, the latter
//! in a log that was ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wirebeat_meter::bins::Bins;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_units::{Nanos, WallTime};

use crate::seen::{InterfaceCounts, Opening};

/// The key of what is known at the start.
pub(super) const RUN: &str = "wirebeat.run";
/// The key of what is known at the end.
pub(super) const END: &str = "wirebeat.end";
/// The version of what stands under both keys.
pub(super) const VERSION: u32 = 1;

/// What is known of a run when its log begins, beside its [`Opening`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRun {
    /// The version of Wirebeat.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// The seed of a run that sends.
    pub seed: Option<u64>,
    /// Its scenario as it is run, as JSON; none of a receiver by itself.
    pub scenario: Option<String>,
    /// When it begins, on the monotonic clock.
    pub start_ns: u64,
    /// How the clocks of sender and receiver relate.
    pub clocks: ClockRelation,
    /// What the meter of each port is told, by the port's place in [`Opening::interfaces`]; `None` of a port that measures
    /// nothing.
    pub meters: Vec<Option<MeterFacts>>,
}

/// How the clocks of sender and receiver relate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "relation", rename_all = "snake_case")]
pub enum ClockRelation {
    /// Both ends read one clock.
    Same,
    /// Their offset is known up to a bound.
    Bounded {
        /// The bound in nanoseconds.
        bound_ns: u64,
        /// How it is known.
        how: String,
    },
    /// Nothing is known of their offset.
    #[default]
    Unknown,
    /// Nothing is known of their offset, for this reason.
    Unbounded {
        /// The reason.
        why: String,
    },
}

/// What a meter is told, as far as it matters to frames whose flows and numbers are known: a [`MeterConfig`] without what it
/// takes to find these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterFacts {
    /// How many receive queues have a meter of their own; 0 counts as 1.
    pub queues: u16,
    /// The flows that are measured; `None`: the first that arrive.
    pub expected: Option<BTreeMap<u16, FlowFacts>>,
    /// The most flows that are measured, where those are not named.
    pub flows_max: u16,
    /// The flows that are known by their headers.
    pub by_headers: BTreeMap<u16, FlowFacts>,
    /// Bins for inter-arrival times: their width in nanoseconds and their number.
    pub bins: Option<(u64, usize)>,
    /// Sequence numbers that can be told apart.
    pub window: u32,
    /// Whether it reads probes of other tools, and of which.
    pub codecs: Vec<String>,
}

/// What is known of a flow before it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowFacts {
    /// Time between its frames, where it is constant.
    pub gap_ns: Option<u64>,
    /// Taken off each delay.
    pub delay_base_ns: i64,
}

impl MeterFacts {
    /// Of a receiver with this many queues whose meters are told this.
    pub fn new(config: &MeterConfig, queues: u16) -> MeterFacts {
        let flow = |(id, expected): (&u16, &Expectation)| (*id, FlowFacts::new(expected));
        let (expected, flows_max) = match &config.flows {
            Flows::Expected(flows) => (Some(flows.iter().map(flow).collect()), 0),
            Flows::Any(most) => (None, *most),
        };
        MeterFacts {
            queues,
            expected,
            flows_max,
            by_headers: config.recognised.iter().map(flow).collect(),
            bins: config.bins.map(|bins| (bins.width().get(), bins.count())),
            window: config.window,
            codecs: config.codecs.read.iter().map(ToString::to_string).collect(),
        }
    }

    /// What a meter is told that takes the rows of a log.
    pub fn config(&self) -> MeterConfig {
        let flow = |(id, facts): (&u16, &FlowFacts)| (*id, facts.expectation());
        MeterConfig {
            flows: match &self.expected {
                Some(flows) => Flows::Expected(flows.iter().map(flow).collect()),
                None => Flows::Any(self.flows_max),
            },
            bins: self.bins.and_then(|(width, count)| Bins::new(Nanos::new(width), count).ok()),
            window: self.window,
            recognised: self.by_headers.iter().map(flow).collect(),
            ..MeterConfig::default()
        }
    }
}

impl FlowFacts {
    fn new(expected: &Expectation) -> FlowFacts {
        let gap_ns = expected.nominal_gap.map(Nanos::get);
        FlowFacts { gap_ns, delay_base_ns: expected.delay_base }
    }

    fn expectation(self) -> Expectation {
        let nominal_gap = self.gap_ns.map(Nanos::new);
        Expectation { nominal_gap, delay_base: self.delay_base_ns }
    }
}

/// A port, as a log knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedPort {
    /// What the column `port` calls it.
    pub name: String,
    /// The network interface, if there is one.
    pub interface: Option<String>,
    /// The engine and how it works here.
    pub description: String,
    /// Whose clock the times are from.
    pub timestamps: String,
    /// What its meter is told; `None`: it measures nothing.
    pub meter: Option<MeterFacts>,
}

/// What stands under `RUN`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// 1.
    pub log_version: u32,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The same in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// What is known of the run; its `meters` are with the ports.
    #[serde(flatten)]
    pub run: LoggedRun,
    /// The ports, by their names in the column `port`.
    pub ports: Vec<LoggedPort>,
    /// The flows by their numbers.
    pub flows: Vec<(u16, String)>,
    /// What is said of the whole run.
    pub comment: Option<String>,
}

/// What stands under `END`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// When it ended, in nanoseconds since 1970.
    pub ended_unix_ns: u64,
    /// What each port counted, in the order of [`LogHead::ports`].
    pub ports: Vec<PortCounts>,
    /// Rows that were made and could not be written: the disk was full.
    #[serde(default)]
    pub unwritten: u64,
}

/// What is known of a port at the end; see [`InterfaceCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounts {
    /// Frames that were seen.
    pub seen: u64,
    /// Frames that a filter left out.
    pub filtered: u64,
    /// Frames that the receiver lost before it could measure them.
    pub receiver_drops: u64,
    /// Frames that were measured and are not in the log, because its writer was slower.
    pub lost: u64,
}

impl LogHead {
    pub(super) fn new(opening: &Opening, run: &LoggedRun) -> LogHead {
        let names = port_names(opening);
        let port =
            |(place, (interface, name)): (usize, (&crate::seen::Interface, String))| LoggedPort {
                name,
                interface: interface.name.clone(),
                description: interface.description.clone(),
                timestamps: interface.timestamps.clone(),
                meter: run.meters.get(place).cloned().flatten(),
            };
        LogHead {
            log_version: VERSION,
            started: WallTime::from_unix(Nanos::new(opening.unix_ns)).to_string(),
            started_unix_ns: opening.unix_ns,
            run: LoggedRun { meters: Vec::new(), ..run.clone() },
            ports: opening.interfaces.iter().zip(names).enumerate().map(port).collect(),
            flows: opening.flows.clone(),
            comment: opening.comment.clone(),
        }
    }
}

impl LogEnd {
    pub(super) fn new(unix_ns: u64, counts: &[InterfaceCounts]) -> LogEnd {
        let port = |counts: &InterfaceCounts| PortCounts {
            seen: counts.seen,
            filtered: counts.filtered,
            receiver_drops: counts.receiver_drops,
            lost: counts.lost,
        };
        LogEnd { ended_unix_ns: unix_ns, ports: counts.iter().map(port).collect(), unwritten: 0 }
    }
}

/// What the column `port` calls each port: its name in the scenario, or its interface, or its place. No two are the same.
pub(super) fn port_names(opening: &Opening) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(opening.interfaces.len());
    for (place, interface) in opening.interfaces.iter().enumerate() {
        let name = interface.port.clone().or_else(|| interface.name.clone());
        let name = name.unwrap_or_else(|| format!("port {place}"));
        let taken = names.contains(&name);
        names.push(if taken { format!("{name} ({place})") } else { name });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_meter_is_told_comes_back() {
        let expected = Expectation { nominal_gap: Some(Nanos::new(800)), delay_base: -5 };
        let configs = [
            MeterConfig {
                flows: Flows::Expected([(3, expected), (9, Expectation::default())].into()),
                bins: Bins::new(Nanos::new(100), 50).ok(),
                window: 1024,
                recognised: [(4, expected)].into(),
                ..MeterConfig::default()
            },
            MeterConfig { flows: Flows::Any(12), ..MeterConfig::default() },
        ];
        for config in configs {
            let facts = MeterFacts::new(&config, 2);
            let text = serde_json::to_string(&facts).unwrap();
            let back: MeterFacts = serde_json::from_str(&text).unwrap();
            assert_eq!(back.config(), config);
            assert_eq!(back.queues, 2);
        }
    }
}
