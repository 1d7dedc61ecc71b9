//! How a run uses the engine `xdp`: a socket for each sender, on a transmit queue of its own, and one for each receive queue of
//! the card. A port that sends and receives by one queue opens it once, for both, and keeps it for the runs of a lab.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use wirebeat_engine::clock::MonotonicClock;
use wirebeat_engine::port::PortError;
use wirebeat_engine_linux::card::{Card, SharedCard, Wanted};
use wirebeat_engine_linux::kernel::KernelReceiver;
use wirebeat_engine_linux::promiscuous::Promiscuous;
use wirebeat_engine_linux::xdp::{
    self, Backlog, CardOrders, KnownOfFrames, SteerOptions, Steering, XdpCopy, XdpOptions,
    XdpQueue, XdpRx, XdpTx,
};
use wirebeat_netlink::{XdpFeatures, XdpMode, XdpOffer};
use wirebeat_traffic::engines::Engine;
use wirebeat_traffic::scenario::{PortSpec, XdpModeChoice};
use wirebeat_units::{fault, human};

use super::probing::reason;
use super::{
    Missing, RxOpening, Transmitter, TxCore, TxOpening, link, on_real_time, resting_receivers,
    resting_transmitter,
};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::queues::number_of_sender;
use crate::receivers::{self, IdlePort, Receiver, Receiving};

pub(super) struct Driver;

/// What a port has opened.
#[derive(Default)]
struct Opened {
    /// Queues by their number. Their halves are taken by what sends and receives, and come back.
    queues: BTreeMap<u32, XdpQueue>,
    /// The card whose clock launch times are of, where it does not stamp frames.
    card: Option<SharedCard>,
}

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        xdp::probe().map_err(|error| reason(&error))?;
        Ok("AF_XDP sockets; without a copy where a driver offers that; 'receive' keeps fragments of UDP from the host's programs"
            .to_owned())
    }

    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        _opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let on = &link(port, Engine::Xdp)?.name;
        check_senders(port, cores.len())?;
        let copy = copying(port)?;
        let mut opened: Opened = port.take_engine_state().unwrap_or_default();
        let orders = card_orders(port, &mut opened.card)?;
        let queues = &mut opened.queues;
        let open = |(sender, core): (usize, &TxCore)| -> Result<Box<dyn Transmitter>, RunError> {
            let queue = number_of_sender(port, sender);
            let options = XdpOptions { queue, receives: None, ..options(port, copy)? };
            // of a run that ended with its interface
            if queues.get(&queue).is_some_and(XdpQueue::has_lost_transmitter) {
                queues.remove(&queue);
            }
            let plan = &core.plan.tx;
            let open = || XdpTx::open(open_queue(queues, on, options)?, plan, orders.as_ref());
            Ok(on_real_time(port.enter(open)??))
        };
        let transmitters = cores.iter().enumerate().map(open).collect();
        port.keep_engine_state(opened);
        transmitters
    }

    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let link = link(port, Engine::Xdp)?;
        let queues = receive_queues(port, &how)?;
        check_native(port)?;
        let attachment = port.attach(Engine::Xdp)?;
        let copy = copying(port)?;
        let on = link.name.as_str();
        let known = known_of_frames(port)?;
        let steer = SteerOptions { queues, fragments: how.fragments, known };
        let options = options(port, copy)?;
        let card = port.card.get();
        let mut opened: Opened = port.take_engine_state().unwrap_or_default();
        let open = || -> Result<Vec<XdpRx>, PortError> {
            let steering = Arc::new(Steering::begin((on, attachment), &how.meter, steer)?);
            let open = |queue: u32| {
                let options = XdpOptions { queue, receives: Some(Backlog::Short), ..options };
                let queue = open_queue(&mut opened.queues, on, options)?;
                XdpRx::open(queue, &steering, card.map(Arc::as_ref))
            };
            (0..queues).map(open).collect()
        };
        let receivers = port.enter(open);
        port.keep_engine_state(opened);
        let receivers = receivers??;
        // else a card keeps frames for other stations to itself
        let all = || Promiscuous::enter(link.index.get());
        let promiscuous =
            how.promiscuous.then(|| port.enter(all)).transpose()?.and_then(Result::ok);
        let receiver = receivers::start(opening, receivers, MonotonicClock, how)?;
        let mode = port.attached_mode()?.map(|mode| format!("{mode} XDP"));
        Ok(receiver.holding(mode, promiscuous))
    }

    fn rearm_transmitter(
        &self,
        port: &ResolvedPort,
        _opening: &TxOpening<'_>,
        core: &TxCore,
        resting: &mut dyn Transmitter,
    ) -> Result<bool, RunError> {
        match resting_transmitter::<XdpTx>(resting) {
            Some(resting) => {
                let mut opened: Opened = port.take_engine_state().unwrap_or_default();
                let orders = card_orders(port, &mut opened.card);
                port.keep_engine_state(opened);
                let orders = orders?;
                Ok(port.enter(|| resting.rearm(&core.plan.tx, orders.as_ref()))??)
            }
            None => Ok(false),
        }
    }

    fn rearm_receiver(
        &self,
        port: &ResolvedPort,
        idle: &mut [Box<dyn IdlePort>],
        how: &Receiving,
    ) -> Result<bool, RunError> {
        let on = &link(port, Engine::Xdp)?.name;
        let queues = receive_queues(port, how)?;
        let Some(mut resting) = resting_receivers::<XdpRx>(idle) else { return Ok(false) };
        if resting.len() != queues as usize {
            return Ok(false);
        }
        let attachment = port.attach(Engine::Xdp)?;
        let known = known_of_frames(port)?;
        let (meter, steer) = (&how.meter, SteerOptions { queues, fragments: how.fragments, known });
        let card = port.card.get().map(Arc::as_ref);
        // of all queues one and the same
        let given_up = resting.iter_mut().filter_map(|queue| queue.take_steering());
        let before = given_up.collect::<Vec<_>>().pop();
        let rearm = || -> Result<bool, PortError> {
            let steering = match before {
                Some(before) if before.restart(meter, steer)? => before,
                before => {
                    // it lets everything pass when it goes, which the next one must not be there for
                    drop(before);
                    Arc::new(Steering::begin((on, attachment), meter, steer)?)
                }
            };
            for queue in &mut resting {
                if !queue.rearm(&steering, card)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        Ok(port.enter(rearm)??)
    }

    fn header_masks(&self) -> usize {
        KernelReceiver::HEADER_MASKS
    }
}

/// What the driver of a port says of frames that it received.
///
/// # Errors
/// It does not say what is wanted, or the stack runs the program, which cannot ask it.
fn known_of_frames(port: &ResolvedPort) -> Result<KnownOfFrames, RunError> {
    let known = KnownOfFrames { stamps: port.card.get().is_some(), hashes: port.spec.receive_hash };
    for (wanted, what, instead) in [
        (known.stamps, XdpOffer::TIMESTAMP, "use --engine packet, or '--timestamps software'"),
        (known.hashes, XdpOffer::HASH, "leave 'receive-hash' out"),
    ] {
        let offered = || Ok::<_, RunError>(offer(port)?.receive_metadata.contains(&what));
        if wanted && !offered()? {
            return Err(RunError::machine(fault!(
                "the driver of {} tells XDP programs no {what} of received frames", port.interface();
                "{instead} ('wirebeat doctor' lists what drivers offer)"
            )));
        }
        if wanted && port.attached_mode()? != Some(XdpMode::Native) {
            return Err(RunError::usage(fault!(
                "port '{}' wants the {what} of received frames, and the stack runs its XDP program, which has none", port.name;
                "{instead}, or have the driver run it ('xdp-mode: auto')"
            )));
        }
    }
    Ok(known)
}

/// What the driver of a port is told of frames that it sends; `card` keeps the one whose clock launch times are of.
///
/// # Errors
/// It takes no such orders, or the card's clock cannot be read.
fn card_orders(
    port: &ResolvedPort,
    card: &mut Option<SharedCard>,
) -> Result<Option<CardOrders>, RunError> {
    let (stamping, launch) = (port.card.get(), port.spec.launch_time);
    for (wanted, what, instead) in [
        (
            stamping.is_some(),
            XdpOffer::TIMESTAMP,
            "use --engine packet, or '--timestamps software'",
        ),
        (launch, XdpOffer::LAUNCH_TIME, "leave 'launch-time' out"),
    ] {
        if wanted && !offer(port)?.transmit_metadata.contains(&what) {
            return Err(RunError::machine(fault!(
                "the driver of {} offers AF_XDP sockets no {what} of frames that they send", port.interface();
                "{instead} ('wirebeat doctor' lists what drivers offer)"
            )));
        }
    }
    if stamping.is_none() && !launch {
        return Ok(None);
    }
    let card = match stamping.or(card.as_ref()) {
        Some(card) => Arc::clone(card),
        None => {
            let link = link(port, Engine::Xdp)?;
            let offered = port.netlink()?.timestamping(link.index).unwrap_or_default();
            let open = || Card::open(Engine::Xdp.name(), &link.name, offered, Wanted::default());
            let opened = SharedCard::new(port.enter(open)??);
            Arc::clone(card.insert(opened))
        }
    };
    Ok(Some(CardOrders { card, stamps: stamping.is_some(), launch }))
}

/// How a port's queues are opened, all alike.
fn options(port: &ResolvedPort, copy: XdpCopy) -> Result<XdpOptions, RunError> {
    let PortSpec { busy_poll, launch_time, .. } = port.spec;
    let stamps =
        port.card.get().is_some() && offer(port)?.transmit_metadata.contains(&XdpOffer::TIMESTAMP);
    Ok(XdpOptions { copy, busy_poll, orders: launch_time || stamps, ..XdpOptions::default() })
}

/// What the driver of a port offers; nothing where the kernel cannot say.
fn offer(port: &ResolvedPort) -> Result<XdpOffer, RunError> {
    let link = link(port, Engine::Xdp)?;
    Ok(port.netlink()?.xdp_offer(link.index).unwrap_or_default())
}

/// A queue of an interface of the calling thread's namespace: the one that is open, or another.
fn open_queue<'a>(
    opened: &'a mut BTreeMap<u32, XdpQueue>,
    on: &str,
    options: XdpOptions,
) -> Result<&'a mut XdpQueue, PortError> {
    match opened.entry(options.queue) {
        Entry::Occupied(there) => Ok(there.into_mut()),
        Entry::Vacant(place) => Ok(place.insert(XdpQueue::open(on, options)?)),
    }
}

/// Who copies the frames of a port. Drivers send without a copy only while an XDP program is attached: then one is, which lets
/// everything pass.
fn copying(port: &ResolvedPort) -> Result<XdpCopy, RunError> {
    let link = link(port, Engine::Xdp)?;
    // unknown before Linux 6.3; none of a virtual kind does, a veth for example
    let offered = match link.xdp_features {
        Some(features) => features.contains(XdpFeatures::XSK_ZEROCOPY),
        None => link.kind.is_none(),
    };
    let choice = port.spec.xdp_mode;
    match choice {
        XdpModeChoice::Copy | XdpModeChoice::Generic => Ok(XdpCopy::Always),
        XdpModeChoice::ZeroCopy if !offered => Err(RunError::machine(fault!(
            "port '{}' asks for zero copy, and the driver of {} offers none", port.name, link.name;
            "leave the choice to the driver ('xdp-mode: auto'), or let the kernel copy ('xdp-mode: copy')"
        ))),
        XdpModeChoice::ZeroCopy => {
            check_native(port)?;
            port.attach(Engine::Xdp)?;
            Ok(XdpCopy::Never)
        }
        XdpModeChoice::Auto if !offered => Ok(XdpCopy::Always),
        XdpModeChoice::Auto => {
            let has_program = link.xdp.is_some() || port.attach(Engine::Xdp).is_ok();
            let native = has_program && port.attached_mode()? == Some(XdpMode::Native);
            Ok(if native { XdpCopy::AsDriverOffers } else { XdpCopy::Always })
        }
    }
}

/// That the driver runs XDP programs itself, where that was asked for.
fn check_native(port: &ResolvedPort) -> Result<(), RunError> {
    let link = link(port, Engine::Xdp)?;
    let asked = matches!(port.spec.xdp_mode, XdpModeChoice::ZeroCopy | XdpModeChoice::Copy);
    let cannot = link.xdp_features.is_some_and(|known| !known.contains(XdpFeatures::BASIC));
    match asked && cannot {
        false => Ok(()),
        true => Err(RunError::machine(fault!(
            "port '{}' asks for native XDP, and the driver of {} runs no XDP programs", port.name, link.name;
            "let the stack run them ('xdp-mode: generic'), or leave the choice to the driver ('xdp-mode: auto')"
        ))),
    }
}

/// That the interface has a transmit queue for each sender: a socket shares its queue with no other.
fn check_senders(port: &ResolvedPort, senders: usize) -> Result<(), RunError> {
    let Some(queues) = port.transmit_queues() else { return Ok(()) };
    let interface = port.interface();
    let highest = (0..senders).map(|sender| number_of_sender(port, sender)).max();
    let Some(beyond) = highest.filter(|highest| *highest >= queues) else { return Ok(()) };
    let there = human::counted(queues.into(), "transmit queue");
    let needed = beyond + 1;
    Err(RunError::usage(if port.spec.transmit_queues.is_empty() {
        fault!(
            "port '{}' has {senders} senders, and {interface} has {there}: with the engine 'xdp' each sender has one of \
             its own", port.name;
            "use fewer 'queues' or 'cores', give it more queues with `ethtool -L {interface} combined {needed}`, or use the \
             engine 'packet'"
        )
    } else {
        fault!(
            "port '{}' names transmit queue {beyond}, and {interface} has {there}", port.name;
            "choose below {queues}, or give it more with `ethtool -L {interface} combined {needed}`"
        )
    }))
}

/// How many receive queues the interface has: each has a socket, or frames of the others would pass it by.
///
/// # Errors
/// They are too many, others than asked for, or several where only one has the order that is needed.
fn receive_queues(port: &ResolvedPort, how: &Receiving) -> Result<u32, RunError> {
    let queues = port.receive_queues().unwrap_or(1).max(1);
    let most = u32::from(PortSpec::RECEIVE_QUEUES_MAX);
    let (interface, asked) = (port.interface(), u32::from(how.queues));
    if queues > most {
        return Err(RunError::usage(fault!(
            "{interface} has {queues} receive queues, and the engine 'xdp' reads {most} at the most, with a thread each";
            "use fewer with `ethtool -L {interface} combined {most}`, or use the engine 'packet'"
        )));
    }
    if asked > 1 && asked != queues {
        return Err(RunError::usage(fault!(
            "{interface} has {}, and the engine 'xdp' reads all of them, not {asked}",
            human::counted(queues.into(), "receive queue");
            "leave the number of receive queues out, or change that of the interface with \
             `ethtool -L {interface} combined {asked}`"
        )));
    }
    if queues > 1 && how.most.is_some() {
        return Err(RunError::usage(fault!(
            "--count goes with one queue, and the engine 'xdp' reads all {queues} of {interface}";
            "leave --count out, or use the engine 'packet'"
        )));
    }
    Ok(queues)
}
