//! How a run uses the engine `socket`: the system makes the headers, so that it needs the ends of each flow.

use std::net::{Ipv4Addr, SocketAddr};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{PortError, RxPort, TxMeta, TxPlan, TxPort};
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Gro, Joining, SocketReceive, SocketRx, SocketTransmit, SocketTx,
};
use wirebeat_meter::meter::Flows;
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_units::{BufferLen, Nanos, fault};

use super::probing::{MEMORY, PAYLOAD, plan, reason};
use super::{
    Missing, RxOpening, Transmitter, TxCore, TxOpening, on_real_time, resting_receiver,
    resting_transmitter, without_ethernet,
};
use crate::damage::DamageWatch;
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receivers::{self, IdlePort, Receiver, Receiving};
use crate::tapping::PortTaps;

/// How long a datagram may take over loopback; it takes microseconds.
const PATIENCE: Nanos = Nanos::from_millis(500);

pub(super) struct Driver;

impl super::Driver for Driver {
    /// Sends a datagram to itself over loopback, so that timestamps are tried too.
    fn probe(&self) -> Result<String, Missing> {
        let receive = SocketReceive {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            buffer: MEMORY,
            ..SocketReceive::default()
        };
        let failed = |error: PortError| reason(&error);
        let mut receiver = SocketRx::open(None, &receive, None).map_err(failed)?;
        let destination = receiver.addresses().next().ok_or("it listens nowhere")?;
        let mut sender = SocketTx::open(None, &to_itself(destination), None).map_err(failed)?;
        let sent_at = MonotonicClock.now();
        send(&mut sender).map_err(failed)?;
        let mut arrived = None;
        receiver
            .receive(sent_at.saturating_add(PATIENCE), |arrival| arrived = Some(arrival.at))
            .map_err(failed)?;
        match arrived {
            Some(at) if at >= sent_at => {
                Ok(format!("{}; {}", sender.caps().mode, receiver.caps().mode))
            }
            Some(_) => Err(fault!(
                "a datagram over loopback was stamped before it was sent";
                "the system clock is being set, try again"
            )
            .into()),
            None => Err(fault!(
                "a datagram over loopback did not arrive"; "is a firewall in the way?"
            )
            .into()),
        }
    }

    /// It sends what the system makes headers for.
    fn check_flows(
        &self,
        port: &ResolvedPort,
        program: &Program,
        flows: &[u32],
    ) -> Result<(), RunError> {
        let flows = flows.iter().filter_map(|&flow| program.flows.get(flow as usize));
        let Some(flow) = flows.into_iter().find(|flow| flow.endpoint.is_none()) else {
            return Ok(());
        };
        let hint = match without_ethernet(port) {
            Some(why) => {
                format!("{why}, so that the engines 'packet' and 'kernel' cannot send it either")
            }
            None => "use the engine 'packet' or 'kernel'".to_owned(),
        };
        Err(RunError::usage(format!(
            "flow '{}' cannot be sent by the engine 'socket' of port '{}': the system makes the headers there, and these \
             are not plain UDP over IP with fields that stay the same",
            flow.name, port.name
        ))
        .hint(hint))
    }

    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let open = |core: &TxCore| -> Result<Box<dyn Transmitter>, RunError> {
            let transmit = sending(opening, core);
            let (interface, card) = (interface(port), port.card.get().cloned());
            let open = || SocketTx::open(interface.as_deref(), &transmit, card.as_deref());
            Ok(on_real_time(port.enter(open)??))
        };
        cores.iter().map(open).collect()
    }

    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let card = port.card.get().cloned();
        let receive = receiving(&how, card.is_some());
        let interface = interface(port);
        let open = || SocketRx::open(interface.as_deref(), &receive, card.as_deref());
        let opened = port.enter(open)??;
        let damage = DamageWatch::of(port)?;
        Ok(receivers::start(opening, vec![opened], MonotonicClock, how)?.watched(damage))
    }

    fn rearm_transmitter(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        core: &TxCore,
        resting: &mut dyn Transmitter,
    ) -> Result<bool, RunError> {
        match resting_transmitter::<SocketTx>(resting) {
            Some(resting) if port.card.get().is_none() => {
                let (transmit, interface) = (sending(opening, core), interface(port));
                Ok(port.enter(|| resting.rearm(interface.as_deref(), &transmit))??)
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
        let Some(resting) = resting_receiver::<SocketRx>(idle) else { return Ok(false) };
        let card = port.card.get().cloned();
        let (receive, interface) = (receiving(how, card.is_some()), interface(port));
        Ok(port.enter(|| resting.rearm(interface.as_deref(), &receive, card.as_deref()))??)
    }
}

/// What is listened for.
fn receiving(how: &Receiving, by_card: bool) -> SocketReceive {
    // of flows that were not announced, some are told apart by their ends only
    let by_ends = matches!(how.meter.flows, Flows::Any(_)) && how.meter.codecs.by_ends();
    let ends = by_ends || how.taps.as_ref().is_some_and(PortTaps::wants_ends);
    // joined datagrams have one stamp
    let gro = if by_card { Gro::Off } else { Gro::On };
    SocketReceive { listen: how.listen.clone(), ends, gro, ..SocketReceive::default() }
}

/// A sender of one datagram over loopback.
fn to_itself(destination: SocketAddr) -> SocketTransmit {
    let endpoint = Endpoint {
        source: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        destination,
        ttl: 1,
        tos: 0,
        checksum: Checksum::Sent,
    };
    SocketTransmit { plan: plan(), endpoints: vec![Some(endpoint)], joining: Joining::default() }
}

fn send(port: &mut SocketTx) -> Result<(), PortError> {
    port.reserve(1)?;
    port.slot(0)[..usize::from(PAYLOAD)].fill(0);
    port.commit(&[TxMeta { len: PAYLOAD, ..TxMeta::default() }])?;
    port.flush()
}

fn sending(opening: &TxOpening<'_>, core: &TxCore) -> SocketTransmit {
    let TxOpening { program, room, .. } = *opening;
    let flows = &core.flows;
    // lengths are those of payloads here
    let images = || program.streams_of(flows).map(|stream| stream.frames.datagram());
    let frame_max = images().map(|image| image.longest()).max().unwrap_or_default();
    let fixed = images().all(|image| image.fixed_len() == Some(frame_max));
    let frame_len = fixed.then_some(frame_max).filter(|_| room.is_none());
    let frame_max = frame_max.max(BufferLen::new(room.unwrap_or(0).into()));
    SocketTransmit {
        plan: TxPlan { frame_max, frame_len, ..core.plan.tx },
        endpoints: (0..program.tags())
            .map(|tag| {
                let flow = program.flow_of(tag);
                let flow = flows.contains(&flow).then(|| program.flows.get(flow as usize));
                flow.flatten().and_then(endpoint)
            })
            .collect(),
        joining: Joining::WhereSizesAllow,
    }
}

fn endpoint(flow: &Flow) -> Option<Endpoint> {
    let endpoint = flow.endpoint?;
    Some(Endpoint {
        source: endpoint.source,
        destination: endpoint.destination,
        ttl: endpoint.ttl,
        tos: endpoint.tos,
        checksum: if endpoint.checksum { Checksum::Sent } else { Checksum::Omitted },
    })
}

/// The interface of a port's sockets. One that was not asked for is left to the routes, unless its card stamps.
fn interface(port: &ResolvedPort) -> Option<String> {
    let stamps = port.card.get().and(port.link.as_ref()).map(|link| link.name.clone());
    port.spec.interface.clone().or(stamps)
}
