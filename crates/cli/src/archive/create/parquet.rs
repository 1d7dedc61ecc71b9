//! An archive from a file of Parquet.

use std::fs::File;
use std::io;
use std::path::Path;

use wirebeat_trace::parquet::{Reader, Reading};

use super::{Args, made, make};
use crate::archive::{cannot_read, name};
use crate::failure::Failure;
use crate::file::is_standard;

/// Creates.
pub fn run(args: &Args, path: &Path) -> Result<u8, Failure> {
    let (file, len) = open(path)?;
    let table = &args.table;
    let reading = Reading {
        columns: table.columns(),
        time: table.time_form,
        zone_min: table.zone,
        on_bad: table.on_bad.unwrap_or_default(),
        any_order: table.any_order,
    };
    let source = Reader::new(file, name(path), reading)
        .map_err(|error| Failure::usage(&error.to_string()))?;
    let mut source = table.records(source);
    let records = make(&mut source, Some(len), &args.output)?;
    made(records, source.source().tally());
    Ok(0)
}

/// Opens a file that is read from its end.
fn open(path: &Path) -> Result<(File, u64), Failure> {
    let no_file = || {
        let why = "Parquet has its table of contents at its end, so it is read from a file alone";
        Failure::usage(why).at(name(path)).hint("write it to a file first")
    };
    if is_standard(path) {
        return Err(no_file());
    }
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (meta, file) = opened.map_err(|error| cannot_read(path, &error))?;
    if meta.is_dir() {
        return Err(cannot_read(path, &io::ErrorKind::IsADirectory.into()));
    }
    if !meta.is_file() {
        return Err(no_file());
    }
    Ok((file, meta.len()))
}
