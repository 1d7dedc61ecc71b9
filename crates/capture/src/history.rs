//! What came before a frame in its flow: how long ago, and which numbers are missing.
//!
//! Flows are told apart by interface and number. Memory: 24 bytes for each flow number up to the highest that was seen, on
//! each interface that it was seen on; 1.5 MiB for an interface at most.

use wirebeat_meter::observation::Standing;
use wirebeat_units::Nanos;

use crate::seen::{Outcome, Seen};

/// What is known of a frame from those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// From the frame of its flow before it; `None` of the first one.
    pub gap: Option<Nanos>,
    /// Sequence numbers right before its own that have not arrived so far. Some may still come, reordered; where the capture
    /// itself lost frames, they count as missing. 0 of a frame that was sent.
    pub missing: u32,
}

/// The flows that were seen.
#[derive(Debug, Default)]
pub struct Histories {
    interfaces: Vec<Vec<History>>,
}

/// A flow on an interface.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    last: Option<Nanos>,
    /// The number after the highest.
    next: Option<u32>,
}

impl Histories {
    /// Takes note of a frame, and says what came before it.
    #[inline]
    pub fn next(&mut self, seen: &Seen<'_>) -> Before {
        let Some(flow) = seen.flow else { return Before::default() };
        let (interface, flow) = (usize::from(seen.interface), usize::from(flow));
        let Some(history) = self.interfaces.get_mut(interface).and_then(|all| all.get_mut(flow))
        else {
            self.grow(interface, flow);
            return self.next(seen);
        };
        let gap = history.last.replace(seen.at).map(|last| seen.at.saturating_sub(last));
        // others do not say where a flow is: they are behind, or not believed
        let leads = seen.outcome == Outcome::Received(Standing::New);
        let missing = match (seen.sequence, history.next) {
            (Some(sequence), next) if leads => {
                history.next = Some(sequence.wrapping_add(1));
                // numbers go round; one that seems to lie behind begins anew
                let ahead = next.map_or(0, |next| sequence.wrapping_sub(next));
                if ahead.cast_signed() > 0 { ahead } else { 0 }
            }
            _ => 0,
        };
        Before { gap, missing }
    }

    #[cold]
    fn grow(&mut self, interface: usize, flow: usize) {
        if self.interfaces.len() <= interface {
            self.interfaces.resize_with(interface + 1, Vec::new);
        }
        if let Some(flows) = self.interfaces.get_mut(interface) {
            flows.resize(flow + 1, History::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::tests::frame;

    #[test]
    fn numbers_are_missing_before_the_frame_that_skips_them() {
        let mut histories = Histories::default();
        let mut next = |at, sequence, standing| {
            let seen = frame(&[]);
            histories.next(&Seen {
                at: Nanos::new(at),
                sequence: Some(sequence),
                outcome: Outcome::Received(standing),
                ..seen
            })
        };
        let before = |gap: u64, missing| Before { gap: Some(Nanos::new(gap)), missing };
        assert_eq!(next(100, u32::MAX - 1, Standing::New), Before::default());
        assert_eq!(next(150, u32::MAX, Standing::New), before(50, 0));
        // two were skipped where numbers go round
        assert_eq!(next(160, 2, Standing::New), before(10, 2));
        assert_eq!(next(161, 0, Standing::Reordered), before(1, 0));
        assert_eq!(next(161, 900, Standing::Doubtful), before(0, 0));
        assert_eq!(next(163, 4, Standing::New), before(2, 1));
    }

    #[test]
    fn flows_and_interfaces_are_apart() {
        let mut histories = Histories::default();
        for (interface, flow) in [(0, 65_535), (3, 0), (0, 1)] {
            let seen = Seen { interface, flow: Some(flow), ..frame(&[]) };
            assert_eq!(histories.next(&seen).gap, None);
            assert_eq!(histories.next(&seen).gap, Some(Nanos::ZERO));
        }
        assert_eq!(histories.next(&Seen { flow: None, ..frame(&[]) }), Before::default());
    }
}
