//! `wirebeat archive inspect`: what is in an archive.

mod text;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde::Serialize;
use wirebeat_archive::survey::{Survey, Surveyor};
use wirebeat_archive::time_series::{OnBad, Place, Reading, Timestamp};
use wirebeat_report::text::style::Style;

use super::ReadArgs;
use super::work::{archive_from, index_of};
use crate::failure::Failure;
use crate::output::{Answer, AnswerFiles, Output};
use crate::replay::beginning;

/// Devices that are shown unless all are asked for.
const DEVICES: usize = 10;
/// Bytes of a record's data that are shown.
const SHOWN: usize = 16;
/// Records that can be shown.
const RECORDS_MAX: u64 = 100_000;
/// How often the bar is told the number of records.
const TELL_EVERY: u64 = 1 << 16;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive inspect day.wbar
  wirebeat archive inspect day.wbar --records 5
  wirebeat archive inspect day.wbar --devices --json - | jq '.devices.listed[].device'";

/// Say what is in an archive
///
/// How many records, from when to when, at what rate, of what sizes, how far apart and of which devices; and
/// whether they are in the order of time. Where an index of the archive stands beside it ('wirebeat archive
/// index'), the answer is in it; otherwise all of the archive is read.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// List all devices, not only those with most records
    #[arg(long)]
    devices: bool,
    /// Show the first records as well, so many of them
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true,
        value_parser = |text: &str| crate::values::within(text, 0..=RECORDS_MAX))]
    records: u64,
    #[command(flatten)]
    pub results: AnswerFiles,
    #[command(flatten)]
    reading: ReadArgs,
}

/// The JSON document.
#[derive(Serialize)]
struct InspectDocument {
    archive: String,
    /// Whether the index said so, and the archive was not read.
    from_index: bool,
    in_order: bool,
    span_us: u64,
    records_per_second: Option<f64>,
    data_bits_per_second: Option<f64>,
    device_count: u64,
    #[serde(flatten)]
    survey: Survey,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    first_records: Vec<Shown>,
}

/// A record as it is shown.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    place: Place,
    time: Timestamp,
    device: String,
    data_bytes: usize,
    /// Its first bytes.
    #[serde(serialize_with = "hex")]
    data: Vec<u8>,
}

fn hex<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    to.serialize_str(&digits)
}

/// Inspects.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let reading = Reading { any_order: true, ..args.reading.reading() };
    beginning::check_archive(&args.archive, reading.on_bad)?;
    let index = index_of(&args.archive);
    let index = index.filter(|index| index.survey.bad == 0 || reading.on_bad == OnBad::Skip);
    let (work, mut reader) = archive_from(&args.archive, reading, Place::default())?;
    let enough = |read: u64| index.is_some() && read >= args.records;
    let mut surveyor = Surveyor::new();
    let mut first_records = Vec::new();
    while !enough(reader.tally().records)
        && reader.advance().map_err(|error| work.failure(&error))?
    {
        let (record, place) = (reader.record(), reader.place());
        surveyor.add(&record, place);
        let tally = reader.tally();
        if tally.records <= args.records {
            first_records.push(Shown {
                place,
                time: record.time,
                device: reader
                    .names()
                    .get(record.device)
                    .map_or_else(|| record.device.to_string(), ToString::to_string),
                data_bytes: record.data.len(),
                data: record.data.iter().copied().take(SHOWN).collect(),
            });
        }
        if tally.records.is_multiple_of(TELL_EVERY) {
            work.at(tally.records, tally.read());
        }
    }
    work.end();
    let from_index = index.is_some();
    let tally = reader.tally();
    let survey = index.map(|index| index.survey);
    let mut survey =
        survey.unwrap_or_else(|| surveyor.finish_named(tally.bad(), tally.skipped, reader.names()));
    let device_count = survey.devices.listed.len() as u64;
    if !args.devices {
        survey.devices.listed.truncate(DEVICES);
    }
    let document = InspectDocument {
        archive: reader.name().to_owned(),
        from_index,
        in_order: survey.is_in_order(),
        span_us: survey.span_us(),
        records_per_second: survey.rate(),
        data_bits_per_second: survey.data_bit_rate(),
        device_count,
        survey,
        first_records,
    };
    let text = |colour| text::text(&document, Style::new(colour));
    Ok(output.result(0, &Answer { document: &document, text }))
}
