//! `wirebeat run`: a scenario from a file.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::{Options, RunError};
use wirebeat_traffic::scenario::{PriorityChoice, TimestampsChoice};
use wirebeat_units::Nanos;

use crate::ctl::ControlArgs;
use crate::execute::{execute, execute_and};
use crate::expect::ExpectArgs;
use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile, is_standard};
use crate::output::{Output, ReportArgs};
use crate::repeat::{Many, OneRun, RepeatArgs, again};
use crate::values;
use crate::watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  wirebeat run scenario.yaml
  wirebeat run scenario.yaml --time 60s --json report.json
  wirebeat run scenario.yaml --expect 'loss == 0%' --expect 'voice: delay.p99 < 1ms'
  wirebeat run scenario.yaml --set rate=50kpps --set target=10.0.0.2
  wirebeat run scenario.yaml --warmup 2s --repeat 5 --html runs.html
  wirebeat run flows.mgn --interface eth1
  wirebeat run pktgen_sample01_simple.sh -- -i eth1 -d 10.0.0.2 -m 02:00:5e:00:53:01
  wirebeat send --to 10.0.0.2 --rate 100kpps --print-scenario | wirebeat run -";

/// Run a scenario from a file
///
/// Runs the flows of a scenario between its ports and reports them. What a scenario can say is described
/// in docs/scenario.md. Names of files in it are relative to its own. Scripts of RUDE, MGEN, D-ITG, pktgen, T-Rex and WARP17
/// are taken as they are; docs/scripts.md says what becomes of them.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON, or a script; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// Send nothing more and open no session after this time, whatever the scenario says; sessions that are open come to their end
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    /// How sending and receiving threads compete for a CPU [default: what the scenario says, or high]
    #[arg(long, value_name = "WHAT", value_parser = values::priority())]
    priority: Option<PriorityChoice>,
    /// Who stamps what is received, and when frames left [default: what the scenario says, or software]
    #[arg(long, value_name = "WHO", value_parser = values::timestamps())]
    timestamps: Option<TimestampsChoice>,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// What a shell script for pktgen is called with: -- -i eth1 -d 10.0.0.2
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Runs.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let RepeatArgs { repeat, warmup } = args.repeat;
    args.repeat.check(&args.watch, &args.report)?;
    if args.repeat.is_once() {
        let file = read(args, args.time)?;
        let options = options(args, &file, output);
        return execute(&file.scenario, options, output, |error| explained(error, &file));
    }
    // before a single run, it is read twice
    if is_standard(&args.scenario) {
        let why = "standard input can be read once, and the scenario is read for each run";
        return Err(Failure::usage(why).at("-").hint("name a file"));
    }
    let file = read(args, args.time)?;
    let own = options(args, &file, output);
    let mut make = |_: &[String], time: Option<Nanos>| {
        let file = read(args, time.or(args.time))?;
        let (control, abort_on_fail) = (own.control.clone(), own.abort_on_fail);
        let more = Options { abort_on_fail, control, ..again(&own) };
        let options = file.options(more);
        Ok(OneRun { scenario: file.scenario, options })
    };
    let explain = |error: RunError| explained(error, &file);
    if repeat == 1 {
        let before = warmup.map(|time| make(&[], Some(time))).transpose()?;
        let run = (&file.scenario, options(args, &file, output));
        return execute_and(before, run, output, explain, |_| {});
    }
    let values = vec![Vec::new(); repeat];
    let (variables, make) = (Vec::new(), &mut make);
    let test = None;
    let resume = None;
    Many { test, variables, values, warmup, resume, make, explain: &explain, judges: false }
        .run(output)
}

/// The scenario, as the command line changes it.
fn read(args: &Args, time: Option<Nanos>) -> Result<ScenarioFile, Failure> {
    let mut file = ScenarioFile::read_with(&args.scenario, &args.reading, time, &args.arguments)?;
    if let Some(priority) = args.priority {
        file.scenario.run.priority = priority;
        // It may not go with the way to wait.
        file.scenario.check().map_err(|problem| file.invalid(&problem))?;
    }
    file.expect(&args.expect.expect)?;
    if let Some(timestamps) = args.timestamps {
        file.scenario.run.timestamps = timestamps;
    }
    Ok(file)
}

fn options(args: &Args, file: &ScenarioFile, output: &Output) -> Options {
    let abort_on_fail = args.expect.abort.abort_on_fail;
    let control = args.control.wanted();
    file.options(Options { control, abort_on_fail, ..output.options() })
}

/// What is wrong, with its place in the file.
fn explained(error: RunError, file: &ScenarioFile) -> Failure {
    match error {
        RunError::Scenario(error) => file.invalid(error.problem()),
        other => Failure::from(other).at(file.name.clone()),
    }
}
