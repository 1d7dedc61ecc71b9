//! The Internet checksum (RFC 1071) and the pseudo headers that transport checksums cover.
//!
//! A [`Sum`] is built up from pieces and finished once. How a checksum is mended without summing
//! anew is [`crate::stamp`]'s business.

use std::net::IpAddr;

use crate::ip::Protocol;

/// A ones' complement sum of 16-bit words in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

/// Bytes up to which words are summed one by one.
const SHORT: usize = 192;

impl Sum {
    /// The sum of no words.
    pub const ZERO: Sum = Sum(0);

    /// The sum of what UDP and TCP prepend to their datagram of `len` bytes (RFC 768, RFC 9293 §3.1, RFC 8200 §8.1); `None`
    /// for addresses of two versions.
    #[inline(always)]
    pub fn pseudo(
        source: IpAddr,
        destination: IpAddr,
        protocol: Protocol,
        len: u32,
    ) -> Option<Sum> {
        let numbers = u64::from(protocol.0) + u64::from(len);
        // Words of 32 bits will do as well as those of 16, for they are folded later (RFC 1071 §2(C)).
        let words = |bits: u128| {
            let halves = [
                bits >> 96,
                bits >> 64 & 0xffff_ffff,
                bits >> 32 & 0xffff_ffff,
                bits & 0xffff_ffff,
            ];
            halves.iter().map(|half| *half as u64).sum::<u64>()
        };
        let addresses = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                u64::from(source.to_bits()) + u64::from(destination.to_bits())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                words(source.to_bits()) + words(destination.to_bits())
            }
            _ => return None,
        };
        Some(Sum(numbers + addresses))
    }

    /// Adds `bytes`, the last one with a zero after it where their number is odd; so only the last
    /// piece of a message may have an odd length.
    #[must_use]
    #[inline]
    pub fn add_bytes(self, bytes: &[u8]) -> Sum {
        if bytes.len() <= SHORT { self.add_short(bytes) } else { self.add_long(bytes) }
    }

    /// As [`Sum::add_bytes`], word by word of 64 bits with its carry: what headers and small messages need, vector units do not pay
    /// for.
    #[inline]
    fn add_short(self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<8>();
        let last = match bytes.last_chunk::<8>() {
            _ if rest.is_empty() => 0,
            // What is left, with zeros behind it, is the end of the last word that there is whole.
            Some(last) => (u64::from_le_bytes(*last) >> (64 - 8 * rest.len() as u32)).to_le(),
            None => {
                let mut last = [0; 8];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                u64::from_ne_bytes(last)
            }
        };
        // Twice as wide as the words: carries gather in the upper half, and come round once.
        let words = words.iter().map(|word| u128::from(u64::from_ne_bytes(*word)));
        let sum = words.sum::<u128>() + u128::from(last);
        let (sum, carry) = (sum as u64).overflowing_add((sum >> 64) as u64);
        self.add_native(sum + u64::from(carry))
    }

    /// As [`Sum::add_bytes`], for much.
    fn add_long(self, bytes: &[u8]) -> Sum {
        // Words may be taken as this machine has them and the sum be swapped, and taken in wider words and folded
        // later (RFC 1071 §2(B) and (C)). Eight sums side by side are what vector units are for; none of them
        // overflows, for that takes 2^32 blocks.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut lanes = [0_u64; 8];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let (words, rest) = rest.as_chunks::<4>();
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        let tail = words.iter().chain([&last]).map(|word| u64::from(u32::from_ne_bytes(*word)));
        let halves = lanes.iter().map(|lane| (lane >> 32) + (lane & 0xffff_ffff));
        self.add_native(halves.chain(tail).sum())
    }

    /// Adds a sum of words as this machine has them.
    #[inline]
    fn add_native(self, sum: u64) -> Sum {
        // The order of bytes changes in all four words of 16 bits at once, and which of them is where does not count. A carry out of
        // the top is worth 1.
        let (total, carry) = self.0.overflowing_add(u64::from_be(sum));
        Sum(total + u64::from(carry))
    }

    /// The sum of words of 32 bits, each as the number that its bytes are in network order; or of numbers of fewer bits.
    #[must_use]
    #[inline]
    pub fn of_words<const N: usize>(words: [u32; N]) -> Sum {
        Sum(words.into_iter().map(u64::from).sum())
    }

    /// The sum of both, where all that was added to this one had an even number of bytes.
    #[must_use]
    #[inline]
    pub fn add_sum(self, other: Sum) -> Sum {
        let (total, carry) = self.0.overflowing_add(other.0);
        Sum(total + u64::from(carry))
    }

    /// The sum in 16 bits; 0 only when all that was added was zero.
    #[inline]
    pub fn folded(self) -> u16 {
        fold(self.0)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// The ones' complement sum of the four 16-bit words of `sum`; 0 only when `sum` is.
#[inline]
pub fn fold(sum: u64) -> u16 {
    // A number plus itself with its halves swapped has in its upper half the sum of both with the carry of the lower half, which is the
    // one that comes round.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// The Internet checksum of `bytes`. Over a message with a right checksum in it, it is 0.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::ZERO.add_bytes(bytes).checksum()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    /// The definition, word by word.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        let sum = Sum::ZERO.add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn an_ipv4_header_with_its_checksum_sums_to_nothing() {
        // 20 bytes, total length 115, UDP, 192.168.0.1 to 192.168.0.199; the checksum is b861.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&header), 0);
        let mut blank = header;
        blank[10..12].fill(0);
        assert_eq!(checksum(&blank), 0xb861);
    }

    #[test]
    fn pseudo_headers_sum_as_if_written_out() {
        let ends = ([10, 1, 2, 3].into(), [250, 251, 252, 253].into());
        let written = [10, 1, 2, 3, 250, 251, 252, 253, 0, 17, 0xab, 0xcd];
        let sum = Sum::pseudo(ends.0, ends.1, Protocol::UDP, 0xabcd).unwrap();
        assert_eq!(sum.checksum(), reference(&written));

        let source: Ipv6Addr = "2001:db8::1".parse().expect("address");
        let destination: Ipv6Addr = "fe80::ffff:fffe".parse().expect("address");
        let mut written = [source.octets(), destination.octets()].concat();
        written.extend([0, 1, 0xab, 0xcd, 0, 0, 0, 17]);
        let six = (source.into(), destination.into());
        let sum = Sum::pseudo(six.0, six.1, Protocol::UDP, 0x1abcd).unwrap();
        assert_eq!(sum.checksum(), reference(&written));
        assert_eq!(Sum::pseudo(ends.0, six.1, Protocol::UDP, 8), None);
    }

    #[test]
    fn words_sum_as_their_bytes_do() {
        let words = [0xffff_ffff, 0x0001_f203, 0, 0x8000_0001, 80];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        let sum = Sum::of_words(words);
        assert_eq!(sum.checksum(), reference(&bytes));
        assert_eq!(sum.add_sum(sum).checksum(), reference(&[&bytes[..], &bytes].concat()));
    }

    #[test]
    fn carries_come_round() {
        for len in [8, 9, 16, 64, 65, 9000] {
            let ones = vec![0xff; len];
            assert_eq!(checksum(&ones), reference(&ones), "{len}");
        }
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_ffff_ffff_0001), 1);
        assert_eq!(fold(0xffff_0000_ffff_0000), 0xffff);
        assert_eq!((fold(0), fold(1 << 63), fold(0xffff_ffff_0000_0001)), (0, 0x8000, 1));
    }

    proptest! {
        #[test]
        fn sums_agree_with_the_definition(bytes: Vec<u8>) {
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }
        #[test]
        fn sums_may_be_taken_in_even_pieces(bytes: Vec<u8>, at: prop::sample::Index) {
            let at = at.index(bytes.len() + 1) & !1;
            let pieces = Sum::ZERO.add_bytes(&bytes[..at]).add_bytes(&bytes[at..]);
            prop_assert_eq!(pieces.checksum(), reference(&bytes));
        }
    }
}
