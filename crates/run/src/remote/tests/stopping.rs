//! The user asks to stop while the other end is slow, or trickles bytes.

use super::*;

/// Longer than anything here waits for a stop, and far less than what a peer could make it wait.
const AT_ONCE: Duration = Duration::from_millis(1500);

/// A receiver that answers as it should until `honest` requests are answered, and then sends its answer byte by byte,
/// or not at all.
fn trickler(honest: usize, trickle: bool) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let mut raw = stream.try_clone().unwrap();
        let key = key_for(address, None).unwrap();
        let mut channel = Channel::accept(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
        for count in 0.. {
            let Ok(request) = channel.receive(REPLY_LIMIT, soon()) else { return };
            if count >= honest {
                break;
            }
            let now = MonotonicClock.now().get();
            let reply = match Request::decode(&request.bytes).unwrap() {
                Request::Hello(version) => {
                    channel.send(&belief::welcome(version), soon()).unwrap();
                    continue;
                }
                Request::Clock => Reply::Clock { received_ns: now, sent_ns: now },
                Request::Begin(_) => Reply::Begun { run: 1, stations: Vec::new() },
                _ => Reply::Received(Count::default()),
            };
            channel.send(&reply.encode().unwrap(), soon()).unwrap();
        }
        // the length of a long frame, and then a byte now and then
        let frame = [&[0xff, 0xf0][..], &[0; 1000]].concat();
        for byte in frame {
            if trickle && raw.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    (address, thread)
}

/// Requests until a measurement has begun: hello, the clock, begin.
const BEGUN: usize = 1 + 64 + 1;

fn patient() -> Caller {
    Caller {
        timeouts: Timeouts { answer: Duration::from_secs(60), ..PATIENT },
        ..Caller::default()
    }
}

/// Asks to stop a little later; how long `work` went on after that.
fn after_stop<T>(stop: &Stop, work: impl FnOnce() -> T) -> (Duration, T) {
    let asking = stop.clone();
    let asked = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        asking.ask(2);
    });
    let ended = work();
    asked.join().unwrap();
    (stop.since().unwrap_or_default(), ended)
}

#[test]
fn a_receiver_that_trickles_does_not_hold_up_a_stop_before_the_run() {
    for (honest, trickle) in [(1, true), (1, false), (30, true), (BEGUN - 1, true)] {
        let (address, receiver) = trickler(honest, trickle);
        let stop = Stop::new();
        let mut connection = Connection::open_as(patient(), address, None).unwrap();
        connection.heed(&stop);
        let (took, begun) = after_stop(&stop, || connection.begin(flows(&[1])));
        assert!(matches!(begun.err().unwrap(), RemoteError::Stopped { .. }));
        assert!(took < AT_ONCE, "{took:?}");
        drop(receiver);
    }
}

#[test]
fn looking_at_a_receiver_that_trickles_takes_no_time() {
    let (address, receiver) = trickler(BEGUN, true);
    let connection = Connection::open_as(patient(), address, None).unwrap();
    let mut measurement = connection.begin(flows(&[1])).unwrap();
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(measurement.received().unwrap(), Count::default());
        // a stop is looked at between two looks, and sending ends by it within a tenth of a second
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    drop((measurement, receiver));
}

#[test]
fn a_whole_answer_may_not_take_longer_than_an_answer() {
    let (address, receiver) = trickler(BEGUN, true);
    let caller = Caller { timeouts: HASTY, ..Caller::default() };
    let connection = Connection::open_as(caller, address, None).unwrap();
    let mut measurement = connection.begin(flows(&[1])).unwrap();
    let begun = Instant::now();
    let error = loop {
        match measurement.received() {
            Ok(_) => assert!(begun.elapsed() < PATIENT.answer),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("did not answer in time"), "{error}");
    drop((measurement, receiver));
}

#[test]
fn a_receiver_that_trickles_does_not_hold_up_the_end_after_a_stop() {
    let (address, receiver) = trickler(BEGUN, true);
    let connection = Connection::open_as(patient(), address, None).unwrap();
    let mut measurement = connection.begin(flows(&[1])).unwrap();
    let stop = Stop::new();
    measurement.heed_for(&stop, Duration::from_millis(300));
    let (took, outcome) = after_stop(&stop, || measurement.finish(Nanos::ZERO));
    let error = outcome.unwrap_err();
    assert!(matches!(error, RemoteError::Gone { .. }), "{error}");
    assert!(error.to_string().contains("after the stop"), "{error}");
    assert!(took < AT_ONCE, "{took:?}");
    drop(receiver);
}

#[test]
fn comparing_clocks_is_bounded_as_a_whole() {
    // each answer in time, and all of them not
    let (address, receiver) = belief::impostor(|count, request| {
        if count == 0 {
            return Some(belief::welcome(Version::ours()));
        }
        thread::sleep(Duration::from_millis(200));
        let now = MonotonicClock.now().get();
        matches!(request, Request::Clock)
            .then(|| Reply::Clock { received_ns: now, sent_ns: now }.encode().unwrap())
    });
    let caller = Caller { timeouts: HASTY, ..Caller::default() };
    let begun = Instant::now();
    let connection = Connection::open_as(caller, address, None).unwrap();
    let error = connection.begin(flows(&[1])).err().unwrap();
    assert!(matches!(error, RemoteError::Gone { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_millis(200 * 8), "{:?}", begun.elapsed());
    receiver.join().unwrap();
}

#[test]
fn a_sender_that_trickles_does_not_hold_up_a_stop_of_the_receiver() {
    let server = Server::start(None, Fake::default());
    let stream = TcpStream::connect(server.address).unwrap();
    let mut raw = stream.try_clone().unwrap();
    let key = key_for(server.address, None).unwrap();
    let mut channel = Channel::initiate(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
    let hello = Request::Hello(Version::ours());
    assert!(matches!(ask(&mut channel, &hello), Ok(Reply::Welcome(_))));
    raw.write_all(&[0, 200, 1, 2, 3]).unwrap();
    thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    server.end();
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}
