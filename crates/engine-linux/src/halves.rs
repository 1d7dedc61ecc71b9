//! What ports on sockets share: two halves, one that sends from slots and one that receives, and
//! either may be missing.
//!
//! The engines differ in the halves, and in nothing that [`Port`](wirebeat_engine::port::Port) asks of
//! the whole: [`port_of_halves`] answers it by handing each call to the half that it concerns. Knows no
//! sockets and no frames.

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::PortError;
use wirebeat_units::Nanos;

use crate::slots::Slots;

/// How often a full port is tried again while it drains.
const RETRY: Nanos = Nanos::from_micros(50);

/// A half that sends what lies in slots.
pub(crate) trait Transmit {
    /// The slots.
    fn slots(&mut self) -> &mut Slots;

    /// [`wirebeat_engine::port::Port::flush`].
    fn flush(&mut self) -> Result<(), PortError>;

    /// [`wirebeat_engine::port::Port::drain`]. What cannot be sent by the deadline has failed.
    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        loop {
            self.flush()?;
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

/// Makes a port of a struct with the fields `caps`, `transmitter` and `receiver`, the latter two
/// optional. The transmitter implements [`Transmit`] and has the field `slots`.
macro_rules! port_of_halves {
    ($port:ty) => {
        impl $port {
            /// How often the system had no room for a frame, so that it had to wait.
            pub fn stalls(&self) -> u64 {
                self.transmitter.as_ref().map_or(0, Transmitter::stalls)
            }

            /// How far the times of arrivals can be off, beside what the kernel took to stamp them;
            /// `None` for a port that does not receive.
            pub fn timestamp_error(&self) -> Option<Nanos> {
                self.receiver.as_ref().map(Receiver::timestamp_error)
            }

            fn transmitter(&mut self) -> Result<&mut Transmitter, PortError> {
                self.transmitter.as_mut().ok_or_else(|| PortError::Unsupported {
                    engine: ENGINE,
                    what: "send: the port was opened to receive only".to_owned(),
                })
            }
        }

        impl Port for $port {
            fn caps(&self) -> &Caps {
                &self.caps
            }

            fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
                Ok(self.transmitter()?.slots.reserve(want))
            }

            fn slot(&mut self, index: usize) -> &mut [u8] {
                match &mut self.transmitter {
                    Some(transmitter) => transmitter.slots.slot(index),
                    None => unreachable!("nothing is reserved in a port that only receives"),
                }
            }

            fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
                self.transmitter()?.commit(metas)
            }

            fn flush(&mut self) -> Result<(), PortError> {
                self.transmitter.as_mut().map_or(Ok(()), Transmit::flush)
            }

            fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
                if let Some(transmitter) = &mut self.transmitter {
                    transmitter.slots.settled(each);
                }
            }

            fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
                self.transmitter.as_mut().map_or(Ok(true), |half| half.drain(deadline))
            }

            fn totals(&self, totals: &mut [TxTotals]) {
                if let Some(transmitter) = &self.transmitter {
                    transmitter.slots.totals(totals);
                }
            }

            fn stop(&mut self) -> Result<(), PortError> {
                if let Some(transmitter) = &mut self.transmitter {
                    transmitter.slots.withdraw_all();
                }
                Ok(())
            }

            fn receive<F>(&mut self, until: Nanos, sink: F) -> Result<usize, PortError>
            where
                F: FnMut(&Arrival<'_>),
            {
                match &mut self.receiver {
                    Some(receiver) => receiver.receive(until, sink),
                    None => Err(PortError::Unsupported {
                        engine: ENGINE,
                        what: "receive: the port was opened to send only".to_owned(),
                    }),
                }
            }

            fn answer(&mut self, answer: &Answer) -> bool {
                self.receiver.as_mut().is_some_and(|half| half.answer(answer))
            }

            fn card_stamps(&mut self) -> Option<CardStamps> {
                let sent = self.transmitter.as_mut().and_then(Transmitter::card_stamps);
                let received = self.receiver.as_ref().and_then(Receiver::card_stamps);
                match (sent, received) {
                    (Some(mut all), Some(received)) => {
                        all.merge(&received);
                        Some(all)
                    }
                    (sent, received) => sent.or(received),
                }
            }

            fn receive_drops(&self) -> u64 {
                self.receiver.as_ref().map_or(0, Receiver::drops)
            }
        }
    };
}
pub(crate) use port_of_halves;
