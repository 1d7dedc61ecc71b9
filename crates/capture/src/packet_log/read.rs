//! Reading a log in Parquet, row by row and in bounded memory, whatever the bytes of the file are: one that was ended, and one
//! whose program was killed, as far as its segments are whole.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;
use wirebeat_archive::parquet::column::{ColumnChunk, Value};
use wirebeat_archive::parquet::pages::{Pages, metadata};
use wirebeat_archive::parquet::read::guarded;
use wirebeat_meter::observation::Sampled;
use wirebeat_units::{Fault, Nanos, fault};

use super::columns::{COLUMNS, COUNT, noted, outcome_named};
use super::logged_run::{END, LogEnd, LogHead, RUN, VERSION};
use super::segments;
use crate::seen::Outcome;

/// Rows that are unpacked at once.
const BATCH: usize = 4096;

/// A row of a log: a frame that was seen, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it arrived or left, in nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// The same on the monotonic clock.
    pub at: Nanos,
    /// The port, by its place in [`LogHead::ports`].
    pub port: usize,
    /// The queue of the port.
    pub queue: u16,
    /// What became of it.
    pub outcome: Outcome,
    /// The number of its flow.
    pub flow: Option<u16>,
    /// Its sequence number.
    pub sequence: Option<u32>,
    /// When it left by its probe, on the clock of the sender.
    pub sent: Option<Nanos>,
    /// When it was to leave, on the monotonic clock.
    pub due: Option<Nanos>,
    /// Bytes of the frame, with FCS.
    pub frame_len: u32,
    /// What the meter took of it beside these; `None` where the log does not say how long its payload was.
    pub sampled: Option<Sampled>,
}

/// What is missing at the end of a log whose program did not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes behind the last whole row group: a part of one, or of the footer.
    pub bytes: u64,
    /// Row groups that are whole.
    pub row_groups: usize,
}

/// A log that is read.
pub struct LogReader {
    path: PathBuf,
    file: Arc<File>,
    metadata: ParquetMetaData,
    head: LogHead,
    end: Option<LogEnd>,
    cut: Option<Cut>,
    /// It was ended, and has changed since.
    damaged: bool,
    /// Where the last whole segment ends, in a log that was cut off.
    sound: u64,
    columns: Option<Vec<ColumnChunk>>,
    /// The next row group, rows that are left of this one, and of those that are unpacked.
    group: usize,
    group_left: usize,
    left: usize,
    row: u64,
}

impl LogReader {
    /// Opens a log.
    ///
    /// # Errors
    /// Where the file cannot be read or is no packet log.
    pub fn open(path: &Path) -> Result<LogReader, Fault> {
        let at = |why: Fault| why.at(path.display());
        let file = File::open(path).map_err(|error| {
            at(fault!("it cannot be read: {error}"; "name a packet log in Parquet"))
        })?;
        let len = file.metadata().map_or(0, |about| about.len());
        let mut damaged = false;
        let (metadata, cut, sound) = match guarded(|| metadata(&file)) {
            Ok(metadata) => match segments::walk(&file) {
                // pieces carry checksums, and what another program wrote has none of them
                Ok(walked) if walked.metadata.row_groups().len() < metadata.row_groups().len() => {
                    damaged = true;
                    let bytes = len.saturating_sub(walked.end);
                    let cut = Cut { bytes, row_groups: walked.metadata.row_groups().len() };
                    (walked.metadata, Some(cut), walked.end)
                }
                _ => (metadata, None, len),
            },
            Err(_) => {
                let walked = segments::walk(&file).map_err(at)?;
                let bytes = len.saturating_sub(walked.end);
                let cut = Cut { bytes, row_groups: walked.metadata.row_groups().len() };
                (walked.metadata, Some(cut), walked.end)
            }
        };
        let head = head(&metadata).map_err(at)?;
        check_columns(&metadata).map_err(at)?;
        let end = entry(&metadata, END).and_then(|text| serde_json::from_str(text).ok());
        Ok(LogReader {
            path: path.to_owned(),
            file: Arc::new(file),
            metadata,
            head,
            end,
            cut,
            damaged,
            sound,
            columns: None,
            group: 0,
            group_left: 0,
            left: 0,
            row: 0,
        })
    }

    /// What the log says of its run.
    pub fn head(&self) -> &LogHead {
        &self.head
    }

    /// What it says of its end; `None` where it has none.
    pub fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// What is missing at its end, if its program did not end it.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.metadata.file_metadata().num_rows().try_into().unwrap_or(0)
    }

    /// Gives a log that was cut off an end, so that other programs read it: what is behind the last whole row group is removed.
    /// One that has an end is left as it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn repair(&self) -> Result<(), Fault> {
        if self.cut.is_none() {
            return Ok(());
        }
        if self.damaged {
            return Err(fault!(
                "it was ended, and its bytes have changed since: nothing of that can be repaired";
                "take a copy of it that is whole"
            )
            .at(self.path.display()));
        }
        let told = |error: std::io::Error| {
            fault!("its end cannot be written: {error}"; "copy it to where you may write, and repair the copy")
                .at(self.path.display())
        };
        let footer = super::parquet::ended(&self.metadata).map_err(told)?;
        let file = File::options().write(true).open(&self.path).map_err(told)?;
        file.set_len(self.sound).map_err(told)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &footer, self.sound).map_err(told)
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Where a row is none, or the file is broken: which row, and why.
    pub fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let row = self.advance();
        row.map_err(|why| why.at(format!("{}: row {}", self.path.display(), self.row + 1)))
    }

    fn advance(&mut self) -> Result<Option<Row>, Fault> {
        if self.left == 0 && !self.fill()? {
            return Ok(None);
        }
        self.left -= 1;
        let Some(columns) = &mut self.columns else { return Ok(None) };
        let row = row(columns, &self.head)?;
        self.row += 1;
        Ok(Some(row))
    }

    /// Unpacks rows; says whether there are any.
    fn fill(&mut self) -> Result<bool, Fault> {
        while self.group_left == 0 {
            let Some(group) = self.metadata.row_groups().get(self.group) else { return Ok(false) };
            self.group_left = usize::try_from(group.num_rows()).unwrap_or(0);
            let columns = guarded(|| {
                let column = |column: usize| {
                    let pages = Pages::new(&self.file, &self.metadata, self.group, column)?;
                    let schema = self.metadata.file_metadata().schema_descr();
                    ColumnChunk::new(schema.column(column), Box::new(pages))
                };
                (0..COUNT).map(column).collect::<Result<Vec<_>, _>>()
            });
            self.columns = Some(columns?);
            self.group += 1;
        }
        let rows = self.group_left.min(BATCH);
        let Some(columns) = &mut self.columns else { return Ok(false) };
        if let Err(why) = guarded(|| columns.iter_mut().try_for_each(|column| column.fill(rows))) {
            // nothing comes after it
            (self.group, self.group_left, self.columns) = (usize::MAX, 0, None);
            return Err(why);
        }
        self.group_left -= rows;
        self.left = rows;
        Ok(true)
    }
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What stands under a key.
fn entry<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let entries = metadata.file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.as_deref()
}

fn head(metadata: &ParquetMetaData) -> Result<LogHead, Fault> {
    let none = || {
        fault!(
            "it is a file of Parquet and no packet log: it says nothing of a run of Wirebeat";
            "give a file that was written with --packet-log"
        )
    };
    let text = entry(metadata, RUN).ok_or_else(none)?;
    let head: LogHead = serde_json::from_str(text)
        .map_err(|error| fault!("what it says of its run cannot be read: {error}"))?;
    match head.log_version {
        VERSION => Ok(head),
        other => Err(fault!(
            "it is a packet log of version {other}, and this program reads version {VERSION}";
            "read it with the version of Wirebeat that wrote it, {}", head.run.wirebeat_version
        )),
    }
}

/// That the columns are those that are written.
fn check_columns(metadata: &ParquetMetaData) -> Result<(), Fault> {
    let schema = metadata.file_metadata().schema_descr();
    let known = super::columns::schema().map_err(|error| fault!("{error}"))?;
    let right = schema.num_columns() == COUNT
        && known.get_fields().iter().zip(schema.columns()).all(|(known, column)| {
            column.name() == known.name()
                && column.physical_type() == known.get_physical_type()
                && column.max_rep_level() == 0
                && i16::from(known.is_optional()) == column.max_def_level()
        });
    match right {
        true => Ok(()),
        false => Err(fault!(
            "its columns are not those of a packet log: {}",
            COLUMNS.map(|column| column.name).join(", ")
        )),
    }
}

/// Makes a row of the next value of each column. Every column is gone through, whatever is wrong with one of them.
fn row(columns: &mut [ColumnChunk], head: &LogHead) -> Result<Row, Fault> {
    let mut numbers = [None; COUNT];
    let (mut port, mut outcome, mut note) = (None, None, (true, false));
    for (place, column) in columns.iter_mut().enumerate() {
        match (column.advance(), COLUMNS.get(place).map(|column| column.name)) {
            (Value::Whole(number), _) => numbers[place] = Some(number),
            (Value::Bytes(text), Some("port")) => {
                port = head.ports.iter().position(|port| port.name.as_bytes() == text);
            }
            (Value::Bytes(text), Some("outcome")) => outcome = outcome_named(text),
            (Value::Bytes(text), Some("note")) => note = noted(text),
            _ => {}
        }
    }
    // `time`, `monotonic`, `port` and so on, in their order
    let [time, at, _, queue, _, _, flow, sequence, sent, due, _, size, payload, packet, parts, _] =
        numbers;
    let wrong =
        |column: &str| fault!("the value of the column '{column}' is none that it can have");
    let time_of = |number: Option<i64>| number.map(|ns| Nanos::new(ns.cast_unsigned()));
    let frame_len = narrow(size).map_err(|()| wrong("size"))?.unwrap_or_default();
    let payload = narrow(payload).map_err(|()| wrong("payload"))?;
    let packet_len = narrow(packet).map_err(|()| wrong("packet_size"))?.unwrap_or(frame_len);
    let fragments = narrow(parts).map_err(|()| wrong("fragments"))?.unwrap_or(0);
    Ok(Row {
        unix_ns: time.ok_or_else(|| wrong("time"))?.cast_unsigned(),
        at: time_of(at).ok_or_else(|| wrong("monotonic"))?,
        port: port.ok_or_else(|| wrong("port"))?,
        queue: narrow(queue).ok().flatten().ok_or_else(|| wrong("queue"))?,
        outcome: outcome.ok_or_else(|| wrong("outcome"))?,
        flow: narrow(flow).map_err(|()| wrong("flow_number"))?,
        sequence: narrow(sequence).map_err(|()| wrong("sequence"))?,
        sent: time_of(sent),
        due: time_of(due),
        frame_len,
        sampled: payload.map(|payload_len| Sampled {
            payload_len,
            packet_len,
            fragments,
            timed: note.0,
            last: note.1,
        }),
    })
}

/// A number in fewer bits, where there is one.
fn narrow<T: TryFrom<i64>>(number: Option<i64>) -> Result<Option<T>, ()> {
    number.map(T::try_from).transpose().map_err(|_| ())
}
