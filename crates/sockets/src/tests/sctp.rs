//! Associations of SCTP, where the kernel has it: what is sent arrives, at stacks and at plain sockets, and each ends once and in
//! order. Here is the other end of what TCP can do half-closed: whoever ends first has heard all before.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::net::{
    AddressFamily, SocketType, accept, bind, connect, getsockname, ipproto, listen, socket, sockopt,
};
use wirebeat_host::{IntOption, int_option};
use wirebeat_units::Bytes;

use super::*;
use crate::{Protocol, SocketsError, check_profile};

const MB: u64 = 1_000_000;

fn profile() -> Profile {
    Profile { protocol: Protocol::Sctp, ..Profile::default() }
}

/// Says that a test is skipped where the kernel has no SCTP.
fn is_missing() -> bool {
    match check_profile(&profile()) {
        Ok(()) => false,
        Err(error) => {
            assert!(matches!(error, SocketsError::Sctp(_)), "{error}");
            eprintln!("SKIPPED: {error}");
            true
        }
    }
}

fn side() -> Side {
    Side::with(profile(), Limits::default())
}

fn listening(accepts: Session, at: &str) -> (Side, SocketAddr) {
    let mut side = side();
    side.script.accepts = Some(accepts);
    let address = side.stack.listen(at.parse().unwrap(), ProfileId(0), 4096).unwrap();
    (side, address)
}

/// Ends the sessions of a side that have heard so much, once.
fn finish_those_that_heard(side: &mut Side, bytes: u64, finished: &mut Vec<Connection>) {
    for session in side.script.sessions.iter().filter(|session| session.end.is_none()) {
        let Some(connection) = session.connection.filter(|_| session.heard == bytes) else {
            continue;
        };
        if !finished.contains(&connection) {
            finished.push(connection);
            side.script.actions.push_back(Action::Finish(connection));
        }
    }
}

fn plain() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP)).unwrap()
}

#[test]
fn a_machine_without_sctp_is_told_with_the_remedy() {
    let fault = SocketsError::Sctp(rustix::io::Errno::PROTONOSUPPORT).fault();
    assert!(fault.what.contains("no SCTP") && fault.hint.unwrap().contains("modprobe sctp"));
    assert_eq!(crate::machine::has_sctp(), check_profile(&profile()).is_ok());
}

#[test]
fn two_stacks_echo_10_mb() {
    if is_missing() {
        return;
    }
    for (at, sessions) in [(LOCAL, 1), (LOCAL, 50), ("[::1]:0", 1)] {
        let bytes = 10 * MB / sessions;
        let (mut server, address) = listening(Session::echoes(), at);
        let mut client = side();
        for _ in 0..sessions {
            client.script.connect(Session::holds(bytes), address);
        }
        let mut finished = Vec::new();
        until(&mut [&mut client, &mut server], |sides| {
            // `until` lends them for looking alone
            sides.iter().all(|side| side.ended())
                || sides[0].script.sessions.iter().all(|session| session.heard == bytes)
        });
        finish_those_that_heard(&mut client, bytes, &mut finished);
        until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
        for side in [&client, &server] {
            for session in &side.script.sessions {
                assert_eq!((session.heard, session.taken), (bytes, bytes), "{at}");
                assert!(session.peer_closed, "{at}");
                let (reason, stats) = session.end.unwrap();
                assert_eq!((reason, stats.acked), (Reason::InOrder, bytes), "{at}");
            }
            assert_eq!((side.script.sessions.len() as u64, side.stack.open()), (sessions, 0));
        }
    }
}

#[test]
fn what_is_sent_before_the_end_is_heard_either_way() {
    if is_missing() {
        return;
    }
    // the client sends and shuts down; the server, which echoes nothing, sees the end behind the last byte
    let (mut server, address) = listening(Session::holds(0), LOCAL);
    let mut client = side();
    client.script.connect(Session::sends(10 * MB), address);
    until(&mut [&mut client, &mut server], |sides| {
        sides[1].script.sessions.first().is_some_and(|session| session.peer_closed)
    });
    assert_eq!(server.script.sessions[0].heard, 10 * MB);
    finish_those_that_heard(&mut server, 10 * MB, &mut Vec::new());
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!((client.script.reasons(), server.script.reasons()), {
        let in_order = vec![Some(Reason::InOrder)];
        (in_order.clone(), in_order)
    });
    // and the other way
    let (mut server, address) = listening(Session::sends(10 * MB), LOCAL);
    let mut client = side();
    client.script.connect(Session::holds(0), address);
    until(&mut [&mut client, &mut server], |sides| sides[0].script.sessions[0].peer_closed);
    assert_eq!(client.script.sessions[0].heard, 10 * MB);
    finish_those_that_heard(&mut client, 10 * MB, &mut Vec::new());
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
    assert_eq!(server.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn a_reader_without_room_stops_the_sender_to_the_byte() {
    if is_missing() {
        return;
    }
    let mut reader = Session::holds(0);
    reader.allowed = 0;
    let (mut server, address) = listening(reader, LOCAL);
    let mut client = side();
    client.script.connect(Session::sends(20 * MB), address);
    let mut last = (0, 0);
    until(&mut [&mut client, &mut server], |sides| {
        let taken = sides[0].script.sessions[0].taken;
        last = if taken == last.0 && taken > 0 { (taken, last.1 + 1) } else { (taken, 0) };
        last.1 > 300
    });
    assert!(last.0 < 20 * MB, "it was all taken over");
    server.script.allow(0, 12_345);
    until(&mut [&mut client, &mut server], |sides| sides[1].script.sessions[0].heard == 12_345);
    server.script.allow(0, u64::MAX / 2);
    until(&mut [&mut client, &mut server], |sides| sides[1].script.sessions[0].peer_closed);
    assert_eq!(server.script.sessions[0].heard, 20 * MB);
}

#[test]
fn refusals_and_aborts_are_told() {
    if is_missing() {
        return;
    }
    let free = plain();
    bind(&free, &LOCAL.parse::<SocketAddr>().unwrap()).unwrap();
    let nobody = SocketAddr::try_from(getsockname(&free).unwrap()).unwrap();
    let mut client = side();
    client.script.connect(Session::holds(1), nobody);
    until(&mut [&mut client], |sides| sides[0].ended());
    assert_eq!(client.script.reasons(), [Some(Reason::Refused)]);

    let (mut server, address) = listening(Session::holds(0), LOCAL);
    let mut client = side();
    client.script.connect(Session::holds(1000), address);
    until(&mut [&mut client, &mut server], |sides| {
        sides[1].script.sessions.first().is_some_and(|session| session.heard == 1000)
    });
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Abort(connection));
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(client.script.reasons(), [Some(Reason::Aborted)]);
    assert_eq!(server.script.reasons(), [Some(Reason::Reset)]);
}

#[test]
fn who_sends_after_the_peers_end_is_reset() {
    if is_missing() {
        return;
    }
    let (mut server, address) = listening(Session::sends(100 * MB), LOCAL);
    let mut client = side();
    client.script.connect(Session::holds(0), address);
    until(&mut [&mut client, &mut server], |sides| sides[0].script.sessions[0].heard > MB);
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Finish(connection));
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(server.script.reasons(), [Some(Reason::Reset)]);
    assert_eq!(client.script.sessions[0].heard, server.script.sessions[0].taken);
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn plain_sockets_are_peers_at_either_end() {
    if is_missing() {
        return;
    }
    let (mut server, address) = listening(Session::echoes(), LOCAL);
    let peer = thread::spawn(move || {
        let socket = plain();
        connect(&socket, &address).unwrap();
        // what std calls a TCP stream is a socket that reads and writes
        let mut writer = TcpStream::from(socket);
        let mut reader = writer.try_clone().unwrap();
        let reading = thread::spawn(move || {
            let mut heard = vec![0; 1_000_000];
            reader.read_exact(&mut heard).unwrap();
            heard
        });
        (0..100).for_each(|at| writer.write_all(&stream(at * 10_000)[..10_000]).unwrap());
        is_stream(0, &reading.join().unwrap())
    });
    until(&mut [&mut server], |sides| sides[0].ended());
    assert!(peer.join().unwrap());
    assert_eq!(server.script.reasons(), [Some(Reason::InOrder)]);

    let listener = plain();
    bind(&listener, &LOCAL.parse::<SocketAddr>().unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let peer = thread::spawn(move || {
        let mut heard = Vec::new();
        TcpStream::from(accept(&listener).unwrap()).read_to_end(&mut heard).unwrap();
        (heard.len(), is_stream(0, &heard))
    });
    let mut client = side();
    client.script.connect(Session::sends(MB), address);
    until(&mut [&mut client], |sides| sides[0].ended());
    assert_eq!(peer.join().unwrap(), (MB as usize, true));
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn what_is_asked_for_is_set_at_both_ends() {
    if is_missing() {
        return;
    }
    let profile = Profile {
        ttl: Some(33),
        tos: Some(0xb8),
        send_buffer: Some(Bytes::new(50_000)),
        receive_buffer: Some(Bytes::new(60_000)),
        ..profile()
    };
    let mut server = Side::with(profile.clone(), Limits::default());
    server.script.accepts = Some(Session::holds(0));
    let address = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 16).unwrap();
    let mut client = Side::with(profile, Limits::default());
    client.script.connect(Session::holds(0), address);
    until(&mut [&mut client, &mut server], |sides| sides[1].stack.open() == 1);
    for socket in [&client, &server].iter().flat_map(|side| side.stack.sockets()) {
        let fd = &socket.fd;
        assert_eq!(int_option(fd.as_fd(), IntOption::SctpNoDelay).unwrap(), 1);
        assert_eq!(sockopt::ip_ttl(fd).unwrap(), 33);
        // SCTP writes the bits of ECN itself
        assert_eq!(sockopt::ip_tos(fd).unwrap() & !3, 0xb8);
        assert_eq!(sockopt::socket_send_buffer_size(fd).unwrap(), 100_000);
        assert_eq!(sockopt::socket_recv_buffer_size(fd).unwrap(), 120_000);
    }
    // what the kernel does not have for SCTP is refused by its name
    let congestion = Profile { congestion: Some("cubic".to_owned()), ..self::profile() };
    assert!(check_profile(&congestion).unwrap_err().to_string().contains("cubic"));
}
