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
    let count = word(offset_of!(RawMoments, count));
    if count == 0 {
        return Distribution::default();
    }
    let counts = offset + offset_of!(Raw, counts);
    let bucket = |index: usize| {
        let count = from.load(counts + index * 8);
        (count > 0).then_some((index as u16, count))
    };
    Distribution {
        moments: Moments {
            count,
            min: word(offset_of!(RawMoments, min)) as i64,
            max: word(offset_of!(RawMoments, max)) as i64,
            sum: i128::from(word(offset_of!(RawMoments, sum_high)) as i64) << 64
                | i128::from(word(offset_of!(RawMoments, sum_low))),
            sum_of_squares: u128::from(word(offset_of!(RawMoments, squares_high))) << 64
                | u128::from(word(offset_of!(RawMoments, squares_low))),
        },
        negative: word(offset_of!(RawMoments, negative)),
        buckets: (0..abi::BUCKETS).filter_map(bucket).collect(),
    }
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
