//! `wirebeat archive sort`: an archive in any order as one in the order of time.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use clap::Args as ClapArgs;
use rustix::fs::{Access, access};
use wirebeat_archive::sort::{MEMORY_MIN, Sorter};
use wirebeat_archive::time_series::{Place, Reading, Writer};
use wirebeat_run::Exit;
use wirebeat_units::human::counted;
use wirebeat_units::{Bytes, Fault, fault};

use super::work::archive_from;
use super::{ArchiveOutput, FromTo, ReadArgs, cannot_make, tell_skipped};
use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::tell;

/// Memory to sort in, where nothing else was said.
const MEMORY: &str = "256MiB";

const EXAMPLES: &str = "\
Examples:
  wirebeat archive create raw.wbar --csv by-device.csv --any-order
  wirebeat archive sort raw.wbar day.wbar
  wirebeat archive sort raw.wbar day.wbar --memory 4GiB --temporary /scratch";

/// Put the records of an archive in the order of time
///
/// Records of one moment stay in their order. What does not fit into memory is sorted in parts, in temporary files
/// without a name: they need as much room as the archive, and nothing of them is left.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    files: FromTo,
    /// Memory to sort in, 1MiB at least
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = memory)]
    memory: Bytes,
    /// The folder of temporary files [default: that of the new archive, or TMPDIR for '-']
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    temporary: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArgs,
}

fn memory(text: &str) -> Result<Bytes, Fault> {
    let bytes: Bytes = text.parse().map_err(|why| format!("{why}"))?;
    match bytes.get() < MEMORY_MIN as u64 {
        true => Err(fault!("it is too little to sort in"; "give it 1MiB or more")),
        false => Ok(bytes),
    }
}

fn folder(text: &str) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(text);
    let usable = fs::metadata(&path).and_then(|meta| match meta.is_dir() {
        true => Ok(access(&path, Access::WRITE_OK | Access::EXEC_OK)?),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    match usable {
        Ok(()) => Ok(path),
        Err(error) => Err(fault!(
            "'{text}' has no temporary files: {error}";
            "name a folder that you may write to"
        )),
    }
}

/// Sorts.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let reading = Reading { any_order: true, ..args.reading.reading() };
    let (work, mut archive) = archive_from(&args.files.archive, reading, Place::default())?;
    // what is there already is said before hours of work
    let output = ArchiveOutput::create(&args.files.output)?;
    let folder = args.temporary.clone().unwrap_or_else(|| beside(&args.files.output));
    let memory = usize::try_from(args.memory.get()).unwrap_or(usize::MAX);
    let mut sorter = Sorter::new(memory, &folder, || work.goes_on());
    work.copy(&mut archive, &mut sorter).map_err(|failure| match failure.exit() {
        Exit::Output => failure.hint("name a folder with more room with --temporary"),
        _ => failure,
    })?;
    let mut sorted = sorter.sorted().map_err(|error| cannot_make(&folder, &error))?;
    let mut writer = Writer::new(output.buffered());
    let records = work.copy(&mut sorted, &mut writer)?;
    super::keep(writer, &args.files.output)?;
    tell_skipped(archive.tally(), archive.name());
    tell(&format!("{} written\n", counted(records, "record")));
    Ok(0)
}

/// The folder of a file that is written; that of temporary files for standard output.
fn beside(output: &Path) -> PathBuf {
    match output.parent() {
        _ if is_standard(output) => env::temp_dir(),
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
