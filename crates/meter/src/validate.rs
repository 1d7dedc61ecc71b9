//! Whether a summary that a peer sent can be true.
//!
//! Checks what arithmetic and rendering rely on: buckets that exist and are in order, sums that fit
//! their counts, counts that fit each other and any link. A summary that passes may still be a lie.

use wirebeat_units::FrameLen;

use crate::bins::MAX_BINS;
use crate::departures::Departures;
use crate::histogram::BUCKETS;
use crate::interval::{FlowBooks, MeterBooks};
use crate::session::{Arrivals, SessionCounts, SessionSummary};
use crate::summary::{
    Distribution, FlowSummary, LinearBins, MeterSummary, Moments, SequenceSummary, SharedHistograms,
};

/// What is wrong with a summary, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the summary is inconsistent: {place}: {problem}")]
pub struct InvalidSummary {
    /// Which part: "flow 7, delay".
    pub place: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The shortest frame, with FCS. Virtual links pad nothing to it, but every engine counts what comes shorter as this long.
const SHORTEST: u64 = FrameLen::MIN.get() as u64;
/// The longest, with FCS: the kernel puts no more than 524,280 bytes together (`GSO_MAX_SIZE`), behind Ethernet header and
/// VLAN tags.
const LONGEST: u64 = 524_280 + 14 + 8 + 4;
/// No counter of frames or bytes that is true gets further: a year and a half at the rate that no link reaches (100 Tbit/s).
pub const COUNT_MAX: u64 = 1 << 60;
/// Bytes in a nanosecond that no link carries, nor several together: 100 Tbit/s. The fastest Ethernet has 1.6 Tbit/s.
const BYTES_PER_NS: u128 = 12_500;
/// Bytes that may be there at once: frames that are read together may have one time.
const AT_ONCE: u128 = 1 << 30;
/// Numbers that one arrival can be ahead of all others: they have 32 bits.
const STEP: u64 = 1 << 32;

const TOO_MANY: &str = "more than any link carries";

type Check = Result<(), &'static str>;

fn ensure(holds: bool, problem: &'static str) -> Check {
    if holds { Ok(()) } else { Err(problem) }
}

impl MeterSummary {
    /// Checks all of it.
    pub fn validate(&self) -> Result<(), InvalidSummary> {
        let shared = self.shared.flows > 0;
        check_counters(self)
            .map_err(|(place, problem)| InvalidSummary { place: place.to_owned(), problem })?;
        let of_shared = |problem| InvalidSummary { place: "shared histograms".to_owned(), problem };
        check_shared(&self.shared).map_err(of_shared)?;
        for (id, flow) in &self.flows {
            check_flow(flow, shared).map_err(|(part, problem)| InvalidSummary {
                place: format!("flow {id}, {part}"),
                problem,
            })?;
        }
        check_flow(&self.unprobed, shared).map_err(|(part, problem)| InvalidSummary {
            place: format!("frames without a probe, {part}"),
            problem,
        })
    }
}

impl MeterBooks {
    /// Checks all of it, as [`MeterSummary::validate`] does.
    pub fn validate(&self) -> Result<(), InvalidSummary> {
        let flows = self.flows.iter().map(|(id, books)| (format!("flow {id}"), books));
        let rest = [("all other flows", &self.others), ("no probe", &self.unprobed)];
        let rest = rest.map(|(place, books)| (place.to_owned(), books));
        for (place, books) in flows.chain(rest) {
            check_books(books).map_err(|problem| InvalidSummary {
                place: format!("interval, {place}"),
                problem,
            })?;
        }
        Ok(())
    }
}

impl SessionSummary {
    /// Checks what counters and values there can be; that its sums are right is for the report to say.
    pub fn validate(&self) -> Result<(), InvalidSummary> {
        let place = |place: &str| {
            let place = place.to_owned();
            move |problem| InvalidSummary { place, problem }
        };
        self.counts.validate()?;
        let counted = self.statuses.values().chain([&self.most_open]);
        ensure(counted.into_iter().all(|count| *count <= COUNT_MAX), TOO_MANY)
            .map_err(place("sessions"))?;
        let times = self.times.iter().flat_map(|of| [&of.planned, &of.actual]);
        let Arrivals { gap, jitter, length } = &self.arrivals;
        let others = [&self.lateness, &self.rtt, gap, jitter, length];
        for distribution in times.chain(self.timers.values()).chain(others) {
            check_distribution(distribution, COUNT_MAX, false)
                .map_err(place("times of sessions"))?;
        }
        Ok(())
    }
}

impl SessionCounts {
    /// Checks that no counter is larger than any can be.
    pub fn validate(&self) -> Result<(), InvalidSummary> {
        let invalid = |problem| InvalidSummary { place: "sessions".to_owned(), problem };
        ensure(self.values().into_iter().all(|count| count <= COUNT_MAX), TOO_MANY).map_err(invalid)
    }
}

impl Distribution {
    /// Checks what at most `limit` frames gave a value for.
    pub fn validate(&self, limit: u64) -> Result<(), InvalidSummary> {
        let invalid = |problem| InvalidSummary { place: "distribution".to_owned(), problem };
        check_distribution(self, limit, true).map_err(invalid)
    }
}

impl Departures {
    /// Checks what at most `limit` frames gave values for.
    pub fn validate(&self, limit: u64) -> Result<(), InvalidSummary> {
        self.each().into_iter().try_for_each(|of| of.validate(limit))?;
        let [_, gap, longer, shorter] = self.each().map(|of| of.moments.count);
        // each is at most COUNT_MAX by now
        ensure(longer + shorter == gap, "gaps that are neither too long nor too short")
            .map_err(|problem| InvalidSummary { place: "departures".to_owned(), problem })
    }
}

fn check_books(books: &FlowBooks) -> Check {
    let FlowBooks { frames, frame_bytes, unique, duplicates, reordered, lost, .. } = books;
    let counts = [*frames, *frame_bytes, *unique, *duplicates, *reordered, lost.unsigned_abs()];
    ensure(counts.into_iter().all(|count| count <= COUNT_MAX), TOO_MANY)?;
    // what is read while frames come may have one more of one than of the other
    check_distribution(&books.delay, COUNT_MAX, true)
}

/// The counters that belong to no flow.
fn check_counters(summary: &MeterSummary) -> Result<(), (&'static str, &'static str)> {
    let counters = [
        ("frames of unknown flows", summary.unknown_flow),
        ("stale frames", summary.stale),
        ("foreign frames", summary.foreign),
        ("malformed frames", summary.malformed),
        ("fragments", summary.fragments),
        ("frames dropped by the receiver", summary.receiver_drops),
    ];
    counters.into_iter().try_for_each(|(place, count)| {
        ensure(count <= COUNT_MAX, TOO_MANY).map_err(|problem| (place, problem))
    })
}

fn check_shared(shared: &SharedHistograms) -> Check {
    let SharedHistograms {
        flows,
        extent,
        delay,
        delay_variation,
        inter_arrival,
        gap_error,
        gap_early,
    } = shared;
    for buckets in [extent, delay, delay_variation, inter_arrival, gap_error, gap_early] {
        check_buckets(buckets)?;
        ensure(*flows > 0 || buckets.is_empty(), "values of no flow")?;
    }
    Ok(())
}

/// A flow, of which histograms may lack values where some are shared.
fn check_flow(flow: &FlowSummary, shared: bool) -> Result<(), (&'static str, &'static str)> {
    let at = |part: &'static str| move |problem: &'static str| (part, problem);
    check_counts(flow).map_err(at("counts"))?;
    check_sequence(&flow.sequence, flow.frames).map_err(at("sequence"))?;
    ensure(flow.interarrival_jitter.is_possible(), "an estimate out of range")
        .map_err(at("interarrival jitter"))?;
    let distributions = [
        ("reordering extent", &flow.sequence.extent, flow.sequence.reordered),
        ("delay", &flow.delay, flow.frames),
        ("delay variation", &flow.delay_variation, flow.frames),
        ("inter-arrival time", &flow.inter_arrival, flow.frames),
        ("gap error", &flow.gap_error, flow.frames),
    ];
    let early = flow.gap_early.as_ref();
    let early = early.map(|early| ("gap error", early, flow.gap_error.moments.count));
    for (part, distribution, limit) in distributions.into_iter().chain(early) {
        check_distribution(distribution, limit, shared).map_err(at(part))?;
    }
    flow.inter_arrival_bins
        .as_ref()
        .map_or(Ok(()), |bins| check_bins(bins, flow.inter_arrival.moments.count))
        .map_err(at("inter-arrival bins"))
}

fn check_counts(flow: &FlowSummary) -> Check {
    ensure(
        flow.span.is_some() == (flow.frames > 0),
        "frames without a time, or a time without frames",
    )?;
    ensure(
        flow.span.is_none_or(|(first, last)| first <= last),
        "the last frame is before the first",
    )?;
    ensure(flow.payload_bytes <= flow.frame_bytes, "more payload than frame bytes")?;
    ensure(flow.untimed <= flow.frames, "more frames without a time than frames")?;
    let frames = flow.frames.checked_add(flow.fragments).filter(|&frames| frames <= COUNT_MAX);
    let frames = frames.ok_or(TOO_MANY)?;
    ensure(flow.ends_repeated <= COUNT_MAX && flow.frame_bytes <= COUNT_MAX, TOO_MANY)?;
    ensure(
        flow.frame_bytes >= frames.saturating_mul(SHORTEST),
        "more frames than their bytes hold",
    )?;
    ensure(
        flow.frame_bytes <= frames.saturating_mul(LONGEST),
        "more bytes than their frames hold",
    )?;
    let span = flow.span.map_or(0, |(first, last)| u128::from(last - first));
    let most = AT_ONCE + span * BYTES_PER_NS;
    ensure(u128::from(flow.frame_bytes) <= most, "more bytes than any link carries in their time")
}

fn check_sequence(sequence: &SequenceSummary, frames: u64) -> Check {
    let arrivals = sequence
        .unique
        .checked_add(sequence.duplicates)
        .and_then(|sum| sum.checked_add(sequence.implausible));
    ensure(arrivals.is_some_and(|sum| sum <= frames), "more numbers than frames")?;
    // all frames of a flow have one, or none
    ensure(arrivals.is_some_and(|sum| sum == 0 || sum == frames), "frames without a number")?;
    ensure(sequence.reordered <= sequence.unique, "more reordered than unique")?;
    ensure(sequence.beyond_window <= sequence.reordered, "more beyond the window than reordered")?;
    ensure(
        sequence.conflicting <= sequence.duplicates,
        "more conflicting numbers than duplicates",
    )?;
    ensure(
        sequence.range.is_none_or(|(low, high)| low <= high),
        "the highest number is below the lowest",
    )?;
    let furthest = frames.saturating_mul(STEP);
    ensure(
        sequence.range.is_none_or(|(low, high)| high - low <= furthest),
        "numbers further apart than so few frames reach",
    )
}

fn check_distribution(distribution: &Distribution, limit: u64, shared: bool) -> Check {
    let moments = &distribution.moments;
    ensure(moments.count <= limit, "more values than arrivals")?;
    check_moments(moments)?;
    let held = check_buckets(&distribution.buckets)?.checked_add(distribution.negative);
    let adds_up = |held| held == moments.count || shared && held < moments.count;
    ensure(held.is_some_and(adds_up), "buckets that do not add up to the count")?;
    ensure(
        distribution.negative == 0 || moments.min < 0,
        "negative values above a positive minimum",
    )
}

/// Gives how many values they hold.
fn check_buckets(buckets: &[(u16, u64)]) -> Result<u64, &'static str> {
    let mut held = 0u64;
    let mut next = 0;
    for &(bucket, count) in buckets {
        ensure(usize::from(bucket) < BUCKETS, "a bucket that does not exist")?;
        ensure(bucket >= next, "buckets out of order")?;
        ensure(count > 0, "an empty bucket")?;
        next = bucket + 1;
        let sum = held.checked_add(count);
        held = sum.ok_or("buckets that do not add up to the count")?;
    }
    Ok(held)
}

fn check_moments(moments: &Moments) -> Check {
    if moments.count == 0 {
        return ensure(*moments == Moments::default(), "sums without values");
    }
    ensure(moments.min <= moments.max, "a minimum above the maximum")?;
    let count = i128::from(moments.count);
    // At most 2^64 times 2^63: cannot overflow.
    let range = count * i128::from(moments.min)..=count * i128::from(moments.max);
    ensure(range.contains(&moments.sum), "a mean outside minimum and maximum")?;
    let largest = u128::from(moments.min.unsigned_abs().max(moments.max.unsigned_abs()));
    let most = (largest * largest).saturating_mul(u128::from(moments.count));
    ensure(moments.sum_of_squares <= most, "squares above those of the extremes")?;
    // Cauchy and Schwarz, with room for rounding and for a saturated sum.
    let (sum, squares) = (moments.sum as f64, moments.sum_of_squares as f64);
    let possible = moments.sum_of_squares == u128::MAX
        || sum * sum / moments.count as f64 <= squares * (1.0 + 1e-9);
    ensure(possible, "squares below those of the mean")
}

fn check_bins(bins: &LinearBins, values: u64) -> Check {
    ensure(bins.width > 0, "bins without width")?;
    ensure((1..=MAX_BINS).contains(&bins.counts.len()), "no bins, or too many")?;
    let sum = bins.counts.iter().try_fold(bins.overflow, |sum, &count| sum.checked_add(count));
    ensure(sum.is_some_and(|sum| sum <= values), "more values than gaps")
}

#[cfg(test)]
mod tests {
    use wirebeat_units::Nanos;

    use super::*;
    use crate::bins::Bins;
    use crate::flow::{Expectation, FlowMeter, Sample};
    use crate::memory::Memory;

    /// A summary of ten frames with one lost, one twice and one late.
    fn honest() -> MeterSummary {
        let bins = Bins::new(Nanos::new(500), 4).unwrap();
        let expected = Expectation { nominal_gap: Some(Nanos::new(1000)), delay_base: 0 };
        let mut meter = FlowMeter::new(expected, 64, Some(bins));
        for (at, sequence) in (1000u64..).step_by(1000).zip([0u32, 1, 3, 4, 4, 2, 6, 7, 8, 9]) {
            let sample = Sample {
                at: Nanos::new(at + u64::from(sequence)),
                timed: true,
                sent: Some(Nanos::new(at)),
                sequence: Some(sequence),
                frame_len: 64,
                fragments: 0,
                payload_len: 18,
                last: false,
            };
            meter.record(&sample, &mut Memory::default());
        }
        let mut summary = MeterSummary::default();
        summary.flows.insert(7, meter.summary());
        summary
    }

    /// What is said of a summary that was tampered with.
    fn verdict(tamper: impl FnOnce(&mut FlowSummary)) -> String {
        let mut summary = honest();
        tamper(summary.flows.get_mut(&7).unwrap());
        summary.validate().unwrap_err().to_string()
    }

    #[test]
    fn what_was_measured_passes() {
        assert_eq!(honest().validate(), Ok(()));
        assert_eq!(MeterSummary::default().validate(), Ok(()));
    }

    #[test]
    fn it_crosses_a_connection_unchanged() {
        let text = serde_json::to_string(&honest()).unwrap();
        assert_eq!(serde_json::from_str::<MeterSummary>(&text).unwrap(), honest());
    }

    #[test]
    fn sums_of_any_size_cross_a_connection() {
        let moments = Moments { sum: i128::MIN, sum_of_squares: u128::MAX, ..Moments::default() };
        let text = serde_json::to_string(&moments).unwrap();
        assert_eq!(serde_json::from_str::<Moments>(&text).unwrap(), moments);
    }

    #[test]
    fn every_distribution_of_sessions_is_looked_at() {
        assert_eq!(SessionSummary::default().validate(), Ok(()));
        let places: [fn(&mut SessionSummary) -> &mut Distribution; 6] = [
            |summary| &mut summary.arrivals.gap,
            |summary| &mut summary.arrivals.jitter,
            |summary| &mut summary.arrivals.length,
            |summary| &mut summary.lateness,
            |summary| &mut summary.rtt,
            |summary| &mut summary.times[3].planned,
        ];
        for place in places {
            let mut summary = SessionSummary::default();
            place(&mut summary).buckets = vec![(5000, 1)];
            assert!(summary.validate().is_err());
        }
    }

    #[test]
    fn the_message_says_where() {
        assert_eq!(
            verdict(|flow| flow.delay.buckets[0].0 = 5000),
            "the summary is inconsistent: flow 7, delay: a bucket that does not exist"
        );
    }

    #[test]
    fn lies_are_found() {
        type Lie = (fn(&mut FlowSummary), &'static str);
        let lies: [Lie; 33] = [
            (|f| f.frames = u64::MAX, "than any link carries"),
            (|f| f.frames = 1 << 59, "more frames than their bytes"),
            (|f| f.frames = 11, "more frames than their bytes"),
            (|f| f.frame_bytes = 10 * SHORTEST - 1, "more frames than their bytes"),
            (|f| (f.frames, f.frame_bytes) = (11, 11 * SHORTEST), "frames without a number"),
            (|f| f.fragments = u64::MAX, "than any link carries"),
            (|f| f.fragments = 1000, "more frames than their bytes"),
            (|f| f.ends_repeated = u64::MAX, "than any link carries"),
            (|f| f.frame_bytes = u64::MAX, "than any link carries"),
            (|f| f.frame_bytes = 10 * LONGEST + 1, "more bytes than their frames"),
            (|f| (f.frames, f.frame_bytes) = (1 << 30, 1 << 36), "in their time"),
            (|f| f.sequence.unique = 3, "frames without a number"),
            (|f| f.sequence.duplicates = u64::MAX, "more numbers than frames"),
            (|f| f.sequence.range = Some((0, u64::MAX)), "further apart"),
            (|f| f.interarrival_jitter.sixteenths_ns = u64::MAX, "out of range"),
            (|f| f.span = None, "frames without a time"),
            (|f| f.span = Some((2, 1)), "before the first"),
            (|f| f.payload_bytes = u64::MAX, "more payload"),
            (|f| f.sequence.unique = u64::MAX, "more numbers than frames"),
            (|f| f.sequence.reordered = 10, "more reordered"),
            (|f| f.sequence.beyond_window = 2, "beyond the window"),
            (|f| f.sequence.conflicting = 1 << 40, "conflicting numbers"),
            (|f| f.sequence.range = Some((2, 1)), "below the lowest"),
            (|f| f.sequence.extent.moments.count = 2, "more values than arrivals"),
            (|f| f.delay.buckets.reverse(), "out of order"),
            (|f| f.delay.buckets[0].1 = 0, "an empty bucket"),
            (|f| f.delay.buckets[0].1 = u64::MAX, "do not add up"),
            (|f| f.delay.moments.min = 10, "minimum above"),
            (|f| f.delay.moments.sum = 1 << 100, "mean outside"),
            (|f| f.delay.moments.sum_of_squares = u128::MAX, "squares above"),
            (|f| f.delay.moments.sum_of_squares = 0, "squares below"),
            (|f| f.inter_arrival_bins.as_mut().unwrap().width = 0, "without width"),
            (
                |f| f.inter_arrival_bins.as_mut().unwrap().overflow = u64::MAX,
                "more values than gaps",
            ),
        ];
        for (tamper, expected) in lies {
            let said = verdict(tamper);
            assert!(said.contains(expected), "{said} should name: {expected}");
        }
    }

    #[test]
    fn counters_beyond_any_link_are_found() {
        type Lie = fn(&mut MeterSummary);
        let lies: [(Lie, &str); 6] = [
            (|s| s.unknown_flow = u64::MAX, "unknown flows"),
            (|s| s.stale = u64::MAX, "stale"),
            (|s| s.foreign = u64::MAX, "foreign"),
            (|s| s.malformed = u64::MAX, "malformed"),
            (|s| s.fragments = u64::MAX, "fragments"),
            (|s| s.receiver_drops = u64::MAX, "dropped by the receiver"),
        ];
        for (tamper, place) in lies {
            let mut summary = honest();
            tamper(&mut summary);
            let error = summary.validate().unwrap_err();
            assert!(error.place.contains(place) && error.problem == TOO_MANY, "{error}");
        }
    }

    /// The shortest frames, and jumbo frames in one batch.
    #[test]
    fn shortest_frames_and_batches_with_one_time_can_be_true() {
        for (len, frames) in [(SHORTEST, 1000), (9018, 100_000)] {
            let mut summary = honest();
            let flow = summary.flows.get_mut(&7).unwrap();
            *flow = FlowSummary {
                frames,
                frame_bytes: frames * len,
                payload_bytes: frames * 16,
                span: Some((5, 5)),
                sequence: SequenceSummary {
                    unique: frames,
                    range: Some((0, frames - 1)),
                    ..SequenceSummary::default()
                },
                ..FlowSummary::default()
            };
            assert_eq!(summary.validate(), Ok(()));
        }
    }

    #[test]
    fn histograms_may_lack_what_is_shared_and_nothing_else() {
        let mut summary = honest();
        let taken = std::mem::take(&mut summary.flows.get_mut(&7).unwrap().delay.buckets);
        assert!(summary.validate().is_err());
        summary.shared = SharedHistograms { flows: 1, delay: taken, ..Default::default() };
        assert_eq!(summary.validate(), Ok(()));
        summary.shared.flows = 0;
        assert_eq!(summary.validate().unwrap_err().problem, "values of no flow");
    }

    #[test]
    fn sums_without_values_are_found() {
        let mut summary = MeterSummary::default();
        summary.unprobed.delay.moments.sum = 1;
        assert_eq!(summary.validate().unwrap_err().place, "frames without a probe, delay");
    }
}
