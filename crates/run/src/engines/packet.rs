//! How a run uses the engine `packet`.

use wirebeat_engine::clock::MonotonicClock;

use wirebeat_engine::port::{PortError, RxPort, TxPlan, TxPort};
use wirebeat_engine_linux::card::Card;
use wirebeat_engine_linux::packet::{
    Accept, Fanout, Kinds, PacketReceive, PacketRx, PacketTx, PromptRx,
};
use wirebeat_host::Machine;
use wirebeat_meter::observation::Observed;
use wirebeat_traffic::engines::Engine;
use wirebeat_units::Bytes;

use super::probing::{LOOPBACK, MEMORY, plan, reason};
use super::{
    Missing, RxOpening, Transmitter, TxCore, TxOpening, carry, link, on_real_time,
    resting_receiver, resting_transmitter,
};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receivers::{self, IdlePort, Receiver, Receiving};
use crate::sessions::{Carrier, OwnParts};

/// The ring of each of several queues: an eighth of a second, however little comes.
const SHARED_RING: Bytes = Bytes::new(16 << 20);

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        let receive = PacketReceive { ring: MEMORY, ..PacketReceive::default() };
        let sender = PacketTx::open(LOOPBACK, &plan(), None).map_err(|error| reason(&error))?;
        let receiver = PacketRx::open(LOOPBACK, &receive, None).map_err(|error| reason(&error))?;
        Ok(format!("{}; {}", sender.caps().mode, receiver.caps().mode))
    }

    fn is_permitted(&self) -> bool {
        Machine::observe().privileges.net_raw == Some(true)
    }

    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        _opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let interface = &link(port, Engine::Packet)?.name;
        let open = |core: &TxCore| -> Result<Box<dyn Transmitter>, RunError> {
            let card = port.card.get().cloned();
            let card = card.as_deref();
            Ok(on_real_time(port.enter(|| PacketTx::open(interface, &core.plan.tx, card))??))
        };
        cores.iter().map(open).collect()
    }

    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let interface = &link(port, Engine::Packet)?.name;
        let receive = receiving(&how);
        let card = port.card.get().cloned();
        let card = card.as_deref();
        let opened = port.enter(|| open_queues(interface, &receive, (how.queues, card)))??;
        receivers::start(opening, opened, MonotonicClock, how)
    }

    fn open_stack(
        &self,
        port: &ResolvedPort,
        parts: OwnParts,
    ) -> Result<Box<dyn Carrier + Send>, RunError> {
        let interface = &link(port, Engine::Packet)?.name;
        let plan = TxPlan { tags: 1, ..TxPlan::default() };
        let open = || -> Result<_, PortError> {
            let receiver = PromptRx::open_for_core(interface, Accept::All, parts.core())?;
            Ok((PacketTx::open_large(interface, &plan)?, receiver))
        };
        let opened = port.enter(open)??;
        carry(port, parts, opened)
    }

    fn rearm_transmitter(
        &self,
        port: &ResolvedPort,
        _opening: &TxOpening<'_>,
        core: &TxCore,
        resting: &mut dyn Transmitter,
    ) -> Result<bool, RunError> {
        match resting_transmitter::<PacketTx>(resting) {
            Some(resting) if port.card.get().is_none() => {
                Ok(port.enter(|| resting.rearm(&core.plan.tx))??)
            }
            _ => Ok(false),
        }
    }

    fn rearm_receiver(
        &self,
        port: &ResolvedPort,
        idle: &mut [Box<dyn IdlePort>],
        how: &Receiving,
    ) -> Result<bool, RunError> {
        let Some(resting) = resting_receiver::<PacketRx>(idle) else { return Ok(false) };
        let card = port.card.get().cloned();
        let card = card.as_deref();
        let receive = receiving(how);
        Ok(port.enter(|| resting.rearm(&receive, card))??)
    }
}

/// Which frames are taken.
fn receiving(how: &Receiving) -> PacketReceive {
    let accept = if how.promiscuous { Accept::All } else { Accept::Ours };
    let others = how.meter.headers.flows().iter().any(|(headers, _)| !headers.is_udp());
    let all = how.taps.as_ref().is_some_and(|taps| taps.frames() == Observed::All);
    let kinds = if others || all { Kinds::Any } else { Kinds::Probed };
    PacketReceive { accept, kinds, ..PacketReceive::default() }
}

/// Opens so many receive queues of an interface, which divide its frames by flow.
fn open_queues(
    interface: &str,
    receive: &PacketReceive,
    (queues, card): (u16, Option<&Card>),
) -> Result<Vec<PacketRx>, PortError> {
    if queues <= 1 {
        return Ok(vec![PacketRx::open(interface, receive, card)?]);
    }
    let share = |fanout| {
        let receive = PacketReceive { fanout, ring: SHARED_RING, ..*receive };
        PacketRx::open(interface, &receive, card)
    };
    let first = share(Fanout::New)?;
    let group = first.group().unwrap_or(0);
    let others = (1..queues).map(|_| share(Fanout::Join(group)));
    [Ok(first)].into_iter().chain(others).collect()
}
