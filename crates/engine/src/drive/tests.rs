//! The transmit loop over a link in memory, on a virtual clock.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

use wirebeat_traffic::program::{Departures, Endpoint, Flow, FrameTemplate, Late, Program};
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{FrameRate, Nanos};
use wirebeat_wire::probe::Probe;
use wirebeat_wire::stamp::Stamp;

use super::{Driven, Job, LiveTx, Plan, Sequences, drive};
use crate::clock::Wait;
use crate::loopback::{Link, LoopbackPort, VirtualClock, pair};
use crate::port::Port;

const START: Nanos = Nanos::from_secs(1);

/// A flow of 60-byte frames that hold nothing but their probe.
fn flow(id: u16, rate: Option<u64>, count: u64) -> Flow {
    let mut bytes = vec![0; 60];
    bytes[44..].copy_from_slice(&Probe { flow: id, sequence: 0, transmit_ns: 0 }.to_bytes());
    let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    Flow {
        name: format!("flow {id}"),
        id,
        from: "a".to_owned(),
        to: None,
        template: FrameTemplate {
            bytes,
            payload_at: 42,
            payload_len: 18,
            stamp: Stamp { probe_at: 44, ..Stamp::default() },
        },
        departures: Departures {
            rate: rate.map(|frames| FrameRate { frames, per: Nanos::from_secs(1) }),
            burst: 1,
            start: Nanos::ZERO,
            stop: Nanos::MAX,
            count,
        },
        late: Late::Send,
        endpoint: Endpoint {
            source: nowhere,
            destination: nowhere,
            ttl: 64,
            tos: 0,
            checksum: false,
        },
    }
}

struct World {
    program: Program,
    clock: VirtualClock,
    sequences: Sequences,
    stop: AtomicBool,
    live: LiveTx,
    end: Nanos,
}

impl World {
    fn new(flows: Vec<Flow>) -> World {
        let sequences = Sequences::new(flows.len());
        World {
            program: Program { seed: 1, flows },
            clock: VirtualClock::default(),
            sequences,
            stop: AtomicBool::new(false),
            live: LiveTx::default(),
            end: Nanos::MAX,
        }
    }

    fn drive(&self, port: &mut LoopbackPort, shard: Shard) -> Driven {
        let flows: Vec<u32> = (0..self.program.flows.len() as u32).collect();
        let job = Job {
            program: &self.program,
            flows: &flows,
            shard,
            sequences: &self.sequences,
            start: START,
            end: self.end,
            wait: Wait::Spin,
            stop: &self.stop,
            live: &self.live,
        };
        drive(port, &self.clock, &job, &Plan::new(&self.program, &flows, shard, 0))
    }
}

/// What arrived: time, flow, number and transmit time.
fn arrivals(port: &mut LoopbackPort) -> Vec<(Nanos, Probe)> {
    let mut all = Vec::new();
    let read = |port: &mut LoopbackPort, all: &mut Vec<_>| {
        port.receive(Nanos::ZERO, |arrival| {
            all.push((arrival.at, Probe::from_tail(arrival.bytes).unwrap()));
        })
        .unwrap()
    };
    while read(port, &mut all) > 0 {}
    all
}

#[test]
fn frames_leave_at_their_deadlines_with_number_and_time() {
    let world = World::new(vec![flow(0, Some(1_000_000), 1000), flow(7, Some(10_000), 10)]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    assert!(driven.error.is_none());
    let arrived = arrivals(&mut b);
    assert_eq!(arrived.len(), 1010);
    for id in [0, 7] {
        let of_flow: Vec<_> = arrived.iter().filter(|(_, probe)| probe.flow == id).collect();
        let gap = if id == 0 { 1_000 } else { 100_000 };
        for (n, (at, probe)) in (0u32..).zip(&of_flow) {
            assert_eq!(probe.sequence, n);
            let deadline = START.get() + u64::from(n) * gap;
            let late = probe.transmit_ns - deadline;
            assert!(late < 1_000, "frame {n} of flow {id} is {late} ns late");
            assert!(at.get() >= probe.transmit_ns);
        }
    }
    let sent = &driven.flows[0];
    assert_eq!((sent.requested, sent.sent, sent.expired, sent.failed), (1000, 1000, 0, 0));
    assert_eq!(sent.error.moments.count, 1000);
    assert!(sent.error.moments.min >= 0);
}

#[test]
fn cores_share_a_flow_without_one_number_twice() {
    let world = World::new(vec![flow(0, Some(50_000), 999)]);
    let mut numbers = Vec::new();
    let mut requested = 0;
    for core in 0..3 {
        // each core has its own port, and one after the other here
        let (mut a, mut b) = pair(&world.clock, Link::default());
        requested += world.drive(&mut a, Shard { core, cores: 3 }).flows[0].requested;
        numbers.extend(arrivals(&mut b).iter().map(|(_, probe)| probe.sequence));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..999).collect::<Vec<u32>>());
    assert_eq!(requested, 999);
}

#[test]
fn frames_later_than_their_drift_are_dropped_and_take_no_number() {
    // faster than the loop, which looks at the clock (20 ns each) a few times for a batch of 64
    let mut fast = flow(0, Some(10_000_000_000), 1_000_000);
    fast.late = Late::Drop(Nanos::from_micros(5));
    let world = World::new(vec![fast]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    let sent = &driven.flows[0];
    assert!(sent.expired > 0 && sent.sent > 0, "{sent:?}");
    assert_eq!((sent.requested, sent.sent + sent.expired), (1_000_000, 1_000_000));
    let arrived = arrivals(&mut b);
    assert!(arrived.iter().map(|(_, probe)| probe.sequence).eq(0..sent.sent as u32));
    // decided when the batch is taken, with a look or two at the clock until it leaves
    assert!(sent.error.moments.max <= 5_000 + 2 * 20, "{:?}", sent.error.moments);
}

#[test]
fn a_stop_ends_a_flood() {
    let mut world = World::new(vec![flow(0, None, u64::MAX)]);
    world.end = START.saturating_add(Nanos::from_micros(100));
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    let sent = &driven.flows[0];
    assert!(sent.sent > 0);
    assert_eq!(sent.sent, sent.requested);
    assert_eq!(arrivals(&mut b).len() as u64, sent.sent);
    // without a rate there is no deadline to be late for
    assert_eq!(sent.error.moments.count, 0);
    assert!(sent.span.unwrap().1 < world.end.saturating_add(Nanos::from_micros(10)));
}

#[test]
fn nothing_leaves_before_the_start() {
    let world = World::new(vec![flow(0, None, 10)]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    world.drive(&mut a, Shard::WHOLE);
    assert!(arrivals(&mut b).iter().all(|(_, probe)| probe.transmit_ns >= START.get()));
}

#[test]
fn a_run_that_is_stopped_beforehand_sends_nothing() {
    let mut world = World::new(vec![flow(0, Some(1000), 10)]);
    world.stop = AtomicBool::new(true);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    assert_eq!(world.drive(&mut a, Shard::WHOLE).flows[0].requested, 0);
    assert!(arrivals(&mut b).is_empty());
}

#[test]
fn the_link_loses_duplicates_and_swaps_as_told() {
    let world = World::new(vec![flow(0, Some(1_000_000), 12)]);
    let link = Link { lose_every: 5, duplicate_every: 4, swap_every: 7, ..Link::default() };
    let (mut a, mut b) = pair(&world.clock, link);
    world.drive(&mut a, Shard::WHOLE);
    let numbers: Vec<u32> = arrivals(&mut b).iter().map(|(_, probe)| probe.sequence).collect();
    // the 5th and 10th are lost, the 4th, 8th and 12th come twice, the 7th after the 8th
    assert_eq!(numbers, [0, 1, 2, 3, 3, 5, 7, 7, 6, 8, 10, 11, 11]);
}

#[test]
fn late_frames_are_spaced_by_most_of_their_gap_unless_something_else_counts() {
    let mut drop = flow(1, Some(100_000), 1);
    drop.late = Late::Drop(Nanos::from_micros(5));
    let mut burst = flow(2, Some(100_000), 8);
    burst.departures.burst = 8;
    let flows =
        vec![flow(0, Some(400_000), 1), drop, burst, flow(3, None, 1), flow(4, Some(1_000), 1)];
    let world = World::new(flows);
    let spacings = |cores: u32, wait: Wait| {
        let job = Job {
            program: &world.program,
            flows: &[],
            shard: Shard { core: 0, cores },
            sequences: &world.sequences,
            start: START,
            end: world.end,
            wait,
            stop: &world.stop,
            live: &world.live,
        };
        [0, 1, 2, 3, 4].map(|flow| job.spacing(flow).get())
    };
    assert_eq!(spacings(1, Wait::Spin), [1875, 0, 0, 0, 5000]);
    assert_eq!(spacings(2, Wait::Hybrid), [3750, 0, 0, 0, 5000]);
    assert_eq!(spacings(1, Wait::Sleep), [0; 5]);
}
