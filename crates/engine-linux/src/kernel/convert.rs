//! From the kernel's counters to the summaries of `wirebeat-meter`.

use std::mem::offset_of;

use wirebeat_meter::histogram::bucket_of;
use wirebeat_meter::summary::{Distribution, Moments};

use super::abi;
use super::mapped::Mapped;

type Raw = abi::Distribution;
pub(crate) type RawMoments = super::skeletons::transmit::types::wb_moments;

/// Reads the `struct wb_distribution` at byte `offset`.
pub(crate) fn distribution(from: &Mapped, offset: usize) -> Distribution {
    let buckets = buckets(from, offset + offset_of!(Raw, counts));
    let in_buckets = buckets.iter().map(|(_, count)| count).sum::<u64>();
    let moments = offset + offset_of!(Raw, moments);
    let negative = from.load(moments + offset_of!(RawMoments, negative));
    with_moments((from, moments), negative + in_buckets, buckets)
}

/// The buckets that are not empty of the histogram at byte `offset`.
pub(crate) fn buckets(from: &Mapped, offset: usize) -> Vec<(u16, u64)> {
    let bucket = |index: usize| {
        let count = from.load(offset + index * 8);
        (count > 0).then_some((index as u16, count))
    };
    (0..abi::BUCKETS).filter_map(bucket).collect()
}

/// A distribution of `count` values with these buckets, and the `struct wb_moments` at byte `moments`.
pub(crate) fn with_moments(
    (from, moments): (&Mapped, usize),
    count: u64,
    buckets: Vec<(u16, u64)>,
) -> Distribution {
    let word = |field: usize| from.load(moments + field);
    let lowest = word(offset_of!(RawMoments, lowest));
    if lowest == 0 || count == 0 {
        return Distribution::default();
    }
    let negative = word(offset_of!(RawMoments, negative));
    // `struct wb_moments` in bpf/wirebeat.h says how these are kept
    let min = (lowest ^ 1 << 63) as i64;
    let max = min.wrapping_add(word(offset_of!(RawMoments, range)) as i64);
    let sum = (i128::from(word(offset_of!(RawMoments, sum_high)) as i64) << 63)
        + i128::from(word(offset_of!(RawMoments, sum_low)));
    let squares = [offset_of!(RawMoments, squares_high), offset_of!(RawMoments, squares_low)];
    let sum_of_squares = match squares.map(word) {
        [u64::MAX, _] => u128::MAX,
        [high, low] => (u128::from(high) << 63) + u128::from(low),
    };
    Distribution { moments: Moments { count, min, max, sum, sum_of_squares }, negative, buckets }
}

/// Reads counts by value (extents), as a distribution; the last count stands for its own value.
pub(crate) fn counted(from: &Mapped, offset: usize, values: usize) -> Distribution {
    let mut out = Distribution::default();
    for (value, count) in (0..values).map(|value| (value, from.load(offset + value * 8))) {
        if count == 0 {
            continue;
        }
        let m = &mut out.moments;
        m.min = if m.count == 0 { value as i64 } else { m.min };
        m.max = value as i64;
        m.count += count;
        m.sum += value as i128 * i128::from(count);
        m.sum_of_squares += (value * value) as u128 * u128::from(count);
        let bucket = bucket_of(value as u64) as u16;
        match out.buckets.last_mut() {
            Some((last, so_far)) if *last == bucket => *so_far += count,
            _ => out.buckets.push((bucket, count)),
        }
    }
    out
}
