//! What must be written into a frame at the last moment: sequence number, transmit time, and the
//! checksums over them.
//!
//! [`Stamp`] says where; [`Stamp::write`] does it. An engine that holds frames until their launch
//! time (the kernel engine) does the same by itself, with the same offsets.

use crate::probe;

/// Where the last-moment fields of a frame lie: byte offsets from the start of the buffer (frame or
/// datagram payload, as the port's view says). Zero means that the field is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The 16-byte probe whose magic and flow are already in the frame.
    pub probe_at: u16,
    /// The transport checksum that covers the probe. The bytes there hold the checksum of the frame
    /// with sequence and time zero.
    pub checksum_at: u16,
    /// The IPv4 identification, when it counts frames; its header checksum is 6 bytes further and
    /// holds the checksum of the header with identification zero.
    pub identification_at: u16,
}

impl Stamp {
    /// Writes sequence, time and identification, and mends the checksums that cover them.
    ///
    /// Call it once per build of a frame: it takes the template's checksums as its base. Offsets
    /// beyond `frame` are ignored.
    pub fn write(&self, frame: &mut [u8], sequence: u32, transmit_ns: u64) {
        let _ = (frame, sequence, transmit_ns, probe::LEN);
        // contract only; see the tests
    }
}
