//! Very many sessions of our own TCP in memory, both ends of each: how much memory they take, and how fast they are opened, used and closed.

use std::time::Duration;

use wirebeat_testbed::Program;

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::in_memory::Scale;
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
Both ends of as many sessions as the table says, in one thread of one core and in memory, as in the chapter before: all are opened by \
handshake, each has one exchange of 100 bytes each way in an order that no cache foresees, all are closed by FIN both ways, and when \
they have left TIME-WAIT (60 s on the virtual clock) as many are opened again. Timers and meters are on. The memory is what the peak \
of resident memory and huge pages of the process grew by: the TCP, its tables, the meter and the handles of its program. What a \
scenario's program keeps for each session comes on top; no BPF map is in it. For comparison, not measured here: WARP17's manual has \
18 GB for 10 million sessions.";

/// How many sessions.
const SESSIONS: [usize; 2] = [1_000_000, 10_000_000];
/// What the larger of them may take, in bytes, and a segment among them, in ns.
const MEMORY: f64 = 5.5e9;
const SEGMENT: f64 = 250.0;
/// How much more it may be at the end than while all are open: TIME-WAIT of all is between.
const GROWTH: f64 = 1.15;
const PATIENCE: Duration = Duration::from_secs(1200);

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    // a trial looks at a hundredth
    let part = if bench.extent == Extent::Trial { 100 } else { 1 };
    let contestants: Vec<Contestant<'_, Scale>> = SESSIONS
        .iter()
        .map(|sessions| {
            let sessions = sessions / part;
            Contestant::new(format!("{sessions} sessions"), move |bench: &Bench| {
                one(&bench.lab, sessions)
            })
        })
        .collect();
    let measured = in_turn(bench, &contestants, |took| {
        format!("{:.0} ns a segment, {:.2} GB", took.segment, took.open / 1e9)
    });
    drop(contestants);
    chapter(&measured, part)
}

fn chapter(measured: &[Measured<Scale>], part: usize) -> Chapter {
    let heads = [
        "sessions",
        "opened/s",
        "a segment",
        "closed/s",
        "opened again/s",
        "memory",
        "an endpoint",
        "at the end",
        "remark",
    ];
    let mut table = Table::new(&heads);
    let mut verdicts = Vec::new();
    for (sessions, of) in SESSIONS.iter().map(|sessions| sessions / part).zip(measured) {
        let shown = |figure: fn(&Scale) -> f64, show: fn(f64) -> String| {
            format::series(&of.series(figure), show)
        };
        let endpoint: Vec<f64> =
            of.values.iter().map(|took| took.open / (2 * sessions) as f64).collect();
        table.row(vec![
            sessions.to_string(),
            shown(|took| took.opened, format::rate),
            shown(|took| took.segment, format::time),
            shown(|took| took.closed, format::rate),
            shown(|took| took.opened_again, format::rate),
            shown(|took| took.open, gigabytes),
            format!("{} B", format::series(&Series::new(endpoint), format::number)),
            shown(|took| took.end, gigabytes),
            of.remark(),
        ]);
        if Some(sessions) != SESSIONS.last().map(|sessions| sessions / part) {
            continue;
        }
        let mut judge = |target: String,
                         figure: fn(&Scale) -> f64,
                         show: fn(f64) -> String,
                         most: f64| {
            let series = of.series(figure);
            verdicts.push(match series.median() {
                Some(median) => Verdict::of(target, format::series(&series, show), median <= most),
                None => Verdict::unmeasured(target, of.reason()),
            });
        };
        judge(
            format!("in memory, both ends of {sessions} sessions ≤ {}", gigabytes(MEMORY)),
            |took| took.open,
            gigabytes,
            MEMORY,
        );
        judge(
            format!("in memory, a segment among {sessions} sessions ≤ {SEGMENT} ns"),
            |took| took.segment,
            format::time,
            SEGMENT,
        );
        judge(
            format!(
                "in memory, {sessions} sessions closed and opened again: at most {GROWTH} × the memory"
            ),
            |took| took.end / took.open,
            |ratio| format!("{ratio:.2} ×"),
            GROWTH,
        );
    }
    Chapter {
        title: "Ten million sessions",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        verdicts,
    }
}

fn gigabytes(bytes: f64) -> String {
    match bytes.is_finite() {
        true => format!("{:.2} GB", bytes / 1e9),
        false => NOTHING.to_owned(),
    }
}

/// What a process of its own says of so many sessions.
fn one(lab: &Lab, sessions: usize) -> Result<Scale, Failure> {
    let program = Program::new(&lab.near().namespace, std::env::current_exe()?);
    let output = program.args(["--scale", &sessions.to_string()]).output(PATIENCE)?;
    if !output.status.success() {
        let why = output.stderr.trim();
        let killed = "it was killed, for want of memory perhaps";
        return Err(if why.is_empty() { killed } else { why }.to_owned().into());
    }
    Scale::read(output.stdout.trim()).ok_or_else(|| "it printed something else".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn memory_is_judged_at_the_larger_size_alone() {
        let took = |open: f64, end: f64| Measured {
            values: vec![Scale { open, end, segment: 180.0, ..Scale::default() }],
            failures: Vec::new(),
        };
        let chapter = chapter(&[took(9e9, 9e9), took(5e9, 6e9)], 1);
        let outcomes: Vec<&Outcome> = chapter.verdicts.iter().map(|one| &one.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Met, &Outcome::Met, &Outcome::Missed]);
    }
}
