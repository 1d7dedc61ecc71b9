//! How long frame number `n` of a flow is: a function of `n` alone.

use std::sync::Arc;

use wirebeat_wire::ethernet::FRAME_MIN;

use crate::law::Sampler;
use crate::law::choice::{Choice, ChoiceError};
use crate::law::draw::Key;

/// The lengths of packets in bytes: from the Ethernet header on, without padding and FCS.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Fixed(u32),
    /// One after the other.
    List(List),
    /// Drawn by weight, with this key.
    Mix(Mix, Key),
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
    /// Those of what is replayed: they come with it.
    Recorded {
        /// No packet is shorter …
        shortest: u32,
        /// … or longer.
        longest: u32,
    },
}

/// Some lengths, and what is known of all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    lengths: Arc<[u32]>,
    shortest: u32,
    longest: u32,
    /// Bytes of all of them, with padding.
    bytes: u64,
}

impl List {
    /// These.
    pub fn new(lengths: Vec<u32>) -> List {
        List {
            shortest: lengths.iter().copied().min().unwrap_or(0),
            longest: lengths.iter().copied().max().unwrap_or(0),
            bytes: lengths.iter().map(|length| padded(*length)).sum(),
            lengths: lengths.into(),
        }
    }

    /// Their bytes, with padding and without FCS, and how many there are.
    pub(crate) fn total(&self) -> (u64, u64) {
        (self.bytes, self.lengths.len() as u64)
    }

    /// One after the other.
    pub(crate) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    #[inline]
    fn get(&self, at: usize) -> u32 {
        self.lengths.get(at).copied().unwrap_or(0)
    }
}

/// Lengths with their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    list: List,
    choice: Arc<Choice>,
    weights: Arc<[u32]>,
    /// Bytes of all of them, with padding, as often as their weights say; and the weights together.
    total: (u64, u64),
}

impl Mix {
    /// These, of which there are at most as many as a choice may have.
    pub fn new(lengths: Vec<u32>, weights: &[u32]) -> Result<Mix, ChoiceError> {
        let choice = Arc::new(Choice::new(weights)?);
        let weighted = lengths.iter().zip(weights);
        let bytes = weighted.map(|(length, weight)| padded(*length) * u64::from(*weight)).sum();
        let weight = weights.iter().map(|weight| u64::from(*weight)).sum();
        Ok(Mix {
            list: List::new(lengths),
            choice,
            weights: weights.into(),
            total: (bytes, weight),
        })
    }

    /// Their bytes, with padding and without FCS, as often as their weights say; and the weights together.
    pub(crate) fn total(&self) -> (u64, u64) {
        self.total
    }

    /// They and their weights.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (u32, u32)> {
        self.list.lengths.iter().copied().zip(self.weights.iter().copied())
    }
}

/// Bytes of a packet with its padding.
fn padded(length: u32) -> u64 {
    u64::from(length).max(FRAME_MIN as u64)
}

impl Lengths {
    /// Of frame `n`; of what is replayed, the longest.
    #[inline]
    pub fn length(&self, n: u64) -> u32 {
        match self {
            Lengths::Fixed(length) | Lengths::Recorded { longest: length, .. } => *length,
            Lengths::List(list) => list.get((n % list.lengths.len().max(1) as u64) as usize),
            Lengths::Mix(mix, key) => mix.list.get(mix.choice.pick(&mut key.draw(n))),
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
            Lengths::Fixed(length) | Lengths::Recorded { longest: length, .. } => *length,
            Lengths::List(list) | Lengths::Mix(Mix { list, .. }, _) => list.longest,
            Lengths::Drawn { within: (_, max), .. } => *max,
        }
    }

    /// The shortest.
    pub fn shortest(&self) -> u32 {
        match self {
            Lengths::Fixed(length) | Lengths::Recorded { shortest: length, .. } => *length,
            Lengths::List(list) | Lengths::Mix(Mix { list, .. }, _) => list.shortest,
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
            Lengths::List(list) => Some(list.lengths.len() as u64),
            Lengths::Mix(..) | Lengths::Drawn { .. } | Lengths::Recorded { .. } => None,
        }
    }
}
