//! How a run uses the engine `packet`.

use wirebeat_engine::clock::MonotonicClock;
use wirebeat_engine::port::Port;
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketOptions, PacketPort, PacketReceive};
use wirebeat_host::Machine;
use wirebeat_traffic::engines::Engine;

use super::probing::{LOOPBACK, MEMORY, plan, reason};
use super::{Missing, RxOpening, Transmitter, TxCore, TxOpening, link, on_real_time};
use crate::error::RunError;
use crate::ports::PortHere;
use crate::receivers::{self, Receiver, Receiving};

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        let options = PacketOptions {
            interface: LOOPBACK.to_owned(),
            transmit: Some(plan()),
            receive: Some(PacketReceive { ring: MEMORY, ..PacketReceive::default() }),
            card: None,
        };
        let port = PacketPort::open(&options).map_err(|error| reason(&error))?;
        Ok(port.caps().mode.clone())
    }

    fn is_permitted(&self) -> bool {
        Machine::observe().privileges.net_raw == Some(true)
    }

    fn open_transmitters(
        &self,
        port: &PortHere,
        _opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let interface = &link(port, Engine::Packet)?.name;
        let open = |core: &TxCore| -> Result<Box<dyn Transmitter>, RunError> {
            let options = PacketOptions {
                interface: interface.clone(),
                transmit: Some(core.plan.tx),
                receive: None,
                card: port.card.get().cloned(),
            };
            Ok(on_real_time(port.enter(|| PacketPort::open(&options))??))
        };
        cores.iter().map(open).collect()
    }

    fn open_receiver(
        &self,
        port: &PortHere,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let accept = if how.promiscuous { Accept::All } else { Accept::Ours };
        let others = how.meter.headers.flows().iter().any(|(headers, _)| !headers.is_udp());
        let kinds = if others { Kinds::Any } else { Kinds::Probed };
        let options = PacketOptions {
            interface: link(port, Engine::Packet)?.name.clone(),
            transmit: None,
            receive: Some(PacketReceive { accept, kinds, ..PacketReceive::default() }),
            card: port.card.get().cloned(),
        };
        let opened = port.enter(|| PacketPort::open(&options))??;
        receivers::start(opening, opened, MonotonicClock, how)
    }
}
