//! Prometheus: the metrics in the text formats that a Prometheus server reads.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{self, Registry};

use super::families::{About, Labels, Samples, Unit};
use super::{PREFIX, RunMetrics};

/// A text format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' own, version 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    /// The media type, as HTTP names it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Exposition::Prometheus => prometheus_text::CONTENT_TYPE,
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl RunMetrics {
    /// All of it as text.
    pub fn text(&self, exposition: Exposition) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        let written = match exposition {
            Exposition::Prometheus => prometheus_text::encode(&mut text, &registry),
            Exposition::OpenMetrics => text::encode(&mut text, &registry),
        };
        // memory takes all that is written to it
        written.map_or(String::new(), |()| text)
    }
}

/// The unit that is a part of the name. What others count is a word of their name already.
fn suffix(unit: Unit) -> Option<registry::Unit> {
    (unit == Unit::Seconds).then_some(registry::Unit::Seconds)
}

impl Collector for RunMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in self.families() {
            let About { name, help, unit } = family.about;
            let (unit, kind) = (suffix(unit), kind(&family.samples));
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            match &family.samples {
                Samples::Info(labels) => metric.encode_info(&as_set(labels))?,
                Samples::Counters(all) => {
                    for (labels, value) in all {
                        let exemplar = None;
                        metric
                            .encode_family(&as_set(labels))?
                            .encode_counter::<NoLabelSet, u64, f64>(value, exemplar)?;
                    }
                }
                Samples::Gauges(all) => {
                    for (labels, value) in all {
                        metric.encode_family(&as_set(labels))?.encode_gauge(value)?;
                    }
                }
                Samples::Histograms(all) => {
                    for (labels, delay) in all {
                        let (sum, buckets) = (delay.sum_ns / 1e9, delay.in_seconds());
                        metric.encode_family(&as_set(labels))?.encode_histogram::<NoLabelSet>(
                            sum,
                            delay.count,
                            &buckets,
                            None,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

const fn kind(samples: &Samples<'_>) -> MetricType {
    match samples {
        Samples::Info(_) => MetricType::Info,
        Samples::Counters(_) => MetricType::Counter,
        Samples::Gauges(_) => MetricType::Gauge,
        Samples::Histograms(_) => MetricType::Histogram,
    }
}

fn as_set<'l, 'a>(labels: &'l Labels<'a>) -> &'l [(&'static str, Cow<'a, str>)] {
    labels
}
