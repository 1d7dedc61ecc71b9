//! SIGKILL: nothing is left on the interfaces of a run, whenever it comes.
//!
//! The run is in a process of its own, this same program, which runs [`victim`]. It is killed while it opens its ports, while cards
//! reset, and while it sends.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_netlink::Namespace;
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, End, Process, Program, Testbed, has_cards, require};
use wirebeat_traffic::scenario::Scenario;

use super::{PATIENCE, command, note};
use crate::world::{Engine, balanced, cable, ports, run};

/// Where the victim finds its two namespaces: paths, with a comma.
const NAMESPACES: &str = "WIREBEAT_TEST_VICTIM";
/// What it says when its ports are open.
const READY: &str = "ready to be killed";

/// Which engine it sends and receives by.
const ENGINE: &str = "WIREBEAT_TEST_VICTIM_ENGINE";

fn scenario(engine: Engine) -> String {
    format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 500pps }} }}\n\
         run: {{ time: 300s }}\n",
        ports(engine, "")
    )
}

#[test]
#[ignore = "other tests start it, to kill it"]
fn victim() {
    let Ok(namespaces) = env::var(NAMESPACES) else { return };
    let (a, b) = namespaces.split_once(',').unwrap();
    let [a, b] = [a, b].map(|path| Namespace::open(Path::new(path)).unwrap());
    let name = env::var(ENGINE).unwrap();
    let engine = [Engine::Kernel, Engine::Xdp].into_iter().find(|engine| engine.name() == name);
    let scenario = Scenario::from_yaml(&scenario(engine.unwrap()), "victim").unwrap();
    let namespaces = [("a".to_owned(), a), ("b".to_owned(), b)].into();
    let prepared = prepare(&scenario, Options { namespaces, ..Options::default() });
    let prepared = prepared.unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{READY}");
    prepared.start(&mut Silent, &Stop::new());
}

fn start(bed: &Testbed, engine: Engine) -> Process {
    let path = |end: &End| {
        format!("/proc/{}/fd/{}", std::process::id(), end.namespace.as_fd().as_raw_fd())
    };
    let program = env::current_exe().unwrap();
    let name = concat!(module_path!(), "::victim").split_once("::").unwrap().1;
    Program::new(&bed.a.namespace, "env")
        .args([format!("{NAMESPACES}={},{}", path(&bed.a), path(&bed.b))])
        .args([format!("{ENGINE}={}", engine.name())])
        .args([program])
        .args([name, "--exact", "--ignored", "--nocapture"])
        .spawn()
        .unwrap()
}

/// How the interfaces of an end are: flags, MTU, promiscuity and programs, rings, queues, offloads.
fn state(end: &End) -> String {
    let links = command(&end.namespace, "ip -d link show");
    let mut netlink = end.netlink().unwrap();
    let index = end.link.index;
    let (rings, channels) = (netlink.rings(index).ok(), netlink.channels(index).ok());
    let (coalescing, features) = (netlink.coalescing(index).ok(), netlink.features(index).ok());
    format!("{links}{rings:?} {channels:?} {coalescing:?} {features:?}")
}

/// What lies in folders where programs leave things. On a machine that others use, that is not ours alone.
fn files() -> BTreeSet<String> {
    if !has_cards() {
        return BTreeSet::new();
    }
    let folders = ["/tmp", "/run", "/dev/shm", "/sys/fs/bpf", "/run/netns"];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    entries.flatten().map(|entry| entry.path().display().to_string()).collect()
}

#[test]
fn kills_leave_no_trace() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("setpriv")
    );
    kill(Engine::Kernel);
}

#[test]
fn kills_leave_no_trace_of_the_engine_xdp() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("setpriv")
    );
    kill(Engine::Xdp);
}

/// Kills runs of an engine all through their lives.
fn kill(engine: Engine) {
    let kills = if has_cards() { 50 } else { 10 };
    let bed = cable();
    let look = || [state(&bed.a), state(&bed.b)];
    let before = (look(), files());
    assert!(!before.0.iter().any(|state| state.contains("xdp/id")), "{before:?}");

    let begun = Instant::now();
    let first = start(&bed, engine);
    first.wait_for(READY, PATIENCE).unwrap();
    let opened = begun.elapsed();
    let during = look();
    // on a virtual cable the sender needs none
    assert!(during.iter().any(|state| state.contains("xdp")), "it has programs: {during:?}");
    drop(first);
    let (mut opening, mut sending) = (0, 1);
    for kill in 1..kills {
        gone(&before.0, &look, kill);
        let victim = start(&bed, engine);
        // how long it opens its ports depends on what else the machine does: every other kill waits until it sends
        if kill % 2 == 0 {
            victim.wait_for(READY, PATIENCE).unwrap();
        }
        thread::sleep(opened * kill / kills);
        match victim.wait_for(READY, Duration::ZERO) {
            Ok(()) => sending += 1,
            Err(error) => {
                assert!(!error.to_string().contains("panicked"), "{error}");
                opening += 1;
            }
        }
        victim.kill();
    }
    gone(&before.0, &look, kills);
    assert_eq!(files(), before.1);
    assert!(opening > 0 && sending > 1, "{opening} while it opened, {sending} while it sent");
    // and all works as before
    let report = run(
        &format!(
            "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 2kpps, count: 500 }} }}\n",
            ports(engine, "")
        ),
        Some(&bed),
    );
    balanced(&report);
    assert_eq!(report.total.loss.unwrap().frames, 0);
    note(&format!(
        "{kills} kills of the engine {} without a trace, {opening} while ports were opened and {sending} while frames were sent",
        engine.name()
    ));
}

/// Waits until the interfaces are as they were: cards reset when a program leaves.
fn gone(before: &[String; 2], look: &dyn Fn() -> [String; 2], kill: u32) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = look();
        if now == *before {
            return;
        }
        if Instant::now() > deadline {
            assert_eq!(&now, before, "after kill {kill}");
        }
        thread::sleep(Duration::from_millis(100));
    }
}
