//! A packet log of a run: its rows are what was measured, and the report that is made of them once more is that of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use wirebeat_engine::loopback::Link;
use wirebeat_report::model::{CaptureKind, FlowReport, Report};
use wirebeat_run::{
    Codec, LineOptions, LogForm, Options, PacketLogOptions, PacketLogRequest, Silent, Stop,
    prepare, report_log,
};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_wire::log::crude::CrudeLine;

use crate::world::{Engine, balanced, cable, ports, scratch_folder};

/// A log of its own for a test, gone at the end of it.
struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Log {
        let path = scratch_folder().join(format!("log-{name}.parquet"));
        let _ = fs::remove_file(&path);
        Log(path)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs two flows with a log, over a link in memory that does as `link` says, or over a cable.
fn run(engine: Engine, bed: Option<&Testbed>, log: &Log, (link, sent): (Link, bool)) -> Report {
    let flows = "flows:\n  one: { from: a, to: b, size: 64B, rate: 5kpps, count: 700 }\n  \
                 two: { from: a, to: b, size: 700B, rate: 1kpps, count: 140, packet: [ { ipv4: {} }, { udp: {} } ] }\n";
    let scenario = Scenario::from_yaml(&(ports(engine, "") + flows), "test").unwrap();
    let mut namespaces = BTreeMap::new();
    if let Some(bed) = bed {
        namespaces.insert("a".to_owned(), bed.a.namespace.clone());
        namespaces.insert("b".to_owned(), bed.b.namespace.clone());
    }
    let options = PacketLogOptions::of(log.0.clone()).unwrap();
    let packet_log = Some(PacketLogRequest { options, sent });
    let options = Options { namespaces, packet_log, loopback: link, ..Options::default() };
    let report = prepare(&scenario, options).unwrap().start(&mut Silent, &Stop::new());
    balanced(&report);
    report
}

/// What was received of each flow, as JSON.
fn received(report: &Report) -> Vec<(String, Value, Value)> {
    let of = |flow: &FlowReport| {
        let received = serde_json::to_value(&flow.received).unwrap();
        (flow.name.clone(), received, serde_json::to_value(flow.loss).unwrap())
    };
    report.flows.iter().map(of).collect()
}

fn makes_the_same_report(engine: Engine, bed: Option<&Testbed>, link: Link) {
    let log = Log::new(&format!("{engine:?}"));
    // what was lost behind the last that arrived is known by what was sent
    let report = run(engine, bed, &log, (link, true));
    let kept = report.captures.iter().find(|kept| kept.kind == CaptureKind::PacketLog).unwrap();
    assert_eq!((kept.lost, &kept.error), (0, &None), "{kept:?}");
    let again = report_log(&log.0).unwrap();
    for (run, again) in received(&report).iter().zip(&received(&again)) {
        assert_eq!(run.0, again.0);
        for (key, value) in run.1.as_object().unwrap() {
            if key == "rates" {
                // when the first was due is in no log, and frames of a late start are counted from then
                let rate = |of: &Value| of[key]["frames_per_second"].as_f64().unwrap();
                let (run, again) = (rate(&run.1), rate(&again.1));
                assert!((again / run - 1.0).abs() < 0.01, "{engine:?}: {run} and {again}");
                continue;
            }
            assert_eq!(value, &again.1[key], "{engine:?}: {key} of {}", run.0);
        }
        assert_eq!(run.2["frames"], again.2["frames"], "{engine:?}: loss of {}", run.0);
    }
}

#[test]
fn of_a_link_in_memory_that_loses_duplicates_and_swaps() {
    let link = Link { lose_every: 11, duplicate_every: 7, swap_every: 5, ..Link::default() };
    makes_the_same_report(Engine::Loopback, None, link);
}

#[test]
fn of_each_engine() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in [Engine::Packet, Engine::Kernel, Engine::Xdp, Engine::Socket] {
        makes_the_same_report(engine, Some(&cable()), Link::default());
    }
}

/// What leaves has rows, too, where that is asked for: as many as were sent.
#[test]
fn what_is_sent_is_in_it_where_that_is_asked_for() {
    let log = Log::new("sent");
    let report = run(Engine::Loopback, None, &log, (Link::default(), true));
    assert_eq!(report.captures[0].frames, 840 * 2);
    let again = report_log(&log.0).unwrap();
    assert_eq!(again.total.sent.as_ref().unwrap().sent.frames, 840);
    assert_eq!(again.total.received.as_ref().unwrap().unique, 840);
}

/// A run has the lines of another tool as well: on the link in memory, as many as arrived and what they say.
#[test]
fn lines_of_another_tool_are_of_each_packet_that_arrives() {
    let file = scratch_folder().join("lines-of-loopback.log");
    let _ = fs::remove_file(&file);
    let flows = "flows: { x: { from: a, to: b, size: 200B, rate: 5kpps, count: 300, packet: [ { ipv4: \
                 { destination: 10.0.0.2 } }, { udp: { destination: 5001 } } ] } }\n";
    let scenario = Scenario::from_yaml(&(ports(Engine::Loopback, "") + flows), "test").unwrap();
    let lines = LineOptions { codecs: vec![Codec::Wirebeat], ..LineOptions::default() };
    let options = PacketLogOptions {
        form: LogForm::Crude,
        file: Some(file.clone()),
        overwrite: false,
        lines,
    };
    let packet_log = Some(PacketLogRequest { options, sent: false });
    let loopback = Link { lose_every: 10, duplicate_every: 7, ..Link::default() };
    let options = Options { packet_log, loopback, ..Options::default() };
    let report = prepare(&scenario, options).unwrap().start(&mut Silent, &Stop::new());
    balanced(&report);
    let log = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let arrived = report.total.received.as_ref().unwrap();
    assert!(arrived.unique < 300 && arrived.duplicates > 0, "{arrived:?}");
    let lines: Vec<_> = log.lines().map(|line| CrudeLine::parse(line).unwrap().0).collect();
    assert_eq!(lines.len() as u64, arrived.received.frames);
    let numbers: BTreeSet<_> = lines.iter().map(|line| line.sequence).collect();
    assert_eq!(numbers.len() as u64, arrived.unique);
    for line in &lines {
        assert_eq!((line.destination, line.size), (([10, 0, 0, 2], 5001).into(), 154), "{line:?}");
    }
}

/// A log that is there is not written over, and nothing is sent.
#[test]
fn a_log_that_is_there_is_refused() {
    let log = Log::new("there");
    fs::write(&log.0, "precious").unwrap();
    let scenario = Scenario::from_yaml(
        "ports: { a: { engine: loopback }, b: { engine: loopback } }\n\
         flows: { x: { from: a, to: b, rate: 1kpps, count: 3 } }\n",
        "test",
    );
    let options = PacketLogOptions::of(log.0.clone()).unwrap();
    let packet_log = Some(PacketLogRequest { options, sent: false });
    let refused = prepare(&scenario.unwrap(), Options { packet_log, ..Options::default() });
    let why = refused.map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("is there already"), "{why}");
    assert_eq!(fs::read(&log.0).unwrap(), b"precious");
}
