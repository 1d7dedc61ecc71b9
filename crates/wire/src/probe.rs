//! Wirebeat's probe: the 16 bytes at the end of a measured frame's payload.
//!
//! ```text
//!  0       2       4               8                              16
//! +-------+-------+---------------+-------------------------------+
//! | magic | flow  | sequence      | transmit time, ns             |   all big-endian
//! +-------+-------+---------------+-------------------------------+
//! ```
//! The kernel programs write and read the same bytes (`bpf/wirebeat.h`).

/// Bytes of a probe.
pub const LEN: usize = 16;
/// The first two bytes: "WB".
pub const MAGIC: u16 = 0x5742;

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The flow's number on the wire.
    pub flow: u16,
    /// Counts the frames of the flow as they are sent, from 0, modulo 2^32.
    pub sequence: u32,
    /// Transmit time in nanoseconds of the sender's monotonic clock.
    pub transmit_ns: u64,
}

impl Probe {
    /// Reads the last 16 bytes of `payload`; `None` when it is shorter or the magic differs.
    pub fn from_tail(payload: &[u8]) -> Option<Probe> {
        let tail: &[u8; LEN] = payload.last_chunk()?;
        if tail[..2] != MAGIC.to_be_bytes() {
            return None;
        }
        Some(Probe {
            flow: u16::from_be_bytes([tail[2], tail[3]]),
            sequence: u32::from_be_bytes([tail[4], tail[5], tail[6], tail[7]]),
            transmit_ns: u64::from_be_bytes([
                tail[8], tail[9], tail[10], tail[11], tail[12], tail[13], tail[14], tail[15],
            ]),
        })
    }

    /// The 16 bytes.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2..4].copy_from_slice(&self.flow.to_be_bytes());
        out[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        out[8..].copy_from_slice(&self.transmit_ns.to_be_bytes());
        out
    }
}
