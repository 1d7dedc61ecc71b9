//! Our client, with iperf3 as the server: both say the same.

use serde_json::Value;
use wirebeat_iperf::control::datagram::Counter;
use wirebeat_iperf::result::{End, PeerOutput, Role};
use wirebeat_iperf::{
    Amount, Direction, Error, Event, Protocol, Stop, TestResult, TestSpec, client,
};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::{BitRate, Bytes, Nanos};

use crate::world::{PATIENCE, bed, iperf3_server};

fn run(bed: &Testbed, to: std::net::SocketAddr, spec: &TestSpec) -> Result<TestResult, Error> {
    let target = client::Target::new(to);
    bed.a.namespace.run(|| client::run(&target, spec, &Stop::new(), &mut |_| {})).unwrap()
}

/// What comes of a test of ours against a server of iperf3, and what that says in JSON.
fn against(spec: &TestSpec) -> (TestResult, Value) {
    let bed = bed();
    // JSON comes when the test is over, and nothing before: the port is waited for
    let (server, address) = iperf3_server(&bed, 5201, "-J");
    let begun = std::time::Instant::now();
    let result = loop {
        match run(&bed, address, spec) {
            Err(Error::Connect { .. }) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            other => break other.unwrap(),
        }
    };
    let output = server.wait(PATIENCE).unwrap().stdout;
    let json: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    (result, json)
}

fn spec() -> TestSpec {
    TestSpec { amount: Amount::Time(Nanos::from_secs(1)), ..TestSpec::default() }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// What the server counted is what it told us, and both are in its JSON. A server's JSON has only what it counted itself.
fn agree(result: &TestResult, json: &Value) {
    assert_eq!((result.role, result.end), (Role::Client, End::Completed));
    assert_eq!(result.inconsistencies(), []);
    assert_eq!(json.get("error"), None, "{json:#}");
    let streams = json["end"]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), result.streams.len(), "{json:#}");
    for (stream, ours) in streams.iter().zip(&result.streams) {
        let theirs = ours.theirs.unwrap();
        let side = if ours.sending { "receiver" } else { "sender" };
        if result.spec.protocol == Protocol::Tcp {
            assert_eq!(number(&stream[side]["bytes"]), theirs.bytes.get(), "{json:#}");
            if !ours.sending {
                assert_eq!(stream[side]["retransmits"].as_u64(), theirs.retransmits, "{json:#}");
            }
        } else {
            let told = theirs.datagrams.unwrap();
            let packets = ours.ours.datagrams.unwrap().packets.max(told.packets);
            assert!(number(&stream["udp"]["packets"]) <= packets, "{json:#}");
            assert!(told.packets > 0, "{result:?}");
        }
        assert!(ours.ours.bytes.get() > 0, "{result:?}");
    }
}

#[test]
fn bytes_over_tcp_agree_both_ways_and_in_four_streams() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for direction in [Direction::Forward, Direction::Reverse, Direction::BothWays] {
        for streams in [1, 4] {
            let (result, json) = against(&TestSpec { direction, streams, ..spec() });
            agree(&result, &json);
            assert_eq!(number(&json["start"]["test_start"]["num_streams"]), u64::from(streams));
            assert!(result.time >= Nanos::from_secs(1) && result.time < Nanos::from_secs(20));
            let sent: u64 = result.intervals.iter().map(|interval| interval.bytes().0.get()).sum();
            assert_eq!(sent, result.sent().get());
        }
    }
}

#[test]
fn datagrams_agree_both_ways() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for direction in [Direction::Forward, Direction::Reverse, Direction::BothWays] {
        for counter in [Counter::Bits32, Counter::Bits64] {
            let (protocol, rate) = (Protocol::Udp, Some(BitRate(4_000_000)));
            let block = Some(Bytes::new(1000));
            let spec = TestSpec { direction, protocol, rate, counter, block, streams: 2, ..spec() };
            let (result, json) = against(&spec);
            agree(&result, &json);
            for stream in result.streams.iter().filter(|stream| stream.sending) {
                let datagrams = stream.ours.datagrams.unwrap();
                // 4 Mbit/s in datagrams of 1000 B, for a second that may have been longer
                let due = 500 * result.time.get() / 1_000_000_000;
                assert!(datagrams.packets <= due + 1, "{} of {due}", datagrams.packets);
                assert!(datagrams.packets >= due / 2, "{} of {due}", datagrams.packets);
            }
        }
    }
}

#[test]
fn an_amount_is_sent_to_the_byte() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let amount = Amount::Bytes(Bytes::new(12_345_678));
    let (result, json) = against(&TestSpec { amount, streams: 3, ..spec() });
    agree(&result, &json);
    assert_eq!(result.sent().get(), 12_345_678);
    let (result, json) = against(&TestSpec { amount, direction: Direction::Reverse, ..spec() });
    agree(&result, &json);
    assert!(result.received().get() >= 12_345_678);
    let amount = Amount::Blocks(50);
    let (result, json) = against(&TestSpec { amount, omit: Nanos::from_secs(1), ..spec() });
    assert_eq!(json.get("error"), None);
    assert_eq!(result.sent().get(), 50 << 17);
}

#[test]
fn what_is_asked_for_is_set_and_the_server_says_what_it_did() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let spec = TestSpec {
        congestion: Some("reno".to_owned()),
        mss: Some(1000),
        window: Some(Bytes::new(100_000)),
        no_delay: true,
        tos: 0x10,
        title: Some("a title".to_owned()),
        server_output: true,
        ..spec()
    };
    let (result, json) = against(&spec);
    agree(&result, &json);
    assert_eq!(result.our_congestion.as_deref(), Some("reno"));
    assert_eq!(result.their_congestion.as_deref(), Some("reno"));
    assert!(result.streams[0].tcp.unwrap().snd_mss <= 1000);
    assert_eq!(number(&json["start"]["test_start"]["tos"]), 0x10);
    let Some(PeerOutput::Json(output)) = &result.server_output else { panic!("{result:?}") };
    let output: Value = serde_json::from_str(output).unwrap();
    assert_eq!(output["start"]["test_start"]["protocol"], "TCP");
    assert!(result.their_cpu.unwrap().total > 0.0);
}

#[test]
fn a_test_is_stopped_in_order() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let (server, address) = iperf3_server(&bed, 5201, "");
    let stop = Stop::new();
    let target = client::Target::new(address);
    let spec =
        TestSpec { amount: Amount::Time(Nanos::ZERO), rate: Some(BitRate(10_000_000)), ..spec() };
    let run = || {
        client::run(&target, &spec, &stop, &mut |event| {
            if matches!(event, Event::Interval(_)) {
                stop.ask();
            }
        })
    };
    let result = bed.a.namespace.run(run).unwrap().unwrap();
    assert_eq!(result.end, End::Stopped);
    assert!(result.sent().get() > 0 && result.streams[0].theirs.is_none());
    let output = server.wait(PATIENCE).unwrap();
    assert!(output.stderr.contains("the client has terminated"), "{}", output.stderr);
}

#[test]
fn a_server_that_ends_or_is_busy_is_told_apart() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let (server, address) = iperf3_server(&bed, 5201, "");
    let target = client::Target::new(address);
    let endless =
        TestSpec { amount: Amount::Time(Nanos::ZERO), rate: Some(BitRate(10_000_000)), ..spec() };
    let server = std::sync::Mutex::new(server);
    let run_twice = || {
        client::run(&target, &endless, &Stop::new(), &mut |event| {
            if matches!(event, Event::Interval(interval) if interval.start == Nanos::ZERO) {
                let second = client::run(&target, &spec(), &Stop::new(), &mut |_| {});
                assert!(matches!(second, Err(Error::Busy)), "{second:?}");
                server.lock().unwrap().interrupt();
            }
        })
    };
    let result = bed.a.namespace.run(run_twice).unwrap().unwrap();
    assert_eq!(result.end, End::Terminated);
    server.into_inner().unwrap().wait(PATIENCE).unwrap();
    let nobody = run(&bed, address, &spec());
    assert!(matches!(nobody, Err(Error::Connect { .. })), "{nobody:?}");
}

#[test]
fn an_invalid_test_is_refused_before_anything_is_opened() {
    let target = client::Target::new("192.0.2.1:5201".parse().unwrap());
    for bad in [
        TestSpec { streams: 0, ..spec() },
        TestSpec { streams: 129, ..spec() },
        TestSpec { amount: Amount::Time(Nanos::from_secs(86_401)), ..spec() },
        TestSpec { block: Some(Bytes::new(2 << 20)), ..spec() },
        TestSpec { protocol: Protocol::Udp, block: Some(Bytes::new(8)), ..spec() },
        TestSpec { congestion: Some("a b".to_owned()), ..spec() },
        TestSpec { mss: Some(10), ..spec() },
    ] {
        let refused = client::run(&target, &bad, &Stop::new(), &mut |_| {});
        assert!(matches!(refused, Err(Error::Refused(_))), "{bad:?}: {refused:?}");
    }
}
