//! What a listener that sent tells of it, and whether that can be true.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wirebeat_engine::drive::{SenderBooks, SentBooks, TxFlowStats};
use wirebeat_engine::port::Amount;
use wirebeat_meter::departures::Departures;
use wirebeat_meter::histogram::BUCKETS;
use wirebeat_meter::series::Series;
use wirebeat_meter::validate::COUNT_MAX;
use wirebeat_report::model::Station;
use wirebeat_units::{FrameLen, Nanos};

use super::message::{Reply, TEXT, tame, tame_stations};

/// Frames, and what they held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentAmount {
    /// Frames.
    pub frames: u64,
    /// Their bytes with FCS.
    pub bytes: u64,
    /// Bytes of their payload.
    pub payload: u64,
}

/// What became of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentFlowCounts {
    /// The flow's number in probes.
    pub id: u16,
    /// What the schedule asked for until it ended.
    pub requested: SentAmount,
    /// What the engine accepted.
    pub sent: SentAmount,
    /// Frames that were dropped because they were late.
    pub expired: SentAmount,
    /// Frames that were refused.
    pub failed: SentAmount,
    /// Frames that it ended before.
    pub not_reached: SentAmount,
    /// Departure of the first and of the last frame, in ns from the start.
    pub span_ns: Option<(u64, u64)>,
    /// Lateness and gaps of those that had deadlines.
    pub departures: Departures,
    /// Frames that were later than the flow allows.
    pub late: u64,
    /// More were not reached than were counted.
    pub uncounted: bool,
}

/// What a listener tells of all flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SentSummary {
    /// The number of the run.
    pub run: u64,
    /// Its ports.
    pub stations: Vec<Station>,
    /// Why sending ended early, if it did.
    pub ended: Option<String>,
    /// What was not told before of intervals.
    #[serde(default)]
    pub intervals: SentIntervals,
}

/// What left in an interval, or in several that are not told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentInterval {
    /// The number of the first interval.
    pub first: u64,
    /// How many they are.
    pub intervals: u64,
    /// Frames and their bytes with FCS, by the number of the flow in probes.
    pub flows: BTreeMap<u16, (u64, u64)>,
    /// Frames that were dropped because they were late.
    pub expired: u64,
}

/// What left in intervals and was not told before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentIntervals {
    /// All intervals with a number below this have been told.
    pub complete: u64,
    /// What has not been told before.
    pub parts: Vec<SentInterval>,
}

/// Entries of intervals that a listener keeps for a sender that does not ask, and the most that it tells at once.
const ROOM: usize = 64;

/// How much earlier an interval may begin by a listener's clock than by the one here: they are compared over a network.
const CLOCK_SLACK: Nanos = Nanos::from_secs(5);

/// What a run that is sent for another host has of intervals, between the thread that watches it and the one that tells.
#[derive(Debug)]
pub(crate) struct SentBacklog(Mutex<(Series<SenderBooks>, u64)>);

impl Default for SentBacklog {
    fn default() -> SentBacklog {
        SentBacklog(Mutex::new((Series::new(ROOM), 0)))
    }
}

impl SentBacklog {
    /// More was sent, and all intervals with a number below `complete` are over.
    pub(crate) fn add(&self, series: &Series<SenderBooks>, complete: u64) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.0.merge(series.clone());
        held.1 = complete;
    }

    /// All that was not taken before; the flow of each tag has a number in probes.
    pub(crate) fn take(&self, numbers: &[u16]) -> SentIntervals {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |tag: u32| numbers.get(tag as usize).copied();
        let part = |(range, books): (Range<u64>, SenderBooks)| SentInterval {
            first: range.start,
            intervals: range.end - range.start,
            flows: books
                .tags
                .into_iter()
                .filter_map(|(tag, sent)| Some((number(tag)?, (sent.frames, sent.frame_bytes))))
                .collect(),
            expired: books.expired,
        };
        SentIntervals { parts: held.0.take().into_iter().map(part).collect(), complete: held.1 }
    }
}

impl SentIntervals {
    /// What of it cannot be true, where flows with these numbers are sent, and no interval can have begun with a number above
    /// `latest`.
    fn check(&self, flows: &BTreeSet<u16>, latest: u64) -> Result<(), String> {
        if self.parts.len() > ROOM {
            return Err("it tells of more intervals at a time than it may".to_owned());
        }
        // intervals that are not told apart are a power of two, and the last of them may not have begun
        let widest = latest.saturating_add(1).checked_next_power_of_two().unwrap_or(u64::MAX);
        for SentInterval { first, intervals, flows: sent, expired } in &self.parts {
            if *first > latest || *intervals > widest {
                return Err("it tells of intervals that have not begun".to_owned());
            }
            if *intervals == 0 || sent.keys().any(|id| !flows.contains(id)) {
                return Err("it tells what it sent of a flow that it was not to send".to_owned());
            }
            let counts = sent.values().flat_map(|(frames, bytes)| [*frames, *bytes]);
            if counts.chain([*expired]).any(|count| count > COUNT_MAX) {
                return Err("it sent more in an interval than any link carries".to_owned());
            }
        }
        Ok(())
    }
}

/// What a sender was told of intervals that another host sent in, and has not taken.
#[derive(Debug)]
pub(super) struct HeardSent {
    flows: BTreeSet<u16>,
    /// The length of an interval, and when the first one begins by the clock here.
    length: Nanos,
    start: Nanos,
    series: Series<SenderBooks>,
    complete: u64,
    /// Frames and their bytes in all intervals, by flow, and frames that were dropped because they were late.
    sums: BTreeMap<u16, (u64, u64)>,
    expired: u64,
}

impl HeardSent {
    /// Nothing, of flows with these numbers, in intervals of this length.
    pub(super) fn new(flows: BTreeSet<u16>, length: Nanos) -> HeardSent {
        HeardSent {
            flows,
            length,
            start: Nanos::ZERO,
            series: Series::new(ROOM),
            complete: 0,
            sums: BTreeMap::new(),
            expired: 0,
        }
    }

    /// The first interval begins at `start` by the clock here.
    pub(super) fn begin(&mut self, start: Nanos) {
        self.start = start;
    }

    /// Takes what a listener told at `now`. An error says what of it cannot be true.
    pub(super) fn take_in(&mut self, told: SentIntervals, now: Nanos) -> Result<(), String> {
        let elapsed = now.saturating_sub(self.start).saturating_add(CLOCK_SLACK);
        told.check(&self.flows, elapsed.get() / self.length.get().max(1))?;
        for SentInterval { first, intervals, flows, expired } in told.parts {
            for (id, (frames, bytes)) in &flows {
                let sum = self.sums.entry(*id).or_default();
                *sum = (sum.0.saturating_add(*frames), sum.1.saturating_add(*bytes));
            }
            self.expired = self.expired.saturating_add(expired);
            let of = |(id, (frames, frame_bytes)): (u16, (u64, u64))| {
                (u32::from(id), SentBooks { frames, frame_bytes })
            };
            let tags = flows.into_iter().map(of).collect();
            let books = SenderBooks { tags, others: SentBooks::default(), expired };
            self.series.add_span(first..first.saturating_add(intervals), books);
        }
        self.complete = self.complete.max(told.complete);
        Ok(())
    }

    /// Holds all that was told of intervals against what was told of each flow in the end.
    ///
    /// # Errors
    /// The intervals have more than all of it.
    pub(super) fn check_sums(&self, flows: &[SentFlowCounts]) -> Result<(), String> {
        let more = |flow: &&SentFlowCounts| {
            let (frames, bytes) = self.sums.get(&flow.id).copied().unwrap_or_default();
            // a device may have refused later what it was handed in an interval
            let most = |of: fn(&SentAmount) -> u64| of(&flow.sent).saturating_add(of(&flow.failed));
            frames > most(|amount| amount.frames) || bytes > most(|amount| amount.bytes)
        };
        if let Some(flow) = flows.iter().find(more) {
            return Err(format!("its intervals have more of flow {} than it sent", flow.id));
        }
        let expired = flows.iter().map(|flow| flow.expired.frames).fold(0, u64::saturating_add);
        match self.expired > expired {
            true => Err("its intervals have more late frames than all flows together".to_owned()),
            false => Ok(()),
        }
    }

    /// There is nothing more to come.
    pub(super) fn end(&mut self) {
        self.complete = u64::MAX;
    }

    /// All of it, and below which number intervals are complete.
    pub(super) fn take(&mut self) -> (Series<SenderBooks>, u64) {
        (self.series.take(), self.complete)
    }
}

/// What a listener tells of what it sends.
#[derive(Clone, Debug, PartialEq)]
pub enum SentLook {
    /// It goes on.
    Sending(SentIntervals),
    /// It has ended.
    Ended(Sent),
}

/// Both together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// By flow.
    pub flows: Vec<SentFlowCounts>,
    /// The rest.
    pub summary: SentSummary,
}

impl SentSummary {
    pub(super) fn tame(&mut self) {
        tame_stations(&mut self.stations);
        self.ended.iter_mut().for_each(|text| tame(text, TEXT));
    }
}

impl Sent {
    /// As replies of bounded length.
    pub(super) fn into_replies(self, run: u64) -> Vec<Reply> {
        let flows = self.flows.into_iter().map(|flow| Reply::SentFlow(Box::new(flow)));
        let last = Reply::Sent(Box::new(SentSummary { run, ..self.summary }));
        flows.chain([last]).collect()
    }
}

impl From<Amount> for SentAmount {
    fn from(amount: Amount) -> SentAmount {
        let Amount { frames, bytes, payload, .. } = amount;
        SentAmount { frames, bytes, payload }
    }
}

impl From<SentAmount> for Amount {
    fn from(SentAmount { frames, bytes, payload }: SentAmount) -> Amount {
        Amount { frames, fragments: 0, bytes, payload }
    }
}

impl SentAmount {
    fn is_possible(&self) -> bool {
        let least = self.frames.saturating_mul(FrameLen::MIN.get().into());
        self.frames <= COUNT_MAX
            && self.bytes <= COUNT_MAX
            && self.payload <= self.bytes
            && least <= self.bytes
    }
}

impl SentFlowCounts {
    /// What was counted of the flow with number `id`, from `start` on.
    pub(crate) fn of(id: u16, stats: &TxFlowStats, start: Nanos) -> SentFlowCounts {
        let since = |at: Nanos| at.saturating_sub(start).get();
        SentFlowCounts {
            id,
            requested: stats.requested.into(),
            sent: stats.sent.into(),
            expired: stats.expired.into(),
            failed: stats.failed.into(),
            not_reached: stats.not_reached.into(),
            span_ns: stats.span.map(|(first, last)| (since(first), since(last))),
            departures: stats.departures.clone(),
            late: stats.late,
            uncounted: stats.uncounted,
        }
    }

    /// The same here, where the run started at `start`.
    pub(crate) fn stats(&self, start: Nanos) -> TxFlowStats {
        let at = |since: u64| start.saturating_add(Nanos::new(since));
        TxFlowStats {
            requested: self.requested.into(),
            sent: self.sent.into(),
            expired: self.expired.into(),
            failed: self.failed.into(),
            not_reached: self.not_reached.into(),
            span: self.span_ns.map(|(first, last)| (at(first), at(last))),
            departures: self.departures.clone(),
            late: self.late,
            uncounted: self.uncounted,
        }
    }

    /// What of it cannot be true.
    pub(super) fn check(&self) -> Result<(), String> {
        let SentFlowCounts { requested, sent, expired, failed, not_reached, .. } = self;
        let wrong = |what: &str| Err(format!("what it sent of flow {} cannot be: {what}", self.id));
        let all = [requested, sent, expired, failed, not_reached];
        if !all.iter().all(|amount| amount.is_possible()) {
            return wrong("no link carries that");
        }
        let parts = [sent, expired, failed, not_reached];
        if parts.iter().map(|part| part.frames).sum::<u64>() != requested.frames {
            return wrong("its counters are inconsistent");
        }
        let in_order = self.span_ns.is_none_or(|(first, last)| first <= last && last <= COUNT_MAX);
        if !in_order || sent.frames > 0 && self.span_ns.is_none() {
            return wrong("the times of its first and last frame");
        }
        let long = self.departures.each().into_iter().any(|of| of.buckets.len() > BUCKETS);
        if long || self.late > requested.frames {
            return wrong("its send lateness");
        }
        self.departures.validate(requested.frames).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_meter::summary::Moments;

    use super::*;

    fn amount(frames: u64) -> SentAmount {
        SentAmount { frames, bytes: frames * 64, payload: frames * 18 }
    }

    fn possible() -> SentFlowCounts {
        SentFlowCounts {
            requested: amount(10),
            sent: amount(7),
            expired: amount(1),
            failed: amount(1),
            not_reached: amount(1),
            span_ns: Some((5, 50)),
            ..SentFlowCounts::default()
        }
    }

    #[test]
    fn what_cannot_be_true_is_not_taken() {
        assert_eq!(possible().check(), Ok(()));
        assert_eq!(SentFlowCounts::default().check(), Ok(()));
        type Lie = fn(&mut SentFlowCounts);
        let lies: [(&str, Lie); 8] = [
            ("inconsistent", |flow| flow.sent = amount(8)),
            ("inconsistent", |flow| flow.requested = amount(11)),
            ("no link", |flow| flow.sent.bytes = 7 * 63),
            ("no link", |flow| flow.sent.payload = 7 * 65),
            ("no link", |flow| flow.expired.frames = u64::MAX),
            ("first and last", |flow| flow.span_ns = Some((50, 5))),
            ("first and last", |flow| flow.span_ns = None),
            ("lateness", |flow| flow.late = 11),
        ];
        for (why, lie) in lies {
            let mut flow = possible();
            lie(&mut flow);
            let told = flow.check().unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        let mut flow = possible();
        flow.departures.lateness.buckets.push((9999, 1));
        assert!(flow.check().is_err());
        let mut flow = possible();
        flow.departures.gap.moments = Moments { count: 3, ..Moments::default() };
        assert!(flow.check().is_err(), "gaps that are of no length beside the planned ones");
    }

    #[test]
    fn it_is_the_same_at_the_other_end() {
        let start = Nanos::from_secs(1000);
        let counts = possible();
        let stats = counts.stats(start);
        assert_eq!(SentFlowCounts::of(0, &stats, start), counts);
        assert_eq!(
            stats.span,
            Some((Nanos::new(1_000_000_000_005), Nanos::new(1_000_000_000_050)))
        );
    }
}
