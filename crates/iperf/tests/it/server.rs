//! Our server, with iperf3 as the client: both say the same.

use serde_json::Value;
use wirebeat_iperf::result::{End, PeerOutput, Role};
use wirebeat_iperf::{Direction, Limits, OutputForm, Protocol, ServerOptions, TestResult};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::{BitRate, Nanos};

use crate::world::{PATIENCE, bed, iperf3_client, json, served, serving};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// The streams of the client's JSON say of bytes what our result says, and no stream received more than was sent.
fn agree(result: &TestResult, json: &Value) {
    assert_eq!((result.role, result.end), (Role::Server, End::Completed));
    assert_eq!(result.inconsistencies(), []);
    let streams = json["end"]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), result.streams.len(), "{json:#}");
    for (stream, ours) in streams.iter().zip(&result.streams) {
        let theirs = ours.theirs.unwrap();
        let (sent, received) = if ours.sending { (ours.ours, theirs) } else { (theirs, ours.ours) };
        if result.spec.protocol == Protocol::Tcp {
            assert_eq!(number(&stream["sender"]["bytes"]), sent.bytes.get(), "{json:#}");
            assert_eq!(number(&stream["receiver"]["bytes"]), received.bytes.get(), "{json:#}");
            assert_eq!(stream["sender"]["retransmits"].as_u64(), sent.retransmits, "{json:#}");
        } else {
            let udp = &stream["udp"];
            let (sent, received) = (sent.datagrams.unwrap(), received.datagrams.unwrap());
            assert_eq!(number(&udp["packets"]), sent.packets.max(received.packets), "{json:#}");
            assert_eq!(number(&udp["lost_packets"]), received.lost, "{json:#}");
        }
        assert!(received.bytes.get() > 0, "{result:?}");
    }
    // the intervals are the whole
    for stream in &result.streams {
        let of = result.intervals.iter().filter(|interval| !interval.omitted);
        let of = of.flat_map(|interval| &interval.streams).filter(|s| s.id == stream.id);
        let sum: u64 = of.map(|interval| interval.side.bytes.get()).sum();
        assert_eq!(sum, stream.ours.bytes.get(), "{result:?}");
    }
}

#[test]
fn bytes_over_tcp_agree_both_ways_and_in_four_streams() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for (arguments, direction, streams) in [
        ("-t 1", Direction::Forward, 1),
        ("-t 1 -R", Direction::Reverse, 1),
        ("-t 1 --bidir", Direction::BothWays, 2),
        ("-t 1 -P 4", Direction::Forward, 4),
        ("-t 1 -P 4 -R", Direction::Reverse, 4),
        ("-t 1 -P 2 --bidir", Direction::BothWays, 4),
    ] {
        let (result, json) = served(arguments);
        agree(&result, &json);
        assert_eq!((result.spec.direction, result.streams.len()), (direction, streams));
        let ids: Vec<u32> = result.streams.iter().map(|stream| stream.id).collect();
        assert_eq!(ids, [1, 3, 4, 5][..streams]);
        let sending = result.streams.iter().filter(|stream| stream.sending).count();
        let expected = match direction {
            Direction::Forward => 0,
            Direction::Reverse => streams,
            Direction::BothWays | Direction::InTurn => streams / 2,
        };
        assert_eq!(sending, expected);
        for stream in &result.streams {
            let info = stream.tcp.unwrap();
            assert!(info.snd_mss > 0 && info.bytes_received.is_some(), "{info:?}");
        }
    }
}

#[test]
fn amounts_end_a_test_both_ways() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for arguments in ["-n 20M", "-n 20M -R", "-k 100", "-k 100 -R", "-n 20M -R -P 3", "-n 20M -O 1"]
    {
        let (result, json) = served(arguments);
        agree(&result, &json);
        let bytes = result.sent().get().max(result.received().get());
        let asked = if arguments.contains("-k") { 100 * 131_072 } else { 20 << 20 };
        if arguments.contains("-R") {
            // no more than was asked for
            assert!(bytes <= asked, "{arguments}: {bytes}");
        }
        assert!(bytes >= asked / 2, "{arguments}: {bytes}");
    }
}

#[test]
fn what_is_omitted_counts_at_neither_end() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for arguments in [
        "-t 1 -O 1 -b 40M",
        "-t 1 -O 1 -b 40M -R",
        "-t 1 -O 1 -u -b 4M -l 1000",
        "-t 1 -O 1 -u -b 4M -l 1000 -R",
    ] {
        let (result, json) = served(arguments);
        assert_eq!((result.end, result.spec.omit), (End::Completed, Nanos::from_secs(1)));
        assert_eq!(json.get("error"), None);
        let stream = &result.streams[0];
        assert!(result.intervals.iter().any(|interval| interval.omitted));
        assert!(result.intervals.iter().any(|interval| !interval.omitted));
        let all: u64 = result.intervals.iter().map(|i| i.bytes().0.get() + i.bytes().1.get()).sum();
        // about a half: machines stall, but not for most of a second
        let share = stream.ours.bytes.get() as f64 / all as f64;
        assert!((0.2..0.8).contains(&share), "{arguments}: {share} of {all}");
    }
}

#[test]
fn datagrams_agree_both_ways() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    for arguments in [
        "-u -b 8M -l 1000 -t 1",
        "-u -b 8M -l 1000 -t 1 -R",
        "-u -b 2M -l 1000 -t 1 --bidir -P 2",
        "-u -b 8M -l 1000 -t 1 -R --udp-counters-64bit",
        "-u -b 8M -l 1000 -k 500 -R",
    ] {
        let (result, json) = served(arguments);
        agree(&result, &json);
        assert_eq!(result.spec.protocol, Protocol::Udp);
        for stream in &result.streams {
            let ours = stream.ours.datagrams.unwrap();
            assert_eq!(ours.packets * 1000, stream.ours.bytes.get() + ours.lost * 1000);
            assert!(stream.tcp.is_none());
        }
        if arguments.contains("-k") {
            assert_eq!(result.streams[0].ours.datagrams.unwrap().packets, 500);
        }
    }
}

#[test]
fn what_is_asked_for_is_set() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let (result, json) = served("-n 1M -C reno -M 1000 -N -S 0x10 -w 200K -l 10000 -T title");
    agree(&result, &json);
    assert_eq!(result.our_congestion.as_deref(), Some("reno"));
    assert_eq!(result.their_congestion.as_deref(), Some("reno"));
    assert_eq!(json["end"]["receiver_tcp_congestion"], "reno");
    assert_eq!(result.spec.title.as_deref(), Some("title"));
    assert_eq!((result.spec.tos, result.block.get()), (0x10, 10_000));
    let (result, json) = served("-n 1M -M 1000 -R");
    agree(&result, &json);
    let info = result.streams[0].tcp.unwrap();
    assert!(info.snd_mss <= 1000, "{info:?}");
    let (result, _) = served("-n 1M -R");
    // the limit was that test's alone
    assert!(result.streams[0].tcp.unwrap().snd_mss > 1000);
}

#[test]
fn the_servers_output_is_ours_in_both_forms() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let (result, json) = served("-n 1M --get-server-output");
    let text = json["server_output_text"].as_str().unwrap();
    assert!(text.starts_with("wirebeat ") && text.contains("received 1.05 MB"), "{text}");
    assert_eq!(result.server_output, Some(PeerOutput::Text(text.to_owned())));
    let bed = bed();
    let options = ServerOptions { output: OutputForm::Json, ..ServerOptions::default() };
    let (_, json) = serving(&bed, ("127.0.0.1:0", options), |address, _| {
        crate::world::json(&bed, address, "-n 1M -R --get-server-output")
    });
    let stream = &json["server_output_json"]["streams"][0];
    assert_eq!(stream["bytes"], json["end"]["sum_sent"]["bytes"], "{json:#}");
    assert_eq!(stream["sender"], true);
}

#[test]
fn a_rate_is_kept_and_limited() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    // 5 Mbit/s for a second in blocks of 1000 B: 625 of them
    let (result, json) = served("-t 1 -b 5M -l 1000 -R");
    agree(&result, &json);
    let bytes = result.sent().get();
    assert!((400_000..=1_000_000).contains(&bytes), "{bytes}");
    let (result, _) = served("-t 1 --fq-rate 5M -l 1000 -R");
    let bytes = result.sent().get();
    assert!((400_000..=1_000_000).contains(&bytes), "{bytes}");
    let bed = bed();
    let limits = Limits { rate: Some(BitRate(4_000_000)), ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let (ended, json) = serving(&bed, ("127.0.0.1:0", options), |address, _| {
        crate::world::json(&bed, address, "-t 1 -R -P 2 -l 1000")
    });
    assert_eq!(json.get("error"), None, "{json:#}");
    let result = ended[0].as_ref().unwrap();
    let bytes = result.sent().get();
    assert!((200_000..=1_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn one_client_after_the_other_over_a_cable_and_ipv6() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let (ended, ()) = serving(&bed, ("[::]:0", ServerOptions::default()), |address, _| {
        let port = address.port().to_string();
        for (to, rest) in [
            (bed.a.ipv4.to_string(), "-n 1M"),
            (bed.a.ipv6.unwrap().to_string(), "-n 1M -R"),
            (bed.a.ipv4.to_string(), "-u -n 100K -b 10M -R"),
            (bed.a.ipv6.unwrap().to_string(), "-u -n 100K -b 10M --bidir"),
        ] {
            let client = wirebeat_testbed::Program::new(&bed.b.namespace, "iperf3");
            let client = client.args(["-c", &to, "-p", &port]).args(rest.split(' '));
            let output = client.output(PATIENCE).unwrap();
            assert!(output.stdout.contains("iperf Done"), "{} {}", output.stdout, output.stderr);
        }
    });
    assert_eq!(ended.len(), 4);
    for result in ended {
        let result = result.unwrap();
        assert_eq!((result.end, result.inconsistencies()), (End::Completed, vec![]));
    }
}

#[test]
fn another_client_is_told_that_the_server_is_busy() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let serve = ("127.0.0.1:0", ServerOptions::default());
    let (ended, ()) = serving(&bed, serve, |address, _| {
        let first = iperf3_client(&bed, address, "-t 3 -b 1M --forceflush").spawn().unwrap();
        first.wait_for("connected to", PATIENCE).unwrap();
        let second = json(&bed, address, "-t 1");
        assert!(second["error"].as_str().unwrap().contains("busy"), "{second:#}");
        let first = first.wait(PATIENCE).unwrap();
        assert!(first.stdout.contains("iperf Done"), "{}", first.stdout);
    });
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].as_ref().unwrap().end, End::Completed);
}

#[test]
fn what_is_more_than_allowed_is_refused_with_its_number() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let limits = Limits { streams: 2, time: Nanos::from_secs(5), ..Limits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let (ended, ()) = serving(&bed, ("127.0.0.1:0", options), |address, _| {
        for (arguments, error) in [("-P 3", "streams too large"), ("-t 6", "duration")] {
            let refused = json(&bed, address, arguments);
            assert!(refused["error"].as_str().unwrap().contains(error), "{refused:#}");
        }
        assert_eq!(json(&bed, address, "-P 2 -n 1M").get("error"), None);
    });
    let ended: Vec<bool> = ended.iter().map(Result::is_ok).collect();
    assert_eq!(ended, [false, false, true]);
}

#[test]
fn a_stopped_server_tells_its_client() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let serve = ("127.0.0.1:0", ServerOptions::default());
    let (ended, client) = serving(&bed, serve, |address, _| {
        let client = iperf3_client(&bed, address, "-t 30 -b 1M --forceflush").spawn().unwrap();
        client.wait_for("connected to", PATIENCE).unwrap();
        // the first interval
        client.wait_for("0.00-1.00", PATIENCE).unwrap();
        client
    });
    let output = client.wait(PATIENCE).unwrap();
    assert!(output.stderr.contains("the server has terminated"), "{}", output.stderr);
    let result = ended[0].as_ref().unwrap();
    assert_eq!(result.end, End::Stopped);
    assert!(result.received().get() > 0);
}

#[test]
fn a_client_that_is_interrupted_or_killed_ends_its_test_alone() {
    require!(Capability::NetworkNamespaces, Capability::Program("iperf3"));
    let bed = bed();
    let serve = ("127.0.0.1:0", ServerOptions::default());
    let (ended, ()) = serving(&bed, serve, |address, _| {
        for kill in [false, true] {
            let client = iperf3_client(&bed, address, "-t 30 -b 1M --forceflush").spawn().unwrap();
            client.wait_for("0.00-1.00", PATIENCE).unwrap();
            if kill {
                client.kill();
            } else {
                client.interrupt();
            }
            client.wait(PATIENCE).unwrap();
        }
        assert_eq!(json(&bed, address, "-n 1M").get("error"), None);
    });
    assert_eq!(ended[0].as_ref().unwrap().end, End::Terminated);
    assert!(ended[1].as_ref().unwrap_err().contains("closed the control connection"));
    assert_eq!(ended[2].as_ref().unwrap().end, End::Completed);
}
