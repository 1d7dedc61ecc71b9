//! What is asked of TCP reaches the sockets, on both sides, or is refused before the start.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;
use wirebeat_host::{IntOption, MTU_DISCOVER_DONT, int_option, max_pacing_rate, tcp_info};
use wirebeat_units::{BitRate, Bytes, Nanos};

use super::*;
use crate::{ConstantMemory, KeepAlive, Protocol, SocketsError, check_profile};

fn all_options() -> Profile {
    Profile {
        congestion: Some("reno".to_owned()),
        mss: Some(1_000),
        send_buffer: Some(Bytes::new(50_000)),
        receive_buffer: Some(Bytes::new(60_000)),
        nagle: false,
        pacing: Some(BitRate(800_000_000)),
        ttl: Some(33),
        tos: Some(0xb8),
        dont_fragment: Some(false),
        keep_alive: Some(KeepAlive {
            idle: Nanos::from_secs(17),
            interval: Nanos::from_secs(3),
            count: 5,
        }),
        syn_retries: Some(3),
        user_timeout: Some(Nanos::from_micros(1_500_500)),
        ..Profile::default()
    }
}

fn assert_has_all(fd: &OwnedFd, six: bool) {
    assert!(sockopt::tcp_nodelay(fd).unwrap());
    assert_eq!(sockopt::tcp_congestion(fd).unwrap(), "reno");
    assert!(tcp_info(fd.as_fd()).unwrap().snd_mss <= 1_000);
    assert_eq!(sockopt::socket_send_buffer_size(fd).unwrap(), 100_000);
    assert_eq!(sockopt::socket_recv_buffer_size(fd).unwrap(), 120_000);
    assert_eq!(max_pacing_rate(fd.as_fd()).unwrap(), Some(BitRate(800_000_000)));
    assert!(sockopt::socket_keepalive(fd).unwrap());
    assert_eq!(sockopt::tcp_keepidle(fd).unwrap().as_secs(), 17);
    assert_eq!(sockopt::tcp_keepintvl(fd).unwrap().as_secs(), 3);
    assert_eq!(sockopt::tcp_keepcnt(fd).unwrap(), 5);
    assert_eq!(sockopt::tcp_user_timeout(fd).unwrap(), 1_501, "rounded up");
    assert_eq!(int_option(fd.as_fd(), IntOption::SynCount).unwrap(), 3);
    if six {
        assert_eq!(sockopt::ipv6_unicast_hops(fd).unwrap(), 33);
        assert_eq!(sockopt::ipv6_tclass(fd).unwrap(), 0xb8);
    } else {
        assert_eq!(sockopt::ip_ttl(fd).unwrap(), 33);
        assert_eq!(sockopt::ip_tos(fd).unwrap(), 0xb8);
        let discovery = int_option(fd.as_fd(), IntOption::MtuDiscover).unwrap();
        assert_eq!(discovery, MTU_DISCOVER_DONT);
    }
}

/// Calls `look` with the socket of each end of a connection over loopback, where both have this profile, and with whether it is one of
/// IPv6.
fn with_both_ends(profile: &Profile, look: fn(&OwnedFd, bool)) {
    for address in [LOCAL, "[::1]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let mut server = Side::with(profile.clone(), Limits::default());
        server.script.accepts = Some(Session::holds(0));
        let Ok(address) = server.stack.listen(address, ProfileId(0), 16) else {
            assert!(address.is_ipv6());
            eprintln!("SKIPPED: this machine has no IPv6");
            continue;
        };
        let mut client = Side::with(profile.clone(), Limits::default());
        client.script.connect(Session::holds(0), address);
        until(&mut [&mut client, &mut server], |sides| {
            sides[1].stack.open() == 1 && sides[0].script.actions.is_empty()
        });
        for side in [&client, &server] {
            let mut sockets = side.stack.sockets();
            look(&sockets.next().unwrap().fd, address.is_ipv6());
        }
    }
}

#[test]
fn both_ends_have_the_options_of_their_profile() {
    with_both_ends(&all_options(), assert_has_all);
}

#[test]
fn both_ends_have_the_timeouts_of_their_profile_where_the_kernel_has_them() {
    let profile = Profile {
        rto_min: Some(Nanos::from_millis(100)),
        rto_max: Some(Nanos::from_secs(5)),
        delayed_ack: Some(Nanos::from_millis(20)),
        ..Profile::default()
    };
    if let Err(error) = check_profile(&profile) {
        let SocketsError::Option { option: "TCP_RTO_MIN_US", error, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*error, rustix::io::Errno::NOPROTOOPT);
        return eprintln!("SKIPPED: this kernel has no timeouts of sockets");
    }
    with_both_ends(&profile, |fd, _| {
        let read = |option| int_option(fd.as_fd(), option).unwrap();
        assert_eq!(read(IntOption::RtoMinMicros), 100_000);
        assert_eq!(read(IntOption::RtoMaxMillis), 5_000);
        assert_eq!(read(IntOption::DelayedAckMicros), 20_000);
    });
    let short = Profile { rto_min: Some(Nanos::from_micros(1)), ..profile };
    let fault = check_profile(&short).unwrap_err().fault();
    assert!(fault.what.contains("TCP_RTO_MIN_US of 1us") && fault.hint.is_some(), "{fault}");
}

#[test]
fn nagle_can_be_had() {
    let mut side = Side::with(Profile { nagle: true, ..Profile::default() }, Limits::default());
    let listener = std::net::TcpListener::bind(LOCAL).unwrap();
    side.script.connect(Session::holds(0), listener.local_addr().unwrap());
    side.step();
    let mut sockets = side.stack.sockets();
    assert!(!sockopt::tcp_nodelay(&sockets.next().unwrap().fd).unwrap());
}

#[test]
fn an_unknown_congestion_control_is_refused_with_those_that_there_are() {
    let profile = Profile { congestion: Some("tahoe".to_owned()), ..Profile::default() };
    let error = check_profile(&profile).unwrap_err();
    assert!(matches!(&error, SocketsError::Congestion { name, .. } if name == "tahoe"));
    let fault = error.fault();
    assert!(fault.what.contains("tahoe") && fault.hint.unwrap().contains("reno"));
    assert!(HostStack::new(vec![Profile::default(), profile], Limits::default()).is_err());
}

#[test]
fn values_that_the_kernel_refuses_are_named() {
    let profile = Profile { mss: Some(1), ..Profile::default() };
    let error = check_profile(&profile).unwrap_err();
    assert!(error.to_string().contains("TCP_MAXSEG of 1"), "{error}");
    // An int of the kernel, doubled, has no room for it.
    let profile = Profile { receive_buffer: Some(Bytes::new(1 << 40)), ..Profile::default() };
    let error = check_profile(&profile).unwrap_err();
    assert!(matches!(error, SocketsError::Buffer { option: "SO_RCVBUF", .. }), "{error}");
    assert!(error.fault().hint.unwrap().contains("net.core.rmem_max"));
}

#[test]
fn a_chosen_address_and_port_are_those_of_the_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
    let mut side = Side::new();
    let locals = ["127.0.0.7:0".parse().unwrap(), free];
    for (key, local) in (0..).zip(locals) {
        side.script.sessions.push(Session::holds(0));
        let (session, profile) = (SessionKey(key), ProfileId(0));
        side.script.actions.push_back(Action::Connect { session, profile, local, remote });
    }
    until(&mut [&mut side], |sides| sides[0].script.actions.is_empty());
    let seen: Vec<SocketAddr> = (0..2).map(|_| listener.accept().unwrap().1).collect();
    assert!(seen.contains(&free), "{seen:?}");
    assert!(seen.iter().any(|peer| peer.ip() == locals[0].ip() && peer.port() != 0), "{seen:?}");
}

#[test]
fn stacks_share_a_port_where_it_is_asked_for() {
    let profile = Profile { shared_port: true, ..Profile::default() };
    let mut servers = [0, 1].map(|_| Side::with(profile.clone(), Limits::default()));
    let mut address = LOCAL.parse().unwrap();
    for server in &mut servers {
        server.script.accepts = Some(Session::echoes());
        address = server.stack.listen(address, ProfileId(0), 256).unwrap();
    }
    let mut client = Side::new();
    for _ in 0..200 {
        client.script.connect(Session::sends(1), address);
    }
    let [a, b] = &mut servers;
    until(&mut [&mut client, a, b], |sides| sides[0].ended());
    assert_eq!(client.script.reasons(), [Some(Reason::InOrder); 200]);
    let accepted = servers.map(|server| server.stack.counters().accepted);
    assert!(accepted.iter().all(|&count| count > 0), "{accepted:?}");
    assert_eq!(accepted.iter().sum::<u64>(), 200);
}

#[test]
fn sessions_go_over_multipath_tcp() {
    let profile = Profile { protocol: Protocol::MultipathTcp, ..Profile::default() };
    if let Err(error) = check_profile(&profile) {
        assert!(matches!(error, SocketsError::Multipath(_)), "{error}");
        assert!(error.fault().hint.unwrap().contains("net.mptcp.enabled"));
        return eprintln!("SKIPPED: {error}");
    }
    let mut server = Side::with(profile.clone(), Limits::default());
    server.script.accepts = Some(Session::echoes());
    let address = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0), 16).unwrap();
    let mut client = Side::with(profile, Limits::default());
    let bytes = 3_000_000;
    client.script.connect(Session::sends(bytes), address);
    let mut multipath = 0;
    until(&mut [&mut client, &mut server], |sides| {
        for socket in sides.iter().flat_map(|side| side.stack.sockets()) {
            let fd = socket.fd.as_fd();
            multipath = multipath.max(int_option(fd, IntOption::IsMultipath).unwrap());
        }
        sides.iter().all(|side| side.ended())
    });
    assert_eq!(multipath, 1);
    for side in [&client, &server] {
        let session = &side.script.sessions[0];
        assert_eq!((session.heard, session.taken, session.peer_closed), (bytes, bytes, true));
        let (reason, stats) = session.end.unwrap();
        assert_eq!((reason, stats.acked), (Reason::InOrder, bytes));
    }
}

#[test]
fn multipath_tcp_is_tcp_where_the_peer_has_no_other() {
    let profile = Profile { protocol: Protocol::MultipathTcp, ..Profile::default() };
    if let Err(error) = check_profile(&profile) {
        return eprintln!("SKIPPED: {error}");
    }
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::with(profile, Limits::default());
    client.script.connect(Session::sends(100_000), address);
    until(&mut [&mut client, &mut server], |sides| sides.iter().all(|side| side.ended()));
    for side in [&client, &server] {
        let session = &side.script.sessions[0];
        assert_eq!((session.heard, session.end.unwrap().0), (100_000, Reason::InOrder));
    }
}

#[test]
fn what_multipath_tcp_does_not_have_is_refused_by_name() {
    let profile =
        Profile { protocol: Protocol::MultipathTcp, syn_retries: Some(3), ..Profile::default() };
    match check_profile(&profile) {
        Err(SocketsError::Multipath(_)) => eprintln!("SKIPPED: no Multipath TCP"),
        // a later kernel may have it
        Ok(()) => {}
        Err(error) => {
            assert!(error.to_string().contains("TCP_SYNCNT of 3"), "{error}");
            assert!(error.fault().hint.unwrap().contains("Multipath"));
        }
    }
}

#[test]
fn an_open_connection_is_looked_at_and_a_closed_one_is_not() {
    let (mut server, address) = Side::server(Session::echoes());
    let mut client = Side::new();
    let key = client.script.connect(Session::holds(0), address);
    let mut steps = 0;
    let (connection, sample) = loop {
        client.step();
        server.step();
        let connection = client.script.session(key).connection;
        let seen = connection.and_then(|at| Some((at, client.stack.look(at)?)));
        if let Some(seen) = seen {
            break seen;
        }
        steps += 1;
        assert!(steps < 1000, "it is not established");
    };
    assert!(sample.rtt.unwrap() < Nanos::from_secs(1) && sample.cwnd.unwrap() > 500, "{sample:?}");
    assert_eq!(sample.retransmitted, 0);
    assert_eq!(client.stack.look(Connection(connection.0 + 1)), None);
    client.script.actions.push_back(Action::Abort(connection));
    until(&mut [&mut client], |sides| sides[0].ended());
    assert_eq!(client.stack.look(connection), None);
}

#[test]
fn both_ends_may_send_without_a_copy() {
    let profile = Profile { zero_copy: Some(ConstantMemory::default()), ..Profile::default() };
    with_both_ends(&profile, |fd, _| {
        assert_eq!(int_option(fd.as_fd(), IntOption::ZeroCopy).unwrap(), 1);
    });
    with_both_ends(&Profile::default(), |fd, _| {
        assert_eq!(int_option(fd.as_fd(), IntOption::ZeroCopy).unwrap(), 0);
    });
}

#[test]
fn a_machine_that_copies_all_is_told_with_the_remedy() {
    let (option, value) = (IntOption::ZeroCopy.name(), "1".to_owned());
    let error = SocketsError::Option { option, value, error: Errno::NOPROTOOPT };
    assert!(error.to_string().contains("cannot send without a copy"), "{error}");
    assert!(error.fault().hint.unwrap().contains("leave 'zero-copy' out"));
}
