//! The documents that the program writes: a report, or the reason why there is none.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::compare::Changes;
use crate::model::{Report, SCHEMA_VERSION};
use crate::several_runs::SeveralRuns;
use crate::sweep::Sweep;
use crate::test_report::TestReport;

/// What a file or a pipe receives from Wirebeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "Wirebeat report")]
pub enum Document {
    /// A run took place.
    Report(Box<Report>),
    /// Several runs side by side.
    SeveralRuns(SeveralRuns),
    /// Runs over variables.
    Sweep(Sweep),
    /// A standard test, of many runs.
    Test(Box<TestReport>),
    /// What changed between runs of before and of now.
    Changes(Changes),
    /// No run took place.
    Error(ErrorReport),
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// Version of this model: "1".
    pub schema_version: String,
    /// Version of the program.
    pub wirebeat_version: String,
    /// The command line, program and arguments.
    pub command_line: Vec<String>,
    /// What happened.
    pub error: ErrorBody,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// What, where, and how to mend it.
    pub message: String,
    /// The program's exit code: 2 for wrong usage or scenario, 3 for something this machine lacks, 1 where a signal
    /// ended it, 5 where an output could not be written.
    pub exit_code: u8,
}

impl ErrorReport {
    /// An error of the program of this version that was called so.
    pub fn new(wirebeat_version: String, command_line: Vec<String>, error: ErrorBody) -> Self {
        let schema_version = SCHEMA_VERSION.to_owned();
        ErrorReport { schema_version, wirebeat_version, command_line, error }
    }
}

/// The JSON Schema of [`Document`] as it is written, which is published as `docs/report.schema.json`.
pub fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Document>()
}
