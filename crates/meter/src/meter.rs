//! The meter of a receiver: tells its frames apart and gives each to its flow.
//!
//! Takes whole frames or datagrams, whatever they hold. Its memory is bounded by the number of flows
//! it was told to expect, and nothing is allocated per frame once a flow has received a few.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wirebeat_units::Nanos;
use wirebeat_wire::probe::Probe;

use crate::bins::Bins;
use crate::filter::Filter;
use crate::flow::{Expectation, FlowMeter, Sample};
use crate::sequence::WINDOW;
use crate::summary::MeterSummary;

/// How many flows a receiver takes that was not told which to expect: bounds its memory to about
/// 200 MB without linear bins.
pub const FLOWS: u16 = 1024;

/// Which flows are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flows {
    /// These, by their number in the probe.
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
}

impl Default for MeterConfig {
    fn default() -> Self {
        MeterConfig {
            flows: Flows::default(),
            filter: Filter::default(),
            bins: None,
            window: WINDOW,
            run_start: None,
        }
    }
}

/// A flow that is measured.
#[derive(Clone, Debug)]
struct Measured {
    id: u16,
    meter: FlowMeter,
}

/// Stands in [`Meter::places`] for a flow that is not measured.
const NOWHERE: u16 = u16::MAX;

/// Measures what one receive queue delivers.
#[derive(Clone, Debug)]
pub struct Meter {
    flows: Vec<Measured>,
    /// Where in `flows` each flow number is.
    places: Box<[u16]>,
    /// How many more flows may be added.
    room: u16,
    filter: Filter,
    bins: Option<Bins>,
    window: u32,
    run_start: Option<Nanos>,
    unprobed: FlowMeter,
    unknown_flow: u64,
    stale: u64,
    foreign: u64,
    malformed: u64,
}

impl Meter {
    /// A meter that has seen nothing.
    pub fn new(config: MeterConfig) -> Self {
        let MeterConfig { flows, filter, bins, window, run_start } = config;
        let mut meter = Meter {
            flows: Vec::new(),
            places: vec![NOWHERE; 1 << 16].into_boxed_slice(),
            room: 0,
            filter,
            bins,
            window,
            run_start,
            unprobed: FlowMeter::new(Expectation::default(), window, bins),
            unknown_flow: 0,
            stale: 0,
            foreign: 0,
            malformed: 0,
        };
        match flows {
            Flows::Any(limit) => meter.room = limit,
            Flows::Expected(flows) => {
                meter.room = u16::try_from(flows.len()).unwrap_or(u16::MAX);
                for (id, expected) in flows {
                    meter.add(id, expected);
                }
                meter.room = 0;
            }
        }
        meter
    }

    /// Takes a datagram that arrived at `at` in a frame of `frame_len` bytes with FCS. Where it comes
    /// from may be unknown; see [`Filter::matches`].
    #[inline]
    pub fn record_datagram(
        &mut self,
        at: Nanos,
        payload: &[u8],
        source: Option<SocketAddr>,
        frame_len: u32,
    ) {
        if self.filter.matches(source, None) {
            self.record_payload(at, payload, frame_len);
        } else {
            self.foreign += 1;
        }
    }

    /// Gives the payload to its flow.
    #[inline]
    fn record_payload(&mut self, at: Nanos, payload: &[u8], frame_len: u32) {
        let payload_len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let bare = Sample { at, sent: None, sequence: None, frame_len, payload_len };
        let Some(probe) = Probe::from_tail(payload) else {
            self.unprobed.record(&bare);
            return;
        };
        let sent = Nanos::new(probe.transmit_ns);
        if self.run_start.is_some_and(|start| sent < start) {
            self.stale += 1;
            return;
        }
        match self.place(probe.flow) {
            Some(flow) => {
                flow.record(&Sample { sent: Some(sent), sequence: Some(probe.sequence), ..bare })
            }
            None => self.unknown_flow += 1,
        }
    }

    /// The meter of flow `id`, if that is measured.
    #[inline]
    fn place(&mut self, id: u16) -> Option<&mut FlowMeter> {
        if self.places[usize::from(id)] == NOWHERE {
            self.add(id, Expectation::default());
        }
        let place = usize::from(self.places[usize::from(id)]);
        self.flows.get_mut(place).map(|flow| &mut flow.meter)
    }

    /// Makes room for flow `id`, if there may be one more.
    #[cold]
    fn add(&mut self, id: u16, expected: Expectation) {
        if self.room == 0 {
            return;
        }
        self.room -= 1;
        // At most 65,535 flows have been added, so their places are below `NOWHERE`.
        self.places[usize::from(id)] = self.flows.len() as u16;
        self.flows.push(Measured { id, meter: FlowMeter::new(expected, self.window, self.bins) });
    }

    /// The measurements so far. What the engine itself lost ([`MeterSummary::receiver_drops`]) is for
    /// the caller to add.
    pub fn summary(&self) -> MeterSummary {
        MeterSummary {
            flows: self.flows.iter().map(|flow| (flow.id, flow.meter.summary())).collect(),
            unprobed: self.unprobed.summary(),
            unknown_flow: self.unknown_flow,
            stale: self.stale,
            foreign: self.foreign,
            malformed: self.malformed,
            receiver_drops: 0,
        }
    }
}
