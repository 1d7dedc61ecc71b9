//! Abrupt ends: a file that is cut anywhere, a killed writer, a full disk.

use std::fs;
use std::process::Command;

use wirebeat_capture::file::{CaptureOptions, WriteError, open};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Bytes;

use crate::world::{
    BEGIN_NS, Folder, NO_COUNTS, bytes, give, opening, options, read, run, seen, write,
};

/// How many frames the first bytes of a file hold, by a reader that stops where it is cut.
fn whole(file: &[u8]) -> usize {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let Ok(mut reader) = PcapNgReader::new(file) else { return 0 };
    let mut count = 0;
    while let Some(Ok(block)) = reader.next_block() {
        count += usize::from(matches!(block, Block::EnhancedPacket(_)));
    }
    count
}

#[test]
fn a_file_that_is_cut_anywhere_is_whole_up_to_there() {
    let folder = Folder::new("cut");
    let path = folder.file("a.pcapng");
    write(&options(&path), 30);
    let file = fs::read(&path).unwrap();
    let all = read(&file);
    assert_eq!(all.len(), 30);
    let mut before = 0;
    for len in 0..=file.len() {
        let found = whole(&file[..len]);
        assert!(found == before || found == before + 1, "{len}: {found} after {before}");
        before = found;
    }
    assert_eq!(before, 30);
}

/// A process of its own that writes until it is killed; it is this test program, called for one test.
#[test]
fn a_killed_writer_leaves_whole_files() {
    const FILE: &str = "WIREBEAT_TEST_KILLED_WRITER";
    if let Ok(file) = std::env::var(FILE) {
        let options =
            CaptureOptions { rotate_size: Some(Bytes::new(3 << 20)), ..options(file.as_ref()) };
        let mut sink = open(&options, &opening()).unwrap();
        for number in 0.. {
            let frame = bytes(number);
            sink.frame(&seen(number, &frame)).unwrap();
            if number % 100 == 0 {
                sink.pause(seen(number, &frame).unix_ns, &NO_COUNTS).unwrap();
            }
        }
    }
    let folder = Folder::new("killed");
    let mut torn = 0;
    for (round, name) in (0_u32..12).zip(["a.pcapng", "a.pcapng.zst"].into_iter().cycle()) {
        let path = folder.file(&format!("{round}-{name}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "damage::a_killed_writer_leaves_whole_files"])
            .env(FILE, &path)
            .spawn()
            .unwrap();
        let mine = || {
            let begin = format!("{round}-");
            folder.names().into_iter().filter(|name| name.starts_with(&begin)).collect::<Vec<_>>()
        };
        // at a different point each time, and never before something was written
        let wanted = 1 + round as usize % 4;
        while mine().len() < wanted {
            std::thread::yield_now();
        }
        let last = folder.file(mine().last().unwrap());
        while fs::metadata(&last).unwrap().len() < 200_000 {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut next = 0;
        for name in mine() {
            let file = fs::read(folder.file(&name)).unwrap();
            let file = if name.ends_with(".zst") { unpacked(&file) } else { file };
            for (number, frame) in frames_until_cut(&file, &mut torn) {
                assert_eq!((number, frame), (next, bytes(next)), "{name}");
                next += 1;
            }
        }
        assert!(next > 100, "{next}");
    }
    println!("{torn} of 12 rounds ended within a block");
}

/// All that can be unpacked.
fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut into = Vec::new();
    // an error at the end, which is missing
    let _ = zstd::stream::copy_decode(file, &mut into);
    into
}

/// The frames of a file by their numbers, up to where it is cut short. Only the last block may be.
fn frames_until_cut(file: &[u8], torn: &mut u32) -> Vec<(u32, Vec<u8>)> {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        match block {
            Ok(Block::EnhancedPacket(packet)) => {
                let ns = packet.timestamp.as_nanos() as u64;
                frames.push((((ns - BEGIN_NS) / 1_000_100) as u32, packet.data.into_owned()));
            }
            Ok(_) => {}
            Err(_) => {
                *torn += 1;
                break;
            }
        }
    }
    frames
}

/// A disk of 2 MB, which a namespace of mounts has alone.
#[test]
fn a_full_disk_ends_it_with_an_error_that_names_the_file() {
    require!(
        Capability::UserNamespaces,
        Capability::Program("unshare"),
        Capability::Program("capinfos")
    );
    const FOLDER: &str = "WIREBEAT_TEST_FULL_DISK";
    if let Ok(folder) = std::env::var(FOLDER) {
        for name in ["a.pcapng", "a.pcap", "a.pcapng.zst", "a.pcap.zst"] {
            fill(&format!("{folder}/{name}"));
            fs::remove_file(format!("{folder}/{name}")).unwrap();
        }
        return;
    }
    let folder = Folder::new("full");
    let path = folder.file("");
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=2m none {} && exec {} --exact damage::a_full_disk_ends_it_with_an_error_that_names_the_file",
        path.display(),
        program.display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).env(FOLDER, &path);
    let output = unshare.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn fill(path: &str) {
    let mut sink = open(&options(path.as_ref()), &opening()).unwrap();
    // no packing makes these smaller
    let mut noise = 1_u64;
    let mut given: Vec<Vec<u8>> = Vec::new();
    let error = loop {
        assert!(given.len() < 10_000, "the disk does not fill");
        let mut frame = bytes(given.len() as u32);
        for byte in &mut frame[42..] {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (noise >> 56) as u8;
        }
        let done = sink.frame(&seen(given.len() as u32, &frame));
        given.push(frame);
        if let Err(error) = done {
            break error;
        }
    };
    let fault = WriteError::fault_of(&error);
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(fault.what.contains(path) && fault.what.contains("No space left"), "{fault}");
    assert!(fault.hint.unwrap().contains("make room"), "{path}");
    // what still comes is counted, and tells nothing else
    for number in 0..7 {
        let frame = bytes(number);
        sink.frame(&seen(number, &frame)).unwrap();
    }
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    run("capinfos", &[path]);
    let file = fs::read(path).unwrap();
    // its frame of Zstandard has an end
    let file = if path.ends_with(".zst") { zstd::decode_all(&file[..]).unwrap() } else { file };
    let kept = read(&file);
    assert!(kept.len() > 100, "{path}: {}", kept.len());
    assert!(kept.iter().zip(&given).all(|((_, _, kept), given)| kept == given), "{path}");
    let written = sink.written();
    let lost = given.len() + 7 - kept.len();
    assert_eq!((written.frames, written.lost), (kept.len() as u64, lost as u64), "{path}");
    assert!(lost > 7, "some were in the buffer: {path}");
    let used = fs::metadata(path).unwrap().len();
    assert!(used > 900_000 && used < 2 << 20, "{path}: {used}");
}

#[test]
fn a_full_device_is_told_at_once() {
    let fault = open(&options("/dev/full".as_ref()), &opening()).err().unwrap().fault();
    assert!(fault.what.contains("'/dev/full'") && fault.what.contains("No space left"), "{fault}");
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let folder = Folder::new("over");
    let path = folder.file("a.pcapng");
    fs::write(&path, "old").unwrap();
    let fault = open(&options(&path), &opening()).err().unwrap().fault();
    assert!(fault.what.contains("a.pcapng") && fault.what.contains("is there already"), "{fault}");
    assert_eq!(fault.hint.unwrap(), "choose another name, or remove it first");
    let can = CaptureOptions { overwrite_by: Some("--overwrite"), ..options(&path) };
    let fault = open(&can, &opening()).err().unwrap().fault();
    assert!(fault.hint.unwrap().ends_with("or write over it with --overwrite"));
    assert_eq!(fs::read(&path).unwrap(), b"old");
    write(&CaptureOptions { overwrite: true, ..options(&path) }, 3);
    assert_eq!(read(&fs::read(&path).unwrap()).len(), 3);
    let fault = open(&options(&folder.file("none/a.pcapng")), &opening()).err().unwrap().fault();
    assert!(fault.hint.unwrap().contains("a folder that is there"));
    let fault = open(&options(&folder.file("")), &opening()).err().unwrap().fault();
    assert!(fault.what.contains("is a folder"), "{fault}");
    // a selection that is wrong makes no file
    let only = Some("flow == nobody".to_owned());
    let fault = open(&CaptureOptions { only, ..options(&folder.file("b.pcapng")) }, &opening());
    assert!(fault.err().unwrap().fault().what.contains("there is no flow 'nobody'"));
    assert_eq!(folder.names(), ["a.pcapng"]);
    // a link that leads nowhere is there too
    std::os::unix::fs::symlink("nowhere", folder.file("link.pcapng")).unwrap();
    let fault = open(&options(&folder.file("link.pcapng")), &opening()).err().unwrap().fault();
    assert!(fault.what.contains("is there already"), "{fault}");
}

#[test]
fn frames_after_an_error_are_not_written() {
    let mut sink = open(&options("/dev/null".as_ref()), &opening()).unwrap();
    give(&mut *sink, 0..10);
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    let written = sink.written();
    assert_eq!((written.frames, written.files), (10, vec!["/dev/null".into()]));
}
