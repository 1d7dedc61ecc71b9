use std::io;

use proptest::prelude::*;

use super::*;
use crate::capture::FRAME_MAX;

/// What was read of a frame, with its own bytes.
type Seen = (Option<i64>, u32, u16, Vec<u8>, u32);

/// Gives a few bytes at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(into.len()).min(self.0.len());
        self.0.read(&mut into[..count])
    }
}

fn all(bytes: &[u8], on_bad: OnBad) -> Result<(Vec<Seen>, Tally), ReadError> {
    let mut frames = Frames::new(Trickle(bytes, 7_001), "test", on_bad);
    let mut all = Vec::new();
    while frames.advance()? {
        let Frame { time_ns, interface, link, bytes, original } = frames.frame();
        all.push((time_ns, interface, link.0, bytes.to_vec(), original));
    }
    assert_eq!(frames.position(), bytes.len() as u64);
    Ok((all, *frames.tally()))
}

fn right(bytes: &[u8]) -> Vec<Seen> {
    all(bytes, OnBad::Stop).unwrap().0
}

fn message(bytes: &[u8]) -> String {
    all(bytes, OnBad::Stop).unwrap_err().to_string()
}

fn words(order: Endianness, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| match order {
        Endianness::Little => word.to_le_bytes(),
        Endianness::Big => word.to_be_bytes(),
    };
    words.iter().flat_map(bytes).collect()
}

/// A capture in pcap: seconds, their parts, original length and bytes of each frame.
fn pcap(order: Endianness, magic: u32, network: u32, frames: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = words(order, &[magic]);
    let version: [u16; 2] = [2, 4];
    for part in version {
        file.extend(if order == Endianness::Big { part.to_be_bytes() } else { part.to_le_bytes() });
    }
    file.extend(words(order, &[0, 0, 65_535, network]));
    for &(seconds, part, original, bytes) in frames {
        file.extend(words(order, &[seconds, part, bytes.len() as u32, original]));
        file.extend(bytes);
    }
    file
}

fn micro(frames: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    pcap(Endianness::Little, 0xa1b2_c3d4, 1, frames)
}

/// A block of pcapng.
fn block(order: Endianness, kind: u32, content: &[u8]) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(content.len().next_multiple_of(4), 0);
    let len = content.len() as u32 + 12;
    [words(order, &[kind, len]), content, words(order, &[len])].concat()
}

fn section(order: Endianness) -> Vec<u8> {
    let version = words(order, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
    block(order, 0x0a0d_0d0a, &version)
}

fn interface(order: Endianness, link: u16, snap_len: u32, options: &[u8]) -> Vec<u8> {
    let link = if order == Endianness::Big { link.to_be_bytes() } else { link.to_le_bytes() };
    let snap_len = words(order, &[snap_len]);
    block(order, 1, &[&link[..], &[0, 0], &snap_len, options].concat())
}

/// An option, little endian.
fn option(code: u8, value: &[u8]) -> Vec<u8> {
    let mut option = vec![code, 0, value.len() as u8, 0];
    option.extend(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

fn enhanced(order: Endianness, number: u32, time: u64, original: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [number, (time >> 32) as u32, time as u32, bytes.len() as u32, original];
    block(order, 6, &[&words(order, &head), bytes].concat())
}

/// A capture in pcapng with one interface, little endian.
fn ng(blocks: &[Vec<u8>]) -> Vec<u8> {
    let before = [section(Endianness::Little), interface(Endianness::Little, 1, 0, &[])].concat();
    [before, blocks.concat()].concat()
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_units() {
    for order in [Endianness::Little, Endianness::Big] {
        let frames: [(u32, u32, u32, &[u8]); 2] =
            [(10, 999_999, 4, b"abcd"), (u32::MAX, 0, 100, b"efg")];
        let file = pcap(order, 0xa1b2_c3d4, 101, &frames);
        let expected = [
            (Some(10_999_999_000), 0, 101, b"abcd".to_vec(), 4),
            (Some(4_294_967_295_000_000_000), 0, 101, b"efg".to_vec(), 100),
        ];
        assert_eq!(right(&file), expected);
        let file = pcap(order, 0xa1b2_3c4d, 1, &[(10, 999_999_999, 1, b"a")]);
        assert_eq!(right(&file), [(Some(10_999_999_999), 0, 1, b"a".to_vec(), 1)]);
    }
    assert_eq!(right(&micro(&[])), []);
    let tally = all(&micro(&[(0, 0, 9, b"abc")]), OnBad::Stop).unwrap().1;
    assert_eq!((tally.frames, tally.bytes, tally.cut), (1, 3, 1));
}

#[test]
fn a_frame_check_sequence_is_taken_off() {
    let file = pcap(
        Endianness::Little,
        0xa1b2_c3d4,
        1 | 1 << 26 | 2 << 28,
        &[
            (0, 0, 8, b"abcdFCS!"),
            // not all of it was captured, and what is missing is the end
            (0, 0, 8, b"abc"),
            (0, 0, 8, b"abcdF"),
            (0, 0, 2, b"ab"),
        ],
    );
    let read: Vec<(Vec<u8>, u32)> =
        right(&file).into_iter().map(|(.., bytes, original)| (bytes, original)).collect();
    let expected: [(&[u8], u32); 4] = [(b"abcd", 4), (b"abc", 4), (b"abcd", 4), (b"", 0)];
    assert_eq!(read, expected.map(|(bytes, original)| (bytes.to_vec(), original)));
    let with = interface(Endianness::Little, 1, 0, &option(13, &[32]));
    let frame = enhanced(Endianness::Little, 0, 5, 8, b"abcdFCS!");
    let read = right(&[section(Endianness::Little), with, frame].concat());
    assert_eq!(read, [(Some(5_000), 0, 1, b"abcd".to_vec(), 4)]);
}

#[test]
fn pcapng_has_sections_with_byte_orders_interfaces_and_units_of_their_own() {
    let little = Endianness::Little;
    let offset = [option(9, &[9]), option(14, &(-2_i64).to_le_bytes())].concat();
    let file = [
        section(little),
        interface(little, 1, 0, &[option(2, b"eth0"), option(9, &[9]), vec![0; 4]].concat()),
        interface(little, 101, 2, &option(9, &[0x8a])),
        block(little, 0x0bad, b"unknown"),
        enhanced(little, 0, 1_500_000_000_123_456_789, 4, b"abcd"),
        enhanced(little, 1, 1_536, 9, b"efghi"),
        interface(little, 228, 0, &offset),
        enhanced(little, 2, 1_000_000_000, 1, b"j"),
        section(Endianness::Big),
        interface(Endianness::Big, 113, 3, &[]),
        block(Endianness::Big, 3, &[&words(Endianness::Big, &[5]), &b"kln"[..]].concat()),
        enhanced(Endianness::Big, 0, 7, 3, b"mno"),
        // the old kind: interface and drops in 16 bits each
        block(Endianness::Big, 2, &[&words(Endianness::Big, &[0, 0, 8, 1, 1]), &b"p"[..]].concat()),
    ];
    let frame =
        |time, of, link, bytes: &[u8], len| -> Seen { (time, of, link, bytes.to_vec(), len) };
    let expected = [
        frame(Some(1_500_000_000_123_456_789), 0, 1, b"abcd", 4),
        frame(Some(1_500_000_000), 1, 101, b"efghi", 9),
        frame(Some(-1_000_000_000), 2, 228, b"j", 1),
        frame(None, 0, 113, b"kln", 5),
        frame(Some(7_000), 0, 113, b"mno", 3),
        frame(Some(8_000), 0, 113, b"p", 1),
    ];
    assert_eq!(right(&file.concat()), expected);
}

#[test]
fn blocks_that_are_long_are_passed_over() {
    let long = block(Endianness::Little, 0x0bad, &vec![7; 2 * ASK_MAX]);
    let frame = enhanced(Endianness::Little, 0, 1, 1, b"a");
    let file = ng(&[long.clone(), frame.clone()]);
    assert_eq!(right(&file).len(), 1);
    let mut lies = long.clone();
    let end = lies.len() - 4;
    lies[end] ^= 4;
    let told = message(&ng(&[lies, frame.clone()]));
    assert!(told.contains("frame 1 at byte ") && told.contains("by its end"), "{told}");
    let cut = ng(&[long[..ASK_MAX + 5_000].to_vec()]);
    assert!(message(&cut).contains("the file ends after"), "{}", message(&cut));
    // a frame as long as can be, and one that is longer
    let longest = enhanced(Endianness::Little, 0, 1, FRAME_MAX as u32, &vec![1; FRAME_MAX]);
    assert_eq!(right(&ng(&[longest])).len(), 1);
    let longer = enhanced(Endianness::Little, 0, 1, 300_000, &vec![1; 300_000]);
    let (frames, tally) = all(&ng(&[longer, frame]), OnBad::Skip).unwrap();
    assert_eq!((frames.len(), tally.bad.0, tally.skipped), (1, 1, 300_032));
}

#[test]
fn what_is_wrong_is_told_with_its_place_or_skipped_alone() {
    let little = Endianness::Little;
    let good = enhanced(little, 0, 1, 1, b"a");
    let of_absurd = [interface(little, 1, 0, &option(9, &[30])), enhanced(little, 1, 1, 1, b"a")];
    let absurd_2 = [interface(little, 1, 0, &option(9, &[0xff])), enhanced(little, 1, 1, 1, b"a")];
    let mut room = enhanced(little, 0, 1, 9, b"abcd");
    room[20] = 5;
    for (bad, told) in [
        (enhanced(little, 7, 1, 1, b"a"), "it is of interface 7, which the capture does not"),
        (of_absurd.concat(), "an invalid unit of time: 10^-30 s"),
        (absurd_2.concat(), "an invalid unit of time: 2^-127 s"),
        (enhanced(little, 0, u64::MAX, 1, b"a"), "its time is not between the years 1678 and 2262"),
        (
            enhanced(little, 0, 1, 1, b"ab"),
            "its captured length is 2 bytes, more than its original length of 1",
        ),
        (room, "its captured length is 5 bytes, but its block has room for 4"),
    ] {
        let file = ng(&[good.clone(), bad, good.clone()]);
        let got = message(&file);
        assert!(got.contains(told) && got.starts_with("test: frame 2 at byte "), "{got}");
        let (frames, tally) = all(&file, OnBad::Skip).unwrap();
        assert_eq!((frames.len(), tally.frames, tally.bad.0), (2, 2, 1), "{told}");
    }
    let fraction = micro(&[(1, 2, 1, b"a"), (1, 1_000_000, 1, b"a"), (1, 3, 1, b"a")]);
    assert!(message(&fraction).starts_with("test: frame 2 at byte 41: its time has 1000000 parts"));
    assert_eq!(all(&fraction, OnBad::Skip).unwrap().0.len(), 2);
}

/// The numbers in the data of all frames that are left with frame 30 of 100 damaged, and what was counted.
fn damaged(file: &[u8]) -> (Vec<u8>, Tally) {
    let (frames, tally) = all(file, OnBad::Skip).unwrap();
    (frames.into_iter().map(|(.., bytes, _)| bytes[0]).collect(), tally)
}

/// All of 100 but one.
fn without(number: u8) -> Vec<u8> {
    (0..100).filter(|other| *other != number).collect()
}

#[test]
fn a_wrong_length_in_pcap_costs_its_frame_and_not_the_rest_of_the_file() {
    for order in [Endianness::Little, Endianness::Big] {
        let data: Vec<[u8; 60]> = (0..100).map(|number| [number; 60]).collect();
        let frames: Vec<(u32, u32, u32, &[u8])> = (0..)
            .zip(&data)
            .map(|(at, data)| (1_435_774_830 + at / 10, at % 10, 60, &data[..]))
            .collect();
        let good = pcap(order, 0xa1b2_c3d4, 1, &frames);
        for (number, captured, original, told) in [
            (30, u32::MAX, 60, "no frame has more"),
            (
                30,
                5_000,
                60,
                "its captured length is 5000 bytes, more than its original length of 60",
            ),
            (30, 300, 60, "its length is 316, and other frames begin 76 bytes behind"),
            (30, 300, 1500, "its length is 316, and other frames begin 76 bytes behind"),
            (0, 100_000, 100_000, "the file ends after 7600 of its 100016 bytes"),
            (98, 100_000, 100_000, "the file ends after"),
        ] {
            let mut file = good.clone();
            let at = 24 + usize::from(number) * 76;
            file[at + 8..at + 16].copy_from_slice(&words(order, &[captured, original]));
            let (seen, tally) = damaged(&file);
            assert!(seen == without(number), "{number} {captured}: {seen:?}");
            assert_eq!((tally.bad.0, tally.bad_frames, tally.skipped), (1, 0, 76));
            let got = tally.bad.1.unwrap();
            assert!(got.defect.to_string().contains(told), "{}", got.defect);
        }
        // one that is too short: what there is of it is taken
        let mut file = good.clone();
        file[24 + 30 * 76 + 8..][..4].copy_from_slice(&words(order, &[20]));
        let (seen, tally) = damaged(&file);
        assert_eq!((seen.len(), tally.bad.0, tally.skipped), (100, 1, 40));
        // lost bytes, and the last frame cut off: two places, one of them a frame
        let mut file = good[..good.len() - 9].to_vec();
        file.drain(24 + 30 * 76 + 5..24 + 30 * 76 + 15);
        let (seen, tally) = damaged(&file);
        assert_eq!(seen, without(30)[..98]);
        assert_eq!((tally.bad.0, tally.bad_frames, tally.skipped), (2, 1, 66 + 67));
    }
}

#[test]
fn a_wrong_length_in_pcapng_costs_its_block_and_not_the_rest_of_the_file() {
    let little = Endianness::Little;
    let good = |number| enhanced(little, 0, 1, 1, &[number]);
    let with = |at: usize, value: u8| {
        let mut bad = good(30);
        bad[at] = value;
        bad
    };
    let most: Vec<u8> = with(6, 1);
    for (bad, told) in [
        (with(4, 33), "the length of its block is 33"),
        (with(4, 8), "the length of its block is 8"),
        (with(4, 0), "the length of its block is 0"),
        (with(4, 72), "its block has 72 bytes by its beginning and 36 by its end"),
        (with(32, 40), "its block has 36 bytes by its beginning and 40 by its end"),
        (with(7, 1), "the length of its block is 16777252"),
        (most, "the file ends after"),
    ] {
        let blocks: Vec<Vec<u8>> =
            (0..100).map(|number| if number == 30 { bad.clone() } else { good(number) }).collect();
        let file = ng(&blocks);
        let got = message(&file);
        assert!(got.contains(told) && got.starts_with("test: frame 31 at byte "), "{got}");
        let (seen, tally) = damaged(&file);
        assert_eq!(seen, without(30), "{told}");
        assert_eq!((tally.bad.0, tally.bad_frames, tally.skipped), (1, 0, 36));
    }
    // frames of a section that is none are not taken for those of the one before
    let mut none = section(little);
    none[8] = 0;
    let behind = [section(little), interface(little, 101, 0, &[]), good(2)].concat();
    let (frames, tally) = all(&ng(&[good(0), none, good(1), behind]), OnBad::Skip).unwrap();
    assert_eq!(
        frames.iter().map(|frame| (frame.2, frame.3[0])).collect::<Vec<_>>(),
        [(1, 0), (101, 2)]
    );
    assert_eq!((tally.bad.0, tally.bad_frames, tally.skipped), (2, 1, 28 + 36));
    // nor those of an interface for those of another
    let mut bad = interface(little, 1, 0, &[]);
    bad[4] = 21;
    let blocks = [bad, interface(little, 101, 0, &[]), enhanced(little, 2, 1, 1, &[7]), good(8)];
    let (frames, _) = all(&ng(&blocks), OnBad::Skip).unwrap();
    assert_eq!(
        frames.iter().map(|frame| (frame.2, frame.3[0])).collect::<Vec<_>>(),
        [(101, 7), (1, 8)]
    );
}

/// Far more than the window holds.
#[test]
fn frames_are_found_behind_megabytes_of_anything() {
    let data = [7; 60];
    let frames: Vec<(u32, u32, u32, &[u8])> =
        (0..8).map(|at| (1_435_774_830, at, 60, &data[..])).collect();
    let mut file = micro(&frames);
    let blocks: Vec<Vec<u8>> =
        (0..8).map(|at| enhanced(Endianness::Little, 0, at, 60, &data)).collect();
    let mut blocks = ng(&blocks);
    for (file, len) in [(&mut file, 76), (&mut blocks, 92)] {
        let at = file.len() - 4 * len;
        file.splice(at..at, std::iter::repeat_n(0xff, 3_000_001));
        let (frames, tally) = all(file, OnBad::Skip).unwrap();
        assert_eq!((frames.len(), tally.bad.0, tally.skipped), (8, 1, 3_000_001));
    }
}

#[test]
fn what_is_cut_off_anywhere_is_told_and_what_was_before_it_is_read() {
    let pcap = micro(&[(1, 2, 4, b"abcd"), (1, 2, 4, b"efgh")]);
    let ng = ng(&[
        enhanced(Endianness::Little, 0, 1, 4, b"abcd"),
        enhanced(Endianness::Little, 0, 1, 4, b"efgh"),
    ]);
    for (file, second) in [(&pcap, 44), (&ng, ng.len() - 36)] {
        assert_eq!(right(file).len(), 2);
        assert_eq!(right(&file[..second]).len(), 1);
        for end in second + 1..file.len() {
            let told = message(&file[..end]);
            let expected = format!("test: frame 2 at byte {second}: the file ends after ");
            assert!(told.starts_with(&expected), "{end}: {told}");
            assert_eq!(all(&file[..end], OnBad::Skip).unwrap().0.len(), 1);
        }
        for end in 0..24 {
            // less than the header of the file
            assert!(all(&file[..end], OnBad::Stop).is_err(), "{end}");
        }
    }
    for other in [&b""[..], b"PK\x03\x04", b"\xa1\xb2\xcd\x34 modified"] {
        let error = all(other, OnBad::Skip).unwrap_err().to_string();
        assert_eq!(
            error,
            "test: frame 1 at byte 0: this is not a capture; name a file of pcap or pcapng"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        ng_too: bool,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let before = if ng_too { ng(&[]) } else { micro(&[]) };
        let _ = all(&[before, bytes].concat(), OnBad::Stop);
    }

    /// Bytes that are almost a capture get further than random ones. All of them are read or skipped.
    #[test]
    fn any_damage_is_read_or_refused(
        ng_too: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len: prop::sample::Index,
    ) {
        let mut bytes = match ng_too {
            true => ng(&[
                interface(Endianness::Little, 1, 0, &option(9, &[9])),
                enhanced(Endianness::Little, 1, 1, 4, b"abcd"),
                block(Endianness::Little, 0x0bad, b"unknown"),
                enhanced(Endianness::Little, 0, 1, 4, b"efgh"),
            ]),
            false => micro(&[(1, 2, 4, b"abcd"), (1, 2, 4, b"efgh"), (2, 2, 8, b"ijkl")]),
        };
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(len.index(bytes.len() + 1));
        let _ = all(&bytes, OnBad::Stop);
        match all(&bytes, OnBad::Skip) {
            Ok((_, tally)) => prop_assert!(tally.skipped <= bytes.len() as u64),
            Err(ReadError::Bad { bad, .. }) => prop_assert_eq!(bad.defect, Defect::NoCapture),
            Err(error) => panic!("{error}"),
        }
    }
}
