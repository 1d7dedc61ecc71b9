//! What a format of capture files does, and what of a frame is written.

use std::str::FromStr;

use flate2::Crc;
use wirebeat_units::{FCS, Fault, fault};

use super::pcap::Pcap;
use super::pcapng::Pcapng;
use crate::seen::{InterfaceCounts, Opening, Seen};

/// The most bytes of a frame that are written. Readers refuse a file with longer ones (Wireshark's and libpcap's limit,
/// 262144), and an FCS may follow.
pub const FRAME_MAX: usize = 262_144 - FCS as usize;

/// A format of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// pcapng (draft-ietf-opsawg-pcapng), with nanoseconds.
    #[default]
    Pcapng,
    /// Classic pcap (draft-ietf-opsawg-pcap), with nanoseconds.
    Pcap,
    /// Classic pcap with microseconds, for programs that know nothing else.
    PcapMicros,
}

/// How a user names the formats.
const FORMATS: [(&str, FileFormat); 3] = [
    ("pcapng", FileFormat::Pcapng),
    ("pcap", FileFormat::Pcap),
    ("pcap-us", FileFormat::PcapMicros),
];

/// Which frames have a comment (pcapng alone has comments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comments {
    /// None.
    None,
    /// Those that a measurement finds odd: duplicates, reordered and late ones, damaged ones, and those before which sequence
    /// numbers are missing.
    #[default]
    Odd,
    /// All.
    All,
}

/// How a user names them.
const COMMENTS: [(&str, Comments); 3] =
    [("none", Comments::None), ("odd", Comments::Odd), ("all", Comments::All)];

/// The frame check sequence in the file. Cards check it and do not hand it over, so it has to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fcs {
    /// None, as most capture files have it.
    #[default]
    None,
    /// The CRC-32 of each frame that is whole in the file. A frame that was cut short ends before its FCS.
    Computed,
    /// Four zeros in its place: for programs that want its room and do not check it.
    Zeros,
}

/// How a user names them.
const FCS_NAMES: [(&str, Fcs); 3] =
    [("none", Fcs::None), ("computed", Fcs::Computed), ("zeros", Fcs::Zeros)];

/// One of a few names.
fn named<T: Copy>(what: &str, names: &[(&str, T)], text: &str) -> Result<T, Fault> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let given: String = text.chars().take(60).collect();
        fault!("'{given}' is not {what}"; "write one of {}", known.join(", "))
    })
}

impl FromStr for FileFormat {
    type Err = Fault;

    fn from_str(text: &str) -> Result<FileFormat, Fault> {
        named("a format of capture files", &FORMATS, text)
    }
}

impl FromStr for Comments {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Comments, Fault> {
        named("a choice of comments", &COMMENTS, text)
    }
}

impl FromStr for Fcs {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Fcs, Fault> {
        named("a choice of frame check sequence", &FCS_NAMES, text)
    }
}

/// What of a frame is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// Its bytes without FCS.
    pub bytes: &'a [u8],
    /// The FCS that follows them.
    pub fcs: Option<[u8; 4]>,
    /// Bytes of the whole frame, with FCS where the file has it.
    pub original: u32,
    /// Sequence numbers of its flow that are missing right before it.
    pub missing: u32,
}

impl<'a> Kept<'a> {
    /// Of a frame, cut to `snap_len` bytes (0: whole).
    #[inline]
    pub fn of(seen: &Seen<'a>, snap_len: usize, fcs: Fcs) -> Kept<'a> {
        let len = seen.len_without_fcs();
        let most = if snap_len == 0 { FRAME_MAX } else { snap_len.min(FRAME_MAX) };
        let bytes = seen.bytes.get(..most).unwrap_or(seen.bytes);
        let whole = bytes.len() == len;
        let following = match fcs {
            Fcs::Computed if whole => Some(check_sequence(bytes)),
            Fcs::Zeros if whole => Some([0; 4]),
            _ => None,
        };
        let counted = if fcs == Fcs::None { 0 } else { u32::from(FCS) };
        let original = u32::try_from(len).unwrap_or(u32::MAX).saturating_add(counted);
        Kept { bytes, fcs: following, original, missing: 0 }
    }

    /// Bytes in the file.
    pub fn captured(&self) -> usize {
        self.bytes.len() + self.fcs.map_or(0, |fcs| fcs.len())
    }
}

/// The FCS in the order of the line (IEEE 802.3 §3.2.9: the same CRC-32 that zlib has, least significant byte first).
fn check_sequence(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

/// Makes the bytes of a format, appending them to a buffer.
#[derive(Debug)]
pub enum Encoder {
    Pcapng(Pcapng),
    Pcap(Pcap),
}

impl Encoder {
    /// What a file begins with.
    pub fn header(&self, opening: &Opening, into: &mut Vec<u8>) {
        match self {
            Encoder::Pcapng(pcapng) => pcapng.header(opening, into),
            Encoder::Pcap(pcap) => pcap.header(into),
        }
    }

    /// A frame; it allocates nothing where `into` has room.
    #[inline]
    pub fn frame(&mut self, seen: &Seen<'_>, kept: &Kept<'_>, into: &mut Vec<u8>) {
        match self {
            Encoder::Pcapng(pcapng) => pcapng.frame(seen, kept, into),
            Encoder::Pcap(pcap) => pcap.frame(seen, kept, into),
        }
    }

    /// The most bytes that a frame can have in the file.
    #[inline]
    pub fn block_max(&self, kept: &Kept<'_>) -> usize {
        match self {
            Encoder::Pcapng(pcapng) => pcapng.block_max(kept),
            Encoder::Pcap(_) => super::pcap::RECORD + kept.captured(),
        }
    }

    /// Takes note of the counts so far.
    pub fn counts(&mut self, counts: &[InterfaceCounts]) {
        if let Encoder::Pcapng(pcapng) = self {
            pcapng.counts(counts);
        }
    }

    /// What a file ends with.
    pub fn trailer(&self, unix_ns: u64, into: &mut Vec<u8>) {
        if let Encoder::Pcapng(pcapng) = self {
            pcapng.statistics(unix_ns, into);
        }
    }

    /// How many of the first `written` bytes are whole blocks, or records; `blocks` begins with one.
    pub fn whole(&self, blocks: &[u8], written: usize) -> usize {
        let len_of: fn(&[u8]) -> Option<usize> = match self {
            Encoder::Pcapng(_) => super::pcapng::block_len,
            Encoder::Pcap(_) => super::pcap::record_len,
        };
        let mut whole = 0;
        while let Some(len) = blocks.get(whole..).and_then(len_of) {
            if len == 0 || whole + len > written {
                break;
            }
            whole += len;
        }
        whole
    }
}

impl Encoder {
    /// How many frames there are in whole blocks that do not begin a file.
    pub fn frames_in(&self, blocks: &[u8]) -> u64 {
        let (mut frames, mut rest) = (0, blocks);
        loop {
            let (len, is_frame) = match self {
                Encoder::Pcapng(_) => {
                    (super::pcapng::block_len(rest), super::pcapng::is_packet(rest))
                }
                Encoder::Pcap(_) => (super::pcap::record_len(rest), true),
            };
            let Some(behind) = len.filter(|len| *len > 0).and_then(|len| rest.get(len..)) else {
                return frames;
            };
            frames += u64::from(is_frame);
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::tests::frame;

    #[test]
    fn the_check_sequence_is_that_of_ieee_802_3() {
        // the check value of CRC-32/ISO-HDLC
        assert_eq!(check_sequence(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
        // a receiver finds the same residue over every frame with its FCS
        let whole = [b"any frame".as_slice(), &check_sequence(b"any frame")].concat();
        assert_eq!(u32::from_le_bytes(check_sequence(&whole)), 0x2144_df1c);
    }

    #[test]
    fn lengths_are_those_of_the_line() {
        let bytes = [7; 100];
        let seen = frame(&bytes);
        let kept = |snap, fcs| {
            let kept = Kept::of(&seen, snap, fcs);
            (kept.bytes.len(), kept.fcs.is_some(), kept.original)
        };
        assert_eq!(kept(0, Fcs::None), (100, false, 100));
        assert_eq!(kept(0, Fcs::Computed), (100, true, 104));
        assert_eq!(kept(0, Fcs::Zeros), (100, true, 104));
        assert_eq!(kept(40, Fcs::None), (40, false, 100));
        // it ends before its FCS
        assert_eq!(kept(40, Fcs::Computed), (40, false, 104));
        assert_eq!(kept(100, Fcs::Computed), (100, true, 104));
    }

    #[test]
    fn a_short_frame_of_a_virtual_cable_is_whole() {
        let bytes = [7; 42];
        let seen = Seen { frame_len: 64, ..frame(&bytes) };
        assert_eq!(Kept::of(&seen, 0, Fcs::None).original, 42);
        // one that was cut by whoever saw it is not
        let seen = Seen { frame_len: 1518, ..seen };
        assert_eq!(
            Kept::of(&seen, 0, Fcs::Computed),
            Kept { bytes: &bytes, fcs: None, original: 1514 + 4, missing: 0 }
        );
    }

    #[test]
    fn names_are_told() {
        assert_eq!("pcap-us".parse(), Ok(FileFormat::PcapMicros));
        assert_eq!("computed".parse(), Ok(Fcs::Computed));
        assert_eq!(
            "some".parse::<Comments>().unwrap_err().to_string(),
            "'some' is not a choice of comments; write one of none, odd, all"
        );
    }
}
