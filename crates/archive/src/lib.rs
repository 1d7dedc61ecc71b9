//! What can be replayed: archives of time series, read, written and turned into one another.
//!
//! Everything here streams: memory does not grow with a file. A file is input from outside, and whatever its bytes
//! are, the answer is a record or an error that names file, byte and record. This crate knows files and formats;
//! it does not know flows, engines or how anything is sent.
//!
//! Start with [`time_series`], the format, and [`source`], what everything that reads or writes records has in common.

pub mod bad;
pub mod capture;
pub mod columns;
pub mod compressed;
pub mod csv;
pub mod direct;
pub mod forms;
pub mod index;
pub mod merge;
pub mod new_file;
pub mod parquet;
pub mod round;
pub mod select;
pub mod sort;
pub mod source;
pub mod survey;
pub mod synthetic;
pub mod table;
pub mod time_series;

pub use source::{Error, Sink, Source};
