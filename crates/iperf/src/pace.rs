//! When the next block is due: a pure function of the rate and of what was sent.
//!
//! Byte `n` is due at `start + n × 8 / rate`, as an exact fraction, so that no rounding adds up and a sender that was held up
//! comes back to the average.

use wirebeat_units::BitRate;

/// Nanoseconds times bits a second in a byte.
const BYTE: u128 = 8 * 1_000_000_000;

/// The pace of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    rate: u64,
}

impl Pace {
    /// The pace of this rate; none for none, and for zero.
    pub fn new(rate: Option<BitRate>) -> Option<Pace> {
        rate.filter(|rate| rate.0 > 0).map(|rate| Pace { rate: rate.0 })
    }

    /// Nanoseconds after the start at which what follows `sent` bytes is due.
    pub fn due_ns(&self, sent: u64) -> u64 {
        let due = (u128::from(sent) * BYTE).div_ceil(u128::from(self.rate.max(1)));
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Blocks of `block` bytes that are due `elapsed_ns` after the start, when `sent` bytes are sent; at most `most`.
    pub fn blocks_due(&self, elapsed_ns: u64, sent: u64, block: u64, most: usize) -> usize {
        if self.due_ns(sent) > elapsed_ns {
            return 0;
        }
        // byte n is due as long as n × 8e9 ≤ elapsed × rate
        let last = u128::from(elapsed_ns) * u128::from(self.rate) / BYTE;
        let more = last.saturating_sub(sent.into()) / u128::from(block.max(1));
        usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1).min(most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn datagrams_are_due_at_exact_fractions() {
        let pace = Pace::new(Some(BitRate(3_000_000))).unwrap();
        // 1000 B at 3 Mbit/s: every 8/3 ms
        assert_eq!(pace.due_ns(0), 0);
        assert_eq!(pace.due_ns(1000), 2_666_667);
        assert_eq!(pace.due_ns(3_000_000), 8_000_000_000);
        assert_eq!(pace.blocks_due(0, 0, 1000, 64), 1);
        assert_eq!(pace.blocks_due(2_666_666, 1000, 1000, 64), 0);
        assert_eq!(pace.blocks_due(2_666_667, 1000, 1000, 64), 1);
        assert_eq!(pace.blocks_due(8_000_000, 1000, 1000, 64), 3);
        assert_eq!(pace.blocks_due(8_000_000, 1000, 1000, 2), 2);
        assert!(Pace::new(None).is_none() && Pace::new(Some(BitRate(0))).is_none());
    }

    proptest! {
        #[test]
        fn what_is_due_is_due(rate in 1..400_000_000_000_u64, sent in 0..1_u64 << 50, block in 1..70_000_u64, elapsed in 0..1_u64 << 55) {
            let pace = Pace::new(Some(BitRate(rate))).unwrap();
            let due = pace.blocks_due(elapsed, sent, block, 1000) as u64;
            if due > 0 {
                prop_assert!(pace.due_ns(sent + (due - 1) * block) <= elapsed);
            }
            if due < 1000 {
                prop_assert!(pace.due_ns(sent + due * block) > elapsed);
            }
        }
    }
}
