//! A lab: many runs on ports that stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use wirebeat_run::{Lab, Options, Silent, Stop};
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
         rate: 2kpps }}\nrun: {{ settle: 20ms }}\n",
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

/// Memory of this process that is in use, in bytes.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn many_runs(engine: Engine, bed: Option<&Testbed>) {
    let (mut lab, scenario) = lab(engine, bed);
    let mut run = || {
        let time = Some(Nanos::from_millis(50));
        let report = lab.run(scenario.flows.clone(), time, &mut Silent, &Stop::new()).unwrap();
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
    let all = [Engine::Loopback, Engine::Kernel, Engine::Packet, Engine::Socket];
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
