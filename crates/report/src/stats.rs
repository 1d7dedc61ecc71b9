//! What `wirebeat ctl stats` says of a run that goes on: a stream of lines, each a JSON object with one key that says what it is.
//!
//! Intervals have the form that they have in reports and in `--json-lines`. `docs/stats.schema.json` describes a line.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::model::Interval;

/// A line of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "Wirebeat statistics of a run that goes on")]
pub enum StatsLine {
    /// An interval that has ended. Intervals come in the order of time.
    Interval(Box<Interval>),
    /// How many intervals ended here and are not told, because they were not read in time. They are in the total.
    Missed(u64),
    /// All intervals that have ended, as one from the start of the run. The last line.
    Total(Box<Interval>),
    /// Why the run tells nothing. The only line.
    Error(String),
}

/// The JSON Schema of [`StatsLine`] as it is written, which is published as `docs/stats.schema.json`.
pub fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<StatsLine>()
}
