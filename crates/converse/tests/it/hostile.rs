//! A TCP whose peer does what the bytes of a script say: it answers or not, sends anything, reads as little as it likes, closes and
//! resets. One end is ours; what becomes of it is held against what its program may do. `fuzz/fuzz_targets/converse.rs` has the same.

use std::ops::ControlFlow;

use wirebeat_converse::stack::{
    Action, Connection, ConnectionStats, Failure, ProfileId, Programs, Reason, SessionKey, Stack,
};
use wirebeat_converse::{Converse, Waiting};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

/// When runs begin on the virtual clock.
const BEGIN: Nanos = Nanos::from_secs(1);
/// Connections of a server, at most.
const CONNECTIONS: usize = 4;
/// The most that one turn of ours may ask of the TCP: two wishes for each session, some times over.
const ACTIONS: usize = 4_096;
/// The most bytes that a program may take in at once.
const ROOM: usize = 1 << 20;

/// The bytes that are kept of what a session sends.
const SAID: usize = 4 << 10;

/// What one end of ours does: its group, without its ends.
pub const PROGRAMS: [&str; 16] = [
    "program: http",
    "program: { http: { requests: 3, pipeline: 2 } }",
    "program: { http: { method: POST, body: 5kB, expect-continue: true, requests: 2 } }",
    "program: { http: { method: HEAD, requests: 2, server-closes: true } }",
    "program: { http: { size: 3kB, framing: chunked } }",
    "program: { http: { size: { uniform: { min: 0B, max: 9kB } }, framing: close } }",
    "program: { request-response: { request: 10B, response: { exponential: { mean: 2kB } }, requests: 3 } }",
    "program: { request-response: { request: { uniform: { min: 1B, max: 900B } }, requests: 2, think: 1ms } }",
    "program: { echo: { size: 100B, messages: 3, gap: 1ms } }",
    "program: bulk",
    "program: { messages: { size: 40B, messages: 3, gap: 1ms, direction: both } }",
    "program: { messages: { gap: 1ms, direction: reverse } }",
    "program: { bulk: { bytes: 50kB, direction: both } }",
    "program: { bulk: { direction: reverse } }",
    "program: { steps: { client: [ receive-until: \"ready\\n\", send: 9B, receive: 2B, shutdown, wait-close ], \
     server: [ send-text: \"no\", receive: { uniform: { min: 1B, max: 99B } }, receive-until: \"x\" ] } }",
    "program: { steps: { client: [ repeat: { times: 4000000000, steps: [ think: 0s, send: 1B ] } ], server: [ repeat: { times: 1000, steps: [ receive: 1B ] } ] } }",
];

/// Bytes that get a peer further than any others.
const WORDS: [&[u8]; 14] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.0 404 Not Found\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"ready\n",
    b"\0\0\0\x21\0\0\0\0WM\0\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\x01!",
    b"\xff\xff\xff\xff\0\0\0\0WM\xff\xff\xff\xff\xff\xff",
    &[0xff; 300],
    &[0; 8],
];

/// One connection.
#[derive(Debug, Default)]
struct Peer {
    session: Option<SessionKey>,
    established: bool,
    sent: u64,
    closed: bool,
    finished: bool,
}

/// The TCP.
#[derive(Debug)]
struct Hostile<'a> {
    script: &'a [u8],
    peers: Vec<Peer>,
    /// Whether sessions come from the peer.
    serving: bool,
    actions: usize,
    taken: u64,
    /// The first of it.
    said: Vec<u8>,
}

impl Hostile<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.script.split_first()?;
        self.script = rest;
        Some(first)
    }

    fn end(&mut self, now: Nanos, at: usize, reason: Reason, programs: &mut dyn Programs) {
        let session = self.peers.get_mut(at).and_then(|peer| peer.session.take());
        if let Some(session) = session {
            programs.ended(now, session, reason, ConnectionStats::default());
        }
    }

    /// Takes pieces of what a session sends, at most `most` of them.
    fn pull(&mut self, now: Nanos, at: usize, most: u8, programs: &mut dyn Programs) {
        let mut scratch = vec![0; 16 << 10];
        let Some(Peer { session: Some(session), sent, established: true, .. }) = self.peers.get(at)
        else {
            return;
        };
        let (session, mut sent) = (*session, *sent);
        for _ in 0..most {
            let piece = programs.payload(session, sent, &mut scratch);
            let len = piece.len() as u64;
            self.said.extend(piece.iter().take(SAID.saturating_sub(self.said.len())));
            assert!(len <= ROOM as u64, "a piece of {len} B");
            if len == 0 {
                break;
            }
            sent += len;
            self.taken += len;
            programs.taken(now, session, sent);
        }
        if let Some(peer) = self.peers.get_mut(at) {
            peer.sent = sent;
        }
    }

    /// Hands over bytes as there is room for them; what there is none for is dropped.
    fn push(&mut self, now: Nanos, at: usize, mut bytes: &[u8], programs: &mut dyn Programs) {
        let Some(Peer { session: Some(session), established: true, closed: false, .. }) =
            self.peers.get(at)
        else {
            return;
        };
        let session = *session;
        while !bytes.is_empty() {
            let room = programs.room(session);
            let (piece, rest) = bytes.split_at(room.min(bytes.len()));
            if piece.is_empty() {
                return;
            }
            programs.received(now, session, piece);
            bytes = rest;
        }
    }

    /// Does what the next bytes of the script say. Breaks when time is to pass, with how much of it.
    fn act(&mut self, now: Nanos, programs: &mut dyn Programs) -> ControlFlow<Nanos> {
        let (Some(what), Some(which)) = (self.byte(), self.byte()) else {
            return ControlFlow::Break(Nanos::MAX);
        };
        let at = usize::from(which) % self.peers.len().max(1);
        match what % 10 {
            0 if self.serving => {
                if self.peers.len() < CONNECTIONS {
                    let connection = Connection(self.peers.len() as u32);
                    self.peers.push(Peer { established: true, ..Peer::default() });
                    let session = programs.accepted(now, connection, ProfileId(0));
                    if let Some(peer) = self.peers.last_mut() {
                        peer.session = session;
                    }
                }
            }
            0 => {
                if let Some(peer) = self.peers.get_mut(at)
                    && let (Some(session), false) = (peer.session, peer.established)
                {
                    peer.established = true;
                    programs.established(now, session, Connection(at as u32));
                }
            }
            1 => {
                let len = usize::from(which).min(self.script.len());
                let (bytes, rest) = self.script.split_at(len);
                self.script = rest;
                self.push(now, at, bytes, programs);
            }
            2 | 3 => {
                let word = WORDS.get(usize::from(what / 10) % WORDS.len()).copied();
                self.push(now, at, word.unwrap_or_default(), programs);
            }
            4 => {
                let session = self.peers.get_mut(at).and_then(|peer| {
                    let told = !peer.established || std::mem::replace(&mut peer.closed, true);
                    peer.session.filter(|_| !told)
                });
                session.into_iter().for_each(|session| programs.peer_closed(now, session));
            }
            5 => {
                let reasons = [
                    Reason::Refused,
                    Reason::TimedOut,
                    Reason::Reset,
                    Reason::Unreachable,
                    Reason::Failed(Failure::NoMemory),
                ];
                let reason = reasons.get(usize::from(what / 10) % reasons.len()).copied();
                self.end(now, at, reason.unwrap_or(Reason::Reset), programs);
            }
            6 | 7 => self.pull(now, at, which >> 2, programs),
            8 => return ControlFlow::Break(Nanos::from_micros(u64::from(which) * 100)),
            _ => return ControlFlow::Break(Nanos::from_millis(u64::from(which) * 10)),
        }
        ControlFlow::Continue(())
    }
}

impl Stack for Hostile<'_> {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        self.actions += 1;
        assert!(self.actions <= ACTIONS, "a turn has no end");
        match action {
            Action::Connect { session, .. } => {
                let connection = Connection(self.peers.len() as u32);
                self.peers.push(Peer { session: Some(session), ..Peer::default() });
                programs.opening(now, session, connection);
            }
            // when the script says so
            Action::Send(_) | Action::Receive(_) | Action::Forge(..) => {}
            Action::Finish(Connection(at)) => {
                if let Some(peer) = self.peers.get_mut(at as usize) {
                    peer.finished = true;
                }
            }
            Action::Abort(Connection(at)) => self.end(now, at as usize, Reason::Aborted, programs),
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        self.actions = 0;
        let passes = match self.act(now, programs) {
            ControlFlow::Continue(()) => Nanos::from_micros(1),
            ControlFlow::Break(passes) => passes,
        };
        // a turn that does not wait takes some time all the same
        let least = now.saturating_add(Nanos::from_micros(1));
        let now = until.min(now.saturating_add(passes)).max(least);
        for at in 0..self.peers.len() {
            if self.peers.get(at).is_some_and(|peer| peer.finished && peer.closed) {
                self.end(now, at, Reason::InOrder, programs);
            }
        }
        now
    }

    fn open(&self) -> usize {
        self.peers.iter().filter(|peer| peer.session.is_some()).count()
    }
}

/// Runs one of [`PROGRAMS`], at the end that the first byte says, against the peer that the other bytes are. Its sessions end while
/// the peer says nothing more, counters are consistent, and a server of HTTP sends no more than it was asked for. Returns the first bytes that our end said.
pub fn run(bytes: &[u8]) -> Vec<u8> {
    let Some((&choice, script)) = bytes.split_first() else { return Vec::new() };
    let serving = choice & 1 == 1;
    let place = usize::from(choice >> 1) % PROGRAMS.len();
    let program = PROGRAMS.get(place).copied().unwrap_or_default();
    let ends = match serving {
        true => "to: a, servers: { ports: 80 }",
        false => "from: a, servers: { addresses: 10.0.2.9, ports: 80 }, rate: 1000/s, count: 3",
    };
    let text = format!(
        "ports: {{ a: {{ addresses: [10.0.1.1] }} }}\n\
         sessions: {{ x: {{ {ends}, {program}, timeout: 500ms, stop: 1s }} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let sessions = compile_sessions(&scenario, &Files::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let hostile =
        Hostile { script, peers: Vec::new(), serving, actions: 0, taken: 0, said: Vec::new() };
    let mut converse = Converse::new(&sessions, Shard::WHOLE, hostile, BEGIN, None, Waiting::Sleep);
    let mut now = BEGIN;
    // twice for each byte, or a time-out of a session after the last of them
    for _ in 0..script.len() * 2 + 64 {
        now = converse.turn(now, now.saturating_add(Nanos::from_secs(1)));
    }
    let (_, _, counts) = converse.programs.sides().next().expect("one end is ours");
    if serving && place <= 5 {
        // a response has 9 kB of content and a head; one that refuses what it cannot read has no content
        let asked = (counts.requests + CONNECTIONS as u64) * 10_000;
        assert!(converse.stack.taken <= asked, "{} B for {counts:?}", converse.stack.taken);
    }
    converse.close_all(now);
    for _ in 0..64 {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(1)));
    }
    converse.abort_all(now);
    assert_eq!(converse.stack.open(), 0, "{:?}", converse.stack);
    let (_, _, counts) = converse.programs.sides().next().expect("one end is ours");
    assert_eq!(counts.end_books().0, counts.end_books().1, "{counts:?}");
    let (due, [opened, expired]) = counts.due_books();
    assert!(serving || due == opened + expired, "{counts:?}");
    converse.stack.said
}
