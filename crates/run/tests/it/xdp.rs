//! The engine xdp: what is refused before any traffic, and that a lab sends by it again and again.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, RxPort, TxMeta, TxPlan, TxPort, TxTotals};
use wirebeat_engine_linux::kernel::{Attachment, XdpBuffers, XdpPlace};
use wirebeat_engine_linux::packet::{Accept, PacketReceive, PacketRx};
use wirebeat_engine_linux::xdp::{
    Backlog, SteerOptions, Steering, XdpCopy, XdpOptions, XdpQueue, XdpRx, XdpTx,
};
use wirebeat_meter::filter::Filter;
use wirebeat_meter::meter::MeterConfig;
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
    let open = || XdpTx::open(&mut XdpQueue::open("wb0", options)?, &plan, None);
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

fn set_mtu(bed: &Testbed, mtu: &str) {
    for (end, name) in [(&bed.a, "wb0"), (&bed.b, "wb1")] {
        let set = || Command::new("ip").args(["link", "set", name, "mtu", mtu]).status();
        assert!(end.namespace.run(set).unwrap().unwrap().success());
    }
}

/// Whether the kernel has frames of several buffers (Linux 6.6): a sender on a link of long frames says so.
fn has_several_buffers(bed: &Testbed) -> bool {
    open(bed, PLAN, XdpOptions::default()).unwrap().caps().mode.contains("several buffers")
}

/// A cable whose MTU is 9000, where the kernel has frames of several buffers. Where it has none, long frames are refused, and that
/// is held instead.
fn jumbo_cable() -> Option<Testbed> {
    let bed = cable();
    set_mtu(&bed, "9000");
    if has_several_buffers(&bed) {
        return Some(bed);
    }
    let long = TxPlan { frame_max: BufferLen::new(9014), frame_len: None, ..PLAN };
    let why = open(&bed, long, XdpOptions::default()).unwrap_err();
    assert!(
        why.contains("send frames of 9018 bytes") && why.contains("a chunk of memory"),
        "{why}"
    );
    None
}

#[test]
fn a_receiver_of_frames_that_are_too_long_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    set_mtu(&bed, "9500");
    let generic = flow("", 10).replace("engine: xdp", "engine: xdp, xdp-mode: generic");
    let why = refused(&generic, &bed);
    if has_several_buffers(&bed) {
        assert!(why.contains("MTU of 9500 are longer than those of jumbo packets"), "{why}");
        assert!(why.contains("'ip link set wb1 mtu 9000'"), "{why}");
        return;
    }
    // the driver takes no program then
    let native = refused(&flow("", 10), &bed);
    assert!(native.contains("refuses XDP programs") && native.contains("mtu 1500"), "{native}");
    // the stack does
    assert!(why.contains("MTU of 9500 do not fit a chunk of memory"), "{why}");
    assert!(why.contains("'ip link set wb1 mtu 3822'"), "{why}");
}

/// Frames of one, two and three chunks in one run, by a program in the driver and in the stack.
#[test]
fn jumbo_frames_arrive_whole_beside_short_ones() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let Some(bed) = jumbo_cable() else { return };
    let sizes = [64_u64, 4100, 9018];
    for mode in ["copy", "generic"] {
        let mut text = ports(Engine::Xdp, "")
            .replace("engine: xdp", &format!("engine: xdp, xdp-mode: {mode}"));
        text += "flows:\n";
        for (number, size) in sizes.iter().enumerate() {
            text += &format!(
                "  f{number}: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: {} }} }} ], size: {size}B, \
                 rate: 1kpps, count: 500 }}\n",
                9000 + number
            );
        }
        let report = run(&text, Some(&bed));
        balanced(&report);
        for (flow, size) in report.flows.iter().zip(sizes) {
            let received = flow.received.as_ref().unwrap();
            assert_eq!((received.unique, received.duplicates), (500, 0), "{mode}, {size}");
            assert_eq!(received.received.frame_bytes, 500 * size, "{mode}");
            assert_eq!(received.one_way_delay_ns.as_ref().unwrap().count, 500);
        }
        for station in report.senders.iter().chain(&report.receivers) {
            assert!(station.mode.contains("frames of several buffers"), "{}", station.mode);
        }
    }
}

/// A UDP datagram to port 9000 in a frame of `len` bytes without FCS, each of which follows from its place and `number`.
fn datagram(len: usize, number: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251 + number) as u8).collect();
    let ip = ((len - 14) as u16).to_be_bytes();
    let udp = ((len - 34) as u16).to_be_bytes();
    frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, ip[0], ip[1], 0, 0, 0, 0, 64, 17]);
    frame[36..42].copy_from_slice(&[0x23, 0x28, udp[0], udp[1], 0, 0]);
    frame
}

/// Lengths around those of one, two and three chunks, at the sender (4096) and at the receiver (less 256).
const LENGTHS: [usize; 13] =
    [60, 1000, 3839, 3840, 3841, 4095, 4096, 4097, 7680, 7681, 8192, 8193, 9014];

/// What is built in several chunks leaves as one frame, and what comes in several arrives as one: byte for byte.
#[test]
fn frames_of_several_chunks_are_the_same_at_both_ends() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let Some(bed) = jumbo_cable() else { return };
    let receive = PacketReceive { accept: Accept::All, ..PacketReceive::default() };
    let open_packet = || PacketRx::open(bed.b.interface(), &receive, None);
    let mut beside = bed.b.namespace.run(open_packet).unwrap().unwrap();
    let meter = MeterConfig {
        filter: Filter { destination_port: Some(9000), ..Filter::default() },
        ..MeterConfig::default()
    };
    let plan = TxPlan { frame_max: BufferLen::new(9014), frame_len: None, ..PLAN };
    let mut sender = open(&bed, plan, XdpOptions::default()).unwrap();
    let soon = || MonotonicClock.now().saturating_add(Nanos::from_secs(5));
    let mut all = (0..40).flat_map(|round| LENGTHS.map(|len| datagram(len, round)));
    let mut send = |sender: &mut XdpTx, rounds: usize| -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        for _ in 0..rounds {
            let frames: Vec<Vec<u8>> = all.by_ref().take(LENGTHS.len()).collect();
            assert_eq!(sender.reserve(frames.len()).unwrap(), frames.len());
            let mut metas = Vec::new();
            for (index, frame) in frames.iter().enumerate() {
                sender.slot(index)[..frame.len()].copy_from_slice(frame);
                metas.push(TxMeta { len: frame.len() as u16, ..TxMeta::default() });
            }
            sender.commit(&metas).unwrap();
            sender.flush().unwrap();
            assert!(sender.drain(soon()).unwrap());
            sent.extend(frames);
        }
        sent
    };
    // by a packet socket, which sees what left
    let sent = send(&mut sender, 20);
    assert_eq!(arrived(&mut beside, sent.len()), sent);
    drop(beside);
    for place in [XdpPlace::Driver, XdpPlace::Stack] {
        let buffers = match place {
            XdpPlace::Stack => XdpBuffers::One,
            _ => XdpBuffers::Several,
        };
        let open = || {
            let on = (bed.b.link.index.get(), "wb1");
            let attachment = Arc::new(Attachment::open(on, place, buffers).unwrap());
            let steer = SteerOptions { queues: 1, ..SteerOptions::default() };
            let steering = Steering::begin(("wb1", attachment), &meter, steer).unwrap();
            let options = XdpOptions { receives: Some(Backlog::Short), ..XdpOptions::default() };
            let mut queue = XdpQueue::open("wb1", options).unwrap();
            XdpRx::open(&mut queue, &Arc::new(steering), None).unwrap()
        };
        let mut receiver = bed.b.namespace.run(open).unwrap();
        let sent = send(&mut sender, 10);
        assert_eq!(arrived(&mut receiver, sent.len()), sent, "{place:?}");
        assert_eq!(receiver.receive_drops(), 0);
    }
}

/// The first `count` frames to UDP port 9000 that arrive.
fn arrived(port: &mut impl RxPort, count: usize) -> Vec<Vec<u8>> {
    let until = MonotonicClock.now().saturating_add(Nanos::from_secs(10));
    let mut frames = Vec::new();
    while frames.len() < count && MonotonicClock.now() < until {
        let take = |arrival: &Arrival<'_>| {
            if arrival.bytes.get(36..38) == Some(&[0x23, 0x28]) {
                frames.push(arrival.bytes.to_vec());
            }
        };
        port.receive(until, take).unwrap();
    }
    frames
}

/// A lab sends long frames after short ones and the other way round by the same queue.
#[test]
fn the_same_queue_sends_frames_of_other_lengths_in_the_next_run() {
    require!(Capability::NetworkNamespaces);
    let Some(bed) = jumbo_cable() else { return };
    let long = TxPlan { frame_max: BufferLen::new(9014), frame_len: None, ..PLAN };
    let mut port = open(&bed, PLAN, XdpOptions::default()).unwrap();
    let soon = || MonotonicClock.now().saturating_add(Nanos::from_secs(5));
    for (plan, len) in [(PLAN, 60), (long, 9014), (PLAN, 60), (long, 5000)] {
        assert!(bed.a.namespace.run(|| port.rearm(&plan, None)).unwrap().unwrap());
        // more than there is room for at once
        for _ in 0..60 {
            let got = port.reserve(40).unwrap();
            assert_eq!(got, 40);
            let metas = vec![TxMeta { len, ..TxMeta::default() }; got];
            (0..got).for_each(|index| port.slot(index)[..usize::from(len)].fill(0xff));
            port.commit(&metas).unwrap();
            port.flush().unwrap();
            assert!(port.drain(soon()).unwrap());
        }
        let mut totals = [TxTotals::default()];
        port.totals(&mut totals);
        assert_eq!((totals[0].sent.frames, totals[0].failed.frames), (2400, 0), "{len}");
    }
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
    let other =
        || Attachment::open((bed.b.link.index.get(), "wb1"), XdpPlace::Best, XdpBuffers::One);
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
    assert!(bed.a.namespace.run(|| port.rearm(&PLAN, None)).unwrap().unwrap());
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
    assert!(!bed.a.namespace.run(|| port.rearm(&PLAN, None)).unwrap().unwrap());
    assert!(port.reserve(1).is_err());
}
