//! Runs a scenario and gives its report: what `send`, `load`, `serve`, `run` and `demo` have in common.

use std::path::Path;

use wirebeat_run::{Options, RunError, Stop};
use wirebeat_traffic::scenario::Scenario;

use crate::failure::Failure;
use crate::output::Output;
use crate::signals::Signals;

/// Runs `scenario`; `explain` says in the words of the caller what is wrong when it cannot be run.
pub fn execute(
    scenario: &Scenario,
    options: Options,
    output: &mut Output,
    explain: impl Fn(RunError) -> Failure,
) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    let mut observer = output.observer();
    let mut prepared = wirebeat_run::prepare(scenario, options).map_err(&explain)?;
    let control = prepared.control_path().map(Path::to_owned);
    if let Some(path) = &control {
        signals.remove_at_end(path);
    }
    // until it runs, a signal ends the program, and so nobody asks this one
    prepared.begin(&Stop::new()).map_err(explain)?;
    let stop = signals.running();
    // who reads this may end the run, which then reports
    if let Some(path) = &control {
        observer.notice(&format!("control socket: {}", path.display()));
    }
    let report = prepared.start(&mut *observer, stop);
    drop(observer);
    Ok(output.report(&report))
}
