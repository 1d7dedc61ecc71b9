//! Those who look at a run while it goes on: the flags that ask for them, and several of them as one observer.
//!
//! What each shows is in `progress.rs` (lines and bars), `metrics/` (Prometheus), `otlp/` (OpenTelemetry) and `tui/` (the live view).

use std::net::SocketAddr;

use clap::Args;
use wirebeat_run::{Control, Interval, Observer, Progress};
use wirebeat_units::Nanos;

use crate::metrics::MetricsArgs;
use crate::otlp::{OtlpArgs, OtlpObserver};
use crate::signals::Signals;
use crate::tui::PortFlows;

/// Who looks at a run beside those who get its results.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Watch")]
pub struct WatchArgs {
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Show a live view on the terminal: ports, flows, sessions, rates, loss and delay; '?' lists its keys
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
    /// Its ports, where it has a scenario.
    pub ports: Vec<PortFlows>,
    /// What stops it.
    pub signals: &'a Signals,
}

impl Watched<'_> {
    /// One without a seed, whose rates do not change.
    pub fn plain(signals: &Signals) -> Watched<'_> {
        Watched { seed: None, control: None, ports: Vec::new(), signals }
    }
}

/// Several observers as one: each hears all.
#[derive(Default)]
pub struct Watchers {
    /// Those who only hear.
    pub observers: Vec<Box<dyn Observer>>,
    /// One that has something to say as well. It is dropped behind the others, when a view has given the terminal back.
    pub exporter: Option<OtlpObserver>,
}

impl Watchers {
    /// All of them.
    fn all(&mut self) -> impl Iterator<Item = &mut dyn Observer> {
        let exporter = self.exporter.iter_mut().map(|one| one as &mut dyn Observer);
        self.observers.iter_mut().map(|one| &mut **one as &mut dyn Observer).chain(exporter)
    }

    fn any(&self, is: fn(&dyn Observer) -> bool) -> bool {
        self.observers.iter().any(|one| is(&**one))
            || self.exporter.as_ref().is_some_and(|one| is(one))
    }
}

impl Observer for Watchers {
    fn progress(&mut self, progress: &Progress) {
        let watching = self.all().filter(|one| one.watches());
        watching.for_each(|one| one.progress(progress));
    }

    fn watches(&self) -> bool {
        self.any(|one| one.watches())
    }

    fn wants_histograms(&self) -> bool {
        self.any(|one| one.wants_histograms())
    }

    fn interval(&mut self, interval: &Interval) {
        self.all().for_each(|one| one.interval(interval));
        let notices = self.exporter.as_ref().map(OtlpObserver::notices).unwrap_or_default();
        notices.iter().for_each(|notice| self.notice(notice));
    }

    fn notice(&mut self, message: &str) {
        self.all().for_each(|one| one.notice(message));
    }

    fn begins(&mut self, start: Nanos) {
        self.all().for_each(|one| one.begins(start));
    }

    fn listening(&mut self, address: SocketAddr) {
        self.all().for_each(|one| one.listening(address));
    }
}
