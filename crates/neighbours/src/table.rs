//! The table of next hops: whom we know, whom we ask, and whom we gave up on. As large as it was made, whatever arrives.
//!
//! An entry that is asked for stands in one of two queues: `fresh` (a question is to be sent) and `waiting` (it was sent). All wait
//! equally long, so that both are in order without sorting. Nothing here knows packets.

use std::collections::VecDeque;
use std::net::IpAddr;

use wirebeat_units::Nanos;
use wirebeat_wire::mac::MacAddr;

use crate::index::{Index, hash};

/// Questions until a next hop is given up (RFC 4861 §10, MAX_MULTICAST_SOLICIT and MAX_UNICAST_SOLICIT; Linux asks as often by ARP).
pub(crate) const QUESTIONS_MAX: u8 = 3;
/// How long an answer may take (RFC 4861 §10, RETRANS_TIMER; RFC 1122 §2.3.2.1 allows one question each second).
pub(crate) const ANSWER_TIME: Nanos = Nanos::from_secs(1);
/// How many entries are looked at for one that may be replaced, so that the time for a new one is bounded.
const LOOK_MAX: u32 = 64;
/// No entry.
const NONE: u32 = u32::MAX;

/// What is known of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its link-layer address.
    Known(MacAddr),
    /// It is being asked for.
    Asking,
    /// It did not answer, or there is no address of ours to ask from. The next packet asks again.
    Failed,
    /// Nobody asked.
    Unknown,
}

/// That a next hop that was asked for answered, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which one.
    pub next_hop: IpAddr,
    /// Its address; `None`: it did not answer.
    pub mac: Option<MacAddr>,
}

/// A question that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub target: IpAddr,
    /// Whom it is sent to alone, to confirm that it is still there.
    pub known: Option<MacAddr>,
}

/// How an address came to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// As an answer; counts where there was a question.
    Answer,
    /// Told to all, without question; changes what is known.
    Announcement,
    /// In a question for one of our hosts.
    Question,
    /// As the source of a packet; counts where nothing is known. With `confirm` a question follows.
    Packet { confirm: bool },
    /// By the embedder; stays.
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Vacant,
    Asking,
    Known,
    /// Known, and asked for again.
    Confirming,
    Failed,
    Fixed,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: IpAddr,
    mac: MacAddr,
    phase: Phase,
    /// Questions sent so far.
    asked: u8,
    /// Whether it was used since the hand passed.
    used: bool,
    /// Whether it stands in `changes`.
    told: bool,
    /// When the answer is overdue, or where it is known: when it has to be confirmed.
    due: Nanos,
    /// Its neighbours in its queue; `next` also of vacant entries.
    previous: u32,
    next: u32,
}

const VACANT: Entry = Entry {
    address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
    mac: MacAddr([0; 6]),
    phase: Phase::Vacant,
    asked: 0,
    used: false,
    told: false,
    due: Nanos::ZERO,
    previous: NONE,
    next: NONE,
};

/// A queue through the entries.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

/// The last next hop that was looked up, until it has to be looked up again.
#[derive(Clone, Copy, Debug)]
struct Last {
    address: IpAddr,
    mac: MacAddr,
    until: Nanos,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Box<[Entry]>,
    index: Index,
    key: [u64; 2],
    vacant: u32,
    fresh: Queue,
    waiting: Queue,
    /// Entries that were asked for and of which something is to be told, each once.
    changes: VecDeque<u32>,
    /// Where the search for an entry to replace goes on.
    hand: u32,
    confirm_after: Nanos,
    last: Option<Last>,
    /// Entries for which there was no room.
    pub full: u64,
    /// Next hops that did not answer.
    pub failed: u64,
}

impl Table {
    /// For `capacity` next hops, which are to be confirmed after `confirm_after`.
    pub fn new(capacity: u32, key: [u64; 2], confirm_after: Nanos) -> Table {
        let capacity = capacity.clamp(1, 1 << 24);
        let entries = (1..=capacity)
            .map(|next| Entry { next: if next < capacity { next } else { NONE }, ..VACANT });
        let queue = Queue { first: NONE, last: NONE };
        Table {
            entries: entries.collect(),
            index: Index::new(capacity as usize),
            key,
            vacant: 0,
            fresh: queue,
            waiting: queue,
            changes: VecDeque::with_capacity(capacity as usize),
            hand: 0,
            confirm_after,
            last: None,
            full: 0,
            failed: 0,
        }
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&Entry> {
        self.entries.get(id as usize)
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)
    }

    fn find(&self, address: IpAddr) -> Option<u32> {
        let is_it = |id| self.get(id).is_some_and(|entry| entry.address == address);
        self.index.find(hash(self.key, address) as u32, is_it)
    }

    /// The link-layer address of a next hop, where it is the one that was looked up last and that still holds.
    #[inline]
    pub fn last_used(&self, now: Nanos, address: IpAddr) -> Option<MacAddr> {
        let last = self.last?;
        (last.address == address && now < last.until).then_some(last.mac)
    }

    /// The link-layer address of a next hop; where it is not known, or has to be confirmed, it is asked for.
    pub fn look_up(&mut self, now: Nanos, address: IpAddr) -> Option<MacAddr> {
        let Some(id) = self.find(address) else {
            let id = self.insert(address)?;
            self.ask(id, Phase::Asking);
            return None;
        };
        let entry = self.get_mut(id)?;
        entry.used = true;
        let mac = entry.mac;
        let until = match entry.phase {
            Phase::Asking | Phase::Vacant => return None,
            Phase::Failed => {
                self.ask(id, Phase::Asking);
                return None;
            }
            Phase::Known if entry.due <= now => {
                self.ask(id, Phase::Confirming);
                Nanos::MAX
            }
            Phase::Known => entry.due,
            Phase::Confirming | Phase::Fixed => Nanos::MAX,
        };
        self.last = Some(Last { address, mac, until });
        Some(mac)
    }

    /// What is known of a next hop.
    pub fn state(&self, address: IpAddr) -> State {
        let Some(entry) = self.find(address).and_then(|id| self.get(id)) else {
            return State::Unknown;
        };
        match entry.phase {
            Phase::Vacant => State::Unknown,
            Phase::Asking => State::Asking,
            Phase::Failed => State::Failed,
            Phase::Known | Phase::Confirming | Phase::Fixed => State::Known(entry.mac),
        }
    }

    /// Somebody says that `address` is at `mac`. Says whether the table changed.
    pub fn hear(&mut self, now: Nanos, address: IpAddr, mac: MacAddr, source: Source) -> bool {
        let id = match self.find(address) {
            Some(id) => id,
            None if matches!(source, Source::Answer | Source::Announcement) => return false,
            None => match self.insert(address) {
                Some(id) => id,
                None => return false,
            },
        };
        let Some(entry) = self.get_mut(id) else { return false };
        let (phase, before) = (entry.phase, entry.mac);
        let counts = match source {
            Source::Fixed => true,
            _ if phase == Phase::Fixed => false,
            Source::Answer => matches!(phase, Phase::Asking | Phase::Confirming),
            Source::Announcement | Source::Question => true,
            Source::Packet { .. } => {
                matches!(phase, Phase::Vacant | Phase::Asking | Phase::Failed)
            }
        };
        if !counts {
            return false;
        }
        let was_asked = matches!(phase, Phase::Asking | Phase::Confirming);
        if was_asked {
            self.leave(id);
        }
        let due = now.saturating_add(self.confirm_in(address));
        let Some(entry) = self.get_mut(id) else { return false };
        entry.mac = mac;
        entry.due = due;
        entry.phase = if source == Source::Fixed { Phase::Fixed } else { Phase::Known };
        if self.last.is_some_and(|last| last.address == address) {
            self.last = None;
        }
        if phase == Phase::Asking || phase == Phase::Failed {
            self.tell(id);
        }
        if source == (Source::Packet { confirm: true }) {
            self.ask(id, Phase::Confirming);
        }
        !matches!(phase, Phase::Known | Phase::Confirming | Phase::Fixed) || before != mac
    }

    /// In what time it is to be confirmed: up to half as long again as was asked for, by its address, so that those that came at once
    /// are not asked at once.
    fn confirm_in(&self, address: IpAddr) -> Nanos {
        let share = hash(self.key, address) >> 32 & 0xff;
        let more = self.confirm_after.get() / 512 * share;
        self.confirm_after.saturating_add(Nanos::new(more))
    }

    /// The next question that is to be sent. Those that are due are asked again, or given up.
    pub fn next_question(&mut self, now: Nanos) -> Option<Question> {
        self.expire(now);
        let id = self.fresh.first;
        self.unlink(id, true);
        let entry = self.get_mut(id)?;
        entry.asked += 1;
        entry.due = now.saturating_add(ANSWER_TIME);
        let known = (entry.phase == Phase::Confirming).then_some(entry.mac);
        let question = Question { target: entry.address, known };
        self.link(id, false);
        Some(question)
    }

    /// Gives up whom we asked often enough, and asks the others that are due again.
    pub fn expire(&mut self, now: Nanos) {
        while let Some(entry) = self.get(self.waiting.first).filter(|entry| entry.due <= now) {
            let id = self.waiting.first;
            let (asked, address) = (entry.asked, entry.address);
            self.unlink(id, false);
            if asked < QUESTIONS_MAX {
                self.link(id, true);
                continue;
            }
            if let Some(entry) = self.get_mut(id) {
                entry.phase = Phase::Failed;
            }
            self.failed += 1;
            self.tell(id);
            if self.last.is_some_and(|last| last.address == address) {
                self.last = None;
            }
        }
    }

    /// When the first answer is overdue; zero where a question is to be sent at once.
    pub fn next_time(&self) -> Option<Nanos> {
        if self.fresh.first != NONE {
            return Some(Nanos::ZERO);
        }
        self.get(self.waiting.first).map(|entry| entry.due)
    }

    /// The next of those that answered or were given up.
    pub fn next_change(&mut self) -> Option<Change> {
        while let Some(id) = self.changes.pop_front() {
            let Some(entry) = self.get_mut(id) else { continue };
            entry.told = false;
            let next_hop = entry.address;
            match entry.phase {
                Phase::Known | Phase::Confirming | Phase::Fixed => {
                    return Some(Change { next_hop, mac: Some(entry.mac) });
                }
                Phase::Failed => return Some(Change { next_hop, mac: None }),
                // It is asked for again already.
                Phase::Asking | Phase::Vacant => {}
            }
        }
        None
    }

    fn tell(&mut self, id: u32) {
        if let Some(entry) = self.get_mut(id).filter(|entry| !entry.told) {
            entry.told = true;
            self.changes.push_back(id);
        }
    }

    /// Begins to ask.
    fn ask(&mut self, id: u32, phase: Phase) {
        if let Some(entry) = self.get_mut(id) {
            entry.phase = phase;
            entry.asked = 0;
            entry.due = Nanos::ZERO;
            self.link(id, true);
        }
    }

    /// Takes an entry that is asked for out of its queue.
    fn leave(&mut self, id: u32) {
        // Only in `fresh` nothing is due.
        let is_fresh = self.get(id).is_some_and(|entry| entry.due == Nanos::ZERO);
        self.unlink(id, is_fresh);
    }

    fn queue(&mut self, is_fresh: bool) -> &mut Queue {
        if is_fresh { &mut self.fresh } else { &mut self.waiting }
    }

    /// Puts an entry at the end of a queue.
    fn link(&mut self, id: u32, is_fresh: bool) {
        let queue = self.queue(is_fresh);
        let previous = std::mem::replace(&mut queue.last, id);
        if queue.first == NONE {
            queue.first = id;
        }
        if let Some(entry) = self.get_mut(previous) {
            entry.next = id;
        }
        if let Some(entry) = self.get_mut(id) {
            (entry.previous, entry.next) = (previous, NONE);
            if is_fresh {
                entry.due = Nanos::ZERO;
            }
        }
    }

    /// Takes an entry out of a queue that it stands in.
    fn unlink(&mut self, id: u32, is_fresh: bool) {
        let Some(entry) = self.get_mut(id) else { return };
        let (previous, next) = (entry.previous, entry.next);
        (entry.previous, entry.next) = (NONE, NONE);
        match self.get_mut(previous) {
            Some(entry) => entry.next = next,
            None => self.queue(is_fresh).first = next,
        }
        match self.get_mut(next) {
            Some(entry) => entry.previous = previous,
            None => self.queue(is_fresh).last = previous,
        }
    }

    /// A new entry, vacant but for its address: in a vacant place, or in that of one that was not used for long.
    fn insert(&mut self, address: IpAddr) -> Option<u32> {
        let id = match self.vacant {
            NONE => self.replaceable(),
            id => Some(id),
        };
        let Some(id) = id else {
            self.full += 1;
            return None;
        };
        let old = *self.get(id)?;
        if old.phase == Phase::Vacant {
            self.vacant = old.next;
        } else {
            self.index.remove(hash(self.key, old.address) as u32, id);
            if self.last.is_some_and(|last| last.address == old.address) {
                self.last = None;
            }
        }
        *self.get_mut(id)? = Entry { address, ..VACANT };
        self.index.insert(hash(self.key, address) as u32, id);
        Some(id)
    }

    /// An entry that nobody waits for, if there is one that nobody used since the hand passed (a clock's second chance).
    fn replaceable(&mut self) -> Option<u32> {
        let mut used = None;
        for _ in 0..LOOK_MAX {
            let id = self.hand;
            self.hand = if self.hand as usize + 1 < self.entries.len() { self.hand + 1 } else { 0 };
            let entry = self.get_mut(id)?;
            if entry.told || !matches!(entry.phase, Phase::Known | Phase::Failed) {
                continue;
            }
            if !std::mem::replace(&mut entry.used, false) {
                return Some(id);
            }
            used = used.or(Some(id));
        }
        used
    }
}
