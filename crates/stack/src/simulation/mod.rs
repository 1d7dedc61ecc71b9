//! Two stacks over a link on virtual time: everything that is random follows from a seed, so that a run that fails fails again.
//!
//! After each event all that has to hold is checked ([`check`]), and at the end that every session ended as it had to, that what
//! was sent arrived, and that nothing is left. Faults that are planted have to be found. To look at one seed:
//! `WIREBEAT_SEED=17 cargo test -p wirebeat-stack simulation::one -- --nocapture`, with `WIREBEAT_SESSION=3` to see the segments of
//! one session; to run more, `WIREBEAT_SEEDS=1000000`, and others, `WIREBEAT_FIRST_SEED=1000000`.

mod check;
pub mod cutter;
mod link;
mod path;
mod program;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, thread};

use wirebeat_units::Nanos;

use self::check::Watch;
use self::cutter::Packet;
use self::link::{Link, Random};
use self::path::{Message, Path};
use self::program::{Action, FIRST_PORT, Plan, Programs, Reads, Record};
use crate::api::{Limits, Reason, Transmit};
use crate::fault::{Fault, Faults};
use crate::profile::{Congestion, KeepAlive, OutOfOrder, Profile, Reading};
use crate::segment::{Checksum, Segment, Tuple};
use crate::stack::{Open, Stack};

/// Sessions of a seed.
const SESSIONS: usize = 50;
/// No run takes longer: twelve timeouts of a minute, and the rest.
const TIME_MAX: u64 = 3 * 3600 * 1_000_000_000;
/// And none has more events; a loop without end is found by it.
const EVENTS_MAX: u64 = 2_000_000;
/// How many buffers there are at a time, so that stacks are blocked now and then.
const BUFFERS: usize = 24;

struct Buffers {
    packets: Vec<Packet>,
    buffer: Vec<u8>,
    left: usize,
}

impl Transmit for Buffers {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.left == 0 {
            return None;
        }
        self.buffer = vec![0xee; len];
        Some(&mut self.buffer)
    }

    fn commit(&mut self) {
        self.left -= 1;
        self.packets.push(Packet { bytes: std::mem::take(&mut self.buffer), large: None });
    }

    fn takes_large(&self) -> bool {
        true
    }

    fn commit_large(&mut self, segment_len: u16, header_len: u16) {
        self.commit();
        self.packets.last_mut().unwrap().large = Some((segment_len, header_len));
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrival(Vec<u8>),
    Message(Message),
    Act(u32, Action),
    /// Buffers are free again.
    Drain,
}

struct End {
    stack: Stack,
    /// What the stack had memory for at its start.
    reserved: [usize; 10],
    programs: Programs,
    watch: Watch,
}

struct World {
    seed: u64,
    begin: u64,
    now: u64,
    number: u64,
    events: u64,
    random: Random,
    ends: [End; 2],
    links: [Link; 2],
    steps: BinaryHeap<Reverse<(u64, u64, usize, Step)>>,
    tuples: Vec<Tuple>,
    /// Whether every session has to end in order: nobody aborts, and TIME-WAIT is kept.
    strict: bool,
    /// A session whose segments are printed as they arrive.
    shown: Option<u64>,
}

fn profile(random: &mut Random, strict: bool, silent: bool) -> Profile {
    let keep_alive =
        KeepAlive { idle: Nanos::from_secs(20), interval: Nanos::from_secs(5), count: 60 };
    Profile {
        mtu: random.pick(&[576, 1280, 1500, 9000]),
        mss: random.once_in(4).then_some(200),
        window: random.pick(&[1000, 3000, 16_000, 65_535, 300_000, 1 << 20]),
        window_scaling: !random.once_in(3),
        timestamps: random.once_in(2),
        sack: !random.once_in(3),
        tail_loss_probe: !random.once_in(3),
        rack: !random.once_in(3),
        slow_start_step: random.pick(&[1, 2, u8::MAX]),
        idle_restart: random.once_in(2),
        quick_acks: random.pick(&[0, 16]),
        rto_margin: Nanos::from_millis(random.pick(&[0, 200])),
        user_timeout: Nanos::from_secs(if strict { 0 } else { random.pick(&[0, 100]) }),
        ecn: random.once_in(2),
        initial_window: random.pick(&[1, 4, 10]),
        congestion: random.pick(&[
            Congestion::NewReno,
            Congestion::Cubic,
            Congestion::Cubic,
            Congestion::None,
        ]),
        gso_segments: random.pick(&[0, 1, 2, 10, 255]),
        nagle: random.once_in(2),
        delayed_ack: Nanos::from_millis(random.pick(&[0, 40, 200])),
        rto_initial: Nanos::from_secs(1),
        rto_min: Nanos::from_millis(random.pick(&[200, 1000])),
        rto_max: Nanos::from_secs(60),
        syn_retries: 20,
        data_retries: 20,
        black_hole_detection: silent || random.once_in(2),
        // A peer that gave up and whose RST was lost is found out by probes only.
        keep_alive: (!strict || random.once_in(3)).then_some(keep_alive),
        time_wait: if strict {
            Nanos::from_secs(900)
        } else {
            Nanos::from_secs(random.pick(&[0, 0, 1]))
        },
        fin_wait_2: Nanos::ZERO,
        reading: if random.once_in(3) { Reading::Manual } else { Reading::Automatic },
        out_of_order: if random.once_in(3) { OutOfOrder::Discard } else { OutOfOrder::Deliver },
        tos: 0,
        ttl: 64,
        dont_fragment: true,
    }
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let mut random = Random(seed);
        let strict = !random.once_in(4);
        let mut plans: [Vec<Plan>; 2] = Default::default();
        for _ in 0..SESSIONS {
            for (side, plans) in plans.iter_mut().enumerate() {
                plans.push(Plan::new(&mut random, !strict));
                // Somebody has to close first.
                if side == 1 && plans.last().is_some_and(|plan| plan.waits) {
                    plans.last_mut().unwrap().waits = random.once_in(2);
                }
            }
        }
        for (client, server) in plans.clone()[0].iter_mut().zip(&mut plans[1]) {
            server.waits &= !client.waits;
        }
        let expected: [Vec<u64>; 2] =
            std::array::from_fn(|side| plans[1 - side].iter().map(|plan| plan.total).collect());
        let limits = Limits { ranges: random.pick(&[4, 200]), ..Limits::for_sessions(SESSIONS) };
        // Circles of numbers, of ticks and of microseconds end in the middle of some runs.
        let near_the_end = random.once_in(3);
        let silent = random.once_in(8);
        let begin =
            random.pick(&[0, 0, (1 << 50) - 3_000_000_000, (1 << 32) * 1000 - 3_000_000_000]);
        let ends = std::array::from_fn(|side| {
            let profiles: Vec<Profile> =
                (0..4).map(|_| profile(&mut random, strict, silent)).collect();
            let record =
                |total: &u64| Record { seen: vec![false; *total as usize], ..Record::default() };
            let programs = Programs {
                side,
                plans: plans[side].clone(),
                expected: expected[side].clone(),
                records: expected[side].iter().map(record).collect(),
                out_of_order: profiles.iter().map(|profile| profile.out_of_order).collect(),
                todo: Vec::new(),
                broken: None,
                stops: 0,
                sent: [0; 2],
                manual: (0..)
                    .zip(profiles.iter().map(|profile| profile.reading == Reading::Manual))
                    .collect(),
            };
            let seed = [random.next(), random.next()];
            let mut stack = Stack::new(&limits, profiles, seed, Nanos::new(begin));
            stack.core.plant(faults);
            if near_the_end {
                stack.core.near_the_end();
            }
            End { reserved: stack.reserved(), stack, programs, watch: Watch::default() }
        });
        let mut world = World {
            seed,
            begin,
            now: begin,
            number: 0,
            events: 0,
            links: std::array::from_fn(|_| {
                let path = Path::new(begin, silent, strict, &mut random);
                Link::new(path, &mut random)
            }),
            ends,
            steps: BinaryHeap::new(),
            tuples: Vec::new(),
            strict,
            random,
            shown: number("WIREBEAT_SESSION"),
        };
        let span = world.random.pick(&[0, 100_000_000, 5_000_000_000]);
        for user in 0..SESSIONS as u32 {
            let is_v6 = world.random.once_in(3);
            let (local, remote) = match is_v6 {
                false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
                true => ([0xfd; 16].into(), [0xfe; 16].into()),
            };
            world.tuples.push(Tuple {
                local,
                remote,
                local_port: FIRST_PORT + user as u16,
                remote_port: 80,
            });
            let at = begin + world.random.below(span + 1);
            world.at(at, 0, Step::Act(user, Action::Open));
        }
        world
    }

    fn at(&mut self, time: u64, side: usize, step: Step) {
        self.number += 1;
        self.steps.push(Reverse((time, self.number, side, step)));
    }

    fn run(&mut self) -> Result<(), String> {
        loop {
            let step = self.steps.peek().map(|Reverse((time, ..))| *time);
            let timer = |end: &End| end.stack.next_timer(Nanos::new(self.now)).map(Nanos::get);
            let timers = [timer(&self.ends[0]), timer(&self.ends[1])];
            let Some(next) = step.into_iter().chain(timers.into_iter().flatten()).min() else {
                return Ok(());
            };
            self.now = self.now.max(next);
            self.events += 1;
            if self.now - self.begin > TIME_MAX || self.events > EVENTS_MAX {
                let open = self
                    .ends
                    .each_ref()
                    .map(|end| end.stack.sessions.snapshots().collect::<Vec<_>>());
                return Err(format!("no end after {} events: {open:?}", self.events));
            }
            for (side, timer) in timers.into_iter().enumerate() {
                if timer.is_some_and(|at| at <= self.now) {
                    let budget = 1 + self.random.below(40) as usize;
                    let End { stack, programs, .. } = &mut self.ends[side];
                    stack.expire(Nanos::new(self.now), budget, programs);
                    self.after(side)?;
                }
            }
            if step.is_some_and(|time| time <= self.now)
                && let Some(Reverse((_, _, side, step))) = self.steps.pop()
            {
                self.step(side, step)?;
                self.after(side)?;
            }
        }
    }

    fn show(&self, side: usize, packet: &[u8]) {
        let Ok(segment) = Segment::read(packet, Checksum::Verify) else { return };
        let port = if side == 0 { segment.tuple.local_port } else { segment.tuple.remote_port };
        if self.shown.is_some_and(|shown| shown + u64::from(FIRST_PORT) == u64::from(port)) {
            let Segment { seq, ack, flags, window, options, payload, .. } = segment;
            let (now, len) = (Nanos::new(self.now), payload.len());
            println!(
                "{now} to {side}: {flags:?} {seq:?}+{len} ack {ack:?} win {window} {:?}",
                options.sack()
            );
        }
    }

    fn step(&mut self, side: usize, step: Step) -> Result<(), String> {
        if let Step::Arrival(packet) = &step {
            self.show(side, packet);
        }
        let now = Nanos::new(self.now);
        let End { stack, programs, .. } = &mut self.ends[side];
        match step {
            Step::Drain => {}
            Step::Arrival(packet) => match self.random.once_in(2) {
                true => stack.receive(now, &packet, Checksum::Verify, programs),
                false => stack.receive_batch(now, &[(&packet, Checksum::Verify)], programs),
            },
            Step::Act(user, Action::Open) => {
                let (tuple, plan) = (self.tuples[user as usize], programs.plans[user as usize]);
                let id = stack.connect(now, &Open { tuple, profile: plan.profile, user });
                programs.records[user as usize].id = id.ok();
            }
            Step::Act(user, action) => act(stack, programs, now, user, action),
            Step::Message(message) => {
                let before: Vec<_> = stack.sessions.snapshots().collect();
                stack.receive_icmp(now, &message.packet, programs);
                let after: Vec<_> = stack.sessions.snapshots().collect();
                if !message.counts && after != before {
                    return Err("an ICMP error that may not count changed a session".into());
                }
            }
        }
        Ok(())
    }

    /// Sends what there is, does what programs want, and checks.
    fn after(&mut self, side: usize) -> Result<(), String> {
        let now = self.now;
        let End { stack, programs, watch, .. } = &mut self.ends[side];
        let mut out = Buffers { packets: Vec::new(), buffer: Vec::new(), left: BUFFERS };
        let done = stack.transmit(Nanos::new(now), programs, &mut out);
        let todo = std::mem::take(&mut programs.todo);
        if let Some(broken) = programs.broken.take() {
            return Err(broken);
        }
        let packets: Vec<Vec<Vec<u8>>> = out.packets.iter().map(Packet::cut).collect();
        for (packet, pieces) in out.packets.iter().zip(&packets) {
            pieces.iter().for_each(|piece| watch.packet(side, piece, Nanos::new(now)));
            watch.large(side, packet, stack, programs)?;
        }
        watch.check(stack, programs, Nanos::new(now))?;
        if !done {
            self.at(now + 100_000, side, Step::Drain);
        }
        for (user, later, action) in todo {
            self.at(now + later, side, Step::Act(user, action));
        }
        let mut sent = Vec::new();
        for (packet, pieces) in out.packets.iter().zip(packets) {
            // Some links of kernels are not cut for.
            if self.links[side].path.takes_all() && self.random.once_in(3) {
                sent.push(packet.whole());
            } else {
                sent.extend(pieces);
            }
        }
        for packet in sent {
            let carried = self.links[side].carry(now, packet, &mut self.random);
            for (time, packet) in carried.out {
                self.at(time, 1 - side, Step::Arrival(packet));
            }
            for (time, message) in carried.back {
                self.at(time, side, Step::Message(message));
            }
        }
        let [a, b] = &self.ends;
        let changed = &self.ends[side].watch.changed;
        check::pair((&a.programs, &a.stack), (&b.programs, &b.stack), changed)
    }

    /// What has to be so when nothing happens any more.
    fn end(&self) -> Result<(), String> {
        for End { stack, programs, reserved, .. } in &self.ends {
            check::is_empty(stack)?;
            if stack.reserved() != *reserved {
                return Err(format!("memory was allocated: {:?}, {reserved:?}", stack.reserved()));
            }
            for (user, record) in programs.records.iter().enumerate() {
                let peer = &self.ends[1 - programs.side].programs.records[user];
                if self.strict && record.closed != Some(Reason::InOrder) {
                    return Err(format!(
                        "side {} session {user} ended as {:?}",
                        programs.side, record.closed
                    ));
                }
                let both =
                    [record, peer].iter().all(|record| record.closed == Some(Reason::InOrder));
                if both && (record.acked, record.seen_count) != (record.offered, peer.offered) {
                    return Err(format!(
                        "session {user} closed in order with {} of {} acked and {} of {} delivered",
                        record.acked, record.offered, record.seen_count, peer.offered
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Does `action` for a session, if it is still there.
fn act(stack: &mut Stack, programs: &mut Programs, now: Nanos, user: u32, action: Action) {
    let (plan, record) = (programs.plans[user as usize], &mut programs.records[user as usize]);
    let Some(id) = record.id else { return };
    match action {
        Action::Open => {}
        Action::Send(bytes) => {
            stack.send(id, bytes).unwrap();
            record.offered += bytes;
            let left = plan.total - record.offered;
            if left > 0 {
                programs.todo.push((user, plan.pause, Action::Send(plan.piece.min(left))));
            } else if !plan.waits || record.peer_closed {
                programs.todo.push((user, 0, Action::Close));
            }
        }
        Action::Close => {
            record.close_called = true;
            let _ = stack.close(now, id, programs);
        }
        Action::Abort => stack.abort(now, id, programs).unwrap(),
        Action::Consume(bytes) => stack.consume(id, bytes).unwrap(),
        Action::GoOn => {
            if let Reads::Stopped(waiting) = std::mem::replace(&mut record.reads, Reads::After) {
                stack.consume(id, waiting as u32).unwrap();
            }
        }
    }
}

/// Runs `seed`; what is wrong, if anything is.
fn run(seed: u64, faults: Faults) -> Result<World, String> {
    finish(World::new(seed, faults))
}

/// Runs a world to its end.
fn finish(mut world: World) -> Result<World, String> {
    let seed = world.seed;
    let result = world.run().and_then(|()| world.end());
    let now = Nanos::new(world.now);
    result.map(|()| world).map_err(|broken| format!("seed {seed} at {now}: {broken}"))
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Does `what` for each number below `count`, on all processors. The first number for which there is something to say, and that.
fn each<T: Send>(count: u64, what: impl Fn(u64) -> Option<T> + Sync) -> Option<(u64, T)> {
    let (next, first) = (AtomicU64::new(0), Mutex::new(None::<(u64, T)>));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let is_done = first.lock().unwrap().is_some();
                    if number >= count || is_done {
                        break;
                    }
                    if let Some(said) = what(number) {
                        let mut first = first.lock().unwrap();
                        if first.as_ref().is_none_or(|(before, _)| number < *before) {
                            *first = Some((number, said));
                        }
                    }
                }
            });
        }
    });
    first.into_inner().unwrap()
}

#[test]
fn sessions_survive_what_a_link_does_to_them() {
    let first = number("WIREBEAT_FIRST_SEED").unwrap_or(0);
    let seeds = number("WIREBEAT_SEEDS").unwrap_or(1000);
    let sum = Mutex::new((crate::counters::Counters::default(), [0; 2]));
    let broken = each(seeds, |number| match run(first + number, Faults::default()) {
        Err(broken) => Some(broken),
        Ok(world) => {
            let mut sum = sum.lock().unwrap();
            for end in &world.ends {
                check::add(&mut sum.0, end.stack.counters());
                sum.1[0] += end.watch.large;
                sum.1[1] += end.programs.stops;
            }
            None
        }
    });
    if let Some((number, broken)) = broken {
        let seed = first + number;
        panic!(
            "{broken}; again: WIREBEAT_SEED={seed} cargo test -p wirebeat-stack simulation::one -- --nocapture"
        );
    }
    // What did not happen was not tested.
    let (sum, [large, stops]) = sum.into_inner().unwrap();
    check::saw_everything(&sum);
    assert!(large > 0, "packets with several segments: none");
    assert!(stops > 0, "programs that stop reading: none");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let [a, b] = [run(3, Faults::default()).unwrap(), run(3, Faults::default()).unwrap()];
    assert_eq!((a.now, a.events, a.random.0), (b.now, b.events, b.random.0));
    for side in 0..2 {
        assert_eq!(a.ends[side].stack.counters(), b.ends[side].stack.counters());
    }
}

/// What [`crate::fast_path`] promises. It is valid for most segments of some seeds and for few of others.
#[test]
fn the_fast_path_sends_the_same_packets_as_the_general_one() {
    let first = number("WIREBEAT_FIRST_SEED").unwrap_or(0);
    let seeds = number("WIREBEAT_SEEDS").map_or(300, |seeds| seeds / 10);
    let taken = Mutex::new([0; 2]);
    let differs = each(seeds, |number| {
        let seed = first + number;
        let mut general = World::new(seed, Faults::default());
        general.ends.iter_mut().for_each(|end| end.stack.core.take_general_path());
        let (fast, general) = (run(seed, Faults::default()).ok()?, finish(general).ok()?);
        let seen = |world: &World| (world.now, world.events, world.random.0);
        let mut is_same = seen(&fast) == seen(&general);
        for (fast, general) in fast.ends.iter().zip(&general.ends) {
            is_same &= fast.stack.counters() == general.stack.counters();
            is_same &= fast.programs.sent == general.programs.sent;
            is_same &= fast.watch.digest.finish() == general.watch.digest.finish();
            assert_eq!(general.stack.core.plain, [0; 2]);
            let mut taken = taken.lock().unwrap();
            taken.iter_mut().zip(fast.stack.core.plain).for_each(|(sum, count)| *sum += count);
        }
        (!is_same).then_some(seed)
    });
    assert_eq!(differs, None, "the seed differs");
    let [arrivals, turns] = taken.into_inner().unwrap();
    assert!(arrivals > 1000 && turns > 1000, "{arrivals} arrivals and {turns} turns by it");
    println!("{arrivals} arrivals and {turns} turns by the fast path");
}

/// What [`crate::sessions`] promises: that what a session has under way is given back when that is nothing, and made anew, changes
/// nothing. The other run gives nothing back.
#[test]
fn giving_back_what_is_under_way_changes_no_packet() {
    let first = number("WIREBEAT_FIRST_SEED").unwrap_or(0);
    let seeds = number("WIREBEAT_SEEDS").map_or(300, |seeds| seeds / 10);
    let given_back = Mutex::new([0; 2]);
    let differs = each(seeds, |number| {
        let seed = first + number;
        let mut keeping = World::new(seed, Faults::default());
        keeping.ends.iter_mut().for_each(|end| end.stack.sessions.keep_flights());
        let (giving, keeping) = (run(seed, Faults::default()).ok()?, finish(keeping).ok()?);
        let seen = |world: &World| (world.now, world.events, world.random.0);
        let mut is_same = seen(&giving) == seen(&keeping);
        for (giving, keeping) in giving.ends.iter().zip(&keeping.ends) {
            is_same &= giving.stack.counters() == keeping.stack.counters();
            is_same &= giving.programs.sent == keeping.programs.sent;
            is_same &= giving.watch.digest.finish() == keeping.watch.digest.finish();
            let mut given_back = given_back.lock().unwrap();
            let counts = giving.stack.sessions.given_back();
            given_back.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        (!is_same).then_some(seed)
    });
    assert_eq!(differs, None, "the seed differs");
    let [plain, packed] = given_back.into_inner().unwrap();
    assert!(plain > 1000 && packed > 1000, "{plain} times, {packed} with a history");
    println!("given back {plain} times, {packed} times with a history");
}

#[test]
fn every_planted_fault_is_found() {
    for fault in Fault::ALL {
        let found = each(10_000, |seed| {
            let found = run(seed, Faults::only(fault)).err();
            // It is the fault that is found.
            found.filter(|_| run(seed, Faults::default()).is_ok())
        });
        let (_, found) = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: {found}");
    }
}

/// Not a test of its own: one seed to look at.
#[test]
fn one() {
    let Some(seed) = number("WIREBEAT_SEED") else { return };
    let world = run(seed, Faults::default()).unwrap_or_else(|broken| panic!("{broken}"));
    println!("seed {}: {} events", world.seed, world.events);
    for end in &world.ends {
        println!("{:#?}", end.stack.counters());
    }
}
