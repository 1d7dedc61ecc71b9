//! The contents of the files that a scenario names. Whoever calls the compiler reads them; here they are
//! plain data.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};

use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use wirebeat_units::{Fault, Nanos, fault};

use super::recorded_session::{RecordedSession, RecordedSessions};
use crate::scenario::header::Header;
use crate::scenario::header::payload::Payload;
use crate::scenario::header::raw::Raw;
use crate::scenario::size::{Length, MAX_LENGTHS, Of, Size};
use crate::scenario::{FlowSpec, KeyPath, Replay, Scenario, SessionSpec, Shared};

/// Files by the name that the scenario gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    read: HashMap<String, Arc<File>>,
    /// Of archives and captures that are replayed: the length of the longest data or frame in them.
    recordings: HashMap<String, u32>,
    /// By the name of a flow: how many of its devices or sub-flows are counted each by itself.
    members: HashMap<String, u32>,
    /// By the name of a capture.
    sessions: HashMap<String, Arc<RecordedSessions>>,
}

/// A file, and what was read out of it so far: flows and their phases ask for the same again and again.
#[derive(Clone, Debug, Default)]
struct File {
    content: Vec<u8>,
    lengths: OnceLock<Result<RecordedLengths, Fault>>,
    trace: OnceLock<Result<(RecordedLengths, RecordedGaps), Fault>>,
    captured_lengths: OnceLock<Result<RecordedLengths, Fault>>,
    captured_gaps: OnceLock<Result<RecordedGaps, Fault>>,
    captured: OnceLock<CapturedFrames>,
}

type RecordedLengths = Shared<Vec<Length>>;
/// In nanoseconds.
type RecordedGaps = Arc<[u64]>;

/// Where the frames of a capture lie in it, and their bytes; and what ends it before its end.
#[derive(Clone, Debug)]
struct CapturedFrames {
    frames: Vec<(usize, usize)>,
    broken: Option<Fault>,
}

impl PartialEq for File {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Eq for File {}

impl Files {
    /// The longest file, in bytes.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Adds one.
    pub fn insert(&mut self, name: String, content: Vec<u8>) {
        self.read.insert(name, Arc::new(File { content, ..File::default() }));
    }

    /// Says of an archive how long the longest data of a record in it is, or of a capture the longest frame.
    pub fn insert_recording(&mut self, name: String, longest: u32) {
        self.recordings.insert(name, longest);
    }

    /// Says of a flow how many of its devices or sub-flows are to be counted and measured each by itself; 0 unless
    /// this is said.
    pub fn insert_members(&mut self, flow: String, count: u32) {
        self.members.insert(flow, count);
    }

    /// Says which sessions a capture has, and what is said in those that the scenario names.
    pub fn insert_sessions(&mut self, capture: String, sessions: RecordedSessions) {
        self.sessions.insert(capture, Arc::new(sessions));
    }

    /// Whether the sessions of this capture are here.
    pub fn holds_sessions(&self, capture: &str) -> bool {
        self.sessions.contains_key(capture)
    }

    /// The sessions of captures that `scenario` says again: for each capture their numbers, `None` for the only one.
    pub fn sessions_named_in(scenario: &Scenario) -> BTreeMap<&str, BTreeSet<Option<NonZeroU64>>> {
        let mut all = BTreeMap::<&str, BTreeSet<_>>::new();
        for capture in scenario.sessions.values().filter_map(|spec| spec.program.capture()) {
            all.entry(&capture.file).or_default().insert(capture.session);
        }
        all
    }

    /// A session of a capture, or its only one.
    pub(super) fn recorded_session(
        &self,
        capture: &str,
        number: Option<NonZeroU64>,
    ) -> Result<&RecordedSession, Fault> {
        let sessions = self.sessions.get(capture);
        let sessions = sessions
            .ok_or_else(|| fault!("the sessions of the capture '{capture}' were not read"))?;
        sessions.get(capture, number)
    }

    pub(super) fn members(&self, flow: &str) -> u32 {
        self.members.get(flow).copied().unwrap_or(0)
    }

    /// The longest data that is replayed, where that is known.
    pub(super) fn longest_record(&self, replay: &Replay) -> Option<u32> {
        let longest = replay.names().iter().map(|name| self.recordings.get(name).copied());
        longest.collect::<Option<Vec<u32>>>()?.into_iter().max()
    }

    /// Whether one of this name is here.
    pub fn holds(&self, name: &str) -> bool {
        self.read.contains_key(name)
    }

    /// The first key of `scenario` that names the file `name`.
    pub fn place_of(scenario: &Scenario, name: &str) -> KeyPath {
        let named = |(flow, spec): (&String, &FlowSpec)| place(KeyPath::flow(flow), spec, name);
        let of_sessions = |(group, spec): (&String, &SessionSpec)| {
            let here = |key| KeyPath::root("sessions").key(group).key(key);
            let captured = spec.program.capture().is_some_and(|capture| capture.file == name);
            if captured || spec.program.files().contains(&name) {
                return Some(here("program"));
            }
            let of_tls = spec.tls.iter().flat_map(|tls| tls.files());
            if let Some((key, _)) = of_tls.into_iter().find(|(_, file)| *file == name) {
                return Some(here("tls").key(key));
            }
            (spec.departures.file() == Some(name)).then(|| here("departures"))
        };
        let found = scenario.flows.iter().find_map(named);
        let found = found.or_else(|| scenario.sessions.iter().find_map(of_sessions));
        found.unwrap_or_else(|| KeyPath::root("flows"))
    }

    /// The names of all files that `scenario` needs.
    pub fn named_in(scenario: &Scenario) -> BTreeSet<&str> {
        let of_starts = scenario.sessions.values().filter_map(|spec| spec.departures.file());
        let sent = scenario.sessions.values().flat_map(|spec| spec.program.files());
        let of_tls = scenario.sessions.values().filter_map(|spec| spec.tls.as_ref());
        let of_tls = of_tls.flat_map(|tls| tls.files().map(|(_, file)| file));
        scenario.flows.values().flat_map(names).chain(of_starts).chain(sent).chain(of_tls).collect()
    }

    fn file(&self, name: &str) -> Result<&File, Fault> {
        let file = self.read.get(name).map(Arc::as_ref);
        file.ok_or_else(|| fault!("the file '{name}' was not read"))
    }

    /// A file's content.
    pub(super) fn bytes(&self, name: &str) -> Result<&[u8], Fault> {
        self.file(name).map(|file| file.content.as_slice())
    }

    /// The lengths in a text file: one in each line, `#` begins a comment.
    pub(super) fn lengths(&self, name: &str) -> Result<RecordedLengths, Fault> {
        let file = self.file(name)?;
        let read = || lines(name, &file.content, |line| line.parse()).map(Shared::from);
        file.lengths.get_or_init(read).clone()
    }

    /// Frame `number` of a capture, from 1, without FCS.
    pub(super) fn frame(&self, name: &str, number: u64) -> Result<Vec<u8>, Fault> {
        let file = self.file(name)?;
        let CapturedFrames { frames, broken } =
            file.captured.get_or_init(|| captured(name, &file.content));
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let place = place.and_then(|place| frames.get(place));
        match (place, broken) {
            (Some(&(at, len)), _) => {
                Ok(file.content.get(at..at + len).unwrap_or_default().to_vec())
            }
            (None, Some(broken)) => Err(broken.clone()),
            (None, None) => Err(fault!(
                "'{name}' has {} frames, and number {number} is not among them",
                frames.len()
            )),
        }
    }

    /// The lengths of all frames of a capture.
    pub(super) fn frame_lengths(&self, name: &str) -> Result<RecordedLengths, Fault> {
        let file = self.file(name)?;
        let read = || {
            let mut lengths = Vec::new();
            each_frame(name, &file.content, |frame| {
                lengths.push(frame.length());
                lengths.len() <= MAX_LENGTHS
            })?;
            bounded(name, lengths).map(Shared::from)
        };
        file.captured_lengths.get_or_init(read).clone()
    }

    /// The lengths of a trace: of a capture, or of a text with a length and a time in each line.
    pub(super) fn trace_lengths(&self, name: &str) -> Result<RecordedLengths, Fault> {
        match is_capture(self.bytes(name)?) {
            true => self.frame_lengths(name),
            false => self.trace(name).map(|(lengths, _)| lengths),
        }
    }

    /// The times from each frame of a trace to the next, in nanoseconds. After the last of a capture comes
    /// the mean of the others.
    pub(super) fn gaps(&self, name: &str) -> Result<RecordedGaps, Fault> {
        let file = self.file(name)?;
        match is_capture(&file.content) {
            true => file.captured_gaps.get_or_init(|| captured_gaps(name, &file.content)).clone(),
            false => self.trace(name).map(|(_, gaps)| gaps),
        }
    }

    /// A length and the time until the next frame in each line.
    fn trace(&self, name: &str) -> Result<(RecordedLengths, RecordedGaps), Fault> {
        let file = self.file(name)?;
        let read = || {
            let lines = lines(name, &file.content, |line| {
                let (length, time) = line
                    .split_once(char::is_whitespace)
                    .ok_or("a line has a length and the time until the next frame: 64B 10us")?;
                let time: Nanos = time.trim().parse().map_err(|error| format!("{error}"))?;
                Ok((length.parse::<Length>()?, time.get()))
            })?;
            let (lengths, gaps): (Vec<Length>, Vec<u64>) = lines.into_iter().unzip();
            Ok((lengths.into(), gaps.into()))
        };
        file.trace.get_or_init(read).clone()
    }
}

/// What the lines of a text say, but for comments and empty ones.
fn lines<T>(
    name: &str,
    content: &[u8],
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let text = std::str::from_utf8(content)
        .map_err(|_| format!("'{name}' is neither a text nor a capture"))?;
    let mut values = Vec::new();
    for (line, number) in text.lines().zip(1u64..) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        values.push(read(line).map_err(|why| format!("{name}:{number}: {why}"))?);
        if values.len() > MAX_LENGTHS {
            break;
        }
    }
    bounded(name, values)
}

/// The times between the frames of a capture.
fn captured_gaps(name: &str, content: &[u8]) -> Result<RecordedGaps, Fault> {
    let mut times = Vec::new();
    let mut timeless = false;
    each_frame(name, content, |frame| {
        times.extend(frame.time);
        timeless |= frame.time.is_none();
        times.len() <= MAX_LENGTHS && !timeless
    })?;
    if timeless {
        return Err(fault!(
            "'{name}' has frames without a time (simple packet blocks), and so does not say \
             when they leave";
            "take its lengths alone, with 'size: {{ capture: … }}'"
        ));
    }
    let times = bounded(name, times)?;
    // A capture of several interfaces may go back a little.
    let mut gaps = Vec::with_capacity(times.len());
    let mut sum = 0;
    for (before, after) in times.iter().zip(times.iter().skip(1)) {
        let gap = after.saturating_sub(*before);
        gaps.push(u64::try_from(gap).map_err(
            |_| fault!("two frames in '{name}' are centuries apart"; "mend its times, or cut it"),
        )?);
        sum += gap;
    }
    // The mean of numbers of 64 bits.
    gaps.push((sum / (gaps.len() as u128).max(1)) as u64);
    Ok(gaps.into())
}

/// Where the frames of a capture lie.
fn captured(name: &str, content: &[u8]) -> CapturedFrames {
    let mut frames = Vec::new();
    let read = each_frame(name, content, |frame| {
        let at = (frame.bytes.as_ptr() as usize).saturating_sub(content.as_ptr() as usize);
        frames.push((at, frame.bytes.len()));
        true
    });
    CapturedFrames { frames, broken: read.err() }
}

/// Gives each frame of a capture to `sink`, until that has enough.
fn each_frame(
    name: &str,
    content: &[u8],
    mut sink: impl FnMut(&Frame<'_>) -> bool,
) -> Result<(), Fault> {
    let broken = |error: &dyn std::fmt::Display| fault!("'{name}' is not a capture: {error}");
    if !is_capture(content) {
        return Err(broken(&"it begins neither as pcap nor as pcapng does"));
    }
    if content.starts_with(&PCAPNG) {
        let (mut rest, mut parser) = PcapNgParser::new(content).map_err(|e| broken(&e))?;
        while !rest.is_empty() {
            let (behind, block) = parser.next_block(rest).map_err(|e| broken(&e))?;
            rest = behind;
            let (data, len, time) = match block {
                Block::EnhancedPacket(packet) => {
                    let interface = parser.interfaces().get(packet.interface_id as usize);
                    let interface = interface.ok_or("a frame is of an interface that is not there");
                    let resolution = resolution(&interface.map_err(|why| broken(&why))?.options);
                    // The reader takes every unit for a nanosecond.
                    let time = packet.timestamp.as_nanos() * 1_000_000_000 / resolution;
                    (packet.data, packet.original_len, Some(time))
                }
                Block::SimplePacket(packet) => (packet.data, packet.original_len, None),
                Block::Packet(_) => {
                    return Err(fault!(
                        "'{name}' has packet blocks, which are obsolete";
                        "write it anew, for example with 'editcap -F pcapng'"
                    ));
                }
                _ => continue,
            };
            if !sink(&Frame { bytes: within(&data, len), len, time }) {
                break;
            }
        }
        return Ok(());
    }
    let (mut rest, parser) = PcapParser::new(content).map_err(|e| broken(&e))?;
    while !rest.is_empty() {
        let (behind, packet) = parser.next_packet(rest).map_err(|e| broken(&e))?;
        rest = behind;
        let (len, time) = (packet.orig_len, Some(packet.timestamp.as_nanos()));
        if !sink(&Frame { bytes: within(&packet.data, len), len, time }) {
            break;
        }
    }
    Ok(())
}

/// The units of time in a second of an interface with these options (draft-ietf-opsawg-pcapng §4.2, if_tsresol).
fn resolution(options: &[InterfaceDescriptionOption<'_>]) -> u128 {
    let written = options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(power) => Some(u32::from(*power)),
        _ => None,
    });
    let units = match written.unwrap_or(6) {
        power @ 0x80.. => 1_u128.checked_shl(power & 0x7f),
        power => 10_u128.checked_pow(power),
    };
    units.unwrap_or(u128::MAX)
}

/// What a block has of a frame of `len` bytes: a simple one is filled up to a multiple of four.
fn within(data: &[u8], len: u32) -> &[u8] {
    data.get(..len as usize).unwrap_or(data)
}

/// The first block of pcapng (draft-ietf-opsawg-pcapng §4.1).
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether it begins as a capture does: pcapng, or pcap of microseconds or nanoseconds in either byte order.
fn is_capture(content: &[u8]) -> bool {
    const PCAP: [[u8; 4]; 4] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
    ];
    content.first_chunk().is_some_and(|magic| *magic == PCAPNG || PCAP.contains(magic))
}

/// A frame of a capture.
struct Frame<'a> {
    bytes: &'a [u8],
    /// Bytes that it had on the line, without FCS.
    len: u32,
    /// In nanoseconds; `None` where the capture does not say.
    time: Option<u128>,
}

impl Frame<'_> {
    fn length(&self) -> Length {
        let bytes = u16::try_from(self.len.saturating_add(4)).unwrap_or(u16::MAX).max(64);
        Length { bytes, of: Of::Frame }
    }
}

fn bounded<T>(name: &str, values: Vec<T>) -> Result<Vec<T>, Fault> {
    match values.len() {
        0 => Err(fault!("there is nothing in '{name}'")),
        many if many > MAX_LENGTHS => {
            Err(fault!("there are more than {MAX_LENGTHS} frames in '{name}'"; "shorten it"))
        }
        _ => Ok(values),
    }
}

/// The files that a flow names, in any of its phases.
fn names(flow: &FlowSpec) -> Vec<&str> {
    use crate::scenario::Change;
    let mut names = Vec::new();
    let packets = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => settings.packet.as_ref(),
        _ => None,
    });
    for header in packets.chain([&flow.packet]).flatten() {
        match header {
            Header::Payload(Payload::File(name)) => names.push(name.as_str()),
            Header::Raw(Raw::Capture(captured)) => names.push(captured.file.as_str()),
            _ => {}
        }
    }
    let settings = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => Some(settings),
        _ => None,
    });
    let sizes = settings.clone().filter_map(|settings| settings.size.as_ref());
    for size in sizes.chain(&flow.size) {
        if let Size::File(name) | Size::Capture(name) = size {
            names.push(name);
        }
    }
    let departures = settings.filter_map(|settings| settings.departures.as_ref());
    let copies = flow.copies().map(|copies| &copies.departures);
    let departures = departures.chain([&flow.departures]).chain(copies);
    names.extend(departures.filter_map(|departures| departures.file()));
    names
}

/// The key of a flow at `at` that names the file `name`.
fn place(at: KeyPath, flow: &FlowSpec, name: &str) -> Option<KeyPath> {
    let payload = |header: &Header| match header {
        Header::Payload(Payload::File(file)) if file == name => Some("payload"),
        Header::Raw(Raw::Capture(captured)) if captured.file == name => Some("raw"),
        _ => None,
    };
    let mut headers = flow.packet.iter().enumerate();
    let found = headers.find_map(|(index, header)| Some((index, payload(header)?)));
    if let Some((index, key)) = found {
        return Some(at.key("packet").index(index).key(key));
    }
    match &flow.size {
        Some(Size::File(file) | Size::Capture(file)) if file == name => {
            return Some(at.key("size"));
        }
        _ => {}
    }
    if flow.departures.file() == Some(name) {
        return Some(at.key("departures"));
    }
    if flow.copies().is_some_and(|copies| copies.departures.file() == Some(name)) {
        return Some(at.key("replay").key("copies").key("departures"));
    }
    names(flow).contains(&name).then(|| at.key("at"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// A block of pcapng, little endian.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &body, &len].concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The blocks before those of frames.
    fn section() -> Vec<u8> {
        section_of(&[])
    }

    /// The same, of an interface with these options.
    fn section_of(options: &[u8]) -> Vec<u8> {
        let version = [1, 0, 0, 0];
        let header = [&words(&[0x1a2b_3c4d])[..], &version, &[0xff; 8]].concat();
        let interface = [&words(&[1, 65_535])[..], options].concat();
        [block(0x0a0d_0d0a, &header), block(1, &interface)].concat()
    }

    fn simple(frame: &[u8]) -> Vec<u8> {
        block(3, &[&words(&[frame.len() as u32])[..], frame].concat())
    }

    /// Of a time in microseconds, the resolution that holds where none is written.
    fn enhanced(us: u64, frame: &[u8]) -> Vec<u8> {
        let len = frame.len() as u32;
        let head = words(&[0, (us >> 32) as u32, us as u32, len, len]);
        block(6, &[&head[..], frame].concat())
    }

    fn pcap(frames: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let mut file = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1]);
        for (seconds, ns, frame) in frames {
            let len = frame.len() as u32;
            file.extend(words(&[*seconds, *ns, len, len]));
            file.extend(*frame);
        }
        file
    }

    fn files(content: Vec<u8>) -> Files {
        let mut files = Files::default();
        files.insert("x".to_owned(), content);
        files
    }

    fn lengths(of: Result<RecordedLengths, Fault>) -> Vec<u16> {
        of.unwrap().iter().map(|length| length.bytes).collect()
    }

    #[test]
    fn captures_give_frames_lengths_and_gaps() {
        let (a, b) = (&[1; 70][..], &[2; 101][..]);
        let pcapng = [section(), enhanced(7, a), enhanced(1007, b), enhanced(3007, a)].concat();
        let pcap = pcap(&[(5, 999_000_000, a), (6, 0, b), (6, 2_000_000, a)]);
        for content in [pcapng, pcap] {
            let files = files(content);
            assert_eq!(files.frame("x", 2).unwrap(), b);
            assert_eq!(files.frame("x", 3).unwrap(), a);
            let why = files.frame("x", 4).unwrap_err().to_string();
            assert_eq!(why, "'x' has 3 frames, and number 4 is not among them");
            assert!(files.frame("x", 0).is_err());
            assert_eq!(lengths(files.frame_lengths("x")), [74, 105, 74]);
            assert_eq!(*files.gaps("x").unwrap(), [1_000_000, 2_000_000, 1_500_000]);
        }
    }

    #[test]
    fn times_are_in_the_units_of_their_interface() {
        for (resolution, gap) in
            [(9, 1024), (6, 1_024_000), (3, 1_024_000_000), (0x8a, 1_000_000_000)]
        {
            let section = section_of(&[9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
            let frames = [enhanced(5, &[1; 70]), enhanced(1029, &[1; 70])].concat();
            let gaps = files([section, frames].concat()).gaps("x").unwrap();
            assert_eq!(*gaps, [gap, gap], "{resolution}");
        }
        for finest in [0x7f, 0xff] {
            let section = section_of(&[9, 0, 1, 0, finest, 0, 0, 0, 0, 0, 0, 0]);
            let frames = [enhanced(5, &[1; 70]), enhanced(u64::MAX, &[1; 70])].concat();
            assert_eq!(*files([section, frames].concat()).gaps("x").unwrap(), [0, 0]);
        }
    }

    #[test]
    fn a_capture_without_times_has_lengths_and_no_gaps() {
        let files = files([section(), enhanced(9, &[1; 70]), simple(&[2; 67])].concat());
        assert_eq!(lengths(files.frame_lengths("x")), [74, 71]);
        assert_eq!(files.frame("x", 2).unwrap(), [2; 67], "without what fills the block up");
        let why = files.gaps("x").unwrap_err().to_string();
        assert!(why.starts_with("'x' has frames without a time (simple packet blocks)"), "{why}");
    }

    #[test]
    fn times_that_go_to_and_fro_have_a_mean() {
        let section = section_of(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        let (early, late) = (enhanced(0, &[1; 70]), enhanced(u64::MAX, &[1; 70]));
        let files = files([section, early.clone(), late.clone(), early, late].concat());
        let gap = u64::MAX;
        assert_eq!(*files.gaps("x").unwrap(), [gap, 0, gap, gap / 3 * 2]);
    }

    #[test]
    fn times_beyond_all_schedules_are_refused() {
        let frames = [enhanced(0, &[1; 70]), enhanced(u64::MAX, &[1; 70])].concat();
        let why = files([section(), frames].concat()).gaps("x").unwrap_err().to_string();
        assert!(why.contains("centuries apart"), "{why}");
    }

    #[test]
    fn obsolete_blocks_are_not_passed_over() {
        let obsolete = block(2, &words(&[0, 0, 0, 4, 4, 0]));
        let why = files([section(), obsolete].concat()).frame_lengths("x").unwrap_err().to_string();
        assert!(why.contains("write it anew"), "{why}");
    }

    #[test]
    fn a_frame_before_what_is_broken_is_there() {
        let mut content = pcap(&[(0, 0, &[1; 70]), (1, 0, &[2; 70])]);
        content.truncate(content.len() - 1);
        let files = files(content);
        assert_eq!(files.frame("x", 1).unwrap(), [1; 70]);
        assert!(files.frame("x", 2).unwrap_err().what.starts_with("'x' is not a capture: "));
    }

    #[test]
    fn a_text_is_not_read_beyond_the_most_lines() {
        let many = format!("{}nonsense\n", "64B\n".repeat(MAX_LENGTHS + 1));
        let why = files(many.into_bytes()).lengths("x").unwrap_err().to_string();
        assert_eq!(why, "there are more than 65536 frames in 'x'; shorten it");
        let most = files("64B 1us\n".repeat(MAX_LENGTHS).into_bytes());
        assert_eq!(most.trace_lengths("x").unwrap().len(), MAX_LENGTHS);
    }

    #[test]
    fn what_was_read_is_not_read_again() {
        for content in [b"64B 1us\n".to_vec(), pcap(&[(0, 0, &[1; 70]), (1, 0, &[2; 70])])] {
            let files = files(content);
            let lengths = || files.trace_lengths("x").unwrap().address();
            assert_eq!(lengths(), lengths());
            assert!(Arc::ptr_eq(&files.gaps("x").unwrap(), &files.clone().gaps("x").unwrap()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            rng_seed: RngSeed::Fixed(5),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_bytes_are_read_or_refused(
            ng in any::<bool>(),
            changes in prop::collection::vec((0..400_usize, any::<u8>()), 0..6),
            end in 0..600_usize,
        ) {
            let frame = [7; 61];
            let mut content = match ng {
                true => [section(), enhanced(1, &frame), simple(&frame), enhanced(9, &frame)].concat(),
                false => pcap(&[(1, 2, &frame), (3, 4, &frame)]),
            };
            for (at, byte) in changes {
                if let Some(changed) = content.get_mut(at) {
                    *changed = byte;
                }
            }
            content.truncate(end);
            let files = files(content);
            let _ = (files.frame("x", 2), files.gaps("x"), files.trace_lengths("x"), files.lengths("x"));
        }
    }
}
