//! The length of an Ethernet frame.

/// Bytes of the frame check sequence (IEEE 802.3 §3.2.9).
pub const FCS: u16 = 4;
/// Bytes that a frame takes on the line beside itself: preamble and start delimiter 8, inter-packet
/// gap 12 (IEEE 802.3 §3.2.1, §4.4.2).
pub const LINE_OVERHEAD: u16 = 20;

/// Length of an Ethernet frame in bytes, header and frame check sequence included.
///
/// This is how the field counts ("64-byte frames", RFC 2544 §9); a buffer handed to Linux is
/// [`FCS`] bytes shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameLen(u16);

impl FrameLen {
    /// The shortest frame of IEEE 802.3.
    pub const MIN: FrameLen = FrameLen(64);

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
