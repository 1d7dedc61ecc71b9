//! The frames of a transmitter, from when they are reserved until the kernel has no more use for them, and what became of each.
//!
//! Chunks of the UMEM go round: a frame has that of its position. The kernel may be done with them in another order than they
//! were committed in; a chunk is used again when all before it are done, and fates are told in the order of commits.

use wirebeat_engine::port::{Amount, Counted, Fate, Fates, PortError, TxMeta, TxTotals};

use super::ENGINE;

/// What is known of a frame beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct FrameEntry {
    tag: u32,
    counted: Counted,
    /// What became of it, once the kernel has no more use for it.
    fate: Option<Fate>,
}

/// The frames of a transmitter. Positions count frames since the start; a position's chunk is its remainder.
#[derive(Debug)]
pub(super) struct TxFrames {
    entries: Vec<FrameEntry>,
    /// The position of the oldest frame that the kernel still has.
    head: usize,
    committed: usize,
    reserved: usize,
    /// Frames that the driver refused, and it is not known which: the next ones that the kernel is done with.
    dropped: usize,
    totals: Vec<TxTotals>,
    fates: Fates,
}

impl TxFrames {
    /// For so many chunks, and tags below `tags`.
    pub(super) fn new(chunks: usize, tags: u32) -> TxFrames {
        TxFrames {
            entries: vec![FrameEntry::default(); chunks.max(1)],
            head: 0,
            committed: 0,
            reserved: 0,
            dropped: 0,
            totals: vec![TxTotals::default(); tags as usize],
            fates: Fates::default(),
        }
    }

    /// Counts from zero, by tags below `tags`: for another run, while the kernel has no frame.
    pub(super) fn rearm(&mut self, tags: u32) {
        self.reserved = 0;
        self.dropped = 0;
        self.totals = vec![TxTotals::default(); tags as usize];
        self.fates = Fates::default();
    }

    /// [`wirebeat_engine::port::TxPort::reserve`], of at most `batch` frames.
    pub(super) fn reserve(&mut self, want: usize, batch: usize) -> usize {
        let room = self.entries.len() - self.committed;
        self.reserved = self.reserved.max(want.min(batch).min(room));
        self.reserved
    }

    /// The position of reserved frame `index`.
    ///
    /// # Panics
    /// When `index` is not below the number of reserved frames.
    pub(super) fn position(&self, index: usize) -> usize {
        assert!(index < self.reserved, "frame {index} of {} reserved ones", self.reserved);
        self.head.wrapping_add(self.committed + index)
    }

    /// Takes the first reserved frames, whose position comes back; nothing where one of `metas` is wrong.
    pub(super) fn commit(
        &mut self,
        metas: &[TxMeta],
        frame_max: usize,
    ) -> Result<usize, PortError> {
        let wrong =
            |what: String| Err(PortError::Unsupported { engine: ENGINE, what: what.into() });
        if metas.len() > self.reserved {
            return wrong(format!("send {} frames; {} are reserved", metas.len(), self.reserved));
        }
        for meta in metas {
            let len = usize::from(meta.len);
            // the kernel skips what is empty, and says nothing of it
            if len == 0 || len > frame_max {
                return wrong(format!("send {len} bytes; it was opened for 1 to {frame_max}"));
            }
            if meta.tag as usize >= self.totals.len() {
                let tags = self.totals.len();
                return wrong(format!("count by tag {}; it was opened for {tags} tags", meta.tag));
            }
        }
        let first = self.head.wrapping_add(self.committed);
        for (index, meta) in metas.iter().enumerate() {
            let place = self.place(first.wrapping_add(index));
            self.entries[place] = FrameEntry { tag: meta.tag, counted: meta.counted, fate: None };
        }
        self.committed += metas.len();
        self.reserved -= metas.len();
        Ok(first)
    }

    /// How many frames the kernel has, or is to have.
    pub(super) fn len(&self) -> usize {
        self.committed
    }

    /// The driver refused a frame that the kernel had taken, and it is not known which.
    pub(super) fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// The kernel is done with the frame in chunk `chunk`, and this became of it.
    #[inline]
    pub(super) fn complete(&mut self, chunk: usize, fate: Fate) {
        if let Some(entry) = self.entries.get_mut(chunk) {
            entry.fate = Some(fate);
        }
        while self.committed > 0
            && let Some(fate) = self.entries[self.place(self.head)].fate
        {
            self.settle(fate);
        }
    }

    /// No more comes back: of what the kernel has, the newest `waiting` frames have not been read by it and fail, and the
    /// others are on their way.
    pub(super) fn give_up(&mut self, waiting: usize) {
        while self.committed > 0 {
            let known = self.entries[self.place(self.head)].fate;
            let unread = self.committed <= waiting;
            self.settle(known.unwrap_or(if unread { Fate::Failed } else { Fate::Sent }));
        }
    }

    /// The oldest frame had this fate.
    fn settle(&mut self, fate: Fate) {
        let refused = self.dropped > 0;
        self.dropped -= usize::from(refused);
        let fate = if refused { Fate::Failed } else { fate };
        let place = self.place(self.head);
        let FrameEntry { tag, counted, .. } = self.entries[place];
        // tags were checked on commit
        if let Some(totals) = self.totals.get_mut(tag as usize) {
            let amount: &mut Amount = match fate {
                Fate::Sent => &mut totals.sent,
                Fate::Failed => &mut totals.failed,
            };
            amount.add(counted);
        }
        self.fates.push(fate, 1);
        self.head = self.head.wrapping_add(1);
        self.committed -= 1;
    }

    /// [`wirebeat_engine::port::TxPort::settled`].
    pub(super) fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.fates.take(each);
    }

    /// [`wirebeat_engine::port::TxPort::totals`].
    pub(super) fn totals(&self, totals: &mut [TxTotals]) {
        for (sum, ours) in totals.iter_mut().zip(&self.totals) {
            *sum += *ours;
        }
    }

    fn place(&self, position: usize) -> usize {
        position % self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(tag: u32) -> TxMeta {
        TxMeta { len: 60, tag, ..TxMeta::default() }
    }

    fn counts(frames: &TxFrames) -> Vec<(u64, u64)> {
        let mut totals = [TxTotals::default(); 2];
        frames.totals(&mut totals);
        totals.iter().map(|total| (total.sent.frames, total.failed.frames)).collect()
    }

    fn fates(frames: &mut TxFrames) -> Vec<(Fate, usize)> {
        let mut all = Vec::new();
        frames.settled(&mut |fate, count| all.push((fate, count)));
        all
    }

    fn committed(chunks: usize, tags: &[u32]) -> TxFrames {
        let mut frames = TxFrames::new(chunks, 2);
        assert_eq!(frames.reserve(tags.len(), 64), tags.len());
        let metas: Vec<TxMeta> = tags.iter().map(|tag| meta(*tag)).collect();
        assert_eq!(frames.commit(&metas, 60).unwrap(), 0);
        frames
    }

    #[test]
    fn a_chunk_is_used_again_when_all_before_it_are_done() {
        let mut frames = committed(4, &[0, 1, 0, 1]);
        assert_eq!(frames.reserve(1, 64), 0);
        frames.complete(2, Fate::Sent);
        frames.complete(1, Fate::Sent);
        assert_eq!((frames.reserve(1, 64), fates(&mut frames)), (0, vec![]));
        frames.complete(0, Fate::Sent);
        assert_eq!(fates(&mut frames), [(Fate::Sent, 3)]);
        assert_eq!((frames.reserve(9, 64), frames.position(0)), (3, 4));
        assert_eq!(counts(&frames), [(2, 0), (1, 0)]);
    }

    #[test]
    fn a_frame_that_the_driver_refused_has_failed_and_no_other() {
        let mut frames = committed(8, &[0, 1, 1]);
        frames.complete(0, Fate::Sent);
        frames.complete(1, Fate::Failed);
        frames.complete(2, Fate::Sent);
        assert_eq!(fates(&mut frames), [(Fate::Sent, 1), (Fate::Failed, 1), (Fate::Sent, 1)]);
        assert_eq!(counts(&frames), [(1, 0), (1, 1)]);
        let mut frames = committed(8, &[0, 1, 1]);
        frames.drop_one();
        (0..3).for_each(|chunk| frames.complete(chunk, Fate::Sent));
        assert_eq!(fates(&mut frames), [(Fate::Failed, 1), (Fate::Sent, 2)]);
    }

    #[test]
    fn what_the_kernel_did_not_read_has_failed_at_the_end() {
        let mut frames = committed(8, &[0, 0, 1, 1]);
        frames.complete(0, Fate::Sent);
        frames.complete(2, Fate::Failed);
        frames.give_up(1);
        assert_eq!((counts(&frames), frames.len()), (vec![(2, 0), (0, 2)], 0));
    }

    #[test]
    fn another_run_counts_from_zero_and_goes_on_where_the_ring_stands() {
        let mut frames = committed(4, &[0, 1, 1]);
        (0..3).for_each(|chunk| frames.complete(chunk, Fate::Sent));
        frames.rearm(2);
        assert_eq!((counts(&frames), fates(&mut frames)), (vec![(0, 0); 2], vec![]));
        assert_eq!(frames.reserve(2, 64), 2);
        assert_eq!(frames.commit(&[meta(0), meta(1)], 60).unwrap(), 3);
        // what is there from the run before does not settle it
        frames.complete(0, Fate::Sent);
        assert_eq!((counts(&frames), frames.len()), (vec![(0, 0); 2], 2));
        frames.complete(3, Fate::Sent);
        assert_eq!(counts(&frames), [(1, 0), (1, 0)]);
    }

    #[test]
    fn wrong_frames_are_refused_whole() {
        let mut frames = TxFrames::new(4, 2);
        frames.reserve(2, 64);
        let refused = |frames: &mut TxFrames, metas: &[TxMeta]| {
            frames.commit(metas, 60).unwrap_err().to_string()
        };
        assert!(refused(&mut frames, &[meta(0), meta(2)]).contains("count by tag 2"));
        for len in [0, 61] {
            let wrong = TxMeta { len, ..meta(0) };
            assert!(refused(&mut frames, &[meta(0), wrong]).contains(&format!("send {len} bytes")));
        }
        assert!(refused(&mut frames, &[meta(0); 3]).contains("2 are reserved"));
        assert_eq!((frames.len(), counts(&frames)), (0, vec![(0, 0); 2]));
    }

    #[test]
    fn a_completion_of_nothing_changes_nothing() {
        let mut frames = committed(4, &[0]);
        frames.complete(3, Fate::Sent);
        frames.complete(usize::MAX, Fate::Sent);
        assert_eq!((frames.len(), fates(&mut frames)), (1, vec![]));
    }
}
