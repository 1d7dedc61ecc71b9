//! Captures that are sent again: every frame, at its time to the nanosecond, as it was or as it was to become.

mod choosing;
mod copies;
mod make;
mod received;
mod rewriting;
mod wrong;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use wirebeat_archive::capture::Frames;
use wirebeat_archive::time_series::OnBad;
use wirebeat_report::model::{End, FindingKind, Report};
use wirebeat_run::{Options, RunError, prepare};
use wirebeat_testbed::{Capability, Program, require};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_wire::filter::Filter;

use crate::interop::cable_to_a_program;
use crate::world::{balanced, cable, run};

pub(super) use make::pcap;
use make::*;

fn flow(capture: &Path, port: &str, keys: &str) -> String {
    format!("{{ from: {port}, replay: {{ capture: '{}'{keys} }} }}", capture.display())
}

/// Replays into a file, and reads that.
fn replayed(name: &str, capture: &Path, keys: &str) -> (Report, Vec<Timed>) {
    let out = file(&format!("{name}-out.pcapng"));
    let text = format!(
        "ports: {{ a: {{ engine: pcap, mtu: 1500B, file: '{}' }} }}\nflows:\n  x: {}\n",
        out.display(),
        flow(capture, "a", keys)
    );
    let report = run(&text, None);
    balanced(&report);
    (report, read(&out))
}

fn sent(name: &str, capture: &Path, keys: &str) -> Vec<Timed> {
    let (report, frames) = replayed(name, capture, keys);
    assert_eq!(report.end, End::Completed);
    from_first(frames)
}

pub(super) fn read(path: &Path) -> Vec<Timed> {
    let mut frames = Frames::new(std::fs::File::open(path).unwrap(), "test", OnBad::Stop);
    let mut all = Vec::new();
    while frames.advance().unwrap() {
        let frame = frames.frame();
        all.push((frame.time_ns.unwrap() as u64, frame.bytes.to_vec()));
    }
    all
}

pub(super) fn from_first(mut frames: Vec<Timed>) -> Vec<Timed> {
    let first = frames.first().map_or(0, |frame| frame.0);
    frames.iter_mut().for_each(|frame| frame.0 -= first);
    frames
}

#[track_caller]
fn same(got: &[Timed], expected: &[Timed]) {
    assert_eq!(got.len(), expected.len());
    for (n, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.0, expected.0, "frame {n}");
        assert!(got.1 == expected.1, "frame {n}: {:02x?}\n{:02x?}", got.1, expected.1);
    }
}

fn bytes(frames: Vec<Timed>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|frame| frame.1).collect()
}

/// Why it cannot begin.
fn refused(capture: &Path, keys: &str) -> String {
    let text = format!(
        "ports: {{ a: {{ engine: pcap, mtu: 1500B, file: '{}' }} }}\nflows:\n  x: {}\n",
        file("refused-out").display(),
        flow(capture, "a", keys)
    );
    let scenario = Scenario::from_yaml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    match prepare(&scenario, Options::default()) {
        Err(RunError::Usage(why)) => why.to_string(),
        Err(other) => other.to_string(),
        Ok(_) => panic!("it began"),
    }
}

#[test]
fn every_frame_leaves_as_it_was_at_its_own_time() {
    let ns = from_first(frames(1));
    same(&sent("ns", &written("ns.pcap", &pcap(&ns)), ""), &ns);
    let us = from_first(frames(1000));
    same(&sent("us", &written("us.pcap", &pcap_big(&us)), ""), &us);
    // of the second interface what its clock can say
    let ng = written("two.pcapng", &pcapng(&ns));
    let mut expected = read(&ng);
    let mut sorted = expected.clone();
    let mut latest = 0;
    for frame in &mut expected {
        frame.0 = frame.0.max(latest);
        latest = frame.0;
    }
    same(&sent("ng", &ng, ""), &from_first(expected));
    // or in the order of their times; those of one time in the order of the file
    sorted.sort_by_key(|frame| frame.0);
    same(&sent("ng", &ng, ", reorder-window: 1ms"), &from_first(sorted));
}

#[test]
fn readers_workers_buffers_and_memory_change_nothing() {
    let all = from_first(frames(1000));
    let path = written("readers.pcap", &pcap(&all));
    for keys in [
        ", preload: on",
        ", reader: mmap",
        ", reader: direct",
        ", readers: 1",
        ", readers: 1, preload: on",
        ", workers: 3, buffer: 128KiB",
        ", preload: on, reader: direct, workers: 2",
    ] {
        same(&sent("readers", &path, keys), &all);
    }
}

#[test]
fn faster_in_a_tight_loop_again_and_in_part() {
    let all = from_first(frames(1000));
    let path = written("speeds.pcap", &pcap(&all));
    let mapped = |at: &dyn Fn(usize, u64) -> u64| -> Vec<Timed> {
        all.iter().enumerate().map(|(n, (ns, frame))| (at(n, *ns), frame.clone())).collect()
    };
    same(&sent("speeds", &path, ", speed: 10x"), &mapped(&|_, ns| ns / 10));
    same(&sent("speeds", &path, ", speed: 0.5x"), &mapped(&|_, ns| ns * 2));
    same(&sent("speeds", &path, ", tight-loop: 3us"), &mapped(&|n, _| n as u64 * 3000));
    let (report, flat_out) = replayed("speeds", &path, ", tight-loop: 0");
    assert!(bytes(flat_out) == bytes(all.clone()));
    assert_eq!(report.replays[0].starved, 0, "what has no deadline is not late");
    let (twice, last) = (sent("speeds", &path, ", loop: 2"), all.last().unwrap().0);
    let gap = last / (all.len() as u64 - 1);
    let again = all.iter().map(|(ns, frame)| (ns + last + gap, frame.clone()));
    same(&twice, &all.iter().cloned().chain(again).collect::<Vec<_>>());
    let part = sent("speeds", &path, ", from: 2015-07-01T18:20:30.1Z, to: 2015-07-01T18:20:30.2Z");
    let kept = all.iter().filter(|frame| (100_000_000..200_000_000).contains(&frame.0));
    same(&part, &from_first(kept.cloned().collect()));
    assert!(part.len() > 10);
}

#[test]
fn several_captures_are_merged_by_time() {
    let all = from_first(frames(1000));
    let (even, odd): (Vec<_>, Vec<_>) =
        all.iter().cloned().enumerate().partition(|(n, _)| n % 3 == 0);
    let part =
        |part: Vec<(usize, Timed)>| part.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>();
    let (one, two) = (part(even), part(odd));
    let (first, second) =
        (written("merge-1.pcap", &pcap(&one)), written("merge-2.pcapng", &pcap_big(&two)));
    let both = PathBuf::from(format!("{}', '{}", first.display(), second.display()));
    let out = file("merge-out.pcapng");
    let flow = flow(&both, "a", "").replace("capture: '", "capture: ['").replace("' }", "'] }");
    let text = format!(
        "ports: {{ a: {{ engine: pcap, file: '{}' }} }}\nflows: {{ x: {flow} }}\n",
        out.display()
    );
    balanced(&run(&text, None));
    let mut expected = [one, two].concat();
    expected.sort_by_key(|frame| frame.0);
    same(&from_first(read(&out)), &expected);
}

#[test]
fn what_was_cut_short_is_padded_sent_as_it_is_or_left_out() {
    let all: Vec<Timed> =
        kinds().into_iter().zip(0..).map(|(frame, n)| (n * 1000, frame)).collect();
    let snapped: Vec<Timed> = all.iter().map(|(ns, frame)| (*ns, frame[..60].to_vec())).collect();
    let path = written("cut.pcap", &pcap_of(1, 40, &snapped));
    let padded: Vec<Timed> =
        snapped.iter().map(|(ns, frame)| (*ns, [&frame[..], &[0; 40]].concat())).collect();
    same(&sent("cut", &path, ""), &padded);
    same(&sent("cut", &path, ", truncated: send"), &snapped);
    let none = refused(&path, ", truncated: skip");
    assert!(
        none.contains("all of it was left out (16 cut short in the capture; the first is ")
            && none.contains("frame 1 at byte 24: 60 of its 100 bytes"),
        "{none}"
    );
    // all but the last is cut short
    let mut mixed = pcap_of(1, 40, &snapped);
    mixed.extend(&pcap(&all[15..])[24..]);
    let (report, frames) = replayed("mixed", &written("mixed.pcap", &mixed), ", truncated: skip");
    assert_eq!((report.end, frames.len()), (End::Completed, 1));
    let left_out = &report.replays[0].left_out[0];
    assert_eq!((left_out.kind.as_str(), left_out.count), ("cut short in the capture", 16));
}

/// Sends over a cable, and captures at the far end.
fn over_a_cable(engine: &str, path: &Path, all: &[Timed], keys: &str) {
    let bed = if engine == "kernel" { cable_to_a_program() } else { cable() };
    let out = file(&format!("cable-{engine}.pcapng"));
    let capture = Program::new(&bed.b.namespace, "tshark")
        .args([
            "-i",
            "wb1",
            "-l",
            "-f",
            "ether src 02:00:00:00:00:01",
            "-a",
            "duration:20",
            "-P",
            "-w",
            out.to_str().unwrap(),
        ])
        .spawn()
        .unwrap();
    capture.wait_for("Capturing on", Duration::from_secs(30)).unwrap();
    // tshark says so a moment before its capture really runs
    thread::sleep(Duration::from_millis(500));
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: {engine} }} }}\nflows:\n  x: {}\nrun: {{ wait: sleep }}\n",
        flow(path, "a", keys)
    );
    let report = run(&text, Some(&bed));
    thread::sleep(Duration::from_millis(500));
    capture.interrupt();
    let _ = capture.wait(Duration::from_secs(10));
    balanced(&report);
    assert_eq!(report.flows[0].sent.as_ref().unwrap().sent.frames, all.len() as u64, "{engine}");
    let mut seen = bytes(read(&out));
    let mut all = bytes(all.to_vec());
    assert_eq!(seen.len(), all.len(), "{engine}");
    if engine == "kernel" {
        // GRO at the far end holds some back until others have passed
        seen.sort();
        all.sort();
    }
    assert!(seen == all, "{engine}");
}

#[test]
fn frames_arrive_as_they_were_captured() {
    require!(
        Capability::NetworkNamespaces,
        Capability::XdpLiveFrames,
        Capability::Program("tshark")
    );
    // from one address, so that they are told from what systems send
    let mut all: Vec<Timed> = from_first(frames(10));
    all.truncate(500);
    for (ns, frame) in &mut all {
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        *ns *= 100;
    }
    let path = written("cable.pcap", &pcap(&all));
    for engine in ["kernel", "packet"] {
        over_a_cable(engine, &path, &all, "");
        over_a_cable(engine, &path, &all, ", tight-loop: 20us");
    }
}
