//! `wirebeat ctl stats`: what a run has counted, as rows of text or lines of JSON.
//!
//! The run gives its own intervals; longer ones are put together here ([`Rows`]), so that a run knows nothing of how it is looked at.

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::path::Path;

use clap::Args as ClapArgs;
use wirebeat_report::stats::StatsLine;
use wirebeat_report::{json, text};
use wirebeat_run::Interval;
use wirebeat_run::control::client::StatsReader;
use wirebeat_units::human::counted;
use wirebeat_units::{Nanos, fault};

use super::{WHY_MAX, failure, shown};
use crate::failure::Failure;
use crate::output::{tell, unprinted, written};

/// What is printed of what a run counts.
#[derive(ClapArgs, Debug)]
pub struct StatsArgs {
    /// Begin with so many intervals that have ended
    #[arg(long, value_name = "N", default_value = "1", value_parser = last)]
    last: u32,
    /// Print intervals as they end, until the run is over
    #[arg(long)]
    follow: bool,
    /// The same until so many lines are printed
    #[arg(long, value_name = "N", value_parser = crate::values::count::<NonZeroU64>)]
    count: Option<NonZeroU64>,
    /// With --follow and --count: put intervals together to this length at least [default: as the run counts]
    ///
    /// Several intervals have no percentiles together.
    #[arg(long, value_name = "TIME", value_parser = crate::values::time)]
    interval: Option<Nanos>,
    /// Print lines of JSON, each an object with one key: interval, missed, or total in the last line
    #[arg(long)]
    pub(super) json_lines: bool,
}

impl StatsArgs {
    /// Whether intervals are printed that have not ended yet.
    fn follows(&self) -> bool {
        self.follow || self.count.is_some()
    }

    /// Refuses what does not go together, before a run is asked.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.interval.is_none() || self.follows() {
            return Ok(());
        }
        let why = fault!(
            "intervals that have ended are as long as the run counts";
            "add --follow or --count"
        );
        Err(Failure::usage(why).at("--interval"))
    }
}

/// Reads a number of intervals.
fn last(text: &str) -> Result<u32, wirebeat_units::Fault> {
    text.parse().map_err(
        |_| fault!("'{text}' is not a number of intervals"; "write for example 10, or 0 for none"),
    )
}

/// Asks the run at `path`, which has so long to answer, and prints what it counts.
pub fn run(args: &StatsArgs, path: &Path, within: std::time::Duration) -> Result<u8, Failure> {
    let follows = args.follows();
    let told = |error| failure(&error);
    let mut reader = StatsReader::connect(path, within).map_err(told)?;
    reader.ask(args.last, follows).map_err(told)?;
    let mut printer = Printer { json: args.json_lines, left: args.count.map(NonZeroU64::get) };
    let mut rows = Rows { every: args.interval.unwrap_or(Nanos::ZERO), sum: None };
    loop {
        let enough = printer.left == Some(0);
        let goes_on = match reader.next(!follows || enough).map_err(told)? {
            // what is still on its way
            StatsLine::Interval(_) | StatsLine::Missed(_) if enough => true,
            StatsLine::Interval(interval) => match rows.take(*interval) {
                Some(row) => printer.interval(row)?,
                None => true,
            },
            StatsLine::Missed(count) => {
                rows.rest().map_or(Ok(true), |row| printer.interval(row))?
                    && printer.missed(count)?
            }
            StatsLine::Total(total) => {
                if !enough && let Some(row) = rows.rest() {
                    printer.interval(row)?;
                }
                printer.total(*total)?;
                false
            }
            StatsLine::Error(why) => return Err(Failure::usage(shown(&why, WHY_MAX))),
        };
        if !goes_on {
            return Ok(0);
        }
        if !enough && printer.left == Some(0) {
            // ends what was asked for, and gives the total
            reader.ask(0, false).map_err(told)?;
        }
    }
}

/// Puts intervals together to a length.
struct Rows {
    every: Nanos,
    sum: Option<Interval>,
}

impl Rows {
    /// Takes in an interval; gives the one that is as long as it should be.
    fn take(&mut self, interval: Interval) -> Option<Interval> {
        match &mut self.sum {
            Some(sum) => sum.merge(&interval),
            none => *none = Some(interval),
        }
        let passed = |sum: &Interval| sum.to_ns.saturating_sub(sum.from_ns);
        let whole = self.sum.as_ref().is_some_and(|sum| passed(sum) >= self.every.get());
        if whole { self.rest() } else { None }
    }

    /// What is left.
    fn rest(&mut self) -> Option<Interval> {
        self.sum.take()
    }
}

/// Where lines go. Each method says whether somebody still reads.
struct Printer {
    json: bool,
    /// How many rows are to be printed, if that is bounded.
    left: Option<u64>,
}

impl Printer {
    fn interval(&mut self, interval: Interval) -> Result<bool, Failure> {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.line(match self.json {
            true => json::stats_line(&StatsLine::Interval(Box::new(interval))),
            false => format!("{}\n", text::interval::row(&interval)),
        })
    }

    fn missed(&self, count: u64) -> Result<bool, Failure> {
        self.line(match self.json {
            true => json::stats_line(&StatsLine::Missed(count)),
            false => format!("missed: {}, not read in time\n", counted(count, "interval")),
        })
    }

    fn total(&self, total: Interval) -> Result<bool, Failure> {
        if self.json {
            return self.line(json::stats_line(&StatsLine::Total(Box::new(total))));
        }
        if total.to_ns == 0 {
            tell("no interval of this run has ended yet");
            return Ok(true);
        }
        self.line(format!("total: {}\n", text::interval::row(&total).trim_start()))
    }

    fn line(&self, line: String) -> Result<bool, Failure> {
        match written(line.as_bytes()) {
            Ok(()) => Ok(true),
            // who reads has seen enough
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(unprinted(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(from_ns: u64, to_ns: u64) -> Interval {
        Interval { from_ns, to_ns, expired: Some(1), ..Interval::empty() }
    }

    #[test]
    fn intervals_are_put_together_to_the_length_that_is_asked_for() {
        let mut rows = Rows { every: Nanos::new(25), sum: None };
        let mut took = |from, to| {
            rows.take(interval(from, to)).map(|row| (row.from_ns, row.to_ns, row.expired))
        };
        assert_eq!([took(0, 10), took(10, 20)], [None, None]);
        // whole intervals alone, so a little longer than asked for
        assert_eq!(took(20, 30), Some((0, 30, Some(3))));
        assert_eq!(took(30, 40), None);
        assert_eq!(rows.rest().map(|row| row.from_ns), Some(30));
        assert!(rows.rest().is_none());
        let mut each = Rows { every: Nanos::ZERO, sum: None };
        assert_eq!(each.take(interval(5, 7)), Some(interval(5, 7)));
    }
}
