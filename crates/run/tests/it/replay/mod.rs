//! What was recorded and is sent again: the data of every record, at its time, in its order, on every engine.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pcap_file::pcapng::{Block, PcapNgParser};
use wirebeat_archive::time_series::{Device, Record, Timestamp, Writer};
use wirebeat_report::model::{End, FindingKind, Report};
use wirebeat_run::{Options, RunError, Silent, Stop, prepare};
use wirebeat_testbed::{Capability, require};
use wirebeat_traffic::scenario::Scenario;

mod apart;
mod changing;
mod disorder;
mod gaps;
mod members;
mod nothing;

use crate::interop::cable_to_a_program;
use crate::world::{balanced, cable, prepared, run};

/// 2015-07-01T18:20:30Z.
const BEGIN_US: i64 = 1_435_774_830_000_000;

/// A record: microseconds since the beginning, the device, the length of its data.
type Line = (i64, u8, usize);

/// The data of record `n`.
fn data(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|byte| (byte * 7 + n * 13 + 1) as u8).collect()
}

/// An archive with these records.
fn archive(name: &str, lines: &[Line]) -> PathBuf {
    let path = file(&format!("{name}.wbar"));
    let mut writer = Writer::new(Vec::new());
    for (n, &(us, device, len)) in lines.iter().enumerate() {
        let time = Timestamp::utc(BEGIN_US + us).unwrap();
        let device = format!("device-{device}").parse::<Device>().unwrap();
        writer.write(&Record { time, device, data: &data(n, len) }).unwrap();
    }
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

/// A file of a test, which does not exist yet.
fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{name}"));
    let _ = std::fs::remove_file(&path);
    path
}

/// Records of all lengths, some at the same time.
fn lines() -> Vec<Line> {
    let lens = [28, 0, 1, 1472, 70, 28, 29, 512];
    (0..400).map(|n| (n / 3 * 250, (n % 5) as u8, lens[n as usize % lens.len()])).collect()
}

/// Replays into a capture file: when each packet is due, its UDP source port, and its payload.
fn captured(name: &str, archive: &Path, keys: &str, flow: &str) -> Vec<(u64, u16, Vec<u8>)> {
    let (report, packets) = run_captured(name, archive, keys, flow);
    balanced(&report);
    assert_eq!(report.end, End::Completed);
    packets
}

fn scenario(archive: &Path, ports: &str, keys: &str, flow: &str) -> String {
    let packet = "packet: [ { ipv4: { source: 10.0.0.1, destination: 10.0.0.2 } }, { udp: { source: { increment: \
                  5000, count: 1000, per: sub-flow } } } ]";
    let packet = match keys.contains("flow-of") {
        true => packet.to_owned(),
        false => packet
            .replace(", per: sub-flow", "")
            .replace("{ increment: 5000, count: 1000 }", "5000"),
    };
    format!(
        "{ports}flows:\n  x: {{ from: a, {packet}, {flow} replay: {{ archive: '{}', {keys} }} }}\n",
        archive.display()
    )
}

fn run_captured(
    name: &str,
    archive: &Path,
    keys: &str,
    flow: &str,
) -> (Report, Vec<(u64, u16, Vec<u8>)>) {
    let capture = file(&format!("{name}.pcapng"));
    let ports =
        format!("ports: {{ a: {{ engine: pcap, mtu: 1500B, file: '{}' }} }}\n", capture.display());
    let report = run(&scenario(archive, &ports, keys, flow), None);
    (report, payloads(&std::fs::read(capture).unwrap()))
}

/// The UDP datagrams of a capture in IPv4 with 42 bytes of headers, with times from the first possible on.
fn payloads(bytes: &[u8]) -> Vec<(u64, u16, Vec<u8>)> {
    let (mut rest, mut parser) = PcapNgParser::new(bytes).unwrap();
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (next, block) = parser.next_block(rest).unwrap();
        rest = next;
        let Block::EnhancedPacket(packet) = block else { continue };
        let udp = &packet.data[34..];
        let len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
        let source = u16::from_be_bytes([udp[0], udp[1]]);
        let ns = packet.timestamp.as_nanos() as u64;
        all.push((ns, source, udp[8..len].to_vec()));
    }
    all
}

/// What lines are as packets, at `us` each.
fn expected(lines: &[Line], at: impl Fn(usize, i64) -> u64) -> Vec<(u64, u16, Vec<u8>)> {
    let packet = |(n, &(us, _, len)): (usize, &Line)| (at(n, us), 5000, data(n, len));
    lines.iter().enumerate().map(packet).collect()
}

fn from_first(mut packets: Vec<(u64, u16, Vec<u8>)>) -> Vec<(u64, u16, Vec<u8>)> {
    let first = packets.first().map_or(0, |packet| packet.0);
    packets.iter_mut().for_each(|packet| packet.0 -= first);
    packets
}

#[test]
fn every_record_leaves_at_its_own_time() {
    let lines = lines();
    let path = archive("times", &lines);
    let packets = from_first(captured("times", &path, "", ""));
    assert!(packets == expected(&lines, |_, us| us as u64 * 1000));
}

#[test]
fn faster_slower_and_without_times() {
    let lines = lines();
    let path = archive("speeds", &lines);
    for (keys, at) in [
        ("speed: 10x", &(|_: usize, us: i64| us as u64 * 100) as &dyn Fn(usize, i64) -> u64),
        ("speed: 0.5x", &|_, us| us as u64 * 2000),
        ("tight-loop: 3us", &|n, _| n as u64 * 3000),
    ] {
        let packets = from_first(captured("speeds", &path, keys, ""));
        assert!(packets == expected(&lines, at), "{keys}");
    }
    let packets = from_first(captured("speeds", &path, "tight-loop: 0", ""));
    let data = |packets: Vec<(u64, u16, Vec<u8>)>| {
        packets.into_iter().map(|packet| packet.2).collect::<Vec<_>>()
    };
    assert!(data(packets) == data(expected(&lines, |_, _| 0)));
}

#[test]
fn workers_buffers_and_readers_change_nothing() {
    let lines: Vec<Line> =
        (0..20_000).map(|n| (n * 2, (n % 7) as u8, 40 + n as usize % 50)).collect();
    let path = archive("workers", &lines);
    for keys in [
        "buffer: 128KiB",
        "buffer: 128KiB, workers: 3",
        "workers: 2",
        "reader: mmap",
        "reader: direct, buffer: 1MiB, workers: 2",
        "readers: 1",
        "readers: 1, reader: mmap, loop: 1",
    ] {
        let packets = from_first(captured("workers", &path, keys, ""));
        assert!(packets == expected(&lines, |_, us| us as u64 * 1000), "{keys}");
    }
}

/// Two buffers of which each has less than what a loop looks at once.
#[test]
fn buffers_may_hold_but_few_records() {
    let lines: Vec<Line> = (0..3000).map(|n| (n * 20, 0, 1472)).collect();
    let path = archive("few", &lines);
    for keys in ["buffer: 128KiB", "buffer: 128KiB, tight-loop: 0", "buffer: 128KiB, workers: 2"] {
        assert_eq!(captured("few", &path, keys, "").len(), lines.len(), "{keys}");
    }
}

#[test]
fn again_and_again_with_the_mean_gap_between() {
    let lines = [(0, 0, 20), (10, 1, 21), (30, 2, 22)];
    let path = archive("loop", &lines);
    let packets = from_first(captured("loop", &path, "loop: 3", ""));
    let times: Vec<u64> = packets.iter().map(|packet| packet.0 / 1000).collect();
    assert_eq!(times, [0, 10, 30, 45, 55, 75, 90, 100, 120]);
    assert!(packets[6].2 == data(0, 20));
}

#[test]
fn part_of_it_by_time_device_and_number() {
    let lines = lines();
    let path = archive("parts", &lines);
    let begin = "2015-07-01T18:20:30";
    let of = |keep: &dyn Fn(&Line) -> bool| {
        let kept = lines.iter().enumerate().filter(|(_, line)| keep(line));
        kept.map(|(n, line)| data(n, line.2)).collect::<Vec<_>>()
    };
    let sent = |keys: &str, flow: &str| {
        let packets = captured("parts", &path, keys, flow);
        packets.into_iter().map(|packet| packet.2).collect::<Vec<_>>()
    };
    let keys = format!("from: {begin}.001Z, to: {begin}.002Z");
    assert!(sent(&keys, "") == of(&|line| (1000..2000).contains(&line.0)));
    assert!(sent("devices: [device-1, device-3]", "") == of(&|line| line.1 == 1 || line.1 == 3));
    assert_eq!(sent("", "count: 17,"), of(&|_| true)[..17]);
    assert!(sent("", "stop: 5ms,") == of(&|line| line.0 < 5000));
}

#[test]
fn devices_become_sub_flows() {
    let lines = lines();
    let path = archive("flows", &lines);
    let sources = |keys: &str| -> Vec<u16> {
        captured("flows", &path, keys, "").into_iter().map(|packet| packet.1).collect()
    };
    let devices = || lines.iter().map(|line| u16::from(line.1));
    assert!(sources("flow-of: device").into_iter().eq(devices().map(|device| 5000 + device)));
    let table = file("table");
    std::fs::write(
        &table,
        "# device, sub-flow\ndevice-0,10\ndevice-1,11\ndevice-2,12\ndevice-3, 13\ndevice-4,14\n",
    )
    .unwrap();
    let keys = format!("flow-of: {{ table: '{}' }}", table.display());
    assert!(sources(&keys).into_iter().eq(devices().map(|device| 5010 + device)));
    let hashed = sources("flow-of: { hash: 3 }");
    assert!(hashed.iter().all(|source| (5000..5003).contains(source)));
    let same = |device| {
        devices().zip(&hashed).filter(move |(of, _)| *of == device).map(|(_, source)| *source)
    };
    assert!((0..5).all(|device| same(device).all(|source| Some(source) == same(device).next())));
}

#[test]
fn a_device_that_the_table_does_not_have_is_an_error_or_left_out() {
    let lines = lines();
    let path = archive("table", &lines);
    let table = file("short-table");
    std::fs::write(&table, "device-0,0\ndevice-2,1\n").unwrap();
    let keys = format!("flow-of: {{ table: '{}' }}", table.display());
    let (report, packets) = run_captured("table", &path, &keys, "");
    // what is before it is sent
    assert_eq!(packets.len(), 1);
    let End::Failed { message } = &report.end else { panic!("{:?}", report.end) };
    assert_eq!(
        *message,
        format!(
            "flow 'x': {}: record 1 at byte 58: the record of device-1 at 2015-07-01T18:20:30Z: its device device-1 is \
             not in the table of 'flow-of'; --on-bad skip ('on-bad: skip') leaves such records out",
            path.display()
        )
    );
    let (report, packets) = run_captured("table", &path, &format!("{keys}, on-bad: skip"), "");
    assert_eq!((packets.len(), report.replays[0].left_out[0].count), (160, 240));
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::RecordsLeftOut));
}

#[test]
fn what_is_no_record_ends_it_with_its_place_or_is_left_out() {
    let lines: Vec<Line> = (0..50).map(|n| (n * 10, 0, 40)).collect();
    let path = archive("bad", &lines);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[70 * 20 + 4] = 0xff;
    std::fs::write(&path, bytes).unwrap();
    let (report, packets) = run_captured("bad", &path, "", "");
    assert_eq!(packets.len(), 20);
    let End::Failed { message } = &report.end else { panic!("{:?}", report.end) };
    let place = format!(
        "{}: record 20 at byte 1400: its time is invalid: the month has characters that are not digits",
        path.display()
    );
    assert!(message.contains(&place), "{message}");
    let (report, packets) = run_captured("bad", &path, "on-bad: skip", "");
    assert_eq!((report.end, packets.len()), (End::Completed, 49));
}

#[test]
fn what_cannot_be_read_is_known_before_anything_is_sent() {
    let why = |path: PathBuf, keys: &str| {
        let ports =
            format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", file("none").display());
        let scenario = Scenario::from_yaml(&scenario(&path, &ports, keys, ""), "test").unwrap();
        match prepare(&scenario, Options::default()) {
            Err(RunError::Usage(why)) => why.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it began"),
        }
    };
    let gone = why(file("gone.wbar"), "");
    assert!(gone.ends_with("gone.wbar': No such file or directory (os error 2)"), "{gone}");
    let folder = why(PathBuf::from("/tmp"), "");
    assert!(folder.contains("'/tmp': it is a folder, and a file is needed"), "{folder}");
    let cut = archive("cut", &[(0, 0, 100)]);
    std::fs::write(&cut, &std::fs::read(&cut).unwrap()[..50]).unwrap();
    assert!(why(cut, "").ends_with("record 0 at byte 0: the file ends after 50 of its 130 bytes"));
}

/// With a probe behind the data.
#[test]
fn over_a_link_in_memory_with_a_probe_all_of_it_is_measured() {
    let lines = lines();
    let path = archive("probe", &lines);
    let ports = "ports: { a: { engine: loopback, mtu: 1500B }, b: { engine: loopback } }\n";
    let report = run(&scenario(&path, ports, "", "to: b, probe: on,"), None);
    balanced(&report);
    let (sent, received) =
        (report.flows[0].sent.as_ref().unwrap(), report.flows[0].received.as_ref().unwrap());
    assert_eq!((sent.sent.frames, received.unique), (400, 400));
    let bytes: usize = lines.iter().map(|line| line.2 + 16).sum();
    assert_eq!(received.received.payload_bytes, bytes as u64);
    // 1,472 bytes and a probe are longer than the link carries
    assert_eq!(sent.sent.fragments, 50);
}

/// What a program at the far end reads.
fn read_by_a_program(from: &str, more: &str, keys: &str, flow: &str, lines: &[Line]) -> Report {
    let bed = cable_to_a_program();
    // tests run side by side
    let name = format!("program-{from}-{:?}", thread::current().id());
    let path = archive(&name, lines);
    let (told, ready) = mpsc::channel();
    let namespace = bed.b.namespace.clone();
    let count = lines.len();
    let reader = thread::spawn(move || {
        namespace.enter().unwrap();
        let socket = UdpSocket::bind("0.0.0.0:9000").unwrap();
        // however late it gets a CPU, it loses nothing
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        told.send(()).unwrap();
        let mut all = Vec::new();
        let mut buffer = vec![0; 65_536];
        while all.len() < count {
            match socket.recv(&mut buffer) {
                Ok(len) => all.push(buffer[..len].to_vec()),
                Err(_) => break,
            }
        }
        all
    });
    ready.recv().unwrap();
    let ports = format!("ports:\n  a: {{ interface: wb0, namespace: a, engine: {from}{more} }}\n");
    let destination = bed.b.ipv4;
    let text = format!(
        "{ports}flows:\n  x: {{ from: a, packet: [ {{ ipv4: {{ destination: {destination} }} }}, {{ udp: {{ \
         destination: 9000 }} }} ], {flow} replay: {{ archive: '{}', {keys} }} }}\n",
        path.display()
    );
    // two cores that spin would leave none for the program
    let wait = if more.is_empty() { "" } else { "run: { wait: sleep }\n" };
    let report = run(&(text + wait), Some(&bed));
    let read = reader.join().unwrap();
    assert_eq!(read.len(), lines.len(), "{from}: {:?} {:?}", report.end, report.flows[0].sent);
    let mut sent: Vec<Vec<u8>> =
        lines.iter().enumerate().map(|(n, line)| data(n, line.2)).collect();
    if more.is_empty() {
        assert!(read == sent, "{from}: in order and to the byte");
    } else {
        let mut read = read;
        read.sort();
        sent.sort();
        assert!(read == sent, "{from}: to the byte");
    }
    balanced(&report);
    report
}

#[test]
fn a_program_at_the_far_end_reads_the_data_of_every_record() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let mut lines = lines();
    // one that leaves as fragments
    lines.push((40_000, 0, 9000));
    for from in ["kernel", "packet", "socket"] {
        let report = read_by_a_program(from, "", "", "", &lines);
        let error = &report.flows[0].sent.as_ref().unwrap().send_lateness_ns;
        assert_eq!(error.count, lines.len() as u64, "{from}");
        assert_eq!(report.replays[0].records, lines.len() as u64);
    }
}

#[test]
fn two_cores_share_a_recording() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..3000).map(|n| (n * 50, 0, 60)).collect();
    for from in ["kernel", "packet", "socket"] {
        read_by_a_program(from, ", queues: 2", "workers: 2, buffer: 128KiB", "", &lines);
    }
}

#[test]
fn the_receiver_measures_every_record() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..2000).map(|n| (n * 25, (n % 3) as u8, 28)).collect();
    let path = archive("measured", &lines);
    for (from, to) in [("kernel", "kernel"), ("packet", "packet"), ("socket", "socket")] {
        let bed = if from == "kernel" { cable() } else { cable_to_a_program() };
        let text = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {from} }}\n  b: {{ interface: wb1, namespace: \
             b, engine: {to} }}\nflows:\n  x: {{ from: a, to: b, probe: on, replay: {{ archive: '{}' }} }}\n",
            path.display()
        );
        let report = run(&text, Some(&bed));
        balanced(&report);
        let received = report.flows[0].received.as_ref().unwrap();
        assert_eq!(
            (received.unique, received.one_way_delay_ns.as_ref().unwrap().count),
            (2000, 2000),
            "{from}"
        );
        assert_eq!(received.received.payload_bytes, 2000 * 44);
    }
}

#[test]
fn it_is_stopped_in_the_middle() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..1000).map(|n| (n * 1_000_000, 0, 28)).collect();
    let path = archive("stopped", &lines);
    for from in ["kernel", "packet", "socket"] {
        let bed = cable_to_a_program();
        let text = format!(
            "ports:\n  a: {{ interface: wb0, namespace: a, engine: {from} }}\nflows:\n  x: {{ from: a, packet: [ {{ \
             ipv4: {{ destination: {} }} }}, {{ udp: {{}} }} ], replay: {{ archive: '{}' }} }}\n",
            bed.b.ipv4,
            path.display()
        );
        let stop = Stop::new();
        let later = stop.clone();
        let prepared = prepared(&text, Some(&bed));
        let stopper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            later.ask(2);
        });
        let report = prepared.start(&mut Silent, &stop);
        stopper.join().unwrap();
        assert!(matches!(report.end, End::Stopped { .. }), "{:?}", report.end);
        balanced(&report);
        assert_eq!(report.flows[0].sent.as_ref().unwrap().sent.frames, 1, "{from}");
    }
}

#[test]
fn several_archives_are_merged_by_time() {
    let one: Vec<Line> = (0..300).map(|n| (n * 30, 0, 30)).collect();
    let two: Vec<Line> = (0..500).map(|n| (n * 17, 1, 40)).collect();
    let (first, second) = (archive("merge-1", &one), archive("merge-2", &two));
    let both = PathBuf::from(format!("{}', '{}", first.display(), second.display()));
    let text = |keys: &str| {
        let capture = file(&format!("merge-{}.pcapng", keys.len()));
        let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", capture.display());
        (
            scenario(&both, &ports, keys, "")
                .replace("archive: '", "archive: ['")
                .replace("',", "'],")
                .replace("'], '", "', '"),
            capture,
        )
    };
    let mut expected: Vec<(u64, Vec<u8>)> = Vec::new();
    for lines in [&one, &two] {
        expected.extend(
            lines.iter().enumerate().map(|(n, line)| (line.0 as u64 * 1000, data(n, line.2))),
        );
    }
    expected.sort_by_key(|packet| packet.0);
    for keys in ["", "readers: 1", "readers: 2 "] {
        let (text, capture) = text(keys);
        let report = run(&text, None);
        balanced(&report);
        let packets = from_first(payloads(&std::fs::read(capture).unwrap()));
        let packets = packets.into_iter().map(|(at, _, data)| (at, data));
        assert!(packets.eq(expected.iter().cloned()), "{keys}");
    }
}

#[test]
fn an_index_says_where_to_begin_and_how_long_records_are() {
    let lines: Vec<Line> =
        (0..200_000).map(|n| (n, 0, if n == 199_999 { 1000 } else { 28 })).collect();
    let path = archive("indexed", &lines);
    let begin = "from: 2015-07-01T18:20:30.199Z";
    let of = |keys: &str| from_first(captured("indexed", &path, keys, ""));
    let without = of(begin);
    let index = wirebeat_archive::index::Index::path(&path);
    let _ = std::fs::remove_file(&index);
    let archived = std::fs::File::open(&path).unwrap();
    let fingerprint = wirebeat_archive::index::Fingerprint::of(&archived).unwrap();
    let mut reader =
        wirebeat_archive::time_series::Reader::new(archived, "test", Default::default());
    let made = wirebeat_archive::index::Index::make(&mut reader, fingerprint, |_, _| true).unwrap();
    made.write(&index).unwrap();
    for reader in ["buffered", "direct", "mmap"] {
        assert!(of(&format!("{begin}, reader: {reader}")) == without, "{reader}");
    }
    // one that does not fit is told of
    std::fs::write(&index, "{}").unwrap();
    let (report, packets) = run_captured("indexed", &path, begin, "");
    assert!(from_first(packets) == without);
    assert!(
        report.findings.iter().any(|finding| finding.message.contains("all of")),
        "{:?}",
        report.findings
    );
    std::fs::remove_file(&index).unwrap();
}

#[test]
fn some_records_leave_out_of_order_within_the_window() {
    let lines: Vec<Line> = (0..20_000).map(|n| (n * 10, 0, 40)).collect();
    let path = archive("out-of-order", &lines);
    let number: std::collections::HashMap<Vec<u8>, Vec<usize>> = lines.iter().enumerate().fold(
        Default::default(),
        |mut all: std::collections::HashMap<_, Vec<_>>, (n, line)| {
            all.entry(data(n, line.2)).or_default().push(n);
            all
        },
    );
    let keys = "out-of-order: { probability: 0.2, window: 1ms }, buffer: 128KiB, workers: 2";
    let packets = captured("out-of-order", &path, keys, "");
    assert_eq!(packets.len(), lines.len());
    assert!(packets.is_sorted_by_key(|packet| packet.0), "in the order of their departures");
    let begin = packets[0].0;
    let mut late = 0;
    let mut left: std::collections::HashMap<Vec<u8>, Vec<u64>> = Default::default();
    for (at, _, data) in &packets {
        left.entry(data.clone()).or_default().push(at - begin);
    }
    for (data, numbers) in number {
        // data comes again and again: what left with it is within the window of one of the records with it
        let times = &left[&data];
        assert_eq!(times.len(), numbers.len());
        for (n, at) in numbers.iter().zip(times) {
            let due = *n as u64 * 10_000;
            assert!((due..due + 1_000_000 + 1).contains(at) || numbers.len() > 1, "{n}: {at}");
            late += u64::from(*at > due);
        }
    }
    assert!((3500..4500).contains(&late), "{late} of 20,000 at one in five");
    assert!(captured("out-of-order", &path, keys, "") == packets, "the same seed gives the same");
    let in_order = from_first(captured("out-of-order", &path, "", ""));
    assert!(in_order == expected(&lines, |_, us| us as u64 * 1000));
}

#[test]
fn a_core_of_its_own_sends_what_leaves_later() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let lines: Vec<Line> = (0..2000).map(|n| (n * 50, 0, 60)).collect();
    for from in ["kernel", "packet"] {
        let keys = "out-of-order: { probability: 0.3, window: 2ms, cores: 1 }";
        read_by_a_program(from, ", queues: 2", keys, "", &lines);
    }
}

/// From an archive to the wire, captured, and an archive again.
#[test]
fn what_was_captured_of_a_replay_is_the_archive_again() {
    use wirebeat_archive::capture::payloads::{DeviceOf, Payloads, Take};
    use wirebeat_archive::capture::{Frames, Window};
    use wirebeat_archive::time_series::{OnBad, Reader};

    let lines = lines();
    let path = archive("round-trip", &lines);
    let capture = file("round-trip.pcapng");
    let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", capture.display());
    balanced(&run(&scenario(&path, &ports, "", ""), None));
    let frames = Frames::new(std::fs::File::open(&capture).unwrap(), "capture", OnBad::Stop);
    let mut again = Payloads::new(Window::new(frames, None), Take::Udp, DeviceOf::Source);
    let mut first = Reader::new(std::fs::File::open(&path).unwrap(), "archive", Default::default());
    let mut offset = None;
    while first.advance().unwrap() {
        assert!(wirebeat_archive::Source::advance(&mut again).unwrap());
        let (before, after) = (first.record(), wirebeat_archive::Source::record(&again));
        assert!(before.data == after.data);
        // a capture has its own day, and both have microseconds
        let apart = after.time.unix_us() - before.time.unix_us();
        assert_eq!(*offset.get_or_insert(apart), apart);
    }
    assert!(!wirebeat_archive::Source::advance(&mut again).unwrap());
}

/// Archives knew microseconds alone: records of 250 ns after each other left at once.
#[test]
fn records_with_nanoseconds_leave_at_their_nanoseconds() {
    use wirebeat_archive::capture::Frames;
    use wirebeat_archive::time_series::OnBad;

    let after = [0, 250, 500, 1_749, 1_001_001];
    let mut writer = Writer::new(Vec::new());
    for ns in after {
        let time = Timestamp::from_ns(i128::from(BEGIN_US) * 1_000 + ns, 60).unwrap();
        writer.write(&Record { time, device: Device::default(), data: b"x" }).unwrap();
    }
    let path = file("nanoseconds.wbar");
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    let capture = file("nanoseconds.pcapng");
    let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", capture.display());
    balanced(&run(&scenario(&path, &ports, "", ""), None));
    let mut frames = Frames::new(std::fs::File::open(&capture).unwrap(), "capture", OnBad::Stop);
    let mut times = Vec::new();
    while frames.advance().unwrap() {
        times.push(i128::from(frames.frame().time_ns.unwrap()));
    }
    let apart: Vec<i128> = times.iter().map(|time| time - times[0]).collect();
    assert_eq!(apart, after);
}

/// Late is later than the drift and the microsecond that the archive knows.
#[test]
fn a_record_is_in_time_within_its_own_microsecond() {
    let lines = [(0, 0, 20)];
    let path = archive("late-after", &lines);
    let capture = file("late-after.pcapng");
    for (drift, late_after) in [("0", 999), ("10us", 10_999)] {
        let ports = format!("ports: {{ a: {{ engine: pcap, file: '{}' }} }}\n", capture.display());
        let report = run(&scenario(&path, &ports, &format!("drift: {drift}"), ""), None);
        assert_eq!(report.flows[0].sent.as_ref().unwrap().late_after_ns, late_after);
    }
}
