//! `wirebeat check`: whether scenarios are valid, without this machine's links.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde::Serialize;
use wirebeat_explain::{Checked, unchecked};
use wirebeat_run::{Options, RunError, check_program, find_files};
use wirebeat_units::human::counted;

use crate::failure::Failure;
use crate::file::{FileArgs, ScenarioFile};
use crate::output::{self, Answer, AnswerFiles, Output, ReportArgs};

const EXAMPLES: &str = "\
Examples:
  wirebeat check scenario.yaml
  wirebeat check examples/*.yaml";

/// Validate scenario files, and send nothing
///
/// Reads each file with what it includes, and says whether it is valid: where a mistake is, and what
/// would mend it. This machine is not asked: what a scenario leaves to it (addresses, next hops, the speed
/// of links) is made up. What no machine can run is refused as 'run' does. Exit code 2 when there is a mistake in any file.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenarios, in YAML or JSON, or scripts; '-' reads standard input
    #[arg(value_name = "SCENARIO", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: FileArgs,
    #[command(flatten)]
    results: AnswerFiles,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.results.0)
    }
}

/// Reads the scenario in `path`, and compiles it for links that do not exist.
pub fn checked(path: &Path, reading: &FileArgs) -> Result<(ScenarioFile, Checked), Failure> {
    let file = ScenarioFile::read(path, reading, None)?;
    let found = find_files(&file.scenario, &file.options(Options::default()))
        .map_err(|error| refused(&file, error))?;
    let checked = Checked::new(&file.scenario, &found.files)
        .map_err(|error| file.invalid(error.problem()))?;
    found.check(checked.program()).map_err(|error| refused(&file, error))?;
    Ok((file, checked))
}

/// That a run of `file` would fail.
fn refused(file: &ScenarioFile, error: RunError) -> Failure {
    match error {
        RunError::Scenario(error) => file.invalid(error.problem()),
        other => Failure::from(other).at(file.name.clone()),
    }
}

/// The same, and refuses what no machine can run.
fn runnable(path: &Path, reading: &FileArgs) -> Result<(ScenarioFile, Checked), Failure> {
    let (file, checked) = checked(path, reading)?;
    let options = file.options(Options::default());
    check_program(&file.scenario, checked.program(), &options)
        .map_err(|error| refused(&file, error))?;
    Ok((file, checked))
}

/// The JSON document.
#[derive(Serialize)]
struct Document {
    files: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    file: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows: Option<usize>,
    /// Groups of sessions, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    sessions: Option<usize>,
    /// What could not be checked without links, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_checked: Vec<String>,
    /// What is wrong, where, and what would mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Checks.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let mut files = Vec::with_capacity(args.files.len());
    let (mut text, mut code) = (String::new(), 0);
    let quiet = args.results.0.take_standard_output();
    for path in &args.files {
        let file = path.display().to_string();
        let entry = match runnable(path, &args.reading) {
            Ok((read, checked)) => {
                let scenario = &read.scenario;
                let (ports, flows) = (scenario.ports.len(), scenario.flows.len());
                let sessions = Some(scenario.sessions.len()).filter(|groups| *groups > 0);
                let mut parts = Vec::new();
                if flows > 0 || sessions.is_none() {
                    parts.push(counted(flows as u64, "flow"));
                }
                parts.extend(sessions.map(|groups| match groups {
                    1 => "1 group of sessions".to_owned(),
                    many => format!("{many} groups of sessions"),
                }));
                parts.push(counted(ports as u64, "port"));
                text += &format!("{}: ok: {}\n", read.name, parts.join(", "));
                let not_checked = unchecked(&checked);
                not_checked.iter().for_each(|what| text += &format!("  {what}\n"));
                let (ports, flows) = (Some(ports), Some(flows));
                Entry { file, ok: true, ports, flows, sessions, not_checked, error: None }
            }
            Err(failure) => {
                code = code.max(failure.exit_code());
                if !quiet {
                    output::tell(&failure.to_string());
                }
                let error = Some(failure.sentence());
                let not_checked = Vec::new();
                Entry {
                    file,
                    ok: false,
                    ports: None,
                    flows: None,
                    sessions: None,
                    not_checked,
                    error,
                }
            }
        };
        files.push(entry);
    }
    let document = Document { files };
    Ok(output.result(code, &Answer { document, text: |_| text.clone() }))
}
