//! Measures the stack in memory on one core, beside a bare walk over a table of the same size in the same run.
//!
//! `cargo run --release -p wirebeat-stack --example measure [SESSIONS [short]]`. A segment is one that is built with checksum at one end and
//! taken in, checksum verified, at the other. Times are those of the processor. Prints nanoseconds a segment, sessions a second, and bytes an idle endpoint by the
//! peak of resident memory.

#![allow(clippy::unwrap_used)] // A measurement that cannot be made ends.

use std::hint::black_box;

use wirebeat_stack::index::Index;
use wirebeat_stack::slab::{Slab, Slot};
use wirebeat_stack::{
    Accept, Application, Checksum, Event, Limits, Open, Profile, Received, Session, SessionId,
    Stack, Transmit, Tuple,
};
use wirebeat_units::Nanos;

const BATCH: usize = 32;
/// Bytes of a request and of its answer.
const MESSAGE: u64 = 100;
/// Room for each packet.
const ROOM: usize = 2048;

/// Packets on their way from one end to the other.
struct Wire {
    bytes: Vec<u8>,
    lens: Vec<usize>,
    pending: usize,
}

impl Wire {
    fn new() -> Wire {
        Wire { bytes: vec![0; ROOM * BATCH], lens: Vec::with_capacity(BATCH), pending: 0 }
    }
}

impl Transmit for Wire {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        let at = self.lens.len() * ROOM;
        self.pending = len;
        if self.lens.len() == BATCH { None } else { self.bytes.get_mut(at..at + len) }
    }
    fn commit(&mut self) {
        self.lens.push(self.pending);
    }
}

/// What one end does.
struct Program {
    is_server: bool,
    /// What each session sends: a request and its answer, as large as this.
    message: u64,
    /// Whether a session closes after its exchange.
    closes: bool,
    todo: Vec<(SessionId, u64)>,
    closing: Vec<SessionId>,
    established: u64,
    ended: u64,
    exchanges: u64,
    ids: Vec<SessionId>,
}

impl Program {
    fn new(is_server: bool, message: u64, closes: bool) -> Program {
        let (todo, closing, ids) = (Vec::new(), Vec::new(), Vec::new());
        Program {
            is_server,
            message,
            closes,
            todo,
            closing,
            established: 0,
            ended: 0,
            exchanges: 0,
            ids,
        }
    }
}

impl Application for Program {
    fn accept(&mut self, _: &Tuple) -> Accept {
        Accept::Session { profile: 0, user: 0 }
    }
    fn payload(&mut self, _: Session, _: u64, into: &mut [u8]) {
        into.fill(0x55);
    }
    fn received(&mut self, session: Session, received: Received<'_>) {
        black_box(received.bytes);
        if received.in_order.is_multiple_of(self.message) {
            if self.is_server {
                self.todo.push((session.id, self.message));
            } else {
                self.exchanges += 1;
                if self.closes {
                    self.closing.push(session.id);
                }
            }
        }
    }
    fn event(&mut self, session: Session, event: Event) {
        match event {
            Event::Established => {
                self.established += 1;
                if !self.is_server {
                    self.ids.push(session.id);
                    if self.closes {
                        if self.message > 0 {
                            self.todo.push((session.id, self.message));
                        } else {
                            self.closing.push(session.id);
                        }
                    }
                }
            }
            Event::PeerClosed if self.is_server => self.closing.push(session.id),
            Event::Closed(_) => self.ended += 1,
            _ => {}
        }
    }
}

/// Both ends, and time in between that only they see.
struct Pair {
    ends: [(Stack, Program); 2],
    wires: [Wire; 2],
    now: Nanos,
    opened: u64,
}

impl Pair {
    fn new(sessions: usize, profile: Profile, message: u64, closes: bool) -> Pair {
        let limits = Limits {
            addresses: 0,
            ranges: 64,
            time_wait: sessions,
            half_open: 4096,
            ..Limits::for_sessions(sessions)
        };
        let end = |seed, is_server| {
            (
                Stack::new(&limits, vec![profile], [seed, 7], Nanos::ZERO),
                Program::new(is_server, message, closes),
            )
        };
        Pair {
            ends: [end(1, false), end(2, true)],
            wires: [Wire::new(), Wire::new()],
            now: Nanos::from_secs(1),
            opened: 0,
        }
    }

    fn open(&mut self, count: usize) {
        for _ in 0..count {
            let number = self.opened;
            self.opened += 1;
            let tuple = Tuple {
                local: [10, 1, ((number / 60_000) >> 8) as u8, (number / 60_000) as u8].into(),
                remote: [10, 2, 0, 1].into(),
                local_port: (number % 60_000) as u16 + 1024,
                remote_port: 80,
            };
            let (stack, _) = &mut self.ends[0];
            let _ = stack.connect(self.now, &Open { tuple, profile: 0, user: 0 });
        }
    }

    /// A batch each way; whether anything went.
    fn turn(&mut self) -> bool {
        self.now = self.now.saturating_add(Nanos::from_micros(5));
        let mut went = false;
        for side in 0..2 {
            let (stack, program) = &mut self.ends[side];
            for (id, bytes) in program.todo.drain(..) {
                let _ = stack.send(id, bytes);
            }
            for id in std::mem::take(&mut program.closing) {
                let _ = stack.close(self.now, id, program);
            }
            stack.expire(self.now, 256, program);
            let wire = &mut self.wires[side];
            stack.transmit(self.now, program, wire);
            went |= !wire.lens.is_empty();
            let mut batch: [(&[u8], Checksum); BATCH] = [(&[], Checksum::Verify); BATCH];
            let packets = wire.bytes.chunks(ROOM).zip(&wire.lens);
            for (slot, (bytes, len)) in batch.iter_mut().zip(packets) {
                *slot = (&bytes[..*len], Checksum::Verify);
            }
            let count = wire.lens.len();
            let (peer, peer_program) = &mut self.ends[1 - side];
            peer.receive_batch(self.now, &batch[..count], peer_program);
            self.wires[side].lens.clear();
        }
        went
    }

    fn segments(&self) -> u64 {
        self.ends.iter().map(|(stack, _)| stack.counters().segments.sent).sum()
    }

    fn check(&self) {
        for (stack, _) in &self.ends {
            assert!(stack.counters().segments_balance() && stack.counters().sessions_balance());
            assert_eq!(stack.counters().bytes.retransmitted, 0);
        }
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A walk over `count` entries of an index and two lines of 192 bytes behind each, in batches, as the stack does it.
fn bare_walk(count: usize) -> f64 {
    #[repr(C, align(64))]
    struct Lines([u64; 24]);
    impl Slot for Lines {
        fn vacant(_: u32) -> Lines {
            Lines([0; 24])
        }
        fn next_vacant(&self) -> Option<u32> {
            (self.0[0] == 0).then_some(u32::MAX)
        }
    }
    let (mut index, mut slab) = (Index::new(count), Slab::<Lines>::new(count));
    let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    for number in 0..count as u64 {
        let at = slab.insert(Lines([number + 1; 24])).unwrap();
        index.insert(hash(number), at).unwrap();
    }
    let (mut state, rounds) = (88_172_645_463_325_252, 4_000_000 / BATCH);
    let begin = Timer::start();
    let mut sum = 0;
    for _ in 0..rounds {
        let mut hashes = [0; BATCH];
        hashes.fill_with(|| hash(random(&mut state) % count as u64));
        let mut nodes = [u32::MAX; BATCH];
        for (node, hash) in nodes.iter_mut().zip(hashes) {
            *node = index.touch(hash).unwrap_or(u32::MAX);
        }
        for node in nodes {
            black_box(slab.get(node).map(|lines| (lines.0[0], lines.0[8])));
        }
        for hash in hashes {
            if let Some(at) = index.find(hash, |_| true)
                && let Some(lines) = slab.get_mut(at)
            {
                lines.0[1] += 1;
                lines.0[9] += 1;
                sum += lines.0[9];
            }
        }
    }
    black_box(sum);
    begin.nanos() / (rounds * BATCH) as f64
}

/// Time of the processor that this thread has had. What others do on the machine is not in it, but for what they do to caches.
struct Timer(u64);

impl Timer {
    fn now() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
    fn start() -> Timer {
        Timer(Timer::now())
    }
    fn nanos(&self) -> f64 {
        (Timer::now() - self.0) as f64
    }
}

/// A field of `/proc/self/status` in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn main() {
    let sessions: usize = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let profile = Profile { window: 65_535, ..Profile::default() };

    let before = status("VmRSS");
    let mut pair = Pair::new(sessions, profile, MESSAGE, false);
    pair.ends[0].1.ids.reserve(sessions);
    while pair.ends[0].1.established < sessions as u64 {
        if pair.opened < sessions as u64 {
            pair.open(BATCH.min(sessions - pair.opened as usize));
        }
        pair.turn();
    }
    while pair.turn() {}
    let of_ids = sessions * size_of::<SessionId>();
    let held = status("VmRSS").saturating_sub(before) - of_ids as u64;
    println!(
        "{sessions} sessions open, both ends: {:.0} bytes an endpoint",
        held as f64 / (2 * sessions) as f64
    );

    // Requests and answers over sessions in a random order: each exchange is two segments with data and their acknowledgments.
    let (mut state, begin, first) = (1, Timer::start(), pair.segments());
    let exchanges = 2_000_000;
    while pair.ends[0].1.exchanges < exchanges {
        for _ in 0..BATCH {
            let id = pair.ends[0].1.ids[random(&mut state) as usize % sessions];
            pair.ends[0].1.todo.push((id, MESSAGE));
        }
        // Until all of it is done: who offers more than a turn takes measures a queue.
        while pair.turn() {}
    }
    let (elapsed, segments) = (begin.nanos(), pair.segments() - first);
    pair.check();
    println!(
        "exchanges of {MESSAGE} bytes: {:.0} ns a segment ({segments} segments)",
        elapsed / segments as f64
    );
    drop(pair);
    if std::env::args().len() > 2 {
        return;
    }

    for sessions in [sessions, 1_000_000] {
        println!("bare walk over {sessions} entries: {:.0} ns", bare_walk(sessions));
    }

    // A few sessions with much data: whole segments one way.
    let mut pair = Pair::new(8, profile, u64::MAX, false);
    pair.open(8);
    while pair.ends[0].1.established < 8 {
        pair.turn();
    }
    for id in pair.ends[0].1.ids.clone() {
        pair.ends[0].1.todo.push((id, 500_000_000));
    }
    let begin = Timer::start();
    while pair.turn() {}
    let (elapsed, segments) = (begin.nanos(), pair.segments());
    let bytes = pair.ends[1].0.counters().bytes.delivered;
    pair.check();
    let rate = bytes as f64 * 8.0 / elapsed;
    println!("bulk: {:.0} ns a segment, {rate:.1} Gbit/s", elapsed / segments as f64);

    for (what, message, time_wait) in [
        ("opened and closed, TIME-WAIT of 60 s", 0, 60),
        ("opened and closed, TIME-WAIT skipped", 0, 0),
        ("with an exchange of 1 kB, TIME-WAIT of 60 s", 1000, 60),
    ] {
        let count = 1_000_000;
        let profile = Profile { time_wait: Nanos::from_secs(time_wait), ..profile };
        let mut pair = Pair::new(count, profile, message, true);
        let begin = Timer::start();
        while pair.ends[0].1.ended < count as u64 {
            if pair.opened < count as u64 {
                pair.open(8);
            }
            pair.turn();
        }
        let rate = count as f64 / begin.nanos() * 1e9;
        pair.check();
        let closed = pair.ends[0].0.counters().sessions.closed;
        println!("sessions {what}: {rate:.0} a second ({closed} closed in order)");
    }
}
