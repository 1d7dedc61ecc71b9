use wirebeat_meter::session::{SessionCounts, SessionSummary, SessionTime};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use super::memory::Memory;
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
    let (client, _) = run(&format!("{slow}, limit: {{ open: 5, beyond: queue }}"));
    assert_eq!((client.counts.in_order, client.counts.expired, client.most_open), (20, 0, 5));
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
    let (client, _) = run(
        "rate: 1/s, count: 1, program: { steps: { client: [ repeat: { times: 4000000000, steps: [ send: 0B ] } ] } }",
    );
    assert_eq!(client.counts.abandoned, 1, "{:#?}", client.counts);
}

#[test]
fn waiting_for_no_time_does_not_keep_the_loop_from_its_end() {
    let steps = "{ client: [ repeat: { times: 4000000000, steps: [ think: 0s ] } ] }";
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
    assert_eq!((counts.opened, counts.unfinished), (1, 1), "{counts:#?}");
}
