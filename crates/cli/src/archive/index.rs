//! `wirebeat archive index`: what is in an archive and places in it, in a file beside it.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_archive::index::{Fingerprint, Index, IndexError};
use wirebeat_archive::time_series::{Place, ReadError};
use wirebeat_units::fault;
use wirebeat_units::human::counted;

use super::work::archive_from;
use super::{ReadArgs, cannot_read, tell_skipped};
use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::tell;

/// Write what is in an archive beside it, so that it is found at once
///
/// Writes ARCHIVE.index, which 'inspect', 'slice' and 'replay' use from then on; an index that was there is
/// replaced. One that no longer fits its archive is recognised, and not used.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The archive
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    #[command(flatten)]
    reading: ReadArgs,
}

/// Indexes.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let at = args.archive.display().to_string();
    let failed =
        |error: io::Error| Failure::usage(format!("cannot read it: {error}")).at(at.clone());
    let kind = || fs::metadata(&args.archive).map(|meta| meta.file_type()).map_err(failed);
    if !is_standard(&args.archive) && kind()?.is_dir() {
        return Err(cannot_read(&args.archive, &io::ErrorKind::IsADirectory.into()));
    }
    if is_standard(&args.archive) || !kind()?.is_file() {
        return Err(
            Failure::usage(fault!("an index stands beside a file"; "name a file")).at(at.clone())
        );
    }
    let file = File::open(&args.archive).map_err(failed)?;
    let (work, mut reader) = archive_from(&args.archive, args.reading.reading(), Place::default())?;
    let path = Index::path(&args.archive);
    let wrong = |error: IndexError| match &error {
        IndexError::Archive(error @ ReadError::System { .. }) => work.failure(error),
        IndexError::System { .. } => Failure::machine(error.fault()),
        _ => work.wrong(error.fault()),
    };
    // said before hours of work
    Index::may_be_written(&path).map_err(wrong)?;
    let archive = Fingerprint::of(&file).map_err(failed)?;
    let made = Index::make(&mut reader, archive, |records, position| work.at(records, position));
    work.end();
    let index = made.map_err(wrong)?;
    index.write(&path).map_err(|error| match &error {
        IndexError::System { .. } => Failure::output(error.fault()),
        _ => wrong(error),
    })?;
    tell_skipped(reader.tally(), reader.name());
    tell(&format!("{}: {}\n", path.display(), counted(index.survey.records, "record")));
    Ok(0)
}
