//! Which numbers of a flow were seen: a bit for each, in a window that moves with the highest.
//!
//! Knows nothing of order, times or doubt: who asks has decided that a number belongs here.

use crate::memory::{Memory, PIECE};

/// Binary logarithm of the numbers in a word of the window.
pub(super) const WORD_BITS: u32 = 5;

/// Words that a window begins with: 2,048 numbers in 512 bytes. Each flow has them, however little memory is left.
const FIRST_WORDS: usize = 64;

/// What became of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    New,
    Seen,
    /// The window does not reach it any more.
    Behind,
}

/// Which numbers of a flow were seen, on its only queue.
///
/// The word of number `n` is `words[(n >> 5) & mask]`: `n >> 5` (its low 32 bits) as a tag in the upper
/// half, and a bit for `n & 31` in the lower. A word with another tag holds nothing of interest any
/// more, so the window moves without clearing anything. It begins small and doubles before it would forget a
/// number that one of full size remembers, so that its memory follows how many numbers there were. Where there is no
/// memory to double it, what it has is its full size from then on.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Empty before the first arrival; as many, a power of two, as the numbers so far need.
    words: Vec<u64>,
    /// The most words that the window will have, a power of two.
    length: usize,
    /// The same as it was asked for, in numbers: further ahead than that a number is in doubt, whatever memory there was.
    pub(super) asked: u64,
    /// The highest number believed; 0 before the first arrival.
    pub(super) highest: u64,
    /// The lowest.
    pub(super) lowest: u64,
    /// Added to numbers from the wire; changes when the sender restarts.
    pub(super) offset: u32,
}

impl Window {
    /// A window of `numbers`, rounded up to a power of two from 64 to 2^30.
    pub(super) fn new(numbers: u32) -> Self {
        let length = words(numbers);
        let asked = (length as u64) << WORD_BITS;
        Window { words: Vec::new(), length, asked, highest: 0, lowest: u64::MAX, offset: 0 }
    }

    /// Bytes that a window of `numbers` takes at first, and at most.
    pub(super) fn bytes(numbers: u32) -> (usize, usize) {
        let of = |words: usize| words * size_of::<u64>() + PIECE;
        let length = words(numbers);
        (of(length.min(FIRST_WORDS)), of(length))
    }

    /// Takes its first memory.
    pub(super) fn begin(&mut self) {
        self.words = vec![0; self.length.min(FIRST_WORDS)];
    }

    /// Makes room for all words between the lowest and the highest number, as far as the window may reach and memory goes.
    #[cold]
    fn grow(&mut self, memory: &mut Memory) {
        let span = (self.highest >> WORD_BITS) - (self.lowest >> WORD_BITS);
        let needed = usize::try_from(span).unwrap_or(usize::MAX).saturating_add(1);
        let needed = needed.min(self.length).next_power_of_two();
        let has = self.words.len();
        let mut length = needed;
        while length > has && !memory.take_for_window((length - has) * size_of::<u64>()) {
            length /= 2;
        }
        if length < needed {
            self.length = length;
        }
        if length == has {
            return;
        }
        let mut words = vec![0; length];
        // what the smaller window still knows lies in words of their own in the larger one
        for &word in self.words.iter().filter(|word| **word != 0) {
            words[(word >> 32) as usize & (length - 1)] = word;
        }
        self.words = words;
    }

    /// How many numbers the window spans, or may yet.
    #[inline]
    pub(super) fn numbers(&self) -> u64 {
        (self.length as u64) << WORD_BITS
    }

    /// Whether `number`, not above the highest, can still be told apart.
    #[inline]
    pub(super) fn reaches(&self, number: u64) -> bool {
        (self.highest >> WORD_BITS).wrapping_sub(number >> WORD_BITS) < self.length as u64
    }

    /// Notes `number`, which [`Window::reaches`] or is above the highest.
    #[inline]
    pub(super) fn mark(&mut self, number: u64, memory: &mut Memory) -> Mark {
        self.stretch(number);
        let span = (self.highest >> WORD_BITS).wrapping_sub(self.lowest >> WORD_BITS);
        if span >= self.words.len() as u64 && self.words.len() < self.length {
            self.grow(memory);
            // it did not grow as far as it had to: that word is another number's
            if !self.reaches(number) {
                return Mark::Behind;
            }
        }
        let tag = (number >> WORD_BITS) as u32;
        let bit = 1u32 << (number & 31);
        let index = tag as usize & (self.words.len().wrapping_sub(1));
        let Some(word) = self.words.get_mut(index) else { return Mark::New };
        let seen = if (*word >> 32) as u32 == tag { *word as u32 } else { 0 };
        *word = (u64::from(tag) << 32) | u64::from(seen | bit);
        if seen & bit == 0 { Mark::New } else { Mark::Seen }
    }

    /// Takes `number` into the range.
    #[inline]
    pub(super) fn stretch(&mut self, number: u64) {
        self.highest = self.highest.max(number);
        self.lowest = self.lowest.min(number);
    }

    /// Bytes that it has beside itself.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        if self.words.is_empty() { 0 } else { size_of_val(self.words.as_slice()) + PIECE }
    }
}

/// Words of a window of `numbers`, at most.
pub(super) fn words(numbers: u32) -> usize {
    (numbers.clamp(64, 1 << 30).next_power_of_two() >> WORD_BITS) as usize
}
