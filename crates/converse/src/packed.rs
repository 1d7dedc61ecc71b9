//! A session that waits, in as few bytes as what it waits for takes.
//!
//! Of ten million sessions nearly all wait: for the end of their time, for the next request. What a waiting session has beside what is
//! here is what a new one has: no message under way, nothing kept, a reader between two messages. A session of which that is not true
//! stays as it is ([`Packed::of`] says `None`).

use wirebeat_units::Nanos;

use crate::alarms::Alarm;
use crate::session::{
    DataWait, Fate, HttpClientState, HttpServerState, Protocol, Session, Side, Wait,
};
use crate::stack::Connection;

/// What it waits for; which text or datagram, or how many bytes, is in `words`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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

/// Its protocol; how far HTTP's client is, is in `words`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Speaks {
    None,
    HttpClient,
    HttpServer,
    Echo,
    Text,
}

const PEER_CLOSED: u8 = 1;
const LINGERS: u8 = 1 << 1;
const FINISHED: u8 = 1 << 2;
const HAS_SLOT: u8 = 1 << 3;
const HEARD: u8 = 1 << 4;

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
    sent: u64,
    received: u64,
    /// How much later than planned it started, in ns.
    late: u32,
    number: u32,
    pub(crate) connection: Connection,
    draws: u32,
    user: u32,
    register: u32,
    words: [u32; 2],
    pub(crate) side: u16,
    pc: u16,
    waits: Waits,
    speaks: Speaks,
    fate: Option<Fate>,
    flags: u8,
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
            Wait::Data(DataWait { left, got: 0, damaged: false, .. }) => (Waits::Data, left),
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
            Protocol::HttpClient(http) if http.is_between() => {
                (Speaks::HttpClient, u64::from(http.sent) << 32 | u64::from(http.received))
            }
            Protocol::HttpServer(http) if http.is_between() => (Speaks::HttpServer, 0),
            Protocol::Echo(kept) if kept.is_empty() => (Speaks::Echo, 0),
            Protocol::Text(kept) if kept.is_empty() => (Speaks::Text, 0),
            _ => return None,
        };
        if of_wait > 0 && of_protocol > 0 {
            return None;
        }
        let word = of_wait | of_protocol;
        let flag = |has: bool, flag: u8| if has { flag } else { 0 };
        Some(Packed {
            alarm: session.alarm,
            planned: session.planned,
            active: session.active,
            pace: session.pace.unwrap_or(NEVER),
            sent: out.end(),
            received: session.received,
            late: session.started.get().checked_sub(session.planned.get())?.try_into().ok()?,
            number: session.number.try_into().ok()?,
            connection: session.connection?,
            draws: session.draws,
            user: session.user.unwrap_or(NO_USER),
            register: *register,
            words: [(word >> 32) as u32, word as u32],
            side: session.side,
            pc: session.pc,
            waits,
            speaks,
            fate: session.fate,
            flags: flag(session.peer_closed, PEER_CLOSED)
                | flag(session.lingers, LINGERS)
                | flag(session.finished, FINISHED)
                | flag(session.has_slot, HAS_SLOT)
                | flag(session.heard, HEARD),
        })
    }

    /// The session again.
    pub(crate) fn unpack(&self) -> Session {
        let started = self.planned.saturating_add(Nanos::new(self.late.into()));
        let [high, low] = self.words;
        let word = u64::from(high) << 32 | u64::from(low);
        let has = |flag: u8| self.flags & flag != 0;
        let mut session = Session::new(self.side, self.number.into(), self.planned, started);
        session.pc = self.pc;
        session.wait = match self.waits {
            Waits::Data => {
                Wait::Data(DataWait { left: word, got: 0, prefix: [0; 8], damaged: false })
            }
            Waits::Text => Wait::Text(low as u16),
            Waits::Message => Wait::Message(low as u16),
            Waits::Protocol => Wait::Protocol,
            Waits::Time => Wait::Time,
            Waits::PeerClose => Wait::PeerClose,
            Waits::Stop => Wait::Stop,
            Waits::End => Wait::End,
        };
        session.protocol = match self.speaks {
            Speaks::None => Protocol::None,
            Speaks::HttpClient => Protocol::HttpClient(Box::new(HttpClientState {
                sent: high,
                received: low,
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
            *register = self.register;
        }
        session.draws = self.draws;
        session.out.stand_at(self.sent);
        session.received = self.received;
        session.alarm = self.alarm;
        session.established = true;
        session.heard = has(HEARD);
        session.peer_closed = has(PEER_CLOSED);
        session.lingers = has(LINGERS);
        session.finished = has(FINISHED);
        session.has_slot = has(HAS_SLOT);
        session.fate = self.fate;
        session.user = (self.user != NO_USER).then_some(self.user);
        session
    }

    /// Whether it waits for the stop of its group.
    pub(crate) fn waits_for_stop(&self) -> bool {
        self.waits == Waits::Stop
    }

    /// Whether it has nothing to do any more.
    pub(crate) fn has_said_all(&self) -> bool {
        self.waits == Waits::End
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
