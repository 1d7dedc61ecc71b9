//! The signalling connections: what senders ask for, and what they are told.
//!
//! What a connection asks for waits in it until the server takes it (`next`). One that breaks the rules, closes or falls silent
//! asks for one thing more, which is that it is gone; then it is closed. Its inbox, its answers and its patience are bounded.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll::EventFlags;
use rustix::net::{SendFlags, send, sockopt};
use wirebeat_sockets::{Poller, clock};
use wirebeat_units::{Fault, Nanos};

use super::slots::Slots;
use super::{Limits, Mark};
use crate::control::{ControlError, FlowRequest, Inbox, Message};
use crate::result::FlowEnd;
use crate::socket::canonical;

/// Bytes that are read at once.
const READ: usize = 4 << 10;
/// Bytes of answers that a sender may leave unread.
const OUT_MAX: usize = 16 << 10;
/// How long a sender that released the connection may take to close it.
const LEAVE: Nanos = Nanos::from_secs(1);
/// How long a connection may be silent before it has greeted, where others wait for its place.
const GRACE: Nanos = Nanos::from_secs(1);
/// The pause after the system gave us no connection (out of files, say).
const PAUSE: Nanos = Nanos::from_millis(100);

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The other end of the connection.
    pub address: SocketAddr,
    /// This end of it, in the form of the socket.
    pub local: SocketAddr,
    /// The number of the connection, in the order in which they came.
    pub serial: u64,
}

/// What a sender asks for.
#[derive(Debug)]
pub(super) enum Asked {
    /// A flow.
    Flow(FlowRequest),
    /// The end of a flow that it has sent.
    Close(u32),
    /// The end of a flow that it could not send.
    GiveUp(u32),
    /// A log, which it does not get.
    LogLeftOut,
    /// Nothing more.
    Gone {
        /// How its flows end.
        why: FlowEnd,
        /// What it did wrong.
        fault: Option<Fault>,
    },
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has to greet, until then.
    Greeting(Nanos),
    /// It may ask.
    Open,
    /// It has nothing more to ask, and has to close, until then.
    Released(Nanos),
    /// It is to be closed.
    Gone,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    peer: Peer,
    stage: Stage,
    inbox: Inbox,
    /// Answers that the kernel did not take yet.
    out: Vec<u8>,
    asked: VecDeque<Asked>,
    /// When something came.
    heard: Nanos,
    /// Whether it was asked since then if it is there.
    discovered: bool,
}

impl Connection {
    fn gone(&mut self, why: FlowEnd, fault: Option<Fault>) {
        if self.stage != Stage::Gone {
            self.stage = Stage::Gone;
            self.asked.push_back(Asked::Gone { why, fault });
        }
    }

    fn send(&mut self, message: Message) {
        self.out.extend(message.to_bytes());
        self.flush();
    }

    fn flush(&mut self) {
        while !self.out.is_empty() {
            match send(&self.stream, &self.out, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.out.drain(..sent.min(self.out.len()))),
                Err(rustix::io::Errno::AGAIN) if self.out.len() <= OUT_MAX => return,
                Err(rustix::io::Errno::INTR) => {}
                // it does not read, or is no longer there
                Err(_) => {
                    self.out.clear();
                    self.gone(FlowEnd::ClosedEarly, None);
                }
            }
        }
    }

    /// Reads what is there, and takes the messages in it.
    fn read(&mut self, now: Nanos) {
        let mut bytes = [0; READ];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.gone(FlowEnd::ClosedEarly, None),
            Ok(read) => {
                self.heard = now;
                self.discovered = false;
                self.inbox.add(bytes.get(..read).unwrap_or_default());
                self.take_messages(now);
            }
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => {}
                _ => self.gone(FlowEnd::ClosedEarly, None),
            },
        }
    }

    fn take_messages(&mut self, now: Nanos) {
        while !matches!(self.stage, Stage::Gone | Stage::Released(_)) {
            let taken = match self.inbox.message() {
                Ok(None) => return,
                Ok(Some(message)) => self.take(message, now),
                Err(error) => Err(error),
            };
            if let Err(error) = taken {
                self.gone(FlowEnd::ClosedEarly, Some(error.fault()));
            }
        }
        // nothing of what follows is of interest
        self.inbox = Inbox::default();
    }

    fn take(&mut self, message: Message, now: Nanos) -> Result<(), ControlError> {
        match (self.stage, message) {
            (Stage::Greeting(_), Message::Connect) => {
                self.stage = Stage::Open;
                self.send(Message::AckConnect);
            }
            (Stage::Open, Message::SendFlow(request)) => {
                self.asked.push_back(Asked::Flow(request));
            }
            (Stage::Open, Message::ClosedFlow(flow)) => self.asked.push_back(Asked::Close(flow)),
            (Stage::Open, Message::ClosedError(flow)) => self.asked.push_back(Asked::GiveUp(flow)),
            // where a log is written only the owner of this machine says
            (Stage::Open, Message::SendNameLog) => {
                self.asked.push_back(Asked::LogLeftOut);
                self.send(Message::AckSendNameLog);
            }
            (Stage::Open, Message::SendFlowLog) => {
                self.asked.push_back(Asked::LogLeftOut);
                self.send(Message::AckSendFlowLog);
            }
            (Stage::Open, Message::Discovery) => self.send(Message::AckDiscovery),
            (Stage::Open, Message::AckDiscovery) => {}
            (Stage::Open, Message::Release) => {
                self.asked.push_back(Asked::Gone { why: FlowEnd::ClosedEarly, fault: None });
                self.send(Message::AckRelease);
                if self.stage == Stage::Open {
                    self.stage = Stage::Released(now.saturating_add(LEAVE));
                }
            }
            (Stage::Open, Message::SenderDown) => self.gone(FlowEnd::ClosedEarly, None),
            (Stage::Greeting(_), got) => {
                return Err(ControlError::Unexpected { got: got.name(), expected: "CONNECT" });
            }
            (_, got) => {
                let expected = "a request of a sender";
                return Err(ControlError::Unexpected { got: got.name(), expected });
            }
        }
        Ok(())
    }

    /// What is over by time.
    fn look(&mut self, now: Nanos, silence: Nanos) {
        let silent = now.saturating_sub(self.heard);
        self.flush();
        match self.stage {
            Stage::Greeting(until) | Stage::Released(until) if now >= until => {
                self.gone(FlowEnd::Silent, None);
            }
            Stage::Open if silent >= silence && !self.discovered => {
                self.discovered = true;
                self.send(Message::Discovery);
            }
            Stage::Open if silent >= silence.saturating_add(silence) => {
                self.gone(FlowEnd::Silent, None);
            }
            _ => {}
        }
    }
}

/// All signalling connections.
#[derive(Debug)]
pub(super) struct Signalling {
    connections: Slots<Connection>,
    limits: Limits,
    accepted: u64,
    paused_until: Nanos,
}

impl Signalling {
    pub fn new(limits: Limits) -> Signalling {
        let connections = Slots::new(limits.connections);
        Signalling { connections, limits, accepted: 0, paused_until: Nanos::ZERO }
    }

    /// Whether there is room for another connection.
    pub fn has_room(&self, now: Nanos) -> bool {
        let room = !self.connections.is_full() || self.silent(now).is_some();
        room && now >= self.paused_until
    }

    /// The place of the connection that has been there longest without a greeting, beyond [`GRACE`]: those who say nothing keep nobody out.
    fn silent(&self, now: Nanos) -> Option<usize> {
        let greets = |of: &Connection| {
            matches!(of.stage, Stage::Greeting(_)) && now.saturating_sub(of.heard) >= GRACE
        };
        let silent = self.connections.iter().filter(|(_, of)| greets(of));
        silent.min_by_key(|(_, of)| of.peer.serial).map(|(place, _)| place)
    }

    /// The place for another connection.
    fn make_room(&mut self) -> Option<usize> {
        if self.connections.is_full() {
            let place = self.silent(clock())?;
            self.connections.remove(place);
        }
        self.connections.next_place()
    }

    /// Accepts those that came.
    pub fn accept(&mut self, listener: &TcpListener, poller: &Poller) {
        while let Some(place) = self.make_room() {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    std::io::ErrorKind::WouldBlock => return,
                    // a sender that went away meanwhile
                    std::io::ErrorKind::ConnectionAborted | std::io::ErrorKind::Interrupted => {
                        continue;
                    }
                    _ => {
                        self.paused_until = clock().saturating_add(PAUSE);
                        return;
                    }
                },
            };
            let ready = stream.set_nonblocking(true).is_ok()
                && sockopt::set_tcp_nodelay(&stream, true).is_ok();
            let Ok(local) = stream.local_addr() else { continue };
            let word = Mark::Signalling(place).to_word();
            if !ready || poller.add(&stream, word, EventFlags::IN).is_err() {
                continue;
            }
            let now = clock();
            let serial = self.accepted;
            self.accepted += 1;
            let peer = Peer { address: canonical(address), local, serial };
            let connection = Connection {
                stream,
                peer,
                stage: Stage::Greeting(now.saturating_add(self.limits.patience)),
                inbox: Inbox::default(),
                out: Vec::new(),
                asked: VecDeque::new(),
                heard: now,
                discovered: false,
            };
            self.connections.put(place, connection);
        }
    }

    /// Reads and writes what can be.
    pub fn ready(&mut self, place: usize, flags: EventFlags, poller: &Poller) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        connection.flush();
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            connection.read(clock());
        }
        let wanted = match connection.out.is_empty() {
            true => EventFlags::IN,
            false => EventFlags::IN | EventFlags::OUT,
        };
        let word = Mark::Signalling(place).to_word();
        if poller.modify(&connection.stream, word, wanted).is_err() {
            connection.gone(FlowEnd::ClosedEarly, None);
        }
    }

    /// What a connection asks for next.
    pub fn next(&mut self, place: usize) -> Option<Asked> {
        self.connections.get_mut(place)?.asked.pop_front()
    }

    /// Closes a connection that is gone and has been heard.
    pub fn close_if_gone(&mut self, place: usize) {
        let gone = |of: &Connection| of.stage == Stage::Gone && of.asked.is_empty();
        if self.connections.get(place).is_some_and(gone) {
            self.connections.remove(place);
        }
    }

    /// Looks at what is over by time: the places of those that ask for something now.
    pub fn look(&mut self, now: Nanos) -> Vec<usize> {
        for (_, connection) in self.connections.iter_mut() {
            connection.look(now, self.limits.silence);
        }
        let asking = self.connections.iter().filter(|(_, of)| !of.asked.is_empty());
        asking.map(|(place, _)| place).collect()
    }

    pub fn peer(&self, place: usize) -> Option<Peer> {
        self.connections.get(place).map(|connection| connection.peer)
    }

    /// The place of the connection with this number.
    pub fn place_of(&self, serial: u64) -> Option<usize> {
        let mut all = self.connections.iter();
        all.find(|(_, connection)| connection.peer.serial == serial).map(|(place, _)| place)
    }

    /// Tells a sender.
    pub fn send(&mut self, place: usize, message: Message) {
        if let Some(connection) = self.connections.get_mut(place) {
            connection.send(message);
        }
    }

    /// Closes all.
    pub fn close_all(&mut self) {
        self.connections = Slots::new(self.limits.connections);
    }
}
