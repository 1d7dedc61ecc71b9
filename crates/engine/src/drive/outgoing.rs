//! All that a core sends: the departures of its schedule and what was recorded, in the order of time, and the frame
//! of each. The ways through the loop take from here what is due, and do not know which of both it was.
//!
//! Packets that are longer than the link carries come out as fragments, one departure each. Changes from outside are
//! taken in here (`changes.rs`).

use std::sync::Arc;

use wirebeat_traffic::program::{Built, Counted, Cutter, Image, Pace, Recorded, Stream};
use wirebeat_traffic::schedule::{Departure, Schedule};
use wirebeat_units::{LINE_OVERHEAD, Nanos};

use super::changes::{Changes, Listener, Update};
use super::limit::Bucket;
use super::playback::{Found, Playback};
use super::{Job, SendPolicy};
use crate::port::{ExternalPayload, Place, TxCaps, View};

/// The number of late departures that are looked at one by one until the clock is read again.
const DROPPED_AT_ONCE: usize = 256;

/// All that a core sends: when, and the frames of each stream by its number.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    job: &'a Job<'a>,
    view: View,
    /// From how many bytes on what was recorded stays apart, if the port takes it from there.
    external: Option<usize>,
    pub(super) schedule: Schedule,
    images: Vec<Image>,
    handing: Vec<SendPolicy>,
    /// Whether some frames are dropped when they are late.
    drops: bool,
    /// Those that the program did not have.
    added: Vec<Stream>,
    version: u64,
    applied: usize,
    /// When the next change is due that waits, because it is about a flow without deadlines.
    held: Option<Nanos>,
    /// Where some packets leave as fragments.
    cut: Option<Box<Cutting>>,
    /// What was recorded.
    playbacks: Vec<Playback>,
    /// By stream: which of the playbacks it is of.
    playback_of: Vec<Option<usize>>,
    /// The time since the start by the last look at the clock.
    elapsed: Nanos,
    /// What bounds all that it sends, if something does.
    bucket: Option<Bucket>,
}

/// The packet whose fragments are being taken.
#[derive(Debug, Default)]
struct Cutting {
    cutter: Cutter,
    /// The next of them, and how many there are.
    next: Option<(Departure, u16)>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(job: &'a Job<'a>, caps: &TxCaps) -> Outgoing<'a> {
        let playbacks = job.playbacks.take();
        let of = |stream: &Stream| playbacks.iter().position(|one| one.flow() == stream.flow);
        Outgoing {
            playback_of: job.program.streams.iter().map(of).collect(),
            playbacks,
            elapsed: Nanos::ZERO,
            bucket: job.limit.map(Bucket::new),
            job,
            view: caps.view,
            external: caps.external,
            schedule: job.schedule(),
            images: job.images(caps),
            handing: job.handing(),
            drops: job.drops(),
            added: Vec::new(),
            version: 0,
            applied: 0,
            held: None,
            cut: job.program.is_cut().then(Box::default),
        }
    }

    /// What is due next.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Departure> {
        match self.cut.as_ref().and_then(|cut| cut.next) {
            Some((departure, _)) => Some(departure),
            None if self.bucket.is_some() => self.peek_limited(),
            None if self.playbacks.is_empty() => self.schedule.peek(),
            None => self.peek_all().map(|(departure, _)| departure),
        }
    }

    /// What is due next of the schedule and of what was recorded, and of which playback it is.
    fn peek_all(&mut self) -> Option<(Departure, Option<usize>)> {
        let mut first = self.schedule.peek().map(|departure| (departure, None));
        for (number, playback) in self.playbacks.iter_mut().enumerate() {
            let Some(departure) = playback.peek(self.elapsed) else {
                if playback.holds_up() {
                    return None;
                }
                continue;
            };
            if first.is_none_or(|(first, _)| departure.at < first.at) {
                first = Some((departure, Some(number)));
            }
        }
        first
    }

    /// What is due next, not before the bucket has room for it.
    #[cold]
    fn peek_limited(&mut self) -> Option<Departure> {
        let (departure, _) = self.peek_all()?;
        let soonest = self.bucket.as_ref()?.soonest(self.line_bytes(&departure));
        Some(Departure { at: departure.at.max(soonest), ..departure })
    }

    /// Bytes on the line of all frames of a packet.
    fn line_bytes(&self, departure: &Departure) -> u64 {
        let Some(stream) = self.stream(departure) else { return 0 };
        let counted = match self.recorded(departure) {
            Some(recorded) => stream.frames.counted_recorded(recorded.data, 0),
            None => stream.frames.counted(departure.index),
        };
        let frames = u64::from(counted.packets) + u64::from(counted.fragments);
        u64::from(counted.bytes) + frames * u64::from(LINE_OVERHEAD)
    }

    /// Whether the bucket has room for a packet, which leaves now or when it is due; takes it.
    #[inline]
    fn has_room(&mut self, departure: &Departure) -> bool {
        if self.bucket.is_none() {
            return true;
        }
        let (bytes, at) = (self.line_bytes(departure), departure.at.max(self.elapsed));
        self.bucket.as_mut().is_none_or(|bucket| bucket.take(at, bytes))
    }

    /// Appends up to `most` packets that are due by `until`.
    #[inline]
    fn next_packets(&mut self, until: Nanos, into: &mut Vec<Departure>, most: usize) {
        if self.playbacks.is_empty() && self.bucket.is_none() {
            self.schedule.next_due(until, into, most);
            return;
        }
        for _ in 0..most {
            let Some((departure, of)) = self.peek_all() else { return };
            if departure.at > until || !self.has_room(&departure) {
                return;
            }
            match of.and_then(|number| self.playbacks.get_mut(number)) {
                Some(playback) => {
                    playback.take();
                    into.push(departure);
                }
                None => {
                    self.schedule.next_due(until, into, 1);
                }
            }
        }
    }

    /// Takes what is due next as long as it is too late by a time, and nothing of it is begun: frames that are dropped
    /// are not built, and those of a constant rate and of one length are not even looked at one by one. An overloaded
    /// sender would spend on them what it needs for those that it sends. `by` says for a drift what time that is, from
    /// the start of the run; `each` is given tag and size, and how many there are.
    #[inline]
    pub(super) fn drop_late(
        &mut self,
        by: impl Fn(Nanos) -> Nanos,
        each: &mut impl FnMut(u32, Counted, u64),
    ) {
        if self.drops {
            self.drop_all_late(by, each);
        }
    }

    fn drop_all_late(
        &mut self,
        by: impl Fn(Nanos) -> Nanos,
        each: &mut impl FnMut(u32, Counted, u64),
    ) {
        for _ in 0..DROPPED_AT_ONCE {
            if self.cut.as_ref().is_some_and(|cut| cut.next.is_some()) {
                return;
            }
            let Some((departure, of)) = self.peek_all() else { return };
            let Some(hand) = self.hand(departure.stream).filter(|hand| hand.limited) else {
                return;
            };
            let until = by(hand.drift).saturating_sub(hand.drift);
            if departure.at >= until {
                return;
            }
            let Some(stream) = self.stream(&departure) else { return };
            let frames = &stream.frames;
            if let Some(number) = of {
                if let Some(recorded) = self.recorded(&departure) {
                    each(departure.tag, frames.counted_recorded(recorded.data, 0), 1);
                }
                if let Some(playback) = self.playbacks.get_mut(number) {
                    playback.take();
                }
                continue;
            }
            let (frames, alike) = (Arc::clone(frames), frames.are_alike());
            self.schedule.skip_before(until, alike, &mut |departure, many| {
                each(departure.tag, frames.counted(departure.index), many);
            });
        }
    }

    /// The stream of a departure.
    fn stream(&self, departure: &Departure) -> Option<&Stream> {
        let number = departure.stream as usize;
        let streams = &self.job.program.streams;
        streams.get(number).or_else(|| self.added.get(number - streams.len()))
    }

    /// What is to be sent as this departure, if it was recorded.
    #[inline]
    fn recorded(&self, departure: &Departure) -> Option<Recorded<'_>> {
        let number = (*self.playback_of.get(departure.stream as usize)?)?;
        self.playbacks.get(number)?.recorded(departure).map(|found| found.recorded)
    }

    /// All frames that were taken are handed over but for these, so many in all: what was recorded of them may go, as
    /// soon as the port has no more use for it.
    #[inline]
    pub(super) fn settle(&mut self, pending: &[Departure], handed: u64) {
        // the packet whose fragments are being taken is one more
        let cutting = self.cut.as_ref().and_then(|cut| cut.next.as_ref());
        let pending = pending.iter().chain(cutting.map(|(departure, _)| departure));
        self.playbacks.iter_mut().for_each(|playback| playback.settle(pending.clone(), handed));
    }

    /// The port has no more use for the first so many frames.
    #[inline]
    pub(super) fn done(&mut self, frames: u64) {
        self.playbacks.iter_mut().for_each(|playback| playback.done(frames));
    }

    /// Whether what was recorded is to come and is not here yet.
    pub(super) fn is_starving(&self) -> bool {
        self.playbacks.iter().any(Playback::is_waiting)
    }

    /// Appends up to `most` frames that are due by `until`: a packet that leaves as fragments is so many.
    #[inline]
    pub(super) fn next_due(&mut self, until: Nanos, into: &mut Vec<Departure>, most: usize) {
        match &self.cut {
            None => self.next_packets(until, into, most),
            Some(_) => self.next_cut(until, into, most),
        }
    }

    fn next_cut(&mut self, until: Nanos, into: &mut Vec<Departure>, most: usize) {
        let end = into.len() + most;
        while into.len() < end {
            let Some(cut) = &mut self.cut else { return };
            if let Some((departure, parts)) = cut.next {
                into.push(departure);
                let part = departure.part + 1;
                cut.next = (part <= parts).then_some((Departure { part, ..departure }, parts));
                continue;
            }
            let before = into.len();
            self.next_packets(until, into, 1);
            let Some(departure) = into.get(before).copied() else { return };
            let parts = self.parts(&departure);
            if parts > 1 {
                into.pop();
                let next = Some((Departure { part: 1, ..departure }, parts));
                if let Some(cut) = &mut self.cut {
                    cut.next = next;
                }
            }
        }
    }

    /// How many frames a packet is.
    fn parts(&self, departure: &Departure) -> u16 {
        let Some(image) = self.images.get(departure.stream as usize) else { return 1 };
        match self.recorded(departure) {
            Some(recorded) => image.recorded_parts(recorded.data.len()),
            None => image.parts(departure.index),
        }
    }

    /// Makes the frame of a departure in `slot`, but for what the port takes from the memory that it shares.
    #[inline]
    pub(super) fn build(
        &mut self,
        departure: &Departure,
        slot: &mut [u8],
    ) -> (Built, ExternalPayload) {
        let whole = |built: Built| (built, ExternalPayload::default());
        let Some(image) = self.images.get(departure.stream as usize) else {
            return whole(Built::default());
        };
        let playback = self.playback_of.get(departure.stream as usize).copied().flatten();
        if let Some(playback) = playback.and_then(|number| self.playbacks.get(number)) {
            let Some(Found { recorded, shared_at, sequence }) = playback.recorded(departure) else {
                return whole(Built::default());
            };
            let numbered = |built: Built| Built { number: sequence, ..built };
            let len = recorded.data.len();
            if self.external.is_some_and(|least| len >= least)
                && departure.part == 0
                && let Some(from) = shared_at
                && let Some((built, at)) = image.build_around(&recorded, slot)
            {
                return (numbered(built), ExternalPayload { from, len: len as u16, at });
            }
            return whole(numbered(match &mut self.cut {
                Some(cut) if departure.part > 0 => {
                    let packet = (departure.stream, &recorded);
                    cut.cutter.build_recorded(image, packet, departure.part, slot)
                }
                _ => image.build_recorded(&recorded, slot),
            }));
        }
        whole(match &mut self.cut {
            Some(cut) if departure.part > 0 => {
                let packet = (departure.stream, departure.index);
                cut.cutter.build(image, packet, departure.part, slot)
            }
            _ => image.build(departure.index, slot),
        })
    }

    /// Where a frame stands among those of its packet.
    #[inline]
    pub(super) fn place(&self, departure: &Departure) -> Place {
        match departure.part {
            0 => Place::Whole,
            1 => Place::First(self.parts(departure) - 1),
            _ => Place::Following,
        }
    }

    /// How a stream is handed over.
    #[inline]
    pub(super) fn hand(&self, stream: u32) -> Option<SendPolicy> {
        self.handing.get(stream as usize).copied()
    }

    /// Takes in what changed. `now` is the time by which frames are taken.
    #[inline]
    pub(super) fn listen(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.job.times.start);
        self.elapsed = elapsed;
        let Some(Listener { changes, .. }) = self.job.changes else { return };
        if changes.version() != self.version || self.held.is_some_and(|at| elapsed >= at) {
            self.take_in(changes, elapsed);
        }
    }

    #[cold]
    fn take_in(&mut self, changes: &Changes, elapsed: Nanos) {
        let (news, version) = changes.after(self.applied);
        self.version = version;
        self.held = None;
        for Update { flow, at, stream } in news {
            if !self.job.flows.contains(&flow) {
                self.applied += 1;
                continue;
            }
            // What has no deadlines ends when its time has come. Beside it this core has none that has some.
            if at > elapsed && self.job.program.is_unlimited(flow) {
                self.held = Some(at);
                break;
            }
            if let Some(playback) = self.playbacks.iter_mut().find(|one| one.flow() == flow) {
                match stream.as_ref().map(|stream| &stream.departures.pace) {
                    Some(Pace::Recorded { sub_flows, .. }) => playback.change(at, *sub_flows),
                    _ => playback.end_at(at),
                }
                self.applied += 1;
                continue;
            }
            let number = self.images.len() as u32;
            let next = stream.as_ref().map(|stream| (number, stream.departures.clone()));
            if let Some(stream) = stream {
                self.images.push(self.view.image(&stream));
                self.playback_of.push(None);
                self.handing.push(self.job.hand(&stream));
                self.added.push(stream);
            }
            self.schedule.change(flow, at, next);
            self.applied += 1;
        }
    }

    /// Whether nothing is left to send, now that the schedule is at its end: a flow that pauses may be resumed, and
    /// what another core still sends may be changed.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        if self.is_starving() {
            return false;
        }
        let Some(listener) = self.job.changes else { return true };
        let elapsed = now.saturating_sub(self.job.times.start);
        let pauses = self.schedule.pauses_until().is_some_and(|until| elapsed < until);
        !pauses && listener.changes.idle(listener.core, self.version)
    }

    /// What a departure that was taken is counted as; `None` where it has no deadline.
    fn counted(&self, departure: &Departure) -> Option<Counted> {
        let stream = self.stream(departure)?;
        let limited = stream.departures.pace.is_limited();
        limited.then(|| match self.recorded(departure) {
            Some(recorded) => stream.frames.counted_recorded(recorded.data, departure.part),
            None => stream.frames.counted_part(departure.index, departure.part),
        })
    }

    /// Gives `each` the tag of every frame that was not sent and had a deadline before `until`, what it is counted as,
    /// and how many there are: those that were `taken`, and those that still were to come. Of what was recorded, what was
    /// not read is not known. Goes on as long as `may` says; returns whether it came to the end.
    pub(super) fn left(
        mut self,
        (taken, until): (Vec<Departure>, Nanos),
        may: impl Fn() -> bool,
        mut each: impl FnMut(u32, Counted, u64),
    ) -> bool {
        let begun = self.cut.as_mut().and_then(|cut| cut.next.take());
        let begun = begun.into_iter().flat_map(|(departure, parts)| {
            (departure.part..=parts).map(move |part| Departure { part, ..departure })
        });
        for departure in taken.into_iter().chain(begun).filter(|departure| departure.at < until) {
            if let Some(counted) = self.counted(&departure) {
                each(departure.tag, counted, 1);
            }
        }
        let mut schedule = std::mem::replace(&mut self.schedule, Schedule::empty());
        while let Some(next) = schedule.peek().filter(|next| next.at < until) {
            // One without a deadline takes turns with others of its kind, and none of them has one.
            if self.counted(&next).is_none() {
                break;
            }
            if !may() {
                return false;
            }
            let alike = self.stream(&next).is_some_and(|stream| stream.frames.are_alike());
            for _ in 0..DROPPED_AT_ONCE {
                schedule.skip_before(until, alike, &mut |departure, many| {
                    if let Some(counted) = self.counted(&departure) {
                        each(departure.tag, counted, many);
                    }
                });
                let same = |then: Departure| then.stream == next.stream && then.at < until;
                if !schedule.peek().is_some_and(same) {
                    break;
                }
            }
        }
        for number in 0..self.playbacks.len() {
            self.playbacks[number].settle_gates();
            while let Some(departure) = self.playbacks[number].peek(Nanos::ZERO) {
                let Some(counted) = self.counted(&departure) else { break };
                if departure.at < until {
                    each(departure.tag, counted, 1);
                }
                self.playbacks[number].take();
            }
        }
        true
    }
}
