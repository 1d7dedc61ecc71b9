//! The measurements of one flow.
//!
//! A [`FlowMeter`] takes one [`Sample`] per frame and keeps everything that follows from it. Counters and moments are
//! there from the start; each histogram, the window of sequence numbers and linear bins take memory as values come, from
//! what [`Memory`] has for all flows. A flow of a few thousand frames takes some 20 KiB, one of which nothing is known 180 KiB
//! at the most (five histograms of 31 KiB, the window) and its linear bins, however long it lasts. When nothing is left it
//! has smaller windows, and shares histograms with others.

use wirebeat_units::Nanos;
use wirebeat_wire::codec::Account;

use crate::bins::Bins;
use crate::interval::FlowBooks;
use crate::jitter::InterarrivalJitter;
use crate::memory::{Measure, Memory, PIECE};
use crate::observation::{Judged, Sampled, Standing};
use crate::recorder::FlowRecorder;
use crate::sequence::{QueueWindow, SeenNumbers, SequenceStanding, SequenceTracker};
use crate::summary::{FlowSummary, LinearBins};

/// What is known of a frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it arrived, on the receiver's clock.
    pub at: Nanos,
    /// Whether that is exact enough to measure by: see [`FlowSummary::untimed`].
    pub timed: bool,
    /// When it was sent, on the sender's clock, if it says so.
    pub sent: Option<Nanos>,
    /// Its sequence number, if it has one.
    pub sequence: Option<u32>,
    /// Bytes of the frame with FCS, or of all frames of a packet that came as fragments.
    pub frame_len: u32,
    /// Frames that it took beside one.
    pub fragments: u32,
    /// Bytes of transport payload.
    pub payload_len: u32,
    /// Whether the sender marked it as the end of its flow.
    pub last: bool,
}

impl Sample {
    /// What is said of it when it was taken.
    #[inline]
    pub(crate) fn judged(&self, flow: Option<u16>, standing: Standing) -> Judged {
        let Sample { timed, sent, sequence, fragments, payload_len, last, .. } = *self;
        let packet_len = self.frame_len;
        let sampled = Some(Sampled { payload_len, packet_len, fragments, timed, last });
        Judged { flow, sequence, sent, standing, sampled }
    }
}

/// What is known of a flow before it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Time between its frames, where it is constant; the gap error is measured against it.
    pub nominal_gap: Option<Nanos>,
    /// Taken off each delay, in ns: see [`FlowSummary::delay_base`].
    pub delay_base: i64,
}

/// Linear bins, if they are asked for.
#[derive(Clone, Debug, Default)]
enum TakenBins {
    /// There was no value.
    #[default]
    NotYet,
    Own(LinearBins),
    /// There was no memory for them.
    Refused,
}

/// Measures one flow.
#[derive(Clone, Debug)]
pub struct FlowMeter {
    expected: Expectation,
    frames: u64,
    fragments: u64,
    frame_bytes: u64,
    payload_bytes: u64,
    untimed: u64,
    /// Whether the last arrival said that the flow ends.
    ended: bool,
    ends_repeated: u64,
    span: Option<(Nanos, Nanos)>,
    previous_arrival: Option<Nanos>,
    previous_delay: Option<i64>,
    sequence: SequenceTracker,
    delay: FlowRecorder,
    delay_variation: FlowRecorder,
    interarrival_jitter: InterarrivalJitter,
    inter_arrival: FlowRecorder,
    bins: Option<Bins>,
    inter_arrival_bins: TakenBins,
    gap_error: FlowRecorder,
    /// Of gaps that were too short.
    gap_early: FlowRecorder,
}

impl FlowMeter {
    /// A meter of a flow of which `expected` is known, with a window of `window` sequence numbers (see
    /// [`SequenceTracker::new`]), and with `bins` for inter-arrival times if those are wanted.
    pub fn new(expected: Expectation, window: u32, bins: Option<Bins>) -> Self {
        FlowMeter::of_queue(expected, window, None, bins)
    }

    /// The same on one of several queues, which have the window together.
    pub(crate) fn of_queue(
        expected: Expectation,
        window: u32,
        shared: Option<QueueWindow>,
        bins: Option<Bins>,
    ) -> Self {
        FlowMeter {
            expected,
            frames: 0,
            fragments: 0,
            frame_bytes: 0,
            payload_bytes: 0,
            untimed: 0,
            ended: false,
            ends_repeated: 0,
            span: None,
            previous_arrival: None,
            previous_delay: None,
            sequence: SequenceTracker::of_queue(window, shared),
            delay: FlowRecorder::default(),
            delay_variation: FlowRecorder::default(),
            interarrival_jitter: InterarrivalJitter::default(),
            inter_arrival: FlowRecorder::default(),
            bins,
            inter_arrival_bins: TakenBins::default(),
            gap_error: FlowRecorder::default(),
            gap_early: FlowRecorder::default(),
        }
    }

    /// Takes an arrival into the measurements, and says what becomes of it there; what these need more comes from `memory`.
    #[inline]
    pub fn record(&mut self, sample: &Sample, memory: &mut Memory) -> Standing {
        // iperf 2: the first that says so is the last datagram of the flow; those after it ask for an answer.
        if sample.last && self.ended {
            self.ends_repeated += 1;
            return Standing::Duplicate;
        }
        self.ended = sample.last;
        self.frames += 1;
        self.fragments += u64::from(sample.fragments);
        self.frame_bytes += u64::from(sample.frame_len);
        self.payload_bytes += u64::from(sample.payload_len);
        self.span = Some(match self.span {
            None => (sample.at, sample.at),
            Some((first, last)) => (first.min(sample.at), last.max(sample.at)),
        });
        if !sample.timed {
            return self.record_untimed(sample, memory);
        }
        self.record_arrival(sample.at, memory);
        let standing = self.record_number(sample, memory);
        // RFC 7679: the first copy determines the delay.
        if let Some(sent) = sample.sent
            && !matches!(standing, Standing::Duplicate | Standing::Doubtful)
        {
            self.record_delay(sample.at, sent, memory);
        }
        standing
    }

    /// Takes the sequence number, if there is one.
    #[inline]
    fn record_number(&mut self, sample: &Sample, memory: &mut Memory) -> Standing {
        let Some(sequence) = sample.sequence else { return Standing::WithoutProbe };
        match self.sequence.record(sequence, sample.sent, memory) {
            SequenceStanding::New => Standing::New,
            SequenceStanding::Reordered => Standing::Reordered,
            SequenceStanding::BeyondWindow => Standing::BeyondWindow,
            SequenceStanding::Duplicate => Standing::Duplicate,
            SequenceStanding::Held => Standing::Doubtful,
        }
    }

    /// An arrival without a time is counted, and nothing is measured from it to the next one.
    #[cold]
    fn record_untimed(&mut self, sample: &Sample, memory: &mut Memory) -> Standing {
        self.untimed += 1;
        (self.previous_arrival, self.previous_delay) = (None, None);
        self.record_number(sample, memory)
    }

    /// The sequence numbers that have arrived so far on this queue.
    pub fn seen(&self) -> SeenNumbers {
        self.sequence.seen()
    }

    /// How many sequence numbers are missing so far; see [`SequenceTracker::missing`].
    pub fn missing(&self) -> u64 {
        self.sequence.missing()
    }

    /// Inter-arrival time and its error.
    #[inline]
    fn record_arrival(&mut self, at: Nanos, memory: &mut Memory) {
        let Some(previous) = self.previous_arrival.replace(at) else { return };
        let gap = at.signed_sub(previous);
        self.inter_arrival.record(gap, Measure::InterArrival, memory);
        if let Some(bins) = self.bins {
            if matches!(self.inter_arrival_bins, TakenBins::NotYet) {
                self.inter_arrival_bins = TakenBins::take(bins, memory);
            }
            if let TakenBins::Own(own) = &mut self.inter_arrival_bins {
                own.record(gap);
            }
        }
        if let Some(nominal) = self.expected.nominal_gap {
            let nominal = signed(nominal);
            let error = distance(gap, nominal);
            self.gap_error.record(error, Measure::GapError, memory);
            if gap < nominal {
                self.gap_early.record(error, Measure::GapEarly, memory);
            }
        }
    }

    /// One-way delay and its variation.
    #[inline]
    fn record_delay(&mut self, at: Nanos, sent: Nanos, memory: &mut Memory) {
        let delay = at.signed_sub(sent).saturating_sub(self.expected.delay_base);
        self.delay.record(delay, Measure::Delay, memory);
        if let Some(previous) = self.previous_delay.replace(delay) {
            // RFC 4689 §3.2.5
            let variation = distance(delay, previous);
            self.delay_variation.record(variation, Measure::DelayVariation, memory);
            // RFC 3550 §6.4.1
            self.interarrival_jitter.record(delay.abs_diff(previous));
        }
    }

    /// What a sender is told that asks with the flow's last datagram; `None` where nothing came before that.
    pub(crate) fn account(&self) -> Option<Account> {
        let sequence = self.sequence.summary();
        let expected = sequence.expected();
        let span = self.span.map(|(first, last)| last.saturating_sub(first));
        (self.ended && self.frames > 1).then(|| Account {
            payload_bytes: self.payload_bytes,
            span_ns: span.unwrap_or_default().get(),
            datagrams: expected,
            lost: expected.saturating_sub(sequence.unique),
            reordered: sequence.reordered,
            jitter_ns: self.interarrival_jitter.estimate_ns().unwrap_or_default() as u64,
        })
    }

    /// Ends the measurement: an arrival still in doubt is decided, and bins that nothing came for are taken, if there is
    /// memory for empty ones.
    pub(crate) fn settle(&mut self, memory: &mut Memory) {
        self.sequence.settle(memory);
        if let (Some(bins), TakenBins::NotYet) = (self.bins, &self.inter_arrival_bins) {
            self.inter_arrival_bins = TakenBins::take(bins, memory);
        }
    }

    fn times(&self) -> [&FlowRecorder; 5] {
        [&self.delay, &self.delay_variation, &self.inter_arrival, &self.gap_error, &self.gap_early]
    }

    /// Whether some of its histograms are with those of others.
    pub(crate) fn shares(&self) -> bool {
        let times = self.times();
        self.sequence.is_shared() || times.into_iter().any(FlowRecorder::is_shared)
    }

    /// Bytes that it has beside itself.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let times = self.times();
        let bins = match &self.inter_arrival_bins {
            TakenBins::Own(own) => size_of_val(own.counts.as_slice()) + PIECE,
            TakenBins::NotYet | TakenBins::Refused => 0,
        };
        bins + self.sequence.memory() + times.into_iter().map(FlowRecorder::memory).sum::<usize>()
    }

    /// The counts so far, with the delays' histogram if it is to be `listed`.
    pub(crate) fn books(&self, listed: bool) -> FlowBooks {
        let (unique, duplicates, reordered) = self.sequence.judged();
        FlowBooks {
            frames: self.frames,
            frame_bytes: self.frame_bytes,
            unique,
            duplicates,
            reordered,
            lost: i64::try_from(self.missing()).unwrap_or(i64::MAX),
            delay_base: self.expected.delay_base,
            delay: match listed {
                true => self.delay.distribution(),
                false => self.delay.without_histogram(),
            },
        }
    }

    /// Whether anything has arrived.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// The measurements so far.
    pub fn summary(&self) -> FlowSummary {
        FlowSummary {
            frames: self.frames,
            fragments: self.fragments,
            frame_bytes: self.frame_bytes,
            payload_bytes: self.payload_bytes,
            untimed: self.untimed,
            ends_repeated: self.ends_repeated,
            span: self.span.map(|(first, last)| (first.get(), last.get())),
            queues: u32::from(self.frames > 0),
            sequence: self.sequence.summary(),
            delay_base: self.expected.delay_base,
            delay: self.delay.distribution(),
            delay_variation: self.delay_variation.distribution(),
            interarrival_jitter: self.interarrival_jitter,
            inter_arrival: self.inter_arrival.distribution(),
            inter_arrival_bins: match &self.inter_arrival_bins {
                TakenBins::NotYet => self.bins.map(|bins| bins.empty()),
                TakenBins::Own(own) => Some(own.clone()),
                TakenBins::Refused => None,
            },
            gap_error: self.gap_error.distribution(),
            gap_early: self.expected.nominal_gap.map(|_| self.gap_early.distribution()),
        }
    }
}

impl TakenBins {
    #[cold]
    fn take(bins: Bins, memory: &mut Memory) -> TakenBins {
        match memory.take_to_begin(bins.memory() + PIECE) {
            true => TakenBins::Own(bins.empty()),
            false => TakenBins::Refused,
        }
    }
}

/// |a - b|, saturating.
fn distance(a: i64, b: i64) -> i64 {
    i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX)
}

/// As a signed number, saturating.
fn signed(time: Nanos) -> i64 {
    i64::try_from(time.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::summary::Moments;
    use crate::testing::config;

    fn sample(at: u64, sent: u64, sequence: u32) -> Sample {
        Sample {
            at: Nanos::new(at),
            timed: true,
            sent: Some(Nanos::new(sent)),
            sequence: Some(sequence),
            frame_len: 64,
            fragments: 0,
            payload_len: 18,
            last: false,
        }
    }

    fn measure(expected: Expectation, samples: &[Sample]) -> FlowSummary {
        let mut meter = FlowMeter::new(expected, 64, None);
        let mut memory = Memory::default();
        for sample in samples {
            meter.record(sample, &mut memory);
        }
        meter.summary()
    }

    fn moments(values: impl IntoIterator<Item = i64>) -> Moments {
        let mut moments = Moments::default();
        values.into_iter().for_each(|value| moments.record(value));
        moments
    }

    #[test]
    fn a_flow_that_never_arrives_measures_nothing() {
        let summary = measure(Expectation::default(), &[]);
        assert_eq!(summary, FlowSummary::default());
    }

    #[test]
    fn one_frame_has_a_delay_and_no_gap() {
        let summary = measure(Expectation::default(), &[sample(500, 100, 0)]);
        assert_eq!((summary.frames, summary.frame_bytes, summary.payload_bytes), (1, 64, 18));
        assert_eq!(summary.span, Some((500, 500)));
        assert_eq!(summary.delay.moments, moments([400]));
        assert_eq!(summary.delay_variation.moments.count, 0);
        assert_eq!(summary.inter_arrival.moments.count, 0);
    }

    #[test]
    fn each_measurement_follows_its_definition() {
        let expected = Expectation { nominal_gap: Some(Nanos::new(100)), delay_base: 0 };
        let arrivals = [(1000, 900, 0), (1110, 1000, 1), (1200, 1100, 2), (1195, 1050, 3)];
        let samples: Vec<Sample> =
            arrivals.iter().map(|&(at, sent, sequence)| sample(at, sent, sequence)).collect();
        let summary = measure(expected, &samples);
        assert_eq!(summary.delay.moments, moments([100, 110, 100, 145]));
        assert_eq!(summary.delay_variation.moments, moments([10, 10, 45]));
        // sixteenths: 10, then 10 + 10 - (10 + 8) / 16, then 19 + 45 - (19 + 8) / 16
        assert_eq!(summary.interarrival_jitter.sixteenths_ns, 63);
        assert_eq!(summary.inter_arrival.moments, moments([110, 90, -5]));
        assert_eq!(summary.inter_arrival.negative, 1);
        assert_eq!(summary.gap_error.moments, moments([10, 10, 105]));
        assert_eq!(summary.gap_early.unwrap().moments, moments([10, 105]));
        assert_eq!(summary.span, Some((1000, 1200)));
    }

    #[test]
    fn a_duplicate_has_no_delay_but_arrives() {
        let samples = [sample(1000, 900, 0), sample(1500, 900, 0), sample(1600, 1450, 1)];
        let summary = measure(Expectation::default(), &samples);
        assert_eq!(summary.sequence.duplicates, 1);
        assert_eq!(summary.delay.moments, moments([100, 150]));
        assert_eq!(summary.delay_variation.moments, moments([50]));
        assert_eq!(summary.inter_arrival.moments, moments([500, 100]));
    }

    #[test]
    fn delays_are_taken_off_their_base() {
        let expected = Expectation { nominal_gap: None, delay_base: 1_000_000 };
        let summary = measure(expected, &[sample(1_000_150, 100, 0), sample(1_000_240, 200, 1)]);
        assert_eq!(summary.delay.moments, moments([50, 40]));
        assert_eq!(summary.delay_base, 1_000_000);
    }

    #[test]
    fn frames_without_numbers_and_times_are_counted_and_timed() {
        let bare = Sample { sent: None, sequence: None, ..sample(1000, 0, 0) };
        let summary = measure(Expectation::default(), &[bare, bare]);
        assert_eq!(summary.frames, 2);
        assert_eq!(summary.sequence.range, None);
        assert_eq!(summary.delay.moments.count, 0);
        assert_eq!(summary.inter_arrival.moments, moments([0]));
    }

    /// A card that stamps one frame at a time leaves others without: those have the system's time, which is later.
    #[test]
    fn frames_that_the_card_did_not_stamp_are_counted_and_not_timed() {
        let untimed = |at, sent, sequence| Sample { timed: false, ..sample(at, sent, sequence) };
        let expected = Expectation { nominal_gap: Some(Nanos::new(100)), delay_base: 0 };
        let samples = [
            sample(1000, 900, 0),
            sample(1100, 1000, 1),
            untimed(1950, 1100, 2),
            sample(1305, 1200, 3),
            sample(1402, 1300, 4),
            untimed(1900, 1300, 4),
        ];
        let summary = measure(expected, &samples);
        assert_eq!((summary.frames, summary.untimed), (6, 2));
        assert_eq!((summary.sequence.unique, summary.sequence.duplicates), (5, 1));
        assert_eq!(summary.delay.moments, moments([100, 100, 105, 102]));
        assert_eq!(summary.delay_variation.moments, moments([0, 3]));
        assert_eq!(summary.inter_arrival.moments, moments([100, 97]));
        assert_eq!(summary.gap_error.moments, moments([0, 3]));
        assert_eq!(summary.span, Some((1000, 1950)));
    }

    /// A client of iperf 2 that gets no answer says its end hundreds of times.
    #[test]
    fn ends_that_are_said_again_are_no_data() {
        let last = |at, sent, sequence| Sample { last: true, ..sample(at, sent, sequence) };
        let samples =
            [sample(1000, 900, 0), last(1100, 1000, 1), last(1110, 1010, 2), last(1120, 1020, 3)];
        let summary = measure(Expectation::default(), &samples);
        assert_eq!((summary.frames, summary.sequence.unique, summary.ends_repeated), (2, 2, 2));
        assert_eq!(summary.span, Some((1000, 1100)));
    }

    #[test]
    fn bins_hold_the_gaps() {
        let bins = Bins::new(Nanos::new(50), 2).unwrap();
        let mut meter = FlowMeter::new(Expectation::default(), 64, Some(bins));
        let mut memory = Memory::default();
        assert_eq!(meter.summary().inter_arrival_bins, Some(bins.empty()));
        for at in [0, 10, 70, 300] {
            meter.record(&sample(at, 0, at as u32), &mut memory);
        }
        let found = meter.summary().inter_arrival_bins.unwrap();
        assert_eq!((found.counts, found.overflow), (vec![1, 1], 1));
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn any_samples_give_a_summary_that_can_be_true(
            samples in prop::collection::vec(
                (
                    prop_oneof![any::<u64>(), 0..1000u64],
                    prop::option::of(any::<u64>()),
                    any::<u32>(),
                    18..65_536u32,
                ),
                0..100,
            ),
            numbered in any::<bool>(),
            base in any::<i64>(),
            nominal in prop::option::of(any::<u64>()),
        ) {
            let nominal_gap = nominal.map(Nanos::new);
            let mut meter = FlowMeter::new(Expectation { nominal_gap, delay_base: base }, 64, None);
            let mut memory = Memory::default();
            for (at, sent, sequence, len) in samples {
                let sample = Sample {
                    at: Nanos::new(at),
                    timed: at % 5 != 0,
                    sent: sent.map(Nanos::new),
                    sequence: numbered.then_some(sequence),
                    frame_len: len,
                    fragments: 0,
                    payload_len: len / 2,
                    last: false,
                };
                meter.record(&sample, &mut memory);
            }
            let summary = crate::summary::MeterSummary {
                unprobed: meter.summary(),
                ..Default::default()
            };
            prop_assert_eq!(summary.validate(), Ok(()));
        }
    }
}
