//! The rings of AF_XDP: arrays of descriptors with one producer and one consumer, who share two counters
//! (`Documentation/networking/af_xdp.rst`).
//!
//! A producer writes descriptors and then says so by its counter; a consumer reads them and then says so by its own. The
//! kernel is one of the two, and tests join both ends back to back. Counters wrap at 2^32, and a descriptor lies at its number
//! modulo the size, which is a power of two: so whatever the other side writes into its counter, nothing outside of the ring
//! is touched. Knows no sockets, and not what descriptors mean.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::memory::Memory;

/// The flag by which the kernel says that it has to be woken (`linux/if_xdp.h`).
const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// The option of a descriptor whose frame goes on in the next one (`linux/if_xdp.h`, Linux 6.6).
pub(super) const MORE: u32 = libc::XDP_PKT_CONTD;

/// Where the parts of a ring lie in its memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingLayout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) descriptors: usize,
    /// How many descriptors, a power of two.
    pub(super) size: u32,
}

/// Something that may be a descriptor: plain integers of any value.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub(super) unsafe trait Descriptor: Copy {}
// SAFETY: an integer, the address of a frame.
unsafe impl Descriptor for u64 {}

/// A frame that is sent or was received (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct FrameDescriptor {
    /// Where it begins in the UMEM.
    pub(super) address: u64,
    /// Its bytes.
    pub(super) len: u32,
    /// What else is to be known of it: more pieces follow, metadata lies before it.
    pub(super) options: u32,
}

// SAFETY: integers, one after the other.
unsafe impl Descriptor for FrameDescriptor {}

const _: () = assert!(size_of::<FrameDescriptor>() == size_of::<libc::xdp_desc>());

/// The memory of a ring.
#[derive(Debug)]
struct RingMemory<T> {
    memory: Memory,
    layout: RingLayout,
    descriptors: PhantomData<T>,
}

// SAFETY: both sides reach the counters by atomics, and a descriptor only while it is theirs.
unsafe impl<T> Sync for RingMemory<T> {}

impl<T: Descriptor> RingMemory<T> {
    /// `None` where the layout does not fit the memory.
    fn new(memory: Memory, layout: RingLayout) -> Option<RingMemory<T>> {
        let words = [layout.producer, layout.consumer, layout.flags];
        let aligned = words.iter().all(|at| at.is_multiple_of(align_of::<AtomicU32>()))
            && layout.descriptors.is_multiple_of(align_of::<T>());
        let all = (layout.size as usize).checked_mul(size_of::<T>())?;
        let inside =
            |at: usize, len: usize| at.checked_add(len).is_some_and(|end| end <= memory.len());
        let fits = words.iter().all(|at| inside(*at, size_of::<AtomicU32>()))
            && inside(layout.descriptors, all);
        let known = layout.size.is_power_of_two();
        (aligned && fits && known).then_some(RingMemory {
            memory,
            layout,
            descriptors: PhantomData,
        })
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping (`new`), which is reached by atomics alone and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.memory.pointer(at, size_of::<AtomicU32>()).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.layout.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        // The kernel says so and looks at the producer's counter once more; we have written that and look at what it says. If
        // either load went before its store, both could miss the other.
        fence(Ordering::SeqCst);
        self.word(self.layout.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    #[inline]
    fn at(&self, number: u32) -> *mut T {
        let index = (number & (self.layout.size - 1)) as usize;
        self.memory.pointer(self.layout.descriptors + index * size_of::<T>(), size_of::<T>()).cast()
    }
}

/// The side of a ring that writes.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Arc<RingMemory<T>>,
    /// The number of the next descriptor to write.
    next: u32,
    /// What the other side had read when we looked last.
    read: u32,
}

/// The side of a ring that reads.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Arc<RingMemory<T>>,
    /// The number of the next descriptor to read.
    next: u32,
    /// What the other side had written when we looked last.
    written: u32,
}

impl<T: Descriptor> Producer<T> {
    /// Over the memory of an empty ring; `None` where the layout does not fit it.
    pub(super) fn new(memory: Memory, layout: RingLayout) -> Option<Producer<T>> {
        Some(Producer { ring: Arc::new(RingMemory::new(memory, layout)?), next: 0, read: 0 })
    }

    /// How many descriptors there is room for; looks at the other side's counter where less than `want` was known.
    #[inline]
    pub(super) fn room(&mut self, want: u32) -> u32 {
        let size = self.ring.layout.size;
        let room = size.wrapping_sub(self.next.wrapping_sub(self.read));
        if room >= want && room <= size {
            return room;
        }
        // what it has read is ours to write again
        self.read = self.ring.consumer().load(Ordering::Acquire);
        let used = self.next.wrapping_sub(self.read);
        size.saturating_sub(used)
    }

    /// Writes a descriptor, which the other side does not see before [`Producer::publish`]; says whether there was room.
    #[inline]
    pub(super) fn push(&mut self, descriptor: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: within the ring (`at`), and the other side is done with it (`room`).
        unsafe { self.ring.at(self.next).write(descriptor) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Hands over what was pushed.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// How many descriptors the other side has not read.
    pub(super) fn unread(&mut self) -> u32 {
        self.read = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.read).min(self.ring.layout.size)
    }

    /// Whether the kernel has to be woken to read them.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

impl<T: Descriptor> Consumer<T> {
    /// Over the memory of an empty ring; `None` where the layout does not fit it.
    pub(super) fn new(memory: Memory, layout: RingLayout) -> Option<Consumer<T>> {
        Some(Consumer { ring: Arc::new(RingMemory::new(memory, layout)?), next: 0, written: 0 })
    }

    /// How many descriptors can be read now.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        let written = self.ring.producer().load(Ordering::Acquire);
        // a counter that cannot be is one that was not written
        if written.wrapping_sub(self.next) <= self.ring.layout.size {
            self.written = written;
        }
        self.written.wrapping_sub(self.next)
    }

    /// The next descriptor, if there is one. Its place is kept until [`Consumer::release`].
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.written && self.available() == 0 {
            return None;
        }
        // SAFETY: within the ring (`at`), and written before the counter was (`Acquire`); any bytes are a descriptor.
        let descriptor = unsafe { self.ring.at(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(descriptor)
    }

    /// Gives the places of what was popped back.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LAYOUT: RingLayout =
        RingLayout { producer: 0, consumer: 64, flags: 128, descriptors: 192, size: 8 };

    /// Both ends of one ring.
    fn joined<T: Descriptor>() -> (Producer<T>, Consumer<T>) {
        let memory = Memory::anonymous(4096).unwrap();
        let producer = Producer::new(memory, LAYOUT).unwrap();
        let consumer = Consumer { ring: Arc::clone(&producer.ring), next: 0, written: 0 };
        (producer, consumer)
    }

    fn from(start: u32) -> (Producer<u64>, Consumer<u64>) {
        let (mut producer, mut consumer) = joined();
        (producer.next, producer.read) = (start, start);
        (consumer.next, consumer.written) = (start, start);
        producer.ring.producer().store(start, Ordering::Release);
        producer.ring.consumer().store(start, Ordering::Release);
        (producer, consumer)
    }

    #[test]
    fn what_is_published_is_read_in_order_round_after_round_and_across_the_wrap() {
        for start in [0, u32::MAX - 20] {
            let (mut producer, mut consumer) = from(start);
            let (mut written, mut read) = (0_u64, 0_u64);
            for round in 0..100 {
                for _ in 0..1 + round % 8 {
                    written += u64::from(producer.push(written));
                }
                producer.publish();
                for _ in 0..1 + round % 5 {
                    if let Some(value) = consumer.pop() {
                        assert_eq!(value, read);
                        read += 1;
                    }
                }
                consumer.release();
            }
            assert!(read > 100, "{read}");
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_and_an_empty_one_gives_nothing() {
        let (mut producer, mut consumer) = joined::<u64>();
        assert_eq!(consumer.pop(), None);
        assert_eq!((0..20).filter(|value| producer.push(*value)).count(), 8);
        assert_eq!(consumer.pop(), None, "nothing was handed over");
        producer.publish();
        assert_eq!(producer.unread(), 8);
        assert_eq!(consumer.available(), 8);
        assert_eq!((consumer.pop(), consumer.pop()), (Some(0), Some(1)));
        assert_eq!(consumer.available(), 6);
        assert_eq!(producer.room(1), 0, "their places were not given back");
        consumer.release();
        assert_eq!((producer.room(8), producer.unread()), (2, 6));
    }

    #[test]
    fn frames_have_their_fields() {
        let (mut producer, mut consumer) = joined();
        let frame = FrameDescriptor { address: 0x1234_5678_9abc, len: 60, options: 1 };
        assert!(producer.push(frame));
        producer.publish();
        assert_eq!(consumer.pop(), Some(frame));
    }

    #[test]
    fn two_threads_lose_nothing() {
        let (mut producer, mut consumer) = joined::<u64>();
        const COUNT: u64 = 200_000;
        let writer = thread::spawn(move || {
            let mut next = 0;
            while next < COUNT {
                if producer.push(next) {
                    next += 1;
                    producer.publish();
                } else {
                    thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < COUNT {
            match consumer.pop() {
                Some(value) => {
                    assert_eq!(value, expected);
                    expected += 1;
                    consumer.release();
                }
                None => thread::yield_now(),
            }
        }
        writer.join().unwrap();
    }

    #[test]
    fn no_counter_of_the_other_side_leads_out_of_the_ring() {
        for wild in [9, 1 << 31, u32::MAX, u32::MAX - 7] {
            let (mut producer, mut consumer) = joined::<u64>();
            producer.ring.producer().store(wild, Ordering::Release);
            assert!((0..40).filter_map(|_| consumer.pop()).count() <= 8, "{wild}");
            producer.ring.consumer().store(wild, Ordering::Release);
            assert!((0..40).filter(|value| producer.push(*value)).count() <= 40, "{wild}");
            assert!(producer.room(1) <= 8 && producer.unread() <= 8, "{wild}");
        }
    }

    #[test]
    fn the_kernel_says_when_it_has_to_be_woken() {
        let (producer, _) = joined::<u64>();
        assert!(!producer.needs_wakeup());
        producer.ring.word(LAYOUT.flags).store(NEED_WAKEUP, Ordering::Release);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn a_layout_that_does_not_fit_is_refused() {
        let wrong = [
            RingLayout { size: 7, ..LAYOUT },
            RingLayout { size: 0, ..LAYOUT },
            RingLayout { size: 1024, ..LAYOUT },
            RingLayout { producer: 4094, ..LAYOUT },
            RingLayout { consumer: 3, ..LAYOUT },
            RingLayout { descriptors: usize::MAX - 7, ..LAYOUT },
        ];
        for layout in wrong {
            let memory = Memory::anonymous(4096).unwrap();
            assert!(Producer::<u64>::new(memory, layout).is_none(), "{layout:?}");
        }
    }
}
