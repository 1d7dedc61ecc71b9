//! tshark, which dissects frames and knows nothing of how they were made.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use pcap_file::pcap::{PcapPacket, PcapWriter};
use serde_json::Value;

/// What it does not do by itself: verify every checksum, and leave out what would need the frames before.
const PREFERENCES: [&str; 6] = [
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "dccp.check_checksum:TRUE",
    "sctp.checksum:CRC 32c",
    "tcp.analyze_sequence_numbers:FALSE",
];
/// From this severity on an expert's remark is a complaint: below are chats, such as "this is a SYN".
const NOTE: u64 = 0x0040_0000;

/// A frame as tshark sees it.
#[derive(Debug)]
pub struct Dissected(Value);

/// Dissects frames, each by itself.
pub fn dissect(frames: &[Vec<u8>]) -> Vec<Dissected> {
    dissected(frames, "FALSE")
}

/// Dissects frames, and puts fragments together: what they are parts of is told of the last.
pub fn reassemble(frames: &[Vec<u8>]) -> Vec<Dissected> {
    dissected(frames, "TRUE")
}

fn dissected(frames: &[Vec<u8>], defragment: &str) -> Vec<Dissected> {
    let file = capture(frames);
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&file).args(["-T", "json", "--no-duplicate-keys"]);
    // What a label stands for is an agreement: this one for Ethernet.
    command.args(["-d", "mpls.label==70,pwethnocw"]);
    for preference in PREFERENCES {
        command.args(["-o", preference]);
    }
    for protocol in ["ip", "ipv6"] {
        command.arg("-o").arg(format!("{protocol}.defragment:{defragment}"));
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dissected: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(dissected.len(), frames.len(), "tshark and the capture differ");
    dissected.into_iter().map(|frame| Dissected(frame["_source"]["layers"].clone())).collect()
}

/// Writes frames into a file of its own.
fn capture(frames: &[Vec<u8>]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("wirebeat-{}-{number}.pcap", process::id()));
    let mut writer = PcapWriter::new(fs::File::create(&path).unwrap()).unwrap();
    for (frame, n) in frames.iter().zip(0..) {
        let time = std::time::Duration::from_millis(n);
        writer.write_packet(&PcapPacket::new(time, frame.len() as u32, frame)).unwrap();
    }
    path
}

impl Dissected {
    /// Everything that it says of the field `name`, from the outside in.
    pub fn values(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.0, &mut |key, value| {
            if key == name {
                found.push(value.to_owned());
            }
        });
        found
    }

    /// The remarks of its experts, but for mere chats, and checksums that it does not find right. A
    /// checksum that is left out (3: "not present") is right.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        experts(&self.0, &mut complaints);
        walk(&self.0, &mut |key, value| {
            if key.ends_with("checksum.status") && !matches!(value, "1" | "3") {
                complaints.push(format!("{key} {value}"));
            }
        });
        complaints
    }
}

/// Goes through all fields.
fn walk(value: &Value, see: &mut impl FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) => see(key, text),
                    Value::Array(list) => list.iter().for_each(|value| match value {
                        Value::String(text) => see(key, text),
                        other => walk(other, see),
                    }),
                    other => walk(other, see),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, see)),
        _ => {}
    }
}

fn experts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let text = |key: &str| map.get(key).and_then(Value::as_str);
            if let Some(severity) = text("_ws.expert.severity") {
                let severity: u64 = severity.parse().unwrap();
                if severity >= NOTE {
                    found.push(text("_ws.expert.message").unwrap_or("?").to_owned());
                }
            }
            map.values().for_each(|value| experts(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| experts(value, found)),
        _ => {}
    }
}
