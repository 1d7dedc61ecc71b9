//! Sequence numbers, which live on a circle of 2^32 (RFC 9293 §3.4).

use std::fmt;

/// A sequence number. Two of them compare only within half a circle of each other, so there is no `Ord`: an order that is
/// not transitive would be a trap for sorting.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `count` after this one.
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u32) -> Seq {
        Seq(self.0.wrapping_add(count))
    }

    /// The number `count` before this one.
    #[inline]
    #[must_use]
    pub const fn minus(self, count: u32) -> Seq {
        Seq(self.0.wrapping_sub(count))
    }

    /// How many numbers lie from `earlier` up to this one; large where `earlier` is in truth later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Seq) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this one comes before `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Seq) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this one comes after `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Seq) -> bool {
        other.is_before(self)
    }

    /// The later of the two.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Seq) -> Seq {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Seq) -> Seq {
        if self.is_before(other) { self } else { other }
    }

    /// Whether it lies in the window of `len` numbers that begins at `start`.
    #[inline]
    #[must_use]
    pub const fn is_in(self, start: Seq, len: u32) -> bool {
        self.since(start) < len
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_compare_over_the_end_of_the_circle() {
        let (last, first) = (Seq(u32::MAX), Seq(0));
        assert!(last.is_before(first) && first.is_after(last));
        assert_eq!((last.plus(1), first.minus(1), first.since(last)), (first, last, 1));
        assert_eq!((last.max(first), last.min(first)), (first, last));
        assert!(first.is_in(last, 2) && !first.is_in(last, 1) && !last.is_in(first, 100));
    }

    proptest! {
        /// The model is plain numbers of 64 bits, of which the circle sees the lower half.
        #[test]
        fn the_circle_agrees_with_plain_numbers(base: u64, ahead in 0..1_u64 << 31, window in 0..1_u32 << 31) {
            let (a, b) = (u64::from(base as u32), u64::from(base as u32) + ahead);
            let (sa, sb) = (Seq(a as u32), Seq(b as u32));
            prop_assert_eq!(sa.is_before(sb), a < b);
            prop_assert_eq!(sb.is_after(sa), a < b);
            prop_assert_eq!(u64::from(sb.since(sa)), b - a);
            prop_assert_eq!(sa.max(sb), sb);
            prop_assert_eq!(sa.min(sb), sa);
            prop_assert_eq!(sb.is_in(sa, window), b - a < u64::from(window));
        }
    }
}
