//! `wirebeat archive export`: an archive as a table.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use wirebeat_trace::archive::Place;
use wirebeat_trace::csv;
use wirebeat_trace::forms::DataForm;
use wirebeat_units::human::counted;

use super::work::archive_from;
use super::{Output, ReadArgs, cannot_write, keep_output, tell_skipped};
use crate::failure::Failure;
use crate::output::tell;
use crate::values;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive export day.wbar day.csv
  wirebeat archive export day.wbar - --format csv --data-form text | head";

/// Write an archive as CSV
///
/// The table has the columns time, device and data, and 'wirebeat archive create' makes the same archive of it
/// again, to the byte.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Where the table is written; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
    /// What is written [default: as the name of the new file ends]
    #[arg(long, value_name = "FORMAT", value_parser = values::choice(&FORMATS))]
    format: Option<Format>,
    /// How CSV has the data: text, hex or base64 [default: hex]
    #[arg(long, value_name = "FORM")]
    data_form: Option<DataForm>,
    #[command(flatten)]
    reading: ReadArgs,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
}

const FORMATS: [(&str, &str, Format); 1] =
    [("csv", "Comma-separated values, with a line of names", Format::Csv)];

/// Exports.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let format = format(args)?;
    let reading = args.reading.reading();
    let (work, mut source) = archive_from(&args.archive, reading, Place::default())?;
    let output = Output::create(&args.output)?.buffered();
    let failed = |error: std::io::Error| cannot_write(&args.output, &error);
    let (records, output) = match format {
        Format::Csv => {
            let mut sink = csv::Writer::new(output, args.data_form.unwrap_or(DataForm::Hex));
            (work.copy(&mut source, &mut sink)?, sink.finish().map_err(failed)?)
        }
    };
    keep_output(output, &args.output)?;
    tell_skipped(source.tally(), source.name());
    tell(&format!("{} written\n", counted(records, "record")));
    Ok(0)
}

fn format(args: &Args) -> Result<Format, Failure> {
    let ending = Path::new(&args.output).extension().and_then(|ending| ending.to_str());
    let by_name = FORMATS
        .iter()
        .find(|(name, ..)| ending.is_some_and(|ending| ending.eq_ignore_ascii_case(name)));
    args.format.or(by_name.map(|(_, _, format)| *format)).ok_or_else(|| {
        let why = "what is to be written is not clear from the name of the file";
        let place = args.output.display().to_string();
        Failure::usage(why).at(place).hint("say it with --format: csv")
    })
}
