use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use wirebeat_meter::bins::Bins;
use wirebeat_meter::flow::Expectation;
use wirebeat_meter::meter::{Flows, Meter, MeterConfig};
use wirebeat_meter::observation::{Sampled, Standing};
use wirebeat_meter::queues::meters;
use wirebeat_meter::summary::MeterSummary;
use wirebeat_units::Nanos;
use wirebeat_wire::probe::Probe;
use wirebeat_wire::testing::udp_frame;

use super::read::{LogReader, Row};
use super::rebuild::rebuild;
use super::*;
use crate::seen::{Interface, InterfaceCounts, Outcome, Seen};

/// A folder of its own for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wb-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// 2026-11-23T03:25:17Z.
const DAY_NS: u64 = 1_795_404_317_000_000_000;

fn opening() -> Opening {
    let interface = |port: &str| Interface {
        port: Some(port.to_owned()),
        name: Some(format!("veth-{port}")),
        description: "the engine 'loopback'".to_owned(),
        speed: None,
        snap_len: 128,
        timestamps: "user space".to_owned(),
    };
    Opening {
        interfaces: vec![interface("a"), interface("b")],
        flows: vec![(1, "voip".to_owned()), (2, "bulk, \"and\" more".to_owned())],
        comment: Some("a test".to_owned()),
        unix_ns: DAY_NS,
    }
}

fn run() -> LoggedRun {
    let config = MeterConfig { flows: Flows::Any(4), ..MeterConfig::default() };
    LoggedRun {
        wirebeat_version: "0.1.0".to_owned(),
        command_line: vec!["wirebeat".to_owned(), "run".to_owned()],
        seed: Some(7),
        scenario: None,
        start_ns: 1_000,
        clocks: ClockRelation::Same,
        meters: vec![None, Some(MeterFacts::new(&config, 1))],
    }
}

/// The row that is to come of a frame.
fn row(seen: &Seen<'_>) -> Row {
    Row {
        unix_ns: seen.unix_ns,
        at: seen.at,
        port: seen.interface.into(),
        queue: seen.queue,
        outcome: seen.outcome,
        flow: seen.flow,
        sequence: seen.sequence,
        sent: seen.sent,
        due: seen.due,
        frame_len: seen.frame_len,
        sampled: seen.sampled,
    }
}

fn write(path: &Path, frames: &[Seen<'_>], group: usize) {
    let mut log =
        open(&PacketLogOptions::of(path.to_owned()).unwrap(), &opening(), &run()).unwrap();
    for (number, seen) in frames.iter().enumerate() {
        log.frame(seen).unwrap();
        if (number + 1) % group == 0 {
            // so long after that what was gathered is written
            log.pause(seen.unix_ns + 3_600_000_000_000, &[]).unwrap();
        }
    }
    let counts = InterfaceCounts { seen: frames.len() as u64 + 3, lost: 3, ..Default::default() };
    log.finish(DAY_NS + 5, &[InterfaceCounts::default(), counts]).unwrap();
    assert_eq!(log.written().frames, frames.len() as u64);
    assert_eq!(log.written().bytes, fs::metadata(path).unwrap().len());
}

fn rows(reader: &mut LogReader) -> Vec<Row> {
    std::iter::from_fn(|| reader.next_row().unwrap()).collect()
}

/// A frame of a stream at a steady pace, of which some are late, lost or doubled.
fn stream(number: u64) -> Seen<'static> {
    // splitmix64: no packer finds a pattern in it
    let mut jitter = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    jitter = (jitter ^ jitter >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    jitter = (jitter ^ jitter >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 52;
    let sent = 5_000_000_000 + number * 1_000;
    let at = sent + 20_000 + jitter;
    let standing = if number.is_multiple_of(97) { Standing::Duplicate } else { Standing::New };
    Seen {
        interface: 1,
        queue: (number % 2) as u16,
        hash: None,
        outcome: Outcome::Received(standing),
        at: Nanos::new(at),
        unix_ns: DAY_NS + at,
        flow: Some(1 + u16::from(number.is_multiple_of(3))),
        sequence: Some(number as u32),
        sent: Some(Nanos::new(sent)),
        due: None,
        frame_len: 64,
        sampled: Some(Sampled {
            payload_len: 18,
            packet_len: 64,
            fragments: 0,
            timed: true,
            last: false,
        }),
        bytes: &[],
    }
}

fn any_frame() -> impl Strategy<Value = Seen<'static>> {
    let outcomes = || {
        let received = Standing::ALL.into_iter().map(Outcome::Received);
        received.chain([Outcome::Sent, Outcome::Failed, Outcome::Expired]).collect::<Vec<_>>()
    };
    let sampled = (0..1u32 << 30, 0..1u32 << 30, 0..5u32, any::<bool>(), any::<bool>()).prop_map(
        |(payload_len, packet_len, fragments, timed, last)| Sampled {
            payload_len,
            packet_len,
            fragments,
            timed,
            last,
        },
    );
    let numbers = (any::<u64>(), any::<u64>(), 0..2u16, any::<u16>(), 0..1u32 << 31);
    let others = (
        prop::option::of(any::<u16>()),
        prop::option::of(any::<u32>()),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<u64>()),
        prop::option::of(sampled),
    );
    (numbers, others, prop::sample::select(outcomes())).prop_map(|(numbers, others, outcome)| {
        let (unix_ns, at, interface, queue, frame_len) = numbers;
        let (flow, sequence, sent, due, sampled) = others;
        let sampled = sampled.map(|sampled| match sampled.fragments {
            0 => Sampled { packet_len: frame_len, ..sampled },
            _ => sampled,
        });
        Seen {
            interface,
            queue,
            hash: None,
            outcome,
            at: Nanos::new(at),
            unix_ns,
            flow,
            sequence,
            sent: sent.map(Nanos::new),
            due: due.map(Nanos::new),
            frame_len,
            sampled,
            bytes: &[],
        }
    })
}

/// Where segments begin, and the last one ends.
fn segment_ends(bytes: &[u8]) -> Vec<u64> {
    let mut ends = vec![4];
    while let Some(b"WBPL") = bytes.get(ends[ends.len() - 1]..).and_then(|rest| rest.first_chunk())
    {
        let at = ends[ends.len() - 1];
        let len = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
        ends.push(at + len as usize);
    }
    ends.into_iter().map(|end| end as u64).collect()
}

/// Cut anywhere, a log is read as far as its row groups are whole, and repaired it is a file of Parquet.
#[test]
fn a_log_that_is_cut_anywhere_is_read_as_far_as_it_is_whole() {
    let folder = Folder::new("cut");
    let whole = folder.file("whole.parquet");
    let frames: Vec<_> = (0..60).map(stream).collect();
    write(&whole, &frames, 20);
    let bytes = fs::read(&whole).unwrap();
    let expected: Vec<Row> = frames.iter().map(row).collect();
    let footer = bytes.len() as u64
        - 8
        - u64::from(u32::from_le_bytes(
            bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap(),
        ));
    let cut = folder.file("cut.parquet");
    let ends = segment_ends(&bytes);
    assert_eq!((ends.len(), ends.last()), (5, Some(&footer)));
    let mut seen = [0u64; 5];
    // every length where a segment ends or begins, and every 11th elsewhere
    let near = |len: usize| ends.iter().any(|end| end.abs_diff(len as u64) < 40);
    for len in (0..bytes.len()).filter(|len| len % 11 == 0 || near(*len)) {
        fs::write(&cut, &bytes[..len]).unwrap();
        let mut reader = match LogReader::open(&cut) {
            Ok(reader) => reader,
            Err(fault) => {
                assert!(fault.to_string().contains("is no packet log"), "{fault}");
                seen[4] += 1;
                continue;
            }
        };
        let found = reader.cut().unwrap();
        assert_eq!(reader.rows(), 20 * found.row_groups as u64);
        assert_eq!(reader.end(), None);
        assert_eq!(found.row_groups == 3, len as u64 >= footer, "{len}");
        seen[found.row_groups] += 1;
        // where nothing was cut, nothing is said of bytes
        assert!(found.bytes < bytes.len() as u64 && found.bytes <= len as u64);
        assert_eq!(rows(&mut reader), expected[..20 * found.row_groups]);
        if len % 5 == 0 {
            reader.repair().unwrap();
            assert!(fs::read(&cut).unwrap().ends_with(b"PAR1"));
            let mut repaired = LogReader::open(&cut).unwrap();
            assert_eq!(repaired.cut(), None);
            assert_eq!(rows(&mut repaired), expected[..20 * found.row_groups]);
        }
    }
    assert!(seen.iter().all(|count| *count > 30), "{seen:?}");
}

/// Bytes that changed are no reason to panic, or to take rows that were not written.
#[test]
fn a_damaged_log_is_refused_or_read_without_what_is_damaged() {
    let folder = Folder::new("damaged");
    let path = folder.file("damaged.parquet");
    let frames: Vec<_> = (0..40).map(stream).collect();
    write(&path, &frames, 20);
    let bytes = fs::read(&path).unwrap();
    for (at, bit) in (0..bytes.len()).step_by(23).zip([0, 7, 3].into_iter().cycle()) {
        for end in [bytes.len(), bytes.len() - 1] {
            let mut damaged = bytes[..end].to_vec();
            damaged[at.min(end - 1)] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            let Ok(mut reader) = LogReader::open(&path) else { continue };
            let is_walked = reader.cut().is_some();
            let mut count = 0;
            while let Ok(Some(row_read)) = reader.next_row() {
                // the sum of a segment holds what is in it
                assert!(!is_walked || row_read == row(&frames[count]), "{at} {bit}");
                count += 1;
            }
            assert!(count <= frames.len());
        }
    }
}

/// A disk that takes no more: the log ends with the last row group that had room, whether there is room for an end or not.
#[test]
fn what_was_written_before_an_error_is_read() {
    let folder = Folder::new("full");
    let expected: Vec<Row> = (0..20).map(|number| row(&stream(number))).collect();
    for room_at_end in [true, false] {
        let path = folder.file(&format!("{room_at_end}.parquet"));
        let file = fs::File::create(&path).unwrap();
        let head = logged_run::LogHead::new(&opening(), &run());
        let mut log = parquet::ParquetLog::new(file, path.clone(), &head).unwrap();
        (0..20).for_each(|number| log.frame(&stream(number)).unwrap());
        log.pause(DAY_NS + 3_600_000_000_000, &[]).unwrap();
        let writable = log.replace_file(fs::File::open(&path).unwrap());
        (20..40).for_each(|number| log.frame(&stream(number)).unwrap());
        assert!(log.pause(DAY_NS + 7_200_000_000_000, &[]).is_err());
        if room_at_end {
            log.replace_file(writable);
        }
        // what comes behind an error is counted and not held
        (40..45).for_each(|number| log.frame(&stream(number)).unwrap());
        assert_eq!(log.finish(DAY_NS, &[]).is_ok(), room_at_end);
        assert_eq!((log.written().frames, log.written().lost), (20, 25));
        let mut reader = LogReader::open(&path).unwrap();
        assert_eq!(reader.cut().is_none(), room_at_end);
        assert_eq!(rows(&mut reader), expected);
    }
}

/// A file with right sums and wrong metadata was made by somebody who wants to do harm.
#[test]
fn forged_segments_are_refused_or_read() {
    let folder = Folder::new("forged");
    let path = folder.file("forged.parquet");
    let frames: Vec<_> = (0..40).map(stream).collect();
    write(&path, &frames, 20);
    let bytes = fs::read(&path).unwrap();
    let ends = segment_ends(&bytes);
    let (mut refused, mut read) = (0, 0);
    for segment in ends.windows(2) {
        let (begin, end) = (segment[0] as usize, segment[1] as usize);
        for at in (begin + 32..end).step_by(7) {
            let mut forged = bytes[..ends[ends.len() - 1] as usize].to_vec();
            forged[at] = forged[at].wrapping_add(1 + (at % 250) as u8);
            let metadata = u32::from_le_bytes(forged[begin + 24..begin + 28].try_into().unwrap());
            segments::seal(&mut forged[begin..end], begin as u64, metadata);
            fs::write(&path, &forged).unwrap();
            match rebuild(&path) {
                Ok(rebuilt) => read += u64::from(rebuilt.rows <= 40),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 50 && read > 50, "{refused} {read}");
}

#[test]
fn a_file_that_is_no_log_is_told() {
    let folder = Folder::new("other");
    let path = folder.file("other.parquet");
    for (bytes, told) in [
        (&b""[..], "is no packet log"),
        (b"PAR1", "is no packet log"),
        (b"time,at\n1,2\n", "is no packet log"),
        (&[0; 4096], "is no packet log"),
    ] {
        fs::write(&path, bytes).unwrap();
        let fault = LogReader::open(&path).unwrap_err();
        assert!(fault.to_string().contains(told), "{fault}");
        assert!(fault.hint.is_some() && fault.to_string().contains("other.parquet"), "{fault}");
    }
    let fault = LogReader::open(&folder.file("missing.parquet")).unwrap_err();
    assert!(fault.to_string().contains("cannot be read"), "{fault}");
}

#[test]
fn a_file_that_is_there_is_kept_unless_it_is_to_be_written_over() {
    let folder = Folder::new("there");
    for name in ["log.parquet", "log.csv", "log.csv.zst"] {
        let path = folder.file(name);
        fs::write(&path, "mine").unwrap();
        let mut options = PacketLogOptions::of(path.clone()).unwrap();
        let fault = open(&options, &opening(), &run()).err().unwrap().fault();
        assert!(fault.to_string().contains("is there already"), "{fault}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        options.overwrite = true;
        open(&options, &opening(), &run()).unwrap().finish(DAY_NS, &[]).unwrap();
        assert!(!fs::read(&path).unwrap().starts_with(b"mine"));
    }
    let missing = PacketLogOptions::of(folder.file("no/such/log.csv")).unwrap();
    let fault = open(&missing, &opening(), &run()).err().unwrap().fault();
    assert!(fault.to_string().contains("name a file in a folder that you may write to"), "{fault}");
    let fault = PacketLogOptions::of("log.txt".into()).unwrap_err();
    assert!(fault.to_string().contains("let it end in .parquet"), "{fault}");
}

/// Text that a reader of CSV takes apart: fields, quoted or not, and lines.
fn fields(text: &str) -> Vec<Vec<String>> {
    let mut lines = vec![vec![String::new()]];
    let (mut quoted, mut rest) = (false, text.chars().peekable());
    while let Some(letter) = rest.next() {
        let line = lines.last_mut().unwrap();
        match letter {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                line.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => line.push(String::new()),
            '\n' if !quoted => lines.push(vec![String::new()]),
            letter => line.last_mut().unwrap().push(letter),
        }
    }
    lines.pop();
    lines
}

#[test]
fn csv_says_what_parquet_does() {
    let folder = Folder::new("csv");
    let (plain, packed) = (folder.file("log.csv"), folder.file("log.csv.zst"));
    let mut frames: Vec<_> = (0..300).map(stream).collect();
    frames[7] = Seen {
        outcome: Outcome::Sent,
        flow: None,
        sequence: None,
        sent: None,
        due: Some(Nanos::new(9)),
        sampled: None,
        ..frames[7]
    };
    write(&plain, &frames, 50);
    write(&packed, &frames, 50);
    let text = fs::read_to_string(&plain).unwrap();
    let mut unpacked = Vec::new();
    std::io::copy(
        &mut zstd::Decoder::new(fs::File::open(&packed).unwrap()).unwrap(),
        &mut unpacked,
    )
    .unwrap();
    assert_eq!(text.as_bytes(), unpacked);
    let lines = fields(&text);
    assert_eq!(lines.len(), 1 + frames.len());
    assert_eq!(lines[0].join(","), columns::COLUMNS.map(|column| column.name).join(","));
    assert_eq!(
        lines[1],
        [
            "2026-11-23T03:25:22.000020000Z",
            "5000020000",
            "b",
            "0",
            "duplicate",
            "bulk, \"and\" more",
            "2",
            "0",
            "5000000000",
            "",
            "20000",
            "64",
            "18",
            "",
            "",
            "",
        ]
    );
    assert_eq!(lines[8][4..], ["sent", "", "", "", "", "9", "", "64", "", "", "", ""]);
}

/// Flow, how far its number is from its turn, time since the one before, delay, queue, and whether it is timed.
fn arrival() -> impl Strategy<Value = (u16, i16, u64, u64, usize, bool)> {
    let step = prop_oneof![8 => Just(0i16), 2 => -40..40i16, 1 => any::<i16>()];
    let gap = prop_oneof![20 => 0..5_000u64, 1 => 0..2_000_000_000u64];
    (0..5u16, step, gap, 0..100_000u64, 0..2usize, prop::bool::weighted(0.9))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Loss, duplicates, reordering, restarts, frames without probes, frames that are not timed: what a log comes to is what its
    /// meters measured.
    #[test]
    fn a_log_comes_to_what_its_meters_measured(
        arrivals in prop::collection::vec(arrival(), 0..400),
        queues in 1..3usize,
    ) {
        let folder = Folder::new("rebuild");
        let path = folder.file(&format!("{}.parquet", arrivals.len()));
        let _ = fs::remove_file(&path);
        let expected = Expectation { nominal_gap: Some(Nanos::new(2_500)), delay_base: 300 };
        let config = MeterConfig {
            flows: Flows::Expected((0..3).map(|flow| (flow, expected)).collect()),
            bins: Bins::new(Nanos::new(100), 40).ok(),
            window: 64,
            ..MeterConfig::default()
        };
        let mut of_run = run();
        of_run.meters = vec![None, Some(MeterFacts::new(&config, queues as u16))];
        let options = PacketLogOptions::of(path.clone()).unwrap();
        let mut log = open(&options, &opening(), &of_run).unwrap();
        let mut measured = meters(config, queues);
        let (mut at, mut numbers) = (10_000_000_000_u64, [0u32; 5]);
        for &(flow, step, gap, delay, queue, timed) in &arrivals {
            at += gap;
            let number = &mut numbers[usize::from(flow)];
            *number = number.wrapping_add(1);
            let sequence = number.wrapping_add_signed(step.into());
            let probe = Probe { flow, sequence, transmit_ns: at - delay };
            let payload = if step == 7 { vec![1; 30] } else { [&[0; 9][..], &probe.to_bytes()].concat() };
            let bytes = udp_frame("10.0.0.1:1000", "10.0.0.2:9", &payload);
            let meter = &mut measured[queue % queues];
            if !timed {
                meter.leave_time_out();
            }
            let frame_len = bytes.len() as u32 + 4;
            let judged = meter.record_frame(Nanos::new(at), &bytes, frame_len);
            log.frame(&Seen {
                interface: 1,
                queue: (queue % queues) as u16,
                hash: None,
                outcome: Outcome::Received(judged.standing),
                at: Nanos::new(at),
                unix_ns: DAY_NS + at,
                flow: judged.flow,
                sequence: judged.sequence,
                sent: judged.sent,
                due: None,
                frame_len,
                sampled: judged.sampled,
                bytes: &bytes[..42],
            })
            .unwrap();
        }
        let counts = InterfaceCounts { receiver_drops: 4, ..InterfaceCounts::default() };
        log.finish(DAY_NS, &[InterfaceCounts::default(), counts]).unwrap();
        let rebuilt = rebuild(&path).unwrap();
        let summaries = measured.into_iter().map(Meter::into_summary);
        let all = summaries.reduce(|mut all, one| {
            all.merge(&one);
            all
        });
        let all = all.map(|all| MeterSummary { receiver_drops: 4, ..all });
        let port = &rebuilt.ports[1];
        prop_assert_eq!((port.received, port.differing), (arrivals.len() as u64, 0));
        prop_assert_eq!(port.summary.as_ref(), all.as_ref());
        prop_assert_eq!(rebuilt.ports[0].summary.as_ref(), None);
    }
}

#[test]
fn what_was_sent_is_counted_by_flow() {
    let folder = Folder::new("sent");
    let path = folder.file("sent.parquet");
    let outcomes = [Outcome::Sent, Outcome::Sent, Outcome::Failed, Outcome::Expired, Outcome::Sent];
    let frames: Vec<_> = (0..)
        .zip(outcomes)
        .map(|(number, outcome)| {
            let at = Nanos::new(1_000 + 100 * number + 7);
            let due = Some(Nanos::new(1_000 + 100 * number));
            Seen { outcome, at, due, flow: Some(1), ..stream(number) }
        })
        .collect();
    write(&path, &frames, 100);
    let rebuilt = rebuild(&path).unwrap();
    let sent = &rebuilt.ports[1].sent[&Some(1)];
    assert_eq!((sent.frames, sent.bytes, sent.failed, sent.expired), (3, 192, 1, 1));
    assert_eq!(sent.span, Some((Nanos::new(1_007), Nanos::new(1_407))));
    assert_eq!(
        (sent.departures.lateness.moments.count, sent.departures.lateness.moments.sum),
        (3, 21)
    );
}

#[test]
#[ignore = "measures; run it with --release --nocapture"]
fn speed() {
    const FRAMES: u64 = 4_000_000;
    let path = std::env::var_os("WB_LOG").map(PathBuf::from);
    let folder = Folder::new("speed");
    let path = path.unwrap_or_else(|| folder.file("speed.parquet"));
    let _ = fs::remove_file(&path);
    let mut log = open(&PacketLogOptions::of(path.clone()).unwrap(), &opening(), &run()).unwrap();
    let begun = std::time::Instant::now();
    for number in 0..FRAMES {
        log.frame(&stream(number)).unwrap();
    }
    log.finish(DAY_NS, &[]).unwrap();
    let ns = begun.elapsed().as_nanos() as f64 / FRAMES as f64;
    let bytes = fs::metadata(&path).unwrap().len() as f64 / FRAMES as f64;
    println!("{ns:.0} ns and {bytes:.2} bytes a row");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Any bytes as a log, and a log with any bytes in it: the fuzz target `packet_log`, in short.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        of_log in any::<bool>(),
        end in any::<prop::sample::Index>(),
        sealed in any::<bool>(),
    ) {
        let folder = Folder::new("any");
        let path = folder.file("any.parquet");
        let mut bytes = [&segments::MAGIC[..], &bytes].concat();
        if of_log {
            let _ = fs::remove_file(&path);
            write(&path, &(0..30).map(stream).collect::<Vec<_>>(), 10);
            bytes = fs::read(&path).unwrap();
            bytes.truncate(bytes.len() - end.index(bytes.len() / 2));
            let ends = segment_ends(&bytes);
            for (at, to) in changes {
                let at = at.index(bytes.len());
                bytes[at] = to;
                let segment = ends.windows(2).find(|segment| {
                    (segment[0] as usize + segments::HEAD..segment[1] as usize).contains(&at)
                });
                // somebody who wants to do harm makes the sum right
                if let Some(&[begin, end]) = segment.filter(|_| sealed)
                    && let Some(whole) = bytes.get_mut(begin as usize..end as usize)
                {
                    let metadata = u32::from_le_bytes(whole[24..28].try_into().unwrap());
                    segments::seal(whole, begin, metadata);
                }
            }
        }
        fs::write(&path, &bytes).unwrap();
        let counted = || {
            let mut reader = LogReader::open(&path).ok()?;
            let mut count = 0_u64;
            // what is read twice over would have no end
            while let Ok(Some(_)) = reader.next_row() {
                count += 1;
                assert!(count <= 30, "more rows than were written");
            }
            Some(count)
        };
        let before = counted();
        if let Ok(rebuilt) = rebuild(&path) {
            prop_assert!(before.is_some() && rebuilt.rows <= 30);
        }
        if before.is_some() && LogReader::open(&path).unwrap().repair().is_ok() {
            let after = counted();
            prop_assert!(sealed || after >= before, "a repair loses what was read: {before:?}, {after:?}");
        }
    }

    #[test]
    fn rows_are_read_as_frames_were_seen(
        frames in prop::collection::vec(any_frame(), 0..200),
        group in 1..100usize,
    ) {
        let folder = Folder::new("rows");
        let path = folder.file(&format!("{}.parquet", frames.len()));
        let _ = fs::remove_file(&path);
        write(&path, &frames, group);
        let mut reader = LogReader::open(&path).unwrap();
        prop_assert_eq!(reader.rows(), frames.len() as u64);
        prop_assert_eq!(reader.cut(), None);
        prop_assert_eq!(reader.end().map(|end| end.ports[1].lost), Some(3));
        prop_assert_eq!(reader.head().flows.len(), 2);
        let expected: Vec<Row> = frames.iter().map(row).collect();
        prop_assert_eq!(rows(&mut reader), expected);
    }
}
