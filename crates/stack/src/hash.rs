//! Keyed hashes: a quick one that spreads connections over the index, and SipHash-2-4 for initial sequence numbers.
//!
//! Both have keys that are secret to a stack, so that a remote party can neither aim at one slot of the index nor tell the next
//! sequence number.

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, §2) of `words`, as if each was 8 bytes in
/// little-endian order.
pub fn siphash(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The last word of the message has its length in bytes at its top.
    let last = (words.len() as u64 * 8) << 56;
    for &word in words.iter().chain([&last]) {
        v[3] ^= word;
        v = round(round(v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    v = round(round(round(round(v))));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32);
    c = c.wrapping_add(b);
    a = a.wrapping_add(d);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    c = c.rotate_left(32);
    [a, b, c, d]
}

/// A hash of two words by multiplications of 64 bits to 128, folded.
#[inline]
pub fn spread(key: [u64; 2], a: u64, b: u64) -> u64 {
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        product as u64 ^ (product >> 64) as u64
    };
    fold(fold(a ^ key[0], b ^ key[1]) ^ key[0], key[1] | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_is_that_of_its_paper() {
        // Appendix A of the paper has the key 00..0f and the message 00..0e; its reference code lists the message 00..07 too,
        // which is one whole word.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(
            siphash(key, &[0x0706_0504_0302_0100]).to_le_bytes(),
            [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]
        );
    }

    #[test]
    fn neighbours_are_spread_over_the_table() {
        // 64,000 neighbouring tuples in 64 parts: each part has 1,000, give or take five standard deviations.
        let mut parts = [0_u32; 64];
        for host in 0..64_u64 {
            for port in 0..1000_u64 {
                let hash = spread(
                    [0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321],
                    0x0a00_0001 << 32 | host,
                    port << 16 | 80,
                );
                parts[(hash >> 58) as usize] += 1;
            }
        }
        assert!(parts.iter().all(|count| (840..1160).contains(count)), "{parts:?}");
    }
}
