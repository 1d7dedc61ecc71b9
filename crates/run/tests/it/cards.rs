//! What the report says of cards and their queues, held against what `ethtool` and the kernel say of the same run: over
//! virtual cables, and on the cards of a guest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread, time};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use wirebeat_engine_linux::affinity;
use wirebeat_engine_linux::scheduling::{Priority, ThreadOrders};
use wirebeat_report::model::{
    Card, CounterMeaning, CounterSource, FindingKind, QueueChoice, Report, Station,
};
use wirebeat_run::{Silent, Stop};
use wirebeat_testbed::{
    Capability, End, Neighbours, Options, Output, Program, Testbed, has_cards, require,
};

use crate::world::{Engine, balanced, cable, ports, prepared, run, tried};

/// Runs a program at an end; its standard output.
fn at(end: &End, program: &str, arguments: &[&str]) -> Output {
    let output = Program::new(&end.namespace, program).args(arguments);
    output.output(Duration::from_secs(20)).unwrap()
}

/// The sum of the counters of that name in `ethtool -S`, without the blanks before it.
fn counted(end: &End, name: &str) -> u64 {
    let output = at(end, "ethtool", &["-S", end.interface()]).stdout;
    let lines = output.lines().filter_map(|line| line.trim().rsplit_once(": "));
    lines.filter(|(named, _)| *named == name).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

fn card(station: &Station) -> &Card {
    station.card.as_ref().unwrap_or_else(|| panic!("{station:#?}"))
}

fn finding(report: &Report, kind: FindingKind) -> Option<&str> {
    let mut of = report.findings.iter().filter(|finding| finding.kind == kind);
    of.next().map(|finding| finding.message.as_str())
}

/// A flow from a to b, sent by `sender` with these keys at port a and received by the kernel engine.
fn flow(sender: &str, more: &str, flow: &str) -> String {
    format!(
        "ports:
  a: {{ interface: wb0, namespace: a, engine: {sender}, speed: 400Gbps{more} }}
  b: {{ interface: wb1, namespace: b, engine: kernel, speed: 400Gbps }}
flows:
  f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], {flow} }}
"
    )
}

#[test]
fn frames_leave_by_the_transmit_queue_that_was_asked_for() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    for queue in 0..affinity::allowed().len().min(2) as u32 {
        let keys = format!(", transmit-queues: [{queue}]");
        let report = run(&flow("packet", &keys, "rate: 1kpps, count: 300, size: 100B"), Some(&bed));
        balanced(&report);
        let sender = &report.senders[0];
        // what left by a queue of a virtual cable comes in by the same queue of its other end
        let there =
            |card: &Card, of: fn(&wirebeat_report::model::QueueFrames) -> u64| -> Vec<u32> {
                let used = card.queues.iter().filter(|one| of(one) >= 300);
                used.map(|one| one.queue).collect()
            };
        if sender.transmit_queues == Some(1) {
            // a card with one queue: there is nothing to choose
            assert_eq!(sender.threads[0].transmit_queue.as_ref().unwrap().by, QueueChoice::Only);
            if card(sender).driver.as_deref() == Some("virtio_net") {
                // counted by itself (Linux 6.1), and since 6.10 for the kernel
                assert_eq!(there(card(sender), |one| one.sent), [0], "{:#?}", card(sender));
            }
            return;
        }
        let chosen = sender.threads[0].transmit_queue.as_ref().unwrap();
        assert_eq!(chosen.queues, [queue], "{sender:#?}");
        if !has_cards() {
            assert_eq!(chosen.by, QueueChoice::Xps);
        }
        let driver = card(sender).driver.as_deref().unwrap();
        match driver {
            "veth" => assert_eq!(there(card(&report.receivers[0]), |one| one.received), [queue]),
            "igb" => assert_eq!(there(card(sender), |one| one.sent), [queue]),
            // others count by other names, or not at all
            _ => {}
        }
    }
}

#[test]
fn several_queues_have_a_thread_each() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames, Capability::VirtualCable);
    let bed = cable();
    if affinity::allowed().len() < 2 {
        return;
    }
    let report =
        run(&flow("packet", ", transmit-queues: [1, 0]", "count: 2000, size: 100B"), Some(&bed));
    let threads = &report.senders[0].threads;
    let queues: Vec<&[u32]> =
        threads.iter().map(|one| &one.transmit_queue.as_ref().unwrap().queues[..]).collect();
    assert_eq!(queues, [[1], [0]]);
    let received = &card(&report.receivers[0]).queues;
    assert_eq!(received.iter().map(|one| one.queue).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(received.iter().map(|one| one.received).sum::<u64>(), 2000, "{received:?}");
}

#[test]
fn a_transmit_queue_that_nobody_can_send_by_is_refused_with_the_remedy() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let refused = |engine: &str, queue: u32| {
        let keys = format!(", transmit-queues: [{queue}]");
        let text = flow(engine, &keys, "count: 1").replace("engine: kernel", "engine: packet");
        tried(&text, Some(&bed)).map(|_| ()).unwrap_err()
    };
    let beyond = refused("packet", 77);
    assert_eq!(beyond.exit_code(), 2);
    let why = beyond.to_string();
    assert!(why.contains("has no transmit queue 77: it has "), "{why}");
    assert!(why.contains("`ethtool -L wb0 combined 78`"), "{why}");
    if has_cards() || affinity::allowed().len() < 2 {
        return;
    }
    // all CPUs to queue 0
    let all = affinity::allowed().iter().fold(0_u64, |mask, cpu| mask | 1 << cpu);
    let script = format!(
        "mount -t sysfs sysfs /sys && cd /sys/class/net/wb0/queues && echo 0 > tx-1/xps_cpus && echo {all:x} > tx-0/xps_cpus"
    );
    let done = at(&bed.a, "unshare", &["--mount", "sh", "-c", &script]);
    assert!(done.status.success(), "{}", done.stderr);
    let none = refused("packet", 1);
    assert_eq!(none.exit_code(), 3);
    let why = none.to_string();
    assert!(
        why.contains("no CPU that this process may use sends by transmit queue 1 of wb0"),
        "{why}"
    );
    assert!(
        why.contains("/sys/class/net/wb0/queues/tx-1/xps_cpus`, and take it out of tx-0"),
        "{why}"
    );
}

/// A virtual cable drops frames that are too long for its other end, which counts them. Behind a bridge no sender is told.
#[test]
fn what_a_device_dropped_is_told_with_its_own_count() {
    require!(Capability::NetworkNamespaces, Capability::Program("ip"));
    let options = Options { neighbours: Neighbours::Fixed, ..Options::default() };
    let bed = Testbed::bridge(2, &options).unwrap();
    assert!(at(&bed.b, "ip", &["link", "set", "wb1", "mtu", "1280"]).status.success());
    let before = bed.b.netlink().unwrap().stats(bed.b.link.index).unwrap();
    let text = format!(
        "{}flows:
  long: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 1kpps, count: 150, size: 1400B }}
  short: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 1kpps, count: 100, size: 100B }}
",
        ports(Engine::Packet, "")
    );
    let report = run(&text, Some(&bed));
    balanced(&report);
    let after = bed.b.netlink().unwrap().stats(bed.b.link.index).unwrap();
    let dropped = after.rx_dropped - before.rx_dropped;
    assert_eq!(dropped, 150, "the cable dropped others than it was to");
    assert_eq!(report.total.loss.unwrap().frames, 150);
    let received = card(&report.receivers[0]);
    let counter = received.counters.iter().find(|counter| counter.name == "rx_dropped").unwrap();
    assert_eq!((counter.increase, counter.source), (dropped, CounterSource::Kernel));
    assert_eq!(counter.meaning, Some(CounterMeaning::DroppedByHost));
    // not for want of room in a card
    assert_eq!((received.dropped_in, finding(&report, FindingKind::CardDroppedIn)), (0, None));
    assert_eq!(card(&report.senders[0]).dropped_out, 0);
}

#[test]
fn a_device_that_drops_nothing_is_no_finding() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let report = run(&flow("packet", "", "rate: 1kpps, count: 300"), Some(&bed));
    balanced(&report);
    // the receiver's program ends them, which its device counts, and which is no loss
    assert_eq!(report.total.loss.unwrap().frames, 0);
    for kind in [FindingKind::CardDroppedIn, FindingKind::CardDroppedOut, FindingKind::CardChanged]
    {
        assert_eq!(finding(&report, kind), None);
    }
    assert_eq!(card(&report.receivers[0]).dropped_in, 0);
}

#[test]
fn queues_that_are_changed_during_a_run_are_told() {
    require!(
        Capability::NetworkNamespaces,
        Capability::VirtualCable,
        Capability::Program("ethtool")
    );
    let bed =
        Testbed::pair(&Options { queues: 2, neighbours: Neighbours::Fixed, ..Options::default() })
            .unwrap();
    assert!(at(&bed.b, "ethtool", &["-L", "wb1", "rx", "2"]).status.success());
    let text = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 1kpps, count: 600 }} }}\n",
        ports(Engine::Packet, "")
    );
    let prepared = prepared(&text, Some(&bed));
    let stop = Stop::new();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(time::Duration::from_millis(250));
            assert!(at(&bed.b, "ethtool", &["-L", "wb1", "rx", "1"]).status.success());
        });
        prepared.start(&mut Silent, &stop)
    });
    balanced(&report);
    assert_eq!(
        finding(&report, FindingKind::CardChanged).unwrap(),
        "settings of cards were changed during the run: receive queues of wb1 from 2 to 1; what was measured before and \
         after does not compare"
    );
}

/// It was "No space left on device", and no more.
#[test]
fn too_few_queues_are_refused_before_any_traffic_with_the_remedy() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::VirtualCable,
        Capability::Program("ethtool")
    );
    let bed =
        Testbed::pair(&Options { queues: 2, neighbours: Neighbours::Fixed, ..Options::default() })
            .unwrap();
    assert!(at(&bed.a, "ethtool", &["-L", "wb0", "tx", "2"]).status.success());
    assert!(at(&bed.b, "ethtool", &["-L", "wb1", "rx", "1"]).status.success());
    let error = tried(&flow("packet", "", "count: 1"), Some(&bed)).map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let why = error.to_string();
    assert!(
        why.contains("it has 1 receive queues, fewer than the other end has transmit queues"),
        "{why}"
    );
    assert!(why.contains("'ethtool -L wb1 rx N'"), "{why}");
    assert!(at(&bed.b, "ethtool", &["-L", "wb1", "rx", "2"]).status.success());
    balanced(&run(&flow("packet", "", "count: 1"), Some(&bed)));
}

/// The table that spreads what a card receives, and what came of it.
#[test]
fn the_table_of_receive_queues_is_in_the_report() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Driver("igb"),
        Capability::Program("ethtool")
    );
    let bed = cable();
    // a queue for each CPU, up to eight
    let usual = format!("equal over {} queues", affinity::allowed().len().min(8));
    for (arguments, summary) in [
        (&["-X", "wb1", "equal", "2"][..], "equal over 2 queues"),
        (&["-X", "wb1", "weight", "1", "3"][..], "queue 0: 25 %, queue 1: 75 %"),
        (&["-X", "wb1", "weight", "0", "1"][..], "all to queue 1"),
        (&["-X", "wb1", "default"][..], usual.as_str()),
    ] {
        let set = at(&bed.b, "ethtool", arguments);
        assert!(set.status.success(), "{}", set.stderr);
        let text = format!(
            "{}flows:
  f: {{ from: a, to: b, rate: 1kpps, count: 400, packet: [ {{ ipv4: {{ destination: {{ random: [10.77.0.3, 10.77.0.120] }} }} }},
       {{ udp: {{ source: {{ random: [2000, 60000] }} }} }} ] }}
",
            ports(Engine::Packet, ", next-hop: \"52:54:00:00:00:02\"")
        );
        let before: Vec<u64> =
            (0..2).map(|queue| counted(&bed.b, &format!("rx_queue_{queue}_packets"))).collect();
        let report = run(&text, Some(&bed));
        let received = card(&report.receivers[0]);
        let rss = received.rss.as_ref().unwrap();
        assert_eq!((rss.summary.as_str(), rss.hash.as_deref()), (summary, Some("toeplitz")));
        assert_eq!(received.driver.as_deref(), Some("igb"));
        assert_eq!(received.rings.unwrap().receive_max, Some(4096));
        // what came in by each queue, by ethtool and by the report
        for (queue, before) in (0..).zip(before) {
            let by_ethtool = counted(&bed.b, &format!("rx_queue_{queue}_packets")) - before;
            let one = received.queues.iter().find(|one| one.queue == queue);
            assert_eq!(one.map_or(0, |one| one.received), by_ethtool, "{summary}: {queue}");
        }
        let share = |queue: u32| {
            received.queues.iter().find(|one| one.queue == queue).map_or(0, |one| one.received)
        };
        if summary.starts_with("all to") {
            assert_eq!(share(0), 0);
        } else if summary.starts_with("queue 0: 25") {
            assert!(share(1) > share(0), "{:?}", received.queues);
        }
    }
}

/// Says that something is over, however that came about.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has the kernel empty the rings of an end in threads of their own, on the first CPU.
fn poll_on_the_first_cpu(end: &End) {
    let script = format!(
        "mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/{}/threaded",
        end.interface()
    );
    let done = at(end, "unshare", &["--mount", "sh", "-c", &script]);
    assert!(done.status.success(), "{}", done.stderr);
    let mut first = CpuSet::new();
    first.set(0);
    let mut threads = 0;
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let id = process.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if let Some(id) = id.filter(|_| name.starts_with(&format!("napi/{}", end.interface()))) {
            sched_setaffinity(Some(id), &first).unwrap();
            threads += 1;
        }
    }
    assert!(threads > 0, "no thread empties the rings of {}", end.interface());
}

/// vmxnet3 drops what comes in while no buffer is free, and counts it. Its counters are the report's.
#[test]
fn what_a_card_dropped_is_told_with_its_own_count() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Driver("vmxnet3"),
        Capability::Program("ethtool")
    );
    let bed = cable();
    let set = at(&bed.b, "ethtool", &["-G", "wb1", "rx", "32"]);
    assert!(set.status.success(), "{}", set.stderr);
    let text = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], count: 30000, size: 64B }} }}\n",
        ports(Engine::Packet, ", cores: [1]")
    );
    poll_on_the_first_cpu(&bed.b);
    let before = counted(&bed.b, "pkts rx OOB");
    let over = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let _over = Over(&over);
        // keeps the kernel from the ring for 0.95 of each second
        scope.spawn(|| {
            let first = ThreadOrders {
                cpus: vec![0],
                priority: Priority::Realtime,
                ..ThreadOrders::default()
            };
            let _applied = first.apply().unwrap();
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        run(&text, Some(&bed))
    });
    let by_ethtool = counted(&bed.b, "pkts rx OOB") - before;
    balanced(&report);
    assert!(by_ethtool > 0, "the card dropped nothing");
    assert_eq!(card(&report.receivers[0]).dropped_in, by_ethtool);
    let received = card(&report.receivers[0]);
    assert_eq!(received.rings.unwrap().receive, Some(32));
    let lost = report.total.loss.unwrap().frames;
    assert!(lost >= by_ethtool, "lost {lost}, the card dropped {by_ethtool}");
    let why = finding(&report, FindingKind::CardDroppedIn).unwrap();
    assert!(why.contains("`ethtool -G wb1 rx "), "{why}");
}

#[test]
fn a_ring_that_is_changed_during_a_run_is_told() {
    require!(
        Capability::NetworkNamespaces,
        Capability::Driver("igb"),
        Capability::Program("ethtool")
    );
    let bed = cable();
    let text = format!(
        "{}flows: {{ f: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 50pps, count: 300 }} }}\n",
        ports(Engine::Packet, "")
    );
    let prepared = prepared(&text, Some(&bed));
    let stop = Stop::new();
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(time::Duration::from_millis(1500));
            assert!(at(&bed.b, "ethtool", &["-G", "wb1", "rx", "512"]).status.success());
        });
        prepared.start(&mut Silent, &stop)
    });
    let why = finding(&report, FindingKind::CardChanged).unwrap();
    assert!(why.contains("receive ring of wb1 from 256 to 512"), "{why}");
    assert!(at(&bed.b, "ethtool", &["-G", "wb1", "rx", "256"]).status.success());
}

/// vmxnet3 switched it off when a program was attached, and it was off ever after.
#[test]
fn a_card_that_joins_segments_is_refused_before_any_traffic_and_left_as_it_is() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Driver("vmxnet3"),
        Capability::Program("ethtool")
    );
    let bed = cable();
    let lro = || {
        let mut features = bed.b.netlink().unwrap().features(bed.b.link.index).unwrap().into_iter();
        features.find(|feature| feature.name == "rx-lro").unwrap().active
    };
    let set = at(&bed.b, "ethtool", &["-K", "wb1", "lro", "on"]);
    assert!(set.status.success() && lro(), "{}", set.stderr);
    let error = tried(&flow("packet", "", "count: 1"), Some(&bed)).map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let why = error.to_string();
    assert!(why.contains("the card joins segments (LRO)"), "{why}");
    assert!(why.contains("'ethtool -K wb1 lro off'"), "{why}");
    assert!(lro(), "the refusal switched it off");
    assert!(at(&bed.b, "ethtool", &["-K", "wb1", "lro", "off"]).status.success());
    balanced(&run(&flow("packet", "", "count: 1"), Some(&bed)));
}
