//! About the times of a constant rate: what one departure is late, the next is not.

use wirebeat_units::Nanos;

use super::constant::Constant;
use crate::distribution::draw::Key;
use crate::program::pace;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct JitteredWalk {
    /// The times at the rate.
    regular: Constant,
    reach: f64,
    key: Key,
    /// Which draw is next.
    n: u64,
    at: u64,
}

impl JitteredWalk {
    pub(super) fn new(pace: &pace::Jittered, start: Nanos, burst: u64) -> JitteredWalk {
        let regular = Constant::new(pace.rate, start, 0, burst);
        let mut jittered = JitteredWalk { regular, reach: pace.reach, key: pace.key, n: 0, at: 0 };
        jittered.set();
        jittered
    }

    /// The first departure may be as early as the start, so all of them are `reach` later. Where the reach is
    /// more than half a gap, one may come due before the last: it leaves together with it.
    fn set(&mut self) {
        let late = 2.0 * self.reach * self.key.draw(self.n).unit();
        self.at = self.at.max(self.regular.at().saturating_add(late as u64));
        self.n += 1;
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.regular.advance();
        self.set();
    }

    pub(super) fn restart(&mut self, at: u64) {
        self.regular.restart(at);
        self.at = at;
        self.set();
    }
}
