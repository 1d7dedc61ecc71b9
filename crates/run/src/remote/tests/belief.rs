//! What a sender does not believe.

use wirebeat_meter::interval::{Beat, FlowBooks, MeterBooks};
use wirebeat_meter::summary::{Distribution, LinearBins, Moments};

use wirebeat_traffic::scenario::Scenario;

use super::super::intervals::{ToldInterval, ToldIntervals};
use super::super::session::Collector;
use super::*;
use crate::error::RunError;
use crate::flows::prepare;
use crate::intervals::Timeline;
use crate::options::{Options, Peer};

/// A receiver that answers the requests, which it counts, with the bytes that `answer` gives.
pub fn impostor(
    answer: impl Fn(usize, Request) -> Option<Vec<u8>> + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let key = key_for(address, None).unwrap();
        let mut channel = Channel::accept(stream, &key, Arc::new(MonotonicClock), soon()).unwrap();
        for count in 0.. {
            let Ok(request) = channel.receive(REPLY_LIMIT, soon()) else { break };
            let reply = answer(count, Request::decode(&request.bytes).unwrap());
            if reply.is_some_and(|reply| channel.send(&reply, soon()).is_err()) {
                break;
            }
        }
    });
    (address, thread)
}

/// What a sender makes of such a receiver.
fn verdict(replies: Vec<Vec<u8>>) -> RemoteError {
    let (address, thread) = impostor(move |count, _| replies.get(count).cloned());
    let error = call(address, None)
        .and_then(|connection| connection.begin(flows(&[1])))
        .and_then(|mut measurement| measurement.received())
        .unwrap_err();
    thread.join().unwrap();
    error
}

pub fn welcome(version: Version) -> Vec<u8> {
    let limits = Limits { flows: 4 };
    let welcome = Welcome {
        version,
        stations: Vec::new(),
        limits,
        clock: ClockIdentity::default(),
        sends: None,
        serves: None,
    };
    Reply::Welcome(Box::new(welcome)).encode().unwrap()
}

#[test]
fn receivers_that_cannot_be_believed_are_not() {
    let later = Version { protocol: 7, wirebeat: "9\x1b[2J".to_owned() };
    let incompatible = Reply::Incompatible(later.clone()).encode().unwrap();
    for reply in [incompatible, welcome(later)] {
        let error = verdict(vec![reply]);
        assert!(matches!(error, RemoteError::Incompatible { .. }), "{error}");
        assert!(error.to_string().contains("version 7") && !error.to_string().contains('\x1b'));
    }
    for reply in [&b"no JSON"[..], b"\"busy\"]", b"{\"clock\":{}}", b"[[[[[[[[", b""] {
        let error = verdict(vec![reply.to_vec()]);
        assert!(matches!(error, RemoteError::Untrue { .. }), "{error}");
    }
    // Time that runs backwards.
    let clock = Reply::Clock { received_ns: 5, sent_ns: 4 }.encode().unwrap();
    let mut replies = vec![welcome(Version::ours())];
    replies.extend(vec![clock; 64]);
    assert!(matches!(verdict(replies), RemoteError::Untrue { .. }));
    let bad = vec![b' '; REPLY_LIMIT + 1];
    let error = verdict(vec![bad]);
    assert!(error.to_string().contains("a message of more than"), "{error}");
}

#[test]
fn results_that_cannot_be_true_are_not_used() {
    type Lie = fn(&mut Measured);
    let lies: [(Lie, &str); 7] = [
        (
            |measured| measured.summary.flows.values_mut().for_each(|flow| flow.frames = u64::MAX),
            "flow 1, counts: more than any link carries",
        ),
        (
            |measured| {
                measured.summary.flows.values_mut().for_each(|flow| flow.sequence.unique = u64::MAX)
            },
            "flow 1, sequence",
        ),
        (|measured| measured.summary.foreign = u64::MAX, "foreign frames"),
        (|measured| measured.summary.flows.values_mut().for_each(|flow| flow.frames = 1), "flow 1"),
        (|measured| _ = measured.summary.flows.insert(2, FlowSummary::default()), "not announced"),
        (
            |measured| measured.summary.flows.values_mut().for_each(|flow| flow.delay_base = 1),
            "not what was asked for",
        ),
        (|measured| measured.summary.unprobed.payload_bytes = 1, "without a probe"),
    ];
    for (tamper, what) in lies {
        let server = Server::start(None, Fake { tamper: Some(tamper), ..Fake::default() });
        let measurement = server.open(None).unwrap().begin(flows(&[1])).unwrap();
        let error = measurement.finish(Nanos::from_millis(5)).unwrap_err();
        assert!(matches!(error, RemoteError::Untrue { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

/// A result of another run, and more intervals than any result has.
#[test]
fn results_of_other_runs_and_endless_intervals_are_not_used() {
    let expected = Expected {
        run: 2,
        flows: flows(&[1]),
        delay_base: 0,
        relation: Relation::Same,
        sent_from_ns: 0,
    };
    let other = Reply::Finished(Box::new(Measured { run: 1, ..Measured::default() }));
    let refused = Collector::new(&expected).take(other).unwrap_err();
    assert!(refused.contains("it told of run 1, and this is run 2"), "{refused}");
    let mut collector = Collector::new(&expected);
    let refused = (0..10_000).find_map(|_| collector.take(large_intervals(0)).err()).unwrap();
    assert!(refused.contains("more than 128 MiB"), "{refused}");
}

/// How many flows have intervals in [`large_intervals`], and how many intervals each.
const LARGE: (u16, u64) = (16, 4);

/// Intervals of flows in each of which all buckets have a value: about as much as a message holds.
fn large_intervals(first: u64) -> Reply {
    let moments = Moments {
        count: 3968,
        max: 5000,
        sum: 5000,
        sum_of_squares: 5000 * 5000,
        ..Moments::default()
    };
    let buckets = (0..3968).map(|bucket| (bucket, 1)).collect();
    let flow = FlowBooks {
        frames: 3968,
        frame_bytes: 3968 * 64,
        unique: 3968,
        delay: Distribution { moments, negative: 0, buckets },
        ..FlowBooks::default()
    };
    let part = |nth| ToldInterval {
        first: first + nth,
        intervals: 1,
        books: MeterBooks {
            flows: (0..LARGE.0).map(|id| (id, flow.clone())).collect(),
            ..MeterBooks::default()
        },
    };
    let parts = (0..LARGE.1).map(part).collect();
    Reply::Intervals(Box::new(ToldIntervals { complete: 0, parts }))
}

/// It told intervals, and intervals, and the sender kept them all.
#[test]
fn a_receiver_does_not_fill_the_memory_of_a_sender_with_intervals() {
    let told = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&told);
    let (address, receiver) = impostor(move |_, request| {
        let now = MonotonicClock.now().get();
        let reply = match request {
            Request::Hello(_) => Reply::Welcome(Box::new(Welcome {
                version: Version::ours(),
                stations: Vec::new(),
                limits: Limits { flows: LARGE.0 },
                clock: ClockIdentity::default(),
                sends: None,
                serves: None,
            })),
            Request::Clock => Reply::Clock { received_ns: now, sent_ns: now },
            Request::Begin(expected) => Reply::Begun { run: expected.run, stations: Vec::new() },
            Request::Received => Reply::Received(Count::default()),
            Request::Intervals { .. } => {
                large_intervals(counted.fetch_add(1, Ordering::Relaxed) * LARGE.1)
            }
            Request::Finish { .. }
            | Request::Send(_)
            | Request::Start { .. }
            | Request::Sent { .. }
            | Request::Serve(_)
            | Request::Served { .. } => return None,
        };
        Some(reply.encode().unwrap())
    });
    let ids: Vec<u16> = (0..LARGE.0).collect();
    let mut measurement = call(address, None).unwrap().begin(flows(&ids)).unwrap();
    let beat = Beat { start: Nanos::ZERO, length: Nanos::from_millis(10), last: None };
    let mut timeline = Timeline::of_receiver(beat);
    // what the thread does that watches a run
    let kept = |measurement: &mut Measurement, timeline: &mut Timeline| {
        measurement.look_at_intervals().unwrap();
        timeline.received_far(measurement.take_intervals().0)
    };
    while kept(&mut measurement, &mut timeline) {
        assert!(told.load(Ordering::Relaxed) < 64, "all of it was kept");
    }
    // 128 MiB hold some 32 of them
    assert!(told.load(Ordering::Relaxed) > 16);
    measurement.refuse_intervals();
    let error = measurement.finish(Nanos::ZERO).unwrap_err();
    assert!(matches!(error, RemoteError::LargeIntervals { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("take more than 128 MiB"), "{told}");
    assert!(told.contains("give longer intervals with --interval, or send fewer flows"), "{told}");
    receiver.join().unwrap();
}

/// What a run makes of a receiver that greets it so, and answers each `clock` and `begin` with these bytes.
fn beginning(welcome: Vec<u8>, clock: Vec<u8>, begun: Vec<u8>) -> RunError {
    let (address, thread) = impostor(move |_, request| match request {
        Request::Hello(_) => Some(welcome.clone()),
        Request::Clock => Some(clock.clone()),
        _ => Some(begun.clone()),
    });
    let text = "ports: { here: { engine: socket } }\nflows:\n  far: { from: here, packet: [ { ipv4: { destination: \
                127.0.0.1 } }, { udp: { destination: 9 } } ], rate: 1kpps, count: 5 }\n";
    let scenario = Scenario::from_yaml(text, "test").unwrap();
    let options = Options { peer: Some(Peer { address, key: None }), ..Options::default() };
    let mut prepared = prepare(&scenario, options).map_err(|error| error.to_string()).unwrap();
    let error = prepared.begin(&Stop::new()).unwrap_err();
    drop(prepared);
    thread.join().unwrap();
    error
}

/// They were a report of a run that sent nothing, and "unfinished".
#[test]
fn receivers_that_fail_before_the_first_frame_are_an_error_and_no_report() {
    let clock = |sent_ns| Reply::Clock { received_ns: 5, sent_ns }.encode().unwrap();
    let refused = Reply::Refused { reason: "no".to_owned() }.encode().unwrap();
    let odd = b"{\"begun\":{\"stations\":7}}".to_vec();
    for (clock, begun, why) in [
        (clock(4), odd.clone(), "its clock gives times that cannot be"),
        (b"junk".to_vec(), odd.clone(), "a message is not JSON (at byte 1)"),
        (clock(5), odd, "a message is none of this version of the protocol"),
        (clock(5), refused, "refused: no"),
    ] {
        let error = beginning(welcome(Version::ours()), clock, begun);
        assert_eq!(error.exit_code(), 3, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let few = Welcome {
        version: Version::ours(),
        stations: Vec::new(),
        limits: Limits { flows: 0 },
        clock: ClockIdentity::default(),
        sends: None,
        serves: None,
    };
    let few = Reply::Welcome(Box::new(few)).encode().unwrap();
    assert_eq!(beginning(few, Vec::new(), Vec::new()).exit_code(), 3);
    let address = ([127, 0, 0, 1], 1).into();
    let one = RemoteError::TooManyFlows { address, limit: 1, asked: 2 };
    assert!(one.to_string().contains("measures at most 1 flow, and 2 are"), "{one}");
}

#[test]
fn counts_on_the_way_that_no_link_carries_are_not_shown() {
    for (frames, bytes, missing) in
        [(u64::MAX, u64::MAX, 0), (10, 9, 0), (1, u64::MAX, 0), (1, 64, u64::MAX)]
    {
        let count = Count { frames, bytes, missing };
        assert!(!count.is_possible(), "{count:?}");
    }
    assert!(
        Count::default().is_possible()
            && Count { frames: 10, bytes: 640, missing: 0 }.is_possible()
    );
}

#[test]
fn texts_of_a_peer_are_harmless() {
    let wild = "\x1b]0;owned\x07\u{202e}name".to_owned() + &"x".repeat(5000);
    let station = Station { engine: wild.clone(), mode: wild.clone(), ..Station::default() };
    let reply = Reply::Begun { run: 1, stations: vec![station; 1000] };
    let Reply::Begun { stations, .. } = Reply::decode(&reply.encode().unwrap()).unwrap() else {
        panic!("another message")
    };
    assert_eq!(stations.len(), 64);
    assert_eq!(stations[0].engine.chars().count(), 400);
    assert!(stations[0].mode.starts_with("\u{fffd}]0;owned\u{fffd}\u{fffd}namexx"));
    // And an error does not quote them.
    let error = Reply::decode(br#"{"\u001b[2J": 1}"#).unwrap_err().to_string();
    assert!(!error.contains('\x1b'), "{error}");
}

#[test]
fn a_result_that_lists_more_than_there_can_be_is_not_kept() {
    let expected = |flows| Expected {
        run: 1,
        flows,
        delay_base: 0,
        relation: Relation::Same,
        sent_from_ns: 0,
    };
    // As many buckets as a message holds, each of them empty: 10.6 MB of memory for 4 MiB of text.
    let mut swollen = FlowSummary::default();
    swollen.delay.buckets = vec![(0, 0); 650_000];
    let reply = Reply::Flow { id: 1, summary: Box::new(swollen) };
    assert!(reply.encode().unwrap().len() <= REPLY_LIMIT);
    let mut collector = Collector::new(&expected(flows(&[1])));
    let error = collector.take(reply).unwrap_err();
    assert!(error.contains("more histogram buckets"), "{error}");
    // The most that one flow may have, for more flows than there is room for.
    let ids: Vec<u16> = (0..1000).collect();
    let mut collector = Collector::new(&expected(flows(&ids)));
    let full = || {
        let mut flow = FlowSummary {
            inter_arrival_bins: Some(LinearBins { counts: vec![1; 65_536], ..Default::default() }),
            ..FlowSummary::default()
        };
        flow.delay.buckets = vec![(0, 1); 3_968];
        flow
    };
    let mut take = |&id: &u16| collector.take(Reply::Flow { id, summary: Box::new(full()) });
    let refused = ids.iter().position(|id| take(id).is_err()).unwrap();
    assert!((200..400).contains(&refused), "{refused}");
}
