//! Transmit memory for engines that send from user space: a ring of slots, and its counters.
//!
//! A slot goes from free to reserved (a frame is being built) to committed (it waits to be sent) and
//! back to free when the engine says what became of it; each change is counted by the frame's tag.
//! Frames leave in the order in which they were committed. Knows no sockets: engines take what is in
//! front as `iovec`s.

use std::io;

use wirebeat_engine::port::{Amount, Counted, Fate, Fates, PortError, TxMeta, TxPlan, TxTotals};
use wirebeat_units::{Nanos, fault};

use crate::memory::Memory;

/// Slots of a ring: four batches, so that a port that sends part of a batch still has room.
const SLOTS: usize = 256;
/// The most frames that are reserved at once. More gains nothing (measured: 16 to 256 frames for a
/// system call are equally fast) and takes more of the cache.
pub(crate) const BATCH: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

/// The ring. Positions count frames since the start; a position's slot is its remainder.
#[derive(Debug)]
pub(crate) struct Slots {
    memory: Memory,
    stride: usize,
    /// Bytes that are sent before each frame, which begins behind them in its slot.
    lead: usize,
    frame_max: usize,
    /// Position of the oldest committed frame.
    head: usize,
    committed: usize,
    reserved: usize,
    /// One for each slot; lengths are written on commit.
    iovecs: Vec<libc::iovec>,
    entries: Vec<Entry>,
    totals: Vec<TxTotals>,
    fates: Fates,
}

// SAFETY: the pointers in `iovecs` point into `memory`, which moves along and is bound to no thread.
unsafe impl Send for Slots {}

/// What is known of a committed frame beside its bytes and length.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u32,
    /// What it is counted as.
    counted: Counted,
    /// When it was due; zero where it had no deadline.
    due: Nanos,
    /// Whether it was committed in one call with the frame before it.
    with_previous: bool,
}

/// Committed frames that lie one after the other, from the oldest on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front<'a> {
    /// Their bytes.
    pub(crate) iovecs: &'a [libc::iovec],
    entries: &'a [Entry],
}

impl Front<'_> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.iovecs.len()
    }
    /// The tag of one of them.
    pub(crate) fn tag(&self, index: usize) -> u32 {
        self.entries[index].tag
    }
    /// Bytes of one of them, and of its lead.
    pub(crate) fn bytes(&self, index: usize) -> usize {
        self.iovecs[index].iov_len
    }
    /// When one of them was due; zero where it had no deadline.
    pub(crate) fn due(&self, index: usize) -> Nanos {
        self.entries[index].due
    }
    /// Whether it was committed in one call with the one before it.
    pub(crate) fn with_previous(&self, index: usize) -> bool {
        self.entries[index].with_previous
    }
}

impl Slots {
    /// A ring for frames as planned.
    pub(crate) fn new(plan: &TxPlan) -> io::Result<Self> {
        Slots::with_lead(plan, 0)
    }

    /// The same, and `lead` bytes are sent before each frame ([`Slots::lead`]).
    pub(crate) fn with_lead(plan: &TxPlan, lead: usize) -> io::Result<Self> {
        let frame_max = plan.frame_max.size();
        // an odd number of cache lines spreads the starts of frames over all sets of the cache
        let stride = ((lead + frame_max).div_ceil(LINE) * LINE) | LINE;
        let memory = Memory::anonymous(SLOTS * stride)?;
        let iovecs = (0..SLOTS)
            .map(|slot| libc::iovec {
                iov_base: memory.pointer(slot * stride, stride).cast(),
                iov_len: 0,
            })
            .collect();
        Ok(Slots {
            memory,
            stride,
            lead,
            frame_max,
            head: 0,
            committed: 0,
            reserved: 0,
            iovecs,
            entries: vec![Entry::default(); SLOTS],
            totals: vec![TxTotals::default(); plan.tags as usize],
            fates: Fates::default(),
        })
    }

    /// Empty slots for frames as planned, with counters from zero. Memory that is large enough is used again.
    pub(crate) fn rearm(&mut self, plan: &TxPlan) -> io::Result<()> {
        if self.lead + plan.frame_max.size() > self.stride {
            *self = Slots::with_lead(plan, self.lead)?;
            return Ok(());
        }
        self.frame_max = plan.frame_max.size();
        (self.head, self.committed, self.reserved) = (0, 0, 0);
        self.totals.clear();
        self.totals.resize(plan.tags as usize, TxTotals::default());
        self.fates = Fates::default();
        Ok(())
    }

    /// [`wirebeat_engine::port::TxPort::reserve`].
    pub(crate) fn reserve(&mut self, want: usize) -> usize {
        let room = SLOTS - self.committed;
        self.reserved = self.reserved.max(want.min(BATCH).min(room));
        self.reserved
    }

    /// [`wirebeat_engine::port::TxPort::slot`].
    ///
    /// # Panics
    /// When `index` is not below the number of reserved frames.
    pub(crate) fn slot(&mut self, index: usize) -> &mut [u8] {
        let lead = self.lead;
        self.whole(index).get_mut(lead..).unwrap_or_default()
    }

    /// The bytes that are sent before reserved frame `index`.
    ///
    /// # Panics
    /// When `index` is not below the number of reserved frames.
    pub(crate) fn lead(&mut self, index: usize) -> &mut [u8] {
        let lead = self.lead;
        self.whole(index).get_mut(..lead).unwrap_or_default()
    }

    fn whole(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.reserved, "frame {index} of {} reserved ones", self.reserved);
        let slot = (self.head + self.committed + index) % SLOTS;
        let base = self.memory.pointer(slot * self.stride, self.stride);
        // SAFETY: `stride` initialised bytes of the mapping; a reserved slot is nobody else's: the
        // kernel reads only committed ones, and only during a call. The reference borrows `self`.
        unsafe { std::slice::from_raw_parts_mut(base, self.stride) }
    }

    /// [`wirebeat_engine::port::TxPort::commit`]; hands over nothing when one of `metas` is wrong.
    pub(crate) fn commit(
        &mut self,
        engine: &'static str,
        metas: &[TxMeta],
    ) -> Result<(), PortError> {
        let wrong = |what| Err(PortError::Unsupported { engine, what });
        if metas.len() > self.reserved {
            return wrong(fault!("send {} frames", metas.len(); "{} are reserved", self.reserved));
        }
        for meta in metas {
            if usize::from(meta.len) > self.frame_max {
                let most = self.frame_max;
                return wrong(
                    fault!("send {} bytes", meta.len; "it was opened for {most} at most"),
                );
            }
            if meta.tag as usize >= self.totals.len() {
                let tags = self.totals.len();
                return wrong(fault!("count by tag {}", meta.tag; "it was opened for {tags} tags"));
            }
        }
        for (index, meta) in metas.iter().enumerate() {
            let slot = (self.head + self.committed + index) % SLOTS;
            self.iovecs[slot].iov_len = self.lead + usize::from(meta.len);
            self.entries[slot] = Entry {
                tag: meta.tag,
                counted: meta.counted,
                due: meta.launch,
                with_previous: index > 0,
            };
        }
        self.committed += metas.len();
        self.reserved -= metas.len();
        Ok(())
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.committed == 0
    }

    /// The oldest committed frames, up to the end of the ring; at most a batch.
    pub(crate) fn front(&self) -> Front<'_> {
        let first = self.head % SLOTS;
        let end = (first + self.committed.min(BATCH)).min(SLOTS);
        Front { iovecs: &self.iovecs[first..end], entries: &self.entries[first..end] }
    }

    /// The oldest `count` frames were accepted by the engine below.
    pub(crate) fn sent(&mut self, count: usize) {
        self.fates.push(Fate::Sent, count.min(self.committed));
        self.settle(count, |totals| &mut totals.sent);
    }

    /// The oldest `count` frames cannot be sent.
    pub(crate) fn failed(&mut self, count: usize) {
        self.fates.push(Fate::Failed, count.min(self.committed));
        self.settle(count, |totals| &mut totals.failed);
    }

    /// Nothing that waits can be sent any more.
    pub(crate) fn fail_all(&mut self) {
        self.failed(self.committed);
    }

    /// What waits is not to be sent any more.
    pub(crate) fn withdraw_all(&mut self) {
        self.settle(self.committed, |totals| &mut totals.withdrawn);
    }

    fn settle(&mut self, count: usize, counter: impl Fn(&mut TxTotals) -> &mut Amount) {
        let count = count.min(self.committed);
        for position in self.head..self.head + count {
            let Entry { tag, counted, .. } = self.entries[position % SLOTS];
            // tags were checked on commit
            if let Some(totals) = self.totals.get_mut(tag as usize) {
                counter(totals).add(counted);
            }
        }
        self.head = (self.head + count) % SLOTS;
        self.committed -= count;
    }

    /// [`wirebeat_engine::port::TxPort::settled`].
    pub(crate) fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.fates.take(each);
    }

    /// [`wirebeat_engine::port::TxPort::totals`].
    pub(crate) fn totals(&self, totals: &mut [TxTotals]) {
        for (sum, ours) in totals.iter_mut().zip(&self.totals) {
            *sum += *ours;
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_units::BufferLen;

    use super::*;

    fn slots(frame_max: u16) -> Slots {
        let frame_max = BufferLen::new(frame_max.into());
        let plan = TxPlan { tags: 3, frame_max, ..TxPlan::default() };
        Slots::new(&plan).unwrap()
    }

    fn meta(len: u16, tag: u32) -> TxMeta {
        TxMeta { len, tag, ..TxMeta::default() }
    }

    fn counts(slots: &Slots) -> Vec<(u64, u64, u64)> {
        let mut totals = [TxTotals::default(); 3];
        slots.totals(&mut totals);
        let count = |t: &TxTotals| (t.sent.frames, t.failed.frames, t.withdrawn.frames);
        totals.iter().map(count).collect()
    }

    fn bytes(front: &Front<'_>, index: usize) -> Vec<u8> {
        let iovec = front.iovecs[index];
        // SAFETY: the iovec of a committed frame points at as many initialised bytes.
        unsafe { std::slice::from_raw_parts(iovec.iov_base.cast::<u8>(), iovec.iov_len) }.to_vec()
    }

    #[test]
    fn frames_leave_in_order_with_their_bytes_round_after_round() {
        let mut slots = slots(60);
        let (mut built, mut left) = (0u32, 0u32);
        for round in 0..400 {
            let got = slots.reserve(1 + round % 7);
            for index in 0..got {
                slots.slot(index)[..4].copy_from_slice(&built.to_be_bytes());
                built += 1;
            }
            slots.commit("test", &vec![meta(4, 1); got]).unwrap();
            let front = slots.front();
            let taken = front.len().min(1 + round % 5);
            for index in 0..taken {
                assert_eq!(bytes(&front, index), left.to_be_bytes());
                left += 1;
            }
            slots.sent(taken);
        }
        assert!(left as usize > 2 * SLOTS);
        while !slots.is_empty() {
            let front = slots.front();
            assert_eq!(bytes(&front, 0), left.to_be_bytes());
            left += front.len() as u32;
            let count = front.len();
            slots.sent(count);
        }
        assert_eq!((left, counts(&slots)[1]), (built, (u64::from(built), 0, 0)));
    }

    #[test]
    fn a_full_ring_refuses_and_loses_nothing() {
        let mut slots = slots(60);
        let mut committed = 0;
        loop {
            let got = slots.reserve(BATCH);
            if got == 0 {
                break;
            }
            slots.commit("test", &vec![meta(60, 0); got]).unwrap();
            committed += got;
        }
        assert_eq!((committed, slots.reserve(1)), (SLOTS, 0));
        slots.sent(1);
        assert_eq!(slots.reserve(BATCH), 1);
        slots.fail_all();
        assert_eq!(counts(&slots)[0], (1, SLOTS as u64 - 1, 0));
    }

    #[test]
    fn what_is_not_committed_stays_reserved_with_its_bytes() {
        let mut slots = slots(60);
        assert_eq!(slots.reserve(3), 3);
        for index in 0..3 {
            slots.slot(index)[0] = index as u8;
        }
        slots.commit("test", &[meta(1, 0)]).unwrap();
        assert_eq!(slots.reserve(1), 2, "two are still reserved");
        assert_eq!((slots.slot(0)[0], slots.slot(1)[0]), (1, 2));
    }

    #[test]
    fn every_fate_is_counted_by_tag() {
        let mut slots = slots(60);
        slots.reserve(6);
        let tags = [0, 1, 2, 0, 1, 2].map(|tag| meta(60, tag));
        slots.commit("test", &tags).unwrap();
        slots.sent(2);
        slots.failed(1);
        slots.withdraw_all();
        assert_eq!(counts(&slots), [(1, 0, 1), (1, 0, 1), (0, 1, 1)]);
        assert!(slots.is_empty());
        slots.sent(5);
        assert_eq!(counts(&slots), [(1, 0, 1), (1, 0, 1), (0, 1, 1)], "nothing was left to send");
    }

    #[test]
    fn rearmed_slots_are_empty_and_count_from_zero() {
        let mut slots = slots(60);
        slots.reserve(4);
        slots.commit("test", &[meta(60, 0), meta(60, 1), meta(60, 2)]).unwrap();
        slots.sent(2);
        for frame_max in [64_u16, 9000, 18] {
            let longest = BufferLen::new(frame_max.into());
            let plan = TxPlan { tags: 3, frame_max: longest, ..TxPlan::default() };
            slots.rearm(&plan).unwrap();
            assert!(slots.is_empty());
            assert_eq!(counts(&slots), [(0, 0, 0); 3]);
            slots.settled(&mut |fate, count| panic!("{count} frames were {fate:?}"));
            assert_eq!(slots.reserve(2), 2);
            assert!(slots.slot(1).len() >= usize::from(frame_max));
            slots.slot(0)[0] = 7;
            slots.commit("test", &[meta(frame_max, 2)]).unwrap();
            assert_eq!(bytes(&slots.front(), 0).len(), usize::from(frame_max));
            assert!(slots.commit("test", &[meta(frame_max + 1, 2)]).is_err());
            slots.sent(1);
            assert_eq!(counts(&slots)[2], (1, 0, 0));
        }
    }

    #[test]
    fn commits_are_told_apart() {
        let mut slots = slots(60);
        slots.reserve(4);
        slots.commit("test", &[meta(60, 0), meta(60, 0)]).unwrap();
        slots.commit("test", &[meta(60, 0), meta(60, 0)]).unwrap();
        let front = slots.front();
        let joined: Vec<_> = (0..4).map(|index| front.with_previous(index)).collect();
        assert_eq!(joined, [false, true, false, true]);
    }

    #[test]
    fn wrong_metas_are_refused_and_nothing_is_handed_over() {
        let mut slots = slots(60);
        slots.reserve(2);
        for (metas, expected) in [
            (vec![meta(60, 0), meta(61, 0)], "send 61 bytes; it was opened for 60 at most"),
            (vec![meta(60, 0), meta(60, 3)], "count by tag 3; it was opened for 3 tags"),
            (vec![meta(60, 0); 3], "send 3 frames; 2 are reserved"),
        ] {
            let error = slots.commit("test", &metas).unwrap_err().to_string();
            assert_eq!(error, format!("the test engine cannot {expected}"));
            assert!(slots.is_empty());
        }
    }

    #[test]
    fn slots_hold_the_longest_frame_and_start_on_different_cache_sets() {
        for frame_max in [0, 1, 18, 60, 64, 1514, 1518, 9018, u16::MAX] {
            let mut slots = slots(frame_max);
            slots.reserve(1);
            assert!(slots.slot(0).len() >= usize::from(frame_max));
            assert_eq!(slots.stride / LINE % 2, 1);
        }
    }
}
