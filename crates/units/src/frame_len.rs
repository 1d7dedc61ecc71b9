//! The length of an Ethernet frame.

use std::fmt;
use std::str::FromStr;

use crate::parse::{Bare, Quantity};
use crate::text::serde_as_text;
use crate::{UnitError, bytes};

const FRAME_LENGTH: Quantity = Quantity {
    what: "a frame length",
    example: "64B or 1518B",
    units: bytes::UNITS,
    bare: Bare::Finest,
};

/// Bytes of the frame check sequence (IEEE 802.3 §3.2.9).
pub const FCS: u16 = 4;
/// Bytes that a frame takes on the line beside itself: preamble and start delimiter 8, inter-packet
/// gap 12 (IEEE 802.3 §3.2.1, §4.4.2).
pub const LINE_OVERHEAD: u16 = 20;

/// Length of an Ethernet frame in bytes, header and frame check sequence included.
///
/// This is how the field counts ("64-byte frames", RFC 2544 §9); a buffer handed to Linux is
/// [`FCS`] bytes shorter.
///
/// Read from `"64B"`, `"1518"` or `"9kB"`, within [`FrameLen::MIN`] and [`FrameLen::MAX`]; printed in
/// bytes. The constructors take any length: what a port can carry is for the port to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameLen(u16);

impl FrameLen {
    /// The shortest frame of IEEE 802.3.
    pub const MIN: FrameLen = FrameLen(64);
    /// The longest that can be asked for. No link carries that much: packets longer than it does leave as IP
    /// fragments, whose lengths this is together, but for the headers they have beside.
    pub const MAX: FrameLen = FrameLen(u16::MAX);

    /// From a length that counts the FCS.
    pub const fn with_fcs(len: u16) -> Self {
        FrameLen(len)
    }
    /// From the length of a buffer that leaves the FCS out, saturating.
    pub const fn without_fcs(len: u16) -> Self {
        FrameLen(len.saturating_add(FCS))
    }
    /// Bytes with FCS.
    pub const fn get(self) -> u16 {
        self.0
    }
    /// Bytes of the buffer that is handed to an engine: without FCS.
    pub const fn buffer(self) -> u16 {
        self.0.saturating_sub(FCS)
    }
    /// Bytes on the line: with FCS, preamble and inter-packet gap.
    pub const fn on_line(self) -> u32 {
        self.0 as u32 + LINE_OVERHEAD as u32
    }
}

/// Bytes of a packet from the Ethernet header on: without the padding of a short frame, and without FCS. It may be longer than
/// any frame, and then leaves in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketLen(u32);

impl PacketLen {
    /// Of so many bytes.
    pub const fn new(bytes: u32) -> Self {
        PacketLen(bytes)
    }
    /// Bytes.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// Bytes behind its first `headers`.
    pub const fn behind(self, headers: u16) -> u32 {
        self.0.saturating_sub(headers as u32)
    }
    /// The frame that it leaves in if it leaves in one: padded where it is short.
    pub const fn buffer(self) -> BufferLen {
        BufferLen(if self.0 < BufferLen::MIN.0 { BufferLen::MIN.0 } else { self.0 })
    }
}

/// Bytes of a frame as Linux and the engines handle it: with padding, without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferLen(u32);

impl BufferLen {
    /// Of the shortest frame; shorter packets are padded with zeros (IEEE 802.3 §4.2.3.3).
    pub const MIN: BufferLen = BufferLen(FrameLen::MIN.buffer() as u32);

    /// Of so many bytes.
    pub const fn new(bytes: u32) -> Self {
        BufferLen(bytes)
    }
    /// Bytes.
    pub const fn get(self) -> u32 {
        self.0
    }
    /// Bytes, as sizes of memory are counted.
    pub const fn size(self) -> usize {
        self.0 as usize
    }
    /// Bytes on its way to the line, with FCS.
    pub const fn with_fcs(self) -> u32 {
        self.0.saturating_add(FCS as u32)
    }
}

impl FromStr for FrameLen {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = FRAME_LENGTH.whole(text)?;
        match u16::try_from(bytes).map(FrameLen) {
            Ok(len) if (FrameLen::MIN..=FrameLen::MAX).contains(&len) => Ok(len),
            _ => Err(FRAME_LENGTH.refuse(
                text,
                format!(
                    "frames are {} to {} bytes long, with FCS",
                    FrameLen::MIN.0,
                    FrameLen::MAX.0
                ),
            )),
        }
    }
}

impl fmt::Display for FrameLen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}B", self.0))
    }
}

serde_as_text!(FrameLen, FRAME_LENGTH.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_read_with_and_without_unit() {
        for (text, len) in [("64B", 64), ("1518", 1518), ("1518 B", 1518), ("9kB", 9000)] {
            assert_eq!(text.parse(), Ok(FrameLen(len)), "{text}");
        }
        assert_eq!("65535B".parse(), Ok(FrameLen::MAX));
        assert_eq!(serde_json::from_str::<FrameLen>("570").ok(), Some(FrameLen(570)));
        assert_eq!(serde_json::to_string(&FrameLen(570)).expect("json"), "\"570B\"");
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        for text in ["63B", "0", "65536", "65600B", "1TB"] {
            let error = text.parse::<FrameLen>().expect_err(text);
            assert_eq!(error.why, "frames are 64 to 65535 bytes long, with FCS", "{text}");
        }
        let error = "64b".parse::<FrameLen>().expect_err("bits").to_string();
        assert_eq!(
            error,
            "'64b' is not a frame length: there is no unit 'b', and case matters: \
             did you mean 'B'?; write for example 64B or 1518B"
        );
        assert!("64.5".parse::<FrameLen>().is_err());
    }

    #[test]
    fn a_length_counts_what_its_name_says() {
        let len = FrameLen::with_fcs(64);
        assert_eq!((len.get(), len.buffer(), len.on_line()), (64, 60, 84));
        assert_eq!(FrameLen::without_fcs(60), len);
    }

    proptest! {
        #[test]
        fn every_length_survives_printing_and_reading(len in 64..=9018_u16) {
            prop_assert_eq!(FrameLen(len).to_string().parse(), Ok(FrameLen(len)));
        }
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<FrameLen>();
        }
    }
}
