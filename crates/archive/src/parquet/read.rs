//! Reading columns as records, in bounded memory, whatever the bytes of the file are.
//!
//! A row that is not a record stops the reader, with file, number, column and value, or is skipped and counted. A file
//! that is broken ends the reading in any case.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnDescriptor;
use wirebeat_units::{Fault, fault, into_fault};

use super::column::{ColumnChunk, Value, check};
use super::pages::{Pages, metadata};
use crate::columns::{BadColumns, Chosen, Columns};
use crate::csv::read::is_long;
use crate::csv::rows::append;
use crate::forms::{BadForm, TimeForm, Unit};
use crate::source::{Error, Source};
use crate::table::{Bad, Defect, Order, Part, Place, Tally, shown};
use crate::time_series::device::BadDevice;
use crate::time_series::{BadTime, Device, OnBad, Record, Timestamp};

/// Rows that are unpacked at once.
const ROWS: usize = 4096;
/// The column that holds the zone, where it has this name and type.
const ZONE: &str = "zone";
const MINUTE_NS: i128 = 60_000_000_000;

/// How a file is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Which columns are what. Where several are data, a record's data is their values as a row of CSV.
    pub columns: Columns,
    /// How times are written; `None`: as the type of their column says, and as ISO 8601 in a column of text.
    pub time: Option<TimeForm>,
    /// The zone of times that say none, in minutes east of UTC.
    pub zone_min: Option<i16>,
    /// How to handle invalid rows.
    pub on_bad: OnBad,
    /// Whether rows may stand in any order of time.
    pub any_order: bool,
}

/// Why the reading ended.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its columns cannot be used.
    #[error("{name}: {why}")]
    Columns {
        /// The file.
        name: String,
        /// Why not.
        why: BadColumns,
    },
    /// A column cannot be used.
    #[error("{name}: column '{column}': {why}")]
    Column {
        /// The file.
        name: String,
        /// Which.
        column: String,
        /// Why not.
        why: Fault,
    },
    /// A row is not a record.
    #[error("{name}: {bad}")]
    Bad {
        /// The file.
        name: String,
        /// What, and where.
        bad: Box<Bad>,
    },
    /// The file is none of Parquet, broken, packed in a way that is not read, or the system refused.
    #[error("{name}: after {records} records: it cannot be read as Parquet: {why}")]
    Broken {
        /// The file.
        name: String,
        /// Rows that were read.
        records: u64,
        /// Why.
        why: Fault,
    },
}

impl ReadError {
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ReadError::Columns { name, why } => why.fault().at(name),
            ReadError::Column { name, column, why } => {
                why.clone().at(format!("{name}: column '{column}'"))
            }
            ReadError::Bad { name, bad } => bad.fault().at(name),
            ReadError::Broken { name, records, why } => why
                .clone()
                .at(format!("{name}: after {records} records: it cannot be read as Parquet")),
        }
    }
}

into_fault!(ReadError);

/// What the numbers of a column of times are.
#[derive(Clone, Copy, Debug)]
enum TimeKind {
    /// Moments.
    Moments(Unit),
    /// Times of day somewhere, so many minutes east of UTC.
    Local(Unit, i16),
    /// Text.
    Text(TimeForm),
}

/// Reads rows as records.
pub struct Reader<R: ChunkReader> {
    file: Arc<R>,
    meta: ParquetMetaData,
    name: String,
    names: Vec<String>,
    chosen: Chosen,
    reading: Reading,
    time_kind: TimeKind,
    zone_at: Option<usize>,
    /// The columns of the row group that it is at.
    columns: Option<Set>,
    /// The next row group, rows that are left of this one, and of those that are unpacked.
    group: usize,
    group_left: usize,
    left: usize,
    /// Rows that were read.
    number: u64,
    time: Timestamp,
    device: Device,
    data: Vec<u8>,
    field: Vec<u8>,
    /// What a message shows of a row that is not a record.
    shown: Vec<u8>,
    /// The name of the device, where it is longer than 16 bytes.
    long: Vec<u8>,
    order: Order,
    tally: Tally,
}

/// The columns of a row group that are used.
struct Set {
    time: ColumnChunk,
    zone: Option<ColumnChunk>,
    device: Option<ColumnChunk>,
    data: Vec<ColumnChunk>,
}

impl<R: ChunkReader + 'static> Reader<R> {
    /// Reads `file`, of which messages speak as `name`: what its columns are.
    ///
    /// # Errors
    /// Where it is not a file of Parquet, or its columns are not those that are asked for, or not clear.
    pub fn new(file: R, name: impl Into<String>, reading: Reading) -> Result<Reader<R>, ReadError> {
        let name = name.into();
        let meta = match guarded(|| metadata(&file)) {
            Ok(meta) => meta,
            Err(why) => return Err(ReadError::Broken { name, records: 0, why }),
        };
        let schema = meta.file_metadata().schema_descr();
        let names: Vec<String> =
            schema.columns().iter().map(|column| column.path().string()).collect();
        let mut chosen = match reading.columns.find(&names) {
            Ok(chosen) => chosen,
            Err(why) => return Err(ReadError::Columns { name, why }),
        };
        let zone_at = (0..names.len())
            .find(|&at| names[at] == ZONE && schema.column(at).physical_type() == Type::INT32);
        let zone_at = zone_at.filter(|_| reading.zone_min.is_none());
        if reading.columns.data.is_none() {
            chosen.data.retain(|&at| Some(at) != zone_at);
        }
        let used = chosen.data.iter().copied().chain(chosen.device.ok()).chain([chosen.time]);
        let wrong = |at: usize, why: Fault| ReadError::Column {
            name: name.clone(),
            column: names[at].clone(),
            why,
        };
        for at in used {
            check(&schema.column(at)).map_err(|why| wrong(at, why))?;
        }
        let time = schema.column(chosen.time);
        let time_kind =
            time_kind(&time, &reading, zone_at.is_some()).map_err(|why| wrong(chosen.time, why))?;
        let order = Order::new(reading.any_order);
        Ok(Reader {
            file: Arc::new(file),
            meta,
            name,
            names,
            chosen,
            reading,
            time_kind,
            zone_at,
            columns: None,
            group: 0,
            group_left: 0,
            left: 0,
            number: 0,
            time: Timestamp::EPOCH,
            device: Device::default(),
            data: Vec::new(),
            field: Vec::new(),
            shown: Vec::new(),
            long: Vec::new(),
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
            if self.left == 0 && !self.fill()? {
                return Ok(false);
            }
            self.left -= 1;
            self.number += 1;
            match self.understand() {
                Ok(()) => {
                    self.tally.records += 1;
                    return Ok(true);
                }
                Err(defect) => self.bad(defect)?,
            }
        }
    }

    /// Unpacks rows; says whether there are any.
    fn fill(&mut self) -> Result<bool, ReadError> {
        while self.group_left == 0 {
            let Some(group) = self.meta.row_groups().get(self.group) else { return Ok(false) };
            self.group_left = usize::try_from(group.num_rows()).unwrap_or(0);
            let opened = guarded(|| self.open(self.group));
            self.columns = Some(opened.map_err(|why| self.broken(why))?);
            self.group += 1;
        }
        let rows = self.group_left.min(ROWS);
        let Some(set) = &mut self.columns else { return Ok(false) };
        let filled = guarded(|| {
            let Set { time, zone, device, data } = set;
            let others = zone.iter_mut().chain(device).chain(data);
            std::iter::once(time).chain(others).try_for_each(|column| column.fill(rows))
        });
        if let Err(why) = filled {
            // nothing comes after it
            (self.group, self.group_left, self.columns) = (usize::MAX, 0, None);
            return Err(self.broken(why));
        }
        self.group_left -= rows;
        self.left = rows;
        Ok(true)
    }

    /// The columns of a row group.
    fn open(&self, group: usize) -> Result<Set, ParquetError> {
        let open = |column: usize| {
            let pages = Pages::new(&self.file, &self.meta, group, column)?;
            let descr = self.meta.file_metadata().schema_descr().column(column);
            ColumnChunk::new(descr, Box::new(pages))
        };
        let data = self.chosen.data.iter().map(|&column| open(column));
        Ok(Set {
            time: open(self.chosen.time)?,
            zone: self.zone_at.map(open).transpose()?,
            device: self.chosen.device.ok().map(open).transpose()?,
            data: data.collect::<Result<_, _>>()?,
        })
    }

    /// Makes a record of a row. Every column is gone through, whatever is wrong with one of them.
    fn understand(&mut self) -> Result<(), Defect> {
        let Some(Set { time, zone, device, data }) = &mut self.columns else { return Ok(()) };
        self.shown.clear();
        let zone_min = match zone.as_mut().map(ColumnChunk::advance) {
            Some(Value::Whole(zone)) => Ok(Some(i16::try_from(zone).unwrap_or(i16::MAX))),
            Some(_) => Err(Defect::Missing(Part::Time)),
            None => Ok(self.reading.zone_min),
        };
        let value = time.advance();
        let time = zone_min.and_then(|zone_min| moment(self.time_kind, value, zone_min));
        if time.is_err() {
            value.append(&mut self.shown);
        }
        let device = match (self.chosen.device, device) {
            (Ok(_), Some(column)) => {
                let value = column.advance();
                let device = named(value, &mut self.field);
                if device.as_ref().is_ok_and(|device| device.has_long_name()) {
                    self.long.clear();
                    value.append(&mut self.long);
                }
                if time.is_ok() && device.is_err() {
                    value.append(&mut self.shown);
                }
                device
            }
            (fixed, _) => Ok(fixed.err().unwrap_or_default()),
        };
        self.data.clear();
        match data.as_mut_slice() {
            [one] => one.advance().append(&mut self.data),
            several => {
                for (at, column) in several.iter_mut().enumerate() {
                    if at > 0 {
                        self.data.push(b',');
                    }
                    self.field.clear();
                    column.advance().append(&mut self.field);
                    append(&self.field, b',', &mut self.data);
                }
            }
        }
        (self.time, self.device) = (time?, device?);
        self.order.take(self.time, self.data.len())
    }

    /// A row is not a record.
    #[cold]
    fn bad(&mut self, defect: Defect) -> Result<(), ReadError> {
        let column = defect.part().and_then(|part| self.chosen.column(part));
        let value = match &defect {
            Defect::Backwards { time, .. } => time.to_string(),
            Defect::DataTooLong(_) => shown(&self.data),
            _ => shown(&self.shown),
        };
        let field = column.map(|at| (self.names[at].clone(), value));
        let bad = Box::new(Bad { place: Place::Record(self.number - 1), field, defect });
        if self.reading.on_bad == OnBad::Stop {
            return Err(ReadError::Bad { name: self.name.clone(), bad });
        }
        self.tally.count(bad);
        Ok(())
    }

    #[cold]
    fn broken(&self, why: impl Into<Fault>) -> ReadError {
        ReadError::Broken { name: self.name.clone(), records: self.number, why: why.into() }
    }
}

/// Does what the library does. It checks most of what it reads, but not all: some bytes that no writer writes make
/// it panic (an assertion, an index), and a file is no reason to end the program.
///
/// # Errors
/// What the library says, and that it panicked.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, Fault> {
    // Nothing that was worked on is used after a panic: the reading ends.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| match error {
            ParquetError::General(why) | ParquetError::EOF(why) | ParquetError::NYI(why) => {
                Fault::unpacked(&why)
            }
            error => error.to_string().into(),
        }),
        Err(_) => Err("its bytes contradict each other".into()),
    }
}

/// What the numbers of a column of times are.
fn time_kind(
    column: &ColumnDescriptor,
    reading: &Reading,
    has_zones: bool,
) -> Result<TimeKind, Fault> {
    let annotated = match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Timestamp(stamp)), _) => {
            let unit = match stamp.unit {
                TimeUnit::MILLIS => Unit::Millis,
                TimeUnit::MICROS => Unit::Micros,
                TimeUnit::NANOS => Unit::Nanos,
            };
            Some((unit, stamp.is_adjusted_to_u_t_c))
        }
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some((Unit::Millis, true)),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some((Unit::Micros, true)),
        _ => None,
    };
    match (column.physical_type(), reading.time, annotated) {
        (Type::BYTE_ARRAY, form, _) => Ok(TimeKind::Text(form.unwrap_or_default())),
        (Type::INT32 | Type::INT64, Some(TimeForm::Unix(unit)), _) => Ok(TimeKind::Moments(unit)),
        (Type::INT64, None, Some((unit, true))) => Ok(TimeKind::Moments(unit)),
        (Type::INT64, None, Some((unit, false))) => match reading.zone_min {
            Some(zone_min) => Ok(TimeKind::Local(unit, zone_min)),
            None if has_zones => Err(fault!(
                "its times are not adjusted to UTC, beside a column of zones";
                "say with --zone in which zone all of them are"
            )),
            None => Err(fault!(
                "its times say no zone";
                "say with --zone in which one they are, Z or +01:00"
            )),
        },
        (Type::INT32 | Type::INT64, None, None) => Err(fault!(
            "its numbers do not say what they count";
            "say it with --time-form: s, ms, us or ns"
        )),
        (Type::INT64, Some(TimeForm::Iso), _) => Err(fault!(
            "it holds numbers, not ISO 8601";
            "leave out --time-form, or say s, ms, us or ns"
        )),
        _ => Err(fault!("it holds no times"; "choose a column of TIMESTAMP, of text or of INT64")),
    }
}

/// The moment that a value is.
fn moment(kind: TimeKind, value: Value<'_>, zone_min: Option<i16>) -> Result<Timestamp, Defect> {
    let zone = zone_min.unwrap_or(0);
    let time = match (kind, value) {
        (_, Value::Nothing) => return Err(Defect::Missing(Part::Time)),
        (TimeKind::Moments(unit), Value::Whole(number)) => {
            unit.time(number, zone).map_err(BadForm::Time)
        }
        (TimeKind::Moments(unit), Value::Unsigned(number)) => i64::try_from(number)
            .map_err(|_| BadTime::Year)
            .and_then(|number| unit.time(number, zone))
            .map_err(BadForm::Time),
        (TimeKind::Local(unit, east), Value::Whole(number)) => unit
            .time(number, 0)
            .and_then(|local| {
                Timestamp::from_ns(local.unix_ns() - i128::from(east) * MINUTE_NS, east)
            })
            .map_err(BadForm::Time),
        (TimeKind::Text(TimeForm::Iso), Value::Bytes(text)) => {
            Timestamp::from_text_in(text.trim_ascii(), zone_min).map_err(BadForm::Time)
        }
        (TimeKind::Text(TimeForm::Unix(unit)), Value::Bytes(text)) => {
            unit.read(text.trim_ascii(), zone)
        }
        _ => Err(BadForm::Number),
    };
    time.map_err(Defect::Time)
}

/// The device that a value names: 16 bytes are one, and so is a name, or a number.
fn named(value: Value<'_>, text: &mut Vec<u8>) -> Result<Device, Defect> {
    match value {
        Value::Nothing => Err(Defect::Missing(Part::Device)),
        Value::Bytes(bytes) => match (bytes.first_chunk(), bytes.len()) {
            (Some(bytes), Device::LEN) => Ok(Device(*bytes)),
            _ => {
                // fixed lengths are filled with zero bytes
                let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                Ok(Device::from_text(&bytes[..len])?)
            }
        },
        number => {
            text.clear();
            number.append(text);
            Device::from_text(text).map_err(|why: BadDevice| why.into())
        }
    }
}

impl<R: ChunkReader + 'static> Source for Reader<R> {
    fn advance(&mut self) -> Result<bool, Error> {
        Ok(self.next()?)
    }

    fn record(&self) -> Record<'_> {
        Record { time: self.time, device: self.device, data: &self.data }
    }

    fn name(&self, device: Device) -> Option<&str> {
        let name = std::str::from_utf8(&self.long).ok().filter(|_| device == self.device)?;
        let name = name.trim_end_matches('\0');
        is_long(name).then_some(name).filter(|name| Device::named(name) == Ok(device))
    }

    /// As much of the file as rows were read.
    fn position(&self) -> u64 {
        let rows = u64::try_from(self.meta.file_metadata().num_rows()).unwrap_or(0).max(1);
        let share = u128::from(self.file.len()) * u128::from(self.number) / u128::from(rows);
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
