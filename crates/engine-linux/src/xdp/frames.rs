//! The frames of a transmitter, from when they are reserved until the kernel has no more use for them, and what became of each.
//!
//! Chunks of the UMEM go round: a frame has those of its position, one, or as many as the longest frame needs (`pieces`). It is
//! handed over in as many pieces as it fills chunks, and done when all of them are. The kernel may be done with frames in another
//! order than they were committed in; chunks are used again when all before them are done, and fates are told in the order of
//! commits.

use wirebeat_engine::port::{Amount, Counted, Fate, Fates, PortError, TxMeta, TxTotals};

use super::ENGINE;

/// What is known of a frame beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct FrameEntry {
    tag: u32,
    counted: Counted,
    /// In how many pieces it was handed over, and how many of them the kernel has.
    pieces: u32,
    pending: u32,
    /// What became of it, once the kernel has no more use for it.
    fate: Option<Fate>,
}

/// How frames lie in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    /// Bytes of a chunk.
    pub(super) chunk: usize,
    /// Chunks that a frame has: as many as the longest one fills.
    pub(super) most: usize,
    /// Bytes before a frame in its chunk, for the driver; then it lies in one.
    pub(super) room: usize,
}

impl Pieces {
    /// For frames of up to `longest` bytes.
    pub(super) fn of(longest: usize, chunk: usize) -> Pieces {
        let chunk = chunk.max(1);
        Pieces { chunk, most: longest.div_ceil(chunk).max(1), room: 0 }
    }

    /// For frames that lie in one chunk each, behind so many bytes.
    pub(super) fn behind(room: usize, chunk: usize) -> Pieces {
        Pieces { chunk: chunk.max(1), most: 1, room }
    }

    /// How many pieces a frame of `len` bytes has.
    pub(super) fn count(self, len: usize) -> u32 {
        len.div_ceil(self.chunk).max(1) as u32
    }
}

/// The frames of a transmitter. Positions count frames since the start; a position's place is its remainder.
#[derive(Debug)]
pub(super) struct TxFrames {
    pieces: Pieces,
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
    pub(super) fn new(chunks: usize, pieces: Pieces, tags: u32) -> TxFrames {
        TxFrames {
            pieces,
            entries: vec![FrameEntry::default(); (chunks / pieces.most).max(1)],
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

    /// How its frames lie in chunks.
    pub(super) fn pieces(&self) -> Pieces {
        self.pieces
    }

    /// The first chunk of reserved frame `index`.
    ///
    /// # Panics
    /// When `index` is not below the number of reserved frames.
    pub(super) fn reserved_chunk(&self, index: usize) -> usize {
        assert!(index < self.reserved, "frame {index} of {} reserved ones", self.reserved);
        self.first_chunk(self.head.wrapping_add(self.committed + index))
    }

    /// The first chunk of the frame at a position.
    pub(super) fn first_chunk(&self, position: usize) -> usize {
        self.place(position) * self.pieces.most
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
            let pieces = self.pieces.count(meta.len.into());
            let (tag, counted) = (meta.tag, meta.counted);
            self.entries[place] = FrameEntry { tag, counted, pieces, pending: pieces, fate: None };
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

    /// The kernel is done with the piece in chunk `chunk`, and this became of its frame.
    #[inline]
    pub(super) fn complete(&mut self, chunk: usize, fate: Fate) {
        if let Some(entry) = self.entries.get_mut(chunk / self.pieces.most)
            && entry.pending > 0
        {
            entry.pending -= 1;
            entry.fate = (entry.pending == 0).then_some(fate);
        }
        while self.committed > 0
            && let Some(fate) = self.entries[self.place(self.head)].fate
        {
            self.settle(fate);
        }
    }

    /// No more comes back: of what the kernel has, the newest `waiting` pieces have not been read by it, and the frames that
    /// they are of fail. The others are on their way.
    pub(super) fn give_up(&mut self, waiting: usize) {
        let waiting = self.newest(waiting);
        while self.committed > 0 {
            let known = self.entries[self.place(self.head)].fate;
            let unread = self.committed <= waiting;
            self.settle(known.unwrap_or(if unread { Fate::Failed } else { Fate::Sent }));
        }
    }

    /// How many of the newest frames have a piece among the newest `pieces`.
    fn newest(&self, pieces: usize) -> usize {
        let (mut frames, mut left) = (0, pieces);
        while left > 0 && frames < self.committed {
            frames += 1;
            let position = self.head.wrapping_add(self.committed - frames);
            left = left.saturating_sub(self.entries[self.place(position)].pieces as usize);
        }
        frames
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

    /// Each frame has one chunk.
    const ONE: Pieces = Pieces { chunk: 2048, most: 1, room: 0 };

    fn committed(chunks: usize, tags: &[u32]) -> TxFrames {
        let mut frames = TxFrames::new(chunks, ONE, 2);
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
        assert_eq!((frames.reserve(9, 64), frames.reserved_chunk(0)), (3, 0));
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

    /// Frames of one, two and three chunks of 100 bytes, each of which has room for three.
    fn of_pieces(chunks: usize) -> TxFrames {
        let pieces = Pieces::of(250, 100);
        assert_eq!(pieces, Pieces { chunk: 100, most: 3, room: 0 });
        let mut frames = TxFrames::new(chunks, pieces, 2);
        assert_eq!(frames.reserve(9, 64), chunks / 3);
        let metas = [100, 101, 250].map(|len| TxMeta { len, ..meta(0) });
        assert_eq!(frames.commit(&metas, 250).unwrap(), 0);
        frames
    }

    #[test]
    fn a_frame_of_several_pieces_is_done_when_all_of_them_are() {
        let mut frames = of_pieces(11);
        assert_eq!([0, 1, 2, 3].map(|position| frames.first_chunk(position)), [0, 3, 6, 0]);
        // those of the second one in any order
        frames.complete(0, Fate::Sent);
        frames.complete(4, Fate::Sent);
        assert_eq!(fates(&mut frames), [(Fate::Sent, 1)]);
        // one that it does not have, and one that is done with
        frames.complete(5, Fate::Sent);
        frames.complete(0, Fate::Failed);
        frames.complete(8, Fate::Sent);
        assert_eq!(fates(&mut frames), [(Fate::Sent, 1)], "both pieces of the second one");
        assert_eq!(frames.len(), 1);
        frames.complete(6, Fate::Sent);
        frames.complete(7, Fate::Failed);
        assert_eq!(fates(&mut frames), [(Fate::Failed, 1)]);
        assert_eq!((frames.len(), counts(&frames)[0]), (0, (2, 1)));
    }

    #[test]
    fn a_frame_of_which_a_piece_was_not_read_has_failed() {
        for (waiting, sent) in [(0, 3), (1, 2), (3, 2), (4, 1), (5, 1), (6, 0), (99, 0)] {
            let mut frames = of_pieces(9);
            frames.give_up(waiting);
            assert_eq!(counts(&frames)[0], (sent, 3 - sent), "{waiting}");
        }
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
        let mut frames = TxFrames::new(4, ONE, 2);
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
