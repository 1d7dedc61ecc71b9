//! What the thread of a receive queue does with each frame beside metering it.

use wirebeat_capture::seen::Outcome;
use wirebeat_capture::tap::{Note, Tap};
use wirebeat_engine::budget::RunClock;
use wirebeat_engine::collect::ArrivalTap;
use wirebeat_engine::port::Arrival;
use wirebeat_meter::observation::Judged;
use wirebeat_units::Nanos;

use crate::packet_log::PacketLog;

/// After so many frames a receiver looks whether it has to rest.
const REST: u32 = 64;

/// Those who see each frame of a queue, beside its meter.
pub(crate) struct QueueTaps {
    rest: RunClock,
    taken: u32,
    pub(crate) log: Option<PacketLog>,
    /// Where its frames are noted, and the number of the queue.
    pub(crate) tap: Option<(Tap, u16)>,
    /// Whether what arrives begins at the Ethernet header: of a datagram there are no bytes of a frame.
    of_frames: bool,
}

impl QueueTaps {
    pub(crate) fn new(
        rest: RunClock,
        log: Option<PacketLog>,
        tap: Option<(Tap, u16)>,
        of_frames: bool,
    ) -> QueueTaps {
        QueueTaps { rest, taken: 0, log, tap, of_frames }
    }
}

impl ArrivalTap for QueueTaps {
    #[inline]
    fn arrived(&mut self, arrival: &Arrival<'_>, judged: &Judged) {
        self.taken = self.taken.wrapping_add(1);
        if self.taken.is_multiple_of(REST) {
            self.rest.rest();
        }
        if let Some(log) = &mut self.log {
            log.record(arrival.at, arrival.bytes);
        }
        if let Some((tap, queue)) = &mut self.tap {
            let bytes = if self.of_frames { arrival.bytes } else { &[] };
            tap.note(&Note { bytes, ..note(arrival, judged, *queue) });
        }
    }

    fn pass(&mut self, now: Nanos) {
        if let Some((tap, _)) = &mut self.tap {
            tap.pass(now);
        }
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
        bytes: arrival.bytes,
    }
}
