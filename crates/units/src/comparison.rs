//! How two quantities are compared, as a person writes it: in filters, and in selections of frames.

use std::fmt;

/// A comparison of two quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==` or `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// How each is written.
    const SIGNS: [(&str, Comparison); 7] = [
        ("==", Comparison::Equal),
        ("=", Comparison::Equal),
        ("!=", Comparison::Unequal),
        ("<", Comparison::Less),
        ("<=", Comparison::AtMost),
        (">", Comparison::Greater),
        (">=", Comparison::AtLeast),
    ];

    /// The one that is written so, if one is.
    pub fn of(sign: &str) -> Option<Comparison> {
        let found = Comparison::SIGNS.iter().find(|(known, _)| *known == sign);
        found.map(|(_, comparison)| *comparison)
    }

    /// Whether it holds between `left` and `right`.
    #[inline]
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
            Comparison::Less => left < right,
            Comparison::AtMost => left <= right,
            Comparison::Greater => left > right,
            Comparison::AtLeast => left >= right,
        }
    }
}

/// As it is written.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = Comparison::SIGNS.iter().find(|(_, known)| known == self);
        f.write_str(sign.map_or("", |(sign, _)| sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sign_means_what_it_does_elsewhere() {
        for (sign, less, equal, greater) in [
            ("==", false, true, false),
            ("=", false, true, false),
            ("!=", true, false, true),
            ("<", true, false, false),
            ("<=", true, true, false),
            (">", false, false, true),
            (">=", false, true, true),
        ] {
            let comparison = Comparison::of(sign).unwrap();
            let held = [(1, 2), (2, 2), (3, 2)].map(|(left, right)| comparison.holds(left, right));
            assert_eq!(held, [less, equal, greater], "{sign}");
            assert_eq!(comparison.holds(-1_i64, 1), less, "{sign}");
        }
        assert_eq!(["", "=>", "<>", "< "].map(Comparison::of), [None; 4]);
    }
}
