//! Writing records as columns, a row group at a time.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{self, Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use wirebeat_units::{Fault, fault, into_fault};

use crate::source::Sink;
use crate::time_series::{Device, Names, Record, Timestamp};

/// Rows of a row group, and bytes of their data: what comes first ends it.
const GROUP_ROWS: usize = 1 << 16;
const GROUP_BYTES: usize = 16 << 20;

/// How columns are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// With Zstandard: smaller.
    #[default]
    Zstd,
    /// With Snappy: what every reader has.
    Snappy,
    /// Not at all.
    None,
}

/// What the numbers of the column of times count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Microseconds: all times of archives without nanoseconds.
    #[default]
    Micros,
    /// Nanoseconds: 1677-09-21 to 2262-04-11.
    Nanos,
}

/// A time that has no place in the column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum TimeOutOfColumn {
    /// Finer than the column is.
    Fine(Timestamp),
    /// Before or after what 64 bits of nanoseconds hold.
    Far(Timestamp),
}

impl TimeOutOfColumn {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            TimeOutOfColumn::Fine(it) => {
                fault!("its time {it} has nanoseconds"; "write them with --time-unit ns")
            }
            TimeOutOfColumn::Far(it) => {
                fault!(
                    "its time {it} has no place in nanoseconds of Parquet, 1677 to 2262";
                    "write microseconds, or CSV"
                )
            }
        }
    }
}

into_fault!(TimeOutOfColumn);

/// Writes records as columns.
pub struct Writer<W: Write + Send> {
    unit: TimeUnit,
    /// None once it is ended.
    to: Option<SerializedFileWriter<W>>,
    /// The row group that is filled.
    times: Vec<i64>,
    zones: Vec<i32>,
    devices: Vec<ByteArray>,
    names: HashMap<Device, ByteArray>,
    long: Names,
    data: Vec<u8>,
    ends: Vec<usize>,
}

fn schema(unit: TimeUnit) -> Result<Type, ParquetError> {
    let column = |name: &str, physical, logical| {
        let column = Type::primitive_type_builder(name, physical);
        let column = column.with_repetition(Repetition::REQUIRED).with_logical_type(logical);
        column.build().map(Arc::new)
    };
    let time = LogicalType::timestamp(
        true,
        match unit {
            TimeUnit::Micros => basic::TimeUnit::MICROS,
            TimeUnit::Nanos => basic::TimeUnit::NANOS,
        },
    );
    let columns = vec![
        column("time", Physical::INT64, Some(time))?,
        column("zone", Physical::INT32, None)?,
        column("device", Physical::BYTE_ARRAY, Some(LogicalType::String))?,
        column("data", Physical::BYTE_ARRAY, None)?,
    ];
    Type::group_type_builder("archive").with_fields(columns).build()
}

fn properties(packing: Packing) -> Result<WriterProperties, ParquetError> {
    let compression = match packing {
        Packing::Zstd => Compression::ZSTD(ZstdLevel::try_new(3)?),
        Packing::Snappy => Compression::SNAPPY,
        Packing::None => Compression::UNCOMPRESSED,
    };
    let data = ColumnPath::from("data");
    let properties = WriterProperties::builder()
        .set_created_by(concat!("wirebeat ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // what is opaque has no order that anybody asks for, and rarely repeats
        .set_column_statistics_enabled(data.clone(), EnabledStatistics::None)
        .set_column_dictionary_enabled(data, false);
    Ok(properties.build())
}

/// Parquet's errors, those of the system among them, as the system's.
fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> Writer<W> {
    /// Into `to`, from its beginning, with times in microseconds.
    ///
    /// # Errors
    /// What `to` says.
    pub fn new(to: W, packing: Packing) -> io::Result<Writer<W>> {
        Writer::with_unit(to, packing, TimeUnit::Micros)
    }

    /// Into `to`, from its beginning, with times in this unit.
    ///
    /// # Errors
    /// What `to` says.
    pub fn with_unit(to: W, packing: Packing, unit: TimeUnit) -> io::Result<Writer<W>> {
        let schema = schema(unit).map_err(other)?;
        let properties = properties(packing).map_err(other)?;
        let to = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties));
        Ok(Writer {
            unit,
            to: Some(to.map_err(other)?),
            times: Vec::new(),
            zones: Vec::new(),
            devices: Vec::new(),
            names: HashMap::new(),
            long: Names::default(),
            data: Vec::new(),
            ends: Vec::new(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Err(ended()) };
        if self.times.is_empty() {
            return Ok(());
        }
        // the values share these bytes
        let all = ByteArray::from(std::mem::take(&mut self.data));
        let starts = std::iter::once(&0).chain(&self.ends);
        let data: Vec<ByteArray> =
            starts.zip(&self.ends).map(|(start, end)| all.slice(*start, end - start)).collect();
        let mut group = to.next_row_group().map_err(other)?;
        column::<Int64Type, W>(&mut group, &self.times)?;
        column::<Int32Type, W>(&mut group, &self.zones)?;
        column::<ByteArrayType, W>(&mut group, &self.devices)?;
        column::<ByteArrayType, W>(&mut group, &data)?;
        group.close().map_err(other)?;
        self.times.clear();
        self.zones.clear();
        self.devices.clear();
        self.names.clear();
        self.ends.clear();
        Ok(())
    }

    /// Ends the file: what it was written to.
    ///
    /// # Errors
    /// What that says.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.to.take().ok_or_else(ended)?.into_inner().map_err(other)
    }
}

fn ended() -> io::Error {
    io::Error::other("the file is ended already")
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> io::Result<()> {
    let missing = || io::Error::other("the schema has too few columns");
    let mut column = group.next_column().map_err(other)?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None).map_err(other)?;
    column.close().map_err(other)
}

impl<W: Write + Send> Sink for Writer<W> {
    /// # Errors
    /// What it writes to says; and [`TimeOutOfColumn`], as an error of the kind `InvalidInput`, before anything of the record is
    /// taken.
    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let time = record.time;
        let number = match self.unit {
            TimeUnit::Micros if time.is_fine() => Err(TimeOutOfColumn::Fine(time)),
            TimeUnit::Micros => Ok(time.unix_us()),
            TimeUnit::Nanos => {
                i64::try_from(time.unix_ns()).map_err(|_| TimeOutOfColumn::Far(time))
            }
        };
        self.times.push(number.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?);
        self.zones.push(record.time.zone_min().into());
        let name = self.names.entry(record.device);
        let text = || match self.long.get(record.device) {
            Some(name) => name.to_owned(),
            None => record.device.to_string(),
        };
        let name = name.or_insert_with(|| text().into_bytes().into());
        self.devices.push(name.clone());
        self.data.extend_from_slice(record.data);
        self.ends.push(self.data.len());
        if self.times.len() >= GROUP_ROWS || self.data.len() >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn name(&mut self, device: Device, name: &str) -> io::Result<()> {
        let told = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        self.long.insert(device, name).map(|_| ()).map_err(told)
    }

    /// Writes the last row group; [`Writer::finish`] ends the file.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}
