//! The measurements of a run once more, from its log alone.
//!
//! Each port that measured has its meters again, one for each queue, and they take its rows in their order. What comes out is
//! what they said then, as long as all their frames are in the log; what is different is counted.

use std::collections::BTreeMap;
use std::path::Path;

use wirebeat_meter::departures::{DepartureRecorder, Departures};
use wirebeat_meter::meter::Meter;
use wirebeat_meter::observation::{Judged, LoggedFrame};
use wirebeat_meter::queues::meters;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_units::{Fault, Nanos, fault};

use super::logged_run::{LogEnd, LogHead, MeterFacts};
use super::read::{Cut, LogReader, Row};
use crate::seen::Outcome;

/// More queues than any port has, and more flows on all queues of all ports than fit into a gigabyte; a file may say anything.
const QUEUES_MAX: usize = 256;
const FLOWS_MAX: usize = 1 << 20;

/// What a log comes to.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// What it says of its run.
    pub head: LogHead,
    /// What it says of its end.
    pub end: Option<LogEnd>,
    /// What is missing at its end.
    pub cut: Option<Cut>,
    /// How many rows it has.
    pub rows: u64,
    /// When its first and its last frame were seen, on the monotonic clock; `None` without one.
    pub span: Option<(Nanos, Nanos)>,
    /// Its ports, in the order of [`LogHead::ports`].
    pub ports: Vec<RebuiltPort>,
}

/// What a port received and sent.
#[derive(Clone, Debug, Default)]
pub struct RebuiltPort {
    /// What it measured; `None`: the log has nothing that it received and its meter is not known.
    pub summary: Option<MeterSummary>,
    /// Frames that it received.
    pub received: u64,
    /// Frames of which something else became when they were measured.
    pub differing: u64,
    /// Frames that are measured and whose payload the log does not know.
    pub without_payload: u64,
    /// What it sent, by the numbers of flows; frames of none are under `None`.
    pub sent: BTreeMap<Option<u16>, SentFrames>,
}

/// What became of frames that were to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentFrames {
    /// Those that left.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Their bytes of transport payload, as far as the log knows it.
    pub payload_bytes: u64,
    /// Those that the engine or the system refused.
    pub failed: u64,
    /// Those that were dropped because they were late.
    pub expired: u64,
    /// When the first and the last left.
    pub span: Option<(Nanos, Nanos)>,
    /// Lateness and gaps of those that were due at a time.
    pub departures: Departures,
}

impl SentFrames {
    /// Adds what another port sent of the same flow.
    pub fn join(&mut self, other: &SentFrames) {
        self.frames = self.frames.saturating_add(other.frames);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.payload_bytes = self.payload_bytes.saturating_add(other.payload_bytes);
        self.failed = self.failed.saturating_add(other.failed);
        self.expired = self.expired.saturating_add(other.expired);
        if let Some((first, last)) = other.span {
            self.span = Some(stretched(self.span, first));
            self.span = Some(stretched(self.span, last));
        }
        self.departures.merge(&other.departures);
    }
}

/// Reads a log, and measures what is in it.
///
/// # Errors
/// Where it cannot be read, or is no packet log: where, and why.
pub fn rebuild(path: &Path) -> Result<Rebuilt, Fault> {
    let mut reader = LogReader::open(path)?;
    check_size(reader.head()).map_err(|why| why.at(path.display()))?;
    let mut ports: Vec<PortMeters> =
        reader.head().ports.iter().map(|port| PortMeters::new(port.meter.as_ref())).collect();
    let (mut rows, mut span) = (0, None);
    while let Some(row) = reader.next_row()? {
        rows += 1;
        span = Some(stretched(span, row.at));
        if let Some(port) = ports.get_mut(row.port) {
            port.take(&row);
        }
    }
    let end = reader.end().cloned();
    let drops = |place: usize| {
        end.as_ref().and_then(|end| end.ports.get(place)).map_or(0, |port| port.receiver_drops)
    };
    Ok(Rebuilt {
        head: reader.head().clone(),
        cut: reader.cut(),
        rows,
        span,
        ports: (0..).zip(ports).map(|(place, port)| port.finish(drops(place))).collect(),
        end,
    })
}

/// The most ports of a log: more than any machine has interfaces that a run would use.
const PORTS_MAX: usize = 1024;

/// That what was measured fits into memory.
fn check_size(head: &LogHead) -> Result<(), Fault> {
    let of = |meter: &MeterFacts| {
        let flows = meter.expected.as_ref().map_or(0, BTreeMap::len) + meter.by_headers.len() + 1;
        flows.saturating_mul(queues(meter))
    };
    if head.ports.len() > PORTS_MAX {
        return Err(fault!(
            "it says that its run had {} ports, and {PORTS_MAX} are the most that are read here", head.ports.len();
            "give a log as Wirebeat wrote it"
        ));
    }
    let meters = head.ports.iter().filter_map(|port| port.meter.as_ref());
    let flows = meters.map(of).fold(0, usize::saturating_add);
    match flows <= FLOWS_MAX {
        true => Ok(()),
        false => Err(fault!(
            "it says that its run measured {flows} flows on all queues, and {FLOWS_MAX} are the most that are measured here";
            "give a log as Wirebeat wrote it"
        )),
    }
}

/// How many meters a port had.
fn queues(facts: &MeterFacts) -> usize {
    usize::from(facts.queues).clamp(1, QUEUES_MAX)
}

fn stretched(span: Option<(Nanos, Nanos)>, at: Nanos) -> (Nanos, Nanos) {
    span.map_or((at, at), |(first, last)| (first.min(at), last.max(at)))
}

/// The meters of a port.
struct PortMeters {
    meters: Vec<Meter>,
    /// Which of them each queue has.
    queues: BTreeMap<u16, usize>,
    /// Whether the log says what they are told.
    known: bool,
    port: RebuiltPort,
    departures: BTreeMap<Option<u16>, DepartureRecorder>,
}

impl PortMeters {
    fn new(facts: Option<&MeterFacts>) -> PortMeters {
        let known = facts.is_some();
        let facts = facts.cloned().unwrap_or_default();
        PortMeters {
            meters: if known { meters(facts.config(), queues(&facts)) } else { Vec::new() },
            queues: BTreeMap::new(),
            known,
            port: RebuiltPort::default(),
            departures: BTreeMap::new(),
        }
    }

    fn take(&mut self, row: &Row) {
        match row.outcome {
            Outcome::Received(standing) => {
                let Row { at, frame_len, flow, sequence, sent, sampled, .. } = *row;
                let judged = Judged { flow, sequence, sent, standing, sampled };
                self.receive(row.queue, &LoggedFrame { at, frame_len, judged });
            }
            Outcome::Sent => self.sent(row),
            Outcome::Failed => self.port.sent.entry(row.flow).or_default().failed += 1,
            Outcome::Expired => self.port.sent.entry(row.flow).or_default().expired += 1,
        }
    }

    fn receive(&mut self, queue: u16, frame: &LoggedFrame) {
        self.port.received += 1;
        // in the order in which they come; more of them than the port had take turns
        let next = self.queues.len() % self.meters.len().max(1);
        let place = *self.queues.entry(queue).or_insert(next);
        let Some(meter) = self.meters.get_mut(place) else { return };
        let Judged { standing, sampled, .. } = frame.judged;
        self.port.without_payload += u64::from(standing.is_measured() && sampled.is_none());
        self.port.differing += u64::from(meter.record_again(frame) != standing);
    }

    fn sent(&mut self, row: &Row) {
        let sent = self.port.sent.entry(row.flow).or_default();
        sent.frames += 1;
        sent.bytes = sent.bytes.saturating_add(row.frame_len.into());
        let payload = row.sampled.map_or(0, |sampled| sampled.payload_len);
        sent.payload_bytes = sent.payload_bytes.saturating_add(payload.into());
        sent.span = Some(stretched(sent.span, row.at));
        if let Some(due) = row.due {
            let lateness = row.at.get().wrapping_sub(due.get()).cast_signed();
            self.departures.entry(row.flow).or_default().record(row.at, lateness);
        }
    }

    fn finish(mut self, receiver_drops: u64) -> RebuiltPort {
        for (flow, recorder) in self.departures {
            if let Some(sent) = self.port.sent.get_mut(&flow) {
                sent.departures = recorder.departures();
            }
        }
        let summaries = self.meters.into_iter().map(Meter::into_summary);
        let sum = |mut all: MeterSummary, one: MeterSummary| {
            all.merge(&one);
            all
        };
        let summary = summaries.reduce(sum).filter(|_| self.known);
        let summary = summary.map(|summary| MeterSummary { receiver_drops, ..summary });
        RebuiltPort { summary, ..self.port }
    }
}
