//! What is sent arrives, both ways, at any peer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use super::*;

const MB: u64 = 1_000_000;

/// The bytes of a stream.
fn bytes(count: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        let left = (count - all.len() as u64) as usize;
        all.extend_from_slice(&stream(all.len() as u64)[..left.min(PERIOD)]);
    }
    all
}

#[test]
fn two_stacks_echo_10_mb() {
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::new();
    client.script.connect(Session::sends(10 * MB), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        let session = &side.script.sessions[0];
        assert_eq!((session.heard, session.taken, session.peer_closed), (10 * MB, 10 * MB, true));
        let (reason, stats) = session.end.unwrap();
        assert_eq!((reason, stats.acked), (Reason::InOrder, 10 * MB));
        assert!(stats.rtt.is_some() && stats.data_segments > 0, "{stats:?}");
        assert_eq!(side.stack.open(), 0);
    }
}

#[test]
fn a_stack_may_go_to_another_thread() {
    let (mut server, address) = Side::server(Session::echoes());
    let serving = thread::spawn(move || until(&mut [&mut server], |sides| sides[0].ended()));
    let mut client = Side::new();
    client.script.connect(Session::sends(1), address);
    until(&mut [&mut client], |sides| sides[0].ended());
    serving.join().unwrap();
}

#[test]
fn both_send_10_mb_at_the_same_time() {
    let (mut server, address) = Side::server(Session::sends(10 * MB));
    let mut client = Side::new();
    client.script.connect(Session::sends(10 * MB), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        let session = &side.script.sessions[0];
        assert_eq!((session.heard, session.end.unwrap().1.acked), (10 * MB, 10 * MB));
        assert_eq!(session.end.unwrap().0, Reason::InOrder);
    }
}

#[test]
fn ipv6_is_the_same() {
    let mut server = Side::new();
    server.script.accepts = Some(Session::echoes());
    let Ok(address) = server.stack.listen("[::1]:0".parse().unwrap(), ProfileId(0), 16) else {
        eprintln!("SKIPPED: this machine has no IPv6");
        return;
    };
    let mut client = Side::new();
    client.script.connect(Session::sends(MB), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(client.script.sessions[0].heard, MB);
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn a_thousand_connections_at_once() {
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::new();
    for index in 0..1_000 {
        // none, a few bytes, some segments
        client.script.connect(Session::holds(index * index % 50_000), address);
    }
    let echoed = |side: &Side| {
        let all = |session: &Session| match session.says {
            Says::Pattern { bytes, .. } | Says::Constant { bytes, .. } => {
                session.heard == bytes && session.connection.is_some()
            }
            Says::Echo => true,
        };
        side.stack.open() == 1_000 && side.script.sessions.iter().all(all)
    };
    until(&mut [&mut client, &mut server], |sides| {
        echoed(sides[0]) && sides[1].stack.open() == 1_000
    });
    for session in 0..1_000 {
        let connection = client.script.sessions[session].connection.unwrap();
        client.script.actions.push_back(Action::Finish(connection));
    }
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        assert_eq!(side.script.reasons(), vec![Some(Reason::InOrder); 1_000]);
    }
    assert_eq!(server.stack.counters().accepted, 1_000);
}

#[test]
fn the_standard_librarys_client_is_echoed() {
    let (mut server, address) = Side::server(Session::echoes());
    let peer = thread::spawn(move || {
        let mut writer = TcpStream::connect(address).unwrap();
        let mut reader = writer.try_clone().unwrap();
        let sent = bytes(10 * MB);
        let writing = thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).unwrap();
        writing.join().unwrap();
        assert!(heard == bytes(10 * MB));
    });
    until(&mut [&mut server], |sides| sides[0].ended());
    peer.join().unwrap();
    assert_eq!(server.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn the_standard_librarys_server_hears_small_pieces_in_order() {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        stream.write_all(&bytes(3)).unwrap();
        heard
    });
    let mut client = Side::new();
    let says = Says::Pattern { bytes: MB, piece: 777, finish: true };
    client.script.connect(Session::new(says), address);
    until(&mut [&mut client], |sides| sides[0].ended());
    assert!(peer.join().unwrap() == bytes(MB));
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
    assert_eq!(client.script.sessions[0].heard, 3);
}

#[test]
fn small_pieces_leave_in_one_segment() {
    let (mut server, address) = Side::server(Session::sends(0));
    let mut client = Side::new();
    // a head of 100 bytes before a body, so to speak: 13 pieces, and less than a segment of the loopback interface
    let says = Says::Pattern { bytes: 1_300, piece: 100, finish: true };
    client.script.connect(Session::new(says), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    let (reason, stats) = client.script.sessions[0].end.unwrap();
    assert_eq!((reason, stats.data_segments, stats.acked), (Reason::InOrder, 1, 1_300));
}

#[test]
fn a_sender_stops_without_room_and_goes_on_with_it() {
    let mut reader = Session::sends(0);
    reader.allowed = 0;
    let (mut server, address) = Side::server(reader);
    let mut client = Side::new();
    client.script.connect(Session::sends(40 * MB), address);
    // Nothing moves any more: the buffers of both kernels' ends are full.
    let mut last = (0, 0);
    until(&mut [&mut client, &mut server], |sides| {
        let taken = sides[0].script.sessions[0].taken;
        last = if taken == last.0 && taken > 0 { (taken, last.1 + 1) } else { (taken, 0) };
        last.1 > 1_000
    });
    assert!(last.0 < 40 * MB, "it was all taken over");
    assert_eq!(server.script.sessions[0].heard, 0);
    // A little room, to the byte; then all.
    server.script.allow(0, 12_345);
    until(&mut [&mut client, &mut server], |sides| sides[1].script.sessions[0].heard == 12_345);
    (0..20).for_each(|_| server.step());
    assert_eq!(server.script.sessions[0].heard, 12_345);
    server.script.allow(0, u64::MAX / 2);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(server.script.sessions[0].heard, 40 * MB);
}

#[test]
fn bulk_does_not_keep_others_from_their_turn() {
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::new();
    // A peer that never reads, and one that reads all the time.
    let deaf = TcpListener::bind(LOCAL).unwrap();
    client.script.connect(Session::sends(1_000 * MB), deaf.local_addr().unwrap());
    let sink = TcpListener::bind(LOCAL).unwrap();
    let address_of_sink = sink.local_addr().unwrap();
    let reading = thread::spawn(move || {
        let (mut stream, _) = sink.accept().unwrap();
        let mut buffer = vec![0; 1 << 20];
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    client.script.connect(Session::sends(u64::MAX), address_of_sink);
    until(&mut [&mut client, &mut server], |sides| sides[0].script.sessions[1].taken > 0);
    for _ in 0..100 {
        client.script.connect(Session::sends(1_000), address);
    }
    until(&mut [&mut client, &mut server], |sides| {
        sides[0].script.sessions[2..].iter().all(|session| session.end.is_some())
    });
    let sessions = &client.script.sessions;
    assert!(sessions[2..].iter().all(|s| s.end.unwrap().0 == Reason::InOrder && s.heard == 1_000));
    assert!(sessions[..2].iter().all(|session| session.end.is_none()));
    drop(client);
    reading.join().unwrap();
}
