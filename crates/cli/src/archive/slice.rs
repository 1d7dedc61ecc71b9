//! `wirebeat archive slice`: part of an archive as an archive of its own.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_trace::archive::{Device, Timestamp, Writer};
use wirebeat_trace::select::{Selected, Selection};
use wirebeat_units::human::counted;

use super::{Output, ReadArgs, archive, copy, open};
use crate::failure::Failure;
use crate::output::tell;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive slice day.wbar hour.wbar --from 2015-07-01T19:00:00Z --to 2015-07-01T20:00:00Z
  wirebeat archive slice day.wbar two.wbar --device BK.SAO --device BK.CMB";

/// Take part of an archive, by time and device
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Where the part is written; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
    /// No record before this moment
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// No record at or after this moment
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Records of this device alone; may be given several times
    #[arg(long, value_name = "DEVICE")]
    device: Vec<Device>,
    #[command(flatten)]
    reading: ReadArgs,
}

/// Slices.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let input = open(&args.archive)?;
    let len = input.len;
    let source = archive(&args.archive, input, args.reading.reading());
    let devices = args.device.iter().copied().collect();
    let selection = Selection { from: args.from, to: args.to, devices };
    let mut source = Selected::new(source, selection, true);
    let mut writer = Writer::new(Output::create(&args.output)?.buffered());
    let records = copy(&mut source, &mut writer, len)?;
    super::keep(writer, &args.output)?;
    tell(&format!(
        "{} written, of {}",
        counted(records, "record"),
        source.source().tally().records
    ));
    Ok(0)
}
