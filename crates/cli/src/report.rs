//! `wirebeat report`: what runs measured, from their reports in JSON or once more from their packet logs; several side by side.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde::Deserialize;
use wirebeat_report::json::parse_test;
use wirebeat_report::model::SCHEMA_VERSION;
use wirebeat_report::several_runs::{NamedRun, SeveralRuns};
use wirebeat_report::sweep::Sweep;
use wirebeat_run::{Report, repair_log, report_log};
use wirebeat_units::fault;

use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::{Output, ReportArgs, ResultArgs, VERSION};

const EXAMPLES: &str = "\
Examples:
  wirebeat report run.json --html run.html
  wirebeat report before.json after.json --html compared.html
  wirebeat report run.parquet --details --json report.json
  wirebeat report --repair run.parquet";

/// The longest report that is read: one of 10,000 flows with its histograms has some 100 MB.
const BYTES: u64 = 1 << 29;
/// The most runs side by side.
const RUNS: usize = 32;

/// Show reports again, as text, page, table or pictures; several side by side
///
/// Reads reports in JSON (--json, --json-lines), those of tests and sweeps too, and packet logs in Parquet (--packet-log), of which it measures once more loss,
/// duplicates, reordering, delay, jitter and inter-arrival times of each flow. Several files are put side by side: the same numbers
/// of each run, and by how much they differ from the first. Distribution functions and box plots need JSON that was written with
/// --histograms. A log whose program was killed is read as far as it was written, and the report says what is missing;
/// --repair lets other programs read it too.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Reports in JSON, and packet logs in Parquet; '-' reads a report from standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Give packet logs that were cut off an end, so that other programs read them
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    results: ResultArgs,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.results)
    }
}

/// Reads the files.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if args.files.len() > RUNS {
        let why = format!("{} files are too many to put side by side", args.files.len());
        return Err(Failure::usage(why).hint(format!("give at most {RUNS}")));
    }
    if let [path] = &args.files[..]
        && let Some(json) = json(path)?
    {
        // a test, or runs over variables: shown by themselves
        if let Ok(test) = parse_test(&json) {
            return Ok(output.result(0, &test));
        }
        if let Ok(sweep) = serde_json::from_slice::<Sweep>(&json) {
            return Ok(output.result(0, &sweep));
        }
        let report = parsed(&json).map_err(|failure| failure.at(path.display().to_string()))?;
        return Ok(output.report(&report));
    }
    let mut runs = Vec::new();
    for path in &args.files {
        let report = read(path, args.repair, output)?;
        runs.push(NamedRun { name: path.display().to_string(), report });
    }
    match <[NamedRun; 1]>::try_from(runs) {
        Ok([NamedRun { report, .. }]) => Ok(output.report(&report)),
        Err(runs) => Ok(output.result(0, &SeveralRuns::new(VERSION.to_owned(), runs))),
    }
}

/// Reads a report, or makes it from a log.
pub fn read(path: &Path, repair: bool, output: &Output) -> Result<Report, Failure> {
    if let Some(json) = json(path)? {
        return parsed(&json).map_err(|failure| failure.at(path.display().to_string()));
    }
    if repair && let Some(cut) = repair_log(path)? {
        output.notice(&format!("{}: {cut}; it has an end now", path.display()));
    }
    Ok(report_log(path)?)
}

/// The bytes of a file that looks like JSON; `None` of any other, also one that cannot be read.
fn json(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error: io::Error| {
        Failure::usage(format!("it cannot be read: {error}")).at(path.display().to_string())
    };
    let mut source: Box<dyn Read> = match is_standard(path) {
        true => Box::new(io::stdin()),
        false => match wirebeat_run::open_regular(path) {
            Ok(Some(file)) => Box::<File>::new(file),
            _ => return Ok(None),
        },
    };
    let mut bytes = Vec::new();
    // a packet log can be far larger than what is read here
    let begin = source.by_ref().take(64).read_to_end(&mut bytes).map_err(failed)?;
    let first = bytes[..begin].iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') && !is_standard(path) {
        return Ok(None);
    }
    source.take(BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES {
        let why = "it is too long for a report";
        return Err(Failure::usage(why).at(path.display().to_string()));
    }
    Ok(Some(bytes))
}

/// What a document of ours says of itself.
#[derive(Deserialize)]
struct Head {
    schema_version: String,
    #[serde(default)]
    error: Option<wirebeat_report::document::ErrorBody>,
    #[serde(default)]
    runs: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    test: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    points: Option<serde::de::IgnoredAny>,
}

/// The report in a JSON document, or in the last line of one that has a line for each interval.
fn parsed(json: &[u8]) -> Result<Report, Failure> {
    let error = match serde_json::from_slice::<Report>(json) {
        Ok(report) => return Ok(report),
        Err(error) => error,
    };
    let lines = || json.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let last = lines().next_back().unwrap_or_default();
    let is_lines = lines().nth(1).is_some() && lines().all(|line| line.starts_with(b"{"));
    if is_lines && let Ok(report) = serde_json::from_slice(last) {
        return Ok(report);
    }
    let head = serde_json::from_slice::<Head>(if is_lines { last } else { json }).ok();
    Err(match head {
        Some(Head { error: Some(error), .. }) => Failure::usage(fault!(
            "there was no report: {}", error.message; "run it again"
        )),
        Some(Head { test: Some(_), .. } | Head { points: Some(_), .. }) => {
            let why = "it is of a test or a sweep, which is shown by itself";
            Failure::usage(why).hint("give this file alone")
        }
        Some(Head { runs: Some(_), .. }) => {
            let why = "it has several runs side by side";
            Failure::usage(why).hint("give the reports that it was made from")
        }
        Some(Head { schema_version, .. }) if schema_version != SCHEMA_VERSION => {
            let why = format!(
                "it is a report of schema version '{schema_version}', and this program reads {SCHEMA_VERSION}"
            );
            Failure::usage(why).hint("use the version of wirebeat that wrote it")
        }
        _ => Failure::usage(format!("it is no report: {error}"))
            .hint("give a file that was written with --json"),
    })
}
