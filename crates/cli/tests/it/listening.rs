//! A listening receiver at its end: by its time, by a stop and by a lost sender.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirebeat_testbed::{Capability, Output, Process, Testbed, require};

use crate::whole::{PATIENCE, cable, json, wirebeat};

const KEY: &str = "a-key-for-listeners-5960";

/// A receiver that listens, with a report in JSON.
fn receiver(bed: &Testbed, more: &str) -> Process {
    let line = format!(
        "receive --interface wb1 --engine packet --port 9 --listen {}:5960 --key {KEY} --json /dev/stdout {more}",
        bed.b.ipv4
    );
    let receiver = wirebeat(&bed.b, &line);
    receiver.wait_for("listening on", PATIENCE).unwrap();
    receiver
}

fn sender(bed: &Testbed, more: &str) -> Process {
    let to = &bed.b.ipv4;
    let line = format!(
        "send --to {to} --interface wb0 --engine packet --rate 1kpps --peer {to}:5960 --key {KEY} --json - {more}"
    );
    wirebeat(&bed.a, &line)
}

/// The JSON that stands before the text of a report.
fn document(output: &Output) -> Value {
    let mut all = serde_json::Deserializer::from_str(&output.stdout).into_iter();
    all.next().unwrap_or_else(|| panic!("{output:?}")).unwrap()
}

fn received(report: &Value) -> u64 {
    report["total"]["received"]["unique"].as_u64().unwrap_or(0)
}

/// `receive --listen --time 2s` never ended.
#[test]
fn a_receiver_that_nobody_came_to_ends_after_its_time() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let begun = Instant::now();
    let ended = receiver(&bed, "--time 1s").wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

/// It was left out without a word.
#[test]
fn a_packet_log_of_a_listener_is_refused() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let line =
        "receive --interface wb1 --engine packet --listen 127.0.0.1:5960 --packet-log x.parquet";
    let ended = wirebeat(&bed.b, line).wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("neither a packet log"), "{}", ended.stderr);
    assert!(!std::path::Path::new("x.parquet").exists());
}

/// Its counts were thrown away: an empty table, and exit code 0.
#[test]
fn a_receiver_that_is_stopped_while_it_measures_reports_and_tells_its_sender() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let receiver = receiver(&bed, "");
    let sender = sender(&bed, "--time 4s");
    receiver.wait_for("measuring for the sender", PATIENCE).unwrap();
    thread::sleep(Duration::from_millis(1500));
    receiver.interrupt();
    let ended = receiver.wait(PATIENCE).unwrap();
    let report = document(&ended);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!((500..3900).contains(&received(&report)), "{report:#}");
    let sent = sender.wait(PATIENCE).unwrap();
    assert_eq!(sent.status.code(), Some(1), "{sent:?}");
    let told = json(&sent);
    assert_eq!(received(&told), received(&report));
    assert!(sent.stdout.contains("the receiver ended before this run did"), "{told:#}");
}

/// The report was empty.
#[test]
fn what_a_lost_sender_sent_is_reported_as_unfinished() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let receiver = receiver(&bed, "--once");
    let sender = sender(&bed, "--time 60s");
    receiver.wait_for("measuring for the sender", PATIENCE).unwrap();
    thread::sleep(Duration::from_millis(1500));
    sender.kill();
    let ended = receiver.wait(PATIENCE).unwrap();
    let report = document(&ended);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(report["verdict"], "unfinished");
    assert!(received(&report) >= 500, "{report:#}");
    assert!(ended.stdout.contains("was lost while it was measured"), "{ended:?}");
}

/// The report was that of the last of several senders, and did not say so.
#[test]
fn a_report_after_several_senders_says_that_it_is_of_the_last() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let receiver = receiver(&bed, "");
    for count in [200, 300] {
        let sent = sender(&bed, &format!("--count {count}")).wait(PATIENCE).unwrap();
        assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    }
    receiver.interrupt();
    let ended = receiver.wait(PATIENCE).unwrap();
    assert_eq!(received(&document(&ended)), 300);
    assert!(ended.stdout.contains("2 runs were served one after the other"), "{ended:?}");
}

/// 1.5 Mpps for 2 s took 2.1 s on any engine.
#[test]
fn a_run_of_a_sender_that_is_too_slow_ends_at_its_time() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in ["packet", "kernel"] {
        let bed = cable();
        let line = format!("demo --engine {engine} --rate 9Mpps --time 1s --json -");
        let report = json(&wirebeat(&bed.a, &line).wait(PATIENCE).unwrap());
        let sent = &report["total"]["sent"];
        assert!(sent["not_reached"].as_u64().unwrap() > 0, "{sent:#}");
        let last = sent["last_departure_ns"].as_u64().unwrap();
        println!(
            "{engine}: the last frame left {} µs after the end",
            last.saturating_sub(1_000_000_000) / 1000
        );
        // what a busy machine adds is less than the tenth of a second that it was
        assert!(last < 1_060_000_000, "{engine}: {last}");
    }
}

/// `load --peer` has a listener serve its sessions, and both ends are in its report.
#[test]
fn sessions_are_served_by_a_listener_whose_owner_allows_it() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let to = &bed.b.ipv4;
    let load = |more: &str| {
        let line = format!(
            "load http://{to}:8080/ --size 3kB --rate 100/s --count 20 --peer {to}:5960 --key {KEY} {more}"
        );
        wirebeat(&bed.a, &line)
    };
    let refusing = receiver(&bed, "");
    let refused = load("").wait(PATIENCE).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--allow-serve"), "{refused:?}");
    refusing.interrupt();
    refusing.wait(PATIENCE).unwrap();
    let serving = receiver(&bed, &format!("--once --allow-serve {to}:8080,sessions=50,time=30s"));
    let ended = load("--json -").wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let report = document(&ended);
    let in_order = |end: &str| {
        let groups = report["sessions"].as_array().unwrap();
        let group = groups.iter().find(|group| group["end"] == end).unwrap();
        group["ends"]["in_order"].as_u64().unwrap()
    };
    assert_eq!((in_order("client"), in_order("server")), (20, 20), "{report:#}");
    // a key stays out of the report
    assert!(!ended.stdout.contains(KEY) && !ended.stdout.contains("key-file"), "{ended:?}");
    let served = serving.wait(PATIENCE).unwrap();
    assert_eq!(served.status.code(), Some(0), "{served:?}");
    assert!(served.stdout.contains("20 sessions were served for senders"), "{served:?}");
}
