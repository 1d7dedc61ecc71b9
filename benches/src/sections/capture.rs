//! The receiver's word confirmed by somebody else's: one rate, captured by tcpdump at the same time.

use wirebeat_engine_linux::kernel::Fate;
use wirebeat_meter::distribution::Recorder;
use wirebeat_meter::summary::Distribution;
use wirebeat_run::Stop;
use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::Chapter;
use crate::lab::Failure;
use crate::peers::Pace;
use crate::rounds::{Bench, Contestant, in_turn};
use crate::sinks;
use crate::table::Table;
use crate::tcpdump::Capturing;
use crate::verdict::Verdict;
use crate::wirebeat::{Cores, Setup};
use crate::{exactness, format};

/// Frames per second.
const RATE: u64 = 10_000;
const GAP_NS: i64 = 1_000_000_000 / RATE as i64;
/// The target for the median error of a gap, in ns.
const MEDIAN: f64 = 50.0;
const PROSE: &str = "\
Wirebeat (kernel engine, `wait: spin`) at 10,000 frames per second. The receiver meters each frame before \
the stack and passes it on; tcpdump captures it there with the kernel's own timestamps in nanoseconds. \
Between the two lies the stack, whose own variation is in the capture's figures.";

/// Errors of the gaps by both.
#[derive(Clone, Copy, Debug)]
struct Seen {
    frames: [u64; 2],
    p50: [f64; 2],
    p99: [f64; 2],
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestant = Contestant::new("capture at 10,000/s", seen);
    let brief = |seen: &Seen| {
        let [receiver, capture] = seen.p50.map(format::time);
        format!("median gap error {receiver} by the receiver, {capture} by the capture")
    };
    let measured = in_turn(bench, &[contestant], brief).pop().unwrap_or_default();
    let mut table = Table::new(&["by", "frames", "gap error p50", "p99", "remark"]);
    for (by, name) in ["Wirebeat's receiver", "tcpdump's capture"].into_iter().enumerate() {
        table.row(vec![
            name.to_owned(),
            measured
                .series(|seen| seen.frames[by] as f64)
                .median()
                .map_or(format::NOTHING.to_owned(), |frames| frames.to_string()),
            format::series(&measured.series(|seen| seen.p50[by]), format::time),
            format::series(&measured.series(|seen| seen.p99[by]), format::time),
            measured.remark(),
        ]);
    }
    const TARGET: &str = "10.0 k/s: median gap error ≤ 50 ns by capture timestamps as well";
    let verdict = match measured.series(|seen| seen.p50[1]).median() {
        Some(median) => Verdict::of(TARGET, format::time(median), median <= MEDIAN),
        None => Verdict::unmeasured(TARGET, measured.reason()),
    };
    Chapter {
        title: "Confirmed by capture",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts: vec![verdict],
    }
}

fn seen(bench: &Bench) -> Result<Seen, Failure> {
    let Bench { lab, time, .. } = bench;
    let _socket = sinks::unread(lab)?;
    let capture = Capturing::begin(lab)?;
    let receiver = exactness::receiver(lab, RATE, Fate::Pass)?;
    let setup = Setup {
        engine: EngineChoice::Kernel,
        pace: Pace::Frames(RATE),
        wait: WaitChoice::Spin,
        cores: Cores::One,
        receiver: None,
    };
    setup.run(lab, *time, &Stop::new())?;
    let times = capture.times()?;
    let by_receiver = receiver.summary();
    let metered = by_receiver.flows.get(&0).ok_or("nothing arrived at the receiver")?;
    let captured = gap_errors(&times);
    Ok(Seen {
        frames: [metered.frames, times.len() as u64],
        p50: [quantile(&metered.gap_error, 0.5)?, quantile(&captured, 0.5)?],
        p99: [quantile(&metered.gap_error, 0.99)?, quantile(&captured, 0.99)?],
    })
}

/// |gap − the gap there should be| of all gaps between these times.
fn gap_errors(times: &[u64]) -> Distribution {
    let mut errors = Recorder::default();
    for pair in times.windows(2) {
        let gap = pair[1] as i64 - pair[0] as i64;
        errors.record((gap - GAP_NS).abs());
    }
    errors.distribution()
}

fn quantile(errors: &Distribution, q: f64) -> Result<f64, Failure> {
    Ok(errors.quantile(q).ok_or("nothing was captured")? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_gaps_are_counted_without_sign() {
        let errors = gap_errors(&[1_000_000, 1_100_020, 1_200_000, 1_300_000]);
        assert_eq!(errors.moments.count, 3);
        assert_eq!((errors.moments.min, errors.moments.max), (0, 20));
        assert_eq!(quantile(&errors, 0.5).unwrap(), 20.0);
        assert!(quantile(&gap_errors(&[7]), 0.5).is_err());
    }
}
