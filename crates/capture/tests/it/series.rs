//! Several files one after the other, rings of them, and limits.

use std::fs;

use wirebeat_capture::file::{CaptureOptions, open};
use wirebeat_capture::seen::Seen;
use wirebeat_testbed::{Capability, require};
use wirebeat_units::{Bytes, Nanos};

use crate::world::tshark;
use crate::world::{
    BEGIN_NS, Folder, NO_COUNTS, bytes, give, opening, options, read, run, seen, write,
};

/// All frames of the files, in the order of their names.
fn all(folder: &Folder) -> Vec<Vec<u8>> {
    let files = folder.names().into_iter().map(|name| fs::read(folder.file(&name)).unwrap());
    let files = files.map(|file| match file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        true => zstd::decode_all(&file[..]).unwrap(),
        false => file,
    });
    files.flat_map(|file| read(&file)).map(|(_, _, data)| data).collect()
}

#[test]
fn a_series_by_size_has_every_frame_once_in_files_that_stand_alone() {
    require!(Capability::Program("capinfos"));
    for name in ["a.pcapng", "a.pcap", "a.pcapng.zst"] {
        let folder = Folder::new(&format!("size-{name}"));
        let most = 100_000;
        let rotate_size = Some(Bytes::new(most));
        let options = CaptureOptions { rotate_size, ..options(&folder.file(name)) };
        // packing makes these a tenth
        let count = if name.ends_with(".zst") { 30_000 } else { 3_000 };
        let written = write(&options, count);
        let names = folder.names();
        assert!(names.len() > 1, "{names:?}");
        assert_eq!(written.files.len(), names.len());
        assert_eq!(names[0], format!("a_00001_20261120180000{}", &name[1..]));
        let mut bytes_there = 0;
        for name in &names {
            let file = folder.file(name);
            let len = fs::metadata(&file).unwrap().len();
            bytes_there += len;
            // compressed, it is looked at when a buffer has been written
            assert!(len <= most || name.ends_with(".zst"), "{name} has {len} bytes");
            run("capinfos", &[file.to_str().unwrap()]);
        }
        assert_eq!(written.bytes, bytes_there);
        assert_eq!(all(&folder), (0..count).map(bytes).collect::<Vec<_>>());
    }
}

#[test]
fn a_series_by_count_or_time_begins_files_in_time() {
    let folder = Folder::new("count");
    let options = |name: &str| options(&folder.file(name));
    write(&CaptureOptions { rotate_count: Some(30), ..options("a.pcapng") }, 100);
    // a frame each 1.0001 ms
    let time = Some(Nanos::from_millis(100));
    write(&CaptureOptions { rotate_time: time, ..options("b.pcapng") }, 250);
    let counts: Vec<usize> = folder
        .names()
        .iter()
        .map(|name| read(&fs::read(folder.file(name)).unwrap()).len())
        .collect();
    assert_eq!(counts, [30, 30, 30, 10, 100, 100, 50]);
}

#[test]
fn files_end_in_time_also_without_frames() {
    let folder = Folder::new("silence");
    let rotate_time = Some(Nanos::from_secs(1));
    let options = CaptureOptions { rotate_time, ..options(&folder.file("a.pcapng")) };
    let mut sink = open(&options, &opening()).unwrap();
    give(&mut *sink, 0..10);
    for second in 1..5 {
        sink.pause(BEGIN_NS + second * 1_000_000_000, &NO_COUNTS).unwrap();
    }
    // the second begins with its first frame
    assert_eq!(folder.names().len(), 1);
    let late = bytes(10);
    let late = Seen { unix_ns: BEGIN_NS + 5_500_000_000, ..seen(10, &late) };
    sink.frame(&late).unwrap();
    sink.pause(BEGIN_NS + 9_000_000_000, &NO_COUNTS).unwrap();
    sink.finish(BEGIN_NS + 9_000_000_000, &NO_COUNTS).unwrap();
    assert_eq!((folder.names().len(), sink.written().files.len()), (2, 2), "none is empty");
    assert_eq!(all(&folder).len(), 11);
    // whatever the file is packed with
    let folder = Folder::new("silence-packed");
    let options = CaptureOptions { rotate_time, ..self::options(&folder.file("a.pcapng.zst")) };
    let mut sink = open(&options, &opening()).unwrap();
    give(&mut *sink, 0..10);
    sink.pause(BEGIN_NS + 2_000_000_000, &NO_COUNTS).unwrap();
    sink.finish(BEGIN_NS + 3_000_000_000, &NO_COUNTS).unwrap();
    assert_eq!((folder.names().len(), sink.written().frames), (1, 10));
}

#[test]
fn a_ring_keeps_the_newest_files() {
    let folder = Folder::new("ring");
    let file = folder.file("a.pcapng");
    let options = CaptureOptions { rotate_count: Some(10), files: Some(3), ..options(&file) };
    let written = write(&options, 95);
    // what it says it has is what is there
    assert_eq!((written.frames, written.removed, written.lost), (25, 70, 0));
    let names = folder.names();
    assert_eq!(names.len(), 3);
    assert!(names[0].starts_with("a_00008_") && names[2].starts_with("a_00010_"), "{names:?}");
    let listed = written.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap());
    assert_eq!(listed.collect::<Vec<_>>(), names);
    assert_eq!(all(&folder), (70..95).map(bytes).collect::<Vec<_>>());
    let sizes = written.files.iter().map(|file| fs::metadata(file).unwrap().len());
    assert_eq!(written.bytes, sizes.sum::<u64>());
}

#[test]
fn limits_end_a_capture() {
    let folder = Folder::new("limits");
    let file = folder.file("a.pcapng");
    let base = || CaptureOptions { overwrite: true, ..options(&file) };
    let kept = |options: &CaptureOptions, pause: bool| {
        let mut sink = open(options, &opening()).unwrap();
        let mut number = 0;
        while !sink.is_full() && number < 1000 {
            let frame = bytes(number);
            sink.frame(&seen(number, &frame)).unwrap();
            if pause {
                sink.pause(seen(number, &frame).unix_ns, &NO_COUNTS).unwrap();
            }
            number += 1;
        }
        assert!(sink.is_full());
        // what is given none the less is not written
        give(&mut *sink, 0..3);
        sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
        let frames = read(&fs::read(&file).unwrap());
        assert_eq!(frames.len() as u64, sink.written().frames);
        frames.len()
    };
    assert_eq!(kept(&CaptureOptions { count: Some(17), ..base() }, false), 17);
    for pause in [false, true] {
        // 99 times 1.0001 ms is less, 100 times is not
        let duration = Some(Nanos::from_millis(100));
        assert_eq!(kept(&CaptureOptions { duration, ..base() }, pause), 100);
    }
    let frames = kept(&CaptureOptions { size: Some(Bytes::new(50_000)), ..base() }, false);
    let len = fs::metadata(&file).unwrap().len();
    assert!(len <= 50_000 && len > 46_000, "{len}");
    assert!(frames > 50, "{frames}");
    let count = Some(25);
    let series =
        CaptureOptions { count, rotate_count: Some(10), ..options(&folder.file("s.pcap")) };
    assert_eq!((write(&series, 100).frames, write_names(&folder)), (25, 3));
}

/// Nothing happens to files after the end, and silence ends a capture too.
#[test]
fn a_full_capture_begins_no_more_files() {
    let folder = Folder::new("full-series");
    let options = CaptureOptions {
        rotate_time: Some(Nanos::from_secs(1)),
        duration: Some(Nanos::from_secs(2)),
        ..options(&folder.file("a.pcapng"))
    };
    let mut sink = open(&options, &opening()).unwrap();
    give(&mut *sink, 0..10);
    let mut pause = |tenths: u64, is_full: bool| {
        sink.pause(BEGIN_NS + tenths * 100_000_000, &NO_COUNTS).unwrap();
        assert_eq!(sink.is_full(), is_full, "{tenths}");
    };
    // frames of its last moments may still be under way
    [5, 20].into_iter().for_each(|tenths| pause(tenths, false));
    [25, 50, 100].into_iter().for_each(|tenths| pause(tenths, true));
    // none of the second second, which had no frame
    assert_eq!(folder.names().len(), 1);
    sink.finish(BEGIN_NS + 10_000_000_000, &NO_COUNTS).unwrap();
    assert_eq!((folder.names().len(), all(&folder).len()), (1, 10));
}

fn write_names(folder: &Folder) -> usize {
    folder.names().iter().filter(|name| name.starts_with("s_")).count()
}

#[test]
fn a_series_does_not_write_over_files() {
    let folder = Folder::new("clash");
    let file = folder.file("a.pcapng");
    let options = CaptureOptions { rotate_count: Some(10), ..options(&file) };
    write(&options, 5);
    let fault = open(&options, &opening()).err().unwrap().fault();
    assert!(fault.what.contains("a_00001_20261120180000.pcapng"), "{fault}");
    // the next one is in the way, which is known only then
    let options = CaptureOptions { overwrite: true, rotate_count: Some(2), ..options };
    write(&options, 5);
    fs::remove_file(folder.file("a_00001_20261120180000.pcapng")).unwrap();
    let mut sink = open(&CaptureOptions { overwrite: false, ..options }, &opening()).unwrap();
    let frame = bytes(0);
    let error = (0..9).find_map(|number| sink.frame(&seen(number, &frame)).err()).unwrap();
    assert!(error.to_string().contains("a_00002_20261120180000.pcapng"), "{error}");
}

/// What was written is there at each pause.
#[test]
fn compressed_files_are_readable_after_each_pause() {
    require!(Capability::Program("tshark"));
    let folder = Folder::new("pauses");
    let file = folder.file("a.pcapng.zst");
    let mut sink = open(&options(&file), &opening()).unwrap();
    for round in 0..5 {
        give(&mut *sink, round * 10..round * 10 + 10);
        let now = BEGIN_NS + u64::from(round + 1) * 1_000_000_000;
        sink.pause(now, &NO_COUNTS).unwrap();
        // by a program that takes what is there, and by one that knows that the end is missing
        assert_eq!(tshark(&file, &["frame.number"]).len() as u32, round * 10 + 10);
        let mut there = Vec::new();
        let error = zstd::stream::copy_decode(&fs::read(&file).unwrap()[..], &mut there);
        assert!(error.is_err());
        assert_eq!(read(&there).len() as u32, round * 10 + 10);
    }
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    assert_eq!(tshark(&file, &["frame.number"]).len(), 50);
}
