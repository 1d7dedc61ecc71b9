//! `wirebeat archive create`: an archive from something else.
//!
//! A kind of source is a file here, a flag of [`Args`] and an arm of [`run`]. What they have in common is here: the
//! columns of tables, the file that comes to be, and what is told at the end.

mod csv;
mod parquet;
mod pcap;
mod synthetic;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgGroup, Args as ClapArgs};
use wirebeat_archive::Source;
use wirebeat_archive::columns::{Column, Columns, DeviceFrom};
use wirebeat_archive::forms::TimeForm;
use wirebeat_archive::round::Rounded;
use wirebeat_archive::table::{Defect, Tally};
use wirebeat_archive::time_series::device::BadDevice;
use wirebeat_archive::time_series::{Device, OnBad, Rounding, Timestamp, Writer};
use wirebeat_units::human::counted;
use wirebeat_units::{Fault, fault};

use super::{ArchiveOutput, copy, keep, on_bad};
use crate::failure::Failure;
use crate::output::tell;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive create day.wbar --csv readings.csv
  wirebeat archive create day.wbar --csv log.csv --time-column 1 --time-form ms --device meter-7
  wirebeat archive create day.wbar --csv old.csv --zone +01:00 --on-bad skip
  wirebeat archive create sensors.wbar --pcap sensors.pcapng --device-of flow
  wirebeat archive create day.wbar --parquet readings.parquet --data-column value
  wirebeat archive create seismic.wbar --synthetic --devices 1399 --sampling 10ms --duration 1h --size 28
  wirebeat archive create load.wbar --synthetic --records 1000000 --sampling 1us --size 20-500";

/// Make an archive from a table of readings, a capture, or nothing but numbers
///
/// One of --csv, --parquet, --pcap and --synthetic says from what. docs/replay.md describes each.
#[derive(ClapArgs, Debug)]
#[command(
    after_long_help = EXAMPLES,
    group = ArgGroup::new("from").required(true).args(["csv", "parquet", "pcap", "synthetic"]),
    group = ArgGroup::new("table").args(["csv", "parquet"])
)]
pub struct Args {
    /// The new archive; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
    /// From comma-separated values, as they are or packed with gzip or Zstandard; '-' reads standard input
    #[arg(long, value_name = "FILE", help_heading = "From what")]
    csv: Option<PathBuf>,
    /// From a file of Apache Parquet
    #[arg(long, value_name = "FILE", help_heading = "From what")]
    parquet: Option<PathBuf>,
    /// From what the packets of a capture carry, in pcap or pcapng, as it is or packed with gzip or Zstandard; '-' reads
    /// standard input
    ///
    /// The payload of each UDP datagram becomes the data of a record, at the time it was captured, in UTC. Frames that
    /// hold no such datagram are counted by reason.
    #[arg(long, value_name = "FILE", help_heading = "From what")]
    pcap: Option<PathBuf>,
    /// From records that are made up
    #[arg(long, help_heading = "From what")]
    synthetic: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    csv_args: csv::CsvArgs,
    #[command(flatten)]
    pcap_args: pcap::PcapArgs,
    #[command(flatten)]
    synthetic_args: synthetic::SyntheticArgs,
}

/// What the columns of a table are.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Columns of a table")]
struct TableArgs {
    /// The column with the time, by name or number from 1 [default: time, timestamp, date or the like]
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["pcap", "synthetic"])]
    time_column: Option<Column>,
    /// The column with the device [default: device, sensor, station, id or the like]
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["pcap", "synthetic"])]
    device_column: Option<Column>,
    /// The column with the data [default: all other columns, as text with commas]
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["pcap", "synthetic"])]
    data_column: Option<Column>,
    /// The device of all records, instead of a column
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["pcap", "synthetic", "device_column"])]
    device: Option<NamedDevice>,
    /// How times are written: iso, or a number of s, ms, us or ns since 1970 [default: iso, or as
    /// Parquet says]
    #[arg(long, value_name = "FORM", conflicts_with_all = ["pcap", "synthetic"])]
    time_form: Option<TimeForm>,
    /// The zone of times that say none, as +01:00 or Z
    #[arg(long, value_name = "ZONE", conflicts_with_all = ["pcap", "synthetic"], value_parser = zone, allow_hyphen_values = true)]
    zone: Option<i16>,
    /// Round times to whole us or ms, rather than keep their nanoseconds; .5 goes up
    #[arg(long, value_name = "UNIT", conflicts_with = "synthetic")]
    round_times: Option<Rounding>,
    /// How to handle invalid records: stop, or skip and count them [default: stop]
    #[arg(long, value_name = "WHAT", conflicts_with = "synthetic", value_parser = on_bad)]
    on_bad: Option<OnBad>,
    /// Take rows in any order of time, though a replay needs it to go forwards
    #[arg(long, conflicts_with_all = ["pcap", "synthetic"])]
    any_order: bool,
}

/// A device, and its name as it was given.
#[derive(Clone, Debug)]
struct NamedDevice {
    device: Device,
    name: String,
}

impl FromStr for NamedDevice {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<NamedDevice, BadDevice> {
        Ok(NamedDevice { device: text.parse()?, name: text.to_owned() })
    }
}

impl TableArgs {
    /// The records of a table as they are written: with times rounded, and the name of the one device.
    fn records<S>(&self, source: S) -> Rounded<S> {
        let rounded = Rounded::new(source, self.round_times);
        match &self.device {
            Some(named) => rounded.of(named.device, &named.name),
            None => rounded,
        }
    }

    fn columns(&self) -> Columns {
        let device = match (&self.device, &self.device_column) {
            (Some(named), _) => DeviceFrom::Fixed(named.device),
            (None, Some(column)) => DeviceFrom::Column(column.clone()),
            (None, None) => DeviceFrom::Guess,
        };
        Columns { time: self.time_column.clone(), device, data: self.data_column.clone() }
    }
}

/// Minutes east of UTC.
fn zone(text: &str) -> Result<i16, Fault> {
    let midnight = format!("2000-01-01T00:00:00{text}");
    let wrong = || fault!("'{text}' is not a zone"; "write Z, or -14:00 to +14:00");
    midnight.parse().map(Timestamp::zone_min).map_err(|_| wrong())
}

/// Creates.
pub fn run(args: &Args) -> Result<u8, Failure> {
    match (&args.csv, &args.parquet, &args.pcap) {
        (Some(path), ..) => csv::run(args, path),
        (_, Some(path), _) => parquet::run(args, path),
        (.., Some(path)) => pcap::run(args, path),
        _ => synthetic::run(args),
    }
}

/// Makes an archive of a source, which has so many bytes where that is known. `skipped` says what was left out. Says how many
/// records there were; an archive of rows that are all invalid is none.
fn make<S: Source>(
    source: &mut S,
    len: Option<u64>,
    output: &Path,
    skipped: impl Fn(&S) -> Option<&Tally>,
) -> Result<u64, Failure> {
    let mut writer = Writer::new(ArchiveOutput::create(output)?.buffered());
    let records = copy(source, &mut writer, len)?;
    let rows = skipped(source).map_or(0, all_skipped);
    if records == 0 && rows > 0 {
        let tally = skipped(source).into_iter();
        let first = tally.flat_map(|tally| &tally.bad).find_map(|(_, first)| first.as_ref());
        let why =
            format!("no row is valid, so nothing was written ({} skipped)", counted(rows, "row"));
        let failure = Failure::usage(&why).at(first.map(ToString::to_string).unwrap_or_default());
        return Err(failure.hint("check which columns are taken, and in which form they are"));
    }
    keep(writer, output)?;
    Ok(records)
}

/// Tells what came of it: records, and what was skipped, by kind, with the first of each.
fn made(records: u64, tally: &Tally) {
    let written = format!("{} written", counted(records, "record"));
    let all = all_skipped(tally);
    if all == 0 {
        tell(&format!("{written}\n"));
        return;
    }
    let mut text = format!("{written}, and {} skipped:\n", counted(all, "row"));
    for ((count, first), kind) in tally.bad.iter().zip(Defect::KINDS) {
        if let Some(first) = first {
            text += &format!("  {count} {kind}; the first is {first}\n");
        }
    }
    tell(&text);
}

/// Rows that were skipped.
fn all_skipped(tally: &Tally) -> u64 {
    tally.bad.iter().map(|(count, _)| count).sum()
}
