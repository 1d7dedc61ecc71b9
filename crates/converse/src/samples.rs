//! Rounds of looking at open connections, so that what TCP knows of them is seen while they are open.
//!
//! A round looks at no more than [`SAMPLED_MAX`] connections, spread over all places where sessions lie, and goes some at a time:
//! a look may be a system call, and starts of sessions are not to wait for more than a few. Where rounds leave connections out, the
//! next round begins elsewhere.

use wirebeat_meter::connections::ConnectionGauges;

use crate::conversations::Conversations;
use crate::converse::Converse;
use crate::session::End;
use crate::stack::{Connection, SessionKey, Stack};

/// The most connections that a round looks at, on a core.
pub const SAMPLED_MAX: usize = 1024;
/// Connections that are looked at before others have their turn.
const AT_A_TIME: usize = 16;
/// Places that are tried for one connection: most of them are vacant after a peak.
const TRIES: usize = 8;

/// Where a round stands, and what it has found.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Each of these windows of places gives one connection at most.
    next: usize,
    windows: usize,
    /// How many places a window has.
    stride: usize,
    rounds: usize,
    /// By the number of the side.
    found: Vec<ConnectionGauges>,
}

impl Samples {
    fn begin(&mut self, places: usize, sides: usize) {
        self.stride = places.div_ceil(SAMPLED_MAX).max(1);
        self.windows = places.div_ceil(self.stride);
        self.next = 0;
        self.rounds = self.rounds.wrapping_add(1);
        self.found.clear();
        self.found.resize(sides, ConnectionGauges::default());
    }

    /// An open connection of the next window, with its side: as each round begins elsewhere in its windows, the others have their
    /// turn.
    fn pick(&mut self, programs: &Conversations) -> Option<(usize, Connection)> {
        let first = self.next * self.stride;
        self.next += 1;
        (0..self.stride.min(TRIES)).find_map(|at| {
            let place = first + (self.rounds + at) % self.stride;
            let key = SessionKey(place as u32);
            let side = programs.sessions.side(key)?;
            Some((usize::from(side), programs.sessions.connection(key)?))
        })
    }
}

impl<S: Stack> Converse<S> {
    /// Begins a round.
    pub fn begin_samples(&mut self) {
        self.samples.begin(self.programs.sessions.len(), self.programs.sides.len());
    }

    /// Looks at some more connections. Whether the round is over.
    pub fn sample(&mut self) -> bool {
        for _ in 0..AT_A_TIME {
            if self.samples.next >= self.samples.windows {
                return true;
            }
            let Some((side, connection)) = self.samples.pick(&self.programs) else { continue };
            let Some(sample) = self.stack.look(connection) else { continue };
            if let Some(found) = self.samples.found.get_mut(side) {
                found.add(&sample);
            }
            if let Some(side) = self.programs.sides.get_mut(side) {
                side.meter.counts.retransmitted_segments += sample.retransmitted;
            }
        }
        self.samples.next >= self.samples.windows
    }

    /// What the round found: the number of the group, which end, and its connections. Ends without any are left out.
    pub fn samples(&self) -> Vec<(usize, End, ConnectionGauges)> {
        let sides = self.programs.sides().zip(&self.samples.found);
        sides
            .filter(|(_, found)| found.sampled > 0)
            .map(|((group, end, _), found)| (group, end, *found))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_all_places_and_a_round_is_bounded() {
        let mut samples = Samples::default();
        for places in [0, 1, 1000, SAMPLED_MAX, SAMPLED_MAX + 1, 5_000, 4 << 20] {
            samples.begin(places, 3);
            assert!(samples.windows <= SAMPLED_MAX, "{places}");
            assert!(samples.windows * samples.stride >= places, "{places}");
            assert_eq!(samples.found.len(), 3);
        }
        samples.begin(SAMPLED_MAX, 1);
        assert_eq!((samples.windows, samples.stride), (SAMPLED_MAX, 1), "all are looked at");
    }
}
