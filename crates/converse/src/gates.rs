//! Groups that begin when another has so many sessions established, or stop when they have them themselves, on whatever core and at
//! whatever port those are.
//!
//! What loops of a run share: a counter for each group that waits, touched by sessions of the groups that are waited for alone and
//! read once in a turn by the loops that wait; and whether the run is over, so that no loop takes the end of a session for the peer's doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_units::Nanos;

/// What becomes of a group when there is what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Begin,
    Stop,
}

/// What one group waits for.
#[derive(Debug)]
struct Gate {
    /// The group that waits.
    group: u16,
    does: Does,
    /// The group that is waited for, and how many of its sessions are to be established.
    watched: u16,
    needed: u64,
    established: AtomicU64,
    /// When there were as many; `u64::MAX`: not yet.
    opened: AtomicU64,
    /// How many loops may still establish some.
    loops: AtomicU32,
}

/// What all groups of a run wait for.
#[derive(Debug, Default)]
pub struct Gates {
    all: Vec<Gate>,
    /// Whether clients of the run are closed, wherever their sessions stand.
    over: AtomicBool,
}

/// Whether it is at this end that a group's sessions are counted: that of our clients, or of our servers where the clients are
/// somebody else's.
pub(crate) fn counts(group: &SessionGroup) -> bool {
    match group.from {
        Some(_) => group.client.is_some(),
        None => group.server.is_some(),
    }
}

impl Gates {
    /// For the loops of a run: `shares` are the sessions of each, all with the same groups.
    pub fn new<'a>(shares: impl Iterator<Item = &'a Sessions> + Clone) -> Arc<Gates> {
        let groups = shares.clone().next().map_or(&[][..], |sessions| &sessions.groups);
        let waiting = (0_u16..).zip(groups);
        let gate = |group: u16, does: Does, watched: u16, needed: u64| {
            let watches = |sessions: &&Sessions| {
                sessions.groups.get(usize::from(watched)).is_some_and(counts)
            };
            Gate {
                group,
                does,
                watched,
                needed,
                established: AtomicU64::new(0),
                opened: AtomicU64::new(u64::MAX),
                loops: AtomicU32::new(shares.clone().filter(watches).count() as u32),
            }
        };
        let gates = |(group, plan): (u16, &SessionGroup)| {
            let after = plan.after.map(|of| gate(group, Does::Begin, of.group, of.established));
            let until = plan.until.map(|needed| gate(group, Does::Stop, group, needed));
            after.into_iter().chain(until)
        };
        Arc::new(Gates { all: waiting.flat_map(gates).collect(), over: AtomicBool::new(false) })
    }

    fn of(&self, group: u16, does: Does) -> Option<&Gate> {
        self.all.iter().find(|gate| gate.group == group && gate.does == does)
    }

    /// The run closes its clients from now on: said before the first of them is closed.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether clients of the run were closed, wherever their sessions stood.
    pub(crate) fn are_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether any group waits for `group`.
    pub(crate) fn watch(&self, group: u16) -> bool {
        self.all.iter().any(|gate| gate.watched == group)
    }

    /// A session of `group` is established.
    pub(crate) fn established(&self, group: u16, now: Nanos) {
        for gate in self.all.iter().filter(|gate| gate.watched == group) {
            if gate.established.fetch_add(1, Ordering::AcqRel) + 1 == gate.needed {
                gate.opened.store(now.get(), Ordering::Release);
            }
        }
    }

    /// When the group began that waits; `None`: not yet.
    pub(crate) fn opened(&self, group: u16) -> Option<Nanos> {
        let opened = self.of(group, Does::Begin)?.opened.load(Ordering::Acquire);
        (opened < u64::MAX).then_some(Nanos::new(opened))
    }

    /// When a group had the sessions that it was to reach; `None`: not yet, or it was to reach nothing.
    pub fn reached(&self, group: u16) -> Option<Nanos> {
        let reached = self.of(group, Does::Stop)?.opened.load(Ordering::Acquire);
        (reached < u64::MAX).then_some(Nanos::new(reached))
    }

    /// A loop establishes no more sessions of `group`.
    pub(crate) fn leave(&self, group: u16) {
        for gate in self.all.iter().filter(|gate| gate.watched == group) {
            let less = |loops: u32| loops.checked_sub(1);
            let _ = gate.loops.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
    }

    /// Whether the group never begins: nobody establishes what it waits for any more.
    pub(crate) fn is_vain(&self, group: u16) -> bool {
        self.of(group, Does::Begin).is_some_and(|gate| gate.loops.load(Ordering::Acquire) == 0)
            && self.opened(group).is_none()
    }
}
