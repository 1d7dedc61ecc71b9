//! How a run uses the engine `pcap`: it only writes, and on a clock of its own.

use wirebeat_engine::pcap::{PcapOptions, PcapTx};
use wirebeat_traffic::program::Program;
use wirebeat_units::Nanos;

use super::{Missing, Transmitter, TxCore, TxOpening, check_end, on_virtual_time};
use crate::error::RunError;
use crate::ports::ResolvedPort;

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        Ok("writes captures, with deadlines as timestamps".to_owned())
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
        let Some(file) = &port.spec.file else {
            return Err(RunError::usage(format!(
                "port '{}' writes a capture and has no file",
                port.name
            ))
            .hint("give it one, for example 'file: run.pcapng'"));
        };
        let path = opening.options.path(file);
        let open = |core: &TxCore| -> Result<Box<dyn Transmitter>, RunError> {
            let how = PcapOptions { plan: core.plan.tx, epoch: Nanos::ZERO };
            Ok(on_virtual_time(PcapTx::create(&path, &how)?))
        };
        cores.iter().map(open).collect()
    }
}
