//! Strangers who open connections without end.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::*;

/// A sender that gets through within this has not been kept out: well below the time that it is willing to wait.
const THROUGH: Duration = Duration::from_secs(5);

/// A connection from an address of one's own.
fn connection(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, None).ok()?;
    bind(&socket, &SocketAddr::from(SocketAddrV4::new(from, 0))).ok()?;
    connect(&socket, &to).ok()?;
    Some(TcpStream::from(socket))
}

/// Bursts of 170 connections from an address, each said something or nothing, until it is told to end.
fn flood(from: Ipv4Addr, to: SocketAddr, over: Arc<AtomicBool>) -> JoinHandle<u64> {
    thread::spawn(move || {
        let mut opened = 0;
        while !over.load(Ordering::Acquire) {
            let mut burst: Vec<_> = (0..170).filter_map(|_| connection(from, to)).collect();
            opened += burst.len() as u64;
            for (place, stream) in burst.iter_mut().enumerate() {
                // a third says nothing, a third who it is, a third shows a wrong key
                let said: &[u8] = match place % 3 {
                    0 => b"",
                    1 => b"wirebeat\x01",
                    _ => &[&b"wirebeat\x01\x00\x30"[..], &[7; 48]].concat(),
                };
                let _ = stream.write_all(said);
            }
            thread::sleep(Duration::from_millis(20));
        }
        opened
    })
}

#[test]
fn a_flood_of_strangers_keeps_no_sender_out() {
    let server = Server::start(Some(right()), Fake::default());
    let over = Arc::new(AtomicBool::new(false));
    let stranger = flood(Ipv4Addr::new(127, 0, 0, 66), server.address, Arc::clone(&over));
    thread::sleep(Duration::from_millis(300));
    for _ in 0..5 {
        let begun = Instant::now();
        let connection = server.open(Some(&right())).unwrap();
        assert!(begun.elapsed() < THROUGH, "{:?}", begun.elapsed());
        connection.begin(flows(&[1])).unwrap().finish(Nanos::from_millis(5)).unwrap();
        // its place is free a moment later
        thread::sleep(Duration::from_millis(300));
    }
    over.store(true, Ordering::Release);
    let opened = stranger.join().unwrap();
    assert!(opened >= 170, "{opened}");
    let served = server.end();
    assert_eq!(served.finished, 5);
    assert!(served.turned_away > 100, "{served:?}");
}

#[test]
fn a_sender_that_shares_the_address_of_a_flood_tries_again() {
    let server = Server::start(Some(right()), Fake::default());
    let over = Arc::new(AtomicBool::new(false));
    let stranger = flood(Ipv4Addr::LOCALHOST, server.address, Arc::clone(&over));
    thread::sleep(Duration::from_millis(300));
    let caller = Caller {
        timeouts: Timeouts { waiting: Duration::from_secs(20), ..PATIENT },
        ..Caller::default()
    };
    let outcome = Connection::open_as(caller, server.address, Some(&right()));
    over.store(true, Ordering::Release);
    stranger.join().unwrap();
    outcome.unwrap().begin(flows(&[1])).unwrap().finish(Nanos::from_millis(5)).unwrap();
}

#[test]
fn a_receiver_that_gives_connections_up_is_called_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = thread::spawn(move || {
        let mut connections = 0;
        let until = Instant::now() + Duration::from_millis(900);
        listener.set_nonblocking(true).unwrap();
        while Instant::now() < until {
            if let Ok((mut stream, _)) = listener.accept() {
                stream.write_all(b"wirebeat\x01").unwrap();
                connections += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        connections
    });
    let waiting = Duration::from_millis(500);
    let caller = Caller { timeouts: Timeouts { waiting, ..PATIENT }, ..Caller::default() };
    let error = Connection::open_as(caller, address, None).err().unwrap();
    assert!(matches!(error, RemoteError::Crowded { .. }), "{error}");
    assert!(error.to_string().contains("is busy"), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(receiver.join().unwrap() > 2, "it did not try again");
}
