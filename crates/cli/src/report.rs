//! `wirebeat report`: what a run measured, made once more from its packet log.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_run::{repair_log, report_log};

use crate::failure::Failure;
use crate::output::{Output, ReportArgs, ResultFiles};

const EXAMPLES: &str = "\
Examples:
  wirebeat report run.parquet
  wirebeat report run.parquet --details --json report.json
  wirebeat report --repair run.parquet";

/// Make the report of a run from its packet log
///
/// Reads a packet log in Parquet (--packet-log), and measures what is in it once more: loss, duplicates, reordering, delay,
/// jitter, inter-arrival times of each flow. A log whose program was killed is read as far as it was written, and the report
/// says what is missing; --repair lets other programs read it too.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The packet log, in Parquet
    #[arg(value_name = "FILE")]
    log: PathBuf,
    /// Give a log that was cut off an end, so that other programs read it
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    results: ResultFiles,
    /// Print every measurement of each flow behind the summary
    #[arg(long, help_heading = "Report")]
    details: bool,
    /// Write the histograms behind the percentiles into the JSON too
    #[arg(long, help_heading = "Report")]
    histograms: bool,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        let Args { details, histograms, .. } = *self;
        ReportArgs { files: self.results.clone(), details, histograms, ..ReportArgs::default() }
    }
}

/// Reads the log.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if args.repair
        && let Some(cut) = repair_log(&args.log)?
    {
        output.notice(&format!("{}: {cut}; it has an end now", args.log.display()));
    }
    let report = report_log(&args.log)?;
    Ok(output.report(&report))
}
