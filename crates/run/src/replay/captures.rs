//! The captures of a recording as one source of frames: read as it was asked, merged by time, chosen, and made what is
//! to be sent.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use wirebeat_archive::capture::ethernet::{self, Form, NoEthernet};
use wirebeat_archive::capture::sides::{Side, Sides};
use wirebeat_archive::capture::steady::{SET_BACK_NS, Steady};
use wirebeat_archive::capture::{Frame, Frames, Window};
use wirebeat_archive::time_series;
use wirebeat_report::model::LeftOut;
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::replay::{self, Rewrite, Truncated};
use wirebeat_units::{Fault, Nanos, WallTime, fault};
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::filter::Filter;
use wirebeat_wire::mac::MacAddr;
use wirebeat_wire::rewrite::Rules;

use super::Recording;
use super::read::{Unsendable, add};
use super::source::{SCANNED, file, on_bad};
use crate::regular;

/// What helps frames without an Ethernet header, in the words of the command line and of a scenario.
const MAKE_HEADER: &str = "make one with --source-mac and --destination-mac ('source-mac' and 'destination-mac' of 'rewrite')";

/// Some captures.
pub(super) struct Captures {
    files: Vec<Capture>,
    /// Which of them the frame is of.
    current: usize,
    choice: FrameChoice,
    rules: Rules,
    rewrites: bool,
    truncated: Truncated,
    /// The longest frame without a VLAN tag, and with one.
    longest: (usize, usize),
    /// The frame as it is sent, where it is not as it was captured.
    made: Vec<u8>,
    /// Frames without a place in time.
    left_out: Vec<LeftOut>,
}

/// Frames with times before that of the frame before them: they leave right behind that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    pub(crate) frames: u64,
    /// By how much at the most, in nanoseconds.
    pub(crate) most_ns: u64,
    /// Where the first of them stands.
    pub(crate) first: String,
    /// Frames that were put in the order of their times.
    pub(crate) moved: u64,
}

impl HeldBack {
    pub(super) fn add(&mut self, other: &HeldBack) {
        if self.frames == 0 {
            self.first.clone_from(&other.first);
        }
        self.frames += other.frames;
        self.most_ns = self.most_ns.max(other.most_ns);
        self.moved += other.moved;
    }
}

/// One, and where in time its next frame is.
struct Capture {
    frames: Window<Box<dyn Read + Send>>,
    /// `None`: it is at its end.
    time_ns: Option<i64>,
    /// Of all frames, whether or not they are chosen.
    steady: Steady,
    /// How the frame becomes one of Ethernet.
    form: Result<Form, NoEthernet>,
    begun: bool,
}

/// Which frames.
struct FrameChoice {
    filter: Option<Filter>,
    from_ns: i64,
    to_ns: i64,
    /// Whether times matter.
    timed: bool,
    side: Option<Side>,
    sides: Sides,
    macs: Option<(MacAddr, MacAddr)>,
    /// A frame as the filter and the sides look at it, where it has no Ethernet header.
    seen: Vec<u8>,
}

impl Captures {
    /// Opens them.
    pub(super) fn open(recording: &Recording) -> Result<Captures, Fault> {
        Self::of(recording, &recording.replay)
    }

    /// The same, whichever side is sent.
    pub(super) fn of_both_sides(recording: &Recording) -> Result<Captures, Fault> {
        Self::of(recording, &Replay { side: None, ..Replay::clone(&recording.replay) })
    }

    fn of(recording: &Recording, replay: &Replay) -> Result<Captures, Fault> {
        let mut files = Vec::with_capacity(recording.paths.len());
        for (number, path) in recording.paths.iter().enumerate() {
            let how = (replay.reader, number < replay.readers.into());
            let from = file("capture", path, how, 0)?;
            let frames = Frames::new(from, path.display().to_string(), on_bad(replay));
            files.push(Capture {
                frames: Window::new(frames, replay.reorder_window.map(Nanos::get)),
                time_ns: None,
                steady: Steady::default(),
                form: Ok(Form::Is),
                begun: false,
            });
        }
        let tagged = recording.data_max;
        let rules = replay.rewrite.rules();
        Ok(Captures {
            files,
            current: 0,
            choice: FrameChoice::new(replay)?,
            rewrites: !rules.is_empty(),
            rules,
            truncated: replay.truncated,
            longest: (recording.untagged_max.min(tagged), tagged),
            made: Vec::new(),
            left_out: Vec::new(),
        })
    }

    /// What was out of order so far.
    pub(super) fn held_back(&self) -> HeldBack {
        let mut all = HeldBack::default();
        self.files.iter().for_each(|capture| all.add(&capture.held_back()));
        all
    }

    /// Goes to the next frame that was chosen, on whichever side; its time in nanoseconds, or `None` at the end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Option<i64>, Fault> {
        for capture in &mut self.files {
            if !capture.begun {
                capture.advance(&mut self.choice, &mut self.left_out)?;
            }
        }
        let Some(capture) = self.files.get_mut(self.current) else { return Ok(None) };
        if capture.begun {
            capture.advance(&mut self.choice, &mut self.left_out)?;
        }
        self.files.iter_mut().for_each(|capture| capture.begun = true);
        let mut next = None;
        for (number, capture) in self.files.iter().enumerate() {
            let earlier = |time| next.is_none_or(|(_, before)| time < before);
            if let Some(time) = capture.time_ns.filter(|time| earlier(*time)) {
                next = Some((number, time));
            }
        }
        Ok(next.map(|(number, time)| {
            self.current = number;
            time
        }))
    }

    /// The frame that it is at, as it is to be sent; `None` where it is of the other side.
    #[inline]
    pub(super) fn take(&mut self) -> Result<Option<&[u8]>, Unsendable> {
        let Some(Capture { frames, form, .. }) = self.files.get(self.current) else {
            return Ok(None);
        };
        let frame = frames.frame();
        let cannot = |why: NoEthernet| Unsendable {
            kind: "of a link type that cannot be sent",
            why: match why {
                NoEthernet::Addresses(_) => {
                    Fault { hint: Some(MAKE_HEADER.to_owned()), ..why.fault() }
                }
                why => why.fault(),
            },
            wanted: true,
        };
        let form = form.map_err(cannot)?;
        if self.choice.is_of_other_side(&frame, form) {
            return Ok(None);
        }
        let missing = match self.truncated {
            _ if !frame.is_cut() => 0,
            Truncated::Pad => frame.original as usize - frame.bytes.len(),
            Truncated::Send => 0,
            Truncated::Skip => {
                let (have, all) = (frame.bytes.len(), frame.original);
                let why = fault!("{have} of its {all} bytes were captured");
                return Err(Unsendable { kind: "cut short in the capture", why, wanted: false });
            }
        };
        let as_it_was = form == Form::Is && !self.rewrites && missing == 0;
        if !as_it_was {
            let macs = self.choice.macs;
            ethernet::write(&frame, form, macs, &mut self.made).map_err(cannot)?;
            self.rules.apply(&mut self.made);
        }
        let bytes = if as_it_was { frame.bytes } else { &self.made };
        let len = bytes.len() + missing;
        fits(bytes, len, self.longest)?;
        if missing > 0 {
            self.made.resize(len, 0);
        }
        Ok(Some(if as_it_was { frame.bytes } else { &self.made }))
    }

    /// Where the frame that it is at stands.
    pub(super) fn place(&self) -> String {
        let frames = self.files.get(self.current).map(|capture| &capture.frames);
        frames.map_or_else(String::new, |frames| format!("{}: {}", frames.name(), frames.place()))
    }

    /// What was skipped because it is not a frame, by kind.
    pub(super) fn skipped(&self) -> Vec<LeftOut> {
        let mut all: Vec<LeftOut> = Vec::new();
        for frames in self.files.iter().map(|capture| &capture.frames) {
            if let (count, Some(bad)) = frames.tally().bad {
                // the remedy is to leave it out, which was done
                let what = bad.defect.fault().what;
                let first = format!("{}: {}: {what}", frames.name(), bad.place);
                let (kind, bytes) = ("damaged".to_owned(), frames.tally().skipped);
                let records = frames.tally().bad_frames;
                add(&mut all, LeftOut { kind, count, records, bytes, first });
            }
        }
        all.extend(self.left_out.iter().cloned());
        all
    }
}

/// Whether a frame that begins with `bytes` and is `len` long can be sent.
#[inline]
fn fits(bytes: &[u8], len: usize, (untagged, tagged): (usize, usize)) -> Result<(), Unsendable> {
    let ether_type =
        bytes.get(12..).and_then(<[u8]>::first_chunk).map(|bytes| u16::from_be_bytes(*bytes));
    let ether_type = ether_type.map(EtherType);
    let is_tagged = matches!(ether_type, Some(EtherType::VLAN | EtherType::SERVICE_VLAN));
    let longest = if is_tagged { tagged } else { untagged };
    if len > longest {
        return Err(Unsendable {
            kind: "longer than the link carries",
            why: fault!(
                "it has {len} bytes, and the link carries {longest}";
                "capture behind segmentation (TSO, GRO), or raise the MTU"
            ),
            wanted: true,
        });
    }
    if len < wirebeat_wire::ethernet::LEN {
        return Err(Unsendable {
            kind: "shorter than an Ethernet header",
            why: fault!("it has {len} bytes, and an Ethernet header has 14"),
            wanted: true,
        });
    }
    Ok(())
}

impl Capture {
    /// Goes to the next frame that was chosen.
    fn advance(
        &mut self,
        choice: &mut FrameChoice,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), Fault> {
        if self.begun && self.time_ns.is_none() {
            return Ok(());
        }
        loop {
            if !self.frames.advance().map_err(|error| error.to_string())? {
                self.time_ns = None;
                return Ok(());
            }
            let frame = self.frames.frame();
            let time = frame.time_ns.unwrap_or(i64::MIN);
            if choice.timed {
                if frame.time_ns.is_none() {
                    let why = fault!(
                        "it has no time";
                        "replay it in a tight loop, or leave it out with --on-bad skip ('on-bad: skip')"
                    );
                    self.leave_out("without a time", why, left_out)?;
                    continue;
                }
                // where frames are nearly in the order of time nothing more can come
                if time.saturating_sub(SET_BACK_NS) >= choice.to_ns {
                    self.time_ns = None;
                    return Ok(());
                }
            }
            let due = match choice.timed {
                true => self.steady.time(time, || self.frames.place()),
                false => time,
            };
            let frame = self.frames.frame();
            if (choice.from_ns..choice.to_ns).contains(&time) || frame.time_ns.is_none() {
                self.form = ethernet::form(&frame);
                if choice.has(&frame, self.form) {
                    self.time_ns = Some(due);
                    return Ok(());
                }
            }
        }
    }

    /// What was out of order so far.
    fn held_back(&self) -> HeldBack {
        let held = self.steady.held_back();
        let first = held.first.map(|place| format!("{}: {place}", self.frames.name()));
        HeldBack {
            frames: held.frames,
            most_ns: held.most_ns,
            first: first.unwrap_or_default(),
            moved: self.frames.moved(),
        }
    }

    /// The frame that it is at has no place in time.
    #[cold]
    fn leave_out(&self, kind: &str, why: Fault, left_out: &mut Vec<LeftOut>) -> Result<(), Fault> {
        let why = why.at(format!("{}: {}", self.frames.name(), self.frames.place()));
        if self.frames.on_bad() == time_series::OnBad::Stop {
            return Err(why);
        }
        let first = why.what;
        add(left_out, LeftOut { kind: kind.to_owned(), count: 1, records: 1, bytes: 0, first });
        Ok(())
    }
}

impl FrameChoice {
    fn new(replay: &Replay) -> Result<FrameChoice, Fault> {
        let ns = |time: Option<WallTime>| {
            time.map(|time| i64::try_from(time.unix().get()).unwrap_or(i64::MAX))
        };
        let filter = replay.filter.as_deref().map(Filter::new).transpose();
        let Rewrite { source_mac, destination_mac, .. } = replay.rewrite;
        Ok(FrameChoice {
            filter: filter.map_err(|why| format!("the filter: {why}"))?,
            from_ns: ns(replay.from).unwrap_or(i64::MIN),
            to_ns: ns(replay.to).unwrap_or(i64::MAX),
            timed: replay.tight_loop.is_none(),
            side: replay.side.map(|side| match side {
                replay::Side::Client => Side::Client,
                replay::Side::Server => Side::Server,
            }),
            sides: Sides::default(),
            macs: source_mac.zip(destination_mac),
            seen: Vec::new(),
        })
    }

    /// Whether a frame is chosen, whoever sent it.
    #[inline]
    fn has(&mut self, frame: &Frame<'_>, form: Result<Form, NoEthernet>) -> bool {
        // what cannot be sent is told, and not passed over
        let (Some(filter), Ok(form)) = (&self.filter, form) else { return true };
        match form {
            Form::Is => filter.matches(frame.bytes, frame.original as usize),
            Form::Of(_, skip) => {
                see(frame, form, &mut self.seen);
                let len = frame.original as usize + wirebeat_wire::ethernet::LEN
                    - skip.min(frame.bytes.len());
                filter.matches(&self.seen, len)
            }
        }
    }

    /// Whether the other side sent it.
    #[inline]
    fn is_of_other_side(&mut self, frame: &Frame<'_>, form: Form) -> bool {
        let Some(side) = self.side else { return false };
        let from = match form {
            Form::Is => self.sides.of(frame.bytes),
            Form::Of(..) => {
                see(frame, form, &mut self.seen);
                self.sides.of(&self.seen)
            }
        };
        from != side
    }
}

/// The frame with addresses that mean nothing, where it has none.
fn see(frame: &Frame<'_>, form: Form, out: &mut Vec<u8>) {
    let nobody = MacAddr::default();
    // with addresses there is nothing that could fail
    let _ = ethernet::write(frame, form, Some((nobody, nobody)), out);
}

/// The length of the longest frame that is made of a capture, where it is read in a moment; of others it is not known.
pub(crate) fn longest_frame(path: &Path, replay: &Replay) -> Result<Option<u32>, Fault> {
    let told = |error: io::Error| format!("the capture '{}': {error}", path.display());
    let metadata = std::fs::metadata(path).map_err(told)?;
    if let Some(why) = regular::refusal(&metadata) {
        return Err(fault!("the capture '{}': {why}", path.display()));
    }
    if metadata.len() > SCANNED {
        return Ok(None);
    }
    let file = File::open(path).map_err(told)?;
    let mut frames = Frames::new(file, path.display().to_string(), time_series::OnBad::Skip);
    let mut longest = 0;
    let mut begun = false;
    // What is wrong behind the first frame is told when it is sent.
    loop {
        match frames.advance() {
            Ok(true) => begun = true,
            Err(error) if !begun => return Err(error.to_string().into()),
            _ => break,
        }
        let frame = frames.frame();
        let len = match replay.truncated {
            Truncated::Pad => frame.original as usize,
            Truncated::Send | Truncated::Skip => frame.bytes.len(),
        };
        longest = longest.max(len + ethernet::adds(frame.link));
    }
    Ok(Some(u32::try_from(longest).unwrap_or(u32::MAX)))
}
