//! The contents of the files that a scenario names. Whoever calls the compiler reads them; here they are
//! plain data.

use std::collections::{BTreeSet, HashMap};
use std::io::Cursor;
use std::time::Duration;

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::Block;
use wirebeat_units::Nanos;

use crate::spec::header::Header;
use crate::spec::header::payload::Payload;
use crate::spec::header::raw::Raw;
use crate::spec::size::{Length, MAX_LENGTHS, Of, Size};
use crate::spec::{FlowSpec, Scenario};

/// Files by the name that the scenario gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files(HashMap<String, Vec<u8>>);

impl Files {
    /// The longest file, in bytes.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Adds one.
    pub fn insert(&mut self, name: String, content: Vec<u8>) {
        self.0.insert(name, content);
    }

    /// Whether one of this name is here.
    pub fn holds(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names of all files that `scenario` needs.
    pub fn named_in(scenario: &Scenario) -> BTreeSet<&str> {
        scenario.flows.values().flat_map(names).collect()
    }

    /// A file's content.
    pub(super) fn bytes(&self, name: &str) -> Result<&[u8], String> {
        let content = self.0.get(name).map(Vec::as_slice);
        content.ok_or_else(|| format!("the file '{name}' was not read"))
    }

    /// The lengths in a text file: one in each line, `#` begins a comment.
    pub(super) fn lengths(&self, name: &str) -> Result<Vec<Length>, String> {
        self.lines(name, |line| line.parse())
    }

    /// Frame `number` of a capture, from 1, without FCS.
    pub(super) fn frame(&self, name: &str, number: u64) -> Result<Vec<u8>, String> {
        let mut found = None;
        let mut count = 0;
        self.each_frame(name, |frame| {
            count += 1;
            if count == number {
                found = Some(frame.bytes.to_vec());
            }
            count < number
        })?;
        found.ok_or_else(|| {
            format!("'{name}' has {count} frames, and number {number} is not among them")
        })
    }

    /// The lengths of all frames of a capture.
    pub(super) fn frame_lengths(&self, name: &str) -> Result<Vec<Length>, String> {
        let mut lengths = Vec::new();
        self.each_frame(name, |frame| {
            lengths.push(frame.length());
            lengths.len() <= MAX_LENGTHS
        })?;
        bounded(name, lengths)
    }

    /// The lengths of a trace: of a capture, or of a text with a length and a time in each line.
    pub(super) fn trace_lengths(&self, name: &str) -> Result<Vec<Length>, String> {
        match is_capture(self.bytes(name)?) {
            true => self.frame_lengths(name),
            false => Ok(self.trace(name)?.into_iter().map(|(length, _)| length).collect()),
        }
    }

    /// The times from each frame of a trace to the next, in nanoseconds. After the last of a capture comes
    /// the mean of the others.
    pub(super) fn gaps(&self, name: &str) -> Result<Vec<u64>, String> {
        if !is_capture(self.bytes(name)?) {
            return Ok(self.trace(name)?.into_iter().map(|(_, gap)| gap.get()).collect());
        }
        let mut times = Vec::new();
        self.each_frame(name, |frame| {
            times.push(u64::try_from(frame.time.as_nanos()).unwrap_or(u64::MAX));
            times.len() <= MAX_LENGTHS
        })?;
        let times = bounded(name, times)?;
        // A capture of several interfaces may go back a little.
        let mut gaps: Vec<u64> =
            times.iter().zip(times.iter().skip(1)).map(|(a, b)| b.saturating_sub(*a)).collect();
        let sum: u64 = gaps.iter().sum();
        gaps.push(sum / (gaps.len() as u64).max(1));
        Ok(gaps)
    }

    /// A length and the time until the next frame in each line.
    fn trace(&self, name: &str) -> Result<Vec<(Length, Nanos)>, String> {
        self.lines(name, |line| {
            let (length, time) = line
                .split_once(char::is_whitespace)
                .ok_or("a line has a length and the time until the next frame: 64B 10us")?;
            let time = time.trim().parse().map_err(|error| format!("{error}"));
            Ok((length.parse()?, time?))
        })
    }

    /// What the lines of a text say, but for comments and empty ones.
    fn lines<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let text = std::str::from_utf8(self.bytes(name)?)
            .map_err(|_| format!("'{name}' is neither a text nor a capture"))?;
        let mut values = Vec::new();
        for (line, number) in text.lines().zip(1u64..) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            values.push(read(line).map_err(|why| format!("{name}:{number}: {why}"))?);
        }
        bounded(name, values)
    }

    /// Gives each frame to `sink`, until that has enough.
    fn each_frame(
        &self,
        name: &str,
        mut sink: impl FnMut(&Frame<'_>) -> bool,
    ) -> Result<(), String> {
        let content = self.bytes(name)?;
        let broken = |error: &dyn std::fmt::Display| format!("'{name}' is no capture: {error}");
        if content.starts_with(&PCAPNG) {
            let mut reader = PcapNgReader::new(Cursor::new(content)).map_err(|e| broken(&e))?;
            while let Some(block) = reader.next_block() {
                let more = match block.map_err(|e| broken(&e))? {
                    Block::EnhancedPacket(packet) => sink(&Frame {
                        bytes: &packet.data,
                        len: packet.original_len,
                        time: packet.timestamp,
                    }),
                    Block::SimplePacket(packet) => sink(&Frame {
                        bytes: &packet.data,
                        len: packet.original_len,
                        time: Duration::ZERO,
                    }),
                    _ => true,
                };
                if !more {
                    break;
                }
            }
            return Ok(());
        }
        let mut reader = PcapReader::new(Cursor::new(content)).map_err(|e| broken(&e))?;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.map_err(|e| broken(&e))?;
            let (len, time) = (packet.orig_len, packet.timestamp);
            if !sink(&Frame { bytes: &packet.data, len, time }) {
                break;
            }
        }
        Ok(())
    }
}

/// The first block of pcapng (draft-ietf-opsawg-pcapng §4.1).
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Whether it begins as a capture does: pcapng, or pcap of microseconds or nanoseconds in either byte order.
fn is_capture(content: &[u8]) -> bool {
    const PCAP: [[u8; 4]; 4] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
    ];
    content.first_chunk().is_some_and(|magic| *magic == PCAPNG || PCAP.contains(magic))
}

/// A frame of a capture.
struct Frame<'a> {
    bytes: &'a [u8],
    /// Bytes that it had on the line, without FCS.
    len: u32,
    time: Duration,
}

impl Frame<'_> {
    fn length(&self) -> Length {
        let bytes = u16::try_from(self.len.saturating_add(4)).unwrap_or(u16::MAX).max(64);
        Length { bytes, of: Of::Frame }
    }
}

fn bounded<T>(name: &str, values: Vec<T>) -> Result<Vec<T>, String> {
    match values.len() {
        0 => Err(format!("there is nothing in '{name}'")),
        many if many > MAX_LENGTHS => {
            Err(format!("there are more than {MAX_LENGTHS} frames in '{name}'; shorten it"))
        }
        _ => Ok(values),
    }
}

/// The files that a flow names, in any of its phases.
fn names(flow: &FlowSpec) -> Vec<&str> {
    use crate::spec::Change;
    let mut names = Vec::new();
    let packets = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => settings.packet.as_ref(),
        _ => None,
    });
    for header in packets.chain([&flow.packet]).flatten() {
        match header {
            Header::Payload(Payload::File(name)) => names.push(name.as_str()),
            Header::Raw(Raw::Capture(captured)) => names.push(captured.file.as_str()),
            _ => {}
        }
    }
    let settings = flow.at.values().filter_map(|change| match change {
        Change::To(settings) => Some(settings),
        _ => None,
    });
    let sizes = settings.clone().filter_map(|settings| settings.size.as_ref());
    for size in sizes.chain(&flow.size) {
        if let Size::File(name) | Size::Capture(name) = size {
            names.push(name);
        }
    }
    let departures = settings.filter_map(|settings| settings.departures.as_ref());
    names.extend(departures.chain([&flow.departures]).filter_map(|departures| departures.file()));
    names
}
