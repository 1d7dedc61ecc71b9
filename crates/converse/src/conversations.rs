//! All sessions of a core: starts them, runs their programs, and notes how they end.
//!
//! What happens comes in by [`Programs`] (`events.rs`), by starts and by alarms; what programs want goes out as [`Action`]s.
//! `interpreter.rs` runs the ops, `http.rs` is the one protocol that has a state of its own. Sessions lie in `sessions.rs`; what is
//! done with all of them is in `sweeps.rs`. A session that has ended makes room at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use wirebeat_meter::session::{SessionCounts, SessionMeter, SessionSummary};
use wirebeat_meter::summary::Distribution;
use wirebeat_traffic::program::script::{Op, Receive, SessionGroup, Sessions};
use wirebeat_traffic::schedule::Shard;
use wirebeat_traffic::values::session::{Beyond, Pairing, PoolOrder, StackChoice, Transport, gap};
use wirebeat_units::Nanos;

use crate::alarms::Alarms;
use crate::gates::{self, Gates};
use crate::greeting::Greeting;
use crate::messages::Messages;
use crate::pacer::Pacer;
use crate::session::{End, Protocol, Session, Side};
use crate::sessions::{AllSessions, Room};
use crate::stack::{Action, ProfileId, SessionKey};
use crate::sweeps::{Closing, Sweep};

/// The most alarms that ring before others have their turn.
const ALARMS_MAX: usize = 4096;
/// So many of them are taken at a time.
const RUNG: usize = 32;
/// How long a user waits at least after a session that failed.
const AFTER_FAILURE: Nanos = Nanos::from_millis(10);

/// What a session begins with.
pub(crate) fn first_protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Tcp | Transport::Sctp => Protocol::None,
        Transport::Udp => Protocol::Messages(Messages::default()),
    }
}

/// Where both ends are put together by a number: what a session knows of it at first.
pub(crate) fn first_greeting(pair: Pairing) -> Option<Box<Greeting>> {
    match pair {
        Pairing::Totals => None,
        Pairing::Payload => Some(Box::default()),
    }
}

/// A group of sessions on this core.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) plan: SessionGroup,
    /// The numbers of its sides.
    pub(crate) client: Option<u16>,
    pub(crate) server: Option<u16>,
    /// When it stops starting sessions, on the clock of the run.
    pub(crate) stop: Nanos,
    /// The most that may be open on this core.
    open_max: u64,
    /// Starts that wait for room, or for their slot.
    queued: VecDeque<Start>,
    /// How fast sessions open, close and send.
    opening: Pacer,
    /// Whether those that wait do so for their slot.
    waits_for_slot: bool,
    pub(crate) closing: Pacer,
    pub(crate) sending: Pacer,
    /// Whether another group waits for sessions of this one.
    pub(crate) is_watched: bool,
    /// Sessions of users that were started, for their numbers.
    by_users: u64,
    /// The most sessions that users of this core start.
    users_count: u64,
    /// Clients of this core so far, for their addresses; where it does not count them, by the number of the session.
    clients: Option<u64>,
}

impl Group {
    /// Whether its sessions last until clients of this run are done with them.
    pub(crate) fn is_left_by_clients(&self) -> bool {
        self.plan.both_ends
    }
}

/// A session that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    planned: Nanos,
    /// Its number over all cores.
    number: u64,
    /// The user whose it is, in the closed model.
    user: Option<u32>,
}

/// All sessions of a core.
#[derive(Debug)]
pub struct Conversations {
    pub(crate) groups: Vec<Group>,
    pub(crate) sides: Vec<Side>,
    /// The group of each side.
    pub(crate) group_of: Vec<u16>,
    pub(crate) sessions: AllSessions,
    /// What is to be done with all sessions, in this order.
    pub(crate) sweeps: VecDeque<Sweep>,
    pub(crate) closing: Closing,
    pub(crate) alarms: Alarms,
    /// Those that are due, a few at a time.
    rung: Vec<(Nanos, u32)>,
    pub(crate) actions: VecDeque<Action>,
    /// When users start their next sessions: the time, the group and the user.
    users: BinaryHeap<Reverse<(Nanos, u16, u32)>>,
    /// How late a session may start before it is counted as expired.
    drift: Option<Nanos>,
    core: Shard,
    /// What groups wait for.
    pub(crate) gates: Arc<Gates>,
    /// The groups whose sessions open by slots.
    paced: Vec<u16>,
    /// Whether no session starts any more.
    over: bool,
    /// Which clock its times are of, as messages one way name it.
    pub(crate) clock: u32,
    /// Memory for what is sent back: of a session that has nothing to send back, it is here for others.
    pub(crate) spare: Vec<Vec<u8>>,
    /// The session whose bytes are handed to its steps just now.
    pub(crate) takes: Option<SessionKey>,
    /// Whether all were closed: a datagram that comes now opens none.
    pub(crate) closed: bool,
}

impl Conversations {
    /// Those of the groups of `sessions` that this core has, from `begin` on. `drift`: how late a session may start.
    pub fn new(
        sessions: &Sessions,
        core: Shard,
        begin: Nanos,
        drift: Option<Nanos>,
    ) -> Conversations {
        let mut all = Conversations {
            groups: Vec::new(),
            sides: Vec::new(),
            group_of: Vec::new(),
            sessions: AllSessions::new(),
            sweeps: VecDeque::new(),
            closing: Closing::default(),
            alarms: Alarms::default(),
            rung: Vec::with_capacity(RUNG),
            actions: VecDeque::new(),
            users: BinaryHeap::new(),
            drift,
            core,
            gates: Gates::new(std::iter::once(sessions)),
            paced: Vec::new(),
            over: false,
            clock: 0,
            spare: Vec::new(),
            takes: None,
            closed: false,
        };
        for (number, plan) in (0_u16..).zip(&sessions.groups) {
            all.add(number, plan, begin);
        }
        all
    }

    /// Puts sessions there, where there are none yet.
    pub fn take_room(&mut self, room: Room) {
        self.sessions.take_room(room);
    }

    /// Names the clock that the times of this run are of: those of two runs are compared where the name is the same. 0, which it is at
    /// first, stands for a virtual clock.
    pub fn name_clock(&mut self, clock: u32) {
        self.clock = clock;
    }

    /// What groups wait for is counted there, for all loops of a run.
    pub(crate) fn share(&mut self, gates: Arc<Gates>) {
        self.gates = gates;
    }

    fn add(&mut self, number: u16, plan: &SessionGroup, begin: Nanos) {
        let client = self.add_side(number, End::Client, plan);
        let server = self.add_side(number, End::Server, plan);
        let share = |all: u64| {
            let (number, of) = (u64::from(self.core.core), u64::from(self.core.cores.max(1)));
            all / of + u64::from(number < all % of)
        };
        let limit = plan.limit.unwrap_or_default();
        let open_max = limit.most_open().map_or(u64::MAX, |open| share(open.into()).max(1));
        let pacer = |rate| Pacer::new(gap(rate, self.core.cores));
        let opening = pacer(limit.opening);
        if opening.limits() && client.is_some() {
            self.paced.push(number);
        }
        self.groups.push(Group {
            // of one that waits, that of the run until it begins
            stop: begin.saturating_add(plan.after.map_or(plan.stop, |_| plan.end)),
            open_max,
            queued: VecDeque::new(),
            opening,
            waits_for_slot: false,
            closing: pacer(limit.closing),
            sending: pacer(limit.sending),
            is_watched: self.gates.watch(number),
            by_users: 0,
            users_count: match plan.count {
                u64::MAX => u64::MAX,
                count => share(count),
            },
            // cores of our own TCP share the ports of each address, so each of them takes all addresses in turn: numbers that are
            // divided among the cores would bring an address to one core alone
            clients: (plan.stack == StackChoice::Own
                && self.core.cores > 1
                && plan.clients.pool.order == PoolOrder::InTurn)
                .then_some(0),
            client,
            server,
            plan: plan.clone(),
        });
        if plan.after.is_none() {
            self.start_users(number, begin);
        }
    }

    /// The groups that others wait for, as far as their sessions are counted here.
    pub(crate) fn watched(&self) -> Vec<u16> {
        let all = (0_u16..).zip(&self.groups);
        let watched = all.filter(|(_, of)| of.is_watched && gates::counts(&of.plan));
        watched.map(|(group, _)| group).collect()
    }

    /// When a group stops.
    pub(crate) fn stop_of(&self, group: u16) -> Nanos {
        self.groups.get(usize::from(group)).map_or(Nanos::ZERO, |of| of.stop)
    }

    /// The users of a group begin; its times count from `begin`.
    fn start_users(&mut self, group: u16, begin: Nanos) {
        let Some(of) = self.groups.get(usize::from(group)) else { return };
        let start = begin.saturating_add(of.plan.start);
        let all = u64::from(of.plan.users.unwrap_or(0));
        let (number, cores) = (u64::from(self.core.core), u64::from(self.core.cores.max(1)));
        for user in 0..all / cores + u64::from(number < all % cores) {
            self.users.push(Reverse((start, group, user as u32)));
        }
    }

    /// The group that waited begins at `begin`, in a run whose times count from `run`.
    pub(crate) fn begin_group(&mut self, group: u16, begin: Nanos, run: Nanos) {
        if let Some(of) = self.groups.get_mut(usize::from(group)) {
            let end = run.saturating_add(of.plan.end);
            of.stop = of.stop.min(begin.saturating_add(of.plan.stop).min(end));
        }
        self.start_users(group, begin);
    }

    fn add_side(&mut self, group: u16, end: End, plan: &SessionGroup) -> Option<u16> {
        let both = plan.both_ends;
        let script = match end {
            End::Client => plan.client.as_ref()?,
            End::Server => plan.server.as_ref()?,
        };
        // of bulk data, everything is one stream of generated bytes
        let is_bulk = !script
            .ops
            .iter()
            .any(|op| !matches!(op, Op::Send(_) | Op::Shutdown | Op::WaitClose | Op::UntilStop));
        let side = self.sides.len() as u16;
        self.sides.push(Side {
            end,
            script: Arc::clone(script),
            meter: SessionMeter::new(script.timers.len()),
            verifies: both && script.compares,
            verifies_stream: both && script.compares && is_bulk,
            answers: end == End::Server
                && !script.datagrams
                && matches!(plan.program, "request-response" | "capture"),
            unmarked: (plan.program == "steps" || script.datagrams && plan.program == "capture")
                && !script.ops.iter().any(|op| matches!(op, Op::Request | Op::Response)),
            keeps: match script.datagrams {
                true => matches!(plan.program, "steps" | "capture"),
                false => {
                    let looks = |op: &Op| matches!(op, Op::ReceiveHttp(_));
                    !script.texts.is_empty()
                        || script.lengths.contains(&Receive::Prefixed)
                        || script.ops.iter().any(looks)
                }
            },
        });
        self.group_of.push(group);
        Some(side)
    }

    /// The next thing that a program wants.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A session of group `group` was due at `planned`; `number` is its number over all cores.
    pub fn start(&mut self, now: Nanos, group: u16, planned: Nanos, number: u64) {
        let Some(of) = self.groups.get_mut(usize::from(group)) else { return };
        let Some(side) = of.client else { return };
        let Some(meter) = self.sides.get_mut(usize::from(side)).map(|side| &mut side.meter) else {
            return;
        };
        meter.counts.due += 1;
        let late = self.drift.is_some_and(|drift| now > planned.saturating_add(drift));
        if late {
            meter.counts.expired += 1;
            meter.counts.expired_late += 1;
            return;
        }
        let open = meter.counts.open().saturating_add(of.queued.len() as u64);
        if open >= of.open_max && of.plan.limit.is_none_or(|limit| limit.beyond == Beyond::Expire) {
            meter.counts.expired += 1;
            return;
        }
        self.open_in_turn(now, group, Start { planned, number, user: None });
    }

    /// So many starts of a group were due, and did not happen because this machine was too late.
    pub(crate) fn pass_over(&mut self, group: u16, many: u64) {
        let client = self.groups.get(usize::from(group)).and_then(|of| of.client);
        let side = client.and_then(|side| self.sides.get_mut(usize::from(side)));
        if let Some(counts) = side.map(|side| &mut side.meter.counts) {
            counts.due = counts.due.saturating_add(many);
            counts.expired = counts.expired.saturating_add(many);
            counts.expired_late = counts.expired_late.saturating_add(many);
        }
    }

    /// Opens a session when there is room and it is its turn.
    fn open_in_turn(&mut self, now: Nanos, group: u16, start: Start) {
        if let Some(of) = self.groups.get_mut(usize::from(group)) {
            of.queued.push_back(start);
        }
        self.open_queued(now, group);
    }

    /// Opens those that wait, as far as there is room and slots.
    fn open_queued(&mut self, now: Nanos, group: u16) {
        while let Some(of) = self.groups.get_mut(usize::from(group)) {
            let side = of.client.and_then(|side| self.sides.get(usize::from(side)));
            let open = side.map_or(0, |side| side.meter.counts.open());
            let slot_to_come = of.opening.next() > now;
            if open >= of.open_max || of.queued.is_empty() || slot_to_come {
                of.waits_for_slot = slot_to_come && open < of.open_max && !of.queued.is_empty();
                return;
            }
            let Some(start) = of.queued.pop_front() else { return };
            match of.waits_for_slot {
                true => of.opening.take_due(now),
                false => _ = of.opening.take(now),
            }
            self.open(now, group, start);
        }
    }

    /// Opens a session.
    fn open(&mut self, now: Nanos, group: u16, Start { planned, number, user }: Start) {
        let Some(of) = self.groups.get_mut(usize::from(group)) else { return };
        let Some(side) = of.client else { return };
        let (address, port) = of.plan.servers.get(number);
        let remote = address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let client = of.clients.unwrap_or(number);
        of.clients = of.clients.map(|clients| clients.wrapping_add(1));
        let (local, local_port) = of.plan.clients.get(client);
        let unspecified: IpAddr = match remote {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(local.unwrap_or(unspecified), local_port);
        let timeout = of.plan.timeout;
        let mut session = Session::new(side, number, planned, now);
        session.user = user;
        session.protocol = first_protocol(of.plan.transport);
        session.greeting = first_greeting(of.plan.pair);
        let key = self.sessions.insert(session);
        if let Some(side) = self.sides.get_mut(usize::from(side)) {
            side.meter.counts.opened += 1;
            side.meter.note_open(now);
            side.meter.started(planned, now);
        }
        self.set_alarm(key, now.saturating_add(timeout));
        self.actions.push_back(Action::Connect {
            session: key,
            profile: ProfileId(group),
            local,
            remote: SocketAddr::new(remote, port),
        });
    }

    pub(crate) fn set_alarm(&mut self, key: SessionKey, at: Nanos) {
        if let Some(alarm) = self.sessions.alarm_mut(key) {
            self.alarms.set(alarm, key.0, at);
        }
    }

    /// When something is to be done here without anything happening: an alarm, or a user who starts a session.
    pub fn next_time(&self) -> Option<Nanos> {
        let user = self.users.peek().map(|Reverse((at, ..))| *at).filter(|_| !self.over);
        [self.alarms.next(), user, self.next_slot(), self.next_sweep()].into_iter().flatten().min()
    }

    /// When the next of those that wait for a slot, and for nothing else, may open.
    fn next_slot(&self) -> Option<Nanos> {
        let slot = |&group: &u16| {
            let of = self.groups.get(usize::from(group)).filter(|of| !of.queued.is_empty())?;
            let side = self.sides.get(usize::from(of.client?))?;
            (side.meter.counts.open() < of.open_max).then_some(of.opening.next())
        };
        self.paced.iter().filter_map(slot).min()
    }

    /// Does what is due at `now`.
    pub fn expire(&mut self, now: Nanos) {
        self.sweep(now);
        // alarms that are set anew for the same moment have their turn later: nobody keeps the loop from its end
        let mut rung = std::mem::take(&mut self.rung);
        for _ in 0..ALARMS_MAX / RUNG {
            rung.extend(std::iter::from_fn(|| self.alarms.due(now)).take(RUNG));
            self.sessions.touch(&rung);
            let is_last = rung.len() < RUNG;
            for (entry, key) in rung.drain(..) {
                let Some(alarm) = self.sessions.alarm_mut(SessionKey(key)) else { continue };
                if self.alarms.rings(alarm, key, entry, now) {
                    self.alarm(now, SessionKey(key));
                }
            }
            if is_last {
                break;
            }
        }
        self.rung = rung;
        for _ in 0..ALARMS_MAX {
            let Some(&Reverse((at, group, user))) = self.users.peek() else { break };
            if at > now || self.over {
                break;
            }
            self.users.pop();
            self.start_of_user(now, group, user, at);
        }
        for at in 0..self.paced.len() {
            let Some(&group) = self.paced.get(at) else { break };
            self.open_queued(now, group);
        }
    }

    fn start_of_user(&mut self, now: Nanos, group: u16, user: u32, planned: Nanos) {
        let Some(of) = self.groups.get_mut(usize::from(group)) else { return };
        if planned >= of.stop || of.by_users >= of.users_count {
            return;
        }
        let number = of.by_users * u64::from(self.core.cores.max(1)) + u64::from(self.core.core);
        of.by_users += 1;
        let Some(side) = of.client else { return };
        if let Some(side) = self.sides.get_mut(usize::from(side)) {
            side.meter.counts.due += 1;
        }
        self.open_in_turn(now, group, Start { planned, number, user: Some(user) });
    }

    /// The session ended, however it did: its place is free, and what waits for it may start.
    /// `in_order`: a user whose session failed waits a while, so that a peer that is not there is not flooded.
    pub(crate) fn remove(&mut self, now: Nanos, key: SessionKey, in_order: bool) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let (side, user, number) = (session.side, session.user, session.number);
        self.sessions.remove(key);
        let Some(&group) = self.group_of.get(usize::from(side)) else { return };
        let Some(of) = self.groups.get_mut(usize::from(group)) else { return };
        if of.client != Some(side) || self.over {
            return;
        }
        if let Some(user) = user {
            let think = of.plan.think.as_ref().map_or(Nanos::ZERO, |law| law.get(number));
            let think = if in_order { think } else { think.max(AFTER_FAILURE) };
            self.users.push(Reverse((now.saturating_add(think), group, user)));
        }
        self.open_queued(now, group);
    }

    /// Which sides there are: the number of the group, which end, and what it counted so far.
    pub fn sides(&self) -> impl Iterator<Item = (usize, End, &SessionCounts)> {
        let all = self.group_of.iter().zip(&self.sides);
        all.map(|(&group, side)| (usize::from(group), side.end, &side.meter.counts))
    }

    /// How long responses took so far, at the sides that have had any.
    pub fn response_times(&self) -> impl Iterator<Item = (usize, End, Distribution)> {
        let all = self.group_of.iter().zip(&self.sides);
        let with_any = all.filter(|(_, side)| side.meter.counts.responses > 0);
        with_any.map(|(&group, side)| (usize::from(group), side.end, side.meter.response_times()))
    }

    /// What the sides measured, in the order of [`Conversations::sides`].
    pub fn summaries(&self) -> Vec<(usize, End, SessionSummary)> {
        let all = self.group_of.iter().zip(&self.sides);
        let of = |(&group, side): (&u16, &Side)| {
            (usize::from(group), side.end, side.meter.summary(&side.script.timers))
        };
        all.map(of).collect()
    }

    /// Whether all that clients had to do is done: no session is open, and none is going to start but by the schedule.
    pub fn is_idle(&self, now: Nanos) -> bool {
        let client_open = |side: &Side| side.end == End::Client && side.meter.counts.open() > 0;
        let users = self.users.iter().any(|Reverse((at, group, _))| {
            let group = self.groups.get(usize::from(*group));
            group.is_some_and(|group| {
                *at < group.stop && now < group.stop && group.by_users < group.users_count
            })
        });
        let queued = self.groups.iter().any(|group| !group.queued.is_empty());
        !self.sides.iter().any(client_open) && !users && !queued
    }

    /// Whether a session of ours is open, at either end.
    pub fn has_open(&self) -> bool {
        self.sides.iter().any(|side| side.meter.counts.open() > 0)
    }

    /// Whether a session of ours is open whose client is of this run: over TCP it closes it; over UDP, which closes nothing, what it sent may be
    /// on its way, which counts with `datagrams`.
    pub fn awaits_clients(&self, datagrams: bool) -> bool {
        let open = |(&group, side): (&u16, &Side)| {
            let group = self.groups.get(usize::from(group));
            side.end == End::Server
                && side.meter.counts.open() > 0
                && group.is_some_and(|of| of.is_left_by_clients())
                && (datagrams || !side.script.datagrams)
        };
        self.group_of.iter().zip(&self.sides).any(open)
    }

    /// No session starts any more. What is queued is counted as expired, and what has no end by itself ends.
    pub fn stop_starts(&mut self, now: Nanos) {
        self.stop_where(now, |_| true);
    }

    /// The same, but groups of which `stops` is not true go on until their stop.
    pub(crate) fn stop_where(&mut self, now: Nanos, stops: fn(&Group) -> bool) {
        self.over = true;
        for group in &mut self.groups {
            drop_queued(group, &mut self.sides);
            if stops(group) {
                group.stop = group.stop.min(now);
            }
        }
        self.end_endless(now);
    }

    /// Packs sessions that wait, where there are very many.
    pub(crate) fn settle(&mut self) {
        self.sessions.settle(&self.sides);
    }

    /// A group stops at `at`, where that is sooner than its stop.
    pub(crate) fn stop_group(&mut self, group: u16, at: Nanos) {
        if let Some(group) = self.groups.get_mut(usize::from(group)) {
            group.stop = group.stop.min(at);
        }
    }

    /// A group stops at once, and starts none of those that wait either.
    pub(crate) fn stop_at_once(&mut self, group: u16, now: Nanos) {
        self.stop_group(group, now);
        if let Some(group) = self.groups.get_mut(usize::from(group)) {
            drop_queued(group, &mut self.sides);
        }
    }

    /// Of groups whose stop has come, those that wait for their turn start no more.
    pub(crate) fn drop_late(&mut self, now: Nanos) {
        for group in self.groups.iter_mut().filter(|group| group.stop <= now) {
            drop_queued(group, &mut self.sides);
        }
    }

    /// When the next group stops after `now`.
    pub fn next_stop(&self, now: Nanos) -> Option<Nanos> {
        self.groups.iter().map(|group| group.stop).filter(|stop| *stop > now).min()
    }
}

/// Counts what waits for its turn to open as expired.
fn drop_queued(group: &mut Group, sides: &mut [Side]) {
    let queued = group.queued.len() as u64;
    group.queued.clear();
    let side = group.client.and_then(|side| sides.get_mut(usize::from(side)));
    if let Some(side) = side {
        side.meter.counts.expired += queued;
        side.meter.counts.expired_waiting += queued;
    }
}
