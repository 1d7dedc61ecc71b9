//! Rows of tables as records: what can be wrong with one, where it is, and how often it was.
//!
//! The same for every kind of table; what a field looks like there is not known here.

use std::fmt;

use wirebeat_units::{Fault, fault, into_fault};

use crate::csv::rows::{FIELDS_MAX, ROW_MAX};
use crate::forms::BadForm;
use crate::time_series::device::BadDevice;
use crate::time_series::{BadTime, DATA_MAX, Timestamp};

/// Characters of a value that a message shows.
const SHOWN: usize = 60;

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line that it begins in, from 1.
    Line(u64),
    /// Its number, from 0.
    Record(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Record(number) => write!(f, "record {number}"),
        }
    }
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// When.
    Time,
    /// From what.
    Device,
    /// What it says.
    Data,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum Defect {
    /// Longer than any row of a table is.
    RowTooLong,
    /// A quote that opens and is not closed where it has to be.
    OpenQuote {
        /// Lines that a quoted field may have.
        lines: usize,
        /// Whether the file ends inside it.
        at_end: bool,
    },
    /// No value where there has to be one.
    Missing(Part),
    /// Not as many fields as columns.
    Fields {
        /// Fields there are.
        have: usize,
        /// Columns there are.
        want: usize,
    },
    /// A time that is none.
    Time(BadForm),
    /// A device that is none.
    #[error(transparent)]
    Device(#[from] BadDevice),
    /// Data in another form.
    #[error(transparent)]
    Data(BadForm),
    /// More data than a record holds.
    DataTooLong(usize),
    /// A time before that of the record before it.
    Backwards {
        /// The time before.
        before: Timestamp,
        /// Its time.
        time: Timestamp,
    },
}

impl Defect {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            Defect::RowTooLong => {
                fault!(
                    "it has more than {ROW_MAX} bytes or {FIELDS_MAX} fields";
                    "leave it out, or split it"
                )
            }
            Defect::OpenQuote { lines, at_end } => open_quote_text(*lines, *at_end),
            Defect::Missing(_) => {
                fault!("the value is missing"; "leave out such rows with --on-bad skip")
            }
            Defect::Fields { have, want } => {
                fault!(
                    "it has {have} fields, and there are {want} columns";
                    "quote fields that have the delimiter in them"
                )
            }
            Defect::Time(it) => time_text(it),
            Defect::Device(inner) => inner.fault(),
            Defect::Data(inner) => inner.fault(),
            Defect::DataTooLong(it) => {
                fault!(
                    "its data has {it} bytes, and a record holds {DATA_MAX} at most";
                    "split it into several rows"
                )
            }
            Defect::Backwards { before, time } => {
                fault!(
                    "{time} is before {before}, the time of the record before it";
                    "sort the file by time, leave out such rows with --on-bad skip, or take them \
                     as they stand with --any-order, for 'wirebeat archive sort'"
                )
            }
        }
    }
}

into_fault!(Defect);

fn time_text(why: &BadForm) -> Fault {
    match why {
        BadForm::Time(BadTime::NoZone) => {
            fault!(
                "the time has no zone";
                "say which zone such times are in with --zone, Z or +01:00"
            )
        }
        BadForm::Time(BadTime::Text) => {
            let Fault { what, hint } = why.fault();
            let hint =
                hint.map(|hint| format!("{hint}, or say with --time-form that it is a number"));
            Fault { what, hint }
        }
        _ => why.fault(),
    }
}

fn open_quote_text(lines: usize, at_end: bool) -> Fault {
    let remedy = "close it, or remove it";
    match lines {
        _ if at_end => fault!("the quote is not closed before the end of the file"; "{remedy}"),
        1 => {
            fault!(
                "the quote is not closed on its line";
                "{remedy}; where fields have line breaks in them, allow as many with \
                 --quoted-lines"
            )
        }
        lines => {
            fault!(
                "the quote is not closed within {lines} lines";
                "{remedy}, or allow more with --quoted-lines"
            )
        }
    }
}

impl Defect {
    /// The kinds, as they are counted.
    pub const KINDS: [&'static str; 7] = [
        "too long",
        "with a quote that is not closed",
        "with another number of fields",
        "with an impossible time",
        "with an impossible device",
        "with impossible data",
        "earlier than the one before",
    ];

    /// The part that is wrong, where it is one.
    pub fn part(&self) -> Option<Part> {
        match self {
            Defect::RowTooLong | Defect::OpenQuote { .. } | Defect::Fields { .. } => None,
            Defect::Missing(part) => Some(*part),
            Defect::Time(_) | Defect::Backwards { .. } => Some(Part::Time),
            Defect::Device(_) => Some(Part::Device),
            Defect::Data(_) | Defect::DataTooLong(_) => Some(Part::Data),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Defect::RowTooLong => 0,
            Defect::OpenQuote { .. } => 1,
            Defect::Fields { .. } => 2,
            Defect::Time(_) | Defect::Missing(Part::Time) => 3,
            Defect::Device(_) | Defect::Missing(Part::Device) => 4,
            Defect::Data(_) | Defect::DataTooLong(_) | Defect::Missing(Part::Data) => 5,
            Defect::Backwards { .. } => 6,
        }
    }
}

/// A row that is not a record, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Where.
    pub place: Place,
    /// The column that is wrong, and what it holds, where it is one.
    pub field: Option<(String, String)>,
    /// What is wrong.
    pub defect: Defect,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault().fmt(f)
    }
}

impl Bad {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        let field = self.field.as_ref();
        let field = field.map(|(column, value)| format!(", column '{column}', '{value}'"));
        self.defect.fault().at(format!("{}{}", self.place, field.unwrap_or_default()))
    }
}

into_fault!(Bad);

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Rows that are none, by kind as in [`Defect::KINDS`], and the first of each kind.
    pub bad: [(u64, Option<Box<Bad>>); Defect::KINDS.len()],
}

impl Tally {
    /// Counts a row that is not a record.
    pub fn count(&mut self, bad: Box<Bad>) {
        let (count, first) = &mut self.bad[bad.defect.kind()];
        *count += 1;
        first.get_or_insert(bad);
    }
}

/// Holds rows to the order of time, and to the length of data.
#[derive(Debug)]
pub struct Order {
    any: bool,
    last: Option<Timestamp>,
}

impl Order {
    /// `any`: every order is right.
    pub fn new(any: bool) -> Order {
        Order { any, last: None }
    }

    /// Whether a record with this time and so many bytes of data may follow those before.
    ///
    /// # Errors
    /// Why not.
    #[inline]
    pub fn take(&mut self, time: Timestamp, data_len: usize) -> Result<(), Defect> {
        if data_len > DATA_MAX {
            return Err(Defect::DataTooLong(data_len));
        }
        match self.last {
            Some(before) if !self.any && time.moment() < before.moment() => {
                Err(Defect::Backwards { before, time })
            }
            _ => {
                self.last = Some(time);
                Ok(())
            }
        }
    }
}

/// A value as a message shows it.
pub fn shown(value: &[u8]) -> String {
    // a character has four bytes at most
    let start = value.get(..4 * SHOWN).unwrap_or(value);
    let text = String::from_utf8_lossy(start);
    let shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().count() > SHOWN { shown + "…" } else { shown }
}
