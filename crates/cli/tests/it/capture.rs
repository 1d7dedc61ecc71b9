//! `capture`, and receivers that keep what arrives: what is left however they end.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

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
    let line = format!(
        "send --to {} --interface wb0 --engine packet --rate 20kpps --time 300s",
        bed.b.ipv4
    );
    wirebeat(&bed.a, &line)
}

/// A hundred times in the middle of it: what was written is whole blocks, and no program stays attached.
#[test]
fn a_capture_that_is_killed_is_readable_and_leaves_nothing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let scratch = Scratch::new("capture-killed");
    let sender = sending(&bed);
    let mut kept = 0;
    for round in 0..100_u64 {
        let engine = if round % 2 == 0 { "kernel" } else { "packet" };
        let file = scratch.path(&format!("{round}.pcapng"));
        let line = format!("capture -i wb1 --engine {engine} -w {file}");
        let capture = wirebeat(&bed.b, &line);
        // a beginning, a middle and an end of what it does
        thread::sleep(Duration::from_millis(37 * round % 400));
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
    let sender = sending(&bed);
    for engine in ["kernel", "packet"] {
        let file = scratch.path(&format!("{engine}.pcapng"));
        let line = format!("capture -i wb1 --engine {engine} -w {file} -c 100 --json - udp");
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
        (of_port("socket", ""), "sees no frames"),
    ] {
        let file = scratch.file("wrong.yaml", text.as_bytes());
        let ended = run(&["check", &file]);
        assert_eq!(ended.code, 2, "{text}: {ended:?}");
        assert!(ended.err.contains(said) && ended.err.contains("port 'a'"), "{}", ended.err);
    }
}
