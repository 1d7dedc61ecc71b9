//! All sessions: two cache lines for each ([`Tcb`]), and a third for those that have something unusual under way ([`Flight`]).
//!
//! The third is taken where the state machine needs it ([`Sessions::active`]) and given back when nothing is under way any more
//! ([`Sessions::rest`]). There may be one for each session, so that none is ever refused; the one that was given back last, which the
//! processor still has, is taken first, so that there are as many as were needed at a time.

use crate::flight::{ActiveTcb, Flight, PlainTcb};
use crate::prefetch::prefetch;
use crate::slab::{NONE, Slab};
use crate::tcb::{PACKED, Tcb};

/// The sessions of a stack.
#[derive(Debug)]
pub(crate) struct Sessions {
    tcbs: Slab<Tcb>,
    flights: Slab<Flight>,
    expected: usize,
    /// Has sessions keep what they have under way, to see that giving it back changes nothing.
    #[cfg(test)]
    keeps_flights: bool,
    /// How often what was under way was given back, and how often its history was kept.
    #[cfg(test)]
    given_back: [u64; 2],
}

impl Sessions {
    /// Room for `capacity` of them, at most 2^30, of which so many are expected.
    pub fn new(capacity: usize, expected: usize) -> Sessions {
        Sessions {
            tcbs: Slab::new(capacity),
            flights: Slab::new(capacity),
            expected,
            #[cfg(test)]
            keeps_flights: false,
            #[cfg(test)]
            given_back: [0; 2],
        }
    }

    /// Has the system give the memory of those that are expected, before the first is open.
    pub fn populate(&mut self) {
        self.tcbs.populate(self.expected);
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.tcbs.len()
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.tcbs.capacity()
    }

    /// Whether there can be no more.
    pub fn is_full(&self) -> bool {
        self.tcbs.is_full()
    }

    /// Takes a session in; `None` where there is no room.
    pub fn insert(&mut self, tcb: Tcb) -> Option<u32> {
        self.tcbs.insert(tcb)
    }

    /// Forgets a session.
    pub fn remove(&mut self, at: u32) {
        let flight = self.tcbs.get(at).map_or(NONE, |tcb| tcb.flight);
        self.flights.remove(flight);
        self.tcbs.remove(at);
    }

    /// The session at `at`, without what it has under way, for what that does not matter to.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&Tcb> {
        self.tcbs.get(at)
    }

    /// The session at `at`, likewise.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Tcb> {
        self.tcbs.get_mut(at)
    }

    /// The session at `at`, with what it has under way if it has. Who calls this has it take its turn, or calls [`Sessions::rest`].
    #[inline(always)]
    pub fn plain(&mut self, at: u32) -> Option<PlainTcb<'_>> {
        let tcb = self.tcbs.get_mut(at)?;
        if tcb.flight == PACKED {
            tcb.flight = self.flights.insert(Flight::unpack(tcb))?;
        }
        let flight = self.flights.get_mut(tcb.flight);
        Some(PlainTcb { tcb, flight })
    }

    /// The session at `at`, with what it has under way, which it gets where it had done without. Who calls this has it take its turn, or
    /// calls [`Sessions::rest`].
    #[inline]
    pub fn active(&mut self, at: u32) -> Option<ActiveTcb<'_>> {
        let tcb = self.tcbs.get_mut(at)?;
        match tcb.flight {
            NONE => tcb.flight = self.flights.insert(Flight::of_plain(tcb))?,
            PACKED => tcb.flight = self.flights.insert(Flight::unpack(tcb))?,
            _ => {}
        }
        let flight = self.flights.get_mut(tcb.flight)?;
        Some(ActiveTcb { tcb, flight })
    }

    /// Bytes of data that were offered since the session at `at` began.
    #[inline]
    pub fn offered(&self, at: u32) -> Option<u64> {
        let tcb = self.tcbs.get(at)?;
        // one that is idle has nothing that is not acknowledged
        let waits = match tcb.flight {
            PACKED => 0,
            flight => {
                let more = self.flights.get(flight).map_or(0, |flight| flight.more);
                more.saturating_add(tcb.queued.into())
            }
        };
        Some(tcb.acked.saturating_add(waits))
    }

    /// What the session at `at` is like, and has under way or would have if it needed it.
    pub fn snapshot(&self, at: u32) -> Option<(Tcb, Flight)> {
        let mut tcb = self.tcbs.get(at)?.clone();
        let flight = match tcb.flight {
            NONE => Flight::of_plain(&tcb),
            PACKED => Flight::unpack(&mut tcb),
            at => self.flights.get(at)?.clone(),
        };
        tcb.flight = NONE;
        Some((tcb, flight))
    }

    /// Gives back what the session at `at` has under way, if that is nothing.
    #[inline]
    pub fn rest(&mut self, at: u32) {
        let Some(tcb) = self.tcbs.get_mut(at) else { return };
        if tcb.outstanding() == 0 {
            self.rest_idle(at);
        }
    }

    /// As [`Sessions::rest`], where nothing is in the network.
    fn rest_idle(&mut self, at: u32) {
        let Some(tcb) = self.tcbs.get_mut(at) else { return };
        let Some(flight) = self.flights.get(tcb.flight) else { return };
        #[cfg(test)]
        if self.keeps_flights {
            return;
        }
        if flight.is_idle(tcb) {
            let rest = flight.pack(tcb);
            #[cfg(test)]
            (self.given_back[usize::from(rest == PACKED)] += 1);
            self.flights.remove(std::mem::replace(&mut tcb.flight, rest));
        }
    }

    /// Asks for both lines of the session at `at`, if there is memory for one.
    #[inline(always)]
    pub fn prefetch(&self, at: u32) {
        if let Some(tcb) = self.tcbs.slot(at) {
            tcb.prefetch();
        }
    }

    /// Asks for the first line of the session at `at`, which tells whether a timer is for anything.
    #[inline(always)]
    pub fn prefetch_timer(&self, at: u32) {
        if let Some(tcb) = self.tcbs.slot(at) {
            prefetch(&tcb.marks);
        }
    }

    /// Asks for what the session at `at` has under way, and gives the word of its embedder. The processor should have the session by now.
    #[inline(always)]
    pub fn prefetch_flight(&self, at: u32) -> Option<u32> {
        let tcb = self.tcbs.get(at)?;
        if let Some(flight) = self.flights.slot(tcb.flight) {
            prefetch(flight);
        }
        Some(tcb.user)
    }
}

#[cfg(test)]
impl Sessions {
    /// How many slots there is memory for: those of sessions, and those of what they have under way.
    pub fn reserved(&self) -> [usize; 2] {
        [self.tcbs.reserved(), self.flights.reserved()]
    }

    /// Bytes of memory that were used at some time.
    pub fn touched(&self) -> usize {
        self.tcbs.touched() + self.flights.touched()
    }

    /// How many have something under way.
    pub fn active_len(&self) -> usize {
        self.flights.len()
    }

    /// Has none give back what it has under way.
    pub fn keep_flights(&mut self) {
        self.keeps_flights = true;
    }

    /// Whether none does.
    pub fn keeps_flights(&self) -> bool {
        self.keeps_flights
    }

    /// How often it was given back without and with a history that had to be kept.
    pub fn given_back(&self) -> [u64; 2] {
        self.given_back
    }

    /// Whether the session at `at` does without.
    pub fn rests(&self, at: u32) -> bool {
        self.tcbs.get(at).is_some_and(|tcb| matches!(tcb.flight, NONE | PACKED))
    }

    /// Those that are open, without what they have under way.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Tcb)> {
        self.tcbs.iter()
    }

    /// Those that are open, with what they have under way.
    pub fn snapshots(&self) -> impl Iterator<Item = (u32, (Tcb, Flight))> {
        self.tcbs.iter().filter_map(|(at, _)| Some((at, self.snapshot(at)?)))
    }
}
