//! The door of a listening receiver: who comes in, and how fast.
//!
//! One thread accepts connections as fast as they come and hears what strangers say first ([`Knock`]); that shows
//! whether they know the key, and costs two hashes. Until then a connection is [`STRANGERS`] bounded places, a fair
//! share for each source, and the time of a handshake; the rest ([`Crowd`]) is pushed out. Only who has shown the key
//! gets a thread to shake hands in, at most [`PENDING`], and only who proves it and speaks the same protocol becomes a
//! guest, one at a time; others with the key are told that the receiver is busy. While a guest is inside, about
//! [`PER_SECOND`] connections a second are looked at, so that strangers cost a measurement no time. None of this happens
//! in the thread that measures.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirebeat_engine::clock::Clock;

use super::Timeouts;
use super::crowd::{Crowd, Source};
use super::key::Key;
use super::message::{GREETING_LIMIT, PROTOCOL, Reply, Request, Version};
use super::transport::{AuthenticatedPeer, Channel, Knock, TransportError, WRONG_KEY, preface};

/// The most connections that have not shown the key.
pub const STRANGERS: usize = 256;
/// The most of them from one source.
pub const PER_SOURCE: usize = 32;
/// The most connections that have shown the key and are shaking hands.
pub const PENDING: usize = 8;
/// How many connections are looked at in a second while a guest is inside, in the long run.
pub const PER_SECOND: u32 = 20;
/// How many are looked at at once after a quiet time.
pub const BURST: u32 = 40;
/// How often the door looks whether it is to be closed.
const LOOK: Duration = Duration::from_millis(100);
/// Connections that are accepted in one turn.
const TURN: usize = 64;
/// How long one who could be served waits for a guest that is leaving: that its connection is closed is noticed soon, and not
/// at once on a busy machine.
const LEAVING: Duration = Duration::from_millis(500);
/// How often it is looked whether it has left.
const STEP: Duration = Duration::from_millis(5);
/// Waiting after a turn that was full: bounds the work for a flood, at more than ten thousand connections a second.
const BREATH: Duration = Duration::from_millis(5);

/// A sender that knows the key.
pub struct Guest {
    /// The connection to it.
    pub channel: Channel<TcpStream>,
    /// Where it is.
    pub address: SocketAddr,
}

/// Who has not shown the key.
struct Stranger {
    stream: TcpStream,
    address: SocketAddr,
    knock: Knock,
    /// When it has to have shown it.
    until: Instant,
}

/// The door.
pub struct Acceptor<'a> {
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
    /// Those of them that know the key.
    without_greeting: AtomicU64,
    /// Those that have shown the key.
    pending: Mutex<Crowd<TcpStream>>,
    gate: Mutex<Gate>,
}

impl<'a> Acceptor<'a> {
    /// A door that nobody keeps yet. `listener` does not block.
    pub fn new(
        listener: &'a TcpListener,
        key: &'a Key,
        clock: Arc<dyn Clock>,
        timeouts: Timeouts,
    ) -> Acceptor<'a> {
        Acceptor {
            listener,
            key,
            clock,
            timeouts,
            occupied: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            turned_away: AtomicU64::new(0),
            without_greeting: AtomicU64::new(0),
            pending: Mutex::new(Crowd::new(PENDING, PENDING)),
            gate: Mutex::new(Gate::new(Instant::now())),
        }
    }

    /// Lets guests in until the door is closed.
    pub fn keep<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope SyncSender<Guest>,
    ) {
        let mut strangers = Crowd::new(STRANGERS, PER_SOURCE);
        while !self.closed.load(Ordering::Acquire) {
            let (knocking, ready) = self.wait(&strangers);
            for ticket in ready {
                self.hear(scope, guests, &mut strangers, ticket);
            }
            self.expire(&mut strangers);
            if knocking && self.accept(&mut strangers) == TURN {
                thread::sleep(BREATH);
            }
        }
        self.pending().drain().for_each(|connection| hang_up(&connection));
    }

    /// The guest has left.
    pub fn vacate(&self) {
        self.occupied.store(false, Ordering::Release);
    }

    /// Ends [`Acceptor::keep`], and every handshake.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// How many connections were turned away so far: another key, another protocol, no answer.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// How many of those know the key, and said something else than a sender does.
    pub fn without_greeting(&self) -> u64 {
        self.without_greeting.load(Ordering::Relaxed)
    }

    fn turn_away(&self, stranger: Option<Stranger>) {
        self.turned_away.fetch_add(stranger.map_or(0, |_| 1), Ordering::Relaxed);
    }

    /// Whether another connection may be looked at now.
    fn is_open(&self) -> bool {
        !self.occupied.load(Ordering::Acquire) || self.gate().is_open(Instant::now())
    }

    /// Waits a little; whether somebody knocks, and the tickets of strangers who have said something.
    fn wait(&self, strangers: &Crowd<Stranger>) -> (bool, Vec<u64>) {
        let now = Instant::now();
        let next = strangers.iter().map(|(_, one)| one.until.saturating_duration_since(now)).min();
        let wait = next.unwrap_or(LOOK).min(LOOK).max(Duration::from_millis(1));
        let open = self.is_open();
        let mut tickets = Vec::new();
        let mut files = Vec::new();
        for (ticket, stranger) in strangers.iter() {
            tickets.push(ticket);
            files.push(PollFd::new(&stranger.stream, PollFlags::IN));
        }
        if open {
            files.push(PollFd::new(self.listener, PollFlags::IN));
        }
        if poll(&mut files, Timespec::try_from(wait).ok().as_ref()).is_err() {
            thread::sleep(BREATH);
            return (false, Vec::new());
        }
        let ready: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        let heard = tickets.iter().zip(&ready).filter(|(_, ready)| **ready);
        let heard = heard.map(|(ticket, _)| *ticket).collect();
        (open && ready.last() == Some(&true), heard)
    }

    /// Accepts who knocks, and says at once what listens here; gives how many they were.
    fn accept(&self, strangers: &mut Crowd<Stranger>) -> usize {
        for accepted in 0..TURN {
            if !self.is_open() {
                return accepted;
            }
            let (stream, address) = match self.listener.accept() {
                Ok(connection) => connection,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return accepted,
                Err(_) => {
                    // Out of file descriptors, perhaps: it stays readable, so do not spin.
                    self.turn_away(strangers.evict_any());
                    thread::sleep(BREATH);
                    return accepted;
                }
            };
            if self.occupied.load(Ordering::Acquire) {
                self.gate().pass(Instant::now());
            }
            let until = Instant::now() + self.timeouts.handshake;
            if let Ok(stream) = greeted(stream) {
                let source = Source::of(address.ip());
                let stranger = Stranger { stream, address, knock: Knock::default(), until };
                let (_, evicted) = strangers.add(source, stranger);
                self.turn_away(evicted);
            } else {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
            }
        }
        TURN
    }

    /// Takes out those whose time is over.
    fn expire(&self, strangers: &mut Crowd<Stranger>) {
        let now = Instant::now();
        // the oldest come first, and all have the same time
        let late = strangers.iter().take_while(|(_, one)| one.until <= now);
        let late: Vec<u64> = late.map(|(ticket, _)| ticket).collect();
        late.into_iter().for_each(|ticket| self.turn_away(strangers.remove(ticket)));
    }

    /// Hears what a stranger says, and lets it shake hands once it has shown the key.
    fn hear<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope SyncSender<Guest>,
        strangers: &mut Crowd<Stranger>,
        ticket: u64,
    ) {
        let Some(stranger) = strangers.get_mut(ticket) else { return };
        match stranger.read() {
            Ok(false) => {}
            Err(_) => self.turn_away(strangers.remove(ticket)),
            Ok(true) => {
                let Some(mut stranger) = strangers.remove(ticket) else { return };
                match stranger.knock.check(self.key) {
                    Ok(known) => self.shake_hands(scope, guests, stranger, known),
                    Err(_) => {
                        // Tells an honest person that the keys differ; a peer that reads nothing waits for nothing.
                        let _ = stranger.stream.write(&WRONG_KEY);
                        self.turn_away(Some(stranger));
                    }
                }
            }
        }
    }

    /// Shakes hands in a thread of its own.
    fn shake_hands<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope SyncSender<Guest>,
        stranger: Stranger,
        known: AuthenticatedPeer,
    ) {
        let Stranger { stream, address, until, .. } = stranger;
        let Ok(handle) = stream.try_clone() else { return };
        let (ticket, evicted) = self.pending().add(Source::of(address.ip()), handle);
        evicted.inspect(hang_up);
        let asking = move || {
            let greeted = self.identify(stream, known, until);
            let known = greeted.map(|greeted| self.admit(guests, greeted, address));
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
    fn identify(
        &self,
        stream: TcpStream,
        known: AuthenticatedPeer,
        deadline: Instant,
    ) -> Result<Greeted, TransportError> {
        stream.set_nonblocking(false)?;
        let mut channel = Channel::answer(stream, known, Arc::clone(&self.clock), deadline)?;
        let greeting = channel.receive(GREETING_LIMIT, deadline)?;
        match Request::decode(&greeting.bytes) {
            Ok(Request::Hello(version)) => Ok(Greeted { channel, version, deadline }),
            // It could be decrypted, so the other end has the key.
            _ => {
                self.without_greeting.fetch_add(1, Ordering::Relaxed);
                Err(TransportError::Damaged)
            }
        }
    }

    /// Takes the place inside, as soon as nobody has it. Gives up soon, and while there is time to say so before `deadline`.
    fn enter(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        let deadline = now + LEAVING.min(deadline.saturating_duration_since(now) / 2);
        while self.occupied.swap(true, Ordering::AcqRel) {
            if Instant::now() >= deadline || self.closed.load(Ordering::Acquire) {
                return false;
            }
            thread::sleep(STEP);
        }
        true
    }

    /// Lets in who speaks the same protocol, if nobody is inside.
    fn admit(&self, guests: &SyncSender<Guest>, greeted: Greeted, address: SocketAddr) {
        let Greeted { mut channel, version, deadline } = greeted;
        let reply = if version.protocol != PROTOCOL {
            Reply::Incompatible(Version::ours())
        } else if !self.enter(deadline) {
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

    fn pending(&self) -> MutexGuard<'_, Crowd<TcpStream>> {
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

impl Stranger {
    /// Hears what has come; whether it is all that shows the key.
    fn read(&mut self) -> Result<bool, TransportError> {
        loop {
            let mut bytes = [0; 64];
            let room = bytes.get_mut(..self.knock.missing()).unwrap_or_default();
            match self.stream.read(room) {
                Ok(0) => return Err(TransportError::Closed),
                Ok(count) => self.knock.take(room.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            if self.knock.is_whole()? {
                return Ok(true);
            }
        }
    }
}

/// A new connection that has been told what listens here.
fn greeted(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    // There is room in the buffers of a new connection.
    stream.write_all(&preface())?;
    Ok(stream)
}

/// The thread that reads from it notices at once.
fn hang_up(connection: &TcpStream) {
    // An error means that it is closed already.
    let _ = connection.shutdown(Shutdown::Both);
}

/// Lets connections pass at a bounded rate while a guest is inside: a bucket of [`BURST`] tokens that is filled with
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
    fn is_open(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens > 0
    }

    /// One passes now, if it may; says whether.
    fn pass(&mut self, now: Instant) -> bool {
        self.fill(now);
        let open = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        open
    }

    fn fill(&mut self, now: Instant) {
        const EVERY: Duration = Duration::from_millis(1000 / PER_SECOND as u64);
        let due = now.saturating_duration_since(self.filled).as_nanos() / EVERY.as_nanos();
        let due = u32::try_from(due).unwrap_or(BURST).min(BURST);
        if self.tokens.saturating_add(due) >= BURST {
            (self.tokens, self.filled) = (BURST, now);
        } else {
            self.tokens += due;
            self.filled += EVERY * due;
        }
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
}
