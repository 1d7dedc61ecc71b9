//! What a run has counted by now, for those who watch it from outside: Prometheus servers and collectors of OpenTelemetry.
//!
//! [`RunMetrics`] adds up the intervals that a run tells (`totals.rs`), so that its numbers are those of the report's `intervals`;
//! it knows neither the run nor who asks. `families.rs` is the one table of metrics, and `prometheus.rs` and `otlp.rs` are its two
//! encodings. Labels are bounded: at most 256 flows and 256 groups have a name of their own, and the rest is together in `(others)`,
//! so that a sum over all of a label is the whole. `docs/live.md` has the table of the metrics.

mod families;
pub mod otlp;
mod prometheus;
#[cfg(test)]
mod tests;
mod totals;

use std::collections::BTreeMap;

pub use prometheus::Exposition;
use wirebeat_units::printable::printable;

use crate::model::{Interval, SessionEnd};

use totals::{FlowTotals, GroupTotals};

/// What all names begin with.
const PREFIX: &str = "wirebeat";
/// The most flows, and the most groups, with a name of their own: as many flows as intervals tell apart.
const NAMES_MAX: usize = 256;
/// The label of all others.
const OTHERS: &str = "(others)";

/// What a run has counted by now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunMetrics {
    version: String,
    seed: Option<u64>,
    /// When the last interval ended, from the start of the run.
    elapsed_ns: u64,
    flows: BTreeMap<String, FlowTotals>,
    groups: BTreeMap<(String, SessionEnd), GroupTotals>,
    expired: Option<u64>,
    cpus: Option<f64>,
}

impl RunMetrics {
    /// Of a run of this version of the program, with the seed of its random choices if it has one.
    pub fn new(version: impl Into<String>, seed: Option<u64>) -> RunMetrics {
        RunMetrics { version: version.into(), seed, ..RunMetrics::default() }
    }

    /// Adds what happened in an interval.
    pub fn add(&mut self, interval: &Interval) {
        self.elapsed_ns = interval.to_ns;
        let mut rest = FlowTotals::of(&interval.total);
        for flow in &interval.flows {
            let totals = FlowTotals::of(flow);
            rest.take(&totals);
            let name = named(&self.flows, printable(&flow.name).into_owned(), || OTHERS.to_owned());
            self.flows.entry(name).or_default().add(&totals);
        }
        if !rest.is_nothing() {
            self.flows.entry(OTHERS.to_owned()).or_default().add(&rest);
        }
        for group in &interval.sessions {
            let key = (printable(&group.name).into_owned(), group.end);
            let key = named(&self.groups, key, || (OTHERS.to_owned(), group.end));
            self.groups.entry(key).or_default().add(group);
        }
        if let Some(more) = interval.expired {
            let expired = self.expired.get_or_insert_default();
            *expired = expired.saturating_add(more);
        }
        self.cpus = interval.cpus.map(|cpus| cpus.last).or(self.cpus);
    }
}

/// The key for `name`: itself while there is room for another, or that of the `others`.
fn named<K: Ord, V>(known: &BTreeMap<K, V>, name: K, others: impl Fn() -> K) -> K {
    if known.len() < NAMES_MAX || known.contains_key(&name) { name } else { others() }
}
