//! Departure errors by tag, in bounded memory: moments of each are exact, histograms are those of the first tags, and all
//! others share one.

use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::{Distribution, Moments};

use crate::port::{LATE_AFTER, OWN_HISTOGRAMS};

/// The departure errors of one core.
#[derive(Debug)]
pub(super) struct Errors {
    /// Of the first tags.
    own: Vec<Recorder>,
    /// Of each of the others: moments, negative values, and how many are late.
    others: Vec<(Moments, u64, u64)>,
    /// Of all others.
    shared: Recorder,
}

impl Errors {
    pub(super) fn new(tags: u32) -> Errors {
        let own = tags.min(OWN_HISTOGRAMS);
        Errors {
            own: vec![Recorder::default(); own as usize],
            others: vec![(Moments::default(), 0, 0); (tags - own) as usize],
            shared: Recorder::default(),
        }
    }

    /// A frame of `tag` left so many nanoseconds late.
    pub(super) fn record(&mut self, tag: u32, late: i64) {
        let tag = tag as usize;
        if let Some(own) = self.own.get_mut(tag) {
            return own.record(late);
        }
        let Some((moments, negative, many)) = self.others.get_mut(tag - self.own.len()) else {
            return;
        };
        moments.record(late);
        *negative += u64::from(late < 0);
        *many += u64::from(late > LATE_AFTER.get() as i64);
        self.shared.record(late);
    }

    /// The errors of `tag`, and how many of those that its histogram lacks are late.
    pub(super) fn of(&self, tag: u32) -> (Distribution, u64) {
        let tag = tag as usize;
        if let Some(own) = self.own.get(tag) {
            return (own.distribution(), 0);
        }
        let other = self.others.get(tag - self.own.len()).copied();
        let (moments, negative, late) = other.unwrap_or_default();
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

    #[test]
    fn tags_beyond_the_first_share_a_histogram_and_keep_exact_moments() {
        let mut errors = Errors::new(OWN_HISTOGRAMS + 2);
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
        assert_eq!((all.missing(), all.above(50_000)), (0, 2));
        let (own, late) = errors.of(OWN_HISTOGRAMS - 1);
        assert_eq!((own.moments.max, own.missing(), late), (200_000, 0, 0));
    }
}
