use wirebeat_meter::session::{SessionCounts, SessionSummary, SessionTime};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use super::memory::Memory;
use crate::conversations::Conversations;
use crate::stack::{Action, Connection, ConnectionStats, Programs, Reason, SessionKey, TlsEvent};
use crate::{Converse, End, Waiting};

/// When runs begin on the virtual clock.
const BEGIN: Nanos = Nanos::from_secs(1);

/// Runs a group of sessions between `a` and `b` to its end, 20 s at most; both ends' summaries.
fn run_over(memory: Memory, group: &str) -> (SessionSummary, SessionSummary, Memory) {
    let text = format!(
        "ports: {{ a: {{}}, b: {{ addresses: [10.0.2.9] }} }}\n\
         sessions: {{ x: {{ from: a, to: b, servers: {{ ports: 80 }}, {group} }} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let mut converse = Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Hybrid);
    let (mut now, end) = (BEGIN, BEGIN.saturating_add(Nanos::from_secs(20)));
    while now < end && (!converse.is_done(now) || converse.programs.has_open()) {
        now = converse.turn(now, end);
    }
    converse.close_all(now);
    for _ in 0..1000 {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(1)));
    }
    converse.abort_all(now);
    let summaries = converse.programs.summaries();
    let of = |end: End| summaries.iter().find(|(_, e, _)| *e == end).unwrap().2.clone();
    let (client, server) = (of(End::Client), of(End::Server));
    for side in [&client, &server] {
        let counts = &side.counts;
        assert_eq!(counts.open(), 0, "{counts:#?}");
        assert_eq!(counts.end_books().0, counts.end_books().1, "{counts:#?}");
    }
    let (due, [opened, expired]) = client.counts.due_books();
    assert_eq!(due, opened + expired);
    (client, server, converse.stack)
}

fn run(group: &str) -> (SessionSummary, SessionSummary) {
    let (client, server, _) = run_over(Memory::new(1448), group);
    (client, server)
}

/// All sessions ended in order, and each end has what the other sent.
fn all_in_order(client: &SessionCounts, server: &SessionCounts, sessions: u64) {
    assert_eq!((client.due, client.in_order), (sessions, sessions), "{client:#?}");
    assert_eq!((server.opened, server.in_order), (sessions, sessions), "{server:#?}");
    assert_eq!(client.sent_bytes, server.delivered_bytes, "{client:#?} {server:#?}");
    assert_eq!(server.sent_bytes, client.delivered_bytes);
    assert_eq!(client.offered_bytes, client.sent_bytes);
    assert_eq!((client.damaged, server.damaged, client.unexpected), (0, 0, 0));
}

#[test]
fn http_with_lengths_chunks_pipelines_and_close() {
    for (program, sessions, requests) in [
        ("http", 5, 5),
        ("http: { requests: 7 }", 2, 14),
        ("http: { requests: 20, pipeline: 8, size: 3kB }", 2, 40),
        ("http: { requests: 3, framing: chunked, size: 10000B }", 2, 6),
        ("http: { framing: close, size: 100kB }", 2, 2),
        ("http: { requests: 3, server-closes: true }", 2, 6),
        ("http: { method: HEAD, requests: 2 }", 2, 4),
        ("http: { method: POST, body: 20kB, requests: 2 }", 2, 4),
        ("http: { method: PUT, body: 20kB, expect-continue: true, requests: 3 }", 2, 6),
        ("http: { requests: 2, status: 204 }", 2, 4),
        ("http: { requests: 3, think: 5ms }", 2, 6),
        ("http: { requests: 4, size: { uniform: { min: 0B, max: 5kB } } }", 3, 12),
    ] {
        for piece in [1, 7, 1448, 1 << 20] {
            let program =
                if program == "http" { program.to_owned() } else { format!("{{ {program} }}") };
            let group = format!("program: {program}, rate: 100/s, count: {sessions}");
            let (client, server, memory) = run_over(Memory::new(piece), &group);
            all_in_order(&client.counts, &server.counts, sessions);
            assert_eq!(client.counts.requests, requests, "{program}");
            assert_eq!(client.counts.responses, requests, "{program}");
            assert_eq!(server.counts.requests, requests, "{program}");
            assert_eq!(client.statuses.values().sum::<u64>(), requests);
            let times = client.time(SessionTime::Response);
            assert_eq!(times.actual.moments.count, requests);
            assert!(times.actual.moments.min >= 100_000, "a round trip takes two delays");
            assert_eq!(client.time(SessionTime::FirstByte).actual.moments.count, requests);
            assert_eq!(memory.remotes[0].to_string(), "10.0.2.9:80");
        }
    }
}

#[test]
fn dns_over_a_stream_is_read_in_any_pieces() {
    for piece in [1, 7, 1448] {
        let program =
            "{ dns: { name: 'h{n}.example.com', requests: 9, think: 1ms, answers: [10.0.0.1] } }";
        let group = format!("program: {program}, rate: 50/s, count: 3");
        let (client, server, _) = run_over(Memory::new(piece), &group);
        all_in_order(&client.counts, &server.counts, 3);
        assert_eq!((client.counts.requests, client.counts.responses), (27, 27));
        assert_eq!((server.counts.requests, server.counts.responses), (27, 27));
        assert_eq!((client.statuses.get(&0), client.counts.malformed_messages), (Some(&27), 0));
    }
}

#[test]
fn requests_and_responses_of_fixed_and_drawn_sizes() {
    for program in [
        "request-response",
        "{ request-response: { request: 10B, response: 200kB, requests: 5 } }",
        "{ request-response: { request: { uniform: { min: 1B, max: 900B } }, response: { exponential: { mean: 2kB } }, requests: 9, think: 1ms } }",
    ] {
        for piece in [1, 1448] {
            let group = format!("program: {program}, rate: 50/s, count: 4");
            let (client, server, _) = run_over(Memory::new(piece), &group);
            all_in_order(&client.counts, &server.counts, 4);
            assert_eq!(client.counts.requests, client.counts.responses);
            assert!(client.counts.verified_bytes > 0, "{:?}", client.counts);
        }
    }
}

#[test]
fn bulk_ends_at_its_bytes_or_at_the_stop() {
    for (program, forward, reverse) in [
        ("{ bulk: { bytes: 3MB } }", Some(3_000_000), Some(0)),
        ("{ bulk: { bytes: 3MB, direction: reverse } }", Some(0), Some(3_000_000)),
        ("{ bulk: { bytes: 1MB, direction: both } }", Some(1_000_000), Some(1_000_000)),
        ("bulk", None, Some(0)),
        ("{ bulk: { direction: reverse } }", Some(0), None),
        ("{ bulk: { direction: both } }", None, None),
    ] {
        let (client, server) = run(&format!("program: {program}, users: 1, count: 1, stop: 2ms"));
        all_in_order(&client.counts, &server.counts, 1);
        for (sent, should) in
            [(client.counts.sent_bytes, forward), (server.counts.sent_bytes, reverse)]
        {
            match should {
                Some(bytes) => assert_eq!(sent, bytes, "{program}"),
                None => assert!(sent > 1_000_000, "{program}: {sent}"),
            }
        }
        assert_eq!(server.counts.verified_bytes, server.counts.delivered_bytes);
    }
}

#[test]
fn echoed_messages_are_paced_by_their_plan() {
    let (client, server) =
        run("program: { echo: { size: 100B, messages: 50, gap: 2ms } }, rate: 10/s, count: 2");
    all_in_order(&client.counts, &server.counts, 2);
    assert_eq!((client.counts.requests, client.counts.verified_bytes), (100, 10_000));
    let session = client.time(SessionTime::Session).actual.moments;
    // 49 gaps of 2 ms, and no more than some delays
    assert!((98_000_000..99_500_000).contains(&session.min), "{session:?}");
}

#[test]
fn steps_wait_for_texts_lengths_and_times() {
    let (client, server) = run(
        "rate: 10/s, count: 3, program: { steps: { client: [ start: all, receive-until: \"ready\\n\", \
         request, send-text: \"go\", receive: 5kB, response, think: 1ms, \
         repeat: { times: 3, steps: [ send: { uniform: { min: 9B, max: 99B } }, receive: 2B ] }, stop: all ], \
         server: [ send-text: \"not yet, ready\\n\", receive: 2B, send: 5kB, \
         repeat: { times: 3, steps: [ receive: { uniform: { min: 9B, max: 99B } }, send-text: ok ] }, shutdown, wait-close ] } }",
    );
    let (c, s) = (&client.counts, &server.counts);
    assert_eq!((c.in_order, s.in_order), (3, 3), "{c:#?} {s:#?}");
    assert_eq!(c.sent_bytes, s.delivered_bytes);
    assert_eq!(client.timers["all"].moments.count, 3);
    assert_eq!(c.responses, 3);
}

#[test]
fn users_think_between_their_sessions() {
    let (client, server) = run("program: http, users: 3, think: 10ms, stop: 100ms");
    let c = &client.counts;
    // each session takes less than a millisecond
    assert!((27..=33).contains(&c.in_order), "{c:#?}");
    assert_eq!((c.in_order, client.most_open), (server.counts.in_order, 3));
}

#[test]
fn what_is_beyond_the_limit_expires_or_waits() {
    let slow =
        "program: { request-response: { think: 30ms, requests: 2 } }, rate: 1000/s, count: 20";
    let (client, _) = run(&format!("{slow}, limit: {{ open: 5 }}"));
    assert_eq!((client.counts.opened, client.counts.expired, client.most_open), (5, 15, 5));
    assert_eq!((client.counts.expired_late, client.counts.expired_waiting), (0, 0));
    let (client, _) = run(&format!("{slow}, limit: {{ open: 5, beyond: queue }}"));
    assert_eq!((client.counts.in_order, client.counts.expired, client.most_open), (20, 0, 5));
    // nor does one that waits start behind the stop
    let queued = format!("{slow}, limit: {{ open: 5, beyond: queue }}, stop: 40ms");
    let (of_stopped, _) = run(&queued);
    assert_eq!((of_stopped.counts.opened, of_stopped.counts.expired), (10, 10));
    assert_eq!((of_stopped.counts.expired_late, of_stopped.counts.expired_waiting), (0, 10));
    let lateness = client.lateness.moments;
    assert!(lateness.max > 60_000_000, "{lateness:?}");
    let response = client.time(SessionTime::Response);
    assert!(response.planned.moments.max > response.actual.moments.max + 60_000_000);
}

#[test]
fn sessions_are_held_open() {
    let (client, _) = run("program: http, hold: 300ms, rate: 100/s, count: 4");
    assert_eq!((client.counts.in_order, client.most_open), (4, 4));
    assert!(client.time(SessionTime::Session).actual.moments.min >= 300_000_000);
}

#[test]
fn ends_that_are_not_in_order_are_told_apart() {
    let refusing = Memory { refuses: true, ..Memory::new(1448) };
    let (client, _, _) = run_over(refusing, "program: http, rate: 100/s, count: 4");
    assert_eq!((client.counts.refused, client.counts.established), (4, 0));
    let silent = Memory { silent: true, ..Memory::new(1448) };
    let (client, _, _) = run_over(silent, "program: http, rate: 100/s, count: 4, timeout: 100ms");
    assert_eq!(client.counts.timed_out, 4, "{:#?}", client.counts);
    // a server that closes after the first of two requests
    let early = "program: { steps: { client: [ send: 5B, receive: 9B ], server: [ receive: 5B, send: 8B ] } }";
    let (client, server) = run(&format!("{early}, rate: 100/s, count: 4"));
    assert_eq!(client.counts.closed_early, 4, "{:#?} {:#?}", client.counts, server.counts);
    // one that says nothing in time
    let mute = "program: { steps: { client: [ receive: 9B ], server: [ think: 10s, send: 9B ] } }";
    let (client, _) = run(&format!("{mute}, rate: 100/s, count: 4, timeout: 200ms"));
    assert_eq!(client.counts.timed_out, 4, "{:#?}", client.counts);
    // one that does not speak HTTP
    let (client, _) = run(
        "rate: 100/s, count: 2, program: { steps: { client: [ send: 9B ], server: [ reset ] } }",
    );
    assert_eq!(client.counts.reset, 2, "{:#?}", client.counts);
}

#[test]
fn damaged_data_is_seen() {
    let damaging = Memory { damage: Some(500), ..Memory::new(1448) };
    let (client, _, _) =
        run_over(damaging, "program: { request-response: {} }, rate: 10/s, count: 3");
    assert_eq!((client.counts.in_order, client.counts.damaged), (3, 3), "{:#?}", client.counts);
    let damaging = Memory { damage: Some(500), ..Memory::new(1448) };
    let (client, _, _) = run_over(damaging, "program: http, rate: 10/s, count: 3");
    assert_eq!((client.counts.in_order, client.counts.damaged), (3, 3));
}

#[test]
fn what_is_open_at_the_end_is_unfinished() {
    let (client, server) = run(
        "program: { steps: { client: [ wait-close ], server: [ think: 60s ] } }, timeout: 100s, rate: 10/s, count: 3",
    );
    assert_eq!(client.counts.unfinished, 3, "{:#?}", client.counts);
    assert_eq!(server.counts.unfinished + server.counts.in_order, 3, "{:#?}", server.counts);
}

#[test]
fn a_client_may_end_with_rst() {
    let (client, server) = run("program: http, tcp: { reset: true }, rate: 100/s, count: 4");
    assert_eq!((client.counts.in_order, client.counts.responses), (4, 4));
    assert_eq!(server.counts.reset, 4);
}

#[test]
fn an_unlimited_repetition_of_nothing_ends() {
    // what a distribution says is known to the session alone
    let (client, _) = run(
        "rate: 1/s, count: 1, program: { steps: { client: [ repeat: { times: 4000000000, steps: [ think: { uniform: { min: 0s, max: 0s } } ] } ] } }",
    );
    assert_eq!(client.counts.abandoned, 1, "{:#?}", client.counts);
}

#[test]
fn a_repetition_that_waits_for_no_time_is_given_up_as_one_that_does_not_wait() {
    let steps = "{ client: [ repeat: { times: 4000000000, steps: [ think: { uniform: { min: 0s, max: 0s } } ] } ] }";
    let text = format!(
        "ports: {{ a: {{}} }}\nsessions: {{ x: {{ from: a, servers: {{ addresses: 10.0.2.9, ports: 80 }}, count: 1, \
         program: {{ steps: {steps} }} }} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let memory = Memory::new(1448);
    let mut converse = Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Hybrid);
    let mut now = BEGIN;
    for _ in 0..200 {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(1)));
    }
    converse.close_all(now);
    converse.abort_all(now);
    let (_, _, counts) = converse.programs.sides().next().unwrap();
    assert_eq!((counts.opened, counts.abandoned), (1, 1), "{counts:#?}");
}

/// Runs the groups `text` between `a` and `b` in memory, and shows the counts of clients at each of `times` after the begin.
fn seen_at<const N: usize>(text: &str, times: [Nanos; N]) -> [Vec<SessionCounts>; N] {
    let text =
        format!("ports: {{ a: {{}}, b: {{ addresses: [10.0.2.9] }} }}\nsessions: {{ {text} }}\n");
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let memory = Memory::new(1448);
    let mut converse = Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Sleep);
    let mut now = BEGIN;
    times.map(|time| {
        let until = BEGIN.saturating_add(time);
        while now < until {
            now = converse.turn(now, until);
            converse.is_done(now);
        }
        let sides = converse.programs.sides();
        sides.filter(|(_, end, _)| *end == End::Client).map(|(_, _, counts)| *counts).collect()
    })
}

#[test]
fn sessions_open_close_and_send_at_their_rates() {
    let at = Nanos::from_millis;
    // all at once by users: 10 a second
    let group = "x: { from: a, to: b, servers: { ports: 80 }, program: http, users: 50, count: 50, limit: { opening: 10/s } }";
    let [early, late] = seen_at(group, [at(951), at(6000)]);
    assert_eq!((early[0].opened, early[0].due), (10, 50), "{:#?}", early[0]);
    assert_eq!((late[0].opened, late[0].in_order), (50, 50));
    // by a burst, with as many open as may be and the others waiting
    let group = "x: { from: a, to: b, servers: { ports: 80 }, program: http, hold: 10s, count: 9, \
                 limit: { open: 5, beyond: queue, opening: 100/s } }";
    let [early, late] = seen_at(group, [at(25), at(1000)]);
    assert_eq!((early[0].opened, late[0].opened), (3, 5));
    // closed one after the other
    let group = "x: { from: a, to: b, servers: { ports: 80 }, program: http, count: 20, limit: { closing: 10/s } }";
    let [early, late] = seen_at(group, [at(551), at(3000)]);
    assert_eq!((early[0].established, early[0].in_order), (20, 6), "{:#?}", early[0]);
    assert_eq!(late[0].in_order, 20);
    // requests of all sessions together
    for program in [
        "{ http: { requests: 4 } }",
        "{ echo: { messages: 4 } }",
        "{ request-response: { requests: 4 } }",
    ] {
        let group = format!(
            "x: {{ from: a, to: b, servers: {{ ports: 80 }}, program: {program}, count: 5, limit: {{ sending: 10/s }} }}"
        );
        let [early, late] = seen_at(&group, [at(951), at(4000)]);
        assert_eq!(
            (early[0].requests, early[0].established),
            (10, 5),
            "{program}: {:#?}",
            early[0]
        );
        assert_eq!((late[0].responses, late[0].in_order), (20, 5), "{program}");
    }
}

#[test]
fn a_group_begins_when_another_has_its_sessions() {
    let at = Nanos::from_millis;
    let groups = "one: { from: a, to: b, servers: { ports: 80 }, program: http, rate: 10/s, count: 20 }, \
                  two: { from: a, to: b, servers: { ports: 81 }, program: http, rate: 100/s, count: 5, start: 1s, \
                         after: { group: one, established: 5 } }, \
                  three: { from: a, to: b, servers: { ports: 82 }, program: http, users: 3, count: 7, after: { group: two, established: 5 } }";
    let [early, late] = seen_at(groups, [at(1399), at(3000)]);
    // the fifth is established some 0.4 s after the begin
    assert_eq!(early.iter().map(|of| of.due).collect::<Vec<_>>(), [14, 0, 0]);
    assert_eq!(late.iter().map(|of| of.in_order).collect::<Vec<_>>(), [20, 5, 7], "{late:#?}");
}

#[test]
fn a_group_stops_when_it_has_the_sessions_that_it_was_to_reach() {
    let at = Nanos::from_millis;
    let groups = "one: { from: a, to: b, servers: { ports: 80 }, program: http, rate: 100/s, until: { established: 5 } }, \
                  two: { from: a, to: b, servers: { ports: 81 }, program: http, users: 3, think: 10ms, until: { established: 5 } }, \
                  three: { from: a, to: b, servers: { ports: 82 }, program: http, count: 3, after: { group: two, established: 5 } }";
    let [early, late] = seen_at(groups, [at(500), at(3000)]);
    for (group, counts) in early.iter().enumerate() {
        assert!((3..9).contains(&counts.opened), "{group}: {counts:#?}");
        assert_eq!(counts.due, counts.opened);
    }
    assert!(early[0].established >= 5 && early[1].established >= 5);
    assert_eq!(early, late, "nothing starts any more");
    assert!(late.iter().all(|of| of.in_order == of.opened));
}

#[test]
fn starts_that_wait_for_their_turn_are_given_up_when_the_group_stops() {
    let at = Nanos::from_millis;
    let group = "x: { from: a, to: b, servers: { ports: 80 }, program: http, users: 50, count: 50, limit: { opening: 10/s }, \
                 until: { established: 3 } }";
    let [late] = seen_at(group, [at(9000)]);
    assert_eq!((late[0].due, late[0].opened + late[0].expired), (50, 50), "{:#?}", late[0]);
    assert!((3..5).contains(&late[0].opened), "{:#?}", late[0]);
}

#[test]
fn servers_wait_for_clients_that_keep_silent_by_plan() {
    for keys in ["hold: 5s, program: http", "program: { http: { requests: 2, think: 5s } }"] {
        let (client, server) = run(&format!("timeout: 1s, count: 3, {keys}"));
        assert_eq!((client.counts.in_order, server.counts.in_order), (3, 3), "{keys}");
    }
    // and for those whose turn to send comes late
    let (client, server) = run(
        "timeout: 1s, count: 5, limit: { sending: 1/s }, program: { request-response: { requests: 2 } }",
    );
    assert_eq!((client.counts.in_order, server.counts.in_order), (5, 5));
}

/// The programs of a scenario, and its first session, which is connected to a server of somebody else's.
fn lone_client(text: &str) -> (Conversations, SessionKey) {
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let mut programs = Conversations::new(&sessions, Shard::WHOLE, BEGIN, None);
    programs.start(BEGIN, 0, BEGIN, 0);
    let Some(Action::Connect { session, .. }) = programs.next_action() else { panic!() };
    programs.established(BEGIN, session, Connection(1));
    (programs, session)
}

/// The network takes all that the session has to say.
fn ask(programs: &mut Conversations, session: SessionKey) {
    let mut scratch = [0; 1000];
    let asked = programs.payload(session, 0, &mut scratch).len() as u64;
    assert!(asked > 0);
    programs.taken(BEGIN, session, asked);
}

/// A body whose end nothing but the close says is whole only where TLS says so too.
#[test]
fn a_body_that_tls_cut_is_no_response() {
    for (is_cut, counted) in [(true, (0, 1, 0)), (false, (1, 0, 1))] {
        let text = "ports: { a: {} }\nsessions: { x: { from: a, servers: { addresses: 10.0.2.9, ports: 443 }, program: http, count: 1, \
                    tls: true } }\n";
        let (mut programs, session) = lone_client(text);
        let completed = TlsEvent::Completed { resumed: false, suite: "TLS13_AES_128_GCM_SHA256" };
        programs.tls(BEGIN, session, completed);
        ask(&mut programs, session);
        programs.received(BEGIN, session, b"HTTP/1.1 200 OK\r\n\r\nhalf a page");
        if is_cut {
            programs.tls(BEGIN, session, TlsEvent::Truncated);
        }
        programs.peer_closed(BEGIN, session);
        programs.ended(BEGIN, session, Reason::InOrder, ConnectionStats::default());
        let counts = programs.summaries()[0].2.counts;
        assert_eq!(
            (counts.responses, counts.closed_early, counts.in_order),
            counted,
            "{counts:#?}"
        );
    }
}

/// RFC 9112 §6.1 and RFC 9110 §7.8: after a response whose framing is doubtful, and one that leaves HTTP unasked, nothing more can be
/// asked, and it is not the server who closes.
#[test]
fn a_response_that_leaves_no_way_to_go_on_is_malformed() {
    let chunks = "Transfer-Encoding: chunked";
    for (response, counted) in [
        (format!("HTTP/1.1 200 OK\r\n{chunks}\r\n\r\n0\r\n\r\n"), (1, 0, 0)),
        (format!("HTTP/1.1 200 OK\r\n{chunks}\r\nConnection: close\r\n\r\n0\r\n\r\n"), (1, 1, 0)),
        (format!("HTTP/1.1 200 OK\r\n{chunks}\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"), (1, 0, 1)),
        (format!("HTTP/1.0 200 OK\r\n{chunks}\r\n\r\n0\r\n\r\n"), (1, 0, 1)),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(), (1, 0, 1)),
    ] {
        let text = "ports: { a: {} }\nsessions: { x: { from: a, servers: { addresses: 10.0.2.9, ports: 80 }, count: 1, \
                    program: { http: { requests: 2 } } } }\n";
        let (mut programs, session) = lone_client(text);
        ask(&mut programs, session);
        programs.received(BEGIN, session, response.as_bytes());
        while programs.next_action().is_some() {}
        programs.ended(BEGIN, session, Reason::Aborted, ConnectionStats::default());
        let counts = programs.summaries()[0].2.counts;
        let (early, malformed) = (counts.closed_early, counts.malformed);
        assert_eq!((counts.responses, early, malformed), counted, "{response}: {counts:#?}");
    }
}

#[test]
fn a_group_that_waits_in_vain_does_not_keep_the_run_from_its_end() {
    let text = "ports: { a: {} }\nsessions: { one: { from: a, servers: { addresses: 10.0.2.9, ports: 80 }, program: http, count: 2 }, \
                two: { from: a, servers: { addresses: 10.0.2.9, ports: 80 }, program: http, count: 2, after: { group: one } }, \
                three: { from: a, servers: { addresses: 10.0.2.9, ports: 80 }, program: http, users: 1, after: { group: two } } }\n";
    let scenario = Scenario::from_yaml(text, "").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let memory = Memory { refuses: true, ..Memory::new(1448) };
    let mut converse = Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Sleep);
    let (mut now, end) = (BEGIN, BEGIN.saturating_add(Nanos::from_secs(5)));
    while now < end && !converse.is_done(now) {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(20)));
    }
    assert!(now < end, "it went on");
    let due: Vec<u64> = converse.programs.sides().map(|(_, _, counts)| counts.due).collect();
    assert_eq!(due, [2, 0, 0]);
}

#[test]
fn steps_expect_texts_and_jump_by_variables() {
    let (client, server) = run("rate: 100/s, count: 3, program: { steps: { \
           client: [ { set: { n: 3 } }, { label: again }, request, { send-text: \"ping\" }, { expect: \"pong\" }, response, \
                     { add: { n: -1 } }, { jump: { to: again, if: 'n > 0' } }, { expect: \"bye!\" } ], \
           server: [ { repeat: { times: 2, steps: [ { receive: 4B }, { send-text: \"pong\" } ] } }, { receive: 4B }, { send-text: \"poNgbye!\" }, wait-close ] } }");
    assert_eq!((client.counts.in_order, server.counts.in_order), (3, 3), "{client:#?}");
    // one answer of each session is another than was expected
    assert_eq!((client.counts.responses, client.counts.unexpected), (9, 3));
}

/// HTTP whose conversation is written out: the readers find where each message ends.
#[test]
fn steps_wait_for_whole_messages_of_http() {
    let get = "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n";
    let put =
        "PUT / HTTP/1.1\\r\\nHost: a\\r\\nExpect: 100-continue\\r\\nContent-Length: 3\\r\\n\\r\\n";
    let head = "HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n";
    let chunked = "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nhe\\r\\n3\\r\\nllo\\r\\n0\\r\\n\\r\\n";
    let missing = "HTTP/1.1 404 Not Found\\r\\nContent-Length: 0\\r\\n\\r\\n";
    let lasting = "HTTP/1.1 200 OK\\r\\n\\r\\nuntil the end";
    let (client, server) = run(&format!(
        "rate: 100/s, count: 3, program: {{ steps: {{ client: [ \
         request, {{ send-text: \"{get}{get}\" }}, {{ receive-http: {{ expect-size: 5B }} }}, response, think: 1ms, {{ receive-http: {{}} }}, \
         {{ send-text: \"{put}\" }}, {{ receive-until: \"Continue\\r\\n\\r\\n\" }}, {{ send-text: abc }}, {{ receive-http: {{ expect-status: 404 }} }}, \
         {{ send-text: \"{get}\" }}, {{ receive-http: {{}} }}, {{ send-text: \"{get}\" }}, {{ receive-http: {{ method: HEAD }} }}, \
         {{ send-text: \"{get}\" }}, think: 5ms, {{ receive-http: {{ expect-size: 12B }} }} ], \
         server: [ {{ receive-http: {{}} }}, {{ send-text: \"{head}hello{chunked}\" }}, {{ receive-http: {{}} }}, {{ receive-http: {{ expect-size: 3B }} }}, {{ send-text: \"{missing}\" }}, \
         {{ receive-http: {{}} }}, {{ send-text: \"{missing}\" }}, {{ receive-http: {{}} }}, {{ send-text: \"{head}\" }}, {{ receive-http: {{}} }}, {{ send-text: \"{lasting}\" }} ] }} }}"
    ));
    let (c, s) = (&client.counts, &server.counts);
    assert_eq!((c.in_order, s.in_order), (3, 3), "{c:#?} {s:#?}");
    // a status of 404 that was not expected, and content of 13 bytes where 12 were
    assert_eq!((c.responses, c.unexpected, s.unexpected), (3, 6, 0));
    assert_eq!((c.sent_bytes, c.delivered_bytes), (s.delivered_bytes, s.sent_bytes));
    let status = |wanted: u16| client.statuses.get(&wanted).copied().unwrap_or(0);
    assert_eq!((status(200), status(404)), (12, 6), "{:?}", client.statuses);
}

/// As many requests as there is time for end with their group, by the response that comes next.
#[test]
fn endless_requests_end_when_their_group_stops() {
    for program in [
        "http: { requests: 4294967295 }",
        "http: { requests: 4294967295, think: 7ms }",
        "request-response: { requests: 4294967295 }",
        "echo: { messages: 4294967295, gap: 7ms }",
    ] {
        let (client, server) =
            run(&format!("program: {{ {program} }}, rate: 100/s, count: 3, stop: 95ms"));
        assert_eq!(
            (client.counts.in_order, server.counts.in_order),
            (3, 3),
            "{program}: {client:#?}"
        );
        assert!(client.counts.responses > 20, "{program}: {client:#?}");
        assert_eq!(client.counts.requests, client.counts.responses, "{program}");
        let time = &client.time(SessionTime::Session).actual.moments;
        assert!(time.max < 110_000_000, "{program}: {time:?}");
    }
}

/// The client closes no session before its hold is over, whichever end closes first and however it does.
#[test]
fn a_session_is_held_whatever_its_program() {
    let steps = |client: &str| {
        format!(
            "program: {{ steps: {{ client: [ {{ send-text: a }}, {{ receive: 1B }}, {client} ], server: [ {{ receive: 1B }}, {{ send-text: b }} ] }} }}"
        )
    };
    for program in [
        "program: http".to_owned(),
        "program: { http: { server-closes: true } }".to_owned(),
        "program: echo".to_owned(),
        "program: { bulk: { bytes: 10kB } }".to_owned(),
        "program: { bulk: { bytes: 10kB, direction: reverse } }".to_owned(),
        "program: { bulk: { bytes: 10kB, direction: both } }".to_owned(),
        "program: { messages: { messages: 2 } }".to_owned(),
        steps("think: 1ms"),
        steps("wait-close"),
        steps("shutdown, wait-close"),
        steps("reset"),
    ] {
        let (client, _) = run(&format!("{program}, rate: 100/s, count: 3, hold: 300ms"));
        let time = &client.time(SessionTime::Session).actual.moments;
        assert_eq!(time.count, 3, "{program}: {client:#?}");
        assert!((300_000_000..310_000_000).contains(&time.min), "{program}: {time:?}");
        assert!(time.max < 310_000_000, "{program}: {time:?}");
        assert_eq!(client.counts.in_order, 3, "{program}: {:#?}", client.counts);
    }
}

/// What a conversation without marks waits for is counted at both ends, so that what is unexpected is a part of it.
#[test]
fn messages_of_http_without_marks_are_requests_and_responses() {
    let get = "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n";
    let (found, missing) = (
        "HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\na",
        "HTTP/1.1 404 No\\r\\nContent-Length: 0\\r\\n\\r\\n",
    );
    let ask = format!("{{ send-text: \"{get}\" }}, {{ receive-http: {{}} }}");
    let (client, server) = run(&format!(
        "rate: 100/s, count: 3, program: {{ steps: {{ client: [ {ask}, {ask}, {{ expect: pong }} ], server: [ \
         {{ receive-http: {{}} }}, {{ send-text: \"{found}\" }}, {{ receive-http: {{}} }}, {{ send-text: \"{missing}\" }}, {{ send-text: ping }} ] }} }}"
    ));
    let (c, s) = (&client.counts, &server.counts);
    assert_eq!((c.in_order, s.in_order), (3, 3), "{c:#?} {s:#?}");
    assert_eq!((c.requests, c.responses, c.unexpected), (9, 9, 6), "{c:#?}");
    assert_eq!((s.requests, s.responses, s.unexpected), (6, 6, 0), "{s:#?}");
    // what is only received is neither
    let (client, server) = run(&format!(
        "rate: 100/s, count: 3, program: {{ steps: {{ client: [ {{ send-text: hel }}, {{ receive: 3B }}, {ask} ], server: [ \
         {{ receive: 3B }}, {{ send-text: abc }}, {{ receive-http: {{}} }}, {{ send-text: \"{found}\" }} ] }} }}"
    ));
    assert_eq!((client.counts.requests, server.counts.requests), (3, 3), "{server:#?}");
    assert_eq!((client.counts.responses, server.counts.responses), (3, 3), "{server:#?}");
    assert_eq!(client.time(SessionTime::Response).actual.moments.count, 0);
}

#[test]
fn a_message_of_http_that_is_invalid_or_ends_too_early_fails_its_session() {
    let with = |said: &str| {
        run(&format!(
            "rate: 100/s, count: 2, program: {{ steps: {{ client: [ {{ receive-http: {{}} }} ], server: [ {{ send-text: \"{said}\" }} ] }} }}"
        ))
    };
    let (client, _) = with("220 mail.example.net\\r\\n\\r\\n");
    assert_eq!(client.counts.malformed, 2, "{:#?}", client.counts);
    let (client, _) = with("HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\nshort");
    assert_eq!(client.counts.closed_early, 2, "{:#?}", client.counts);
    let (client, _) = with(&"HTTP/1.1 102 Processing\\r\\n\\r\\n".repeat(200));
    assert_eq!(client.counts.malformed, 2, "{:#?}", client.counts);
}

/// A peer that says all at once what is waited for in 60,000 steps, and one that closes behind it: no step needs the stack of those
/// before it, and what was said before the end counts.
#[test]
fn what_came_early_is_read_step_by_step_to_its_end() {
    let said = "x".repeat(60_000);
    let (client, _) = run(&format!(
        "rate: 100/s, count: 2, program: {{ steps: {{ client: [ think: 50ms, \
         {{ repeat: {{ times: 60000, steps: [ {{ receive-until: x }} ] }} }} ], server: [ {{ send-text: {said} }} ] }} }}"
    ));
    assert_eq!(client.counts.in_order, 2, "{:#?}", client.counts);
    // one that is found over the seams of segments, and behind beginnings that became none
    let said = "ab".repeat(3000);
    let (client, _) = run(&format!(
        "rate: 100/s, count: 2, program: {{ steps: {{ client: [ {{ receive-until: ababac }}, {{ receive-until: cc }}, {{ expect: d }} ], server: [ {{ send-text: {said}ac{said}accd }} ] }} }}"
    ));
    assert_eq!((client.counts.in_order, client.counts.unexpected), (2, 0), "{:#?}", client.counts);
}

/// A binary protocol: bytes from 0x80 on are no text, and zeros are bytes.
#[test]
fn steps_say_and_wait_for_bytes_in_hex_digits() {
    let (client, server) = run("rate: 100/s, count: 3, program: { steps: { \
           client: [ request, { send-hex: 10 0c 00 ff }, { receive-until-hex: '20ff' }, response, { expect-hex: '0x0080fe' } ], \
           server: [ { expect-hex: 100c00ff }, { send-hex: '0020 ff00 80FE' }, wait-close ] } }");
    assert_eq!((client.counts.in_order, server.counts.in_order), (3, 3), "{client:#?}");
    assert_eq!((client.counts.responses, client.counts.unexpected), (3, 0));
    assert_eq!(server.counts.unexpected, 0, "{server:#?}");
}

#[test]
fn a_jump_without_an_end_goes_on_until_the_run_ends_and_one_that_waits_for_nothing_is_given_up() {
    let (client, _) = run(
        "rate: 1/s, count: 1, timeout: 100s, program: { steps: { client: [ { label: a }, { think: 1s }, { jump: { to: a } } ], server: [ wait-close ] } }",
    );
    assert_eq!(client.counts.unfinished, 1, "{:#?}", client.counts);
    let (client, _) = run(
        "rate: 1/s, count: 1, timeout: 100s, program: { steps: { client: [ { label: a }, { think: { uniform: { min: 0s, max: 0s } } }, { jump: { to: a } } ], server: [ wait-close ] } }",
    );
    assert_eq!(client.counts.abandoned, 1, "{:#?}", client.counts);
}

/// Where the clients of a core come from, of ten sessions over two cores.
fn clients_of(stack: &str, core: u32, cores: u32) -> Vec<String> {
    let text = format!(
        "ports: {{ a: {{ interface: eth1 }} }}\nsessions: {{ x: {{ from: a, stack: {stack}, clients: {{ addresses: 10.0.1.1-10.0.1.4 }}, \
         servers: {{ addresses: 10.0.2.9, ports: 80 }}, rate: 1000/s, count: 10, program: http }} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let shard = Shard { core, cores };
    let memory = Memory { refuses: true, ..Memory::new(1448) };
    let mut converse = Converse::new(&sessions, shard, memory, BEGIN, None, Waiting::Hybrid);
    let mut now = BEGIN;
    while !converse.is_done(now) && now < BEGIN.saturating_add(Nanos::from_secs(1)) {
        now = converse.turn(now, now.saturating_add(Nanos::from_millis(1)));
    }
    converse.stack.locals.iter().map(|local| local.to_string()).collect()
}

#[test]
fn each_core_of_our_own_tcp_has_clients_at_every_address() {
    let clients = |numbers: [u8; 5]| numbers.map(|number| format!("10.0.1.{number}:0"));
    for core in [0, 1] {
        assert_eq!(clients_of("own", core, 2), clients([1, 2, 3, 4, 1]));
    }
    // the system's ports are shared by all: session number n has address n
    assert_eq!(clients_of("host", 0, 2), clients([1, 3, 1, 3, 1]));
    assert_eq!(clients_of("host", 1, 2), clients([2, 4, 2, 4, 2]));
    assert_eq!(clients_of("own", 0, 1)[..5], clients([1, 2, 3, 4, 1]));
}

#[test]
fn messages_one_way_have_a_delay_each_and_bulk_has_none() {
    for (program, sessions, each) in [
        ("{ messages: 5 }", 2, [5, 0]),
        ("{ messages: 5, size: 32B, gap: 1ms }", 2, [5, 0]),
        ("{ messages: 400, size: 1500B, gap: 1us }", 1, [400, 0]),
        ("{ messages: 7, direction: reverse, gap: { exponential: { mean: 3ms } } }", 2, [0, 7]),
        ("{ time: 55ms, direction: both, size: { uniform: { min: 32B, max: 5kB } } }", 3, [6, 6]),
        ("{ messages: 3, time: 1s, direction: both }", 1, [3, 3]),
    ] {
        for piece in [1, 33, 1448, 1 << 20] {
            let group =
                format!("program: {{ messages: {program} }}, rate: 100/s, count: {sessions}");
            let (client, server, _) = run_over(Memory::new(piece), &group);
            all_in_order(&client.counts, &server.counts, sessions);
            let counts =
                |of: &SessionSummary| (of.counts.messages_sent, of.counts.messages_received);
            let [up, down] = each.map(|each| each * sessions);
            assert_eq!((counts(&client), counts(&server)), ((up, down), (down, up)), "{program}");
            for (of, received) in [(&client, down), (&server, up)] {
                let delay = &of.time(SessionTime::Delay).actual.moments;
                assert_eq!(delay.count, received);
                assert_eq!((of.counts.messages_lost, of.counts.messages_of_other_clocks), (0, 0));
                if received > 0 {
                    // what is sent while other bytes are under way comes with them
                    let apart = !program.contains("1us") && !program.contains("exponential");
                    assert!(delay.min >= 50_000 || !apart, "{program} {piece}: {delay:?}");
                    let gaps = received - sessions;
                    assert_eq!(of.arrivals.gap.moments.count, gaps);
                    assert_eq!(of.arrivals.jitter.moments.count, gaps);
                    assert_eq!(of.arrivals.length.moments.count, received);
                    let data = of.counts.delivered_bytes - 32 * received;
                    assert_eq!(of.counts.verified_bytes, data, "all but the stamps");
                }
            }
        }
    }
}

#[test]
fn messages_one_way_leave_by_their_plan_and_end_with_the_group() {
    let program =
        "program: { messages: { gap: 10ms, direction: both } }, users: 1, count: 1, stop: 95ms";
    let (client, server) = run(program);
    all_in_order(&client.counts, &server.counts, 1);
    for of in [&client, &server] {
        assert!((9..=10).contains(&of.counts.messages_sent), "{:#?}", of.counts);
        let gap = &of.arrivals.gap.moments;
        assert!(gap.min > 9_000_000 && gap.max < 11_000_000, "{gap:?}");
        assert!(of.arrivals.jitter.moments.max < 1_000_000);
    }
    let program = program.replace("both", "reverse");
    let (client, server) = run(&program);
    all_in_order(&client.counts, &server.counts, 1);
    assert_eq!((client.counts.messages_sent, server.counts.messages_received), (0, 0));
    assert!((9..=11).contains(&client.counts.messages_received));
    // a gap of an hour keeps nobody beyond the stop
    let (client, server) = run("program: { messages: { gap: 1h } }, users: 1, count: 1, stop: 1s");
    all_in_order(&client.counts, &server.counts, 1);
    assert_eq!(server.counts.messages_received, 1);
    // what is sent at a rate is as late as it waits for its slot, by its plan alone
    let (_, server) =
        run("program: { messages: { gap: 1ms, messages: 11 } }, users: 1, count: 1, \
                           limit: { sending: 100/s }");
    let delay = server.time(SessionTime::Delay);
    assert!(delay.planned.moments.max > 85_000_000, "{:?}", delay.planned.moments);
    assert!(delay.actual.moments.max < 1_000_000, "{:?}", delay.actual.moments);
}

#[test]
fn bulk_data_that_makes_no_progress_times_out() {
    // the peer accepts, and neither reads nor says anything
    for program in ["bulk", "{ bulk: { bytes: 5MB } }"] {
        for direction in ["forward", "reverse", "both"] {
            let program = match program.strip_suffix(" } }") {
                Some(program) => format!("{program}, direction: {direction} }} }}"),
                None => format!("{{ bulk: {{ direction: {direction} }} }}"),
            };
            let text = format!(
                "ports: {{ a: {{}} }}\nsessions: {{ x: {{ from: a, servers: {{ addresses: 10.0.2.9, ports: 80 }}, rate: 1/s, count: 1, \
                 timeout: 1s, program: {program} }} }}\nrun: {{ time: 30s }}\n"
            );
            let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
            let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
            let mut memory = Memory::new(1448);
            memory.full = true;
            let mut converse =
                Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Sleep);
            let (mut now, end) = (BEGIN, BEGIN.saturating_add(Nanos::from_secs(20)));
            while now < end && (!converse.is_done(now) || converse.programs.has_open()) {
                now = converse.turn(now, now.saturating_add(Nanos::from_millis(10)));
            }
            let (_, _, counts) = converse.programs.sides().next().unwrap();
            assert_eq!((counts.established, counts.timed_out), (1, 1), "{program}: {counts:#?}");
            let took = now.saturating_sub(BEGIN);
            assert!(took < Nanos::from_millis(1500), "{program}: {took:?}");
        }
    }
}
