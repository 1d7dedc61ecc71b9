//! `--metrics`: answers Prometheus while a run goes on.
//!
//! An observer adds up the intervals that a run tells anyway ([`RunMetrics`]), and a thread of its own shows the sums to those
//! who ask over HTTP (`server.rs`; `request.rs` is what may be asked, `security.rs` by whom). Hot paths know nothing of it, and it is
//! over with the run. `docs/live.md` is for those who read it.

mod address;
mod channel;
mod counted;
mod request;
pub mod security;
mod server;

#[cfg(test)]
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

pub use address::MetricsAddress;
use clap::Args;
pub use counted::SharedMetrics;
pub use server::MetricsListener;
use server::MetricsServer;
use wirebeat_report::metrics::RunMetrics;
use wirebeat_run::{Interval, Observer, Progress};

use crate::failure::Failure;

/// Where metrics are shown, and to whom.
#[derive(Args, Clone, Debug, Default)]
pub struct MetricsArgs {
    /// Show what is counted to a Prometheus server while it runs, at http://ADDRESS:PORT/metrics: 127.0.0.1:9469
    ///
    /// A port alone is one of 127.0.0.1. An address that other hosts reach needs a token and a certificate. docs/live.md lists the
    /// metrics.
    #[arg(long, value_name = "ADDRESS:PORT", hide_short_help = true)]
    pub metrics: Option<MetricsAddress>,
    /// A file with the token that those who ask have to know (Authorization: Bearer)
    #[arg(long, value_name = "FILE", requires = "metrics", hide_short_help = true)]
    pub metrics_token_file: Option<PathBuf>,
    /// Show metrics over TLS, with this certificate and those that lead to its issuer, in PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "metrics",
        requires = "metrics_cert_key",
        hide_short_help = true
    )]
    pub metrics_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "metrics_cert", hide_short_help = true)]
    pub metrics_cert_key: Option<PathBuf>,
}

/// Shows what a run counts at an address until it is dropped.
#[derive(Debug)]
pub struct MetricsObserver {
    shared: Arc<SharedMetrics>,
    /// Ends when it is dropped.
    server: MetricsServer,
}

impl MetricsObserver {
    /// Begins to answer; nothing has been counted.
    ///
    /// # Errors
    /// This machine has no room for a thread.
    pub fn start(listener: MetricsListener, metrics: RunMetrics) -> Result<Self, Failure> {
        let shared = Arc::new(SharedMetrics::new(metrics));
        let server = listener.serve(Arc::clone(&shared))?;
        Ok(MetricsObserver { shared, server })
    }

    /// Where it answers: as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.server.is_encrypted() { "https" } else { "http" };
        format!("{scheme}://{}/metrics", self.server.address())
    }

    /// The same as an address.
    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Observer for MetricsObserver {
    fn progress(&mut self, _: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn wants_histograms(&self) -> bool {
        true
    }

    fn interval(&mut self, interval: &Interval) {
        self.shared.add(interval);
    }
}

#[cfg(test)]
mod tests;
