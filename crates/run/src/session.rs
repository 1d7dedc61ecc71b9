//! A run from beginning to end.

use wirebeat_report::model::Report;
use wirebeat_traffic::spec::Scenario;

use crate::error::RunError;
use crate::observe::{Observer, Stop};
use crate::options::Options;

/// A run that is ready to start: compiled, its ports open, nothing sent.
#[derive(Debug)]
pub struct Prepared {
    report: Report,
}

/// Resolves links, compiles the scenario and opens its ports.
pub fn prepare(scenario: &Scenario, options: Options) -> Result<Prepared, RunError> {
    let _ = (scenario, options);
    Err(RunError::Machine("running is being built".to_owned()))
}

impl Prepared {
    /// Runs to the end and reports.
    pub fn start(self, observer: &mut dyn Observer, stop: &Stop) -> Report {
        let _ = (observer, stop);
        self.report
    }
}
