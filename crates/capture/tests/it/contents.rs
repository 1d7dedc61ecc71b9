//! What is in a file: all that was given, byte for byte, and what is said of it.

use std::fs;

use wirebeat_capture::file::{CaptureOptions, Comments, Fcs, FileFormat, open};
use wirebeat_capture::seen::{InterfaceCounts, Outcome, Seen};
use wirebeat_meter::observation::Standing;
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::world::{
    BEGIN_NS, Folder, NO_COUNTS, bytes, opening, options, read, run, seen, tshark, write,
};

/// Each format, with and without compression and FCS, as tshark reads it.
#[test]
fn every_kind_of_file_is_read_by_tshark_and_capinfos_byte_for_byte() {
    require!(Capability::Program("tshark"), Capability::Program("capinfos"));
    let folder = Folder::new("kinds");
    for (name, format) in [
        ("a.pcapng", None),
        ("a.pcap", None),
        ("us.pcap", Some(FileFormat::PcapMicros)),
        ("a.pcapng.zst", None),
        ("a.pcap.zst", None),
    ] {
        for fcs in [Fcs::None, Fcs::Computed, Fcs::Zeros] {
            let file = folder.file(&format!("{fcs:?}-{name}"));
            let written = write(&CaptureOptions { format, fcs, ..options(&file) }, 200);
            assert_eq!((written.frames, written.filtered), (200, 0));
            assert_eq!(written.bytes, fs::metadata(&file).unwrap().len());
            assert_eq!(written.files, std::slice::from_ref(&file));
            run("capinfos", &[file.to_str().unwrap()]);
            let fields = ["frame.time_epoch", "frame.len", "ip.checksum.status", "data.data"];
            let frames = tshark(&file, &[&fields[..], &["eth.fcs.status"]].concat());
            assert_eq!(frames.len(), 200, "{name}");
            for (number, frame) in (0_u32..).zip(&frames) {
                let sent = bytes(number);
                let fcs_len = if fcs == Fcs::None { 0 } else { 4 };
                let ns = BEGIN_NS + u64::from(number) * 1_000_100;
                let ns = if format.is_some() { ns / 1000 * 1000 } else { ns };
                let time = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
                assert_eq!(frame[0], time, "{name}");
                assert_eq!(frame[1], (sent.len() + fcs_len).to_string());
                assert_eq!(frame[2], "1");
                let data: String = sent[42..].iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(frame[3], data, "{name} {number}");
                // good, bad, or not there
                let status = match fcs {
                    Fcs::Computed => "1",
                    Fcs::Zeros => "0",
                    Fcs::None => "",
                };
                if name.contains("pcapng") {
                    assert_eq!(frame[4], status, "{name} {number}");
                }
            }
        }
    }
}

#[test]
fn a_snap_length_cuts_and_the_original_length_stays() {
    require!(Capability::Program("tshark"));
    let folder = Folder::new("snap");
    for name in ["a.pcapng", "a.pcap"] {
        for fcs in [Fcs::None, Fcs::Computed] {
            let file = folder.file(&format!("{fcs:?}-{name}"));
            write(&CaptureOptions { snap_len: Some(100), fcs, ..options(&file) }, 100);
            let fcs_len = if fcs == Fcs::None { 0 } else { 4 };
            for (number, (_, original, data)) in (0..).zip(read(&fs::read(&file).unwrap())) {
                let sent = bytes(number);
                assert_eq!(original as usize, sent.len() + fcs_len);
                let whole = if sent.len() <= 100 { sent.len() + fcs_len } else { 100 };
                assert_eq!(data.len(), whole, "{name} {number}");
                assert_eq!(data[..sent.len().min(100)], sent[..sent.len().min(100)]);
            }
            let frames = tshark(&file, &["frame.cap_len", "frame.len"]);
            assert!(frames.iter().all(|frame| frame[0].parse::<u32>().unwrap() <= 104));
        }
    }
}

/// Direction, queue, interface and comment of each frame.
#[test]
fn pcapng_says_what_became_of_each_frame() {
    require!(Capability::Program("tshark"));
    let folder = Folder::new("comments");
    let received = |standing| Outcome::Received(standing);
    let base = Seen { flow: Some(3), ..seen(17, &[]) };
    let late = Seen { due: Some(Nanos::new(base.at.get() - 1_240_000)), sent: None, ..base };
    let frames = [
        (base, "flow voip, number 17, in order, delay 2.000 ms"),
        (
            Seen { outcome: received(Standing::Duplicate), ..base },
            "flow voip, number 17, duplicate, delay 2.000 ms",
        ),
        (
            Seen { sequence: Some(20), flow: Some(3), queue: 2, ..base },
            "flow voip, number 20, in order, 2 missing before it, delay 2.000 ms",
        ),
        (
            Seen {
                outcome: received(Standing::Malformed),
                flow: None,
                sequence: None,
                sent: None,
                ..base
            },
            "malformed",
        ),
        (
            Seen {
                outcome: received(Standing::Foreign),
                flow: None,
                sequence: None,
                sent: None,
                ..base
            },
            "foreign",
        ),
        (
            Seen { outcome: Outcome::Sent, interface: 1, flow: Some(9), ..late },
            "flow 9, number 17, sent, late by 1.240 ms",
        ),
        (
            Seen { outcome: Outcome::Expired, interface: 1, flow: Some(5), due: None, ..late },
            "flow bulk, number 17, not sent, it was too late",
        ),
    ];
    let odd = [false, true, true, true, false, false, true];
    for comments in [Comments::None, Comments::Odd, Comments::All] {
        let file = folder.file(&format!("{comments:?}.pcapng"));
        let options = CaptureOptions { comments: Some(comments), unsent: true, ..options(&file) };
        let mut sink = open(&options, &opening()).unwrap();
        for (seen, _) in &frames {
            sink.frame(&Seen { bytes: &bytes(1), frame_len: 101, ..*seen }).unwrap();
        }
        sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
        let fields = ["frame.comment", "frame.packet_flags_direction", "frame.interface_name"];
        let found = tshark(&file, &[&fields[..], &["frame.interface_description"]].concat());
        assert_eq!(found.len(), frames.len());
        for (((seen, comment), odd), found) in frames.iter().zip(odd).zip(&found) {
            let has_comment = match comments {
                Comments::None => false,
                Comments::Odd => odd,
                Comments::All => true,
            };
            assert_eq!(found[0], if has_comment { comment } else { "" });
            let direction = if seen.outcome.is_received() { "1" } else { "2" };
            assert!(found[1].ends_with(direction), "{found:?}");
            assert_eq!(found[2], ["eth1", "eth2"][usize::from(seen.interface)]);
            assert!(found[3].contains("zero copy; times from the driver's receive time"));
        }
    }
}

#[test]
fn frames_that_did_not_leave_are_not_on_the_wire() {
    let folder = Folder::new("unsent");
    let file = folder.file("a.pcapng");
    let mut sink = open(&options(&file), &opening()).unwrap();
    let frame = bytes(1);
    for outcome in [Outcome::Sent, Outcome::Failed, Outcome::Expired] {
        sink.frame(&Seen { outcome, ..seen(1, &frame) }).unwrap();
    }
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    assert_eq!((sink.written().frames, read(&fs::read(&file).unwrap()).len()), (1, 1));
    // but for who asks for them
    let only = Some("failed or expired".to_owned());
    let file = folder.file("b.pcapng");
    let mut sink = open(&CaptureOptions { only, ..options(&file) }, &opening()).unwrap();
    for outcome in [Outcome::Sent, Outcome::Failed, Outcome::Expired] {
        sink.frame(&Seen { outcome, ..seen(1, &frame) }).unwrap();
    }
    sink.finish(BEGIN_NS, &NO_COUNTS).unwrap();
    assert_eq!((sink.written().frames, sink.written().filtered), (2, 1));
}

/// The options of blocks as they stand in the file: what tshark does not show.
#[test]
fn drops_and_statistics_add_up() {
    require!(Capability::Program("capinfos"));
    let folder = Folder::new("statistics");
    let file = folder.file("a.pcapng");
    let filter = Some("greater 500".to_owned());
    let options = CaptureOptions { filter, comments: Some(Comments::None), ..options(&file) };
    let mut sink = open(&options, &opening()).unwrap();
    let counts = |seen, lost, receiver_drops| {
        let counts = InterfaceCounts { seen, filtered: 0, receiver_drops, lost };
        [counts, InterfaceCounts::default()]
    };
    let mut kept = 0;
    for number in 0..10 {
        sink.frame(&seen(number, &bytes(number))).unwrap();
        kept += u64::from(bytes(number).len() >= 500);
    }
    // 7 were lost, and 3 drops of the receiver
    sink.pause(BEGIN_NS + 10_000_000, &counts(17, 7, 3)).unwrap();
    let first = (10..).find(|number| bytes(*number).len() >= 500).unwrap();
    for number in 10..20 {
        sink.frame(&seen(number, &bytes(number))).unwrap();
        kept += u64::from(bytes(number).len() >= 500);
    }
    sink.finish(BEGIN_NS + 20_000_000, &counts(27, 7, 3)).unwrap();
    assert_eq!(sink.written().filtered, 20 - kept);
    let blocks = blocks(&fs::read(&file).unwrap());
    let dropped: Vec<(u32, u64)> = blocks
        .iter()
        .filter(|block| block.kind == 6)
        .filter_map(|block| {
            let count = block.option(4)?;
            let number = u16::from_be_bytes([block.body[20 + 18], block.body[20 + 19]]);
            Some((number.into(), u64::from_le_bytes(count.try_into().unwrap())))
        })
        .collect();
    assert_eq!(dropped, [(first, 10)]);
    let statistics: Vec<_> = blocks.iter().filter(|block| block.kind == 5).collect();
    assert_eq!(statistics.len(), 2);
    let number = |code| {
        let value = statistics[0].option(code).unwrap();
        u64::from_le_bytes(value.try_into().unwrap())
    };
    assert_eq!([3, 4, 5, 6, 7, 8].map(number)[1..], [30, 3, 7 + kept, 7, kept]);
    // high word first
    assert_eq!(number(2).rotate_left(32), BEGIN_NS);
    assert_eq!(number(3).rotate_left(32), BEGIN_NS + 20_000_000);
    let header = &blocks[0];
    for (code, text) in [(1, "scenario voice.yaml, seed 7"), (3, "Linux "), (4, "Wirebeat ")] {
        let found = String::from_utf8(header.option(code).unwrap()).unwrap();
        assert!(found.starts_with(text), "{found}");
    }
    assert!(!header.option(2).unwrap().is_empty());
    let interface = &blocks[1];
    assert_eq!(interface.option(8).unwrap(), 10_000_000_000_u64.to_le_bytes());
    assert_eq!(interface.option(9).unwrap(), [9]);
    assert_eq!(interface.option(11).unwrap(), b"\0greater 500");
    assert_eq!(interface.option(13), None);
    // no names are resolved
    assert!(blocks.iter().all(|block| [0x0a0d_0d0a, 1, 5, 6].contains(&block.kind)));
    let text = run("capinfos", &[file.to_str().unwrap()]);
    assert!(text.contains("Number of stat entries = 1"), "{text}");
    assert!(text.contains("Capture filter: greater 500") || text.contains("greater 500"), "{text}");
}

/// A block, and its options taken apart by hand.
struct Block {
    kind: u32,
    body: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn blocks(file: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let len = word(rest, 4) as usize;
        assert!(len.is_multiple_of(4) && word(rest, len - 4) as usize == len);
        blocks.push(Block { kind: word(rest, 0), body: rest[8..len - 4].to_vec() });
        rest = &rest[len..];
    }
    blocks
}

impl Block {
    fn option(&self, wanted: u16) -> Option<Vec<u8>> {
        let mut at = match self.kind {
            0x0a0d_0d0a => 16,
            1 => 8,
            5 => 12,
            _ => 20 + (word(&self.body, 12) as usize).next_multiple_of(4),
        };
        loop {
            let head = word(&self.body, at);
            let (code, len) = (head as u16, (head >> 16) as usize);
            if code == 0 {
                // nothing stands behind the end
                assert_eq!(at + 4, self.body.len());
                return None;
            }
            if code == wanted {
                return Some(self.body[at + 4..at + 4 + len].to_vec());
            }
            at += 4 + len.next_multiple_of(4);
        }
    }
}
