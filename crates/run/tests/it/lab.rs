//! A lab: many runs on ports that stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use wirebeat_run::{Lab, Observer, Options, Progress, Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::{FlowSpec, Scenario};
use wirebeat_units::Nanos;

use crate::world::{Engine, balanced, cable, ports};

/// How many runs one lab serves.
const RUNS: u64 = 200;
/// Runs after which all that a process keeps for the next one is there.
const WARM: u64 = 20;
/// Frames of a run: those of 50 ms.
const FRAMES: u64 = 100;
/// Which engine the process of a test is to try.
const ENGINE: &str = "WIREBEAT_TEST_LAB";

fn lab(engine: Engine, bed: Option<&Testbed>) -> (Lab, Scenario) {
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ], size: 64B, \
         rate: 2kpps }}\nrun: {{ settle: 5ms, interval: 10ms }}\n",
        ports(engine, "")
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let mut namespaces = BTreeMap::new();
    if let Some(bed) = bed {
        namespaces.insert("a".to_owned(), bed.a.namespace.clone());
        namespaces.insert("b".to_owned(), bed.b.namespace.clone());
    }
    let options = Options { namespaces, ..Options::default() };
    (Lab::open(&scenario, options).unwrap_or_else(|error| panic!("{error}")), scenario)
}

/// Open files of this process, and the links by which its XDP programs are attached.
fn open_files() -> (usize, Vec<String>) {
    let entries: Vec<_> = fs::read_dir("/proc/self/fdinfo").unwrap().flatten().collect();
    let texts = entries.iter().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let attached = texts.filter(|text| text.contains("link_type:\txdp"));
    let id =
        |text: String| text.lines().find(|line| line.starts_with("link_id:")).map(str::to_owned);
    let mut links: Vec<String> = attached.filter_map(id).collect();
    links.sort();
    (entries.len(), links)
}

/// The sockets, maps, programs and links of the kernel that this process has: each has a number that no other gets.
fn kernel_objects() -> BTreeSet<String> {
    let mut objects = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        if target.starts_with("socket:") || target.starts_with("net:") {
            objects.insert(target);
        }
        let information = format!("/proc/self/fdinfo/{}", entry.file_name().display());
        let text = fs::read_to_string(information).unwrap_or_default();
        let numbered = |line: &&str| {
            ["map_id:", "prog_id:", "link_id:"].iter().any(|name| line.starts_with(name))
        };
        objects.extend(text.lines().filter(numbered).map(str::to_owned));
    }
    objects
}

/// Looks at what is open while a run lasts.
#[derive(Default)]
struct Opened(BTreeSet<String>);

impl Observer for Opened {
    fn progress(&mut self, _progress: &Progress) {
        self.0 = kernel_objects();
    }
}

/// Memory of this process that is in use, in bytes.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn many_runs(engine: Engine, bed: Option<&Testbed>) {
    let (mut lab, scenario) = lab(engine, bed);
    let mut first: Option<BTreeSet<String>> = None;
    let mut run = || {
        let time = Some(Nanos::from_millis(50));
        let mut opened = Opened::default();
        let report = lab.run(scenario.flows.clone(), time, &mut opened, &Stop::new()).unwrap();
        // those of this run alone: that they add up to its total is among its books. They begin with the
        // first in which something happened, which on a busy machine is not the first of the run.
        let begin = report.intervals.first().map_or(u64::MAX, |interval| interval.from_ns);
        let end = report.intervals.last().map_or(0, |interval| interval.to_ns);
        assert!(begin < end && (40_000_000..1_000_000_000).contains(&end), "{begin} to {end}");
        // a run after the first opens nothing
        assert_eq!(&opened.0, first.get_or_insert(opened.0.clone()), "{engine:?}");
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap();
        let received = report.total.received.as_ref().unwrap();
        assert_eq!(sent.requested.frames, FRAMES, "{report:#?}");
        assert_eq!(
            received.unique + report.flows[0].loss.as_ref().unwrap().frames,
            sent.sent.frames
        );
        // what an earlier run left on the way is not of this one
        assert_eq!((received.duplicates, received.implausible), (0, 0), "{report:#?}");
        received.unique
    };
    let mut arrived: u64 = (0..WARM).map(|_| run()).sum();
    let (before, bytes) = (open_files(), memory());
    arrived += (WARM..RUNS).map(|_| run()).sum::<u64>();
    assert_eq!(open_files(), before, "{engine:?}: open files and attached programs");
    let grown = memory().saturating_sub(bytes);
    assert!(grown < 4 << 20, "{engine:?}: {grown} bytes more after {RUNS} runs");
    // the machine may keep a receiver from its CPU, but not for half of all frames
    assert!(arrived > RUNS * FRAMES / 2, "{engine:?}: {arrived} frames arrived");
}

/// Files and memory are those of a process, and other tests of this one have their own.
fn in_a_process_of_its_own(engine: Engine) {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command.args(["lab::runs_of_the_engine_that_is_named", "--exact", "--nocapture"]);
    let ended = command.env(ENGINE, engine.name()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// The process of the tests below; by itself it tries nothing.
#[test]
fn runs_of_the_engine_that_is_named() {
    let Ok(name) = std::env::var(ENGINE) else { return };
    let all = [Engine::Loopback, Engine::Kernel, Engine::Packet, Engine::Socket, Engine::Xdp];
    let engine = all.into_iter().find(|engine| engine.name() == name).unwrap();
    let bed = (engine != Engine::Loopback).then(cable);
    many_runs(engine, bed.as_ref());
}

#[test]
fn loopback_serves_many_runs() {
    in_a_process_of_its_own(Engine::Loopback);
}

#[test]
fn kernel_serves_many_runs() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    in_a_process_of_its_own(Engine::Kernel);
}

#[test]
fn packet_serves_many_runs() {
    require!(Capability::NetworkNamespaces);
    in_a_process_of_its_own(Engine::Packet);
}

#[test]
fn socket_serves_many_runs() {
    require!(Capability::NetworkNamespaces);
    in_a_process_of_its_own(Engine::Socket);
}

#[test]
fn xdp_serves_many_runs() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    in_a_process_of_its_own(Engine::Xdp);
}

/// Flows of a run that cannot be sent leave the lab as it was.
#[test]
fn a_run_that_is_refused_leaves_the_lab_as_it_was() {
    let (mut lab, scenario) = lab(Engine::Loopback, None);
    let stop = Stop::new();
    let time = Some(Nanos::from_millis(50));
    let wrong = [("x".to_owned(), FlowSpec::from_port("nowhere"))];
    let refused = lab.run(wrong, time, &mut Silent, &stop).unwrap_err();
    assert_eq!(refused.exit_code(), 2, "{refused}");
    let other = scenario.flows.into_iter().map(|(_, flow)| ("other".to_owned(), flow));
    let report = lab.run(other, time, &mut Silent, &stop).unwrap();
    balanced(&report);
    assert_eq!(report.flows[0].name, "other");
    assert_eq!(report.total.received.unwrap().unique, FRAMES);
}

/// What arrives between two runs is counted by neither, though nothing but its time tells it from their frames.
fn frames_between_runs(engine: Engine) {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let text = format!(
        "{}flows:\n  x: {{ from: a, to: b, probe: off, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ source: 5001, destination: 9001 }} \
         }} ], size: 64B, rate: 2kpps }}\nrun: {{ settle: 20ms }}\n",
        ports(engine, "")
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    let namespaces =
        [("a", &bed.a), ("b", &bed.b)].map(|(name, end)| (name.to_owned(), end.namespace.clone()));
    let options = Options { namespaces: namespaces.into(), ..Options::default() };
    let mut lab = Lab::open(&scenario, options).unwrap_or_else(|error| panic!("{error}"));
    // a socket that rests has its port
    let source = if engine == Engine::Socket { 5002 } else { 5001 };
    let stranger = || UdpSocket::bind((bed.a.ipv4, source)).unwrap();
    let stranger = bed.a.namespace.run(stranger).unwrap();
    for _ in 0..5 {
        // long beside what keeps a sender of a busy machine from its start
        let time = Some(Nanos::from_millis(200));
        let report = lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new()).unwrap();
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap().sent.frames;
        let received = report.total.received.as_ref().unwrap().received.frames;
        assert!(received <= sent, "{received} frames of {sent}");
        assert!(received > sent / 2, "{received} frames of {sent}");
        for _ in 0..1000 {
            stranger.send_to(&[0; 18], (bed.b.ipv4, 9001)).unwrap();
        }
    }
}

#[test]
fn frames_between_runs_are_of_none_by_packets() {
    frames_between_runs(Engine::Packet);
}

#[test]
fn frames_between_runs_are_of_none_by_sockets() {
    frames_between_runs(Engine::Socket);
}

#[test]
fn frames_between_runs_are_of_none_by_af_xdp() {
    require!(Capability::XdpLiveFrames);
    frames_between_runs(Engine::Xdp);
}

/// Each run sends other flows than the one before, the other way round, or longer frames.
#[test]
fn runs_of_other_flows_follow_each_other() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for engine in [Engine::Kernel, Engine::Packet, Engine::Socket, Engine::Xdp] {
        let bed = cable();
        let (mut lab, _) = lab(engine, Some(&bed));
        let flow = |text: &str| {
            let text = format!("{}flows:\n  x: {{ {text} }}\n", ports(engine, ""));
            Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}")).flows
        };
        let udp = |source: u16, destination: u16| {
            format!(
                "packet: [ {{ ipv4: {{}} }}, {{ udp: {{ source: {source}, destination: {destination} }} }} ], rate: 2kpps, count: 40"
            )
        };
        let runs = [
            format!("from: a, to: b, size: 64B, {}", udp(5001, 9001)),
            format!("from: a, to: b, size: 1518B, {}", udp(5001, 9001)),
            // the addresses of before, at the other end
            format!("from: b, to: a, size: 64B, {}", udp(9001, 5001)),
            format!("from: a, to: b, size: 64B, {}", udp(5001, 9001)),
            format!("from: a, to: b, size: 64B, burst: 5, {}", udp(5001, 9002)),
            format!("from: a, to: b, size: 64B, departures: exponential, {}", udp(5001, 9001)),
        ];
        for _ in 0..2 {
            for run in &runs {
                // each ends with its count, after some 20 ms
                let time = Some(Nanos::from_secs(5));
                let report = lab.run(flow(run), time, &mut Silent, &Stop::new());
                let report = report.unwrap_or_else(|error| panic!("{engine:?}, {run}: {error}"));
                balanced(&report);
                let (sent, received) = (report.total.sent.unwrap(), report.total.received.unwrap());
                assert_eq!(sent.sent.frames, 40, "{engine:?}, {run}");
                assert_eq!(
                    (received.duplicates, received.implausible),
                    (0, 0),
                    "{engine:?}, {run}"
                );
                assert!(received.unique > sent.sent.frames / 2, "{engine:?}, {run}");
            }
        }
    }
}
