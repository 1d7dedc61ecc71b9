//! What transmitters on sockets share: they send what lies in [`Slots`], whose answers are those of the port. Knows no sockets
//! and no frames.

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{CardStamps, PortError, TxMeta};
use wirebeat_units::Nanos;

use crate::slots::Slots;

/// How often a full port is tried again while it drains.
const RETRY: Nanos = Nanos::from_micros(50);

/// A transmitter that sends what lies in slots.
pub(crate) trait SlotPort {
    /// The slots.
    fn slots(&mut self) -> &mut Slots;

    /// That these frames may be committed, which are the first of those reserved.
    fn check(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        let _ = metas;
        Ok(())
    }

    /// [`wirebeat_engine::port::TxPort::card_stamps`].
    fn stamps_of_card(&mut self) -> Option<CardStamps>;

    /// [`wirebeat_engine::port::TxPort::flush`].
    fn send_slots(&mut self) -> Result<(), PortError>;

    /// [`wirebeat_engine::port::TxPort::drain`]. What cannot be sent by the deadline has failed.
    fn send_all(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        loop {
            self.send_slots()?;
            let now = MonotonicClock.now();
            if self.slots().is_empty() {
                return Ok(true);
            }
            if now >= deadline {
                self.slots().fail_all();
                return Ok(false);
            }
            MonotonicClock.sleep_until(now.saturating_add(RETRY).min(deadline));
        }
    }
}

/// Makes a [`TxPort`](wirebeat_engine::port::TxPort) of a [`SlotPort`] with the fields `caps` and `slots`.
macro_rules! tx_port_of_slots {
    ($port:ty) => {
        impl wirebeat_engine::port::TxPort for $port {
            fn caps(&self) -> &wirebeat_engine::port::TxCaps {
                &self.caps
            }

            fn reserve(&mut self, want: usize) -> Result<usize, wirebeat_engine::port::PortError> {
                Ok(self.slots.reserve(want))
            }

            fn slot(&mut self, index: usize) -> &mut [u8] {
                self.slots.slot(index)
            }

            fn commit(
                &mut self,
                metas: &[wirebeat_engine::port::TxMeta],
            ) -> Result<(), wirebeat_engine::port::PortError> {
                self.check(metas)?;
                self.slots.commit(ENGINE, metas)
            }

            fn flush(&mut self) -> Result<(), wirebeat_engine::port::PortError> {
                self.send_slots()
            }

            fn settled(&mut self, each: &mut dyn FnMut(wirebeat_engine::port::Fate, usize)) {
                self.slots.settled(each);
            }

            fn drain(
                &mut self,
                deadline: wirebeat_units::Nanos,
            ) -> Result<bool, wirebeat_engine::port::PortError> {
                self.send_all(deadline)
            }

            fn totals(&self, totals: &mut [wirebeat_engine::port::TxTotals]) {
                self.slots.totals(totals);
            }

            fn stop(&mut self) -> Result<(), wirebeat_engine::port::PortError> {
                self.slots.withdraw_all();
                Ok(())
            }

            fn card_stamps(&mut self) -> Option<wirebeat_engine::port::CardStamps> {
                self.stamps_of_card()
            }
        }
    };
}
pub(crate) use tx_port_of_slots;
