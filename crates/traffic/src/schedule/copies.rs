//! When copies of a capture start: the deadlines of a flow that has a frame for each.

use wirebeat_units::Nanos;

use super::{Schedule, Shard};
use crate::program::Copies;

impl Copies {
    /// The starts of all copies, in the order of time, from the start of the flow.
    pub fn starts(&self) -> impl Iterator<Item = Nanos> + use<> {
        Schedule::new(&self.starts, &[0], Shard::WHOLE).map(|departure| departure.at)
    }
}
