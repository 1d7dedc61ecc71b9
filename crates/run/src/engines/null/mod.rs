//! The engine `null`: frames are made when they are due, counted, and dropped. It measures what Wirebeat costs without I/O: the
//! transmit loop, the waiting and the making of frames. The port is in `port.rs`; here is how a run opens it.

mod port;

use super::{Missing, Transmitter, TxCore, TxOpening, on_real_time};
use crate::error::RunError;
use crate::ports::ResolvedPort;

use port::NullTx;

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        Ok("frames are made, counted and dropped".to_owned())
    }

    fn open_transmitters(
        &self,
        _port: &ResolvedPort,
        _opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        Ok(cores.iter().map(|core| on_real_time(NullTx::open(&core.plan.tx))).collect())
    }
}
