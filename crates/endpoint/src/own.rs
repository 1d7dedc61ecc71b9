//! The TCP and the UDP below, the programs above: a [`Stack`] of sessions.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use wirebeat_converse::stack::{
    Action, Connection, ConnectionSample, ConnectionStats, ProfileId, Programs, Reason, SessionKey,
    Stack,
};
use wirebeat_engine::clock::Clock;
use wirebeat_engine::port::{PortError, RxPort, TxPort};
use wirebeat_engine::steering::Shard;
use wirebeat_neighbours::{Conflict, Neighbours, Received, State};
use wirebeat_stack::Open;
use wirebeat_stack::segment::Checksum;
use wirebeat_stack::{Counters, Limits, OpenError, Profile, SessionId, Stack as Tcp, Tuple};
use wirebeat_traffic::values::session::{Pool, PortPool};
use wirebeat_units::{Fault, Nanos};
use wirebeat_wire::ip::{Protocol, Version};

use crate::above::{Above, Between, Wish, failure_of};
use crate::below::{Below, Outbox, SentFrames};
use crate::local::ClientPorts;
use crate::misbehaving::{Arrived, HALF_OPEN};
use crate::udp::{DATAGRAMS, DatagramCounters, DatagramProfile, Udp};

/// Timers of so many sessions ring before arrivals have their turn.
const TIMERS: usize = 4096;

/// A next hop that was asked for so long did not answer: it was asked twice.
const SILENT: Nanos = Nanos::from_secs(1);

/// How long it takes to send answers and to take what has arrived: a system call each, some microseconds.
const TURN: Nanos = Nanos::from_micros(10);

/// Where a group of sessions is accepted.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The number of the group.
    pub group: u16,
    /// Its addresses and ports.
    pub pool: Pool,
    /// Whether it takes datagrams of UDP, and no connections.
    pub datagrams: bool,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Listeners(Vec<Listener>);

impl Listeners {
    /// The group that takes connections there, or datagrams.
    pub(crate) fn find(&self, address: IpAddr, port: u16, datagrams: bool) -> Option<u16> {
        let listens = |listener: &&Listener| {
            let ports = listener.pool.ports.as_ref();
            listener.datagrams == datagrams
                && ports.is_some_and(|ports| ports.contains(port))
                && listener.pool.addresses.contains(address)
        };
        self.0.iter().find(listens).map(|listener| listener.group)
    }
}

/// What an [`OwnStack`] is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The profiles of the clients of each group, and then those of the servers; at most 256 in all.
    pub profiles: Vec<Profile>,
    /// What is asked of the datagrams of each group; `None`: its sessions are connections of TCP.
    pub datagrams: Vec<Option<DatagramProfile>>,
    /// The most bytes of a packet of the link.
    pub mtu: u32,
    /// Where sessions are accepted.
    pub listeners: Vec<Listener>,
    /// How much it holds.
    pub limits: Limits,
    /// Secret of its sequence numbers and tables.
    pub seed: [u64; 2],
    /// What its clock of timestamps shows at the start, in ms; `None`: a number that follows from `seed`.
    pub timestamp: Option<u32>,
    /// Which of the cores it is that have the sessions of the port, each with a TCP of its own.
    pub core: Shard,
    /// The ports of the clients of each group, where they are given.
    pub client_ports: Vec<Option<PortPool>>,
    /// Whether the clients of each group open their sessions by half.
    pub half_open: Vec<bool>,
}

/// Frames that left and arrived, and their bytes with FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// That left, those that the system cuts from large packets one by one.
    pub sent: u64,
    /// Bytes of these.
    pub bytes_sent: u64,
    /// That arrived. A large packet that the system put together is one.
    pub received: u64,
    /// Bytes of these.
    pub bytes_received: u64,
}

/// What was counted beside the TCP's own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Packets that were not sent, since their next hop was not known.
    pub unresolved: u64,
    /// Frames that left and arrived.
    pub frames: Frames,
    /// Frames that the port lost before they got here.
    pub receive_drops: u64,
    /// Frames of ARP, neighbour discovery and echo that were sent, those that look for duplicate addresses too.
    pub neighbour_frames: u64,
    /// The first next hop that did not answer.
    pub silent_next_hop: Option<IpAddr>,
    /// The first station that was seen to use an address of ours.
    pub conflict: Option<Conflict>,
}

/// A session that waits for its next hop to be found.
#[derive(Debug)]
struct Waiting {
    /// What it is called until it has a connection: [`WAITING`] or more.
    number: u32,
    session: SessionKey,
    profile: ProfileId,
    local: SocketAddr,
    remote: SocketAddr,
    since: Nanos,
}

/// Bytes of the FCS, which counters of frames include.
const FCS: u64 = 4;

/// Connections of our TCP, and sessions over UDP, have numbers below this one.
const WAITING: u32 = 1 << 31;

/// Our own TCP and UDP on a port.
#[derive(Debug)]
pub struct OwnStack<P, R, C> {
    tcp: Tcp,
    udp: Udp,
    between: Between,
    listeners: Listeners,
    below: Below<P>,
    rx: R,
    clock: C,
    neighbours: Neighbours,
    ports: ClientPorts,
    of_clients: u8,
    half_open: Vec<bool>,
    /// Sessions that wait for their next hop to be found.
    unresolved: VecDeque<Waiting>,
    /// The number of the next of them.
    next_waiting: u32,
    /// The latest time that was seen.
    now: Nanos,
    frames_received: u64,
    frame_bytes_received: u64,
    silent_next_hop: Option<IpAddr>,
    error: Option<PortError>,
}

impl<P: TxPort, R: RxPort, C: Clock> OwnStack<P, R, C> {
    /// A TCP that sends by `tx` and receives by `rx`, for the hosts of `neighbours`.
    pub fn new(settings: Settings, (tx, rx): (P, R), clock: C, neighbours: Neighbours) -> Self {
        let now = clock.now();
        let profiles = settings.profiles.len();
        let of_clients = (profiles / 2) as u8;
        let mut tcp = Tcp::new(&settings.limits, settings.profiles, settings.seed, now);
        if let Some(timestamp) = settings.timestamp {
            tcp.show_timestamp(now, timestamp);
        }
        OwnStack {
            between: Between::new(settings.limits.sessions),
            tcp,
            udp: Udp::new(settings.datagrams, settings.mtu as usize, settings.seed),
            listeners: Listeners(settings.listeners),
            below: Below::new(tx, profiles),
            rx,
            clock,
            neighbours,
            ports: ClientPorts::of(settings.core, settings.client_ports),
            of_clients,
            half_open: settings.half_open,
            unresolved: VecDeque::new(),
            next_waiting: WAITING,
            now,
            frames_received: 0,
            frame_bytes_received: 0,
            silent_next_hop: None,
            error: None,
        }
    }

    /// Has the system give memory that would otherwise be given while sessions open: see [`wirebeat_stack::Stack::populate`].
    pub fn populate(&mut self) {
        self.tcp.populate();
    }

    /// What the TCP counted.
    pub fn tcp(&self) -> &Counters {
        self.tcp.counters()
    }

    /// What was counted of datagrams; `None` where no group is over UDP.
    pub fn datagrams(&self) -> Option<DatagramCounters> {
        self.udp.counters()
    }

    /// What was counted beside that.
    pub fn counters(&self) -> EndpointCounters {
        EndpointCounters {
            unresolved: self.below.unresolved,
            silent_next_hop: self.silent_next_hop,
            conflict: self.neighbours.conflict(),
            frames: self.frames(),
            receive_drops: self.rx.receive_drops(),
            neighbour_frames: self.below.frames,
        }
    }

    /// Frames so far. Unlike the other counters it asks nobody.
    pub fn frames(&self) -> Frames {
        Frames {
            sent: self.below.frames_sent,
            bytes_sent: self.below.frame_bytes_sent,
            received: self.frames_received,
            bytes_received: self.frame_bytes_received,
        }
    }

    /// Frames that were sent for sessions of each profile so far: clients of each group, and then servers of each. Answers to packets of
    /// no session are in none.
    pub fn sent_for(&self) -> &[SentFrames] {
        &self.below.sent_for
    }

    /// So many frames of ARP and neighbour discovery were sent before, to look for duplicate addresses.
    pub fn note_neighbour_frames(&mut self, frames: u64) {
        self.below.frames += frames;
    }

    /// The hosts and their neighbours.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// How the port sends and receives, for the report.
    pub fn modes(&self) -> (&str, &str) {
        (&self.below.port().caps().mode, &self.rx.caps().mode)
    }

    /// When something is to be done without anything arriving.
    pub fn next_time(&self, now: Nanos) -> Option<Nanos> {
        if Stack::has_output(self) {
            return Some(now);
        }
        [self.tcp.next_timer(now), self.neighbours.next_time()].into_iter().flatten().min()
    }

    /// Calls the TCP with the programs above it.
    fn with_tcp<T>(
        &mut self,
        now: Nanos,
        programs: &mut dyn Programs,
        work: impl FnOnce(&mut Tcp, &mut Above<'_>) -> T,
    ) -> T {
        let mut above = Above {
            now,
            between: &mut self.between,
            programs,
            listeners: &self.listeners,
            of_clients: self.of_clients,
        };
        work(&mut self.tcp, &mut above)
    }

    /// Asks the TCP for what had to wait until it returned.
    fn fulfil(&mut self, now: Nanos, programs: &mut dyn Programs) {
        while let Some(wish) = self.between.wishes.pop() {
            match wish {
                // one that is gone needs nothing
                Wish::Consume(id, bytes) => drop(self.tcp.consume(id, bytes)),
                Wish::Offer(id) => self.offer(id, programs),
                Wish::Abort(id) => {
                    let _ = self.with_tcp(now, programs, |tcp, above| tcp.abort(now, id, above));
                }
            }
        }
    }

    fn offer(&mut self, id: SessionId, programs: &mut dyn Programs) {
        let limits = (self.tcp.send_limit(id).unwrap_or(0), self.tcp.offered(id));
        let more = self.between.offer(id, limits, programs);
        if more > 0 {
            let _ = self.tcp.send(id, more);
        }
    }

    fn connect(
        &mut self,
        now: Nanos,
        (session, profile): (SessionKey, ProfileId),
        (local, remote): (SocketAddr, SocketAddr),
        programs: &mut dyn Programs,
    ) {
        if self.neighbours.mac_for(now, remote.ip()).is_none() {
            match self.neighbours.state(remote.ip()) {
                State::Failed => {
                    self.note_silent(remote.ip());
                    let stats = ConnectionStats::default();
                    programs.ended(now, session, Reason::Unreachable, stats);
                }
                _ => {
                    let number = self.next_waiting;
                    self.next_waiting = number.wrapping_add(1) | WAITING;
                    let since = now;
                    let waiting = Waiting { number, session, profile, local, remote, since };
                    self.unresolved.push_back(waiting);
                    programs.opening(now, session, Connection(number));
                }
            }
            return;
        }
        let is_datagrams = self.udp.has(profile.0);
        let by_half = self.half_open.get(usize::from(profile.0)).is_some_and(|by_half| *by_half);
        let mut tries = self.ports.tries(local.port());
        let opened = loop {
            let from = (local.ip(), local.port());
            let Some(local_port) = self.ports.next(profile.0, from, remote.port()) else {
                break Err(OpenError::InUse);
            };
            let tuple = Tuple {
                local: local.ip(),
                remote: remote.ip(),
                local_port,
                remote_port: remote.port(),
            };
            let misbehaving = &mut self.between.misbehaving;
            let opened = match is_datagrams {
                false if by_half => {
                    let open = Open { tuple, profile: profile.0 as u8, user: 0 };
                    match misbehaving.begin(now, session, open, &self.tcp, programs) {
                        true => Ok(None),
                        false => Err(OpenError::InUse),
                    }
                }
                false if misbehaving.is_in_use(&tuple) => Err(OpenError::InUse),
                true => self.udp.connect(now, (session, profile), &tuple, programs).map(|()| None),
                false => {
                    let open = Open { tuple, profile: profile.0 as u8, user: 0 };
                    self.tcp.connect(now, &open).map(Some)
                }
            };
            match opened {
                Err(OpenError::InUse) if tries > 1 => tries -= 1,
                opened => break opened,
            }
        };
        match opened {
            // it was told already
            Ok(None) => {}
            Ok(Some(id)) => {
                self.between.begin(id, session);
                programs.opening(now, session, Connection(id.0));
            }
            Err(error) => {
                let reason = Reason::Failed(failure_of(error));
                programs.ended(now, session, reason, ConnectionStats::default());
            }
        }
    }

    /// The next hop to `remote` did not answer.
    fn note_silent(&mut self, remote: IpAddr) {
        let next_hop = self.neighbours.next_hop(remote);
        self.silent_next_hop.get_or_insert(next_hop);
    }

    /// Opens those that waited for their next hop, or gives them up.
    fn resolved(&mut self, now: Nanos, programs: &mut dyn Programs) {
        if self.neighbours.next_change().is_none() {
            return;
        }
        while self.neighbours.next_change().is_some() {}
        self.udp.look_again();
        for waiting in std::mem::take(&mut self.unresolved) {
            let Waiting { session, profile, local, remote, .. } = waiting;
            match self.neighbours.state(remote.ip()) {
                State::Known(_) => self.connect(now, (session, profile), (local, remote), programs),
                State::Asking => self.unresolved.push_back(waiting),
                State::Unknown | State::Failed => {
                    self.note_silent(remote.ip());
                    let stats = ConnectionStats::default();
                    programs.ended(now, session, Reason::Unreachable, stats);
                }
            }
        }
    }

    /// Sends all that there is to send and that the port has room for.
    fn send(&mut self, now: Nanos, programs: &mut dyn Programs) {
        self.below.send_neighbours(now, &mut self.neighbours);
        let mut above = Above {
            now,
            between: &mut self.between,
            programs,
            listeners: &self.listeners,
            of_clients: self.of_clients,
        };
        let (below, neighbours) = (&mut self.below, &mut self.neighbours);
        let mut out = Outbox { below, neighbours, now, len: 0, profile: None };
        self.tcp.transmit(now, &mut above, &mut out);
        let Above { between, programs, .. } = above;
        if between.misbehaving.has_output() {
            let mut misbehaving = std::mem::take(&mut between.misbehaving);
            let key = |id| between.key(id);
            misbehaving.transmit(now, &self.tcp, programs, key, &mut out);
            between.misbehaving = misbehaving;
        }
        self.udp.transmit(now, programs, &mut out);
        // packets to those who were not known have asked for them
        self.below.send_neighbours(now, &mut self.neighbours);
        self.below.flush();
    }

    /// Takes what has arrived, waiting at most until `until` for the first.
    fn receive(&mut self, until: Nanos, programs: &mut dyn Programs) {
        let OwnStack { tcp, udp, between, listeners, rx, neighbours, of_clients, now, .. } = self;
        let bytes = &mut self.frame_bytes_received;
        let received = rx.receive(until, |arrival| {
            *bytes += arrival.bytes.len() as u64 + FCS;
            // frames that came while others were handled are not from before those
            *now = arrival.at.max(*now);
            let Received::Packet(packet) = neighbours.receive(*now, arrival.bytes) else { return };
            let Some(packet) = arrival.bytes.get(packet) else { return };
            let carried = protocol(packet);
            if carried == Some(Protocol::UDP) {
                let listens = |address, port| listeners.find(address, port, true);
                if udp.receive(*now, packet, listens, &mut *programs) {
                    // its answers go back the way that it came: no next hop is asked for, however many sources a sender invents
                    neighbours.learn(*now, arrival.bytes);
                }
                return;
            }
            let is_icmp = matches!(carried, Some(Protocol::ICMP | Protocol::ICMPV6));
            if is_icmp && udp.receive_icmp(*now, packet, &mut *programs) {
                return;
            }
            let looked = match is_icmp {
                true => Arrived::Ordinary,
                false => between.misbehaving.look(*now, packet, tcp, &mut *programs),
            };
            if looked == Arrived::Taken {
                return;
            }
            let mut above = Above {
                now: *now,
                between: &mut *between,
                programs: &mut *programs,
                listeners,
                of_clients: *of_clients,
            };
            if is_icmp {
                tcp.receive_icmp(*now, packet, &mut above);
            } else {
                tcp.receive(*now, packet, Checksum::VerifyOrPartial, &mut above);
            }
            if let Arrived::Acknowledgment(id, acked) = looked
                && tcp.info(id).is_some_and(|info| info.acked == acked)
                && let Some(key) = above.between.key(id)
            {
                above.programs.answered(key);
            }
            // windows open with what programs take
            while let Some(wish) =
                above.between.wishes.pop_if(|wish| matches!(wish, Wish::Consume(..)))
            {
                if let Wish::Consume(id, bytes) = wish {
                    let _ = tcp.consume(id, bytes);
                }
            }
        });
        match received {
            Ok(frames) => self.frames_received += frames as u64,
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }
}

/// What a packet carries, as far as its first header says.
fn protocol(packet: &[u8]) -> Option<Protocol> {
    let at = match Version::of_packet(packet)? {
        Version::V4 => 9,
        Version::V6 => 6,
    };
    packet.get(at).copied().map(Protocol)
}

impl<P: TxPort, R: RxPort, C: Clock> Stack for OwnStack<P, R, C> {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        let now = now.max(self.now);
        match action {
            Action::Connect { session, profile, local, remote } => {
                self.connect(now, (session, profile), (local, remote), programs);
            }
            Action::Send(Connection(id))
            | Action::Receive(Connection(id))
            | Action::Finish(Connection(id))
            | Action::Abort(Connection(id))
                if (DATAGRAMS..WAITING).contains(&id) =>
            {
                match action {
                    Action::Finish(_) => self.udp.finish(id),
                    Action::Abort(_) => self.udp.end(now, id, Reason::Aborted, programs),
                    _ => self.udp.offer(id),
                }
            }
            Action::Abort(Connection(id)) if (HALF_OPEN..DATAGRAMS).contains(&id) => {
                self.between.misbehaving.end(now, id, Reason::Aborted, programs);
            }
            Action::Forge(Connection(id), forged) => {
                let id = SessionId(id);
                if let Some(key) = self.between.key(id) {
                    self.between.misbehaving.forge(id, key, &self.tcp, &forged);
                }
            }
            Action::Send(Connection(id)) => self.offer(SessionId(id), programs),
            Action::Receive(Connection(id)) => {
                self.between.hand_on(now, SessionId(id), programs);
            }
            Action::Finish(Connection(id)) => {
                let id = SessionId(id);
                let more = self.between.offer_rest(id, self.tcp.offered(id), programs);
                if more > 0 {
                    let _ = self.tcp.send(id, more);
                }
                let _ = self.with_tcp(now, programs, |tcp, above| tcp.close(now, id, above));
            }
            Action::Abort(Connection(id)) if id >= WAITING => {
                let place = self.unresolved.iter().position(|waiting| waiting.number == id);
                if let Some(waiting) = place.and_then(|place| self.unresolved.remove(place)) {
                    if now.saturating_sub(waiting.since) >= SILENT {
                        self.note_silent(waiting.remote.ip());
                    }
                    let stats = ConnectionStats::default();
                    programs.ended(now, waiting.session, Reason::Aborted, stats);
                }
            }
            Action::Abort(Connection(id)) => {
                let id = SessionId(id);
                let _ = self.with_tcp(now, programs, |tcp, above| tcp.abort(now, id, above));
            }
        }
        self.fulfil(now, programs);
    }

    fn longest_turn(&self) -> Nanos {
        TURN
    }

    fn spin(&mut self, until: Nanos) -> Nanos {
        loop {
            let now = self.clock.now();
            if now >= until {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        let now = now.max(self.now);
        self.now = now;
        let is_done = self.with_tcp(now, programs, |tcp, above| tcp.expire(now, TIMERS, above));
        self.neighbours.expire(now);
        self.resolved(now, programs);
        self.fulfil(now, programs);
        self.send(now, programs);
        self.fulfil(now, programs);
        let mut wait = until.min(self.next_time(now).unwrap_or(Nanos::MAX));
        if !is_done {
            wait = now;
        }
        self.receive(wait, programs);
        self.now = self.now.max(self.clock.now());
        let now = self.now;
        self.resolved(now, programs);
        self.fulfil(now, programs);
        now
    }

    fn has_output(&self) -> bool {
        let forges = self.between.misbehaving.has_output();
        self.tcp.has_output() || self.udp.has_output() || forges
    }

    fn open(&self) -> usize {
        self.tcp.open_sessions() + self.udp.open() + self.between.misbehaving.open()
    }

    fn look(&mut self, Connection(id): Connection) -> Option<ConnectionSample> {
        if id >= DATAGRAMS {
            return None;
        }
        let info = self.tcp.info(SessionId(id))?;
        Some(ConnectionSample {
            // of all sessions of its group together
            retransmitted: self.tcp.take_retransmitted(SessionId(id)),
            rtt: info.rtt,
            cwnd: Some(info.cwnd.into()),
            ..Default::default()
        })
    }

    fn broken(&mut self) -> Option<Fault> {
        self.error.take().or(self.below.error.take()).map(|error| error.fault())
    }
}
