//! What a message one way begins with: how long it is, whose clock it tells, its number, and when it was planned and sent.
//!
//! 32 bytes, big-endian: the length (4), which clock the times are of (4), a constant (2), the number in its session and direction
//! (6), when the message was planned (8) and when it was handed to the stack (8), in nanoseconds of that clock. Generated data
//! follows, up to the length.

use wirebeat_traffic::values::session::STAMP;
use wirebeat_units::Nanos;

/// The constant, above the number in the same 8 bytes.
const MAGIC: u64 = 0x574d;
/// Bits of a number.
const NUMBER_BITS: u32 = 48;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Bytes of the message, these included.
    pub(crate) length: u32,
    /// Which clock the times are of.
    pub(crate) clock: u32,
    /// The number of the message; 48 bits of it are told.
    pub(crate) number: u64,
    /// When it was planned.
    pub(crate) planned: Nanos,
    /// When it was handed to the stack.
    pub(crate) sent: Nanos,
}

impl Stamp {
    /// As it is on the wire.
    pub(crate) fn encode(&self) -> [u8; STAMP as usize] {
        let number = MAGIC << NUMBER_BITS | self.number & ((1 << NUMBER_BITS) - 1);
        let mut bytes = [0; STAMP as usize];
        let words = [
            u64::from(self.length) << 32 | u64::from(self.clock),
            number,
            self.planned.get(),
            self.sent.get(),
        ];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// From the wire; `None`: this is no message one way.
    pub(crate) fn decode(bytes: &[u8; STAMP as usize]) -> Option<Stamp> {
        let word = |at: usize| {
            let eight = bytes.get(at..).and_then(<[u8]>::first_chunk);
            u64::from_be_bytes(eight.copied().unwrap_or_default())
        };
        let (first, number) = (word(0), word(8));
        let length = (first >> 32) as u32;
        let valid = number >> NUMBER_BITS == MAGIC && u64::from(length) >= STAMP;
        valid.then(|| Stamp {
            length,
            clock: first as u32,
            number: number & ((1 << NUMBER_BITS) - 1),
            planned: Nanos::new(word(16)),
            sent: Nanos::new(word(24)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let stamp = Stamp {
            length: 0x0102_0304,
            clock: 0xa0b0_c0d0,
            number: (1 << 48) - 2,
            planned: Nanos::new(7),
            sent: Nanos::new(u64::MAX),
        };
        let bytes = stamp.encode();
        assert_eq!(bytes[..10], [1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0, b'W', b'M']);
        assert_eq!(bytes[10..16], [0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(Stamp::decode(&bytes), Some(stamp));
    }

    #[test]
    fn what_is_too_short_or_something_else_is_none() {
        let stamp =
            Stamp { length: 32, clock: 0, number: 1, planned: Nanos::ZERO, sent: Nanos::ZERO };
        assert_eq!(Stamp::decode(&stamp.encode()), Some(stamp));
        assert_eq!(Stamp::decode(&Stamp { length: 31, ..stamp }.encode()), None);
        assert_eq!(Stamp::decode(&[0; 32]), None);
        assert_eq!(Stamp::decode(&[0xff; 32]), None);
    }
}
