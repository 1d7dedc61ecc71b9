//! The self-test of an interface: what it finds on a virtual cable, what it refuses, and that nothing stays.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use wirebeat_run::doctor::{
    Load, SelfTest, SelfTestRequest, Trial, TrialResult, UNKNOWN_STATION, self_test,
};
use wirebeat_run::{RunError, Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::Nanos;

use crate::world::cable;

fn request(bed: &Testbed, with_peer: bool) -> SelfTestRequest {
    SelfTestRequest {
        interface: "wb0".to_owned(),
        peer_interface: with_peer.then(|| "wb1".to_owned()),
        peer_namespace: with_peer.then(|| "b".to_owned()),
        namespaces: [("b".to_owned(), bed.b.namespace.clone())].into(),
        force: false,
        time: Nanos::from_millis(200),
    }
}

fn tried(bed: &Testbed, request: &SelfTestRequest) -> Result<SelfTest, RunError> {
    bed.a.namespace.run(|| self_test(request, &mut Silent, &Stop::new())).unwrap()
}

fn test(bed: &Testbed, request: &SelfTestRequest) -> SelfTest {
    tried(bed, request).unwrap_or_else(|error| panic!("{error}"))
}

/// The name of each trial, and whether it ran.
fn outcomes(test: &SelfTest) -> Vec<(String, bool)> {
    let of = |trial: &Trial| {
        let mode = trial.mode.map_or(String::new(), |mode| format!(" {mode}"));
        let ran = matches!(&trial.result, TrialResult::Ran(runs) if runs.len() == 2);
        (format!("{}{mode}", trial.engine), ran)
    };
    test.trials.iter().map(of).collect()
}

fn frames(bed: &Testbed) -> u64 {
    bed.a.netlink().unwrap().stats(bed.a.link.index).unwrap().tx_packets
}

#[test]
fn every_engine_is_tried_in_every_mode_and_nothing_stays() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let test = test(&bed, &request(&bed, true));
    assert!(test.passed && test.left_behind.is_empty(), "{test:#?}");
    let expected = [
        ("kernel", true),
        ("packet", true),
        ("xdp zero-copy", false),
        ("xdp copy", true),
        ("xdp generic", true),
    ];
    let expected = expected.map(|(name, ran)| (name.to_owned(), ran));
    assert_eq!(outcomes(&test), expected, "{test:#?}");
    assert_eq!(test.destination, bed.b.mac.to_string());
    for trial in &test.trials {
        let runs = match &trial.result {
            TrialResult::Ran(runs) => runs,
            TrialResult::Refused { why } => {
                assert!(why.what.contains("offers none") && !trial.has_failed(), "{why}");
                continue;
            }
        };
        let loads: Vec<Load> = runs.iter().map(|run| run.load).collect();
        assert_eq!(loads, [Load::FlatOut, Load::Paced]);
        for run in runs {
            let (received, lost) = (run.received.unwrap(), run.lost.unwrap());
            assert!(received > 0 && received + lost == run.sent, "{run:#?}");
            assert!(run.delay_min_ns.unwrap() >= 0 && run.clock == "CLOCK_MONOTONIC", "{run:#?}");
        }
        // more than a thousand a second
        assert!(runs[0].frames_per_second > runs[1].frames_per_second, "{runs:#?}");
    }
    for end in [&bed.a, &bed.b] {
        let link = end.netlink().unwrap().link_by_index(end.link.index).unwrap();
        assert_eq!((link.xdp, link.mtu), (None, 1500));
    }
    let json = serde_json::to_value(&test).unwrap();
    assert_eq!(json["trials"][1]["ran"][0]["load"], "flat_out", "{json:#}");
    assert!(json["trials"][2]["refused"]["why"].is_string(), "{json:#}");
}

/// Frames go where no station is, and a stack that gets them all the same answers nothing.
#[test]
fn without_a_peer_only_sending_is_tested() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let before = bed.b.netlink().unwrap().stats(bed.b.link.index).unwrap();
    let test = test(&bed, &request(&bed, false));
    assert_eq!(test.destination, UNKNOWN_STATION.to_string());
    assert!(test.peer_interface.is_none());
    let sent: u64 = test
        .trials
        .iter()
        .filter_map(|trial| match &trial.result {
            TrialResult::Ran(runs) => Some(runs),
            TrialResult::Refused { .. } => None,
        })
        .flatten()
        .map(|run| {
            assert_eq!((run.received, run.lost, run.delay_min_ns), (None, None, None));
            run.sent
        })
        .sum();
    let after = bed.b.netlink().unwrap().stats(bed.b.link.index).unwrap();
    let arrived = after.rx_packets - before.rx_packets;
    assert!(sent > 0 && arrived > 0, "{test:#?}");
    assert_eq!(after.tx_packets, before.tx_packets, "the other end answered");
}

#[test]
fn an_interface_with_traffic_of_the_host_is_refused_before_anything_is_sent() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let bed = cable();
    let refused = |request: &SelfTestRequest, told: &str| {
        let before = frames(&bed);
        let error = tried(&bed, request).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert_eq!(frames(&bed), before);
    };
    let ip = |arguments: &[&str]| {
        let run = || Command::new("ip").args(arguments).status().unwrap();
        assert!(bed.a.namespace.run(run).unwrap().success());
    };
    let usual = request(&bed, true);
    let gateway = bed.b.ipv4.to_string();
    ip(&["route", "add", "default", "via", &gateway]);
    refused(&usual, "wb0 carries a default route");
    ip(&["route", "del", "default"]);
    // one that another is preferred to, too
    ip(&["link", "add", "wx0", "type", "veth", "peer", "name", "wx1"]);
    ip(&["link", "set", "wx0", "up"]);
    ip(&["link", "set", "wx1", "up"]);
    ip(&["address", "add", "10.55.0.1/24", "dev", "wx0"]);
    ip(&["route", "add", "default", "via", "10.55.0.2", "metric", "1"]);
    ip(&["route", "add", "default", "via", &gateway, "metric", "9"]);
    refused(&usual, "wb0 carries a default route");
    ip(&["route", "del", "default", "via", &gateway]);
    let listener = bed.b.namespace.run(|| TcpListener::bind((bed.b.ipv4, 4790)).unwrap()).unwrap();
    let connection =
        bed.a.namespace.run(|| TcpStream::connect((bed.b.ipv4, 4790)).unwrap()).unwrap();
    refused(&usual, "wb0 carries 1 connection of this host");
    drop((listener, connection));
    let of = |interface: &str| SelfTestRequest {
        interface: interface.to_owned(),
        ..request(&bed, false)
    };
    refused(&of("lo"), "lo does not carry Ethernet frames");
    refused(&of("wb7"), "there is no interface 'wb7'");
    let same = SelfTestRequest { peer_interface: Some("wb0".to_owned()), ..of("wb0") };
    refused(&same, "the same interface");
}

#[test]
fn who_forces_it_tests_an_interface_with_a_default_route() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let bed = cable();
    let gateway = bed.b.ipv4.to_string();
    let route =
        || Command::new("ip").args(["route", "add", "default", "via", &gateway]).status().unwrap();
    assert!(bed.a.namespace.run(route).unwrap().success());
    let forced =
        SelfTestRequest { force: true, time: Nanos::from_millis(20), ..request(&bed, false) };
    assert!(test(&bed, &forced).has_sent());
}

#[test]
fn a_self_test_that_is_stopped_says_so() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let request = request(&bed, false);
    let stop = Stop::new();
    stop.ask(2);
    let test = bed.a.namespace.run(|| self_test(&request, &mut Silent, &stop)).unwrap().unwrap();
    assert!(test.interrupted && !test.passed && test.trials.is_empty());
}
