//! What can be read once only: standard input, pipes, and packed files. Real pipes, and shells that make them.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use wirebeat_testbed::{Capability, Neighbours, Options as Cable, Program, Testbed, require};

use crate::{Ended, Scratch};

const WIREBEAT: &str = env!("CARGO_BIN_EXE_wirebeat");

/// An archive of so many records, a millisecond apart.
pub fn archive(records: u16) -> Vec<u8> {
    let record = |number: u16| {
        let mut record = vec![0, 34, 0x20, 0x15, 0x07, 0x01, 0x19, 0x20, 0x30];
        // microseconds, two digits to a byte
        let digits = format!("{:06}", u32::from(number) * 1000);
        let packed = digits.as_bytes().chunks(2).map(|two| (two[0] - b'0') << 4 | (two[1] - b'0'));
        record.extend(packed);
        record.extend([0, 0]);
        record.extend([b'd'; 16]);
        record.extend(b"data");
        record
    };
    (0..records).flat_map(record).collect()
}

/// A capture of so many datagrams, a millisecond apart, with times of nanoseconds.
fn capture(frames: u32) -> Vec<u8> {
    let word = |value: u32| value.to_le_bytes();
    let mut pcap = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1].map(word).concat();
    for number in 0..frames {
        let mut frame = vec![2, 0x77, 0x62, 0, 0, 2, 2, 0x77, 0x62, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        frame.extend([0x10, 0, 0x20, 0, 0, 26, 0, 0]);
        frame.extend([7; 18]);
        let len = frame.len() as u32;
        pcap.extend([1_500_000_000, number * 1_000_000 + 7, len, len].map(word).concat());
        pcap.extend(frame);
    }
    pcap
}

fn shell(line: &str) -> Ended {
    let line = line.replace("wirebeat ", &format!("{WIREBEAT} "));
    let mut bash = Command::new("bash");
    let ended =
        bash.args(["-c", &line]).env_remove("WIREBEAT_KEY").stdin(Stdio::null()).output().unwrap();
    Ended {
        code: ended.status.code().unwrap(),
        out: String::from_utf8(ended.stdout).unwrap(),
        err: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// The sent frames of a report, and the names of what was replayed.
fn sent(ended: &Ended) -> (u64, String) {
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let frames = report["total"]["sent"]["sent"]["frames"].as_u64().unwrap();
    (frames, report["replays"][0]["archives"][0].as_str().unwrap().to_owned())
}

#[test]
fn archives_are_replayed_out_of_pipes_and_packed() {
    let scratch = Scratch::new("pipes");
    let plain = scratch.file("day.wbar", &archive(50));
    let to = "--to 127.0.0.1 --json -";
    let packed = format!("{plain}.gz");
    assert_eq!(shell(&format!("gzip -k {plain}")).code, 0);
    assert_eq!(
        sent(&shell(&format!("cat {plain} | wirebeat replay - {to}"))),
        (50, "-".to_owned())
    );
    assert_eq!(sent(&shell(&format!("wirebeat replay - {to} < {packed}"))), (50, "-".to_owned()));
    assert_eq!(sent(&shell(&format!("wirebeat replay {packed} {to}"))), (50, packed.clone()));
    let (frames, name) = sent(&shell(&format!("wirebeat replay <(zcat {packed}) {to}")));
    assert!(frames == 50 && name.starts_with("/dev/fd/"), "{name}");
    let fifo = scratch.path("fifo");
    let line = format!("mkfifo {fifo}; cat {plain} > {fifo} & wirebeat replay {fifo} {to}");
    assert_eq!(sent(&shell(&line)), (50, fifo));
    // more than once, and beside a file
    assert_eq!(
        sent(&shell(&format!("zcat {packed} | wirebeat replay - {plain} --loop 2 {to}"))).0,
        200
    );
}

#[test]
fn captures_are_replayed_out_of_pipes_and_packed() {
    require!(Capability::NetworkNamespaces);
    let bed = Testbed::pair(&Cable { neighbours: Neighbours::Fixed, ..Cable::default() }).unwrap();
    let scratch = Scratch::new("captured");
    let plain = scratch.file("day.pcap", &capture(50));
    assert_eq!(shell(&format!("gzip -k {plain}")).code, 0);
    for line in [
        format!("zcat {plain}.gz | {WIREBEAT} replay - --interface wb0 --engine packet"),
        format!("{WIREBEAT} replay {plain}.gz --interface wb0 --engine packet"),
    ] {
        let received = || bed.b.netlink().unwrap().stats(bed.b.link.index).unwrap().rx_packets;
        let before = received();
        let bash = Program::new(&bed.a.namespace, "bash").args(["-c", &line]);
        let ended = bash.output(Duration::from_secs(60)).unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(received() >= before + 50, "{line}");
    }
}

#[test]
fn archives_are_made_out_of_pipes_and_packed_captures() {
    let scratch = Scratch::new("made");
    let plain = scratch.file("day.pcap", &capture(5));
    let table = scratch
        .file("day.csv", b"time,device,data\n2015-07-01T19:00:00Z,a,1\n2015-07-01T19:00:01Z,b,2\n");
    assert_eq!(shell(&format!("gzip -k {plain} {table}")).code, 0);
    for (number, (from, records)) in [
        (format!("cat {plain} | wirebeat archive create NEW --pcap -"), 5),
        (format!("wirebeat archive create NEW --pcap - < {plain}.gz"), 5),
        (format!("wirebeat archive create NEW --pcap {plain}.gz"), 5),
        (format!("wirebeat archive create NEW --pcap <(zcat {plain}.gz)"), 5),
        (format!("zcat {table}.gz | wirebeat archive create NEW --csv -"), 2),
        (format!("wirebeat archive create NEW --csv <(cat {table}.gz)"), 2),
    ]
    .into_iter()
    .enumerate()
    {
        let new = scratch.path(&format!("{number}.wbar"));
        let ended = shell(&from.replace("NEW", &new));
        assert_eq!(ended.code, 0, "{from}: {ended:?}");
        let inspected = shell(&format!("wirebeat archive inspect {new} --json -"));
        let page: Value = serde_json::from_str(&inspected.out).unwrap();
        assert_eq!(page["records"], records, "{from}: {page:#}");
    }
}

/// They were rounded down to microseconds.
#[test]
fn archives_of_captures_keep_nanoseconds() {
    let scratch = Scratch::new("fine");
    let plain = scratch.file("day.pcap", &capture(2));
    for (round, time) in [("", "02:40:00.001000007"), ("--round-times us", "02:40:00.001000")] {
        let line = format!(
            "wirebeat archive create - --pcap {plain} {round} | wirebeat archive export - - --format csv"
        );
        let table = shell(&line);
        assert_eq!(table.code, 0, "{table:?}");
        let last = table.out.lines().last().unwrap();
        assert!(
            last.contains(&format!("{time}Z")) || last.contains(&format!("{time}+")),
            "{}",
            table.out
        );
    }
}

#[test]
fn what_is_no_recording_is_told_before_anything_is_sent() {
    let scratch = Scratch::new("no-recording");
    let table = scratch.file("day.csv", b"time,device,data\n2015-07-01T19:00:00Z,a,1\n");
    let archive = scratch.file("day.wbar", &archive(5));
    for (line, told) in [
        (
            format!("cat {table} | wirebeat replay - --to 127.0.0.1"),
            "wirebeat archive create day.wbar --csv",
        ),
        (format!("wirebeat replay <(cat {table}) --to 127.0.0.1"), "this is text"),
        (format!("wirebeat replay - - --to 127.0.0.1 < {archive}"), "can be read once"),
        (
            format!("wirebeat replay - --to 127.0.0.1 --print-scenario < {archive}"),
            "a scenario names files",
        ),
        ("wirebeat replay - --to 127.0.0.1 < /dev/null".to_owned(), "nothing"),
    ] {
        let ended = shell(&line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert!(ended.err.contains(told), "{line}: {}", ended.err);
    }
    let full = format!("TMPDIR=/proc wirebeat replay - --to 127.0.0.1 < {archive}");
    let ended = shell(&full);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.err.contains("cannot keep it in /proc"), "{}", ended.err);
}

#[test]
fn nothing_is_left_of_a_stream_however_the_program_ends() {
    let scratch = Scratch::new("left");
    let folder = scratch.path("temporary");
    fs::create_dir(&folder).unwrap();
    let archive = scratch.file("day.wbar", &archive(900));
    let mut wirebeat = Command::new(WIREBEAT);
    let mut child = wirebeat
        .args(["replay", "-", "--to", "127.0.0.1", "--loop", "1000"])
        .env("TMPDIR", &folder)
        .stdin(fs::File::open(&archive).unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let kept = || {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        open.flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|to| to.starts_with(&folder))
    };
    for _ in 0..500 {
        if kept() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(kept(), "no temporary file is open");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
