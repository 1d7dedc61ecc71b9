//! A session that waits, in as few bytes as what it waits for takes.
//!
//! Of ten million sessions nearly all wait: for the end of their time, for the next request. What a waiting session has beside what is
//! here is what a new one has: no message under way, nothing kept, a reader between two messages. A session of which that is not true
//! stays as it is ([`Packed::of`] says `None`), and so does one that has sent or received 4 GiB, or drawn 65,536 numbers.

use wirebeat_units::Nanos;

use crate::alarms::Alarm;
use crate::session::{
    DataWait, Fate, HttpClientState, HttpServerState, Protocol, Session, Side, Wait,
};
use crate::stack::Connection;

/// What it waits for; which text or datagram, or how many bytes, is in `word`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Waits {
    Data,
    Text,
    Message,
    Protocol,
    Time,
    PeerClose,
    Stop,
    End,
}

impl Waits {
    /// By its number.
    const ALL: [Waits; 8] = [
        Waits::Data,
        Waits::Text,
        Waits::Message,
        Waits::Protocol,
        Waits::Time,
        Waits::PeerClose,
        Waits::Stop,
        Waits::End,
    ];
}

/// Its protocol; how far HTTP's client is, is in `word`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Speaks {
    None,
    HttpClient,
    HttpServer,
    Echo,
    Text,
}

/// Marks of a session, and above them what it waits for: the upper bits of a word whose others are its register.
const PEER_CLOSED: u32 = 1 << 25;
const LINGERS: u32 = 1 << 26;
const FINISHED: u32 = 1 << 27;
const HAS_SLOT: u32 = 1 << 28;
const WAITS: u32 = 29;
/// The bits of the register.
const REGISTER: u32 = PEER_CLOSED - 1;

/// No user.
const NO_USER: u32 = u32::MAX;
/// No time.
const NEVER: Nanos = Nanos::MAX;

/// A session that waits.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) alarm: Alarm,
    planned: Nanos,
    active: Nanos,
    pace: Nanos,
    /// Bytes that were sent, all of them taken.
    sent: u32,
    received: u32,
    /// How much later than planned it started, in ns.
    late: u32,
    number: u32,
    pub(crate) connection: Connection,
    user: u32,
    /// Its register, its marks and what it waits for.
    state: u32,
    word: u32,
    pub(crate) side: u16,
    pc: u16,
    draws: u16,
    speaks: Speaks,
    fate: Option<Fate>,
}

impl Packed {
    /// The session in this form, where it has it.
    pub(crate) fn of(session: &Session, side: &Side) -> Option<Packed> {
        let Session { registers: [register, inner @ ..], out, .. } = session;
        let is_bare = session.established
            && !session.in_request
            && session.pending == 0
            && session.early.is_empty()
            && session.greeting.is_none()
            && session.notes.is_none()
            && inner.iter().all(|count| *count == 0)
            && out.is_bare()
            && !side.script.datagrams;
        if !is_bare {
            return None;
        }
        let (waits, of_wait) = match session.wait {
            Wait::Data(DataWait { left, got: 0, damaged: false, .. }) => {
                (Waits::Data, left.try_into().ok()?)
            }
            Wait::Text(number) => (Waits::Text, number.into()),
            Wait::Message(number) => (Waits::Message, number.into()),
            Wait::Protocol => (Waits::Protocol, 0),
            Wait::Time => (Waits::Time, 0),
            Wait::PeerClose => (Waits::PeerClose, 0),
            Wait::Stop => (Waits::Stop, 0),
            Wait::End => (Waits::End, 0),
            _ => return None,
        };
        let (speaks, of_protocol) = match &session.protocol {
            Protocol::None => (Speaks::None, 0),
            Protocol::HttpClient(http) if http.is_between() && http.sent == http.received => {
                (Speaks::HttpClient, http.sent)
            }
            Protocol::HttpServer(http) if http.is_between() => (Speaks::HttpServer, 0),
            Protocol::Echo(kept) if kept.is_empty() => (Speaks::Echo, 0),
            Protocol::Text(kept) if kept.is_empty() => (Speaks::Text, 0),
            _ => return None,
        };
        if of_wait > 0 && of_protocol > 0 {
            return None;
        }
        if *register > REGISTER {
            return None;
        }
        let mark = |has: bool, mark: u32| if has { mark } else { 0 };
        Some(Packed {
            alarm: session.alarm,
            planned: session.planned,
            active: session.active,
            pace: session.pace.unwrap_or(NEVER),
            sent: out.end().try_into().ok()?,
            received: session.received.try_into().ok()?,
            late: session.started.get().checked_sub(session.planned.get())?.try_into().ok()?,
            number: session.number.try_into().ok()?,
            connection: session.connection?,
            user: session.user.unwrap_or(NO_USER),
            state: *register
                | mark(session.peer_closed, PEER_CLOSED)
                | mark(session.lingers, LINGERS)
                | mark(session.finished, FINISHED)
                | mark(session.has_slot, HAS_SLOT)
                | (waits as u32) << WAITS,
            word: of_wait | of_protocol,
            side: session.side,
            pc: session.pc,
            draws: session.draws.try_into().ok()?,
            speaks,
            fate: session.fate,
        })
    }

    /// The session again.
    pub(crate) fn unpack(&self) -> Session {
        let started = self.planned.saturating_add(Nanos::new(self.late.into()));
        let word = self.word;
        let has = |mark: u32| self.state & mark != 0;
        let mut session = Session::new(self.side, self.number.into(), self.planned, started);
        session.pc = self.pc;
        session.wait = match self.waits() {
            Waits::Data => {
                Wait::Data(DataWait { left: word.into(), got: 0, prefix: [0; 8], damaged: false })
            }
            Waits::Text => Wait::Text(word as u16),
            Waits::Message => Wait::Message(word as u16),
            Waits::Protocol => Wait::Protocol,
            Waits::Time => Wait::Time,
            Waits::PeerClose => Wait::PeerClose,
            Waits::Stop => Wait::Stop,
            Waits::End => Wait::End,
        };
        session.protocol = match self.speaks {
            Speaks::None => Protocol::None,
            Speaks::HttpClient => Protocol::HttpClient(Box::new(HttpClientState {
                sent: word,
                received: word,
                ..HttpClientState::default()
            })),
            Speaks::HttpServer => Protocol::HttpServer(Box::<HttpServerState>::default()),
            Speaks::Echo => Protocol::Echo(Vec::new()),
            Speaks::Text => Protocol::Text(Vec::new()),
        };
        session.connection = Some(self.connection);
        session.pace = (self.pace != NEVER).then_some(self.pace);
        session.active = self.active;
        if let Some(register) = session.registers.first_mut() {
            *register = self.state & REGISTER;
        }
        session.draws = self.draws.into();
        session.out.stand_at(self.sent.into());
        session.received = self.received.into();
        session.alarm = self.alarm;
        session.established = true;
        session.peer_closed = has(PEER_CLOSED);
        session.lingers = has(LINGERS);
        session.finished = has(FINISHED);
        session.has_slot = has(HAS_SLOT);
        session.fate = self.fate;
        session.user = (self.user != NO_USER).then_some(self.user);
        session
    }

    fn waits(&self) -> Waits {
        Waits::ALL.get((self.state >> WAITS) as usize).copied().unwrap_or(Waits::End)
    }

    /// Whether it waits for the stop of its group.
    pub(crate) fn waits_for_stop(&self) -> bool {
        self.waits() == Waits::Stop
    }

    /// Whether it has nothing to do any more.
    pub(crate) fn has_said_all(&self) -> bool {
        self.waits() == Waits::End
    }

    /// Whether the bytes that arrive are looked into as they come, or kept to be sent back.
    pub(crate) fn reads_little(&self) -> bool {
        matches!(self.speaks, Speaks::HttpServer | Speaks::Echo | Speaks::Text)
    }

    /// Whether it is given up.
    pub(crate) fn has_fate(&self) -> bool {
        self.fate.is_some()
    }

    /// Whether it has no protocol.
    pub(crate) fn has_no_protocol(&self) -> bool {
        self.speaks == Speaks::None
    }
}
