//! The receiving ports of a run: opened beforehand, metering until they are told to stop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wirebeat_engine::budget::RunClock;
use wirebeat_engine::clock::MonotonicClock;
use wirebeat_engine::collect::{LiveRx, Manner, collect_and_tell};
use wirebeat_engine::loopback::{self, LoopbackPort, VirtualClock};
use wirebeat_engine::port::{Arrival, CardStamps, Port, PortError};
use wirebeat_engine_linux::group::{Group, Membership};
use wirebeat_engine_linux::kernel::{Fate, KernelReceiver, ReceiveOptions};
use wirebeat_engine_linux::packet::{Accept, Kinds, PacketOptions, PacketPort, PacketReceive};
use wirebeat_engine_linux::promiscuous::Promiscuous;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders, ThreadState, realtime_share};
use wirebeat_engine_linux::socket::{Gro, SocketOptions, SocketPort, SocketReceive};
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_meter::summary::MeterSummary;
use wirebeat_traffic::scenario::EngineChoice;

use crate::damage::DamageWatch;
use crate::engines::Engine;
use crate::error::RunError;
use crate::packet_log::PacketLog;
use crate::ports::PortHere;
use crate::transmit;

/// How a port receives.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) meter: MeterConfig,
    /// Whether metered datagrams go on to the stack.
    pub(crate) fate: Fate,
    /// Whether frames of one flow may arrive on several CPUs at once.
    pub(crate) several_queues: bool,
    /// Flows that are sent as fast as possible: what lies between two arrivals is measured within each queue.
    pub(crate) by_queue: BTreeSet<u16>,
    /// Also frames that are addressed to other machines.
    pub(crate) promiscuous: bool,
    /// Where the socket engine listens.
    pub(crate) listen: Vec<SocketAddr>,
    /// Whether senders of other tools get the answer that they wait for.
    pub(crate) manner: Manner,
    /// Ends by itself when so many frames were measured.
    pub(crate) most: Option<u64>,
    /// A log of each packet.
    pub(crate) log: Option<PacketLog>,
    /// Groups that were joined; they are left when the receiver ends.
    pub(crate) groups: Vec<Membership>,
    /// Where and how the thread runs that meters, if one does.
    pub(crate) thread: ThreadOrders,
}

/// Joins multicast groups at a port: on its interface, or on that of the system's choice. An engine without a network
/// has nobody to tell.
pub(crate) fn join(port: &PortHere, groups: &[Group]) -> Result<Vec<Membership>, RunError> {
    let nobody = matches!(port.spec.engine, EngineChoice::Loopback | EngineChoice::Pcap);
    if groups.is_empty() || nobody {
        return Ok(Vec::new());
    }
    let interface = port.link.as_ref().map_or(0, |link| link.index.get());
    let joined = |group: &Group| {
        Membership::join(interface, group).map_err(|error| {
            RunError::Usage(format!("port '{}' cannot join the group {group}: {error}", port.name))
        })
    };
    port.enter(|| groups.iter().map(joined).collect::<Result<Vec<_>, _>>())?
}

/// A receiver at work.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) place: usize,
    pub(crate) engine: Engine,
    pub(crate) mode: String,
    /// What is in force for its thread; nothing where the kernel meters.
    pub(crate) state: Arc<ThreadState>,
    work: Work,
    /// Sequence numbers that were missing at the last look.
    missing: AtomicU64,
    _groups: Vec<Membership>,
    /// That its card takes all frames, where no socket of it says so.
    _promiscuous: Option<Promiscuous>,
    /// What the stack drops before a socket sees it.
    damage: Option<DamageWatch>,
}

#[derive(Debug)]
enum Work {
    /// The kernel meters by itself.
    Kernel(Box<KernelReceiver>),
    /// A thread meters what a port delivers.
    Thread { thread: JoinHandle<Collected>, stop: Arc<AtomicBool>, live: Arc<LiveRx> },
}

/// What a metering thread leaves.
#[derive(Debug)]
struct Collected {
    summary: MeterSummary,
    error: Option<PortError>,
    log_error: Option<std::io::Error>,
    card_stamps: Option<CardStamps>,
}

/// What a receiver measured, at its end.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) summary: MeterSummary,
    pub(crate) error: Option<PortError>,
    /// Why the log of packets is incomplete.
    pub(crate) log_error: Option<std::io::Error>,
    /// What arrived damaged and never reached it, in words.
    pub(crate) damage: Option<String>,
    /// What its card stamped, where it does.
    pub(crate) card_stamps: Option<CardStamps>,
}

/// Opens the receiver of a port and starts it.
pub(crate) fn open(
    place: usize,
    (port, engine): (&PortHere, Engine),
    how: Receiving,
    ends: &mut HashMap<String, LoopbackPort>,
    virtual_clock: &VirtualClock,
) -> Result<Receiver, RunError> {
    match engine {
        Engine::Kernel => open_kernel(place, port, how),
        Engine::Loopback => match ends.remove(&port.name) {
            Some(end) => start((place, engine), end, virtual_clock.clone(), how),
            None => Err(RunError::Usage(format!(
                "port '{}' of the engine 'loopback' can be one end of one link only",
                port.name
            ))),
        },
        Engine::Packet => {
            let opened = open_packet(port, &how)?;
            start((place, engine), opened, MonotonicClock, how)
        }
        Engine::Socket => {
            let opened = open_socket(port, &how)?;
            let damage = Some(DamageWatch::of(port)?);
            let receiver = start((place, engine), opened, MonotonicClock, how)?;
            Ok(Receiver { damage, ..receiver })
        }
        Engine::Pcap => Err(RunError::Usage(format!(
            "port '{}' of the engine 'pcap' only writes; leave out 'to' in the flows that go to it",
            port.name
        ))),
    }
}

fn open_kernel(place: usize, port: &PortHere, how: Receiving) -> Result<Receiver, RunError> {
    let Some(link) = &port.link else {
        return Err(RunError::Usage(format!(
            "port '{}' has no interface, and the kernel engine needs one",
            port.name
        )));
    };
    let options = ReceiveOptions {
        observe: None,
        index: link.index.get(),
        interface: link.name.clone(),
        attachment: Some(port.attach()?),
        meter: how.meter,
        unprobed_gap: None,
        fate: how.fate,
        several_queues: how.several_queues,
        by_queue: how.by_queue,
        queues: port.served_queues(),
    };
    let receiver = port.enter(|| KernelReceiver::open(&options))??;
    // else a card keeps frames for other stations to itself
    let all = || Promiscuous::enter(link.index.get());
    let promiscuous = how.promiscuous.then(|| port.enter(all)).transpose()?.and_then(Result::ok);
    let attached = port.netlink()?.link_by_index(link.index).ok().and_then(|link| link.xdp);
    let mode = attached.map_or_else(
        || "XDP".to_owned(),
        |attached| format!("{} XDP, metered before the stack", attached.mode),
    );
    let engine = Engine::Kernel;
    let work = Work::Kernel(Box::new(receiver));
    Ok(Receiver {
        place,
        engine,
        mode,
        state: Arc::default(),
        work,
        missing: AtomicU64::new(0),
        _groups: how.groups,
        _promiscuous: promiscuous,
        damage: None,
    })
}

fn open_packet(port: &PortHere, how: &Receiving) -> Result<PacketPort, RunError> {
    let Some(link) = &port.link else {
        return Err(RunError::Usage(format!(
            "port '{}' has no interface, and the packet engine needs one",
            port.name
        )));
    };
    let accept = if how.promiscuous { Accept::All } else { Accept::Ours };
    let others = how.meter.headers.flows().iter().any(|(headers, _)| !headers.is_udp());
    let kinds = if others { Kinds::Any } else { Kinds::Probed };
    let options = PacketOptions {
        interface: link.name.clone(),
        transmit: None,
        receive: Some(PacketReceive { accept, kinds, ..PacketReceive::default() }),
        card: port.card.get().cloned(),
    };
    Ok(port.enter(|| PacketPort::open(&options))??)
}

fn open_socket(port: &PortHere, how: &Receiving) -> Result<SocketPort, RunError> {
    // of flows that were not announced, some are told apart by their ends only
    let ends = matches!(how.meter.flows, Flows::Any(_)) && how.meter.codecs.by_ends();
    let card = port.card.get().cloned();
    // joined datagrams have one stamp
    let gro = if card.is_some() { Gro::Off } else { Gro::On };
    let listen = how.listen.clone();
    let receive = SocketReceive { listen, ends, gro, ..SocketReceive::default() };
    let options = SocketOptions {
        interface: transmit::socket_interface(port),
        transmit: None,
        receive: Some(receive),
        card,
    };
    Ok(port.enter(|| SocketPort::open(&options))??)
}

/// After so many frames a receiver looks whether it has to rest.
const REST: u32 = 64;

/// Starts a thread that meters what `port` delivers.
fn start<P, C>(
    (place, engine): (usize, Engine),
    mut port: P,
    clock: C,
    how: Receiving,
) -> Result<Receiver, RunError>
where
    P: Port + 'static,
    C: wirebeat_engine::clock::Clock + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let live = Arc::new(LiveRx::default());
    let mode = port.caps().mode.clone();
    let Receiving { meter: config, mut log, groups, manner, most, thread: orders, .. } = how;
    let most = most.unwrap_or(u64::MAX);
    let state = Arc::clone(&orders.state);
    let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&live));
    let thread = thread::Builder::new()
        .name("wb-receive".to_owned())
        .spawn(move || {
            let mut meter = Meter::new(config);
            let applied = match orders.apply() {
                Ok(applied) => applied,
                Err(source) => {
                    let (what, on) =
                        ("preparing the receiving thread".into(), format!("CPU {:?}", orders.cpus));
                    let error = Some(PortError::System { what, on, source });
                    let summary = meter.summary();
                    return Collected { summary, error, log_error: None, card_stamps: None };
                }
            };
            let rest = match orders.priority {
                Priority::Realtime => RunClock::with_budget(realtime_share()),
                Priority::Normal | Priority::High => RunClock::default(),
            };
            let mut taken = 0_u32;
            let tap = |arrival: &Arrival<'_>| {
                taken = taken.wrapping_add(1);
                if taken.is_multiple_of(REST) {
                    rest.rest();
                }
                if let Some(log) = &mut log {
                    log.record(arrival.at, arrival.bytes);
                }
            };
            let told = (&*stopped, &*seen);
            let error =
                collect_and_tell((&mut port, &clock, manner), &mut meter, told, most, tap).err();
            let written = log.map_or(Ok(()), |log| log.finish(clock.now()));
            let mut summary = meter.into_summary();
            summary.receiver_drops = port.receive_drops();
            let card_stamps = port.card_stamps();
            drop(applied);
            Collected { summary, error, log_error: written.err(), card_stamps }
        })
        .map_err(|error| RunError::Machine(format!("cannot start a receiving thread: {error}")))?;
    let work = Work::Thread { thread, stop, live };
    Ok(Receiver {
        place,
        engine,
        mode,
        state,
        work,
        missing: AtomicU64::new(0),
        _groups: groups,
        _promiscuous: None,
        damage: None,
    })
}

/// How long a sequence number has to be missing until a look counts its frame as lost: frames that overtook each other
/// are there by then.
pub(crate) const REORDERING: Duration = Duration::from_millis(20);
/// Longer than a metering thread takes to answer.
const ANSWER: Duration = Duration::from_millis(15);
/// How often it is looked whether it has.
const STEP: Duration = Duration::from_millis(1);

/// Frames of which `receivers` know by now that they are lost: their numbers are missing, and still are after
/// [`REORDERING`]. Takes that long where more are missing than at the last look.
pub(crate) fn lost(receivers: &[Receiver]) -> u64 {
    let missing = || -> Vec<u64> {
        receivers.iter().for_each(Receiver::ask_missing);
        let until = Instant::now() + ANSWER;
        receivers.iter().map(|receiver| receiver.missing(until)).collect()
    };
    let mut now = missing();
    let before = |receiver: &Receiver| receiver.missing.load(Ordering::Relaxed);
    if receivers.iter().zip(&now).any(|(receiver, now)| *now > before(receiver)) {
        thread::sleep(REORDERING);
        now = now.into_iter().zip(missing()).map(|(then, now)| then.min(now)).collect();
    }
    for (receiver, now) in receivers.iter().zip(&now) {
        receiver.missing.store(*now, Ordering::Relaxed);
    }
    now.iter().sum()
}

impl Receiver {
    /// Frames received so far, and their bytes with FCS.
    pub(crate) fn received(&self) -> (u64, u64) {
        match &self.work {
            Work::Kernel(receiver) => receiver.received(),
            Work::Thread { live, .. } => {
                (live.frames.load(Ordering::Relaxed), live.bytes.load(Ordering::Relaxed))
            }
        }
    }

    /// Asks for what is missing now.
    fn ask_missing(&self) {
        if let Work::Thread { live, .. } = &self.work {
            live.asked.store(true, Ordering::Relaxed);
        }
    }

    /// Sequence numbers that are missing now, or were when the thread that meters answered last. It has until `until`.
    fn missing(&self, until: Instant) -> u64 {
        match &self.work {
            Work::Kernel(receiver) => receiver.missing(),
            Work::Thread { live, thread, .. } => {
                while live.asked.load(Ordering::Acquire)
                    && !thread.is_finished()
                    && Instant::now() < until
                {
                    thread::sleep(STEP);
                }
                live.missing.load(Ordering::Relaxed)
            }
        }
    }

    /// Whether it has measured so many frames.
    pub(crate) fn has_measured(&self, count: u64) -> bool {
        match &self.work {
            Work::Kernel(receiver) => receiver.received().0 >= count,
            // it was told how many, and has ended with the last of them
            Work::Thread { thread, .. } => thread.is_finished(),
        }
    }

    /// Stops and says what was measured.
    pub(crate) fn finish(self) -> Received {
        let damage = self.damage.as_ref().and_then(DamageWatch::finding);
        let received =
            |summary| Received { summary, error: None, log_error: None, damage, card_stamps: None };
        match self.work {
            Work::Kernel(receiver) => received(receiver.summary()),
            Work::Thread { thread, stop, .. } => {
                stop.store(true, Ordering::Release);
                match thread.join() {
                    Ok(Collected { summary, error, log_error, card_stamps }) => {
                        Received { error, log_error, card_stamps, ..received(summary) }
                    }
                    Err(_) => Received {
                        error: Some(PortError::System {
                            what: "metering".into(),
                            on: "a receiving thread".to_owned(),
                            source: std::io::Error::other("it panicked"),
                        }),
                        ..received(MeterSummary::default())
                    },
                }
            }
        }
    }
}

/// The ends of the links in memory: flows between two loopback ports join them.
pub(crate) fn loopback_ends<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    (clock, way): (&VirtualClock, loopback::Link),
) -> HashMap<String, LoopbackPort> {
    let mut joined: BTreeMap<String, ()> = BTreeMap::new();
    let mut ends = HashMap::new();
    for (from, to) in pairs {
        if joined.contains_key(from) || joined.contains_key(to) || from == to {
            continue;
        }
        let (there, back) = loopback::pair(clock, way);
        joined.insert(from.to_owned(), ());
        joined.insert(to.to_owned(), ());
        ends.insert(from.to_owned(), there);
        ends.insert(to.to_owned(), back);
    }
    ends
}
