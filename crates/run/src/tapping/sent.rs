//! Notes what a port sends, when it is known what became of it.
//!
//! A frame is copied when it is handed over, because its memory is the port's from then on, and noted when the port says whether
//! it left. Ports that hold frames until they are due do not come here: they write numbers and times themselves.

use std::collections::VecDeque;
use std::fmt;

use wirebeat_capture::seen::Outcome;
use wirebeat_capture::tap::{Note, Tap};
use wirebeat_engine::clock::Clock;
use wirebeat_engine::port::{
    CardStamps, DepartureRecord, Fate, Interruptions, PortError, Repeat, TxCaps, TxMeta, TxPort,
    TxTotals, View,
};
use wirebeat_meter::departures::Departures;
use wirebeat_units::{FrameLen, Nanos};
use wirebeat_wire::probe::Probe;

/// Where the frames of a sender are noted.
#[derive(Debug)]
pub(crate) struct SentTap {
    pub(crate) tap: Tap,
    /// The number of the sender among those of its port.
    pub(crate) queue: u16,
    /// The flow of each tag.
    pub(crate) flows: Vec<Option<u16>>,
}

/// A frame that was handed over.
#[derive(Debug, Default)]
struct HandedOver {
    at: Nanos,
    due: Option<Nanos>,
    tag: u32,
    /// Bytes of the frame, with FCS, as it is counted.
    frame_len: u32,
    bytes: Vec<u8>,
}

/// A port whose frames are noted.
pub(crate) struct TappedTx<'a, C> {
    port: &'a mut dyn TxPort,
    clock: &'a C,
    caps: TxCaps,
    sent: &'a mut SentTap,
    waiting: VecDeque<HandedOver>,
    /// Memory of frames that were noted.
    spare: Vec<Vec<u8>>,
}

impl<C> fmt::Debug for TappedTx<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TappedTx").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<'a, C: Clock> TappedTx<'a, C> {
    /// Notes what goes through `port`, which is read by `clock`.
    pub(crate) fn new(
        port: &'a mut dyn TxPort,
        clock: &'a C,
        sent: &'a mut SentTap,
    ) -> TappedTx<'a, C> {
        // what lies apart would not be in the slot
        let caps = TxCaps { external: None, repeats: 0, ..port.caps().clone() };
        TappedTx { port, clock, caps, sent, waiting: VecDeque::new(), spare: Vec::new() }
    }

    /// Keeps the frames that are handed over next.
    fn keep(&mut self, metas: &[TxMeta]) {
        let now = self.clock.now();
        for (index, meta) in metas.iter().enumerate() {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            let slot = &self.port.slot(index)[..usize::from(meta.len)];
            bytes.extend_from_slice(slot);
            let due = Some(meta.launch).filter(|launch| *launch != Nanos::ZERO);
            let (tag, frame_len) = (meta.tag, meta.counted.bytes);
            self.waiting.push_back(HandedOver { at: now, due, tag, frame_len, bytes });
        }
    }
}

/// Notes the first of those that wait.
fn note_next(
    (waiting, spare): (&mut VecDeque<HandedOver>, &mut Vec<Vec<u8>>),
    (sent, view): (&mut SentTap, View),
    outcome: Outcome,
) {
    let Some(HandedOver { at, due, tag, frame_len, bytes }) = waiting.pop_front() else { return };
    let probe = Probe::from_tail(&bytes);
    let flow = sent.flows.get(tag as usize).copied().flatten();
    sent.tap.note(&Note {
        outcome,
        at,
        flow,
        sequence: probe.map(|probe| probe.sequence),
        sent: probe.map(|probe| Nanos::new(probe.transmit_ns)),
        due,
        frame_len: match view {
            View::Frame => FrameLen::without_fcs(bytes.len() as u16).get().into(),
            // the system makes the headers
            View::Datagram => frame_len,
        },
        sampled: None,
        queue: sent.queue,
        hash: None,
        bytes: if view == View::Frame { &bytes } else { &[] },
    });
    spare.push(bytes);
}

impl<C> Drop for TappedTx<'_, C> {
    fn drop(&mut self) {
        // nobody knows what became of those that the port does not account for
        while !self.waiting.is_empty() {
            let parts = (&mut self.waiting, &mut self.spare);
            note_next(parts, (self.sent, self.caps.view), Outcome::Failed);
        }
    }
}

impl<C: Clock + Sync> TxPort for TappedTx<'_, C> {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.port.reserve(want)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        self.port.slot(index)
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        self.keep(metas);
        self.port.commit(metas)
    }

    fn done(&self) -> u64 {
        self.port.done()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.sent.tap.pass(self.clock.now());
        self.port.flush()
    }

    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        let TappedTx { port, sent, waiting, spare, caps, .. } = self;
        port.settled(&mut |fate, frames| {
            let outcome = match fate {
                Fate::Sent => Outcome::Sent,
                Fate::Failed => Outcome::Failed,
            };
            for _ in 0..frames {
                note_next((waiting, spare), (sent, caps.view), outcome);
            }
            each(fate, frames);
        });
    }

    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        self.port.drain(deadline)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        self.port.totals(totals);
    }

    fn repeat(&mut self, order: &Repeat) -> Result<(), PortError> {
        self.port.repeat(order)
    }

    fn stop(&mut self) -> Result<(), PortError> {
        self.port.stop()
    }

    fn departures(&self, tag: u32) -> DepartureRecord {
        self.port.departures(tag)
    }

    fn shared_departures(&self) -> Departures {
        self.port.shared_departures()
    }

    fn interruptions(&self) -> Option<Interruptions> {
        self.port.interruptions()
    }

    fn card_stamps(&mut self) -> Option<CardStamps> {
        self.port.card_stamps()
    }
}
