//! Captures sent again beside tcpreplay: as fast as it goes, and at their own times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wirebeat_engine_linux::kernel::Fate;
use wirebeat_run::Stop;
use wirebeat_testbed::{Capability, Program, require};
use wirebeat_traffic::distribution::draw::{Key, Purpose};
use wirebeat_traffic::scenario::{FlowSpec, Scenario, Size};
use wirebeat_units::FrameLen;

use super::throughput::COPIES;
use super::{Part, throughput};
use crate::format::{self, NOTHING};
use crate::frames::{self, Files, NEAR};
use crate::lab::{Failure, Lab};
use crate::peers::TCPREPLAY;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::{self, Sink};
use crate::table::Table;
use crate::tcpdump::Capturing;
use crate::verdict::Verdict;
use crate::{exactness, pcap, stats, wirebeat};

const ABOVE_FAST: &str = "\
Captures as fast as it goes, again and again, in memory from the beginning (`preload: on`, `--preload-pcap`), one transmit \
core, frames per second that arrived. Lengths have the FCS; the mix has seven frames of 64 bytes, four of 570 and one of 1518.";

const ABOVE_TIMED: &str = "\
A capture at its own times: 10,000 frames a second on average, with exponential gaps. tcpdump captures at the far end with \
the kernel's timestamps; the error of a frame is how far its time there is from its time in the capture, less the median, because a constant \
delay is no error. `wait: spin`; tcpreplay times as it does by default.";

/// What a capture has, in turn.
const CASES: [(&str, &[u16]); 3] = [
    ("64 B", &[64]),
    ("mix", &[64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 570, 64]),
    ("1518 B", &[1518]),
];
/// Frames of a capture: enough that going back to its beginning does not count.
const CAPTURED: usize = 48_000;
const KERNEL: &str = "Wirebeat kernel";
const WHO: [&str; 4] = [KERNEL, "Wirebeat packet", TCPREPLAY.name, COPIES];
const TIMES: f64 = 3.0;

/// Of what leaves at its own time: so many frames, so far apart on average.
const TIMED: usize = 20_000;
const MEAN_NS: f64 = 1e9 / RATE as f64;
const RATE: u64 = 10_000;
/// The target for the median error, in ns.
const MEDIAN: f64 = 1000.0;
const WHO_TIMED: [&str; 2] = [KERNEL, TCPREPLAY.name];
/// tcpreplay takes so much longer at most than the capture, beside three times as long.
const ENDS: Duration = Duration::from_secs(5);

/// Measures both.
pub fn measure(bench: &mut Bench) -> Part {
    let (mut fast, mut verdicts) = flat_out(bench);
    let (timed, verdict) = at_their_times(bench);
    fast.push(timed);
    verdicts.push(verdict);
    Part { tables: fast, verdicts }
}

/// The frames of these lengths from the near to the far end.
fn frames_of(lab: &Lab, lengths: &[u16]) -> Result<Vec<Vec<u8>>, Failure> {
    let frame = |&len: &u16| {
        let size = Some(Size::frame(FrameLen::with_fcs(len)));
        frames::first(lab, FlowSpec { size, ..frames::flow(lab) })
    };
    lengths.iter().map(frame).collect()
}

/// A capture of these frames in turn, at these times.
fn write(lab: &Lab, lengths: &[u16], times: impl Iterator<Item = u64>) -> Result<PathBuf, Failure> {
    let frames = frames_of(lab, lengths)?;
    let frames = frames.iter().map(Vec::as_slice).cycle();
    let file = lab.folder.file("replayed.pcap");
    fs::write(&file, pcap::timed(times.zip(frames)))?;
    fs::File::open(&file)?.sync_all()?;
    Ok(file)
}

fn scenario(lab: &Lab, engine: &str, capture: &Path, keys: &str) -> Result<Scenario, Failure> {
    let text = format!(
        "ports:\n  {NEAR}: {{ interface: {}, namespace: {NEAR}, engine: {engine}, cores: [{}] }}\nflows:\n  replay:\n    \
         from: {NEAR}\n    replay: {{ capture: '{}', {keys} }}\nrun: {{ wait: spin }}\n",
        lab.near().interface(),
        lab.cores.send,
        capture.display()
    );
    Ok(Scenario::from_yaml(&text, "bench")?)
}

fn flat_out(bench: &mut Bench) -> (Vec<(String, Table)>, Vec<Verdict>) {
    let mut table = Table::new(&["frames", "from", "frames/s", "of tcpreplay", "remark"]);
    let mut verdicts = Vec::new();
    for (case, lengths) in CASES {
        let measured = one_case(bench, case, lengths);
        let rates: Vec<stats::Series> =
            measured.iter().map(|measured| measured.series(|&rate| rate)).collect();
        let [kernel, _, peer, _] = &rates[..] else { continue };
        for ((who, rate), measured) in WHO.into_iter().zip(&rates).zip(&measured) {
            table.row(vec![
                case.to_owned(),
                who.to_owned(),
                format::series(rate, format::rate),
                rate.over(peer).map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
                measured.remark(),
            ]);
        }
        let target = format!("capture of {case}, kernel: ≥ {TIMES} × tcpreplay --topspeed");
        verdicts.push(match kernel.over(peer) {
            Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= TIMES),
            None => Verdict::unmeasured(target, "one of the two was not measured"),
        });
    }
    (vec![(ABOVE_FAST.to_owned(), table)], verdicts)
}

fn one_case(bench: &mut Bench, case: &str, lengths: &[u16]) -> Vec<Measured<f64>> {
    let names = WHO.map(|name| format!("capture of {case}, {name}"));
    if !names.iter().any(|name| bench.wants(name)) {
        return WHO.map(|_| Measured::default()).into();
    }
    let times = (0..CAPTURED as u64).map(|number| number * 1000);
    let capture = match write(&bench.lab, lengths, times) {
        Ok(capture) => capture,
        Err(why) => return WHO.map(|_| Measured::failed(&why)).into(),
    };
    let files = Files { capture, description: PathBuf::new() };
    let files = &files;
    let one = |bench: &Bench, who: &str| {
        let lab = &bench.lab;
        match who {
            COPIES => {
                let lengths: Vec<FrameLen> =
                    lengths.iter().map(|&len| FrameLen::with_fcs(len)).collect();
                return throughput::copies(bench, &lengths);
            }
            who if who == TCPREPLAY.name => return throughput::tcpreplay(bench, files),
            _ => {}
        }
        let engine = who.rsplit(' ').next().unwrap_or_default();
        let keys = "tight-loop: 0, preload: on, loop: 1000000";
        let scenario = scenario(lab, engine, &files.capture, keys)?;
        let run = |stop: &_| wirebeat::run(lab, &scenario, stop);
        Ok(wirebeat::counted(lab, Sink::Dropping, bench.time, run)?.sent)
    };
    let contestants: Vec<Contestant<'_, f64>> = WHO
        .into_iter()
        .zip(names)
        .map(|(who, name)| Contestant::new(name, move |bench: &Bench| one(bench, who)))
        .collect();
    in_turn(bench, &contestants, |&rate| format::rate(rate))
}

/// Errors of the times of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Errors {
    p50: f64,
    p99: f64,
}

impl Errors {
    /// Of frames that came at these times and were to come at those, both from anywhere.
    fn of(came: &[u64], were: &[u64]) -> Result<Errors, Failure> {
        if came.len() != were.len() || came.is_empty() {
            return Err(format!("{} frames came of {}", came.len(), were.len()).into());
        }
        let mut delays: Vec<i64> =
            came.iter().zip(were).map(|(&came, &was)| came.wrapping_sub(was) as i64).collect();
        delays.sort_unstable();
        let median = delays[delays.len() / 2];
        let mut errors: Vec<u64> = delays.iter().map(|delay| delay.abs_diff(median)).collect();
        errors.sort_unstable();
        let at = |share: f64| errors[(errors.len() as f64 * share) as usize] as f64;
        Ok(Errors { p50: at(0.5), p99: at(0.99) })
    }
}

/// When the frames are, in ns: exponential gaps.
fn times() -> Vec<u64> {
    let key = Key::new(1, 0, Purpose::Delay);
    let mut at = 0.0;
    let next = |number| {
        at -= MEAN_NS * key.draw(number).positive_unit().ln();
        at as u64
    };
    (0..TIMED as u64).map(next).collect()
}

fn at_their_times(bench: &mut Bench) -> ((String, Table), Verdict) {
    let names = WHO_TIMED.map(|name| format!("capture at its times, {name}"));
    let were = times();
    let wanted = names.iter().any(|name| bench.wants(name));
    let measured = match wanted.then(|| write(&bench.lab, &[64], were.iter().copied())) {
        None => WHO_TIMED.map(|_| Measured::default()).into(),
        Some(Err(why)) => WHO_TIMED.map(|_| Measured::failed(&why)).into(),
        Some(Ok(capture)) => {
            let (capture, were) = (&capture, &were);
            let contestants: Vec<Contestant<'_, Errors>> = WHO_TIMED
                .into_iter()
                .zip(names)
                .map(|(who, name)| {
                    Contestant::new(name, move |bench: &Bench| errors(bench, who, capture, were))
                })
                .collect();
            in_turn(bench, &contestants, |errors| {
                format!("median error {}", format::time(errors.p50))
            })
        }
    };
    let mut table = Table::new(&["from", "error p50", "p99", "remark"]);
    for (who, measured) in WHO_TIMED.into_iter().zip(&measured) {
        table.row(vec![
            who.to_owned(),
            format::series(&measured.series(|errors| errors.p50), format::time),
            format::series(&measured.series(|errors| errors.p99), format::time),
            measured.remark(),
        ]);
    }
    let target = "capture at its own times, kernel: median error ≤ 1 µs";
    let median = measured.first().and_then(|kernel| kernel.series(|errors| errors.p50).median());
    let verdict = match median {
        Some(median) => Verdict::of(target, format::time(median), median <= MEDIAN),
        None => {
            let why = measured.first().map_or_else(String::new, Measured::reason);
            Verdict::unmeasured(target, why)
        }
    };
    ((ABOVE_TIMED.to_owned(), table), verdict)
}

/// Sends the capture once at its times, and looks when its frames come.
fn errors(bench: &Bench, who: &str, capture: &Path, were: &[u64]) -> Result<Errors, Failure> {
    let lab = &bench.lab;
    let _socket = sinks::unread(lab)?;
    let arriving = Capturing::begin(lab)?;
    // a virtual cable takes redirected frames where a program passes them on
    let _passing = exactness::receiver(lab, RATE, Fate::Pass)?;
    if who == TCPREPLAY.name {
        require(Capability::Program(TCPREPLAY.program))?;
        let (cpu, interface) = (lab.cores.send.to_string(), lab.near().interface());
        let sender = Program::new(&lab.near().namespace, "taskset")
            .args(["-c", &cpu, TCPREPLAY.program, "--preload-pcap", "-i", interface])
            .args([capture])
            .spawn()?;
        let took = Duration::from_nanos(were.last().copied().unwrap_or(0));
        sender.wait(took * 3 + ENDS)?;
    } else {
        wirebeat::run(lab, &scenario(lab, "kernel", capture, "preload: on")?, &Stop::new())?;
    }
    Errors::of(&arriving.times()?, were)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_delay_is_no_error() {
        let were = [0, 100, 200, 300, 400];
        let came = were.map(|was| was + 7);
        assert_eq!(Errors::of(&came, &were).unwrap(), Errors { p50: 0.0, p99: 0.0 });
        let came = [1007, 1100, 1190, 1307, 1400];
        assert_eq!(Errors::of(&came, &were).unwrap(), Errors { p50: 7.0, p99: 10.0 });
        assert!(Errors::of(&came[1..], &were).is_err() && Errors::of(&[], &[]).is_err());
    }

    #[test]
    fn gaps_have_the_mean_that_they_are_to_have() {
        let times = times();
        let mean = *times.last().unwrap() as f64 / TIMED as f64;
        assert!(times.is_sorted() && (mean / MEAN_NS - 1.0).abs() < 0.03, "{mean}");
    }
}
