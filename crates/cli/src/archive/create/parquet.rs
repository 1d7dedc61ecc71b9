//! An archive from a file of Parquet.

use std::fs::File;
use std::io;
use std::path::Path;

use wirebeat_archive::parquet::{Reader, Reading};

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
    let source =
        Reader::new(file, name(path), reading).map_err(|error| Failure::usage(error.fault()))?;
    let mut source = table.records(source);
    let records =
        make(&mut source, Some(len), &args.output, |source| Some(source.source().tally()))?;
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
    if path.is_dir() {
        return Err(cannot_read(path, &io::ErrorKind::IsADirectory.into()));
    }
    let failed = |error: io::Error| cannot_read(path, &error);
    let file = wirebeat_run::open_regular(path).map_err(failed)?.ok_or_else(no_file)?;
    let len = file.metadata().map_err(failed)?.len();
    Ok((file, len))
}
