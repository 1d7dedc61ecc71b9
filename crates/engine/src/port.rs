//! The port: where frames leave and arrive.
//!
//! An engine opens a transmitter ([`TxPort`]), a receiver ([`RxPort`]), or both on one interface. Each is batched and belongs to
//! one thread. Frames are built in place in the transmitter's own memory: [`TxPort::reserve`] makes room, [`TxPort::slot`] gives
//! the bytes, and [`TxPort::commit`] hands the first frames over. A port knows neither flows nor statistics; a frame
//! carries a `tag` that the port only counts by.

use std::borrow::Cow;
use std::ops::{AddAssign, SubAssign};

use wirebeat_meter::codecs::{Answer, Ends};
use wirebeat_meter::departures::Departures;
use wirebeat_meter::summary::Distribution;
pub use wirebeat_traffic::program::Counted;
use wirebeat_traffic::program::Late;
use wirebeat_traffic::scenario::RunSpec;
use wirebeat_units::{BitRate, BufferLen, Fault, Nanos, into_fault};
use wirebeat_wire::stamp::Stamp;

/// Where the bytes of a slot or an arrival begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// At the Ethernet header.
    Frame,
    /// At the transport payload; the operating system makes the headers.
    Datagram,
}

/// What a transmitter can do; fixed once it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxCaps {
    /// The engine's name.
    pub engine: &'static str,
    /// How it works here, for the report: "native XDP, live frames", "TPACKET_V2, qdisc bypass".
    pub mode: String,
    /// The largest frame in bytes without FCS (or the largest datagram payload).
    pub frame_max: usize,
    /// The most frames that can be reserved at once.
    pub batch: usize,
    /// Where slots begin.
    pub view: View,
    /// The port keeps a frame until its launch time and writes sequence and time itself.
    pub holds: bool,
    /// How long before it is due a frame is handed over with its [launch time](TxMeta::launch), which the card waits for; zero:
    /// frames leave when they are handed over. Not of a port that holds frames itself, and at most a millisecond.
    pub lead: Nanos,
    /// The longest period, in frames, that the port repeats by itself; 0 when it cannot.
    pub repeats: usize,
    /// From so many bytes on, data that lies in memory the port shares need not be copied into its slots
    /// ([`TxMeta::external`]); `None`: it shares none.
    pub external: Option<usize>,
    /// Whether a frame may hold several segments of TCP ([`TxMeta::segments`]).
    pub large: bool,
    /// Speed of the link, where it is known.
    pub link: Option<BitRate>,
}

impl TxCaps {
    /// Of a port that sends frames when they are handed over, and does nothing besides.
    pub fn of_frames(engine: &'static str, mode: String, frame_max: usize, batch: usize) -> TxCaps {
        TxCaps {
            engine,
            mode,
            frame_max,
            batch,
            view: View::Frame,
            holds: false,
            lead: Nanos::ZERO,
            repeats: 0,
            external: None,
            large: false,
            link: None,
        }
    }
}

/// What a receiver is; fixed once it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxCaps {
    /// How it works here, for the report: "TPACKET_V3".
    pub mode: String,
    /// Where arrivals begin.
    pub view: View,
}

/// What goes with a frame that is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMeta {
    /// Bytes of the slot that are the frame, without FCS.
    pub len: u16,
    /// What it is counted as.
    pub counted: Counted,
    /// Counted by; below the number of tags the port was opened with.
    pub tag: u32,
    /// Absolute launch time, which ports that hold frames wait for; others are told it to judge their card's stamps by.
    /// Zero: at once.
    pub launch: Nanos,
    /// Where sequence and time go; only ports that hold frames write them.
    pub stamp: Stamp,
    /// The sequence number of a frame with Wirebeat's own probe that was numbered before it leaves; a port that holds
    /// frames writes this one. `None`: the next of its tag.
    pub number: Option<u32>,
    /// A port that holds frames drops one that is later than this; `Nanos::MAX`: never.
    pub drift: Nanos,
    /// A port that holds frames sends a late one no sooner than this after the last of its tag; or with it, where it
    /// could not send anything for longer than this in between.
    pub spacing: Nanos,
    /// Its place among the fragments of its packet.
    pub place: Place,
    /// What of the frame is not in the slot.
    pub external: ExternalPayload,
    /// How it is cut, where it holds several segments of TCP; only of ports that take such ([`TxCaps::large`]).
    pub segments: Segments,
}

/// A frame with several segments of TCP, which the kernel or the network card cuts (TSO, GSO). Its TCP checksum is the sum of the
/// pseudo header so far. Each segment gets the headers of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of data of each segment, the last one perhaps fewer; 0: the frame is one segment, and complete.
    pub len: u16,
    /// Where the TCP header begins in the frame.
    pub tcp_at: u16,
    /// Where the data begins.
    pub data_at: u16,
    /// Whether the IP header is one of IPv6.
    pub is_v6: bool,
}

/// Part of a frame that the port takes from memory which it shares: the slot has what is before it and what is behind it,
/// one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalPayload {
    /// Where it is in that memory.
    pub from: u32,
    /// Its bytes; 0: all of the frame is in the slot.
    pub len: u16,
    /// Where it begins in the frame.
    pub at: u16,
}

/// Where a frame stands among those of its packet, for ports that drop what is late: all of a packet or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// It is the packet.
    #[default]
    Whole,
    /// The first of it, which so many follow.
    First(u16),
    /// It leaves right after the one before it, or is dropped with that.
    Following,
}

/// Frames, and how much they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many. The fragments of a packet count as one.
    pub frames: u64,
    /// How many more they are on the wire: fragments beside those.
    pub fragments: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Bytes of their payload.
    pub payload: u64,
}

impl Amount {
    /// One frame more, or part of one.
    #[inline]
    pub fn add(&mut self, frame: Counted) {
        self.frames += u64::from(frame.packets);
        self.fragments += u64::from(frame.fragments);
        self.bytes += u64::from(frame.bytes);
        self.payload += u64::from(frame.payload);
    }

    /// This number of frames like this one.
    #[inline]
    pub fn add_many(&mut self, frame: Counted, many: u64) {
        self.frames += u64::from(frame.packets) * many;
        self.fragments += u64::from(frame.fragments) * many;
        self.bytes += u64::from(frame.bytes) * many;
        self.payload += u64::from(frame.payload) * many;
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.frames += other.frames;
        self.fragments += other.fragments;
        self.bytes += other.bytes;
        self.payload += other.payload;
    }
}

impl SubAssign for Amount {
    /// Stops at zero.
    fn sub_assign(&mut self, other: Amount) {
        self.frames = self.frames.saturating_sub(other.frames);
        self.fragments = self.fragments.saturating_sub(other.fragments);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.payload = self.payload.saturating_sub(other.payload);
    }
}

/// What became of the frames of a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxTotals {
    /// Frames that the engine below accepted.
    pub sent: Amount,
    /// Frames that it refused or that failed on the way to the device.
    pub failed: Amount,
    /// Frames that a holding port dropped because they were later than their drift.
    pub expired: Amount,
    /// Frames that were committed and taken back by [`TxPort::stop`] before they were due.
    pub withdrawn: Amount,
}

impl AddAssign for TxTotals {
    fn add_assign(&mut self, other: TxTotals) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.expired += other.expired;
        self.withdrawn += other.withdrawn;
    }
}

/// What became of a frame that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The engine below accepted it.
    Sent,
    /// It did not.
    Failed,
}

/// What became of frames, in the order in which they were committed: runs of one fate, until somebody asks.
#[derive(Clone, Debug)]
pub struct Fates(Vec<(Fate, usize)>);

impl Default for Fates {
    fn default() -> Fates {
        // who asks after each batch finds a run or two
        Fates(Vec::with_capacity(16))
    }
}

impl Fates {
    /// The next so many frames had this fate.
    #[inline]
    pub fn push(&mut self, fate: Fate, frames: usize) {
        match self.0.last_mut() {
            _ if frames == 0 => {}
            Some((last, count)) if *last == fate => *count += frames,
            _ => self.0.push((fate, frames)),
        }
    }

    /// Gives `each` what was pushed since the last time.
    #[inline]
    pub fn take(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.0.drain(..).for_each(|(fate, frames)| each(fate, frames));
    }
}

/// What a port is going to be asked to send, so that it can lay out its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxPlan {
    /// Tags are below this.
    pub tags: u32,
    /// The longest frame; of a port that sends datagrams the longest payload.
    pub frame_max: BufferLen,
    /// The length of every frame, where they are all equally long.
    pub frame_len: Option<BufferLen>,
    /// Whether frames have launch times.
    pub paced: bool,
    /// Whether some packets leave as fragments.
    pub cut: bool,
    /// How far the clock of the day is ahead of the monotonic one at the start, in nanoseconds (modulo 2^64), for ports
    /// that write their frames to a file.
    pub unix_offset: u64,
    /// Frames of the round that the port is to repeat; 0: frames are streamed.
    pub round: usize,
}

/// An order to send the frames committed so far round and round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// When the first round starts; launch times of the committed frames count from here.
    pub start: Nanos,
    /// Length of a round in 2^-32 ns; 0: as fast as possible.
    pub length_q32: u128,
    /// How many frames are sent in all.
    pub limit: u64,
    /// No frame is sent at or after this time.
    pub stop: Nanos,
}

/// When frames of a tag left, as a holding port saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DepartureRecord {
    /// Departure of the first and of the last frame, on the clock of the run.
    pub span: Option<(Nanos, Nanos)>,
    /// Lateness and gaps of those with a launch time. From tag [`OWN_HISTOGRAMS`] on without histograms.
    pub departures: Departures,
    /// How many were later than their flow allows ([`late_after`]).
    pub late: u64,
}

/// Tags from this on share one histogram of each kind on each transmit core: the four of a tag take 124 KiB.
pub const OWN_HISTOGRAMS: u32 = 512;
/// Later than this is late, where the flow does not say otherwise.
pub const LATE_AFTER: Nanos = RunSpec::DEFAULT_DRIFT;

/// From which send lateness on a frame of a flow counts as late: its drift, if it has one.
pub fn late_after(late: Late) -> Nanos {
    match late {
        Late::Drop(drift) => drift,
        Late::Send => LATE_AFTER,
    }
}

/// How long whoever waits for launch times had to do without its CPU, because a timer tick, an interrupt or another
/// program had it, or the hypervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interruptions {
    /// For how long it would have known, in all.
    pub listened: Nanos,
    /// How long they were, in ns: those of a microsecond and more.
    pub lengths: Distribution,
}

impl Interruptions {
    /// Adds those of another core.
    pub fn merge(&mut self, other: &Interruptions) {
        self.listened = self.listened.saturating_add(other.listened);
        self.lengths.merge(&other.lengths);
    }
}

/// What a card stamped of the frames of a port, for ports that ask it to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardStamps {
    /// Received frames that it stamped.
    pub received: u64,
    /// Received frames that it did not.
    pub unstamped: u64,
    /// Sent frames that were to be stamped: a sample.
    pub asked: u64,
    /// Those of them that it stamped.
    pub sent: u64,
    /// When they left by the card's clock, less their deadline, in ns; of those that had one.
    pub send_lateness: Distribution,
    /// When they left by the card's clock, less when they were handed over, in ns.
    pub hand_over: Distribution,
    /// How far a time can have been off by conversion from the card's clock, at the most.
    pub error: Nanos,
}

impl CardStamps {
    /// Adds those of another core.
    pub fn merge(&mut self, other: &CardStamps) {
        self.received += other.received;
        self.unstamped += other.unstamped;
        self.asked += other.asked;
        self.sent += other.sent;
        self.send_lateness.merge(&other.send_lateness);
        self.hand_over.merge(&other.hand_over);
        self.error = self.error.max(other.error);
    }
}

/// A frame or datagram that came in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When it arrived, on the clock of the run.
    pub at: Nanos,
    /// Whether `at` is what this port measures by. A frame that the card was to stamp and did not has the time at which the
    /// system took it: it is counted, and no delay or gap is made of it.
    pub timed: bool,
    /// Its bytes, as the port's [`View`] says; without FCS.
    pub bytes: &'a [u8],
    /// Length of the whole frame with FCS, also where `bytes` is cut short or begins at the payload.
    pub frame_len: u32,
    /// Where a datagram came from and where it went; `None` where `bytes` say so themselves, or nobody asked.
    pub ends: Option<Ends>,
    /// What the card chose its receive queue by; `None` where it does not say, or nobody asked.
    pub hash: Option<u32>,
}

/// Why a port could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// This machine lacks something; found before any traffic. Exit code 3.
    #[error("{}", self.fault())]
    Missing {
        /// Which engine.
        engine: &'static str,
        /// Interface or address.
        on: String,
        /// What is missing, and what would help.
        missing: Fault,
    },
    /// The interface went down or away while in use. The run ends with its counters.
    #[error("interface {0} went down or was removed")]
    Gone(String),
    /// The system refused an operation.
    #[error("{what} on {on}: {source}")]
    System {
        /// What was attempted.
        what: Cow<'static, str>,
        /// On what.
        on: String,
        /// The system's error; where more is known of it, one that holds a [`Fault`].
        source: std::io::Error,
    },
    /// The port cannot do what was asked of it.
    #[error("{}", self.fault())]
    Unsupported {
        /// Which engine.
        engine: &'static str,
        /// What it cannot do, and what would help.
        what: Fault,
    },
}

impl PortError {
    /// That an engine lacks something on an interface or address.
    pub fn missing(
        engine: &'static str,
        on: impl Into<String>,
        missing: impl Into<Fault>,
    ) -> PortError {
        PortError::Missing { engine, on: on.into(), missing: missing.into() }
    }

    /// The same where another engine needs what is missing, or cannot do what was asked.
    #[must_use]
    pub fn of_engine(mut self, name: &'static str) -> PortError {
        if let PortError::Missing { engine, .. } | PortError::Unsupported { engine, .. } = &mut self
        {
            *engine = name;
        }
        self
    }

    /// Says what would help too, where something is missing.
    #[must_use]
    pub fn with_hint(self, text: impl Into<String>) -> PortError {
        match self {
            PortError::Missing { engine, on, missing } => {
                PortError::Missing { engine, on, missing: missing.then_hint(text) }
            }
            other => other,
        }
    }

    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            PortError::Missing { engine, on, missing } => {
                missing.clone().at(format!("the {engine} engine cannot run on {on}"))
            }
            PortError::Unsupported { engine, what: Fault { what, hint } } => {
                Fault { what: format!("the {engine} engine cannot {what}"), hint: hint.clone() }
            }
            PortError::System { what, on, source } => {
                let told = source.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
                let fault = told.cloned().unwrap_or_else(|| source.to_string().into());
                fault.at(format!("{what} on {on}"))
            }
            PortError::Gone(_) => self.to_string().into(),
        }
    }
}

into_fault!(PortError);

/// The sending side of a port, owned by one thread. See the module's documentation.
pub trait TxPort: Send {
    /// What it can do.
    fn caps(&self) -> &TxCaps;

    /// Makes room until up to `want` frames are reserved (those reserved before count), and returns
    /// how many are. Fewer, or none, when the port is full: try again after a [`TxPort::flush`].
    fn reserve(&mut self, want: usize) -> Result<usize, PortError>;

    /// The bytes of reserved frame `index`, at least `caps().frame_max` of them. What they hold is
    /// whatever was there before.
    ///
    /// # Panics
    /// When `index` is not below the number of reserved frames.
    fn slot(&mut self, index: usize) -> &mut [u8];

    /// Hands over the first `metas.len()` reserved frames in order; those after them stay reserved,
    /// from index 0 on. Transmission may begin at once or with [`TxPort::flush`].
    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError>;

    /// How many of the frames committed so far it has no more use for, in the order in which they were committed: nor
    /// for what of them lies apart.
    fn done(&self) -> u64 {
        u64::MAX
    }

    /// Sees to it that everything committed is on its way, and collects what became of it. Does not
    /// wait for launch times.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Gives `each` what became of frames since the last call, in the order in which they were committed: so many had
    /// this fate, then so many that. Ports that hold frames say it by [`TxPort::departures`] and give nothing here.
    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        let _ = each;
    }

    /// Waits, at most until `deadline` of the monotonic clock, until everything committed is sent,
    /// failed or expired; says whether it is.
    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError>;

    /// Adds what became of the frames so far to `totals`, which is indexed by tag.
    fn totals(&self, totals: &mut [TxTotals]);

    /// Begins to repeat the frames committed so far (at most [`TxCaps::repeats`]).
    fn repeat(&mut self, order: &Repeat) -> Result<(), PortError> {
        let _ = order;
        let engine = self.caps().engine;
        Err(PortError::Unsupported { engine, what: "repeat a period by itself".into() })
    }

    /// Takes back what is committed and not yet sent, and sends nothing more. Frames taken back are
    /// counted in [`TxTotals::withdrawn`]. A port that does not hold frames has none to take back.
    fn stop(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// When the frames of `tag` left; only ports that hold frames know.
    fn departures(&self, tag: u32) -> DepartureRecord {
        let _ = tag;
        DepartureRecord::default()
    }

    /// The buckets of the histograms of all tags from [`OWN_HISTOGRAMS`] on.
    fn shared_departures(&self) -> Departures {
        Departures::default()
    }

    /// How it was kept from its CPU; only ports that wait for launch times themselves know.
    fn interruptions(&self) -> Option<Interruptions> {
        None
    }

    /// What its card stamped until now; `None` where the system stamps. It asks for no more after that.
    fn card_stamps(&mut self) -> Option<CardStamps> {
        None
    }
}

/// The receiving side of a port, owned by one thread.
pub trait RxPort: Send {
    /// What it is.
    fn caps(&self) -> &RxCaps;

    /// Takes what has arrived, waiting at most until `until` for the first, and gives it to `sink` in
    /// order. Returns how many there were.
    fn receive<F>(&mut self, until: Nanos, sink: F) -> Result<usize, PortError>
    where
        F: FnMut(&Arrival<'_>);

    /// Sends `answer` back from where the datagram came to that asked for it; says whether it left. A port that cannot, or
    /// need not because a program of this host does, sends nothing.
    fn answer(&mut self, answer: &Answer) -> bool {
        let _ = answer;
        false
    }

    /// Frames that the engine itself lost (ring full), so far.
    fn receive_drops(&self) -> u64 {
        0
    }

    /// What its card stamped until now; `None` where the system stamps.
    fn card_stamps(&self) -> Option<CardStamps> {
        None
    }

    /// Takes nothing more, and keeps what it has opened for a later run. Says whether it can.
    fn rest(&mut self) -> bool {
        false
    }
}
