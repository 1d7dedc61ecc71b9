//! `wirebeat archive slice`: part of an archive as an archive of its own.

use std::fmt::Display;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use wirebeat_archive::select::{DeviceFilter, Numbered, Pattern, Selected, Selection};
use wirebeat_archive::time_series::{OnBad, Place, Timestamp, Writer};
use wirebeat_units::human::counted;
use wirebeat_units::{Fault, fault};

use super::work::{archive_from, holds, index_of};
use super::{ArchiveOutput, FromTo, ReadArgs, tell_skipped};
use crate::failure::Failure;
use crate::output::tell;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive slice day.wbar hour.wbar --from 2015-07-01T19:00:00Z --to 2015-07-01T20:00:00Z
  wirebeat archive slice day.wbar two.wbar --device BK.SAO --device 'BG.*'
  wirebeat archive slice day.wbar first.wbar --records 0..1000";

/// Take part of an archive, by time, device and number
///
/// What is taken has to fit everything that is asked for. Where an index of the archive stands beside it
/// ('wirebeat archive index'), only what is near the part is read.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: FromTo,
    /// No record before this moment
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// No record at or after this moment
    #[arg(long, visible_alias = "until", value_name = "TIME")]
    to: Option<Timestamp>,
    /// Records of this device alone, or with '*' at its end of all that begin so; may be given several times
    #[arg(long, value_name = "DEVICE")]
    device: Vec<Pattern>,
    /// Records of the devices in a file, one in each line as for --device; '#' begins a comment
    #[arg(long, value_name = "FILE")]
    device_file: Option<PathBuf>,
    /// Records with these numbers, which count from 0; the second one is not taken
    #[arg(long, value_name = "FIRST..END", value_parser = numbers)]
    records: Option<Range<u64>>,
    #[command(flatten)]
    reading: ReadArgs,
}

fn numbers(text: &str) -> Result<Range<u64>, Fault> {
    let number = |text: &str, without: u64| match text.trim() {
        "" => Some(without),
        text => text.parse().ok(),
    };
    let range = text
        .split_once("..")
        .and_then(|(first, end)| Some(number(first, 0)?..number(end, u64::MAX)?));
    range.filter(|range| !range.is_empty()).ok_or_else(|| {
        fault!(
            "these are no numbers of records";
            "write for example 1000..2000, or 1000.. for all from there on"
        )
    })
}

/// Slices.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let mut patterns = args.device.clone();
    if let Some(file) = &args.device_file {
        patterns.extend(listed(file)?);
    }
    let devices = DeviceFilter::from_iter(patterns);
    let numbers = args.records.clone().unwrap_or(0..u64::MAX);
    let reading = args.reading.reading();
    // what an index leaves out has to be told, or to stop the reading
    let usable = |bad: u64| bad == 0 || reading.on_bad == OnBad::Skip;
    let seeks = args.from.is_some() || numbers.start > 0;
    let index = if seeks { index_of(&args.files.archive) } else { None };
    let begin = index.filter(|index| usable(index.survey.bad)).and_then(|index| {
        let by_time = args.from.map_or(Place::default(), |from| index.seek(from));
        let by_number = index.seek_number(numbers.start);
        let place = if by_time.offset > by_number.offset { by_time } else { by_number };
        let names = index.survey.devices.names();
        holds(&index, place, &args.files.archive).then_some((place, names))
    });
    let (begin, names) = begin.unwrap_or_default();
    let (work, reader) = archive_from(&args.files.archive, reading, begin)?;
    let reader = reader.with_names(names);
    let selection = Selection { from: args.from, to: args.to, devices };
    let mut source = Selected::new(Numbered::new(reader, numbers), selection, true);
    let mut writer = Writer::new(ArchiveOutput::create(&args.files.output)?.buffered());
    let records = work.copy(&mut source, &mut writer)?;
    let reader = source.source().reader();
    tell_skipped(reader.tally(), reader.name());
    if records == 0 {
        return Err(nothing(args, reader.tally().records));
    }
    super::keep(writer, &args.files.output)?;
    let read = counted(reader.tally().records, "record");
    tell(&format!("{} written; {read} read\n", counted(records, "record")));
    Ok(0)
}

/// That nothing was taken, and so nothing is written.
fn nothing(args: &Args, read: u64) -> Failure {
    let asked = [
        (!args.device.is_empty() || args.device_file.is_some(), "--device"),
        (args.from.is_some() || args.to.is_some(), "--from and --to"),
        (args.records.is_some(), "--records"),
    ];
    let asked: Vec<_> = asked.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).collect();
    let archive = args.files.archive.display();
    let read = counted(read, "record");
    if asked.is_empty() {
        return Failure::usage("the slice has no records, and nothing was written")
            .at(archive.to_string());
    }
    let why = format!(
        "none of {read} that were read is one of those that {} asks for, and nothing was written",
        asked.join(" with ")
    );
    Failure::usage(&why)
        .at(archive.to_string())
        .hint("'wirebeat archive inspect' shows its devices, its times and how many records it has")
}

/// The devices in a file.
fn listed(path: &Path) -> Result<Vec<Pattern>, Failure> {
    let unreadable = |why: &dyn Display| {
        let failure = Failure::usage(format!("cannot read the devices: {why}"));
        failure.at(path.display().to_string()).hint("name a text with one device in each line")
    };
    let file = wirebeat_run::open_regular(path).map_err(|error| unreadable(&error))?;
    let mut file = file.ok_or_else(|| unreadable(&"this is not a regular file"))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    let mut patterns = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let device = line.split('#').next().unwrap_or_default().trim();
        if device.is_empty() {
            continue;
        }
        let at = || format!("{}:{number}", path.display());
        let pattern = device.parse();
        patterns.push(pattern.map_err(|bad| Failure::usage(format!("{bad}")).at(at()))?);
    }
    match patterns.is_empty() {
        true => {
            Err(Failure::usage(fault!("there is no device in the file"; "write one in each line"))
                .at(path.display().to_string()))
        }
        false => Ok(patterns),
    }
}
