//! Frames that are kept while they are measured: what a file has is what was on the link, and the report says how much that is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use wirebeat_report::model::{Capture, End, Report};
use wirebeat_run::{Lab, Options, Silent, Stop};
use wirebeat_testbed::{Capability, Testbed, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_wire::datagram::Datagram;
use wirebeat_wire::probe::Probe;

use crate::world::{Engine, balanced, cable, run, scratch_folder, tried};

/// A file of its own for a test, gone at the end of it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = scratch_folder().join(format!("kept-{name}.pcapng"));
        let _ = fs::remove_file(&path);
        Scratch(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A frame in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    at: u64,
    bytes: Vec<u8>,
    comment: Option<String>,
}

fn read(path: &Path) -> Vec<Kept> {
    let file = fs::read(path).unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let comment = packet.options.iter().find_map(|option| match option {
                EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                _ => None,
            });
            let at = packet.timestamp.as_nanos() as u64;
            frames.push(Kept { at, bytes: packet.data.to_vec(), comment });
        }
    }
    frames
}

/// Those of the flows of a run, by flow and number.
fn by_number(frames: &[Kept]) -> BTreeMap<(u16, u32), Kept> {
    let probed = |kept: &Kept| {
        let probe = Probe::from_tail(Datagram::parse(&kept.bytes).ok()?.payload)?;
        Some(((probe.flow, probe.sequence), kept.clone()))
    };
    frames.iter().filter_map(probed).collect()
}

/// Two flows from `a`, which keeps what it sends, to `b`, which keeps what arrives.
fn scenario(engine: Engine, sent: &str, received: &str) -> String {
    let mode = if engine == Engine::XdpGeneric { ", xdp-mode: generic" } else { "" };
    let queues = if engine == Engine::PacketQueues { ", receive-queues: 2" } else { "" };
    let (name, at) = (engine.name(), |end: char, number: u8| match engine {
        Engine::Loopback => String::new(),
        _ => format!("interface: wb{number}, namespace: {end}, "),
    });
    format!(
        "ports:\n  a: {{ {}engine: {name}{mode}{sent} }}\n  b: {{ {}engine: {name}{mode}{queues}{received} }}\n\
         flows:\n  short: {{ from: a, to: b, size: 64B, rate: 2kpps, count: 300 }}\n  \
         long: {{ from: a, to: b, size: 1200B, rate: 1kpps, count: 150, \
         packet: [ {{ ipv4: {{}} }}, {{ udp: {{ destination: 7001 }} }} ] }}\n",
        at('a', 0),
        at('b', 1),
    )
}

fn capture(path: &Path, more: &str) -> String {
    format!(", capture: {{ file: '{}'{more} }}", path.display())
}

fn of<'a>(report: &'a Report, port: &str) -> &'a Capture {
    report.captures.iter().find(|capture| capture.port.as_deref() == Some(port)).unwrap()
}

/// What left is what arrived, byte for byte, and both files have all of it in order of time.
fn keeps_all(engine: Engine, bed: Option<&Testbed>) {
    let name = format!("{engine:?}");
    let (sent, received) = (Scratch::new(&format!("{name}-sent")), Scratch::new(&name));
    let text = scenario(
        engine,
        &capture(sent.path(), ", direction: sent, comments: all"),
        &capture(received.path(), ", frames: measured, comments: all"),
    );
    let report = run(&text, bed);
    balanced(&report);
    let (left, arrived) = (read(sent.path()), read(received.path()));
    for (port, frames) in [("a", &left), ("b", &arrived)] {
        let told = of(&report, port);
        assert_eq!(
            (told.frames, told.lost, told.filtered),
            (frames.len() as u64, 0, 0),
            "{told:?}"
        );
        assert_eq!((&told.error, told.files.len()), (&None, 1));
        assert!(frames.is_sorted_by_key(|kept| kept.at), "{port}");
    }
    let (left, arrived) = (by_number(&left), by_number(&arrived));
    assert_eq!((left.len(), arrived.len()), (450, 450));
    for (number, kept) in &left {
        let there = &arrived[number];
        assert_eq!(kept.bytes, there.bytes, "{number:?}");
        assert!(there.at >= kept.at || bed.is_none(), "{number:?} arrived before it left");
    }
    let comment = arrived[&(1, 7)].comment.clone().unwrap();
    assert!(comment.contains("flow long, number 7") && comment.contains("delay"), "{comment}");
    let comment = left[&(0, 9)].comment.clone().unwrap();
    assert!(comment.contains("flow short, number 9"), "{comment}");
}

macro_rules! on_engines {
    ($($name:ident $engine:ident $($capability:ident)*;)*) => { $(
        #[test]
        fn $name() {
            require!(Capability::NetworkNamespaces $(, Capability::$capability)*);
            let bed = cable();
            keeps_all(Engine::$engine, Some(&bed));
        }
    )* };
}

on_engines! {
    the_kernel_keeps_what_leaves_and_arrives Kernel XdpLiveFrames;
    packet_keeps_what_leaves_and_arrives Packet;
    packet_keeps_it_on_two_queues PacketQueues;
    xdp_keeps_what_leaves_and_arrives Xdp XdpLiveFrames;
    xdp_keeps_it_where_the_stack_runs_the_program XdpGeneric XdpLiveFrames;
}

#[test]
fn on_a_virtual_clock_the_file_is_the_same_every_time() {
    let (first, second) = (Scratch::new("virtual-1"), Scratch::new("virtual-2"));
    for file in [&first, &second] {
        let kept = capture(file.path(), ", direction: both");
        balanced(&run(&scenario(Engine::Loopback, "", &kept), None));
    }
    let frames = read(first.path());
    assert_eq!(frames.len(), 450);
    assert_eq!(frames, read(second.path()));
    keeps_all(Engine::Loopback, None);
}

/// A filter and a selection leave out the rest, and count it.
#[test]
fn only_what_is_chosen_is_kept() {
    let file = Scratch::new("chosen");
    let kept = capture(
        file.path(),
        ", filter: 'udp dst port 7001', only: 'sequence >= 140', snap-length: 60",
    );
    let report = run(&scenario(Engine::Loopback, "", &kept), None);
    balanced(&report);
    let frames = read(file.path());
    assert_eq!(frames.len(), 10);
    assert!(frames.iter().all(|kept| kept.bytes.len() == 60));
    let told = of(&report, "b");
    assert_eq!((told.frames, told.filtered, told.lost), (10, 440, 0));
    assert_eq!(report.total.received.as_ref().unwrap().unique, 450, "all are measured");
}

/// Independent readers have nothing to complain of, and count the same.
#[test]
fn tshark_and_capinfos_read_it_without_a_warning() {
    require!(Capability::NetworkNamespaces, Capability::Program("tshark"));
    let bed = cable();
    let file = Scratch::new("tshark");
    let kept = capture(file.path(), ", comments: all");
    let report = run(&scenario(Engine::Packet, "", &kept), Some(&bed));
    balanced(&report);
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file.path()).args(["-T", "fields", "-e", "frame.number"]);
    let (numbers, told) = said_by(&mut tshark);
    assert_eq!(numbers.lines().count() as u64, of(&report, "b").frames);
    let told: Vec<&str> = told.lines().filter(|line| !line.contains("as user \"root\"")).collect();
    assert!(told.is_empty(), "{told:?}");
}

fn said_by(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// A file that takes no more ends the capture, and not the measurement: here a pipe whose reader leaves.
#[test]
fn a_reader_that_leaves_ends_the_capture_alone() {
    let pipe = Scratch::new("pipe");
    let made = Command::new("mkfifo").arg(pipe.path()).status().unwrap();
    assert!(made.success());
    let path = pipe.path().to_owned();
    let reader = thread::spawn(move || {
        let mut head = [0; 64];
        fs::File::open(path).unwrap().read_exact(&mut head).unwrap();
        head
    });
    let report = run(&scenario(Engine::Loopback, "", &capture(pipe.path(), "")), None);
    balanced(&report);
    assert_eq!(
        (&report.end, report.total.received.as_ref().unwrap().unique),
        (&End::Completed, 450)
    );
    // the section header
    assert_eq!(reader.join().unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(of(&report, "b").frames <= 450);
}

/// What cannot be kept is said before anything is sent.
#[test]
fn what_cannot_be_kept_is_refused_beforehand() {
    let there = Scratch::new("there");
    fs::write(there.path(), "precious").unwrap();
    let refused = |engine, kept: &str| {
        let error = tried(&scenario(engine, "", kept), None).map(|_| ()).unwrap_err();
        error.to_string()
    };
    let error = refused(Engine::Loopback, &capture(there.path(), ""));
    assert!(error.contains("port 'b'") && error.contains("is there already"), "{error}");
    assert_eq!(fs::read(there.path()).unwrap(), b"precious");
    let nowhere = capture(Path::new("/nowhere/at/all.pcapng"), "");
    assert!(refused(Engine::Loopback, &nowhere).contains("/nowhere/at/all.pcapng"));
    assert!(refused(Engine::Loopback, &capture(Path::new("/dev/full"), "")).contains("No space"));
    for (key, said) in [("filter: 'udp and and'", "filter"), ("only: 'delay >'", "selection")] {
        let error = refused(Engine::Loopback, &capture(Path::new("x.pcapng"), &format!(", {key}")));
        assert!(error.contains(said), "{error}");
        assert!(!Path::new("x.pcapng").exists());
    }
}

/// The second run of a lab was refused, because the file of the first was there.
#[test]
fn each_run_of_a_lab_has_a_file_of_its_own() {
    let file = Scratch::new("runs");
    let second = file.path().with_file_name(
        file.path().file_name().unwrap().to_str().unwrap().replace(".pcapng", "_run2.pcapng"),
    );
    let _ = fs::remove_file(&second);
    let text = scenario(Engine::Loopback, "", &capture(file.path(), ""));
    let scenario = Scenario::from_yaml(&text, "test").unwrap();
    let mut lab = Lab::open(&scenario, Options::default()).unwrap();
    for _ in 0..2 {
        let flows = scenario.flows.clone();
        balanced(&lab.run(flows, scenario.run.time, &mut Silent, &Stop::new()).unwrap());
    }
    assert_eq!([read(file.path()).len(), read(&second).len()], [450, 450]);
    fs::remove_file(&second).unwrap();
}

/// With `overwrite` the file of the run before goes.
#[test]
fn a_file_may_be_written_over() {
    let file = Scratch::new("over");
    fs::write(file.path(), "of the run before").unwrap();
    let kept = capture(file.path(), ", overwrite: true");
    balanced(&run(&scenario(Engine::Loopback, "", &kept), None));
    assert_eq!(read(file.path()).len(), 450);
}

/// What a driver says of received frames goes into the file; a virtual cable says the hash alone, and has no clock.
#[test]
fn the_hash_of_each_frame_is_kept_and_what_a_driver_does_not_say_is_refused() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let scenario = |more: &str, path: &Path| {
        format!(
            "ports: {{ a: {{ engine: packet, interface: wb0, namespace: a }}, \
             b: {{ engine: xdp, interface: wb1, namespace: b{more}{} }} }}\n\
             flows:\n  x: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, \
             {{ udp: {{ source: {{ list: [4000, 4001, 4002, 4003] }} }} }} ], rate: 10kpps, count: 800 }}\n",
            capture(path, "")
        )
    };
    let refused = |text: &str| match tried(text, Some(&bed)) {
        Err(error) => error.to_string(),
        Ok(prepared) => format!("{:?}", prepared.start(&mut Silent, &Stop::new()).end),
    };
    let file = Scratch::new("hashes");
    let why = refused(
        &scenario(", launch-time: true", file.path()).replace("from: a, to: b", "from: b, to: a"),
    );
    assert!(why.contains("no launch time of frames that they send"), "{why}");
    let text = scenario(", receive-hash: true", file.path());
    let why = refused(&text.replace("engine: xdp", "engine: xdp, xdp-mode: generic"));
    assert!(why.contains("the stack runs its XDP program"), "{why}");
    let why = refused(
        &format!("{text}run: {{ timestamps: hardware }}\n")
            .replace("engine: packet", "engine: xdp"),
    );
    assert!(why.contains("no clock to stamp frames by"), "{why}");
    let _ = fs::remove_file(file.path());
    let report = run(&text, Some(&bed));
    balanced(&report);
    let received = report.flows[0].received.as_ref().unwrap();
    assert_eq!((received.unique, received.duplicates), (800, 0));
    let bytes = fs::read(file.path()).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut hashes: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        let source = Datagram::parse(&packet.data).unwrap().source_port;
        let hash = packet.options.iter().find_map(|option| match option {
            EnhancedPacketOption::Hash(hash) => Some(hash.to_vec()),
            _ => None,
        });
        let hash = hash.expect("each frame has one");
        assert_eq!(hash[0], 5, "of Toeplitz");
        hashes.entry(source).or_default().push(u32::from_be_bytes(hash[1..].try_into().unwrap()));
    }
    let all: Vec<u32> = hashes.values().flatten().copied().collect();
    assert_eq!((hashes.len(), all.len()), (4, 800));
    // it is of addresses and ports: one for each source port
    for of in hashes.values() {
        assert!(of.iter().all(|hash| *hash == of[0]), "{of:?}");
    }
    let different: std::collections::BTreeSet<u32> = all.into_iter().collect();
    assert_eq!(different.len(), 4);
}
