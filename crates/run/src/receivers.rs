//! The receiving ports of a run: opened beforehand, metering until they are told to stop.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use wirebeat_engine::clock::MonotonicClock;
use wirebeat_engine::collect::{LiveRx, collect};
use wirebeat_engine::loopback::{LoopbackPort, VirtualClock};
use wirebeat_engine::port::{Port, PortError};
use wirebeat_engine_linux::kernel::{Fate, KernelReceiver, ReceiveOptions};
use wirebeat_engine_linux::packet::{Accept, PacketOptions, PacketPort, PacketReceive};
use wirebeat_engine_linux::socket::{SocketOptions, SocketPort, SocketReceive};
use wirebeat_meter::meter::{Meter, MeterConfig};
use wirebeat_meter::summary::MeterSummary;

use crate::engines::Engine;
use crate::error::RunError;
use crate::ports::PortHere;

/// How a port receives.
#[derive(Clone, Debug)]
pub(crate) struct Receiving {
    pub(crate) meter: MeterConfig,
    /// Whether metered datagrams go on to the stack.
    pub(crate) fate: Fate,
    /// Whether frames of one flow may arrive on several CPUs at once.
    pub(crate) several_queues: bool,
    /// Also frames that are addressed to other machines.
    pub(crate) promiscuous: bool,
    /// Where the socket engine listens.
    pub(crate) listen: Vec<SocketAddr>,
}

/// A receiver at work.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) place: usize,
    pub(crate) mode: String,
    work: Work,
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
}

/// What a receiver measured, at its end.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) summary: MeterSummary,
    pub(crate) error: Option<PortError>,
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
            Some(end) => start(place, end, virtual_clock.clone(), how.meter),
            None => Err(RunError::Usage(format!(
                "port '{}' of the engine 'loopback' can be one end of one link only",
                port.name
            ))),
        },
        Engine::Packet => {
            let opened = open_packet(port, &how)?;
            start(place, opened, MonotonicClock, how.meter)
        }
        Engine::Socket => {
            let opened = open_socket(port, &how)?;
            start(place, opened, MonotonicClock, how.meter)
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
        index: link.index.get(),
        interface: link.name.clone(),
        meter: how.meter,
        unprobed_gap: None,
        fate: how.fate,
        several_queues: how.several_queues,
    };
    let receiver = port.enter(|| KernelReceiver::open(&options))??;
    let attached = port.netlink()?.link_by_index(link.index).ok().and_then(|link| link.xdp);
    let mode = attached.map_or_else(
        || "XDP".to_owned(),
        |attached| format!("{} XDP, metered before the stack", attached.mode),
    );
    Ok(Receiver { place, mode, work: Work::Kernel(Box::new(receiver)) })
}

fn open_packet(port: &PortHere, how: &Receiving) -> Result<PacketPort, RunError> {
    let Some(link) = &port.link else {
        return Err(RunError::Usage(format!(
            "port '{}' has no interface, and the packet engine needs one",
            port.name
        )));
    };
    let accept = if how.promiscuous { Accept::All } else { Accept::Ours };
    let options = PacketOptions {
        interface: link.name.clone(),
        transmit: None,
        receive: Some(PacketReceive { accept, ..PacketReceive::default() }),
    };
    Ok(port.enter(|| PacketPort::open(&options))??)
}

fn open_socket(port: &PortHere, how: &Receiving) -> Result<SocketPort, RunError> {
    let options = SocketOptions {
        interface: port.spec.interface.clone(),
        transmit: None,
        receive: Some(SocketReceive { listen: how.listen.clone(), ..SocketReceive::default() }),
    };
    Ok(port.enter(|| SocketPort::open(&options))??)
}

/// Starts a thread that meters what `port` delivers.
fn start<P, C>(
    place: usize,
    mut port: P,
    clock: C,
    config: MeterConfig,
) -> Result<Receiver, RunError>
where
    P: Port + 'static,
    C: wirebeat_engine::clock::Clock + 'static,
{
    let stop = Arc::new(AtomicBool::new(false));
    let live = Arc::new(LiveRx::default());
    let mode = port.caps().mode.clone();
    let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&live));
    let thread = thread::Builder::new()
        .name("wb-receive".to_owned())
        .spawn(move || {
            let mut meter = Meter::new(config);
            let error = collect(&mut port, &clock, &mut meter, &stopped, &seen).err();
            let mut summary = meter.summary();
            summary.receiver_drops = port.receive_drops();
            Collected { summary, error }
        })
        .map_err(|error| RunError::Machine(format!("cannot start a receiving thread: {error}")))?;
    Ok(Receiver { place, mode, work: Work::Thread { thread, stop, live } })
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

    /// Stops and says what was measured.
    pub(crate) fn finish(self) -> Received {
        match self.work {
            Work::Kernel(receiver) => Received { summary: receiver.summary(), error: None },
            Work::Thread { thread, stop, .. } => {
                stop.store(true, Ordering::Release);
                match thread.join() {
                    Ok(Collected { summary, error }) => Received { summary, error },
                    Err(_) => Received {
                        summary: MeterSummary::default(),
                        error: Some(PortError::System {
                            what: "metering".into(),
                            on: "a receiving thread".to_owned(),
                            source: std::io::Error::other("it panicked"),
                        }),
                    },
                }
            }
        }
    }
}

/// The ends of the links in memory: flows between two loopback ports join them.
pub(crate) fn loopback_ends<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    clock: &VirtualClock,
) -> HashMap<String, LoopbackPort> {
    let mut joined: BTreeMap<String, ()> = BTreeMap::new();
    let mut ends = HashMap::new();
    for (from, to) in pairs {
        if joined.contains_key(from) || joined.contains_key(to) || from == to {
            continue;
        }
        let (there, back) = wirebeat_engine::loopback::pair(clock, Default::default());
        joined.insert(from.to_owned(), ());
        joined.insert(to.to_owned(), ());
        ends.insert(from.to_owned(), there);
        ends.insert(to.to_owned(), back);
    }
    ends
}
