//! A flag that ends a test, or a server, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a test or a server to end. Clones are one flag. It is looked at ten times a second.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Not asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was asked.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
