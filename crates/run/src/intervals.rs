//! The intervals of a run: what senders and receivers count in each, here and on another host, put together while it goes on.
//!
//! Each loop keeps a series of its own ([`TxIntervals`], [`MeterSeries`]); the thread that watches a run takes what is there,
//! and never waits for it. An interval is *told* once everybody has said what it had in it, or [`PATIENCE`] after its end:
//! what comes later counts in the interval that is told next, so that nothing is lost. The thread that watches says when; this
//! file knows no clock and no thread.

mod flows;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use wirebeat_engine::drive::SenderBooks;
use wirebeat_host::CpuTime;
use wirebeat_meter::interval::{Beat, FlowBooks, LISTED, MeterBooks};
use wirebeat_meter::series::{Books, Gauge, Series};
use wirebeat_report::assemble::{
    Attribution, Extremes, FlowIntervalCounts, IntervalCounts, interval,
};
use wirebeat_report::model::{FlowInterval, Interval, IntervalSent, Report};
use wirebeat_traffic::program::Program;
use wirebeat_units::Nanos;

use flows::{Basis, Flows, LossSum, TOGETHER, UNPROBED_NAME};

/// How long after its end an interval is told at the latest.
const PATIENCE: Nanos = Nanos::from_millis(500);
/// The same with a receiver on another host, which is asked over the network.
const PATIENCE_FAR: Nanos = Nanos::from_secs(2);
/// How often such a one is asked at most.
const ASKS_FAR: Nanos = Nanos::from_millis(50);
/// The most bytes that the intervals of a run take with those of receivers on other hosts, whose word is all that is known of
/// them.
pub(crate) const FAR_MAX: usize = 128 << 20;
/// A frame that was sent so long ago, and of which nothing came, is lost.
const OVERDUE: Nanos = Nanos::from_secs(1);
/// The end of sending belongs to an interval that ended less than one such part of its length before.
const NOTICED_WITHIN: u64 = 100;
/// A rest behind the last whole interval that is shorter than one such part of its length is none of its own, as of sessions.
const REST: u64 = 10;
/// The most entries of flows that the intervals of a report have together …
const ENTRIES: usize = 8192;
/// … and the least and the most intervals that it has room for.
const FEWEST: usize = 32;
const MOST: usize = 512;
/// The same of what is counted on a virtual clock, whose intervals are told at the end: what is asked of each of them is judged then.
const ENTRIES_IN_NO_TIME: usize = 1 << 16;
/// How many intervals a report has room for, of so many flows.
pub(crate) fn room(flows: usize) -> usize {
    (ENTRIES / flows.max(1)).clamp(FEWEST, MOST)
}

/// Puts the intervals of a run together.
#[derive(Debug)]
pub(crate) struct Timeline {
    beat: Beat,
    flows: Flows,
    patience: Nanos,
    room: usize,
    /// The most intervals that are not told yet, of those who count.
    untold: usize,
    /// Whether those that are told have the histograms of delays.
    histograms: bool,
    /// Delays are uncertain by so much, or not known, as long as there is no report.
    uncertainty: Option<u64>,
    /// What was counted and not told.
    open: Series<IntervalCounts>,
    /// Intervals below this were told.
    told: u64,
    /// When the last of them ended, from the start.
    told_to: Nanos,
    /// What was told.
    whole: Series<IntervalCounts>,
    losses: BTreeMap<u32, LossSum>,
    /// When the CPU time was read last, and what it was.
    cpu: Option<(Nanos, CpuTime)>,
    /// When sending ended, from the start, and receiving.
    end: Nanos,
    over: Nanos,
}

impl Timeline {
    /// Of a run that sends `program`; flows that are received are recognised as `attributions` say.
    pub(crate) fn of_run(
        beat: Beat,
        program: &Program,
        attributions: &BTreeMap<u16, Attribution>,
    ) -> Timeline {
        let room = room(program.flows.len());
        Timeline::new(beat, Flows::of_program(program, attributions), room)
    }

    /// Of a receiver by itself.
    pub(crate) fn of_receiver(beat: Beat) -> Timeline {
        Timeline::new(beat, Flows::as_they_come(), room(LISTED).max(128))
    }

    fn new(beat: Beat, flows: Flows, room: usize) -> Timeline {
        Timeline {
            beat,
            flows,
            patience: PATIENCE,
            room,
            untold: room,
            histograms: false,
            uncertainty: None,
            open: Series::new(MOST),
            told: 0,
            told_to: Nanos::ZERO,
            whole: Series::new(room),
            losses: BTreeMap::new(),
            cpu: None,
            end: Nanos::MAX,
            over: Nanos::MAX,
        }
    }

    /// Delays are uncertain by so many nanoseconds.
    pub(crate) fn certain_to(&mut self, uncertainty: Option<u64>) {
        self.uncertainty = uncertainty;
    }

    /// Those that are told have the histograms of delays, if somebody `wants` them.
    pub(crate) fn keep_histograms(&mut self, wants: bool) {
        self.histograms = wants;
    }

    /// A receiver on another host is asked, too.
    pub(crate) fn asks_far(&mut self) {
        self.patience = PATIENCE_FAR;
    }

    /// How often a receiver on another host is asked for its intervals.
    pub(crate) fn asks_every(&self) -> Nanos {
        Nanos::new(self.beat.length.get() / 4).max(ASKS_FAR)
    }

    /// How many intervals each of those who count may keep until they are told.
    pub(crate) fn room_of_each(&self) -> usize {
        self.untold
    }

    /// All of them are told at the end: those who count keep them apart until then, as far as there is room for so many `flows`.
    pub(crate) fn tells_at_the_end(&mut self, flows: usize) {
        self.untold = (ENTRIES_IN_NO_TIME / flows.max(1)).max(self.room);
        self.open = Series::new(self.untold);
    }

    /// How long to pause at `now`: `longest`, or until an interval ends.
    pub(crate) fn pause(&self, now: Nanos, longest: Duration) -> Duration {
        let left = self.beat.end(self.beat.at(now)).saturating_sub(now);
        left.to_duration().min(longest)
    }

    /// When intervals end.
    pub(crate) fn beat(&self) -> Beat {
        self.beat
    }

    /// A core sent this.
    pub(crate) fn sent(&mut self, series: Series<SenderBooks>) {
        for (range, books) in series {
            let mut counts = IntervalCounts::default();
            let sent = |books: wirebeat_engine::drive::SentBooks| FlowIntervalCounts {
                sent: Some(IntervalSent { frames: books.frames, frame_bytes: books.frame_bytes }),
                ..FlowIntervalCounts::default()
            };
            for (tag, books) in books.tags {
                let key = self.flows.of_tag.get(tag as usize).copied();
                let key = key.filter(|_| !self.flows.together);
                match key {
                    Some(key) => counts.flows.entry(key).or_default().join(sent(books)),
                    None => counts.others.join(sent(books)),
                }
            }
            counts.others.join(sent(books.others));
            counts.expired = Some(books.expired);
            self.add(range, counts);
        }
    }

    /// A receiver on another host counted this. Says `false`, and takes none of it, where all intervals would take more than
    /// [`FAR_MAX`] bytes then.
    pub(crate) fn received_far(&mut self, series: Series<MeterBooks>) -> bool {
        let more: usize = series.iter().map(|(_, books)| books.bytes()).sum();
        let fits = series.is_empty() || self.bytes().saturating_add(more) <= FAR_MAX;
        if fits {
            self.received(series);
        }
        fits
    }

    /// Bytes of memory that intervals take.
    fn bytes(&self) -> usize {
        let of = |flow: &FlowIntervalCounts| flow.received.as_ref().map_or(0, FlowBooks::bytes);
        let counts = self.open.iter().chain(self.whole.iter()).map(|(_, counts)| counts);
        counts.map(|one| one.flows.values().chain([&one.others]).map(of).sum::<usize>()).sum()
    }

    /// A receiver counted this.
    pub(crate) fn received(&mut self, series: Series<MeterBooks>) {
        for (range, books) in series {
            let mut counts = IntervalCounts::default();
            let received = |books| FlowIntervalCounts {
                received: Some(books),
                ..FlowIntervalCounts::default()
            };
            for (id, books) in books.flows {
                match self.flows.of_id(id) {
                    Some(_) if self.flows.together => counts.others.join(received(books)),
                    Some(key) => counts.flows.entry(key).or_default().join(received(books)),
                    // what is none of this run
                    None => {}
                }
            }
            counts.others.join(received(books.others));
            if let Some(key) = self.flows.unprobed.filter(|_| !books.unprobed.is_empty()) {
                if self.flows.as_they_come {
                    self.flows.names.entry(key).or_insert_with(|| UNPROBED_NAME.to_owned());
                    self.flows.bases.insert(key, Basis::None);
                }
                match self.flows.together {
                    true => counts.others.join(received(books.unprobed)),
                    false => counts.flows.entry(key).or_default().join(received(books.unprobed)),
                }
            }
            self.add(range, counts);
        }
    }

    /// What comes for an interval that was told counts in the next.
    fn add(&mut self, range: Range<u64>, counts: IntervalCounts) {
        let start = range.start.max(self.told);
        self.open.add_span(start..range.end.max(start.saturating_add(1)), counts);
    }

    /// Tells all intervals that have ended by `now` and that everybody, who has said all below number `complete`, is done
    /// with, or had time enough for.
    pub(crate) fn tell(&mut self, now: Nanos, complete: u64) -> Vec<Interval> {
        let overdue = self.beat.at(now.saturating_sub(self.patience));
        let ended = self.beat.at(now);
        let mark = complete.max(overdue).min(ended);
        if mark <= self.told {
            return Vec::new();
        }
        self.look_at_cpu(now, mark);
        self.tell_before(mark, None)
    }

    /// Notes how much of a CPU this process took since the last look, for the interval before number `mark`.
    fn look_at_cpu(&mut self, now: Nanos, mark: u64) {
        let looked = CpuTime::of_process().map(|cpu| (now, cpu));
        let before = std::mem::replace(&mut self.cpu, looked);
        let Some(((now, cpu), (then, before))) = looked.zip(before) else { return };
        let passed = now.saturating_sub(then).get().max(1);
        let spent = u128::from(cpu.since(&before).total_ns()) * 1000 / u128::from(passed);
        let cpu_permille = Gauge::of(u64::try_from(spent).unwrap_or(u64::MAX));
        let counts = IntervalCounts { cpu_permille, ..IntervalCounts::default() };
        self.add(mark - 1..mark, counts);
    }

    /// The CPU time counts from `now` on.
    pub(crate) fn begin_cpu(&mut self, now: Nanos) {
        self.cpu = CpuTime::of_process().map(|cpu| (now, cpu));
    }

    /// The receiver of a flow gave no result: what it told of intervals is no measurement.
    pub(crate) fn lose_receiver(&mut self, key: u32) {
        self.flows.bases.insert(key, Basis::None);
        for (_, counts) in self.open.iter_mut().chain(self.whole.iter_mut()) {
            if let Some(flow) = counts.flows.get_mut(&key) {
                (flow.received, flow.lost) = (None, None);
            }
        }
    }

    /// All has been counted, and says `report`: tells the intervals that are left, and puts all of them into the report.
    /// Sending ended at `end` from the start, and receiving at `over`.
    pub(crate) fn finish(
        &mut self,
        report: &mut Report,
        (end, over): (Option<Nanos>, Nanos),
    ) -> Vec<Interval> {
        self.uncertainty = report.delay_clock.as_ref().and_then(|clock| clock.uncertainty_ns);
        let ended = end.map_or(0, |end| self.beat_ended(end));
        let mark = self.open.span().end.max(ended);
        (self.end, self.over) = (end.unwrap_or(Nanos::MAX), over);
        let mark = self.join_rest(mark);
        let told = self.tell_before(mark, Some(report));
        self.correct(report);
        report.intervals = self.report();
        told
    }

    /// How many intervals have begun by the `end` of sending. A loop notices its end a moment late: what is left after the last
    /// whole interval then is none of its own, unless something was counted in it.
    fn beat_ended(&self, end: Nanos) -> u64 {
        let length = self.beat.length.get().max(1);
        let begun = end.get().saturating_sub(length / NOTICED_WITHIN).div_ceil(length);
        begun.max(u64::from(end > Nanos::ZERO))
    }

    /// Joins what was counted in the rest behind the last whole interval, where that is short, with the interval: it would have absurd
    /// rates and shares of its own. Says how many intervals there are then.
    fn join_rest(&mut self, mark: u64) -> u64 {
        let length = self.beat.length.get().max(1);
        let Some(last) = mark.checked_sub(1).filter(|last| *last > self.told) else { return mark };
        let rest = self.over.get().saturating_sub(length.saturating_mul(last));
        if rest >= length / REST || self.open.width() > 1 {
            return mark;
        }
        let mut open = self.open.take();
        while let Some((range, counts)) = open.take_first_before(mark) {
            let joined = if range.start == last { last - 1..last } else { range };
            self.open.add_span(joined, counts);
        }
        last
    }

    fn tell_before(&mut self, mark: u64, last: Option<&Report>) -> Vec<Interval> {
        let mut intervals = Vec::new();
        while self.told < mark {
            // a time in which nothing happened is told as one
            let next = self.open.span().start;
            let idle = if self.open.is_empty() { mark } else { next.min(mark) };
            if idle > self.told {
                let last = last.filter(|_| self.open.is_empty());
                intervals.push(self.close(self.told..idle, IntervalCounts::default(), last));
                continue;
            }
            // of several intervals that are not told apart the last may not have ended
            let Some((range, counts)) = self.open.take_first_before(mark) else { break };
            let last = last.filter(|_| self.open.is_empty());
            intervals.push(self.close(self.told..range.end, counts, last));
        }
        intervals
    }

    /// Tells an interval. The `last` one has all loss that is left of what the report says.
    fn close(
        &mut self,
        range: Range<u64>,
        mut counts: IntervalCounts,
        last: Option<&Report>,
    ) -> Interval {
        let is_idle = counts == IntervalCounts::default();
        counts.others.join(self.flows.nothing());
        counts.expired = counts.expired.or(self.flows.sends.then_some(0));
        self.find_lost(&mut counts, range.end - range.start, last);
        for (key, flow) in &mut counts.flows {
            if self.flows.sends {
                flow.sent.get_or_insert_default();
            }
            if self.flows.is_received(*key) {
                flow.received.get_or_insert_default();
            }
        }
        self.told = range.end;
        let (from, to) = self.span(&range);
        // one that was told before the end was known went on to its own end
        let from = from.max(self.told_to).min(to);
        self.told_to = to;
        let told = interval((from, to), &counts, &self.flows.names, self.uncertainty);
        self.note_extremes(&told, &mut counts);
        match is_idle {
            // a time in which nothing happened is no reason to merge those in which something did
            true => self.whole.add(range.end.saturating_sub(1), counts),
            false => self.whole.add_span(range, counts),
        }
        if self.histograms { told } else { told.without_histograms() }
    }

    /// Notes what stands out when this interval, of which this is told, is merged with others in the report. Flows to which nothing happened
    /// stand out by that.
    fn note_extremes(&self, told: &Interval, counts: &mut IntervalCounts) {
        let times = (told.from_ns, told.to_ns);
        if times.1.saturating_sub(times.0) < self.beat.length.get() / 10 {
            // too short beside the others for a rate
            return;
        }
        // both are in the order of keys
        for (flow, of) in counts.flows.values_mut().zip(&told.flows) {
            flow.extremes = Extremes::of(times, of);
        }
        for key in self.flows.names.keys().filter(|_| !self.flows.together) {
            counts.flows.entry(*key).or_insert_with(|| {
                let is_received = self.flows.is_received(*key);
                let nothing = FlowInterval {
                    sent: self.flows.sends.then(Default::default),
                    received: is_received.then(Default::default),
                    lost: is_received.then_some(0),
                    ..FlowInterval::default()
                };
                FlowIntervalCounts {
                    sent: nothing.sent,
                    received: is_received.then(Default::default),
                    lost: nothing.lost,
                    extremes: Extremes::of(times, &nothing),
                }
            });
        }
        counts.extremes = Extremes::of(times, &told.total);
    }

    /// From when to when an interval lasted. That in which sending ended ends with it, and the next begins there; the last one
    /// ends with the run.
    fn span(&self, range: &Range<u64>) -> (Nanos, Nanos) {
        let length = self.beat.length.get().max(1);
        let last_sent = self.end.get().div_ceil(length);
        let sending_ended = last_sent..last_sent.saturating_add(range.end - range.start);
        let at = |interval: u64| {
            let end = Some(self.end).filter(|_| sending_ended.contains(&interval));
            end.unwrap_or(Nanos::new(length.saturating_mul(interval)))
        };
        let (from, to) = (at(range.start), at(range.end));
        (from, to.min(self.over.max(from)))
    }

    /// Finds what was lost of each flow by the end of an interval.
    fn find_lost(&mut self, counts: &mut IntervalCounts, width: u64, last: Option<&Report>) {
        let length = self.beat.length.get().max(1);
        let overdue = usize::try_from(OVERDUE.get().div_ceil(length)).unwrap_or(usize::MAX);
        let overdue = (width == 1).then_some(overdue);
        let nothing = FlowIntervalCounts::default();
        for (key, basis) in self.flows.counted() {
            let sum = self.losses.entry(key).or_default();
            let here = if key == TOGETHER { Some(&counts.others) } else { counts.flows.get(&key) };
            let mut more = sum.tell(here.unwrap_or(&nothing), basis, overdue);
            if let Some(loss) = last.and_then(|report| self.flows.find(report, key)?.loss) {
                more = more.saturating_add(sum.known(signed(loss.frames)));
            }
            if key == TOGETHER {
                counts.others.lost = Some(more);
            } else if more != 0 || counts.flows.contains_key(&key) {
                counts.flows.entry(key).or_default().lost = Some(more);
            }
        }
    }

    /// Makes the intervals add up to what the report says where that is not what was counted first: a device refused frames
    /// that it had been handed, or arrivals beyond the window turned out to be duplicates.
    fn correct(&mut self, report: &Report) {
        let keys: Vec<u32> = match self.flows.together {
            true => vec![TOGETHER],
            false => self.flows.names.keys().copied().collect(),
        };
        for key in keys {
            let Some(flow) = self.flows.find(report, key) else { continue };
            if let Some(sent) = &flow.sent {
                let sent = sent.sent;
                self.correct_one(key, sent.frames, |counts| {
                    Some(&mut counts.sent.as_mut()?.frames)
                });
                self.correct_one(key, sent.frame_bytes, |counts| {
                    Some(&mut counts.sent.as_mut()?.frame_bytes)
                });
            }
            if let Some(received) = &flow.received {
                let [unique, duplicates, reordered] =
                    [received.unique, received.duplicates, received.reordered];
                self.correct_one(key, unique, |counts| Some(&mut counts.received.as_mut()?.unique));
                self.correct_one(key, duplicates, |counts| {
                    Some(&mut counts.received.as_mut()?.duplicates)
                });
                self.correct_one(key, reordered, |counts| {
                    Some(&mut counts.received.as_mut()?.reordered)
                });
            }
        }
    }

    /// Makes one counter of a flow add up to `total`: what is too much is taken off each interval by its share.
    fn correct_one(
        &mut self,
        key: u32,
        total: u64,
        counter: fn(&mut FlowIntervalCounts) -> Option<&mut u64>,
    ) {
        let of = |counts: &mut IntervalCounts| -> u64 {
            let flow =
                if key == TOGETHER { Some(&mut counts.others) } else { counts.flows.get_mut(&key) };
            flow.and_then(counter).map_or(0, |count| *count)
        };
        let all = self.whole.iter_mut().map(|(_, counts)| of(counts));
        let counted = all.fold(0, u64::saturating_add);
        if counted <= total {
            return;
        }
        let (mut before, mut given) = (0u64, 0u64);
        for (_, counts) in self.whole.iter_mut() {
            let flow =
                if key == TOGETHER { Some(&mut counts.others) } else { counts.flows.get_mut(&key) };
            let Some(count) = flow.and_then(counter) else { continue };
            before = before.saturating_add(*count);
            // the last one is given all of the rest
            let by_now = u128::from(total) * u128::from(before) / u128::from(counted.max(1));
            let by_now = u64::try_from(by_now).unwrap_or(total);
            *count = by_now - given;
            given = by_now;
        }
    }

    /// All of them, for the report. What has no entry is a time in which nothing happened.
    fn report(&self) -> Vec<Interval> {
        let span = self.whole.span();
        let mut entries = self.whole.iter().peekable();
        let mut intervals = Vec::new();
        let mut nothing = IntervalCounts::default();
        nothing.others.join(self.flows.nothing());
        let mut start = span.start;
        while start < span.end {
            let range = start..start.saturating_add(self.whole.width());
            let here = entries.next_if(|(found, _)| found.start == start);
            let counts = here.map_or(&nothing, |(_, counts)| counts);
            let mut whole =
                interval(self.span(&range), counts, &self.flows.names, self.uncertainty);
            whole.flows.retain(has_any);
            intervals.push(whole.without_histograms());
            start = range.end;
        }
        intervals
    }
}

/// Whether anything happened to a flow.
fn has_any(flow: &FlowInterval) -> bool {
    let received = flow.received.as_ref().is_some_and(|received| received.frames > 0);
    received
        || flow.sent.is_some_and(|sent| sent.frames > 0)
        || flow.lost.is_some_and(|lost| lost != 0)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_a_moment_late_has_no_interval_more() {
        let beat = Beat { start: Nanos::from_secs(7), length: Nanos::from_secs(1), last: None };
        let line = Timeline::of_receiver(beat);
        for (end, begun) in [
            (Nanos::ZERO, 0),
            (Nanos::from_micros(1), 1),
            (Nanos::from_secs(2), 2),
            (Nanos::from_micros(2_000_400), 2),
            (Nanos::from_millis(2500), 3),
        ] {
            assert_eq!(line.beat_ended(end), begun, "{end:?}");
        }
    }
}
