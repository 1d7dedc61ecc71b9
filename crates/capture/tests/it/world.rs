//! Frames, and what other programs say of the files they are written to.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use wirebeat_capture::file::{CaptureOptions, open};
use wirebeat_capture::seen::{Interface, InterfaceCounts, Opening, Outcome, Seen};
use wirebeat_capture::sink::{Sink, Written};
use wirebeat_meter::observation::Standing;
use wirebeat_units::{BitRate, Nanos};

/// 2026-11-20T18:00:00.123456789Z.
pub const BEGIN_NS: u64 = 1_795_197_600_123_456_789;

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wb-capture-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

pub fn options(file: &Path) -> CaptureOptions {
    CaptureOptions { file: file.to_owned(), ..CaptureOptions::default() }
}

pub fn opening() -> Opening {
    let interface = |name: &str, snap_len| Interface {
        port: Some(name.to_owned()),
        name: Some(format!("eth{name}")),
        description: "xdp engine, zero copy".to_owned(),
        speed: Some(BitRate(10_000_000_000)),
        snap_len,
        timestamps: "the driver's receive time".to_owned(),
    };
    Opening {
        interfaces: vec![interface("1", 0), interface("2", 0)],
        flows: vec![(3, "voip".to_owned()), (5, "bulk".to_owned())],
        comment: Some("scenario voice.yaml, seed 7".to_owned()),
        unix_ns: BEGIN_NS,
    }
}

/// The nth frame: UDP over IPv4 with right checksums, of many lengths.
pub fn bytes(number: u32) -> Vec<u8> {
    let len = 60 + (number as usize * 37) % 1455;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let total = (len - 14) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..6].copy_from_slice(&(number as u16).to_be_bytes());
    let words = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    frame.extend(ip);
    frame.extend([0x13, 0x88, 0x23, 0x2f]);
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((frame.len()..len).map(|at| (at as u32 * 7 + number) as u8));
    frame
}

/// The nth frame as it was seen, 1.0001 ms after the one before; its delay is 2 ms.
pub fn seen(number: u32, bytes: &[u8]) -> Seen<'_> {
    let at = u64::from(number) * 1_000_100;
    Seen {
        interface: 0,
        queue: 0,
        hash: None,
        outcome: Outcome::Received(Standing::New),
        at: Nanos::new(5_000_000 + at),
        unix_ns: BEGIN_NS + at,
        flow: Some(3),
        sequence: Some(number),
        sent: Some(Nanos::new(3_000_000 + at)),
        due: None,
        frame_len: bytes.len() as u32 + 4,
        sampled: None,
        bytes,
    }
}

pub const NO_COUNTS: [InterfaceCounts; 2] =
    [InterfaceCounts { seen: 0, filtered: 0, receiver_drops: 0, lost: 0 }; 2];

/// Writes the frames from 0 on.
pub fn write(options: &CaptureOptions, count: u32) -> Written {
    let mut sink = open(options, &opening()).unwrap_or_else(|fault| panic!("{fault}"));
    give(&mut *sink, 0..count);
    sink.finish(BEGIN_NS + u64::from(count) * 1_000_100, &NO_COUNTS).unwrap();
    sink.written()
}

pub fn give(sink: &mut dyn Sink, numbers: std::ops::Range<u32>) {
    for number in numbers {
        sink.frame(&seen(number, &bytes(number))).unwrap();
    }
}

/// Runs a program, which has to end well and without a warning.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    // the only ones that say nothing of the file
    let warnings: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.contains("Running as user") && !line.starts_with("reading from file"))
        .filter(|line| !line.is_empty())
        .collect();
    assert!(status.success() && warnings.is_empty(), "{program} {arguments:?}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

/// The frames of a file by these fields of tshark.
pub fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = vec!["-r", file.to_str().unwrap(), "-T", "fields", "-E", "occurrence=a"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    arguments.extend(["-o", "eth.check_fcs:TRUE", "-o", "ip.check_checksum:TRUE"]);
    let text = run("tshark", &arguments);
    let lines = text.lines().map(|line| line.split('\t').map(str::to_owned).collect());
    lines.collect()
}

/// The frames of a pcapng or pcap file by the crate pcap-file: nanoseconds since 1970, original length, bytes.
pub fn read(file: &[u8]) -> Vec<(u64, u32, Vec<u8>)> {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let mut frames = Vec::new();
    if file.starts_with(&0x0a0d_0d0a_u32.to_le_bytes()) {
        let mut reader = PcapNgReader::new(file).unwrap();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                // the crate takes microseconds for granted
                let ns = packet.timestamp.as_nanos() as u64;
                frames.push((ns, packet.original_len, packet.data.into_owned()));
            }
        }
    } else {
        // by hand: the crate takes the snap length for a bound of the original length
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let unit = if word(0) == 0xa1b2_3c4d { 1 } else { 1000 };
        let mut at = 24;
        while at < file.len() {
            let ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)) * unit;
            let end = at + 16 + word(at + 8) as usize;
            frames.push((ns, word(at + 12), file[at + 16..end].to_vec()));
            at = end;
        }
    }
    frames
}
