//! Times of a capture that do not run backwards.
//!
//! In live captures of several interfaces or CPUs some frames have a time before that of the frame before them. They are held
//! back to its time, and counted. A step back of more than a second is no such disorder: the clock was set, and what follows
//! keeps its distances.

use super::Place;

/// A longer step back is a clock that was set, in nanoseconds.
pub const SET_BACK_NS: i64 = 1_000_000_000;

/// Frames with a time before that of the frame before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// How many.
    pub frames: u64,
    /// By how much at the most, in nanoseconds.
    pub most_ns: u64,
    /// Where the first of them stands.
    pub first: Option<Place>,
    /// Those of them at which the clock was set back, by more than [`SET_BACK_NS`].
    pub set_back: u64,
}

/// Times that do not run backwards.
#[derive(Clone, Debug, Default)]
pub struct Steady {
    latest_ns: Option<i64>,
    /// For how long the clock was set back, in all.
    set_back_ns: i64,
    held_back: HeldBack,
}

impl Steady {
    /// The time of the next frame, which has this one by the capture: that, or the time of the frame before it.
    #[inline]
    pub fn time(&mut self, time_ns: i64, place: impl FnOnce() -> Place) -> i64 {
        let time = time_ns.saturating_add(self.set_back_ns);
        let before = *self.latest_ns.get_or_insert(time);
        if time < before {
            self.hold_back(before.saturating_sub(time), place());
            return before;
        }
        self.latest_ns = Some(time);
        time
    }

    #[cold]
    fn hold_back(&mut self, by_ns: i64, place: Place) {
        let held_back = &mut self.held_back;
        if by_ns > SET_BACK_NS {
            self.set_back_ns = self.set_back_ns.saturating_add(by_ns);
            held_back.set_back += 1;
        }
        held_back.frames += 1;
        held_back.most_ns = held_back.most_ns.max(by_ns.unsigned_abs());
        held_back.first.get_or_insert(place);
    }

    /// What was held back so far.
    pub fn held_back(&self) -> &HeldBack {
        &self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times: &[i64]) -> (Vec<i64>, HeldBack) {
        let mut steady = Steady::default();
        let mut number = 0;
        let place = |number| Place { offset: 0, number };
        let mut time = |time| {
            number += 1;
            steady.time(time, || place(number))
        };
        (times.iter().map(|at| time(*at)).collect(), *steady.held_back())
    }

    #[test]
    fn a_step_back_is_held_back_and_a_clock_that_was_set_keeps_distances() {
        let (got, held) = times(&[100, 93, 99, 101]);
        assert_eq!(got, [100, 100, 100, 101]);
        let expected = HeldBack {
            frames: 2,
            most_ns: 7,
            first: Some(Place { offset: 0, number: 2 }),
            set_back: 0,
        };
        assert_eq!(held, expected);
        let hour = 3_600 * SET_BACK_NS;
        let (got, held) = times(&[hour, hour + 5, 20, 30, 29, 31]);
        assert_eq!(got, [hour, hour + 5, hour + 5, hour + 15, hour + 15, hour + 16]);
        assert_eq!((held.frames, held.set_back), (2, 1));
        assert_eq!(times(&[i64::MAX, i64::MIN, i64::MAX, 0]).0, [i64::MAX; 4]);
    }
}
