//! What a processor takes at least for the memory of very many sessions: a bare walk over an index and a table.

use std::hint::black_box;

use wirebeat_stack::index::Index;
use wirebeat_stack::prefetch::prefetch;
use wirebeat_stack::slab::{Slab, Slot};

use crate::in_memory::{AHEAD, BATCH, Timer, random};
use crate::lab::Failure;

/// A walk over `count` entries of an index and two lines of 192 bytes behind each, in batches, as the stack does it.
///
/// In nanoseconds an entry.
pub fn bare_walk(count: usize) -> Result<f64, Failure> {
    #[repr(C, align(64))]
    struct Lines([u64; 24]);
    impl Slot for Lines {
        fn vacant(_: u32) -> Lines {
            Lines([0; 24])
        }
        fn next_vacant(&self) -> Option<u32> {
            (self.0[0] == 0).then_some(u32::MAX)
        }
    }
    let (mut index, mut slab) = (Index::new(count), Slab::<Lines>::new(count));
    let hash = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    for number in 0..count as u64 {
        let at = slab.insert(Lines([number + 1; 24])).ok_or("the slab is full")?;
        index.insert(hash(number), at).map_err(|_| "the index is full")?;
    }
    let (mut state, rounds) = (88_172_645_463_325_252, 4_000_000 / BATCH);
    let begin = Timer::start();
    let mut sum = 0;
    for _ in 0..rounds {
        let mut hashes = [0; BATCH];
        hashes.fill_with(|| hash(random(&mut state) % count as u64));
        hashes.iter().for_each(|hash| index.prefetch(*hash));
        let mut nodes = [u32::MAX; BATCH];
        for at in 0..BATCH + AHEAD {
            if let (Some(node), Some(hash)) = (nodes.get_mut(at), hashes.get(at)) {
                *node = index.find(*hash, |_| true).unwrap_or(u32::MAX);
                if let Some(lines) = slab.slot(*node) {
                    prefetch(&lines.0[0]);
                    prefetch(&lines.0[8]);
                }
            }
            if let Some(&node) = at.checked_sub(AHEAD).and_then(|at| nodes.get(at))
                && let Some(lines) = slab.get_mut(node)
            {
                lines.0[1] += 1;
                lines.0[9] += 1;
                sum += lines.0[9];
            }
        }
    }
    black_box(sum);
    Ok(begin.nanos() / (rounds * BATCH) as f64)
}
