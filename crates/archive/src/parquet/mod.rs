//! Parquet: columns of a file as records, and records as columns.
//!
//! | column | type | is |
//! |---|---|---|
//! | `time` | INT64, TIMESTAMP(MICROS, adjusted to UTC) | the moment |
//! | `zone` | INT32 | minutes east of UTC |
//! | `device` | BYTE_ARRAY, STRING | its name, or `0x` and 32 digits: [`crate::time_series::device`] |
//! | `data` | BYTE_ARRAY | the data |
//!
//! None of them is optional. Files of others have other columns, of which some are chosen. What a page may cost in
//! memory is held in [`pages`], what a column is to us stands in [`mod@column`]; [`read`] and [`mod@write`] make records of
//! them and the other way round.

pub mod column;
mod footer;
pub mod pages;
pub mod read;
pub mod write;

pub use read::{ReadError, Reader, Reading};
pub use write::{Packing, TimeOutOfColumn, TimeUnit, Writer};
