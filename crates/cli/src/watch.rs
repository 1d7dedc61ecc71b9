//! Those who look at a run while it goes on: the flags that ask for them, and several of them as one observer.
//!
//! What each shows is in `progress.rs` (lines and bars), `metrics/` (Prometheus) and `tui/` (the live view).

use std::net::SocketAddr;

use clap::Args;
use wirebeat_run::{Control, Interval, Observer, Progress};
use wirebeat_units::Nanos;

use crate::metrics::MetricsArgs;
use crate::signals::Signals;

/// Who looks at a run beside those who get its results.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Watch")]
pub struct WatchArgs {
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Show a live view on the terminal: flows, sessions, rates, loss and delay; '?' lists its keys
    ///
    /// With --control its keys + and - change rates. The report follows when the run has ended; 'q' asks it to.
    #[arg(long, hide_short_help = true)]
    pub tui: bool,
}

/// A run as those who watch it see it.
pub struct Watched<'a> {
    /// The seed of its random choices, if it has one.
    pub seed: Option<u64>,
    /// The handle on its rates, where it was started with one.
    pub control: Option<Control>,
    /// What stops it.
    pub signals: &'a Signals,
}

impl Watched<'_> {
    /// One without a seed, whose rates do not change.
    pub fn plain(signals: &Signals) -> Watched<'_> {
        Watched { seed: None, control: None, signals }
    }
}

/// Several observers as one: each hears all.
pub struct Watchers(pub Vec<Box<dyn Observer>>);

impl Observer for Watchers {
    fn progress(&mut self, progress: &Progress) {
        let watching = self.0.iter_mut().filter(|one| one.watches());
        watching.for_each(|one| one.progress(progress));
    }

    fn watches(&self) -> bool {
        self.0.iter().any(|one| one.watches())
    }

    fn wants_histograms(&self) -> bool {
        self.0.iter().any(|one| one.wants_histograms())
    }

    fn interval(&mut self, interval: &Interval) {
        self.0.iter_mut().for_each(|one| one.interval(interval));
    }

    fn notice(&mut self, message: &str) {
        self.0.iter_mut().for_each(|one| one.notice(message));
    }

    fn begins(&mut self, start: Nanos) {
        self.0.iter_mut().for_each(|one| one.begins(start));
    }

    fn listening(&mut self, address: SocketAddr) {
        self.0.iter_mut().for_each(|one| one.listening(address));
    }
}
