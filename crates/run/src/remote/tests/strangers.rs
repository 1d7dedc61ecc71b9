//! Peers that do not know the key, or do not speak the protocol.

use super::*;

#[test]
fn another_key_is_refused_and_said() {
    let server = Server::start(Some(right()), Fake::default());
    for wrong in [None, Some(text("quite another long key"))] {
        let error = server.open(wrong.as_ref()).err().unwrap();
        assert!(matches!(error, RemoteError::WrongKey { .. }), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    assert!(server.open(Some(&right())).is_ok());
    assert_eq!(server.end().turned_away, 2);
}

/// It was told that it had another key.
#[test]
fn junk_from_one_who_has_the_key_is_not_called_another_key() {
    let server = Server::start(None, Fake::default());
    let mut channel = server.shake();
    channel.send(b"junk", soon()).unwrap();
    assert!(channel.receive(REPLY_LIMIT, soon()).is_err());
    let told = |text: &str| server.notes.lines.lock().unwrap().iter().any(|line| line == text);
    let expected =
        "turned away 1 connection that showed the key, and said something else than a sender does";
    let until = Instant::now() + Duration::from_secs(20);
    while !told(expected) {
        assert!(Instant::now() < until, "{:?}", server.notes.lines);
        thread::sleep(Duration::from_millis(20));
    }
    let lines = server.notes.lines.lock().unwrap().clone();
    assert!(!lines.iter().any(|line| line.contains("the right key")), "{lines:?}");
    assert_eq!(server.end().turned_away, 1);
}

#[test]
fn an_address_that_others_reach_needs_a_key() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:5960", "[::ffff:192.0.2.1]:5960"] {
        let address = address.parse().unwrap();
        let listen =
            Listen { address, key: None, once: false, allow_send: None, allow_serve: None };
        let error = Listener::bind(&listen).unwrap_err();
        assert!(matches!(error, RemoteError::KeyNeeded { .. }), "{error}");
        assert_eq!(error.exit_code(), 2);
        let error = call(address, None).err().unwrap();
        assert!(matches!(error, RemoteError::KeyNeeded { .. }), "{error}");
    }
    for address in ["127.0.0.1:0", "127.1.2.3:0", "[::ffff:127.0.0.1]:0"] {
        let address = address.parse().unwrap();
        assert!(key_for(address, None).is_ok(), "{address}");
    }
}

#[test]
fn nobody_there_and_nobody_who_understands_are_told_apart() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let other = thread::spawn(move || {
        let mut stream = silent.accept().unwrap().0;
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let error = call(address, None).err().unwrap();
    assert!(matches!(error, RemoteError::NotAReceiver { .. }), "{error}");
    other.join().unwrap();
    let error = call(address, None).err().unwrap();
    assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn strangers_gain_nothing_and_disturb_nobody() {
    let server = Server::start(None, Fake::default());
    let connect = || TcpStream::connect(server.address).unwrap();
    // Garbage instead of a preface, and after it; a message that is too long; and no message at all.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"wirebeat\x01\xff\xff", b"wirebeat\x02", b"wire"]
    {
        let mut stream = connect();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // It ends, at once and with nothing but the preface; a reset is an end, too.
        let _ = stream.read_to_end(&mut answer);
        assert!(b"wirebeat\x01".starts_with(&answer), "{answer:?}");
    }
    a_sender_is_still_served(&server);
    let served = server.end();
    assert_eq!((served.turned_away, served.finished), (4, 1));
}

#[test]
fn slow_strangers_run_out_of_time() {
    let server = Server::start_with(HASTY, None, Fake::default());
    let mut stream = TcpStream::connect(server.address).unwrap();
    let begun = Instant::now();
    let mut slow = stream.try_clone().unwrap();
    let trickle = thread::spawn(move || {
        // A byte now and then is no reason to wait for the next.
        for byte in b"wirebeat\x01\x00\x30 and so on, for ever" {
            if slow.write_all(&[*byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(40));
        }
    });
    let _ = stream.read_to_end(&mut Vec::new());
    let took = begun.elapsed();
    assert!(took >= HASTY.handshake / 2 && took < HASTY.handshake * 3, "{took:?}");
    trickle.join().unwrap();
    a_sender_is_still_served(&server);
}

#[test]
fn idle_strangers_lock_nobody_out() {
    let server = Server::start(None, Fake::default());
    let idle: Vec<_> = (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let begun = Instant::now();
    a_sender_is_still_served(&server);
    assert!(begun.elapsed() < PATIENT.handshake);
    drop(idle);
}

#[test]
fn a_repeated_handshake_takes_nobodys_place() {
    let server = Server::start(None, Fake::default());
    // Overhear an honest sender's handshake, then send the same bytes again.
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tap.local_addr().unwrap();
    let eavesdropper = thread::spawn(move || {
        let mut stream = tap.accept().unwrap().0;
        stream.write_all(b"wirebeat\x01").unwrap();
        let mut overheard = vec![0; 9 + 2 + 48];
        stream.read_exact(&mut overheard).unwrap();
        overheard
    });
    assert!(call(address, None).is_err());
    let overheard = eavesdropper.join().unwrap();
    let mut again = TcpStream::connect(server.address).unwrap();
    again.write_all(&overheard).unwrap();
    let mut answer = vec![0; 9 + 2 + 48];
    again.read_exact(&mut answer).unwrap();
    // The handshake looks good to the server, and yet the place is free.
    server.open(None).unwrap().begin(flows(&[1])).unwrap().finish(Nanos::ZERO).unwrap();
}

#[test]
fn another_version_is_named() {
    let server = Server::start(None, Fake::default());
    let mut channel = server.shake();
    let newer = Version { protocol: PROTOCOL + 1, wirebeat: "9.0".to_owned() };
    let reply = ask(&mut channel, &Request::Hello(newer)).unwrap();
    assert_eq!(reply, Reply::Incompatible(Version::ours()));
    a_sender_is_still_served(&server);
}
