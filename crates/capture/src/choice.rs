//! Which frames are kept: those that a filter means, and of these those that a selection means, with some before and after.
//!
//! A selection looks at what came before a frame in its flow, also at frames that the filter leaves out: numbers are missing
//! where the network lost them, not where a filter did. No allocation for a frame, but while the memory of frames before grows
//! to its bound.

use std::collections::VecDeque;
use std::io;

use wirebeat_wire::filter::Filter;

use crate::history::{Before, Histories};
use crate::seen::{InterfaceCounts, Seen};
use crate::selection::BoundSelection;

/// What is chosen.
#[derive(Debug, Default)]
pub struct Choice {
    filter: Option<Filter>,
    selection: Option<BoundSelection>,
    /// How many frames after one that is selected are kept too.
    after: u32,
    /// How many of them are still to come.
    due: u32,
    context: Context,
    histories: Histories,
    /// Frames that were left out, of each interface.
    left_out: Vec<u64>,
    /// The same counts with these, made at each pause.
    counts: Vec<InterfaceCounts>,
}

/// What is kept around each frame that is selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Frames before it.
    pub before: u32,
    /// Frames after it.
    pub after: u32,
}

impl Choice {
    /// Of frames that `filter` means, those that `selection` means, and those around them.
    pub fn new(
        filter: Option<Filter>,
        selection: Option<BoundSelection>,
        around: Around,
    ) -> Choice {
        let context = Context { most: around.before as usize, ..Context::default() };
        Choice { filter, selection, after: around.after, context, ..Choice::default() }
    }

    /// Looks at a frame, and gives those that are kept, in their order: it, and frames before it that were held back.
    #[inline]
    pub fn offer(
        &mut self,
        seen: &Seen<'_>,
        mut give: impl FnMut(&Seen<'_>, Before) -> io::Result<()>,
    ) -> io::Result<()> {
        let before = self.histories.next(seen);
        if let Some(filter) = &self.filter
            && !filter.matches(seen.bytes, seen.len_without_fcs())
        {
            self.leave_out(seen.interface);
            return Ok(());
        }
        let Some(selection) = &self.selection else { return give(seen, before) };
        if selection.means(seen, before) {
            while let Some((held, before)) = self.context.next() {
                give(&held.seen(), before)?;
            }
            self.due = self.after;
            give(seen, before)
        } else if self.due > 0 {
            self.due -= 1;
            give(seen, before)
        } else {
            if let Some(interface) = self.context.hold(seen, before) {
                self.leave_out(interface);
            }
            Ok(())
        }
    }

    fn leave_out(&mut self, interface: u16) {
        let place = usize::from(interface);
        if self.left_out.len() <= place {
            self.left_out.resize(place + 1, 0);
        }
        if let Some(count) = self.left_out.get_mut(place) {
            *count += 1;
        }
    }

    /// Frames that were left out so far; those that are held back are.
    pub fn left_out(&self) -> u64 {
        self.left_out.iter().sum::<u64>() + self.context.held.len() as u64
    }

    /// The counts of all frames, with those that were left out.
    pub fn counted(&mut self, counts: &[InterfaceCounts]) -> &[InterfaceCounts] {
        self.counts.clear();
        self.counts.extend_from_slice(counts);
        for (counts, left_out) in self.counts.iter_mut().zip(&self.left_out) {
            counts.filtered += left_out;
        }
        for held in &self.context.held {
            if let Some(counts) = self.counts.get_mut(usize::from(held.head.interface)) {
                counts.filtered += 1;
            }
        }
        &self.counts
    }
}

/// The last frames that were not kept, up to a number. Their memory is used again.
#[derive(Debug, Default)]
struct Context {
    most: usize,
    held: VecDeque<Held>,
    spare: Vec<Vec<u8>>,
    /// The one that was taken out last, until the next is.
    taken: Option<Held>,
}

#[derive(Debug)]
struct Held {
    head: Seen<'static>,
    before: Before,
    bytes: Vec<u8>,
}

impl Held {
    fn seen(&self) -> Seen<'_> {
        Seen { bytes: &self.bytes, ..self.head }
    }
}

impl Context {
    /// Keeps a frame; where another went for it, or it cannot be kept, says of which interface that was.
    fn hold(&mut self, seen: &Seen<'_>, before: Before) -> Option<u16> {
        if self.most == 0 {
            return Some(seen.interface);
        }
        let gone = match self.held.len() >= self.most {
            true => self.held.pop_front(),
            false => None,
        };
        let interface = gone.as_ref().map(|held| held.head.interface);
        let mut bytes = gone.map(|held| held.bytes).or_else(|| self.spare.pop());
        let mut bytes = bytes.take().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(seen.bytes);
        self.held.push_back(Held { head: seen.without_bytes(), before, bytes });
        interface
    }

    /// The oldest that is kept.
    fn next(&mut self) -> Option<(&Held, Before)> {
        if let Some(taken) = self.taken.take() {
            self.spare.push(taken.bytes);
        }
        self.taken = self.held.pop_front();
        self.taken.as_ref().map(|held| (held, held.before))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seen::Opening;
    use crate::seen::tests::frame;
    use crate::selection::Selection;

    fn selection(text: &str) -> BoundSelection {
        Selection::new(text).unwrap().bind(&Opening::default()).unwrap()
    }

    proptest! {
        /// Held against a model that looks at all frames at once.
        #[test]
        fn frames_around_those_selected_are_kept(
            odd in prop::collection::vec(any::<bool>(), 0..120),
            (before, after) in (0_u32..6, 0_u32..6),
        ) {
            let mut choice = Choice::new(None, Some(selection("length == 777")), Around { before, after });
            let mut given = Vec::new();
            for (number, odd) in (0_u64..).zip(&odd) {
                let bytes = number.to_le_bytes();
                let frame_len = if *odd { 777 } else { 100 };
                let seen = Seen { frame_len, unix_ns: number, ..frame(&bytes) };
                choice.offer(&seen, |seen, _| {
                    assert_eq!(seen.bytes, seen.unix_ns.to_le_bytes());
                    given.push(seen.unix_ns);
                    Ok(())
                }).unwrap();
            }
            let is_near = |number: u64| odd.iter().enumerate().any(|(hit, odd)| {
                let first = (hit as u64).saturating_sub(before.into());
                *odd && (first..=hit as u64 + u64::from(after)).contains(&number)
            });
            let expected: Vec<u64> = (0..odd.len() as u64).filter(|number| is_near(*number)).collect();
            prop_assert_eq!(&given, &expected);
            prop_assert_eq!(choice.left_out(), (odd.len() - given.len()) as u64);
            let counts = [InterfaceCounts { filtered: 2, ..InterfaceCounts::default() }];
            prop_assert_eq!(choice.counted(&counts)[0].filtered, 2 + choice.left_out());
            prop_assert!(choice.context.held.len() <= before as usize);
            prop_assert!(choice.context.spare.len() <= before as usize);
        }
    }

    #[test]
    fn what_a_filter_leaves_out_is_not_missing() {
        let filter = Filter::new("greater 100").unwrap();
        let around = Around { before: 1, after: 0 };
        let mut choice = Choice::new(Some(filter), Some(selection("lost-before")), around);
        let mut given = Vec::new();
        for (sequence, frame_len) in [(0, 200), (1, 80), (2, 200), (3, 80), (5, 200), (6, 200)] {
            let seen = Seen { sequence: Some(sequence), frame_len, ..frame(&[]) };
            choice
                .offer(&seen, |seen, before| {
                    given.push((seen.sequence.unwrap(), before.missing));
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(given, [(2, 0), (5, 1)]);
    }
}
