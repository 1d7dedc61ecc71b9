//! The one bucket layout that eBPF, Rust and reports share, and a histogram over it.
//!
//! Log-linear, as HdrHistogram lays out its counts for two significant digits: values below 256 have
//! a bucket each; above, every octave (a factor of two) is cut into 128 buckets of one width.
//!
//! ```text
//! shift  = max(msb(value) - 7, 0)            msb: number of the highest bit set, from 0
//! bucket = (shift << 7) + (value >> shift)
//! ```
//! A bucket is at most 1/128 of its values wide, so any value read back from it is off by less than
//! 0.8 %, and its midpoint by less than 0.4 %. Values from 2^37 ns (137 s) on share the last bucket
//! with the largest below them. The kernel programs compute the same in C; `docs/measurements.md`
//! states what follows for a report. This module knows nothing of what it counts.

use crate::memory::PIECE;

/// Number of buckets: 31 groups of 128.
pub const BUCKETS: usize = 3968;
/// The largest value that has a bucket of its own width, 2^37 - 1; greater ones go to the last bucket.
pub const LARGEST: u64 = (1 << 37) - 1;
/// Binary logarithm of the buckets per octave.
const OCTAVE_BITS: u32 = 7;

/// The bucket of `value`; below [`BUCKETS`].
#[inline]
pub const fn bucket_of(value: u64) -> usize {
    let value = if value > LARGEST { LARGEST } else { value };
    // The lowest bit is forced, so that zero needs no case of its own.
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(OCTAVE_BITS);
    ((shift as usize) << OCTAVE_BITS) + (value >> shift) as usize
}

/// Binary logarithm of the bucket's width.
const fn shift_of(bucket: usize) -> u32 {
    let group = (bucket >> OCTAVE_BITS) as u32;
    // Groups 0 and 1 both hold single values: the octave from 128 needs no shift yet.
    group.saturating_sub(1)
}

/// The smallest value of `bucket`. Buckets beyond the last are taken for the last.
pub const fn lowest(bucket: usize) -> u64 {
    let bucket = if bucket < BUCKETS { bucket } else { BUCKETS - 1 };
    let shift = shift_of(bucket);
    ((bucket - ((shift as usize) << OCTAVE_BITS)) as u64) << shift
}

/// The largest value of `bucket` (of the last one: the largest that it does not merely collect).
pub const fn highest(bucket: usize) -> u64 {
    let bucket = if bucket < BUCKETS { bucket } else { BUCKETS - 1 };
    lowest(bucket) + ((1 << shift_of(bucket)) - 1)
}

/// The value that stands for `bucket`: its middle, rounded down.
pub const fn midpoint(bucket: usize) -> u64 {
    lowest(bucket) + (highest(bucket) - lowest(bucket)) / 2
}

/// Buckets of an octave.
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// How many octaves there are, where the first group of single values counts as one.
pub(crate) const OCTAVES: usize = BUCKETS / OCTAVE;

/// Memory of an octave, with what the allocator keeps beside it.
pub(crate) const OCTAVE_MEMORY: usize = OCTAVE * size_of::<u64>() + PIECE;

/// A histogram that is being recorded: 1 KiB of counters for each octave that has values, 31 KiB at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    octaves: [Option<Box<[u64; OCTAVE]>>; OCTAVES],
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Histogram::default()
    }

    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket_of(value);
        let octave = &mut self.octaves[bucket >> OCTAVE_BITS];
        octave.get_or_insert_with(new_octave)[bucket & (OCTAVE - 1)] += 1;
    }

    /// Counts `value` if that takes no memory; says whether it did.
    #[inline]
    pub(crate) fn count_in_place(&mut self, value: u64) -> bool {
        let bucket = bucket_of(value);
        match &mut self.octaves[bucket >> OCTAVE_BITS] {
            Some(octave) => {
                octave[bucket & (OCTAVE - 1)] += 1;
                true
            }
            None => false,
        }
    }

    /// Bytes of its octaves.
    pub(crate) fn memory(&self) -> usize {
        self.octaves.iter().flatten().count() * OCTAVE_MEMORY
    }

    /// Adds the counts of `other`, saturating.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(new_octave);
            for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                *mine = mine.saturating_add(*theirs);
            }
        }
    }

    /// How many values were recorded, saturating.
    pub fn count(&self) -> u64 {
        self.non_empty().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The value at quantile `q` of 0 to 1 (0.5 is the median): the midpoint of the bucket that holds
    /// the value of rank `ceil(q * count)`. `None` when nothing was recorded.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = rank(q, self.count())?;
        bucket_at(self.non_empty(), rank).map(|bucket| midpoint(usize::from(bucket)))
    }

    /// (bucket, count) of the buckets that are not empty, in order.
    pub fn non_empty(&self) -> impl Iterator<Item = (u16, u64)> {
        let octaves = self.octaves.iter().zip((0u16..).step_by(OCTAVE));
        octaves.flat_map(|(octave, first)| {
            let counts = octave.iter().flat_map(|octave| octave.iter().copied());
            (first..).zip(counts).filter(|&(_, count)| count > 0)
        })
    }
}

#[cold]
fn new_octave() -> Box<[u64; OCTAVE]> {
    Box::new([0; OCTAVE])
}

/// The rank, from 1, of the value at quantile `q` among `count` values; `None` when there are none.
pub(crate) fn rank(q: f64, count: u64) -> Option<u64> {
    if count == 0 {
        return None;
    }
    // A quantile that is not a number reads as 0; casts of floats saturate.
    let rank = (q.clamp(0.0, 1.0) * count as f64).ceil() as u64;
    Some(rank.clamp(1, count))
}

/// The bucket that holds the value of `rank`, from 1; `None` when there are fewer values.
pub(crate) fn bucket_at(mut buckets: impl Iterator<Item = (u16, u64)>, rank: u64) -> Option<u16> {
    let mut below = 0u64;
    buckets
        .find(|&(_, count)| {
            below = below.saturating_add(count);
            below >= rank
        })
        .map(|(bucket, _)| bucket)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::config;

    /// Values at every edge of the layout, and a spread between.
    fn probes() -> impl Iterator<Item = u64> {
        (0..=1024).chain((10..37).flat_map(|bit| {
            let octave = 1u64 << bit;
            [octave - 1, octave, octave + 1, octave + octave / 3, octave + octave / 2]
        }))
    }

    #[test]
    fn the_layout_is_that_of_hdrhistogram_with_two_digits() {
        for value in probes().chain([LARGEST]) {
            let mut theirs =
                hdrhistogram::Histogram::<u64>::new_with_bounds(1, LARGEST, 2).unwrap();
            theirs.record(value).unwrap();
            let bucket = bucket_of(value);
            assert_eq!(theirs.lowest_equivalent(value), lowest(bucket), "{value}");
            assert_eq!(theirs.highest_equivalent(value), highest(bucket), "{value}");
            assert_eq!(theirs.distinct_values(), BUCKETS);
        }
    }

    #[test]
    fn hdrhistogram_counts_are_in_the_same_order() {
        let mut ours = Histogram::new();
        let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LARGEST, 2).unwrap();
        for value in probes() {
            ours.record(value);
            theirs.record(value).unwrap();
        }
        let theirs: Vec<(u64, u64)> = theirs
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect();
        let ours: Vec<(u64, u64)> =
            ours.non_empty().map(|(bucket, count)| (highest(usize::from(bucket)), count)).collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        assert_eq!(lowest(0), 0);
        for bucket in 1..BUCKETS {
            assert_eq!(lowest(bucket), highest(bucket - 1) + 1);
        }
        assert_eq!(highest(BUCKETS - 1), LARGEST);
        assert_eq!(lowest(usize::MAX), lowest(BUCKETS - 1));
    }

    #[test]
    fn values_too_large_go_to_the_last_bucket() {
        for value in [LARGEST, LARGEST + 1, u64::MAX] {
            assert_eq!(bucket_of(value), BUCKETS - 1);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn a_quantile_that_is_no_number_is_the_smallest() {
        let mut histogram = Histogram::new();
        histogram.record(3);
        histogram.record(200);
        assert_eq!(histogram.quantile(f64::NAN), Some(3));
        assert_eq!(histogram.quantile(7.0), Some(200));
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn a_bucket_holds_its_values_and_is_narrow(value in 0..=LARGEST) {
            let bucket = bucket_of(value);
            prop_assert!(lowest(bucket) <= value && value <= highest(bucket));
            prop_assert!((highest(bucket) - lowest(bucket)) * 128 <= value);
            prop_assert!(midpoint(bucket).abs_diff(value) * 256 <= value);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(0..=LARGEST, 1..200),
            q in 0.0..=1.0f64,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|&value| histogram.record(value));
            values.sort_unstable();
            let exact = values[((q * values.len() as f64).ceil() as usize).max(1) - 1];
            let found = histogram.quantile(q).unwrap();
            prop_assert!(found.abs_diff(exact) * 128 <= exact, "{found} for {exact}");
        }

        #[test]
        fn merging_is_recording_both(
            one in prop::collection::vec(any::<u64>(), 0..50),
            two in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
            for &value in &one { a.record(value); both.record(value); }
            for &value in &two { b.record(value); both.record(value); }
            a.merge(&b);
            prop_assert_eq!(a, both);
        }
    }
}
