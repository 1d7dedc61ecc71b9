//! What the thread of a receive queue does with each frame beside metering it.

use wirebeat_capture::seen::Outcome;
use wirebeat_capture::tap::{Note, Tap};
use wirebeat_engine::budget::RunClock;
use wirebeat_engine::collect::ArrivalTap;
use wirebeat_engine::port::{Arrival, View};
use wirebeat_meter::observation::Judged;
use wirebeat_units::Nanos;
use wirebeat_wire::datagram;

/// After so many frames a receiver looks whether it has to rest.
const REST: u32 = 64;

/// Those who see each frame of a queue, beside its meter.
pub(crate) struct QueueTaps {
    rest: RunClock,
    taken: u32,
    /// Where its frames are noted, and the number of the queue.
    pub(crate) tap: Option<(Tap, u16)>,
    /// Where what arrives begins.
    view: View,
    /// Headers that were made for a datagram, and its first bytes.
    made: Vec<u8>,
}

impl QueueTaps {
    pub(crate) fn new(rest: RunClock, tap: Option<(Tap, u16)>, view: View) -> QueueTaps {
        QueueTaps { rest, taken: 0, tap, view, made: Vec::new() }
    }
}

impl ArrivalTap for QueueTaps {
    #[inline]
    fn arrived(&mut self, arrival: &Arrival<'_>, judged: &Judged) {
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(REST) {
            self.rest.rest();
        }
        if let Some((tap, queue)) = &mut self.tap {
            let bytes = match self.view {
                View::Frame => arrival.bytes,
                View::Datagram => {
                    as_frame(arrival, tap.snap_len(), &mut self.made);
                    &self.made
                }
            };
            tap.note(&Note { bytes, ..note(arrival, judged, *queue) });
        }
    }

    fn pass(&mut self, now: Nanos) {
        if let Some((tap, _)) = &mut self.tap {
            tap.pass(now);
        }
    }
}

/// Makes of a datagram the first bytes of a frame with the headers that its ends say, `most` of them or somewhat more; none
/// where nobody asked for its ends.
fn as_frame(arrival: &Arrival<'_>, most: usize, into: &mut Vec<u8>) {
    into.clear();
    let Some(ends) = arrival.ends else { return };
    datagram::append_headers(ends.source, ends.destination, arrival.bytes.len(), into);
    if !into.is_empty() {
        into.extend_from_slice(arrival.bytes.get(..most).unwrap_or(arrival.bytes));
    }
}

/// What arrived, for those who keep it.
#[inline]
fn note<'a>(arrival: &Arrival<'a>, judged: &Judged, queue: u16) -> Note<'a> {
    Note {
        outcome: Outcome::Received(judged.standing),
        at: arrival.at,
        flow: judged.flow,
        sequence: judged.sequence,
        sent: judged.sent,
        due: None,
        frame_len: arrival.frame_len,
        sampled: judged.sampled,
        queue,
        hash: arrival.hash,
        bytes: arrival.bytes,
    }
}
