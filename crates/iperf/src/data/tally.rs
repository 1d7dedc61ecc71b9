//! What is counted of one stream: written by one thread, read by others at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wirebeat_units::Nanos;

/// Counters of one stream, from its beginning on.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bytes: AtomicU64,
    packets: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
    forget_jitter: AtomicBool,
}

/// What a [`Tally`] showed at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub bytes: u64,
    /// Datagrams sent, or the highest sequence number received.
    pub packets: u64,
    /// Datagrams received.
    pub received: u64,
    pub lost: u64,
    pub out_of_order: u64,
    pub jitter: Nanos,
}

/// Only one thread writes: no need for an atomic addition.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
}

impl Tally {
    pub fn add_bytes(&self, bytes: usize) {
        add(&self.bytes, bytes as u64);
    }

    pub fn add_packets(&self, packets: usize) {
        add(&self.packets, packets as u64);
    }

    /// What a receiver of datagrams found when one more came.
    pub fn set_received(&self, highest: u64, lost: u64, out_of_order: u64, jitter_ns: f64) {
        add(&self.received, 1);
        self.packets.store(highest, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
        self.out_of_order.store(out_of_order, Ordering::Relaxed);
        self.jitter_ns.store(jitter_ns as u64, Ordering::Relaxed);
    }

    /// Asks the receiver to begin its jitter again, when the omitted time is over.
    pub fn forget_jitter(&self) {
        self.forget_jitter.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked for, once.
    pub fn jitter_is_to_be_forgotten(&self) -> bool {
        // not on each datagram an atomic exchange
        self.forget_jitter.load(Ordering::Relaxed)
            && self.forget_jitter.swap(false, Ordering::Relaxed)
    }

    pub fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            out_of_order: self.out_of_order.load(Ordering::Relaxed),
            jitter: Nanos::new(self.jitter_ns.load(Ordering::Relaxed)),
        }
    }
}
