//! Sessions that wait are packed, whatever they wait for, and go on as if they had not been.

use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use super::memory::Memory;
use crate::{Converse, Waiting};

const BEGIN: Nanos = Nanos::from_secs(1);
const SESSIONS: u64 = 40;

#[test]
fn sessions_that_wait_are_packed_and_go_on() {
    let steps = |client: &str, server: &str| {
        format!("program: {{ steps: {{ client: [ {client} ], server: [ {server} ] }} }}")
    };
    for group in [
        "program: { http: { requests: 3, think: 2s } }, hold: 8s".to_owned(),
        "program: { request-response: { requests: 3, think: 2s } }, hold: 8s".to_owned(),
        "program: { echo: { messages: 3, gap: 3s } }".to_owned(),
        steps(
            "repeat: { times: 3, steps: [ send-text: hello, receive: 9B, think: 2s ] }, wait-close",
            "repeat: { times: 3, steps: [ receive-until: lo, send: 9B ] }, think: 3s",
        ),
    ] {
        let text = format!(
            "ports: {{ a: {{}}, b: {{ addresses: [10.0.2.9] }} }}\n\
             sessions: {{ x: {{ from: a, to: b, servers: {{ ports: 80 }}, rate: 1000/s, count: {SESSIONS}, {group} }} }}\n"
        );
        let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
        let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
        let memory = Memory::new(1448);
        let mut converse =
            Converse::new(&sessions, Shard::WHOLE, memory, BEGIN, None, Waiting::Sleep);
        let (mut now, mut packed) = (BEGIN, 0);
        let end = BEGIN.saturating_add(Nanos::from_secs(20));
        while now < end && (!converse.is_done(now) || converse.programs.has_open()) {
            now = converse.turn(now, end);
            let open: u64 = converse.programs.sides().map(|(.., counts)| counts.open()).sum();
            if open == 2 * SESSIONS && converse.programs.sessions.whole() == 0 {
                packed += 1;
            }
        }
        assert!(packed > 0, "{group}: some were never packed");
        for (.., counts) in converse.programs.sides() {
            assert_eq!((counts.opened, counts.in_order), (SESSIONS, SESSIONS), "{group}");
            assert_eq!((counts.damaged, counts.unexpected), (0, 0), "{group}");
        }
        let requests: Vec<u64> = converse.programs.sides().map(|(.., of)| of.requests).collect();
        assert!(requests.iter().all(|all| *all % SESSIONS == 0), "{group}: {requests:?}");
    }
}
