//! How long frame number `n` of a flow is: a function of `n` alone.

use std::sync::Arc;

use crate::law::Sampler;
use crate::law::choice::Choice;
use crate::law::draw::Key;

/// The lengths of packets in bytes: from the Ethernet header on, without padding and FCS.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Fixed(u32),
    /// One after the other.
    List(Arc<[u32]>),
    /// Drawn by weight.
    Mix {
        /// The lengths.
        lengths: Arc<[u32]>,
        /// How likely each is.
        weights: Arc<[u32]>,
        /// Which of them.
        choice: Arc<Choice>,
        /// What is drawn from.
        key: Key,
    },
    /// Drawn from a distribution.
    Drawn {
        /// It gives bytes …
        sampler: Box<Sampler>,
        /// … and so many are added to each.
        beside: i32,
        /// The shortest and the longest.
        within: (u32, u32),
        /// They are multiples of the second number, counted from the first on.
        align: (u32, u32),
        /// What is drawn from.
        key: Key,
    },
}

impl Lengths {
    /// Of frame `n`.
    #[inline]
    pub fn length(&self, n: u64) -> u32 {
        match self {
            Lengths::Fixed(length) => *length,
            Lengths::List(lengths) => {
                let at = n % lengths.len().max(1) as u64;
                lengths.get(at as usize).copied().unwrap_or(0)
            }
            Lengths::Mix { lengths, choice, key, .. } => {
                lengths.get(choice.pick(&mut key.draw(n))).copied().unwrap_or(0)
            }
            Lengths::Drawn { sampler, beside, within: (min, max), align: (from, to), key } => {
                let bytes = sampler.sample(&mut key.draw(n)).round();
                // Saturating: what is no number becomes 0, and is as short as may be.
                let length = (bytes as i64).saturating_add(i64::from(*beside));
                let length = length.clamp(i64::from(*min), i64::from(*max)) as u32;
                length - length.saturating_sub(*from) % (*to).max(1)
            }
        }
    }

    /// The longest.
    pub fn longest(&self) -> u32 {
        match self {
            Lengths::Fixed(length) => *length,
            Lengths::List(lengths) | Lengths::Mix { lengths, .. } => {
                lengths.iter().copied().max().unwrap_or(0)
            }
            Lengths::Drawn { within: (_, max), .. } => *max,
        }
    }

    /// The shortest.
    pub fn shortest(&self) -> u32 {
        match self {
            Lengths::Fixed(length) => *length,
            Lengths::List(lengths) | Lengths::Mix { lengths, .. } => {
                lengths.iter().copied().min().unwrap_or(0)
            }
            Lengths::Drawn { within: (min, _), .. } => *min,
        }
    }

    /// The length, if all have the same.
    pub fn fixed(&self) -> Option<u32> {
        match self {
            Lengths::Fixed(length) => Some(*length),
            _ => None,
        }
    }

    /// After how many frames they repeat; `None` if they do not.
    pub fn period(&self) -> Option<u64> {
        match self {
            Lengths::Fixed(_) => Some(1),
            Lengths::List(lengths) => Some(lengths.len() as u64),
            Lengths::Mix { .. } | Lengths::Drawn { .. } => None,
        }
    }
}
