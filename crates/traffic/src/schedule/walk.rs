//! Departures that are found one after the other: every kind of pace that is not simply constant.
//!
//! A walker stands at the time of a burst and goes to the next. It knows neither cores nor limits.

use super::constant::Constant;
use super::drawn::DrawnWalk;
use super::jittered::JitteredWalk;
use super::on_off::OnOffWalk;
use super::profile::ProfileWalk;
use super::trace::Trace;
use crate::program::pace::Pace;
use wirebeat_units::Nanos;

/// Makes the walkers of all kinds, and what is the same for them.
macro_rules! walkers {
    ($($variant:ident $type:ty;)*) => {
        /// A walker of some kind.
        #[derive(Clone, Debug)]
        pub(super) enum Walker { $($variant($type),)* }

        impl Walker {
            /// The current time in nanoseconds, saturating.
            #[inline]
            pub(super) fn at(&self) -> u64 {
                match self { $(Walker::$variant(walker) => walker.at(),)* }
            }
            /// On to the next burst, which is not before this one.
            #[inline]
            pub(super) fn advance(&mut self) {
                match self { $(Walker::$variant(walker) => walker.advance(),)* }
            }
            /// Goes up to `bursts` bursts further, but not beyond the first that is not due before `stop`; returns
            /// how many. Each kind has a loop of its own: frames that are passed over cost little else.
            #[inline]
            pub(super) fn walk(&mut self, bursts: u64, stop: u64) -> u64 {
                let mut walked = 0;
                match self {
                    $(Walker::$variant(walker) => while walked < bursts && walker.at() < stop {
                        walker.advance();
                        walked += 1;
                    },)*
                }
                walked
            }
            /// Begins anew at a time; what is drawn goes on.
            pub(super) fn restart(&mut self, at: u64) {
                match self { $(Walker::$variant(walker) => walker.restart(at),)* }
            }
        }
    };
}

walkers! {
    Constant Constant;
    Drawn DrawnWalk;
    Jittered JitteredWalk;
    OnOff Box<OnOffWalk>;
    Trace Trace;
    Profile Box<ProfileWalk>;
}

impl Walker {
    /// At the first of bursts of `burst` frames; `None` where there is none or no time for it.
    pub(super) fn new(pace: &Pace, start: Nanos, burst: u64) -> Option<Walker> {
        let at = start.get();
        Some(match pace {
            Pace::Unlimited | Pace::Silent | Pace::Recorded { .. } => return None,
            Pace::Constant(rate) => Walker::Constant(Constant::new(*rate, start, 0, burst)),
            Pace::Drawn(gaps) => Walker::Drawn(DrawnWalk::new(gaps, at, burst)),
            Pace::Jittered(jittered) => Walker::Jittered(JitteredWalk::new(jittered, start, burst)),
            Pace::OnOff(on_off) => Walker::OnOff(Box::new(OnOffWalk::new(on_off, at, burst)?)),
            Pace::Trace(gaps) => Walker::Trace(Trace::new(gaps, at, burst)),
            Pace::Profile(profile) => {
                Walker::Profile(Box::new(ProfileWalk::new(profile, at, burst)))
            }
        })
    }
}

/// A time in nanoseconds and 2^-32 of them, so that a sum of a million million gaps is exact to a
/// nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time {
    pub(super) ns: u64,
    part: u32,
}

impl Time {
    pub(super) fn new(ns: u64) -> Time {
        Time { ns, part: 0 }
    }

    /// This number of nanoseconds later, saturating; what is negative or no number is none.
    #[inline]
    pub(super) fn add(&mut self, ns: f64) {
        const PARTS: f64 = (1_u64 << 32) as f64;
        if (0.0..1e9).contains(&ns) {
            // The same as below, in one conversion: scaled by a power of two nothing is rounded.
            let parts = (ns * PARTS) as i64 as u64;
            let part = (parts & u64::from(u32::MAX)) + u64::from(self.part);
            self.ns = self.ns.saturating_add(parts >> 32).saturating_add(part >> 32);
            self.part = part as u32;
            return;
        }
        let whole = ns as u64;
        // Beyond the end of time what is left of the whole is more than a part.
        let part = ((ns - whole as f64) * PARTS) as u64;
        let part = part.saturating_add(u64::from(self.part));
        self.ns = self.ns.saturating_add(whole).saturating_add(part >> 32);
        self.part = part as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_gaps_is_exact_to_a_part() {
        // whole numbers of 2^-32 ns: short and long gaps, which take different ways
        let gaps =
            [0.25, 71.428_571_4, 999_999_999.75, 1e9, 1e9 + 0.5, 3.0 * 2f64.powi(40) + 0.125];
        let mut time = Time::new(5);
        let mut exact = 5_u128 << 32;
        for gap in gaps.into_iter().cycle().take(6_000) {
            time.add(gap);
            exact += (gap * 2f64.powi(32)) as u128;
            assert_eq!(
                (time.ns, u128::from(time.part)),
                ((exact >> 32) as u64, exact & 0xffff_ffff)
            );
        }
    }

    #[test]
    fn a_gap_beyond_the_end_of_time_ends_there() {
        // The longest gap that is drawn, of a burst of the most frames.
        for ns in [u64::MAX as f64 * f64::from(u32::MAX), u64::MAX as f64, f64::INFINITY] {
            let mut time = Time::new(1);
            time.add(0.75);
            time.add(ns);
            assert_eq!(time.ns, u64::MAX, "{ns}");
        }
        let mut time = Time::new(1);
        time.add(f64::NAN);
        time.add(-1.0);
        assert_eq!(time, Time::new(1));
    }
}
