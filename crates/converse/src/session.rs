//! The state of one session, and of what its end of the group does.

use std::sync::Arc;

use wirebeat_http::{RequestReader, ResponseReader};
use wirebeat_meter::session::SessionMeter;
use wirebeat_traffic::program::script::{REGISTERS, Script};
use wirebeat_traffic::values::session::VARIABLES;
use wirebeat_units::Nanos;

use crate::alarms::Alarm;
use crate::dns::DnsState;
use crate::few::Few;
use crate::greeting::Greeting;
use crate::http_message::HttpMessageState;
use crate::messages::Messages;
use crate::misbehaviour::MisbehaviourState;
use crate::one_way::OneWayState;
use crate::outgoing::Outgoing;
use crate::stack::Connection;

/// Which end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that opened it.
    Client,
    /// The one that accepted it.
    Server,
}

/// One end of a group of sessions, on one core.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) end: End,
    pub(crate) script: Arc<Script>,
    pub(crate) meter: SessionMeter,
    /// Whether the other end is ours, so that generated data can be compared.
    pub(crate) verifies: bool,
    /// Whether all that is received is one stream of generated data.
    pub(crate) verifies_stream: bool,
    /// Whether the program looks into what it receives, so that early bytes are kept.
    pub(crate) keeps: bool,
    /// Whether it is a server over TCP that answers what it waits for, whatever that is.
    pub(crate) answers: bool,
    /// Whether its steps do not say what is a request and what a response: then what they look at is.
    pub(crate) unmarked: bool,
}

impl Side {
    /// Counts what was waited for, where the end says nothing of `request` and `response`: a request at the server; a response, and what it
    /// was asked with, at the client.
    pub(crate) fn note_unmarked(&mut self) {
        if self.unmarked {
            self.meter.counts.requests += 1;
            self.meter.counts.responses += u64::from(self.end == End::Client);
        }
    }
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: its ops run.
    Nothing,
    /// The connection.
    Connect,
    /// The handshake of TLS.
    Handshake,
    /// Room for a message.
    Room,
    /// The end of what is sent without an end.
    Unlimited,
    /// Data: which of the script's, how many bytes are left (`u64::MAX`: not known yet), how many there were.
    Data(DataWait),
    /// A text, number … .
    Text(u16),
    /// A datagram, number … of what the script waits for.
    Message(u16),
    /// HTTP, or data that is sent back: as its own state says.
    Protocol,
    /// The time of its alarm.
    Time,
    /// The same: the slot in which it may send.
    Slot,
    /// That the peer closes its side.
    PeerClose,
    /// The group's stop.
    Stop,
    /// The end of the connection: everything was said.
    End,
}

/// Data that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataWait {
    /// How many bytes are still to come; `u64::MAX`: a length of 8 bytes comes first.
    pub(crate) left: u64,
    /// How many came.
    pub(crate) got: u64,
    /// The bytes of the length that came.
    pub(crate) prefix: [u8; 8],
    /// Whether some were wrong.
    pub(crate) damaged: bool,
}

/// How a session ended, where that is not what the stack says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The program did what it had to, and ended with RST as asked.
    Done,
    /// The peer closed too early.
    ClosedEarly,
    /// The peer sent what is invalid.
    Malformed,
    /// TLS failed.
    TlsFailed,
    /// The peer did not go on in time.
    TimedOut,
    /// The program was given up: data without an end that nobody wants.
    Abandoned,
    /// The run ended.
    Unfinished,
}

/// The protocol of a session, where it has one.
#[derive(Debug, Default)]
pub(crate) enum Protocol {
    /// None.
    #[default]
    None,
    /// HTTP, the client's side.
    HttpClient(Box<HttpClientState>),
    /// HTTP, the server's side.
    HttpServer(Box<HttpServerState>),
    /// DNS.
    Dns(Box<DnsState>),
    /// Datagrams, one after the other.
    Messages(Messages),
    /// Messages one way.
    OneWay(Box<OneWayState>),
    /// A client that misbehaves.
    Misbehaviour(Box<MisbehaviourState>),
    /// What is sent back and not taken yet.
    Echo(Vec<u8>),
    /// One message of HTTP.
    HttpMessage(Box<HttpMessageState>),
    /// The last bytes before a text that is waited for.
    Text(Vec<u8>),
}

impl Protocol {
    /// Whether it is a server's, and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        match self {
            Protocol::HttpServer(http) => {
                http.pending.is_empty() && http.reader.progress().0 == 0 && http.reader.held() == 0
            }
            Protocol::Echo(kept) => kept.is_empty(),
            Protocol::OneWay(state) => !state.is_within_message(),
            Protocol::Dns(dns) => dns.is_idle_server(),
            _ => false,
        }
    }
}

/// Where the client's side of HTTP stands.
#[derive(Debug, Default)]
pub(crate) struct HttpClientState {
    pub(crate) reader: ResponseReader,
    /// Requests that were sent, and responses that were received.
    pub(crate) sent: u32,
    pub(crate) received: u32,
    /// When each request that waits for its response was planned and began, the oldest first.
    pub(crate) begun: Few<(Nanos, Nanos)>,
    /// Of the response that comes in: its status, bytes of content so far, whether it began, whether content was wrong.
    pub(crate) status: u16,
    pub(crate) content: u64,
    pub(crate) first_byte: bool,
    pub(crate) damaged: bool,
    /// Interim responses since the last final one.
    pub(crate) interim: u32,
    /// Whether the content of a request waits for 100 (Continue).
    pub(crate) holds_content: bool,
    /// Whether the connection ends after the response.
    pub(crate) closes: bool,
}

/// Where the server's side of HTTP stands.
#[derive(Debug, Default)]
pub(crate) struct HttpServerState {
    pub(crate) reader: RequestReader,
    /// Messages to send, by their number in the script.
    pub(crate) pending: Few<u16>,
    /// Whether the request that comes in is HEAD, and whether it is of HTTP/1.0.
    pub(crate) head: bool,
    pub(crate) old: bool,
    /// Whether the connection ends after what is pending.
    pub(crate) closes: bool,
    /// Whether it ends because nothing more of what comes can be read.
    pub(crate) bad: bool,
    /// Since when the head of a request comes in that is not whole.
    pub(crate) head_since: Option<Nanos>,
}

/// How long a server reads, and leaves aside, what follows a request that it cannot read: a peer that is reset at once may lose the
/// response (RFC 9112 §9.6).
const LINGER: Nanos = Nanos::from_secs(2);

/// What a session remembers for steps that few programs have.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) variables: [i32; VARIABLES],
    /// When timers were started.
    pub(crate) timers: Vec<Nanos>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The number of its side; `u16::MAX`: there is no session here.
    pub(crate) side: u16,
    pub(crate) pc: u16,
    pub(crate) wait: Wait,
    pub(crate) connection: Option<Connection>,
    /// Its number in its group.
    pub(crate) number: u64,
    /// When it was planned to start, and when it did.
    pub(crate) planned: Nanos,
    pub(crate) started: Nanos,
    /// When the request under way was planned, and when it began; whether its first byte came.
    pub(crate) request: (Nanos, Nanos),
    pub(crate) in_request: bool,
    pub(crate) first_byte: bool,
    /// When the next request is planned; `None` for the first one, which is as late as its session.
    pub(crate) pace: Option<Nanos>,
    /// When the peer last did something.
    pub(crate) active: Nanos,
    pub(crate) registers: [u32; REGISTERS],
    /// How many laws were asked so far.
    pub(crate) draws: u32,
    pub(crate) out: Outgoing,
    /// Bytes that arrived before the program asked for them, and all that arrived.
    pub(crate) pending: u64,
    pub(crate) received: u64,
    /// The same bytes themselves, where the program looks into what it receives.
    pub(crate) early: Vec<u8>,
    pub(crate) protocol: Protocol,
    /// Its number at both ends, where they are put together by it.
    pub(crate) greeting: Option<Box<Greeting>>,
    /// What few programs have to remember.
    pub(crate) notes: Option<Box<Notes>>,
    pub(crate) alarm: Alarm,
    pub(crate) established: bool,
    /// Over UDP: whether the peer said something.
    pub(crate) heard: bool,
    pub(crate) peer_closed: bool,
    /// Whether all that still comes is left aside, and for a short time alone.
    pub(crate) lingers: bool,
    /// Whether FIN was asked for.
    pub(crate) finished: bool,
    /// Whether it has a slot in which it may send.
    pub(crate) has_slot: bool,
    pub(crate) fate: Option<Fate>,
    /// The user that it is of, in the closed model.
    pub(crate) user: Option<u32>,
}

impl HttpClientState {
    /// Whether no request is under way, and nothing is known of a response: beside its counts it is as a new one.
    pub(crate) fn is_between(&self) -> bool {
        self.reader.is_new()
            && self.begun.is_empty()
            && self.interim == 0
            && !self.first_byte
            && !self.holds_content
            && !self.closes
    }
}

impl HttpServerState {
    /// Whether nothing is under way: it is as a new one.
    pub(crate) fn is_between(&self) -> bool {
        self.reader.is_new()
            && self.pending.is_empty()
            && self.head_since.is_none()
            && !self.closes
            && !self.bad
    }
}

impl Session {
    pub(crate) fn new(side: u16, number: u64, planned: Nanos, now: Nanos) -> Session {
        Session {
            side,
            pc: 0,
            wait: Wait::Connect,
            connection: None,
            number,
            planned,
            started: now,
            request: (planned, now),
            in_request: false,
            first_byte: false,
            pace: None,
            active: now,
            registers: [0; REGISTERS],
            draws: 0,
            out: Outgoing::default(),
            pending: 0,
            received: 0,
            early: Vec::new(),
            protocol: Protocol::None,
            greeting: None,
            notes: None,
            alarm: Alarm::default(),
            established: false,
            heard: false,
            peer_closed: false,
            lingers: false,
            finished: false,
            has_slot: false,
            fate: None,
            user: None,
        }
    }

    /// There is no session here any more, and what it kept is gone.
    pub(crate) fn clear(&mut self) {
        self.side = u16::MAX;
        (self.protocol, self.greeting) = (Protocol::None, None);
        (self.notes, self.early) = (None, Vec::new());
        self.out = Outgoing::default();
    }

    /// Reads something of each line of memory that its next step needs.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let of_protocol = match &self.protocol {
            Protocol::OneWay(state) => state.touch(),
            Protocol::HttpClient(http) => http.content,
            Protocol::HttpServer(http) => http.head.into(),
            _ => 0,
        };
        let all = [self.number, self.out.touch(), self.received, self.alarm.touch(), of_protocol];
        all.into_iter().fold(u64::from(self.pc), |all, one| all ^ one)
    }

    /// What it remembers for its steps.
    pub(crate) fn notes(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }

    /// Until when its peer has to do something, or be done with something, where it has `timeout` for each.
    pub(crate) fn patience(&self, timeout: Nanos) -> Nanos {
        if self.lingers {
            return self.active.saturating_add(timeout.min(LINGER));
        }
        let patience = self.active.saturating_add(timeout);
        match &self.protocol {
            // while an answer is under way nobody waits for the next request
            Protocol::HttpServer(http) if http.pending.is_empty() && self.out.is_taken() => {
                let whole = http.head_since.map(|since| since.saturating_add(timeout));
                whole.map_or(patience, |whole| whole.min(patience))
            }
            _ => patience,
        }
    }

    /// When the request that begins at `now` was planned.
    pub(crate) fn planned_request(&self, now: Nanos) -> Nanos {
        match self.pace {
            Some(pace) => pace.min(now),
            None => now.saturating_sub(self.started.saturating_sub(self.planned)),
        }
    }

    /// The number by which the next law is asked: that of the session, and how often it was asked before.
    pub(crate) fn draw(&mut self) -> u64 {
        let n = (self.number << 20).wrapping_add(u64::from(self.draws) & 0xf_ffff);
        self.draws = self.draws.wrapping_add(1);
        n
    }
}
