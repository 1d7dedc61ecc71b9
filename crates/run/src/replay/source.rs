//! The archives of a recording as one source: opened as it was asked, begun where an index says, merged by time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use wirebeat_archive::direct::Direct;
use wirebeat_archive::index::{Fingerprint, Index};
use wirebeat_archive::merge::{self, Merge};
use wirebeat_archive::select::{Selected, Selection};
use wirebeat_archive::time_series::{self, Defect, Device, Names, Place, Reader, Reading, Record};
use wirebeat_archive::{Error, Source};
use wirebeat_engine_linux::mapped_file::MappedFile;
use wirebeat_report::model::LeftOut;
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::replay::{OnBad, ReaderChoice};
use wirebeat_units::{Fault, fault};

use super::ahead::ReadAhead;
use crate::regular;

/// An archive up to this length is looked through for its longest record: a quarter of a second.
pub(super) const SCANNED: u64 = 256 << 20;

type Archive = Selected<Reader<Box<dyn Read + Send>>>;

/// Some archives.
pub(super) enum Archives {
    One(Box<Archive>),
    Several(Merge<Archive>),
}

impl Archives {
    /// Opens them. What an index is not used for is told with `note`.
    pub(super) fn open(
        paths: &[impl AsRef<Path>],
        replay: &Replay,
        selection: &Selection,
        mut note: impl FnMut(String),
    ) -> Result<Archives, Fault> {
        let buffer = merge::buffer(paths.len());
        let mut archives = Vec::with_capacity(paths.len());
        for (number, path) in paths.iter().enumerate() {
            let how = (replay.reader, number < replay.readers.into());
            archives.push(open(path.as_ref(), replay, how, selection, buffer, &mut note)?);
        }
        Ok(match archives.pop() {
            Some(only) if archives.is_empty() => Archives::One(Box::new(only)),
            last => Archives::Several(Merge::new(archives.into_iter().chain(last).collect())),
        })
    }

    fn each(&self) -> &[Archive] {
        match self {
            Archives::One(archive) => std::slice::from_ref(archive.as_ref()),
            Archives::Several(merge) => merge.sources(),
        }
    }

    /// The file and the place of the record that was read last; of several files the one is not known that it is from.
    pub(super) fn place(&self) -> String {
        match self.each() {
            [only] => format!("{}: {}", only.source().name(), only.source().place()),
            several => format!("one of {} archives", several.len()),
        }
    }

    /// The names of devices that are longer than 16 bytes, as far as they were read.
    pub(super) fn names(&self) -> impl Iterator<Item = (Device, &str)> {
        self.each().iter().flat_map(|archive| archive.source().names().iter())
    }

    /// What was skipped because it is not a record, by kind.
    pub(super) fn skipped(&self) -> Vec<LeftOut> {
        let mut all = Vec::new();
        for reader in self.each().iter().map(Selected::source) {
            let kinds = reader.tally().bad.iter().zip(Defect::KINDS);
            for (bad, kind) in kinds {
                let Some(first) = bad.first else { continue };
                let first = format!("{}: {}: {}", reader.name(), first.place, first.defect);
                let (count, records, bytes) = (bad.places, bad.records, bad.bytes);
                all.push(LeftOut { kind: kind.to_owned(), count, records, bytes, first });
            }
        }
        all
    }
}

impl Source for Archives {
    #[inline]
    fn advance(&mut self) -> Result<bool, Error> {
        match self {
            Archives::One(archive) => archive.advance(),
            Archives::Several(merge) => merge.advance(),
        }
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        match self {
            Archives::One(archive) => archive.record(),
            Archives::Several(merge) => merge.record(),
        }
    }

    fn name(&self, device: Device) -> Option<&str> {
        self.each().iter().find_map(|archive| archive.name(device))
    }

    fn position(&self) -> u64 {
        match self {
            Archives::One(archive) => archive.position(),
            Archives::Several(merge) => merge.position(),
        }
    }
}

/// What readers do about what is bad.
pub(super) fn on_bad(replay: &Replay) -> time_series::OnBad {
    match replay.on_bad {
        OnBad::Stop => time_series::OnBad::Stop,
        OnBad::Skip => time_series::OnBad::Skip,
    }
}

fn open(
    path: &Path,
    replay: &Replay,
    how: (ReaderChoice, bool),
    selection: &Selection,
    buffer: usize,
    note: &mut impl FnMut(String),
) -> Result<Archive, Fault> {
    let on_bad = on_bad(replay);
    let (mut begin, mut names) = (Place::default(), Names::default());
    if let Some(from) = selection.from {
        let told = |error: io::Error| fault!("the archive '{}': {error}", path.display());
        let file = File::open(path).map_err(told)?;
        match index(path, &file) {
            // what an index leaves out has to be told, or to stop the reading
            Ok(Some(index)) if index.survey.bad == 0 || replay.on_bad == OnBad::Skip => {
                let place = index.seek(from);
                match index.holds(place, &file) {
                    // those of what is not read
                    true => (begin, names) = (place, index.survey.devices.names()),
                    false => note(format!(
                        "the index of '{}' does not fit it; all of it was read",
                        path.display()
                    )),
                }
            }
            Ok(_) => {}
            Err(why) => note(format!("{why}; all of '{}' was read", path.display())),
        }
    }
    let file = file("archive", path, how, begin.offset)?;
    let reading = Reading { on_bad, ..Reading::default() };
    let name = path.display().to_string();
    let reader = Reader::new(file, name, reading).with_buffer(buffer).with_names(names).at(begin);
    Ok(Selected::new(reader, selection.clone(), true))
}

/// A file that is read as it was asked, from `offset` on. `what` it is called in messages.
pub(super) fn file(
    what: &str,
    path: &Path,
    (how, ahead): (ReaderChoice, bool),
    offset: u64,
) -> Result<Box<dyn Read + Send>, Fault> {
    let told = |error: io::Error| fault!("the {what} '{}': {error}", path.display());
    if let Some(why) = regular::refusal(&std::fs::metadata(path).map_err(told)?) {
        return Err(why.at(format!("the {what} '{}'", path.display())));
    }
    let file: Box<dyn Read + Send> = match how {
        ReaderChoice::Buffered => {
            let mut file = File::open(path).map_err(told)?;
            file.seek(SeekFrom::Start(offset)).map_err(told)?;
            Box::new(file)
        }
        ReaderChoice::Mmap => Box::new(MappedFile::open(path, offset).map_err(told)?),
        ReaderChoice::Direct => {
            Box::new(Direct::open(path, offset).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => fault!(
                    "the {what} '{}': its file system cannot be read past the cache",
                    path.display();
                    "leave 'reader' out"
                ),
                _ => told(error),
            })?)
        }
    };
    Ok(if ahead { Box::new(ReadAhead::of(file).map_err(told)?) } else { file })
}

/// The index beside an archive, if there is one that fits.
pub(super) fn index(path: &Path, archive: &File) -> Result<Option<Index>, Fault> {
    let fingerprint = Fingerprint::of(archive).map_err(|error| Fault::from(error.to_string()))?;
    Index::read(&Index::path(path), fingerprint).map_err(|error| error.fault())
}

/// What is known of an archive before it is sent.
#[derive(Debug, Default)]
pub(crate) struct ArchiveFacts {
    /// The length of the longest data.
    pub(crate) longest: Option<u32>,
    /// Its devices, where somebody asked for them.
    pub(crate) devices: Option<HashSet<Device>>,
}

/// Looks into an archive: by its index, or where it is read in a moment; of others nothing is known.
pub(crate) fn look_into(path: &Path, devices: bool) -> Result<ArchiveFacts, Fault> {
    let told = |error: Fault| error.at(format!("the archive '{}'", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| told(error.to_string().into()))?;
    if let Some(why) = regular::refusal(&metadata) {
        return Err(told(why));
    }
    let file = File::open(path).map_err(|error| told(error.to_string().into()))?;
    // one that does not fit says nothing here
    if let Ok(Some(Index { survey, .. })) = index(path, &file) {
        let longest = survey.data.map_or(0, |data| data.max as u32);
        // what it does not list are more than anybody counts
        let listed = || survey.devices.listed.iter().map(|of| of.device).collect();
        return Ok(ArchiveFacts { longest: Some(longest), devices: devices.then(listed) });
    }
    if metadata.len() > SCANNED {
        return Ok(ArchiveFacts::default());
    }
    // What is wrong with it is told when it is sent.
    let reading =
        Reading { on_bad: time_series::OnBad::Skip, any_order: true, ..Reading::default() };
    let mut reader = Reader::new(file, path.display().to_string(), reading);
    let (mut longest, mut seen) = (0, devices.then(HashSet::new));
    while let Ok(Some(record)) = reader.read() {
        longest = longest.max(record.data.len() as u32);
        if let Some(seen) = &mut seen {
            seen.insert(record.device);
        }
    }
    Ok(ArchiveFacts { longest: Some(longest), devices: seen })
}
