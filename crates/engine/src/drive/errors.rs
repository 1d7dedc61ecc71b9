//! Send lateness by tag, in bounded memory: moments of each and how many were late are exact, histograms are those of the
//! first tags, and all others share one.

use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::{Distribution, Moments};
use wirebeat_units::Nanos;

use crate::port::OWN_HISTOGRAMS;

/// The send lateness of one core.
#[derive(Debug)]
pub(super) struct Errors {
    /// Of each tag: from which error on a frame is late, in ns, and how many were.
    late: Vec<(i64, u64)>,
    /// Of the first tags.
    own: Vec<Recorder>,
    /// Of each of the others: moments, and negative values.
    others: Vec<(Moments, u64)>,
    /// Of all others.
    shared: Recorder,
}

impl Errors {
    /// For as many tags as there are limits: frames with a greater error are late.
    pub(super) fn new(limits: impl Iterator<Item = Nanos>) -> Errors {
        let limit = |limit: Nanos| (i64::try_from(limit.get()).unwrap_or(i64::MAX), 0);
        let late: Vec<_> = limits.map(limit).collect();
        let own = late.len().min(OWN_HISTOGRAMS as usize);
        Errors {
            own: vec![Recorder::default(); own],
            others: vec![(Moments::default(), 0); late.len() - own],
            shared: Recorder::default(),
            late,
        }
    }

    /// A frame of `tag` left so many nanoseconds late.
    pub(super) fn record(&mut self, tag: u32, late: i64) {
        let tag = tag as usize;
        let Some((limit, many)) = self.late.get_mut(tag) else { return };
        *many += u64::from(late > *limit);
        if let Some(own) = self.own.get_mut(tag) {
            return own.record(late);
        }
        let Some((moments, negative)) = self.others.get_mut(tag - self.own.len()) else {
            return;
        };
        moments.record(late);
        *negative += u64::from(late < 0);
        self.shared.record(late);
    }

    /// The errors of `tag`, and how many frames were late.
    pub(super) fn of(&self, tag: u32) -> (Distribution, u64) {
        let tag = tag as usize;
        let late = self.late.get(tag).map_or(0, |(_, many)| *many);
        if let Some(own) = self.own.get(tag) {
            return (own.distribution(), late);
        }
        let other = self.others.get(tag - self.own.len()).copied();
        let (moments, negative) = other.unwrap_or_default();
        (Distribution { moments, negative, buckets: Vec::new() }, late)
    }

    /// Those of all tags that share a histogram.
    pub(super) fn shared(&self) -> Distribution {
        self.shared.distribution()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::LATE_AFTER;

    #[test]
    fn tags_beyond_the_first_share_a_histogram_and_keep_exact_moments() {
        let mut errors = Errors::new((0..OWN_HISTOGRAMS + 2).map(|_| LATE_AFTER));
        let mut reference = [(); 2].map(|()| Recorder::default());
        for (n, late) in [5, -3, 100_001, 100_000, 7].into_iter().enumerate() {
            errors.record(OWN_HISTOGRAMS + (n % 2) as u32, late);
            reference[n % 2].record(late);
        }
        errors.record(OWN_HISTOGRAMS - 1, 200_000);
        errors.record(OWN_HISTOGRAMS + 2, 1); // there is no such tag

        let mut all = Distribution::default();
        for (tag, reference) in (OWN_HISTOGRAMS..).zip(&reference) {
            let reference = reference.distribution();
            let (error, late) = errors.of(tag);
            assert_eq!((error.moments, error.negative), (reference.moments, reference.negative));
            assert_eq!(error.missing(), reference.moments.count - reference.negative);
            assert_eq!(late, u64::from(tag == OWN_HISTOGRAMS), "100,000 ns are not late yet");
            all.merge(&error);
        }
        all.complete(&errors.shared().buckets);
        assert_eq!(all.missing(), 0);
        let (own, late) = errors.of(OWN_HISTOGRAMS - 1);
        assert_eq!((own.moments.max, own.missing(), late), (200_000, 0, 1));
    }

    /// Late frames were counted in the buckets of the histogram: those of 100,001 to 100,351 ns were not more than 100 µs late.
    #[test]
    fn late_frames_are_counted_to_the_nanosecond() {
        for tags in [1, OWN_HISTOGRAMS + 1] {
            let drift = Nanos::new(5_000_000);
            let limit = |tag| if tag == tags { drift } else { LATE_AFTER };
            let mut errors = Errors::new((0..=tags).map(limit));
            for late in [100_000, 100_001, 100_351, 100_352, -100_001, i64::MAX] {
                errors.record(tags - 1, late);
            }
            for late in [100_001, 5_000_000, 5_000_001] {
                errors.record(tags, late);
            }
            assert_eq!((errors.of(tags - 1).1, errors.of(tags).1), (4, 1), "{tags} tags");
        }
    }
}
