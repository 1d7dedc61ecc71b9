//! Reading rows as records, in bounded memory, whatever the bytes of the file are.
//!
//! A row that is not a record stops the reader, with file, line, column and value, or is skipped and counted.

use std::io::{self, Read};

use wirebeat_units::{Fault, fault, into_fault};

use super::rows::{OpenQuote, Row, Rows, append};
use crate::columns::{BadColumns, Chosen, Columns, form_of};
use crate::forms::{BadForm, DataForm, TimeForm};
use crate::source::{Error, Source};
use crate::table::{Bad, Defect, Order, Place, Tally, shown};
use crate::time_series::{Device, OnBad, Record, Timestamp};

/// What a file looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which columns are what. Where several are data, a record's data is their fields as a row of CSV, with commas.
    pub columns: Columns,
    /// How times are written.
    pub time: TimeForm,
    /// The zone of times that say none, in minutes east of UTC: of ISO 8601 without a zone, and of numbers, which
    /// are moments and have [`None`] for UTC.
    pub zone_min: Option<i16>,
    /// How the data is written; `None`: as the name of its column says, and text where that says nothing.
    pub data: Option<DataForm>,
    /// What separates fields.
    pub delimiter: u8,
    /// What columns are called.
    pub names: ColumnNames,
    /// Lines that a quoted field may have: 1, or as many as somebody asked for.
    pub quoted_lines: usize,
}

/// What columns are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnNames {
    /// The fields of the first line.
    #[default]
    FirstLine,
    /// By their numbers alone: the first line is a record.
    Numbers,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            columns: Columns::default(),
            time: TimeForm::default(),
            zone_min: None,
            data: None,
            delimiter: b',',
            names: ColumnNames::default(),
            quoted_lines: 1,
        }
    }
}

/// How a file is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What it looks like.
    pub layout: Layout,
    /// How to handle invalid rows.
    pub on_bad: OnBad,
    /// Whether rows may stand in any order of time.
    pub any_order: bool,
}

/// Why the reading ended.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ReadError {
    /// There is not even a first line.
    Empty(String),
    /// Its columns cannot be used.
    Columns {
        /// The file.
        name: String,
        /// Why not.
        why: BadColumns,
    },
    /// A form of one column, and there are others.
    Form {
        /// The file.
        name: String,
        /// The form.
        form: DataForm,
        /// How many columns are left for the data.
        count: usize,
    },
    /// A row is not a record.
    Bad {
        /// The file.
        name: String,
        /// What, and where.
        bad: Box<Bad>,
    },
    /// The system refused to read.
    System {
        /// The file.
        name: String,
        /// The line that was read last.
        line: u64,
        /// The system's error.
        source: io::Error,
    },
}

impl ReadError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ReadError::Empty(it) => {
                fault!("{it}: it is empty"; "a file of CSV begins with the names of its columns")
            }
            ReadError::Columns { name, why } => why.fault().at(name),
            ReadError::Form { name, form, count } => {
                fault!(
                    "{name}: data in the form {} is one column, and {count} are left for it",
                    form.name();
                    "say which one with --data-column"
                )
            }
            ReadError::Bad { name, bad } => bad.fault().at(name),
            ReadError::System { name, line, source } => {
                fault!("{name}: reading after line {line}: {source}")
            }
        }
    }
}

into_fault!(ReadError);

/// Where the data of a record comes from.
#[derive(Debug)]
enum DataFrom {
    /// A field as it is.
    Field(usize),
    /// A field in a form.
    Form(usize, DataForm),
    /// Several fields.
    Row(Vec<usize>),
}

/// Reads rows as records.
#[derive(Debug)]
pub struct Reader<R> {
    rows: Rows<R>,
    name: String,
    columns: Vec<String>,
    chosen: Chosen,
    from: DataFrom,
    reading: Reading,
    /// The first row is there already.
    pending: bool,
    time: Timestamp,
    device: Device,
    /// The data, where it is not a field as it is.
    data: Vec<u8>,
    order: Order,
    tally: Tally,
}

impl<R: Read> Reader<R> {
    /// Reads `from`, of which messages speak as `name`: what its columns are.
    ///
    /// # Errors
    /// Where they are not those that are asked for, or not clear.
    pub fn new(from: R, name: impl Into<String>, reading: Reading) -> Result<Reader<R>, ReadError> {
        let name = name.into();
        let layout = &reading.layout;
        let mut rows = Rows::new(from, layout.delimiter).with_quoted_lines(layout.quoted_lines);
        let columns = match rows.advance() {
            Ok(Row::Nothing) => return Err(ReadError::Empty(name)),
            Ok(Row::TooLong) => {
                let (place, defect) = (Place::Line(rows.line()), Defect::RowTooLong);
                let bad = Box::new(Bad { place, field: None, defect });
                return Err(ReadError::Bad { name, bad });
            }
            Ok(Row::OpenQuote(open)) => {
                let column = (open.field + 1).to_string();
                let bad = Box::new(unclosed(open, column, &rows, layout.quoted_lines));
                return Err(ReadError::Bad { name, bad });
            }
            Ok(Row::Whole) => names(&rows, reading.layout.names),
            Err(source) => return Err(ReadError::System { name, line: 0, source }),
        };
        let chosen = match reading.layout.columns.find(&columns) {
            Ok(chosen) => chosen,
            Err(why) => return Err(ReadError::Columns { name, why }),
        };
        let from = match (chosen.data.as_slice(), reading.layout.data) {
            (&[one], form) => match form.unwrap_or_else(|| form_of(&columns[one])) {
                DataForm::Text => DataFrom::Field(one),
                form => DataFrom::Form(one, form),
            },
            (several, None | Some(DataForm::Text)) => DataFrom::Row(several.to_vec()),
            (several, Some(form)) => {
                return Err(ReadError::Form { name, form, count: several.len() });
            }
        };
        let order = Order::new(reading.any_order);
        Ok(Reader {
            rows,
            name,
            columns,
            chosen,
            from,
            pending: reading.layout.names == ColumnNames::Numbers,
            reading,
            time: Timestamp::EPOCH,
            device: Device::default(),
            data: Vec::new(),
            order,
            tally: Tally::default(),
        })
    }

    /// What was read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    fn next(&mut self) -> Result<bool, ReadError> {
        loop {
            let row = match std::mem::take(&mut self.pending) {
                true => Ok(Row::Whole),
                false => self.rows.advance(),
            };
            let understood = match row.map_err(|source| self.system(source))? {
                Row::Whole => self.understand(),
                Row::TooLong => Err(Defect::RowTooLong),
                Row::OpenQuote(open) => {
                    self.open_quote(open)?;
                    continue;
                }
                Row::Nothing => return Ok(false),
            };
            match understood {
                Ok(()) => {
                    self.tally.records += 1;
                    return Ok(true);
                }
                Err(defect) => self.bad(defect)?,
            }
        }
    }

    /// Makes a record of a row.
    #[inline]
    fn understand(&mut self) -> Result<(), Defect> {
        let (rows, layout) = (&self.rows, &self.reading.layout);
        if rows.len() != self.columns.len() {
            return Err(Defect::Fields { have: rows.len(), want: self.columns.len() });
        }
        let text = rows.field(self.chosen.time).trim_ascii();
        let time = match layout.time {
            TimeForm::Iso => Timestamp::from_text_in(text, layout.zone_min).map_err(BadForm::Time),
            TimeForm::Unix(unit) => unit.read(text, layout.zone_min.unwrap_or(0)),
        };
        self.time = time.map_err(Defect::Time)?;
        self.device = match self.chosen.device {
            Ok(column) => Device::from_text(rows.field(column))?,
            Err(fixed) => fixed,
        };
        let len = match &self.from {
            DataFrom::Field(column) => rows.field(*column).len(),
            DataFrom::Form(column, form) => {
                self.data.clear();
                form.read(rows.field(*column), &mut self.data).map_err(Defect::Data)?;
                self.data.len()
            }
            DataFrom::Row(columns) => {
                self.data.clear();
                for (at, &column) in columns.iter().enumerate() {
                    if at > 0 {
                        self.data.push(b',');
                    }
                    append(rows.field(column), b',', &mut self.data);
                }
                self.data.len()
            }
        };
        self.order.take(self.time, len)
    }

    /// A row is not a record.
    #[cold]
    fn bad(&mut self, defect: Defect) -> Result<(), ReadError> {
        let column = defect.part().and_then(|part| self.chosen.column(part));
        let field = column.map(|at| (self.columns[at].clone(), shown(self.rows.field(at))));
        self.leave_out(Bad { place: Place::Line(self.rows.line()), field, defect })
    }

    /// A quote is not closed.
    #[cold]
    fn open_quote(&mut self, open: OpenQuote) -> Result<(), ReadError> {
        let number = || (open.field + 1).to_string();
        let column = self.columns.get(open.field).cloned().unwrap_or_else(number);
        let lines = self.reading.layout.quoted_lines;
        self.leave_out(unclosed(open, column, &self.rows, lines))
    }

    fn leave_out(&mut self, bad: Bad) -> Result<(), ReadError> {
        let bad = Box::new(bad);
        if self.reading.on_bad == OnBad::Stop {
            return Err(ReadError::Bad { name: self.name.clone(), bad });
        }
        self.tally.count(bad);
        Ok(())
    }

    #[cold]
    fn system(&self, source: io::Error) -> ReadError {
        ReadError::System { name: self.name.clone(), line: self.rows.line(), source }
    }
}

/// Whether it is a name that the archive's dictionary has, and not digits.
pub(crate) fn is_long(name: &str) -> bool {
    name.len() > Device::LEN && Device::named(name) == name.parse()
}

/// A quote in this column that is not closed: where it opens, and what follows it there.
fn unclosed<R>(open: OpenQuote, column: String, rows: &Rows<R>, lines: usize) -> Bad {
    let defect = Defect::OpenQuote { lines, at_end: open.at_end };
    Bad { place: Place::Line(open.line), field: Some((column, shown(rows.field(0)))), defect }
}

/// What the columns are called, from the first row.
fn names<R>(rows: &Rows<R>, names: ColumnNames) -> Vec<String> {
    let name = |at| match names {
        ColumnNames::FirstLine => String::from_utf8_lossy(rows.field(at)).into_owned(),
        ColumnNames::Numbers => (at + 1).to_string(),
    };
    (0..rows.len()).map(name).collect()
}

impl<R: Read> Source for Reader<R> {
    fn advance(&mut self) -> Result<bool, Error> {
        Ok(self.next()?)
    }

    fn record(&self) -> Record<'_> {
        let data = match self.from {
            DataFrom::Field(column) => self.rows.field(column),
            DataFrom::Form(..) | DataFrom::Row(_) => &self.data,
        };
        Record { time: self.time, device: self.device, data }
    }

    /// Of the current record alone: the name is a field of its row.
    fn name(&self, device: Device) -> Option<&str> {
        let column = self.chosen.device.ok().filter(|_| device == self.device)?;
        std::str::from_utf8(self.rows.field(column)).ok().filter(|name| is_long(name))
    }

    fn position(&self) -> u64 {
        self.rows.offset()
    }
}

#[cfg(test)]
mod tests;
