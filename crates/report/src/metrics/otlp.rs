//! OpenTelemetry: the metrics as a request of OTLP in JSON, and what an answer says (specification of OTLP 1.x, "JSON Protobuf
//! Encoding": keys in lowerCamelCase, integers of 64 bits as strings).
//!
//! Names are those of Prometheus without what it adds: a collector that hands metrics on to Prometheus makes the same names again.
//! All sums are cumulative from the start of the program. How a request gets to a collector is not known here.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::families::{About, Family, Labels, Samples, Unit};
use super::totals::DelayTotals;
use super::{PREFIX, RunMetrics};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;
/// The longest text of an answer that is shown, in characters.
const SHOWN: usize = 200;

/// Of whom, and of when, the values are. Times are nanoseconds since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The program, by attributes of its resource: `service.name` and others.
    pub resource: &'a [(String, String)],
    /// When counting began.
    pub started_ns: u64,
    /// When the values were as they are.
    pub at_ns: u64,
}

impl RunMetrics {
    /// All of it as an `ExportMetricsServiceRequest` in JSON.
    pub fn otlp(&self, origin: &Origin<'_>) -> Vec<u8> {
        let attributes = origin.resource.iter();
        let attributes =
            attributes.map(|(key, value)| Attribute::new(key.as_str(), value.as_str()));
        let metrics = self.families().into_iter().map(|family| Metric::new(family, origin));
        let scope = Scope { name: PREFIX, version: &self.version };
        let request = Request {
            resource_metrics: [ResourceMetrics {
                resource: Resource { attributes: attributes.collect() },
                scope_metrics: [ScopeMetrics { scope, metrics: metrics.collect() }],
            }],
        };
        // memory takes all that is written to it, and no key is other than text
        serde_json::to_vec(&request).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: Resource<'a>,
    scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeMetrics<'a> {
    scope: Scope<'a>,
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
struct Scope<'a> {
    name: &'a str,
    version: &'a str,
}

/// A key and a text.
#[derive(Clone, Serialize)]
struct Attribute<'a> {
    key: Cow<'a, str>,
    value: AnyValue<'a>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue<'a> {
    string_value: Cow<'a, str>,
}

impl<'a> Attribute<'a> {
    fn new(key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
        Attribute { key: key.into(), value: AnyValue { string_value: value.into() } }
    }
}

#[derive(Serialize)]
struct Metric<'a> {
    name: String,
    description: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'static str,
    #[serde(flatten)]
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Data<'a> {
    Gauge { data_points: Vec<Point<'a>> },
    Sum { data_points: Vec<Point<'a>>, aggregation_temporality: u8, is_monotonic: bool },
    Histogram { data_points: Vec<HistogramPoint<'a>>, aggregation_temporality: u8 },
}

/// A value, and of when it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Point<'a> {
    attributes: Vec<Attribute<'a>>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    #[serde(flatten)]
    value: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value {
    AsInt(String),
    AsDouble(Double),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistogramPoint<'a> {
    attributes: Vec<Attribute<'a>>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    count: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<Double>,
    bucket_counts: Vec<String>,
    explicit_bounds: Vec<f64>,
}

/// A number, or the text that stands for what is none (JSON mapping of protobuf).
#[derive(Serialize)]
#[serde(untagged)]
enum Double {
    Number(f64),
    Text(&'static str),
}

impl From<f64> for Double {
    fn from(value: f64) -> Double {
        match value {
            _ if value.is_finite() => Double::Number(value),
            _ if value.is_nan() => Double::Text("NaN"),
            _ if value > 0.0 => Double::Text("Infinity"),
            _ => Double::Text("-Infinity"),
        }
    }
}

/// In UCUM; what is counted stands in braces.
const fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Nothing => "",
        Unit::Frames => "{frame}",
        Unit::Bytes => "By",
        Unit::Sessions => "{session}",
        Unit::Requests => "{request}",
        Unit::Responses => "{response}",
        Unit::Handshakes => "{handshake}",
        Unit::Segments => "{segment}",
        Unit::Cpus => "{cpu}",
        Unit::Seconds => "s",
    }
}

fn attributes<'a>(labels: &Labels<'a>) -> Vec<Attribute<'a>> {
    labels.iter().map(|(key, value)| Attribute::new(*key, value.clone())).collect()
}

impl<'a> Metric<'a> {
    fn new(family: Family<'a>, origin: &Origin<'_>) -> Metric<'a> {
        let About { name, help, unit } = family.about;
        let point = |labels: &Labels<'a>, value| Point {
            attributes: attributes(labels),
            start_time_unix_nano: origin.started_ns.to_string(),
            time_unix_nano: origin.at_ns.to_string(),
            value,
        };
        let mut shown = format!("{PREFIX}.{name}");
        let data = match family.samples {
            Samples::Info(labels) => {
                // OTLP has no such kind: as Prometheus, a 1 with what there is to say
                shown.push_str("_info");
                Data::Gauge { data_points: vec![point(&labels, Value::AsInt("1".to_owned()))] }
            }
            Samples::Counters(all) => {
                let points = all.iter().map(|(labels, count)| {
                    // the field is signed
                    let count = i64::try_from(*count).unwrap_or(i64::MAX);
                    point(labels, Value::AsInt(count.to_string()))
                });
                Data::Sum {
                    data_points: points.collect(),
                    aggregation_temporality: CUMULATIVE,
                    is_monotonic: true,
                }
            }
            Samples::Gauges(all) => {
                let points = all
                    .iter()
                    .map(|(labels, value)| point(labels, Value::AsDouble((*value).into())));
                Data::Gauge { data_points: points.collect() }
            }
            Samples::Histograms(all) => {
                let points = all.iter().map(|(labels, delay)| histogram(labels, delay, origin));
                Data::Histogram {
                    data_points: points.collect(),
                    aggregation_temporality: CUMULATIVE,
                }
            }
        };
        Metric { name: shown, description: help, unit: ucum(unit), data }
    }
}

fn histogram<'a>(
    labels: &Labels<'a>,
    delay: &DelayTotals,
    origin: &Origin<'_>,
) -> HistogramPoint<'a> {
    let buckets = delay.in_seconds();
    let sum = delay.sum_ns / 1e9;
    HistogramPoint {
        attributes: attributes(labels),
        start_time_unix_nano: origin.started_ns.to_string(),
        time_unix_nano: origin.at_ns.to_string(),
        count: delay.count.to_string(),
        // delays of clocks that do not agree can be negative, and a sum of such is not to be given (metrics.proto)
        sum: (sum >= 0.0).then(|| sum.into()),
        bucket_counts: buckets.iter().map(|(_, count)| count.to_string()).collect(),
        explicit_bounds: buckets
            .iter()
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
            .collect(),
    }
}

/// What a collector did not take of a request that it answered with success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// Values that are lost; 0 where it only has something to say.
    pub data_points: u64,
    /// Why, in its own words: as they came, but not long.
    pub message: String,
}

/// What the body of an answer says was not taken; `None` where it says nothing of it.
pub fn rejected(body: &[u8]) -> Option<Rejected> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        partial_success: Option<PartialSuccess>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PartialSuccess {
        rejected_data_points: Option<Int64>,
        error_message: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let partial = answer.partial_success?;
    let data_points = partial.rejected_data_points.map_or(0, |count| count.get());
    let message = partial.error_message.as_deref().map(brief).unwrap_or_default();
    (data_points > 0 || !message.is_empty()).then_some(Rejected { data_points, message })
}

/// An integer of 64 bits, which writers of JSON give as text or as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Int64 {
    Number(i64),
    Text(String),
}

impl Int64 {
    /// 0 where it is none, or negative.
    fn get(&self) -> u64 {
        let number = match self {
            Int64::Number(number) => *number,
            Int64::Text(text) => text.parse().unwrap_or(0),
        };
        u64::try_from(number).unwrap_or(0)
    }
}

/// What the body of an answer says went wrong: the message of a `google.rpc.Status` in JSON, or a line of text. As it came, but
/// not long; `None` where it says nothing.
pub fn reason(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    let said = match serde_json::from_slice::<Status>(body) {
        Ok(status) => brief(&status.message),
        Err(_) => brief(std::str::from_utf8(body).ok()?.lines().next()?),
    };
    (!said.is_empty()).then_some(said)
}

fn brief(text: &str) -> String {
    text.trim().chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
