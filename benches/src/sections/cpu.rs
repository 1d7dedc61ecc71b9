//! What each way to wait costs, and how exact it is, beside iperf 2, the cheapest of the peers that keep
//! a rate.

use std::time::Duration;

use wirebeat_traffic::scenario::{EngineChoice, WaitChoice};

use super::{Chapter, rates};
use crate::exactness::{self, Paced};
use crate::format;
use crate::peers::{IPERF, Pace};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::{self, Setup};

/// The rates, in frames per second.
const RATES: [u64; 3] = [1_000, 10_000, 100_000];
/// The rate of the target, at which every engine is measured.
const TARGET: u64 = 100_000;
/// Two readings of CPU time that differ by less are the same, in CPU seconds per second: a tick of the
/// kernel's accounting, over the time of a measurement.
const SAME: f64 = 0.02;

const PROSE: &str = "\
CPU seconds for each second of sending: of the sending process, in user space and in the kernel; and of \
everything on the machine, interrupts included, which holds what other programs do as well and is counted \
in ticks: who keeps step with the ticks, as a sender of a constant rate may, is always there or never when \
they look. All send into the receiver that meters before the stack and drops: (3). Gap errors as in \
\"Constant rates\".";

/// Who waits how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Wirebeat(&'static str, EngineChoice, WaitChoice),
    Iperf,
}

impl Who {
    const fn wirebeat(engine: EngineChoice, wait: WaitChoice) -> Who {
        let name = match (engine, wait) {
            (EngineChoice::Packet, WaitChoice::Spin) => "Wirebeat packet, spin",
            (EngineChoice::Packet, WaitChoice::Hybrid) => "Wirebeat packet, hybrid",
            (EngineChoice::Packet, WaitChoice::Sleep) => "Wirebeat packet, sleep",
            (EngineChoice::Socket, WaitChoice::Spin) => "Wirebeat socket, spin",
            (EngineChoice::Socket, WaitChoice::Hybrid) => "Wirebeat socket, hybrid",
            (EngineChoice::Socket, WaitChoice::Sleep) => "Wirebeat socket, sleep",
            (_, WaitChoice::Spin) => "Wirebeat kernel, spin",
            (_, WaitChoice::Hybrid) => "Wirebeat kernel, hybrid",
            (_, WaitChoice::Sleep) => "Wirebeat kernel, sleep",
        };
        Who::Wirebeat(name, engine, wait)
    }

    fn name(self) -> &'static str {
        match self {
            Who::Wirebeat(name, ..) => name,
            Who::Iperf => IPERF.name,
        }
    }

    fn contestant(self, rate: u64, time: Duration) -> Contestant<'static, Paced> {
        Contestant::new(format!("{} at {rate}/s", self.name()), move |bench| match self {
            Who::Wirebeat(_, engine, wait) => {
                let setup = Setup::metered(engine, Pace::Frames(rate), wait);
                wirebeat::paced(&bench.lab, &setup, rate, time)
            }
            Who::Iperf => exactness::of_peer(&bench.lab, &bench.files, &IPERF, rate, time),
        })
    }
}

const WAITS: [WaitChoice; 3] = [WaitChoice::Spin, WaitChoice::Hybrid, WaitChoice::Sleep];

/// Who is measured at a rate.
fn all_at(rate: u64) -> Vec<Who> {
    let engines: &[EngineChoice] = match rate {
        TARGET => &[EngineChoice::Kernel, EngineChoice::Packet, EngineChoice::Socket],
        _ => &[EngineChoice::Kernel],
    };
    let ours = engines.iter().flat_map(|&engine| WAITS.map(|wait| Who::wirebeat(engine, wait)));
    ours.chain([Who::Iperf]).collect()
}

/// Somebody at a rate.
struct Entry {
    who: Who,
    rate: u64,
    measured: Measured<Paced>,
}

/// Measures everything.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut entries = Vec::new();
    for rate in RATES {
        let all = all_at(rate);
        let contestants: Vec<_> = all.iter().map(|who| who.contestant(rate, bench.time)).collect();
        let measured = in_turn(bench, &contestants, |paced| {
            format!("{:.2} CPU s/s, {}", paced.cpu.own, rates::brief(&paced.exactness, rate))
        });
        entries.extend(all.into_iter().zip(measured).map(|(who, measured)| Entry {
            who,
            rate,
            measured,
        }));
    }
    Chapter {
        title: "CPU time",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table(&entries))],
        picture: None,
        verdicts: verdicts(&entries),
    }
}

fn table(entries: &[Entry]) -> Table {
    let head = [
        "frames/s",
        "tool",
        "CPU s/s, process",
        "CPU s/s, machine",
        "rate error",
        "gap error p50",
        "p99",
        "remark",
    ];
    let mut table = Table::new(&head);
    for Entry { who, rate, measured } in entries {
        let cell = |figure: fn(&Paced) -> f64, show| format::series(&measured.series(figure), show);
        let error = measured.series(|paced| paced.exactness.rate_error(*rate)).median();
        table.row(vec![
            format::rate(*rate as f64),
            who.name().to_owned(),
            cell(|paced| paced.cpu.own, format::number),
            cell(|paced| paced.cpu.machine, format::number),
            error.map_or(format::NOTHING.to_owned(), format::percent),
            cell(|paced| paced.exactness.p50, format::time),
            cell(|paced| paced.exactness.p99, format::time),
            measured.remark(),
        ]);
    }
    table
}

/// The median of a figure; why there is none.
fn median(
    entries: &[Entry],
    who: Who,
    rate: u64,
    figure: fn(&Paced) -> f64,
) -> Result<f64, String> {
    let entry = entries.iter().find(|entry| entry.who == who && entry.rate == rate);
    let measured = &entry.ok_or("it was not measured")?.measured;
    let median = measured.series(figure).median();
    median.ok_or_else(|| format!("{}: {}", who.name(), measured.reason()))
}

fn verdicts(entries: &[Entry]) -> Vec<Verdict> {
    let mut verdicts = vec![cheaper(entries), more_exact(entries)];
    verdicts.extend(RATES.map(|rate| in_between(entries, rate)));
    verdicts
}

/// A figure at the rate of the target: of the kernel engine in `sleep`, and of iperf 2.
fn both(entries: &[Entry], figure: fn(&Paced) -> f64) -> Result<(f64, f64), String> {
    let ours = Who::wirebeat(EngineChoice::Kernel, WaitChoice::Sleep);
    Ok((median(entries, ours, TARGET, figure)?, median(entries, Who::Iperf, TARGET, figure)?))
}

fn cheaper(entries: &[Entry]) -> Verdict {
    const WHAT: &str = "100 k/s: kernel, sleep, takes no more CPU than iperf 2";
    match both(entries, |paced| paced.cpu.own) {
        Ok((ours, iperf)) => {
            let [one, other] = [ours, iperf].map(format::number);
            Verdict::of(WHAT, format!("{one}; iperf 2: {other}"), ours <= iperf)
        }
        Err(why) => Verdict::unmeasured(WHAT, why),
    }
}

fn more_exact(entries: &[Entry]) -> Verdict {
    const WHAT: &str = "100 k/s: kernel, sleep, has a smaller 99th percentile than iperf 2";
    match both(entries, |paced| paced.exactness.p99) {
        Ok((ours, iperf)) => {
            let [one, other] = [ours, iperf].map(format::time);
            Verdict::of(WHAT, format!("{one}; iperf 2: {other}"), ours < iperf)
        }
        Err(why) => Verdict::unmeasured(WHAT, why),
    }
}

/// Whether `hybrid` costs no less than `sleep` and no more than `spin`.
fn in_between(entries: &[Entry], rate: u64) -> Verdict {
    let target = format!("{}/s: hybrid costs between sleep and spin", format::rate(rate as f64));
    let cost = |wait| {
        let who = Who::wirebeat(EngineChoice::Kernel, wait);
        median(entries, who, rate, |paced| paced.cpu.own)
    };
    match (cost(WaitChoice::Sleep), cost(WaitChoice::Hybrid), cost(WaitChoice::Spin)) {
        (Ok(sleep), Ok(hybrid), Ok(spin)) => {
            let [low, middle, high] = [sleep, hybrid, spin].map(format::number);
            let figure = format!("sleep {low}, hybrid {middle}, spin {high}");
            Verdict::of(target, figure, sleep <= hybrid + SAME && hybrid <= spin + SAME)
        }
        (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => Verdict::unmeasured(target, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exactness::{Exactness, Processor};
    use crate::gaps::Gaps;
    use crate::verdict::Outcome;

    fn entry(who: Who, own: f64, p99: f64) -> Entry {
        let exactness = Exactness { rate: 1e5, p50: 20.0, p99, p99_9: p99 };
        let paced =
            Paced { exactness, cpu: Processor { own, machine: own }, heard: Gaps::default() };
        Entry {
            who,
            rate: TARGET,
            measured: Measured { values: vec![paced], failures: Vec::new() },
        }
    }

    fn of(wait: WaitChoice) -> Who {
        Who::wirebeat(EngineChoice::Kernel, wait)
    }

    #[test]
    fn sleep_is_held_against_iperf_and_hybrid_against_its_siblings() {
        let mut entries = vec![
            entry(of(WaitChoice::Spin), 1.0, 100.0),
            entry(of(WaitChoice::Hybrid), 1.01, 100.0),
            entry(of(WaitChoice::Sleep), 0.4, 1000.0),
            entry(Who::Iperf, 0.45, 2000.0),
        ];
        let outcomes = |entries: &[Entry]| {
            verdicts(entries).into_iter().map(|verdict| verdict.outcome).collect::<Vec<_>>()
        };
        let met = outcomes(&entries);
        assert_eq!([&met[0], &met[1], &met[4]], [&Outcome::Met; 3]);
        assert!(matches!(met[2], Outcome::Unmeasured(_)), "there is nothing at 1,000 a second");
        entries[2] = entry(of(WaitChoice::Sleep), 0.5, 2000.0);
        entries[1] = entry(of(WaitChoice::Hybrid), 0.4, 100.0);
        let missed = outcomes(&entries);
        assert_eq!([&missed[0], &missed[1], &missed[4]], [&Outcome::Missed; 3]);
    }

    #[test]
    fn every_engine_is_measured_at_the_rate_of_the_target() {
        assert_eq!(all_at(TARGET).len(), 10);
        assert_eq!(all_at(1_000).len(), 4);
        let names: std::collections::BTreeSet<_> =
            all_at(TARGET).iter().map(|w| w.name()).collect();
        assert_eq!(names.len(), 10);
    }
}
