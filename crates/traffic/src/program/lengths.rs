//! How long frame number `n` of a flow is: a function of `n` alone.

use std::sync::Arc;

use wirebeat_units::PacketLen;

use crate::distribution::Sampler;
use crate::distribution::choice::{Choice, ChoiceError};
use crate::distribution::draw::Key;

/// The lengths of packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Fixed(PacketLen),
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
        within: (PacketLen, PacketLen),
        /// They are multiples of the second number, counted from the first on.
        align: (u32, u32),
        /// What is drawn from.
        key: Key,
    },
    /// Those of what is replayed: they come with it.
    Recorded {
        /// No packet is shorter …
        shortest: PacketLen,
        /// … or longer.
        longest: PacketLen,
    },
}

/// Sums over some packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// How many they are.
    pub(crate) packets: u64,
    /// Bytes of all of them, without padding and FCS.
    pub(crate) bare: u64,
    /// The same with padding.
    pub(crate) padded: u64,
}

impl Total {
    /// Of lengths, each as often as the number beside it says.
    fn of(weighted: impl Iterator<Item = (PacketLen, u32)>) -> Total {
        weighted.fold(Total::default(), |total, (length, times)| Total {
            packets: total.packets + u64::from(times),
            bare: total.bare + u64::from(length.get()) * u64::from(times),
            padded: total.padded + u64::from(length.buffer().get()) * u64::from(times),
        })
    }
}

/// Some lengths, and what is known of all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    lengths: Arc<[PacketLen]>,
    shortest: PacketLen,
    longest: PacketLen,
    total: Total,
}

impl List {
    /// These.
    pub fn new(lengths: Vec<PacketLen>) -> List {
        List {
            shortest: lengths.iter().copied().min().unwrap_or_default(),
            longest: lengths.iter().copied().max().unwrap_or_default(),
            total: Total::of(lengths.iter().map(|length| (*length, 1))),
            lengths: lengths.into(),
        }
    }

    /// The sums over them.
    pub(crate) fn total(&self) -> Total {
        self.total
    }

    /// One after the other.
    pub(crate) fn lengths(&self) -> &[PacketLen] {
        &self.lengths
    }

    #[inline]
    fn get(&self, at: usize) -> PacketLen {
        self.lengths.get(at).copied().unwrap_or_default()
    }
}

/// Lengths with their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    list: List,
    choice: Arc<Choice>,
    weights: Arc<[u32]>,
    /// The sums over them, each as often as its weight says.
    total: Total,
}

impl Mix {
    /// These, of which there are at most as many as a choice may have.
    pub fn new(lengths: Vec<PacketLen>, weights: &[u32]) -> Result<Mix, ChoiceError> {
        let choice = Arc::new(Choice::new(weights)?);
        let total = Total::of(lengths.iter().copied().zip(weights.iter().copied()));
        Ok(Mix { list: List::new(lengths), choice, weights: weights.into(), total })
    }

    /// The sums over them, each as often as its weight says.
    pub(crate) fn total(&self) -> Total {
        self.total
    }

    /// They and their weights.
    pub(crate) fn weighted(&self) -> impl Iterator<Item = (PacketLen, u32)> {
        self.list.lengths.iter().copied().zip(self.weights.iter().copied())
    }
}

impl Lengths {
    /// Of frame `n`; of what is replayed, the longest.
    #[inline]
    pub fn length(&self, n: u64) -> PacketLen {
        match self {
            Lengths::Fixed(length) | Lengths::Recorded { longest: length, .. } => *length,
            Lengths::List(list) => list.get((n % list.lengths.len().max(1) as u64) as usize),
            Lengths::Mix(mix, key) => mix.list.get(mix.choice.pick(&mut key.draw(n))),
            Lengths::Drawn { sampler, beside, within: (min, max), align: (from, to), key } => {
                let bytes = sampler.sample(&mut key.draw(n)).round();
                // Saturating: what is not a number becomes 0, and is as short as may be.
                let length = (bytes as i64).saturating_add(i64::from(*beside));
                let length = length.clamp(min.get().into(), max.get().into()) as u32;
                PacketLen::new(length - length.saturating_sub(*from) % (*to).max(1))
            }
        }
    }

    /// The longest.
    pub fn longest(&self) -> PacketLen {
        match self {
            Lengths::Fixed(length) | Lengths::Recorded { longest: length, .. } => *length,
            Lengths::List(list) | Lengths::Mix(Mix { list, .. }, _) => list.longest,
            Lengths::Drawn { within: (_, max), .. } => *max,
        }
    }

    /// The shortest.
    pub fn shortest(&self) -> PacketLen {
        match self {
            Lengths::Fixed(length) | Lengths::Recorded { shortest: length, .. } => *length,
            Lengths::List(list) | Lengths::Mix(Mix { list, .. }, _) => list.shortest,
            Lengths::Drawn { within: (min, _), .. } => *min,
        }
    }

    /// The length, if all have the same.
    pub fn fixed(&self) -> Option<PacketLen> {
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
