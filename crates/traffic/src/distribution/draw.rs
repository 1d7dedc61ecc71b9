//! The random source: every draw is a pure function of a seed, a flow, a purpose and an index.
//!
//! So any core can compute frame `index` without the ones before it, and a flow that is changed changes
//! no other. A [`Key`] is the part that stays the same for all frames; [`Key::draw`] gives the random
//! numbers of one frame, as many as a distribution asks for.
//!
//! Both levels are SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
//! OOPSLA 2014, with the constants of Vigna's `splitmix64.c`). Each key steps by an odd number of its
//! own, as that paper's split generators do, so that no two keys run through the same numbers.

use rand_core::{Infallible, TryRng};

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a random number decides. Different purposes of one flow are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The inter-departure time.
    Gap,
    /// The size.
    Size,
    /// Which sub-flow is next.
    SubFlow,
    /// The value of a field, counted through the packet.
    Field(u16),
    /// The bytes of the payload.
    Payload,
    /// How long a burst lasts, at this level of nesting.
    OnTime(u8),
    /// How long the pause after it lasts, at this level of nesting.
    OffTime(u8),
    /// The identification of the first packet, where packets leave as fragments.
    Identification,
    /// How much later than its time a record leaves.
    Delay,
    /// What varies from session to session: the laws of a group are numbered.
    Session(u16),
}

impl Purpose {
    /// A number of its own for each. Part of what a seed means: never change one.
    fn code(self) -> u32 {
        match self {
            Purpose::Gap => 0,
            Purpose::Size => 1 << 16,
            Purpose::SubFlow => 2 << 16,
            Purpose::Field(field) => 3 << 16 | u32::from(field),
            Purpose::OnTime(level) => 4 << 16 | u32::from(level),
            Purpose::Payload => 6 << 16,
            Purpose::Identification => 7 << 16,
            Purpose::Delay => 8 << 16,
            Purpose::Session(law) => 9 << 16 | u32::from(law),
            Purpose::OffTime(level) => 5 << 16 | u32::from(level),
        }
    }
}

/// The random numbers of one purpose of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    base: u64,
    /// From one index to the next; odd.
    step: u64,
}

impl Key {
    /// Of `flow` in a scenario with this `seed`.
    pub fn new(seed: u64, flow: u32, purpose: Purpose) -> Key {
        let stream = u64::from(flow) << 32 | u64::from(purpose.code());
        let base =
            mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(mix(stream.wrapping_add(GOLDEN))));
        Key { base, step: odd_step(base.wrapping_add(GOLDEN)) }
    }

    /// The same random numbers, without the first `indices` of them: 0 is what `indices` was.
    pub fn after(&self, indices: u64) -> Key {
        Key { base: self.base.wrapping_add(indices.wrapping_mul(self.step)), step: self.step }
    }

    /// The random numbers of `index`, which counts frames or whatever the purpose counts.
    #[inline]
    pub fn draw(&self, index: u64) -> Draw {
        Draw { state: mix(self.base.wrapping_add(index.wrapping_mul(self.step))) }
    }
}

/// The random numbers of one index. Also a generator for `rand_distr`.
#[derive(Clone, Debug)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform on 0 (included) to 1 (excluded), in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * UNIT
    }

    /// Uniform on 0 (excluded) to 1 (included): its logarithm is finite.
    #[inline]
    pub fn positive_unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 * UNIT
    }

    /// Uniform on the whole numbers below `count`; 0 where that is 0. The chances differ by less than
    /// `count` in 2^64.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
    }
}

/// 2^-53: an `f64` has 53 significant bits.
const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

impl TryRng for Draw {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            for (byte, random) in chunk.iter_mut().zip(self.bits().to_le_bytes()) {
                *byte = random;
            }
        }
        Ok(())
    }
}

/// Every bit of the result depends on every bit of `z`; one to one.
#[inline]
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A step with enough changes between neighbouring bits (Steele, Lea and Flood, §4: at least 24).
fn odd_step(z: u64) -> u64 {
    let step = mix(z) | 1;
    if (step ^ (step >> 1)).count_ones() < 24 { step ^ 0xaaaa_aaaa_aaaa_aaaa } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::fit::{Fit, chi_square};

    const N: usize = 1_000_000;

    /// Whether pairs of numbers fall evenly into 64 times 64 cells, which shows both their uniformity
    /// and their dependence.
    fn evenly(pairs: impl Iterator<Item = (u64, u64)>) -> Fit {
        let mut cells = vec![0; 64 * 64];
        let mut count = 0;
        for (a, b) in pairs {
            cells[(a >> 58) as usize * 64 + (b >> 58) as usize] += 1;
            count += 1;
        }
        chi_square(&cells, &vec![count as f64 / cells.len() as f64; cells.len()])
    }

    /// The correlation of pairs, in standard deviations of that of independent ones.
    fn correlation(pairs: impl Iterator<Item = (u64, u64)>) -> f64 {
        let centre = |bits: u64| bits as f64 / 2f64.powi(64) - 0.5;
        let (sum, count) =
            pairs.fold((0.0, 0.0), |(sum, n), (a, b)| (sum + centre(a) * centre(b), n + 1.0));
        // The variance of a uniform number is 1/12.
        12.0 * sum / f64::sqrt(count)
    }

    fn key(flow: u32) -> Key {
        Key::new(7, flow, Purpose::Gap)
    }

    #[test]
    fn consecutive_indices_are_uniform_and_independent() {
        for lag in [1, 2, 64, 1 << 40] {
            let pairs =
                || (0..N as u64).map(|i| (key(3).draw(i).bits(), key(3).draw(i + lag).bits()));
            assert!(evenly(pairs()).passes(), "lag {lag}: {:?}", evenly(pairs()));
            assert!(correlation(pairs()).abs() < 2.58, "lag {lag}: {}", correlation(pairs()));
        }
    }

    #[test]
    fn low_bits_are_as_good_as_high_ones() {
        let low = |key: Key, i: u64| key.draw(i).bits() << 40;
        assert!(evenly((0..N as u64).map(|i| (low(key(0), i), low(key(0), i + 1)))).passes());
    }

    #[test]
    fn the_numbers_of_one_index_are_independent() {
        let pairs = || {
            (0..N as u64).map(|i| {
                let mut draw = key(1).draw(i);
                (draw.bits(), draw.bits())
            })
        };
        assert!(evenly(pairs()).passes(), "{:?}", evenly(pairs()));
        assert!(correlation(pairs()).abs() < 2.58, "{}", correlation(pairs()));
        // The second of one index is not the first of the next, either.
        let shifted = (0..N as u64).map(|i| {
            let mut draw = key(1).draw(i);
            draw.bits();
            (draw.bits(), key(1).draw(i + 1).bits())
        });
        assert!(evenly(shifted).passes());
    }

    #[test]
    fn neighbouring_keys_are_independent() {
        type Neighbours = fn(u64) -> (Key, Key);
        let neighbours: [(&str, Neighbours); 3] = [
            ("flows", |_| (key(1), key(2))),
            ("seeds", |_| (Key::new(0, 0, Purpose::Gap), Key::new(1, 0, Purpose::Gap))),
            ("purposes", |_| (key(0), Key::new(7, 0, Purpose::Size))),
        ];
        for (what, keys) in neighbours {
            let pairs = || {
                (0..N as u64).map(|i| {
                    let (a, b) = keys(i);
                    (a.draw(i).bits(), b.draw(i).bits())
                })
            };
            assert!(evenly(pairs()).passes(), "{what}: {:?}", evenly(pairs()));
            assert!(correlation(pairs()).abs() < 2.58, "{what}: {}", correlation(pairs()));
        }
        // One index of a million flows.
        let flows =
            (0..N as u32).map(|flow| (key(flow).draw(0).bits(), key(flow + 1).draw(0).bits()));
        assert!(evenly(flows).passes());
    }

    #[test]
    fn every_purpose_and_every_field_has_a_key_of_its_own() {
        let fields = (0..=u16::MAX).map(Purpose::Field);
        let levels = (0..=u8::MAX).flat_map(|l| [Purpose::OnTime(l), Purpose::OffTime(l)]);
        let others = [
            Purpose::Gap,
            Purpose::Size,
            Purpose::SubFlow,
            Purpose::Payload,
            Purpose::Identification,
        ];
        let laws = (0..=u16::MAX).map(Purpose::Session);
        let all = fields.chain(levels).chain(others).chain(laws);
        let mut codes: Vec<u32> = all.map(Purpose::code).collect();
        let all = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_for_ever() {
        let numbers = |key: Key| [0, 1, u64::MAX].map(|index| key.draw(index).bits());
        assert_eq!(
            numbers(Key::new(1, 0, Purpose::Gap)),
            [0xafb4_fdde_6324_aac4, 0xf902_f869_859c_abd6, 0xdd84_3be1_1706_ab17],
        );
        let mut bytes = [0; 11];
        let mut draw = key(5).draw(9);
        draw.clone().try_fill_bytes(&mut bytes).unwrap();
        assert_eq!(bytes[..8], draw.bits().to_le_bytes());
        assert_eq!(bytes[8..], draw.bits().to_le_bytes()[..3]);
    }

    #[test]
    fn units_keep_their_ends() {
        assert_eq!(mix(0), 0);
        let ends = |state: u64| Draw { state: state.wrapping_sub(GOLDEN) };
        assert_eq!(ends(0).unit(), 0.0);
        assert_eq!(ends(0).positive_unit(), UNIT);
        for index in 0..10_000 {
            let mut draw = key(8).draw(index);
            assert!((0.0..1.0).contains(&draw.unit()));
            assert!(draw.positive_unit() > 0.0);
            assert!(draw.below(3) < 3);
        }
        assert_eq!(key(0).draw(0).below(0), 0);
    }
}
