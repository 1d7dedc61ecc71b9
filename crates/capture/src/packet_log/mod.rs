//! The packet log: a row for each packet, from what was seen of it.
//!
//! [`open`] begins one: as Parquet (`parquet`, in segments that survive the program that writes them:
//! `segments`), as CSV (`csv`), or as the lines of another tool (`lines`). What the columns are stands in `columns`, and
//! what else a log says of its run in [`logged_run`]. A log in Parquet is read back by [`read`], and [`rebuild`] makes the
//! measurements of its run from it once more.

mod columns;
mod csv;
mod lines;
pub mod logged_run;
mod parquet;
mod payload;
pub mod read;
pub mod rebuild;
mod rows;
mod segments;
mod texts;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use wirebeat_units::{Fault, fault};
use wirebeat_wire::codec::Codec;

pub use self::lines::LineOptions;
pub use self::logged_run::{ClockRelation, LoggedRun, MeterFacts};
use crate::OpenError;
use crate::seen::Opening;
use crate::sink::Sink;

/// The form of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// A file of Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// The same, packed with Zstandard.
    CsvZstd,
    /// MGEN's: one event in each line.
    Mgen,
    /// CRUDE's lines.
    Crude,
}

impl LogForm {
    /// The endings of files, and the forms that go with them.
    const ENDINGS: [(&str, LogForm); 3] =
        [(".parquet", LogForm::Parquet), (".csv", LogForm::Csv), (".csv.zst", LogForm::CsvZstd)];

    /// That which goes with the name of a file.
    ///
    /// # Errors
    /// Where its ending says nothing.
    pub fn of(file: &Path) -> Result<LogForm, Fault> {
        let name = file.to_string_lossy();
        let found = LogForm::ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        found.map(|(_, form)| *form).ok_or_else(|| {
            fault!(
                "the name of the packet log '{name}' does not say which form it has";
                "let it end in .parquet, .csv or .csv.zst"
            )
        })
    }

    /// The format of the probes that the tool sends whose lines these are; none of rows.
    pub fn codec(self) -> Option<Codec> {
        match self {
            LogForm::Mgen => Some(Codec::Mgen),
            LogForm::Crude => Some(Codec::Rude),
            LogForm::Parquet | LogForm::Csv | LogForm::CsvZstd => None,
        }
    }
}

/// A form of lines by its name, `mgen` or `crude`; others go with the ending of a file.
impl FromStr for LogForm {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "mgen" => Ok(LogForm::Mgen),
            "crude" => Ok(LogForm::Crude),
            _ => Err(fault!("'{text}' is not a form of a log"; "write mgen or crude")),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLogOptions {
    /// The form.
    pub form: LogForm,
    /// The file; `None`: standard output, where the form is text.
    pub file: Option<PathBuf>,
    /// Whether a file that is there is written over.
    pub overwrite: bool,
    /// Which packets have a line in the form of another tool.
    pub lines: LineOptions,
}

impl PacketLogOptions {
    /// A log in this file, whose ending says which form it has; none is written over.
    ///
    /// # Errors
    /// Where the ending says nothing.
    pub fn of(file: PathBuf) -> Result<PacketLogOptions, Fault> {
        let (form, lines) = (LogForm::of(&file)?, LineOptions::default());
        Ok(PacketLogOptions { form, file: Some(file), overwrite: false, lines })
    }

    /// Bytes of each frame that have to come to the sink, from the Ethernet header on: rows have what a receiver says beside
    /// the headers, lines what stands in the packet.
    pub fn wanted_len(&self) -> u32 {
        /// What a tap keeps in any case.
        const LEAST: u32 = 16;
        if self.form.codec().is_some() { lines::WANTED_LEN } else { LEAST }
    }
}

/// Begins a log. What is known of the run goes into one of Parquet, to make its measurements once more.
///
/// # Errors
/// Where the file is there already or cannot be written: what the system says, and what would help.
pub fn open(
    options: &PacketLogOptions,
    opening: &Opening,
    run: &LoggedRun,
) -> Result<Box<dyn Sink>, OpenError> {
    let unwritten = |error: io::Error| unwritten(options.file.as_deref(), &error);
    let head = logged_run::LogHead::new(opening, run);
    let text = || -> Result<Box<dyn Write + Send>, OpenError> {
        Ok(match &options.file {
            Some(path) => Box::new(create(path, options.overwrite)?),
            None => Box::new(io::stdout()),
        })
    };
    let csv = |packing| -> Result<Box<dyn Sink>, OpenError> {
        Ok(Box::new(csv::CsvLog::new(text()?, options.file.clone(), packing, &head)))
    };
    let lines = |tool| -> Result<Box<dyn Sink>, OpenError> {
        let (of, path) = ((tool, &options.lines), options.file.clone());
        let log = lines::LineLog::new(of, text()?, path, opening.unix_ns);
        Ok(Box::new(log.map_err(unwritten)?))
    };
    match options.form {
        LogForm::Parquet => {
            let path = options.file.as_ref().ok_or_else(|| {
                fault!(
                    "a packet log in Parquet cannot go to standard output: its last bytes say where the first ones are";
                    "name a file"
                )
            })?;
            let file = create(path, options.overwrite)?;
            let log = parquet::ParquetLog::new(file, path.clone(), &head).map_err(unwritten)?;
            Ok(Box::new(log))
        }
        LogForm::Csv => csv(csv::Packing::None),
        LogForm::CsvZstd => csv(csv::Packing::Zstd),
        LogForm::Mgen => lines(lines::Tool::Mgen),
        LogForm::Crude => lines(lines::Tool::Crude),
    }
}

/// Writes all of a text, or as much of it as can be; says how many bytes that was, and why not all.
fn write_text(to: &mut dyn Write, text: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return (written, Err(why)),
        }
    }
    (written, to.flush())
}

/// How many lines are whole in a text that was written so far.
fn whole_lines(text: &[u8], written: usize) -> u64 {
    let written = text.get(..written).unwrap_or(text);
    written.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Makes the file.
fn create(path: &Path, overwrite: bool) -> Result<File, OpenError> {
    let mut how = OpenOptions::new();
    how.write(true);
    match overwrite {
        true => how.create(true).truncate(true),
        false => how.create_new(true),
    };
    how.open(path).map_err(|error| unwritten(Some(path), &error))
}

fn unwritten(path: Option<&Path>, error: &io::Error) -> OpenError {
    let path = path.map_or("standard output".into(), Path::to_string_lossy);
    let fault = match error.kind() {
        io::ErrorKind::AlreadyExists => {
            fault!("the packet log '{path}' is there already"; "name another file, or remove it first")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            fault!("the packet log '{path}' cannot be written: {error}"; "make room on its file system, or name a file on another")
        }
        _ => fault!(
            "the packet log '{path}' cannot be written: {error}";
            "name a file in a folder that you may write to"
        ),
    };
    OpenError::of(fault, error.kind())
}

#[cfg(test)]
mod tests;
