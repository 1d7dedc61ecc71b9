//! An allocator that counts: how often a thread asked the heap for memory.
//!
//! It is the system's, with a counter for each thread beside it, so that tests that run at the same
//! time do not count each other's. Memory that is given back is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // a plain cell from the start: it is there as long as its thread, and reading it allocates nothing
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: every request goes to the system's allocator as it came, whose promises are those that are
// asked for here; counting touches nothing but a cell of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `alloc`
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `alloc_zeroed`
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `realloc`, and the memory is the system's
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
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
