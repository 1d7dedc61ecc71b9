//! All sessions of a core, by their number.
//!
//! Those on which something happens lie whole in a place of their own; of very many, those that wait are packed
//! ([`Packed`]) where their number is. A session that is asked for is whole. [`AllSessions::settle`] packs those that were not asked for in the
//! longest time, as long as more than [`WHOLE`] are whole: a run with fewer sessions packs none. Those over datagrams, which have no such form,
//! stay whole and do not count.

use std::collections::VecDeque;

use wirebeat_units::Nanos;

use crate::alarms::Alarm;
use crate::packed::Packed;
use crate::session::{Session, Side};
use crate::stack::{Connection, SessionKey};

/// So many sessions are whole before any is packed: what a cache has room for.
const WHOLE: usize = 8192;
/// The number of the side of a place without a session.
const NO_SIDE: u16 = u16::MAX;
/// No number.
const NONE: u32 = u32::MAX;

/// What there is of the session of a number.
#[derive(Debug)]
enum Slot {
    /// None; the next number without one.
    Vacant(u32),
    /// It is whole: where.
    Whole(u32),
    /// It waits.
    Packed(Packed),
}

// at twenty million sessions each byte is 20 MB
const _: () = assert!(size_of::<Slot>() == 80);

/// Where a session lies whole.
#[derive(Debug)]
struct Place {
    session: Session,
    /// The number of the session; of a place without one, the next such place.
    key: u32,
    /// Whether it has its turn to be packed coming; a session without one stays whole.
    in_turn: bool,
}

/// The sessions.
#[derive(Debug)]
pub(crate) struct AllSessions {
    slots: Vec<Slot>,
    vacant: u32,
    places: Vec<Place>,
    empty: u32,
    whole: usize,
    /// Those of them that stay whole.
    staying: usize,
    /// Places whose turn to be packed comes, in this order.
    turns: VecDeque<u32>,
    /// How many sessions became whole since the last look.
    new: usize,
    /// Whether that look found one to be packed.
    found: bool,
    most: usize,
}

/// Memory for sessions that is there before the first of them: what the system gives while they start delays them, by milliseconds where it
/// is a large page.
#[derive(Debug)]
pub struct Room(Vec<Slot>);

impl Room {
    /// For so many sessions.
    pub fn new(sessions: usize) -> Room {
        Room(Vec::with_capacity(sessions))
    }

    /// Has the system give it now. What kind of pages it gives may be chosen before.
    pub fn populate(&mut self) {
        self.0.resize_with(self.0.capacity(), || Slot::Vacant(NONE));
        self.0.clear();
    }
}

impl AllSessions {
    /// Puts sessions there, where there are none yet.
    pub(crate) fn take_room(&mut self, Room(slots): Room) {
        if self.slots.is_empty() {
            self.slots = slots;
        }
    }

    pub(crate) fn new() -> AllSessions {
        AllSessions {
            slots: Vec::new(),
            vacant: NONE,
            places: Vec::new(),
            empty: NONE,
            whole: 0,
            staying: 0,
            turns: VecDeque::new(),
            new: 0,
            found: true,
            // tests have all packed that can be
            most: if cfg!(test) { 0 } else { WHOLE },
        }
    }

    /// Numbers up to which there are sessions.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many are whole.
    #[cfg(test)]
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// Takes a session in.
    pub(crate) fn insert(&mut self, session: Session) -> SessionKey {
        let key = match self.slots.get(self.vacant as usize) {
            Some(&Slot::Vacant(next)) => std::mem::replace(&mut self.vacant, next),
            _ => {
                self.slots.push(Slot::Vacant(NONE));
                self.slots.len() as u32 - 1
            }
        };
        self.make_whole(key, session);
        SessionKey(key)
    }

    /// Puts the session of number `key` in a place.
    fn make_whole(&mut self, key: u32, session: Session) -> u32 {
        let place = match self.places.get_mut(self.empty as usize) {
            Some(place) => {
                let at = self.empty;
                self.empty = place.key;
                (place.session, place.key) = (session, key);
                at
            }
            None => {
                self.places.push(Place { session, key, in_turn: false });
                self.places.len() as u32 - 1
            }
        };
        if let Some(of) = self.places.get_mut(place as usize)
            && !std::mem::replace(&mut of.in_turn, true)
        {
            self.turns.push_back(place);
        }
        if let Some(slot) = self.slots.get_mut(key as usize) {
            *slot = Slot::Whole(place);
        }
        self.whole += 1;
        self.new += 1;
        place
    }

    /// Leaves a place, which is some other session's then.
    fn leave(&mut self, place: u32) {
        let Some(of) = self.places.get_mut(place as usize) else { return };
        of.session.clear();
        of.key = std::mem::replace(&mut self.empty, place);
        self.whole -= 1;
        self.staying -= usize::from(!of.in_turn);
    }

    /// The session `key`, whole.
    #[inline]
    pub(crate) fn get_mut(&mut self, SessionKey(key): SessionKey) -> Option<&mut Session> {
        let place = match self.slots.get(key as usize)? {
            Slot::Whole(place) => *place,
            Slot::Packed(packed) => {
                let session = packed.unpack();
                self.make_whole(key, session)
            }
            Slot::Vacant(_) => return None,
        };
        self.places.get_mut(place as usize).map(|place| &mut place.session)
    }

    /// The session `key` where it is whole.
    pub(crate) fn get_whole(&self, SessionKey(key): SessionKey) -> Option<&Session> {
        match self.slots.get(key as usize)? {
            Slot::Whole(place) => self.places.get(*place as usize).map(|place| &place.session),
            _ => None,
        }
    }

    /// The session `key` where it is packed.
    pub(crate) fn get_packed(&self, SessionKey(key): SessionKey) -> Option<&Packed> {
        match self.slots.get(key as usize)? {
            Slot::Packed(packed) => Some(packed),
            _ => None,
        }
    }

    /// The number of the side of the session `key`.
    pub(crate) fn side(&self, SessionKey(key): SessionKey) -> Option<u16> {
        match self.slots.get(key as usize)? {
            Slot::Whole(place) => Some(self.places.get(*place as usize)?.session.side),
            Slot::Packed(packed) => Some(packed.side),
            Slot::Vacant(_) => None,
        }
    }

    /// Looks at sessions that are worked on next, one after the other: a processor waits for their memory together then.
    pub(crate) fn touch(&self, keys: &[(Nanos, u32)]) {
        let mut seen = 0;
        for (_, key) in keys {
            let Some(Slot::Whole(place)) = self.slots.get(*key as usize) else { continue };
            if let Some(of) = self.places.get(*place as usize) {
                seen ^= of.session.touch();
            }
        }
        std::hint::black_box(seen);
    }

    /// The alarm of the session `key`.
    pub(crate) fn alarm_mut(&mut self, SessionKey(key): SessionKey) -> Option<&mut Alarm> {
        match self.slots.get_mut(key as usize)? {
            Slot::Whole(place) => Some(&mut self.places.get_mut(*place as usize)?.session.alarm),
            Slot::Packed(packed) => Some(&mut packed.alarm),
            Slot::Vacant(_) => None,
        }
    }

    /// The connection of the session `key`, where it is established.
    pub(crate) fn connection(&self, SessionKey(key): SessionKey) -> Option<Connection> {
        match self.slots.get(key as usize)? {
            Slot::Whole(place) => {
                let session = &self.places.get(*place as usize)?.session;
                session.connection.filter(|_| session.established)
            }
            Slot::Packed(packed) => Some(packed.connection),
            Slot::Vacant(_) => None,
        }
    }

    /// There is no session of this number any more; others may have it.
    pub(crate) fn remove(&mut self, SessionKey(key): SessionKey) {
        let Some(slot) = self.slots.get_mut(key as usize) else { return };
        let was = std::mem::replace(slot, Slot::Vacant(self.vacant));
        match was {
            Slot::Vacant(next) => return *slot = Slot::Vacant(next),
            Slot::Whole(place) => self.leave(place),
            Slot::Packed(_) => {}
        }
        self.vacant = key;
    }

    /// Packs those that wait, as far as more are whole than are to be. Those that became whole are made up for, and a few more as long as
    /// there are some to be packed: what this does is bounded by what was done before.
    pub(crate) fn settle(&mut self, sides: &[Side]) {
        let more = if std::mem::take(&mut self.found) { 16 } else { 0 };
        for _ in 0..2 * std::mem::take(&mut self.new) + more {
            if self.whole - self.staying <= self.most {
                break;
            }
            let Some(place) = self.turns.pop_front() else { break };
            let Some(of) = self.places.get_mut(place as usize) else { continue };
            if of.session.side == NO_SIDE {
                of.in_turn = false;
                continue;
            }
            let side = sides.get(usize::from(of.session.side));
            let Some(side) = side.filter(|side| !side.script.datagrams) else {
                of.in_turn = false;
                self.staying += 1;
                continue;
            };
            match Packed::of(&of.session, side) {
                Some(packed) => {
                    let key = of.key;
                    if let Some(slot) = self.slots.get_mut(key as usize) {
                        *slot = Slot::Packed(packed);
                    }
                    self.leave(place);
                    if let Some(of) = self.places.get_mut(place as usize) {
                        of.in_turn = false;
                    }
                    self.found = true;
                }
                None => self.turns.push_back(place),
            }
        }
    }

    /// The sessions that are whole.
    #[cfg(test)]
    pub(crate) fn iter_whole(&self) -> impl Iterator<Item = &Session> {
        let all = self.places.iter().map(|place| &place.session);
        all.filter(|session| session.side != NO_SIDE)
    }
}
