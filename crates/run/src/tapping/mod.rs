//! What is kept of the frames of a run: one writing thread, and for each port whose frames somebody wants what its threads
//! are given.
//!
//! A receiver that meters in the kernel tells of single frames through a ring; a thread of its own reads that (`observing.rs`)
//! and notes them like the threads that meter themselves. `one_port.rs` picks the frames of a capture out of those of a run.

mod observing;
mod one_port;
mod queue;
mod sent;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use wirebeat_capture::file::{CaptureOptions, Comments, Fcs};
use wirebeat_capture::packet_log::{self, LoggedRun, PacketLogOptions};
use wirebeat_capture::pump::{Pump, SinkWatch, TapSource, Tapped, UnixClock};
use wirebeat_capture::seen::{Interface, Opening};
use wirebeat_capture::tap::Tap;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine_linux::kernel::Observations;
use wirebeat_engine_linux::time::RealtimeToMonotonic;
use wirebeat_meter::observation::Observed;
use wirebeat_report::exit::Exit;
use wirebeat_report::model::{Capture, CaptureKind, Report};
use wirebeat_units::{Fault, Nanos, fault};

use crate::engines::{Ability, Engine};
use crate::error::RunError;
use crate::options::Options;
use crate::ports::ResolvedPort;
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::capture::{
    CaptureComments, CaptureFcs, CaptureSpec, CapturedFrames,
};

pub(crate) use observing::Observing;
use one_port::OnePort;
pub(crate) use queue::QueueTaps;
pub(crate) use sent::{SentTap, TappedTx};

/// What is wanted of the frames of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedFrames {
    /// The most bytes of each; 0: all.
    pub(crate) snap_len: u32,
    /// Whether the ends of a datagram are told where its headers are not seen.
    pub(crate) ends: bool,
    /// Which of those that arrive.
    pub(crate) frames: Observed,
}

impl WantedFrames {
    /// What two want.
    pub(crate) fn and(self, other: WantedFrames) -> WantedFrames {
        let all = [self.frames, other.frames].contains(&Observed::All);
        WantedFrames {
            snap_len: match (self.snap_len, other.snap_len) {
                (0, _) | (_, 0) => 0,
                (one, another) => one.max(another),
            },
            ends: self.ends || other.ends,
            frames: if all { Observed::All } else { Observed::Measured },
        }
    }

    /// What either of two wants who may want nothing.
    fn of_both(one: Option<WantedFrames>, other: Option<WantedFrames>) -> Option<WantedFrames> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        }
    }

    /// What a log of packets wants.
    pub(crate) fn of_log(options: &PacketLogOptions) -> WantedFrames {
        let ends = options.form.codec().is_some();
        WantedFrames { snap_len: options.wanted_len(), ends, frames: Observed::All }
    }
}

/// What the receiver of a port is given, whose frames are kept.
#[derive(Clone, Debug)]
pub(crate) struct PortTaps {
    source: TapSource,
    interface: u16,
    wanted: WantedFrames,
}

impl PortTaps {
    /// For the thread of one queue.
    pub(crate) fn tap(&self) -> Tap {
        self.source.tap(Tapped { interface: self.interface, snap_len: self.wanted.snap_len })
    }

    pub(crate) fn snap_len(&self) -> u32 {
        self.wanted.snap_len
    }

    pub(crate) fn frames(&self) -> Observed {
        self.wanted.frames
    }

    pub(crate) fn wants_ends(&self) -> bool {
        self.wanted.ends
    }
}

/// What the senders of a port are given, whose frames are kept.
#[derive(Debug)]
pub(crate) struct SentTaps<'a> {
    taps: PortTaps,
    /// Who reads what senders in the kernel tell of single frames.
    observing: &'a Mutex<Vec<Observing>>,
}

impl SentTaps<'_> {
    pub(crate) fn taps(&self) -> &PortTaps {
        &self.taps
    }

    /// For the sender of this number.
    pub(crate) fn of_sender(&self, number: usize, program: &Program) -> SentTap {
        let id = |tag| u16::try_from(program.flow_of(tag)).ok();
        let queue = u16::try_from(number).unwrap_or(u16::MAX);
        SentTap { tap: self.taps.tap(), queue, flows: (0..program.tags()).map(id).collect() }
    }

    /// Reads what a sender in the kernel tells, until the run ends.
    pub(crate) fn observe(&self, told: Observations, sent: SentTap) -> Result<(), RunError> {
        let observing = Observing::of_sender(told, sent)?;
        self.observing.lock().unwrap_or_else(PoisonError::into_inner).push(observing);
        Ok(())
    }
}

/// A capture of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortCapture {
    /// The place of the port among those of the run.
    pub(crate) place: usize,
    pub(crate) options: CaptureOptions,
    /// Which of the frames that arrive; `None`: none of them.
    pub(crate) received: Option<Observed>,
    /// Whether frames that leave are kept.
    pub(crate) sent: bool,
}

impl PortCapture {
    /// What a scenario asks of the port at `place`; the file is at `path`.
    pub(crate) fn of(place: usize, spec: &CaptureSpec, path: PathBuf) -> PortCapture {
        let frames = match spec.frames {
            CapturedFrames::All => Observed::All,
            CapturedFrames::Measured => Observed::Measured,
        };
        PortCapture {
            place,
            options: options_of(spec, path),
            received: spec.direction.has_received().then_some(frames),
            sent: spec.direction.has_sent(),
        }
    }

    fn wanted(&self) -> WantedFrames {
        let frames = self.received.unwrap_or(Observed::Measured);
        WantedFrames { snap_len: self.options.wanted_len(), ends: false, frames }
    }

    /// That an engine sees what is to be kept.
    fn check(&self, port: &ResolvedPort, engine: Engine) -> Result<(), Fault> {
        let able = || Engine::names(|one| one.has_network() && one.can(Ability::SeeHeaders));
        if !engine.can(Ability::SeeHeaders) || engine.can(Ability::WriteFile) {
            return Err(fault!(
                "the engine '{engine}' of port '{}' sees no frames to capture", port.name;
                "use the engine {}", able()
            ));
        }
        Ok(())
    }

    /// The same, of an engine that was chosen for this process: where a faster one sees them, rights are missing.
    fn check_chosen(&self, port: &ResolvedPort, engine: Engine) -> Result<(), RunError> {
        let why = port.engine_reason.unexpected().filter(|_| port.link.is_some());
        self.check(port, engine).map_err(|fault| match why {
            Some(why) => RunError::machine(fault!(
                "frames of {} cannot be captured: {why}", port.interface();
                "run as root, or give the program CAP_NET_RAW"
            )),
            None => RunError::usage(fault),
        })
    }
}

/// A packet log that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLogRequest {
    /// Its file and form.
    pub options: PacketLogOptions,
    /// Whether it has what is sent, too. Where nothing is received it has that in any case.
    pub sent: bool,
}

/// What the report says of a sink.
#[derive(Clone, Debug)]
struct Described {
    /// The place of its port; `None`: all of them.
    place: Option<usize>,
    kind: CaptureKind,
    port: Option<String>,
    timestamps: String,
}

/// The writing thread of a run, and the ports whose frames it takes.
#[derive(Debug)]
pub(crate) struct Keeping {
    pump: Pump,
    source: TapSource,
    /// What is wanted of the frames that each port receives, and of those that it sends, by its place.
    wanted: Vec<[Option<WantedFrames>; 2]>,
    /// Who reads what senders in the kernel tell of single frames.
    observing: Mutex<Vec<Observing>>,
    sinks: Vec<Described>,
    /// What tells of the ends of its captures.
    captures: Vec<SinkWatch>,
}

/// What is known of a run whose frames are kept.
#[derive(Debug)]
pub(crate) struct KeptRun<'a> {
    pub(crate) ports: &'a [ResolvedPort],
    /// The engine that each port receives by.
    pub(crate) engines: &'a [Engine],
    /// The flows by their numbers.
    pub(crate) flows: Vec<(u16, String)>,
    /// What is said of all of it in the files.
    pub(crate) comment: Option<String>,
    /// Whether its ports have names of a scenario.
    pub(crate) has_names: bool,
    /// Whether its clock is a virtual one.
    pub(crate) is_virtual: bool,
}

impl KeptRun<'_> {
    fn interface(&self, place: usize, snap_len: u32) -> Interface {
        let (port, engine) = (&self.ports[place], self.engines[place]);
        Interface {
            port: self.name(place),
            name: port.link.as_ref().map(|link| link.name.clone()),
            description: format!("wirebeat, engine {engine}"),
            speed: port.link.as_ref().and_then(|link| link.speed),
            snap_len,
            timestamps: self.timestamps(place),
        }
    }

    fn name(&self, place: usize) -> Option<String> {
        self.has_names.then(|| self.ports[place].name.clone())
    }

    /// Behind "the capture", where ports have names.
    fn of_port(&self, place: usize) -> String {
        self.name(place).map_or_else(String::new, |name| format!(" of port '{name}'"))
    }

    /// Now, in nanoseconds since 1970.
    fn unix_ns(&self) -> u64 {
        match self.is_virtual {
            true => 0,
            false => RealtimeToMonotonic::new().unix_ns(MonotonicClock.now()),
        }
    }

    fn timestamps(&self, place: usize) -> String {
        match self.ports[place].card.get() {
            Some(card) => format!("the card's clock {}", card.clock().path()),
            None => self.engines[place].row().stamps.1.to_owned(),
        }
    }

    fn opening(&self, interfaces: Vec<Interface>, unix_ns: u64) -> Opening {
        let (flows, comment) = (self.flows.clone(), self.comment.clone());
        Opening { interfaces, flows, comment, unix_ns }
    }
}

impl Keeping {
    /// Opens the captures of a run, and starts the thread that writes them. `None` where nothing is kept.
    /// With logs, `logged` says what they want of the frames that each port receives, and of those that it sends;
    /// [`Keeping::log`] opens them.
    pub(crate) fn start(
        run: &KeptRun<'_>,
        captures: &[PortCapture],
        logged: &[[Option<WantedFrames>; 2]],
    ) -> Result<Option<Keeping>, RunError> {
        if captures.is_empty() && logged.is_empty() {
            return Ok(None);
        }
        let clock: Box<dyn UnixClock> = match run.is_virtual {
            true => Box::new(VirtualDay),
            false => Box::new(ClockOfDay(RealtimeToMonotonic::new())),
        };
        let mut wanted = vec![[None; 2]; run.ports.len()];
        for (number, capture) in captures.iter().enumerate() {
            let (place, port) = (capture.place, &run.ports[capture.place]);
            capture.check_chosen(port, run.engines[place])?;
            let checked = capture.options.check();
            checked.and_then(|()| alone(&captures[..number], capture)).map_err(|fault| {
                RunError::usage(fault.at(format!("the capture{}", run.of_port(place))))
            })?;
            let more = capture.wanted();
            let asked = [capture.received.is_some(), capture.sent];
            let wanted: &mut [Option<WantedFrames>; 2] = &mut wanted[place];
            for (wanted, asked) in wanted.iter_mut().zip(asked) {
                *wanted = WantedFrames::of_both(*wanted, asked.then_some(more));
            }
        }
        for (wanted, asked) in wanted.iter_mut().zip(logged) {
            for (wanted, more) in wanted.iter_mut().zip(asked) {
                *wanted = WantedFrames::of_both(*wanted, *more);
            }
        }
        let failed = |error| RunError::machine(format!("cannot start the writing thread: {error}"));
        let (pump, source) = Pump::start(clock, wanted.len()).map_err(failed)?;
        // receivers may see frames before the last file is open, and every file is to have them
        source.hold();
        let (observing, sinks) = (Mutex::default(), Vec::new());
        Ok(Some(Keeping { pump, source, wanted, observing, sinks, captures: Vec::new() }))
    }

    /// All files are open: frames that came since the receivers were opened go into them, and what comes.
    pub(crate) fn go_on(&self) {
        self.source.go_on();
    }

    /// Makes the files of the captures, once all else is open: a run that cannot begin leaves none, and writes over none.
    pub(crate) fn open_files(
        &mut self,
        run: &KeptRun<'_>,
        captures: &[PortCapture],
    ) -> Result<(), RunError> {
        let unix_ns = run.unix_ns();
        for capture in captures {
            let place = capture.place;
            let interface = run.interface(place, capture.options.snap_len.unwrap_or(0));
            let opening = run.opening(vec![interface], unix_ns);
            let file = wirebeat_capture::file::open(&capture.options, &opening);
            let at = |fault: Fault| fault.at(format!("the capture{}", run.of_port(place)));
            let file = file.map_err(|error| RunError::unopened(&error, at))?;
            let watch = self.source.add_sink(Box::new(OnePort::new(capture, file)));
            self.captures.push(watch);
            self.sinks.push(Described {
                place: Some(place),
                kind: CaptureKind::Frames,
                port: run.name(place),
                timestamps: run.timestamps(place),
            });
        }
        Ok(())
    }

    /// Begins a packet log, once it is known how each port measures: before anything is sent.
    pub(crate) fn log(
        &mut self,
        run: &KeptRun<'_>,
        options: &PacketLogOptions,
        logged: &LoggedRun,
    ) -> Result<(), RunError> {
        let interfaces = (0..run.ports.len()).map(|place| run.interface(place, 0)).collect();
        let opening = run.opening(interfaces, run.unix_ns());
        let sink = packet_log::open(options, &opening, logged);
        self.source.add_sink(sink.map_err(|error| RunError::unopened(&error, |fault| fault))?);
        let mut stamps: Vec<String> = Vec::new();
        for (place, [received, sent]) in self.wanted.iter().enumerate() {
            let (out, inward) = run.engines[place].row().stamps;
            let own = [received.map(|_| inward), sent.map(|_| out)];
            for told in own.into_iter().flatten().map(str::to_owned) {
                if !stamps.contains(&told) {
                    stamps.push(told);
                }
            }
        }
        self.sinks.push(Described {
            place: None,
            kind: CaptureKind::PacketLog,
            port: None,
            timestamps: stamps.join("; "),
        });
        Ok(())
    }

    /// For the receiver of the port at `place`.
    pub(crate) fn taps(&self, place: usize) -> Option<PortTaps> {
        let [received, _] = *self.wanted.get(place)?;
        self.port_taps(place, received?)
    }

    /// For the senders of the port at `place`.
    pub(crate) fn sent_taps(&self, place: usize) -> Option<SentTaps<'_>> {
        let [_, sent] = *self.wanted.get(place)?;
        Some(SentTaps { taps: self.port_taps(place, sent?)?, observing: &self.observing })
    }

    fn port_taps(&self, place: usize, wanted: WantedFrames) -> Option<PortTaps> {
        let interface = u16::try_from(place).ok()?;
        Some(PortTaps { source: self.source.clone(), interface, wanted })
    }

    /// Whether there are captures and all of them have ended: each has what it is to hold, or failed. A log goes on.
    pub(crate) fn captures_have_ended(&self) -> bool {
        !self.captures.is_empty() && self.captures.iter().all(SinkWatch::has_ended)
    }

    /// Waits until all is written, and says what was. The receivers have ended.
    pub(crate) fn finish(self) -> Vec<Capture> {
        let Keeping { pump, source, sinks, observing, .. } = self;
        drop((source, observing));
        let result = pump.finish();
        let lost = |place: Option<usize>| match place {
            Some(place) => result.counts.get(place).map_or(0, |counts| counts.lost),
            None => result.counts.iter().map(|counts| counts.lost).sum(),
        };
        let named = |file: PathBuf| file.display().to_string();
        let of = |(described, result): (Described, wirebeat_capture::pump::SinkResult)| Capture {
            kind: described.kind,
            port: described.port,
            files: result.written.files.into_iter().map(named).collect(),
            frames: result.written.frames,
            bytes: result.written.bytes,
            filtered: result.written.filtered,
            lost: lost(described.place) + result.written.lost,
            removed: result.written.removed,
            timestamps: described.timestamps,
            error: result.error.map(|error| error.to_string()),
        };
        sinks.into_iter().zip(result.sinks).map(of).collect()
    }
}

/// What a run ends with whose frames could not all be written.
pub(crate) fn set_exit_code(report: &mut Report) {
    if report.captures.iter().any(|capture| capture.error.is_some()) {
        report.exit_code = report.verdict.exit().and(Exit::Output).code();
    }
}

/// The file of a run of a lab by its number: that which is asked for, and from the second run on with the number before its
/// ending, so that no run takes the file of another. A pipe or a device is there for all of them.
pub(crate) fn of_run(file: PathBuf, run: u32) -> PathBuf {
    /// Endings that stand behind the number, the longest first.
    const ENDINGS: [&str; 7] =
        [".pcapng.zst", ".pcap.zst", ".csv.zst", ".pcapng", ".pcap", ".parquet", ".csv"];
    let is_other = std::fs::metadata(&file).is_ok_and(|about| !about.is_file());
    let Some(name) = file.file_name().filter(|_| run > 1 && !is_other) else { return file };
    let name = name.to_string_lossy();
    if name == "-" {
        return file;
    }
    let ending = ENDINGS.into_iter().find(|ending| name.ends_with(ending)).unwrap_or_default();
    let stem = name.strip_suffix(ending).unwrap_or(&name);
    file.with_file_name(format!("{stem}_run{run}{ending}"))
}

/// That no capture before it writes the same file.
fn alone(before: &[PortCapture], capture: &PortCapture) -> Result<(), Fault> {
    let file = &capture.options.file;
    match before.iter().any(|other| other.options.file == *file) {
        true => Err(fault!(
            "another port writes '{}' as well", file.display();
            "name a file for each port"
        )),
        false => Ok(()),
    }
}

/// Refuses captures that no machine can make. Selections know the flows of `program`.
pub(crate) fn check(
    ports: &[ResolvedPort],
    program: &Program,
    options: &Options,
) -> Result<(), RunError> {
    let flows = program.flows.iter().map(|flow| (flow.id, flow.name.clone())).collect();
    let opening = Opening { flows, ..Opening::default() };
    let mut captures: Vec<PortCapture> = Vec::new();
    for (place, port) in ports.iter().enumerate() {
        let Some(spec) = &port.spec.capture else { continue };
        let capture = PortCapture::of(place, spec, options.path(&spec.file));
        let seen = port.spec.engine.engine().map_or(Ok(()), |engine| capture.check(port, engine));
        let checked = seen.and_then(|()| capture.options.check());
        let interface = Interface {
            port: Some(port.name.clone()),
            name: port.spec.interface.clone(),
            ..Interface::default()
        };
        let opening = Opening { interfaces: vec![interface], ..opening.clone() };
        let checked = checked.and_then(|()| capture.options.check_names(&opening));
        let checked = checked.and_then(|()| alone(&captures, &capture));
        let of = format!("the capture of port '{}'", port.name);
        checked.map_err(|fault| RunError::usage(fault.at(of)))?;
        captures.push(capture);
    }
    Ok(())
}

/// The options of a capture, as a scenario has them.
pub(crate) fn options_of(spec: &CaptureSpec, file: PathBuf) -> CaptureOptions {
    let CaptureSpec { overwrite, filter, only, before, after, snap_length, .. } = spec.clone();
    CaptureOptions {
        file,
        snap_len: snap_length,
        filter,
        only,
        before,
        after,
        count: spec.count,
        size: spec.size,
        duration: spec.duration,
        rotate_size: spec.rotate_size,
        rotate_time: spec.rotate_time,
        rotate_count: spec.rotate_count,
        files: spec.files,
        fcs: match spec.fcs {
            CaptureFcs::None => Fcs::None,
            CaptureFcs::Computed => Fcs::Computed,
            CaptureFcs::Zeros => Fcs::Zeros,
        },
        // classic pcap has none, and nobody has asked for any by default
        comments: match spec.comments {
            CaptureComments::Odd => None,
            CaptureComments::All => Some(Comments::All),
            CaptureComments::None => Some(Comments::None),
        },
        overwrite,
        overwrite_by: Some("'overwrite: true'"),
        ..CaptureOptions::default()
    }
}

/// The clock of the day, by readings beside the monotonic one.
struct ClockOfDay(RealtimeToMonotonic);

impl UnixClock for ClockOfDay {
    fn unix_ns(&self, at: Nanos) -> u64 {
        self.0.unix_ns(at)
    }

    fn refresh(&mut self) {
        self.0.refresh(MonotonicClock.now());
    }

    fn now(&self) -> Nanos {
        MonotonicClock.now()
    }
}

/// A run in no time has no day: its files are the same every time.
struct VirtualDay;

impl UnixClock for VirtualDay {
    fn unix_ns(&self, at: Nanos) -> u64 {
        at.get()
    }

    fn refresh(&mut self) {}

    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_lab_has_a_file_of_its_own() {
        for (file, second) in [
            ("out.pcapng", "out_run2.pcapng"),
            ("d.x/a.b.pcap.zst", "d.x/a.b_run2.pcap.zst"),
            ("run.csv.zst", "run_run2.csv.zst"),
            ("out", "out_run2"),
            ("-", "-"),
            ("/dev/null", "/dev/null"),
        ] {
            assert_eq!(of_run(file.into(), 1), PathBuf::from(file));
            assert_eq!(of_run(file.into(), 2), PathBuf::from(second));
        }
    }

    #[test]
    fn two_who_want_frames_get_what_each_of_them_wants() {
        let some = WantedFrames { snap_len: 64, ends: false, frames: Observed::Measured };
        let more = WantedFrames { snap_len: 128, ends: true, frames: Observed::All };
        assert_eq!(some.and(more), more);
        assert_eq!(more.and(WantedFrames { snap_len: 0, ..some }).snap_len, 0);
        assert_eq!(some.and(some), some);
    }
}
