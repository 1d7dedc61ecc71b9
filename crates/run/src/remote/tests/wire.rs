//! Messages of any length, and of any bytes.

use wirebeat_meter::bins::MAX_BINS;
use wirebeat_meter::histogram::BUCKETS;
use wirebeat_meter::summary::{Distribution, LinearBins};

use super::*;

#[test]
fn a_message_that_is_too_long_ends_the_session() {
    let server = Server::start(None, Fake::default());
    let mut channel = server.shake();
    // Before the greeting there is no room for more than a greeting.
    channel.send(&vec![b' '; GREETING_LIMIT + 1], soon()).unwrap();
    assert!(channel.receive(REPLY_LIMIT, soon()).is_err());
    let mut channel = server.shake();
    ask(&mut channel, &Request::Hello(Version::ours())).unwrap();
    let _ = channel.send(&vec![b' '; 200_000], soon());
    assert!(channel.receive(REPLY_LIMIT, soon()).is_err());
    a_sender_is_still_served(&server);
}

#[test]
fn long_messages_travel_in_chunks() {
    let mut random: u32 = 1;
    let mut byte = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let key = key_for(address, None).unwrap();
        let mut channel = Channel::accept(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
        while let Ok(message) = channel.receive(REPLY_LIMIT, soon()) {
            channel.send(&message.bytes, soon()).unwrap();
        }
    });
    let stream = TcpStream::connect(address).unwrap();
    let key = key_for(address, None).unwrap();
    let mut channel = Channel::initiate(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
    // Around one and two full chunks of 65,518 bytes.
    for length in [0, 1, 65_517, 65_518, 65_519, 131_036, 131_037, 1_000_000] {
        let message: Vec<u8> = (0..length).map(|_| byte()).collect();
        channel.send(&message, soon()).unwrap();
        let back = channel.receive(REPLY_LIMIT, soon()).unwrap();
        assert!(back.bytes == message, "{length} bytes came back changed");
    }
    drop(channel);
    echo.join().unwrap();
}

#[test]
fn the_largest_result_of_a_flow_fits_a_message() {
    let full = Distribution {
        buckets: (0..BUCKETS as u16).map(|bucket| (bucket, u64::MAX)).collect(),
        ..Distribution::default()
    };
    let mut summary = FlowSummary {
        delay: full.clone(),
        delay_variation: full.clone(),
        inter_arrival: full.clone(),
        gap_error: full.clone(),
        gap_early: Some(full.clone()),
        inter_arrival_bins: Some(LinearBins {
            width: u64::MAX,
            counts: vec![u64::MAX; MAX_BINS],
            overflow: u64::MAX,
        }),
        ..FlowSummary::default()
    };
    summary.sequence.extent = full;
    let reply = Reply::Flow { id: 1, summary: Box::new(summary) };
    let length = reply.encode().unwrap().len();
    assert!(length < REPLY_LIMIT / 2, "{length}");
}

#[test]
fn the_largest_request_fits_the_limit() {
    let limits = Limits { flows: 1000 };
    let flow = |id| ExpectedFlow {
        id,
        name: "\u{10ffff}\"\\".repeat(100),
        nominal_gap_ns: Some(u64::MAX),
    };
    let mut expected = Expected {
        flows: (64_000..65_000).map(flow).collect(),
        delay_base: i64::MIN,
        relation: Relation::Unbounded,
        run: u64::MAX,
        sent_from_ns: u64::MAX,
    };
    expected.tame();
    let length = Request::Begin(expected).encode().unwrap().len();
    assert!(length < limits.request(), "{length}");
}

/// Messages as they are sent, to be damaged.
fn samples() -> Vec<Vec<u8>> {
    let expected = Expected {
        flows: flows(&[0, 1]),
        delay_base: 0,
        relation: Relation::Same,
        run: 1,
        sent_from_ns: 1,
    };
    let fake = Fake::default();
    let requests = [
        Request::Hello(Version::ours()),
        Request::Clock,
        Request::Begin(expected),
        Request::Received,
        Request::Finish { run: 1, settle_ns: 1 },
    ];
    let replies = [
        Reply::Flow { id: 0, summary: Box::new(fake.flow(0)) },
        Reply::Flow { id: 1, summary: Box::new(fake.flow(0)) },
        Reply::Finished(Box::default()),
        Reply::Begun { run: 1, stations: fake.stations() },
    ];
    let requests = requests.iter().map(|request| request.encode().unwrap());
    requests.chain(replies.iter().map(|reply| reply.encode().unwrap())).collect()
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        feed(&bytes);
        feed(&[b"wirebeat\x01\x00\x30", &bytes[..]].concat());
    }

    #[test]
    fn damaged_messages_are_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = samples().join(&b'\n');
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        feed(&bytes);
        feed(&bytes[..cut.index(bytes.len())]);
    }
}
