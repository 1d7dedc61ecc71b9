//! `wirebeat archive verify`: whether all of an archive is as it should be.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_trace::archive::{Defect, OnBad, Reading, Tally};
use wirebeat_units::human::counted;

use super::ReadArgs;
use crate::failure::Failure;
use crate::output::print;

/// Read all of an archive, and say what is wrong with it
///
/// Exit code 1 when anything is.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    #[command(flatten)]
    reading: ReadArgs,
}

/// Verifies.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let reading = Reading { on_bad: OnBad::Skip, ..args.reading.reading() };
    let mut archive = super::archive(&args.archive, super::open(&args.archive)?, reading);
    while archive.advance().map_err(|error| Failure::usage(&error.to_string()))? {}
    let tally = archive.tally();
    print(&text(archive.name(), tally))?;
    Ok(u8::from(tally.bad() > 0))
}

fn text(name: &str, tally: &Tally) -> String {
    let records = counted(tally.records, "record");
    if tally.bad() == 0 {
        return format!("{name}: {records}, nothing wrong\n");
    }
    let mut text = format!("{name}: {records}, and {} that are none:\n", tally.bad());
    for ((count, first), kind) in tally.bad.iter().zip(Defect::KINDS) {
        if let Some(bad) = first {
            text += &format!("  {count} {kind}; the first is {}: {}\n", bad.place, bad.defect);
        }
    }
    text
}
