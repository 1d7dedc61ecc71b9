//! A port that leads nowhere. A frame is built in its memory and counted as sent when it is handed over; its bytes are
//! overwritten by a later one. Knows neither flows nor clocks.

use wirebeat_engine::port::{Fate, Fates, PortError, TxCaps, TxMeta, TxPlan, TxPort, TxTotals};
use wirebeat_traffic::engines::Engine;
use wirebeat_units::Nanos;

/// Frames that can be reserved at once: as many as the packet engine's ring hands over together.
const BATCH: usize = 256;

/// A port that counts frames and drops them.
#[derive(Debug)]
pub(super) struct NullTx {
    caps: TxCaps,
    /// The slots, one after the other, each of `caps.frame_max` bytes.
    memory: Vec<u8>,
    reserved: usize,
    totals: Vec<TxTotals>,
    fates: Fates,
}

impl NullTx {
    /// A port for frames as `plan` says.
    pub(super) fn open(plan: &TxPlan) -> NullTx {
        let frame_max = plan.frame_max.size();
        NullTx {
            caps: TxCaps::of_frames(
                Engine::Null.name(),
                "frames are counted and dropped".to_owned(),
                frame_max,
                BATCH,
            ),
            memory: vec![0; BATCH * frame_max],
            reserved: 0,
            totals: vec![TxTotals::default(); plan.tags as usize],
            fates: Fates::default(),
        }
    }
}

impl TxPort for NullTx {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.reserved = self.reserved.max(want.min(BATCH));
        Ok(self.reserved)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.reserved, "slot {index} is not reserved");
        let begin = index * self.caps.frame_max;
        &mut self.memory[begin..begin + self.caps.frame_max]
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        assert!(metas.len() <= self.reserved, "more frames committed than reserved");
        for meta in metas {
            let fits = usize::from(meta.len) <= self.caps.frame_max;
            if let Some(totals) = self.totals.get_mut(meta.tag as usize) {
                if fits { &mut totals.sent } else { &mut totals.failed }.add(meta.counted);
            }
            self.fates.push(if fits { Fate::Sent } else { Fate::Failed }, 1);
        }
        // those that stay reserved are at index 0 from now on
        let stay = metas.len() * self.caps.frame_max..self.reserved * self.caps.frame_max;
        self.memory.copy_within(stay, 0);
        self.reserved -= metas.len();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.fates.take(each);
    }

    fn drain(&mut self, _deadline: Nanos) -> Result<bool, PortError> {
        Ok(true)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        for (total, mine) in totals.iter_mut().zip(&self.totals) {
            *total += *mine;
        }
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_engine::port::Counted;
    use wirebeat_units::{BufferLen, FrameLen};

    use super::*;

    fn meta(len: u16) -> TxMeta {
        let counted = Counted::frame(FrameLen::without_fcs(len), 0);
        TxMeta { len, counted, ..TxMeta::default() }
    }

    #[test]
    fn what_is_committed_is_counted_and_the_rest_stays_reserved() {
        let mut port =
            NullTx::open(&TxPlan { tags: 1, frame_max: BufferLen::MIN, ..TxPlan::default() });
        assert_eq!(port.reserve(3).unwrap(), 3);
        port.slot(2).fill(7);
        port.commit(&[meta(60), meta(61)]).unwrap();
        assert!(port.slot(0).iter().all(|byte| *byte == 7));
        let mut totals = [TxTotals::default()];
        port.totals(&mut totals);
        assert_eq!((totals[0].sent.frames, totals[0].sent.bytes), (1, 64));
        assert_eq!(totals[0].failed.frames, 1);
        let mut fates = Vec::new();
        port.settled(&mut |fate, frames| fates.push((fate, frames)));
        assert_eq!(fates, [(Fate::Sent, 1), (Fate::Failed, 1)]);
    }
}
