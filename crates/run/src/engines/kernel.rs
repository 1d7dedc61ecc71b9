//! How a run uses the engine `kernel`: its rights, the driver that has to take redirected frames, and how its ports open.

use std::sync::Arc;

use wirebeat_engine::clock::Wait;
use wirebeat_engine::port::TxPlan;
use wirebeat_engine_linux::kernel::{
    self, FRAME_MAX, KernelOptions, KernelReceiver, KernelTx, ObservationOptions, ReceiveOptions,
    SharedSequences,
};
use wirebeat_engine_linux::link::switched_on;
use wirebeat_engine_linux::promiscuous::Promiscuous;
use wirebeat_engine_linux::xdp::{CoreRx, StationMask, StationRx};
use wirebeat_host::Machine;
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::meter::Flows;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_netlink::{Link, XdpMode};
use wirebeat_traffic::engines::Engine;
use wirebeat_units::{BufferLen, FrameLen, fault};
use wirebeat_wire::mac::MacAddr;

use super::{
    Missing, OwnMeter, RxOpening, Transmitter, TxCore, TxOpening, carry, link, on_real_time,
    resting_transmitter,
};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receivers::{Receiver, Receiving};
use crate::sessions::{Carrier, OwnParts};
use crate::tapping::{Observing, PortTaps};

/// What to use where this engine cannot serve.
const ANOTHER: &str = "use the engine 'packet'";

pub(super) struct Driver;

impl super::Driver for Driver {
    fn probe(&self) -> Result<String, Missing> {
        kernel::probe()
            .map(|()| "eBPF programs load and run with live frames".to_owned())
            .map_err(|why| Missing { why, verifier_log: kernel::verifier_log() })
    }

    fn is_permitted(&self) -> bool {
        let may = Machine::observe().privileges;
        may.bpf == Some(true) && may.net_admin == Some(true) && kernel::probe().is_ok()
    }

    /// It loads programs and opens maps.
    fn check_rights(&self, port: &ResolvedPort) -> Result<(), RunError> {
        let may = Machine::observe().privileges;
        let rights = [(may.bpf, "CAP_BPF"), (may.net_admin, "CAP_NET_ADMIN")];
        let lacks = rights.iter().filter(|(has, _)| *has == Some(false)).map(|(_, name)| *name);
        let lacks: Vec<&str> = lacks.collect();
        match lacks.is_empty() {
            true => Ok(()),
            false => Err(RunError::machine(format!(
                "the kernel engine of port '{}' needs {}, which this process lacks",
                port.name,
                lacks.join(" and "),
            ))
            .hint(format!(
                "run as root, or use the engine '{}'",
                if may.net_raw == Some(true) { "packet" } else { "socket" }
            ))),
        }
    }

    fn frame_max(&self) -> Option<u16> {
        Some(FRAME_MAX)
    }

    /// Attaches a program to the interface where its driver wants one.
    fn prepare(&self, port: &mut ResolvedPort, frame_max: u16) -> Result<(), RunError> {
        if frame_max > FRAME_MAX {
            let most = FrameLen::without_fcs(FRAME_MAX).get();
            let what = format!("the kernel engine sends frames of up to {most} bytes");
            return Err(RunError::usage(what).hint("use the engine 'packet' for longer ones"));
        }
        take_redirected(port)
    }

    /// Attaches a program to the interface, which its MTU or another program may not allow.
    fn prepare_receiver(&self, port: &ResolvedPort) -> Result<(), RunError> {
        port.attach(Engine::Kernel).map(drop)
    }

    fn open_transmitters(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        cores: &[TxCore],
    ) -> Result<Vec<Box<dyn Transmitter>>, RunError> {
        let link = link(port, Engine::Kernel)?;
        let sequences = match cores.len() > 1 {
            true => Some(Arc::new(SharedSequences::new(counters(opening, cores))?)),
            false => None,
        };
        let open = |(number, core): (usize, &TxCore)| -> Result<Box<dyn Transmitter>, RunError> {
            let options = sending((port, link), opening, core, sequences.clone());
            let mut opened = port.enter(|| KernelTx::open(options))??;
            if let (Some(sent), Some(told)) = (opening.sent_taps, opened.observations()) {
                sent.observe(told, sent.of_sender(number, opening.program))?;
            }
            Ok(on_real_time(opened))
        };
        cores.iter().enumerate().map(open).collect()
    }

    fn rearm_transmitter(
        &self,
        port: &ResolvedPort,
        opening: &TxOpening<'_>,
        core: &TxCore,
        resting: &mut dyn Transmitter,
    ) -> Result<bool, RunError> {
        let Some(resting) = resting_transmitter::<KernelTx>(resting) else { return Ok(false) };
        // numbers that were shared by as many cores still are
        let sequences = resting.options().sequences.clone();
        let options = sending((port, link(port, Engine::Kernel)?), opening, core, sequences);
        // the thread that transmits is of the namespace in which it is started
        Ok(port.enter(|| resting.rearm(&options))??)
    }

    fn open_receiver(
        &self,
        port: &ResolvedPort,
        opening: &RxOpening<'_>,
        how: Receiving,
    ) -> Result<Receiver, RunError> {
        let link = link(port, Engine::Kernel)?;
        port.enter(|| switched_on(Engine::Kernel.name(), &link.name))??;
        let observe = how.taps.as_ref().map(|taps| observed(taps, link));
        let options = ReceiveOptions {
            observe,
            index: link.index.get(),
            interface: link.name.clone(),
            attachment: Some(port.attach(Engine::Kernel)?),
            meter: how.meter,
            unprobed_gap: None,
            fate: how.fate,
            several_queues: how.several_queues,
            by_queue: how.by_queue,
            queues: port.served_queues(),
        };
        let mut receiver = port.enter(|| KernelReceiver::open(&options))??;
        let told = how.taps.zip(receiver.observations());
        let observing = told.map(|(taps, told)| Observing::start(told, taps.tap())).transpose()?;
        // else a card keeps frames for other stations to itself
        let all = || Promiscuous::enter(link.index.get());
        let promiscuous =
            how.promiscuous.then(|| port.enter(all)).transpose()?.and_then(Result::ok);
        let attached = port.netlink()?.link_by_index(link.index).ok().and_then(|link| link.xdp);
        let mode = attached.map_or_else(
            || "XDP".to_owned(),
            |attached| format!("{} XDP, metered before the stack", attached.mode),
        );
        Ok(Receiver::metered_by_engine(
            opening,
            mode,
            (Box::new(receiver), observing),
            (how.groups, promiscuous),
        ))
    }

    /// Frames leave by the program, on the CPU of the thread that makes them, and come by an AF_XDP socket, or by the packet sockets of
    /// several cores.
    fn open_stack(
        &self,
        port: &ResolvedPort,
        parts: OwnParts,
    ) -> Result<Box<dyn Carrier + Send>, RunError> {
        let link = link(port, Engine::Kernel)?;
        let station = parts.hosts.link.mac;
        let (value, mask) = parts.hosts.hosts.common_bits(station);
        let [value, mask] = [value, mask].map(MacAddr::from_bits);
        let stations = StationMask { value, mask };
        if link.mac == Some(station) {
            return Err(RunError::usage(
                fault!(
                    "over the engine 'kernel' our hosts have an Ethernet address of their own, and {station} is that of {}",
                    link.name;
                    "leave 'mac' out, name another, or use the engine 'packet'"
                )
                .at(format!("ports.{}.hosts.mac", port.name)),
            ));
        }
        let attachment = port.attach(Engine::Kernel)?;
        if port.takes_redirected()? == Some(false) {
            return Err(missing_redirect(port, "it has no NDO_XMIT among its XDP features"));
        }
        let frame_max = BufferLen::new(parts.frame_max);
        let options = KernelOptions {
            index: link.index.get(),
            interface: link.name.clone(),
            plan: TxPlan { tags: 1, frame_max, ..TxPlan::default() },
            wait: Wait::Sleep,
            thread: None,
            unix_offset: UnixOffset::default(),
            sequences: None,
            shared: None,
            // the other end of a virtual cable wants none here
            attachment: link.kind.is_none().then(|| Arc::clone(&attachment)),
            link: link.speed,
            observe: None,
        };
        let open = || -> Result<_, RunError> {
            let core = parts.core();
            // what has the bits of our addresses does not get to the system, whose own address must not be among them
            let takes_the_systems = link.mac.is_some_and(|mac| stations.takes(mac));
            // an AF_XDP socket is not told of a tag that the driver has taken out; a packet socket is
            let tags_apart = parts.hosts.link.vlan.is_some() && takes_tags_out(port)?;
            if core.cores > 1 || takes_the_systems || tags_apart {
                let rx = CoreRx::open(&link.name, attachment, core)?;
                return carry(port, parts, (KernelTx::open(options)?, rx));
            }
            let rx = StationRx::open(&link.name, attachment, stations)?;
            carry(port, parts, (KernelTx::open(options)?, rx))
        };
        port.enter(open)?
    }

    fn header_masks(&self) -> usize {
        KernelReceiver::HEADER_MASKS
    }

    fn has_room_for(&self, flows: &Flows, recognised: usize) -> bool {
        KernelReceiver::has_room_for(flows, recognised)
    }
}

impl OwnMeter for KernelReceiver {
    fn received(&self) -> (u64, u64) {
        KernelReceiver::received(self)
    }

    fn missing(&self) -> u64 {
        KernelReceiver::missing(self)
    }

    fn summary(&self) -> MeterSummary {
        KernelReceiver::summary(self)
    }

    fn pause(&self) {
        KernelReceiver::pause(self);
    }

    fn restart(&mut self, how: &Receiving) -> Result<bool, RunError> {
        if how.taps.is_some() {
            // what tells of single frames is another program
            return Ok(false);
        }
        let options = ReceiveOptions {
            meter: how.meter.clone(),
            fate: how.fate,
            several_queues: how.several_queues,
            by_queue: how.by_queue.clone(),
            ..self.options().clone()
        };
        Ok(KernelReceiver::restart(self, &options)?)
    }
}

/// What the program tells of single frames: as much of each as is kept, or all of it.
fn observed(taps: &PortTaps, link: &Link) -> ObservationOptions {
    /// The memory of the rings, in bytes: a hundredth of a second of short frames at ten million a second, and more of fewer.
    const MEMORY: usize = 64 << 20;
    /// An Ethernet header with two VLAN tags.
    const HEADER: u32 = 22;
    let longest = link.mtu.saturating_add(HEADER);
    let bytes = match taps.snap_len() {
        0 => longest,
        asked => asked.min(longest),
    };
    let bytes = u16::try_from(bytes).unwrap_or(u16::MAX).min(ObservationOptions::BYTES_MAX);
    ObservationOptions::within(MEMORY, taps.frames(), bytes)
}

/// How a transmit core is opened.
fn sending(
    (port, link): (&ResolvedPort, &Link),
    opening: &TxOpening<'_>,
    core: &TxCore,
    sequences: Option<Arc<SharedSequences>>,
) -> KernelOptions {
    KernelOptions {
        index: link.index.get(),
        interface: link.name.clone(),
        plan: core.plan.tx,
        wait: opening.wait,
        thread: Some(core.thread.clone()),
        unix_offset: opening.unix_offset.clone(),
        sequences,
        shared: opening.shared.cloned(),
        attachment: port.attachment.get().cloned(),
        link: link.speed,
        observe: opening.sent_taps.map(|sent| observed(sent.taps(), link)),
    }
}

/// Sequence numbers that all cores share: one for each tag, and one more where packets leave as fragments.
fn counters(opening: &TxOpening<'_>, cores: &[TxCore]) -> u32 {
    let program = opening.program;
    let mut streams = cores.iter().flat_map(|core| program.streams_of(&core.flows));
    program.tags() * (1 + u32::from(streams.any(|stream| stream.frames.is_cut())))
}

/// Sees to it that the driver of a port takes redirected frames. Most drivers of cards do only while an XDP program is
/// attached to the very interface, and say so among its features only then.
fn take_redirected(port: &mut ResolvedPort) -> Result<(), RunError> {
    let takes = port.takes_redirected()?;
    let is_cable = port.link.as_ref().is_some_and(|link| link.kind.as_deref() == Some("veth"));
    if takes == Some(true) || (is_cable && takes.is_none()) {
        return Ok(());
    }
    if is_cable {
        return Err(missing_redirect(port, ""));
    }
    let was_attached = port.attachment.get().is_some();
    // perhaps the one that this is typed over
    if port.spec.engine.engine().is_none() && port.spec.interface.is_none() && !was_attached {
        return Err(RunError::machine(format!(
            "{} was not named, and its driver takes redirected frames only with an XDP program attached, which takes the \
             link of many cards down for seconds (name it with --interface)",
            port.interface()
        ))
        .hint(ANOTHER));
    }
    port.attach(Engine::Kernel)?;
    let why = match port.takes_redirected()? {
        Some(true) => return Ok(()),
        // without the driver the stack runs the program, and no frame gets past it
        None if port.attached_mode()? == Some(XdpMode::Native) => return Ok(()),
        None => "it does not run XDP programs itself",
        Some(false) => "it has no NDO_XMIT among its XDP features",
    };
    if !was_attached {
        port.attachment.take();
    }
    Err(missing_redirect(port, why))
}

/// Whether the driver may hand over VLAN tags beside their frames (`NETIF_F_HW_VLAN_CTAG_RX` of the kernel's `netdev_features.h`), as the
/// bridges and VLAN devices of the kernel do on virtual cables.
fn takes_tags_out(port: &ResolvedPort) -> Result<bool, RunError> {
    const FEATURE: &str = "rx-vlan-hw-parse";
    let Some(link) = &port.link else { return Ok(false) };
    let features = port.netlink()?.features(link.index).unwrap_or_default();
    Ok(features.iter().any(|feature| feature.name == FEATURE && feature.active))
}

/// That a driver does not take redirected frames, and what would help.
fn missing_redirect(port: &ResolvedPort, why: &str) -> RunError {
    let interface = port.interface();
    let kind = port.link.as_ref().and_then(|link| link.kind.as_deref());
    match kind {
        Some("veth") => RunError::machine(format!(
            "the kernel engine cannot send on {interface}: the other end of a virtual cable takes redirected frames only \
             while an XDP program is attached to it or its GRO is on"
        ))
        .hint(format!("switch that on there ('ethtool -K <other end> gro on'), or {ANOTHER}")),
        _ => RunError::machine(format!(
            "the kernel engine cannot send on {interface}: its driver does not take redirected frames ({why})"
        ))
        .hint(ANOTHER),
    }
}
