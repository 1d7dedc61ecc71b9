//! Listening for senders and serving them, one after the other.
//!
//! The thread that calls [`serve`] measures and answers; another keeps the [`Acceptor`]. Nothing listens
//! unless its owner asked for it, and an address that others can reach needs a key.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_units::Nanos;
use wirebeat_units::human::counted;

use super::door::{Acceptor, Guest};
use super::key::Key;
use super::message::{Count, Reply, Request};
use super::session::{Identity, Metering, Phase, Session};
use super::transport::{Channel, Halt, PACE, TransportError};
use super::{RemoteError, Timeouts};
use crate::observe::{Observer, Progress, Stop};
use crate::receive::Listen;

/// How often a stop is looked for, at least.
const LOOK: Duration = Duration::from_millis(100);
/// Connections that wait in the system's queue, at most; the system has a bound of its own (`somaxconn`).
const BACKLOG: i32 = 4096;
/// How long a peer may take to read a result after this receiver was told to stop.
const AFTER_STOP: Duration = Duration::from_secs(1);
/// How long it goes on reading from a sender that was told its result unasked.
const LINGER: Duration = Duration::from_millis(300);
/// The observer hears of connections that were turned away no more often than this.
const NOTICE: Duration = Duration::from_secs(1);

/// An address that is listened on, and the key that its guests have to know.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    key: Key,
    once: bool,
}

impl Listener {
    /// Listens. Refuses to without a key, unless the address is a loopback one.
    pub fn bind(listen: &Listen) -> Result<Listener, RemoteError> {
        let acts = [
            ("sends", "--allow-send", listen.allow_send.is_some()),
            ("serves sessions", "--allow-serve", listen.allow_serve.is_some()),
        ];
        let acts = acts.into_iter().find(|(.., acts)| *acts && listen.key.is_none());
        if let Some((what, flag, _)) = acts {
            let (address, example) = (listen.address, super::key::generate()?);
            return Err(RemoteError::KeyToAct { address, what, flag, example });
        }
        let key = super::key_for(listen.address, listen.key.as_ref())?;
        let failed = |source| RemoteError::Listen { address: listen.address, source };
        let listener = TcpListener::bind(listen.address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        // As many may wait as the system allows: who floods the port must not fill the queue before it is looked at.
        rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Listener { listener, address, key, once: listen.once })
    }

    /// Where: with the port that the system chose if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// How senders are served.
#[derive(Clone)]
pub struct Service {
    /// What the receiver says of itself.
    pub identity: Identity,
    /// How often the observer looks at a measurement.
    pub interval: Nanos,
    /// How long senders are served; `None`: until it is stopped.
    pub time: Option<Nanos>,
    /// How long anything may take.
    pub timeouts: Timeouts,
}

/// What was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Senders that were told a result.
    pub finished: u64,
    /// Senders that went away while they were measured.
    pub lost: u64,
    /// Senders that were told what was measured by the time that this receiver ended.
    pub interrupted: u64,
    /// The sender whose measurement was the last one, if that was lost.
    pub last_lost: Option<SocketAddr>,
    /// Connections of anyone else.
    pub turned_away: u64,
}

impl Served {
    /// Senders that something was measured for.
    pub fn measured(&self) -> u64 {
        self.finished + self.lost + self.interrupted
    }
}

/// Serves senders until `stop` is asked or its time is over, or until the first has been served if the listener is to
/// serve one only.
pub fn serve(
    listener: &Listener,
    metering: &mut dyn Metering,
    service: &Service,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Served, RemoteError> {
    let failed = |source| RemoteError::Listen { address: listener.address, source };
    let clock = service.identity.clock.clone();
    let door = Acceptor::new(&listener.listener, &listener.key, clock, service.timeouts);
    // Holds the one guest that may be inside.
    let (guests, arrivals) = sync_channel(1);
    let served = thread::scope(|scope| {
        let keep = || door.keep(scope, &guests);
        thread::Builder::new().spawn_scoped(scope, keep).map_err(failed)?;
        let until = service.time.and_then(|time| Instant::now().checked_add(time.to_duration()));
        let host = Host { listener, metering, service, observer, stop, until };
        let served = host.receive_guests(&door, &arrivals);
        door.close();
        Ok::<_, RemoteError>(served)
    })?;
    // Of all threads, now that they have ended.
    Ok(Served { turned_away: door.turned_away(), ..served })
}

/// Everything that the serving thread works with.
struct Host<'a> {
    listener: &'a Listener,
    metering: &'a mut dyn Metering,
    service: &'a Service,
    observer: &'a mut dyn Observer,
    stop: &'a Stop,
    /// When it ends by its time.
    until: Option<Instant>,
}

/// How a session ended.
struct Ending {
    /// How far it was.
    phase: Phase,
    how: SessionEnd,
}

enum SessionEnd {
    /// The sender closed the connection, or had all that it can have.
    Left,
    /// The sender was refused something.
    Refused(String),
    /// The connection broke, or the sender fell silent.
    Broke(TransportError),
    /// This receiver was stopped, or its time is over.
    Stopped,
}

impl Host<'_> {
    /// Whether nobody is to be served any more.
    fn is_over(&self) -> bool {
        is_over(self.stop, self.until)
    }

    fn receive_guests(mut self, door: &Acceptor<'_>, arrivals: &Receiver<Guest>) -> Served {
        self.observer.listening(self.listener.address);
        self.observer.notice(&format!("listening on {} for a sender", self.listener.address));
        let mut served = Served::default();
        let mut noticed = Instant::now();
        let mut without_greeting = 0;
        while !self.is_over() {
            match arrivals.recv_timeout(LOOK) {
                Ok(guest) => {
                    let address = guest.address;
                    let ending = self.entertain(guest, &mut served);
                    door.vacate();
                    self.note(&mut served, address, &ending);
                    if self.listener.once && ending.phase != Phase::Greeted {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(message) = self.metering.between_senders() {
                        self.observer.notice(&message);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let strangers = door.turned_away() - served.turned_away;
            if strangers > 0 && noticed.elapsed() >= NOTICE {
                noticed = Instant::now();
                served.turned_away += strangers;
                let greetingless = door.without_greeting() - without_greeting;
                without_greeting += greetingless;
                let told = [
                    (strangers.saturating_sub(greetingless), "did not show the right key"),
                    (greetingless, "showed the key, and said something else than a sender does"),
                ];
                for (count, why) in told.into_iter().filter(|(count, _)| *count > 0) {
                    let connections = counted(count, "connection");
                    self.observer.notice(&format!("turned away {connections} that {why}"));
                }
            }
        }
        served
    }

    /// Counts and tells how a session ended.
    fn note(&mut self, served: &mut Served, address: SocketAddr, ending: &Ending) {
        match (&ending.how, ending.phase) {
            (SessionEnd::Refused(reason), _) => {
                self.observer.notice(&format!("refused the sender at {address}: {reason}"));
            }
            (how @ (SessionEnd::Left | SessionEnd::Broke(_)), Phase::Measuring) => {
                served.lost += 1;
                served.last_lost = Some(address);
                let error = match how {
                    SessionEnd::Broke(error) => error,
                    _ => &TransportError::Closed,
                };
                self.observer.notice(&format!("lost the sender at {address}: {error}"));
            }
            (SessionEnd::Stopped, Phase::Measuring) => {
                served.interrupted += 1;
                self.observer.notice(&format!(
                    "ended the measurement for the sender at {address}, which is told what was received by now"
                ));
            }
            (_, Phase::Greeted | Phase::Done) => {}
        }
    }

    /// Serves a sender until its session ends, one run after the other.
    fn entertain(&mut self, guest: Guest, served: &mut Served) -> Ending {
        let address = guest.address;
        let mut talk = Talk::new(guest, self.metering, self.service);
        talk.channel.heed(Some(Halt { stop: self.stop.clone(), grace: AFTER_STOP }));
        let how = loop {
            if is_over(self.stop, self.until) {
                break SessionEnd::Stopped;
            }
            let before = talk.reached;
            if let Err(how) = talk.turn() {
                break how;
            }
            match (before, talk.reached) {
                (Phase::Greeted | Phase::Done, Phase::Measuring) => {
                    served.last_lost = None;
                    self.observer.notice(&format!("measuring for the sender at {address}"));
                }
                (Phase::Measuring, Phase::Done) => {
                    served.finished += 1;
                    self.observer.progress(&talk.last_look());
                    self.observer.notice(&format!("the sender at {address} has its result"));
                }
                _ => {}
            }
            for notice in talk.session.notices() {
                self.observer.notice(&format!("for the sender at {address}: {notice}"));
            }
            let (told, pause) = talk.session.watch();
            told.iter().for_each(|interval| self.observer.interval(interval));
            talk.pause = pause.min(LOOK);
            if self.observer.watches()
                && let Some(progress) = talk.look()
            {
                self.observer.progress(&progress);
            }
        };
        let phase = talk.reached;
        if matches!(how, SessionEnd::Stopped) && phase == Phase::Measuring {
            talk.interrupt();
        }
        for notice in talk.session.end_sending() {
            self.observer.notice(&format!("for the sender at {address}: {notice}"));
        }
        if phase == Phase::Measuring {
            let elapsed = nanos(talk.since.elapsed());
            drop(talk);
            let count = self.metering.received();
            self.observer.progress(&Progress { ended: true, ..progress(elapsed, count) });
        }
        Ending { phase, how }
    }
}

/// A session and the connection that it runs over.
struct Talk<'a> {
    channel: Channel<TcpStream>,
    session: Session<'a>,
    service: &'a Service,
    /// The greeting, until it has been sent.
    welcome: Option<Reply>,
    /// How far the session is, by what the sender has been told.
    reached: Phase,
    /// When that changed.
    since: Instant,
    /// How long the last measurement lasted.
    lasted: Duration,
    /// When the sender last said something, and had its answer.
    heard: Instant,
    /// When a request had begun to arrive that is not whole.
    begun: Option<Instant>,
    /// When the observer last looked.
    looked: Instant,
    /// How long to wait for a request.
    pause: Duration,
}

impl<'a> Talk<'a> {
    fn new(guest: Guest, metering: &'a mut dyn Metering, service: &'a Service) -> Talk<'a> {
        let (session, welcome) = Session::welcome(metering, &service.identity);
        let now = Instant::now();
        Talk {
            channel: guest.channel,
            reached: session.phase(),
            session,
            service,
            welcome: Some(welcome),
            since: now,
            lasted: Duration::ZERO,
            heard: now,
            begun: None,
            looked: now,
            pause: LOOK,
        }
    }

    /// Answers the next request, if there is one soon. An error ends the session.
    fn turn(&mut self) -> Result<(), SessionEnd> {
        if let Some(welcome) = self.welcome.take() {
            self.say(&welcome)?;
        }
        let Some((request, at)) = self.hear()? else {
            let Timeouts { answer, silence, .. } = self.service.timeouts;
            let over = match self.begun {
                Some(begun) => begun.elapsed() >= answer,
                None => self.heard.elapsed() >= silence,
            };
            return if over { Err(SessionEnd::Broke(TransportError::TimedOut)) } else { Ok(()) };
        };
        let answer = self.session.answer(request, at);
        let phase = self.session.phase();
        match answer {
            Ok(replies) => self.say_all(&replies)?,
            Err(reason) => {
                self.reached = phase;
                self.say(&Reply::Refused { reason: reason.clone() })?;
                return Err(SessionEnd::Refused(reason));
            }
        }
        self.heard = Instant::now();
        if self.reached != phase {
            if phase == Phase::Done {
                self.lasted = self.since.elapsed();
            }
            (self.reached, self.since) = (phase, self.heard);
        }
        Ok(())
    }

    /// The last look at a measurement that has ended.
    fn last_look(&self) -> Progress {
        let count = self.session.measured();
        Progress { ended: true, ..progress(nanos(self.lasted), count) }
    }

    /// The next request and when it had arrived, if the rest of one arrives soon.
    fn hear(&mut self) -> Result<Option<(Request, Nanos)>, TransportError> {
        let Some(message) = self.channel.poll(self.session.request_limit(), self.pause)? else {
            if self.channel.is_midway() {
                self.begun.get_or_insert(Instant::now());
            }
            return Ok(None);
        };
        self.begun = None;
        let request = Request::decode(&message.bytes).map_err(|_| TransportError::Damaged)?;
        Ok(Some((request, message.at)))
    }

    /// Ends the measurement and tells its sender what was measured by now, if it reads that soon.
    fn interrupt(&mut self) {
        let replies = self.session.interrupt();
        if replies.is_empty() || self.say_within(AFTER_STOP, &replies).is_err() {
            return;
        }
        // What it asked meanwhile is read: a connection that is closed with something unread takes back what was told.
        let until = Instant::now() + LINGER;
        while Instant::now() < until && self.hear().is_ok() {}
    }

    fn say(&mut self, reply: &Reply) -> Result<(), TransportError> {
        self.say_all(std::slice::from_ref(reply))
    }

    /// Sends replies: in the time of one answer, and what their bytes take at [`PACE`].
    fn say_all(&mut self, replies: &[Reply]) -> Result<(), TransportError> {
        self.say_within(self.service.timeouts.answer, replies)
    }

    fn say_within(&mut self, answer: Duration, replies: &[Reply]) -> Result<(), TransportError> {
        let mut deadline = Instant::now() + answer;
        for reply in replies {
            let bytes = reply.encode().map_err(|_| TransportError::Damaged)?;
            deadline += PACE.time_for(bytes.len());
            self.channel.send(&bytes, deadline)?;
        }
        Ok(())
    }

    /// How the measurement goes, if it is time for the observer to look.
    fn look(&mut self) -> Option<Progress> {
        let due = self.looked.elapsed() >= self.service.interval.to_duration();
        if self.reached != Phase::Measuring || !due {
            return None;
        }
        self.looked = Instant::now();
        Some(progress(nanos(self.since.elapsed()), self.session.received()))
    }
}

fn is_over(stop: &Stop, until: Option<Instant>) -> bool {
    stop.asked() || until.is_some_and(|until| Instant::now() >= until)
}

fn nanos(time: Duration) -> Nanos {
    Nanos::new(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn progress(elapsed: Nanos, count: Count) -> Progress {
    Progress {
        elapsed,
        received: Some((count.frames, count.bytes)),
        lost: Some(count.missing),
        ..Progress::default()
    }
}

impl From<TransportError> for SessionEnd {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Closed => SessionEnd::Left,
            TransportError::Stopped => SessionEnd::Stopped,
            error => SessionEnd::Broke(error),
        }
    }
}
