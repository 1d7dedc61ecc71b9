//! Memory is handed to the kernel instead of copied: what arrives is what was sent, and each send is told of once.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::thread;

use rustix::net::sockopt;
use wirebeat_testbed::{Capability, Testbed, require};

use super::*;
use crate::{ConstantMemory, ZeroCopyCounters};

const MB: u64 = 1_000_000;

/// That the pattern may be handed over.
fn profile() -> Profile {
    let zero_copy = Some(ConstantMemory::new([Arc::clone(pattern())]));
    Profile { zero_copy, ..Profile::default() }
}

fn side() -> Side {
    Side::with(profile(), Limits::default())
}

fn listening(accepts: Session) -> (Side, SocketAddr) {
    let mut side = side();
    side.script.accepts = Some(accepts);
    let address = side.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 16).unwrap();
    (side, address)
}

fn constant(bytes: u64, finish: bool) -> Session {
    Session::new(Says::Constant { head: 0, bytes, piece: usize::MAX, finish })
}

/// What a side counted of connections that it opened, and that it accepted.
fn counted(side: &Side) -> [ZeroCopyCounters; 2] {
    side.stack.zero_copies(ProfileId(0)).unwrap()
}

/// All was told, and the loopback interface always copies.
fn assert_all_told(of: ZeroCopyCounters) {
    assert!(of.sends > 0 && (of.told, of.copied) == (of.sends, of.sends), "{of:?}");
}

#[test]
fn what_is_handed_over_arrives_and_is_told_of() {
    let (mut server, address) = listening(Session::echoes());
    let mut client = side();
    // every other piece is made for the send, which is copied as ever
    client.script.connect(Session::sends(10 * MB), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        let session = &side.script.sessions[0];
        assert_eq!((session.heard, session.taken, session.peer_closed), (10 * MB, 10 * MB, true));
        let (reason, stats) = session.end.unwrap();
        assert_eq!((reason, stats.acked), (Reason::InOrder, 10 * MB));
    }
    let [opened, accepted] = counted(&client);
    assert_all_told(opened);
    assert_eq!(accepted, ZeroCopyCounters::default());
    assert_eq!(counted(&server), [ZeroCopyCounters::default(); 2], "an echo is no constant memory");
}

#[test]
fn both_ends_hand_over_at_the_same_time() {
    let (mut server, address) = listening(constant(10 * MB, true));
    let mut client = side();
    for _ in 0..5 {
        client.script.connect(constant(10 * MB, true), address);
    }
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        assert_eq!(side.script.reasons(), [Some(Reason::InOrder); 5]);
        assert!(side.script.sessions.iter().all(|session| session.heard == 10 * MB));
    }
    assert_all_told(counted(&client)[0]);
    assert_all_told(counted(&server)[1]);
}

#[test]
fn a_connection_that_goes_on_is_not_ended_by_what_it_is_told() {
    let (mut server, address) = listening(Session::sends(0));
    let mut client = side();
    client.script.connect(constant(5 * MB, false), address);
    until(&mut [&mut client, &mut server], |sides| {
        let [opened, _] = counted(sides[0]);
        sides[1].script.sessions.first().is_some_and(|session| session.heard == 5 * MB)
            && opened.told == opened.sends
    });
    assert_all_told(counted(&client)[0]);
    assert_eq!(client.script.reasons(), [None]);
    let connection = client.script.sessions[0].connection.unwrap();
    client.script.actions.push_back(Action::Finish(connection));
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
}

#[test]
fn a_head_leaves_in_one_segment_with_what_is_handed_over() {
    let (mut server, address) = listening(Session::sends(0));
    let mut client = side();
    let says = Says::Constant { head: 100, bytes: 30_100, piece: usize::MAX, finish: true };
    client.script.connect(Session::new(says), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    let (reason, stats) = client.script.sessions[0].end.unwrap();
    assert_eq!((reason, stats.data_segments, stats.acked), (Reason::InOrder, 1, 30_100));
    assert_eq!(counted(&client)[0].sends, 1);
}

#[test]
fn a_reset_is_told_from_a_notification() {
    let listener = TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    let peer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 500_000]).unwrap();
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let mut client = side();
    client.script.connect(constant(100 * MB, true), address);
    until(&mut [&mut client], |sides| sides[0].ended());
    assert_eq!(client.script.reasons(), [Some(Reason::Reset)]);
    assert!(counted(&client)[0].sends > 0);
    peer.join().unwrap();
}

#[test]
fn what_the_kernel_has_no_room_for_is_copied() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&wirebeat_testbed::Options::default()).unwrap();
    let run = || {
        // where a namespace has such a limit of its own (Linux 6.8)
        fs::write("/proc/sys/net/core/optmem_max", "0")?;
        let (mut server, address) = listening(Session::sends(0));
        let mut client = side();
        client.script.connect(constant(5 * MB, true), address);
        until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
        assert_eq!(server.script.sessions[0].heard, 5 * MB);
        assert_eq!(client.script.reasons(), [Some(Reason::InOrder)]);
        Ok::<_, std::io::Error>(counted(&client)[0])
    };
    match bed.a.namespace.run(run).unwrap() {
        Ok(counted) => assert!(counted.sends == 0 && counted.no_room > 0, "{counted:?}"),
        Err(error) => eprintln!("SKIPPED: no optmem_max of a namespace: {error}"),
    }
}
