//! `--otlp`: pushes to a collector of OpenTelemetry while a run goes on.
//!
//! An observer adds up the intervals that a run tells anyway, as for `--metrics`, and a thread of its own pushes the sums
//! (`push.rs`) as OTLP in JSON, which `wirebeat_report` writes. `settings.rs` is how: the flags, and the variables that all programs
//! with OpenTelemetry have; `endpoint.rs` is where, `http.rs` one request, `trust.rs` whose certificates are believed. A collector that
//! is gone, slow or hostile costs the run nothing. `docs/live.md` is for those who read it.

mod endpoint;
mod http;
mod push;
mod settings;
#[cfg(test)]
mod tests;
mod trust;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use wirebeat_report::metrics::RunMetrics;
use wirebeat_run::{Interval, Observer, Progress};
use wirebeat_units::Nanos;

use http::Client;
use push::{Pushed, Pusher, Pushing};
use settings::Settings;
use trust::{names, trust};

use crate::failure::Failure;
use crate::metrics::SharedMetrics;
use crate::output::{VERSION, tell};

/// Where metrics are pushed to.
#[derive(Args, Clone, Debug, Default)]
pub struct OtlpArgs {
    /// Push what is counted to an OpenTelemetry collector while it runs, by OTLP over HTTP: http://127.0.0.1:4318
    ///
    /// A URL without a path gets /v1/metrics. Without a URL it is that of OTEL_EXPORTER_OTLP_ENDPOINT. docs/live.md lists the
    /// variables for interval, headers and names.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", hide_short_help = true)]
    pub otlp: Option<String>,
    /// The certificates of the authority that an https:// collector is trusted by, in PEM
    #[arg(long, value_name = "FILE", requires = "otlp", hide_short_help = true)]
    pub otlp_ca: Option<PathBuf>,
}

/// What pushes, once a run begins.
#[derive(Debug)]
pub struct OtlpExporter {
    settings: Settings,
    client: Client,
}

impl OtlpExporter {
    /// As `args` and the environment say, if they ask for it.
    ///
    /// # Errors
    /// A URL, a variable or a file that is of no use.
    pub fn of(args: &OtlpArgs) -> Result<Option<OtlpExporter>, Failure> {
        let variables =
            |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let Some(settings) = Settings::of(args, &variables, (VERSION, &instance()))? else {
            return Ok(None);
        };
        let tls = match trust(&settings)? {
            None => None,
            Some(config) => {
                let name = names(&settings.endpoint);
                let name = name.map_err(|fault| Failure::usage(fault).at("--otlp"))?;
                Some((config, name))
            }
        };
        let client = Client::new(settings.endpoint.clone(), &settings.headers, tls);
        Ok(Some(OtlpExporter { settings, client }))
    }

    /// Where it pushes, as a URL, and how often.
    pub fn target(&self) -> String {
        // at most a day, which fits
        let period = Nanos::from_millis(self.settings.period.as_millis() as u64);
        format!("{} every {period}", self.settings.endpoint.url())
    }

    /// Begins to push; nothing has been counted.
    ///
    /// # Errors
    /// This machine has no room for a thread.
    pub fn start(self, metrics: RunMetrics) -> Result<OtlpObserver, Failure> {
        let OtlpExporter { settings, client } = self;
        let Settings { resource, period, timeout, .. } = settings;
        let metrics = Arc::new(SharedMetrics::new(metrics));
        let pushing = Pushing { client, metrics: Arc::clone(&metrics), resource, period, timeout };
        let pusher = Pusher::start(pushing).map_err(|error| {
            Failure::machine(format!("cannot push metrics: {error}")).at("--otlp")
        })?;
        Ok(OtlpObserver { metrics, pusher })
    }
}

/// A name for this run that no other has: a random UUID (RFC 9562 §5.4).
fn instance() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // early in the start of a machine: the time is a name as well
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        bytes = (now ^ u128::from(std::process::id()) << 96).to_be_bytes();
    }
    let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62;
    let hex = format!("{number:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| hex.get(part).unwrap_or_default().to_owned()).join("-")
}

/// Pushes what a run counts until it is dropped, which waits for the last push a moment.
#[derive(Debug)]
pub struct OtlpObserver {
    metrics: Arc<SharedMetrics>,
    pusher: Pusher,
}

impl OtlpObserver {
    /// What the person who waits should know of it since the last time.
    pub fn notices(&self) -> Vec<String> {
        self.pusher.notices()
    }
}

impl Observer for OtlpObserver {
    fn progress(&mut self, _: &Progress) {}

    fn watches(&self) -> bool {
        false
    }

    fn wants_histograms(&self) -> bool {
        true
    }

    fn interval(&mut self, interval: &Interval) {
        self.metrics.add(interval);
    }
}

impl Drop for OtlpObserver {
    fn drop(&mut self) {
        let (pushed, rejected_before) = self.pusher.end();
        let rejected = pushed.rejected.clone().filter(|_| !rejected_before);
        let said = rejected.into_iter().chain(summary(&pushed));
        said.for_each(|line| tell(&line));
    }
}

/// What is said at the end: nothing where all went well.
fn summary(pushed: &Pushed) -> Option<String> {
    let Pushed { begun, failed, why, is_behind, .. } = pushed;
    if *failed == 0 && !is_behind {
        return None;
    }
    let behind = match is_behind {
        true => "; the collector does not have the last values",
        false => "",
    };
    let begun = begun.max(failed);
    Some(format!("OTLP: {failed} of {begun} pushes failed: {why}{behind}"))
}
