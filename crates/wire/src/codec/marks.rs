//! What changes from packet to packet: number and time, where they lie and in which form.
//!
//! Plain data, so that an engine or a kernel program can do the same by offsets. Writing tells what
//! the bytes add to a checksum, so that one is mended without summing anew ([`crate::stamp`]).

use super::{DAY_NS, SECOND_NS};
use crate::checksum::fold;

/// Where number and time lie, in bytes from the start of the probe ([`super::Codec::starts_at`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The number.
    pub sequence: SequenceForm,
    /// The time.
    pub time: TimeForm,
}

/// How a packet is numbered. All words are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceForm {
    /// The low 32 bits.
    Word {
        /// Where they lie.
        at: u16,
    },
    /// 64 bits in two words that do not lie together.
    Halves {
        /// Where the low word lies.
        low_at: u16,
        /// Where the high word lies.
        high_at: u16,
    },
}

/// How a transmit time is written. All words are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// Not at all.
    None,
    /// 64 bits of nanoseconds.
    Nanoseconds {
        /// Where they lie.
        at: u16,
    },
    /// 32 bits of seconds, then 32 bits of microseconds.
    Microseconds {
        /// Where the seconds lie.
        at: u16,
    },
    /// The same, with the seconds counted from midnight (UTC).
    OfDay {
        /// Where the seconds lie.
        at: u16,
    },
}

/// A moment on both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On the monotonic clock of the run.
    pub monotonic_ns: u64,
    /// Since the UNIX epoch.
    pub unix_ns: u64,
}

impl Moment {
    /// On the clock that times of this form are of.
    #[inline]
    pub fn on(self, form: TimeForm) -> u64 {
        match form {
            TimeForm::None | TimeForm::Nanoseconds { .. } => self.monotonic_ns,
            TimeForm::Microseconds { .. } | TimeForm::OfDay { .. } => self.unix_ns,
        }
    }
}

impl Marks {
    /// Those of Wirebeat's own probe ([`crate::probe`]).
    pub const WIREBEAT: Marks =
        Marks { sequence: SequenceForm::Word { at: 4 }, time: TimeForm::Nanoseconds { at: 8 } };

    /// Writes number and time into `probe`, the bytes from the start of the probe on. `time_ns` is of
    /// the clock that [`super::Codec::clock`] names. Words that do not lie within `probe` are left out.
    ///
    /// Gives the ones' complement sum of the 16-bit words written, as if they had been zero before and
    /// the probe began at an even offset of what the checksum covers. Where it begins at an odd one,
    /// swap the two bytes of the sum (RFC 1071 §2(B)).
    #[inline]
    pub fn write(&self, probe: &mut [u8], sequence: u64, time_ns: u64) -> u16 {
        let of_sequence = match self.sequence {
            SequenceForm::Word { at } => put(probe, at, sequence as u32),
            SequenceForm::Halves { low_at, high_at } => {
                put(probe, low_at, sequence as u32) + put(probe, high_at, (sequence >> 32) as u32)
            }
        };
        let of_time = match self.time {
            TimeForm::None => 0,
            TimeForm::Nanoseconds { at } => {
                put_two(probe, at, [(time_ns >> 32) as u32, time_ns as u32])
            }
            TimeForm::Microseconds { at } => put_two(probe, at, microseconds(time_ns)),
            TimeForm::OfDay { at } => put_two(probe, at, microseconds(time_ns % DAY_NS)),
        };
        fold(of_sequence + of_time)
    }
}

/// Seconds, modulo 2^32, and microseconds.
#[inline]
fn microseconds(time_ns: u64) -> [u32; 2] {
    [(time_ns / SECOND_NS) as u32, (time_ns % SECOND_NS / 1000) as u32]
}

#[inline]
fn put_two(bytes: &mut [u8], at: u16, words: [u32; 2]) -> u64 {
    put(bytes, at, words[0]) + put(bytes, at.saturating_add(4), words[1])
}

/// Writes a word, and gives what it adds to the sum: less than 2^32.
#[inline]
fn put(bytes: &mut [u8], at: u16, word: u32) -> u64 {
    let field = bytes.get_mut(usize::from(at)..).and_then(<[u8]>::first_chunk_mut);
    let Some(field) = field else { return 0 };
    *field = word.to_be_bytes();
    // Bytes at an odd offset add to the other half of each 16-bit word.
    if at % 2 == 1 { u64::from(fold(u64::from(word)).swap_bytes()) } else { u64::from(word) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checksum::Sum;

    fn any_marks() -> impl Strategy<Value = Marks> {
        // Apart from one another: the number in bytes 0 to 19, the time from 20 on.
        let sequence = prop_oneof![
            (0..16_u16).prop_map(|at| SequenceForm::Word { at }),
            (0..6_u16, 10..16_u16)
                .prop_map(|(low_at, high_at)| SequenceForm::Halves { low_at, high_at }),
        ];
        let time = prop_oneof![
            Just(TimeForm::None),
            (20..40_u16).prop_map(|at| TimeForm::Nanoseconds { at }),
            (20..40_u16).prop_map(|at| TimeForm::Microseconds { at }),
            (20..40_u16).prop_map(|at| TimeForm::OfDay { at }),
        ];
        (sequence, time).prop_map(|(sequence, time)| Marks { sequence, time })
    }

    #[test]
    fn every_form_writes_the_words_it_says() {
        let time_ns = 86_400_000_000_000 + 3_000_005_999;
        let written = |sequence, time| {
            let mut bytes = [0_u8; 16];
            Marks { sequence, time }.write(&mut bytes, 0x0102_0304_0506_0708, time_ns);
            bytes
        };
        let halves = SequenceForm::Halves { low_at: 0, high_at: 12 };
        let word = SequenceForm::Word { at: 1 };
        assert_eq!(
            written(halves, TimeForm::Microseconds { at: 4 }),
            [5, 6, 7, 8, 0, 1, 0x51, 0x83, 0, 0, 0, 5, 1, 2, 3, 4]
        );
        assert_eq!(
            written(word, TimeForm::OfDay { at: 6 }),
            [0, 5, 6, 7, 8, 0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0]
        );
        let nanoseconds = written(word, TimeForm::Nanoseconds { at: 8 });
        assert_eq!(nanoseconds[8..], time_ns.to_be_bytes());
        assert_eq!(written(word, TimeForm::None)[5..], [0; 11]);
    }

    proptest! {
        #[test]
        fn a_checksum_mended_by_the_sum_is_the_one_summed_anew(
            marks in any_marks(),
            mut before in prop::collection::vec(any::<u8>(), 0..9),
            mut template in prop::collection::vec(any::<u8>(), 48..80),
            sequence: u64,
            time_ns: u64,
        ) {
            template[..48].fill(0);
            let start = before.len();
            before.extend(template);
            let blank = Sum::ZERO.add_bytes(&before).folded();
            let sum = marks.write(&mut before[start..], sequence, time_ns);
            let sum = if start % 2 == 1 { sum.swap_bytes() } else { sum };
            let mended = fold(u64::from(blank) + u64::from(sum));
            let anew = Sum::ZERO.add_bytes(&before).folded();
            // Both zeros of ones' complement are the same number.
            prop_assert_eq!(mended % 0xffff, anew % 0xffff);
        }

        #[test]
        fn any_marks_into_any_bytes_are_safe(
            mut bytes in prop::collection::vec(any::<u8>(), 0..20),
            a: u16,
            b: u16,
        ) {
            let len = bytes.len();
            for at in [a, a % 20] {
                let sequence = SequenceForm::Halves { low_at: b, high_at: at };
                Marks { sequence, time: TimeForm::OfDay { at } }.write(&mut bytes, u64::MAX, u64::MAX);
            }
            prop_assert_eq!(bytes.len(), len);
        }
    }
}
