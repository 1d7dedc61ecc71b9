//! The engine xdp: what is refused before any traffic, and that a lab sends by it again and again.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{TxMeta, TxPlan, TxPort, TxTotals};
use wirebeat_engine_linux::xdp::{XdpCopy, XdpOptions, XdpQueue, XdpTx};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_units::{BufferLen, Nanos};

use crate::world::{Engine, balanced, cable, cable_with_queues, ports, run, tried};

const PLAN: TxPlan = TxPlan {
    tags: 1,
    frame_max: BufferLen::new(60),
    frame_len: Some(BufferLen::new(60)),
    paced: false,
    cut: false,
    unix_offset: 0,
    round: 0,
};

fn open(bed: &Testbed, plan: TxPlan, options: XdpOptions) -> Result<XdpTx, String> {
    let open = || XdpTx::open(&mut XdpQueue::open("wb0", options)?, &plan);
    bed.a.namespace.run(open).unwrap().map_err(|error| error.to_string())
}

/// Why a scenario is refused, before any traffic.
fn refused(text: &str, bed: &Testbed) -> String {
    match tried(text, Some(bed)) {
        Err(error) => error.to_string(),
        Ok(prepared) => format!("{:?}", prepared.start(&mut Silent, &Stop::new()).end),
    }
}

fn flow(more: &str, count: u32) -> String {
    format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: {count} }} }}\n",
        ports(Engine::Xdp, more)
    )
}

#[test]
fn a_queue_that_is_not_there_or_in_use_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let why = open(&bed, PLAN, XdpOptions { queue: 500, ..XdpOptions::default() }).unwrap_err();
    assert!(why.contains("no queue 500") && why.contains("'ethtool -L wb0 combined 501'"), "{why}");
    let held = open(&bed, PLAN, XdpOptions::default()).unwrap();
    assert!(held.caps().mode.starts_with("AF_XDP, copy"), "{}", held.caps().mode);
    let why = open(&bed, PLAN, XdpOptions::default()).unwrap_err();
    assert!(why.contains("another AF_XDP socket has its queue 0"), "{why}");
    drop(held);
    // the kernel frees the queue some time after that
    assert!(open(&bed, PLAN, XdpOptions::default()).is_ok());
}

#[test]
fn frames_that_no_chunk_holds_are_refused() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let long = TxPlan { frame_max: BufferLen::new(1600), frame_len: None, ..PLAN };
    let why = open(&bed, long, XdpOptions::default()).unwrap_err();
    assert!(why.contains("1604 bytes") && why.contains("MTU of 1500"), "{why}");
}

#[test]
fn a_receiver_of_long_frames_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    for (end, name) in [(&bed.a, "wb0"), (&bed.b, "wb1")] {
        let mtu = || Command::new("ip").args(["link", "set", name, "mtu", "9000"]).status();
        assert!(end.namespace.run(mtu).unwrap().unwrap().success());
    }
    // the driver takes no program then
    let why = refused(&flow("", 10), &bed);
    assert!(why.contains("refuses XDP programs") && why.contains("mtu 1500"), "{why}");
    // the stack does
    let generic = flow("", 10).replace("engine: xdp", "engine: xdp, xdp-mode: generic");
    let why = refused(&generic, &bed);
    assert!(why.contains("MTU of 9000") && why.contains("ip link set wb1 mtu"), "{why}");
}

#[test]
fn more_senders_than_queues_are_refused_before_any_traffic() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable_with_queues(1);
    let why = refused(&flow(", cores: [0, 1]", 10), &bed);
    assert!(why.contains("has 2 senders, and wb0 has 1 transmit queue:"), "{why}");
    let why = refused(&flow(", transmit-queues: [3]", 10), &bed);
    assert!(why.contains("names transmit queue 3") && why.contains("combined 4"), "{why}");
    let why =
        refused(&flow("", 10).replace("engine: xdp }", "engine: xdp, receive-queues: 2 }"), &bed);
    assert!(why.contains("wb1 has 1 receive queue, and"), "{why}");
}

#[test]
fn a_mode_that_the_driver_does_not_offer_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let forced =
        |mode: &str| flow("", 10).replace("engine: xdp", &format!("engine: xdp, xdp-mode: {mode}"));
    let why = refused(&forced("zero-copy"), &bed);
    assert!(why.contains("offers none") && why.contains("'xdp-mode: copy'"), "{why}");
    // the driver itself is asked where a program says so
    let options = XdpOptions { copy: XdpCopy::Never, ..XdpOptions::default() };
    let why = open(&bed, PLAN, options).unwrap_err();
    assert!(
        why.contains("its driver refuses zero copy") && why.contains("'xdp-mode: auto'"),
        "{why}"
    );
    for (mode, program) in
        [("copy", "native XDP"), ("generic", "generic XDP"), ("auto", "native XDP")]
    {
        let report = run(&forced(mode), Some(&bed));
        balanced(&report);
        let said = &report.receivers[0].mode;
        assert!(said.contains("AF_XDP, copy") && said.contains(program), "{mode}: {said}");
    }
}

#[test]
fn threads_that_serve_the_queue_themselves_lose_nothing() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let text = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 2kpps, count: 1000 }} }}\n",
        ports(Engine::Xdp, "")
    );
    let report = run(&text.replace("engine: xdp", "engine: xdp, busy-poll: true"), Some(&bed));
    balanced(&report);
    assert_eq!(report.flows[0].received.as_ref().unwrap().unique, 1000);
    assert!(report.receivers[0].mode.contains("busy polling"), "{}", report.receivers[0].mode);
}

#[test]
fn a_program_of_somebody_else_is_left_where_it_is() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let other = || {
        wirebeat_engine_linux::kernel::Attachment::open(
            bed.b.link.index.get(),
            "wb1",
            wirebeat_engine_linux::kernel::XdpPlace::Best,
        )
    };
    let other = bed.b.namespace.run(other).unwrap().unwrap();
    let why = refused(&flow("", 10), &bed);
    assert!(
        why.contains("the xdp engine cannot run on wb1: another XDP program is attached"),
        "{why}"
    );
    drop(other);
    balanced(&run(&flow("", 10), Some(&bed)));
}

/// What is not measured goes on to the stack: a socket of the host receives while the run does.
#[test]
fn the_hosts_own_datagrams_pass_and_frames_with_probes_do_not() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let own = bed.b.namespace.run(|| UdpSocket::bind("0.0.0.0:9001")).unwrap().unwrap();
    own.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let other = bed.a.namespace.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let to = SocketAddr::new(bed.b.ipv4.into(), 9001);
    let text = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ],
  rate: 2kpps, count: 2000 }} }}\n",
        ports(Engine::Xdp, "")
    );
    let running = AtomicBool::new(true);
    let (report, sent) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0_u64;
            while running.load(Ordering::Relaxed) {
                sent += u64::from(other.send_to(b"a datagram of the host itself", to).is_ok());
                thread::sleep(Duration::from_millis(20));
            }
            sent
        });
        let report = run(&text, Some(&bed));
        running.store(false, Ordering::Relaxed);
        (report, sender.join().unwrap())
    });
    balanced(&report);
    let received = report.flows[0].received.as_ref().unwrap();
    assert_eq!((received.unique, received.duplicates), (2000, 0));
    let mut buffer = [0; 2000];
    let mut passed = 0;
    while let Ok(len) = own.recv(&mut buffer) {
        assert_eq!(&buffer[..len], b"a datagram of the host itself");
        passed += 1;
    }
    assert_eq!(passed, sent);
}

/// Frames of one port that leave by two queues come by two, and are read by two threads.
#[test]
fn each_queue_has_a_socket() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable_with_queues(2);
    for more in [", queues: 2", ", transmit-queues: [1, 0]"] {
        let text = format!(
            "{}flows:
  one: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9001 }} }} ], rate: 5kpps, count: 2000 }}
  two: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 9002 }} }} ], rate: 5kpps, count: 2000 }}
",
            ports(Engine::Xdp, more)
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        for flow in &report.flows {
            let received = flow.received.as_ref().unwrap();
            assert_eq!((received.unique, received.duplicates, received.reordered), (2000, 0, 0));
        }
        let station = &report.receivers[0];
        assert_eq!(station.threads.len(), 2);
        let mode = &station.mode;
        assert!(mode.contains("2 queues") && mode.contains("native XDP"), "{mode}");
        let queues: Vec<Vec<u32>> = report.senders[0]
            .threads
            .iter()
            .map(|thread| thread.transmit_queue.as_ref().unwrap().queues.clone())
            .collect();
        let expected = if more.contains("[1, 0]") { [[1], [0]] } else { [[0], [1]] };
        assert_eq!(queues, expected, "{more}");
    }
}

#[test]
fn the_same_queue_serves_one_run_after_the_other() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    for _ in 0..20 {
        let report = run(&flow("", 500), Some(&bed));
        balanced(&report);
        let sent = report.total.sent.as_ref().unwrap();
        assert_eq!((sent.sent.frames, sent.failed), (500, 0));
    }
}

/// Frames that cannot leave any more have failed, and the port says why.
#[test]
fn an_interface_that_is_switched_off_ends_the_port_with_its_counters() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let bed = cable();
    let mut port = open(&bed, PLAN, XdpOptions::default()).unwrap();
    let send = |port: &mut XdpTx, count: usize| {
        assert_eq!(port.reserve(count).unwrap(), count);
        for index in 0..count {
            port.slot(index)[..60].fill(0xff);
        }
        port.commit(&vec![TxMeta { len: 60, ..TxMeta::default() }; count]).unwrap();
        port.flush()
    };
    send(&mut port, 50).unwrap();
    let soon = MonotonicClock.now().saturating_add(Nanos::from_secs(5));
    assert!(port.drain(soon).unwrap());
    // by the same memory and ring, and from zero
    assert!(bed.a.namespace.run(|| port.rearm(&PLAN)).unwrap().unwrap());
    send(&mut port, 30).unwrap();
    assert!(port.drain(soon).unwrap());
    let down = || Command::new("ip").args(["link", "set", "wb0", "down"]).status();
    assert!(bed.a.namespace.run(down).unwrap().unwrap().success());
    let error = send(&mut port, 20).unwrap_err().to_string();
    assert!(error.contains("wb0 went down or was removed"), "{error}");
    let mut totals = [TxTotals::default()];
    port.totals(&mut totals);
    assert_eq!((totals[0].sent.frames, totals[0].failed.frames), (30, 20));
    // the kernel still has the last ones
    let up = || Command::new("ip").args(["link", "set", "wb0", "up"]).status();
    assert!(bed.a.namespace.run(up).unwrap().unwrap().success());
    assert!(!bed.a.namespace.run(|| port.rearm(&PLAN)).unwrap().unwrap());
    assert!(port.reserve(1).is_err());
}
