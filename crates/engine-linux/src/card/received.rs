//! When frames arrived by the card's clock, and which it did not stamp.

use wirebeat_engine::port::CardStamps;
use wirebeat_units::Nanos;

use super::{Card, Conversion};

/// Makes times of the stamps of received frames, and counts them.
#[derive(Debug)]
pub(crate) struct Stamped {
    conversion: Conversion,
    stamped: u64,
    unstamped: u64,
}

impl Stamped {
    /// Of frames that `card` receives.
    pub(crate) fn by(card: &Card) -> Stamped {
        Stamped { conversion: card.clock().conversion(), stamped: 0, unstamped: 0 }
    }

    /// Call it before a batch.
    pub(crate) fn refresh(&mut self) {
        self.conversion.refresh();
    }

    /// When a frame arrived, and whether that is by the card's clock; else it is what the system says.
    #[inline]
    pub(crate) fn time(
        &mut self,
        stamp: Option<u64>,
        by_system: impl FnOnce() -> Nanos,
    ) -> (Nanos, bool) {
        match stamp {
            Some(stamp) => {
                self.stamped += 1;
                (self.conversion.convert(stamp), true)
            }
            None => {
                self.unstamped += 1;
                (by_system(), false)
            }
        }
    }

    /// The last frame was so many, joined: all but one have no stamp.
    #[inline]
    pub(crate) fn joined(&mut self, frames: usize) {
        self.unstamped += (frames as u64).saturating_sub(1);
    }

    /// How far times can have been off by conversion.
    pub(crate) fn error(&self) -> Nanos {
        self.conversion.error()
    }

    /// What it made.
    pub(crate) fn stamps(&self) -> CardStamps {
        CardStamps {
            received: self.stamped,
            unstamped: self.unstamped,
            error: self.error(),
            ..CardStamps::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::clock::of_test;

    #[test]
    fn stamps_become_times_and_frames_without_are_counted() {
        let mut frames = Stamped { conversion: of_test(1_000), stamped: 0, unstamped: 0 };
        let at = |ns| Nanos::new(ns);
        assert_eq!(frames.time(Some(5_000), || at(9)), (at(4_000), true));
        assert_eq!(frames.time(None, || at(9)), (at(9), false));
        frames.joined(1);
        frames.joined(3);
        let stamps = frames.stamps();
        assert_eq!((stamps.received, stamps.unstamped), (1, 3));
    }
}
