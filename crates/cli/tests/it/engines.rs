//! Which interface and which engine a command takes where none is named, and what it says of it.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use wirebeat_testbed::{
    Capability, End, Neighbours, Options as Cable, Output, Process, Program, Testbed, Tunnel,
    require,
};

use crate::Scratch;

const PATIENCE: Duration = Duration::from_secs(60);

fn wirebeat(end: &End, line: &str) -> Process {
    let program = Program::new(&end.namespace, env!("CARGO_BIN_EXE_wirebeat"));
    program.args(line.split_whitespace()).spawn().unwrap()
}

fn ended(end: &End, line: &str) -> Output {
    wirebeat(end, line).wait(PATIENCE).unwrap()
}

/// `--engine packet --to ADDRESS` was refused without `--interface`, though the help promises the one on the way.
#[test]
fn the_interface_on_the_way_is_taken_and_named() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap();
    // whose program has the cable take the frames of the engine 'kernel'
    let receiver = wirebeat(&bed.b, "receive --interface wb1 --engine kernel --port 9");
    receiver.wait_for("receiving on wb1", PATIENCE).unwrap();
    let folder = Scratch::new("on-the-way");
    let json = folder.path("report.json");
    for engine in ["packet", "kernel", "auto"] {
        let line = format!(
            "send --to {} --engine {engine} --rate 2kpps --count 100 --json {json}",
            bed.b.ipv4
        );
        let run = ended(&bed.a, &line);
        assert_eq!(run.status.code(), Some(0), "{engine}: {run:?}");
        let told = format!("sends from wb0, the interface on the way to {}", bed.b.ipv4);
        assert!(run.stderr.contains(&told), "{engine}: {}", run.stderr);
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["senders"][0]["interface"], "wb0");
        let used = if engine == "auto" { "kernel" } else { engine };
        assert_eq!(report["senders"][0]["engine"], used);
    }
    receiver.interrupt();
    let arrived = receiver.wait(PATIENCE).unwrap();
    assert!(arrived.stdout.contains("300"), "{}", arrived.stdout);
    // who names it is not told
    let line = format!("send --to {} --interface wb0 --rate 1kpps --count 1", bed.b.ipv4);
    let named = ended(&bed.a, &line);
    assert!(!named.stderr.contains("on the way"), "{}", named.stderr);
    // where nothing leads, there is none to take
    let nowhere = ended(&bed.a, "send --to 192.0.2.1 --engine packet --rate 1kpps");
    assert_eq!(nowhere.status.code(), Some(3), "{nowhere:?}");
    assert!(nowhere.stderr.contains("route to 192.0.2.1"), "{}", nowhere.stderr);
}

/// On a link without Ethernet (tun, ppp, WireGuard) `auto` took an engine that cannot serve there, and failed.
#[test]
fn a_link_without_ethernet_is_served_by_sockets() {
    require!(Capability::NetworkNamespaces, Capability::Tun);
    let tunnel = Tunnel::new(&Cable::default()).unwrap();
    let [a, b] = [&tunnel.bed.a, &tunnel.bed.b];
    let key = "a-key-for-a-tunnel-5960";
    let address = format!("{}:5960", b.ipv4);
    let folder = Scratch::new("tunnel");
    let json = folder.path("report.json");
    for way in ["", "--interface wb0"] {
        let line = format!(
            "receive --interface wb1 --port 9 --listen {address} --key {key} --once --json {json}.b"
        );
        let receiver = wirebeat(b, &line);
        receiver.wait_for("listening on", PATIENCE).unwrap();
        let line = format!(
            "send --to {} {way} --rate 1kpps --count 500 --peer {address} --key {key} --json {json}",
            b.ipv4
        );
        let sent = ended(a, &line);
        assert_eq!(sent.status.code(), Some(0), "{sent:?}");
        let why = "uses the engine 'socket': interface wb0 does not carry Ethernet frames";
        assert!(sent.stderr.contains(why), "{}", sent.stderr);
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["senders"][0]["engine"], "socket");
        assert_eq!(report["total"]["received"]["unique"], 500, "{report:#}");
        let served = receiver.wait(PATIENCE).unwrap();
        let why = "the engine 'socket' receives: interface wb1 does not carry Ethernet frames";
        assert!(served.stderr.contains(why), "{}", served.stderr);
    }
}

#[test]
fn what_no_engine_can_send_on_a_tunnel_is_told_with_the_reason() {
    require!(Capability::NetworkNamespaces, Capability::Tun);
    let tunnel = Tunnel::new(&Cable::default()).unwrap();
    let (a, to) = (&tunnel.bed.a, tunnel.bed.b.ipv4);
    let reason = "interface wb0 does not carry Ethernet frames";
    for engine in ["packet", "kernel"] {
        for line in [
            format!("send --to {to} --rate 1kpps --engine {engine}"),
            format!("receive --interface wb0 --time 1s --engine {engine}"),
        ] {
            let refused = ended(a, &line);
            assert_eq!(refused.status.code(), Some(2), "{line}: {refused:?}");
            assert!(refused.stderr.contains(reason), "{line}: {}", refused.stderr);
            assert!(refused.stderr.contains("use the engine 'socket', or 'auto'"), "{line}");
        }
    }
    // sockets send UDP with fields that stay the same
    let folder = Scratch::new("no-engine");
    let scenario = format!(
        "ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, rate: 1kpps, packet: [ {{ ipv4: {{ destination: {{ increment: \
         {to}, count: 2 }} }} }}, {{ udp: {{}} }} ] }} }}\n"
    );
    let file = folder.file("varied.yaml", scenario.as_bytes());
    let refused = ended(a, &format!("run {file}"));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    assert!(!refused.stderr.contains("use the engine 'packet'"), "{}", refused.stderr);
}

#[test]
fn traffic_to_this_host_itself_is_sent_by_sockets_and_said_so() {
    let run = crate::line("send --to 127.0.0.1 --rate 1kpps --count 10");
    assert_eq!(run.code, 0, "{run:?}");
    let why = "uses the engine 'socket': 127.0.0.1 is an address of this host";
    assert!(run.err.contains(why), "{}", run.err);
}

#[test]
fn the_engine_null_sends_nowhere_and_is_not_received_with() {
    let folder = Scratch::new("null");
    let json = folder.path("report.json");
    let line =
        format!("send --to 192.0.2.1 --rate unlimited --engine null --count 5000 --json {json}");
    let sent = crate::run(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(sent.code, 0, "{sent:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["senders"][0]["engine"], "null");
    assert_eq!(report["total"]["sent"]["sent"]["frames"], 5000);
    let received = crate::run(&["receive", "--engine", "null", "--port", "9"]);
    assert_eq!(received.code, 2, "{received:?}");
    assert!(
        received.err.contains("the engine 'null' has no network to receive from"),
        "{received:?}"
    );
    assert!(
        received.err.contains("hint: use the engine 'kernel', 'packet', 'socket' or 'xdp'"),
        "{received:?}"
    );
}
