//! What a user asks for, checked before anything is opened, and the sink that does it.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use wirebeat_units::{Bytes, Fault, FrameLen, Nanos, fault};
use wirebeat_wire::filter::Filter;

use super::destination::{Destination, Pipe, WriteError};
use super::encoder::{Comments, Encoder, FRAME_MAX, Fcs, FileFormat};
use super::pack::Packer;
use super::pcap::Pcap;
use super::pcapng::{Origin, Pcapng, PcapngOptions};
use super::series::{Naming, Series, SeriesOptions};
use super::writer::{BUFFER, ChosenFrames, Limits, Parts, Rotation, Writer};
use crate::OpenError;
use crate::choice::{Around, Choice};
use crate::seen::Opening;
use crate::selection::Selection;
use crate::sink::Sink;

/// The least snap length: an Ethernet header.
const SNAP_LEAST: u32 = 14;
/// Bytes of each frame that a filter gets to see, where the snap length is shorter: every header there is, mostly.
const FILTER_REACH: u32 = 256;
/// The most frames around one that is selected; those before it wait in memory.
const AROUND_MAX: u32 = 4096;
/// The smallest file and the shortest time of a series.
const ROTATE_LEAST: Bytes = Bytes::new(64 << 10);
const ROTATE_SHORTEST: Nanos = Nanos::from_millis(100);

/// What a user asks of a capture. [`Default`] has a name for no file, and keeps all of every frame for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The file; `-` is standard output. With rotation each file has its number and time in the name.
    pub file: PathBuf,
    /// The format; `None`: by the ending of the file, and pcapng where that says nothing.
    pub format: Option<FileFormat>,
    /// Whether it is compressed with Zstandard; `None`: by the ending of the file.
    pub compress: Option<bool>,
    /// The most bytes of a frame that are kept, without FCS.
    pub snap_len: Option<u32>,
    /// Keeps frames that this filter means, in the syntax of pcap-filter(7).
    pub filter: Option<String>,
    /// Keeps frames that this selection means (`flow == voip and delay > 1ms`).
    pub only: Option<String>,
    /// Frames before each one that is selected.
    pub before: u32,
    /// Frames after each one that is selected.
    pub after: u32,
    /// Ends after so many frames.
    pub count: Option<u64>,
    /// Ends after so many bytes in all files.
    pub size: Option<Bytes>,
    /// Ends after this time.
    pub duration: Option<Nanos>,
    /// Begins another file before one has more bytes than this.
    pub rotate_size: Option<Bytes>,
    /// Begins another file after this time.
    pub rotate_time: Option<Nanos>,
    /// Begins another file after so many frames.
    pub rotate_count: Option<u64>,
    /// Keeps so many files of a series, and removes the oldest.
    pub files: Option<u32>,
    /// The frame check sequence.
    pub fcs: Fcs,
    /// Which frames have a comment; `None`: those that are odd, where the format has comments.
    pub comments: Option<Comments>,
    /// Keeps frames too that were to be sent and did not leave; a selection that names `failed` or `expired` does so by itself.
    pub unsent: bool,
    /// Writes over a file that is there; of a link, over the file that it leads to.
    pub overwrite: bool,
    /// How a user asks for that, in the words of a hint where a file is there: "--overwrite". `None`: there is no way.
    pub overwrite_by: Option<&'static str>,
}

/// Opens a capture: what is wrong with it is found now, not with the first frame.
///
/// # Errors
/// Invalid options, a flow that is not there, a file that is there already or cannot be made.
pub fn open(options: &CaptureOptions, opening: &Opening) -> Result<Box<dyn Sink>, OpenError> {
    options.check()?;
    // before a file is made that nobody fills
    options.choice(opening)?;
    let destination = options.destination()?;
    options.sink(destination, BUFFER, opening)
}

impl CaptureOptions {
    /// Looks whether the options are valid and go together, without touching any file.
    ///
    /// # Errors
    /// The first that is not, with what would help.
    pub fn check(&self) -> Result<(), Fault> {
        self.check_file()?;
        self.check_limits()?;
        self.check_series()?;
        self.check_frames()
    }

    /// Looks whether the flows and ports that the selection names are there.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check_names(&self, opening: &Opening) -> Result<(), Fault> {
        self.choice(opening).map(drop)
    }

    /// Whether the selection asks for one-way delays, which are known where the clocks of both ends are related.
    pub fn selects_by_delay(&self) -> bool {
        self.selection().is_ok_and(|only| only.is_some_and(|only| only.names_delay()))
    }

    /// How many bytes of each frame have to come to the sink for what is asked; 0: all. More than the snap length, where a
    /// filter looks at more, and so many that the shortest frames are whole: one that has fewer bytes than the shortest of IEEE
    /// 802.3 is one of a virtual cable, and was not cut short.
    pub fn wanted_len(&self) -> u32 {
        match (self.snap_len, &self.filter) {
            (None, _) => 0,
            (Some(snap), None) => snap.max(FrameLen::MIN.buffer().into()),
            (Some(snap), Some(_)) => snap.max(FILTER_REACH),
        }
    }

    /// Whether it goes to standard output, where then nothing else may be written.
    pub fn is_standard_output(&self) -> bool {
        self.file == Path::new("-")
    }

    /// The format that is written.
    pub fn file_format(&self) -> FileFormat {
        self.format.unwrap_or_else(|| match self.ending() {
            ".pcap" | ".pcap.zst" => FileFormat::Pcap,
            _ => FileFormat::Pcapng,
        })
    }

    fn compresses(&self) -> bool {
        self.compress.unwrap_or_else(|| self.ending().ends_with(".zst"))
    }

    fn rotates(&self) -> bool {
        self.rotate_size.is_some() || self.rotate_time.is_some() || self.rotate_count.is_some()
    }

    /// The last one or two endings of the file, where they say something.
    fn ending(&self) -> &'static str {
        const KNOWN: [&str; 13] = [
            ".pcapng.zst",
            ".pcap.zst",
            ".zst",
            ".pcapng",
            ".pcap",
            ".gz",
            ".bz2",
            ".xz",
            ".lz4",
            ".parquet",
            ".csv",
            ".json",
            ".txt",
        ];
        let name = self.file.file_name().unwrap_or_default().as_encoded_bytes();
        KNOWN.into_iter().find(|ending| name.ends_with(ending.as_bytes())).unwrap_or("")
    }

    fn check_file(&self) -> Result<(), Fault> {
        let shown = self.file.display();
        if self.file.file_name().is_none() {
            return Err(
                fault!("'{shown}' does not name a file"; "write for example out.pcapng, or - for standard output"),
            );
        }
        match (self.ending(), self.format) {
            (ending @ (".gz" | ".bz2" | ".xz" | ".lz4"), _) => Err(fault!(
                "a capture is not compressed as '{ending}'";
                "write .pcapng.zst for Zstandard, or .pcapng"
            )),
            (ending @ (".parquet" | ".csv" | ".json" | ".txt"), None) => Err(fault!(
                "'{ending}' is not a format of capture files";
                "write .pcapng or .pcap; rows for each packet are the packet log's"
            )),
            _ => Ok(()),
        }
    }

    fn check_limits(&self) -> Result<(), Fault> {
        let zero =
            |what: &str| Err(fault!("{what} of 0 keeps nothing"; "leave it out for no limit"));
        match () {
            () if self.count == Some(0) => zero("a count"),
            () if self.size == Some(Bytes::new(0)) => zero("a size"),
            () if self.duration == Some(Nanos::ZERO) => zero("a duration"),
            () => Ok(()),
        }
    }

    fn check_series(&self) -> Result<(), Fault> {
        if let Some(size) = self.rotate_size.filter(|size| *size < ROTATE_LEAST) {
            return Err(fault!("files of {size} are too small"; "write {ROTATE_LEAST} or more"));
        }
        if let Some(time) = self.rotate_time.filter(|time| *time < ROTATE_SHORTEST) {
            return Err(fault!("files of {time} are too short"; "write {ROTATE_SHORTEST} or more"));
        }
        if self.rotate_count == Some(0) {
            return Err(fault!("files of 0 frames hold nothing"; "write a count of frames"));
        }
        if self.files == Some(0) {
            return Err(fault!("0 files hold nothing"; "leave it out to keep all"));
        }
        if self.files.is_some() && !self.rotates() {
            return Err(fault!(
                "a number of files needs to be told when another begins";
                "give a size, a time or a count of frames of each file"
            ));
        }
        if self.rotates() && self.is_standard_output() {
            return Err(fault!(
                "standard output is one file";
                "name a file for a series of them, or leave out when another begins"
            ));
        }
        Ok(())
    }

    pub(super) fn check_frames(&self) -> Result<(), Fault> {
        if let Some(snap) = self.snap_len
            && !(SNAP_LEAST as usize..=FRAME_MAX).contains(&(snap as usize))
        {
            return Err(fault!(
                "a snap length of {snap} bytes is not possible";
                "write {SNAP_LEAST} to {FRAME_MAX}, or leave it out to keep whole frames"
            ));
        }
        let has_comments = self.comments.is_some_and(|comments| comments != Comments::None);
        if has_comments && self.file_format() != FileFormat::Pcapng {
            return Err(fault!("pcap has no comments"; "write pcapng, or no comments"));
        }
        let around = self.before.max(self.after);
        if around > AROUND_MAX {
            return Err(fault!(
                "{around} frames around each one that is selected are too many";
                "write {AROUND_MAX} at most"
            ));
        }
        if around != 0 && self.only.is_none() {
            return Err(fault!(
                "frames before and after need a selection";
                "say around which ones, for example only 'lost-before'"
            ));
        }
        self.parsed_filter()?;
        self.selection().map(drop)
    }

    fn parsed_filter(&self) -> Result<Option<Filter>, Fault> {
        let filter = self.filter.as_deref().filter(|text| !text.trim().is_empty());
        filter.map(Filter::new).transpose().map_err(|error| error.fault().at("filter"))
    }

    fn selection(&self) -> Result<Option<Selection>, Fault> {
        let selection = self.only.as_deref().map(Selection::new);
        selection.transpose().map_err(|error| error.fault().at("selection"))
    }

    fn choice(&self, opening: &Opening) -> Result<Choice, Fault> {
        let bound = self.selection()?.map(|selection| selection.bind(opening)).transpose();
        let bound = bound.map_err(|error| error.fault().at("selection"))?;
        let around = Around { before: self.before, after: self.after };
        Ok(Choice::new(self.parsed_filter()?, bound, around))
    }

    fn destination(&self) -> Result<Destination, Fault> {
        if self.is_standard_output() {
            return Pipe::standard_output().map(Destination::Pipe);
        }
        let path = self.file.as_path();
        let shown = path.display();
        let found = match self.rotates() {
            true => None,
            false => fs::metadata(path).ok().map(|found| found.file_type()),
        };
        match found {
            Some(found) if found.is_dir() => Err(
                fault!("'{shown}' is a folder"; "name a file in it, for example {shown}/out.pcapng"),
            ),
            Some(found) if found.is_block_device() => {
                Err(fault!("'{shown}' is a disk, which would be lost"; "name a file on it"))
            }
            Some(found) if !found.is_file() => Pipe::open(path).map(Destination::Pipe),
            _ => {
                let naming = if self.rotates() { Naming::Numbered } else { Naming::Single };
                let most = self.files.unwrap_or(0) as usize;
                let options = SeriesOptions { naming, overwrite: self.overwrite, most };
                Ok(Destination::Files(Series::new(path, options)))
            }
        }
    }

    /// A sink that writes there, and collects so many bytes before.
    pub(super) fn sink(
        &self,
        destination: Destination,
        buffer: usize,
        opening: &Opening,
    ) -> Result<Box<dyn Sink>, OpenError> {
        let choice = self.choice(opening)?;
        let told = |error: io::Error| {
            let fault = WriteError::fault_of(&error);
            let way = self.overwrite_by.filter(|_| error.kind() == io::ErrorKind::AlreadyExists);
            let fault = way
                .into_iter()
                .fold(fault, |fault, way| fault.and_hint(format!("write over it with {way}")));
            OpenError::of(fault, error.kind())
        };
        let packer = self.compresses().then(Packer::new).transpose().map_err(told)?;
        let parts = Parts {
            encoder: self.encoder(opening),
            destination,
            packer,
            limits: Limits {
                frames: self.count.unwrap_or(0),
                bytes: self.size.map_or(0, Bytes::get),
                duration_ns: self.duration.map_or(0, Nanos::get),
            },
            rotation: Rotation {
                bytes: self.rotate_size.map_or(0, Bytes::get),
                duration_ns: self.rotate_time.map_or(0, Nanos::get),
                frames: self.rotate_count.unwrap_or(0),
                files: self.files.unwrap_or(0) as usize,
            },
            buffer,
            snap_len: self.snap_len.unwrap_or(0) as usize,
            fcs: self.fcs,
            unsent: self.unsent || self.selection()?.is_some_and(|only| only.names_unsent()),
        };
        let writer = Writer::open(parts, opening).map_err(told)?;
        Ok(Box::new(ChosenFrames { choice, writer }))
    }

    fn encoder(&self, opening: &Opening) -> Encoder {
        let snap_len = self.snap_len.unwrap_or(0) as usize;
        match self.file_format() {
            FileFormat::Pcapng => {
                let options = PcapngOptions {
                    origin: origin(),
                    filter: self.filter.clone(),
                    comments: self.comments.unwrap_or_default(),
                    fcs: self.fcs,
                    snap_len,
                };
                Encoder::Pcapng(Pcapng::new(opening, options))
            }
            format => Encoder::Pcap(Pcap { micros: format == FileFormat::PcapMicros, snap_len }),
        }
    }
}

/// This machine and this program.
fn origin() -> Origin {
    let system = rustix::system::uname();
    let part = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Origin {
        hardware: model
            .map_or_else(|| part(system.machine()), |(_, model)| model.trim().to_owned()),
        os: format!("{} {}", part(system.sysname()), part(system.release())),
        program: format!("Wirebeat {}", env!("CARGO_PKG_VERSION")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(file: &str) -> CaptureOptions {
        CaptureOptions { file: file.into(), ..CaptureOptions::default() }
    }

    #[test]
    fn the_ending_says_the_format() {
        for (file, format, packed) in [
            ("a.pcapng", FileFormat::Pcapng, false),
            ("a.pcap", FileFormat::Pcap, false),
            ("a.b.pcapng.zst", FileFormat::Pcapng, true),
            ("a.pcap.zst", FileFormat::Pcap, true),
            ("a.zst", FileFormat::Pcapng, true),
            ("a", FileFormat::Pcapng, false),
            ("-", FileFormat::Pcapng, false),
        ] {
            let options = options(file);
            assert_eq!((options.file_format(), options.compresses()), (format, packed), "{file}");
            options.check().unwrap();
        }
        let chosen = CaptureOptions {
            format: Some(FileFormat::PcapMicros),
            compress: Some(false),
            ..options("a.pcapng.zst")
        };
        assert_eq!((chosen.file_format(), chosen.compresses()), (FileFormat::PcapMicros, false));
    }

    #[test]
    fn invalid_options_are_told_with_a_remedy() {
        let a = || options("a.pcapng");
        let size = |bytes| Some(Bytes::new(bytes));
        for (options, what, hint) in [
            (options(""), "does not name a file", "out.pcapng"),
            (options("a/.."), "does not name a file", "out.pcapng"),
            (options("a.pcap.gz"), "compressed as '.gz'", ".pcapng.zst"),
            (options("a.parquet"), "'.parquet' is not a format", "packet log"),
            (CaptureOptions { count: Some(0), ..a() }, "a count of 0", "leave it out"),
            (CaptureOptions { size: size(0), ..a() }, "a size of 0", "leave it out"),
            (CaptureOptions { duration: Some(Nanos::ZERO), ..a() }, "a duration of 0", "leave"),
            (CaptureOptions { rotate_size: size(1000), ..a() }, "1kB are too small", "64KiB"),
            (
                CaptureOptions { rotate_time: Some(Nanos::from_millis(5)), ..a() },
                "5ms are too short",
                "100ms",
            ),
            (CaptureOptions { rotate_count: Some(0), ..a() }, "files of 0 frames", "a count"),
            (CaptureOptions { files: Some(3), ..a() }, "when another begins", "a size"),
            (
                CaptureOptions { files: Some(0), rotate_count: Some(9), ..a() },
                "0 files",
                "leave it out",
            ),
            (
                CaptureOptions { rotate_count: Some(9), ..options("-") },
                "is one file",
                "name a file",
            ),
            (CaptureOptions { snap_len: Some(13), ..a() }, "snap length of 13", "write 14 to"),
            (
                CaptureOptions { comments: Some(Comments::All), ..options("a.pcap") },
                "pcap has no comments",
                "write pcapng",
            ),
            (CaptureOptions { before: 5, ..a() }, "need a selection", "lost-before"),
            (
                CaptureOptions { after: 5000, only: Some("odd".into()), ..a() },
                "5000 frames",
                "4096 at most",
            ),
            (
                CaptureOptions { filter: Some("tcp port http".into()), ..a() },
                "filter: at character 10: 'http' is not a port",
                "not looked up",
            ),
            (
                CaptureOptions { only: Some("delay >".into()), ..a() },
                "selection: at character 8: the selection ends",
                "1.5ms",
            ),
        ] {
            let fault = options.check().unwrap_err();
            assert!(fault.what.contains(what), "{fault}");
            assert!(fault.hint.as_deref().unwrap_or_default().contains(hint), "{fault}");
        }
    }

    #[test]
    fn a_filter_gets_to_see_headers_behind_the_snap_length() {
        let snap = CaptureOptions { snap_len: Some(34), ..options("a") };
        assert_eq!((options("a").wanted_len(), snap.wanted_len()), (0, 60));
        assert_eq!(CaptureOptions { filter: Some("udp".into()), ..snap }.wanted_len(), 256);
    }
}
