//! Adding summaries: of the queues of one receiver, and of several hosts.
//!
//! What is exact: frames, bytes, moments and histograms always. `unique` and `duplicates` are exact
//! when the trackers shared their window (as the queues of the kernel engine do) or never saw the same
//! number (one flow stays on one queue); else a number that arrived on two queues counts as unique on
//! both. `reordered`, extents, delay variation and inter-arrival times are those within each queue,
//! added, and `queues` says of how many. The interarrival jitter of several queues has no value together
//! (`crate::jitter`): it depends on which arrival came after which.

use crate::distribution::add_buckets;
use crate::summary::{FlowSummary, MeterSummary, SequenceSummary, SharedHistograms};

impl SequenceSummary {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &SequenceSummary) {
        add(&mut self.unique, other.unique);
        add(&mut self.duplicates, other.duplicates);
        add(&mut self.conflicting, other.conflicting);
        add(&mut self.reordered, other.reordered);
        add(&mut self.beyond_window, other.beyond_window);
        add(&mut self.implausible, other.implausible);
        add(&mut self.restarts, other.restarts);
        join(&mut self.range, other.range);
        self.window = match (self.window, other.window) {
            (0, window) | (window, 0) => window,
            (mine, theirs) => mine.min(theirs),
        };
        self.extent.merge(&other.extent);
    }
}

impl FlowSummary {
    /// Adds what `other` measured of the same flow. Where the two took different bases off their
    /// delays, `other`'s are moved to this one's (see [`crate::summary::Distribution::shifted`]). Bins of
    /// different widths cannot be added, so there are none then.
    pub fn merge(&mut self, other: &FlowSummary) {
        if other.frames == 0 && other.ends_repeated == 0 {
            return;
        }
        if self.frames == 0 {
            *self = other.clone();
            return;
        }
        add(&mut self.frames, other.frames);
        add(&mut self.fragments, other.fragments);
        add(&mut self.frame_bytes, other.frame_bytes);
        add(&mut self.payload_bytes, other.payload_bytes);
        add(&mut self.untimed, other.untimed);
        add(&mut self.ends_repeated, other.ends_repeated);
        join(&mut self.span, other.span);
        self.queues = self.queues.saturating_add(other.queues);
        self.sequence.merge(&other.sequence);
        let rebase = other.delay_base.saturating_sub(self.delay_base);
        self.delay.merge(&other.delay.shifted(rebase));
        self.delay_variation.merge(&other.delay_variation);
        self.interarrival_jitter.merge(&other.interarrival_jitter);
        self.inter_arrival.merge(&other.inter_arrival);
        self.inter_arrival_bins = match (self.inter_arrival_bins.take(), &other.inter_arrival_bins)
        {
            (Some(mut mine), Some(theirs)) => mine.merge(theirs).then_some(mine),
            _ => None,
        };
        // of flows without a nominal gap there is nothing to tell apart
        match [self.gap_error.moments.count, other.gap_error.moments.count] {
            [_, 0] => {}
            [0, _] => self.gap_early = other.gap_early.clone(),
            _ => match (&mut self.gap_early, &other.gap_early) {
                (Some(mine), Some(theirs)) => mine.merge(theirs),
                _ => self.gap_early = None,
            },
        }
        self.gap_error.merge(&other.gap_error);
    }
}

impl SharedHistograms {
    /// Adds those of other flows.
    pub fn merge(&mut self, other: &SharedHistograms) {
        self.flows = self.flows.saturating_add(other.flows);
        add_buckets(&mut self.extent, &other.extent);
        add_buckets(&mut self.delay, &other.delay);
        add_buckets(&mut self.delay_variation, &other.delay_variation);
        add_buckets(&mut self.inter_arrival, &other.inter_arrival);
        add_buckets(&mut self.gap_error, &other.gap_error);
        add_buckets(&mut self.gap_early, &other.gap_early);
    }

    /// Adds these histograms to `all`, the measurements of several flows added, where what is missing in its histograms is just
    /// what is in these.
    pub fn complete(&self, all: &mut FlowSummary) {
        all.sequence.extent.complete(&self.extent);
        all.delay.complete(&self.delay);
        all.delay_variation.complete(&self.delay_variation);
        all.inter_arrival.complete(&self.inter_arrival);
        all.gap_error.complete(&self.gap_error);
        if let Some(early) = &mut all.gap_early {
            early.complete(&self.gap_early);
        }
    }
}

impl MeterSummary {
    /// Adds what another receiver, or another queue of this one, measured.
    pub fn merge(&mut self, other: &MeterSummary) {
        for (&flow, summary) in &other.flows {
            self.flows.entry(flow).or_default().merge(summary);
        }
        self.unprobed.merge(&other.unprobed);
        self.shared.merge(&other.shared);
        add(&mut self.unknown_flow, other.unknown_flow);
        add(&mut self.stale, other.stale);
        add(&mut self.foreign, other.foreign);
        add(&mut self.malformed, other.malformed);
        add(&mut self.fragments, other.fragments);
        add(&mut self.receiver_drops, other.receiver_drops);
    }
}

/// Counters saturate: a hostile summary must not overflow them.
pub(crate) fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

/// The range that holds both.
fn join(mine: &mut Option<(u64, u64)>, theirs: Option<(u64, u64)>) {
    *mine = match (*mine, theirs) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    };
}

#[cfg(test)]
mod tests {
    use wirebeat_units::Nanos;

    use super::*;
    use crate::flow::{Expectation, FlowMeter, Sample};
    use crate::memory::Memory;
    use crate::summary::LinearBins;

    /// A summary of frames with these numbers, one every 1000 ns from `start`, 100 ns under way.
    fn flow(start: u64, numbers: &[u32]) -> FlowSummary {
        let mut meter = FlowMeter::new(Expectation::default(), 64, None);
        for (at, &sequence) in (start..).step_by(1000).zip(numbers) {
            let sample = Sample {
                at: Nanos::new(at + 100),
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
        meter.summary()
    }

    #[test]
    fn what_arrived_on_two_queues_adds_up() {
        let mut both = flow(0, &[0, 2, 4, 4]);
        both.merge(&flow(500, &[1, 5, 3]));
        assert_eq!((both.frames, both.frame_bytes, both.payload_bytes), (7, 448, 126));
        assert_eq!(both.span, Some((100, 3100)));
        let sequence = &both.sequence;
        assert_eq!((sequence.unique, sequence.duplicates, sequence.reordered), (6, 1, 1));
        assert_eq!(sequence.expected(), 6);
        assert_eq!(sequence.extent.moments.count, 1);
        assert_eq!((both.delay.moments.count, both.delay.moments.max), (6, 100));
        assert_eq!(both.inter_arrival.moments.count, 5);
    }

    #[test]
    fn merging_with_nothing_changes_nothing() {
        let one = flow(0, &[0, 1]);
        let mut merged = one.clone();
        merged.merge(&FlowSummary::default());
        assert_eq!(merged, one);
        let mut merged = FlowSummary::default();
        merged.merge(&one);
        assert_eq!(merged, one);
    }

    #[test]
    fn delays_with_different_bases_are_moved_to_one() {
        let mut one = flow(0, &[0]);
        let mut other = flow(0, &[1]);
        other.delay_base = 40;
        one.merge(&other);
        assert_eq!((one.delay.moments.min, one.delay.moments.max), (100, 140));
        assert_eq!(one.delay_base, 0);
    }

    #[test]
    fn bins_of_different_widths_are_left_out() {
        let bins = |width| Some(LinearBins { width, counts: vec![1], overflow: 0 });
        let (mut one, mut other) = (flow(0, &[0]), flow(0, &[1]));
        (one.inter_arrival_bins, other.inter_arrival_bins) = (bins(1), bins(1));
        let mut same = one.clone();
        same.merge(&other);
        assert_eq!(same.inter_arrival_bins.unwrap().counts, [2]);
        other.inter_arrival_bins = bins(2);
        one.merge(&other);
        assert_eq!(one.inter_arrival_bins, None);
    }

    #[test]
    fn receivers_add_flow_by_flow() {
        let mut one = MeterSummary { foreign: 1, stale: u64::MAX, ..MeterSummary::default() };
        one.flows.insert(1, flow(0, &[0, 1]));
        let mut other = MeterSummary { foreign: 2, stale: 1, ..MeterSummary::default() };
        other.flows.insert(1, flow(0, &[2]));
        other.flows.insert(2, flow(0, &[0]));
        one.merge(&other);
        assert_eq!((one.foreign, one.stale), (3, u64::MAX));
        assert_eq!((one.flows[&1].frames, one.flows[&2].frames), (3, 1));
    }
}
