//! The transmit loop over a link in memory, on a virtual clock.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use wirebeat_meter::codecs::UnixOffset;
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_meter::observation::Judged;
use wirebeat_traffic::compile::{Link as Imaginary, Links, compile};
use wirebeat_traffic::program::{Late, Pace, Program};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::{BitRate, FrameRate, Nanos};
use wirebeat_wire::fragment::Fragment;
use wirebeat_wire::probe::Probe;

use super::{Driven, Job, LineLimit, LiveTx, Plan, RunTimes, Sequences, TxFlowStats, drive};
use crate::clock::{Clock, Wait};
use crate::collect::{ArrivalTap, LiveRx, Manner, collect_and_tell};
use crate::loopback::{self, Link, LoopbackRx, LoopbackTx, VirtualClock};
use crate::port::{
    Amount, Arrival, Fate, Fates, PortError, RxPort, TxCaps, TxMeta, TxPort, TxTotals,
};

const START: Nanos = Nanos::from_secs(1);

/// Flows of the shortest frames, each with a rate, if it has one, and a count.
fn program(flows: &[(Option<u64>, u64)]) -> Program {
    let mut text = "ports: { a: {} }\nflows:\n".to_owned();
    for (id, (rate, count)) in flows.iter().enumerate() {
        let rate = rate.map_or("unlimited".to_owned(), |rate| format!("{rate}pps"));
        let limit =
            if *count == u64::MAX { "stop: 1h".to_owned() } else { format!("count: {count}") };
        text += &format!("  flow{id}: {{ from: a, to: a, rate: {rate}, {limit} }}\n");
    }
    compiled(&text)
}

fn compiled(text: &str) -> Program {
    let scenario = Scenario::from_yaml(text, "test").unwrap();
    let links = Links { ports: [("a".to_owned(), Imaginary::imaginary(0))].into() };
    let mut program = compile(&scenario, &links, &Default::default()).unwrap();
    for stream in &mut program.streams {
        // here they are meant to fire together
        stream.departures.start = Nanos::ZERO;
    }
    program
}

struct World {
    program: Program,
    clock: VirtualClock,
    sequences: Sequences,
    stop: AtomicBool,
    live: LiveTx,
    time: Nanos,
    end: Nanos,
    limit: Option<LineLimit>,
}

impl World {
    fn new(flows: &[(Option<u64>, u64)]) -> World {
        World::of(program(flows))
    }

    fn of(program: Program) -> World {
        let sequences = Sequences::new(program.tags());
        World {
            program,
            clock: VirtualClock::default(),
            sequences,
            stop: AtomicBool::new(false),
            live: LiveTx::default(),
            time: Nanos::MAX,
            end: Nanos::MAX,
            limit: None,
        }
    }

    fn drive(&self, port: &mut impl TxPort, shard: Shard) -> Driven {
        let flows: Vec<u32> = (0..self.program.flows.len() as u32).collect();
        self.drive_part(port, &self.clock, (&flows, shard))
    }

    fn drive_flows(&self, port: &mut impl TxPort, clock: &impl Clock, flows: &[u32]) -> Driven {
        self.drive_part(port, clock, (flows, Shard::WHOLE))
    }

    fn drive_part(
        &self,
        port: &mut impl TxPort,
        clock: &impl Clock,
        (flows, shard): (&[u32], Shard),
    ) -> Driven {
        let job = Job {
            program: &self.program,
            flows,
            shard,
            sequences: &self.sequences,
            times: RunTimes {
                start: START,
                end: self.time,
                latest: self.end,
                wait: Wait::Spin,
                unix_offset: &UnixOffset::default(),
            },
            stop: &self.stop,
            live: &self.live,
            playbacks: RefCell::default(),
            changes: None,
            limit: self.limit,
        };
        drive(port, clock, &job, &Plan::new(&self.program, flows, shard, (0, 0)))
    }
}

/// A link, and its two ends.
fn pair(clock: &VirtualClock, link: Link) -> (LoopbackTx, LoopbackRx) {
    let (there, back) = loopback::pair(clock, link);
    (there.tx, back.rx)
}

/// What arrived: time, flow, number and transmit time.
fn arrivals(port: &mut LoopbackRx) -> Vec<(Nanos, Probe)> {
    let mut all = Vec::new();
    let read = |port: &mut LoopbackRx, all: &mut Vec<_>| {
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
    let world = World::new(&[(Some(1_000_000), 1000), (Some(10_000), 10)]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    assert!(driven.error.is_none());
    let arrived = arrivals(&mut b);
    assert_eq!(arrived.len(), 1010);
    for id in [0, 1] {
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
    let frames = [sent.requested, sent.sent, sent.expired, sent.failed, sent.not_reached];
    assert_eq!(frames.map(|amount| amount.frames), [1000, 1000, 0, 0, 0]);
    assert_eq!(sent.sent, Amount { frames: 1000, fragments: 0, bytes: 64_000, payload: 18_000 });
    assert_eq!(sent.departures.lateness.moments.count, 1000);
    assert!(sent.departures.lateness.moments.min >= 0);
}

#[test]
fn cores_share_a_flow_without_one_number_twice() {
    let world = World::new(&[(Some(50_000), 999)]);
    let mut numbers = Vec::new();
    let mut requested = 0;
    for core in 0..3 {
        // each core has its own port, and one after the other here
        let (mut a, mut b) = pair(&world.clock, Link::default());
        requested += world.drive(&mut a, Shard { core, cores: 3 }).flows[0].requested.frames;
        numbers.extend(arrivals(&mut b).iter().map(|(_, probe)| probe.sequence));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..999).collect::<Vec<u32>>());
    assert_eq!(requested, 999);
}

#[test]
fn frames_later_than_their_drift_are_dropped_and_take_no_number() {
    // faster than the loop, which looks at the clock (20 ns each) a few times for a batch of 64
    let mut world = World::new(&[(Some(2_000_000_000), 1_000_000)]);
    world.program.flows[0].late = Late::Drop(Nanos::from_micros(5));
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    let sent = &driven.flows[0];
    let (requested, left, expired) = (sent.requested, sent.sent.frames, sent.expired.frames);
    assert!(expired > 0 && left > 0, "{sent:?}");
    assert_eq!((requested.frames, left + expired), (1_000_000, 1_000_000));
    let arrived = arrivals(&mut b);
    assert!(arrived.iter().map(|(_, probe)| probe.sequence).eq(0..left as u32));
    assert!(
        sent.departures.lateness.moments.max <= 5_000,
        "{:?}",
        sent.departures.lateness.moments
    );
}

/// A clock that counts how often it is waited on.
struct Counted<'a> {
    clock: VirtualClock,
    waits: &'a AtomicU64,
}

impl Clock for Counted<'_> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
    fn wait_until(&self, deadline: Nanos, wait: Wait) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.clock.wait_until(deadline, wait);
    }
    fn jumps(&self) -> bool {
        self.clock.jumps()
    }
}

/// With one sender the clock jumped; with two it went in steps of 20 ms, millions of them for a day.
#[test]
fn two_senders_with_nothing_to_send_for_a_day_take_a_few_steps() {
    const DAY: Nanos = Nanos::from_secs(86_400);
    let mut program = program(&[(Some(1), 10), (Some(1), 10)]);
    for (stream, start) in program.streams.iter_mut().zip([DAY, Nanos::from_secs(40_000)]) {
        stream.departures.start = start;
    }
    let world = World::of(program);
    let waits = AtomicU64::new(0);
    let clocks = world.clock.waiters(2);
    let late = thread::scope(|scope| {
        let threads: Vec<_> = (0u32..)
            .zip(clocks)
            .map(|(flow, clock)| {
                let (world, waits) = (&world, &waits);
                let (mut a, b) = pair(&world.clock, Link::default());
                scope.spawn(move || {
                    let _b = b;
                    let driven = world.drive_flows(&mut a, &Counted { clock, waits }, &[flow]);
                    let sent = driven.flows[flow as usize].clone();
                    assert_eq!(sent.sent.frames, 10);
                    sent.departures.lateness.moments.max
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max()
    });
    // 100 each for the second before the start, one or two for each frame
    let waits = waits.into_inner();
    assert!(waits < 400, "{waits}");
    // nobody went on beyond what the other still had to send
    assert!(late.unwrap() < 10_000, "{late:?} ns late");
}

/// A port that takes its time for each frame, and accepts only every nth.
struct Slow {
    port: LoopbackTx,
    clock: VirtualClock,
    frame: Nanos,
    refuse_every: usize,
    count: usize,
    refused: Amount,
    fates: Fates,
}

impl TxPort for Slow {
    fn caps(&self) -> &TxCaps {
        self.port.caps()
    }
    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.port.reserve(want)
    }
    fn slot(&mut self, index: usize) -> &mut [u8] {
        self.port.slot(index)
    }
    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        for meta in metas {
            self.clock.wait_until(self.clock.now().saturating_add(self.frame), Wait::Spin);
            self.count += 1;
            if self.refuse_every > 0 && self.count.is_multiple_of(self.refuse_every) {
                self.fates.push(Fate::Failed, 1);
                self.refused.add(meta.counted);
                // its slot is free again
                self.port.commit(&[TxMeta { len: u16::MAX, ..*meta }])?;
            } else {
                self.fates.push(Fate::Sent, 1);
                self.port.commit(&[*meta])?;
            }
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }
    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.fates.take(each);
    }
    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        self.port.drain(deadline)
    }
    fn totals(&self, totals: &mut [TxTotals]) {
        self.port.totals(totals);
    }
}

impl Slow {
    fn new(world: &World, frame: Nanos, refuse_every: usize) -> Slow {
        let (port, _) = pair(&world.clock, Link::default());
        let (clock, refused, fates) = (world.clock.clone(), Amount::default(), Fates::default());
        Slow { port, clock, frame, refuse_every, count: 0, refused, fates }
    }
}

/// What is sent in 20 ms through a port that takes a microsecond for a frame.
fn overloaded(rate: u64, departures: &str, late: Late) -> TxFlowStats {
    let mut world = World::of(compiled(&format!(
        "ports: {{ a: {{}} }}\nflows:\n  x: {{ from: a, to: a, rate: {rate}pps, stop: 20ms{departures} }}\n"
    )));
    world.program.flows[0].late = late;
    world.end = START.saturating_add(Nanos::from_millis(21));
    let mut port = Slow::new(&world, Nanos::from_micros(1), 0);
    let driven = world.drive(&mut port, Shard::WHOLE);
    assert!(driven.error.is_none());
    driven.flows[0].clone()
}

/// It dropped nearly everything: each late frame cost as much as one that is sent.
#[test]
fn an_overloaded_sender_that_drops_late_frames_sends_as_much_as_one_that_does_not() {
    for (rate, departures) in [
        (5_000_000, ""),
        (14_000_000, ""),
        (200_000_000, ""),
        (14_000_000, ", departures: exponential"),
        (14_000_000, ", size: { mix: { 64B: 7, 570B: 4 } }"),
    ] {
        let sent = overloaded(rate, departures, Late::Send);
        assert!(sent.sent.frames > 15_000, "{sent:?}");
        for drift in [1, 5, 100, 1000] {
            let drift = Nanos::from_micros(drift);
            let dropping = overloaded(rate, departures, Late::Drop(drift));
            let what = format!("{rate} pps{departures}, drift {drift:?}: {dropping:?}");
            assert!(dropping.sent.frames * 2 > sent.sent.frames, "{what}");
            assert!(dropping.departures.lateness.moments.max <= drift.get() as i64, "{what}");
            assert_eq!(dropping.departures.lateness.moments.count, dropping.sent.frames);
            let mut books = dropping.sent;
            books += dropping.expired;
            assert_eq!(books, dropping.requested, "{what}");
        }
    }
}

/// A frame of 64 bytes, which are 84 on the line, in ten microseconds; ten of them at once.
const BOUND: LineLimit = LineLimit { rate: BitRate(67_200_000), depth: 840 };

/// That frames which left at these times keep to [`BOUND`] in every window, where they were taken `ahead` of their time.
fn keeps_to_the_bound(times: &[Nanos], ahead: Nanos) {
    for (index, from) in times.iter().enumerate().step_by(7) {
        for (more, to) in times.iter().enumerate().skip(index + 10) {
            let window = to.saturating_sub(*from).saturating_add(ahead);
            let allowed = 10 + window.get() / 10_000;
            let left = (more - index + 1) as u64;
            assert!(left <= allowed, "{left} of {allowed} from frame {index} to {more}");
        }
    }
}

/// Whatever the program says, and whether the sender is on time or has to catch up.
#[test]
fn what_is_bounded_never_leaves_faster_than_that() {
    // ten times the rate, three flows that fire together, and a sender that slept for a second before
    for (flows, begun) in [
        (vec![(Some(1_000_000), 600)], 0),
        (vec![(Some(50_000), 200), (Some(50_000), 200), (Some(50_000), 200)], 0),
        (vec![(Some(1_000), 600)], 1),
    ] {
        let mut world = World::new(&flows);
        world.limit = Some(BOUND);
        let late = START.saturating_add(Nanos::from_secs(begun));
        world.clock.wait_until(late, Wait::Spin);
        let (mut a, mut b) = pair(&world.clock, Link::default());
        let driven = world.drive(&mut a, Shard::WHOLE);
        assert!(driven.error.is_none());
        let times: Vec<Nanos> =
            arrivals(&mut b).iter().map(|(_, probe)| Nanos::new(probe.transmit_ns)).collect();
        assert_eq!(times.len(), 600, "all of it leaves, later");
        keeps_to_the_bound(&times, Nanos::ZERO);
        let lasted = times[599].saturating_sub(times[0]);
        assert!(lasted >= Nanos::from_micros(5_890), "{lasted:?}");
    }
}

/// A port that holds frames until their launch time, and notes when each leaves.
struct Holding {
    port: LoopbackTx,
    caps: TxCaps,
    clock: VirtualClock,
    left: Vec<Nanos>,
}

impl TxPort for Holding {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }
    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.port.reserve(want)
    }
    fn slot(&mut self, index: usize) -> &mut [u8] {
        self.port.slot(index)
    }
    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        let now = self.clock.now();
        self.left.extend(metas.iter().map(|meta| meta.launch.max(now)));
        self.port.commit(metas)
    }
    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }
    fn settled(&mut self, each: &mut dyn FnMut(Fate, usize)) {
        self.port.settled(each);
    }
    fn drain(&mut self, deadline: Nanos) -> Result<bool, PortError> {
        self.port.drain(deadline)
    }
    fn totals(&self, totals: &mut [TxTotals]) {
        self.port.totals(totals);
    }
}

#[test]
fn what_is_bounded_is_not_handed_to_a_port_that_holds_it_either() {
    // for longer than it is fed ahead
    const FRAMES: u64 = 15_000;
    for (rate, begun) in [(1_000_000, 0), (10_000, 2)] {
        let mut world = World::new(&[(Some(rate), FRAMES)]);
        world.limit = Some(BOUND);
        let late = START.saturating_add(Nanos::from_secs(begun));
        world.clock.wait_until(late, Wait::Spin);
        let (port, _b) = pair(&world.clock, Link::default());
        let caps = TxCaps { holds: true, ..port.caps().clone() };
        let mut port = Holding { port, caps, clock: world.clock.clone(), left: Vec::new() };
        let driven = world.drive(&mut port, Shard::WHOLE);
        assert!(driven.error.is_none());
        assert_eq!(port.left.len() as u64, FRAMES);
        keeps_to_the_bound(&port.left, super::feed::AHEAD);
        let lasted = port.left[FRAMES as usize - 1].saturating_sub(port.left[0]);
        assert!(lasted >= Nanos::from_millis(149), "{lasted:?}");
    }
}

/// Whoever hands them over is late and early as it comes; the times are the card's.
#[test]
fn frames_for_a_card_that_waits_are_handed_over_ahead_with_their_own_times() {
    const LEAD: Nanos = Nanos::from_micros(500);
    let world = World::new(&[(Some(1_000_000), 1000), (Some(10_000), 10)]);
    let (port, mut b) = pair(&world.clock, Link::default());
    let caps = TxCaps { lead: LEAD, ..port.caps().clone() };
    let mut port = Holding { port, caps, clock: world.clock.clone(), left: Vec::new() };
    let driven = world.drive(&mut port, Shard::WHOLE);
    assert!(driven.error.is_none());
    for flow in &driven.flows {
        let error = flow.departures.lateness.moments;
        assert_eq!((error.count, error.min, error.max), (flow.sent.frames, 0, 0));
    }
    let mut expected: Vec<_> = (0..1000).map(|at| (at * 1_000, 0)).collect();
    expected.extend((0..10).map(|at| (at * 100_000, 1)));
    expected.sort_unstable();
    let mut stamped = Vec::new();
    for (arrived, probe) in arrivals(&mut b) {
        let (left, arrived) = (probe.transmit_ns - START.get(), arrived.get());
        assert!(arrived < probe.transmit_ns, "handed over ahead");
        assert!(probe.transmit_ns - arrived <= LEAD.get(), "and no more than that");
        stamped.push((left, probe.flow));
    }
    stamped.sort_unstable();
    assert_eq!(stamped, expected);
    // what is behind its time already leaves at once
    let late = World::new(&[(Some(1_000_000), 10)]);
    late.clock.wait_until(START.saturating_add(Nanos::from_secs(1)), Wait::Spin);
    let (port, mut b) = pair(&late.clock, Link::default());
    let caps = TxCaps { lead: LEAD, ..port.caps().clone() };
    let mut port = Holding { port, caps, clock: late.clock.clone(), left: Vec::new() };
    assert!(late.drive(&mut port, Shard::WHOLE).error.is_none());
    let second = START.saturating_add(Nanos::from_secs(1)).get();
    assert!(arrivals(&mut b).iter().all(|(_, probe)| probe.transmit_ns >= second));
}

/// They counted as punctual.
#[test]
fn frames_that_the_port_refuses_have_no_departure() {
    let world = World::new(&[(Some(100_000), 999)]);
    let mut port = Slow::new(&world, Nanos::ZERO, 3);
    let driven = world.drive(&mut port, Shard::WHOLE);
    let sent = &driven.flows[0];
    assert_eq!((sent.sent.frames, sent.failed.frames), (666, 333));
    assert_eq!((sent.failed, sent.departures.lateness.moments.count), (port.refused, 666));
    assert_eq!(world.live.frames.load(Ordering::Relaxed), 666);
    let all = World::new(&[(Some(100_000), 10)]);
    let driven = all.drive(&mut Slow::new(&all, Nanos::ZERO, 1), Shard::WHOLE);
    assert_eq!(
        (driven.flows[0].span, driven.flows[0].departures.lateness.moments.count),
        (None, 0)
    );
}

#[test]
fn of_a_packet_in_fragments_all_leave_or_none() {
    let mut world = World::of(compiled(
        "ports: { a: { mtu: 128B } }\nflows:\n  x: { from: a, to: a, size: 300B, rate: 1Mpps, count: 100000 }\n",
    ));
    world.program.flows[0].late = Late::Drop(Nanos::from_micros(1));
    // faster than the loop, and than any link
    let rate = FrameRate { frames: 2, per: Nanos::new(1) };
    world.program.streams[0].departures.pace = Pace::Constant(rate);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    let sent = &driven.flows[0];
    assert!(sent.expired.frames > 0 && sent.sent.frames > 0, "{sent:?}");
    assert_eq!(sent.sent.frames + sent.expired.frames, 100_000);
    assert_eq!(
        [sent.sent.fragments, sent.expired.fragments],
        [2 * sent.sent.frames, 2 * sent.expired.frames]
    );
    assert_eq!(sent.departures.lateness.moments.count, sent.sent.frames);
    let mut frames = Vec::new();
    let read = |port: &mut LoopbackRx, frames: &mut Vec<Vec<u8>>| {
        port.receive(Nanos::ZERO, |arrival| frames.push(arrival.bytes.to_vec())).unwrap()
    };
    while read(&mut b, &mut frames) > 0 {}
    assert_eq!(frames.len() as u64, 3 * sent.sent.frames);
    for (number, packet) in (0..).zip(frames.chunks(3)) {
        let parts: Vec<Fragment<'_>> =
            packet.iter().map(|frame| Fragment::parse(frame).unwrap()).collect();
        assert!(parts.iter().all(|part| part.packet == parts[0].packet));
        assert!(parts.iter().map(|part| part.offset).eq([0, 104, 208]));
        assert_eq!(Probe::from_tail(parts[2].data).unwrap().sequence, number);
    }
}

/// A run of 2 s sent for 2.1 s: the moment that is left for the last frames was used to send those that were late, too.
#[test]
fn a_sender_that_is_too_slow_ends_at_its_time() {
    let mut world = World::of(compiled(
        "ports: { a: {} }\nflows:\n  x: { from: a, to: a, rate: 1500kpps, stop: 100ms }\n",
    ));
    world.time = START.saturating_add(Nanos::from_millis(100));
    world.end = START.saturating_add(Nanos::from_millis(200));
    let mut slow = Slow::new(&world, Nanos::from_micros(1), 0);
    let sent = world.drive(&mut slow, Shard::WHOLE).flows[0].clone();
    let last = sent.span.unwrap().1;
    assert!(last <= world.time.saturating_add(Nanos::from_micros(100)), "{last}");
    assert!(sent.not_reached.frames > 40_000, "{sent:?}");
    assert_eq!(sent.requested.frames + sent.not_reached.frames, 150_000);
    assert!(!sent.uncounted);
}

/// One that keeps up sends its last frames, though it was kept from its CPU right before the end.
#[test]
fn a_sender_that_is_late_by_little_sends_its_last_frames() {
    let mut world = World::of(compiled(
        "ports: { a: {} }\nflows:\n  x: { from: a, to: a, rate: 1kpps, stop: 20ms }\n",
    ));
    world.time = START.saturating_add(Nanos::from_millis(20));
    world.end = START.saturating_add(Nanos::from_millis(120));
    world.clock.wait_until(START.saturating_add(Nanos::from_millis(15)), Wait::Sleep);
    let mut slow = Slow::new(&world, Nanos::from_micros(500), 0);
    let sent = world.drive(&mut slow, Shard::WHOLE).flows[0].clone();
    assert_eq!((sent.sent.frames, sent.not_reached.frames), (20, 0));
    assert!(sent.span.unwrap().1 > world.time);
}

#[test]
fn a_stop_ends_a_flood() {
    let mut world = World::new(&[(None, u64::MAX)]);
    world.end = START.saturating_add(Nanos::from_micros(100));
    let (mut a, mut b) = pair(&world.clock, Link::default());
    let driven = world.drive(&mut a, Shard::WHOLE);
    let sent = &driven.flows[0];
    assert!(sent.sent.frames > 0);
    assert_eq!(sent.sent, sent.requested);
    assert_eq!(arrivals(&mut b).len() as u64, sent.sent.frames);
    // without a rate there is no deadline to be late for
    assert_eq!(sent.departures.lateness.moments.count, 0);
    assert!(sent.span.unwrap().1 < world.end.saturating_add(Nanos::from_micros(10)));
}

#[test]
fn nothing_leaves_before_the_start() {
    let world = World::new(&[(None, 10)]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    world.drive(&mut a, Shard::WHOLE);
    assert!(arrivals(&mut b).iter().all(|(_, probe)| probe.transmit_ns >= START.get()));
}

#[test]
fn a_run_that_is_stopped_beforehand_sends_nothing() {
    let mut world = World::new(&[(Some(1000), 10)]);
    world.stop = AtomicBool::new(true);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    assert_eq!(world.drive(&mut a, Shard::WHOLE).flows[0].requested.frames, 0);
    assert!(arrivals(&mut b).is_empty());
}

/// Counts what it sees.
#[derive(Default)]
struct Counting(u64);

impl ArrivalTap for Counting {
    fn arrived(&mut self, _: &Arrival<'_>, judged: &Judged) {
        assert_eq!((judged.flow, judged.sequence), (Some(0), Some(self.0 as u32)));
        self.0 += 1;
    }
}

/// It was looked at every 10 ms whether there were enough: `--count 50` ended at 55.
#[test]
fn a_receiver_ends_with_the_frame_that_makes_its_count() {
    let world = World::new(&[(Some(1000), 400)]);
    let (mut a, mut b) = pair(&world.clock, Link::default());
    world.drive(&mut a, Shard::WHOLE);
    let config = MeterConfig { flows: Flows::Any(1), ..MeterConfig::default() };
    let (mut meter, live, mut told) = (Meter::new(config), LiveRx::default(), Counting(0));
    let more = (&world.stop, &live);
    let at = (&mut b, &world.clock, Manner::Silent);
    collect_and_tell(at, &mut meter, more, 50, &mut told).unwrap();
    let frames = meter.summary().flows[&0].frames;
    assert_eq!((frames, told.0, live.frames.load(Ordering::Relaxed)), (50, 50, 50));
}

#[test]
fn the_link_loses_duplicates_and_swaps_as_told() {
    let world = World::new(&[(Some(1_000_000), 12)]);
    let link = Link { lose_every: 5, duplicate_every: 4, swap_every: 7, ..Link::default() };
    let (mut a, mut b) = pair(&world.clock, link);
    world.drive(&mut a, Shard::WHOLE);
    let numbers: Vec<u32> = arrivals(&mut b).iter().map(|(_, probe)| probe.sequence).collect();
    // the 5th and 10th are lost, the 4th, 8th and 12th come twice, the 7th after the 8th
    assert_eq!(numbers, [0, 1, 2, 3, 3, 5, 7, 7, 6, 8, 10, 11, 11]);
}

#[test]
fn late_frames_are_spaced_by_most_of_their_gap_unless_something_else_counts() {
    let rates = [Some(400_000), Some(100_000), Some(100_000), Some(1_000), Some(100_000)];
    let mut world = World::new(&rates.map(|rate| (rate, 1)));
    world.program.flows[1].late = Late::Drop(Nanos::from_micros(5));
    world.program.streams[2].departures.burst = 8;
    world.program.streams[4].departures.pace = Pace::Silent;
    let spacings = |cores: u32, wait: Wait| {
        let job = Job {
            program: &world.program,
            flows: &[],
            shard: Shard { core: 0, cores },
            sequences: &world.sequences,
            times: RunTimes {
                start: START,
                end: world.time,
                latest: world.end,
                wait,
                unix_offset: &UnixOffset::default(),
            },
            stop: &world.stop,
            live: &world.live,
            playbacks: RefCell::default(),
            changes: None,
            limit: None,
        };
        [0, 1, 2, 3, 4].map(|at: usize| job.spacing(&world.program.streams[at]).get())
    };
    assert_eq!(spacings(1, Wait::Spin), [1875, 0, 0, 5000, 0]);
    assert_eq!(spacings(2, Wait::Hybrid), [3750, 0, 0, 5000, 0]);
    assert_eq!(spacings(1, Wait::Sleep), [0; 5]);
}

#[test]
fn what_a_run_ended_before_is_counted_as_long_as_that_takes_no_time() {
    let ended = |flow: &str| {
        let flow =
            format!("ports: {{ a: {{}} }}\nflows:\n  x: {{ from: a, to: a, stop: 1h, {flow} }}\n");
        let mut world = World::of(compiled(&flow));
        world.end = START;
        world.clock.wait_until(START, Wait::Sleep);
        let (mut a, _b) = pair(&world.clock, Link::default());
        let driven = world.drive(&mut a, Shard::WHOLE);
        (driven.flows[0].not_reached.frames, driven.flows[0].uncounted)
    };
    assert_eq!(ended("rate: 50Mpps"), (50_000_000 * 3600, false), "by division");
    assert_eq!(ended("rate: 1kpps, burst: 4294967295"), (4_294_967_295, false));
    let (frames, more) = ended("rate: 1kpps, departures: { weibull: { shape: 0.01 } }");
    assert!(frames > 0 && more, "{frames}");
}

#[test]
fn a_sender_that_is_told_to_stop_has_not_reached_what_was_due_by_then() {
    let stopped = |after: Nanos| {
        let world = World::new(&[(Some(1000), u64::MAX)]);
        world.stop.store(true, Ordering::Relaxed);
        world.clock.wait_until(START.saturating_add(after), Wait::Sleep);
        let (mut a, _b) = pair(&world.clock, Link::default());
        world.drive(&mut a, Shard::WHOLE).flows[0].not_reached.frames
    };
    assert_eq!(stopped(Nanos::from_secs(2)), 2000);
    assert_eq!(stopped(Nanos::from_micros(900)), 0, "it was not behind");
}
