//! A trial: one load, offered for a time, and how much of it was lost.

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// The load that was offered. Where the tester could not offer what was asked, this is what it did offer.
    pub load: f64,
    /// The load that was asked for.
    pub intended: f64,
    /// How long, in seconds.
    pub seconds: f64,
    /// Lost of sent, of 1.
    pub loss_ratio: f64,
}

impl Trial {
    /// A trial whose load was offered as it was asked for.
    pub fn new(load: f64, seconds: f64, loss_ratio: f64) -> Trial {
        Trial { load, intended: load, seconds, loss_ratio }
    }

    /// Whether the tester offered less than was asked for.
    pub fn is_limited(&self) -> bool {
        self.load < self.intended
    }
}
