//! The departures of one flow on one core: bursts, shard, limits, and its streams one after the other.
//!
//! When bursts are due comes from `constant.rs` or a walker. This file only counts frames: which belong
//! to this core, which is the last of a stream, and which of the flow. It does not know the other flows.
//!
//! A change from outside cuts the present stream short. Its frames are counted on from the new stream's first,
//! over all cores, so each core has to know how many the others sent before: for a constant rate by division,
//! otherwise by a walk that begins at a [`Mark`] it made not long ago.

use wirebeat_units::Nanos;

use super::constant::Constant;
use super::walk::Walker;
use super::{Departure, Shard};
use crate::program::{Departures, NumberedStreams, Pace};

/// When the bursts of a stream are due that belong to this core.
#[derive(Clone, Debug)]
enum BurstSteps {
    /// At a constant rate; every core goes straight to its own.
    Constant(Constant),
    /// One after the other; every core walks over those of the others too.
    Walked(Walker),
    /// As fast as the engine can: all at the start, in turn with the other flows of this kind.
    Unlimited { start: u64, turn: u64 },
}

/// From how many bursts on, over all cores, a mark is made anew: so far a change has to walk at most.
const MARK_EVERY: u64 = 4096;

/// Frames that are walked over at once when they are passed over.
const PASSED_AT_ONCE: u64 = 256;

/// Where a walker stood at a burst of this core that has left.
#[derive(Clone, Debug)]
struct Mark {
    /// Its place among the streams.
    place: usize,
    walker: Walker,
    /// How many bursts of the stream, over all cores, came before.
    number: u64,
}

/// The departures of one flow on one core, in order. At a frame that is to be sent, unless it has ended.
#[derive(Clone, Debug)]
pub(super) struct FlowSchedule {
    flow: u32,
    stream: u32,
    /// The current frame.
    index: u64,
    /// The first frame of the current burst.
    burst_start: u64,
    /// The first index that is no longer part of the current burst, or of the flow.
    burst_end: u64,
    steps: BurstSteps,
    /// Frames of a burst, at least 1.
    burst: u64,
    cores: u64,
    core: u64,
    /// The first frame of the stream.
    first: u64,
    /// How many bursts of the stream, over all cores, came before the current one.
    number: u64,
    stop: u64,
    count: u64,
    /// All its streams, by their numbers in the program.
    streams: Vec<(u32, Departures)>,
    /// Number of the first frame, over all cores, of those that were reached.
    firsts: Vec<u64>,
    /// Bursts of this core that are passed over.
    skipped: u64,
    /// With several cores.
    mark: Option<Box<Mark>>,
    /// Whether this core has nothing left to send.
    ended: bool,
}

impl FlowSchedule {
    /// The departures of this core from its first burst on; `None` when it has none.
    pub(super) fn new(flow: u32, streams: NumberedStreams<'_>, shard: Shard) -> Option<Self> {
        let schedule = Self::from_burst(flow, streams, shard, 0);
        Some(schedule).filter(|schedule| !schedule.ended)
    }

    /// The departures of this core without its first `skipped` bursts, which are at a constant rate or without
    /// one.
    pub(super) fn from_burst(
        flow: u32,
        NumberedStreams { first: first_stream, streams }: NumberedStreams<'_>,
        shard: Shard,
        skipped: u64,
    ) -> Self {
        let departures = streams.iter().map(|stream| stream.departures.clone());
        let mut schedule = FlowSchedule {
            flow,
            stream: first_stream,
            index: 0,
            burst_start: 0,
            burst_end: 0,
            steps: BurstSteps::Unlimited { start: 0, turn: 0 },
            burst: 1,
            cores: u64::from(shard.cores.max(1)),
            core: u64::from(shard.core),
            first: 0,
            number: 0,
            stop: 0,
            count: 0,
            streams: (first_stream..).zip(departures).collect(),
            firsts: Vec::with_capacity(streams.len()),
            skipped,
            mark: None,
            ended: true,
        };
        schedule.next_stream(0);
        schedule
    }

    /// The flow.
    pub(super) fn flow(&self) -> u32 {
        self.flow
    }

    /// Whether this core has nothing left to send. Then it has no departure.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// On to the first burst of the next stream that has one for this core. `first` is the number of its
    /// first frame.
    fn next_stream(&mut self, mut first: u64) -> bool {
        while let Some((stream, departures)) = self.streams.get(self.firsts.len()).cloned() {
            self.firsts.push(first);
            self.stream = stream;
            self.first = first;
            self.burst = u64::from(departures.burst.max(1));
            self.stop = departures.stop.get();
            self.count = departures.count;
            match self.enter(&departures) {
                Some(()) if self.is_due() => {
                    self.ended = false;
                    return true;
                }
                Some(()) => first = self.end(),
                None => {}
            }
        }
        self.ended = true;
        false
    }

    /// The place of the current stream.
    fn place(&self) -> usize {
        self.firsts.len().saturating_sub(1)
    }

    /// To the first burst of this core; `None` when there is none.
    fn enter(&mut self, departures: &Departures) -> Option<()> {
        let skipped = std::mem::take(&mut self.skipped);
        self.number = skipped.checked_mul(self.cores)?.checked_add(self.core)?;
        let frames = self.number.checked_mul(self.burst)?;
        self.go_to(self.first.checked_add(frames)?);
        let start = departures.start;
        self.steps = match &departures.pace {
            Pace::Silent | Pace::Recorded { .. } => return None,
            Pace::Unlimited => {
                let start = start.get();
                BurstSteps::Unlimited { start, turn: start.saturating_add(self.number) }
            }
            Pace::Constant(rate) => {
                let stride = self.burst.saturating_mul(self.cores);
                BurstSteps::Constant(Constant::new(*rate, start, frames, stride))
            }
            pace => {
                let mut walker = Walker::new(pace, start, self.burst)?;
                self.number = walker.walk(self.number, self.stop);
                BurstSteps::Walked(walker)
            }
        };
        Some(())
    }

    fn go_to(&mut self, index: u64) {
        self.index = index;
        self.burst_start = index;
        self.burst_end = index.saturating_add(self.burst).min(self.count);
    }

    /// Bursts of the stream over all cores, once this core has none left: how many came before the stop.
    fn bursts(&self) -> u64 {
        match &self.steps {
            BurstSteps::Constant(constant) => constant.bursts_before(self.stop, self.burst),
            // A walker stops at the first burst that is not due.
            BurstSteps::Walked(_) => self.number,
            // Without a rate there is but one stream.
            BurstSteps::Unlimited { .. } => 0,
        }
    }

    /// The current departure.
    pub(super) fn departure(&self) -> Departure {
        Departure {
            at: Nanos::new(self.at()),
            flow: self.flow,
            stream: self.stream,
            index: self.index,
            tag: self.flow,
            part: 0,
        }
    }

    #[inline]
    fn at(&self) -> u64 {
        match &self.steps {
            BurstSteps::Constant(constant) => constant.at(),
            BurstSteps::Walked(walker) => walker.at(),
            BurstSteps::Unlimited { start, .. } => *start,
        }
    }

    /// By what flows are merged: the deadline, and for flows that are as fast as possible the number
    /// of turns they had.
    #[inline]
    pub(super) fn order(&self) -> u64 {
        match &self.steps {
            BurstSteps::Unlimited { turn, .. } => *turn,
            _ => self.at(),
        }
    }

    /// On to the next departure; false when there is none (then the schedule must not be used again).
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        self.index += 1;
        self.index < self.burst_end || self.next_burst()
    }

    /// Passes over frames that are due before `until`, beginning with the current one, which is; false when there is
    /// no departure behind them (then the schedule must not be used again). `each` is given the first of some frames,
    /// and how many they are.
    ///
    /// If `alike` says that they need not be looked at one by one, at a constant rate they are all passed at once, by
    /// division, otherwise some hundreds; if not, it is one frame.
    pub(super) fn skip_before(
        &mut self,
        until: u64,
        alike: bool,
        each: &mut impl FnMut(Departure, u64),
    ) -> bool {
        let first = self.departure();
        let passed = match &self.steps {
            _ if !alike => None,
            BurstSteps::Constant(_) => Some(self.jump(until)),
            BurstSteps::Walked(_) => Some(self.walk_before(until)),
            BurstSteps::Unlimited { .. } => None,
        };
        let Some((frames, next)) = passed else {
            let more = self.advance();
            each(first, 1);
            return more;
        };
        each(first, frames);
        if let Some(index) = next {
            self.go_to(index);
            if self.is_due() {
                return true;
            }
        }
        self.next_stream(self.end())
    }

    /// At a constant rate, past the frames of this core that are due before `until`: how many they are, from the
    /// current one on, and the first frame of its next burst, if that has a number.
    fn jump(&mut self, until: u64) -> (u64, Option<u64>) {
        let before = self.burst_start;
        let left = self.bursts_left();
        let BurstSteps::Constant(constant) = &mut self.steps else { return (0, None) };
        let number = (before - self.first) / self.burst;
        let due = constant.bursts_before(until.min(self.stop), self.burst).saturating_sub(number);
        let bursts = due.min(left).div_ceil(self.cores).max(1);
        let passed = self.frames_of(bursts);
        if let (BurstSteps::Constant(constant), (_, Some(index))) = (&mut self.steps, passed) {
            constant.seek(index - self.first);
        }
        passed
    }

    /// The same for what is walked over, as far as some hundreds of bursts.
    fn walk_before(&mut self, until: u64) -> (u64, Option<u64>) {
        let most = self.bursts_left().div_ceil(self.cores).min(PASSED_AT_ONCE);
        let place = self.place();
        let BurstSteps::Walked(walker) = &mut self.steps else { return (0, None) };
        if self.cores > 1 {
            mark(&mut self.mark, place, walker, self.number);
        }
        let due = walker.walk(most * self.cores, until.min(self.stop));
        let bursts = due.div_ceil(self.cores).max(1);
        // those of the other cores behind the last of them
        let others = walker.walk(bursts * self.cores - due, self.stop);
        self.number = self.number.saturating_add(due + others);
        self.frames_of(bursts)
    }

    /// How many bursts the count leaves, over all cores, from the current one on.
    fn bursts_left(&self) -> u64 {
        self.count.saturating_sub(self.burst_start).div_ceil(self.burst)
    }

    /// How many frames are left of the next `bursts` bursts of this core, of which the current one is the first, and
    /// the first frame of the burst behind them, if that has a number.
    fn frames_of(&self, bursts: u64) -> (u64, Option<u64>) {
        // the last of them may be cut short by the count
        let last = self.burst_start + (bursts - 1) * self.cores * self.burst;
        let last_frames = self.count.saturating_sub(last).min(self.burst);
        let frames = (bursts - 1) * self.burst + last_frames - (self.index - self.burst_start);
        (frames, last.checked_add(self.cores.saturating_mul(self.burst)))
    }

    fn next_burst(&mut self) -> bool {
        let stride = self.burst.saturating_mul(self.cores);
        let next = self.burst_start.checked_add(stride);
        match &mut self.steps {
            BurstSteps::Constant(constant) => constant.advance(),
            BurstSteps::Walked(walker) => {
                if self.cores > 1 {
                    mark(&mut self.mark, self.firsts.len().saturating_sub(1), walker, self.number);
                }
                // The burst itself, and those of the other cores.
                walker.advance();
                let others = walker.walk(self.cores - 1, self.stop);
                self.number = self.number.saturating_add(1 + others);
            }
            BurstSteps::Unlimited { turn, .. } => *turn = turn.saturating_add(self.cores),
        }
        if let Some(next) = next {
            self.go_to(next);
            if self.is_due() {
                return true;
            }
        }
        self.next_stream(self.end())
    }

    /// From `at` on the flow sends `next`, or nothing; what was to come is dropped. No frame that is due at `at`
    /// or later may have been taken. Returns whether this core has a departure then.
    ///
    /// A flow without a rate, whose frames have no deadlines to tell before from after, ends at once.
    pub(super) fn change(&mut self, at: u64, next: Option<(u32, Departures)>) -> bool {
        if matches!(self.steps, BurstSteps::Unlimited { .. }) && !self.ended {
            self.streams.truncate(self.firsts.len());
            self.ended = true;
            return false;
        }
        let kept = self.streams.partition_point(|(_, departures)| departures.start.get() < at);
        self.streams.truncate(kept);
        if let Some((_, departures)) = self.streams.last_mut() {
            departures.stop = departures.stop.min(Nanos::new(at));
        }
        let goes_on = !self.ended && self.at() < at;
        let first = if goes_on { 0 } else { self.frames_before(kept) };
        self.streams.extend(next);
        if goes_on {
            self.stop = self.stop.min(at);
            return true;
        }
        self.firsts.truncate(kept);
        // Without a next stream this is still the last one.
        let before = first.saturating_sub(self.firsts.last().copied().unwrap_or(0));
        let burst = self.streams.get(self.place()).map_or(1, |(_, last)| last.burst.max(1));
        self.number = before / u64::from(burst);
        self.next_stream(first)
    }

    /// How many frames of the first `kept` streams are due, over all cores, once this core has none left in them.
    fn frames_before(&self, kept: usize) -> u64 {
        let Some(place) = kept.checked_sub(1) else { return 0 };
        let Some(&first) = self.firsts.get(place) else { return 0 };
        let Some((_, departures)) = self.streams.get(place) else { return first };
        let burst = u64::from(departures.burst.max(1));
        let stop = departures.stop.get();
        // Behind the last burst that the count allows nothing is looked for: a walk to the stop might take for ever.
        let left = departures.count.saturating_sub(first).div_ceil(burst);
        let bursts = match &departures.pace {
            Pace::Silent | Pace::Unlimited | Pace::Recorded { .. } => 0,
            Pace::Constant(rate) => {
                Constant::new(*rate, departures.start, 0, burst).bursts_before(stop, burst)
            }
            // All its bursts were this core's, and have left.
            _ if self.cores == 1 && place == self.place() => self.number,
            _ if self.cores == 1 => {
                let next = self.firsts.get(kept).copied().unwrap_or(first);
                next.saturating_sub(first) / burst
            }
            pace => {
                let marked = self.mark.as_ref().filter(|mark| mark.place == place);
                let (walker, number) = match marked {
                    Some(mark) => (Some(mark.walker.clone()), mark.number),
                    // No burst of it was this core's, so there are few.
                    None => (Walker::new(pace, departures.start, burst), 0),
                };
                let more = left.saturating_sub(number);
                walker.map_or(0, |mut walker| number + walker.walk(more, stop))
            }
        };
        first.saturating_add(bursts.min(left).saturating_mul(burst))
    }

    /// Until when the flow pauses after its last frame; `None` where it ends otherwise.
    pub(super) fn pauses_until(&self) -> Option<Nanos> {
        let (_, last) = self.streams.last()?;
        let paused = last.pace == Pace::Silent && self.first < last.count;
        paused.then_some(last.stop)
    }

    /// The number of the first frame after this stream, over all cores, once this core has none left in it.
    fn end(&self) -> u64 {
        self.first.saturating_add(self.bursts().saturating_mul(self.burst))
    }

    fn is_due(&self) -> bool {
        self.index < self.count && self.at() < self.stop
    }
}

/// Notes where a walker stands, if that is not known well enough.
fn mark(mark: &mut Option<Box<Mark>>, place: usize, walker: &Walker, number: u64) {
    let recent = |mark: &Mark| mark.place == place && number - mark.number < MARK_EVERY;
    if !mark.as_deref().is_some_and(recent) {
        *mark = Some(Box::new(Mark { place, walker: walker.clone(), number }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_units::FrameRate;

    use super::*;
    use crate::schedule::tests::{config, departures, stream};

    fn schedule(departures: &Departures, shard: Shard, skipped: u64) -> Option<FlowSchedule> {
        let streams = [stream(departures.clone())];
        let schedule = FlowSchedule::from_burst(
            0,
            NumberedStreams { first: 0, streams: &streams },
            shard,
            skipped,
        );
        Some(schedule).filter(|schedule| !schedule.has_ended())
    }

    fn collect(departures: &Departures, shard: Shard, most: usize) -> Vec<Departure> {
        let mut out = Vec::new();
        let Some(mut schedule) = schedule(departures, shard, 0) else { return out };
        while out.len() < most {
            out.push(schedule.departure());
            if !schedule.advance() {
                break;
            }
        }
        out
    }

    fn kpps(rate: u64) -> Departures {
        Departures {
            pace: Pace::Constant(FrameRate { frames: rate * 1000, per: Nanos::from_secs(1) }),
            burst: 1,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            count: u64::MAX,
        }
    }

    #[test]
    fn a_burst_leaves_back_to_back_and_the_pause_keeps_the_mean() {
        let flow = Departures { burst: 3, start: Nanos::new(50), count: 8, ..kpps(100) };
        let at: Vec<u64> = collect(&flow, Shard::WHOLE, 100).iter().map(|d| d.at.get()).collect();
        assert_eq!(at, [50, 50, 50, 30_050, 30_050, 30_050, 60_050, 60_050]);
    }

    #[test]
    fn a_core_takes_every_nth_burst() {
        let flow = Departures { burst: 2, ..kpps(1000) };
        let second = collect(&flow, Shard { core: 1, cores: 3 }, 4);
        let seen: Vec<_> = second.iter().map(|d| (d.index, d.at.get())).collect();
        assert_eq!(seen, [(2, 2000), (3, 2000), (8, 8000), (9, 8000)]);
    }

    #[test]
    fn nothing_is_due_at_the_stop() {
        let flow = Departures { stop: Nanos::new(3000), ..kpps(1000) };
        assert_eq!(collect(&flow, Shard::WHOLE, 100).len(), 3);
        let flow = Departures { start: Nanos::new(3000), ..flow };
        assert_eq!(collect(&flow, Shard::WHOLE, 100).len(), 0);
    }

    #[test]
    fn a_count_smaller_than_the_cores_leaves_some_without_work() {
        let flow = Departures { count: 1, ..kpps(1) };
        assert_eq!(collect(&flow, Shard { core: 0, cores: 2 }, 9).len(), 1);
        assert_eq!(collect(&flow, Shard { core: 1, cores: 2 }, 9).len(), 0);
    }

    #[test]
    fn a_flow_without_a_rate_is_all_due_at_its_start() {
        let flow = Departures { pace: Pace::Unlimited, start: Nanos::new(7), count: 4, ..kpps(1) };
        let seen = collect(&flow, Shard::WHOLE, 100);
        assert_eq!(seen.iter().map(|d| d.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(seen.iter().all(|d| d.at == Nanos::new(7)));
    }

    #[test]
    fn the_last_index_ends_the_flow_without_overflow() {
        let flow = Departures { pace: Pace::Unlimited, burst: u32::MAX, ..kpps(1) };
        let shard = Shard { core: u32::MAX - 1, cores: u32::MAX };
        let mut schedule = self::schedule(&flow, shard, 0).unwrap();
        schedule.index = schedule.burst_end - 1;
        assert!(!schedule.advance(), "the next burst of this core begins beyond 2^64");
        assert!(self::schedule(&flow, shard, u64::MAX).is_none());
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn every_frame_is_due_where_the_rate_says(flow in departures()) {
            let Some(rate) = flow.pace.constant() else { return Ok(()) };
            for departure in collect(&flow, Shard::WHOLE, 300) {
                let first = departure.index / u64::from(flow.burst) * u64::from(flow.burst);
                prop_assert_eq!(departure.at, flow.start.saturating_add(rate.deadline(first)));
                prop_assert!(departure.at < flow.stop && departure.index < flow.count);
            }
        }

        #[test]
        fn passing_over_frames_is_the_same_as_taking_them(
            flow in departures(),
            (core, cores) in (0..3u32).prop_flat_map(|core| (Just(core), core + 1..4)),
            steps in proptest::collection::vec((0..40_usize, any::<bool>()), 1..10),
        ) {
            let shard = Shard { core, cores };
            let (mut taken, mut passing) = (schedule(&flow, shard, 0), schedule(&flow, shard, 0));
            for (ahead, alike) in steps {
                let Some(one) = &mut taken else { break };
                let mut behind = one.clone();
                let until = (0..ahead).find_map(|_| (!behind.advance()).then_some(u64::MAX));
                let until = until.unwrap_or_else(|| behind.at());
                let mut expected = 0;
                let mut left = true;
                while left && one.at() < until && expected < 5000 {
                    expected += 1;
                    left = one.advance();
                }
                let Some(other) = &mut passing else { unreachable!() };
                let (mut frames, mut more) = (0, true);
                if expected == 5000 {
                    break;
                }
                while more && other.at() < until {
                    more = other.skip_before(until, alike, &mut |_, many| frames += many);
                }
                prop_assert_eq!((frames, more), (expected, left));
                if !left {
                    break;
                }
                prop_assert_eq!(one.departure(), other.departure());
            }
        }

        #[test]
        fn skipping_bursts_is_the_same_as_sending_them(flow in departures(), skip in 0..50u64) {
            let shard = Shard { core: 1, cores: 2 };
            let all = collect(&flow, shard, 2000);
            let from = all.iter().position(|d| d.index >= (1 + 2 * skip) * u64::from(flow.burst));
            let later = schedule(&flow, shard, skip).map(|s| s.departure());
            if all.len() < 2000 || from.is_some() {
                prop_assert_eq!(later, from.map(|from| all[from]));
            }
        }
    }
}
