//! Any TCP that carries sessions: the system's, or our own over an engine.

use std::fmt::Debug;

use wirebeat_converse::End;
use wirebeat_converse::stack::{Action, Connection, ProfileId, Programs, Stack};
use wirebeat_endpoint::OwnStack;
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{RxPort, TxPort};
use wirebeat_meter::connections::ConnectionSample;
use wirebeat_report::model::SessionZeroCopy;
use wirebeat_sockets::{HostStack, UdpStack, ZeroCopyCounters};
use wirebeat_tls::{Ends, TlsStack};
use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::values::session::{StackChoice, Transport};
use wirebeat_units::{Fault, Nanos};

use super::counted::{Counted, StackLook};

/// What carries the sessions of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    /// The system's sockets of one transport.
    System(Transport),
    /// Our own stack, which has all transports of its port.
    Own,
}

impl Carriage {
    /// All that there are.
    pub(super) const ALL: [Carriage; 4] = [
        Carriage::System(Transport::Tcp),
        Carriage::System(Transport::Sctp),
        Carriage::System(Transport::Udp),
        Carriage::Own,
    ];

    /// That of a group.
    pub(super) fn of(group: &SessionGroup) -> Carriage {
        match group.stack {
            StackChoice::Host => Carriage::System(group.transport),
            StackChoice::Own => Carriage::Own,
        }
    }
}

/// A TCP of a thread.
pub(crate) trait Carrier: Stack + Debug {
    /// What it counted; the system's tells nothing in this way.
    fn counted(&self) -> Option<Counted>;
    /// What it did so far; the system's tells nothing in this way.
    fn done_so_far(&self) -> Option<StackLook> {
        None
    }
    /// Whether it accepted no connections for a while, because there was no file descriptor or memory for one.
    fn accepted_late(&self) -> bool {
        false
    }
    /// What became of sends without a copy of a group's clients and of its servers; `None` where none were asked for.
    fn zero_copies(&self, _group: ProfileId) -> Option<[SessionZeroCopy; 2]> {
        None
    }
}

impl Carrier for HostStack {
    fn counted(&self) -> Option<Counted> {
        None
    }

    fn accepted_late(&self) -> bool {
        self.counters().accepts_paused > 0
    }

    fn zero_copies(&self, group: ProfileId) -> Option<[SessionZeroCopy; 2]> {
        let counters = HostStack::zero_copies(self, group)?;
        Some(counters.map(|ZeroCopyCounters { sends, told, copied, no_room }| SessionZeroCopy {
            sends,
            told,
            copied,
            no_room,
        }))
    }
}

impl Carrier for UdpStack {
    fn counted(&self) -> Option<Counted> {
        None
    }
}

impl<P: TxPort + Debug, R: RxPort + Debug, C: Clock + Debug> Carrier for OwnStack<P, R, C> {
    fn counted(&self) -> Option<Counted> {
        let (sends, receives) = self.modes();
        Some(Counted {
            sends: sends.to_owned(),
            receives: receives.to_owned(),
            tcp: self.tcp().clone(),
            datagrams: self.datagrams(),
            port: self.counters(),
            cable: None,
            sent_for: self.sent_for().to_vec(),
        })
    }

    fn done_so_far(&self) -> Option<StackLook> {
        Some(StackLook::of(self.tcp(), self.frames()))
    }
}

impl Carrier for TlsStack<AnyCarrier> {
    fn counted(&self) -> Option<Counted> {
        self.stack.0.counted()
    }

    fn done_so_far(&self) -> Option<StackLook> {
        self.stack.0.done_so_far()
    }

    fn accepted_late(&self) -> bool {
        self.stack.0.accepted_late()
    }

    fn zero_copies(&self, group: ProfileId) -> Option<[SessionZeroCopy; 2]> {
        self.stack.0.zero_copies(group)
    }
}

/// One of them.
#[derive(Debug)]
pub(super) struct AnyCarrier(pub(super) Box<dyn Carrier>);

impl AnyCarrier {
    /// The same with TLS for the groups that have it, where any has.
    pub(super) fn with_tls(self, tls: Vec<Option<Ends>>) -> AnyCarrier {
        match tls.iter().any(Option::is_some) {
            true => {
                let stack = TlsStack::new(self, tls).with_clock(|| MonotonicClock.now());
                AnyCarrier(Box::new(stack))
            }
            false => self,
        }
    }
}

impl Stack for AnyCarrier {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        self.0.apply(now, action, programs);
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        self.0.turn(now, until, programs)
    }

    fn longest_turn(&self) -> Nanos {
        self.0.longest_turn()
    }

    fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    fn has_output(&self) -> bool {
        self.0.has_output()
    }

    fn spin(&mut self, until: Nanos) -> Nanos {
        self.0.spin(until)
    }

    fn open(&self) -> usize {
        self.0.open()
    }

    fn look(&mut self, connection: Connection) -> Option<ConnectionSample> {
        self.0.look(connection)
    }

    fn broken(&mut self) -> Option<Fault> {
        self.0.broken()
    }
}

/// What became of sends without a copy, at the ends of `groups` that are of this thread.
pub(super) fn zero_copies(
    groups: &[SessionGroup],
    stack: &dyn Carrier,
) -> Vec<(usize, End, SessionZeroCopy)> {
    let of = |(number, group): (u16, &SessionGroup)| {
        let [client, server] = stack.zero_copies(ProfileId(number))?;
        let ends = [
            (End::Client, client, group.client.is_some()),
            (End::Server, server, group.server.is_some()),
        ];
        let mine = ends.into_iter().filter(|(_, _, is_mine)| *is_mine);
        Some(mine.map(move |(end, counters, _)| (usize::from(number), end, counters)))
    };
    (0..).zip(groups).filter_map(of).flatten().collect()
}
