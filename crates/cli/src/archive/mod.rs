//! `wirebeat archive`: archives of time series, made, looked into, cut and put together.
//!
//! A subcommand is a file here and a line in [`ArchiveCommand`]. What they have in common is here: how an archive is read,
//! how far the work is, and how a file comes to be.

mod create;
mod export;
mod index;
mod inspect;
mod merge;
mod pipe;
mod slice;
mod sort;
mod verify;
mod work;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use wirebeat_archive::new_file::NewFile;
use wirebeat_archive::time_series::{ByteOrder, OnBad, Reading, Tally, Writer};
use wirebeat_archive::{Sink, Source};
use wirebeat_units::human::{self, counted};
use wirebeat_units::printable::printable_lines;

use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::{self, Output as Results, ReportArgs};
use wirebeat_units::Fault;
use work::Work;

/// How often the bar is drawn anew.
const REDRAW: Duration = Duration::from_millis(200);
/// Bytes that are written at once.
const WRITE: usize = 1 << 18;
/// What messages call standard output.
const STANDARD_OUTPUT: &str = "standard output";
/// What helps where a file cannot be written.
const ROOM: &str = "check the folder, and the room on the disk";

/// Work with archives of time series
///
/// An archive holds records with a time, a device and data, for 'wirebeat replay' to send again. docs/replay.md
/// describes the format and walks from sensor readings to a replay.
#[derive(ClapArgs, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: ArchiveCommand,
}

/// The table.
#[derive(Subcommand, Debug)]
enum ArchiveCommand {
    Create(Box<create::Args>),
    Export(export::Args),
    Inspect(inspect::Args),
    Verify(verify::Args),
    Slice(slice::Args),
    Merge(merge::Args),
    Sort(sort::Args),
    Index(index::Args),
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        match &self.command {
            ArchiveCommand::Inspect(args) => ReportArgs::from(&args.results.0),
            ArchiveCommand::Verify(args) => ReportArgs::from(&args.results.0),
            _ => ReportArgs::default(),
        }
    }
}

/// Does it.
pub fn run(args: &Args, results: &mut Results) -> Result<u8, Failure> {
    match &args.command {
        ArchiveCommand::Create(args) => create::run(args),
        ArchiveCommand::Export(args) => export::run(args),
        ArchiveCommand::Inspect(args) => inspect::run(args, results),
        ArchiveCommand::Verify(args) => verify::run(args, results),
        ArchiveCommand::Slice(args) => slice::run(args),
        ArchiveCommand::Merge(args) => merge::run(args),
        ArchiveCommand::Sort(args) => sort::run(args),
        ArchiveCommand::Index(args) => index::run(args),
    }
}

/// The archive that is read, and the file that comes of it.
#[derive(ClapArgs, Clone, Debug)]
struct FromTo {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// The new file; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
}

/// How an archive is read.
#[derive(ClapArgs, Clone, Debug, Default)]
struct ReadArgs {
    /// How to handle invalid records: stop, or skip it and count it
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = on_bad)]
    on_bad: OnBad,
    /// Which byte of a record's length comes first: the big or the little end
    #[arg(long, value_name = "END", default_value = "big", value_parser = byte_order)]
    length_order: ByteOrder,
}

impl ReadArgs {
    fn reading(&self) -> Reading {
        Reading { order: self.length_order, on_bad: self.on_bad, any_order: false }
    }
}

fn on_bad(text: &str) -> Result<OnBad, Fault> {
    match text {
        "stop" => Ok(OnBad::Stop),
        "skip" => Ok(OnBad::Skip),
        _ => Err("this is neither stop nor skip".into()),
    }
}

fn byte_order(text: &str) -> Result<ByteOrder, Fault> {
    match text {
        "big" => Ok(ByteOrder::Big),
        "little" => Ok(ByteOrder::Little),
        _ => Err("this is neither big nor little".into()),
    }
}

/// A file, or standard input.
struct Input {
    from: Box<dyn Read>,
    /// How many bytes it has, where that is known.
    len: Option<u64>,
}

/// Opens an input.
fn open(path: &Path) -> Result<Input, Failure> {
    if is_standard(path) {
        return Ok(Input { from: Box::new(io::stdin().lock()), len: None });
    }
    let opened = pipe::open(path).and_then(|file| {
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((file, meta.is_file().then_some(meta.len())))
    });
    let (file, len) = opened.map_err(|error| cannot_read(path, &error))?;
    Ok(Input { from: Box::new(file), len })
}

/// What messages call a file.
fn name(path: &Path) -> String {
    if is_standard(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// A file that is to be made; or standard output.
enum ArchiveOutput {
    File(NewFile),
    Standard(io::Stdout),
    /// Standard output where a person looks at it: nothing foreign acts there. Holds the beginning of a character.
    Terminal(io::Stdout, Vec<u8>),
}

impl ArchiveOutput {
    fn create(path: &Path) -> Result<ArchiveOutput, Failure> {
        if is_standard(path) {
            output::has_standard_output().map_err(|error| cannot_write(path, &error))?;
            let out = io::stdout();
            return match out.is_terminal() {
                true => Ok(ArchiveOutput::Terminal(out, Vec::new())),
                false => Ok(ArchiveOutput::Standard(out)),
            };
        }
        NewFile::create(path).map(ArchiveOutput::File).map_err(|error| cannot_make(path, &error))
    }

    fn refused(&self, error: io::Error) -> io::Error {
        // those are tried again
        if error.kind() == io::ErrorKind::Interrupted {
            return error;
        }
        let place = match self {
            ArchiveOutput::File(file) => file.path().display().to_string(),
            ArchiveOutput::Standard(_) | ArchiveOutput::Terminal(..) => STANDARD_OUTPUT.to_owned(),
        };
        io::Error::new(error.kind(), Refused { place, error })
    }

    fn buffered(self) -> BufWriter<ArchiveOutput> {
        BufWriter::with_capacity(WRITE, self)
    }
}

/// Ends an archive that was written, and gives the file its name.
fn keep(writer: Writer<BufWriter<ArchiveOutput>>, path: &Path) -> Result<(), Failure> {
    keep_output(writer.finish().map_err(|error| cannot_write(path, &error))?, path)
}

/// Ends what was written, and gives the file its name.
fn keep_output(output: BufWriter<ArchiveOutput>, path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| cannot_write(path, &error);
    match output.into_inner().map_err(|error| failed(error.into_error()))? {
        ArchiveOutput::File(mut file) => file.keep().map_err(failed),
        ArchiveOutput::Standard(_) | ArchiveOutput::Terminal(..) => Ok(()),
    }
}

impl Write for ArchiveOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            ArchiveOutput::File(file) => file.write(bytes),
            ArchiveOutput::Standard(out) => out.write(bytes),
            ArchiveOutput::Terminal(out, held) => {
                out.write_all(harmless(held, bytes).as_bytes()).map(|()| bytes.len())
            }
        };
        written.map_err(|error| self.refused(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match self {
            ArchiveOutput::File(file) => file.flush(),
            ArchiveOutput::Standard(out) | ArchiveOutput::Terminal(out, _) => out.flush(),
        };
        flushed.map_err(|error| self.refused(error))
    }
}

/// What the system says of an output, with its name.
#[derive(Debug)]
struct Refused {
    place: String,
    error: io::Error,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// Where it was, if it was at an output.
    fn place(error: &io::Error) -> Option<&str> {
        error.get_ref()?.downcast_ref::<Refused>().map(|refused| refused.place.as_str())
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let (why, hint) = match error.kind() {
        io::ErrorKind::IsADirectory => {
            ("this is a folder, and a file is needed".to_owned(), "name a file in it")
        }
        io::ErrorKind::TimedOut => (
            format!("nobody wrote to this pipe within {} s", pipe::PATIENCE.as_secs()),
            "start what writes to it before, or name a regular file",
        ),
        _ => (format!("cannot read it: {error}"), "check the name of the file"),
    };
    Failure::usage(&why).at(path.display().to_string()).hint(hint)
}

/// What can be shown of bytes, after those that are held; the beginning of a character at the end is held for the next.
fn harmless(held: &mut Vec<u8>, bytes: &[u8]) -> String {
    held.extend_from_slice(bytes);
    let whole = match std::str::from_utf8(held) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => held.len(),
    };
    let rest = held.split_off(whole);
    let text = String::from_utf8_lossy(&std::mem::replace(held, rest)).into_owned();
    printable_lines(&text).into_owned()
}

/// Why a file cannot be made, before anything is done.
fn cannot_make(path: &Path, error: &io::Error) -> Failure {
    let (failure, hint) = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            (Failure::usage("it is there already"), "choose another name, or remove it first")
        }
        _ => (Failure::making(error), "check the folder, and the room on the disk"),
    };
    failure.at(path.display().to_string()).hint(hint)
}

/// Why what was made could not be written, or not under its name.
fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return cannot_make(path, error);
    }
    let place = match is_standard(path) {
        true => STANDARD_OUTPUT.to_owned(),
        false => path.display().to_string(),
    };
    Failure::output(format!("cannot write it: {error}")).at(place).hint(ROOM)
}

/// Why a record could not be written.
fn not_written(told: impl Into<Fault>, error: &io::Error) -> Failure {
    let failure = Failure::output(told);
    match Refused::place(error) {
        Some(place) => failure.at(place).hint(ROOM),
        None => failure,
    }
}

/// Takes all records of a source to a sink, shows how far it is on a terminal, and stops when a signal says so.
/// `bytes` is how long the source is, where that is known. Says how many records there were.
fn copy(source: &mut dyn Source, sink: &mut dyn Sink, bytes: Option<u64>) -> Result<u64, Failure> {
    Work::begin(bytes)?.copy(source, sink)
}

/// Tells what was skipped, if anything was.
fn tell_skipped(tally: &Tally, name: &str) {
    if tally.bad() > 0 {
        output::tell(&format!("{name}: {}\n", skipped(tally)));
    }
}

/// What was skipped, in words.
fn skipped(tally: &Tally) -> String {
    let bytes = human::count(tally.skipped);
    let first = tally.bad.iter().filter_map(|kind| kind.first).min_by_key(|bad| bad.place.offset);
    let first = first.map(|bad| format!("; the first is {}: {}", bad.place, bad.defect));
    let what = places(tally.bad(), tally.bad_records());
    format!("{what} left out, {bytes} B, since they are invalid{}", first.unwrap_or_default())
}

/// Records where there is one at each place, and places where that is not known of all.
fn places(places: u64, records: u64) -> String {
    let known = counted(records, "record");
    match places.saturating_sub(records) {
        0 => known,
        unknown if records == 0 => {
            format!("an unknown number of records at {}", counted(unknown, "place"))
        }
        unknown => {
            format!("{known} and an unknown number of records at {}", counted(unknown, "place"))
        }
    }
}

/// How far the work is, on a terminal.
#[derive(Clone)]
struct WorkBar(ProgressBar);

impl WorkBar {
    fn new(bytes: Option<u64>) -> WorkBar {
        if !io::stderr().is_terminal() {
            return WorkBar(ProgressBar::hidden());
        }
        let (bar, template) = match bytes {
            Some(bytes) => (
                ProgressBar::new(bytes),
                "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg}, {eta}",
            ),
            None => (ProgressBar::no_length(), "{bytes} {bytes_per_sec} {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(REDRAW);
        WorkBar(bar)
    }

    fn at(&self, records: u64, position: u64) {
        self.0.set_position(position);
        self.0.set_message(counted(records, "record"));
    }

    /// Where the input is, between two records.
    fn moved(&self, position: u64) {
        self.0.set_position(position);
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_to_a_terminal_does_nothing_there() {
        let mut held = Vec::new();
        let text = "a,\x1b[2J\n\u{9b}µ".as_bytes();
        let shown: String = text.chunks(1).map(|byte| harmless(&mut held, byte)).collect();
        assert_eq!(shown, "a,\u{fffd}[2J\n\u{fffd}µ");
        assert_eq!(harmless(&mut held, b"\xff\xfe\n"), "\u{fffd}\u{fffd}\n");
    }
}
