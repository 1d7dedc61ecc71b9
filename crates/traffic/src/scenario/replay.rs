//! Flows that send what was recorded: which archives or captures, when, and from which record which packet comes.
//!
//! What is in such a file is not known here: its name is passed on. What only captures have is `captured.rs`, and captures as
//! templates `copies.rs`.

mod captured;
mod copies;

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Factor, Fault, Nanos, WallTime, fault};
use wirebeat_wire::filter::Filter;

pub use captured::{Rewrite, Side, Truncated, Vlan};
pub use copies::{Copies, CopyClients, CopyServers};
pub use wirebeat_wire::rewrite::{PortRange, Prefix};

use super::flow::default_packet;
use super::header::Header;
use super::schema::{BytesText, FactorText, MomentText, TimeText};
use super::{Departures, FlowSpec, Invalid, KeyPath, Probe, is_default};

/// What was recorded, sent at its own times: records of archives as payloads, or frames of captures as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Replay {
    /// The archive, or several that are merged by time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub archive: Option<FileNames>,
    /// Instead of an archive: the capture, pcap or pcapng, or several that are merged by time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capture: Option<FileNames>,
    /// How many times as fast as it was recorded. Default: as fast.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "FactorText")]
    pub speed: Factor,
    /// Gap between two records instead of the recorded times; 0 is as fast as the engine can.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub tight_loop: Option<Nanos>,
    /// A record later than this is dropped and counted as expired; one that leaves within a microsecond of its time is in
    /// time. Default: as `run.late` says.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub drift: Option<Nanos>,
    /// No record from before this moment.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MomentText>")]
    pub from: Option<WallTime>,
    /// No record from this moment or after it.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MomentText>")]
    pub to: Option<WallTime>,
    /// No record of other devices. Default: of all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Vec<String>,
    /// Which sub-flow the records of a device belong to; patterns with `per: sub-flow` advance with it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flow_of: Option<FlowOf>,
    /// Records of the first so many sub-flows alone. Default: of all. It can change while they are sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sub_flows: Option<NonZeroU32>,
    /// What is counted and measured, each by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub statistics: Statistics,
    /// A longer time from one record to the next is shortened to this. Default: none is, and a replay without an end by
    /// time that would wait for more than an hour is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub max_gap: Option<Nanos>,
    /// Frames of a capture are put in the order of their times as far as they are no more than this apart. Default: the
    /// order of the file; a frame with a time before that of the frame before it leaves right behind that.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub reorder_window: Option<Nanos>,
    /// Some records leave later than they should, and so behind others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub out_of_order: Option<OutOfOrder>,
    /// No frames of a capture but those that this matches, in the syntax of capture filters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter: Option<String>,
    /// What becomes other in the frames of a capture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rewrite: Rewrite,
    /// No frames of a capture but those that this end of each conversation sent. Default: those of both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub side: Option<Side>,
    /// How to handle frames of a capture that were not captured whole.
    #[serde(default, skip_serializing_if = "is_default")]
    pub truncated: Truncated,
    /// A capture is a template: copies of it start again and again, each between other addresses and ports. Default: it is sent
    /// once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub copies: Option<Box<Copies>>,
    /// Whether all of it is read into memory before the run starts. Default: they are read while it goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preload: bool,
    /// How often all of it is sent.
    #[serde(default = "once", skip_serializing_if = "is_once", rename = "loop")]
    pub times: NonZeroU64,
    /// How to handle records that are invalid or cannot be sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_bad: OnBad,
    /// How files are read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reader: ReaderChoice,
    /// How many threads read files ahead for the one that checks and chooses, one file each.
    #[serde(default, skip_serializing_if = "is_default")]
    pub readers: u16,
    /// How many threads prepare what was read for the transmit cores.
    #[serde(default = "one_worker", skip_serializing_if = "is_one_worker")]
    pub workers: NonZeroU16,
    /// The length of a buffer, of which each of these threads has two. Default: 64 MiB; of copies 4 MiB, and of what leaves as
    /// fast as it can 2 MiB.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub buffer: Option<Bytes>,
}

/// Names of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "this should be the name of a file, or a list of names")]
pub enum FileNames {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// Which sub-flow the records of a device belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOf {
    /// Each device is one, in the order in which they come first.
    Device,
    /// One of so many, by what a device is called.
    Hash(NonZeroU32),
    /// That in a file: in each line a device, a comma, and the number of its sub-flow.
    Table(String),
}

/// What is counted and measured, each by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistics {
    /// The flow as a whole.
    #[default]
    Flow,
    /// Each sub-flow, too, of which `flow-of` speaks.
    SubFlow,
    /// Each device, too.
    Device,
}

/// Records that leave later than they should.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutOfOrder {
    /// Which share of them: 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: f64,
    /// How much later at the most; every time up to there is as likely as any other.
    #[schemars(with = "TimeText")]
    pub window: Nanos,
    /// How many of the port's transmit cores send these and nothing else; 0: all cores send both.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cores: u16,
    /// What the sequence numbers in probes follow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub numbers: Numbers,
}

/// What the sequence numbers in probes follow where records leave out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Numbers {
    /// The order of the records, so that a receiver measures the disorder.
    #[default]
    Records,
    /// The order in which they leave, so that a receiver sees the disorder of the network alone.
    Departures,
}

/// How to handle records that are invalid or cannot be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBad {
    /// Everything before it is sent, and the run fails with its place.
    #[default]
    Stop,
    /// It is skipped and counted.
    Skip,
}

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReaderChoice {
    /// Through the system's cache.
    #[default]
    Buffered,
    /// Past it (`O_DIRECT`): for archives larger than memory.
    Direct,
    /// Through memory that the file is mapped to.
    Mmap,
}

fn once() -> NonZeroU64 {
    NonZeroU64::MIN
}

fn is_once(times: &NonZeroU64) -> bool {
    *times == once()
}

fn one_worker() -> NonZeroU16 {
    NonZeroU16::MIN
}

fn is_one_worker(workers: &NonZeroU16) -> bool {
    *workers == one_worker()
}

impl FileNames {
    /// All of them.
    pub fn names(&self) -> &[String] {
        match self {
            FileNames::One(name) => std::slice::from_ref(name),
            FileNames::Several(names) => names,
        }
    }
}

impl From<Vec<String>> for FileNames {
    fn from(mut names: Vec<String>) -> FileNames {
        match (names.pop(), names.is_empty()) {
            (Some(only), true) => FileNames::One(only),
            (last, _) => FileNames::Several(names.into_iter().chain(last).collect()),
        }
    }
}

impl Replay {
    /// Archives know times to the microsecond, and a clock takes some nanoseconds to be read: a record that leaves within
    /// the microsecond of its time is not late.
    pub const WITHIN: Nanos = Nanos::new(999);
    /// How long a buffer is unless it is said: as much as a disk may fall behind.
    const USUAL_BUFFER: Bytes = Bytes::new(64 << 20);
    /// The same of what leaves as fast as it can: so little that it stays in the cache (measured: data of 1472 bytes leave
    /// 1.4 times as fast).
    const FAST_BUFFER: Bytes = Bytes::new(2 << 20);
    /// The same of copies, whose template is in memory: a scenario may have many.
    const COPIES_BUFFER: Bytes = Bytes::new(4 << 20);
    /// How long it can be: it holds the longest record, and offsets in it have 32 bits.
    pub const BUFFER: std::ops::RangeInclusive<u64> = 1 << 17..=1 << 31;
    /// The most threads that prepare what was read.
    pub const WORKERS_MAX: u16 = 256;
    /// The most devices or sub-flows that are counted and measured each by itself. Every one takes 32 KiB on each
    /// transmit core for its departures, and some 140 KiB where its frames are received.
    pub const MEMBERS_MAX: u32 = 4096;
    /// The same where it is not known beforehand how many there are.
    pub const MEMBERS_UNKNOWN: u32 = 256;

    /// Of one archive, with every other setting at its default.
    pub fn of(archive: impl Into<String>) -> Replay {
        Replay {
            archive: Some(FileNames::One(archive.into())),
            capture: None,
            speed: Factor::ONE,
            tight_loop: None,
            drift: None,
            from: None,
            to: None,
            devices: Vec::new(),
            flow_of: None,
            sub_flows: None,
            statistics: Statistics::Flow,
            max_gap: None,
            reorder_window: None,
            out_of_order: None,
            filter: None,
            rewrite: Rewrite::default(),
            side: None,
            truncated: Truncated::Pad,
            copies: None,
            preload: false,
            readers: 0,
            times: once(),
            on_bad: OnBad::Stop,
            reader: ReaderChoice::Buffered,
            workers: one_worker(),
            buffer: None,
        }
    }

    /// A replay without an end by time is refused where it would wait longer than this for its next record.
    pub const LONG_GAP: Nanos = Nanos::from_secs(3600);

    /// The names of its files.
    pub fn names(&self) -> &[String] {
        self.archive.as_ref().or(self.capture.as_ref()).map_or(&[], FileNames::names)
    }

    /// Whether its records are whole frames.
    pub fn is_capture(&self) -> bool {
        self.capture.is_some()
    }

    /// Whether records leave as fast as the engine can.
    pub fn is_unlimited(&self) -> bool {
        self.tight_loop == Some(Nanos::ZERO)
    }

    /// How long a buffer is.
    pub fn buffer(&self) -> Bytes {
        let usual = match &self.copies {
            _ if self.is_unlimited() => Self::FAST_BUFFER,
            Some(_) => Self::COPIES_BUFFER,
            None => Self::USUAL_BUFFER,
        };
        self.buffer.unwrap_or(usual)
    }

    /// The file that says which device is which sub-flow.
    pub fn table(&self) -> Option<&str> {
        match &self.flow_of {
            Some(FlowOf::Table(file)) => Some(file),
            _ => None,
        }
    }

    /// What is invalid, and the key.
    fn check(&self) -> Result<(), (&'static str, Fault)> {
        let no = |key, why: Fault| Err((key, why));
        let key = match (&self.archive, &self.capture) {
            (Some(_), Some(_)) => {
                return no(
                    "capture",
                    fault!("a flow replays archives or captures"; "leave one of the two out"),
                );
            }
            (None, None) => {
                return no(
                    "archive",
                    fault!(
                        "there is nothing to replay";
                        "write an archive, or 'capture' with the name of a capture"
                    ),
                );
            }
            (Some(_), None) => "archive",
            (None, Some(_)) => "capture",
        };
        if self.names().is_empty() || self.names().iter().any(String::is_empty) {
            let example = if self.is_capture() { "day.pcapng" } else { "day.wbar" };
            return Err((
                key,
                fault!("a name of a file is missing"; "write for example {example}"),
            ));
        }
        self.check_kind()?;
        self.check_copies()?;
        if self.tight_loop.is_some() && self.speed != Factor::ONE {
            return no(
                "speed",
                fault!("a tight loop does not look at recorded times"; "leave one of the two out"),
            );
        }
        if self.is_unlimited() && self.drift.is_some() {
            return no(
                "drift",
                fault!("what leaves as fast as it can is never late"; "leave one of the two out"),
            );
        }
        if self.sub_flows.is_some() && self.flow_of.is_none() {
            return no(
                "sub-flows",
                fault!("there are none without 'flow-of'"; "write that too, or leave it out"),
            );
        }
        if self.statistics == Statistics::SubFlow && self.flow_of.is_none() {
            return no(
                "statistics",
                fault!(
                    "there are no sub-flows without 'flow-of'";
                    "write 'flow-of' too, or 'statistics: device'"
                ),
            );
        }
        if self.max_gap.is_some() && self.tight_loop.is_some() {
            return no(
                "max-gap",
                fault!("a tight loop does not look at recorded times"; "leave one of the two out"),
            );
        }
        if self.max_gap == Some(Nanos::ZERO) {
            return no(
                "max-gap",
                fault!("without any gap it is a 'tight-loop' of 0"; "write that, or a time"),
            );
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && to <= from
        {
            return no("to", "it is not after 'from': no record lies between".into());
        }
        if let Some(OutOfOrder { probability, window, .. }) = self.out_of_order {
            if !(0.0..=1.0).contains(&probability) {
                return no(
                    "out-of-order",
                    fault!("a probability is 0 to 1"; "write for example 0.1"),
                );
            }
            if window == Nanos::ZERO {
                return no(
                    "out-of-order",
                    fault!(
                        "nothing can leave later within a window of no time";
                        "give it a 'window'"
                    ),
                );
            }
            if self.is_unlimited() {
                return no(
                    "out-of-order",
                    fault!(
                        "what leaves as fast as it can has no time to be late by";
                        "give 'tight-loop' a time"
                    ),
                );
            }
        }
        if !Replay::BUFFER.contains(&self.buffer().get()) {
            return no("buffer", "a buffer has 128KiB to 2GiB".into());
        }
        let files = self.names().len();
        if usize::from(self.readers) > files {
            return Err(("readers", fault!("each file has one at the most"; "give 0 to {files}")));
        }
        if self.workers.get() > Replay::WORKERS_MAX {
            return Err(("workers", fault!("there are {} at most", Replay::WORKERS_MAX)));
        }
        Ok(())
    }
}

impl Replay {
    /// What only the other kind of file has; and what is said of captures.
    fn check_kind(&self) -> Result<(), (&'static str, Fault)> {
        let no = |key, why: Fault| Err((key, why));
        if self.is_capture() {
            let devices =
                fault!("a capture has no devices"; "choose frames with 'filter', or leave it out");
            return match self {
                _ if !self.devices.is_empty() => no("devices", devices),
                _ if self.flow_of.is_some() => no("flow-of", devices),
                _ if self.sub_flows.is_some() => no("sub-flows", devices),
                _ if self.statistics != Statistics::Flow => no("statistics", devices),
                Replay { filter: Some(filter), .. } => match Filter::new(filter) {
                    Ok(_) => Ok(()),
                    Err(why) => Err(("filter", why.fault())),
                },
                _ => Ok(()),
            };
        }
        let only = [
            ("filter", self.filter.is_some()),
            ("rewrite", self.rewrite != Rewrite::default()),
            ("side", self.side.is_some()),
            ("truncated", self.truncated != Truncated::Pad),
            ("reorder-window", self.reorder_window.is_some()),
            ("copies", self.copies.is_some()),
        ];
        match only.into_iter().find(|(_, is_said)| *is_said) {
            Some((key, _)) => no(key, fault!("only a capture has this"; "leave it out")),
            None => Ok(()),
        }
    }
}

impl FlowSpec {
    /// Whether it sends the frames of captures, which have all headers themselves.
    pub fn is_captured(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.is_capture())
    }

    /// What is invalid of a flow that sends what was recorded.
    pub(super) fn check_replay(&self, name: &str) -> Result<(), Invalid> {
        let Some(replay) = &self.replay else { return Ok(()) };
        let at = |key: &str| KeyPath::flow(name).key(key);
        replay.check().map_err(|(key, why)| at("replay").key(key).invalid(why))?;
        let rewrite =
            |(key, why): (&'static str, Fault)| at("replay").key("rewrite").key(key).invalid(why);
        replay.rewrite.check().map_err(rewrite)?;
        if let Some(copies) = &replay.copies {
            let here = || at("replay").key("copies");
            let below = |key: &str| key.split('.').fold(here(), |place, key| place.key(key));
            copies.check().map_err(|(key, why)| below(key).invalid(why))?;
        }
        let said = |key: &str, why: Fault| Err(at(key).invalid(why));
        let shown = self.packet.iter().any(Header::has_sub_flows);
        if replay.flow_of.is_some() && !shown {
            return Err(at("replay").key("flow-of").invalid(fault!(
                "sub-flows differ in the fields that advance with them, and there are none";
                "give a pattern 'per: sub-flow'"
            )));
        }
        if self.size.is_some() {
            return said("size", fault!("what is replayed has its sizes"; "leave 'size' out"));
        }
        if !self.rate.is_unlimited() && replay.copies.is_some() {
            return said(
                "rate",
                fault!("packets of copies have times"; "write the rate of copies in 'copies'"),
            );
        }
        if !self.rate.is_unlimited() {
            return said(
                "rate",
                fault!(
                    "what is replayed has its times";
                    "leave 'rate' out, or give 'replay' a 'tight-loop': the time from one to the \
                     next, 1us for a million a second"
                ),
            );
        }
        if self.departures != Departures::Constant {
            return said(
                "departures",
                fault!("what is replayed has its times"; "leave 'departures' out"),
            );
        }
        if self.burst != NonZeroU32::MIN {
            return said("burst", fault!("what is replayed has its times"; "leave 'burst' out"));
        }
        if self.sub_flows.is_some() {
            return said(
                "sub-flows",
                fault!(
                    "the device of a record says its sub-flow";
                    "leave it out, or write 'flow-of' in 'replay'"
                ),
            );
        }
        if self.bytes.is_some() {
            return said(
                "bytes",
                fault!("what is replayed ends by its 'count' or at a time"; "leave 'bytes' out"),
            );
        }
        if replay.is_capture() {
            if !self.packet.is_empty() && self.packet != default_packet() {
                return said(
                    "packet",
                    fault!(
                        "the frames of a capture have their headers";
                        "leave it out, and write in 'rewrite' what is to become other"
                    ),
                );
            }
            return match self.probe {
                Probe::Carried(_) => said(
                    "probe",
                    fault!("the frames of a capture stay as they are"; "leave 'probe' out"),
                ),
                Probe::Auto | Probe::Off => Ok(()),
            };
        }
        if self.packet.iter().any(|header| matches!(header, Header::Raw(_) | Header::Payload(_))) {
            return said(
                "packet",
                fault!(
                    "records are the payload of the headers";
                    "leave payload and whole frames out"
                ),
            );
        }
        match self.probe {
            Probe::Carried(carried) if carried != Probe::WIREBEAT => said(
                "probe",
                fault!(
                    "what is replayed has room for Wirebeat's own probe behind it";
                    "write 'on' or 'off'"
                ),
            ),
            _ => Ok(()),
        }
    }
}
