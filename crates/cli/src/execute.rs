//! Runs a scenario and gives its report: what `send`, `load`, `serve`, `run` and `demo` have in common.

use std::path::Path;

use wirebeat_run::{Options, Report, RunError, Stop};
use wirebeat_traffic::scenario::Scenario;

use crate::failure::Failure;
use crate::output::Output;
use crate::repeat::{OneRun, warm_up};
use crate::signals::Signals;
use crate::tui::PortFlows;
use crate::watch::Watched;

/// Runs `scenario`; `explain` says in the words of the caller what is wrong when it cannot be run.
pub fn execute(
    scenario: &Scenario,
    options: Options,
    output: &mut Output,
    explain: impl Fn(RunError) -> Failure,
) -> Result<u8, Failure> {
    execute_and(None, (scenario, options), output, explain, |_| {})
}

/// The same behind another run, of which nothing is told, and with what the caller makes of the report.
pub fn execute_and(
    before: Option<OneRun>,
    (scenario, options): (&Scenario, Options),
    output: &mut Output,
    explain: impl Fn(RunError) -> Failure,
    judge: impl FnOnce(&mut Report),
) -> Result<u8, Failure> {
    let signals = Signals::watch()?;
    if let Some(before) = before {
        warm_up(before, signals.running()).map_err(&explain)?;
    }
    let mut prepared = wirebeat_run::prepare(scenario, options).map_err(&explain)?;
    let control = prepared.control_path().map(Path::to_owned);
    if let Some(path) = &control {
        signals.remove_at_end(path);
    }
    // until it runs, a signal ends the program, and so nobody asks this one
    prepared.begin(&Stop::new()).map_err(explain)?;
    let mut observer = output.observer(Watched {
        seed: Some(scenario.seed),
        control: prepared.control(),
        ports: PortFlows::of_all(scenario),
        signals: &signals,
    })?;
    let stop = signals.running();
    // who reads this may end the run, which then reports
    if let Some(path) = &control {
        observer.notice(&format!("control socket: {}", path.display()));
    }
    let mut report = prepared.start(&mut *observer, stop);
    drop(observer);
    judge(&mut report);
    Ok(output.report(&report))
}
