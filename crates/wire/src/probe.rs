//! Wirebeat's probe: the 16 bytes at the end of a measured frame's payload.
//!
//! ```text
//!  0       2       4               8                              16
//! +-------+-------+---------------+-------------------------------+
//! | magic | flow  | sequence      | transmit time, ns             |   all big-endian
//! +-------+-------+---------------+-------------------------------+
//! ```
//! It stands at the end, so that it is found without knowing what comes before it, and is so short that
//! the shortest Ethernet frame of IPv4 and UDP, with 18 bytes of payload, has room for it. Its magic
//! and flow are part of the template of a flow; sequence and time are written as it leaves
//! ([`write()`]). The kernel programs write and read the same bytes (`bpf/wirebeat.h`).

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

/// Writes the fields that differ from frame to frame into a probe whose magic and flow are there.
#[inline]
pub fn write(probe: &mut [u8; LEN], sequence: u32, transmit_ns: u64) {
    probe[4..8].copy_from_slice(&sequence.to_be_bytes());
    probe[8..].copy_from_slice(&transmit_ns.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROBE: Probe =
        Probe { flow: 0x0102, sequence: 0x0304_0506, transmit_ns: 0x0708_090a_0b0c_0d0e };

    #[test]
    fn the_bytes_are_those_that_the_kernel_programs_agree_on() {
        let bytes = [b'W', b'B', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        assert_eq!(PROBE.to_bytes(), bytes);
        assert_eq!(Probe::from_tail(&bytes), Some(PROBE));
        let mut template = Probe { sequence: 0, transmit_ns: 0, ..PROBE }.to_bytes();
        write(&mut template, PROBE.sequence, PROBE.transmit_ns);
        assert_eq!(template, bytes);
    }

    #[test]
    fn a_payload_without_probe_has_none() {
        let bytes = PROBE.to_bytes();
        assert_eq!(Probe::from_tail(&[]), None);
        assert_eq!(Probe::from_tail(&bytes[1..]), None);
        assert_eq!(Probe::from_tail(&[&bytes[..], &[0]].concat()), None);
    }

    proptest! {
        #[test]
        fn a_probe_is_read_from_any_payload_that_ends_with_it(
            before: Vec<u8>,
            flow: u16,
            sequence: u32,
            transmit_ns: u64,
        ) {
            let probe = Probe { flow, sequence, transmit_ns };
            let payload = [before, probe.to_bytes().to_vec()].concat();
            prop_assert_eq!(Probe::from_tail(&payload), Some(probe));
        }
        #[test]
        fn any_bytes_are_a_probe_or_none(mut payload: Vec<u8>, marked: bool) {
            if marked && let Some(tail) = payload.last_chunk_mut::<LEN>() {
                tail[..2].copy_from_slice(&MAGIC.to_be_bytes());
            }
            if let Some(probe) = Probe::from_tail(&payload) {
                prop_assert!(payload.ends_with(&probe.to_bytes()));
            }
        }
    }
}
