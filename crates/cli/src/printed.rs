//! What `--print-scenario` prints is read again as the same scenario, with every flag that there is.
//!
//! The flags are those of the command line's own definition: one that is in none of the tables below fails the test, until
//! somebody says what it adds to a scenario, or that it adds nothing.

use std::collections::BTreeSet;

use wirebeat_traffic::scenario::Scenario;

use crate::command::definition;
use crate::{load, replay, send, serve};

/// A flag, a value that is not the default, and flags that it does not go without; behind '=', flags that do not go without
/// it either.
type Flag = (&'static str, &'static str, &'static str);

/// Flags of both.
const SHARED: &[Flag] = &[
    ("to", "10.0.0.3:5001", ""),
    ("interval", "2s", ""),
    ("source", "10.0.0.1", ""),
    ("source-port", "4000", ""),
    ("ttl", "3", ""),
    ("dscp", "ef", ""),
    ("tos", "0xb8", ""),
    ("ip-id", "count", ""),
    ("no-udp-checksum", "", ""),
    ("source-mac", "02:00:00:00:00:01", ""),
    ("destination-mac", "02:00:00:00:00:02", ""),
    ("interface", "eth1", ""),
    ("namespace", "lab", ""),
    ("engine", "kernel", ""),
    ("cpu", "2,3", ""),
    ("queues", "3", ""),
    ("transmit-queue", "1,3", ""),
    ("xdp-mode", "copy", "--engine xdp"),
    ("busy-poll", "", "--engine xdp"),
    ("speed", "10Gbps", ""),
    ("time", "30s", ""),
    ("start-at", "2100-01-01T00:00:00Z", ""),
    ("wait", "spin", ""),
    ("priority", "normal", ""),
    ("settle", "1s", ""),
    ("link-timeout", "3s", ""),
    ("on-link-down", "end", ""),
    ("timestamps", "hardware", ""),
    ("count", "1000", ""),
    ("expect", "loss<=0.01%", ""),
    ("drift", "50us", "--late drop"),
];

/// Flags of `send`.
const SEND: &[Flag] = &[
    ("rate", "2Gbps@line", ""),
    ("departures", "poisson", "--rate 1kpps"),
    ("size", "imix", ""),
    ("burst", "32", "--rate 1kpps"),
    ("no-probe", "", ""),
    ("round-trips", "", ""),
    ("payload", "hex:deadbeef", ""),
    ("flow", "name=voice,rate=2kpps,dscp=ef", ""),
    ("late", "drop", ""),
    ("seed", "7", ""),
];

/// Flags of `replay`, for archives.
const REPLAY: &[Flag] = &[
    ("fast-forward", "10x", ""),
    ("tight-loop", "1us", ""),
    ("max-gap", "2s", ""),
    ("out-of-order", "0.1", "= --delay-window 1ms"),
    ("delay-window", "1ms", "= --out-of-order 0.1"),
    ("out-of-order-queues", "1", "--queues 2 --out-of-order 0.1 --delay-window 1ms"),
    ("numbers", "departures", "--out-of-order 0.1 --delay-window 1ms"),
    ("seed", "7", "--out-of-order 0.1 --delay-window 1ms"),
    ("loop", "3", ""),
    ("from", "2015-07-01T19:00:00Z", ""),
    ("until", "2026-07-01T19:00:00Z", ""),
    ("device", "a", ""),
    ("flow-of", "hash:64", ""),
    ("sub-flows", "8", "--flow-of device"),
    ("statistics", "device", ""),
    ("probe", "", ""),
    ("on-bad", "skip", ""),
    ("reader", "mmap", ""),
    ("readers", "1", ""),
    ("workers", "2", ""),
    ("buffer", "1MiB", ""),
    ("preload", "", ""),
];

/// Flags of `replay`, for captures.
const CAPTURES: &[Flag] = &[
    ("filter", "arp", ""),
    ("map-address", "10.1.0.0/16=192.168.0.0/16", ""),
    ("map-port", "80=8080", ""),
    ("vlan", "5=50", ""),
    ("side", "client", ""),
    ("truncated", "skip", ""),
    ("reorder-window", "1ms", ""),
    ("interface", "eth2", ""),
    ("source-mac", "02:00:00:00:00:01", ""),
    ("destination-mac", "02:00:00:00:00:02", ""),
];

/// Flags of `load` with HTTP.
const WEB: &[Flag] = &[
    ("rate", "1000/s", ""),
    ("departures", "poisson", "--rate 1000/s"),
    ("users", "50", ""),
    ("think", "5ms", "--users 7"),
    ("hold", "5s", ""),
    ("count", "1000", ""),
    ("limit", "100", ""),
    ("beyond", "queue", "--limit 100"),
    ("timeout", "3s", ""),
    ("clients", "10.0.1.0/24", ""),
    ("requests", "10", ""),
    ("request-think", "1ms", "--requests 3"),
    ("pipeline", "4", "--requests 8"),
    ("server-closes", "", ""),
    ("peer", "10.0.2.9", "--key-file lab.key"),
    ("key-file", "lab.key", "--peer 10.0.2.9"),
    ("size", "20kB", "--peer 10.0.2.9"),
    ("interval", "2s", ""),
    ("method", "POST", ""),
    ("header", "Accept:text/html", ""),
    ("body", "10kB", ""),
    ("expect-status", "404", ""),
    ("expect-size", "612B", ""),
    ("reset", "", ""),
    ("stack", "own", "--interface eth1 --clients 10.0.1.1"),
    ("engine", "kernel", "--interface eth1 --stack own --clients 10.0.1.1"),
    ("time", "30s", ""),
    ("seed", "7", ""),
];

/// Flags of `load` with TLS.
const TLS: &[Flag] =
    &[("insecure", "", ""), ("authority", "ca.pem", ""), ("server-name", "www.example.com", "")];

/// Flags of `serve` with TLS.
const TLS_SERVER: &[Flag] = &[
    ("tls", "", ""),
    ("certificate", "cert.pem", "= --tls --key key.pem"),
    ("key", "key.pem", "= --tls --certificate cert.pem"),
];

/// What is asked of TCP and of threads, and what has to come of it.
const TCP: &[Flag] = &[
    ("congestion", "reno", ""),
    ("mss", "1000", ""),
    ("nagle", "", ""),
    ("tcp", "syn-retries=2", ""),
    ("pacing", "10Mbps", ""),
    ("dscp", "ef", ""),
    ("tos", "184", ""),
    ("ttl", "3", ""),
    ("interface", "eth1", ""),
    ("namespace", "lab", ""),
    ("cpu", "2,3", ""),
    ("wait", "spin", ""),
    ("expect", "established>=1000", ""),
];

/// Flags of `load` with echoes.
const ECHO: &[Flag] = &[
    ("program", "http", ""),
    ("size", "1kB", ""),
    ("requests", "10", ""),
    ("gap", "10ms", "--requests 3"),
];

/// Flags of `load` and `serve` with bulk data.
const BULK: &[Flag] = &[("reverse", "", ""), ("both-ways", "", ""), ("bytes", "1GB", "")];

/// Flags of `load` and `serve` with messages one way.
const MESSAGES: &[Flag] = &[
    ("size", "1kB", ""),
    ("gap", "20ms", ""),
    ("requests", "9", ""),
    ("reverse", "", ""),
    ("both-ways", "", ""),
];

/// Flags of `load` and `serve` with requests and responses.
const EXCHANGE: &[Flag] =
    &[("requests", "9", ""), ("request-size", "9kB", ""), ("response-size", "1MB", "")];

/// Flags of `load` with DNS.
const DNS: &[Flag] = &[
    ("type", "TXT", ""),
    ("no-recursion", "", ""),
    ("expect-rcode", "nxdomain", ""),
    ("requests", "9", ""),
    ("request-think", "1ms", "--requests 3"),
    ("transport", "tcp", ""),
];

/// Flags of `serve` with DNS.
const DNS_SERVER: &[Flag] = &[
    ("answer", "10.0.0.1", ""),
    ("answer-ttl", "2m", "--answer 10.0.0.1"),
    ("rcode", "nxdomain", ""),
    ("transport", "tcp", ""),
];

/// Flags of `serve` with HTTP.
const WEB_SERVER: &[Flag] = &[
    ("listen", "10.0.2.9:80", ""),
    ("interval", "2s", ""),
    ("stack", "own", "--interface eth1"),
    ("engine", "kernel", "--interface eth1 --stack own"),
    ("timeout", "3s", ""),
    ("size", "20kB", ""),
    ("file", "page.html", ""),
    ("status", "404", ""),
    ("framing", "chunked", ""),
    ("header", "Server:x", ""),
    ("time", "30s", ""),
    ("seed", "7", ""),
];

/// Flags that say nothing of the traffic, of commands that send frames.
const OF_FRAMES: [&str; 4] = ["peer", "key", "key-file", "control"];

/// Flags of `load` and `serve` that say nothing of it: the wire of another tool, which has no scenario, and how it is changed.
const OF_SESSIONS: [&str; 11] = [
    "iperf3",
    "iperf2",
    "udp",
    "in-turn",
    "max-duration",
    "ditg",
    "round-trips",
    "data-port",
    "log",
    "control",
    "key",
];

/// Flags of `load`, `replay` and `send`, which repeat a run.
const REPEATED: [&str; 2] = ["repeat", "warmup"];

/// Flags that say nothing of the traffic.
const BESIDE: [&str; 23] = [
    "metrics",
    "metrics-token-file",
    "metrics-cert",
    "metrics-cert-key",
    "otlp",
    "otlp-ca",
    "tui",
    "junit",
    "json",
    "html",
    "csv",
    "markdown",
    "pictures",
    "png",
    "json-lines",
    "details",
    "abort-on-fail",
    "histograms",
    "bins",
    "packet-log",
    "packet-log-sent",
    "print-scenario",
    "help",
];

/// A command that prints its scenario, what it takes at least, and its flags.
struct Printing {
    command: &'static str,
    least: &'static str,
    flags: Vec<Flag>,
    scenario: fn(&str) -> Scenario,
}

fn all() -> Vec<Printing> {
    let send =
        |line: &str| send::tests::scenario(line).unwrap_or_else(|why| panic!("{line}: {why:?}"));
    let replay =
        |line: &str| replay::tests::of(line).unwrap_or_else(|why| panic!("{line}: {why:?}"));
    // a replay says with the drift alone that late records are dropped
    let shared = |drift: &'static str| {
        SHARED.iter().map(move |&(name, value, with)| {
            (name, value, if name == "drift" { drift } else { with })
        })
    };
    let load =
        |line: &str| load::tests::scenario(line).unwrap_or_else(|why| panic!("{line}: {why:?}"));
    let serve =
        |line: &str| serve::tests::scenario(line).unwrap_or_else(|why| panic!("{line}: {why:?}"));
    vec![
        Printing {
            command: "load",
            least: "http://10.0.2.9/ --count 7",
            flags: WEB.iter().chain(TCP).copied().chain([("tls", "", "")]).collect(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "https://10.0.2.9/ --count 7",
            flags: TLS.to_vec(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "10.0.2.9:5202 --program request-response --count 7",
            flags: EXCHANGE.to_vec(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "10.0.2.9:7 --program echo --count 7",
            flags: ECHO.to_vec(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "10.0.2.9:5201 --program bulk",
            flags: BULK.iter().copied().chain([("streams", "4", "")]).collect(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "10.0.2.9:5201 --program messages",
            flags: MESSAGES.to_vec(),
            scenario: load,
        },
        Printing {
            command: "serve",
            least: "messages --listen 80",
            flags: MESSAGES.to_vec(),
            scenario: serve,
        },
        Printing {
            command: "load",
            least: "dns://10.0.2.9/www.example.com --count 7",
            flags: DNS.to_vec(),
            scenario: load,
        },
        Printing {
            command: "load",
            least: "10.0.2.9:7 --program echo --transport udp --count 7",
            flags: vec![("on-timeout", "next", "")],
            scenario: load,
        },
        Printing {
            command: "serve",
            least: "dns --listen 10.0.2.8:53",
            flags: DNS_SERVER.to_vec(),
            scenario: serve,
        },
        Printing {
            command: "serve",
            least: "http --listen 10.0.2.8:80",
            flags: WEB_SERVER.iter().chain(TLS_SERVER).chain(TCP).copied().collect(),
            scenario: serve,
        },
        Printing {
            command: "serve",
            least: "request-response --listen 80",
            flags: EXCHANGE.to_vec(),
            scenario: serve,
        },
        Printing {
            command: "serve",
            least: "bulk --listen 80",
            flags: BULK.to_vec(),
            scenario: serve,
        },
        Printing {
            command: "send",
            least: "--to 10.0.0.2",
            flags: shared("--late drop").chain(SEND.iter().copied()).collect(),
            scenario: send,
        },
        Printing {
            command: "replay",
            least: "day.wbar --to 10.0.0.2",
            flags: shared("").chain(REPLAY.iter().copied()).collect(),
            scenario: replay,
        },
        Printing {
            command: "replay",
            least: "day.pcap --interface eth1",
            flags: CAPTURES.to_vec(),
            scenario: replay,
        },
    ]
}

#[test]
fn what_is_printed_with_any_flag_is_read_again_as_the_same() {
    for Printing { command, least, flags, scenario } in all() {
        for (flag, value, with) in flags {
            // what is given by itself is not given twice
            let (with, together) =
                with.strip_prefix("= ").map_or((with, false), |with| (with, true));
            let words: Vec<&str> = least.split(' ').collect();
            let place = words.iter().position(|word| word.strip_prefix("--") == Some(flag));
            let kept = words
                .iter()
                .enumerate()
                .filter(|(at, _)| place.is_none_or(|place| ![place, place + 1].contains(at)));
            let without = kept
                .map(|(_, word)| *word)
                .chain(with.split_whitespace())
                .collect::<Vec<_>>()
                .join(" ");
            let line = format!("{without} --{flag} {value}");
            let meant = scenario(line.trim());
            let printed = meant.to_yaml().unwrap();
            let mut again = Scenario::from_yaml(&printed, "printed")
                .unwrap_or_else(|error| panic!("{command} {line}: {error}\n{printed}"));
            for (flow, meant) in again.flows.values_mut().zip(meant.flows.values()) {
                // the frames of a capture have their headers, whatever 'packet' is
                if meant.replay.as_ref().is_some_and(|replay| replay.is_capture()) {
                    flow.packet = meant.packet.clone();
                }
            }
            assert_eq!(again, meant, "{command} {line}\n{printed}");
            assert_eq!(again.to_yaml().unwrap(), printed, "{command} {line}");
            let before = scenario(&format!("{least} {}", if together { "" } else { with }));
            assert_ne!(meant, before, "{command} {line}: the flag adds nothing to the scenario");
        }
    }
}

#[test]
fn every_flag_that_there_is_is_tried() {
    for command in definition().get_subcommands() {
        let flags: BTreeSet<&str> =
            command.get_arguments().filter_map(clap::Arg::get_long).collect();
        let name = command.get_name();
        let printing: Vec<Printing> = all().into_iter().filter(|one| one.command == name).collect();
        assert_eq!(
            flags.contains("print-scenario"),
            !printing.is_empty(),
            "{name} has no table here"
        );
        if printing.is_empty() {
            continue;
        }
        let sessions = ["load", "serve"].contains(&name);
        let of_frames = OF_FRAMES.into_iter().filter(|_| !sessions);
        let of_sessions = OF_SESSIONS.into_iter().filter(|_| sessions);
        // servers start nothing that could change, and ask for no test
        let of_clients = ["control", "udp", "in-turn", "key", "round-trips", "data-port"];
        let of_sessions = of_sessions.filter(|flag| match name {
            "load" => *flag != "max-duration",
            _ => !of_clients.contains(flag),
        });
        let tried: BTreeSet<&str> = printing
            .iter()
            .flat_map(|one| &one.flags)
            .map(|(flag, ..)| *flag)
            .chain(BESIDE)
            .chain(REPEATED.into_iter().filter(|_| ["load", "replay", "send"].contains(&name)))
            .chain(of_frames)
            .chain(of_sessions)
            .collect();
        let missing: Vec<_> = flags.difference(&tried).collect();
        assert!(
            missing.is_empty(),
            "{name}: say in a table what these add to a scenario: {missing:?}"
        );
        let gone: Vec<_> =
            tried.iter().filter(|flag| **flag != "help" && !flags.contains(**flag)).collect();
        assert!(gone.is_empty(), "{name} has no flags {gone:?}");
    }
}
