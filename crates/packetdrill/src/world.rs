//! Virtual time, the stack, the packets that it sent, and threads that wait.
//!
//! packetdrill has two threads: the main one injects packets, receives them and sleeps; the other makes the calls that block. Time
//! passes in the main thread only. When something happens that a blocked call may wait for, the main thread lets it look, and if
//! the call returns, waits until packetdrill has read the clock: otherwise the end of the call would be read too late.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use wirebeat_stack::{Checksum, Limits, Stack, State, Transmit};
use wirebeat_units::Nanos;

use crate::ready::Sets;
use crate::settings::{PROFILES, System};
use crate::sockets::{Errno, Sockets};

/// When time begins: late enough that nothing is before it.
const BEGIN: Nanos = Nanos::from_secs(1000);
/// Each look at the clock takes this long. packetdrill spins on it for the last microseconds before an event.
const CLOCK_COST: Nanos = Nanos::from_micros(1);
/// For how long packetdrill waits for a packet, or a call in its main thread for its end.
const PATIENCE: Nanos = Nanos::from_secs(900);
/// How long the main thread waits, in real time, for the other one to look at its call.
const HANDOVER: Duration = Duration::from_secs(2);

/// All that there is.
#[derive(Debug)]
pub struct World {
    /// The time.
    pub now: Nanos,
    /// The stack.
    pub stack: Stack,
    /// Sets of `epoll`.
    pub sets: Sets,
    /// Its embedder.
    pub sockets: Sockets,
    out: Queue,
    waiting: Waiting,
    states: Option<StatesFile>,
}

/// Packets that the stack sent, with their times.
#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<(Nanos, Vec<u8>)>,
    buffer: Vec<u8>,
    now: Nanos,
}

impl Transmit for Queue {
    fn buffer(&mut self, len: usize) -> Option<&mut [u8]> {
        self.buffer.clear();
        self.buffer.resize(len, 0);
        Some(&mut self.buffer)
    }

    fn commit(&mut self) {
        self.packets.push_back((self.now, std::mem::take(&mut self.buffer)));
    }
}

/// A file with the states of all sessions, a line each, for commands of scripts that look at the kernel's elsewhere.
#[derive(Debug)]
struct StatesFile {
    path: PathBuf,
    written: String,
}

impl StatesFile {
    /// States as FreeBSD names them.
    const NAMES: [(State, &str); 10] = [
        (State::SynSent, "SYN_SENT"),
        (State::SynReceived, "SYN_RCVD"),
        (State::Established, "ESTABLISHED"),
        (State::CloseWait, "CLOSE_WAIT"),
        (State::FinWait1, "FIN_WAIT_1"),
        (State::Closing, "CLOSING"),
        (State::LastAck, "LAST_ACK"),
        (State::FinWait2, "FIN_WAIT_2"),
        (State::TimeWait, "TIME_WAIT"),
        (State::Closed, "CLOSED"),
    ];

    /// The one that the environment names.
    fn of_environment() -> Option<StatesFile> {
        let path = std::env::var_os("WIREBEAT_PACKETDRILL_STATES")?.into();
        Some(StatesFile { path, written: String::from("?") })
    }

    fn update(&mut self, stack: &Stack) {
        let counters = stack.counters();
        let lines = |(state, name)| {
            format!("packetdrill {name}\n").repeat(counters.in_state(state) as usize)
        };
        let text: String = Self::NAMES.into_iter().map(lines).collect();
        // A command that finds no file, or an old one, fails its script.
        if text != self.written && fs::write(&self.path, &text).is_ok() {
            self.written = text;
        }
    }
}

/// The thread whose call blocks.
#[derive(Debug, Default)]
struct Waiting {
    is_waiting: bool,
    /// Counts what may end a wait; and up to where the waiting thread has looked.
    happened: u64,
    seen: u64,
    /// Whose call returned and who has not read the clock since.
    returning: Option<ThreadId>,
}

impl World {
    fn new() -> World {
        let limits = Limits { challenges_per_second: 1000, ..Limits::for_sessions(256) };
        let system = System::read();
        World {
            now: BEGIN,
            stack: Stack::new(&limits, vec![system.profile(); PROFILES], [7, 11], BEGIN),
            sets: Sets::default(),
            sockets: Sockets::new(system),
            out: Queue::default(),
            waiting: Waiting::default(),
            states: StatesFile::of_environment(),
        }
    }

    /// A packet arrives.
    pub fn inject(&mut self, packet: &[u8]) {
        self.sockets.now = self.now;
        match (packet.first().map(|first| first >> 4), packet.get(9), packet.get(6)) {
            // ICMP of IPv4, ICMPv6.
            (Some(4), Some(1), _) | (Some(6), _, Some(58)) => {
                self.sockets.is_icmp = true;
                self.stack.receive_icmp(self.now, packet, &mut self.sockets);
                self.sockets.is_icmp = false;
            }
            _ => self.stack.receive(self.now, packet, Checksum::Verify, &mut self.sockets),
        }
        self.run();
    }

    /// Does what is due and sends what may be sent, until nothing is left.
    pub fn run(&mut self) {
        (self.out.now, self.sockets.now) = (self.now, self.now);
        // Each round may give the next one something to do; a bound all the same, should two never agree.
        for _ in 0..10_000 {
            self.stack.expire(self.now, usize::MAX, &mut self.sockets);
            let acted = self.sockets.act(&mut self.stack, self.now);
            self.stack.transmit(self.now, &mut self.sockets, &mut self.out);
            if !acted && !self.stack.has_output() {
                break;
            }
        }
        self.waiting.happened += 1;
        if let Some(states) = &mut self.states {
            states.update(&self.stack);
        }
    }

    /// Time passes until `until`.
    fn pass(&mut self, until: Nanos) {
        let span = until.saturating_sub(self.now);
        self.sockets.pass(&self.stack, span);
        self.now = self.now.saturating_add(span);
    }

    /// When something is due next.
    fn next_due(&self) -> Option<Nanos> {
        let timer = self.stack.next_timer(self.now);
        timer.into_iter().chain(self.sockets.next_deadline()).min()
    }

    /// Lets time pass until the next thing that is due, but not beyond `until`. Whether `until` has not come yet.
    fn step(&mut self, until: Nanos) -> bool {
        match self.next_due().map(|due| due.max(self.now)) {
            Some(due) if due <= until => {
                self.pass(due);
                self.run();
                true
            }
            _ => {
                self.pass(until);
                false
            }
        }
    }
}

/// The world and who waits for it.
#[derive(Debug)]
pub struct Shared {
    world: Mutex<World>,
    /// For the thread whose call blocks.
    changed: Condvar,
    /// For the main thread, which waits until the other has looked.
    looked: Condvar,
    main: ThreadId,
}

/// The one world of this process: packetdrill runs a script in each, and asks by functions without an argument of ours.
pub fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(Shared::new)
}

impl Shared {
    /// A world; who calls this has its time pass.
    pub fn new() -> Shared {
        Shared {
            world: Mutex::new(World::new()),
            changed: Condvar::new(),
            looked: Condvar::new(),
            main: thread::current().id(),
        }
    }

    /// Whether a call waits.
    #[cfg(test)]
    pub fn is_blocking(&self) -> bool {
        self.lock().waiting.is_waiting
    }

    /// The world, for oneself.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the world, and lets a blocked call see what came of it.
    pub fn act<R>(&self, action: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.lock();
        let result = action(&mut world);
        world.run();
        drop(self.let_look(world));
        result
    }

    /// Lets the other thread look whether its call can return now, and read the clock if it did.
    fn let_look<'a>(&'a self, mut world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        if thread::current().id() != self.main {
            return world;
        }
        if world.waiting.is_waiting {
            self.changed.notify_all();
        }
        loop {
            let waiting = &world.waiting;
            let looks = waiting.is_waiting && waiting.seen < waiting.happened;
            if !looks && waiting.returning.is_none() {
                return world;
            }
            let (guard, timeout) =
                self.looked.wait_timeout(world, HANDOVER).unwrap_or_else(PoisonError::into_inner);
            world = guard;
            if timeout.timed_out() {
                world.waiting.returning = None;
                return world;
            }
        }
    }

    /// Tries `call` until it does not answer that it would block, or that `deadline` came. In packetdrill's main thread time passes
    /// meanwhile, in the other one the main thread has it pass.
    pub fn block<R>(
        &self,
        deadline: Option<Nanos>,
        mut call: impl FnMut(&mut World) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut world = self.lock();
        let is_main = thread::current().id() == self.main;
        let give_up = world.now.saturating_add(PATIENCE);
        let mut has_waited = false;
        let result = loop {
            let result = call(&mut world);
            if result.is_ok() {
                world.run();
            }
            let is_over = deadline.is_some_and(|deadline| deadline <= world.now);
            if !matches!(result, Err(Errno::AGAIN)) || is_over {
                break result;
            }
            if is_main {
                let until = deadline.unwrap_or(give_up);
                if !world.step(until) && deadline.is_none() {
                    break result;
                }
                continue;
            }
            world.sockets.alarm = deadline;
            has_waited = true;
            world.waiting.is_waiting = true;
            world.waiting.seen = world.waiting.happened;
            self.looked.notify_all();
            world = self.changed.wait(world).unwrap_or_else(PoisonError::into_inner);
        };
        world.sockets.alarm = None;
        if has_waited {
            world.waiting.is_waiting = false;
            world.waiting.returning = Some(thread::current().id());
            self.looked.notify_all();
        }
        result
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Nanos) {
        let mut world = self.lock();
        let until = world.now.saturating_add(span);
        while world.step(until) {
            world = self.let_look(world);
        }
        drop(self.let_look(world));
    }

    /// The time; reading it takes some.
    pub fn clock(&self) -> Nanos {
        let mut world = self.lock();
        let now = world.now.saturating_add(CLOCK_COST);
        world.pass(now);
        if world.waiting.returning == Some(thread::current().id()) {
            world.waiting.returning = None;
            self.looked.notify_all();
        }
        world.now
    }

    /// The next packet that the stack sends, with its time; `None` when none comes for a long time.
    pub fn receive(&self) -> Option<(Nanos, Vec<u8>)> {
        let mut world = self.lock();
        let until = world.now.saturating_add(PATIENCE);
        loop {
            if let Some(packet) = world.out.packets.pop_front() {
                return Some(packet);
            }
            if !world.step(until) {
                return None;
            }
            world = self.let_look(world);
        }
    }
}
