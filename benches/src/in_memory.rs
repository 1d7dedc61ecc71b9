//! Our own TCP in memory on one core: both ends in one thread, and packets go from one to the other in batches. Beside it a bare walk
//! over a table of the same size (`bare_walk.rs`).
//!
//! A segment is one that is built with its checksum at one end, and taken in, checksum verified, at the other. Both ends meter: counters and
//! distributions of times, as programs of sessions do. Times are those of the processor that the thread had. `sections/in_memory.rs` makes a
//! chapter of it.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};
use wirebeat_host::large_pages;
use wirebeat_meter::session::{SessionMeter, SessionTime};
use wirebeat_stack::prefetch::prefetch;
use wirebeat_stack::{
    Accept, Application, Checksum, Event, Limits, Open, Profile, Reason, Received, Session,
    SessionId, Stack, State, Transmit, Tuple,
};
use wirebeat_units::Nanos;

use crate::lab::Failure;
use crate::memory::{self, Look, Memory, Watch};

pub(crate) const BATCH: usize = 32;
/// Entries of the bare walk, and sessions that are to send, that are asked for before their turn, as the stack does it.
pub(crate) const AHEAD: usize = 8;
/// Bytes of a request and of its answer over sessions that stay open.
const MESSAGE: u64 = 100;
/// Sessions that are asked for in a turn.
const OPENED: usize = 8;
/// Bytes of data of the bulk sessions, and how many those are.
const BULK: u64 = 250_000_000;
const BULK_SESSIONS: usize = 8;
/// Their receive window, in bytes: it holds many large packets.
const BULK_WINDOW: u32 = 1 << 20;
/// Between two turns where nothing is said about it.
const STEP: Nanos = Nanos::from_micros(5);
/// Room for each packet, and for those that hold several segments.
const ROOM: usize = 2048;
const ROOM_LARGE: usize = 1 << 16;

/// Packets on their way from one end to the other.
struct Wire {
    bytes: Vec<u8>,
    lens: Vec<usize>,
    pending: usize,
    /// Room for each packet.
    room: usize,
}

impl Wire {
    fn new(room: usize) -> Wire {
        Wire { bytes: vec![0; room * BATCH], lens: Vec::with_capacity(BATCH), pending: 0, room }
    }

    /// Large packets have no checksum yet, as on a virtual link.
    fn checksum(&self) -> Checksum {
        if self.takes_large() { Checksum::VerifyOrPartial } else { Checksum::Verify }
    }
}

impl Transmit for Wire {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        let at = self.lens.len() * self.room;
        self.pending = len;
        if self.lens.len() == BATCH { None } else { self.bytes.get_mut(at..at + len) }
    }
    fn commit(&mut self) {
        self.lens.push(self.pending);
    }
    fn takes_large(&self) -> bool {
        self.room == ROOM_LARGE
    }
    fn commit_large(&mut self, _: u16, _: u16) {
        // nobody cuts it: the other end gets it as from a kernel on the same machine
        self.commit();
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
    ids: Vec<SessionId>,
    meter: SessionMeter,
    now: Nanos,
    /// When each session began, or its last request was made: by its word.
    since: Vec<Nanos>,
}

impl Program {
    fn new(is_server: bool, message: u64, closes: bool) -> Program {
        Program {
            is_server,
            message,
            closes,
            todo: Vec::new(),
            closing: Vec::new(),
            ids: Vec::new(),
            meter: SessionMeter::new(0),
            now: Nanos::ZERO,
            since: Vec::new(),
        }
    }

    /// Asks for a message of this session of the client in the next turn.
    fn request(&mut self, id: SessionId, user: u32) {
        self.todo.push((id, self.message));
        self.meter.counts.requests += 1;
        if let Some(since) = self.since.get_mut(user as usize) {
            *since = self.now;
        }
    }

    /// Records how long something took of a session of the client.
    fn took(&mut self, what: SessionTime, user: u32) {
        if let Some(&since) = self.since.get(user as usize) {
            self.meter.took(what, since, since, self.now);
        }
    }
}

impl Application for Program {
    fn accept(&mut self, _: &Tuple) -> Accept {
        Accept::Session { profile: 0, user: 0 }
    }
    fn upcoming(&self, user: u32) {
        if let Some(since) = self.since.get(user as usize) {
            prefetch(since);
        }
    }
    fn payload(&mut self, _: Session, _: u64, into: &mut [u8]) {
        into.fill(0x55);
    }
    fn received(&mut self, session: Session, received: Received<'_>) {
        self.meter.counts.delivered_bytes += black_box(received.bytes).len() as u64;
        if received.in_order.is_multiple_of(self.message) {
            if self.is_server {
                self.todo.push((session.id, self.message));
            } else {
                self.meter.counts.responses += 1;
                self.took(SessionTime::Response, session.user);
                if self.closes {
                    self.closing.push(session.id);
                }
            }
        }
    }
    fn event(&mut self, session: Session, event: Event) {
        match event {
            Event::Established => {
                self.meter.counts.opened += 1;
                self.meter.counts.established += 1;
                self.meter.note_open(self.now);
                if !self.is_server {
                    self.took(SessionTime::Connect, session.user);
                    match (self.closes, self.message) {
                        (false, _) => self.ids.push(session.id),
                        (true, 0) => self.closing.push(session.id),
                        (true, _) => self.request(session.id, session.user),
                    }
                }
            }
            Event::PeerClosed if self.is_server => self.closing.push(session.id),
            Event::Closed(reason) => {
                let counts = &mut self.meter.counts;
                match reason {
                    Reason::InOrder => counts.in_order += 1,
                    _ => counts.failed_here += 1,
                }
                self.meter.note_end(self.now);
                self.took(SessionTime::Session, session.user);
            }
            _ => {}
        }
    }
}

/// An end.
struct Side {
    stack: Stack,
    program: Program,
    /// What it has sent.
    wire: Wire,
}

/// Both ends, and time in between that only they see.
struct Pair {
    client: Side,
    server: Side,
    now: Nanos,
    step: Nanos,
    opened: u64,
    /// Of how many sessions at a time the client keeps when each began.
    kept: usize,
}

impl Pair {
    fn new(sessions: usize, profile: Profile, message: u64, closes: bool) -> Pair {
        Pair::with_time_wait(sessions, sessions, profile, message, closes)
    }

    /// With room for `sessions` at a time, and for `time_wait` more in TIME-WAIT.
    fn with_time_wait(
        sessions: usize,
        time_wait: usize,
        profile: Profile,
        message: u64,
        closes: bool,
    ) -> Pair {
        let limits = Limits {
            addresses: 0,
            ranges: 64,
            time_wait,
            half_open: 4096,
            ..Limits::for_sessions(sessions)
        };
        let room = if profile.gso_segments > 1 { ROOM_LARGE } else { ROOM };
        let side = |seed, is_server| Side {
            stack: Stack::new(&limits, vec![profile], [seed, 7], Nanos::ZERO),
            program: Program::new(is_server, message, closes),
            wire: Wire::new(room),
        };
        let (mut client, mut server) = (side(1, false), side(2, true));
        // what the program here keeps of each session lies among the tables
        if !closes {
            client.program.ids.reserve_exact(sessions);
        }
        client.program.since.reserve_exact(sessions);
        // as a run does it
        large_pages::ask_for_tables(sessions.max(time_wait));
        client.stack.populate();
        server.stack.populate();
        let now = Nanos::from_secs(1);
        Pair { client, server, now, step: STEP, opened: 0, kept: sessions }
    }

    /// The client asks for `count` more sessions.
    fn open(&mut self, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            let number = self.opened;
            self.opened += 1;
            let tuple = Tuple {
                local: [10, 1, ((number / 60_000) >> 8) as u8, (number / 60_000) as u8].into(),
                remote: [10, 2, 0, 1].into(),
                local_port: (number % 60_000) as u16 + 1024,
                remote_port: 80,
            };
            let user = number as usize % self.kept;
            match self.client.program.since.get_mut(user) {
                Some(since) => *since = self.now,
                None => self.client.program.since.push(self.now),
            }
            let open = Open { tuple, profile: 0, user: user as u32 };
            let opened = self.client.stack.connect(self.now, &open);
            opened.map_err(|why| format!("session {number} cannot be opened: {why:?}"))?;
        }
        Ok(())
    }

    /// Opens all sessions, and waits until nothing is on its way.
    fn open_all(&mut self, sessions: usize) -> Result<(), Failure> {
        while self.client.program.ids.len() < sessions {
            self.open(OPENED.min(sessions.saturating_sub(self.opened as usize)))?;
            let went = self.turn();
            if !went && self.opened as usize >= sessions {
                break;
            }
        }
        while self.turn() {}
        match self.client.program.ids.len() {
            all if all == sessions => Ok(()),
            some => Err(format!("{some} of {sessions} sessions were established").into()),
        }
    }

    /// A batch each way; whether anything went.
    fn turn(&mut self) -> bool {
        self.now = self.now.saturating_add(self.step);
        let Pair { client, server, now, .. } = self;
        let forth = one_way(*now, client, server);
        let back = one_way(*now, server, client);
        forth || back
    }

    fn segments(&self) -> u64 {
        let sent = |side: &Side| side.stack.counters().segments.sent;
        sent(&self.client) + sent(&self.server)
    }

    /// That the counters are consistent and nothing was lost.
    fn check(&self) -> Result<(), Failure> {
        for side in [&self.client, &self.server] {
            let counters = side.stack.counters();
            if !counters.segments_balance() || !counters.sessions_balance() {
                return Err("the counters of the stack are inconsistent".into());
            }
            if counters.bytes.retransmitted > 0 || side.program.meter.counts.failed_here > 0 {
                return Err(
                    "bytes were sent again, or sessions failed, where nothing is lost".into()
                );
            }
        }
        Ok(())
    }
}

/// What `from` does and sends goes to `to`; whether anything went.
fn one_way(now: Nanos, from: &mut Side, to: &mut Side) -> bool {
    let Side { stack, program, wire } = from;
    (program.now, to.program.now) = (now, now);
    program.todo.iter().take(AHEAD).for_each(|(id, _)| stack.prefetch_session(*id));
    for at in 0..program.todo.len() {
        if let Some((id, _)) = program.todo.get(at + AHEAD) {
            stack.prefetch_session(*id);
        }
        if let Some(&(id, bytes)) = program.todo.get(at) {
            let _ = stack.send(id, bytes);
        }
    }
    program.todo.clear();
    let mut closing = std::mem::take(&mut program.closing);
    for id in closing.drain(..) {
        let _ = stack.close(now, id, program);
    }
    closing.append(&mut program.closing);
    program.closing = closing;
    stack.expire(now, 256, program);
    stack.transmit(now, program, wire);
    let checksum = wire.checksum();
    let mut batch: [(&[u8], Checksum); BATCH] = [(&[], checksum); BATCH];
    let packets = wire.bytes.chunks(wire.room).zip(&wire.lens);
    for (slot, (bytes, len)) in batch.iter_mut().zip(packets) {
        *slot = (bytes.get(..*len).unwrap_or_default(), checksum);
    }
    let count = wire.lens.len();
    to.stack.receive_batch(now, &batch[..count], &mut to.program);
    wire.lens.clear();
    count > 0
}

pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Time of the processor that this thread has had. What others do on the machine is not in it, but for what they do to caches.
pub(crate) struct Timer(u64);

impl Timer {
    /// That of `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`, which is exact at any moment; `/proc/thread-self/schedstat` is of the last tick.
    fn now() -> u64 {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
    pub(crate) fn start() -> Timer {
        Timer(Timer::now())
    }
    pub(crate) fn nanos(&self) -> f64 {
        Timer::now().saturating_sub(self.0) as f64
    }
}

fn profile() -> Profile {
    Profile { window: 65_535, ..Profile::default() }
}

/// Nanoseconds a segment of requests and answers over `sessions` that are open, in a random order, `exchanges` of them: each exchange is two
/// segments with data, and what acknowledges them.
pub fn exchanges(sessions: usize, exchanges: u64) -> Result<f64, Failure> {
    let mut pair = Pair::new(sessions, profile(), MESSAGE, false);
    pair.open_all(sessions)?;
    let (mut state, begin, first) = (1, Timer::start(), pair.segments());
    while pair.client.program.meter.counts.responses < exchanges {
        for _ in 0..BATCH {
            let user = random(&mut state) as usize % sessions;
            // sessions are established in the order in which they were opened
            let id = pair.client.program.ids[user];
            pair.client.program.request(id, user as u32);
        }
        // until all of it is done: who offers more than a turn takes measures a queue
        while pair.turn() {}
    }
    let (elapsed, segments) = (begin.nanos(), pair.segments() - first);
    pair.check()?;
    Ok(elapsed / segments as f64)
}

/// Bits a second of a few sessions with much data, whole segments one way: each in a packet by itself, or up to `in_packet` of them.
pub fn bulk(in_packet: u8) -> Result<f64, Failure> {
    let profile = Profile { window: BULK_WINDOW, gso_segments: in_packet, ..profile() };
    let mut pair = Pair::new(BULK_SESSIONS, profile, u64::MAX, false);
    pair.open_all(BULK_SESSIONS)?;
    let ids = pair.client.program.ids.iter();
    pair.client.program.todo.extend(ids.map(|&id| (id, BULK)));
    let begin = Timer::start();
    while pair.turn() {}
    let elapsed = begin.nanos();
    pair.check()?;
    let delivered = pair.server.stack.counters().bytes.delivered;
    match delivered == BULK * BULK_SESSIONS as u64 {
        true => Ok(delivered as f64 * 8e9 / elapsed),
        false => Err(format!("{delivered} bytes were delivered").into()),
    }
}

/// Sessions that open, do what they have to, and close.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Bytes of a request and of its answer; 0: they open and close.
    pub message: u64,
    /// How long the end that closes first remembers a session.
    pub time_wait: Nanos,
    /// How many.
    pub sessions: usize,
}

impl Opening {
    /// How many a second are opened and closed by FIN both ways. Time passes so that half of all sessions leave TIME-WAIT meanwhile: entering
    /// it, waiting among the others and leaving it is all in the figure.
    pub fn each_second(&self) -> Result<f64, Failure> {
        let Opening { message, time_wait, sessions } = *self;
        let profile = Profile { time_wait, ..profile() };
        let mut pair = Pair::new(sessions, profile, message, true);
        let turns = (sessions / OPENED) as u64;
        pair.step = STEP.max(Nanos::new(time_wait.get() * 2 / turns.max(1)));
        let begin = Timer::start();
        while pair.client.program.meter.counts.in_order < sessions as u64 {
            let left = sessions - pair.opened as usize;
            pair.open(OPENED.min(left))?;
            if !pair.turn() && left == 0 {
                return Err("sessions did not come to their end".into());
            }
        }
        let elapsed = begin.nanos();
        pair.check()?;
        Ok(sessions as f64 / elapsed * 1e9)
    }
}

/// The words before what [`idle_endpoints`] prints.
pub const BYTES: &str = "bytes-an-endpoint";

/// Opens `sessions`, leaves them idle, and prints how many bytes each of their endpoints took. The peak is that of the process, so it has one
/// of its own.
pub fn idle_endpoints(sessions: usize) -> Result<(), Failure> {
    let before = Memory::of_process()?.bytes();
    let mut pair = Pair::new(sessions, profile(), MESSAGE, false);
    pair.open_all(sessions)?;
    pair.check()?;
    let taken = Memory::of_process()?.bytes() - before;
    println!("{BYTES} {}", taken / (2 * sessions) as f64);
    Ok(())
}

/// What very many sessions took: all are open at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    /// Sessions that were opened each second.
    pub opened: f64,
    /// Nanoseconds a segment, in an exchange on each of them.
    pub segment: f64,
    /// Sessions that were closed each second, by FIN both ways.
    pub closed: f64,
    /// Sessions that were opened each second once all had left TIME-WAIT.
    pub opened_again: f64,
    /// The peak of the process in bytes while all are open, without what it has without sessions.
    pub open: f64,
    /// The same at the end: with TIME-WAIT of all, and all open again.
    pub end: f64,
    /// What a bare walk took over as many entries, which is measured beside it.
    pub walk: f64,
    /// The memory of the process meanwhile, in the parts that [`PARTS`] names.
    pub looks: Vec<Look>,
}

/// What [`scale`] does, one after the other.
pub const PARTS: [&str; 4] =
    ["opening", "a request on each", "closing, TIME-WAIT", "opening again"];

impl Scale {
    fn figures(&self) -> [f64; 6] {
        let Scale { opened, segment, closed, opened_again, open, end, .. } = *self;
        [opened, segment, closed, opened_again, open, end]
    }

    /// Reads what [`scale`] prints.
    pub fn read(text: &str) -> Option<Scale> {
        let (line, looks) = text.split_once('\n').unwrap_or((text, ""));
        let figures: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [opened, segment, closed, opened_again, open, end] = figures[..] else { return None };
        let looks = looks.lines().map(memory::read).collect::<Option<_>>()?;
        Some(Scale { opened, segment, closed, opened_again, open, end, walk: 0.0, looks })
    }
}

/// What sessions took that opened and closed at a rate for a time, each remembered in TIME-WAIT.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Turnover {
    /// Sessions that were opened and closed in each second of the processor.
    pub mean: f64,
    /// The same in the slowest second of the virtual clock.
    pub slowest: f64,
    /// Sessions in TIME-WAIT at the end.
    pub waiting: f64,
    /// The peak of the process in bytes, without what it has without sessions.
    pub memory: f64,
}

impl Turnover {
    fn figures(self) -> [f64; 4] {
        let Turnover { mean, slowest, waiting, memory } = self;
        [mean, slowest, waiting, memory]
    }

    /// Reads what [`turnover`] prints.
    pub fn read(line: &str) -> Option<Turnover> {
        let figures: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [mean, slowest, waiting, memory] = figures[..] else { return None };
        Some(Turnover { mean, slowest, waiting, memory })
    }
}

/// Sessions under way at a time where they open and close at once.
const UNDER_WAY: usize = 1 << 16;

/// Opens and closes sessions by FIN both ways, as many in each second of the virtual clock as this says and for as long, and prints what it
/// took as [`Turnover::read`] reads it. The end that closes first remembers each for 60 s. No two have the same tuple.
pub fn turnover(each_second: u64, time: Nanos) -> Result<(), Failure> {
    let time_wait = profile().time_wait;
    let most = |time: Nanos| each_second.saturating_mul(time.get()) / 1_000_000_000;
    // what closes while the first leave comes on top
    let room = most(time.min(time_wait.saturating_add(Nanos::from_millis(200)))) as usize + 1000;
    let before = Memory::of_process()?.bytes();
    let mut pair = Pair::with_time_wait(UNDER_WAY, room, profile(), 0, true);
    pair.step = Nanos::new(OPENED as u64 * 1_000_000_000 / each_second.max(1));
    let (begin, all) = (pair.now, Timer::start());
    let (mut second, mut took, mut count, mut slowest) = (begin, Timer::start(), 0, f64::INFINITY);
    while pair.now < begin.saturating_add(time) {
        pair.open(OPENED)?;
        pair.turn();
        if pair.now.saturating_sub(second) >= Nanos::from_secs(1) {
            slowest = slowest.min((pair.opened - count) as f64 * 1e9 / took.nanos());
            (second, took, count) = (pair.now, Timer::start(), pair.opened);
        }
    }
    let mean = pair.opened as f64 * 1e9 / all.nanos();
    let waiting = pair.client.stack.counters().in_state(State::TimeWait);
    while pair.turn() {}
    pair.check()?;
    for (side, end) in [(&pair.client, "client"), (&pair.server, "server")] {
        let in_order = side.program.meter.counts.in_order;
        if in_order != pair.opened {
            let opened = pair.opened;
            return Err(
                format!("{in_order} of {opened} sessions of the {end} ended in order").into()
            );
        }
    }
    if pair.client.stack.counters().sessions.time_wait_skipped > 0 {
        return Err("sessions skipped TIME-WAIT for want of room".into());
    }
    let memory = Memory::of_process()?.bytes() - before;
    let took = Turnover { mean, slowest, waiting: waiting.into(), memory };
    println!("{}", took.figures().map(|figure| figure.to_string()).join(" "));
    Ok(())
}

/// Strides of a walk that comes by every session once, where its length is no multiple of them: primes.
const STRIDES: [usize; 2] = [7_368_787, 611_953];

/// Opens `sessions`, has an exchange on each in an order that no cache foresees, closes them by FIN, opens as many again when they have left
/// TIME-WAIT, and prints what it took as [`Scale::read`] reads it. The peak is that of the process, so it has one of its own.
pub fn scale(sessions: usize) -> Result<(), Failure> {
    let before = Memory::of_process()?.bytes();
    let watch = Watch::start();
    let each_second = |begin: Timer| sessions as f64 / begin.nanos() * 1e9;
    let mut pair = Pair::new(sessions, profile(), MESSAGE, false);
    let begin = Timer::start();
    pair.open_all(sessions)?;
    let opened = each_second(begin);
    watch.next();
    let stride = STRIDES.into_iter().find(|stride| !sessions.is_multiple_of(*stride)).unwrap_or(1);
    let (begin, first) = (Timer::start(), pair.segments());
    for place in 0..sessions {
        let user = place * stride % sessions;
        let id = pair.client.program.ids[user];
        pair.client.program.request(id, user as u32);
        if place % BATCH == BATCH - 1 {
            while pair.turn() {}
        }
    }
    while pair.turn() {}
    let segment = begin.nanos() / (pair.segments() - first) as f64;
    let responses = pair.client.program.meter.counts.responses;
    if responses != sessions as u64 {
        return Err(format!("{responses} of {sessions} requests were answered").into());
    }
    let open = Memory::of_process()?.bytes() - before;
    watch.next();
    let begin = Timer::start();
    for place in 0..sessions {
        let id = pair.client.program.ids[place];
        pair.client.program.closing.push(id);
        if place % BATCH == BATCH - 1 {
            while pair.turn() {}
        }
    }
    while pair.turn() {}
    let closed = each_second(begin);
    for side in [&pair.client, &pair.server] {
        let in_order = side.program.meter.counts.in_order;
        if in_order != sessions as u64 {
            return Err(format!("{in_order} of {sessions} sessions ended in order").into());
        }
    }
    pair.now = pair.now.saturating_add(profile().time_wait);
    while pair.client.stack.counters().in_state(State::TimeWait) > 0 {
        pair.turn();
    }
    watch.next();
    pair.opened = 0;
    pair.client.program.ids.clear();
    let begin = Timer::start();
    pair.open_all(sessions)?;
    let opened_again = each_second(begin);
    pair.check()?;
    let end = Memory::of_process()?.bytes() - before;
    let looks = watch.looks();
    let took = Scale { opened, segment, closed, opened_again, open, end, walk: 0.0, looks };
    println!("{}", took.figures().map(|figure| figure.to_string()).join(" "));
    memory::print(&took.looks);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_prints_is_read() {
        let took = Scale { opened: 1e6, segment: 182.5, end: 4.8e9, ..Scale::default() };
        let line = took.figures().map(|figure| figure.to_string()).join(" ");
        let looks = vec![(0, 1e8, 2e6), (3, 2e8, 4e6)];
        let text = format!("{line}\n0 100000000 2000000\n3 2e8 4e6\n");
        assert_eq!(Scale::read(text.trim()), Some(Scale { looks, ..took.clone() }));
        assert_eq!(Scale::read(&line), Some(took));
        assert_eq!((Scale::read("1 2 3"), Scale::read("1 2 3 4 5 x")), (None, None));
    }

    #[test]
    fn sessions_are_closed_and_opened_again() {
        for sessions in [1000, 1001] {
            scale(sessions).unwrap();
        }
    }

    #[test]
    fn sessions_of_a_rate_are_remembered_for_a_minute() {
        turnover(100, Nanos::from_secs(70)).unwrap();
        let took = Turnover { mean: 9e5, slowest: 7.5e5, waiting: 6000.0, memory: 1.0 };
        let line = took.figures().map(|figure| figure.to_string()).join(" ");
        assert_eq!((Turnover::read(&line), Turnover::read("1 2 3")), (Some(took), None));
    }

    #[test]
    fn every_session_of_a_measurement_comes_to_its_end() {
        assert!(exchanges(100, 1000).unwrap() > 0.0);
        for (message, time_wait) in [(0, 60), (0, 0), (1000, 60)] {
            let opening =
                Opening { message, time_wait: Nanos::from_secs(time_wait), sessions: 4000 };
            assert!(opening.each_second().unwrap() > 0.0, "{opening:?}");
        }
    }
}
