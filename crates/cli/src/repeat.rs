//! Many runs of one scenario: repetitions, and values of its variables.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use wirebeat_methods::limited;
use wirebeat_report::sweep::{ServiceTest, Sweep};
use wirebeat_run::{Heard, Once, Options, Report, RunError, Silent, Stop};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::execute::execute_and;
use crate::failure::Failure;
use crate::kept::{Head, Kept};
use crate::output::{Output, ReportArgs, VERSION, tell};
use crate::signals::Signals;
use crate::values;
use crate::watch::WatchArgs;

/// The most runs of one command.
pub const RUNS: usize = 10_000;

/// How often, and what comes before.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Run")]
pub struct RepeatArgs {
    /// Run it N times: the result has means with 95 % intervals, and every run
    #[arg(long, value_name = "N", value_parser = count, default_value = "1", hide_default_value = true, hide_short_help = true)]
    pub repeat: usize,
    /// Before each run, send for this time without counting
    #[arg(long, value_name = "TIME", value_parser = values::time, hide_short_help = true)]
    pub warmup: Option<Nanos>,
}

impl RepeatArgs {
    /// Whether it is one run, and nothing before it.
    pub fn is_once(self) -> bool {
        self.repeat == 1 && self.warmup.is_none()
    }

    /// Fails where something beside it is of a single run.
    pub fn check(self, watch: &WatchArgs, report: &ReportArgs) -> Result<(), Failure> {
        if self.repeat == 1 {
            return Ok(());
        }
        if watch.tui || watch.metrics.metrics.is_some() || watch.otlp.otlp.is_some() {
            let why = "--tui, --metrics and --otlp watch a single run";
            return Err(Failure::usage(why).at("--repeat").hint("leave one of them out"));
        }
        if report.packet_log.is_some() {
            let why = "each run would replace the packet log of the one before";
            return Err(Failure::usage(why).at("--packet-log").hint("leave out --repeat"));
        }
        Ok(())
    }

    /// Runs `scenario` as often as was asked; `more` adds to how a run is made.
    pub fn execute(
        self,
        scenario: &Scenario,
        more: &dyn Fn(Options) -> Options,
        output: &mut Output,
        explain: &dyn Fn(RunError) -> Failure,
    ) -> Result<u8, Failure> {
        let own = output.options();
        let one = |time: Option<Nanos>| {
            let mut scenario = scenario.clone();
            scenario.run.time = time.or(scenario.run.time);
            OneRun { scenario, options: more(again(&own)) }
        };
        if self.repeat == 1 {
            let before = self.warmup.map(|time| one(Some(time)));
            let run = (scenario, more(output.options()));
            return execute_and(before, run, output, explain, |_| {});
        }
        let mut make = |_: &[String], time: Option<Nanos>| Ok(one(time));
        Many {
            test: None,
            variables: Vec::new(),
            values: vec![Vec::new(); self.repeat],
            warmup: self.warmup,
            resume: None,
            make: &mut make,
            explain,
            judges: false,
        }
        .run(output)
    }
}

fn count(text: &str) -> Result<usize, wirebeat_units::Fault> {
    values::within(text, 1..=RUNS as u64).map(|count| count as usize)
}

/// What one run is.
#[derive(Debug)]
pub struct OneRun {
    /// What to run.
    pub scenario: Scenario,
    /// How.
    pub options: Options,
}

/// What makes a run of the values of variables, which ends after a time where one is given.
pub type Make<'a> = dyn FnMut(&[String], Option<Nanos>) -> Result<OneRun, Failure> + 'a;

/// The number of a run, from 1, where there are several, and its values.
type Numbered<'a> = (Option<usize>, &'a [String]);

/// The runs of a command.
pub struct Many<'a> {
    /// The standard by which the runs are a test, and what it says of services.
    pub test: Option<(&'static str, ServiceTest)>,
    /// The names of the variables that have several values.
    pub variables: Vec<String>,
    /// Their values, for each run.
    pub values: Vec<Vec<String>>,
    /// How long to send before each run.
    pub warmup: Option<Nanos>,
    /// Where each run is kept, to go on after a stop.
    pub resume: Option<PathBuf>,
    /// Makes a run of these values, that ends after the time if one is given.
    pub make: &'a mut Make<'a>,
    /// What is wrong with it, in the words of the caller.
    pub explain: &'a dyn Fn(RunError) -> Failure,
    /// Whether runs judge what they test: one that the tester limited is made again, and then judges nothing.
    pub judges: bool,
}

impl Many<'_> {
    /// Runs them all, and gives their result. A problem with the first run is told as of a single run; one that comes later ends the
    /// command with what there is.
    pub fn run(mut self, output: &mut Output) -> Result<u8, Failure> {
        let signals = Signals::watch()?;
        let command_line = output.options().command_line;
        let planned = self.values.len();
        let mut sweep =
            Sweep::new(VERSION.to_owned(), command_line, self.variables.clone(), planned);
        (sweep.test, sweep.services) =
            self.test.take().map(|(name, services)| (name.to_owned(), services)).unzip();
        // a mistake in the last of many values is told before the first run
        for values in self.values.iter().collect::<BTreeSet<_>>() {
            (self.make)(values, None)?;
        }
        let (mut kept, mut unkept) = (None, None::<Failure>);
        if let Some(path) = self.resume.take() {
            output.spares(&path)?;
            let (file, points) = Kept::open(&path, &self.head(&sweep)?)?;
            if !points.is_empty() {
                output.notice(&format!("{} of {planned} runs were made before", points.len()));
            }
            points.into_iter().for_each(|point| sweep.add(point.values, point.report));
            kept = Some(file);
        }
        let made = sweep.points.len();
        let mut heard = Heard::default();
        let stop = signals.running();
        for (number, values) in std::mem::take(&mut self.values).into_iter().enumerate().skip(made)
        {
            if stop.asked() {
                break;
            }
            let named = self.variables.iter().zip(&values);
            let named: Vec<String> = named.map(|(name, value)| format!("{name}={value}")).collect();
            output
                .notice(format!("run {} of {planned} {}", number + 1, named.join(" ")).trim_end());
            let numbered = ((planned > 1).then_some(number + 1), &values[..]);
            match self.sound(numbered, output, &mut heard, stop) {
                Ok(Some(report)) => {
                    sweep.add(values, report);
                    // one that was stopped is made again
                    let whole = sweep.points.last().filter(|_| !stop.asked());
                    if let Some((file, point)) = kept.as_mut().zip(whole)
                        && let Err(failure) = file.add(point)
                    {
                        // at once: a user who waits for hours believes that runs are kept
                        tell(&failure.to_string());
                        (kept, unkept) = (None, Some(failure));
                    }
                }
                Ok(None) => break,
                Err(failure) if sweep.points.is_empty() => return Err(failure),
                Err(failure) => {
                    output.notice(&failure.to_string());
                    break;
                }
            }
        }
        match (output.result(sweep.exit_code, &sweep), unkept) {
            (0, Some(failure)) => Ok(failure.exit_code()),
            (code, _) => Ok(code),
        }
    }

    /// What the runs are of.
    fn head(&mut self, sweep: &Sweep) -> Result<Head, Failure> {
        let first = self.values.first().cloned().unwrap_or_default();
        let scenario = (self.make)(&first, None)?.scenario.to_json().unwrap_or_default();
        Ok(Head {
            schema_version: sweep.schema_version.clone(),
            wirebeat_version: sweep.wirebeat_version.clone(),
            test: sweep.test.clone(),
            variables: self.variables.clone(),
            values: self.values.clone(),
            warmup_ns: self.warmup.map(Nanos::get),
            scenario,
        })
    }

    /// A run of which the verdict is that of what it tests, as far as it can be had: see [`Many::judges`].
    fn sound(
        &mut self,
        (number, values): Numbered<'_>,
        output: &Output,
        heard: &mut Heard,
        stop: &Stop,
    ) -> Result<Option<Report>, Failure> {
        for attempt in 1.. {
            let Some(mut report) = self.one((number, values), output, heard, stop)? else { break };
            let Some(limit) = limited::limit(&report).filter(|_| self.judges) else {
                return Ok(Some(report));
            };
            if limit.hopeless || attempt >= limited::RUNS || stop.asked() {
                output.notice(&limit.why);
                limit.withdraw(&mut report);
                return Ok(Some(report));
            }
            output.notice(&format!("{}: once more", limit.why));
        }
        Ok(None)
    }

    /// A run, after what comes before it; `None` where it was stopped before.
    fn one(
        &mut self,
        (number, values): Numbered<'_>,
        output: &Output,
        heard: &mut Heard,
        stop: &Stop,
    ) -> Result<Option<Report>, Failure> {
        if let Some(time) = self.warmup {
            warm_up((self.make)(values, Some(time))?, stop).map_err(self.explain)?;
            if stop.asked() {
                return Ok(None);
            }
        }
        let OneRun { scenario, options } = (self.make)(values, None)?;
        let mut shown = output.shown_of(number);
        let mut observer = Once { observer: &mut *shown, heard };
        let mut prepared = wirebeat_run::prepare(&scenario, options).map_err(self.explain)?;
        prepared.begin(stop).map_err(self.explain)?;
        Ok(Some(prepared.start(&mut observer, stop)))
    }
}

/// What a command line says of how each of its runs is made.
pub fn again(own: &Options) -> Options {
    let (command_line, packet_log) = (own.command_line.clone(), own.packet_log.clone());
    let Options { interval, bins, .. } = *own;
    Options { command_line, interval, bins, packet_log, ..Options::default() }
}

/// Runs, and forgets what came of it.
pub fn warm_up(run: OneRun, stop: &Stop) -> Result<(), RunError> {
    let options = Options { abort_on_fail: false, packet_log: None, ..run.options };
    let mut prepared = wirebeat_run::prepare(&run.scenario, options)?;
    prepared.begin(stop)?;
    prepared.start(&mut Silent, stop);
    Ok(())
}
