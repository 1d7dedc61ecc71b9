//! An allocator that counts: how often a thread asked the heap for memory, and how much of it it has.
//!
//! It is the system's, with counters for each thread beside it, so that tests that run at the same
//! time do not count each other's. Memory that one thread gives back for another is taken off its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // a plain cell from the start: it is there as long as its thread, and reading it allocates nothing
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has taken and not given back, and the most it had.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn count(bytes: usize) {
    COUNT.with(|count| count.set(count.get() + 1));
    held(bytes.cast_signed());
}

fn held(more: isize) {
    HELD.with(|held| {
        let (now, most) = held.get();
        held.set((now + more, most.max(now + more)));
    });
}

// SAFETY: every request goes to the system's allocator as it came, whose promises are those that are
// asked for here; counting touches nothing but a cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        held(-layout.size().cast_signed());
        // SAFETY: the caller keeps the promises of `realloc`, and the memory is the system's
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        held(-layout.size().cast_signed());
        // SAFETY: the caller keeps the promises of `dealloc`, and the memory is the system's
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Does `work`, and says how often it allocated on this thread.
pub fn allocations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = COUNT.with(Cell::get);
    let done = work();
    (done, COUNT.with(Cell::get) - before)
}

/// Does `work`, and says how many bytes this thread had at the most beside those that it had before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let done = work();
    let (_, most) = HELD.with(Cell::get);
    (done, (most - before).cast_unsigned())
}

#[test]
fn memory_that_is_given_back_is_not_held() {
    let ((), most) = peak(|| {
        for _ in 0..3 {
            let mut list = Vec::<u8>::with_capacity(1000);
            list.resize(3000, 1);
        }
    });
    // the old and the new one lie there at once, as far as anybody knows
    assert!((3000..=4000).contains(&most), "{most}");
}

#[test]
fn allocations_of_this_thread_are_counted_and_of_no_other() {
    let (mut list, made) = allocations(|| Vec::<u64>::with_capacity(1));
    assert_eq!(made, 1);
    let ((), grown) = allocations(|| list.resize(1000, 0));
    assert_eq!(grown, 1);
    let other = std::thread::spawn(|| allocations(|| vec![0_u8; 1000]).1);
    let (joined, here) = allocations(|| other.join().unwrap());
    assert_eq!((joined, here), (1, 0));
}
