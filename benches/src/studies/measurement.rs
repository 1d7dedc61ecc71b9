//! One measurement of the comparison: a sender at a load for a time, what arrived, what it took, and how exact the gaps were.

use std::thread::sleep;
use std::time::{Duration, Instant};

use wirebeat_host::CpuTimes;

use super::process_stats;
use super::sender::{self, Load, Sender};
use crate::exactness;
use crate::lab::Failure;
use crate::rounds::Bench;
use crate::tcpdump::Capturing;
use crate::{sinks, window};

/// From the first frames until something is counted.
const WARM_UP: Duration = Duration::from_millis(300);
/// A sender is under way when this many frames arrive within a step: more than tools exchange to agree on a test.
const UNDER_WAY: u64 = 10;
/// From one look at the CPU time to the next, as in the study.
const LOOK: Duration = Duration::from_millis(500);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// What is sent.
    pub load: Load,
    /// Whether the times of packets are captured.
    pub capture: bool,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Bits of payload per second that arrived.
    pub throughput: f64,
    /// Frames per second that found no token.
    pub over: f64,
    /// CPU seconds per second of the sending process, at each look.
    pub cpu: Vec<f64>,
    /// The same of everything on the machine, over the whole time.
    pub machine: f64,
    /// Its largest resident set, in bytes.
    pub resident: f64,
    /// Signed errors of the times between two packets, in nanoseconds; empty without a capture.
    pub errors: Vec<f64>,
}

impl Seen {
    /// CPU seconds per second over the whole time.
    pub fn cpu_mean(&self) -> f64 {
        self.cpu.iter().sum::<f64>() / self.cpu.len().max(1) as f64
    }

    /// The quantile of the absolute errors; not a number without a capture.
    pub fn error(&self, quantile: f64) -> f64 {
        let mut errors: Vec<f64> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let at = (quantile * errors.len() as f64) as usize;
        errors.get(at.min(errors.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// Signed errors of the gaps of packets that were captured within a time after the warm-up.
fn errors(times: &[u64], gap_ns: f64, time: Duration) -> Vec<f64> {
    let Some(first) = times.first() else { return Vec::new() };
    let from = first + WARM_UP.as_nanos() as u64;
    let within = from..from + time.as_nanos() as u64;
    let within: Vec<u64> = times.iter().copied().filter(|time| within.contains(time)).collect();
    within.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 - gap_ns).collect()
}

/// Measures a sender.
pub fn measure(bench: &Bench, who: Sender, task: Task, around: &[String]) -> Result<Seen, Failure> {
    let Bench { lab, files, time, .. } = bench;
    let Task { load, capture } = task;
    // what is late leaves the socket engine joined, and would be one packet to the capture
    lab.near().netlink()?.set_features(lab.near().link.index, &[("tx-udp-segmentation", false)])?;
    // nobody must answer that the port is closed
    let _socket = sinks::unread(lab)?;
    let shortest = (load.payload + 20).to_string();
    let capture = capture.then(|| Capturing::of(lab, &["udp", "and", "greater", &shortest]));
    let capture = capture.transpose()?;
    let sender = sender::start((lab, files), who, load, around)?;
    let seen = watch(bench, &sender, load);
    // what the sender itself said is the better reason
    sender.end()?;
    let mut seen = seen?;
    if let Some(capture) = capture {
        let times = capture.times()?;
        seen.errors = errors(&times, load.gap_ns(), *time);
        if seen.errors.is_empty() {
            return Err("nothing was captured".into());
        }
    }
    Ok(seen)
}

fn watch(bench: &Bench, sender: &sender::Started, load: Load) -> Result<Seen, Failure> {
    let Bench { lab, time, .. } = bench;
    window::under_way(UNDER_WAY, || Ok(lab.arrived()?.frames), || true)?;
    sleep(WARM_UP);
    let gone = || "its process ended";
    let id = sender.id();
    let (arrived, over, machine) = (lab.arrived()?, lab.over()?, CpuTimes::now());
    let begun = Instant::now();
    let mut cpu = Vec::new();
    let mut before = (begun, process_stats::cpu_ns(id).ok_or_else(gone)?);
    while begun.elapsed() < *time {
        sleep(LOOK.min(time.saturating_sub(begun.elapsed())));
        let now = (Instant::now(), process_stats::cpu_ns(id).ok_or_else(gone)?);
        let elapsed = now.0.duration_since(before.0).as_nanos() as f64;
        // the rest of a time that is no multiple of a look is none of its own
        if elapsed >= LOOK.as_nanos() as f64 / 2.0 || cpu.is_empty() {
            cpu.push(now.1.saturating_sub(before.1) as f64 / elapsed.max(1.0));
            before = now;
        }
    }
    let (last, last_over) = (lab.arrived()?, lab.over()?);
    let seconds = begun.elapsed().as_secs_f64();
    let frames = last.frames.saturating_sub(arrived.frames) as f64;
    Ok(Seen {
        throughput: frames * f64::from(load.payload) * 8.0 / seconds,
        over: last_over.saturating_sub(over) as f64 / seconds,
        cpu,
        machine: exactness::machine(&CpuTimes::now().since(&machine))?,
        resident: process_stats::resident_peak(id).ok_or_else(gone)? as f64,
        errors: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_sign_and_belong_to_the_time_after_the_warm_up() {
        let mut times: Vec<u64> = (0..10_000).map(|n| n * 100_000).collect();
        times[3_500] += 7_000;
        let errors = errors(&times, 100_000.0, Duration::from_millis(100));
        assert_eq!(errors.len(), 999);
        assert_eq!((errors[499], errors[500]), (7_000.0, -7_000.0));
        let seen = Seen { errors, ..Seen::default() };
        assert_eq!((seen.error(0.5), seen.error(1.0)), (0.0, 7_000.0));
        assert!(super::errors(&[], 1.0, Duration::from_secs(1)).is_empty());
        assert!(Seen::default().error(0.5).is_nan());
    }
}
