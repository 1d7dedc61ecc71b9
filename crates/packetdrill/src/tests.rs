//! The library without packetdrill: a peer is written by hand, calls are made as packetdrill makes them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wirebeat_stack::options::Options;
use wirebeat_stack::segment::{Flags, Outgoing, Segment};
use wirebeat_stack::seq::Seq;
use wirebeat_stack::{Checksum, Tuple};
use wirebeat_units::Nanos;

use crate::calls::OptionValue;
use crate::settings::{System, Wishes};
use crate::sockets::Errno;
use crate::tcp_info;
use crate::world::Shared;

const HERE: [u8; 4] = [192, 168, 0, 1];
const THERE: [u8; 4] = [192, 0, 2, 1];
const PORT: u16 = 8080;
const PEER_PORT: u16 = 40_000;

/// A packet of the peer, whose numbers begin at 0.
fn packet(flags: u8, seq: u32, ack: u32, len: u16) -> Vec<u8> {
    let mut options = Options::default();
    options.mss = (flags & 2 != 0).then_some(1000);
    let outgoing = Outgoing {
        tuple: Tuple {
            local: THERE.into(),
            remote: HERE.into(),
            local_port: PEER_PORT,
            remote_port: PORT,
        },
        seq: Seq(seq),
        ack: Seq(ack),
        flags: Flags(flags),
        window: 30_000,
        options,
        payload_len: len,
        tos: 0,
        ttl: 64,
        identification: 0,
        dont_fragment: true,
    };
    let mut bytes = vec![0; outgoing.packet_len()];
    assert!(outgoing.write(&mut bytes, |into| into.fill(7)));
    bytes
}

/// The next packet: its time, flags, first number, acknowledgment and data.
fn next(shared: &Shared) -> (Nanos, Flags, u32, u32, Vec<u8>) {
    let (time, bytes) = shared.receive().unwrap();
    let segment = Segment::read(&bytes, Checksum::Verify).unwrap();
    (time, segment.flags, segment.seq.0, segment.ack.0, segment.payload.to_vec())
}

/// A listener, and a session that the peer has opened; gives both descriptors and our first number.
fn accepted(shared: &Shared) -> (i32, i32, u32) {
    let listener = shared.act(|world| world.socket(libc::AF_INET, libc::SOCK_STREAM, 0)).unwrap();
    let here = SocketAddr::new(IpAddr::from(HERE), PORT);
    shared.act(|world| world.bind(listener, here)).unwrap();
    shared.act(|world| world.listen(listener)).unwrap();
    assert_eq!(shared.act(|world| world.accept(listener)), Err(Errno::AGAIN));
    shared.act(|world| world.inject(&packet(2, 0, 0, 0)));
    let (_, flags, iss, ack, _) = next(shared);
    assert_eq!((flags, ack), (Flags(0x12), 1));
    shared.act(|world| world.inject(&packet(0x10, 1, iss.wrapping_add(1), 0)));
    let (accepted, peer) = shared.act(|world| world.accept(listener)).unwrap();
    assert_eq!(peer, SocketAddr::new(IpAddr::from(THERE), PEER_PORT));
    (listener, accepted, iss)
}

#[test]
fn what_is_written_is_sent_and_what_is_sent_is_read() {
    let shared = Shared::new();
    let (_, fd, iss) = accepted(&shared);
    assert_eq!(shared.act(|world| world.write(fd, b"hello", 0)), Ok(5));
    let (sent_at, _, seq, _, data) = next(&shared);
    assert_eq!((seq, data.as_slice()), (iss.wrapping_add(1), b"hello".as_slice()));
    shared.act(|world| world.inject(&packet(0x18, 1, seq.wrapping_add(5), 10)));
    assert_eq!(next(&shared).3, 11);
    let mut buffer = [0; 4];
    let got = shared.act(|world| world.read(fd, &mut buffer, libc::MSG_PEEK)).unwrap();
    assert_eq!((got.len, buffer), (4, [7; 4]));
    let mut buffer = [0; 100];
    let got = shared.act(|world| world.read(fd, &mut buffer, 0)).unwrap();
    assert_eq!((got.len, got.queue), (10, None));
    assert_eq!(shared.act(|world| world.read(fd, &mut buffer, 0)), Err(Errno::AGAIN));
    assert_eq!(shared.act(|world| world.read(99, &mut buffer, 0)), Err(Errno::BADF));
    // Closed in order: FIN, and the peer's.
    shared.act(|world| world.close(fd)).unwrap();
    let (closed_at, flags, seq, ..) = next(&shared);
    assert_eq!(flags, Flags(0x11));
    shared.act(|world| world.inject(&packet(0x11, 11, seq.wrapping_add(1), 0)));
    assert_eq!(next(&shared).3, 12);
    assert!(closed_at >= sent_at);
}

#[test]
fn time_passes_in_sleep_and_while_a_packet_is_waited_for() {
    let shared = Shared::new();
    let (_, fd, _) = accepted(&shared);
    let before = shared.clock();
    shared.sleep(Nanos::from_secs(3600));
    assert!((3600..3601).contains(&(shared.clock().saturating_sub(before).get() / 1_000_000_000)));
    shared.act(|world| world.write(fd, &[0; 100], 0)).unwrap();
    let (first, ..) = next(&shared);
    // Nothing answers: it goes again, a timeout later.
    let (second, ..) = next(&shared);
    let waited = second.saturating_sub(first).get() / 1_000_000;
    assert!((200..=201).contains(&waited), "{waited} ms");
}

#[test]
fn a_call_that_blocks_returns_when_time_brings_what_it_waits_for() {
    let shared = Arc::new(Shared::new());
    let (_, fd, iss) = accepted(&shared);
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut buffer = [0; 100];
            let got = shared.block(None, |world| world.read(fd, &mut buffer, 0));
            (got.map(|got| got.len), shared.clock())
        })
    };
    while !shared.is_blocking() {
        thread::sleep(Duration::from_millis(1));
    }
    shared.sleep(Nanos::from_millis(100));
    let arrives = shared.clock();
    shared.act(|world| world.inject(&packet(0x18, 1, iss.wrapping_add(1), 10)));
    shared.sleep(Nanos::from_secs(100));
    let (got, returned) = other.join().unwrap();
    assert_eq!(got, Ok(10));
    assert!(returned.saturating_sub(arrives) < Nanos::from_millis(1), "the clock ran ahead");
}

#[test]
fn a_wait_with_a_time_limit_ends_then() {
    let shared = Shared::new();
    let (_, fd, _) = accepted(&shared);
    let before = shared.clock();
    let deadline = shared.lock().deadline(250);
    let found = shared.block(deadline, |world| match world.poll(fd, libc::POLLIN) {
        0 => Err(Errno::AGAIN),
        events => Ok(events),
    });
    assert_eq!(found, Err(Errno::AGAIN));
    assert_eq!(shared.clock().saturating_sub(before).get() / 1_000_000, 250);
    assert_eq!(shared.lock().poll(fd, libc::POLLIN | libc::POLLOUT), libc::POLLOUT);
}

#[test]
fn corked_data_goes_in_whole_segments_and_the_rest_after_a_while() {
    let shared = Shared::new();
    let (_, fd, _) = accepted(&shared);
    let on = 1_i32.to_ne_bytes();
    let cork = |world: &mut crate::world::World| {
        world.set_option(fd, libc::IPPROTO_TCP, libc::TCP_CORK, &on)
    };
    shared.act(cork).unwrap();
    shared.act(|world| world.write(fd, &[1; 1500], 0)).unwrap();
    let (first, .., data) = next(&shared);
    assert_eq!(data.len(), 1000);
    let (second, .., data) = next(&shared);
    // The first of both was not acknowledged meanwhile, and came again or not; the rest is held for 200 ms.
    assert!(data.len() == 500 || data.len() == 1000);
    assert!((199..=202).contains(&(second.saturating_sub(first).get() / 1_000_000)));
}

#[test]
fn records_share_no_segment() {
    let shared = Shared::new();
    let (_, fd, iss) = accepted(&shared);
    for _ in 0..3 {
        shared.act(|world| world.write(fd, &[1; 10], libc::MSG_EOR)).unwrap();
    }
    shared.act(|world| world.write(fd, &[1; 10], 0)).unwrap();
    let seen: Vec<(u32, usize)> = (0..2)
        .map(|_| {
            let (_, _, seq, _, data) = next(&shared);
            (seq.wrapping_sub(iss), data.len())
        })
        .collect();
    assert_eq!(seen, [(1, 10), (11, 10)]);
}

#[test]
fn tcp_info_tells_of_the_session_in_the_kernels_layout() {
    let shared = Shared::new();
    let (listener, fd, _) = accepted(&shared);
    shared.act(|world| world.write(fd, &[1; 5000], 0)).unwrap();
    let info =
        |fd| match shared.act(|world| world.get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO)) {
            Ok(OptionValue::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
    let bytes = info(fd);
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((bytes.len(), bytes[0]), (tcp_info::LEN, 1), "established");
    // snd_mss, unacked, snd_cwnd, snd_ssthresh
    assert_eq!((word(16), word(24), word(80), word(76)), (1000, 5, 10, 0x7fff_ffff));
    assert_eq!(info(listener)[0], 10, "listening");
    let unknown = shared.act(|world| world.get_option(fd, libc::IPPROTO_TCP, 9999));
    assert_eq!(unknown, Err(Errno(libc::ENOPROTOOPT)));
}

#[test]
fn options_of_sockets_are_profiles_of_the_stack() {
    let system = System::read();
    let usual = system.profile();
    let wishes = Wishes {
        no_delay: true,
        max_segment: 700,
        user_timeout: 3000,
        receive_buffer: 20_000,
        keep_alive: true,
        keep_alive_times: [5, 0, 3],
        cubic: Some(false),
        ..Wishes::default()
    };
    let profile = system.profile_for(&wishes, false);
    assert!(usual.nagle && !profile.nagle && usual.keep_alive.is_none());
    assert_eq!((profile.mss, profile.window), (Some(700), 20_000));
    assert_eq!(profile.user_timeout, Nanos::from_secs(3));
    assert_eq!(profile.congestion, wirebeat_stack::Congestion::NewReno);
    let keep_alive = profile.keep_alive.unwrap();
    assert_eq!((keep_alive.idle, keep_alive.count), (Nanos::from_secs(5), 3));
    assert!(keep_alive.interval > Nanos::ZERO, "the system's");
}
