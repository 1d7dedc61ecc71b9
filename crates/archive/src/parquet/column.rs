//! A column, value by value.
//!
//! What its values mean is not known here: they are numbers, bytes, or none.

use parquet::basic::{LogicalType, Type};
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use wirebeat_units::{Fault, fault};

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Nothing,
    /// A whole number.
    Whole(i64),
    /// A whole number of a column without sign, above those of [`Value::Whole`] as well.
    Unsigned(u64),
    /// A number of 32 bits.
    Single(f32),
    /// A number of 64 bits.
    Double(f64),
    /// Yes or no.
    Bool(bool),
    /// Bytes, of text or not.
    Bytes(&'a [u8]),
}

/// A column of a row group.
pub enum ColumnChunk {
    /// Yes or no.
    Bool(Typed<BoolType>),
    /// Whole numbers of 32 bits, with a sign or not.
    Int32(Typed<Int32Type>, bool),
    /// Whole numbers of 64 bits, with a sign or not.
    Int64(Typed<Int64Type>, bool),
    /// Numbers of 32 bits.
    Float(Typed<FloatType>),
    /// Numbers of 64 bits.
    Double(Typed<DoubleType>),
    /// Bytes.
    Bytes(Typed<ByteArrayType>),
    /// Bytes of one length.
    Fixed(Typed<FixedLenByteArrayType>),
}

/// A column of a known type.
pub struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// Some rows: their values, without those that are none, and which are none.
    values: Vec<T::T>,
    levels: Vec<i16>,
    /// The level of a value; 0 where none is optional.
    present: i16,
    row: usize,
    value: usize,
}

impl<T: DataType> Typed<T> {
    fn new(descr: ColumnDescPtr, pages: Box<dyn PageReader>) -> Typed<T> {
        let present = descr.max_def_level();
        let reader = ColumnReaderImpl::<T>::new(descr, pages);
        Typed { reader, values: Vec::new(), levels: Vec::new(), present, row: 0, value: 0 }
    }

    fn fill(&mut self, rows: usize) -> Result<()> {
        (self.row, self.value) = (0, 0);
        self.values.clear();
        self.levels.clear();
        let levels = (self.present > 0).then_some(&mut self.levels);
        let (read, ..) = self.reader.read_records(rows, levels, None, &mut self.values)?;
        match read == rows {
            true => Ok(()),
            false => Err(ParquetError::General("a column ends before its row group".to_owned())),
        }
    }

    #[inline]
    fn advance(&mut self) -> Option<&T::T> {
        if self.present > 0 {
            let level = self.levels.get(self.row);
            self.row += 1;
            if level != Some(&self.present) {
                return None;
            }
        }
        self.value += 1;
        self.values.get(self.value - 1)
    }
}

/// Whether a column can be read at all.
///
/// # Errors
/// Why not.
pub fn check(descr: &ColumnDescriptor) -> std::result::Result<(), Fault> {
    if descr.max_rep_level() > 0 {
        return Err(fault!("it is a list, with several values in a row"; "choose another column"));
    }
    let fixed = descr.physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
    match descr.physical_type() {
        Type::INT96 => Err(fault!(
            "it is INT96, a form of times that is no longer written";
            "write the file anew with TIMESTAMP(MICROS)"
        )),
        _ if fixed && !(1..=i32::from(u16::MAX)).contains(&descr.type_length()) => {
            Err(fault!("its values have an impossible length"; "choose another column"))
        }
        _ if matches!(descr.logical_type_ref(), Some(LogicalType::Decimal(_))) => Err(fault!(
            "it is DECIMAL, whose digits are not read";
            "write it as text or DOUBLE, or choose another column"
        )),
        _ => Ok(()),
    }
}

impl ColumnChunk {
    /// The column that these pages are of.
    ///
    /// # Errors
    /// Where it cannot be read; see [`check`].
    pub fn new(descr: ColumnDescPtr, pages: Box<dyn PageReader>) -> Result<ColumnChunk> {
        check(&descr).map_err(|why| ParquetError::General(why.packed()))?;
        let signed = match descr.logical_type_ref() {
            Some(LogicalType::Integer(int)) => int.is_signed,
            _ => true,
        };
        Ok(match descr.physical_type() {
            Type::BOOLEAN => ColumnChunk::Bool(Typed::new(descr, pages)),
            Type::INT32 => ColumnChunk::Int32(Typed::new(descr, pages), signed),
            Type::INT64 => ColumnChunk::Int64(Typed::new(descr, pages), signed),
            Type::FLOAT => ColumnChunk::Float(Typed::new(descr, pages)),
            Type::DOUBLE => ColumnChunk::Double(Typed::new(descr, pages)),
            Type::BYTE_ARRAY => ColumnChunk::Bytes(Typed::new(descr, pages)),
            Type::FIXED_LEN_BYTE_ARRAY => ColumnChunk::Fixed(Typed::new(descr, pages)),
            Type::INT96 => return Err(ParquetError::General("it is INT96".to_owned())),
        })
    }

    /// Reads so many rows, for [`ColumnChunk::advance`] to go through.
    ///
    /// # Errors
    /// Where the file is broken, or the system refuses.
    pub fn fill(&mut self, rows: usize) -> Result<()> {
        match self {
            ColumnChunk::Bool(column) => column.fill(rows),
            ColumnChunk::Int32(column, _) => column.fill(rows),
            ColumnChunk::Int64(column, _) => column.fill(rows),
            ColumnChunk::Float(column) => column.fill(rows),
            ColumnChunk::Double(column) => column.fill(rows),
            ColumnChunk::Bytes(column) => column.fill(rows),
            ColumnChunk::Fixed(column) => column.fill(rows),
        }
    }

    /// The value of the next row.
    #[inline]
    pub fn advance(&mut self) -> Value<'_> {
        let value = match self {
            ColumnChunk::Bool(column) => column.advance().map(|value| Value::Bool(*value)),
            ColumnChunk::Int32(column, true) => {
                column.advance().map(|value| Value::Whole((*value).into()))
            }
            ColumnChunk::Int32(column, false) => {
                column.advance().map(|value| Value::Unsigned(value.cast_unsigned().into()))
            }
            ColumnChunk::Int64(column, true) => column.advance().map(|value| Value::Whole(*value)),
            ColumnChunk::Int64(column, false) => {
                column.advance().map(|value| Value::Unsigned(value.cast_unsigned()))
            }
            ColumnChunk::Float(column) => column.advance().map(|value| Value::Single(*value)),
            ColumnChunk::Double(column) => column.advance().map(|value| Value::Double(*value)),
            ColumnChunk::Bytes(column) => column.advance().map(|value| Value::Bytes(value.data())),
            ColumnChunk::Fixed(column) => column.advance().map(|value| Value::Bytes(value.data())),
        };
        value.unwrap_or(Value::Nothing)
    }
}

impl Value<'_> {
    /// Appends it as text: numbers in decimal digits, bytes as they are, none as nothing.
    pub fn append(self, text: &mut Vec<u8>) {
        use std::io::Write;
        // writing to memory does not fail
        let _ = match self {
            Value::Nothing => Ok(()),
            Value::Whole(number) => write!(text, "{number}"),
            Value::Unsigned(number) => write!(text, "{number}"),
            Value::Single(number) => write!(text, "{number}"),
            Value::Double(number) => write!(text, "{number}"),
            Value::Bool(yes) => write!(text, "{yes}"),
            Value::Bytes(bytes) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        };
    }
}
