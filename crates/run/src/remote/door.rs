//! The door of a listening receiver: who comes in, and how fast.
//!
//! Strangers get little: at most [`PENDING`] of them at a time, each for the time of a handshake, and
//! about [`PER_SECOND`] a second altogether; more wait in the system's queue. The oldest has to go when
//! there are too many, so that idle connections do not lock anybody out. Only who proves to know the
//! key and speaks the same protocol becomes a guest, one at a time; others with the key are told that
//! the receiver is busy. None of this happens in the thread that measures.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirebeat_engine::clock::Clock;

use super::Timeouts;
use super::key::Key;
use super::message::{GREETING_LIMIT, PROTOCOL, Reply, Request, Version};
use super::transport::{Channel, TransportError};

/// The most connections that may be shaking hands.
pub const PENDING: usize = 8;
/// How many connections may fail in a second, in the long run.
pub const PER_SECOND: u32 = 20;
/// How many may fail at once after a quiet time.
pub const BURST: u32 = 40;
/// How often the door looks whether it is to be closed.
const LOOK: Duration = Duration::from_millis(100);

/// A sender that knows the key.
pub struct Guest {
    /// The connection to it.
    pub channel: Channel<TcpStream>,
    /// Where it is.
    pub address: SocketAddr,
}

/// The door.
pub struct Door<'a> {
    listener: &'a TcpListener,
    key: &'a Key,
    clock: Arc<dyn Clock>,
    timeouts: Timeouts,
    /// A guest is inside.
    occupied: AtomicBool,
    /// No more guests.
    closed: AtomicBool,
    /// Connections that did not become guests.
    turned_away: AtomicU64,
    pending: Mutex<Pending>,
    gate: Mutex<Gate>,
}

impl<'a> Door<'a> {
    /// A door that nobody keeps yet. `listener` does not block.
    pub fn new(
        listener: &'a TcpListener,
        key: &'a Key,
        clock: Arc<dyn Clock>,
        timeouts: Timeouts,
    ) -> Door<'a> {
        Door {
            listener,
            key,
            clock,
            timeouts,
            occupied: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            turned_away: AtomicU64::new(0),
            pending: Mutex::default(),
            gate: Mutex::new(Gate::new(Instant::now())),
        }
    }

    /// Lets guests in until the door is closed.
    pub fn keep<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope SyncSender<Guest>,
    ) {
        while !self.closed.load(Ordering::Acquire) {
            if !self.gate().pass(Instant::now()) {
                thread::sleep(LOOK);
                continue;
            }
            match self.knock() {
                Some((stream, address)) => self.ask(scope, guests, stream, address),
                None => self.gate().give_back(),
            }
        }
        self.pending().clear();
    }

    /// The guest has left.
    pub fn vacate(&self) {
        self.occupied.store(false, Ordering::Release);
    }

    /// Ends [`Door::keep`], and every handshake.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// How many connections were turned away so far: another key, another protocol, no answer.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// The next connection, if there is one soon.
    fn knock(&self) -> Option<(TcpStream, SocketAddr)> {
        let look = Timespec::try_from(LOOK).ok();
        let mut listener = [PollFd::new(self.listener, PollFlags::IN)];
        match poll(&mut listener, look.as_ref()) {
            Ok(0) | Err(_) => None,
            Ok(_) => match self.listener.accept() {
                Ok(connection) => Some(connection),
                Err(_) => {
                    // Out of file descriptors or memory, perhaps: it stays readable, so do not spin.
                    thread::sleep(LOOK);
                    None
                }
            },
        }
    }

    /// Asks a connection who it is, in a thread of its own.
    fn ask<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope SyncSender<Guest>,
        stream: TcpStream,
        address: SocketAddr,
    ) {
        let Ok(handle) = stream.try_clone() else { return };
        let ticket = self.pending().add(handle);
        let asking = move || {
            let known = self.identify(stream).map(|greeted| self.admit(guests, greeted, address));
            self.pending().remove(ticket);
            match known {
                Ok(()) => self.gate().give_back(),
                Err(_) => _ = self.turned_away.fetch_add(1, Ordering::Relaxed),
            }
        };
        if thread::Builder::new().spawn_scoped(scope, asking).is_err() {
            self.pending().remove(ticket);
        }
    }

    /// Shakes hands and hears the greeting, which proves that the other end knows the key.
    fn identify(&self, stream: TcpStream) -> Result<Greeted, TransportError> {
        stream.set_nodelay(true)?;
        let deadline = Instant::now() + self.timeouts.handshake;
        let mut channel = Channel::accept(stream, self.key, Arc::clone(&self.clock), deadline)?;
        let greeting = channel.receive(GREETING_LIMIT, deadline)?;
        match Request::decode(&greeting.bytes) {
            Ok(Request::Hello(version)) => Ok(Greeted { channel, version, deadline }),
            _ => Err(TransportError::Damaged),
        }
    }

    /// Lets in who speaks the same protocol, if nobody is inside.
    fn admit(&self, guests: &SyncSender<Guest>, greeted: Greeted, address: SocketAddr) {
        let Greeted { mut channel, version, deadline } = greeted;
        let reply = if version.protocol != PROTOCOL {
            Reply::Incompatible(Version::ours())
        } else if self.occupied.swap(true, Ordering::AcqRel) {
            Reply::Busy
        } else {
            if guests.try_send(Guest { channel, address }).is_err() {
                self.vacate();
            }
            return;
        };
        if let Ok(bytes) = reply.encode() {
            // Whether or not it hears that, it is not let in.
            let _ = channel.send(&bytes, deadline);
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that knows the key.
struct Greeted {
    channel: Channel<TcpStream>,
    version: Version,
    deadline: Instant,
}

/// Connections that shake hands, the oldest first.
#[derive(Default)]
struct Pending {
    next: u64,
    connections: VecDeque<(u64, TcpStream)>,
}

impl Pending {
    /// Notes a connection; the oldest goes if it is one too many.
    fn add(&mut self, connection: TcpStream) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.connections.push_back((ticket, connection));
        if self.connections.len() > PENDING
            && let Some((_, oldest)) = self.connections.pop_front()
        {
            hang_up(&oldest);
        }
        ticket
    }

    fn remove(&mut self, ticket: u64) {
        self.connections.retain(|(other, _)| *other != ticket);
    }

    fn clear(&mut self) {
        self.connections.drain(..).for_each(|(_, connection)| hang_up(&connection));
    }
}

/// The thread that reads from it notices at once.
fn hang_up(connection: &TcpStream) {
    // An error means that it is closed already.
    let _ = connection.shutdown(Shutdown::Both);
}

/// Lets connections pass at a bounded rate: a bucket of [`BURST`] tokens that is filled with
/// [`PER_SECOND`] each second.
struct Gate {
    tokens: u32,
    filled: Instant,
}

impl Gate {
    fn new(now: Instant) -> Gate {
        Gate { tokens: BURST, filled: now }
    }

    /// Whether one may pass now.
    fn pass(&mut self, now: Instant) -> bool {
        const EVERY: Duration = Duration::from_millis(1000 / PER_SECOND as u64);
        let due = now.saturating_duration_since(self.filled).as_nanos() / EVERY.as_nanos();
        let due = u32::try_from(due).unwrap_or(BURST).min(BURST);
        if self.tokens.saturating_add(due) >= BURST {
            (self.tokens, self.filled) = (BURST, now);
        } else {
            self.tokens += due;
            self.filled += EVERY * due;
        }
        let open = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        open
    }

    /// The one that passed was an honest sender, or none came.
    fn give_back(&mut self) {
        self.tokens = (self.tokens + 1).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_pass_at_a_bounded_rate() {
        let start = Instant::now();
        let mut gate = Gate::new(start);
        let passed = (0..10_000).filter(|&ms| gate.pass(start + Duration::from_millis(ms))).count();
        assert_eq!(passed as u32, BURST + 10 * PER_SECOND - 1);
        // A quiet hour is worth no more than a burst.
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| gate.pass(later)).count() as u32, BURST);
    }

    #[test]
    fn honest_senders_do_not_use_up_the_gate() {
        let start = Instant::now();
        let mut gate = Gate::new(start);
        for _ in 0..1000 {
            assert!(gate.pass(start));
            gate.give_back();
        }
    }

    #[test]
    fn the_oldest_of_too_many_has_to_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut pending = Pending::default();
        let first = connect();
        pending.add(first.try_clone().unwrap());
        let tickets: Vec<_> = (0..PENDING).map(|_| pending.add(connect())).collect();
        assert_eq!(pending.connections.len(), PENDING);
        assert_eq!(first.peek(&mut [0]).unwrap(), 0);
        tickets.into_iter().for_each(|ticket| pending.remove(ticket));
        assert!(pending.connections.is_empty());
    }
}
