//! The programs of the simulation: what each session sends, reads and when it closes, and what has to come of it.

use std::collections::BTreeMap;

use super::link::Random;
use crate::api::{Accept, Application, Event, Reason, Received, Session, SessionId, Totals};
use crate::profile::OutOfOrder;
use crate::segment::Tuple;

/// The first port of the clients; session `n` has the one `n` after it.
pub const FIRST_PORT: u16 = 1000;

/// Byte `offset` of what `side` sends in session `user`.
pub fn byte(side: usize, user: u32, offset: u64) -> u8 {
    let word = (u64::from(user) << 40) ^ (side as u64) << 36 ^ offset;
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// What is to be done for a session at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Open,
    Send(u64),
    Close,
    Abort,
    Consume(u32),
    /// It reads again.
    GoOn,
}

/// What one side of a session is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub total: u64,
    /// Bytes of a piece; a piece is offered after each pause.
    pub piece: u64,
    pub pause: u64,
    /// Whether it closes only when the other side did.
    pub waits: bool,
    pub abort_after: Option<u64>,
    pub profile: u8,
    /// How long it takes to read, where it reads by itself.
    pub reads_after: u64,
    /// Before which byte it stops reading, and for how long.
    pub stops: Option<(u64, u64)>,
}

impl Plan {
    pub fn new(random: &mut Random, aborts: bool) -> Plan {
        let total = random.pick(&[0, 1, 100, 1460, 3000, 20_000, 60_000]);
        let total = if total > 1 { random.below(total * 2) } else { total };
        let piece = random.pick(&[total, total, 100, 1460, 5000]).max(total / 40 + 1);
        Plan {
            total,
            piece,
            pause: random.pick(&[0, 1_000_000, 50_000_000, 2_000_000_000]),
            waits: random.once_in(2),
            abort_after: (aborts && random.once_in(6)).then(|| random.below(3_000_000_000)),
            profile: random.below(4) as u8,
            reads_after: random.pick(&[1_000, 1_000_000, 100_000_000, 3_000_000_000]),
            stops: random.once_in(2).then(|| {
                let seconds = random.pick(&[1, 20, 600]);
                (random.below(30_000), seconds * 1_000_000_000)
            }),
        }
    }
}

/// Whether a session reads that stops for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    #[default]
    Before,
    /// It does not read now; so many bytes wait.
    Stopped(u64),
    After,
}

/// One side of a session.
#[derive(Debug, Default)]
pub struct Record {
    pub id: Option<SessionId>,
    pub established: bool,
    pub offered: u64,
    pub acked: u64,
    pub in_order: u64,
    pub seen: Vec<bool>,
    /// All before it is there.
    pub whole: usize,
    pub seen_count: u64,
    pub reads: Reads,
    pub peer_closed: bool,
    pub close_called: bool,
    pub closed: Option<Reason>,
}

/// The programs of one side.
#[derive(Debug)]
pub struct Programs {
    pub side: usize,
    pub plans: Vec<Plan>,
    /// How many bytes the other side sends in each session.
    pub expected: Vec<u64>,
    pub records: Vec<Record>,
    /// By profile, whether data out of order is dropped.
    pub out_of_order: Vec<OutOfOrder>,
    /// What is to be done when the stack returns: session, how much later, what.
    pub todo: Vec<(u32, u64, Action)>,
    pub broken: Option<String>,
    /// How many sessions stopped reading.
    pub stops: u64,
    /// Segments with data that ended sessions sent, and segments that they sent again.
    pub sent: [u64; 2],
    /// The other side's closing pieces that are still to be offered.
    pub manual: BTreeMap<u8, bool>,
}

impl Programs {
    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

impl Application for Programs {
    fn accept(&mut self, tuple: &Tuple) -> Accept {
        let user = u32::from(tuple.remote_port.wrapping_sub(FIRST_PORT));
        match self.plans.get(user as usize) {
            _ if tuple.local_port != 80 => Accept::Refuse,
            Some(plan) => Accept::Session { profile: plan.profile, user },
            None => Accept::Ignore,
        }
    }

    fn payload(&mut self, session: Session, offset: u64, into: &mut [u8]) {
        let total = self.plans[session.user as usize].total;
        if offset + into.len() as u64 > total {
            let len = into.len();
            self.breaks(format!(
                "session {}: bytes {offset}+{len} of {total} are asked for",
                session.user
            ));
        }
        for (at, to) in into.iter_mut().enumerate() {
            *to = byte(self.side, session.user, offset + at as u64);
        }
    }

    fn ending(&mut self, _: Session, totals: &Totals) {
        self.sent[0] += totals.data_segments;
        self.sent[1] += totals.retransmitted;
    }

    fn received(&mut self, session: Session, received: Received<'_>) {
        let user = session.user;
        let record = &mut self.records[user as usize];
        let mut broken = None;
        for (at, got) in received.bytes.iter().enumerate() {
            let offset = received.offset + at as u64;
            if *got != byte(1 - self.side, user, offset) {
                broken = Some(format!("session {user}: byte {offset} is wrong"));
            }
            match record.seen.get_mut(offset as usize) {
                None => broken = Some(format!("session {user}: byte {offset} was never sent")),
                Some(true) => broken = Some(format!("session {user}: byte {offset} comes again")),
                Some(seen) => *seen = true,
            }
        }
        record.seen_count += received.bytes.len() as u64;
        let advanced = received.in_order - record.in_order;
        record.in_order = received.in_order;
        let missing = record.seen.iter().skip(record.whole).position(|seen| !seen);
        record.whole = missing.map_or(record.seen.len(), |missing| record.whole + missing);
        // What fills a gap may come in pieces, of which only the last one completes it.
        let is_last = received.offset + received.bytes.len() as u64 >= received.in_order;
        if is_last && record.whole < received.in_order as usize {
            broken = Some(format!("session {user}: not all is there before {}", received.in_order));
        }
        let plan = &self.plans[user as usize];
        if advanced > 0 && self.manual.get(&plan.profile).copied().unwrap_or(false) {
            let stop = plan.stops.filter(|(at, _)| received.in_order > *at);
            match (&mut record.reads, stop) {
                (Reads::Before, Some((_, time))) => {
                    record.reads = Reads::Stopped(advanced);
                    self.stops += 1;
                    self.todo.push((user, time, Action::GoOn));
                }
                (Reads::Stopped(waiting), _) => *waiting += advanced,
                _ => self.todo.push((user, plan.reads_after, Action::Consume(advanced as u32))),
            }
        }
        if self.out_of_order[usize::from(plan.profile)] == OutOfOrder::Discard
            && advanced != received.bytes.len() as u64
        {
            broken = Some(format!("session {user}: data out of order"));
        }
        if let Some(broken) = broken {
            self.breaks(broken);
        }
    }

    fn event(&mut self, session: Session, event: Event) {
        let user = session.user;
        let plan = self.plans[user as usize];
        let record = &mut self.records[user as usize];
        let mut broken = None;
        match event {
            Event::Established => {
                (record.established, record.id) = (true, Some(session.id));
                if plan.total > 0 {
                    self.todo.push((user, 0, Action::Send(plan.piece.min(plan.total))));
                } else if !plan.waits {
                    self.todo.push((user, 0, Action::Close));
                }
                if let Some(after) = plan.abort_after {
                    self.todo.push((user, after, Action::Abort));
                }
            }
            Event::Acknowledged { offset } => {
                if offset < record.acked || offset > record.offered {
                    broken = Some(format!(
                        "session {user}: {offset} acknowledged of {}",
                        record.offered
                    ));
                }
                record.acked = offset;
            }
            Event::PeerClosed => {
                if record.peer_closed {
                    broken = Some(format!("session {user}: the peer closed twice"));
                }
                record.peer_closed = true;
                if record.in_order != self.expected[user as usize] {
                    let expected = self.expected[user as usize];
                    broken = Some(format!(
                        "session {user}: closed after {} of {expected} bytes",
                        record.in_order
                    ));
                }
                if plan.waits && record.offered == plan.total && !record.close_called {
                    self.todo.push((user, plan.pause, Action::Close));
                }
            }
            Event::Closed(reason) => {
                if record.closed.is_some() {
                    broken = Some(format!("session {user}: closed twice"));
                }
                record.closed = Some(reason);
                record.id = None;
            }
        }
        if let Some(broken) = broken {
            self.breaks(broken);
        }
    }
}
