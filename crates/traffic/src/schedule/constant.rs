//! Constant inter-departure time: exact, without a division per frame.
//!
//! Frame `index` is due at `start + floor(index * per / frames)`. From one burst of a core to its next
//! the index grows by a fixed stride, so the quotient grows by a fixed whole part and its remainder by
//! a fixed remainder, modulo `frames`: two additions and a comparison give the same nanosecond as the
//! 128-bit division, for every index, and nothing ever drifts.

use wirebeat_units::{FrameRate, Nanos};

/// The deadlines of every `stride`-th frame of a flow.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    /// The deadline in whole nanoseconds, saturating.
    at: u64,
    /// What the deadline leaves over, in units of 1/`frames` ns; below `frames`.
    remainder: u64,
    /// From one deadline to the next: whole nanoseconds, saturating …
    step: u64,
    /// … and what is left over, in the same units; below `frames`.
    step_remainder: u64,
    /// Frames of the rate, at least 1.
    frames: u64,
    /// Nanoseconds in which they leave.
    per: u64,
    /// When frame 0 is due.
    start: u64,
}

impl Constant {
    /// The deadlines of frames `first`, `first + stride`, `first + 2 * stride`, …
    pub(super) fn new(rate: FrameRate, start: Nanos, first: u64, stride: u64) -> Self {
        let frames = rate.frames.max(1);
        let (step, step_remainder) = divide(stride, rate.per.get(), frames);
        let mut constant = Constant {
            at: 0,
            remainder: 0,
            step,
            step_remainder,
            frames,
            per: rate.per.get(),
            start: start.get(),
        };
        constant.seek(first);
        constant
    }

    /// The current deadline.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// On to the next deadline.
    pub(super) fn advance(&mut self) {
        // remainder + step_remainder may exceed 64 bits, so the carry is found by subtraction.
        let room = self.frames - self.step_remainder;
        let carry = u64::from(self.remainder >= room);
        self.remainder =
            if carry == 1 { self.remainder - room } else { self.remainder + self.step_remainder };
        self.at = self.at.saturating_add(self.step).saturating_add(carry);
    }

    /// How many bursts of `burst` frames are due before `stop`, over all cores.
    pub(super) fn bursts_before(&self, stop: u64, burst: u64) -> u64 {
        if stop == u64::MAX {
            return u64::MAX;
        }
        // Frame i is due before the stop as long as i * per < span * frames.
        let span = u128::from(stop.saturating_sub(self.start));
        let per = u128::from(self.per.max(1)).saturating_mul(u128::from(burst.max(1)));
        let bursts = span.saturating_mul(u128::from(self.frames)).div_ceil(per);
        u64::try_from(bursts).unwrap_or(u64::MAX)
    }

    /// To frame 0 of a flow that starts at `at`.
    pub(super) fn restart(&mut self, at: u64) {
        self.start = at;
        self.seek(0);
    }

    /// To the deadline of frame `index`.
    pub(super) fn seek(&mut self, index: u64) {
        let (whole, remainder) = divide(index, self.per, self.frames);
        self.at = self.start.saturating_add(whole);
        self.remainder = remainder;
    }
}

/// `index * per / frames`: the quotient, saturating, and the remainder.
fn divide(index: u64, per: u64, frames: u64) -> (u64, u64) {
    let product = u128::from(index) * u128::from(per);
    let quotient = u64::try_from(product / u128::from(frames)).unwrap_or(u64::MAX);
    // Below `frames`, so it fits.
    (quotient, (product % u128::from(frames)) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::tests::config;

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn additions_give_the_same_nanosecond_as_the_division(
            frames in prop_oneof![1..u64::MAX, 1..20_000_000u64],
            per in prop_oneof![1..u64::MAX, Just(1_000_000_000u64), 1..1_000_000u64],
            start in 0..u64::MAX / 2,
            first in prop_oneof![0..u64::MAX / 2, 0..1000u64],
            stride in prop_oneof![1..u64::MAX / 512, 1..1000u64],
        ) {
            let rate = FrameRate { frames, per: Nanos::new(per) };
            let mut constant = Constant::new(rate, Nanos::new(start), first, stride);
            for step in 0..200 {
                let index = first + step * stride;
                let expected = Nanos::new(start).saturating_add(rate.deadline(index));
                prop_assert_eq!(constant.at(), expected.get());
                constant.advance();
            }
        }
    }

    #[test]
    fn three_frames_in_ten_nanoseconds_keep_their_pattern() {
        let rate = FrameRate { frames: 3, per: Nanos::new(10) };
        let mut constant = Constant::new(rate, Nanos::new(100), 0, 1);
        let mut deadlines = Vec::new();
        for _ in 0..7 {
            deadlines.push(constant.at());
            constant.advance();
        }
        assert_eq!(deadlines, [100, 103, 106, 110, 113, 116, 120]);
    }

    #[test]
    fn the_end_of_time_saturates() {
        let rate = FrameRate { frames: 1, per: Nanos::new(u64::MAX) };
        let mut constant = Constant::new(rate, Nanos::new(1), 0, u64::MAX);
        constant.advance();
        constant.advance();
        assert_eq!(constant.at(), u64::MAX);
        constant.seek(u64::MAX);
        assert_eq!(constant.at(), u64::MAX);
    }
}
