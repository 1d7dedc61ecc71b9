//! Work that reads an archive: a bar on a terminal, a signal that ends it, and the index beside the archive.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use wirebeat_archive::index::{Fingerprint, Index};
use wirebeat_archive::source::{self, CopyError};
use wirebeat_archive::time_series::{Place, ReadError, Reader, Reading};
use wirebeat_archive::{Error, Sink, Source};
use wirebeat_archive::{capture, csv};
use wirebeat_run::Stop;
use wirebeat_units::Fault;

use super::WorkBar;
use crate::failure::{Cause, Failure};
use crate::file::is_standard;
use crate::output::tell;
use crate::signals::Signals;

/// Said in every place that a signal can end.
const STOPPED: &str = "it was stopped, and nothing was written";

/// What reads until its end, or until a signal.
pub struct Work {
    bar: WorkBar,
    stop: Stop,
}

/// Bytes on their way, of which the work knows.
pub struct Watched {
    from: Box<dyn Read>,
    bar: WorkBar,
    stop: Stop,
    at: u64,
}

impl Work {
    /// Begins, with so many bytes to read where that is known.
    pub fn begin(bytes: Option<u64>) -> Result<Work, Failure> {
        let signals = Signals::watch()?;
        let stop = signals.running().clone();
        Ok(Work { bar: WorkBar::new(bytes), stop })
    }

    /// Bytes that move the bar, and end with an error at a signal.
    pub fn watch(&self, from: Box<dyn Read>) -> Watched {
        Watched { from, bar: self.bar.clone(), stop: self.stop.clone(), at: 0 }
    }

    /// Shows how far it is; says whether to go on.
    pub fn at(&self, records: u64, position: u64) -> bool {
        self.bar.at(records, position);
        !self.stop.asked()
    }

    /// Whether no signal came.
    pub fn goes_on(&self) -> bool {
        !self.stop.asked()
    }

    /// Takes all records of a source to a sink.
    pub fn copy(&self, source: &mut dyn Source, sink: &mut dyn Sink) -> Result<u64, Failure> {
        let copied = source::copy(source, sink, |records, position| self.at(records, position));
        self.end();
        copied.map_err(|error| match &error {
            // a record that the format has no place for
            CopyError::Write { source, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                self.wrong(error.fault())
            }
            CopyError::Write { .. } if !self.goes_on() => self.wrong(STOPPED),
            CopyError::Write { source, .. } => super::not_written(error.fault(), source),
            CopyError::Read(read) if is_system(read) => self.refused(error.fault()),
            CopyError::Read(_) => self.bad(error.fault()),
            CopyError::Stopped => self.wrong(error.fault()),
        })
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.clear();
    }

    /// Why an archive was not read to its end.
    pub fn failure(&self, error: &ReadError) -> Failure {
        match error {
            ReadError::System { .. } => self.refused(error.fault()),
            ReadError::Bad { .. } => self.bad(error.fault()),
        }
    }

    /// What is wrong with the input.
    fn bad(&self, fault: impl Into<Fault>) -> Failure {
        self.wrong(fault).hint("--on-bad skip leaves out what is wrong, and counts it")
    }

    /// Why the system did not read on, unless it was a signal.
    fn refused(&self, fault: impl Into<Fault>) -> Failure {
        if self.stop.asked() { self.wrong(fault) } else { Failure::machine(fault) }
    }

    /// Why the work was not done, unless it was a signal.
    pub fn wrong(&self, fault: impl Into<Fault>) -> Failure {
        self.end();
        match self.stop.asked() {
            true => Failure::new(Cause::Stopped, STOPPED),
            false => Failure::usage(fault),
        }
    }
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.asked() {
            return Err(io::Error::other(STOPPED));
        }
        let count = self.from.read(into)?;
        self.at += count as u64;
        self.bar.moved(self.at);
        Ok(count)
    }
}

/// Whether it was the system that did not read on.
fn is_system(error: &Error) -> bool {
    matches!(
        error,
        Error::Archive(ReadError::System { .. })
            | Error::Capture(capture::ReadError::System { .. })
    ) || matches!(
        error,
        // what is packed and damaged is a file that is wrong
        Error::Csv(csv::ReadError::System { source, .. }) if source.kind() != io::ErrorKind::InvalidData
    )
}

/// The index beside an archive, where there is one that fits. One that does not is told of, and not used.
pub fn index_of(archive: &Path) -> Option<Index> {
    if is_standard(archive) {
        return None;
    }
    // a pipe that is opened here and closed again would end whoever writes to it
    fs::metadata(archive).ok().filter(Metadata::is_file)?;
    let file = File::open(archive).ok()?;
    let print = Fingerprint::of(&file).ok()?;
    Index::read(&Index::path(archive), print).unwrap_or_else(|error| {
        tell(&format!("note: the index is not used: {error}\n"));
        None
    })
}

/// Whether the archive has at `place` what its index says; told where not.
pub fn holds(index: &Index, place: Place, archive: &Path) -> bool {
    let holds = File::open(archive).is_ok_and(|file| index.holds(place, &file));
    if !holds {
        tell(
            "note: the index is not used: the archive was changed after its index was made; make it again with 'wirebeat archive index'\n",
        );
    }
    holds
}

/// An archive from `place` on.
pub fn archive_from(
    path: &Path,
    reading: Reading,
    place: Place,
) -> Result<(Work, Reader<Watched>), Failure> {
    let mut input = super::open(path)?;
    if place.offset > 0 {
        let failed = |error: io::Error| {
            Failure::machine(format!("cannot read it: {error}")).at(path.display().to_string())
        };
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
        input.from = Box::new(file);
    }
    let work = Work::begin(input.len.map(|len| len.saturating_sub(place.offset)))?;
    let reader = Reader::new(work.watch(input.from), super::name(path), reading).at(place);
    Ok((work, reader))
}
