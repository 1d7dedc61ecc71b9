//! The index of an archive: a file beside it, with what is in it and places to begin reading at.
//!
//! It is JSON, in the order of [`Index`]: format, version, fingerprint of the archive, what is in it
//! ([`Survey`]), and a place each 65,536 records or 4 MiB. It is never needed, it only saves time: whoever finds
//! that it does not fit the archive reads the archive. docs/replay.md describes it for other programs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault, into_fault};

use crate::new_file::NewFile;
use crate::survey::{Survey, Surveyor};
use crate::time_series::{Place, ReadError, Reader, Timestamp};

/// What the document says it is.
const FORMAT: &str = "wirebeat archive index";
/// The version of the document.
const VERSION: u32 = 1;
/// How every index begins.
const BEGINNING: &[u8] = br#"{"format":"wirebeat archive index","#;
/// Records from one place to the next, at most.
const RECORDS: u64 = 65_536;
/// Bytes from one place to the next, but for the rest of a record.
const BYTES: u64 = 4 << 20;
/// Bytes at either end of an archive that its fingerprint has.
const ENDS: u64 = 64 << 10;
/// No index is longer: a million devices and the places of 10 TB are less than half of it.
const INDEX_MAX: u64 = 1 << 30;
/// How often it is told how far the work is, in records.
const TELL_EVERY: u64 = 1 << 16;

/// What an archive is recognised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Its length.
    pub bytes: u64,
    /// CRC32C of its first 64 KiB, or of all of it where it is shorter.
    pub crc32c_of_first: u32,
    /// CRC32C of its last 64 KiB, or of all of it where it is shorter.
    pub crc32c_of_last: u32,
}

/// A place to begin reading at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The time of the record there.
    pub time: Timestamp,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    format: String,
    version: u32,
    /// Which archive it is of.
    pub archive: Fingerprint,
    /// What is in the archive.
    pub survey: Survey,
    /// Places in it, in order.
    places: Vec<Mark>,
}

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum IndexError {
    /// The archive is not as it should be.
    #[error(transparent)]
    Archive(#[from] ReadError),
    /// The system refused.
    System {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file of another kind has the name of the index.
    Foreign(PathBuf),
    /// An index that cannot be read.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An index of a later version.
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// An index of another archive, or of this one as it was before.
    Unfit(PathBuf),
    /// The archive grew or shrank while it was read.
    Changed,
    /// It was told to stop.
    Stopped,
}

impl IndexError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            IndexError::Archive(inner) => inner.fault(),
            IndexError::System { path, error } => fault!("{}: {error}", path.display()),
            IndexError::Foreign(it) => {
                fault!(
                    "{}: this is not an index of an archive", it.display();
                    "rename it, or remove it"
                )
            }
            IndexError::Damaged { path, why } => {
                fault!(
                    "{}: it is damaged ({why})", path.display();
                    "write it anew with 'wirebeat archive index'"
                )
            }
            IndexError::Version { path, version } => {
                fault!(
                    "{}: its version is {version}, and this program reads version {VERSION}",
                    path.display();
                    "write it anew with 'wirebeat archive index'"
                )
            }
            IndexError::Unfit(it) => {
                fault!(
                    "{}: the archive was changed after its index was made", it.display();
                    "make it again with 'wirebeat archive index'"
                )
            }
            IndexError::Changed => {
                fault!("the archive changed while it was read"; "index it when it is whole")
            }
            IndexError::Stopped => fault!("it was stopped, and nothing was written"),
        }
    }
}

into_fault!(IndexError);

impl Fingerprint {
    /// That of a file. Where the file is read next does not change.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(file: &File) -> io::Result<Fingerprint> {
        let bytes = file.metadata()?.len();
        let ends = bytes.min(ENDS);
        let mut end = vec![0; ends as usize];
        let mut crc = |from| {
            file.read_exact_at(&mut end, from)?;
            io::Result::Ok(crc32c::crc32c(&end))
        };
        Ok(Fingerprint { bytes, crc32c_of_first: crc(0)?, crc32c_of_last: crc(bytes - ends)? })
    }
}

impl Index {
    /// The name of the index of an archive: that of the archive, and `.index`.
    pub fn path(archive: &Path) -> PathBuf {
        let mut name = OsString::from(archive);
        name.push(".index");
        PathBuf::from(name)
    }

    /// Reads all of an archive, which has this fingerprint. `tell` is told now and then how many records there were
    /// and how far the reading is, and says whether to go on.
    ///
    /// # Errors
    /// What is wrong with the archive; that it changed; or that `tell` said so.
    pub fn make<R: Read>(
        reader: &mut Reader<R>,
        archive: Fingerprint,
        mut tell: impl FnMut(u64, u64) -> bool,
    ) -> Result<Index, IndexError> {
        let mut surveyor = Surveyor::new();
        let mut places: Vec<Mark> = Vec::new();
        let mut next = Place::default();
        while reader.advance()? {
            let (record, place) = (reader.record(), reader.place());
            surveyor.add(&record, place);
            if place.number >= next.number || place.offset >= next.offset {
                places.push(Mark { place, time: record.time });
                next = Place { offset: place.offset + BYTES, number: place.number + RECORDS };
            }
            let tally = reader.tally();
            if tally.records.is_multiple_of(TELL_EVERY) && !tell(tally.records, tally.read()) {
                return Err(IndexError::Stopped);
            }
        }
        let tally = reader.tally();
        if tally.read() != archive.bytes {
            return Err(IndexError::Changed);
        }
        let survey = surveyor.finish_named(tally.bad(), tally.skipped, reader.names());
        Ok(Index { format: FORMAT.to_owned(), version: VERSION, archive, survey, places })
    }

    /// Whether an index may be written under this name: there is nothing yet, or an index.
    ///
    /// # Errors
    /// Where there is something else, or the system refuses to say.
    pub fn may_be_written(path: &Path) -> Result<(), IndexError> {
        let system = |error| IndexError::System { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(system(error)),
            Ok(meta) if !meta.is_file() => return Err(IndexError::Foreign(path.to_owned())),
            Ok(_) => {}
        }
        let mut beginning = Vec::with_capacity(BEGINNING.len());
        let file = File::open(path).map_err(system)?;
        file.take(BEGINNING.len() as u64).read_to_end(&mut beginning).map_err(system)?;
        match beginning == BEGINNING {
            true => Ok(()),
            false => Err(IndexError::Foreign(path.to_owned())),
        }
    }

    /// Writes it; one that was there before is replaced.
    ///
    /// # Errors
    /// Where something else has that name, or the system refuses.
    pub fn write(&self, path: &Path) -> Result<(), IndexError> {
        Index::may_be_written(path)?;
        let written = || -> io::Result<()> {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = BufWriter::new(NewFile::create(path)?);
            serde_json::to_writer(&mut file, self)?;
            file.write_all(b"\n")?;
            file.into_inner().map_err(|error| error.into_error())?.keep()
        };
        written().map_err(|error| IndexError::System { path: path.to_owned(), error })
    }

    /// Reads the index in `path`, of the archive with this fingerprint; `None` where there is none.
    ///
    /// # Errors
    /// Where it is not an index, is damaged, or does not fit.
    pub fn read(path: &Path, archive: Fingerprint) -> Result<Option<Index>, IndexError> {
        #[derive(Deserialize)]
        struct IndexHead {
            version: u32,
        }
        let system = |error| IndexError::System { path: path.to_owned(), error };
        let damaged = |why: String| IndexError::Damaged { path: path.to_owned(), why };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(system(error)),
            Ok(meta) if meta.len() > INDEX_MAX => {
                return Err(damaged(format!("it has {} bytes", meta.len())));
            }
            Ok(_) => {}
        }
        Index::may_be_written(path)?;
        let open = || File::open(path).map(|file| BufReader::new(file.take(INDEX_MAX)));
        let index: Index = match serde_json::from_reader(open().map_err(system)?) {
            Ok(index) => index,
            Err(error) => {
                let head = serde_json::from_reader(open().map_err(system)?);
                return Err(match head {
                    Ok(IndexHead { version }) if version != VERSION => {
                        IndexError::Version { path: path.to_owned(), version }
                    }
                    _ => damaged(error.to_string()),
                });
            }
        };
        if index.version != VERSION {
            return Err(IndexError::Version { path: path.to_owned(), version: index.version });
        }
        if index.archive != archive {
            return Err(IndexError::Unfit(path.to_owned()));
        }
        let before = |a: &Mark, b: &Mark| {
            a.place.offset < b.place.offset
                && a.place.number < b.place.number
                && a.time.moment() <= b.time.moment()
        };
        let within = index.places.last().is_none_or(|last| last.place.offset < archive.bytes);
        if !within || !index.places.is_sorted_by(before) {
            return Err(damaged("its places are not in order".to_owned()));
        }
        Ok(Some(index))
    }

    /// Where to begin reading so that no record at or after `time` is missed: the last place that is known to have
    /// none before it.
    pub fn seek(&self, time: Timestamp) -> Place {
        // records at the same moment may stand before a place of that moment
        self.last(|mark| mark.time.moment() < time.moment())
    }

    /// Where to begin reading to come to record `number`: the last place that is not behind it.
    pub fn seek_number(&self, number: u64) -> Place {
        self.last(|mark| mark.place.number <= number)
    }

    /// Whether the archive has at `place`, which [`Index::seek`] gave, the record that the index says: a change in the
    /// middle of either shows here.
    pub fn holds(&self, place: Place, archive: &File) -> bool {
        let mark = self.places.binary_search_by_key(&place.offset, |mark| mark.place.offset);
        let Some(mark) = mark.ok().and_then(|at| self.places.get(at)) else {
            return place == Place::default();
        };
        let mut time = [0; Timestamp::LEN];
        // behind the length
        let read = archive.read_exact_at(&mut time, place.offset + 2);
        read.is_ok() && Timestamp::unpack(&time) == Ok(mark.time)
    }

    fn last(&self, is_before: impl Fn(&Mark) -> bool) -> Place {
        let behind = self.places.partition_point(is_before);
        let mark = behind.checked_sub(1).and_then(|last| self.places.get(last));
        mark.map_or(Place::default(), |mark| mark.place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time_series::{Device, Reading, Record, Writer};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let folder =
                std::env::temp_dir().join(format!("wb-index-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Scratch(folder)
        }

        /// An archive of 200,000 records, three of them each microsecond.
        fn archive(&self) -> PathBuf {
            let path = self.0.join("a.wbar");
            let mut writer = Writer::new(BufWriter::new(File::create(&path).unwrap()));
            for number in 0..200_000_i64 {
                let time = Timestamp::utc(number / 3).unwrap();
                let device = Device([(number % 7) as u8; 16]);
                writer.write(&Record { time, device, data: &number.to_be_bytes() }).unwrap();
            }
            writer.finish().unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn print(archive: &Path) -> Fingerprint {
        Fingerprint::of(&File::open(archive).unwrap()).unwrap()
    }

    fn made(archive: &Path) -> Index {
        let file = File::open(archive).unwrap();
        let print = Fingerprint::of(&file).unwrap();
        let mut reader = Reader::new(file, "test", Reading::default());
        Index::make(&mut reader, print, |_, _| true).unwrap()
    }

    #[test]
    fn it_is_written_and_read_and_replaced() {
        let scratch = Scratch::new("round");
        let archive = scratch.archive();
        let path = Index::path(&archive);
        assert_eq!(path, scratch.0.join("a.wbar.index"));
        assert_eq!(Index::read(&path, print(&archive)).unwrap(), None);
        let index = made(&archive);
        for _ in 0..2 {
            index.write(&path).unwrap();
            assert_eq!(Index::read(&path, print(&archive)).unwrap(), Some(index.clone()));
        }
        assert_eq!(index.survey.records, 200_000);
        assert_eq!(index.survey.devices.listed.len(), 7);
        assert!(index.places.len() > 2, "{}", index.places.len());
    }

    #[test]
    fn every_record_is_found_from_where_it_says() {
        let scratch = Scratch::new("seek");
        let index = made(&scratch.archive());
        for number in [0, 1, 65_535, 65_536, 65_537, 131_072, 199_999, u64::MAX] {
            let place = index.seek_number(number);
            assert!(place.number <= number);
            assert!(number.min(199_999) - place.number < RECORDS);
            assert_eq!(place.offset, place.number * 38);
        }
        for us in [-1, 0, 1, 21_845, 21_846, 43_690, 43_691, 66_666, 1_000_000] {
            let place = index.seek(Timestamp::utc(us).unwrap());
            let first = (us.clamp(0, 66_667) * 3) as u64;
            assert!(place.number <= first, "{us}: {place}");
            assert!(first - place.number <= RECORDS, "{us}: {place}");
        }
    }

    #[test]
    fn a_change_in_the_middle_shows_where_it_matters() {
        let scratch = Scratch::new("middle");
        let archive = scratch.archive();
        let index = made(&archive);
        let place = index.seek_number(70_000);
        let other = index.seek_number(199_999);
        assert!(place.number == 65_536 && other.number > place.number);
        let holds = |place| index.holds(place, &File::open(&archive).unwrap());
        assert!(holds(place) && holds(other) && holds(Place::default()));
        let mut bytes = fs::read(&archive).unwrap();
        bytes[place.offset as usize + 2 + 9] ^= 1;
        fs::write(&archive, &bytes).unwrap();
        assert!(Index::read(&Index::path(&archive), print(&archive)).is_ok());
        assert!(!holds(place) && holds(other));
        assert!(!holds(Place { offset: 7, number: 0 }));
    }

    #[test]
    fn one_that_does_not_fit_is_refused() {
        let scratch = Scratch::new("unfit");
        let archive = scratch.archive();
        let path = Index::path(&archive);
        made(&archive).write(&path).unwrap();
        let whole = fs::read(&archive).unwrap();
        let mut changed = whole.clone();
        changed[35] ^= 1;
        let mut end = whole.clone();
        *end.last_mut().unwrap() ^= 1;
        for other in [&whole[..whole.len() - 38], &changed, &end, &[]] {
            fs::write(&archive, other).unwrap();
            let error = Index::read(&path, print(&archive)).unwrap_err();
            assert!(matches!(error, IndexError::Unfit(_)), "{error}");
        }
        let print = print(&archive);
        for (text, kind) in [
            ("notes", "this is not an index of an archive; rename it"),
            (r#"{"format":"wirebeat archive index","version":1}"#, "it is damaged (missing field"),
            (r#"{"format":"wirebeat archive index","version":9}"#, "its version is 9"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Index::read(&path, print).unwrap_err().to_string();
            assert!(error.contains(kind), "{error}");
        }
        fs::write(&path, "notes").unwrap();
        let empty = made(&archive);
        assert!(matches!(empty.write(&path), Err(IndexError::Foreign(_))));
        assert_eq!(fs::read(&path).unwrap(), b"notes");
    }

    #[test]
    fn an_archive_that_changes_meanwhile_or_is_bad_has_no_index() {
        let scratch = Scratch::new("bad");
        let archive = scratch.archive();
        let print = print(&archive);
        let bytes = fs::read(&archive).unwrap();
        let index = |bytes: &[u8]| {
            Index::make(&mut Reader::new(bytes, "test", Reading::default()), print, |_, _| true)
        };
        assert!(matches!(index(&bytes[38..]), Err(IndexError::Changed)));
        assert!(matches!(index(&bytes[1..]), Err(IndexError::Archive(_))));
        let mut reader = Reader::new(&bytes[..], "test", Reading::default());
        let stopped = Index::make(&mut reader, print, |_, _| false);
        assert!(matches!(stopped, Err(IndexError::Stopped)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Where one is taken, its places lie in the archive.
        #[test]
        fn any_damage_is_read_or_refused(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let scratch = Scratch::new("damage");
            let archive = scratch.0.join("a.wbar");
            let mut writer = Writer::new(Vec::new());
            for us in 0..70_000 {
                let time = Timestamp::utc(us).unwrap();
                writer.write(&Record { time, device: Device::default(), data: &[] }).unwrap();
            }
            fs::write(&archive, writer.finish().unwrap()).unwrap();
            let path = Index::path(&archive);
            made(&archive).write(&path).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            fs::write(&path, &bytes).unwrap();
            if let Ok(Some(index)) = Index::read(&path, print(&archive)) {
                for us in [-1, 0, 65_536, 65_537, 80_000] {
                    let place = index.seek(Timestamp::utc(us).unwrap());
                    prop_assert!(place.offset < 70_000 * 30);
                }
            }
        }
    }
}
