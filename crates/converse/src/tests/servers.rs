//! Servers and peers that want more of them than a server should give: what they send by hand, on virtual time.

use wirebeat_meter::session::SessionCounts;
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use crate::session::Protocol;
use crate::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};
use crate::{Converse, Waiting};

const BEGIN: Nanos = Nanos::from_secs(1);

/// A TCP, or a network of datagrams, that takes all that is sent at once. Peers are connections, by their numbers.
#[derive(Debug, Default)]
struct Peers {
    sessions: Vec<Option<SessionKey>>,
    taken: Vec<u64>,
    /// Whether what is sent is left with the sender.
    full: bool,
    finished: usize,
    aborted: usize,
}

impl Peers {
    fn take(&mut self, now: Nanos, at: u32, programs: &mut dyn Programs) {
        let mut scratch = vec![0; 1 << 16];
        while let Some(session) = self.sessions[at as usize].filter(|_| !self.full) {
            let taken = self.taken[at as usize];
            let len = programs.payload(session, taken, &mut scratch).len() as u64;
            if len == 0 {
                return;
            }
            self.taken[at as usize] = taken + len;
            programs.taken(now, session, taken + len);
        }
    }
}

impl Stack for Peers {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        match action {
            Action::Send(Connection(at)) => self.take(now, at, programs),
            Action::Finish(Connection(at)) => {
                self.take(now, at, programs);
                self.finished += 1;
            }
            Action::Abort(Connection(at)) => {
                let Some(session) = self.sessions[at as usize].take() else { return };
                self.aborted += 1;
                programs.ended(now, session, Reason::Aborted, ConnectionStats::default());
            }
            Action::Connect { .. } | Action::Receive(_) | Action::Forge(..) => {}
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, _programs: &mut dyn Programs) -> Nanos {
        until.max(now.saturating_add(Nanos::from_micros(1)))
    }

    fn open(&self) -> usize {
        self.sessions.iter().flatten().count()
    }
}

/// Servers, and the time.
struct Served {
    converse: Converse<Peers>,
    now: Nanos,
}

impl Served {
    fn new(group: &str) -> Served {
        let text = format!(
            "ports: {{ a: {{ addresses: [10.0.1.1] }} }}\nsessions: {{ x: {{ to: a, servers: {{ ports: 80 }}, {group} }} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
        let peers = Peers::default();
        let converse = Converse::new(&sessions, Shard::WHOLE, peers, BEGIN, None, Waiting::Sleep);
        Served { converse, now: BEGIN }
    }

    fn accept(&mut self) -> SessionKey {
        let at = Connection(self.converse.stack.sessions.len() as u32);
        let session = self.converse.programs.accepted(self.now, at, ProfileId(0)).unwrap();
        self.converse.stack.sessions.push(Some(session));
        self.converse.stack.taken.push(0);
        session
    }

    fn pass(&mut self, time: Nanos) {
        let until = self.now.saturating_add(time);
        while self.now < until {
            self.now = self.converse.turn(self.now, until);
        }
    }

    fn say(&mut self, session: SessionKey, bytes: &[u8]) {
        self.converse.programs.received(self.now, session, bytes);
        self.pass(Nanos::from_millis(1));
    }

    fn counts(&self) -> SessionCounts {
        *self.converse.programs.sides().next().unwrap().2
    }
}

#[test]
fn a_server_of_http_does_not_read_for_ever_behind_its_own_refusal() {
    let mut served = Served::new("program: http, timeout: 60s");
    let session = served.accept();
    served.say(session, b"no HTTP at all\r\n\r\n");
    assert_eq!((served.converse.stack.finished, served.converse.stack.aborted), (1, 0));
    assert!(served.converse.stack.taken[0] > 20, "a response");
    let mut seconds = 0;
    while served.converse.stack.aborted == 0 && seconds < 10 {
        for _ in 0..10 {
            if served.converse.stack.aborted == 0 {
                served.say(session, &[b'x'; 1000]);
                served.pass(Nanos::from_millis(99));
            }
        }
        seconds += 1;
    }
    assert!((2..=3).contains(&seconds), "{seconds}");
    assert_eq!(served.counts().malformed, 1, "{:#?}", served.counts());
}

#[test]
fn a_request_whose_head_never_ends_times_out() {
    let mut served = Served::new("program: http, timeout: 5s");
    let (slow, quick) = (served.accept(), served.accept());
    served.say(slow, b"GET / HTTP/1.1\r\nHost: x\r\n");
    let mut sent = 0;
    while served.converse.stack.aborted == 0 && sent < 60 {
        served.say(slow, b"X-Slow: 1\r\n");
        // another one that asks again and again goes on
        served.say(quick, b"GET / HTTP/1.1\r\nHo");
        served.say(quick, b"st: x\r\n\r\n");
        served.pass(Nanos::from_millis(500));
        sent += 1;
    }
    assert!((8..=11).contains(&sent), "{sent}");
    let counts = served.counts();
    assert_eq!((counts.timed_out, counts.responses), (1, sent), "{counts:#?}");
}

#[test]
fn sources_of_datagrams_keep_no_memory_for_what_was_sent_back() {
    let mut served = Served::new("program: echo, transport: udp, timeout: 60s");
    let held = |served: &Served| -> usize {
        let of = |session: &crate::session::Session| match &session.protocol {
            Protocol::Echo(kept) => kept.capacity(),
            _ => 0,
        };
        served.converse.programs.sessions.iter_whole().map(of).sum()
    };
    let all: Vec<SessionKey> = (0..1000).map(|_| served.accept()).collect();
    for session in &all {
        served.converse.programs.message(served.now, *session, &[7; 60_000]);
        served.pass(Nanos::from_micros(10));
    }
    assert_eq!((served.counts().responses, held(&served)), (1000, 0));
    let spare: usize = served.converse.programs.spare.iter().map(Vec::capacity).sum();
    assert!(spare <= 16 << 16, "{spare}");
    // what waits is kept, and gone when it was sent
    served.converse.stack.full = true;
    served.converse.programs.message(served.now, all[0], &[7; 60_000]);
    served.pass(Nanos::from_micros(10));
    assert!(held(&served) >= 60_000);
    served.converse.stack.full = false;
    served.converse.programs.message(served.now, all[0], &[7; 10]);
    served.pass(Nanos::from_micros(10));
    assert_eq!((served.counts().responses, held(&served)), (1002, 0));
}

#[test]
fn a_server_of_datagrams_that_is_closed_does_not_time_out_before_it_has_ended() {
    let program = "{ request-response: { request: 35B, response: 51B } }";
    let mut served = Served::new(&format!("program: {program}, transport: udp, timeout: 2s"));
    let session = served.accept();
    served.converse.programs.message(served.now, session, &[0; 35]);
    served.pass(Nanos::from_millis(1900));
    served.converse.programs.close_all(served.now);
    served.pass(Nanos::from_secs(5));
    assert_eq!((served.converse.stack.finished, served.converse.stack.aborted), (1, 0));
    let (now, stats) = (served.now, ConnectionStats::default());
    served.converse.programs.ended(now, session, Reason::InOrder, stats);
    let counts = served.counts();
    assert_eq!((counts.responses, counts.in_order, counts.timed_out), (1, 1, 0), "{counts:#?}");
}

/// The time that a session waited for comes after its end was asked for: it is no reason to reset it.
#[test]
fn a_session_that_the_end_of_the_run_closes_is_not_reset_at_the_time_that_it_waited_for() {
    let steps = "{ steps: { client: [ wait-close ], server: [ think: 2s ] } }";
    let mut served = Served::new(&format!("program: {steps}, timeout: 60s"));
    served.accept();
    served.pass(Nanos::from_millis(1900));
    served.converse.programs.close_all(served.now);
    served.pass(Nanos::from_secs(5));
    assert_eq!((served.converse.stack.finished, served.converse.stack.aborted), (1, 0));
}

/// What is closed all at once is lost at receive rings, and again when all of it is sent again.
#[test]
fn a_run_closes_sessions_as_fast_as_they_end_and_silent_ones_by_the_time() {
    let mut served = Served::new("program: { http: { size: 1kB } }, timeout: 60s");
    let all: Vec<SessionKey> = (0..30_000).map(|_| served.accept()).collect();
    served.pass(Nanos::from_micros(10));
    served.converse.programs.close_all(served.now);
    served.pass(Nanos::from_millis(9));
    assert_eq!(served.converse.stack.finished, 4096);
    for ended in 1..=2 {
        // as many as end
        for session in &all[(ended - 1) * 1000..ended * 1000] {
            let (now, stats) = (served.now, ConnectionStats::default());
            served.converse.programs.ended(now, *session, Reason::InOrder, stats);
        }
        served.pass(Nanos::from_millis(9));
        assert_eq!(served.converse.stack.finished, 4096 + ended * 1000);
    }
    // none of the others, in 10 ms
    served.pass(Nanos::from_millis(2));
    assert_eq!(served.converse.stack.finished, 2 * 4096 + 2000);
    served.pass(Nanos::from_millis(200));
    assert_eq!(served.converse.stack.finished, 30_000);
    served.converse.abort_all(served.now);
    let counts = served.counts();
    assert_eq!((counts.opened, counts.unfinished, counts.open()), (30_000, 30_000, 0));
}
