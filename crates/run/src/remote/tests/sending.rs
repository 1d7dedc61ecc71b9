//! A listener that may send: what is asked of it, in which order, and what it tells.

use wirebeat_meter::summary::Distribution;
use wirebeat_traffic::scenario::Scenario;

use super::super::asked::REQUEST_LIMIT;
use super::super::sent::{SentAmount, SentInterval};
use super::*;

/// Says what it is asked, and sends nothing.
pub(super) struct FakeSender {
    grant: Grant,
    log: Arc<Mutex<Vec<&'static str>>>,
    asked: Vec<u16>,
    looks: usize,
    /// Lies to tell.
    tamper: Option<fn(&mut Sent)>,
}

impl FakeSender {
    fn new(log: &Arc<Mutex<Vec<&'static str>>>) -> FakeSender {
        let grant = "10.0.0.0/24,rate=10Mbps,time=10s".parse().unwrap();
        FakeSender { grant, log: Arc::clone(log), asked: Vec::new(), looks: 0, tamper: None }
    }

    fn note(&self, event: &'static str) {
        self.log.lock().unwrap().push(event);
    }
}

fn amount(frames: u64) -> SentAmount {
    SentAmount { frames, bytes: frames * 64, payload: frames * 18 }
}

impl SendingSide for FakeSender {
    fn grant(&self) -> Grant {
        self.grant.clone()
    }

    fn prepare(&mut self, asked: AskedSending) -> Result<Vec<Station>, String> {
        self.note("prepare");
        asked.check(&self.grant).map_err(|why| why.to_string())?;
        self.asked = asked.flows.iter().map(|flow| flow.id).collect();
        Ok(vec![Station { engine: "fake".to_owned(), ..Station::default() }])
    }

    fn start(&mut self, _at: Nanos) -> Result<(), String> {
        self.note("start");
        Ok(())
    }

    fn heard(&mut self) {}

    fn sent(&mut self, stop: bool) -> Result<SentLook, String> {
        self.looks += 1;
        let part = |frames| SentInterval {
            first: frames,
            intervals: 1,
            flows: self.asked.iter().map(|id| (*id, (frames, frames * 64))).collect(),
            expired: 0,
        };
        let told = |frames| SentIntervals { complete: frames, parts: vec![part(frames)] };
        if self.looks < 3 && !stop {
            return Ok(SentLook::Sending(told(self.looks as u64)));
        }
        let flow = |id: &u16| SentFlowCounts {
            id: *id,
            requested: amount(10),
            sent: amount(10),
            span_ns: Some((0, 9000)),
            ..SentFlowCounts::default()
        };
        let mut sent = Sent {
            flows: self.asked.iter().map(flow).collect(),
            summary: SentSummary { intervals: told(7), ..SentSummary::default() },
        };
        if let Some(tamper) = self.tamper {
            tamper(&mut sent);
        }
        Ok(SentLook::Ended(sent))
    }

    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn end(&mut self) -> Option<Sent> {
        self.note("end");
        None
    }
}

fn server(tamper: Option<fn(&mut Sent)>) -> Server {
    let log = Arc::default();
    let sender = FakeSender { tamper, ..FakeSender::new(&log) };
    Server::start(Some(right()), Fake { sender: Some(sender), log, ..Fake::default() })
}

fn asked(ids: &[u16]) -> AskedSending {
    let text = "ports: { here: {} }\nflows: { x: { from: here, packet: [ { ipv4: { destination: 10.0.0.7 } }, { udp: {} } ], rate: \
                1kpps, stop: 1s } }\n";
    let spec = Scenario::from_yaml(text, "test").unwrap().flows["x"].clone();
    let flow =
        |id: &u16| AskedFlow { id: *id, name: format!("x{id}"), flow: Box::new(spec.clone()) };
    let flows = ids.iter().map(flow).collect();
    AskedSending { run: 0, seed: 1, drift_ns: None, interval_ns: 1_000_000_000, flows }
}

/// A measurement with what is sent until it has ended.
fn sent(server: &Server, ids: &[u16]) -> (Measurement, Result<Sent, String>) {
    let mut measurement = server.open(Some(&right())).unwrap().begin(flows(&[])).unwrap();
    measurement.prepare_sending(asked(ids)).unwrap();
    measurement.start_sending(Nanos::ZERO).unwrap();
    let deadline = soon();
    while measurement.is_sending() {
        assert!(Instant::now() < deadline);
        measurement.look_at_sending(false);
    }
    let sent = measurement.take_sent().unwrap();
    (measurement, sent)
}

#[test]
fn a_listener_tells_what_it_may_send_and_what_it_sent() {
    let server = server(None);
    let connection = server.open(Some(&right())).unwrap();
    assert_eq!(connection.grant().unwrap().to_string().split(';').next(), Some("10.0.0.0/24"));
    drop(connection);
    let (measurement, sent) = sent(&server, &[4, 2]);
    let sent = sent.unwrap();
    assert_eq!(sent.flows.iter().map(|flow| flow.id).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(sent.flows[0].sent.frames, 10);
    measurement.finish(Nanos::from_millis(5)).unwrap();
    let log = server.log.lock().unwrap().clone();
    let mine: Vec<_> = log.iter().filter(|event| **event != "end").collect();
    assert_eq!(mine, [&"begin", &"prepare", &"start", &"finish"]);
}

#[test]
fn intervals_of_what_is_sent_are_told_once() {
    let server = server(None);
    let mut measurement = server.open(Some(&right())).unwrap().begin(flows(&[])).unwrap();
    measurement.prepare_sending(asked(&[3])).unwrap();
    measurement.start_sending(Nanos::ZERO).unwrap();
    let mut frames = 0;
    let deadline = soon();
    loop {
        measurement.look_at_sending(false);
        let (series, complete) = measurement.take_sent_intervals().unwrap();
        frames += series.into_iter().map(|(_, books)| books.tags[&3].frames).sum::<u64>();
        if complete == u64::MAX {
            break;
        }
        assert!(Instant::now() < deadline);
    }
    assert_eq!(frames, 1 + 2 + 7);
}

#[test]
fn a_listener_is_passive_unless_its_owner_says_otherwise() {
    let server = Server::start(Some(right()), Fake::default());
    assert_eq!(server.open(Some(&right())).unwrap().grant(), None);
    let mut measurement = server.open(Some(&right())).unwrap().begin(flows(&[])).unwrap();
    let error = measurement.prepare_sending(asked(&[1])).unwrap_err();
    assert!(error.to_string().contains("--allow-send"), "{error}");
}

#[test]
fn whoever_may_have_it_send_knows_a_key() {
    let listen = |key| Listen {
        address: ([127, 0, 0, 1], 0).into(),
        key,
        once: false,
        allow_send: Some("10.0.0.1".parse().unwrap()),
        allow_serve: None,
    };
    let error = Listener::bind(&listen(None)).unwrap_err();
    assert!(matches!(error, RemoteError::KeyToAct { .. }), "{error}");
    assert!(Listener::bind(&listen(Some(right()))).is_ok());
}

#[test]
fn nothing_is_believed_that_cannot_be_true() {
    let lies: [fn(&mut Sent); 11] = [
        |sent| sent.flows[0].id = 9,
        |sent| sent.flows.truncate(1),
        |sent| sent.flows.push(sent.flows[0].clone()),
        |sent| sent.flows[0].sent.frames = u64::MAX,
        |sent| {
            sent.flows[1].departures.gap =
                Distribution { buckets: vec![(9, 1), (3, 1)], ..Distribution::default() }
        },
        |sent| _ = sent.summary.intervals.parts[0].flows.insert(9, (1, 64)),
        // intervals far ahead, or as wide as that
        |sent| sent.summary.intervals.parts[0].first = 1 << 40,
        |sent| sent.summary.intervals.parts[0].intervals = 1 << 40,
        // more in intervals than in all
        |sent| _ = sent.summary.intervals.parts[0].flows.insert(2, (8, 7 * 64)),
        |sent| _ = sent.summary.intervals.parts[0].flows.insert(2, (7, 8 * 64)),
        |sent| sent.summary.intervals.parts[0].expired = 1,
    ];
    for lie in lies {
        let server = server(Some(lie));
        let (_, sent) = sent(&server, &[1, 2]);
        let why = sent.unwrap_err();
        assert!(why.contains("invalid result"), "{why}");
    }
}

/// Requests that come where they have no place are refused, and end the session.
#[test]
fn requests_have_their_order() {
    let server = server(None);
    let channel = || {
        let stream = TcpStream::connect(server.address).unwrap();
        let key = key_for(server.address, Some(&right())).unwrap();
        let mut channel =
            Channel::initiate(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
        match ask(&mut channel, &Request::Hello(Version::ours())) {
            Ok(Reply::Welcome(_)) => Some(channel),
            Ok(Reply::Busy) => None,
            other => panic!("{other:?}"),
        }
    };
    let channel = || {
        let deadline = soon();
        loop {
            if let Some(channel) = channel() {
                return channel;
            }
            assert!(Instant::now() < deadline);
        }
    };
    let expected = |run| Expected {
        run,
        flows: Vec::new(),
        delay_base: 0,
        relation: Relation::Same,
        sent_from_ns: 0,
    };
    let send = |run| Request::Send(Box::new(AskedSending { run, ..asked(&[1]) }));
    let (start, look) =
        (|run| Request::Start { run, at_ns: 0 }, |run| Request::Sent { run, stop: false });
    let begin = || Request::Begin(expected(3));
    for (before, refused) in [
        (vec![], send(1)),
        (vec![], start(1)),
        (vec![], look(1)),
        (vec![begin()], send(2)),
        (vec![begin()], start(2)),
        (vec![begin()], look(4)),
        (vec![begin(), send(3)], send(3)),
        (vec![begin(), Request::Finish { run: 3, settle_ns: 0 }], start(3)),
    ] {
        let mut channel = channel();
        for request in &before {
            let reply = ask(&mut channel, request).unwrap();
            assert!(!matches!(reply, Reply::Refused { .. }), "{reply:?}");
        }
        while let Ok(more) = channel.poll(REPLY_LIMIT, Duration::from_millis(50)) {
            if more.is_none() {
                break;
            }
        }
        let reply = ask(&mut channel, &refused).unwrap();
        assert!(matches!(reply, Reply::Refused { .. }), "{before:?}, {refused:?}: {reply:?}");
    }
}

/// There is room for a long request once it may come, for one, and for none before.
#[test]
fn a_long_request_has_room_only_where_it_may_come() {
    let server = server(None);
    let long = || {
        let mut asked = asked(&[1]);
        asked.flows[0].name = "x".repeat(100_000);
        asked
    };
    assert!(serde_json::to_vec(&long()).unwrap().len() < REQUEST_LIMIT);
    let mut measurement = server.open(Some(&right())).unwrap().begin(flows(&[])).unwrap();
    // its name is cut, so that it is taken
    measurement.prepare_sending(long()).unwrap();
    let error = measurement.prepare_sending(long()).unwrap_err();
    assert!(matches!(error, RemoteError::Gone { .. }), "{error}");
    let mut longer = long();
    longer.flows[0].name = "x".repeat(REQUEST_LIMIT);
    let deadline = soon();
    let mut measurement = loop {
        match server.open(Some(&right())) {
            Ok(connection) => break connection.begin(flows(&[])).unwrap(),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert!(measurement.prepare_sending(longer).is_err());
}

#[test]
fn what_is_sent_ends_when_its_peer_leaves() {
    let server = server(None);
    let mut measurement = server.open(Some(&right())).unwrap().begin(flows(&[])).unwrap();
    measurement.prepare_sending(asked(&[1])).unwrap();
    measurement.start_sending(Nanos::ZERO).unwrap();
    server.log.lock().unwrap().clear();
    drop(measurement);
    server.await_event("end");
}
