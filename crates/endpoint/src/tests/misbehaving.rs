//! Clients that misbehave against our own TCP and our own servers: what RFC 9293 and RFC 5961 ask of a peer, both ways.

use super::*;

/// A misbehaving client of each session and its server: what both measured, and the ends.
fn misbehave(
    way: &str,
    rest: &str,
    profile: Profile,
) -> (SessionSummary, SessionSummary, [OnCable; 2]) {
    run(&scenario(&format!("{{ misbehave: {way} }}"), rest), Way::default(), profile)
}

/// Five sessions with 40 forged segments each go on as if nothing had been: an exchange before and one after, and all in order.
fn goes_on(way: &str) -> (SessionSummary, SessionSummary, [OnCable; 2]) {
    let way = format!("{{ {way}: {{ segments: 40 }} }}");
    let (client, server, ends) = misbehave(&way, "count: 5\n    rate: 10/s", manual());
    let (ours, theirs) = (&client.counts, &server.counts);
    assert_eq!((ours.established, ours.in_order, ours.responses), (5, 5, 10), "{way}: {ours:?}");
    assert_eq!((theirs.in_order, theirs.requests, theirs.unexpected), (5, 10, 0), "{theirs:?}");
    assert_eq!((ours.misbehaved, ours.ended_by_peer), (200, 0), "{way}");
    // not one byte more than the two requests was handed to the server
    assert_eq!(ours.offered_bytes, theirs.delivered_bytes, "{way}");
    assert!(client.timers.values().all(|timer| timer.moments.count == 0), "{:?}", client.timers);
    (client, server, ends)
}

#[test]
fn rsts_around_the_expected_number_are_challenged_or_dropped() {
    let (client, _, ends) = goes_on("rst-storm");
    // RFC 5961 §3.2: those in the window are answered, those outside of it are not
    assert_eq!(client.counts.answered_misbehaviour, 100);
    let arrivals = ends[1].stack.tcp().arrivals;
    assert_eq!((arrivals.challenged, arrivals.outside_window), (100, 100), "{arrivals:?}");
}

#[test]
fn data_beyond_the_window_is_answered_and_dropped() {
    let (client, _, ends) = goes_on("out-of-window");
    assert_eq!(client.counts.answered_misbehaviour, 200);
    assert_eq!(ends[1].stack.tcp().arrivals.outside_window, 200);
}

#[test]
fn data_over_old_data_is_answered_and_dropped() {
    let (client, _, ends) = goes_on("overlapping");
    assert_eq!(client.counts.answered_misbehaviour, 200);
    assert!(ends[1].stack.tcp().arrivals.duplicate_bytes > 10_000);
}

#[test]
fn data_with_a_wrong_checksum_is_dropped_in_silence() {
    let (client, _, ends) = goes_on("bad-checksum");
    assert_eq!(client.counts.answered_misbehaviour, 0);
    assert_eq!(ends[1].stack.tcp().arrivals.bad_checksum, 200);
}

#[test]
fn acknowledgments_of_what_was_not_sent_are_challenged() {
    let (client, _, ends) = goes_on("ack-unsent");
    assert_eq!(client.counts.answered_misbehaviour, 200);
    assert_eq!(ends[1].stack.tcp().arrivals.bad_ack, 200);
}

#[test]
fn guesses_of_who_does_not_see_the_session_hit_nothing() {
    let (client, _, ends) = goes_on("sequence-guess");
    // data outside of the window is answered, a RST is not, and without timestamps neither is
    assert_eq!(client.counts.answered_misbehaviour, 0);
    let arrivals = ends[1].stack.tcp().arrivals;
    assert_eq!((arrivals.without_timestamp, arrivals.outside_window), (100, 100), "{arrivals:?}");
}

#[test]
fn sessions_without_an_exchange_only_open_and_close() {
    let way = "{ rst-storm: { segments: 20, gap: 0s, exchange: none } }";
    let (client, server, _) = misbehave(way, "count: 3\n    rate: 10/s", manual());
    assert_eq!((client.counts.in_order, client.counts.misbehaved), (3, 60));
    assert_eq!((server.counts.requests, server.counts.delivered_bytes), (0, 0));
}

#[test]
fn half_open_sessions_are_held_and_taken_back() {
    let way = "{ half-open: { time: 500ms } }";
    let rest = "rate: 100/s\n    limit: { open: 1000 }";
    let (client, server, ends) = misbehave(way, rest, manual());
    let counts = &client.counts;
    assert_eq!((counts.opened, counts.in_order, counts.established), (200, 200, 0), "{counts:?}");
    assert_eq!((counts.misbehaved, counts.answered_misbehaviour), (200, 200));
    assert_eq!(server.counts.opened, 0);
    let sessions = ends[1].stack.tcp().sessions;
    assert_eq!((sessions.half_opened, sessions.half_open_reset), (200, 200), "{sessions:?}");
    assert_eq!(ends[0].stack.tcp().sessions.connects, 0);
    // half a second at 100 a second
    assert!((45..=55).contains(&client.most_open), "{}", client.most_open);
    // nothing answers a SYN to a port where nobody listens but a RST
    let text = scenario("{ misbehave: half-open }", "count: 3\n    rate: 100/s");
    let text = text.replace("    to: b\n", "");
    let scenario = Scenario::from_yaml(&text.replace("ports: 80", "ports: 81"), "test").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let clock = VirtualClock::new(SECOND);
    let (cable, a, b) = Cable::new(&clock, Way::default(), Way::default());
    let on = (&clock, manual());
    let mut ends = [
        end(&sessions, "a", a, on, neighbours(1, "10.0.0.1")),
        end(&sessions, "b", b, on, neighbours(2, "10.0.0.2")),
    ];
    let mut now = clock.now();
    while !ends[0].is_done(now) {
        now = step(&mut ends, OwnStack::next_time, (&cable, &clock), Nanos::from_secs(100));
    }
    let (_, _, client) = ends[0].programs.summaries().swap_remove(0);
    assert_eq!((client.counts.opened, client.counts.refused), (3, 3), "{:?}", client.counts);
}

#[test]
fn a_head_that_never_ends_is_held_until_the_server_ends_it() {
    let way = "{ slow-write: { gap: 300ms } }";
    let (client, server, _) =
        misbehave(way, "count: 5\n    rate: 100/s\n    timeout: 1s", manual());
    let counts = &client.counts;
    assert_eq!((counts.established, counts.ended_by_peer), (5, 5), "{counts:?}");
    assert_eq!((counts.in_order + counts.reset, server.counts.timed_out), (5, 5), "{counts:?}");
    // the head, and three lines more
    assert_eq!(counts.misbehaved, 5 * 4);
    let held = &client.timers["peer-ended"];
    assert_eq!(held.moments.count, 5);
    let mean = held.moments.mean().unwrap();
    assert!((1e9..1.1e9).contains(&mean), "{mean}");
}

#[test]
fn a_head_goes_byte_by_byte() {
    let way = "{ slow-write: { gap: 10ms, bytes: 1, time: 205ms } }";
    let (client, server, _) = misbehave(way, "count: 1", manual());
    assert_eq!((client.counts.misbehaved, client.counts.ended_by_peer), (21, 0));
    assert_eq!(server.counts.delivered_bytes, 21);
    let way = "{ slow-write: { gap: 10ms, bytes: 2, text: HELLO, time: 300ms } }";
    let (client, server, _) = misbehave(way, "count: 1", manual());
    assert_eq!((client.counts.misbehaved, server.counts.delivered_bytes), (3, 5));
}

#[test]
fn an_idle_session_is_held_for_its_time_or_until_the_server_ends_it() {
    let (client, _, _) =
        misbehave("{ idle: { time: 1500ms } }", "count: 5\n    rate: 100/s", manual());
    let counts = &client.counts;
    assert_eq!(
        (counts.in_order, counts.ended_by_peer, counts.offered_bytes),
        (5, 0, 0),
        "{counts:?}"
    );
    let (client, _, _) =
        misbehave("idle", "count: 5\n    rate: 100/s\n    timeout: 700ms", manual());
    let counts = &client.counts;
    assert_eq!((counts.in_order, counts.ended_by_peer), (5, 5), "{counts:?}");
    // without a time, and without a server that ends it, the group's stop does
    let (client, _, _) = misbehave("idle", "count: 5\n    rate: 100/s\n    stop: 1s", manual());
    assert_eq!((client.counts.in_order, client.counts.ended_by_peer), (5, 0));
}

#[test]
fn a_closed_window_stays_closed_and_is_probed() {
    let way = "{ zero-window: { time: 20s } }";
    let rest = "count: 2\n    timeout: 100s\n    stop: 30s";
    let text = scenario(&format!("{{ misbehave: {way} }}"), rest).replace("time: 2s", "time: 40s");
    let small = Profile { window: 1000, ..manual() };
    let (client, server, ends) = run(&text, Way::default(), small);
    let counts = &client.counts;
    assert_eq!(
        (counts.in_order, counts.delivered_bytes, server.counts.reset),
        (2, 0, 2),
        "{counts:?}"
    );
    // RFC 9293 §3.8.6.1: again and again, further and further apart
    let probes = ends[1].stack.tcp().segments.probe;
    assert!((8..40).contains(&probes), "{probes}");
}

#[test]
fn a_response_is_read_a_few_bytes_at_a_time() {
    let way = "{ slow-read: { bytes: 50, gap: 100ms, time: 1050ms } }";
    let (client, server, _) = misbehave(way, "count: 1", Profile { window: 1000, ..manual() });
    let counts = &client.counts;
    assert_eq!((counts.misbehaved, counts.delivered_bytes), (11, 550), "{counts:?}");
    assert_eq!((counts.in_order, server.counts.reset), (1, 1));
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let refused = |program: &str, rest: &str, words: &[&str]| {
        let text = scenario(&format!("{{ misbehave: {program} }}"), rest);
        for text in [&text, &text.replace("stack: own", "stack: host")] {
            if let Err(error) = Scenario::from_yaml(text, "test") {
                let error = error.to_string();
                if words.iter().all(|word| error.contains(word)) {
                    return;
                }
            }
        }
        panic!("{program}: {words:?}");
    };
    refused(
        "{ zero-window: { time: 1s } }",
        "count: 1\n    tls: true",
        &["TLS reads ahead", "leave 'tls' out"],
    );
    let anybody = scenario("{ misbehave: { idle: { time: 1s } } }", "count: 1");
    let anybody =
        anybody.replace("    to: b\n", "").replace("addresses: 10.0.0.2", "addresses: 0.0.0.0");
    let said = Scenario::from_yaml(&anybody, "test").unwrap_err().to_string();
    assert!(said.contains("name the server that is to be tested"), "{said}");
    refused("half-open", OPEN, &["half-open at a time", "limit: { open: 1000 }"]);
    refused("rst-storm", OPEN, &["'rst-storm'", "stack: own"]);
    refused("zero-window", OPEN, &["'zero-window'", "stack: own"]);
    refused("{ rst-storm: { segments: 1000001 } }", OPEN, &["1000000 of them at most"]);
    refused("{ overlapping: { bytes: 1181 } }", OPEN, &["1180"]);
    refused("{ slow-write: { gap: 0s } }", OPEN, &["not slow"]);
    refused("rst-strom", OPEN, &["rst-storm"]);
    refused("idle", "rate: 1/s\n    transport: udp", &["udp"]);
    let endless = scenario("{ misbehave: idle }", "count: 1").replace("run: { time: 2s }", "");
    let error = Scenario::from_yaml(&endless, "test").unwrap_err().to_string();
    assert!(error.contains("nothing ends a session") && error.contains("time: 60s"), "{error}");
}
