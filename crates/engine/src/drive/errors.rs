//! Departures by tag, in bounded memory: moments of each and how many were late are exact, histograms are those of the
//! first tags, and all others share one of each kind.

use wirebeat_meter::departures::{
    DepartureMoments, DepartureRecorder, Departures, SharedDepartures,
};
use wirebeat_units::Nanos;

use crate::port::OWN_HISTOGRAMS;

/// Send lateness and gaps of one core.
#[derive(Debug)]
pub(super) struct Errors {
    /// Of each tag: from which lateness on a frame is late, in ns, and how many were.
    late: Vec<(i64, u64)>,
    /// Of the first tags.
    own: Vec<DepartureRecorder>,
    /// Of each of the others.
    others: Vec<DepartureMoments>,
    /// Of all others.
    shared: SharedDepartures,
}

impl Errors {
    /// For as many tags as there are limits: frames with a greater lateness are late.
    pub(super) fn new(limits: impl Iterator<Item = Nanos>) -> Errors {
        let limit = |limit: Nanos| (i64::try_from(limit.get()).unwrap_or(i64::MAX), 0);
        let late: Vec<_> = limits.map(limit).collect();
        let own = late.len().min(OWN_HISTOGRAMS as usize);
        Errors {
            own: vec![DepartureRecorder::default(); own],
            others: vec![DepartureMoments::default(); late.len() - own],
            shared: SharedDepartures::default(),
            late,
        }
    }

    /// A frame of `tag` left at `at`, so many nanoseconds late.
    pub(super) fn record(&mut self, tag: u32, at: Nanos, late: i64) {
        let tag = tag as usize;
        let Some((limit, many)) = self.late.get_mut(tag) else { return };
        *many += u64::from(late > *limit);
        if let Some(own) = self.own.get_mut(tag) {
            return own.record(at, late);
        }
        if let Some(other) = self.others.get_mut(tag - self.own.len()) {
            other.record(at, late, &mut self.shared);
        }
    }

    /// The departures of `tag`, and how many frames were late.
    pub(super) fn of(&self, tag: u32) -> (Departures, u64) {
        let tag = tag as usize;
        let late = self.late.get(tag).map_or(0, |(_, many)| *many);
        let departures = match self.own.get(tag) {
            Some(own) => own.departures(),
            None => self
                .others
                .get(tag - self.own.len())
                .map(DepartureMoments::departures)
                .unwrap_or_default(),
        };
        (departures, late)
    }

    /// The buckets of all tags that share histograms.
    pub(super) fn shared(&self) -> Departures {
        self.shared.buckets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::LATE_AFTER;

    #[test]
    fn tags_beyond_the_first_share_a_histogram_and_keep_exact_moments() {
        let mut errors = Errors::new((0..OWN_HISTOGRAMS + 2).map(|_| LATE_AFTER));
        let mut reference = [(); 2].map(|()| DepartureRecorder::default());
        for (n, late) in [5, -3, 100_001, 100_000, 7].into_iter().enumerate() {
            let at = Nanos::new(1000 * n as u64);
            errors.record(OWN_HISTOGRAMS + (n % 2) as u32, at, late);
            reference[n % 2].record(at, late);
        }
        errors.record(OWN_HISTOGRAMS - 1, Nanos::ZERO, 200_000);
        errors.record(OWN_HISTOGRAMS + 2, Nanos::ZERO, 1); // there is no such tag

        let mut all = Departures::default();
        for (tag, reference) in (OWN_HISTOGRAMS..).zip(&reference) {
            let reference = reference.departures();
            let (departures, late) = errors.of(tag);
            for (of, reference) in departures.each().into_iter().zip(reference.each()) {
                assert_eq!((of.moments, of.negative), (reference.moments, reference.negative));
                assert_eq!(of.missing(), reference.moments.count - reference.negative);
            }
            assert_eq!(late, u64::from(tag == OWN_HISTOGRAMS), "100,000 ns are not late yet");
            all.merge(&departures);
        }
        all.complete(&errors.shared());
        assert!(all.each().into_iter().all(|of| of.missing() == 0 && of.moments.count > 0));
        let (Departures { lateness, .. }, late) = errors.of(OWN_HISTOGRAMS - 1);
        assert_eq!((lateness.moments.max, lateness.missing(), late), (200_000, 0, 1));
    }

    /// Late frames were counted in the buckets of the histogram: those of 100,001 to 100,351 ns were not more than 100 µs late.
    #[test]
    fn late_frames_are_counted_to_the_nanosecond() {
        for tags in [1, OWN_HISTOGRAMS + 1] {
            let drift = Nanos::new(5_000_000);
            let limit = |tag| if tag == tags { drift } else { LATE_AFTER };
            let mut errors = Errors::new((0..=tags).map(limit));
            for late in [100_000, 100_001, 100_351, 100_352, -100_001, i64::MAX] {
                errors.record(tags - 1, Nanos::ZERO, late);
            }
            for late in [100_001, 5_000_000, 5_000_001] {
                errors.record(tags, Nanos::ZERO, late);
            }
            assert_eq!((errors.of(tags - 1).1, errors.of(tags).1), (4, 1), "{tags} tags");
        }
    }
}
