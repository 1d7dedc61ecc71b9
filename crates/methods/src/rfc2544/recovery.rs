//! How long a device goes on losing frames after an overload (RFC 2544 §26.5), and for how long a reset silences it (§26.6, RFC 6201).

use wirebeat_report::test_report::{Recovery, RecoveryTime, Reset, SizeReport, TestReport};
use wirebeat_units::human;

use super::Watch;
use super::size_test::{SizeTest, Step};
use crate::bench::{Bench, Made, Overload, Part};

/// The overload, as a share of the throughput (RFC 2544 §26.5).
const OVERLOAD: f64 = 1.1;
/// The load after it, as a share of the overload.
const AFTER: f64 = 0.5;
/// The purposes of trials, as in reports.
const RECOVERY: &str = "recovery";
const RESET: &str = "reset";

impl SizeTest<'_> {
    /// Overloads the device and sees how long it goes on losing frames.
    pub(super) fn recovery(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
        max: f64,
    ) -> Step {
        let Some(throughput) = self.found(report) else { return Ok(()) };
        let (time, window, trials) = self.method.recovery;
        let load = (throughput * OVERLOAD).min(max);
        let overloaded = load > throughput;
        let of = Overload { load, time, after: load * AFTER, window };
        let recovery = &mut report.sizes[self.place].recovery;
        recovery.get_or_insert_with(|| Recovery {
            overload: of.load,
            overload_ns: time.get(),
            load: of.after,
            window_ns: window.get(),
            overloaded,
            times: Vec::new(),
            mean_ns: None,
        });
        // a device that is not overloaded has nothing to recover from
        while overloaded && made(report, self.place, RECOVERY) < trials as usize {
            self.before_trial(bench, report, watch)?;
            let (made, parts) =
                bench.overload((RECOVERY, of), self.size, (watch.observer, watch.stop))?;
            if let Some(recovery) = &mut report.sizes[self.place].recovery {
                recovery.times.push(recovered(&parts));
            }
            self.keep(*made, report, watch);
        }
        Ok(())
    }

    /// Sends at the throughput while somebody resets the device.
    pub(super) fn reset(
        &self,
        bench: &mut Bench,
        report: &mut TestReport,
        watch: &mut Watch<'_>,
    ) -> Step {
        let done = report.sizes.iter().any(|size| size.reset.is_some());
        let Some(load) = self.found(report).filter(|_| !done) else { return Ok(()) };
        let time = self.method.reset;
        self.before_trial(bench, report, watch)?;
        let takes = human::long_time(time.get());
        watch.observer.notice(&format!(
            "reset the device now: frames are sent for {takes}, in which it has to come back"
        ));
        let made = bench.once((RESET, load, time), self.size, (watch.observer, watch.stop))?;
        report.sizes[self.place].reset = Some(silence(&made, load));
        self.keep(*made, report, watch);
        Ok(())
    }
}

/// How many trials there are for this.
fn made(report: &TestReport, place: usize, purpose: &str) -> usize {
    report.sizes[place].trials.iter().filter(|trial| trial.purpose == purpose).count()
}

/// Until when frames were lost, from the end of the overload.
fn recovered(parts: &[Part]) -> RecoveryTime {
    let last = parts.iter().rposition(|part| part.lost > 0);
    match last.map(|last| (last, &parts[last])) {
        None => RecoveryTime { least_ns: 0, most_ns: 0, recovered: true },
        Some((place, part)) => RecoveryTime {
            least_ns: part.from_ns,
            most_ns: part.to_ns,
            recovered: place + 1 < parts.len(),
        },
    }
}

/// The longest time without a frame, which began with one and ended with one.
fn silence(made: &Made, load: f64) -> Reset {
    let received = made.report.flows.iter().filter_map(|flow| flow.received.as_ref());
    let longest = received.filter_map(|received| received.inter_arrival_ns.max).max();
    let last = made
        .report
        .intervals
        .iter()
        .rev()
        .find(|interval| interval.total.sent.as_ref().is_some_and(|sent| sent.frames > 0));
    let back =
        last.is_some_and(|last| last.total.received.as_ref().is_some_and(|of| of.frames > 0));
    Reset {
        load,
        time_ns: made.trial.trial_ns,
        silence_ns: longest.and_then(|ns| u64::try_from(ns).ok()),
        returned: back,
    }
}

/// Puts the mean of all recoveries into a report.
pub(super) fn conclude(of: &mut SizeReport) {
    if let Some(recovery) = &mut of.recovery {
        let sum: f64 = recovery.times.iter().map(|time| time.most_ns as f64).sum();
        let count = recovery.times.len();
        recovery.mean_ns = (count > 0).then(|| sum / count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_recovered_after_the_last_frame_that_it_lost() {
        let part = |from_ns, to_ns, lost| Part { from_ns, to_ns, lost };
        let time = |least_ns, most_ns, recovered| RecoveryTime { least_ns, most_ns, recovered };
        assert_eq!(recovered(&[part(0, 5, 0), part(5, 9, 0)]), time(0, 0, true));
        assert_eq!(
            recovered(&[part(0, 5, 3), part(5, 9, 0), part(9, 12, 1), part(12, 20, 0)]),
            time(9, 12, true)
        );
        assert_eq!(recovered(&[part(0, 5, 0), part(5, 9, 1)]), time(5, 9, false));
        assert_eq!(recovered(&[]), time(0, 0, true));
    }
}
