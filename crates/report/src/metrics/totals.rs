//! What is added up from interval to interval: of a flow, and of an end of a group of sessions.
//!
//! All sums saturate: an interval may come from another host, which says what it likes.

use crate::model::{FlowInterval, SessionInterval, Stats};

/// The upper bounds of the buckets of delay, in nanoseconds: 1, 2.5 and 5 of each power of ten from 100 ns to 10 s. Below is what a
/// virtual cable takes, above is nobody's network.
const BOUNDS_NS: [i64; 25] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// What was counted of a flow. What nobody counts is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FlowTotals {
    pub(super) sent: Option<[u64; 2]>,
    pub(super) received: Option<ReceivedTotals>,
    pub(super) lost: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReceivedTotals {
    pub(super) frames: u64,
    pub(super) frame_bytes: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) delay: Option<DelayTotals>,
}

/// Delays by bucket; those beyond all bounds are in `count` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DelayTotals {
    pub(super) buckets: [u64; BOUNDS_NS.len()],
    pub(super) count: u64,
    pub(super) sum_ns: f64,
}

/// What a group of sessions did at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GroupTotals {
    pub(super) due: Option<u64>,
    pub(super) expired: u64,
    pub(super) opened: u64,
    pub(super) established: u64,
    pub(super) ended: u64,
    pub(super) failed: u64,
    pub(super) requests: u64,
    pub(super) responses: u64,
    pub(super) delivered_bytes: u64,
    pub(super) handshakes: u64,
    pub(super) handshakes_failed: u64,
    pub(super) retransmitted_segments: u64,
    pub(super) open: u64,
    pub(super) round_trip_ns: Option<u64>,
}

impl DelayTotals {
    /// `None` where the values were not kept by size.
    pub(super) fn of(stats: &Stats) -> Option<DelayTotals> {
        let mut totals = DelayTotals::default();
        // the last bucket of a histogram is open above
        let most = stats.max.unwrap_or(i64::MAX);
        let mut middles = 0.0;
        let below = [(i64::MIN, 0, stats.below_histogram)].into_iter();
        let held = stats.histogram.iter().map(|bucket| (bucket.1.min(most), bucket.0, bucket.2));
        for (highest, lowest, count) in below.chain(held) {
            totals.count = totals.count.saturating_add(count);
            middles += (highest as f64 + lowest as f64) / 2.0 * count as f64;
            let place = BOUNDS_NS.partition_point(|bound| *bound < highest);
            if let Some(bucket) = totals.buckets.get_mut(place) {
                *bucket = bucket.saturating_add(count);
            }
        }
        // the mean is exact; where the clocks are too uncertain for it, the buckets are all there is
        let exact = stats.mean.map(|mean| mean * stats.count as f64);
        totals.sum_ns =
            exact.or(Some(middles).filter(|_| stats.below_histogram == 0)).unwrap_or(0.0);
        (totals.count == stats.count).then_some(totals)
    }

    pub(super) fn add(&mut self, more: &DelayTotals) {
        for (sum, more) in self.buckets.iter_mut().zip(more.buckets) {
            *sum = sum.saturating_add(more);
        }
        self.count = self.count.saturating_add(more.count);
        self.sum_ns += more.sum_ns;
    }

    pub(super) fn take(&mut self, less: &DelayTotals) {
        for (sum, less) in self.buckets.iter_mut().zip(less.buckets) {
            *sum = sum.saturating_sub(less);
        }
        self.count = self.count.saturating_sub(less.count);
        self.sum_ns = if self.count == 0 { 0.0 } else { self.sum_ns - less.sum_ns };
    }

    /// Upper bounds in seconds, with the count of each; the last is unbounded. All counts together fit into a `u64`.
    pub(super) fn in_seconds(&self) -> Vec<(f64, u64)> {
        let mut left = self.count;
        let mut fitting = |count: u64| {
            let fits = count.min(left);
            left -= fits;
            fits
        };
        let bounds = BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9);
        let mut buckets: Vec<_> =
            bounds.zip(self.buckets).map(|(bound, count)| (bound, fitting(count))).collect();
        buckets.push((f64::INFINITY, left));
        buckets
    }
}

impl ReceivedTotals {
    pub(super) fn add(&mut self, more: &ReceivedTotals) {
        self.frames = self.frames.saturating_add(more.frames);
        self.frame_bytes = self.frame_bytes.saturating_add(more.frame_bytes);
        self.duplicates = self.duplicates.saturating_add(more.duplicates);
        self.reordered = self.reordered.saturating_add(more.reordered);
        if let Some(delay) = &more.delay {
            self.delay.get_or_insert_default().add(delay);
        }
    }

    pub(super) fn take(&mut self, less: &ReceivedTotals) {
        self.frames = self.frames.saturating_sub(less.frames);
        self.frame_bytes = self.frame_bytes.saturating_sub(less.frame_bytes);
        self.duplicates = self.duplicates.saturating_sub(less.duplicates);
        self.reordered = self.reordered.saturating_sub(less.reordered);
        if let (Some(delay), Some(less)) = (&mut self.delay, &less.delay) {
            delay.take(less);
        }
    }
}

impl FlowTotals {
    pub(super) fn of(interval: &FlowInterval) -> FlowTotals {
        FlowTotals {
            sent: interval.sent.map(|sent| [sent.frames, sent.frame_bytes]),
            received: interval.received.as_ref().map(|received| ReceivedTotals {
                frames: received.frames,
                frame_bytes: received.frame_bytes,
                duplicates: received.duplicates,
                reordered: received.reordered,
                delay: received.one_way_delay_ns.as_ref().and_then(DelayTotals::of),
            }),
            lost: interval.lost,
        }
    }

    pub(super) fn add(&mut self, more: &FlowTotals) {
        if let Some(more) = more.sent {
            let sums = self.sent.get_or_insert_default().iter_mut();
            sums.zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
        if let Some(more) = &more.received {
            self.received.get_or_insert_default().add(more);
        }
        if let Some(more) = more.lost {
            let lost = self.lost.get_or_insert_default();
            *lost = lost.saturating_add(more);
        }
    }

    /// Takes off what is told apart.
    pub(super) fn take(&mut self, less: &FlowTotals) {
        if let (Some(sums), Some(less)) = (&mut self.sent, less.sent) {
            sums.iter_mut().zip(less).for_each(|(sum, less)| *sum = sum.saturating_sub(less));
        }
        if let (Some(sums), Some(less)) = (&mut self.received, &less.received) {
            sums.take(less);
        }
        if let (Some(lost), Some(less)) = (&mut self.lost, less.lost) {
            *lost = lost.saturating_sub(less);
        }
    }

    /// Whether nothing was counted.
    pub(super) fn is_nothing(&self) -> bool {
        let sent = self.sent.is_some_and(|sent| sent != [0, 0]);
        let received = self.received.as_ref().is_some_and(|received| received.frames > 0);
        !sent && !received && self.lost.unwrap_or(0) == 0
    }
}

impl GroupTotals {
    /// Whether its sessions have TLS, as far as it shows.
    pub(super) fn has_tls(&self) -> bool {
        self.handshakes > 0 || self.handshakes_failed > 0
    }

    pub(super) fn add(&mut self, more: &SessionInterval) {
        if let Some(due) = more.due {
            let sum = self.due.get_or_insert_default();
            *sum = sum.saturating_add(due);
        }
        let ended = more.in_order.saturating_add(more.failed).saturating_add(more.unfinished);
        for (sum, more) in [
            (&mut self.expired, more.expired),
            (&mut self.opened, more.opened),
            (&mut self.established, more.established),
            (&mut self.ended, ended),
            (&mut self.failed, more.failed),
            (&mut self.handshakes, more.handshakes),
            (&mut self.handshakes_failed, more.handshakes_failed),
            (&mut self.requests, more.requests),
            (&mut self.responses, more.responses),
            (&mut self.delivered_bytes, more.delivered_bytes),
            (&mut self.retransmitted_segments, more.retransmitted_segments),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.open = more.open;
        self.round_trip_ns = more.connections.and_then(|looked| looked.round_trip_ns);
    }
}
