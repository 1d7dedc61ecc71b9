//! How a run uses the engine `loopback`: flows between two of its ports join them in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use wirebeat_engine::loopback::{self, LoopbackRx, LoopbackTx, VirtualClock};
use wirebeat_traffic::program::Program;

use super::{Missing, RxOpening, Transmitter, TxCore, TxOpening, check_end, on_virtual_time};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receivers::{self, Receiver, Receiving};

/// The links in memory of a run, and their clock. Each side of an end is taken by the port that opens it.
#[derive(Debug, Default)]
pub(crate) struct InMemory {
    /// The clock of all ports on a virtual one.
    pub(crate) clock: VirtualClock,
    ends: Mutex<HashMap<String, End>>,
}

/// What is not taken of an end.
#[derive(Debug)]
struct End {
    tx: Option<LoopbackTx>,
    rx: Option<LoopbackRx>,
}

impl InMemory {
    /// Joins the ports of each pair, the first pair of a port first; `way` says what happens in between.
    pub(crate) fn join<'a>(
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
        way: loopback::Link,
    ) -> InMemory {
        let clock = VirtualClock::default();
        let mut ends = HashMap::new();
        for (from, to) in pairs {
            if ends.contains_key(from) || ends.contains_key(to) || from == to {
                continue;
            }
            let (there, back) = loopback::pair(&clock, way);
            for (name, port) in [(from, there), (to, back)] {
                ends.insert(name.to_owned(), End { tx: Some(port.tx), rx: Some(port.rx) });
            }
        }
        InMemory { clock, ends: Mutex::new(ends) }
    }

    fn take<T>(&self, port: &ResolvedPort, side: fn(&mut End) -> Option<T>) -> Option<T> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get_mut(&port.name).and_then(side)
    }
}

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        Ok("in memory, on a virtual clock".to_owned())
    }

    fn check_flows(
        &self,
        port: &ResolvedPort,
        program: &Program,
        flows: &[u32],
    ) -> Result<(), RunError> {
        check_end(port, program, flows)
    }

    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let open = |_: &TxCore| -> Result<Box<dyn Transmitter>, RunError> {
            let end = opening.in_memory.take(port, |end| end.tx.take()).ok_or_else(|| {
                RunError::usage(format!(
                    "port '{}' has no other end: a scenario in memory needs flows between two ports of the engine \
                     'loopback'",
                    port.name
                ))
            })?;
            Ok(on_virtual_time(end))
        };
        cores.iter().map(open).collect()
    }

    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let end = opening.in_memory.take(port, |end| end.rx.take()).ok_or_else(|| {
            RunError::usage(format!(
                "port '{}' of the engine 'loopback' can be one end of one link only",
                port.name
            ))
        })?;
        receivers::start(opening, vec![end], opening.in_memory.clock.of_onlooker(), how)
    }
}
