//! A receiver for `ITGSend`: the signalling connections of any senders, and their flows, on one thread behind one epoll.
//!
//! `signalling.rs` has the connections and what is answered, `receiver.rs` the flows and their sockets. Here they meet: a turn
//! waits, lets each socket that is ready have its share, and looks at what is over. Nothing that a peer does holds the others up:
//! all sockets are non-blocking, each has a bound, and so has each number of them.

mod flow;
mod receiver;
mod signalling;
mod slots;

use std::net::{SocketAddr, TcpListener};

use rustix::event::epoll::EventFlags;
use wirebeat_sockets::{Poller, clock};
use wirebeat_units::Nanos;

use crate::Error;
use crate::control::{FlowFault, Message};
use crate::event::{Event, Interval};
use crate::log::LogFile;
use crate::result::FlowEnd;
use crate::socket::listen;
use receiver::Receiver;
use signalling::{Asked, Signalling};

/// How often it is looked what is over, and whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(50);

/// What senders may ask for, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Signalling connections at a time.
    pub connections: usize,
    /// Flows at a time (`MAX_NUM_THREAD` of ITGRecv).
    pub flows: usize,
    /// The longest flow: it is ended then.
    pub time: Nanos,
    /// The lowest port that a sender may ask for. Those below are of the system's services.
    pub lowest_port: u16,
    /// How long a connection may take to greet.
    pub patience: Nanos,
    /// After how much silence a sender is asked whether it is there (`TIME_OUT` of ITGRecv); after as much again it is gone.
    pub silence: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 128,
            flows: 400,
            time: Nanos::from_secs(3600),
            lowest_port: 1024,
            patience: Nanos::from_secs(10),
            silence: Nanos::from_secs(100),
        }
    }
}

/// How senders are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// What they may ask for.
    pub limits: Limits,
    /// How often an interval is told; without: never.
    pub interval: Option<Nanos>,
}

/// What of epoll's marks says what a socket is; the rest is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Listener,
    Signalling(usize),
    Port(usize),
    Data(usize),
}

impl Mark {
    const PLACES: u64 = 1 << 32;

    fn to_word(self) -> u64 {
        let (kind, place) = match self {
            Mark::Listener => (0, 0),
            Mark::Signalling(place) => (1, place),
            Mark::Port(place) => (2, place),
            Mark::Data(place) => (3, place),
        };
        kind * Mark::PLACES + place as u64
    }

    fn from_word(word: u64) -> Option<Mark> {
        let place = usize::try_from(word % Mark::PLACES).ok()?;
        match word / Mark::PLACES {
            0 => Some(Mark::Listener),
            1 => Some(Mark::Signalling(place)),
            2 => Some(Mark::Port(place)),
            3 => Some(Mark::Data(place)),
            _ => None,
        }
    }
}

/// A receiver for `ITGSend`.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: ServerOptions,
    poller: Poller,
    signalling: Signalling,
    receiver: Receiver,
    /// Whether new connections are waited for.
    accepting: bool,
}

impl Server {
    /// Listens on this address, in the network namespace of the calling thread; D-ITG's port is 9000. Packets are recorded in
    /// `log`.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(
        address: SocketAddr,
        options: ServerOptions,
        log: Option<LogFile>,
    ) -> Result<Server, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let failed = |error: rustix::io::Errno| Error::socket("wait for sockets")(error.into());
        let poller = Poller::new().map_err(failed)?;
        poller.add(&listener, Mark::Listener.to_word(), EventFlags::IN).map_err(failed)?;
        let signalling = Signalling::new(options.limits);
        let receiver = Receiver::new(options.limits, address.ip(), log);
        Ok(Server { listener, address, options, poller, signalling, receiver, accepting: true })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is asked to stop, and completes the log. Must be called in the network namespace that it was bound in.
    ///
    /// # Errors
    /// The log could not be written.
    pub fn run(
        &mut self,
        stop: &dyn Fn() -> bool,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        let mut look = clock();
        let mut interval = Intervals::new(self.options.interval, look);
        while !stop() {
            self.poller.wait(clock(), look);
            for index in 0.. {
                let Some((word, flags)) = self.poller.event(index) else { break };
                if let Some(mark) = Mark::from_word(word) {
                    self.ready(mark, flags, events);
                }
            }
            let now = clock();
            if now >= look {
                look = now.saturating_add(LOOK_AROUND);
                self.look(now, events);
                interval.look(now, &self.receiver, events);
            }
        }
        self.end(events);
        interval.last(clock(), &self.receiver, events);
        self.receiver.finish_log().map_err(Error::socket("write the log"))
    }

    /// Lets a socket that is ready have its share.
    fn ready(&mut self, mark: Mark, flags: EventFlags, events: &mut dyn FnMut(Event<'_>)) {
        match mark {
            Mark::Listener => self.signalling.accept(&self.listener, &self.poller),
            Mark::Signalling(place) => {
                self.signalling.ready(place, flags, &self.poller);
                while let Some(asked) = self.signalling.next(place) {
                    self.answer(place, asked, events);
                }
                self.signalling.close_if_gone(place);
            }
            Mark::Port(place) => self.receiver.port_ready(place, &self.poller),
            Mark::Data(place) => {
                self.receiver.data_ready(place, &self.poller);
                self.settle(events);
            }
        }
    }

    /// Answers what a sender asked for.
    fn answer(&mut self, place: usize, asked: Asked, events: &mut dyn FnMut(Event<'_>)) {
        let Some(peer) = self.signalling.peer(place) else { return };
        match asked {
            Asked::Flow(request) => match self.receiver.open(&peer, request, &self.poller) {
                Ok(begins) => {
                    let (flow, port) = (begins.flow, begins.port);
                    self.signalling.send(place, Message::AckSendFlow { flow, port });
                    events(Event::Begins(&begins));
                }
                Err(fault) => {
                    let (why, flow) = (FlowFault::Bind, request.flow);
                    self.signalling.send(place, Message::Refused { why, flow });
                    events(Event::Refused { peer: peer.address, fault: &fault });
                }
            },
            Asked::Close(flow) => {
                if !self.receiver.close(peer.serial, flow, clock()) {
                    // there is none: nothing is to be waited for
                    self.signalling.send(place, Message::AckClosedFlow(flow));
                }
            }
            Asked::GiveUp(flow) => self.receiver.give_up(peer.serial, flow),
            Asked::LogLeftOut => events(Event::LogLeftOut(peer.address)),
            Asked::Gone { why, fault } => {
                self.receiver.sender_gone(peer.serial, why);
                if let Some(fault) = fault {
                    events(Event::Refused { peer: peer.address, fault: &fault });
                }
            }
        }
        self.settle(events);
    }

    /// Tells of flows that are over, at both ends.
    fn settle(&mut self, events: &mut dyn FnMut(Event<'_>)) {
        while let Some(over) = self.receiver.next_over() {
            let flow = over.result.flow;
            if let Some(place) = self.signalling.place_of(over.connection) {
                match over.result.end {
                    FlowEnd::InOrder => self.signalling.send(place, Message::AckClosedFlow(flow)),
                    FlowEnd::TooLong | FlowEnd::Malformed | FlowEnd::Broken => {
                        let why = FlowFault::Broken;
                        self.signalling.send(place, Message::Refused { why, flow });
                    }
                    FlowEnd::ClosedEarly | FlowEnd::Silent | FlowEnd::Stopped => {}
                }
            }
            events(Event::Ended(&over.result));
        }
    }

    /// Looks at what is over by time.
    fn look(&mut self, now: Nanos, events: &mut dyn FnMut(Event<'_>)) {
        self.receiver.look(now);
        self.settle(events);
        for place in self.signalling.look(now) {
            while let Some(asked) = self.signalling.next(place) {
                self.answer(place, asked, events);
            }
            self.signalling.close_if_gone(place);
        }
        // where there is no room the kernel keeps connections, and is not asked each time whether there are some
        let room = self.signalling.has_room(now);
        if room != self.accepting {
            let flags = if room { EventFlags::IN } else { EventFlags::empty() };
            let word = Mark::Listener.to_word();
            if self.poller.modify(&self.listener, word, flags).is_ok() {
                self.accepting = room;
            }
        }
    }

    /// Ends all flows.
    fn end(&mut self, events: &mut dyn FnMut(Event<'_>)) {
        self.receiver.stop();
        self.settle(events);
        self.signalling.close_all();
    }
}

/// When intervals are told, and what was counted before.
struct Intervals {
    every: Option<Nanos>,
    from: Nanos,
    before: wirebeat_meter::session::SessionCounts,
}

impl Intervals {
    fn new(every: Option<Nanos>, now: Nanos) -> Intervals {
        Intervals { every, from: now, before: Default::default() }
    }

    fn look(&mut self, now: Nanos, receiver: &Receiver, events: &mut dyn FnMut(Event<'_>)) {
        let due = self.every.is_some_and(|every| now.saturating_sub(self.from) >= every);
        if due {
            self.tell(now, receiver, events);
        }
    }

    fn last(&mut self, now: Nanos, receiver: &Receiver, events: &mut dyn FnMut(Event<'_>)) {
        if self.every.is_some() && receiver.counts() != self.before {
            self.tell(now, receiver, events);
        }
    }

    fn tell(&mut self, now: Nanos, receiver: &Receiver, events: &mut dyn FnMut(Event<'_>)) {
        let counts = receiver.counts();
        let interval = Interval {
            from: self.from,
            to: now,
            counts: counts.since(&self.before),
            open: receiver.open_flows(),
        };
        self.before = counts;
        self.from = now;
        events(Event::Interval(&interval));
    }
}
