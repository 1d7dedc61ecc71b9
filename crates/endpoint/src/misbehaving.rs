//! Clients that misbehave over our own TCP: the segments that they ask for and the TCP does not send, and what peers answer.
//!
//! Forged segments wait here until the port has room. Sessions that are never opened in full are here alone: the TCP, which would reset
//! them as soon as their peer answers, knows nothing of them. While no client misbehaves, a packet that arrives costs one look at
//! an empty table.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use wirebeat_converse::stack::{
    Connection, ConnectionStats, Forged, Place, Programs, Reason, SessionKey,
};
use wirebeat_stack::segment::{Checksum, Flags, Segment};
use wirebeat_stack::{
    Forged as ForgedByTcp, ForgedSegment, Open, Place as PlaceOfTcp, SessionId, Stack as Tcp,
    Transmit, Tuple,
};
use wirebeat_units::Nanos;

/// Sessions that are not opened in full have numbers from here on, and below those of datagrams.
pub(crate) const HALF_OPEN: u32 = 1 << 29;

/// Forged segments that may wait for room: what is asked for beyond is not sent, and not counted.
const QUEUE_MAX: usize = 1 << 16;

/// A session that is not opened in full.
#[derive(Clone, Copy, Debug)]
struct HalfOpen {
    session: SessionKey,
    open: Open,
    syn: ForgedSegment,
    /// Whether its SYN has left, and whether the peer answered it.
    left: bool,
    answered: bool,
}

/// Who has these ends.
#[derive(Clone, Copy, Debug)]
enum Watched {
    HalfOpen(u32),
    Connection(SessionId),
}

/// What waits for room.
#[derive(Clone, Copy, Debug)]
enum Queued {
    /// The SYN of a session that is not opened in full.
    Syn(u32),
    /// A segment of a connection.
    Segment(SessionId, SessionKey, ForgedByTcp),
    /// What takes a SYN back.
    Reset(ForgedSegment),
}

/// What a packet is that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Nothing that is looked at here.
    Ordinary,
    /// Something for a session that is not opened in full: nobody else takes it.
    Taken,
    /// An acknowledgment without data for a connection of a client that misbehaves, which had so many bytes acknowledged before.
    Acknowledgment(SessionId, u64),
}

/// Clients that misbehave.
#[derive(Debug, Default)]
pub(crate) struct Misbehaving {
    half_open: Vec<Option<HalfOpen>>,
    vacant: Vec<u32>,
    watched: HashMap<Tuple, Watched>,
    /// The ends of connections that are watched.
    connections: HashMap<SessionId, Tuple>,
    queue: VecDeque<Queued>,
}

impl Misbehaving {
    /// Whether there is something to send.
    pub(crate) fn has_output(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many sessions are not opened in full.
    pub(crate) fn open(&self) -> usize {
        self.half_open.len() - self.vacant.len()
    }

    /// Begins a session and does not open it in full. `false`: its ends are in use.
    pub(crate) fn begin(
        &mut self,
        now: Nanos,
        session: SessionKey,
        open: Open,
        tcp: &Tcp,
        programs: &mut dyn Programs,
    ) -> bool {
        if self.watched.contains_key(&open.tuple) {
            return false;
        }
        let Some(syn) = tcp.forge_syn(now, &open) else { return false };
        let of = HalfOpen { session, open, syn, left: false, answered: false };
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.half_open.push(None);
            self.half_open.len() as u32 - 1
        });
        if let Some(place) = self.half_open.get_mut(at as usize) {
            *place = Some(of);
        }
        self.watched.insert(open.tuple, Watched::HalfOpen(at));
        // as many as there are sessions, which the scenario bounds
        self.queue.push_back(Queued::Syn(at));
        programs.opening(now, session, Connection(at | HALF_OPEN));
        true
    }

    /// Ends a session that is not opened in full.
    pub(crate) fn end(
        &mut self,
        now: Nanos,
        number: u32,
        reason: Reason,
        programs: &mut dyn Programs,
    ) {
        let at = number & !HALF_OPEN;
        let Some(place) = self.half_open.get_mut(at as usize) else { return };
        let Some(of) = place.take() else { return };
        self.vacant.push(at);
        self.watched.remove(&of.open.tuple);
        if of.answered && reason == Reason::Aborted {
            // the number that the peer expects
            let reset = ForgedSegment::reset(&of.open, of.syn.seq().plus(1));
            // as many as there are sessions: none is left with the peer
            self.queue.push_back(Queued::Reset(reset));
        }
        programs.ended(now, of.session, reason, ConnectionStats::default());
    }

    /// Has a connection send a forged segment.
    pub(crate) fn forge(&mut self, id: SessionId, key: SessionKey, tcp: &Tcp, forged: &Forged) {
        if let Entry::Vacant(place) = self.connections.entry(id) {
            let Some(info) = tcp.info(id) else { return };
            place.insert(info.tuple);
            self.watched.insert(info.tuple, Watched::Connection(id));
        }
        if self.queue.len() < QUEUE_MAX {
            self.queue.push_back(Queued::Segment(id, key, of_tcp(forged)));
        }
    }

    /// A connection ended: its ends may be another's.
    pub(crate) fn forget(&mut self, id: SessionId) {
        if self.connections.is_empty() {
            return;
        }
        if let Some(tuple) = self.connections.remove(&id) {
            self.watched.remove(&tuple);
        }
    }

    /// Whether sessions like these ends may not be opened now.
    pub(crate) fn is_in_use(&self, tuple: &Tuple) -> bool {
        !self.watched.is_empty() && self.watched.contains_key(tuple)
    }

    /// Looks at a packet that arrived.
    #[inline]
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        packet: &[u8],
        tcp: &Tcp,
        programs: &mut dyn Programs,
    ) -> Arrived {
        match self.watched.is_empty() {
            true => Arrived::Ordinary,
            false => self.look_at(now, packet, tcp, programs),
        }
    }

    #[inline(never)]
    fn look_at(
        &mut self,
        now: Nanos,
        packet: &[u8],
        tcp: &Tcp,
        programs: &mut dyn Programs,
    ) -> Arrived {
        let Ok(segment) = Segment::read(packet, Checksum::VerifyOrPartial) else {
            return Arrived::Ordinary;
        };
        match self.watched.get(&segment.tuple) {
            None => Arrived::Ordinary,
            Some(&Watched::HalfOpen(at)) => {
                self.answered(now, at, &segment, programs);
                Arrived::Taken
            }
            Some(&Watched::Connection(id)) => {
                let is_pure = segment.flags == Flags::ACK && segment.payload.is_empty();
                match tcp.info(id).filter(|_| is_pure) {
                    Some(info) => Arrived::Acknowledgment(id, info.acked),
                    None => Arrived::Ordinary,
                }
            }
        }
    }

    /// A segment for a session that is not opened in full.
    fn answered(
        &mut self,
        now: Nanos,
        at: u32,
        segment: &Segment<'_>,
        programs: &mut dyn Programs,
    ) {
        let Some(Some(of)) = self.half_open.get_mut(at as usize) else { return };
        let expected = of.syn.seq().plus(1);
        if !segment.flags.has(Flags::ACK) || segment.ack != expected || !of.left {
            return;
        }
        if segment.flags.has(Flags::RST) {
            let reason = if of.answered { Reason::Reset } else { Reason::Refused };
            return self.end(now, at | HALF_OPEN, reason, programs);
        }
        if segment.flags.has(Flags::SYN) {
            of.answered = true;
            programs.answered(of.session);
        }
    }

    /// Sends what waits, as far as `out` has room. `key` says whose a connection is.
    pub(crate) fn transmit(
        &mut self,
        now: Nanos,
        tcp: &Tcp,
        programs: &mut dyn Programs,
        key: impl Fn(SessionId) -> Option<SessionKey>,
        out: &mut impl Transmit,
    ) {
        while let Some(&queued) = self.queue.front() {
            let (segment, session) = match queued {
                Queued::Reset(segment) => (Some(segment), None),
                Queued::Syn(at) => {
                    let of = self.half_open.get(at as usize).copied().flatten();
                    let of = of.filter(|of| !of.left);
                    (of.map(|of| of.syn), of.map(|of| of.session))
                }
                Queued::Segment(id, session, forged) => {
                    // another session may have this number by now
                    let is_its = key(id) == Some(session);
                    (tcp.forge(now, id, &forged).filter(|_| is_its), Some(session))
                }
            };
            if let Some(segment) = segment {
                let Some(buffer) = out.buffer(segment.packet_len()) else { return };
                if segment.write(buffer) {
                    out.of_profile(segment.profile());
                    out.commit();
                    session.into_iter().for_each(|session| programs.misbehaved(session));
                }
            }
            if let Queued::Syn(at) = queued
                && let Some(Some(of)) = self.half_open.get_mut(at as usize)
            {
                of.left = true;
            }
            self.queue.pop_front();
        }
    }
}

/// The same segment, as the TCP knows it.
fn of_tcp(forged: &Forged) -> ForgedByTcp {
    let seq = match forged.seq {
        Place::Acknowledged(by) => PlaceOfTcp::Una(by),
        Place::Next(by) => PlaceOfTcp::Next(by),
        Place::BehindWindow(by) => PlaceOfTcp::Edge(by),
        Place::Number(number) => PlaceOfTcp::Guess(number),
    };
    let flags = match (forged.reset, forged.bytes) {
        (true, _) => Flags::RST,
        (false, 0) => Flags::ACK,
        (false, _) => Flags::ACK.with(Flags::PSH),
    };
    ForgedByTcp {
        seq,
        ack: forged.ack,
        flags,
        payload_len: forged.bytes,
        wrong_checksum: forged.wrong_checksum,
    }
}
