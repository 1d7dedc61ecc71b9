//! Two ends with TLS over a TCP in memory, which moves as many bytes at a time as a test says and asks for each of them twice.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack, TlsCause,
    TlsEvent,
};
use wirebeat_units::Nanos;

use crate::secured::{KEPT_MAX, RECORD, ROOM};
use crate::{ClientSettings, Ends, Identity, ServerSettings, TlsStack, Trusted, Versions};

const NOW: Nanos = Nanos::from_secs(1);
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Both directions: bytes to each side, and whether FIN is behind them.
#[derive(Default)]
struct Wire {
    queues: [VecDeque<u8>; 2],
    fin: [bool; 2],
    opened: bool,
}

/// A TCP with one connection at a time.
struct Tcp {
    wire: Rc<RefCell<Wire>>,
    side: usize,
    /// How many bytes move at a time.
    piece: usize,
    /// How many bytes that left are not taken yet.
    lag: u64,
    session: Option<SessionKey>,
    open: bool,
    sent: u64,
    offered: bool,
    finishing: bool,
    peer_closed: bool,
    ended: bool,
}

impl Tcp {
    fn new(wire: &Rc<RefCell<Wire>>, side: usize, (piece, lag): (usize, u64)) -> Tcp {
        Tcp {
            wire: Rc::clone(wire),
            side,
            piece,
            lag,
            session: None,
            open: false,
            sent: 0,
            offered: false,
            finishing: false,
            peer_closed: false,
            ended: false,
        }
    }

    fn end(&mut self, reason: Reason, programs: &mut dyn Programs) {
        if let Some(session) = self.session.take() {
            let stats = ConnectionStats { acked: self.sent, ..ConnectionStats::default() };
            programs.ended(NOW, session, reason, stats);
            self.ended = true;
        }
    }

    fn receive(&mut self, session: SessionKey, programs: &mut dyn Programs) {
        let room = programs.room(session).min(self.piece);
        if room == 0 {
            return;
        }
        let mut wire = self.wire.borrow_mut();
        let len = wire.queues[self.side].len().min(room);
        let bytes: Vec<u8> = wire.queues[self.side].drain(..len).collect();
        let fin = wire.fin[self.side] && wire.queues[self.side].is_empty();
        drop(wire);
        if !bytes.is_empty() {
            programs.received(NOW, session, &bytes);
        } else if fin && !std::mem::replace(&mut self.peer_closed, true) {
            programs.peer_closed(NOW, session);
        }
    }

    fn send(&mut self, session: SessionKey, programs: &mut dyn Programs) {
        let mut scratch = vec![0; RECORD];
        let mut payload = |programs: &mut dyn Programs, from: u64| {
            let bytes = programs.payload(session, from, &mut scratch);
            bytes[..bytes.len().min(self.piece)].to_vec()
        };
        let bytes = payload(programs, self.sent);
        assert_eq!(payload(programs, self.sent), bytes, "the same bytes for the same offset");
        let lagging = self.sent.saturating_sub(self.lag);
        if bytes.is_empty() {
            self.offered = false;
            programs.taken(NOW, session, self.sent);
            if self.finishing {
                self.wire.borrow_mut().fin[1 - self.side] = true;
            }
            return;
        }
        self.wire.borrow_mut().queues[1 - self.side].extend(&bytes);
        self.sent += bytes.len() as u64;
        programs.taken(NOW, session, lagging);
    }
}

impl Stack for Tcp {
    fn apply(&mut self, _now: Nanos, action: Action, programs: &mut dyn Programs) {
        match action {
            Action::Connect { session, .. } => self.session = Some(session),
            Action::Send(_) => self.offered = true,
            Action::Receive(_) | Action::Forge(..) => {}
            Action::Finish(_) => (self.finishing, self.offered) = (true, true),
            Action::Abort(_) => {
                self.wire.borrow_mut().fin[1 - self.side] = true;
                self.end(Reason::Aborted, programs);
            }
        }
    }

    fn turn(&mut self, now: Nanos, _until: Nanos, programs: &mut dyn Programs) -> Nanos {
        if !self.open && !self.ended {
            match (self.side, self.session) {
                (CLIENT, Some(session)) => {
                    self.wire.borrow_mut().opened = true;
                    self.open = true;
                    programs.established(now, session, Connection(7));
                }
                (SERVER, None) if self.wire.borrow().opened => {
                    self.open = true;
                    self.session = programs.accepted(now, Connection(7), ProfileId(0));
                }
                _ => {}
            }
            return now;
        }
        if let Some(session) = self.session {
            self.receive(session, programs);
        }
        if let Some(session) = self.session.filter(|_| self.offered) {
            self.send(session, programs);
        }
        let fin_sent = self.wire.borrow().fin[1 - self.side];
        if fin_sent && self.peer_closed {
            self.end(Reason::InOrder, programs);
        }
        now
    }

    fn open(&self) -> usize {
        usize::from(self.session.is_some())
    }
}

/// Says what it has, and keeps what it hears.
#[derive(Default)]
struct Talk {
    says: Vec<u8>,
    heard: Vec<u8>,
    /// How many bytes it takes in all.
    room: usize,
    events: Vec<TlsEvent>,
    taken: u64,
    peer_closed: bool,
    ended: Option<(Reason, ConnectionStats)>,
    connection: Option<Connection>,
}

impl Programs for Talk {
    fn accepted(&mut self, _: Nanos, connection: Connection, _: ProfileId) -> Option<SessionKey> {
        self.connection = Some(connection);
        Some(SessionKey(3))
    }

    fn established(&mut self, _: Nanos, _: SessionKey, connection: Connection) {
        self.connection = Some(connection);
    }

    fn payload<'a>(&'a mut self, _: SessionKey, offset: u64, _: &'a mut [u8]) -> &'a [u8] {
        self.says.get(offset as usize..).unwrap_or_default()
    }

    fn offer(&mut self, _: SessionKey, most: u64) -> u64 {
        most.min(self.says.len() as u64)
    }

    fn taken(&mut self, _: Nanos, _: SessionKey, offset: u64) {
        assert!(offset >= self.taken && offset <= self.says.len() as u64);
        self.taken = offset;
    }

    fn room(&self, _: SessionKey) -> usize {
        self.room.saturating_sub(self.heard.len())
    }

    fn received(&mut self, _: Nanos, session: SessionKey, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(session), "no more than there is room for");
        assert!(matches!(self.events.first(), Some(TlsEvent::Completed { .. })));
        self.heard.extend_from_slice(bytes);
    }

    fn tls(&mut self, _: Nanos, _: SessionKey, event: TlsEvent) {
        self.events.push(event);
    }

    fn peer_closed(&mut self, _: Nanos, _: SessionKey) {
        assert!(!std::mem::replace(&mut self.peer_closed, true), "told once");
    }

    fn ended(&mut self, _: Nanos, _: SessionKey, reason: Reason, stats: ConnectionStats) {
        self.ended = Some((reason, stats));
    }
}

/// An end.
struct Side {
    stack: TlsStack<Tcp>,
    talk: Talk,
    finishes: bool,
}

impl Side {
    fn apply(&mut self, action: impl FnOnce(Connection) -> Action) {
        if let Some(connection) = self.talk.connection {
            self.stack.apply(NOW, action(connection), &mut self.talk);
        }
    }

    /// A turn; a program that has its handshake says all that it has, and nothing more.
    fn turn(&mut self) {
        let before = self.talk.events.len();
        self.stack.turn(NOW, NOW, &mut self.talk);
        if let Some(TlsEvent::Completed { .. }) = self.talk.events.get(before) {
            self.apply(Action::Send);
            if self.finishes {
                self.apply(Action::Finish);
            }
        }
    }

    fn kept(&mut self) -> usize {
        let session = if self.stack.stack.side == CLIENT { SessionKey(5) } else { SessionKey(3) };
        self.stack.held(session)
    }
}

/// Both ends and the wire between them.
struct Both {
    sides: [Side; 2],
    wire: Rc<RefCell<Wire>>,
}

struct Asked {
    trusted: fn(&Identity) -> Trusted,
    client: Versions,
    server: Versions,
    resume: bool,
    alpn: [&'static str; 2],
}

const USUAL: Asked = Asked {
    trusted: Trusted::only,
    client: Versions { tls_1_2: true, tls_1_3: true },
    server: Versions { tls_1_2: true, tls_1_3: true },
    resume: true,
    alpn: ["", ""],
};

const ONLY_1_2: Versions = Versions { tls_1_2: true, tls_1_3: false };
const ONLY_1_3: Versions = Versions { tls_1_2: false, tls_1_3: true };

fn ends(asked: &Asked) -> [Ends; 2] {
    let names = ["www.example.com".to_owned()];
    let identity = Identity::made_for(&names, &[Ipv4Addr::LOCALHOST.into()]).unwrap();
    let alpn = |at: usize| {
        let all = asked.alpn[at].split_whitespace();
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let client = ClientSettings {
        server_name: Some("www.example.com".to_owned()),
        trusted: (asked.trusted)(&identity),
        versions: asked.client,
        resume: asked.resume,
        alpn: alpn(CLIENT),
    };
    let server = ServerSettings {
        identity,
        versions: asked.server,
        resume: asked.resume,
        alpn: alpn(SERVER),
    };
    [Ends::new(Some(client), None).unwrap(), Ends::new(None, Some(server)).unwrap()]
}

impl Both {
    fn new(asked: &Asked, how: (usize, u64)) -> Both {
        let wire = Rc::default();
        let [client, server] = ends(asked);
        let side = |side, ends| Side {
            stack: TlsStack::new(Tcp::new(&wire, side, how), vec![Some(ends)]),
            talk: Talk { room: usize::MAX, ..Talk::default() },
            finishes: true,
        };
        let sides = [side(CLIENT, client), side(SERVER, server)];
        Both { sides, wire }
    }

    fn connect(&mut self) {
        let [client, _] = &mut self.sides;
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
        let session = SessionKey(5);
        let action = Action::Connect { session, profile: ProfileId(0), local, remote };
        client.stack.apply(NOW, action, &mut client.talk);
    }

    /// Turns until both ended, or so many.
    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.sides.iter_mut().for_each(Side::turn);
            if self.sides.iter().all(|side| side.talk.ended.is_some()) {
                break;
            }
        }
    }

    /// The same stacks, ready for another session.
    fn again(&mut self) {
        self.wire.replace(Wire::default());
        for side in &mut self.sides {
            side.talk = Talk { room: usize::MAX, ..Talk::default() };
            let Tcp { side: number, piece, lag, .. } = side.stack.stack;
            side.stack.stack = Tcp::new(&self.wire, number, (piece, lag));
        }
    }

    fn events(&self) -> [&[TlsEvent]; 2] {
        [&self.sides[CLIENT].talk.events, &self.sides[SERVER].talk.events]
    }

    fn causes(&self) -> [Option<TlsCause>; 2] {
        self.events().map(|events| match events {
            [TlsEvent::Failed(cause, why)] => {
                assert!(!why.is_empty());
                Some(*cause)
            }
            _ => None,
        })
    }
}

fn data(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 7 + seed) % 251) as u8).collect()
}

fn is_completed(events: &[TlsEvent], resumes: bool, version: &str) -> bool {
    match events {
        [TlsEvent::Completed { resumed, suite }] => {
            *resumed == resumes && suite.starts_with("TLS13") == (version == "1.3")
        }
        _ => false,
    }
}

#[test]
fn both_ends_hear_what_the_other_says_in_pieces_of_any_length() {
    for (how, len) in
        [((1, 0), 3_000), ((7, 50), 20_000), ((1448, 100_000), 300_000), ((1 << 20, 0), 300_000)]
    {
        for versions in [ONLY_1_2, ONLY_1_3] {
            let mut both = Both::new(&Asked { client: versions, ..USUAL }, how);
            both.sides[CLIENT].talk.says = data(len, 1);
            both.sides[SERVER].talk.says = data(len / 2, 2);
            both.connect();
            both.run(1_000_000);
            let [client, server] = &both.sides;
            assert!(client.talk.heard == server.talk.says, "{how:?}");
            assert!(server.talk.heard == client.talk.says, "{how:?}");
            let version = if versions == ONLY_1_2 { "1.2" } else { "1.3" };
            for side in [client, server] {
                assert!(is_completed(&side.talk.events, false, version), "{:?}", side.talk.events);
                let (reason, stats) = side.talk.ended.unwrap();
                assert_eq!(reason, Reason::InOrder);
                assert_eq!(side.talk.taken, side.talk.says.len() as u64, "all is taken");
                assert_eq!(stats.acked, side.talk.taken, "what is around it is left out");
            }
        }
    }
}

#[test]
fn a_second_session_resumes_the_first_unless_it_may_not() {
    for (versions, version) in [(ONLY_1_2, "1.2"), (ONLY_1_3, "1.3")] {
        for resume in [true, false] {
            let asked = Asked { client: versions, resume, ..USUAL };
            let mut both = Both::new(&asked, (4096, 0));
            for resumes in [false, resume] {
                both.again();
                both.sides[CLIENT].talk.says = data(100, 1);
                both.connect();
                both.run(1000);
                for events in both.events() {
                    assert!(is_completed(events, resumes, version), "{version}: {events:?}");
                }
            }
        }
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_and_the_server_is_told() {
    let other = |_: &Identity| Trusted::only(&Identity::made_for(&[], &[]).unwrap());
    let mut both = Both::new(&Asked { trusted: other, ..USUAL }, (100, 0));
    both.connect();
    both.run(10_000);
    assert_eq!(both.causes(), [Some(TlsCause::Certificate), Some(TlsCause::Alert)]);
    assert!(both.sides.iter().all(|side| side.talk.ended.is_some()), "both are closed");
    let any = |_: &Identity| Trusted::any();
    let mut both = Both::new(&Asked { trusted: any, ..USUAL }, (100, 0));
    both.connect();
    both.run(10_000);
    assert!(both.events().iter().all(|events| is_completed(events, false, "1.3")));
}

#[test]
fn ends_that_have_nothing_in_common_say_so() {
    let versions = Asked { client: ONLY_1_2, server: ONLY_1_3, ..USUAL };
    let protocols = Asked { alpn: ["h2", "http/1.1"], ..USUAL };
    for asked in [versions, protocols] {
        let mut both = Both::new(&asked, (100, 0));
        both.connect();
        both.run(10_000);
        assert_eq!(both.causes(), [Some(TlsCause::Alert), Some(TlsCause::Incompatible)]);
    }
    let mut both = Both::new(&Asked { alpn: ["h2 http/1.1", "http/1.1"], ..USUAL }, (100, 0));
    both.connect();
    both.run(10_000);
    assert!(both.events().iter().all(|events| is_completed(events, false, "1.3")));
}

#[test]
fn what_is_no_tls_ends_the_session_and_nothing_panics() {
    let mut random = 7_u64;
    for round in 0..300 {
        let mut both = Both::new(&USUAL, (64, 0));
        both.connect();
        let side = round % 2;
        // in the beginning, within the handshake, and behind it
        both.run(round % 40);
        let len = 1 + round * 13 % 700;
        for _ in 0..len {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            both.wire.borrow_mut().queues[side].push_back((random >> 56) as u8);
        }
        if round % 3 == 0 {
            // the head of a record
            for byte in [22, 3, 3, 0, 5].into_iter().rev() {
                both.wire.borrow_mut().queues[side].push_front(byte);
            }
        }
        both.wire.borrow_mut().fin[side] = true;
        both.run(5_000);
        let events = &both.sides[side].talk.events;
        let talk = &both.sides[side].talk;
        assert!(talk.ended.is_some() || talk.peer_closed, "{round}: {events:?}");
    }
    let mut both = Both::new(&USUAL, (64, 0));
    both.connect();
    both.wire.borrow_mut().queues[SERVER].extend(b"GET / HTTP/1.1\r\n\r\n");
    both.run(1000);
    assert_eq!(both.causes(), [Some(TlsCause::Alert), Some(TlsCause::Malformed)]);
}

#[test]
fn a_peer_that_closes_without_a_word_is_noticed() {
    let mut both = Both::new(&USUAL, (64, 0));
    both.connect();
    both.run(5);
    both.wire.borrow_mut().fin[CLIENT] = true;
    both.wire.borrow_mut().queues[CLIENT].clear();
    both.run(1000);
    assert_eq!(both.causes()[CLIENT], Some(TlsCause::Closed));
    // behind the handshake
    let mut both = Both::new(&USUAL, (4096, 0));
    both.sides.iter_mut().for_each(|side| side.finishes = false);
    both.sides[SERVER].talk.says = data(5_000, 3);
    both.connect();
    both.run(100);
    assert_eq!(both.sides[CLIENT].talk.heard, data(5_000, 3));
    both.wire.borrow_mut().fin[CLIENT] = true;
    both.run(100);
    assert_eq!(both.sides[CLIENT].talk.events.last(), Some(&TlsEvent::Truncated));
    assert!(both.sides[CLIENT].talk.peer_closed);
}

#[test]
fn neither_a_peer_nor_a_program_that_takes_nothing_fills_memory() {
    let most = KEPT_MAX + ROOM + 2 * RECORD;
    let mut both = Both::new(&USUAL, (4096, u64::MAX));
    both.sides[CLIENT].talk.says = data(4 << 20, 1);
    both.sides[SERVER].talk.room = 10_000;
    both.connect();
    for _ in 0..4000 {
        both.run(1);
        for side in &mut both.sides {
            let kept = side.kept();
            assert!(kept <= most, "{kept}");
        }
    }
    let server = &mut both.sides[SERVER];
    assert_eq!(server.talk.heard, data(10_000, 1));
    // what was held is handed on as soon as there is room
    server.talk.room = 20_000;
    server.apply(Action::Receive);
    assert!(server.talk.heard.len() > 10_000);
    both.run(100);
    let server = &mut both.sides[SERVER];
    assert_eq!(server.talk.heard, data(20_000, 1));
    server.talk.room = usize::MAX;
    server.apply(Action::Receive);
    // all that left is taken at last
    both.sides[CLIENT].stack.stack.lag = 0;
    both.run(10_000);
    assert!(both.sides[SERVER].talk.heard == data(4 << 20, 1));
    assert!(both.sides[CLIENT].talk.ended.is_some());
}

#[test]
fn sessions_without_tls_go_through_untouched() {
    let wire: Rc<RefCell<Wire>> = Rc::default();
    let [client, _] = ends(&USUAL);
    // group 0 has none, group 1 has
    let profiles = vec![None, Some(client)];
    let mut stack = TlsStack::new(Tcp::new(&wire, SERVER, (100, 0)), profiles);
    let mut talk = Talk { room: 100, ..Talk::default() };
    talk.events.push(TlsEvent::Completed { resumed: false, suite: "" });
    wire.borrow_mut().opened = true;
    wire.borrow_mut().queues[SERVER].extend(b"plain");
    talk.says = b"answer".to_vec();
    for _ in 0..3 {
        stack.turn(NOW, NOW, &mut talk);
    }
    stack.apply(NOW, Action::Send(Connection(7)), &mut talk);
    stack.turn(NOW, NOW, &mut talk);
    assert_eq!(talk.heard, b"plain");
    assert_eq!(wire.borrow().queues[CLIENT], *b"answer");
}
