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
/// Bytes at the beginning of a file by which it is told what it is.
const BEGINNING: u64 = 256;
/// Before JSON that a program on Windows wrote (RFC 8259 §8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How a file in Parquet begins.
const PARQUET: &str = "PAR1";
/// What helps where a file is of another version of its format.
const OTHER_VERSION: &str = "use the version of wirebeat that wrote it";
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
    args.files.iter().try_for_each(|path| output.spares(path))?;
    if let [path] = &args.files[..]
        && let Some(json) = json(path)?
    {
        // a test, or runs over variables: shown by themselves
        let refused = match parse_test(&json) {
            Ok(test) => return Ok(output.result(test.exit_code, &test)),
            Err(why) => why,
        };
        if let Ok(sweep) = serde_json::from_slice::<Sweep>(&json) {
            if sweep.schema_version != SCHEMA_VERSION {
                return Err(other_version(&sweep.schema_version).at(path.display().to_string()));
            }
            return Ok(output.result(sweep.exit_code, &sweep));
        }
        // of a sweep 'test' is the name of a standard, and of another version its points may be others
        if let Ok(Head { test: Some(_), points: None, .. }) = serde_json::from_slice(&json) {
            let failure = Failure::usage(refused).at(path.display().to_string());
            return Err(failure.hint(OTHER_VERSION));
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
        Err(runs) => {
            let runs = SeveralRuns::new(VERSION.to_owned(), runs);
            Ok(output.result(runs.exit_code(), &runs))
        }
    }
}

/// Reads a report, or makes it from a log.
fn read(path: &Path, repair: bool, output: &Output) -> Result<Report, Failure> {
    if let Some(json) = json(path)? {
        return parsed(&json).map_err(|failure| failure.at(path.display().to_string()));
    }
    if repair && let Some(cut) = repair_log(path)? {
        output.notice(&format!("{}: {cut}; it has an end now", path.display()));
    }
    report_log(path).map_err(|error| match path.exists() {
        true => Failure::from(error),
        // it may have been meant to be either
        false => {
            Failure::from(error).with_hint("name a report in JSON, or a packet log in Parquet")
        }
    })
}

/// Reads the runs of a report in JSON: one, or those of '--repeat'. A packet log is none.
pub fn read_runs(path: &Path) -> Result<Vec<Report>, Failure> {
    let at = |failure: Failure| failure.at(path.display().to_string());
    if let Some(json) = json(path)? {
        return match repeated(&json) {
            Some(runs) => runs.map_err(at),
            None => parsed(&json).map(|report| vec![report]).map_err(at),
        };
    }
    let why = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => "it is no report in JSON".to_owned(),
        Ok(_) => "it is no file".to_owned(),
        Err(error) => format!("it cannot be read: {error}"),
    };
    Err(at(Failure::usage(why).hint("name a report that was written with --json")))
}

/// The bytes of a file that looks like JSON, without a byte order mark; `None` of one that may be a packet log, and of one that cannot be
/// read.
fn json(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error: io::Error| {
        Failure::usage(format!("it cannot be read: {error}")).at(path.display().to_string())
    };
    let mut source: Box<dyn Read> = match is_standard(path) {
        true => Box::new(io::stdin()),
        false => match wirebeat_run::open_regular(path) {
            Ok(Some(file)) => Box::<File>::new(file),
            // a terminal, a pipe or a device has nothing that is read twice
            Ok(None) if path.exists() && !path.is_dir() => {
                let failure =
                    Failure::usage("it is no regular file").at(path.display().to_string());
                return Err(failure.hint("name a report that was written with --json FILE"));
            }
            _ => return Ok(None),
        },
    };
    let mut bytes = Vec::new();
    // a packet log can be far larger than what is read here
    source.by_ref().take(BEGINNING).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return match no_json(&bytes) {
            Some(failure) => Err(failure.at(path.display().to_string())),
            None if is_standard(path) => {
                let failure = Failure::usage("it is no report").at("-");
                Err(failure.hint("give what was written with --json"))
            }
            None => Ok(None),
        };
    }
    source.take(BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES {
        let why = "it is too long for a report";
        return Err(Failure::usage(why).at(path.display().to_string()));
    }
    Ok(Some(bytes))
}

/// Keys that a scenario begins with.
const SCENARIO_KEYS: [&str; 9] = [
    "ports:",
    "flows:",
    "sessions:",
    "run:",
    "variables:",
    "include:",
    "defaults:",
    "expect:",
    "seed:",
];

/// What is said of bytes at the beginning of a file that are no JSON of ours; `None` where they may be those of a packet log.
fn no_json(begin: &[u8]) -> Option<Failure> {
    let first = begin.trim_ascii_start();
    if first.is_empty() {
        let why = "it is empty";
        return Some(Failure::usage(why).hint("run again what was to write it"));
    }
    if begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff") {
        let why = "it is text in UTF-16, and a report is in UTF-8";
        return Some(Failure::usage(why).hint("write it with --json FILE instead of '>'"));
    }
    // a letter of UTF-8 may be cut at the end of what was read
    let text = match std::str::from_utf8(first) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    if text.starts_with(PARQUET) || text.contains(|c: char| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let line = text.lines().next().unwrap_or_default();
    // what a scenario begins with, behind its comments
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let is_key = |line: &str| SCENARIO_KEYS.iter().any(|key| line.starts_with(key));
    if lines.next().is_some_and(is_key) {
        let failure = Failure::usage("it is a scenario, and no report");
        return Some(
            failure.hint("run it first, with --json FILE: wirebeat run SCENARIO --json FILE"),
        );
    }
    let why = match text.chars().next() {
        Some('[') => "it is a list in JSON, and no report",
        _ if matches!(line.trim_end(), "null" | "true" | "false") => {
            "it is a value in JSON, and no report"
        }
        Some('<') => "it is a page or a picture, and no report",
        _ if line.contains(',') => "it is a table in CSV, which cannot be read again",
        _ => "it is text, and no report",
    };
    Some(Failure::usage(why).hint(
        "give a report that was written with --json, or a .parquet file that was written with --packet-log",
    ))
}

/// That a document is of another version than this program reads.
fn other_version(version: &str) -> Failure {
    let why = format!(
        "it is a report of schema version '{version}', and this program reads {SCHEMA_VERSION}"
    );
    Failure::usage(why).hint(OTHER_VERSION)
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
    #[serde(default)]
    old_runs: Option<serde::de::IgnoredAny>,
}

/// The runs of '--repeat' in a JSON document; `None` where it is none of that.
fn repeated(json: &[u8]) -> Option<Result<Vec<Report>, Failure>> {
    let head: Head = serde_json::from_slice(json).ok()?;
    head.points.filter(|_| head.test.is_none())?;
    if head.schema_version != SCHEMA_VERSION {
        return Some(Err(other_version(&head.schema_version)));
    }
    let sweep: Sweep = serde_json::from_slice(json).ok()?;
    if !sweep.variables.is_empty() {
        let why = "it is of a sweep: its runs differ by their variables";
        return Some(Err(Failure::usage(why).hint("give runs of one scenario")));
    }
    Some(Ok(sweep.points.into_iter().map(|point| point.report).collect()))
}

/// The report in a JSON document, or in the last line of one that has a line for each interval.
fn parsed(json: &[u8]) -> Result<Report, Failure> {
    let checked = |report: Report| match report.schema_version == SCHEMA_VERSION {
        true => Ok(report),
        false => Err(other_version(&report.schema_version)),
    };
    let error = match serde_json::from_slice::<Report>(json) {
        Ok(report) => return checked(report),
        Err(error) => error,
    };
    let lines = || json.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let last = lines().next_back().unwrap_or_default();
    let is_lines = lines().nth(1).is_some() && lines().all(|line| line.starts_with(b"{"));
    let error = match is_lines {
        true => match serde_json::from_slice::<Report>(last) {
            Ok(report) => return checked(report),
            Err(error) => error,
        },
        false => error,
    };
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
        Some(Head { old_runs: Some(_), .. }) => {
            let why = "it is what 'compare' wrote, and no report";
            Failure::usage(why).hint("give the reports that it was made from")
        }
        Some(Head { schema_version, .. }) if schema_version != SCHEMA_VERSION => {
            other_version(&schema_version)
        }
        None if error.is_eof() => Failure::usage(format!("it is cut short: {error}"))
            .hint("the disk may be full, or the program was ended while it wrote; run it again"),
        None if last.starts_with(b"{\"from_ns\":") => {
            let why = "it is cut short: it has intervals, and no report behind them";
            Failure::usage(why).hint("let the run come to its end, which writes the report")
        }
        _ => Failure::usage(format!("it is no report: {error}"))
            .hint("give a file that was written with --json"),
    })
}
