//! `wirebeat run`: a scenario from a file.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::{Options, RunError};
use wirebeat_traffic::scenario::{PriorityChoice, TimestampsChoice};
use wirebeat_units::Nanos;

use crate::ctl::ControlArgs;
use crate::execute::execute;
use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile};
use crate::output::{Output, ReportArgs};
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat run scenario.yaml
  wirebeat run scenario.yaml --time 60s --json report.json
  wirebeat run scenario.yaml --set rate=50kpps --set target=10.0.0.2
  wirebeat run flows.mgn --interface eth1
  wirebeat run pktgen_sample01_simple.sh -- -i eth1 -d 10.0.0.2 -m 02:00:5e:00:53:01
  wirebeat send --to 10.0.0.2 --rate 100kpps --print-scenario | wirebeat run -";

/// Run a scenario from a file
///
/// Runs the flows of a scenario between its ports and reports them. What a scenario can say is described
/// in docs/scenario.md. Names of files in it are relative to its own. Scripts of RUDE, MGEN, D-ITG and pktgen
/// are taken as they are; docs/scripts.md says what becomes of them.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON, or a script; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// End after this time, whatever the scenario says
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// How sending and receiving threads compete for a CPU [default: what the scenario says, or high]
    #[arg(long, value_name = "WHAT", value_parser = values::priority())]
    priority: Option<PriorityChoice>,
    /// Who stamps what is received, and when frames left [default: what the scenario says, or software]
    #[arg(long, value_name = "WHO", value_parser = values::timestamps())]
    timestamps: Option<TimestampsChoice>,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// What a shell script for pktgen is called with: -- -i eth1 -d 10.0.0.2
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let arguments = &args.arguments;
    let mut file = ScenarioFile::read_with(&args.scenario, &args.reading, args.time, arguments)?;
    if let Some(priority) = args.priority {
        file.scenario.run.priority = priority;
        // It may not go with the way to wait.
        file.scenario.check().map_err(|problem| file.invalid(&problem))?;
    }
    if let Some(timestamps) = args.timestamps {
        file.scenario.run.timestamps = timestamps;
    }
    let options = file.options(Options { control: args.control.wanted(), ..output.options() });
    execute(&file.scenario, options, output, |error| match error {
        RunError::Scenario(error) => file.invalid(error.problem()),
        other => Failure::from(other).at(file.name.clone()),
    })
}
