//! `capture`, and receivers that keep what arrives: what is left however they end.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_testbed::{Capability, Program, Testbed, require};

use crate::whole::{PATIENCE, attached, cable, json, wirebeat};
use crate::{Scratch, run};

/// The blocks of a pcapng file that are whole: how many of each type, and the bytes behind the last of them.
fn blocks(file: &[u8]) -> (Vec<u32>, usize) {
    let word =
        |at: usize| file.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let (mut types, mut at) = (Vec::new(), 0);
    while let (Some(kind), Some(len)) = (word(at), word(at + 4)) {
        let len = len as usize;
        if len < 12 || word(at + len - 4) != Some(len as u32) {
            break;
        }
        types.push(kind);
        at += len;
    }
    (types, file.len() - at)
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

fn frames(types: &[u32]) -> usize {
    types.iter().filter(|kind| **kind == PACKET).count()
}

/// A sender that goes on until it is killed.
fn sending(bed: &Testbed) -> wirebeat_testbed::Process {
    sending_at(bed, "20kpps")
}

fn sending_at(bed: &Testbed, rate: &str) -> wirebeat_testbed::Process {
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate {rate} --time 300s",
        bed.b.ipv4
    );
    wirebeat(&bed.a, &line)
}

/// How long a capture takes from its start to the first frame that it keeps, on a machine as busy as this one.
fn until_it_keeps(bed: &Testbed, file: &str) -> Duration {
    let started = Instant::now();
    let capture = wirebeat(&bed.b, &format!("capture -i wb1 -w {file}"));
    let kept = || fs::read(file).is_ok_and(|bytes| frames(&blocks(&bytes).0) > 0);
    while !kept() {
        assert!(started.elapsed() < PATIENCE, "nothing was kept");
        thread::sleep(Duration::from_millis(5));
    }
    let took = started.elapsed();
    capture.kill();
    capture.wait(PATIENCE).unwrap();
    took
}

/// A hundred times in the middle of it: what was written is whole blocks, and no program stays attached.
#[test]
fn a_capture_that_is_killed_is_readable_and_leaves_nothing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let scratch = Scratch::new("capture-killed");
    let sender = sending(&bed);
    // a machine that was busy for the first one is not for all the others
    let begins = until_it_keeps(&bed, &scratch.path("first.pcapng")).min(Duration::from_secs(1));
    let mut kept = 0;
    for round in 0..100_u32 {
        let engine = if round % 2 == 0 { "kernel" } else { "packet" };
        let file = scratch.path(&format!("{round}.pcapng"));
        let line = format!("capture -i wb1 --engine {engine} -w {file}");
        let capture = wirebeat(&bed.b, &line);
        // a beginning, a middle and an end of what it does
        thread::sleep(begins * (37 * round % 400) / 200);
        capture.kill();
        capture.wait(PATIENCE).unwrap();
        let Ok(bytes) = fs::read(&file) else { continue };
        let (types, rest) = blocks(&bytes);
        assert_eq!(types.first(), Some(&SECTION), "round {round}: {} bytes", bytes.len());
        // the system stops writing where it is
        assert!(rest < 2048, "round {round}: {rest} bytes of no block behind {}", types.len());
        kept += frames(&types);
        fs::remove_file(&file).unwrap();
    }
    sender.kill();
    sender.wait(PATIENCE).unwrap();
    assert!(kept > 0, "all were killed before they kept a frame");
    let gone = || attached(&bed) == [false, false];
    let waits = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        gone()
    });
    assert!(waits, "a program is still attached: {:?}", attached(&bed));
}

/// With a count it ends by itself, with counters at the end of the file that agree with the report.
#[test]
fn a_capture_ends_with_its_count_and_says_what_it_kept() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let scratch = Scratch::new("capture-count");
    // slow enough for a machine that takes a second to open the files
    let sender = sending_at(&bed, "2kpps");
    for engine in ["kernel", "packet"] {
        let file = scratch.path(&format!("{engine}.pcapng"));
        // a log beside it has no limit, and does not keep the capture from its end
        let log = scratch.path(&format!("{engine}.parquet"));
        let line = format!(
            "capture -i wb1 --engine {engine} -w {file} -c 100 --json - --packet-log {log} udp"
        );
        let ended = wirebeat(&bed.b, &line).wait(PATIENCE).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let report = json(&ended);
        let capture = &report["captures"][0];
        assert_eq!((&capture["frames"], &capture["lost"]), (&100.into(), &0.into()), "{engine}");
        assert_eq!(capture["files"][0], file.as_str());
        let bytes = fs::read(&file).unwrap();
        assert_eq!(capture["bytes"], bytes.len());
        let (types, rest) = blocks(&bytes);
        assert_eq!((rest, frames(&types)), (0, 100), "{engine}");
        assert_eq!(&types[..2], [SECTION, INTERFACE]);
        assert_eq!(types.last(), Some(&STATISTICS));
    }
    sender.kill();
    sender.wait(PATIENCE).unwrap();
}

/// On standard output are frames and nothing else.
#[test]
fn a_pipe_has_the_frames_alone() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let sender = sending(&bed);
    let scratch = Scratch::new("capture-pipe");
    let file = scratch.path("piped");
    let line = format!(
        "{} capture -i wb1 --engine packet -w - -c 50 > {file}",
        env!("CARGO_BIN_EXE_wirebeat")
    );
    let shell = Program::new(&bed.b.namespace, "sh").args(["-c", &line]);
    let ended = shell.spawn().unwrap().wait(PATIENCE).unwrap();
    sender.kill();
    sender.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let (types, rest) = blocks(&fs::read(&file).unwrap());
    assert_eq!((rest, frames(&types)), (0, 50));
    assert!(ended.stderr.contains("50 frames"), "{}", ended.stderr);
}

/// What is wrong is said before anything is opened, by 'capture' and by 'check'.
#[test]
fn mistakes_are_found_at_once() {
    let scratch = Scratch::new("capture-wrong");
    for (more, said) in [
        ("-w /nowhere/x.pcapng", "/nowhere/x.pcapng"),
        ("-w x.pcapng udp and and", "filter"),
        ("-w x.pcapng --only delay>", "selection"),
        ("-w x.pcapng --files 3", "files"),
        ("-w x.pcapng --engine socket", "engine"),
        ("-w x.pcapng --engine xdp", "keeps frames from the programs of this host"),
    ] {
        let line = format!("capture -i lo {more}");
        let ended = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{line}: {ended:?}");
        assert!(ended.err.contains(said), "{line}: {}", ended.err);
        assert!(!Path::new("x.pcapng").exists());
    }
    let of_port = |engine: &str, keys: &str| {
        format!(
            "ports: {{ a: {{ engine: {engine}, capture: {{ file: x.pcapng{keys} }} }}, b: {{ engine: {engine} }} }}\n\
             flows: {{ x: {{ from: b, to: a, rate: 1kpps, stop: 1s }} }}\n"
        )
    };
    for (text, said) in [
        (of_port("loopback", ", filter: 'udp and and'"), "filter"),
        (of_port("loopback", ", only: 'delay >'"), "selection"),
        (of_port("loopback", ", before: 3"), "selection"),
        (of_port("loopback", ", only: 'flow == nobody'"), "there is no flow 'nobody'"),
        (of_port("loopback", ", only: 'port == nobody'"), "there is no port 'nobody'"),
        (of_port("socket", ""), "sees no frames"),
    ] {
        let file = scratch.file("wrong.yaml", text.as_bytes());
        let ended = run(&["check", &file]);
        assert_eq!(ended.code, 2, "{text}: {ended:?}");
        assert!(ended.err.contains(said) && ended.err.contains("port 'a'"), "{}", ended.err);
    }
}

/// Between hosts nobody knows a delay, and a selection by it chose by what two clocks happened to say.
#[test]
fn a_selection_by_delay_needs_clocks_that_are_related() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let scratch = Scratch::new("capture-delay");
    let file = scratch.path("odd.pcapng");
    let line = format!("capture -i wb1 --engine packet -w {file} --time 300ms --only delay>1h");
    let refused = wirebeat(&bed.b, &line).wait(PATIENCE).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("'delay', which is not known here"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--same-clock"), "{}", refused.stderr);
    assert!(!Path::new(&file).exists());
    let sender = sending(&bed);
    let kept = wirebeat(&bed.b, &format!("{line} --same-clock --json -")).wait(PATIENCE).unwrap();
    sender.kill();
    sender.wait(PATIENCE).unwrap();
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    let capture = &json(&kept)["captures"][0];
    assert_eq!(capture["frames"], 0, "{capture}");
    assert!(capture["filtered"].as_u64().unwrap() > 0, "{capture}");
}

/// What speaks against XDP on an interface is known before traffic: an automatic choice takes the next engine, and says why.
#[test]
fn an_automatic_engine_gives_way_where_xdp_is_refused() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let scratch = Scratch::new("capture-auto");
    for (round, why) in ["MTU", "program"].into_iter().enumerate() {
        let bed = cable();
        let other = match why {
            // of frames in one buffer
            "MTU" => {
                for (end, name) in [(&bed.a, "wb0"), (&bed.b, "wb1")] {
                    let ip = Program::new(&end.namespace, "ip");
                    let set = ip.args(["link", "set", name, "mtu", "9000"]).output(PATIENCE);
                    assert!(set.unwrap().status.success());
                }
                None
            }
            _ => {
                let other = wirebeat(&bed.b, "receive --interface wb1 --engine kernel");
                other.wait_for("receiving on wb1", PATIENCE).unwrap();
                Some(other)
            }
        };
        let file = scratch.path(&format!("{round}.pcapng"));
        for line in [
            format!("capture -i wb1 -w {file} --time 300ms --json -"),
            "receive --interface wb1 --time 300ms --json -".to_owned(),
            "receive --interface wb1 --time 300ms --json - --listen 127.0.0.1:5960".to_owned(),
        ] {
            let ended = wirebeat(&bed.b, &line).wait(PATIENCE).unwrap();
            assert_eq!(ended.status.code(), Some(0), "{line}: {ended:?}");
            let report = json(&ended);
            let station = &report["receivers"][0];
            assert_eq!(station["engine"], "packet", "{line}: {station}");
            assert!(ended.stdout.contains(why), "{line}: {}", ended.stdout);
        }
        let by_name = format!("capture -i wb1 -w {file}.other --engine kernel --time 300ms");
        let refused = wirebeat(&bed.b, &by_name).wait(PATIENCE).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        if let Some(other) = other {
            other.interrupt();
            other.wait(PATIENCE).unwrap();
        }
    }
}

/// It waited in vain for frames, and ended well.
#[test]
fn an_interface_that_is_switched_off_is_told_by_every_engine() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    bed.b.netlink().unwrap().set_down(bed.b.link.index).unwrap();
    let scratch = Scratch::new("capture-down");
    let file = scratch.path("down.pcapng");
    for engine in ["auto", "kernel", "packet"] {
        let line = format!("capture -i wb1 --engine {engine} -w {file} --time 10s");
        let ended = wirebeat(&bed.b, &line).wait(PATIENCE).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{engine}: {ended:?}");
        assert!(ended.stderr.contains("switched off"), "{engine}: {}", ended.stderr);
        assert!(ended.stderr.contains("ip link set wb1 up"), "{engine}: {}", ended.stderr);
        assert!(!Path::new(&file).exists(), "{engine}");
    }
}

#[test]
fn what_keeps_a_capture_from_its_beginning_has_the_right_exit_code() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let scratch = Scratch::new("capture-codes");
    // a device without room is an output that cannot be written
    let line = "capture -i wb1 --engine packet -w /dev/full --time 5s";
    let full = wirebeat(&bed.b, line).wait(PATIENCE).unwrap();
    assert_eq!(full.status.code(), Some(5), "{full:?}");
    // a process without rights is what this machine cannot do
    let file = scratch.path("rights.pcapng");
    let wirebeat = env!("CARGO_BIN_EXE_wirebeat");
    let line = ["--user", wirebeat, "capture", "-i", "wb1", "-w", &file, "--time", "5s"];
    let rights = Program::new(&bed.b.namespace, "unshare").args(line).output(PATIENCE).unwrap();
    assert_eq!(rights.status.code(), Some(3), "{rights:?}");
    assert!(rights.stderr.contains("CAP_NET_RAW"), "{}", rights.stderr);
    // and a hint names what there is: one command can write over a file, the other cannot
    fs::write(&file, "precious").unwrap();
    for (line, can) in [
        (format!("capture -i wb1 --engine packet -w {file} --time 5s"), true),
        (format!("receive --interface wb1 --engine packet --capture {file} --time 5s"), false),
    ] {
        let there = self::wirebeat(&bed.b, &line).wait(PATIENCE).unwrap();
        assert_eq!(there.status.code(), Some(2), "{there:?}");
        assert!(there.stderr.contains("is there already"), "{}", there.stderr);
        assert_eq!(there.stderr.contains("overwrite"), can, "{}", there.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

/// Frames of other programs are what a capture is for: that no flow was measured is not a fault of it. A pipe is called by its
/// name.
#[test]
fn a_capture_of_other_frames_does_not_say_that_nothing_came() {
    require!(Capability::NetworkNamespaces);
    let bed = cable();
    let scratch = Scratch::new("capture-plain");
    let pipe = scratch.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let read = pipe.clone();
    let reader = thread::spawn(move || fs::read(read).unwrap());
    let line = format!("capture -i wb1 --engine packet -w {pipe} -c 3 --time 20s tcp dst port 9");
    let capture = wirebeat(&bed.b, &line);
    capture.wait_for("receiving on wb1", PATIENCE).unwrap();
    // nobody listens there: each is refused after its first frame
    let send = format!("for i in 1 2 3; do (exec 3<>/dev/tcp/{}/9); done; true", bed.b.ipv4);
    let sent = Program::new(&bed.a.namespace, "bash").args(["-c", &send]).output(PATIENCE);
    assert!(sent.unwrap().status.success());
    let ended = capture.wait(PATIENCE).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(frames(&blocks(&reader.join().unwrap()).0), 3);
    let said = ended.stdout.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("no flow was measured"), "{said}");
    assert!(!said.contains("nothing was received") && !said.contains("nothing arrived"), "{said}");
    assert!(!said.contains("standard output"), "{said}");
    assert!(said.replace(' ', "").contains(&pipe), "{said}");
}
