//! What is made of long lists, once for all that ask for the same: the phases of a flow, and flows that share a
//! file.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;

use indexmap::IndexMap;
use wirebeat_units::{BitRate, Nanos, Rate};

use super::lengths::Limits;
use super::mean::Mean;
use crate::program::curve::Lines;
use crate::program::lengths::{List, Mix};
use crate::scenario::Shared;
use crate::scenario::size::Length;

/// The most lengths that are kept: 128 MiB.
const MAX_LENGTHS: usize = 1 << 26;
/// The most lines of profiles that are kept: 320 MiB.
const MAX_LINES: usize = 1 << 23;
/// The most lengths that are drawn: some seconds.
const MAX_DRAWS: u64 = 1 << 28;

/// All that is kept while a scenario is compiled.
pub(super) struct Memos {
    pub(super) lists: Memo<Vec<Length>, Limits, List>,
    pub(super) mixes: Memo<IndexMap<Length, u32>, Limits, Mix>,
    pub(super) steps: Memo<Rates, Meaning, Lines>,
    /// Whether all rates of a profile are frames in a time.
    pub(super) in_frames: Memo<Rates, (), bool>,
    /// Lengths that may still be drawn to find which frames are the last of a number of bytes.
    pub(super) draws: Cell<u64>,
}

type Rates = IndexMap<Nanos, Rate>;

/// What it depends on which lines rates by time mean.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Meaning {
    /// After how long they begin again.
    pub(super) every: Option<Nanos>,
    /// How long packets are, and the speed of the link, where it depends on them.
    pub(super) bits: Option<(Mean, Option<BitRate>)>,
}

impl Default for Memos {
    fn default() -> Self {
        Memos {
            lists: Memo::new(MAX_LENGTHS),
            mixes: Memo::new(MAX_LENGTHS),
            steps: Memo::new(MAX_LINES),
            in_frames: Memo::new(0),
            draws: Cell::new(MAX_DRAWS),
        }
    }
}

/// Values that were made of something shared, and of what else they depend on.
pub(super) struct Memo<T, K, V> {
    /// By the place in memory of what they were made of.
    made: RefCell<HashMap<(usize, K), MemoEntry<T, V>>>,
    /// Entries that there is room for.
    left: Cell<usize>,
}

struct MemoEntry<T, V> {
    value: V,
    /// Kept so that nothing else comes to lie there.
    _from: Shared<T>,
}

impl<T, K: Eq + Hash, V: Clone> Memo<T, K, V> {
    fn new(most: usize) -> Self {
        Memo { made: RefCell::default(), left: Cell::new(most) }
    }

    /// What `make` makes of `from`, which has so many entries, and of `with`; an error of its own, or of `full` where
    /// there is no more room.
    pub(super) fn of<E>(
        &self,
        (from, entries): (&Shared<T>, usize),
        with: K,
        full: impl FnOnce() -> E,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let key = (from.address(), with);
        if let Some(made) = self.made.borrow().get(&key) {
            return Ok(made.value.clone());
        }
        self.left.set(self.left.get().checked_sub(entries).ok_or_else(full)?);
        let value = make()?;
        let made = MemoEntry { value: value.clone(), _from: from.clone() };
        self.made.borrow_mut().insert(key, made);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_made_once_and_not_without_end() {
        let memo: Memo<Vec<u8>, u8, String> = Memo::new(5);
        let (one, same): (Shared<Vec<u8>>, Shared<Vec<u8>>) =
            (vec![1, 2].into(), vec![1, 2].into());
        let made = |from: &Shared<Vec<u8>>, with, what: &str| {
            memo.of((from, from.len()), with, || "full", || Ok(what.to_owned()))
        };
        assert_eq!(made(&one, 0, "first"), Ok("first".to_owned()));
        assert_eq!(made(&one.clone(), 0, "again"), Ok("first".to_owned()));
        assert_eq!(made(&one, 1, "otherwise"), Ok("otherwise".to_owned()));
        assert_eq!(made(&same, 0, "too much"), Err("full"));
        assert_eq!(made(&one, 0, "again"), Ok("first".to_owned()));
    }
}
