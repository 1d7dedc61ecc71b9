//! Peers and machines that do not do what they should.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;

use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, setrlimit};
use wirebeat_converse::stack::Failure;
use wirebeat_testbed::{Capability, Options, Testbed, require};

use super::*;
use crate::SocketsError;
use crate::machine::descriptors;

/// Closes it with RST.
fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

/// A client of ours that is connected to a peer of the standard library.
fn connected(session: Session) -> (Side, TcpStream) {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let mut client = Side::new();
    client.script.connect(session, listener.local_addr().unwrap());
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].connection.is_some());
    (client, listener.accept().unwrap().0)
}

fn ended(mut side: Side) -> Session {
    until(&mut [&mut side], |sides| sides[0].ended());
    assert_eq!(side.stack.open(), 0);
    side.script.sessions.remove(0)
}

/// A listener whose backlog is full: to connect there takes for ever.
fn full_listener() -> (Side, SocketAddr) {
    let mut side = Side::new();
    let address = side.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 0).unwrap();
    for _ in 0..8 {
        side.script.connect(Session::holds(0), address);
    }
    while let Some(action) = side.script.actions.pop_front() {
        side.stack.apply(clock(), action, &mut side.script);
    }
    (side, address)
}

#[test]
fn a_port_without_a_listener_refuses() {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut client = Side::new();
    client.script.connect(Session::sends(1), address);
    let session = ended(client);
    assert_eq!(session.end, Some((Reason::Refused, ConnectionStats::default())));
}

#[test]
fn a_reset_is_told_after_what_came_before_it() {
    let (mut client, mut peer) = connected(Session::holds(10));
    peer.read_exact(&mut [0; 10]).ok();
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].taken == 10);
    peer.write_all(&stream(0)[..5_000]).unwrap();
    reset(peer);
    let session = ended(client);
    assert_eq!((session.end.unwrap().0, session.heard), (Reason::Reset, 5_000));
    assert!(!session.peer_closed);
}

#[test]
fn a_reset_after_the_peers_fin_is_a_reset() {
    let (mut client, peer) = connected(Session::holds(0));
    peer.shutdown(Shutdown::Write).unwrap();
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].peer_closed);
    reset(peer);
    assert_eq!(ended(client).end.unwrap().0, Reason::Reset);
}

#[test]
fn a_reset_before_our_fin_is_acknowledged_is_no_end_in_order() {
    // The peer is deaf: our bytes fill its buffer, and our FIN waits behind them.
    let (mut client, peer) = connected(Session::sends(3_000_000));
    peer.shutdown(Shutdown::Write).unwrap();
    let mut steps = 0;
    until(&mut [&mut client], |sides| {
        steps += 1;
        sides[0].script.sessions[0].peer_closed && steps > 100
    });
    assert_eq!(client.script.sessions[0].end, None);
    reset(peer);
    let (reason, stats) = ended(client).end.unwrap();
    assert_eq!(reason, Reason::Reset);
    assert!(stats.acked < 3_000_000, "{stats:?}");
}

#[test]
fn what_a_peer_that_has_gone_answers_with_a_reset_is_not_delivered() {
    let (mut client, peer) = connected(Session::holds(0));
    drop(peer);
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].peer_closed);
    // The reset is there before FIN is sent.
    client.script.sessions[0].says = Says::Pattern { bytes: 7, piece: 7, finish: true };
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Finish(connection));
    let (reason, stats) = ended(client).end.unwrap();
    assert_eq!((reason, stats.acked), (Reason::Reset, 0));
}

#[test]
fn to_send_into_a_reset_connection_is_a_reset_after_what_came_before_it() {
    let (mut client, mut peer) = connected(Session::holds(0));
    until(&mut [&mut client], |sides| sides[0].script.actions.is_empty());
    peer.write_all(&stream(0)[..5_000]).unwrap();
    reset(peer);
    // Before the stack has seen what happened.
    client.script.sessions[0].says = Says::Pattern { bytes: 1, piece: 1, finish: true };
    let connection = client.script.sessions[0].connection.unwrap();
    for action in [Action::Send(connection), Action::Finish(connection)] {
        client.stack.apply(clock(), action, &mut client.script);
    }
    let session = ended(client);
    assert_eq!((session.end.unwrap().0, session.heard), (Reason::Reset, 5_000));
    assert!(!session.peer_closed, "a reset is no FIN");
}

#[test]
fn a_peer_that_closes_half_way_still_hears_everything() {
    let (mut client, mut peer) = connected(Session::holds(2_000_000));
    peer.write_all(&stream(0)[..10]).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let reading = std::thread::spawn(move || {
        let mut heard = Vec::new();
        peer.read_to_end(&mut heard).unwrap();
        heard
    });
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].peer_closed);
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Finish(connection));
    let session = ended(client);
    let (reason, stats) = session.end.unwrap();
    assert_eq!((reason, session.heard, stats.acked), (Reason::InOrder, 10, 2_000_000));
    let heard = reading.join().unwrap();
    assert!(heard.len() == 2_000_000 && is_stream(0, &heard));
}

#[test]
fn a_session_can_be_given_up_at_any_time() {
    // While it sends ...
    let (mut client, mut peer) = connected(Session::sends(u64::MAX));
    until(&mut [&mut client], |sides| sides[0].script.sessions[0].taken > 0);
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Abort(connection));
    client.script.actions.push_back(Action::Send(connection));
    assert_eq!(ended(client).end.unwrap().0, Reason::Aborted);
    let mut heard = vec![0; 1 << 20];
    let error = loop {
        match peer.read(&mut heard) {
            Ok(count) => assert!(count > 0, "no FIN"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // ... and while it is being opened.
    let (mut side, _) = full_listener();
    let opening = |side: &Side| {
        let reasons = side.script.reasons();
        reasons.iter().all(Option::is_none)
    };
    assert!(opening(&side));
    let connections: Vec<_> = side.script.sessions.iter().map(|s| s.connection.unwrap()).collect();
    side.script.actions.extend(connections.into_iter().map(Action::Abort));
    side.script.accepts = None;
    until(&mut [&mut side], |sides| sides[0].ended());
    assert_eq!(side.script.reasons(), [Some(Reason::Aborted); 8]);
}

#[test]
fn a_stack_that_goes_resets_its_connections() {
    let (client, mut peer) = connected(Session::holds(0));
    drop(client);
    assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_unwanted_connection_gets_a_reset() {
    let mut server = Side::new();
    let address = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 16).unwrap();
    let mut client = Side::new();
    client.script.connect(Session::holds(0), address);
    until(&mut [&mut client, &mut server], |sides| sides[0].ended());
    assert_eq!(client.script.reasons(), [Some(Reason::Reset)]);
    assert_eq!((server.stack.open(), server.stack.counters().unwanted), (0, 1));
}

#[test]
fn more_connections_than_the_limit_fail_or_wait() {
    let few = Limits { connections: 4, ..Limits::default() };
    let mut server = Side::with(Profile::default(), few);
    server.script.accepts = Some(Session::echoes());
    let address = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 64).unwrap();
    let mut client = Side::with(Profile::default(), few);
    for _ in 0..6 {
        client.script.connect(Session::sends(10), address);
    }
    until(&mut [&mut client, &mut server], |sides| sides[0].ended());
    let reasons = client.script.reasons();
    assert_eq!(reasons[..4], [Some(Reason::InOrder); 4]);
    assert_eq!(reasons[4..], [Some(Reason::Failed(Failure::NoDescriptor)); 2]);
    assert_eq!(client.stack.counters().connects_failed, 2);
    // Those that a peer has opened beyond the limit wait until others have ended.
    let mut client = Side::new();
    for _ in 0..20 {
        client.script.connect(Session::sends(10), address);
    }
    until(&mut [&mut client, &mut server], |sides| {
        assert!(sides[1].stack.open() <= 4);
        sides.iter().all(|side| side.ended())
    });
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder); 20]);
    assert!(server.stack.counters().accepts_paused > 0);
}

#[test]
fn without_descriptors_connections_fail_or_wait_in_the_backlog() {
    let this = std::env::current_exe().unwrap();
    let child = ["--exact", "tests::trouble::process_with_few_descriptors", "--ignored"];
    let output = Command::new(this).args(child).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// For a process of its own, as the limit is that of the process.
#[test]
#[ignore = "run by the test above"]
fn process_with_few_descriptors() {
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::new();
    let limit = Rlimit { current: Some(40), maximum: descriptors().1.into() };
    setrlimit(Resource::Nofile, limit).unwrap();
    for _ in 0..100 {
        client.script.connect(Session::holds(10), address);
    }
    let no_descriptor = Some(Reason::Failed(Failure::NoDescriptor));
    client.step();
    let failed = client.script.reasons().iter().filter(|&&r| r == no_descriptor).count();
    assert!((50..100).contains(&failed), "{failed}");
    let mut paused = 0;
    until(&mut [&mut client, &mut server], |sides| {
        paused = sides[1].stack.counters().accepts_paused;
        paused > 2
    });
    assert_eq!(server.script.sessions.len(), 0, "none was left for the other end");
    // Descriptors come back, and the connections in the backlog are accepted.
    let limit = Rlimit { current: Some(200), maximum: descriptors().1.into() };
    setrlimit(Resource::Nofile, limit).unwrap();
    let heard = |side: &Side| side.script.sessions.iter().filter(|s| s.heard == 10).count();
    until(&mut [&mut client, &mut server], |sides| heard(sides[0]) == 100 - failed);
    assert_eq!(heard(&server), 100 - failed);
}

#[test]
fn a_listener_that_cannot_be_says_why() {
    let mut side = Side::new();
    let profile = ProfileId(0);
    let address = side.stack.listen(LOCAL.parse().unwrap(), profile, 1).unwrap();
    let error = side.stack.listen(address, profile, 1).unwrap_err();
    assert_eq!(error, SocketsError::InUse(address));
    assert!(error.fault().hint.unwrap().contains(&address.port().to_string()));
    let nowhere = "192.0.2.7:0".parse().unwrap();
    let error = side.stack.listen(nowhere, profile, 1).unwrap_err();
    assert_eq!(error, SocketsError::NotOurs(nowhere));
    assert!(error.to_string().starts_with("192.0.2.7 is not an address of this machine"));
    let error = side.stack.listen(LOCAL.parse().unwrap(), ProfileId(7), 1).unwrap_err();
    assert_eq!(error, SocketsError::NoProfile(7));
}

#[test]
fn a_profile_that_is_missing_fails_the_connection() {
    let mut side = Side::new();
    side.script.sessions.push(Session::holds(0));
    let (local, remote) = (ANYWHERE.parse().unwrap(), "127.0.0.1:1".parse().unwrap());
    let (session, profile) = (SessionKey(0), ProfileId(3));
    side.script.actions.push_back(Action::Connect { session, profile, local, remote });
    assert!(matches!(ended(side).end, Some((Reason::Failed(Failure::Other(_)), _))));
}

#[test]
fn a_network_without_a_way_and_a_host_that_is_not_there() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Options::default()).unwrap();
    let work = || {
        let mut client = Side::new();
        // no route; no answer to the question for the neighbour's address; no such local address
        client.script.connect(Session::holds(0), "192.0.2.1:80".parse().unwrap());
        client.script.connect(Session::holds(0), "10.77.0.99:80".parse().unwrap());
        client.script.sessions.push(Session::holds(0));
        let local = "10.77.0.3:0".parse().unwrap();
        let remote = "10.77.0.2:80".parse().unwrap();
        let (session, profile) = (SessionKey(2), ProfileId(0));
        client.script.actions.push_back(Action::Connect { session, profile, local, remote });
        until(&mut [&mut client], |sides| sides[0].ended());
        client.script.reasons()
    };
    let reasons = bed.a.namespace.run(work).unwrap();
    let no_address = Reason::Failed(Failure::NoPort);
    assert_eq!(reasons, [Reason::Unreachable, Reason::Unreachable, no_address].map(Some));
}

#[test]
fn a_port_serves_several_destinations_and_without_ports_it_fails() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Options::default()).unwrap();
    let listening = || {
        ["10.77.0.2:81", "10.77.0.2:82"].map(|address| {
            let mut side = Side::new();
            side.script.accepts = Some(Session::holds(0));
            side.stack.listen(address.parse().unwrap(), ProfileId(0), 16).unwrap();
            side
        })
    };
    let servers = bed.b.namespace.run(listening).unwrap();
    let work = || {
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50003").unwrap();
        let mut client = Side::new();
        let [mut one, mut other] = servers;
        let end = |sides: &mut [&mut Side], remote: &str| {
            let client = &mut sides[0].script;
            let session = SessionKey(client.sessions.len() as u32);
            client.sessions.push(Session::holds(0));
            let (local, remote) = ("10.77.0.1:0".parse().unwrap(), remote.parse().unwrap());
            let profile = ProfileId(0);
            client.actions.push_back(Action::Connect { session, profile, local, remote });
            until(sides, |sides| sides[0].script.actions.is_empty());
            sides[0].script.sessions[session.0 as usize].end.map(|(reason, _)| reason)
        };
        let mut sides = [&mut client, &mut one, &mut other];
        for remote in ["10.77.0.2:81", "10.77.0.2:82"] {
            for _ in 0..4 {
                assert_eq!(end(&mut sides, remote), None);
            }
        }
        assert_eq!(end(&mut sides, "10.77.0.2:81"), Some(Reason::Failed(Failure::NoPort)));
        until(&mut sides, |sides| sides[1].stack.open() + sides[2].stack.open() == 8);
    };
    bed.a.namespace.run(work).unwrap();
}

#[test]
fn what_is_asked_of_a_connection_that_is_not_there_is_nothing() {
    let mut side = Side::new();
    for action in [Action::Send, Action::Receive, Action::Finish, Action::Abort] {
        for number in [0, 7, u32::MAX] {
            side.stack.apply(clock(), action(Connection(number)), &mut side.script);
        }
    }
    side.step();
    assert_eq!(side.stack.open(), 0);
}

#[test]
fn a_turn_waits_until_its_end_or_an_event() {
    let mut side = Side::new();
    let begun = clock();
    let end = begun.saturating_add(Nanos::from_millis(3));
    assert!(side.stack.turn(begun, end, &mut side.script) >= end);
    // What is due already is not waited for, and an event ends a wait that has no end.
    side.stack.turn(clock(), begun, &mut side.script);
    let (mut client, mut peer) = connected(Session::holds(0));
    peer.write_all(&stream(0)[..1]).unwrap();
    while client.script.sessions[0].heard == 0 {
        client.stack.turn(clock(), Nanos::MAX, &mut client.script);
    }
}
