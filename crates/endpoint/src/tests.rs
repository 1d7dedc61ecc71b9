//! Whole programs over our own TCP at both ends of a cable, on a virtual clock.

mod misbehaving;

use std::net::IpAddr;

use wirebeat_converse::{Converse, End, Gates, Waiting};
use wirebeat_engine::clock::Clock;
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_meter::session::SessionSummary;
use wirebeat_neighbours::{Hosts, Link, Neighbours, Settings as HostSettings};
use wirebeat_stack::{Limits, Profile, Reading};
use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::program::script::{SessionGroup, Sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_traffic::values::session::Transport;
use wirebeat_units::Nanos;
use wirebeat_wire::mac::MacAddr;

use crate::cable::{Cable, End as CableEnd, Way};
use crate::{DatagramProfile, Listener, OnCable, OwnStack, Settings, step};

const SECOND: Nanos = Nanos::from_secs(1);

fn neighbours(last: u8, address: &str) -> Neighbours {
    let link = Link { mac: MacAddr([2, 0, 0, 0, 0, last]), vlan: None };
    let address: IpAddr = address.parse().unwrap();
    let hosts = Hosts::new([(address, address)]).unwrap();
    Neighbours::new(HostSettings::new(link, hosts, [1, 2])).unwrap()
}

/// One end: the groups of `sessions` that `port` has.
fn end(
    sessions: &Sessions,
    port: &str,
    cable: CableEnd,
    (clock, profile): (&VirtualClock, Profile),
    neighbours: Neighbours,
) -> OnCable {
    let mut mine = sessions.clone();
    for group in &mut mine.groups {
        if group.from.as_deref() != Some(port) {
            (group.client, group.starts, group.users) = (None, None, None);
        }
        if group.to.as_deref() != Some(port) {
            group.server = None;
        }
    }
    let served = (0..).zip(&mine.groups).filter(|(_, group)| group.server.is_some());
    let listeners = served.map(|(group, of)| {
        let datagrams = of.transport == Transport::Udp;
        Listener { group, pool: of.servers.pool.clone(), datagrams }
    });
    let udp = DatagramProfile { ttl: 64, tos: 0, dont_fragment: true };
    let datagrams = mine.groups.iter().map(|of| (of.transport == Transport::Udp).then_some(udp));
    let settings = Settings {
        profiles: vec![profile; 2 * mine.groups.len()],
        datagrams: datagrams.collect(),
        mtu: 1500,
        listeners: listeners.collect(),
        limits: Limits::for_sessions(10_000),
        seed: [3, 4],
        timestamp: None,
        core: Shard::WHOLE,
        client_ports: Vec::new(),
        half_open: mine.groups.iter().map(SessionGroup::opens_by_half).collect(),
    };
    let stack = OwnStack::new(settings, cable, clock.of_onlooker(), neighbours);
    let core = Shard { core: 0, cores: 1 };
    Converse::new(&mine, core, stack, SECOND, None, Waiting::Sleep)
}

/// Runs a scenario whose sessions go from `a` to `b` and returns what both ends measured, and the ends.
fn run(text: &str, way: Way, profile: Profile) -> (SessionSummary, SessionSummary, [OnCable; 2]) {
    let scenario = Scenario::from_yaml(text, "test").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let clock = VirtualClock::new(SECOND);
    let (cable, a, b) = Cable::new(&clock, way, Way { seed: way.seed + 1, ..way });
    let on = (&clock, profile);
    let mut ends = [
        end(&sessions, "a", a, on, neighbours(1, "10.0.0.1")),
        end(&sessions, "b", b, on, neighbours(2, "10.0.0.2")),
    ];
    let limit = clock.now().saturating_add(Nanos::from_secs(600));
    let mut now = clock.now();
    while now < limit && (ends[1].programs.has_open() || !ends[0].is_done(now)) {
        now = step(&mut ends, OwnStack::next_time, (&cable, &clock), limit);
    }
    // what left last arrives
    for _ in 0..3 {
        step(&mut ends, OwnStack::next_time, (&cable, &clock), now);
    }
    for end in &ends {
        let tcp = end.stack.tcp();
        assert!(tcp.segments_balance() && tcp.sessions_balance(), "{tcp:?}");
    }
    let of = |end: &OnCable, side: End| {
        let all = end.programs.summaries();
        all.into_iter().find(|(_, of, _)| *of == side).unwrap().2
    };
    (of(&ends[0], End::Client), of(&ends[1], End::Server), ends)
}

fn scenario(program: &str, rest: &str) -> String {
    format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
         sessions:\n  s:\n    from: a\n    to: b\n    stack: own\n    clients: {{ addresses: 10.0.0.1 }}\n    \
         servers: {{ addresses: 10.0.0.2, ports: 80 }}\n    program: {program}\n    {rest}\n\
         run: {{ time: 2s }}\n"
    )
}

const HTTP: &str = "{ http: { target: /x, size: 10kB, requests: 3 } }";
const OPEN: &str = "rate: 100/s";

fn manual() -> Profile {
    Profile { reading: Reading::Manual, nagle: false, ..Profile::default() }
}

#[test]
fn web_sessions_end_in_order_and_every_byte_arrives() {
    let (client, server, ends) = run(&scenario(HTTP, OPEN), Way::default(), manual());
    let counts = &client.counts;
    assert_eq!((counts.due, counts.established, counts.in_order), (200, 200, 200), "{counts:?}");
    assert_eq!((counts.responses, counts.damaged), (600, 0));
    assert_eq!(server.counts.in_order, 200);
    assert_eq!(counts.sent_bytes, server.counts.delivered_bytes);
    assert_eq!(server.counts.sent_bytes, counts.delivered_bytes);
    let tcp = ends[0].stack.tcp();
    assert_eq!((tcp.segments.retransmitted_timeout, tcp.sessions.time_waits), (0, 200));
    assert_eq!(ends[0].stack.counters().unresolved, 0);
}

#[test]
fn a_run_repeats_exactly() {
    let lossy = Way { loss: 0.02, delay: Nanos::from_millis(5), ..Way::default() };
    let once = |seed| {
        let (client, server, ends) = run(&scenario(HTTP, OPEN), Way { seed, ..lossy }, manual());
        (client.counts, server.counts, ends[0].stack.tcp().clone())
    };
    assert_eq!(once(7), once(7));
    assert_ne!(once(7).2, once(8).2);
}

#[test]
fn programs_survive_losses() {
    let programs = [
        HTTP,
        "{ http: { target: /x, size: 200kB, framing: chunked, requests: 2 } }",
        "{ http: { target: /x, size: 50kB, framing: close } }",
        "{ request-response: { request: 3kB, response: 30kB, requests: 5 } }",
        "{ bulk: { bytes: 1MB } }",
        "{ bulk: { bytes: 300kB, direction: both } }",
        "{ bulk: { bytes: 1MB, direction: reverse } }",
        "{ echo: { size: 20kB, messages: 4 } }",
    ];
    for (number, program) in programs.into_iter().enumerate() {
        for loss in [0.0, 0.01, 0.05] {
            let seed = 100 * number as u64 + (loss * 1000.0) as u64;
            let way = Way { loss, delay: Nanos::from_millis(2), seed, ..Way::default() };
            let (client, server, ends) =
                run(&scenario(program, "rate: 10/s\n    timeout: 300s"), way, manual());
            let (c, s) = (&client.counts, &server.counts);
            let what = format!("{program} at {loss}: {c:?} {s:?}");
            assert_eq!(
                (c.due, c.in_order, s.in_order, c.damaged + s.damaged),
                (20, 20, 20, 0),
                "{what}"
            );
            for (counts, end) in [(c, &ends[0]), (s, &ends[1])] {
                let of = &end.stack.tcp().segments;
                let again = of.retransmitted_timeout
                    + of.retransmitted_fast
                    + of.retransmitted_too_big
                    + of.retransmitted_tail;
                // sessions have no count of SYNs that were sent again before they were accepted
                let syn = if counts.due > 0 { of.retransmitted_syn } else { 0 };
                assert_eq!(counts.retransmitted_segments, again + syn, "{what}");
                let data = of.new_data..=of.new_data + again;
                assert!(data.contains(&counts.data_segments), "{what}");
            }
            assert_eq!(
                (c.sent_bytes, s.sent_bytes),
                (s.delivered_bytes, c.delivered_bytes),
                "{what}"
            );
        }
    }
}

#[test]
fn data_without_an_end_fills_the_line_and_ends_with_the_run() {
    let rate = Some("100Mbps".parse().unwrap());
    let way = Way { rate, delay: Nanos::from_millis(5), ..Way::default() };
    let (client, server, _) = run(&scenario("{ bulk: {} }", "users: 1"), way, manual());
    let bytes = server.counts.delivered_bytes;
    // 2 s of 100 Mbit/s, less headers (1448 of 1538 bytes on the line) and the start, and the window that is under way at the end
    assert!((19_000_000..=25_000_000).contains(&bytes), "{bytes}");
    assert_eq!(client.counts.sent_bytes, bytes);
    assert_eq!((client.counts.in_order, server.counts.in_order), (1, 1), "{:?}", client.counts);
}

#[test]
fn servers_that_end_before_their_clients_leave_it_to_those_to_close() {
    let programs = [
        "{ echo: { size: 100B, messages: 100000, gap: 10ms } }",
        "{ http: { target: /x, size: 10kB, requests: 100000, think: 10ms } }",
        "{ request-response: { request: 300B, response: 300kB, requests: 100000 } }",
        "{ bulk: { bytes: 10GB } }",
        "{ bulk: { bytes: 10GB, direction: both } }",
        "{ messages: { size: 100B, gap: 1ms, direction: both } }",
    ];
    for program in programs {
        for server_first in [true, false] {
            let text = scenario(program, "users: 20");
            let sessions = Scenario::from_yaml(&text, "test").unwrap();
            let sessions = compile_sessions(&sessions, &Files::default()).unwrap();
            let clock = VirtualClock::new(SECOND);
            let rate = Some("50Mbps".parse().unwrap());
            let way = Way { rate, delay: Nanos::from_millis(1), ..Way::default() };
            let (cable, a, b) = Cable::new(&clock, way, way);
            let on = (&clock, manual());
            let mut ends = [
                end(&sessions, "a", a, on, neighbours(1, "10.0.0.1")),
                end(&sessions, "b", b, on, neighbours(2, "10.0.0.2")),
            ];
            let gates = Gates::new(std::iter::once(&sessions));
            ends.iter_mut().for_each(|end| end.share(gates.clone()));
            let run_until = |ends: &mut [OnCable], until: Nanos| {
                let mut now = clock.now();
                while now < until {
                    now = step(ends, OwnStack::next_time, (&cable, &clock), until);
                }
                now
            };
            let mut now = run_until(&mut ends, Nanos::from_millis(1500));
            assert!(ends[1].programs.awaits_clients(false), "{program}");
            let order = if server_first { [1, 0] } else { [0, 1] };
            for end in order {
                ends[end].close_clients(now);
                now = run_until(&mut ends, now.saturating_add(Nanos::from_millis(5)));
            }
            let until = now.saturating_add(Nanos::from_millis(500));
            while now < until && ends[1].programs.awaits_clients(false) {
                now = step(&mut ends, OwnStack::next_time, (&cable, &clock), until);
            }
            ends.iter_mut().for_each(|end| end.close_all(now));
            now = run_until(&mut ends, now.saturating_add(SECOND));
            ends.iter_mut().for_each(|end| end.abort_all(now));
            run_until(&mut ends, now.saturating_add(SECOND));
            let [client, server] =
                [0, 1].map(|of: usize| ends[of].programs.summaries()[0].2.counts);
            let what = format!("{program}, server first: {server_first}: {client:?} {server:?}");
            assert_eq!((client.opened, client.unfinished), (20, 20), "{what}");
            assert_eq!(server.in_order + server.unfinished, 20, "{what}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_refuses_and_one_that_is_nowhere_is_unreachable() {
    let text = scenario(HTTP, "rate: 10/s").replace("    to: b\n", "");
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    for (address, refused, unreachable) in [("10.0.0.2", 20, 0), ("10.0.0.3", 0, 20)] {
        let clock = VirtualClock::new(SECOND);
        let (cable, a, b) = Cable::new(&clock, Way::default(), Way::default());
        let on = (&clock, manual());
        let mut ends = [
            end(&sessions, "a", a, on, neighbours(1, "10.0.0.1")),
            end(&sessions, "b", b, on, neighbours(2, address)),
        ];
        let limit = clock.now().saturating_add(Nanos::from_secs(60));
        let mut now = clock.now();
        while now < limit && !ends[0].is_done(now) {
            now = step(&mut ends, OwnStack::next_time, (&cable, &clock), limit);
        }
        let counts = ends[0].programs.summaries()[0].2.counts;
        assert_eq!((counts.refused, counts.unreachable), (refused, unreachable), "{counts:?}");
        let silent = (unreachable > 0).then(|| "10.0.0.2".parse().unwrap());
        assert_eq!(ends[0].stack.counters().silent_next_hop, silent);
    }
}
