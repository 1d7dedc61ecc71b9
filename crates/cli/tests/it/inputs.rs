//! Inputs that are no files, or not of what they should be.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Scratch, command, line, run};

const PATIENCE: Duration = Duration::from_secs(30);

fn pipe(scratch: &Scratch) -> String {
    let path = scratch.path("pipe");
    mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
    path
}

const SCENARIO: &str = "\
ports: { a: { engine: loopback } }
flows:
  x: { from: a, packet: [ ipv4: { destination: 10.0.0.2 }, udp: { destination: 9 } ], count: 1 }
";

/// A receiver waited for ever for a writer, and a signal did not end it.
#[test]
fn a_key_file_or_an_included_file_that_is_a_pipe_is_refused_at_once() {
    let scratch = Scratch::new("pipes");
    let pipe = pipe(&scratch);
    let top = scratch.file("top.yaml", format!("include: pipe\n{SCENARIO}").as_bytes());
    for (arguments, why) in [
        (
            format!("receive --engine socket --port 7000 --listen 127.0.0.1 --key-file {pipe}"),
            "not a regular file",
        ),
        (
            "receive --engine socket --port 7000 --listen 127.0.0.1 --key-file /dev/zero"
                .to_owned(),
            "not a regular file",
        ),
        (
            format!("send --to 127.0.0.1:9 --rate 1kpps --peer 127.0.0.1:9 --key-file {pipe}"),
            "not a regular file",
        ),
        (format!("check {top}"), "not a regular file"),
        (format!("archive create {pipe}.wbar --parquet {pipe}"), "read from a file alone"),
    ] {
        let ended = line(&arguments);
        assert_eq!(ended.code, 2, "{arguments}: {ended:?}");
        assert!(ended.err.contains(why), "{arguments}: {}", ended.err);
    }
}

/// A pipe may be what a scenario comes from: it is read to its end, and while nothing comes a signal ends the program.
#[test]
fn a_scenario_may_come_through_a_pipe_and_waiting_for_it_ends_with_a_signal() {
    let scratch = Scratch::new("piped-scenario");
    let path = pipe(&scratch);
    for arguments in [&["check", &path][..], &["run", &path], &["convert", &path], &["run", "-"]] {
        let mut child = command(arguments);
        child.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let begun = Instant::now();
        let status = child.wait().unwrap();
        assert!(begun.elapsed() < PATIENCE && !status.success(), "{arguments:?}: {status}");
    }
    let writer = thread::spawn({
        let path = path.clone();
        move || std::fs::write(path, SCENARIO).unwrap()
    });
    let ended = run(&["check", &path]);
    writer.join().unwrap();
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// They said neither the line nor the key.
#[test]
fn a_file_that_a_scenario_names_and_cannot_be_used_has_its_place() {
    let scratch = Scratch::new("named-files");
    scratch.file("text", b"this is not a capture\n");
    let flow = |rest: &str, packet: &str| {
        format!(
            "ports: {{ a: {{ engine: loopback }} }}\nflows:\n  x:\n    from: a\n    count: 1\n    packet:\n      - ipv4: {{ \
             destination: 10.0.0.2 }}\n      - udp: {{ destination: 9 }}\n{packet}{rest}"
        )
    };
    for (name, text, place) in [
        ("size", flow("    size: { file: none }\n", ""), ":9:5"),
        ("payload", flow("", "      - payload: { file: none }\n"), ":9:9"),
        ("trace", flow("    departures: { trace: none }\n", ""), ":9:5"),
        ("capture", flow("    size: { capture: none }\n", ""), ":9:5"),
        ("captured", flow("    size: { capture: text }\n", ""), ":9:"),
    ] {
        let file = scratch.file(&format!("{name}.yaml"), text.as_bytes());
        let ended = run(&["check", &file]);
        assert_eq!(ended.code, 2, "{name}: {ended:?}");
        assert!(ended.err.contains(&format!("{file}{place}")), "{name}: {}", ended.err);
        assert!(!ended.err.contains("magic"), "{name}: {}", ended.err);
    }
}

/// 'check' took what 'run' refuses.
#[test]
fn what_is_replayed_and_is_no_capture_is_refused_before_it_is_run() {
    let scratch = Scratch::new("replayed-files");
    scratch.file("garbage.pcap", b"this is not a capture, whatever its name is\n");
    scratch.file("empty.pcap", b"");
    for name in ["garbage", "empty"] {
        let text = format!(
            "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
             flows: {{ x: {{ from: a, to: b, replay: {{ capture: {name}.pcap }} }} }}\n"
        );
        let file = scratch.file(&format!("{name}.yaml"), text.as_bytes());
        for command in ["check", "explain", "run"] {
            let ended = run(&[command, &file]);
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{command} {name}: {ended:?}");
            assert!(ended.err.contains("this is not a capture"), "{command}: {}", ended.err);
        }
    }
}

/// `ctl` waited for ever, and printed what came as it was.
#[test]
fn a_control_socket_that_says_nothing_or_too_much_ends_with_3() {
    let scratch = Scratch::new("ctl-hostile");
    let path = scratch.path("s");
    let listener = UnixListener::bind(&path).unwrap();
    let ctl = |more: &[&str]| run(&[&["ctl", "--control", &path], more, &["list"]].concat());
    let silent = ctl(&["--timeout", "200ms"]);
    assert_eq!(silent.code, 3, "{silent:?}");
    assert!(silent.err.contains("no whole answer within 0.2 s"), "{}", silent.err);
    assert!(silent.err.contains("--timeout"), "{}", silent.err);
    let flood = thread::spawn(move || {
        let _of_the_first = listener.accept().unwrap();
        let mut stream = listener.accept().unwrap().0;
        let mut written = stream.write_all(b"{\"error\":\"\x1b[2J");
        while written.is_ok() {
            written = stream.write_all(&[b'x'; 65_536]);
        }
    });
    let long = ctl(&[]);
    assert_eq!(long.code, 3, "{}", long.err.len());
    assert!(long.err.len() < 1000 && long.err.contains("is longer than"), "{}", long.err);
    flood.join().unwrap();
}

/// They said "0 records written", left an empty archive, and ended with 0.
#[test]
fn a_table_without_a_valid_row_makes_no_archive() {
    let scratch = Scratch::new("all-bad");
    let (table, archive) = (scratch.path("t.csv"), scratch.path("a.wbar"));
    std::fs::write(&table, "time,device,data\nx,a,1\ny,b,2\n").unwrap();
    let ended = line(&format!("archive create {archive} --csv {table} --on-bad skip"));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.err.contains("no row is valid, so nothing was written (2 rows skipped)"),
        "{}",
        ended.err
    );
    assert!(!std::path::Path::new(&archive).exists());
    let ended = run(&["archive", "create", &archive, "--csv", &table, "--delimiter", "\n"]);
    assert!(ended.code == 2 && ended.err.contains("'\\n' cannot separate"), "{}", ended.err);
}

/// They were told in the words of Rust: "number too large to fit in target type".
#[test]
fn numbers_out_of_range_are_told_in_plain_words() {
    for arguments in [
        "archive inspect x --records 99999999999999999999999",
        "archive create y --csv x --quoted-lines 0",
    ] {
        let ended = line(arguments);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("write a whole number from"), "{}", ended.err);
    }
}

/// The message named neither the file nor what helps. A file may have 64 KiB here, as on a disk that is full.
#[test]
fn a_disk_without_room_is_told_with_the_file() {
    let scratch = Scratch::new("full-disk");
    let (source, target) = (scratch.path("a.wbar"), scratch.path("b.wbar"));
    let made = line(&format!("archive create {source} --synthetic --records 20000 --sampling 1ms"));
    assert_eq!(made.code, 0, "{made:?}");
    let limited = |arguments: &str| {
        // EFBIG where a file becomes too long: the signal is ignored, and the write fails
        let line = format!("trap '' XFSZ; ulimit -f 64; exec \"$0\" {arguments}");
        let mut shell = Command::new("sh");
        let ended = shell.args(["-c", &line, env!("CARGO_BIN_EXE_wirebeat")]).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for what in ["slice", "export --format csv", "sort", "merge"] {
        let files = if what == "merge" {
            format!("{target} {source}")
        } else {
            format!("{source} {target}")
        };
        let (code, told) = limited(&format!("archive {what} {files}"));
        assert_eq!(code, Some(5), "{what}: {told}");
        assert!(told.contains(&format!("\n  {target}\n")), "{what}: {told}");
        assert!(told.contains("the room on the disk"), "{what}: {told}");
    }
    let (code, told) = limited(&format!(
        "archive sort {source} {target} --memory 1MiB --temporary {}",
        scratch.0.display()
    ));
    assert_eq!(code, Some(5), "{told}");
    assert!(told.contains(&format!("temporary file in '{}'", scratch.0.display())), "{told}");
    assert!(told.contains("with --temporary"), "{told}");
    let ended = line(&format!("archive sort {source} {target} --temporary /nonexistent"));
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("name a folder that you may write to"), "{}", ended.err);
}

/// They waited for ever where nobody wrote to the pipe.
#[test]
fn an_archive_is_read_from_a_pipe_and_is_not_waited_for_without_end() {
    let scratch = Scratch::new("archive-pipe");
    let (path, archive) = (pipe(&scratch), scratch.path("a.wbar"));
    let made = line(&format!("archive create {archive} --synthetic --records 100 --sampling 1ms"));
    assert_eq!(made.code, 0, "{made:?}");
    let writer = thread::spawn({
        let (path, bytes) = (path.clone(), std::fs::read(&archive).unwrap());
        move || std::fs::write(path, bytes).unwrap()
    });
    let ended = run(&["archive", "inspect", &path]);
    writer.join().unwrap();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("records   100 in "), "{}", ended.out);
    let new = scratch.path("new");
    let waiting: Vec<_> = [
        format!("archive inspect {path}"),
        format!("archive verify {path}"),
        format!("archive sort {path} {new}"),
        format!("archive slice {path} {new}"),
        format!("archive merge {new} {path}"),
        format!("archive export {path} {new} --format csv"),
        format!("archive create {new} --pcap {path}"),
        format!("archive create {new} --csv {path}"),
    ]
    .into_iter()
    .map(|arguments| thread::spawn(move || (line(&arguments), arguments)))
    .collect();
    for one in waiting {
        let (ended, arguments) = one.join().unwrap();
        assert_eq!(ended.code, 2, "{arguments}: {ended:?}");
        assert!(
            ended.err.contains("nobody wrote to this pipe within 5 s"),
            "{arguments}: {}",
            ended.err
        );
    }
    let ended = line(&format!("archive slice {archive} {new} --device-file {path}"));
    assert!(ended.code == 2 && ended.err.contains("not a regular file"), "{ended:?}");
    assert!(!std::path::Path::new(&new).exists());
}

/// They said "is a directory" or "write it to one first".
#[test]
fn a_folder_in_place_of_an_archive_is_called_one() {
    let scratch = Scratch::new("folders");
    let (folder, new) = (scratch.path("folder"), scratch.path("new"));
    std::fs::create_dir(&folder).unwrap();
    for arguments in [
        format!("archive inspect {folder}"),
        format!("archive verify {folder}"),
        format!("archive index {folder}"),
        format!("archive sort {folder} {new}"),
        format!("archive slice {folder} {new}"),
        format!("archive merge {new} {folder}"),
        format!("archive export {folder} {new} --format csv"),
        format!("archive create {new} --pcap {folder}"),
        format!("archive create {new} --csv {folder}"),
        format!("archive create {new} --parquet {folder}"),
        format!("replay {folder} --to 127.0.0.1:9"),
    ] {
        let ended = line(&arguments);
        assert_eq!(ended.code, 2, "{arguments}: {ended:?}");
        let said = ended.err.contains("is a folder, and a file is needed");
        assert!(said && ended.err.contains(&folder), "{arguments}: {}", ended.err);
        assert!(!std::path::Path::new(&new).exists(), "{arguments}");
    }
}

/// It said "0 records written", left an empty archive, and ended with 0.
#[test]
fn a_capture_without_a_record_makes_no_archive() {
    let scratch = Scratch::new("no-payload");
    let archive = scratch.path("a.wbar");
    // little-endian, microseconds, Ethernet
    let head = [
        &0xa1b2_c3d4_u32.to_le_bytes()[..],
        &[2, 0, 4, 0],
        &[0; 8],
        &65_535_u32.to_le_bytes(),
        &1_u32.to_le_bytes(),
    ]
    .concat();
    let mut arp = [0_u8; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    let frame = [&[0; 8][..], &[60, 0, 0, 0], &[60, 0, 0, 0], &arp].concat();
    let two = scratch.file("two.pcap", &[&head[..], &frame, &frame].concat());
    let none = scratch.file("none.pcap", &head);
    for (capture, more, why) in [
        (&two, "", "no frame holds a UDP datagram, so nothing was written (of 2 frames, 2 not IP)"),
        (&two, "", "--any-ip"),
        (&two, "--any-ip", "no frame holds an IP packet"),
        (&none, "", "the capture has no frames"),
    ] {
        let ended = line(&format!("archive create {archive} --pcap {capture} {more}"));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(why) && ended.err.contains(capture.as_str()), "{}", ended.err);
        assert!(!std::path::Path::new(&archive).exists());
    }
}

/// It wrote an empty archive, and ended with 0.
#[test]
fn a_slice_without_a_record_makes_no_archive() {
    let scratch = Scratch::new("no-slice");
    let (table, archive, part) =
        (scratch.path("t.csv"), scratch.path("a.wbar"), scratch.path("part.wbar"));
    std::fs::write(
        &table,
        "time,device,data\n2020-01-01T00:00:00Z,a,01\n2020-01-01T00:00:01Z,b,02\n",
    )
    .unwrap();
    let made = line(&format!("archive create {archive} --csv {table}"));
    assert_eq!(made.code, 0, "{made:?}");
    for (asked, flag) in [
        ("--device NOPE", "--device"),
        ("--from 2021-01-01T00:00:00Z", "--from"),
        ("--records 7..9", "--records"),
    ] {
        let ended = line(&format!("archive slice {archive} {part} {asked}"));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(
            ended.err.contains("nothing was written") && ended.err.contains(flag),
            "{}",
            ended.err
        );
        assert!(!std::path::Path::new(&part).exists(), "{asked}");
    }
    assert_eq!(line(&format!("archive slice {archive} {part} --device a")).code, 0);
}
