//! Pages of groups of sessions.

use wirebeat_report::format::Colour;
use wirebeat_traffic::compile::Files;
use wirebeat_traffic::scenario::Scenario;

use crate::{Checked, Shown, page};

fn explained(group: &str) -> String {
    let text = format!(
        "ports: {{ a: {{ addresses: [10.0.1.1] }}, b: {{ addresses: [10.0.2.9] }} }}\nsessions:\n  x: {group}\nrun: {{ time: 100s }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let checked = Checked::new(&scenario, &Files::default()).unwrap();
    let shown = Shown { frames: None, departures: 3 };
    let text = page(&checked, None, shown, Colour::Never).unwrap();
    // lines are broken anywhere
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rate_needs_ports_for_a_minute() {
    let web = "{ from: a, to: b, program: http, servers: { ports: 80 }, rate: 1000/s }";
    let page = explained(web);
    for says in [
        "1,000 sessions/s, a session every",
        "first due 0, 1000, 2000 µs, …",
        "about 60,000 are taken",
        "there are 28,232",
        "TOO FEW",
        "clients 10.0.1.1",
        "servers 10.0.2.9, port 80",
        // heads are those of crates/traffic's compile/sessions/http.rs
        "to the server 56 B, to the client 1.08 kB",
    ] {
        assert!(page.contains(says), "{says}: {page}");
    }
    let reset = explained(&web.replace("rate:", "tcp: { reset: true }, rate:"));
    assert!(reset.contains("nobody closes first") && !reset.contains("TOO FEW"), "{reset}");
    let slow = explained(&web.replace("1000/s", "100/s"));
    assert!(slow.contains("about 6,000 are taken") && !slow.contains("TOO FEW"), "{slow}");
    let few = explained(&web.replace("rate:", "count: 500, rate:"));
    assert!(few.contains("about 500 are taken"), "{few}");
}

/// 4294967295 requests were told as 240 TB.
#[test]
fn what_ends_with_its_group_is_no_number() {
    let web = "{ from: a, to: b, servers: { ports: 80 }, users: 1, stop: 10s, program: { http: { requests: 4294967295, think: 1s } } }";
    let page = explained(web);
    for says in [
        "as many requests as there is time for: GET /",
        "to the server as much as there is time for, to the client as much as there is time for",
    ] {
        assert!(page.contains(says), "{says}: {page}");
    }
    let steps = "{ repeat: { times: 4294967295, steps: [ { send: 100B }, { receive: 1kB } ] } }";
    let page = explained(&format!(
        "{{ from: a, servers: {{ addresses: 10.0.2.9, ports: 80 }}, users: 1, program: {{ steps: {{ client: [ {steps} ], server: [] }} }} }}"
    ));
    assert!(page.contains("to the server as much as there is time for"), "{page}");
}

/// No more can be open than start.
#[test]
fn sessions_that_outlast_the_run_are_as_many_as_start() {
    let page = explained(
        "{ from: a, to: b, servers: { ports: 80 }, rate: 10/s, stop: 1s, program: { messages: { messages: 4294967295 } } }",
    );
    assert!(page.contains("about 10 by their pauses alone"), "{page}");
}

#[test]
fn ports_wait_as_long_as_time_wait_of_our_own_tcp_says() {
    let of = |time: &str| {
        explained(&format!(
            "{{ from: a, to: b, stack: own, program: http, servers: {{ ports: 80 }}, rate: 1000/s, tcp: {{ time-wait: {time} }} }}"
        ))
    };
    let short = of("1.5s");
    assert!(short.contains("about 1,500 are taken"), "{short}");
    assert!(short.contains("its port waits for 1.5 s then (TIME-WAIT)"), "{short}");
    let none = of("0s");
    assert!(none.contains("TIME-WAIT is skipped, so that no port waits"), "{none}");
}

#[test]
fn bytes_and_segments_are_those_of_the_program() {
    let page = explained(
        "{ from: a, to: b, program: { request-response: { request: 1000B, response: 2896B, requests: 2 } }, \
         servers: { ports: 5 }, rate: 10/s }",
    );
    // 2 of data, 2 for the first ones of two messages, and 3; 4 of data, and 2
    for says in ["to the server 2", "5.79", "about 7 segments to the server and 6 to the client"] {
        assert!(page.contains(says), "{says}: {page}");
    }
    let steps = explained(
        "{ from: a, servers: { addresses: 10.0.3.1, ports: 5 }, users: 7, limit: { open: 5 }, think: 1s, program: { steps: { \
         client: [ repeat: { times: 3, steps: [ send: 100B, receive: 1kB ] }, receive-until: x ] } } }",
    );
    for says in ["to the server 300", "to the client not known before", "at most 5", "7 users"] {
        assert!(steps.contains(says), "{says}: {steps}");
    }
}

#[test]
fn bulk_data_has_no_amount_of_its_own() {
    let page = explained(
        "{ from: a, to: b, program: { bulk: { direction: reverse } }, servers: { ports: 5 }, users: 4, count: 4, \
         tcp: { send-buffer: 1MiB, receive-buffer: 1MiB } }",
    );
    for says in ["to the server nothing, to the client as much as goes through", "buffers of"] {
        assert!(page.contains(says), "{says}: {page}");
    }
    let server = explained("{ to: b, program: echo, servers: { ports: 5 } }");
    assert!(
        server.contains("when the clients connect") && !server.contains("ports about"),
        "{server}"
    );
}

#[test]
fn data_of_sessions_that_outlast_their_starts_is_spread() {
    let page = explained(
        "{ from: a, to: b, program: { echo: { messages: 1001, gap: 10ms } }, servers: { ports: 7 }, rate: 1000/s, count: 100 }",
    );
    // 100 sessions of 64,064 bytes in 10 s
    for says in ["each 10.0 s at least by its pauses", "to the server 5.13 Mbit/s"] {
        assert!(page.contains(says), "{says}: {page}");
    }
    // those of steps count as often as they are repeated, at both ends
    let steps = explained(
        "{ from: a, to: b, servers: { ports: 7 }, rate: 1000/s, count: 100, program: { steps: { client: [ repeat: { times: 6, steps: [ \
         send: 100B, think: 1s ] } ], server: [ receive: 600B, think: 4s ] } } }",
    );
    assert!(steps.contains("each 10.0 s at least by its pauses"), "{steps}");
    let held = explained(
        "{ from: a, to: b, program: http, hold: 5s, servers: { ports: 80 }, rate: 10/s }",
    );
    assert!(held.contains("about 50 by their pauses alone"), "{held}");
}

#[test]
fn a_response_to_head_has_no_content() {
    let page = explained(
        "{ from: a, to: b, program: { http: { method: HEAD, size: 1MB } }, servers: { ports: 80 }, rate: 1/s }",
    );
    let of_client = page.split("to the client ").nth(1).unwrap();
    let bytes = of_client.split(' ').take(2).collect::<Vec<_>>();
    assert_eq!(bytes.get(1), Some(&"B"), "{of_client}");
}
