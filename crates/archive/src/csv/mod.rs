//! Comma-separated values: rows of a file as records, and records as rows.
//!
//! A row has a time, a device, and its other columns are data; which is which is said in [`Layout`]. Fields are
//! quoted as RFC 4180 has it, within one line unless more are allowed; lines end in LF, CRLF or CR.
//!
//! | written | as |
//! |---|---|
//! | `time` | ISO 8601 with its zone |
//! | `device` | its name, or `0x` and 32 digits: [`crate::time_series::device`] |
//! | `data_hex`, `data_base64` or `data` | the data in the form that the name says |
//!
//! What is written is read back to the byte, without a word about it: the names of the columns say all. [`rows`]
//! takes fields apart in bounded memory and knows nothing of records; [`read`] and [`mod@write`] know the rest.

mod quotes;
pub mod read;
pub mod rows;
pub mod write;

pub use read::{ColumnNames, Layout, ReadError, Reader, Reading};
pub use write::{NoText, Writer};
