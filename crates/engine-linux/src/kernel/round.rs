//! The round that a transmit program repeats, as far as user space counts it.
//!
//! Where all frames of a round may be equally late, the program goes past those that are too late without looking at
//! them (`skip_to` in `bpf/transmit.bpf.c`). How many of each tag it has passed follows from the slots it has consumed;
//! what was passed and not sent has expired. This file makes no system call and knows no memory of the kernel.

use wirebeat_engine::port::{Amount, Counted, TxMeta};
use wirebeat_units::Nanos;

/// What the slots of a round are counted as.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Tag and size of each, in their order.
    slots: Vec<(u32, Counted)>,
    /// The drift of all of them; `None` where they differ.
    drift: Option<Nanos>,
}

impl Round {
    /// Adds frames to its end.
    pub(super) fn push(&mut self, metas: &[TxMeta]) {
        for meta in metas {
            self.drift = match self.slots.is_empty() {
                true => Some(meta.drift),
                false => self.drift.filter(|&drift| drift == meta.drift),
            };
            self.slots.push((meta.tag, meta.counted));
        }
    }

    /// From which lateness on each of its frames is too late; `None` where that differs, or none ever is.
    pub(super) fn window(&self) -> Option<Nanos> {
        let drift = self.drift.filter(|&drift| drift < Nanos::MAX)?;
        Some(drift.saturating_add(Nanos::new(1)))
    }

    /// What the first `consumed` slots of all rounds are of each tag below `tags`.
    pub(super) fn passed(&self, consumed: u64, tags: usize) -> Vec<Amount> {
        let mut passed = vec![Amount::default(); tags];
        let rounds = consumed / self.slots.len().max(1) as u64;
        let begun = consumed - rounds * self.slots.len() as u64;
        for (place, (tag, counted)) in (0..).zip(&self.slots) {
            if let Some(passed) = passed.get_mut(*tag as usize) {
                passed.add_many(*counted, rounds + u64::from(place < begun));
            }
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_units::FrameLen;

    use super::*;

    fn meta(tag: u32, bytes: u16, drift: u64) -> TxMeta {
        let counted = Counted::frame(FrameLen::with_fcs(bytes), bytes - 46);
        TxMeta { tag, counted, drift: Nanos::new(drift), ..TxMeta::default() }
    }

    #[test]
    fn what_was_passed_follows_from_the_slots_that_were_consumed() {
        let mut round = Round::default();
        round.push(&[meta(0, 64, 5), meta(1, 100, 5)]);
        round.push(&[meta(0, 64, 5)]);
        let frames = |consumed| {
            let passed = round.passed(consumed, 2);
            [passed[0].frames, passed[0].bytes, passed[1].frames, passed[1].payload]
        };
        assert_eq!(frames(0), [0; 4]);
        assert_eq!(frames(1), [1, 64, 0, 0]);
        assert_eq!(frames(3), [2, 128, 1, 54]);
        assert_eq!(
            frames(3_000_000_002),
            [2_000_000_001, 128_000_000_064, 1_000_000_001, 54_000_000_054]
        );
        assert_eq!(Round::default().passed(7, 1), [Amount::default()]);
    }

    #[test]
    fn a_window_is_that_of_all_slots_or_none() {
        let window = |drifts: &[u64]| {
            let mut round = Round::default();
            drifts.iter().for_each(|&drift| round.push(&[meta(0, 64, drift)]));
            round.window().map(Nanos::get)
        };
        assert_eq!([window(&[5, 5]), window(&[0]), window(&[5, 6, 5])], [Some(6), Some(1), None]);
        assert_eq!([window(&[]), window(&[u64::MAX, u64::MAX])], [None, None]);
    }
}
