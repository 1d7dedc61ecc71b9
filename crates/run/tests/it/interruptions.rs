//! What keeps a sender from its CPU is in the report.

use std::process::Command;
use std::thread;
use std::time::Duration;

use wirebeat_report::model::{Report, Station};
use wirebeat_testbed::{Capability, require};

use crate::world::{Engine, balanced, cable, ports, prepared, run};

fn scenario(engine: Engine, more: &str, rate: &str) -> String {
    format!(
        "{}flows:\n  x: {{ from: a, to: b, size: 64B{rate} }}\nrun: {{ time: 1500ms, wait: spin }}\n",
        ports(engine, more)
    )
}

fn sender(report: &Report) -> &Station {
    balanced(report);
    &report.senders[0]
}

#[test]
fn whoever_takes_the_cpu_of_a_sender_is_heard() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let prepared =
        prepared(&scenario(Engine::Kernel, ", cores: [0]", ", rate: 20kpps"), Some(&bed));
    let thief = thread::spawn(|| {
        thread::sleep(Duration::from_millis(150));
        // it ends by itself: nobody of its own priority would get that CPU to end it
        let count = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
        let busy = ["-f", "10", "taskset", "-c", "0", "sh", "-c", count];
        Command::new("chrt").args(busy).status().unwrap()
    });
    let report = prepared.start(&mut wirebeat_run::Silent, &wirebeat_run::Stop::new());
    assert!(thief.join().unwrap().success());
    let heard = sender(&report).interruptions.as_ref().unwrap();
    assert!(heard.listened_ns > 300_000_000, "{} ns", heard.listened_ns);
    let longest = heard.lengths_ns.max.unwrap();
    assert!((5_000_000..1_500_000_000).contains(&longest), "{longest} ns");
    let late = report.flows[0].sent.as_ref().unwrap().send_lateness_ns.max.unwrap();
    assert!(late > 5_000_000, "{late} ns");
}

#[test]
fn who_does_not_wait_by_itself_does_not_know() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    for (engine, rate) in [(Engine::Kernel, ""), (Engine::Packet, ", rate: 1kpps")] {
        let bed = cable();
        let report = run(&scenario(engine, "", rate), Some(&bed));
        assert_eq!(sender(&report).interruptions, None, "{engine:?}");
    }
}
