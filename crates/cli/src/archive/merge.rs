//! `wirebeat archive merge`: several archives as one, in the order of time.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wirebeat_archive::merge::{Merge, buffer};
use wirebeat_archive::time_series::{Reader, Writer};
use wirebeat_units::fault;
use wirebeat_units::human::counted;

use super::{ArchiveOutput, ReadArgs, copy, name, open, tell_skipped};
use crate::failure::Failure;
use crate::file::is_standard;
use crate::output::tell;

const EXAMPLES: &str = "\
Examples:
  wirebeat archive merge all.wbar north.wbar south.wbar
  wirebeat archive merge 2015.wbar 2015-*.wbar";

/// Files that the program has open besides the archives, at most.
const OTHERS: u64 = 32;

/// Put archives together, in the order of time
///
/// Each archive has to be in the order of time itself. Records of one moment come in the order in which the
/// archives are given.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Where they are written; '-' writes to standard output
    #[arg(value_name = "NEW")]
    output: PathBuf,
    /// The archives; '-' reads standard input
    #[arg(value_name = "ARCHIVE", required = true)]
    archives: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadArgs,
}

/// Merges.
pub fn run(args: &Args) -> Result<u8, Failure> {
    if args.archives.iter().filter(|path| is_standard(path)).count() > 1 {
        return Err(Failure::usage(fault!("standard input is named twice"; "name it once")).at("-"));
    }
    make_room(args.archives.len() as u64)?;
    let inputs = args.archives.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let bytes = inputs.iter().map(|input| input.len).sum();
    let readers = args
        .archives
        .iter()
        .zip(inputs)
        .map(|(path, input)| {
            let reader = Reader::new(input.from, name(path), args.reading.reading());
            reader.with_buffer(buffer(args.archives.len()))
        })
        .collect();
    let mut merge = Merge::new(readers);
    let mut writer = Writer::new(ArchiveOutput::create(&args.output)?.buffered());
    let records = copy(&mut merge, &mut writer, bytes)?;
    super::keep(writer, &args.output)?;
    for reader in merge.sources() {
        tell_skipped(reader.tally(), reader.name());
    }
    let archives = counted(args.archives.len() as u64, "archive");
    tell(&format!("{} written, of {archives}\n", counted(records, "record")));
    Ok(0)
}

/// Sees to it that so many archives can be open at once.
fn make_room(archives: u64) -> Result<(), Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let need = archives + OTHERS;
    if current.is_none_or(|current| current >= need) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|maximum| *maximum < need) {
        let message = fault!(
            "{archives} archives are more files than this program may have open at once \
             ({maximum})";
            "raise the limit with 'ulimit -n', or merge some of them first"
        );
        return Err(Failure::machine(message));
    }
    let more = Rlimit { current: Some(need), maximum };
    setrlimit(Resource::Nofile, more).map_err(|error| {
        let message = format!("cannot have {need} files open at once: {error}");
        Failure::machine(&message).hint("merge some of the archives first")
    })
}
