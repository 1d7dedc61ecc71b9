//! From the kernel's counters to the summaries of `wirebeat-meter`.

use std::mem::offset_of;

use wirebeat_meter::histogram::bucket_of;
use wirebeat_meter::summary::{Distribution, Moments};

use super::abi;
use super::mapped::Mapped;

type Raw = abi::Distribution;
type RawMoments = super::skeletons::transmit::types::wb_moments;

/// Reads the `struct wb_distribution` at byte `offset`.
pub(crate) fn distribution(from: &Mapped, offset: usize) -> Distribution {
    let moments = offset + offset_of!(Raw, moments);
    let word = |field: usize| from.load(moments + field);
    let lowest = word(offset_of!(RawMoments, lowest));
    if lowest == 0 {
        return Distribution::default();
    }
    let counts = offset + offset_of!(Raw, counts);
    let bucket = |index: usize| {
        let count = from.load(counts + index * 8);
        (count > 0).then_some((index as u16, count))
    };
    let buckets: Vec<_> = (0..abi::BUCKETS).filter_map(bucket).collect();
    let negative = word(offset_of!(RawMoments, negative));
    let count = negative + buckets.iter().map(|(_, count)| count).sum::<u64>();
    // `struct wb_moments` in bpf/wirebeat.h says how these are kept
    let min = (lowest ^ 1 << 63) as i64;
    let max = min.wrapping_add(word(offset_of!(RawMoments, range)) as i64);
    let sum = (i128::from(word(offset_of!(RawMoments, sum_high)) as i64) << 63)
        + i128::from(word(offset_of!(RawMoments, sum_low)));
    let sum_of_squares = (u128::from(word(offset_of!(RawMoments, squares_high))) << 63)
        + u128::from(word(offset_of!(RawMoments, squares_low)));
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
