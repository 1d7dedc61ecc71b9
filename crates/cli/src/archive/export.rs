//! `wirebeat archive export`: an archive as a table.

use std::path::Path;

use clap::Args as ClapArgs;
use clap::builder::TypedValueParser;
use wirebeat_archive::forms::DataForm;
use wirebeat_archive::parquet::{Packing, TimeUnit};
use wirebeat_archive::time_series::{Place, Reading};
use wirebeat_archive::{csv, parquet};
use wirebeat_units::human::counted;

use super::work::archive_from;
use super::{ArchiveOutput, FromTo, ReadArgs, cannot_write, keep_output, tell_skipped};
use crate::failure::Failure;
use crate::output::tell;
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive export day.wbar day.csv
  wirebeat archive export day.wbar day.parquet
  wirebeat archive export day.wbar - --format csv --data-form text | head";

/// Write an archive as CSV or Parquet
///
/// The table has the columns time, device and data, and 'wirebeat archive create' makes the same archive of it
/// again, to the byte.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: FromTo,
    /// What is written [default: as the name of the new file ends]
    #[arg(long, value_name = "FORMAT", value_parser = values::choice(&FORMATS))]
    format: Option<Format>,
    /// How CSV has the data: text, hex or base64 [default: hex]
    #[arg(long, value_name = "FORM")]
    data_form: Option<DataForm>,
    /// How Parquet is packed
    #[arg(long, value_name = "WHAT", value_parser = packing())]
    packing: Option<Packing>,
    /// In what Parquet has the times: us, or ns, which go from 1677 to 2262
    #[arg(long, value_name = "UNIT", value_parser = values::choice(&TIME_UNITS))]
    time_unit: Option<TimeUnit>,
    #[command(flatten)]
    reading: ReadArgs,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Parquet,
}

const FORMATS: [(&str, &str, Format); 2] = [
    ("csv", "Comma-separated values, with a line of names", Format::Csv),
    ("parquet", "Apache Parquet", Format::Parquet),
];

const PACKINGS: [(&str, &str, Packing); 3] = [
    ("zstd", "Zstandard, the default: smallest", Packing::Zstd),
    ("snappy", "Snappy: what every reader knows", Packing::Snappy),
    ("none", "Not packed", Packing::None),
];

const TIME_UNITS: [(&str, &str, TimeUnit); 2] = [
    ("us", "Microseconds, the default", TimeUnit::Micros),
    ("ns", "Nanoseconds, for archives that have them", TimeUnit::Nanos),
];

fn packing() -> impl TypedValueParser<Value = Packing> {
    values::choice(&PACKINGS)
}

/// Exports.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let format = format(args)?;
    // a table is sorted more easily than an archive
    let reading = Reading { any_order: true, ..args.reading.reading() };
    let (work, mut source) = archive_from(&args.files.archive, reading, Place::default())?;
    let output = ArchiveOutput::create(&args.files.output)?.buffered();
    let failed = |error: std::io::Error| cannot_write(&args.files.output, &error);
    let (records, output) = match format {
        Format::Csv => {
            let mut sink = csv::Writer::new(output, args.data_form.unwrap_or(DataForm::Hex));
            (work.copy(&mut source, &mut sink)?, sink.finish().map_err(failed)?)
        }
        Format::Parquet => {
            let packing = args.packing.unwrap_or_default();
            let unit = args.time_unit.unwrap_or_default();
            let mut sink = parquet::Writer::with_unit(output, packing, unit).map_err(failed)?;
            (work.copy(&mut source, &mut sink)?, sink.finish().map_err(failed)?)
        }
    };
    keep_output(output, &args.files.output)?;
    tell_skipped(source.tally(), source.name());
    tell(&format!("{} written\n", counted(records, "record")));
    Ok(0)
}

fn format(args: &Args) -> Result<Format, Failure> {
    let ending = Path::new(&args.files.output).extension().and_then(|ending| ending.to_str());
    let by_name = FORMATS
        .iter()
        .find(|(name, ..)| ending.is_some_and(|ending| ending.eq_ignore_ascii_case(name)));
    let format = args.format.or(by_name.map(|(_, _, format)| *format)).ok_or_else(|| {
        let why = "what is to be written is not clear from the name of the file";
        let place = args.files.output.display().to_string();
        Failure::usage(why).at(place).hint("say it with --format: csv or parquet")
    })?;
    let wrong = |flag: &str, other: &str| {
        let why = format!("{flag} is for {other} alone");
        Err(Failure::usage(&why).hint("leave it out, or choose another --format"))
    };
    match format {
        Format::Csv if args.time_unit.is_some() => wrong("--time-unit", "Parquet"),
        Format::Csv if args.packing.is_some() => wrong("--packing", "Parquet"),
        Format::Parquet if args.data_form.is_some() => wrong("--data-form", "CSV"),
        format => Ok(format),
    }
}
