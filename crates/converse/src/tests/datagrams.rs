//! Programs over a network of datagrams in memory, which loses, doubles and delays some of them: on virtual time, each run the same.

use std::collections::VecDeque;

use wirebeat_meter::session::{SessionCounts, SessionSummary};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use crate::stack::{
    Action, Connection, ConnectionStats, ProfileId, Programs, Reason, SessionKey, Stack,
};
use crate::{Converse, End, Waiting};

const BEGIN: Nanos = Nanos::from_secs(1);
const DELAY: Nanos = Nanos::from_micros(50);

/// What becomes of datagram number `n`: how late each copy of it is.
type Fate = fn(u64) -> &'static [u64];

/// See the module. Numbers 2n and 2n + 1 are the ends of one session.
#[derive(Debug)]
struct Network {
    /// The session, what was sent of it, and its profile.
    ends: Vec<(Option<SessionKey>, u64, ProfileId)>,
    /// When it arrives, at which end, and its bytes.
    under_way: VecDeque<(Nanos, u32, Vec<u8>)>,
    sent: u64,
    fate: Fate,
}

impl Network {
    fn send(&mut self, now: Nanos, number: u32, programs: &mut dyn Programs) {
        let mut scratch = vec![0; 1 << 16];
        loop {
            let (Some(session), sent, _) = self.ends[number as usize] else { return };
            let Some(end) = programs.message_end(session, sent) else { return };
            let mut message = Vec::new();
            while sent + (message.len() as u64) < end {
                let at = sent + message.len() as u64;
                let piece = programs.payload(session, at, &mut scratch);
                let left = (end - at) as usize;
                message.extend_from_slice(&piece[..piece.len().min(left)]);
            }
            for late in (self.fate)(self.sent) {
                let at = now.saturating_add(DELAY).saturating_add(Nanos::from_micros(*late));
                self.under_way.push_back((at, number ^ 1, message.clone()));
            }
            self.sent += 1;
            self.ends[number as usize].1 = end;
            programs.taken(now, session, end);
        }
    }

    fn end(&mut self, now: Nanos, number: u32, reason: Reason, programs: &mut dyn Programs) {
        if let Some(session) = self.ends[number as usize].0.take() {
            programs.ended(now, session, reason, ConnectionStats::default());
        }
    }
}

impl Stack for Network {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        match action {
            Action::Connect { session, profile, .. } => {
                let number = self.ends.len() as u32;
                self.ends.push((Some(session), 0, profile));
                self.ends.push((None, 0, profile));
                programs.opening(now, session, Connection(number));
                programs.established(now, session, Connection(number));
            }
            Action::Send(Connection(number)) => self.send(now, number, programs),
            Action::Receive(_) | Action::Forge(..) => {}
            Action::Finish(Connection(number)) => {
                self.send(now, number, programs);
                self.end(now, number, Reason::InOrder, programs);
            }
            Action::Abort(Connection(number)) => self.end(now, number, Reason::Aborted, programs),
        }
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        let first = self.under_way.iter().map(|(at, ..)| *at).min();
        let now = first.unwrap_or(until).min(until).max(now.saturating_add(Nanos::from_micros(1)));
        let (due, later) =
            std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= now);
        self.under_way = later;
        let mut due: Vec<_> = VecDeque::into(due);
        due.sort_by_key(|(at, ..)| *at);
        for (_, number, message) in due {
            let (known, _, profile) = self.ends[number as usize];
            let session = match known {
                Some(session) => Some(session),
                None if number % 2 == 1 => {
                    let session = programs.accepted(now, Connection(number), profile);
                    // one that was silent for long is another now
                    (self.ends[number as usize].0, self.ends[number as usize].1) = (session, 0);
                    session
                }
                None => None,
            };
            if let Some(session) = session {
                programs.message(now, session, &message);
            }
        }
        now
    }

    fn open(&self) -> usize {
        self.ends.iter().filter(|(session, ..)| session.is_some()).count()
    }
}

fn run(fate: Fate, group: &str) -> (SessionCounts, SessionSummary) {
    let text = format!(
        "ports: {{ a: {{}}, b: {{ addresses: [10.0.2.9] }} }}\n\
         sessions: {{ x: {{ from: a, to: b, transport: udp, servers: {{ ports: 80 }}, {group} }} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let network = Network { ends: Vec::new(), under_way: VecDeque::new(), sent: 0, fate };
    let mut converse =
        Converse::new(&sessions, Shard::WHOLE, network, BEGIN, None, Waiting::Hybrid);
    let (mut now, end) = (BEGIN, BEGIN.saturating_add(Nanos::from_secs(60)));
    while now < end && !converse.is_done(now) {
        now = converse.turn(now, end);
    }
    converse.close_all(now);
    for _ in 0..100 {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(1)));
    }
    let summaries = converse.programs.summaries();
    let of = |end: End| summaries.iter().find(|(_, of, _)| *of == end).unwrap().2.clone();
    let (client, server) = (of(End::Client), of(End::Server));
    for counts in [&client.counts, &server.counts] {
        assert_eq!((counts.open(), counts.damaged), (0, 0), "{counts:#?}");
        assert_eq!(counts.end_books().0, counts.end_books().1, "{counts:#?}");
    }
    let (due, [opened, expired]) = client.counts.due_books();
    assert_eq!(due, opened + expired);
    // a server has nothing left to do
    assert_eq!(server.counts.in_order, server.counts.opened, "{:#?}", server.counts);
    (server.counts, client)
}

const ONE: &[u64] = &[0];

#[test]
fn every_program_of_messages_is_done_where_nothing_is_lost() {
    for (program, requests) in [
        ("echo: { messages: 30, gap: 1ms }", 60),
        ("echo: { size: 3B, messages: 5 }", 10),
        ("request-response: { request: 500B, response: 60000B, requests: 4, think: 3ms }", 8),
        ("request-response: { request: { uniform: { min: 1B, max: 90B } }, requests: 9 }", 18),
        ("dns: { requests: 7, think: 1ms, answers: [10.0.0.1] }", 14),
    ] {
        let (server, client) =
            run(|_| ONE, &format!("program: {{ {program} }}, rate: 50/s, count: 2"));
        let counts = client.counts;
        assert_eq!((counts.in_order, counts.established), (2, 2), "{program}: {counts:#?}");
        assert_eq!((counts.requests, counts.responses), (requests, requests), "{program}");
        assert_eq!((server.requests, server.responses), (requests, requests), "{program}");
        let left = [
            counts.unexpected,
            counts.lost_responses,
            counts.late_responses,
            counts.malformed_messages,
        ];
        assert_eq!(left, [0; 4], "{program}");
        assert_eq!(
            (counts.sent_bytes, server.sent_bytes),
            (server.delivered_bytes, counts.delivered_bytes)
        );
    }
}

#[test]
fn what_is_lost_is_counted_and_the_next_request_follows() {
    // every third of the requests and of their responses together
    let lossy: Fate = |n| if n % 3 == 2 { &[] } else { ONE };
    for program in
        ["echo: { messages: 30 }", "request-response: { requests: 30 }", "dns: { requests: 30 }"]
    {
        let group = format!(
            "program: {{ {program} }}, users: 1, count: 1, timeout: 100ms, on-timeout: next"
        );
        let (server, client) = run(lossy, &group);
        let counts = client.counts;
        assert_eq!((counts.in_order, counts.requests), (1, 30), "{program}: {counts:#?}");
        assert_eq!(counts.responses + counts.lost_responses, 30, "{program}");
        assert!(counts.lost_responses >= 15, "{program}: {counts:#?}");
        assert_eq!(server.requests, server.responses);
    }
}

#[test]
fn without_next_the_session_ends_with_the_first_loss() {
    let lossy: Fate = |n| if n == 3 { &[] } else { ONE };
    for program in
        ["echo: { messages: 5 }", "request-response: { requests: 5 }", "dns: { requests: 5 }"]
    {
        let group = format!("program: {{ {program} }}, users: 1, count: 2, timeout: 100ms");
        let counts = run(lossy, &group).1.counts;
        assert_eq!((counts.timed_out, counts.in_order), (1, 1), "{program}: {counts:#?}");
        assert_eq!(
            (counts.requests, counts.responses, counts.lost_responses),
            (7, 6, 1),
            "{program}"
        );
    }
}

/// Responses that come after their requests were given up, and all datagrams twice: nothing is taken for something else.
#[test]
fn late_and_doubled_datagrams_are_known_by_their_numbers() {
    let late: Fate = |n| if n % 7 == 1 { &[130_000] } else { &[0, 20] };
    for program in
        ["echo: { messages: 20 }", "request-response: { requests: 20 }", "dns: { requests: 20 }"]
    {
        let group = format!(
            "program: {{ {program} }}, users: 1, count: 1, timeout: 100ms, on-timeout: next"
        );
        let counts = run(late, &group).1.counts;
        assert_eq!((counts.in_order, counts.requests), (1, 20), "{program}: {counts:#?}");
        assert_eq!(counts.responses + counts.lost_responses, 20, "{program}");
        assert!(counts.late_responses > 0 && counts.lost_responses > 0, "{program}: {counts:#?}");
        assert_eq!(
            (counts.unexpected, counts.malformed_messages),
            (0, 0),
            "{program}: {counts:#?}"
        );
    }
}

#[test]
fn nobody_who_answers_is_a_session_that_was_never_established() {
    let (server, client) = run(|_| &[], "program: echo, rate: 10/s, count: 3, timeout: 200ms");
    let counts = client.counts;
    assert_eq!((counts.established, counts.timed_out, counts.lost_responses), (0, 3, 3));
    assert_eq!(server.opened, 0);
}

#[test]
fn messages_one_way_that_are_lost_late_or_doubled_are_told_apart() {
    let group =
        "program: { messages: { messages: 20, size: 60B } }, users: 1, count: 1, timeout: 1s";
    let counts = |fate: Fate| {
        let (server, client) = run(fate, group);
        let (client, server) = (client.counts, server);
        assert_eq!((client.in_order, client.messages_sent), (1, 20), "{client:#?}");
        assert_eq!((server.in_order, server.malformed_messages), (1, 0), "{server:#?}");
        [
            server.messages_received,
            server.messages_lost,
            server.messages_out_of_order,
            server.messages_duplicate,
        ]
    };
    assert_eq!(counts(|_| &[0]), [20, 0, 0, 0]);
    assert_eq!(counts(|n| if n == 3 { &[] } else { &[0] }), [19, 1, 0, 0]);
    assert_eq!(counts(|n| if n == 3 { &[25_000] } else { &[0] }), [20, 0, 1, 0]);
    assert_eq!(counts(|n| if n % 2 == 0 { &[0, 5_000] } else { &[0] }), [20, 0, 0, 10]);
}
