//! Very many sessions of our own TCP in memory, both ends of each: how much memory they take, and how fast they are opened, used and closed.

use std::time::Duration;

use wirebeat_report::pictures::Picture;
use wirebeat_report::pictures::scale::Unit;
use wirebeat_report::pictures::series::{Height, Line, over_time};
use wirebeat_report::pictures::thin::Span;
use wirebeat_testbed::Program;
use wirebeat_units::human;

use super::{Chapter, held};
use crate::bare_walk::bare_walk;
use crate::format::{self, NOTHING};
use crate::in_memory::{PARTS, Scale, Turnover};
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
Both ends of as many sessions as the table says, in one thread of one core and in memory, as in the chapter before: all are opened by \
handshake, each has one exchange of 100 bytes each way in an order that no cache foresees (the bare walk of the chapter before is beside it), all are closed by FIN both ways, and when \
they have left TIME-WAIT (60 s on the virtual clock) as many are opened again. Timers and meters are on. The memory is what the peak \
of resident memory and huge pages of the process grew by: the TCP, its tables, the meter and the handles of its program. What a \
scenario's program keeps for each session comes on top, and is in the third table; no BPF map is in it. For comparison, not measured here: WARP17's manual has \
18 GB for 10 million sessions. In the second table sessions open and close by FIN both ways, as many in each second of the virtual \
clock as the target has, for two minutes; the end that closes first remembers each for 60 s in TIME-WAIT, and no two have the same \
addresses and ports. The rates are by the time that the processor took: one that is above what was asked could be held. \
The third table is of `wirebeat run` with a scenario over the engine `loopback`: each session has asked once and waits for a minute; the memory is what the \
peak of the process grew by over a run with 20,000. Clients close first at its end; what they remember in TIME-WAIT is in it where there is one. The last table is of a million sessions over the cable, 25,000 opened a second, of which each \
asks once and is held: how long it took until the run was ready, and how late sessions started while the statistics of all were looked at, and \
without.";

/// How many sessions; the last of them in full extent alone, since few machines have the memory.
const SESSIONS: [usize; 3] = [1_000_000, 10_000_000, 40_000_000];
/// What all of so many may take, in bytes.
const MEMORY: [(usize, f64); 2] = [(10_000_000, 5.5e9), (40_000_000, 22e9)];
/// What a segment may take among so many, in ns.
const SEGMENT: (usize, f64) = (10_000_000, 250.0);
/// Sessions opened and closed a second, and for how many seconds.
const TURNOVER: (u64, u64) = (500_000, 120);
/// How much more it may be at the end than while all are open: TIME-WAIT of all is between.
const GROWTH: f64 = 1.15;
/// Whole runs: how many sessions, seconds of TIME-WAIT, and what an end may take, in bytes.
const WHOLE: [(usize, u64, f64); 2] = [(1_000_000, 0, 256.0), (10_000_000, 60, 275.0)];
const PATIENCE: Duration = Duration::from_secs(1200);

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    // a trial looks at a hundredth
    let part = if bench.extent == Extent::Trial { 100 } else { 1 };
    let sizes = if bench.extent == Extent::Full { &SESSIONS[..] } else { &SESSIONS[..2] };
    let contestants: Vec<Contestant<'_, Scale>> = sizes
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
    let each_second = TURNOVER.0 / part as u64;
    let name = format!("{each_second} sessions opened and closed a second");
    let turnover = [Contestant::new(name, move |bench: &Bench| {
        let arguments = ["--turnover", &each_second.to_string(), &TURNOVER.1.to_string()];
        by_itself(&bench.lab, &arguments, Turnover::read)
    })];
    let turnover = in_turn(bench, &turnover, |took| {
        format!("{}/s, {:.2} GB", format::rate(took.slowest), took.memory / 1e9)
    });
    let turnover = turnover.into_iter().next().unwrap_or_default();
    let whole: Vec<Contestant<'_, f64>> = WHOLE
        .iter()
        .map(|(sessions, time_wait, _)| {
            let (sessions, time_wait) = ((sessions / part).to_string(), time_wait.to_string());
            Contestant::new(format!("a run with {sessions} sessions"), move |bench: &Bench| {
                let arguments = ["--idle-run", &sessions, &time_wait];
                by_itself(&bench.lab, &arguments, |line| line.parse().ok())
            })
        })
        .collect();
    let whole = in_turn(bench, &whole, |bytes| format!("{bytes:.0} bytes an end"));
    let mut chapter = chapter(&measured, &turnover, part);
    whole_runs(&mut chapter, &whole, part);
    let (table, verdicts) = held::measure(bench);
    let title = "Over the cable, clients on one core and servers on the other:".to_owned();
    chapter.tables.push((title, table));
    chapter.verdicts.extend(verdicts);
    let most = measured.last().and_then(|of| of.values.last());
    chapter.picture = most.zip(sizes.last()).map(|(took, size)| growth(took, size / part));
    chapter
}

/// What an end takes in a whole run.
fn whole_runs(chapter: &mut Chapter, measured: &[Measured<f64>], part: usize) {
    let heads = ["sessions", "TIME-WAIT", "bytes of an end", "both ends of all", "remark"];
    let mut table = Table::new(&heads);
    for ((sessions, time_wait, most), of) in WHOLE.into_iter().zip(measured) {
        let sessions = sessions / part;
        let each = of.series(|bytes| *bytes);
        let all = of.values.iter().map(|bytes| bytes * 2.0 * sessions as f64);
        let all = Series::new(all.collect());
        table.row(vec![
            sessions.to_string(),
            format!("{time_wait} s"),
            format::series(&each, format::number),
            format::series(&all, gigabytes),
            of.remark(),
        ]);
        let target = format!(
            "a run with {sessions} sessions that wait, TIME-WAIT of {time_wait} s, an end of each ≤ {most} bytes"
        );
        chapter.verdicts.push(match each.median() {
            Some(median) => {
                Verdict::of(target, format::series(&each, format::number), median <= most)
            }
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    let title = "A whole run in memory, with its programs, alarms and meters:".to_owned();
    chapter.tables.push((title, table));
}

fn chapter(measured: &[Measured<Scale>], turnover: &Measured<Turnover>, part: usize) -> Chapter {
    let heads = [
        "sessions",
        "opened/s",
        "a segment",
        "bare walk, an entry",
        "of the walk",
        "closed/s",
        "opened again/s",
        "memory",
        "an endpoint",
        "at the end",
        "remark",
    ];
    let mut table = Table::new(&heads);
    let mut verdicts = Vec::new();
    for (size, of) in SESSIONS.into_iter().zip(measured) {
        let sessions = size / part;
        let shown = |figure: fn(&Scale) -> f64, show: fn(f64) -> String| {
            format::series(&of.series(figure), show)
        };
        let segment = of.series(|took| took.segment);
        let of_walk = segment.over(&of.series(|took| took.walk));
        let endpoint: Vec<f64> =
            of.values.iter().map(|took| took.open / (2 * sessions) as f64).collect();
        table.row(vec![
            sessions.to_string(),
            shown(|took| took.opened, format::rate),
            format::series(&segment, format::time),
            shown(|took| took.walk, format::time),
            of_walk.map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            shown(|took| took.closed, format::rate),
            shown(|took| took.opened_again, format::rate),
            shown(|took| took.open, gigabytes),
            format!("{} B", format::series(&Series::new(endpoint), format::number)),
            shown(|took| took.end, gigabytes),
            of.remark(),
        ]);
        let Some((_, most)) = MEMORY.into_iter().find(|(judged, _)| *judged == size) else {
            continue;
        };
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
            format!("in memory, both ends of {sessions} sessions ≤ {}", gigabytes(most)),
            |took| took.open,
            gigabytes,
            most,
        );
        if size == SEGMENT.0 {
            judge(
                format!("in memory, a segment among {sessions} sessions ≤ {} ns", SEGMENT.1),
                |took| took.segment,
                format::time,
                SEGMENT.1,
            );
        }
        judge(
            format!(
                "in memory, {sessions} sessions closed and opened again: at most {GROWTH} × the memory"
            ),
            |took| took.end / took.open,
            |ratio| format!("{ratio:.2} ×"),
            GROWTH,
        );
    }
    let (each_second, seconds) = (TURNOVER.0 / part as u64, TURNOVER.1);
    let mut rates = Table::new(&[
        "asked /s",
        "held /s",
        "in the slowest second",
        "in TIME-WAIT",
        "memory",
        "remark",
    ]);
    let series = |figure: fn(&Turnover) -> f64| turnover.series(figure);
    rates.row(vec![
        format::rate(each_second as f64),
        format::series(&series(|took| took.mean), format::rate),
        format::series(&series(|took| took.slowest), format::rate),
        format::series(&series(|took| took.waiting), format::rate),
        format::series(&series(|took| took.memory), gigabytes),
        turnover.remark(),
    ]);
    let target = format!(
        "in memory, sessions opened and closed for {seconds} s with TIME-WAIT of 60 s, in the slowest second ≥ {}/s",
        format::rate(each_second as f64)
    );
    let slowest = series(|took| took.slowest);
    verdicts.push(match slowest.median() {
        Some(median) => {
            let shown = format::series(&slowest, format::rate);
            Verdict::of(target, shown, median >= each_second as f64)
        }
        None => Verdict::unmeasured(target, turnover.reason()),
    });
    Chapter {
        title: "Ten million sessions",
        prose: PROSE,
        tables: vec![
            ("Medians of the rounds, and their range:".to_owned(), table),
            (format!("Opened and closed for {seconds} s:"), rates),
        ],
        picture: None,
        verdicts,
    }
}

/// The memory over the time of a run, a line for each part.
fn growth(took: &Scale, sessions: usize) -> Picture {
    let of = |part: usize| {
        let looks = took.looks.iter().filter(move |look| look.0 == part);
        looks.map(|(_, at, bytes)| Span::point(*at, bytes / 1e9)).collect()
    };
    let lines = (0..).zip(PARTS);
    let lines: Vec<Line> =
        lines.map(|(part, name)| Line { name: name.to_owned(), spans: of(part) }).collect();
    let sessions = human::count(sessions as u64);
    let title = format!("Memory of {sessions} sessions with both ends, in GB");
    over_time("memory", &title, &lines, Unit::Count, Height::FromZero)
}

fn gigabytes(bytes: f64) -> String {
    match bytes.is_finite() {
        true => format!("{:.2} GB", bytes / 1e9),
        false => NOTHING.to_owned(),
    }
}

/// What a process of its own says of so many sessions.
fn one(lab: &Lab, sessions: usize) -> Result<Scale, Failure> {
    let took = by_itself(lab, &["--scale", &sessions.to_string()], Scale::read)?;
    Ok(Scale { walk: bare_walk(sessions)?, ..took })
}

/// What a process of its own prints.
fn by_itself<T>(lab: &Lab, arguments: &[&str], read: fn(&str) -> Option<T>) -> Result<T, Failure> {
    let program = Program::new(&lab.near().namespace, std::env::current_exe()?);
    let output = program.args(arguments).output(PATIENCE)?;
    if !output.status.success() {
        let why = output.stderr.trim();
        let killed = "it was killed, for want of memory perhaps";
        return Err(if why.is_empty() { killed } else { why }.to_owned().into());
    }
    read(output.stdout.trim()).ok_or_else(|| "it printed something else".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn memory_is_judged_at_the_sizes_that_have_a_target() {
        let took = |open: f64, end: f64| Measured {
            values: vec![Scale { open, end, segment: 180.0, ..Scale::default() }],
            failures: Vec::new(),
        };
        let turnover = |slowest| Measured {
            values: vec![Turnover { slowest, mean: 6e5, waiting: 3e7, memory: 2e9 }],
            failures: Vec::new(),
        };
        let outcomes = |sizes: &[Measured<Scale>], slowest| -> Vec<Outcome> {
            let chapter = chapter(sizes, &turnover(slowest), 1);
            chapter.verdicts.into_iter().map(|one| one.outcome).collect()
        };
        let sizes = [took(9e9, 9e9), took(5e9, 6e9), took(23e9, 23e9)];
        assert_eq!(
            outcomes(&sizes[..2], 5e5),
            [Outcome::Met, Outcome::Met, Outcome::Missed, Outcome::Met]
        );
        assert_eq!(outcomes(&sizes, 4e5)[3..], [Outcome::Missed, Outcome::Met, Outcome::Missed]);
    }
}
