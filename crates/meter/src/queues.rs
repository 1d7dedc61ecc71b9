//! The receive queues of one receiver: a meter for each, which agree on the flows and share their windows.
//!
//! [`meters`] makes them, and each belongs to the thread of its queue. What they share is a `SharedFlows`: which flows are
//! measured (the first so many that arrive on any queue), under which numbers those of other tools go, and the window of each
//! flow ([`crate::sequence`]). It is asked, under a lock, for the first frame of a flow on a queue, and never for another one:
//! a queue keeps what it was told, and when no more flows are taken it is told all. The summaries of the queues are added by
//! [`MeterSummary::merge`](crate::summary::MeterSummary::merge), their intervals by [`crate::queue_series`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::codecs::{Stream, stream_number};
use crate::flow::Expectation;
use crate::interval::LISTED;
use crate::memory::{MEMORY, PIECE};
use crate::meter::{FLOWS, Flows, Meter, MeterConfig};
use crate::sequence::{QueueWindow, SharedWindow};

/// Of all memory, the part that the windows that queues share may take.
const FOR_WINDOWS: usize = 4;
/// Bytes of an entry in each of the tables: their nodes are half empty at the worst.
const ENTRY: usize = 2 * size_of::<(Stream, u16)>();

/// A meter for each of `queues` receive queues of one receiver; at least one. Together they take no more memory than one.
pub fn meters(config: MeterConfig, queues: usize) -> Vec<Meter> {
    if queues <= 1 {
        return vec![Meter::new(config)];
    }
    let flows = Arc::new(SharedFlows::new(&config, queues));
    let memory = (MEMORY - flows.memory_max.min(MEMORY)) / queues;
    let meter = |queue| Meter::of_queue(memory, config.clone(), Arc::clone(&flows), queue);
    (0..queues).map(meter).collect()
}

/// A flow that the queues measure, as one of them is told of it.
#[derive(Clone, Debug)]
pub(crate) struct SharedFlow {
    pub(crate) id: u16,
    pub(crate) expected: Expectation,
    /// Whether it has books of its own in each interval.
    pub(crate) listed: bool,
    pub(crate) window: QueueWindow,
}

/// What a queue does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Newcomer {
    /// A flow, by its number.
    Flow(u16),
    /// A flow of another tool, and the number that it has there, if any.
    Stream(Stream, Option<u32>),
}

/// What a queue is told when it asks. It may know some of it.
#[derive(Debug, Default)]
pub(crate) struct ToldFlows {
    /// Flows that are measured.
    pub(crate) flows: Vec<SharedFlow>,
    /// The numbers of those of other tools.
    pub(crate) streams: BTreeMap<Stream, u16>,
    /// Those are all, and there will be no others.
    pub(crate) complete: bool,
}

/// What the meters of several queues agree on.
#[derive(Debug)]
pub(crate) struct SharedFlows {
    queues: usize,
    /// Sequence numbers that one queue would tell apart.
    numbers: u32,
    /// The most bytes of a flow's window.
    window_max: usize,
    /// The most bytes of all of them.
    memory_max: usize,
    admitted: Mutex<Admitted>,
}

/// The flows that are measured.
#[derive(Debug, Default)]
struct Admitted {
    /// In the order in which they came.
    flows: Vec<(u16, Expectation, Arc<SharedWindow>)>,
    /// Where in `flows` each is.
    places: BTreeMap<u16, usize>,
    /// How many more may be.
    room: u16,
    /// The numbers of those of other tools that were not announced.
    streams: BTreeMap<Stream, u16>,
    /// All flow numbers below are taken.
    lowest_free: u16,
}

impl SharedFlows {
    fn new(config: &MeterConfig, queues: usize) -> SharedFlows {
        let (room, expected) = match &config.flows {
            Flows::Any(limit) => (*limit, None),
            Flows::Expected(flows) => (u16::try_from(flows.len()).unwrap_or(FLOWS), Some(flows)),
        };
        let flows = usize::from(room).max(1);
        let window_max = MEMORY / FOR_WINDOWS / flows;
        let each = window_max + SharedWindow::bytes_beside(queues) + 2 * ENTRY + PIECE;
        let shared = SharedFlows {
            queues,
            numbers: config.window,
            window_max,
            memory_max: flows.saturating_mul(each),
            admitted: Mutex::default(),
        };
        let mut admitted = Admitted { room, ..Admitted::default() };
        for (id, expected) in expected.into_iter().flatten() {
            admitted.admit(*id, *expected, &shared);
        }
        SharedFlows { admitted: Mutex::new(admitted), ..shared }
    }

    /// What `queue` has to know from the start.
    pub(crate) fn announced(&self, queue: usize) -> ToldFlows {
        self.lock().tell(queue, None)
    }

    /// Something has arrived on `queue` that it does not know: it is measured from now on, if there is room for one more.
    pub(crate) fn ask(&self, queue: usize, newcomer: Newcomer) -> ToldFlows {
        let mut admitted = self.lock();
        let id = match newcomer {
            Newcomer::Flow(id) => Some(id),
            Newcomer::Stream(stream, own) => admitted.number(stream, own),
        };
        let Some(id) = id else { return admitted.tell(queue, None) };
        admitted.admit(id, Expectation::default(), self);
        let mut told = admitted.tell(queue, Some(id));
        if let Newcomer::Stream(stream, _) = newcomer {
            told.streams.insert(stream, id);
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, Admitted> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// Takes flow `id`, if it is new and there is room.
    fn admit(&mut self, id: u16, expected: Expectation, shared: &SharedFlows) {
        if self.room == 0 || self.places.contains_key(&id) {
            return;
        }
        self.room -= 1;
        self.places.insert(id, self.flows.len());
        let window = SharedWindow::new(shared.numbers, shared.queues, shared.window_max);
        self.flows.push((id, expected, Arc::new(window)));
    }

    /// The number of a flow of another tool: that which it has there, if nobody else has it, or the lowest that is free.
    fn number(&mut self, stream: Stream, own: Option<u32>) -> Option<u16> {
        if let Some(id) = self.streams.get(&stream) {
            return Some(*id);
        }
        if self.room == 0 {
            return None;
        }
        let places = &self.places;
        let free = |id: &u16| !places.contains_key(id);
        let id = stream_number(own, &mut self.lowest_free, free)?;
        self.streams.insert(stream, id);
        Some(id)
    }

    /// Tells `queue` of one flow, if that is measured; of all when there is room for no other.
    fn tell(&self, queue: usize, asked: Option<u16>) -> ToldFlows {
        let flow = |place: usize| {
            let (id, expected, window) = self.flows.get(place)?;
            let window = QueueWindow::new(Arc::clone(window), queue);
            Some(SharedFlow { id: *id, expected: *expected, listed: place < LISTED, window })
        };
        if self.room == 0 {
            let flows = (0..self.flows.len()).filter_map(flow).collect();
            return ToldFlows { flows, streams: self.streams.clone(), complete: true };
        }
        let place = asked.and_then(|id| self.places.get(&id));
        let flows = place.and_then(|place| flow(*place)).into_iter().collect();
        ToldFlows { flows, ..ToldFlows::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_units::Nanos;
    use wirebeat_wire::codec::Codec;
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::testing::udp_frame;

    use super::*;
    use crate::codecs::Codecs;
    use crate::summary::MeterSummary;
    use crate::testing::config;

    /// The frame of a flow of 16 source ports, which name the queue.
    fn frame(port: u16, flow: u16, sequence: u32, sent: u64) -> Vec<u8> {
        let probe = Probe { flow, sequence, transmit_ns: sent }.to_bytes();
        let source = format!("10.0.0.1:{port}");
        udp_frame(&source, "10.0.0.2:9", &[&[0, 0][..], &probe].concat())
    }

    fn total(meters: Vec<Meter>) -> MeterSummary {
        let summaries = meters.into_iter().map(Meter::into_summary);
        summaries.fold(MeterSummary::default(), |mut all, one| {
            all.merge(&one);
            all
        })
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn four_queues_measure_what_one_does(
            frames in prop::collection::vec((0..3u16, 0..200u32, 0..500u64, 0..16u16), 1..300),
        ) {
            for flows in [Flows::Any(2), Flows::Expected((0..2).map(|id| (id, Expectation::default())).collect())] {
                let config = MeterConfig { flows, ..MeterConfig::default() };
                let (mut one, mut four) = (meters(config.clone(), 1), meters(config, 4));
                for (at, &(flow, number, delay, port)) in (1u64..).zip(&frames) {
                    let sent = u64::from(number) * 1000;
                    let bytes = frame(port, flow, number, sent);
                    let at = Nanos::new(1_000_000 * at + delay);
                    one[0].record_frame(at, &bytes, 64);
                    four[usize::from(port % 4)].record_frame(at, &bytes, 64);
                }
                let (one, four) = (total(one), total(four));
                prop_assert_eq!(four.validate(), Ok(()));
                prop_assert_eq!(four.unknown_flow, one.unknown_flow);
                prop_assert!(one.flows.keys().eq(four.flows.keys()));
                for (mine, theirs) in one.flows.values().zip(four.flows.values()) {
                    let (a, b) = (&mine.sequence, &theirs.sequence);
                    prop_assert_eq!((b.unique, b.duplicates, b.range), (a.unique, a.duplicates, a.range));
                    prop_assert!(b.reordered <= a.reordered, "{} {}", b.reordered, a.reordered);
                    prop_assert_eq!((theirs.frames, theirs.frame_bytes), (mine.frames, mine.frame_bytes));
                    prop_assert_eq!((&theirs.delay, theirs.span), (&mine.delay, mine.span));
                    // between arrivals it is measured within each queue, and that is said
                    let gaps = mine.frames.saturating_sub(u64::from(theirs.queues));
                    prop_assert_eq!(theirs.inter_arrival.moments.count, gaps);
                }
            }
        }
    }

    /// A flow that stays on one queue, as a hash of its addresses makes it, is measured as if there were no others.
    #[test]
    fn flows_that_stay_on_a_queue_have_the_summary_of_one_queue() {
        let config = MeterConfig::default();
        let (mut one, mut four) = (meters(config.clone(), 1), meters(config, 4));
        for step in 0..4000u32 {
            let (flow, number) = (step % 8, step / 8);
            // some twice, some early
            let number = if number % 7 == 0 { number + 1 } else { number };
            let bytes = frame(flow as u16, flow as u16, number, u64::from(number) * 50);
            let at = Nanos::new(u64::from(step) * 1000);
            one[0].record_frame(at, &bytes, 64);
            four[flow as usize % 4].record_frame(at, &bytes, 64);
        }
        let (mut one, mut four) = (total(one), total(four));
        for flow in one.flows.values_mut().chain(four.flows.values_mut()) {
            assert!(flow.sequence.duplicates > 50 && flow.queues == 1);
            // how far it reaches differs
            flow.sequence.window = 0;
        }
        assert_eq!(one, four);
    }

    #[test]
    fn the_limit_on_flows_is_that_of_all_queues() {
        let config = MeterConfig { flows: Flows::Any(5), ..MeterConfig::default() };
        let mut three = meters(config, 3);
        for step in 0..300u16 {
            // each queue sees other flows first
            let queue = usize::from(step % 3);
            let flow = (step * 7 + step % 3 * 4) % 20;
            three[queue].record_frame(Nanos::new(1), &frame(1, flow, step.into(), 0), 64);
        }
        let all = total(three);
        assert_eq!(all.flows.len(), 5);
        let known: u64 = all.flows.values().map(|flow| flow.frames).sum();
        assert_eq!((known + all.unknown_flow, known), (300, 75));
    }

    /// Streams of iperf 2 have no number of their own: three, each on two queues, are three flows.
    #[test]
    fn streams_of_other_tools_have_one_number_on_all_queues() {
        let codecs = Codecs { read: vec![Codec::Iperf2], ..Codecs::default() };
        let mut two = meters(MeterConfig { codecs, ..MeterConfig::default() }, 2);
        for number in 1..=20u64 {
            for port in [1000u16, 1001, 1002] {
                let mut payload = [0; 18];
                Codec::Iperf2.marks().write(&mut payload, number, 1_000_000);
                let bytes = udp_frame(&format!("10.0.0.1:{port}"), "10.0.0.2:9", &payload);
                let queue = (number as usize + usize::from(port)) % 2;
                two[queue].record_frame(Nanos::new(5_000_000), &bytes, 64);
            }
        }
        let all = total(two);
        let counts: Vec<_> = all
            .flows
            .values()
            .map(|flow| (flow.frames, flow.sequence.unique, flow.queues))
            .collect();
        assert_eq!(counts, [(20, 20, 2); 3]);
    }

    #[test]
    fn all_queues_together_take_the_memory_of_one() {
        let flows = SharedFlows::new(&MeterConfig::default(), 8);
        assert!(flows.memory_max <= MEMORY / 2, "{}", flows.memory_max);
        assert_eq!(meters(MeterConfig::default(), 0).len(), 1);
    }
}
