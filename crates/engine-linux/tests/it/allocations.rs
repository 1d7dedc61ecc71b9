//! The hot paths allocate nothing for a frame: eight times the frames take the same memory.
//!
//! What a run allocates once (its buffers, the histograms of a flow) is in both numbers that are
//! compared, and so is what it allocates by time (showing others how far it is), for both runs take as
//! long. The busier run has more buckets in its result, and putting that together allocates once for some
//! of them: one allocation for ten frames is allowed where that can be. Tens were seen; with the kernel
//! engine, whose departures were spread over a thousand buckets, 150.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock, Wait};
use wirebeat_engine::collect::{LiveRx, collect};
use wirebeat_engine::drive::{Driven, Job, LiveTx, Plan, RunTimes, Sequences, drive};
use wirebeat_engine::loopback::{self, Link, LoopbackRx, LoopbackTx, VirtualClock};
use wirebeat_engine::port::{RxPort, TxPort};
use wirebeat_engine_linux::kernel::{KernelOptions, KernelTx};
use wirebeat_engine_linux::packet::{Accept, PacketReceive, PacketTx};
use wirebeat_engine_linux::scheduling::ThreadOrders;
use wirebeat_engine_linux::socket::{Checksum, Endpoint, Joining, SocketReceive, SocketTransmit};
use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::meter::{Meter, MeterConfig};
use wirebeat_meter::summary::MeterSummary;
use wirebeat_testbed::{Capability, End, Testbed, require};
use wirebeat_traffic::compile::{self, Links, compile};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;
use wirebeat_wire::codec::Moment;

use crate::counting::allocations;
use crate::lab::{
    PATIENCE, PORT, cable, packet_receiver, prompt_receiver, sending, socket_receiver,
};

/// Frames of one run, of both flows together.
const FEW: u64 = 1_000;
/// Frames of the other.
const MANY: u64 = 8 * FEW;

/// Two flows of different sizes and rates, of `frames` frames together in a fifth of a second.
fn program(frames: u64, links: &Links) -> Program {
    let flow = |size: &str, count: u64| {
        let rate = 5 * count;
        format!(
            "{{ from: a, to: b, packet: [ {{ ipv4: {{ identification: count }} }}, \
             {{ udp: {{ destination: {PORT} }} }} ], size: {size}, rate: {rate}pps, count: {count} }}"
        )
    };
    let short = flow("64B", frames * 3 / 4);
    let long = flow("300B", frames / 4);
    let text = format!("ports: {{ a: {{}}, b: {{}} }}\nflows:\n  short: {short}\n  long: {long}\n");
    compile(&Scenario::from_yaml(&text, "test").unwrap(), links, &Default::default()).unwrap()
}

/// A link from `a` to `b` with these addresses, or with ones of its own; those of the link layer are
/// nobody's.
fn links(cable: Option<&Testbed>) -> Links {
    let mut links = [compile::Link::imaginary(0), compile::Link::imaginary(1)];
    if let Some(cable) = cable {
        for (link, end) in links.iter_mut().zip([&cable.a, &cable.b]) {
            link.addresses = vec![end.ipv4.into()];
        }
    }
    Links { ports: ["a", "b"].map(str::to_owned).into_iter().zip(links).collect() }
}

/// Sends all of `program` from `start` on, and says how often that allocated.
fn counted_drive<P: TxPort, C: Clock>(
    port: &mut P,
    clock: &C,
    program: &Program,
    start: Nanos,
) -> (Driven, u64) {
    let flows = [0, 1];
    let job = Job {
        program,
        flows: &flows,
        shard: Shard::WHOLE,
        sequences: &Sequences::new(program.tags()),
        times: RunTimes {
            start,
            end: Nanos::MAX,
            latest: Nanos::MAX,
            wait: Wait::Sleep,
            unix_offset: &UnixOffset::default(),
        },
        stop: &AtomicBool::new(false),
        live: &LiveTx::default(),
        playbacks: RefCell::default(),
        changes: None,
        limit: None,
    };
    let plan = Plan::new(program, &flows, Shard::WHOLE, (0, 0));
    allocations(|| drive(port, clock, &job, &plan))
}

fn unique(summary: &MeterSummary) -> u64 {
    summary.flows.values().map(|flow| flow.sequence.unique).sum()
}

/// Allocations of a run: while it was sent, and while it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    sending: u64,
    receiving: u64,
}

/// Fails when the run of more frames allocated for them.
fn assert_flat(few: Cost, many: Cost) {
    let allowed = (MANY - FEW) / 10;
    for (few, many) in [(few.sending, many.sending), (few.receiving, many.receiving)] {
        assert!(many <= few + allowed, "{FEW} frames: {few} allocations, {MANY} frames: {many}");
    }
}

/// A run in memory, and what was measured of it.
fn in_memory(
    (sender, receiver): (&mut LoopbackTx, &mut LoopbackRx),
    clock: &VirtualClock,
    frames: u64,
) -> (Cost, MeterSummary) {
    let start = clock.now().saturating_add(Nanos::from_millis(1));
    let (driven, sending) = counted_drive(sender, clock, &program(frames, &links(None)), start);
    assert!(driven.error.is_none(), "{driven:?}");
    let mut meter = Meter::new(MeterConfig::default());
    // stopped from the start: everything has arrived
    let (stop, live) = (AtomicBool::new(true), LiveRx::default());
    let (result, receiving) = allocations(|| collect(receiver, clock, &mut meter, &stop, &live));
    result.unwrap();
    (Cost { sending, receiving }, meter.summary())
}

#[test]
fn frames_in_memory_cost_no_allocation() {
    let clock = VirtualClock::default();
    let link = Link { lose_every: 100, duplicate_every: 70, swap_every: 50, ..Link::default() };
    let (there, back) = loopback::pair(&clock, link);
    let (mut a, mut b) = (there.tx, back.rx);
    // the link keeps the memory of as many frames as ever were on it
    in_memory((&mut a, &mut b), &clock, MANY);
    let (few, _) = in_memory((&mut a, &mut b), &clock, FEW);
    let (many, summary) = in_memory((&mut a, &mut b), &clock, MANY);
    assert_eq!(unique(&summary), MANY - MANY / 100);
    assert_flat(few, many);
}

/// A run over a cable, sent by one thread and received by another.
fn across<T: TxPort, R: RxPort>(
    (sender, receiver): (&mut T, &mut R),
    program: &Program,
    frames: u64,
) -> Cost {
    let (stop, live) = (AtomicBool::new(false), LiveRx::default());
    let mut meter = Meter::new(MeterConfig::default());
    let cost = thread::scope(|scope| {
        let collecting = scope
            .spawn(|| allocations(|| collect(receiver, &MonotonicClock, &mut meter, &stop, &live)));
        let start = MonotonicClock.now().saturating_add(Nanos::from_millis(5));
        let (driven, sending) = counted_drive(sender, &MonotonicClock, program, start);
        let deadline = MonotonicClock.now().saturating_add(PATIENCE);
        while live.frames.load(Ordering::Relaxed) < frames && MonotonicClock.now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Release);
        let (result, receiving) = collecting.join().unwrap();
        result.unwrap();
        assert!(driven.error.is_none(), "{driven:?}");
        Cost { sending, receiving }
    });
    assert_eq!(unique(&meter.summary()), frames);
    cost
}

/// A run of the packet engine, received by what `open` opens.
fn by_packets<R: RxPort>(cable: &Testbed, frames: u64, open: impl FnOnce(&End) -> R) -> Cost {
    let program = program(frames, &links(Some(cable)));
    let plan = Plan::new(&program, &[0, 1], Shard::WHOLE, (0, 0)).tx;
    let open_sender = || PacketTx::open(cable.a.interface(), &plan, None);
    let mut sender = cable.a.namespace.run(open_sender).unwrap().unwrap();
    across((&mut sender, &mut open(&cable.b)), &program, frames)
}

#[test]
fn frames_of_the_packet_engine_cost_no_allocation() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let receive = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
    let [few, many] =
        [FEW, MANY].map(|frames| by_packets(&cable, frames, |end| packet_receiver(end, receive)));
    assert_flat(few, many);
}

#[test]
fn frames_that_are_handed_over_at_once_cost_no_allocation() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let [few, many] = [FEW, MANY]
        .map(|frames| by_packets(&cable, frames, |end| prompt_receiver(end, Accept::All)));
    assert_flat(few, many);
}

/// A run that the kernel engine is fed with, and nobody receives. The thread that wakes the kernel for it
/// is not counted.
fn fed(cable: &Testbed, frames: u64) -> u64 {
    let program = program(frames, &links(Some(cable)));
    let options = KernelOptions {
        index: cable.a.link.index.get(),
        interface: cable.a.interface().to_owned(),
        plan: Plan::new(&program, &[0, 1], Shard::WHOLE, (0, 0)).tx,
        wait: Wait::Sleep,
        thread: Some(ThreadOrders::on(0)),
        unix_offset: UnixOffset::default(),
        sequences: None,
        shared: None,
        attachment: None,
        link: None,
        observe: None,
    };
    let mut port = cable.a.namespace.run(|| KernelTx::open(options)).unwrap().unwrap();
    let start = MonotonicClock.now().saturating_add(Nanos::from_millis(5));
    let (driven, sending) = counted_drive(&mut port, &MonotonicClock, &program, start);
    assert!(driven.error.is_none(), "{driven:?}");
    assert_eq!(driven.flows.iter().map(|flow| flow.sent.frames).sum::<u64>(), frames);
    sending
}

#[test]
fn frames_that_the_kernel_engine_is_fed_with_cost_no_allocation() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let cable = cable();
    // with GRO on, a virtual cable takes redirected frames without a program at its far end
    let mut far = cable.b.netlink().unwrap();
    far.set_features(cable.b.link.index, &[("rx-gro", true)]).unwrap();
    let [few, many] = [FEW, MANY].map(|frames| Cost { sending: fed(&cable, frames), receiving: 0 });
    assert_flat(few, many);
}

#[test]
fn datagrams_of_the_socket_engine_cost_no_allocation() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let [few, many] = [FEW, MANY].map(|frames| {
        let program = program(frames, &links(Some(&cable)));
        let endpoint = |flow: &wirebeat_traffic::program::Flow| {
            let endpoint = flow.endpoint.unwrap();
            Endpoint {
                source: endpoint.source,
                destination: endpoint.destination,
                ttl: endpoint.ttl,
                tos: endpoint.tos,
                checksum: Checksum::Sent,
            }
        };
        let transmit = SocketTransmit {
            plan: Plan::new(&program, &[0, 1], Shard::WHOLE, (0, 0)).tx,
            endpoints: program.flows.iter().map(endpoint).map(Some).collect(),
            joining: Joining::WhereSizesAllow,
        };
        let mut sender = sending(&cable.a, &transmit).unwrap();
        let listen = vec![SocketAddr::new(cable.b.ipv4.into(), PORT)];
        let receive = SocketReceive { listen, ..SocketReceive::default() };
        let mut receiver = socket_receiver(&cable.b, receive);
        across((&mut sender, &mut receiver), &program, frames)
    });
    assert_flat(few, many);
}

/// Measures `frames` numbers, of which every tenth is lost, every seventh comes twice and every fifth
/// after the next; says how often that allocated.
fn measured(frames: u64) -> (MeterSummary, u64) {
    let program = program(frames, &links(None));
    let image = program.streams[0].frames.frame();
    let mut meter = Meter::new(MeterConfig::default());
    let mut bytes = [0; 60];
    let ((), count) = allocations(|| {
        let mut record = |number: u64| {
            let now = Moment { monotonic_ns: number * 1_000, unix_ns: 0 };
            image.build(number, &mut bytes).stamp(&mut bytes, number as u32, now);
            meter.record_frame(Nanos::new(number * 1_000 + 500 + number % 97), &bytes, 64);
        };
        for number in 0..frames {
            let number = match number % 5 {
                3 => number + 1,
                4 => number - 1,
                _ => number,
            };
            if number % 10 != 0 {
                record(number);
            }
            if number % 7 == 1 {
                record(number);
            }
        }
    });
    (meter.summary(), count)
}

#[test]
fn measuring_a_frame_costs_no_allocation() {
    let (_, few) = measured(FEW);
    let (summary, many) = measured(MANY);
    let sequence = &summary.flows[&0].sequence;
    assert!(sequence.duplicates > MANY / 10 && sequence.reordered > MANY / 10, "{sequence:?}");
    assert!(sequence.unique < MANY - MANY / 12, "{sequence:?}");
    // the window of a flow doubles with its first numbers, from 1,024 to 65,536, and never again
    const DOUBLINGS: u64 = 6;
    assert!(many >= few && many <= few + DOUBLINGS, "{few} and {many} allocations");
}
