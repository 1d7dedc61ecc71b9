//! Captures that go into a pipe or into memory, and the speed of writing.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Instant;

use wirebeat_capture::file::{CaptureOptions, in_memory, open};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Bytes;

use crate::world::{BEGIN_NS, Folder, NO_COUNTS, bytes, give, opening, options, read, seen};

/// The reader sees each frame at the next pause, and its end is no error.
#[test]
fn a_pipe_has_all_frames_at_each_pause_and_a_reader_may_go() {
    let folder = Folder::new("pipe");
    let path = folder.file("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let fault = open(&options(&path), &opening()).err().unwrap().fault();
    assert!(fault.what.contains("no program reads the pipe"), "{fault}");
    assert!(fault.hint.unwrap().contains("wireshark -k -i"));
    // it would wait for us to open the other end
    let mut reader = Command::new("cat").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let mut sink = loop {
        match open(&options(&path), &opening()) {
            Ok(sink) => break sink,
            Err(fault) => assert!(begun.elapsed().as_secs() < 60, "{fault}"),
        }
    };
    let mut output = reader.stdout.take().unwrap();
    let mut file = Vec::new();
    let mut until = |count| {
        while read_whole(&file) < count {
            let mut some = [0; 4096];
            let len = output.read(&mut some).unwrap();
            assert!(len > 0);
            file.extend_from_slice(&some[..len]);
        }
        file.clone()
    };
    for round in 1..4 {
        give(&mut *sink, round * 7 - 7..round * 7);
        // the time of the day does not matter here
        sink.pause(BEGIN_NS, &NO_COUNTS).unwrap();
        until(round as usize * 7);
    }
    let frames = read(&until(21));
    assert!((0..).zip(&frames).all(|(number, frame)| frame.2 == bytes(number)));
    assert!(!sink.is_full());
    reader.kill().unwrap();
    reader.wait().unwrap();
    drop(output);
    for number in 21.. {
        sink.frame(&seen(number, &bytes(number))).unwrap();
        sink.pause(BEGIN_NS, &NO_COUNTS).unwrap();
        if sink.is_full() {
            break;
        }
        assert!(number < 1000, "the reader has gone, and nobody is told");
    }
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
}

/// Frames in the whole blocks of what has come so far.
fn read_whole(file: &[u8]) -> usize {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let Ok(mut reader) = PcapNgReader::new(file) else { return 0 };
    let mut count = 0;
    while let Some(Ok(block)) = reader.next_block() {
        count += usize::from(matches!(block, Block::EnhancedPacket(_)));
    }
    count
}

#[test]
fn memory_holds_the_newest_frames_as_a_whole_file() {
    let most = Bytes::new(1 << 20);
    let (mut sink, memory) = in_memory(most, &options("x.zst".as_ref()), &opening()).unwrap();
    assert_eq!(read(&memory.fetch()).len(), 0);
    give(&mut *sink, 0..20);
    sink.pause(BEGIN_NS, &NO_COUNTS).unwrap();
    // while it goes on
    assert_eq!(read(&memory.fetch()).len(), 20);
    assert_eq!(memory.dropped(), Bytes::new(0));
    give(&mut *sink, 20..20_000);
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    drop(sink);
    let file = memory.fetch();
    assert!(file.len() as u64 <= most.get() + 4096, "{}", file.len());
    assert!(file.len() as u64 > most.get() * 3 / 4, "{}", file.len());
    assert!(memory.dropped() > Bytes::new(0));
    let frames = read(&file);
    let first = 20_000 - frames.len() as u32;
    assert!(frames.iter().zip(first..).all(|(frame, number)| frame.2 == bytes(number)));
    assert!(frames.len() > 500, "{}", frames.len());
    let fault = in_memory(Bytes::new(1000), &options("x".as_ref()), &opening()).err().unwrap();
    assert!(fault.to_string().contains("too small; give it 1MiB or more"), "{fault}");
}

/// `cargo test --release -p wirebeat-capture --test it -- --ignored --nocapture cost`
#[test]
#[ignore = "a figure, not a test"]
fn cost_of_a_frame() {
    require!(Capability::Program("sh"));
    let frame = bytes(0);
    assert_eq!(frame.len(), 60);
    let base = options("/dev/null".as_ref());
    let cases = [
        ("pcapng to /dev/null", base.clone()),
        (
            "pcap to /dev/null",
            CaptureOptions { file: "/dev/shm/wb.pcap".into(), overwrite: true, ..base.clone() },
        ),
        (
            "pcapng to tmpfs",
            CaptureOptions { file: "/dev/shm/wb.pcapng".into(), overwrite: true, ..base.clone() },
        ),
        ("pcapng.zst to /dev/null", CaptureOptions { compress: Some(true), ..base.clone() }),
        (
            "pcapng, filter 'udp port 9007'",
            CaptureOptions { filter: Some("udp port 9007".into()), ..base.clone() },
        ),
        (
            "pcapng, only 'delay > 1s or duplicate'",
            CaptureOptions { only: Some("delay > 1s or duplicate".into()), ..base },
        ),
    ];
    for (what, options) in cases {
        let mut best = f64::MAX;
        for _ in 0..3 {
            let mut sink = open(&options, &opening()).unwrap();
            let begun = Instant::now();
            let count = 2_000_000;
            for number in 0..count {
                sink.frame(&seen(number, &frame)).unwrap();
            }
            sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
            best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(count));
            let _ = std::fs::remove_file("/dev/shm/wb.pcapng");
            let _ = std::fs::remove_file("/dev/shm/wb.pcap");
        }
        println!("{what}: {best:.1} ns per 64-byte frame");
    }
}
