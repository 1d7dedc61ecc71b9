//! The sending ports of a run: opened beforehand, driven by one thread for each transmit core.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use wirebeat_engine::budget::RunClock;
use wirebeat_engine::clock::Wait;
use wirebeat_engine::drive::playback::Playback;
use wirebeat_engine::drive::{Changes, Driven, Job, Listener, LiveTx, Plan, Sequences, drive};
use wirebeat_engine::loopback::{LoopbackPort, VirtualClock};
use wirebeat_engine::pcap::{PcapOptions, PcapPort};
use wirebeat_engine::port::{Caps, Port, PortError, TxPlan};
use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::kernel::{KernelOptions, KernelPort, Shared, SharedSequences};
use wirebeat_engine_linux::packet::{PacketOptions, PacketPort};
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders, realtime_share};
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Joining, SocketOptions, SocketPort, SocketTransmit,
};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_traffic::program::{Pace, Program, Stream};
use wirebeat_traffic::schedule::{ROUND_MAX, Shard};
use wirebeat_units::Nanos;

use crate::engines::{self, Engine};
use crate::error::RunError;
use crate::options::Options;
use crate::placement::Seat;
use crate::ports::PortHere;
use crate::spread::{self, Share};

/// A port of any engine.
#[derive(Debug)]
pub(crate) enum AnyPort {
    Kernel(Box<KernelPort>),
    Packet(Box<PacketPort>),
    Socket(Box<SocketPort>),
    Pcap(Box<PcapPort<BufWriter<File>>>),
    Loopback(Box<LoopbackPort>),
}

impl AnyPort {
    pub(crate) fn caps(&self) -> &Caps {
        match self {
            AnyPort::Kernel(port) => port.caps(),
            AnyPort::Packet(port) => port.caps(),
            AnyPort::Socket(port) => port.caps(),
            AnyPort::Pcap(port) => port.caps(),
            AnyPort::Loopback(port) => port.caps(),
        }
    }
}

/// One transmit core: a port and its share of the flows.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) port: AnyPort,
    pub(crate) plan: Plan,
    pub(crate) flows: Vec<u32>,
    pub(crate) shard: Shard,
    /// Where and how its thread runs that sends.
    pub(crate) thread: ThreadOrders,
    pub(crate) live: Arc<LiveTx>,
    /// What it sends of what was recorded.
    pub(crate) playbacks: Vec<Playback>,
    /// Its place among all transmit cores of the run.
    pub(crate) place: usize,
}

/// What opening a port takes beside the program.
#[derive(Clone, Debug)]
pub(crate) struct Opening<'a> {
    /// What names of files are relative to.
    pub(crate) options: &'a Options,
    pub(crate) wait: Wait,
    pub(crate) priority: Priority,
    /// The clock of the day less the monotonic one.
    pub(crate) unix_offset: UnixOffset,
    /// Of a session that can be changed: the longest frame to have room for, without FCS.
    pub(crate) room: Option<u16>,
    /// Memory that the port takes data from, for the engine `kernel`.
    pub(crate) shared: Option<Arc<Shared>>,
}

/// What all transmit cores are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marching<'a> {
    pub(crate) program: &'a Program,
    pub(crate) sequences: &'a Sequences,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) wait: Wait,
    /// The clock of the day less the monotonic one.
    pub(crate) unix_offset: &'a UnixOffset,
    pub(crate) stop: &'a AtomicBool,
    /// Changes from outside, if there may be some.
    pub(crate) changes: Option<&'a Changes>,
}

/// Opens the transmit cores of a port, on these CPUs. `ends` holds the ends of loopback links.
pub(crate) fn open(
    (port, engine): (&PortHere, Engine),
    program: &Program,
    (opening, seats): (Opening<'_>, &[Seat]),
    ends: &mut HashMap<String, LoopbackPort>,
) -> Result<Vec<Sender>, RunError> {
    let flows = program.flows_from(&port.name);
    if flows.is_empty() {
        return Ok(Vec::new());
    }
    if matches!(engine, Engine::Pcap | Engine::Loopback) {
        check_end(port, program, &flows)?;
    }
    if engine == Engine::Socket {
        check_endpoints(port, program, &flows)?;
    }
    // in memory there is one, wherever it is put
    let shares = spread::shares(program, &flows, (seats.len(), port.spec.names_several()));
    let cores = shares.len();
    let Opening { options, wait, priority, unix_offset, room, shared } = opening;
    let repeats = if engine == Engine::Kernel && room.is_none() { ROUND_MAX } else { 0 };
    let sequences = match engine {
        Engine::Kernel if cores > 1 => {
            let cut = program.streams_of(&flows).any(|stream| stream.frames.is_cut());
            let counters = program.tags() * (1 + u32::from(cut));
            Some(Arc::new(SharedSequences::new(counters)?))
        }
        _ => None,
    };
    let mut senders = Vec::with_capacity(seats.len());
    for (seat, Share { flows, shard }) in seats.iter().zip(shares) {
        let thread = ThreadOrders {
            cpus: seat.cpu.into_iter().collect(),
            priority,
            ..ThreadOrders::default()
        };
        let mut plan = Plan::new(program, &flows, shard, (repeats, unix_offset.get()));
        if let Some(room) = room {
            plan.tx.frame_max = plan.tx.frame_max.max(room);
            plan.tx.frame_len = None;
        }
        let opened = match engine {
            Engine::Kernel => {
                let options = kernel_options(
                    port,
                    &plan,
                    (wait, thread.clone(), unix_offset.clone()),
                    (sequences.clone(), shared.clone()),
                )?;
                let opened = port.enter(|| KernelPort::open(options))??;
                AnyPort::Kernel(Box::new(opened))
            }
            Engine::Loopback => match ends.remove(&port.name) {
                Some(end) => AnyPort::Loopback(Box::new(end)),
                None => {
                    return Err(RunError::Usage(format!(
                        "port '{}' has no other end: a scenario in memory needs flows between two ports \
                     of the engine 'loopback'",
                        port.name
                    )));
                }
            },
            Engine::Packet => {
                let options = packet_options(port, &plan)?;
                AnyPort::Packet(Box::new(port.enter(|| PacketPort::open(&options))??))
            }
            Engine::Socket => {
                let options = socket_options(port, program, &flows, (&plan, room));
                AnyPort::Socket(Box::new(port.enter(|| SocketPort::open(&options))??))
            }
            Engine::Pcap => AnyPort::Pcap(Box::new(open_pcap(port, &plan, options)?)),
        };
        let live = Arc::new(LiveTx::default());
        let playbacks = Vec::new();
        senders.push(Sender {
            port: opened,
            plan,
            flows,
            shard,
            thread,
            live,
            playbacks,
            place: 0,
        });
    }
    Ok(senders)
}

fn kernel_options(
    port: &PortHere,
    plan: &Plan,
    (wait, thread, unix_offset): (Wait, ThreadOrders, UnixOffset),
    (sequences, shared): (Option<Arc<SharedSequences>>, Option<Arc<Shared>>),
) -> Result<KernelOptions, RunError> {
    let Some(link) = &port.link else {
        return Err(RunError::Usage(format!(
            "port '{}' has no interface, and the kernel engine needs one",
            port.name
        )));
    };
    Ok(KernelOptions {
        index: link.index.get(),
        interface: link.name.clone(),
        plan: plan.tx,
        wait,
        thread,
        unix_offset,
        sequences,
        shared,
        attachment: port.attachment.get().cloned(),
        link: link.speed,
    })
}

/// On a virtual clock no time passes while frames are sent flat out: only a count ends them.
fn check_end(port: &PortHere, program: &Program, flows: &[u32]) -> Result<(), RunError> {
    let endless = |stream: &&Stream| {
        stream.departures.pace == Pace::Unlimited && stream.departures.count == u64::MAX
    };
    let endless = program.streams_of(flows).find(endless);
    match endless.and_then(|stream| program.flows.get(stream.flow as usize)) {
        Some(flow) => Err(RunError::Usage(format!(
            "flow '{}' has neither rate nor count, and port '{}' is on a virtual clock, where it would \
             never end; give it one of them",
            flow.name, port.name
        ))),
        None => Ok(()),
    }
}

/// A socket sends what the system makes headers for.
fn check_endpoints(port: &PortHere, program: &Program, flows: &[u32]) -> Result<(), RunError> {
    let flows = flows.iter().filter_map(|&flow| program.flows.get(flow as usize));
    match flows.into_iter().find(|flow| flow.endpoint.is_none()) {
        Some(flow) => {
            let remedy = match engines::without_ethernet(port) {
                Some(why) => format!(
                    "{why}, so that the engines 'packet' and 'kernel' cannot send it either"
                ),
                None => "use the engine 'packet' or 'kernel'".to_owned(),
            };
            Err(RunError::Usage(format!(
                "flow '{}' cannot be sent by the engine 'socket' of port '{}': the system makes the headers \
                 there, and these are not plain UDP over IP with fields that stay the same; {remedy}",
                flow.name, port.name
            )))
        }
        None => Ok(()),
    }
}

fn open_pcap(
    port: &PortHere,
    plan: &Plan,
    options: &Options,
) -> Result<PcapPort<BufWriter<File>>, RunError> {
    let Some(file) = &port.spec.file else {
        return Err(RunError::Usage(format!(
            "port '{}' writes a capture and has no file; give it one, for example 'file: run.pcapng'",
            port.name
        )));
    };
    let how = PcapOptions { plan: plan.tx, epoch: Nanos::ZERO };
    Ok(PcapPort::create(&options.path(file), &how)?)
}

fn packet_options(port: &PortHere, plan: &Plan) -> Result<PacketOptions, RunError> {
    let Some(link) = &port.link else {
        return Err(RunError::Usage(format!(
            "port '{}' has no interface, and the packet engine needs one",
            port.name
        )));
    };
    let interface = link.name.clone();
    let card = port.card.get().cloned();
    Ok(PacketOptions { interface, transmit: Some(plan.tx), receive: None, card })
}

fn socket_options(
    port: &PortHere,
    program: &Program,
    flows: &[u32],
    (plan, room): (&Plan, Option<u16>),
) -> SocketOptions {
    let endpoint = |flow: &wirebeat_traffic::program::Flow| {
        let endpoint = flow.endpoint?;
        Some(Endpoint {
            source: endpoint.source,
            destination: endpoint.destination,
            ttl: endpoint.ttl,
            tos: endpoint.tos,
            checksum: if endpoint.checksum { Checksum::Sent } else { Checksum::Omitted },
        })
    };
    // lengths are those of payloads here
    let images = || program.streams_of(flows).map(|stream| stream.frames.datagram());
    let frame_max = images().map(|image| image.longest()).max().unwrap_or(0);
    let fixed = images().all(|image| image.fixed_len() == Some(frame_max));
    let frame_len = fixed.then_some(frame_max).filter(|_| room.is_none());
    let frame_max = frame_max.max(room.unwrap_or(0));
    SocketOptions {
        interface: socket_interface(port),
        card: port.card.get().cloned(),
        transmit: Some(SocketTransmit {
            plan: TxPlan { frame_max, frame_len, ..plan.tx },
            endpoints: (0..program.tags())
                .map(|tag| {
                    let flow = program.flow_of(tag);
                    let flow = flows.contains(&flow).then(|| program.flows.get(flow as usize));
                    flow.flatten().and_then(endpoint)
                })
                .collect(),
            joining: Joining::WhereSizesAllow,
        }),
        receive: None,
    }
}

/// The interface of a port's sockets. One that was not asked for is left to the routes, unless its card stamps.
pub(crate) fn socket_interface(port: &PortHere) -> Option<String> {
    let stamps = port.card.get().and(port.link.as_ref()).map(|link| link.name.clone());
    port.spec.interface.clone().or(stamps)
}

/// Says at its end that a core sends nothing more.
struct Leaving<'a> {
    changes: &'a Changes,
    place: usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.changes.leave(self.place);
    }
}

impl Sender {
    /// Starts the thread that drives this core.
    pub(crate) fn spawn<'scope, 'env: 'scope>(
        &'env mut self,
        scope: &'scope thread::Scope<'scope, 'env>,
        marching: Marching<'env>,
        clocks: &mut impl Iterator<Item = VirtualClock>,
    ) -> std::io::Result<ScopedJoinHandle<'scope, Driven>> {
        let name = format!("wb-send-{}", self.shard.core);
        let clock = if self.is_on_virtual_time() { clocks.next() } else { None };
        thread::Builder::new().name(name).spawn_scoped(scope, move || {
            // The others wait for it to end, however it does.
            let _leaving = marching.changes.map(|changes| Leaving { changes, place: self.place });
            self.run(&marching, clock.unwrap_or_default())
        })
    }

    /// Whether it sends to what keeps a clock of its own.
    pub(crate) fn is_on_virtual_time(&self) -> bool {
        matches!(self.port, AnyPort::Pcap(_) | AnyPort::Loopback(_))
    }

    /// Drives the port; `virtual_clock` is its clock if it keeps one of its own.
    fn run(&mut self, marching: &Marching<'_>, virtual_clock: VirtualClock) -> Driven {
        // of the kernel engine another thread sends, and applies them to itself
        let own = matches!(self.port, AnyPort::Packet(_) | AnyPort::Socket(_));
        let _applied = match own.then(|| self.thread.apply()).transpose() {
            Ok(applied) => applied,
            Err(source) => {
                let on = format!("CPU {:?}, priority {:?}", self.thread.cpus, self.thread.priority);
                let what = "preparing the sending thread".into();
                let error = Some(PortError::System { what, on, source });
                let (flows, shared_errors) = (Vec::new(), Vec::new());
                return Driven {
                    flows,
                    shared_errors,
                    interruptions: None,
                    card_stamps: None,
                    error,
                };
            }
        };
        affinity::precise_timers();
        let clock = match own && self.thread.priority == Priority::Realtime {
            true => RunClock::with_budget(realtime_share()),
            false => RunClock::default(),
        };
        let live = Arc::clone(&self.live);
        let job = Job {
            program: marching.program,
            flows: &self.flows,
            shard: self.shard,
            sequences: marching.sequences,
            start: marching.start,
            time: marching.end,
            end: self.end(marching),
            wait: marching.wait,
            unix_offset: marching.unix_offset,
            stop: marching.stop,
            live: &live,
            playbacks: RefCell::new(std::mem::take(&mut self.playbacks)),
            changes: marching.changes.map(|changes| Listener { changes, core: self.place }),
        };
        match &mut self.port {
            AnyPort::Kernel(port) => drive(&mut **port, &clock, &job, &self.plan),
            AnyPort::Packet(port) => drive(&mut **port, &clock, &job, &self.plan),
            AnyPort::Socket(port) => drive(&mut **port, &clock, &job, &self.plan),
            AnyPort::Pcap(port) => drive(&mut **port, &virtual_clock, &job, &self.plan),
            AnyPort::Loopback(port) => drive(&mut **port, &virtual_clock, &job, &self.plan),
        }
    }

    /// Flows with a rate end by their own schedule and get a moment for their last frames: longer than
    /// a busy machine keeps a thread from its core.
    fn end(&self, marching: &Marching<'_>) -> Nanos {
        const GRACE: Nanos = Nanos::from_millis(100);
        if self.plan.tx.paced { marching.end.saturating_add(GRACE) } else { marching.end }
    }
}

/// Frames and bytes sent, and frames expired, over all cores.
pub(crate) fn progress(senders: &[Arc<LiveTx>]) -> (u64, u64, u64) {
    senders.iter().fold((0, 0, 0), |(frames, bytes, expired), live| {
        (
            frames + live.frames.load(Ordering::Relaxed),
            bytes + live.bytes.load(Ordering::Relaxed),
            expired + live.expired.load(Ordering::Relaxed),
        )
    })
}

/// The interface that an error says is gone.
pub(crate) fn gone(error: &PortError) -> Option<&str> {
    match error {
        PortError::Gone(interface) => Some(interface),
        _ => None,
    }
}
