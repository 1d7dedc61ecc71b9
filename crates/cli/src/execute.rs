//! Runs a scenario and gives its report: what `send`, `run` and `demo` have in common.

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
    if let Some(path) = prepared.control_path() {
        signals.remove_at_end(path);
        observer.notice(&format!("control socket: {}", path.display()));
    }
    // until it runs, a signal ends the program, and so nobody asks this one
    prepared.begin(&Stop::new()).map_err(explain)?;
    let report = prepared.start(&mut *observer, signals.running());
    drop(observer);
    Ok(output.report(&report))
}
