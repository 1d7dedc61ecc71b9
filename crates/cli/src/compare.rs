//! `wirebeat compare`: whether runs of now differ from runs of before by more than runs differ anyway.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_report::compare::{CompareOptions, METRICS, compare, parts};
use wirebeat_report::model::Report;
use wirebeat_units::{Fault, fault};

use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::{Output, ReportArgs, ResultFiles, VERSION};
use crate::report::read_runs;

const EXAMPLES: &str = "\
Examples:
  for i in 1 2 3 4 5 6; do wirebeat run lab.yaml --json old-$i.json; done
  wirebeat compare old-*.json -- new-*.json
  wirebeat run lab.yaml --repeat 6 --json new.json; wirebeat compare old.json -- new.json
  wirebeat compare --threshold 5% --metric delay.p99 --metric voice:delay.p99 old-*.json -- new-*.json";

/// The most runs of both sides.
const RUNS: usize = 1000;

/// Tell whether runs changed beyond noise
///
/// Reads reports in JSON (--json), of single runs or of --repeat, before a change and after it, and says which metrics changed by more
/// than runs differ anyway: of all flows together, and of each group of sessions. A run is one value. Five runs a side are needed for a verdict, and
/// more where many metrics are compared at once. With --threshold, which stands before the files, a change for the worse of that much
/// ends with exit code 4, and fails its case in JUnit XML.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat compare [OPTIONS] <OLD>... -- <NEW>...",
    after_long_help = EXAMPLES
)]
pub struct Args {
    /// Reports of runs before
    #[arg(value_name = "OLD", required = true)]
    old: Vec<PathBuf>,
    /// Reports of runs after
    #[arg(value_name = "NEW", last = true, required = true)]
    new: Vec<PathBuf>,
    /// End with exit code 4 where a metric is worse by this part of its old value: 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
    /// Compare this metric only, given once for each: delay.p99, loss, response.p99; of one flow or group voice:delay.p99 [default: all,
    /// of all flows together and of each group]
    #[arg(long = "metric", value_name = "[FLOW:]NAME", value_parser = metric)]
    metrics: Vec<String>,
    #[command(flatten)]
    results: ResultFiles,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.results)
    }
}

fn percent(text: &str) -> Result<f64, Fault> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number.filter(|number| number.is_finite() && *number >= 0.0) {
        Some(number) => Ok(number / 100.0),
        None => Err(fault!("'{text}' is not a part of a value"; "write for example 5%")),
    }
}

fn metric(text: &str) -> Result<String, Fault> {
    let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let (_, name) = parts(text);
    match names.contains(&name) {
        true => Ok(text.to_owned()),
        false => Err(fault!("unknown metric '{name}'"; "there are {}", names.join(", "))),
    }
}

/// Compares.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    check_files(args)?;
    args.old.iter().chain(&args.new).try_for_each(|path| output.spares(path))?;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    // which file each run is of
    let mut files: Vec<&PathBuf> = Vec::new();
    for (paths, side) in [(&args.old, &mut old), (&args.new, &mut new)] {
        for path in paths {
            let runs = read_runs(path)?;
            files.extend(runs.iter().map(|_| path));
            side.extend(runs.into_iter().map(Report::without_histograms));
            // at once: what is read takes memory
            if files.len() > RUNS {
                let why = format!("more than {RUNS} runs are too many to compare");
                return Err(Failure::usage(why).hint("give fewer of them"));
            }
        }
    }
    let options = CompareOptions {
        wirebeat_version: VERSION.to_owned(),
        threshold: args.threshold,
        metrics: args.metrics.clone(),
    };
    let changes = compare(&old, &new, &options).map_err(|place| {
        let name = files.get(place).map_or_else(String::new, |path| path.display().to_string());
        let why = "this run was cut off, or its counters are inconsistent, so its numbers say nothing of a change";
        Failure::usage(why).at(name).hint("run it again, or leave it out")
    })?;
    Ok(output.result(changes.exit_code, &changes))
}

/// That files are files, and each is given once: a run that counts twice makes a change look surer than it is.
fn check_files(args: &Args) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for path in args.old.iter().chain(&args.new) {
        let name = path.display().to_string();
        // clap takes all that stands behind '--' for files
        if name.starts_with('-') && !is_standard(path) {
            let why = "flags stand before the files";
            let hint = "write: wirebeat compare --threshold 5% old-*.json -- new-*.json";
            return Err(Failure::usage(why).at(name).hint(hint));
        }
        let file = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !seen.insert(file) {
            let why = "this file is given twice, and its run would count twice";
            return Err(Failure::usage(why).at(name).hint("give each run once"));
        }
    }
    Ok(())
}
