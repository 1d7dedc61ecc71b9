//! SIGKILL: nothing is left on the interfaces of a run, whenever it comes.
//!
//! The run is in a process of its own (`victim.rs`). It is killed while it opens its ports, while cards
//! reset, and while it sends.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_testbed::{Capability, End, has_cards, require};

use super::{PATIENCE, command, note};
use crate::victim::{READY, start};
use crate::world::{Engine, balanced, cable, ports, run};

fn scenario(engine: Engine) -> String {
    format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 500pps }} }}\n\
         run: {{ time: 300s }}\n",
        ports(engine, "")
    )
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
    let first = start(&bed, &scenario(engine));
    first.wait_for(READY, PATIENCE).unwrap();
    let opened = begun.elapsed();
    let during = look();
    // on a virtual cable the sender needs none
    assert!(during.iter().any(|state| state.contains("xdp")), "it has programs: {during:?}");
    drop(first);
    let (mut opening, mut sending) = (0, 1);
    for kill in 1..kills {
        gone(&before.0, &look, kill);
        let victim = start(&bed, &scenario(engine));
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
