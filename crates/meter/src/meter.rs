//! The meter of a receiver: tells its frames apart and gives each to its flow.
//!
//! Takes whole frames or datagrams, whatever they hold. Its memory is bounded ([`crate::memory`]), however many flows there
//! are, and nothing is allocated per frame once a flow has received a few.

mod again;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use wirebeat_units::Nanos;
use wirebeat_wire::carrier::Carrier;
use wirebeat_wire::datagram::{Datagram, NotADatagram};
use wirebeat_wire::ethernet;
use wirebeat_wire::fragment::Fragment;
use wirebeat_wire::probe::Probe;

use crate::bins::Bins;
use crate::codecs::{Answer, Codecs, Ends, Foreign, Stream, stream_number};
use crate::filter::Filter;
use crate::flow::{Expectation, FlowMeter, Sample};
use crate::headers::HeaderTable;
use crate::interval::{LISTED, MeterBooks, Metered};
use crate::memory::{MEMORY, Memory, PIECE};
use crate::observation::{Judged, Standing};
use crate::queues::{Newcomer, SharedFlows, ToldFlows};
use crate::reassembly::{Reassembly, Whole};
use crate::sequence::{SeenNumbers, SequenceTracker, WINDOW};
use crate::series::Books;
use crate::summary::MeterSummary;

/// The most flows that a meter takes: all numbers of a probe but one.
pub const FLOWS: u16 = u16::MAX;

/// Which flows are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flows {
    /// These, by their number in the probe; at most 65,535 of them.
    Expected(BTreeMap<u16, Expectation>),
    /// The first so many that arrive, whatever their numbers.
    Any(u16),
}

impl Default for Flows {
    fn default() -> Self {
        Flows::Any(FLOWS)
    }
}

/// What a meter is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Which flows are measured.
    pub flows: Flows,
    /// Which datagrams are looked at.
    pub filter: Filter,
    /// Bins of one width for inter-arrival times, beside the log-linear ones.
    pub bins: Option<Bins>,
    /// Sequence numbers that can be told apart; see [`crate::sequence::SequenceTracker::new`].
    pub window: u32,
    /// Probes sent before this, on the sender's clock, are left over from an earlier run.
    pub run_start: Option<Nanos>,
    /// Probes of other tools.
    pub codecs: Codecs,
    /// Flows without probes whose frames are counted by their headers. They are none of `flows`, and there is no filter.
    pub headers: HeaderTable,
    /// The gaps of those flows, where they have one.
    pub recognised: BTreeMap<u16, Expectation>,
}

impl Default for MeterConfig {
    fn default() -> Self {
        MeterConfig {
            flows: Flows::default(),
            filter: Filter::default(),
            bins: None,
            window: WINDOW,
            run_start: None,
            codecs: Codecs::default(),
            headers: HeaderTable::default(),
            recognised: BTreeMap::new(),
        }
    }
}

/// A flow that is measured.
#[derive(Clone, Debug)]
struct Measured {
    id: u16,
    /// Whether it has books of its own in each interval.
    listed: bool,
    meter: FlowMeter,
}

/// How something arrived.
#[derive(Clone, Copy)]
struct Arrived {
    at: Nanos,
    timed: bool,
    frame_len: u32,
    /// Frames that it took beside one.
    fragments: u32,
}

impl Arrived {
    fn frames(self) -> u64 {
        1 + u64::from(self.fragments)
    }

    /// With this payload, and without a probe.
    fn bare(self, payload: &[u8]) -> Sample {
        let Arrived { at, timed, frame_len, fragments } = self;
        let payload_len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let (sent, sequence, last) = (None, None, false);
        Sample { at, timed, sent, sequence, frame_len, fragments, payload_len, last }
    }
}

/// Stands in [`Meter::places`] for a flow that is not measured.
const NOWHERE: u16 = u16::MAX;
/// Bytes of [`Meter::places`].
const PLACES: usize = (1 << 16) * size_of::<u16>() + PIECE;
/// Bytes of an entry of [`Meter::streams`]: nodes of the map are half empty at the worst.
const STREAM: usize = 2 * size_of::<(Stream, u16)>() + PIECE;

/// Measures what one receive queue delivers.
#[derive(Clone, Debug)]
pub struct Meter {
    flows: Vec<Measured>,
    /// Where in `flows` each flow number is.
    places: Box<[u16]>,
    /// How many more flows may be added.
    room: u16,
    /// What is left for what grows with the flows.
    memory: Memory,
    filter: Filter,
    bins: Option<Bins>,
    window: u32,
    run_start: Option<Nanos>,
    codecs: Codecs,
    /// The numbers of flows of other tools that were not announced.
    streams: BTreeMap<Stream, u16>,
    /// All flow numbers below are taken.
    lowest_free: u16,
    /// What the sender of the last datagram waits for, if that was the last of its flow.
    answer: Option<Answer>,
    headers: HeaderTable,
    /// The flows that are known by their headers.
    recognised: BTreeMap<u16, FlowMeter>,
    unprobed: FlowMeter,
    unknown_flow: u64,
    stale: u64,
    foreign: u64,
    malformed: u64,
    reassembly: Reassembly,
    /// The next arrival is not timed.
    untimed: bool,
    /// What it shares with the meters of other queues, and the number of its own.
    shared: Option<(Arc<SharedFlows>, usize)>,
}

impl Meter {
    /// A meter that has seen nothing, for [`MEMORY`].
    pub fn new(config: MeterConfig) -> Self {
        Meter::within(MEMORY, config)
    }

    /// A meter that has seen nothing, for `memory` bytes; those that hold what is exact of each flow are taken however few
    /// there are.
    pub fn within(memory: usize, config: MeterConfig) -> Self {
        Meter::of(memory, config, None)
    }

    /// The meter of one of several queues, which share `flows` ([`crate::queues`]).
    pub(crate) fn of_queue(
        memory: usize,
        config: MeterConfig,
        flows: Arc<SharedFlows>,
        queue: usize,
    ) -> Self {
        let told = flows.announced(queue);
        let mut meter = Meter::of(memory, config, Some((flows, queue)));
        meter.learn(told);
        meter
    }

    fn of(memory: usize, config: MeterConfig, shared: Option<(Arc<SharedFlows>, usize)>) -> Self {
        let MeterConfig { flows, filter, bins, window, run_start, codecs, headers, recognised } =
            config;
        let by_headers = |(id, expected)| (id, FlowMeter::new(expected, window, bins));
        let (room, expected) = match flows {
            Flows::Any(limit) => (limit, BTreeMap::new()),
            Flows::Expected(flows) => (u16::try_from(flows.len()).unwrap_or(FLOWS), flows),
        };
        // and frames without a probe
        let all = usize::from(room) + recognised.len() + 1;
        let (first, growth) = match &shared {
            None => SequenceTracker::memory_of(window),
            Some(_) => (SequenceTracker::MEMORY_ON_QUEUE, 0),
        };
        let stream = if codecs.is_empty() { 0 } else { STREAM };
        let fixed = all.saturating_mul(size_of::<Measured>() + stream + first) + PLACES;
        let mut meter = Meter {
            // all of them lie in one piece, which never moves
            flows: Vec::with_capacity(room.into()),
            places: vec![NOWHERE; 1 << 16].into_boxed_slice(),
            room,
            memory: Memory::new(memory, fixed, all.saturating_mul(growth)),
            filter,
            bins,
            window,
            run_start,
            codecs,
            streams: BTreeMap::new(),
            lowest_free: 0,
            answer: None,
            headers,
            recognised: recognised.into_iter().map(by_headers).collect(),
            unprobed: FlowMeter::new(Expectation::default(), window, bins),
            unknown_flow: 0,
            stale: 0,
            foreign: 0,
            malformed: 0,
            reassembly: Reassembly::default(),
            untimed: false,
            shared,
        };
        let announced = !expected.is_empty();
        // queues are told of them, with their windows
        let expected = expected.into_iter().filter(|_| meter.shared.is_none());
        for (id, expected) in expected.collect::<Vec<_>>() {
            meter.add(id, expected);
        }
        if announced {
            meter.room = 0;
        }
        meter
    }

    /// Takes a frame that arrived at `at`: `bytes` from the Ethernet header on, without FCS, and the
    /// length of the whole frame with FCS. Says what becomes of it; of a fragment that makes a packet whole, what becomes of
    /// that.
    #[inline]
    pub fn record_frame(&mut self, at: Nanos, bytes: &[u8], frame_len: u32) -> Judged {
        let arrived = self.arrived(at, frame_len);
        self.record_packet(bytes, arrived)
    }

    /// What arrives next has no time that is exact enough to measure by: see [`FlowSummary::untimed`].
    ///
    /// [`FlowSummary::untimed`]: crate::summary::FlowSummary::untimed
    pub fn leave_time_out(&mut self) {
        self.untimed = true;
    }

    #[inline]
    fn arrived(&mut self, at: Nanos, frame_len: u32) -> Arrived {
        let timed = !std::mem::take(&mut self.untimed);
        Arrived { at, timed, frame_len, fragments: 0 }
    }

    #[inline]
    fn record_packet(&mut self, bytes: &[u8], arrived: Arrived) -> Judged {
        match Datagram::parse(bytes) {
            Ok(datagram) => {
                let source = SocketAddr::new(datagram.source, datagram.source_port);
                if self.filter.matches(Some(source), Some(datagram.destination_port)) {
                    let destination =
                        SocketAddr::new(datagram.destination, datagram.destination_port);
                    let ends = Ends { source, destination };
                    self.record_payload(arrived, datagram.payload, Some(ends), bytes)
                } else {
                    self.foreign += arrived.frames();
                    Judged::alone(Standing::Foreign)
                }
            }
            Err(NotADatagram::Foreign) => self.record_other(bytes, arrived),
            Err(NotADatagram::Malformed) => {
                let payload = bytes.get(ethernet::LEN..).unwrap_or_default();
                self.record_recognised(&arrived.bare(payload), bytes).unwrap_or_else(|| {
                    self.malformed += arrived.frames();
                    Judged::alone(Standing::Malformed)
                })
            }
        }
    }

    /// Takes a frame that is not a UDP datagram: a fragment of one, or a frame that is ours only if it carries the
    /// probe of a flow that is measured, for anything at all may be on a link.
    #[cold]
    fn record_other(&mut self, bytes: &[u8], arrived: Arrived) -> Judged {
        if let Some(fragment) = Fragment::parse(bytes) {
            return self.record_fragment(&fragment, arrived);
        }
        let carrier = Carrier::parse(bytes).ok();
        let payload = carrier
            .filter(|carrier| self.filter.matches_portless(carrier.source))
            .map(|carrier| carrier.payload);
        let probed = payload.filter(|payload| {
            Probe::from_tail(payload).is_some_and(|probe| self.knows(probe.flow))
        });
        if let Some(payload) = probed {
            return self.record_payload(arrived, payload, None, bytes);
        }
        let payload = payload.or(bytes.get(ethernet::LEN..)).unwrap_or_default();
        self.record_recognised(&arrived.bare(payload), bytes).unwrap_or_else(|| {
            self.foreign += arrived.frames();
            Judged::alone(Standing::Foreign)
        })
    }

    /// Gives a frame without the probe of a known flow to the flow that its headers are of, if there is one.
    fn record_recognised(&mut self, sample: &Sample, frame: &[u8]) -> Option<Judged> {
        if self.headers.is_empty() {
            return None;
        }
        let id = self.headers.find(frame)?;
        let standing = self.recognised.get_mut(&id)?.record(sample, &mut self.memory);
        Some(sample.judged(Some(id), standing))
    }

    /// Takes a fragment; the last one to arrive brings the packet.
    fn record_fragment(&mut self, fragment: &Fragment<'_>, arrived: Arrived) -> Judged {
        let mut reassembly = std::mem::take(&mut self.reassembly);
        let whole = reassembly.add(arrived.at, fragment, arrived.frame_len).map(|whole| {
            let Whole { frame, frame_len, frames } = whole;
            let whole = Arrived { frame_len, fragments: frames - 1, ..arrived };
            let judged = self.record_packet(frame, whole);
            // also of a packet that is not measured: its fragments count as what it is
            let sampled =
                judged.sampled.or_else(|| whole.bare(&[]).judged(None, judged.standing).sampled);
            Judged { sampled, ..judged }
        });
        self.reassembly = reassembly;
        whole.unwrap_or(Judged::alone(Standing::Fragment))
    }

    /// Whether flow `id` is measured, or may be.
    fn knows(&self, id: u16) -> bool {
        self.room > 0 || self.places[usize::from(id)] != NOWHERE
    }

    /// Takes a datagram that arrived at `at` in a frame of `frame_len` bytes with FCS. Its ends may be
    /// unknown; see [`Filter::matches`].
    #[inline]
    pub fn record_datagram(
        &mut self,
        at: Nanos,
        payload: &[u8],
        ends: Option<Ends>,
        frame_len: u32,
    ) -> Judged {
        let arrived = self.arrived(at, frame_len);
        if self.filter.matches(ends.map(|ends| ends.source), None) {
            self.record_payload(arrived, payload, ends, &[])
        } else {
            self.foreign += 1;
            Judged::alone(Standing::Foreign)
        }
    }

    /// Gives the payload to its flow: by its probe, or by its ends and the frame that it came in, which is empty where it
    /// is not known.
    #[inline]
    fn record_payload(
        &mut self,
        arrived: Arrived,
        payload: &[u8],
        ends: Option<Ends>,
        frame: &[u8],
    ) -> Judged {
        let bare = arrived.bare(payload);
        let Some(probe) = Probe::from_tail(payload) else {
            return self.record_foreign(&bare, payload, ends, frame);
        };
        let sent = Nanos::new(probe.transmit_ns);
        let stale = self.run_start.is_some_and(|start| sent < start);
        if !stale && let Some((flow, memory)) = self.place(probe.flow) {
            let (sent, sequence) = (Some(sent), Some(probe.sequence));
            let sample = Sample { sent, sequence, ..bare };
            let standing = flow.record(&sample, memory);
            return sample.judged(Some(probe.flow), standing);
        }
        // any bytes may end like a probe, and what is replayed may end with one of its own
        if let Some(judged) = self.record_recognised(&bare, frame) {
            return judged;
        }
        let (counter, standing) = match stale {
            true => (&mut self.stale, Standing::Stale),
            false => (&mut self.unknown_flow, Standing::UnknownFlow),
        };
        *counter += arrived.frames();
        Judged::alone(standing)
    }

    /// What the sender of the frame that was taken last waits for, if that was the last datagram of a flow that is
    /// measured and its format has an answer to it.
    #[inline]
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    /// How many frames were no part of what is measured.
    #[inline]
    pub fn left_alone(&self) -> u64 {
        self.unknown_flow + self.stale + self.foreign + self.malformed
    }

    /// Gives a payload without a probe of ours to the flow whose probe of another tool it carries.
    fn record_foreign(
        &mut self,
        bare: &Sample,
        payload: &[u8],
        ends: Option<Ends>,
        frame: &[u8],
    ) -> Judged {
        let port = ends.map(|ends| ends.destination.port());
        let seen = match self.codecs.is_empty() {
            true => None,
            false => self.codecs.read(payload, bare.at, port),
        };
        let Some(Foreign { flow, sequence, sent, last }) = seen else {
            return self.record_recognised(bare, frame).unwrap_or_else(|| {
                bare.judged(None, self.unprobed.record(bare, &mut self.memory))
            });
        };
        let known = self.codecs.flows.get(&flow).copied();
        let known = known.or_else(|| self.number(Stream::of(flow, ends), flow.1));
        let Some((id, (meter, memory))) = known.and_then(|id| Some((id, self.place(id)?))) else {
            self.unknown_flow += 1 + u64::from(bare.fragments);
            return Judged::alone(Standing::UnknownFlow);
        };
        let sequence = Some(sequence);
        let sample = Sample { sent, sequence, last, ..*bare };
        let standing = meter.record(&sample, memory);
        let account = if last { meter.account() } else { None };
        let asked = ends.zip(account);
        self.answer = asked.and_then(|(ends, account)| Answer::of(flow.0, payload, &account, ends));
        sample.judged(Some(id), standing)
    }

    /// The number of ours of a flow of another tool. A new one has its own, if nobody else has it, and none if there
    /// is no room for one more.
    fn number(&mut self, stream: Stream, own: Option<u32>) -> Option<u16> {
        if let Some(id) = self.streams.get(&stream) {
            return Some(*id);
        }
        if self.room == 0 {
            return None;
        }
        if let Some((flows, queue)) = &self.shared {
            let told = flows.ask(*queue, Newcomer::Stream(stream, own));
            self.learn(told);
            return self.streams.get(&stream).copied();
        }
        let places = &self.places;
        let free = |id: &u16| places[usize::from(*id)] == NOWHERE;
        let id = stream_number(own, &mut self.lowest_free, free)?;
        self.streams.insert(stream, id);
        Some(id)
    }

    /// The meter of flow `id`, if that is measured, and what it grows from.
    #[inline]
    fn place(&mut self, id: u16) -> Option<(&mut FlowMeter, &mut Memory)> {
        if self.places[usize::from(id)] == NOWHERE {
            self.add(id, Expectation::default());
        }
        let place = usize::from(self.places[usize::from(id)]);
        self.flows.get_mut(place).map(|flow| (&mut flow.meter, &mut self.memory))
    }

    /// Makes room for flow `id`, if there may be one more.
    #[cold]
    fn add(&mut self, id: u16, expected: Expectation) {
        if self.room == 0 {
            return;
        }
        if let Some((flows, queue)) = &self.shared {
            let told = flows.ask(*queue, Newcomer::Flow(id));
            return self.learn(told);
        }
        self.room -= 1;
        let listed = self.flows.len() < LISTED;
        self.push(Measured { id, listed, meter: FlowMeter::new(expected, self.window, self.bins) });
    }

    /// Measures what all queues do, as far as this one did not know.
    #[cold]
    fn learn(&mut self, told: ToldFlows) {
        for flow in told.flows {
            if self.places[usize::from(flow.id)] == NOWHERE {
                let meter =
                    FlowMeter::of_queue(flow.expected, self.window, Some(flow.window), self.bins);
                self.push(Measured { id: flow.id, listed: flow.listed, meter });
            }
        }
        self.streams.extend(told.streams);
        if told.complete {
            self.room = 0;
        }
    }

    fn push(&mut self, flow: Measured) {
        // At most 65,535 flows are added, so their places are below `NOWHERE`.
        self.places[usize::from(flow.id)] = self.flows.len() as u16;
        self.flows.push(flow);
    }

    /// How many sequence numbers of all flows are missing so far; see [`crate::sequence::SequenceTracker::missing`].
    pub fn missing(&self) -> u64 {
        self.flows.iter().map(|flow| flow.meter.missing()).sum()
    }

    /// The sequence numbers of each flow that have arrived so far. Flows that are known by their headers have none.
    pub fn seen(&self) -> Vec<(u16, SeenNumbers)> {
        self.seen_by_listing().map(|(_, id, seen)| (id, seen)).collect()
    }

    /// The same, and whether the flow has books of its own in each interval.
    pub(crate) fn seen_by_listing(&self) -> impl Iterator<Item = (bool, u16, SeenNumbers)> {
        let probed = self.flows.iter().filter(|flow| !flow.meter.is_empty());
        probed.map(|flow| (flow.listed, flow.id, flow.meter.seen()))
    }

    /// The flows that have books of their own in each interval, with their numbers, and those that have not.
    fn flows_by_listing(&self) -> impl Iterator<Item = (bool, u16, &FlowMeter)> {
        let probed = self.flows.iter().map(|flow| (flow.listed, flow.id, &flow.meter));
        let by_headers = (self.flows.len()..).zip(&self.recognised);
        probed.chain(by_headers.map(|(place, (id, meter))| (place < LISTED, *id, meter)))
    }

    /// Bytes that its flows take, as they lie there, and bytes that it has left for them.
    #[cfg(test)]
    pub(crate) fn taken_and_left(&self) -> (usize, usize) {
        let fixed = self.flows.capacity() * size_of::<Measured>() + PLACES;
        let recognised = self.recognised.values().map(|meter| size_of_val(meter) + meter.memory());
        let of_flows: usize = self.flows.iter().map(|flow| flow.meter.memory()).sum();
        let taken = fixed + of_flows + recognised.sum::<usize>() + self.unprobed.memory();
        (taken + self.memory.shared_bytes(), self.memory.left())
    }

    /// The measurements so far, from a copy of all that is kept. What the engine itself lost
    /// ([`MeterSummary::receiver_drops`]) is for the caller to add.
    pub fn summary(&self) -> MeterSummary {
        self.clone().into_summary()
    }

    /// The measurements, as [`Meter::summary`] gives them. Flow by flow gives its memory for them, so that they do not come
    /// on top of all of it.
    pub fn into_summary(self) -> MeterSummary {
        let Meter { flows, recognised, mut unprobed, mut memory, .. } = self;
        let mut sharing = 0;
        let mut end = |meter: &mut FlowMeter| {
            meter.settle(&mut memory);
            sharing += u32::from(meter.shares());
            meter.summary()
        };
        let unprobed = end(&mut unprobed);
        let probed = flows.into_iter().map(|flow| (flow.id, flow.meter));
        let flows = probed.chain(recognised);
        let flows = flows.map(|(id, mut meter)| (id, end(&mut meter))).collect();
        MeterSummary {
            flows,
            unprobed,
            shared: memory.shared_by(sharing),
            unknown_flow: self.unknown_flow,
            stale: self.stale,
            foreign: self.foreign,
            malformed: self.malformed,
            fragments: self.reassembly.unused(),
            receiver_drops: 0,
        }
    }
}

impl Metered for Meter {
    fn books(&self) -> MeterBooks {
        let mut books = MeterBooks { unprobed: self.unprobed.books(true), ..MeterBooks::default() };
        for (listed, id, meter) in self.flows_by_listing() {
            match listed {
                true => drop(books.flows.insert(id, meter.books(true))),
                false => books.others.join(meter.books(false)),
            }
        }
        books
    }

    fn bound_lost(&self, books: &mut MeterBooks) {
        let mut others = 0;
        for (listed, id, meter) in self.flows_by_listing() {
            let missing = i64::try_from(meter.missing()).unwrap_or(i64::MAX);
            match books.flows.get_mut(&id) {
                Some(flow) if listed => flow.lost = flow.lost.min(missing),
                _ if listed => {}
                _ => others += missing,
            }
        }
        books.others.lost = books.others.lost.min(others);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_wire::carrier::payload_len;
    use wirebeat_wire::codec::Codec;
    use wirebeat_wire::headers::HeaderMatch;
    use wirebeat_wire::testing::udp_frame;

    use super::*;
    use crate::testing::config;

    fn probe(flow: u16, sequence: u32, transmit_ns: u64) -> Vec<u8> {
        [&[0, 0][..], &Probe { flow, sequence, transmit_ns }.to_bytes()].concat()
    }

    /// A frame from 10.0.0.1:1000 to 10.0.0.2:9.
    fn frame(payload: &[u8]) -> Vec<u8> {
        udp_frame("10.0.0.1:1000", "10.0.0.2:9", payload)
    }

    fn at(ns: u64) -> Nanos {
        Nanos::new(ns)
    }

    #[test]
    fn a_frame_goes_to_its_flow() {
        let mut meter = Meter::new(MeterConfig::default());
        meter.record_frame(at(1000), &frame(&probe(7, 0, 900)), 64);
        meter.record_frame(at(1500), &frame(&probe(7, 1, 1390)), 64);
        let summary = meter.summary();
        let flow = &summary.flows[&7];
        assert_eq!((flow.frames, flow.frame_bytes, flow.payload_bytes), (2, 128, 36));
        assert_eq!((flow.delay.moments.min, flow.delay.moments.max), (100, 110));
        assert_eq!(summary.flows.len(), 1);
    }

    #[test]
    fn a_datagram_measures_as_its_frame_does() {
        let mut frames = Meter::new(MeterConfig::default());
        let mut datagrams = Meter::new(MeterConfig::default());
        for sequence in [0, 1, 3, 2, 2] {
            let payload = probe(7, sequence, u64::from(sequence) * 10);
            frames.record_frame(at(1000), &frame(&payload), 64);
            let (source, destination) =
                ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
            let ends = Some(Ends { source, destination });
            datagrams.record_datagram(at(1000), &payload, ends, 64);
        }
        assert_eq!(frames.summary(), datagrams.summary());
    }

    /// Three threads of a client of iperf 2 (`-P 3`) each count from 1.
    #[test]
    fn streams_without_a_number_are_told_by_their_ends() {
        let codecs = Codecs { read: vec![Codec::Iperf2], ..Codecs::default() };
        let mut meter = Meter::new(MeterConfig { codecs, ..MeterConfig::default() });
        for number in 1..=5u64 {
            for port in [1000u16, 1001, 1002] {
                let mut payload = [0; 18];
                let number = if number == 5 { number.wrapping_neg() } else { number };
                Codec::Iperf2.marks().write(&mut payload, number, 1_000_000);
                let mut bytes = frame(&payload);
                bytes[34..36].copy_from_slice(&port.to_be_bytes());
                meter.record_frame(at(5_000_000), &bytes, 64);
            }
        }
        let summary = meter.summary();
        let counts: Vec<_> = summary
            .flows
            .values()
            .map(|flow| (flow.frames, flow.sequence.unique, flow.sequence.duplicates))
            .collect();
        assert_eq!(counts, [(5, 5, 0); 3]);
        assert_eq!(summary.unprobed.frames, 0);
    }

    /// Who sends nothing but a last datagram is not measured, and gets nothing.
    #[test]
    fn only_the_last_datagram_of_a_flow_that_is_measured_is_answered() {
        let codecs = Codecs { read: vec![Codec::Iperf2], ..Codecs::default() };
        let mut meter = Meter::new(MeterConfig { codecs, ..MeterConfig::default() });
        let mut take = |port: u16, number: i64, len: usize| {
            let mut payload = vec![0; len];
            let (source, destination) =
                (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 5001).into());
            let facts = wirebeat_wire::codec::Facts { flow: 0, destination };
            Codec::Iperf2.blank(&facts, &mut payload).unwrap();
            Codec::Iperf2.marks().write(&mut payload, number as u64, 1_000_000);
            let ends = Ends { source, destination };
            meter.record_datagram(at(5_000_000), &payload, Some(ends), 64);
            let answer = meter.take_answer();
            assert!(answer.is_none_or(|answer| answer.ends == ends));
            answer.map(|answer| answer.payload().len())
        };
        assert_eq!(take(1000, -2, 100), None, "a last datagram and nothing before it");
        assert_eq!(take(1001, 1, 100), None);
        assert_eq!(take(1001, 2, 100), None);
        assert_eq!(take(1001, -3, 100), Some(56));
        assert_eq!(take(1001, -4, 200), Some(128));
        assert_eq!(take(1001, -5, 40), None, "no room for a report");
        let summary = meter.summary();
        let ends_repeated: Vec<_> = summary.flows.values().map(|flow| flow.ends_repeated).collect();
        assert_eq!(ends_repeated, [0, 2]);
    }

    #[test]
    fn each_counter_counts_its_own() {
        let filter = Filter { destination_port: Some(9), ..Filter::default() };
        let flows = Flows::Expected(BTreeMap::from([(7, Expectation::default())]));
        let mut meter = Meter::new(MeterConfig {
            flows,
            filter,
            run_start: Some(at(500)),
            ..MeterConfig::default()
        });
        let good = frame(&probe(7, 0, 600));
        let mut other_port = good.clone();
        other_port[37] = 10;
        let mut arp = good.clone();
        arp[13] = 6;
        meter.record_frame(at(700), &good, 64);
        meter.record_frame(at(700), &frame(&probe(8, 0, 600)), 64);
        meter.record_frame(at(700), &frame(&probe(7, 9, 400)), 64);
        meter.record_frame(at(700), &frame(&[0; 18]), 64);
        meter.record_frame(at(700), &other_port, 64);
        meter.record_frame(at(700), &arp, 64);
        meter.record_frame(at(700), &good[..40], 64);
        let summary = meter.summary();
        assert_eq!(summary.flows[&7].sequence.unique, 1);
        assert_eq!((summary.unknown_flow, summary.stale, summary.unprobed.frames), (1, 1, 1));
        assert_eq!((summary.foreign, summary.malformed), (2, 1));
    }

    #[test]
    fn frames_without_a_probe_are_counted_by_their_headers_whatever_they_are() {
        use wirebeat_wire::headers::HeaderMatch;

        let udp = frame(&[0; 18]);
        let mut tcp = udp.clone();
        tcp[23] = 6;
        tcp[46] = 0x50;
        let mut cut = udp.clone();
        cut[38..40].copy_from_slice(&[0xff, 0xff]);
        let mut other = cut.clone();
        other[12..14].copy_from_slice(&[0x88, 0xb5]);
        let mut headers = HeaderTable::default();
        let frames = [&udp, &tcp, &other];
        for (id, frame) in (1..).zip(frames) {
            headers.add(HeaderMatch::of(frame, |_| false).unwrap(), id);
        }
        let recognised = (1..=3).map(|id| (id, Expectation::default())).collect();
        let flows = Flows::Expected(BTreeMap::from([(0, Expectation::default())]));
        let mut meter =
            Meter::new(MeterConfig { flows, headers, recognised, ..MeterConfig::default() });
        for (count, bytes) in (1..).zip(frames) {
            for _ in 0..count {
                meter.record_frame(at(1000), bytes, 64);
            }
        }
        // a UDP header that contradicts itself is of the same flow all the same
        meter.record_frame(at(1000), &cut, 64);
        meter.record_frame(at(1000), &frame(&probe(0, 0, 900)), 64);
        meter.record_frame(at(1000), &frame(&probe(9, 0, 900)), 64);
        let summary = meter.summary();
        let counts: Vec<u64> = (0..=3).map(|id| summary.flows[&id].frames).collect();
        // of flow 1: also what ends like the probe of a flow that nobody knows
        assert_eq!(counts, [1, 3, 2, 3]);
        assert_eq!(summary.flows[&1].sequence.unique, 0);
        assert_eq!((summary.unprobed.frames, summary.unknown_flow), (0, 0));
        assert_eq!((summary.foreign, summary.malformed), (0, 0));
    }

    #[test]
    fn flows_that_were_expected_are_reported_even_if_nothing_came() {
        let flows = Flows::Expected(BTreeMap::from([(0, Expectation::default())]));
        let meter = Meter::new(MeterConfig { flows, ..MeterConfig::default() });
        assert_eq!(meter.summary().flows[&0].frames, 0);
    }

    #[test]
    fn a_datagram_from_elsewhere_is_foreign() {
        let filter = Filter { source: Some("10.0.0.9".parse().unwrap()), ..Filter::default() };
        let mut meter = Meter::new(MeterConfig { filter, ..MeterConfig::default() });
        let (source, destination) =
            ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let ends = Some(Ends { source, destination });
        meter.record_datagram(at(1), &probe(1, 0, 0), ends, 64);
        assert_eq!((meter.summary().foreign, meter.summary().flows.len()), (1, 0));
    }

    #[test]
    fn forged_flows_and_numbers_take_no_more_memory_than_allowed() {
        let mut meter = Meter::new(MeterConfig { flows: Flows::Any(4), ..MeterConfig::default() });
        let mut random = 1u64;
        for count in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let payload = probe((random >> 32) as u16, (random >> 16) as u32, random);
            meter.record_datagram(at(count), &payload, None, 64);
        }
        let summary = meter.summary();
        assert_eq!(meter.flows.len(), 4);
        let known: u64 = summary.flows.values().map(|flow| flow.frames).sum();
        assert_eq!(known + summary.unknown_flow, 200_000);
        assert_eq!(summary.validate(), Ok(()));
    }

    #[test]
    fn every_flow_number_can_be_measured() {
        let mut meter =
            Meter::new(MeterConfig { flows: Flows::Any(u16::MAX), ..MeterConfig::default() });
        for flow in [0, 1, u16::MAX] {
            meter.record_datagram(at(10), &probe(flow, 0, 0), None, 64);
        }
        assert_eq!(meter.summary().flows.into_keys().collect::<Vec<_>>(), [0, 1, u16::MAX]);
    }

    /// Sender and receiver counted another payload of the same frames: the sender's was all behind the Ethernet header.
    #[test]
    fn the_payload_of_frames_without_a_probe_is_what_their_sender_counts() {
        let whole = frame(&[7; 5]);
        let with = |at: usize, value: u8| {
            let mut frame = whole.clone();
            frame[at] = value;
            frame
        };
        // UDP, TCP and ICMP; no IP; a total length and a length of UDP that are wrong
        let all = [(23, 17), (23, 6), (23, 1), (12, 0x77), (13, 0x06), (17, 90), (39, 90)];
        for (at, value) in all {
            let frame = with(at, value);
            let mut headers = HeaderTable::default();
            headers.add(HeaderMatch::of(&frame, |_| false).unwrap(), 1);
            let recognised = [(1, Expectation::default())].into();
            let mut meter =
                Meter::new(MeterConfig { headers, recognised, ..MeterConfig::default() });
            meter.record_frame(self::at(1), &frame, 64);
            let counted = meter.summary().flows[&1].payload_bytes;
            assert_eq!(counted as usize, payload_len(&frame), "{value} at {at}");
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn any_bytes_are_counted_once(
            frames in prop::collection::vec(
                (any::<u64>(), prop::collection::vec(any::<u8>(), 0..80), any::<u32>(), 0..3u8),
                0..50,
            ),
        ) {
            let mut meter =
                Meter::new(MeterConfig { flows: Flows::Any(2), ..MeterConfig::default() });
            for (time, bytes, len, kind) in &frames {
                match kind {
                    0 => meter.record_frame(at(*time), bytes, *len),
                    1 => meter.record_frame(at(*time), &frame(&bytes[..bytes.len().min(18)]), *len),
                    _ => meter.record_datagram(at(*time), bytes, None, *len),
                };
            }
            let summary = meter.summary();
            let flows: u64 = summary.flows.values().map(|flow| flow.frames).sum();
            let others = summary.unprobed.frames + summary.unknown_flow + summary.stale;
            let total = flows + others + summary.foreign + summary.malformed;
            prop_assert_eq!(total, frames.len() as u64);
        }
    }
}
