//! `wirebeat test soak`: whether a device or a service stays for hours what it is at the start.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_report::trend::{self, Limits};
use wirebeat_run::{Options, RunError};
use wirebeat_units::Nanos;

use crate::ctl::ControlArgs;
use crate::execute::execute_and;
use crate::expect::ExpectArgs;
use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile};
use crate::output::{Output, ReportArgs};
use crate::values;
use crate::watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  wirebeat test soak lab.yaml --time 8h --html night.html
  wirebeat test soak lab.yaml --time 8h --delay-change 10us --rate-change 0.1% --junit night.xml
  wirebeat test soak lab.yaml --time 3d --expect 'interval.loss <= 0.01%' --metrics 127.0.0.1:9469";

/// Full intervals of a test: as many as a report keeps without putting neighbours together, with some to spare.
const INTERVALS: u64 = 480;
/// The shortest interval that is chosen.
const SHORTEST: u64 = 1;

/// Run a scenario for hours and see what changes
///
/// Runs a scenario for a long time and looks at what was measured in each of some 480 intervals: delay, rate and loss of each flow, sessions
/// and responses of each group. The result has the straight line that each follows, by how much it changed from the start to the end
/// with its 95 % interval, and its worst interval. What the scenario expects holds as in 'run'; an expectation that begins with 'interval.' is held against each interval. docs/soak.md describes it.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// How long the test takes
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Nanos,
    /// The most by which the delay of a flow may change; more ends with exit code 4
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    delay_change: Option<Nanos>,
    /// The most by which a rate may change, of what it is at the start; more ends with exit code 4
    #[arg(long, value_name = "PERCENT", value_parser = values::share)]
    rate_change: Option<f64>,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Tests.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let mut file = ScenarioFile::read(&args.scenario, &args.reading, Some(args.time))?;
    file.expect(&args.expect.expect)?;
    let usual =
        Nanos::from_secs((args.time.get() / 1_000_000_000).div_ceil(INTERVALS).max(SHORTEST));
    let asked = output.options();
    let options = file.options(Options {
        control: args.control.wanted(),
        abort_on_fail: args.expect.abort.abort_on_fail,
        interval: Some(asked.interval.unwrap_or(usual)),
        ..asked
    });
    let limits = Limits {
        delay_ns: args.delay_change.map(|time| time.get() as f64),
        rate: args.rate_change,
    };
    let explain = |error: RunError| match error {
        RunError::Scenario(error) => file.invalid(error.problem()),
        other => Failure::from(other).at(file.name.clone()),
    };
    execute_and(None, (&file.scenario, options), output, explain, |report| {
        trend::add(report, limits)
    })
}
