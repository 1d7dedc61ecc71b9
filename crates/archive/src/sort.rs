//! Records in any order as records in the order of time, in bounded memory.
//!
//! What fits into memory is sorted there and written to a nameless file, a *run*; the runs are merged at the end. Equal
//! times stay in the order in which they came. A run has no name, so nothing is left of it however the program ends.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::merge::Merge;
use crate::source::{self, CopyError, Error, Sink, Source};
use crate::time_series::timestamp::Moment;
use crate::time_series::{Device, Names, RECORD_MAX, Reader, Reading, Record, Timestamp, Writer};

/// The least memory to sort in: some of the longest records, and what merging two runs reads ahead.
pub const MEMORY_MIN: usize = 1 << 20;
/// Runs that are merged at once: more files would need more than programs may have open.
const RUNS_MAX: usize = 256;
/// Bytes that are written to a run at once.
const WRITE: usize = 1 << 18;

/// Where a record is in memory, and what it is sorted by.
#[derive(Clone, Copy, Debug)]
struct Entry {
    moment: Moment,
    start: usize,
    time: Timestamp,
    len: usize,
}

/// Takes records in any order.
pub struct Sorter<S> {
    memory: usize,
    folder: PathBuf,
    /// Whether to go on.
    go_on: S,
    data: Vec<u8>,
    entries: Vec<Entry>,
    runs: Vec<File>,
    names: Names,
    /// How many runs were written, those that merge others too.
    written: u64,
}

impl<S: Fn() -> bool> Sorter<S> {
    /// Sorts in so many bytes of memory, [`MEMORY_MIN`] at least, with runs in `folder`. `go_on` is asked now and then.
    pub fn new(memory: usize, folder: &Path, go_on: S) -> Sorter<S> {
        Sorter {
            memory: memory.max(MEMORY_MIN),
            folder: folder.to_owned(),
            go_on,
            data: Vec::new(),
            entries: Vec::new(),
            runs: Vec::new(),
            names: Names::default(),
            written: 0,
        }
    }

    /// How many runs were written to files so far.
    pub fn runs(&self) -> u64 {
        self.written
    }

    /// The most runs that are merged at once: each reads ahead two of the longest records.
    fn runs_max(&self) -> usize {
        (self.memory / (4 * RECORD_MAX)).clamp(2, RUNS_MAX)
    }

    /// What was taken, in the order of time.
    ///
    /// # Errors
    /// What the system says of the files of the runs.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.order();
            let (data, entries) = (self.data, self.entries);
            let parts = SortedParts::Memory { data, entries, next: 0, passed: 0 };
            return Ok(Sorted { parts, names: self.names });
        }
        self.spill()?;
        (self.data, self.entries) = (Vec::new(), Vec::new());
        let parts = SortedParts::Runs(self.merge()?);
        Ok(Sorted { parts, names: self.names })
    }

    /// By time, and equal times as they came.
    fn order(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.moment, entry.start));
    }

    /// Writes what is in memory as a run.
    fn spill(&mut self) -> io::Result<()> {
        self.write_run().map_err(|error| in_folder(&self.folder, error))
    }

    fn write_run(&mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.order();
        let mut run = BufWriter::with_capacity(WRITE, nameless(&self.folder)?);
        for (entry, number) in self.entries.iter().zip(0_u64..) {
            run.write_all(self.data.get(entry.start..entry.start + entry.len).unwrap_or_default())?;
            if number % ASK_EVERY == 0 && !(self.go_on)() {
                return Err(stopped());
            }
        }
        self.runs.push(run.into_inner().map_err(|error| error.into_error())?);
        self.written += 1;
        self.data.clear();
        self.entries.clear();
        if self.runs.len() >= self.runs_max() {
            self.join()?;
        }
        Ok(())
    }

    /// Makes one run of all.
    fn join(&mut self) -> io::Result<()> {
        let mut all = self.merge()?;
        let mut writer = Writer::new(BufWriter::with_capacity(WRITE, nameless(&self.folder)?));
        source::copy(&mut all, &mut writer, |_, _| (self.go_on)()).map_err(
            |error| match error {
                CopyError::Write { source, .. } => source,
                CopyError::Stopped => stopped(),
                CopyError::Read(error) => io::Error::other(error),
            },
        )?;
        let run = writer.finish()?.into_inner().map_err(|error| error.into_error())?;
        self.runs.push(run);
        self.written += 1;
        Ok(())
    }

    /// The runs as one; equal times come in the order of the runs.
    fn merge(&mut self) -> io::Result<Merge<Reader<File>>> {
        let buffer = self.memory / 2 / self.runs.len().max(1);
        let mut readers = Vec::with_capacity(self.runs.len());
        for mut run in self.runs.drain(..) {
            run.seek(SeekFrom::Start(0))?;
            readers.push(Reader::new(run, "a sorted part", Reading::default()).with_buffer(buffer));
        }
        Ok(Merge::new(readers))
    }
}

/// How often it is asked whether to go on, in records.
const ASK_EVERY: u64 = 1 << 14;

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "it was stopped")
}

/// What the system says of a temporary file.
fn in_folder(folder: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        // that is ours
        io::ErrorKind::Interrupted => error,
        kind => {
            io::Error::new(kind, format!("a temporary file in '{}': {error}", folder.display()))
        }
    }
}

/// A file without a name, which is gone when it is closed.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR) => named(folder),
        Err(error) => Err(error.into()),
    }
}

/// The same where the file system does not have such files: the name is there for a moment.
fn named(folder: &Path) -> io::Result<File> {
    for number in 0..1_000 {
        let path = folder.join(format!(".wirebeat-sort-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl<S: Fn() -> bool> Sink for Sorter<S> {
    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let head = record.head().ok_or_else(too_long)?;
        let len = head.len() + record.data.len();
        let used = self.data.len() + len + (self.entries.len() + 1) * size_of::<Entry>();
        // vectors grow to twice their length
        if used > self.memory / 2 {
            self.spill()?;
        }
        let entry =
            Entry { moment: record.time.moment(), start: self.data.len(), time: record.time, len };
        self.data.extend_from_slice(&head);
        self.data.extend_from_slice(record.data);
        self.entries.push(entry);
        Ok(())
    }

    fn name(&mut self, device: Device, name: &str) -> io::Result<()> {
        let told = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        self.names.insert(device, name).map(|_| ()).map_err(told)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records in the order of time.
pub struct Sorted {
    parts: SortedParts,
    names: Names,
}

enum SortedParts {
    /// From memory, where all of them fit: the entry behind the current one, and the bytes of those before it.
    Memory { data: Vec<u8>, entries: Vec<Entry>, next: usize, passed: u64 },
    /// From runs.
    Runs(Merge<Reader<File>>),
}

impl Source for Sorted {
    fn advance(&mut self) -> Result<bool, Error> {
        match &mut self.parts {
            SortedParts::Memory { entries, next, passed, .. } => {
                let entry = entries.get(*next);
                *passed += entry.map_or(0, |entry| entry.len as u64);
                *next += 1;
                Ok(entry.is_some())
            }
            SortedParts::Runs(merge) => merge.advance(),
        }
    }

    fn record(&self) -> Record<'_> {
        let none = Record { time: Timestamp::EPOCH, device: Default::default(), data: &[] };
        match &self.parts {
            SortedParts::Memory { data, entries, next, .. } => {
                let entry = next.checked_sub(1).and_then(|at| entries.get(at));
                let record = entry.and_then(|entry| {
                    let bytes = data.get(entry.start..entry.start + entry.len)?;
                    Record::with(entry.time, bytes)
                });
                record.unwrap_or(none)
            }
            SortedParts::Runs(merge) => merge.record(),
        }
    }

    fn name(&self, device: Device) -> Option<&str> {
        self.names.get(device)
    }

    fn position(&self) -> u64 {
        match &self.parts {
            SortedParts::Memory { passed, .. } => *passed,
            SortedParts::Runs(merge) => merge.position(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn archive(records: &[(i64, u8, usize)]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for &(us, device, len) in records {
            let time = Timestamp::utc(us).unwrap();
            let data: Vec<u8> = (0..len).map(|at| (at as i64 * 31 + us) as u8).collect();
            writer.write(&Record { time, device: Device([device; 16]), data: &data }).unwrap();
        }
        writer.finish().unwrap()
    }

    /// The archive sorted, and how many runs that took.
    fn sorted(bytes: &[u8]) -> (Vec<u8>, u64) {
        let folder = std::env::temp_dir();
        let reading = Reading { any_order: true, ..Reading::default() };
        let mut reader = Reader::new(bytes, "test", reading);
        let mut sorter = Sorter::new(0, &folder, || true);
        source::copy(&mut reader, &mut sorter, |_, _| true).unwrap();
        sorter.spill().map(|()| sorter.runs()).unwrap();
        let runs = sorter.runs();
        let mut writer = Writer::new(Vec::new());
        source::copy(&mut sorter.sorted().unwrap(), &mut writer, |_, _| true).unwrap();
        (writer.finish().unwrap(), runs)
    }

    /// An export that is ordered by device: each device's records one after the other, over the same time.
    #[test]
    fn records_that_are_ordered_by_device_are_sorted_by_time_in_bounded_memory() {
        let mut records: Vec<(i64, u8, usize)> = (0..40_u8)
            .flat_map(|device| (0..500).map(move |n| (n * 10 + i64::from(device % 3), device, 300)))
            .collect();
        let (bytes, runs) = sorted(&archive(&records));
        records.sort_by_key(|record| record.0);
        assert!(bytes == archive(&records));
        // 6.6 MB in half a MiB, of which four are joined at a time
        assert!(runs > 15, "{runs} runs");
    }

    #[test]
    fn what_fits_into_memory_needs_no_files() {
        let folder = Path::new("/nonexistent");
        let bytes = archive(&[(2, 0, 1), (1, 1, 2), (2, 2, 3), (1, 3, 0)]);
        let reading = Reading { any_order: true, ..Reading::default() };
        let mut sorter = Sorter::new(0, folder, || true);
        let mut reader = Reader::new(&bytes[..], "test", reading);
        source::copy(&mut reader, &mut sorter, |_, _| true).unwrap();
        let mut writer = Writer::new(Vec::new());
        source::copy(&mut sorter.sorted().unwrap(), &mut writer, |_, _| true).unwrap();
        let expected = archive(&[(1, 1, 2), (1, 3, 0), (2, 0, 1), (2, 2, 3)]);
        assert_eq!(writer.finish().unwrap(), expected);
        // and what does not says where it wanted them
        let mut sorter = Sorter::new(0, folder, || true);
        let long = archive(&[(0, 0, 60_000); 12]);
        let mut reader = Reader::new(&long[..], "test", Reading::default());
        let told = source::copy(&mut reader, &mut sorter, |_, _| true).unwrap_err().to_string();
        assert!(told.contains("a temporary file in '/nonexistent'"), "{told}");
    }

    #[test]
    fn it_ends_when_it_is_told_to_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("wb-sort-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = archive(&[(0, 0, 60_000); 30]);
        let mut sorter = Sorter::new(0, &folder, || false);
        let mut reader = Reader::new(&bytes[..], "test", Reading::default());
        let told = source::copy(&mut reader, &mut sorter, |_, _| true).unwrap_err().to_string();
        assert!(told.contains("it was stopped"), "{told}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(folder).unwrap();
    }

    proptest! {
        #[test]
        fn any_order_becomes_that_of_time_and_equal_times_stay(
            mut records in proptest::collection::vec((0i64..50, any::<u8>(), 0usize..20_000), 0..80),
        ) {
            let (bytes, _) = sorted(&archive(&records));
            records.sort_by_key(|record| record.0);
            prop_assert!(bytes == archive(&records));
        }
    }
}
