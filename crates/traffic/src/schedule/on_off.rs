//! Bursts with pauses between them. Within a burst frames leave as another pace says, which may itself be
//! on and off.

use wirebeat_units::Nanos;

use super::walk::Walker;
use crate::program::pace::{self, Pause};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct OnOffWalk {
    within: Walker,
    pace: pace::OnOff,
    /// Which burst this is.
    n: u64,
    begin: u64,
    end: u64,
}

impl OnOffWalk {
    /// `None` where nothing leaves within bursts.
    pub(super) fn new(pace: &pace::OnOff, at: u64, burst: u64) -> Option<OnOffWalk> {
        let within = Walker::new(&pace.within, Nanos::new(at), burst)?;
        let mut on_off = OnOffWalk { within, pace: pace.clone(), n: 0, begin: 0, end: 0 };
        on_off.begin_at(at);
        on_off.settle();
        Some(on_off)
    }

    /// A burst lasts long enough for its first frame.
    fn begin_at(&mut self, at: u64) {
        self.begin = at;
        self.end = at.saturating_add(self.pace.on.nanos(self.n).max(1));
        self.n += 1;
    }

    #[inline]
    pub(super) fn at(&self) -> u64 {
        self.within.at()
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.within.advance();
        self.settle();
    }

    /// To the burst in which the next frame leaves. A jittered first frame may be due after a short burst: then
    /// that burst has none. The compiler sees to it that not many are passed over.
    fn settle(&mut self) {
        while self.within.at() >= self.end && self.begin < u64::MAX {
            let number = self.n - 1;
            let next = match &self.pace.pause {
                Pause::After(off) => self.end.saturating_add(off.nanos(number)),
                Pause::Every(every) => self.begin.saturating_add(every.nanos(number)).max(self.end),
            };
            self.begin_at(next);
            self.within.restart(next);
        }
    }

    pub(super) fn restart(&mut self, at: u64) {
        self.begin_at(at);
        self.within.restart(at);
        self.settle();
    }
}
