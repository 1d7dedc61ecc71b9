//! The server of metrics: one thread that never waits for a client.
//!
//! All a client can use up is bounded: connections (the oldest goes when there is no room for another), bytes of a request, and
//! the time until it has its answer. The text is made when somebody asks, and only once for each interval. The thread sleeps until
//! something happens, and the end of the run wakes it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wirebeat_report::metrics::Exposition;
use wirebeat_units::fault;

use super::channel::Channel;
use super::request::{Asked, REQUEST_MAX, head_of_metrics, read};
use super::security::Security;
use super::{MetricsArgs, SharedMetrics};
use crate::failure::Failure;

/// The most connections at a time: a server or two that scrape, and a person who looks.
const CONNECTIONS: usize = 8;
/// The most connections that are taken before those there are looked after.
const ACCEPTED_AT_ONCE: usize = 16;
/// How long a client may take from its connection to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// With TLS the least time between two connections: a handshake takes as much as 1 ms of a CPU, of which clients beyond this host have
/// no more than a twentieth.
const APART: Duration = Duration::from_millis(20);
/// How long is waited after an error of the system: without a file for it, the one who connects stays there.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket that listens. What connects meanwhile waits.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
    security: Security,
}

impl MetricsListener {
    /// Listens where `args` say, if they do.
    ///
    /// # Errors
    /// The address needs what guards it, or a file is of no use; or the address or the port is not to be had on this machine.
    pub fn of(args: &MetricsArgs) -> Result<Option<MetricsListener>, Failure> {
        let Some(address) = args.metrics.map(|at| at.0) else { return Ok(None) };
        MetricsListener::open(address, Security::of(args, address)?).map(Some)
    }

    pub(super) fn open(
        address: SocketAddr,
        security: Security,
    ) -> Result<MetricsListener, Failure> {
        let open = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let opened = open().map_err(|error: io::Error| {
            let what = format!("cannot listen at {address}: {error}");
            let fault = match error.kind() {
                ErrorKind::AddrInUse => fault!(
                    "{what}";
                    "give another port, or end the program that has this one ('ss -ltnp sport = :{}' names it)",
                    address.port()
                ),
                ErrorKind::PermissionDenied => fault!("{what}"; "give a port above 1023"),
                _ => what.into(),
            };
            Failure::machine(fault).at("--metrics")
        });
        let (listener, address) = opened?;
        Ok(MetricsListener { listener, address, security })
    }

    /// Answers until what it returns is dropped.
    pub(super) fn serve(self, metrics: Arc<SharedMetrics>) -> Result<MetricsServer, Failure> {
        let failed = |error: io::Error| {
            Failure::machine(format!("cannot serve metrics: {error}")).at("--metrics")
        };
        let MetricsListener { listener, address, security } = self;
        let encrypted = security.tls.is_some();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let over = Arc::new(eventfd(0, flags).map_err(|error| failed(error.into()))?);
        let wakes = Arc::clone(&over);
        let mut work = Work {
            listener,
            over,
            metrics,
            security,
            clients: Vec::new(),
            answers: [None, None],
            accepts: Instant::now(),
        };
        let run = move || while work.turn() {};
        let thread = thread::Builder::new().name("wb-metrics".to_owned()).spawn(run);
        let thread = Some(thread.map_err(failed)?);
        Ok(MetricsServer { address, encrypted, wakes, thread })
    }
}

/// A server at work. It ends when this is dropped, at once.
#[derive(Debug)]
pub(super) struct MetricsServer {
    address: SocketAddr,
    encrypted: bool,
    wakes: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // a counter that holds 0 takes it
        let _ = rustix::io::write(&self.wakes, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A whole answer, and how much of it stands before the metrics.
#[derive(Clone, Debug)]
struct ReadyAnswer {
    /// Of which state of the metrics it is.
    changes: u64,
    bytes: Arc<[u8]>,
    head: usize,
}

/// What the thread works on.
#[derive(Debug)]
struct Work {
    listener: TcpListener,
    /// Readable when the run is over.
    over: Arc<OwnedFd>,
    metrics: Arc<SharedMetrics>,
    security: Security,
    clients: Vec<Client>,
    /// Of each format, what was asked for last.
    answers: [Option<ReadyAnswer>; 2],
    /// From when on the next connection is taken.
    accepts: Instant,
}

/// A connection.
#[derive(Debug)]
struct Client {
    channel: Channel,
    step: Step,
    /// When it is closed, whatever it has.
    until: Instant,
}

/// How far a connection is.
#[derive(Debug)]
enum Step {
    /// This came of its request.
    Reading(Vec<u8>),
    /// This is its answer, and so much of it was sent.
    Writing { answer: Arc<[u8]>, end: usize, sent: usize },
    /// All was written, and may not have left.
    Ending,
}

impl Work {
    /// Waits for something to do, and does it; whether there can be more.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let takes = if now >= self.accepts { PollFlags::IN } else { PollFlags::empty() };
        let mut files =
            vec![PollFd::new(&*self.over, PollFlags::IN), PollFd::new(&self.listener, takes)];
        files.extend(
            self.clients
                .iter()
                .map(|client| PollFd::from_borrowed_fd(client.channel.as_fd(), client.waits_for())),
        );
        let accepts = Some(self.accepts).filter(|at| *at > now);
        let first = self.clients.iter().map(|client| client.until).chain(accepts).min();
        let left = first.map(|until| until.saturating_duration_since(now));
        let polled = poll(&mut files, left.map(timespec).as_ref());
        let ready: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        drop(files);
        if polled.is_err() {
            return self.pause();
        }
        let mut ready = ready.into_iter();
        if ready.next() != Some(false) {
            return false;
        }
        let connects = ready.next() == Some(true);
        let now = Instant::now();
        let Work { metrics, security, answers, clients, .. } = self;
        let mut answering = Answering { metrics, security, answers };
        clients.retain_mut(|client| {
            let goes_on = !ready.next().unwrap_or(false) || client.go_on(&mut answering);
            goes_on && now < client.until
        });
        if connects { self.accept(now) } else { true }
    }

    /// Takes those who connect.
    fn accept(&mut self, now: Instant) -> bool {
        let tls = self.security.tls.as_ref();
        let most = if tls.is_some() { 1 } else { ACCEPTED_AT_ONCE };
        for _ in 0..most {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if tls.is_some() {
                        self.accepts = now + APART;
                    }
                    let Some(channel) = Channel::new(stream, tls) else { continue };
                    if self.clients.len() >= CONNECTIONS {
                        // the oldest: one that is slow cannot keep others out
                        self.clients.remove(0);
                    }
                    let step = Step::Reading(Vec::new());
                    self.clients.push(Client { channel, step, until: now + PATIENCE });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                // it is gone already
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.pause(),
            }
        }
        true
    }

    /// Waits a moment, or for the end; whether it goes on.
    fn pause(&self) -> bool {
        let mut files = [PollFd::new(&*self.over, PollFlags::IN)];
        match poll(&mut files, Some(&timespec(PAUSE))) {
            Ok(ready) => ready == 0,
            Err(_) => {
                thread::sleep(PAUSE);
                true
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    // a part of a millisecond more, so that it is over when it is looked
    let time = time.saturating_add(Duration::from_micros(500));
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}

/// What clients are answered with.
struct Answering<'a> {
    metrics: &'a SharedMetrics,
    security: &'a Security,
    answers: &'a mut [Option<ReadyAnswer>; 2],
}

impl Client {
    /// What it waits for.
    fn waits_for(&self) -> PollFlags {
        match self.step {
            Step::Reading(_) if self.channel.has_to_write() => PollFlags::IN | PollFlags::OUT,
            Step::Reading(_) => PollFlags::IN,
            Step::Writing { .. } | Step::Ending => PollFlags::OUT,
        }
    }

    /// Reads or writes what can be; whether there is more.
    fn go_on(&mut self, answering: &mut Answering<'_>) -> bool {
        self.try_to_go_on(answering).is_err_and(|error| is_for_later(&error))
    }

    /// The same to its end: `Ok` when there is nothing more to do, and an error when there is not, or not now.
    fn try_to_go_on(&mut self, answering: &mut Answering<'_>) -> io::Result<()> {
        while let Step::Reading(came) = &mut self.step {
            if !take(&mut self.channel, came)? {
                return Ok(());
            }
            let (answer, end) = match read(came, answering.security.token.as_ref()) {
                Asked::Unfinished => continue,
                Asked::Refused(refusal) => {
                    let answer: Arc<[u8]> = refusal.answer().into();
                    let end = answer.len();
                    (answer, end)
                }
                Asked::Metrics { exposition, head_only } => {
                    let ready = answering.ready(exposition);
                    let end = if head_only { ready.head } else { ready.bytes.len() };
                    (ready.bytes, end)
                }
            };
            self.step = Step::Writing { answer, end, sent: 0 };
        }
        if let Step::Writing { answer, end, sent } = &mut self.step {
            while sent < end {
                match self.channel.write(answer.get(*sent..*end).unwrap_or_default())? {
                    0 => return Ok(()),
                    count => *sent += count,
                }
            }
            self.step = Step::Ending;
        }
        self.channel.finish()
    }
}

/// Takes what came, as much as a request may have; whether the client is still there.
fn take(channel: &mut Channel, came: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 2048];
    let room = REQUEST_MAX.saturating_sub(came.len()).min(bytes.len());
    let count = channel.read(bytes.get_mut(..room).unwrap_or_default())?;
    came.extend_from_slice(bytes.get(..count).unwrap_or_default());
    Ok(count > 0)
}

/// Whether it will go on after this error.
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Answering<'_> {
    /// The answer as of now: made once for each change.
    fn ready(&mut self, exposition: Exposition) -> ReadyAnswer {
        let [plain, open] = &mut *self.answers;
        let place = match exposition {
            Exposition::Prometheus => plain,
            Exposition::OpenMetrics => open,
        };
        let changes = self.metrics.locked().changes;
        if let Some(ready) = place.as_ref().filter(|ready| ready.changes == changes) {
            return ready.clone();
        }
        // the run is kept waiting for the copy alone, not for the text
        let counted = self.metrics.locked().clone();
        let text = counted.metrics.text(exposition);
        let mut bytes = head_of_metrics(exposition, text.len());
        let head = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        place.insert(ReadyAnswer { changes: counted.changes, bytes: bytes.into(), head }).clone()
    }
}
