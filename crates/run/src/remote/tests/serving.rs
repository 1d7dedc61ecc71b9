//! Who is served, and how a session ends.

use super::*;

#[test]
fn a_sender_has_its_result() {
    let server = Server::start(Some(right()), Fake::default());
    let mut connection = server.open(Some(&right())).unwrap();
    assert_eq!(connection.receiver().stations[0].engine, "fake");
    assert_eq!(connection.receiver().limits.flows, 4);
    connection.keep().unwrap();
    let mut measurement = connection.begin(flows(&[1, 7])).unwrap();
    assert_eq!(measurement.stations()[0].engine, "fake");
    let deadline = soon();
    while measurement.received().unwrap() != (Count { frames: 10, bytes: 640, missing: 0 }) {
        assert!(Instant::now() < deadline);
    }
    thread::sleep(Duration::from_millis(120));
    let outcome = measurement.finish(Nanos::from_millis(5)).unwrap();
    assert_eq!(outcome.clocks.relation, Relation::Same);
    let summary = &outcome.measured.summary;
    assert_eq!(summary.flows.keys().collect::<Vec<_>>(), [&1, &7]);
    assert_eq!((summary.flows[&7].frames, summary.foreign), (10, 3));
    assert_eq!(outcome.measured.delivered, Some(13));
    assert_eq!((summary.flows[&1].delay_base, summary.flows[&1].delay.moments.min), (0, DELAY));
    assert!(server.notes.looks.load(Ordering::Relaxed) > 0);
    let log = Arc::clone(&server.log);
    assert_eq!(server.end(), Served { finished: 1, ..Served::default() });
    assert_eq!(*log.lock().unwrap(), ["begin", "finish"]);
}

/// Authenticated once, a sender has run after run measured.
#[test]
fn a_connection_serves_many_runs() {
    const RUNS: usize = 50;
    let server = Server::start(Some(right()), Fake::default());
    let mut connection = server.open(Some(&right())).unwrap();
    for run in 0..RUNS {
        let id = (run % 7) as u16;
        let mut measurement = connection.begin(flows(&[id, 7])).unwrap();
        if run % 3 == 0 {
            measurement.received().unwrap();
        }
        let (outcome, next) = measurement.finish_run(Nanos::from_millis(5)).unwrap();
        assert_eq!(outcome.measured.run, run as u64 + 1);
        assert_eq!(outcome.measured.summary.flows.keys().collect::<Vec<_>>(), [&id, &7]);
        connection = next.unwrap();
        if run == RUNS / 2 {
            let error = server.open(Some(&right())).err().unwrap();
            assert!(matches!(error, RemoteError::Busy { .. }), "{error}");
        }
    }
    drop(connection);
    let log = Arc::clone(&server.log);
    assert_eq!(server.end(), Served { finished: RUNS as u64, ..Served::default() });
    assert_eq!(*log.lock().unwrap(), ["begin", "finish"].repeat(RUNS));
}

/// Clocks drift: what bounds the clocks of a run are the comparisons before and after that run.
#[test]
fn the_clocks_of_each_run_are_compared_anew() {
    let server = Server::start(None, Fake { ahead: 86_400_000_000_000, ..Fake::default() });
    let mut connection = server.open(None).unwrap();
    for _ in 0..3 {
        let measurement = connection.begin(flows(&[1])).unwrap();
        let (outcome, next) = measurement.finish_run(Nanos::from_millis(5)).unwrap();
        let clocks = &outcome.clocks;
        assert!(clocks.explanation.contains("128 exchanges"), "{clocks:?}");
        connection = next.unwrap();
    }
}

/// A receiver gives up a sender that is silent, and one whose lab rests is not.
#[test]
fn a_connection_rests_for_longer_than_a_sender_may_be_silent() {
    let timeouts = Timeouts { silence: Duration::from_secs(1), ..PATIENT };
    let server = Server::start_with(timeouts, None, Fake::default());
    let mut connection = server.open(None).unwrap();
    for _ in 0..2 {
        let measurement = connection.begin(flows(&[1])).unwrap();
        let (_, next) = measurement.finish_run(Nanos::from_millis(5)).unwrap();
        let resting = RestingConnection::every(timeouts.silence / 20, next.unwrap()).unwrap();
        thread::sleep(timeouts.silence * 2);
        connection = resting.wake().unwrap();
    }
    drop(connection);
    assert_eq!(server.end(), Served { finished: 2, ..Served::default() });
}

/// The next run connects anew, and does not fail.
#[test]
fn a_receiver_that_ended_while_a_connection_rested_is_noticed() {
    let server = Server::start(None, Fake::default());
    let measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
    let (_, connection) = measurement.finish_run(Nanos::from_millis(5)).unwrap();
    let resting = RestingConnection::new(connection.unwrap()).unwrap();
    server.end();
    assert!(resting.wake().is_none());
}

/// What is said of another run ends the session, so that nothing is counted for the wrong one.
#[test]
fn runs_are_told_apart() {
    let begin = |run| {
        Request::Begin(Expected {
            run,
            flows: flows(&[1]),
            delay_base: 0,
            relation: Relation::Same,
            sent_from_ns: 0,
        })
    };
    let finish = |run| Request::Finish { run, settle_ns: 0 };
    let wrong = [
        (vec![begin(1), finish(2)], "this is about run 2, and run 1 is measured"),
        (vec![begin(3), begin(4)], "a measurement has begun, and not ended"),
        (vec![begin(0)], "run 0 was before"),
    ];
    let server = Server::start(None, Fake::default());
    for (requests, why) in wrong {
        let mut channel = server.shake();
        while ask(&mut channel, &Request::Hello(Version::ours())).unwrap() == Reply::Busy {
            channel = server.shake();
        }
        let last = requests.iter().map(|request| ask(&mut channel, request).unwrap()).last();
        let Some(Reply::Refused { reason }) = last else { panic!("{last:?}") };
        assert!(reason.contains(why), "{reason}");
        assert!(ask(&mut channel, &Request::Clock).is_err());
    }
    // a run with the number of the one before
    let mut channel = server.shake();
    while ask(&mut channel, &Request::Hello(Version::ours())).unwrap() == Reply::Busy {
        channel = server.shake();
    }
    assert!(matches!(ask(&mut channel, &begin(5)), Ok(Reply::Begun { run: 5, .. })));
    assert!(matches!(ask(&mut channel, &finish(5)), Ok(Reply::Flow { .. })));
    let Reply::Finished(measured) =
        Reply::decode(&channel.receive(REPLY_LIMIT, soon()).unwrap().bytes).unwrap()
    else {
        panic!("there is one flow")
    };
    assert_eq!(measured.run, 5);
    assert!(matches!(ask(&mut channel, &begin(5)), Ok(Reply::Refused { .. })));
}

#[test]
fn delays_across_hosts_are_those_on_one_clock() {
    let ahead = 86_400_000_000_000;
    let server = Server::start(None, Fake { ahead, ..Fake::default() });
    let measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
    let outcome = measurement.finish(Nanos::from_millis(5)).unwrap();
    let (clocks, flow) = (&outcome.clocks, &outcome.measured.summary.flows[&1]);
    assert_eq!(clocks.relation, Relation::Bounded);
    assert!(clocks.uncertainty > Nanos::ZERO && clocks.uncertainty < Nanos::from_millis(50));
    assert!(clocks.ahead_ns.abs_diff(ahead) <= clocks.uncertainty.get(), "{clocks:?}");
    assert!(clocks.explanation.contains("128 exchanges"), "{clocks:?}");
    // As recorded it is not negative, and corrected it is the truth within the bound.
    assert!(flow.delay.moments.min >= 0 && flow.delay.negative == 0);
    let delay = flow.delay.moments.min + flow.delay_base;
    assert!(delay.abs_diff(DELAY) <= clocks.uncertainty.get(), "{delay} {clocks:?}");
}

#[test]
fn a_second_sender_is_told_that_the_receiver_is_busy() {
    let server = Server::start(None, Fake::default());
    let first = server.open(None).unwrap();
    let begun = Instant::now();
    let error = server.open(None).err().unwrap();
    assert!(matches!(error, RemoteError::Busy { .. }), "{error}");
    assert!(begun.elapsed() < PATIENT.handshake);
    // The first has lost nothing by that.
    first.begin(flows(&[1])).unwrap().finish(Nanos::from_millis(5)).unwrap();
    a_sender_is_still_served(&server);
}

#[test]
fn a_sender_that_vanishes_frees_its_place() {
    let server = Server::start(None, Fake::default());
    drop(server.open(None).unwrap().begin(flows(&[1])).unwrap());
    server.await_event("abandon");
    a_sender_is_still_served(&server);
    assert_eq!(server.end(), Served { finished: 1, lost: 1, ..Served::default() });
}

#[test]
fn a_sender_that_falls_silent_is_given_up() {
    let server = Server::start_with(HASTY, None, Fake::default());
    let measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
    let begun = Instant::now();
    server.await_event("abandon");
    assert!(begun.elapsed() >= HASTY.silence / 2);
    let error = measurement.finish(Nanos::ZERO).unwrap_err();
    assert!(matches!(error, RemoteError::Gone { .. }), "{error}");
    let lines = server.notes.lines.lock().unwrap().join("\n");
    assert!(lines.contains("it did not answer in time"), "{lines}");
}

/// It threw its counts away: "stopped by SIGINT, counters consistent", and an empty table.
#[test]
fn a_receiver_that_is_stopped_tells_what_it_measured() {
    let server = Server::start(None, Fake::default());
    let mut measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
    let log = Arc::clone(&server.log);
    assert_eq!(server.end(), Served { interrupted: 1, ..Served::default() });
    // a sender goes on asking, if it looks in between
    for _ in 0..3 {
        measurement.received().unwrap();
    }
    let outcome = measurement.finish(Nanos::from_millis(5)).unwrap();
    assert!(outcome.ended_early);
    assert_eq!(outcome.measured.summary.flows[&1].frames, 10);
    assert_eq!(*log.lock().unwrap(), ["begin", "finish late"]);
}

#[test]
fn a_sender_that_never_looked_has_the_result_of_a_receiver_that_was_stopped() {
    let server = Server::start(None, Fake::default());
    let measurement = server.open(None).unwrap().begin(flows(&[1, 2])).unwrap();
    server.end();
    let outcome = measurement.finish(Nanos::from_millis(5)).unwrap();
    assert!(outcome.ended_early);
    assert_eq!(outcome.measured.summary.flows.len(), 2);
}

/// `receive --listen --time 2s` never ended.
#[test]
fn a_receiver_ends_after_its_time() {
    let begun = Instant::now();
    let time = Some(Nanos::from_millis(300));
    let mut server = Server::start_for(time, PATIENT, None, Fake::default());
    let measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
    let served = server.thread.take().unwrap().join().unwrap();
    assert_eq!(served, Served { interrupted: 1, ..Served::default() });
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(measurement.finish(Nanos::from_millis(5)).unwrap().ended_early);
}

#[test]
fn a_receiver_that_falls_silent_does_not_hold_up_the_sender() {
    let answers = |request: Request| match request {
        Request::Clock => {
            let now = MonotonicClock.now().get();
            Some(Reply::Clock { received_ns: now, sent_ns: now })
        }
        Request::Begin(_) => Some(Reply::Begun { run: 1, stations: Vec::new() }),
        _ => None,
    };
    let (address, receiver) = belief::impostor(move |count, request| match count {
        0 => Some(belief::welcome(Version::ours())),
        _ => answers(request).map(|reply| reply.encode().unwrap()),
    });
    let caller = Caller { timeouts: HASTY, ..Caller::default() };
    let connection = Connection::open_as(caller, address, None).unwrap();
    let mut measurement = connection.begin(flows(&[1])).unwrap();
    let begun = Instant::now();
    assert_eq!(measurement.received().unwrap(), Count::default());
    assert!(begun.elapsed() < HASTY.answer);
    let error = loop {
        match measurement.received() {
            Ok(_) => assert!(begun.elapsed() < PATIENT.answer),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("is gone: it did not answer in time"), "{error}");
    // What comes after that could answer something else, and the reason stays the same.
    let begun = Instant::now();
    assert_eq!(measurement.finish(Nanos::ZERO).unwrap_err().to_string(), error);
    assert!(begun.elapsed() < HASTY.answer);
    receiver.join().unwrap();
}

#[test]
fn a_listener_for_one_sender_ends_after_it() {
    let listen = Listen {
        address: ([127, 0, 0, 1], 0).into(),
        key: None,
        once: true,
        allow_send: None,
        allow_serve: None,
    };
    let listener = Listener::bind(&listen).unwrap();
    let service = Service {
        identity: Identity {
            limits: Limits { flows: 1 },
            clock: Arc::new(MonotonicClock),
            clock_identity: ClockIdentity::here(),
        },
        interval: Nanos::from_millis(50),
        time: None,
        timeouts: PATIENT,
    };
    let address = listener.address();
    let sender = thread::spawn(move || {
        // One that only looks is not served.
        drop(call(address, None).unwrap());
        loop {
            match call(address, None) {
                Err(RemoteError::Busy { .. }) => {}
                other => break other.unwrap(),
            }
        }
        .begin(flows(&[9]))
        .unwrap()
        .finish(Nanos::from_millis(5))
        .unwrap()
    });
    let mut fake = Fake::default();
    let served =
        serve(&listener, &mut fake, &service, &mut Notes::default(), &Stop::new()).unwrap();
    assert_eq!(served, Served { finished: 1, ..Served::default() });
    assert_eq!(sender.join().unwrap().measured.summary.flows.len(), 1);
}

#[test]
fn more_flows_than_the_receiver_measures_are_not_sent() {
    let server = Server::start(None, Fake::default());
    let error = server.open(None).unwrap().begin(flows(&[1, 2, 3, 4, 5])).err().unwrap();
    assert!(matches!(error, RemoteError::TooManyFlows { limit: 4, asked: 5, .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    // And if they were, the receiver would not take them.
    let expected = |ids| Expected {
        flows: flows(ids),
        delay_base: 0,
        relation: Relation::Same,
        run: 1,
        sent_from_ns: 0,
    };
    for (ids, why) in [(&[1, 2, 3, 4, 5][..], "at most 4 flows"), (&[3, 3], "announced twice")] {
        let mut channel = server.shake();
        while ask(&mut channel, &Request::Hello(Version::ours())).unwrap() == Reply::Busy {
            channel = server.shake();
        }
        let reply = ask(&mut channel, &Request::Begin(expected(ids))).unwrap();
        let Reply::Refused { reason } = reply else { panic!("{reply:?}") };
        assert!(reason.contains(why), "{reason}");
        // The session is over.
        assert!(ask(&mut channel, &Request::Received).is_err());
    }
    assert_eq!(*server.log.lock().unwrap(), [""; 0]);
}

#[test]
fn a_receiver_says_why_it_refuses() {
    let server = Server::start(None, Fake::default());
    let mut unwanted = flows(&[1]);
    unwanted[0].name = "unwanted".to_owned();
    let error = server.open(None).unwrap().begin(unwanted).err().unwrap();
    assert!(error.to_string().ends_with("refused: it does not want that flow"), "{error}");
    a_sender_is_still_served(&server);
}

#[test]
fn requests_out_of_order_end_the_session() {
    let server = Server::start(None, Fake::default());
    for request in
        [Request::Hello(Version::ours()), Request::Finish { run: 1, settle_ns: u64::MAX }]
    {
        let mut channel = server.shake();
        while ask(&mut channel, &Request::Hello(Version::ours())).unwrap() == Reply::Busy {
            channel = server.shake();
        }
        assert!(matches!(ask(&mut channel, &request), Ok(Reply::Refused { .. })));
        assert!(ask(&mut channel, &Request::Clock).is_err());
    }
}
