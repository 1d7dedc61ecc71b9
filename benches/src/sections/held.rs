//! A million sessions at a time over the cable, on all cores: how long it takes to start, and whether looking at their statistics delays them.

use std::time::Instant;

use wirebeat_report::model::{Interval, SessionEnd};
use wirebeat_run::{Observer, Options, Progress, Silent, Stop, prepare};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::Nanos;

use crate::format;
use crate::frames::{FAR, NEAR};
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::whole;

/// How many are held, and how many are opened a second.
const SESSIONS: u64 = 1_000_000;
const RATE: u64 = 25_000;
/// How often statistics are looked at.
const LOOK: Nanos = Nanos::from_millis(500);
/// How long it may take until the run can begin, in seconds.
const READY: f64 = 5.0;
/// How many times the 99th percentile of the start lateness may be, where statistics are looked at, that of the same run without.
const MOST: f64 = 1.5;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Held {
    /// Seconds until it was ready.
    ready: f64,
    /// The most sessions that were open at a time.
    open: f64,
    /// Those that failed or did not start.
    failed: f64,
    /// The 99th percentile of the start lateness and the longest, in ns.
    p99: f64,
    max: f64,
    /// Intervals that were looked at.
    looks: f64,
}

/// Counts intervals.
#[derive(Debug, Default)]
struct Looks(u64);

impl Observer for Looks {
    fn progress(&mut self, _progress: &Progress) {}

    fn interval(&mut self, interval: &Interval) {
        self.0 += u64::from(!interval.sessions.is_empty());
    }
}

/// Measures it: a table, and verdicts.
pub fn measure(bench: &mut Bench) -> (Table, Vec<Verdict>) {
    let sessions = if bench.extent == Extent::Trial { SESSIONS / 100 } else { SESSIONS };
    let contestants: Vec<Contestant<'_, Held>> = [true, false]
        .into_iter()
        .map(|looks| {
            let with = if looks { "with" } else { "without" };
            let name = format!("{sessions} sessions over the cable, {with} statistics");
            Contestant::new(name, move |bench: &Bench| held(&bench.lab, sessions, looks))
        })
        .collect();
    let measured = in_turn(bench, &contestants, |held| {
        format!(
            "ready in {:.2} s, {} open, starts late by {} at p99",
            held.ready,
            format::rate(held.open),
            format::time(held.p99)
        )
    });
    drop(contestants);
    shown(&measured, sessions)
}

fn shown(measured: &[Measured<Held>], sessions: u64) -> (Table, Vec<Verdict>) {
    let heads = [
        "statistics",
        "looks",
        "ready in",
        "open",
        "failed",
        "p99 of lateness",
        "longest",
        "remark",
    ];
    let mut table = Table::new(&heads);
    for (of, what) in measured.iter().zip(["each 500 ms", "at the end"]) {
        let shown = |figure: fn(&Held) -> f64, show: fn(f64) -> String| {
            format::series(&of.series(figure), show)
        };
        table.row(vec![
            what.to_owned(),
            shown(|held| held.looks, format::number),
            shown(|held| held.ready, seconds),
            shown(|held| held.open, format::rate),
            shown(|held| held.failed, format::number),
            shown(|held| held.p99, format::time),
            shown(|held| held.max, format::time),
            of.remark(),
        ]);
    }
    let [with, without] = measured else { return (table, Vec::new()) };
    let open = with.series(|held| held.open - held.failed);
    let ready = with.series(|held| held.ready);
    let ratio = with.series(|held| held.p99).over(&without.series(|held| held.p99));
    let judge = |target: String, figure: Option<(String, bool)>| match figure {
        Some((figure, holds)) => Verdict::of(target, figure, holds),
        None => Verdict::unmeasured(target, [with, without].map(Measured::reason).join("; ")),
    };
    let verdicts = vec![
        judge(
            format!("over veth, sessions open at a time, none failed ≥ {sessions}"),
            open.median().map(|of| (format::series(&open, format::rate), of >= sessions as f64)),
        ),
        judge(
            format!("over veth, a run with {sessions} sessions is ready in ≤ {READY} s"),
            ready.median().map(|of| (format::series(&ready, seconds), of <= READY)),
        ),
        judge(
            format!(
                "over veth, p99 of start lateness with statistics each 500 ms ≤ {MOST} × that without"
            ),
            ratio.map(|ratio| (format::ratio(&ratio), ratio.median <= MOST)),
        ),
    ];
    (table, verdicts)
}

fn seconds(of: f64) -> String {
    format!("{of:.2} s")
}

fn held(lab: &Lab, sessions: u64, looks: bool) -> Result<Held, Failure> {
    let text = format!(
        "ports:\n  a: {{ namespace: {NEAR}, interface: {}, engine: {engine}, cores: [ {} ] }}\n  \
         b: {{ namespace: {FAR}, interface: {}, engine: {engine}, cores: [ {} ] }}\n\
         sessions:\n  held: {{ from: a, to: b, stack: own, clients: {{ addresses: 10.1.0.0/20 }}, servers: {{ addresses: 10.2.0.1, ports: 80 }}, \
         program: {{ request-response: {{ requests: 2, think: 10m }} }}, rate: {RATE}/s, count: {sessions}, limit: {{ open: {sessions} }} }}\n\
         run: {{ time: {}ms, wait: spin, settle: 100ms }}\n",
        lab.near().link.name,
        lab.cores.send,
        lab.far().link.name,
        lab.cores.other,
        sessions * 1000 / RATE + 2000,
        engine = "packet",
    );
    let scenario = Scenario::from_yaml(&text, "held").map_err(|why| format!("{why}\n{text}"))?;
    let mut options = Options { interval: looks.then_some(LOOK), ..Options::default() };
    for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
        options.namespaces.insert(name.to_owned(), end.namespace.clone());
    }
    let begin = Instant::now();
    let prepared = prepare(&scenario, options)?;
    let ready = begin.elapsed().as_secs_f64();
    let mut seen = Looks::default();
    let report = match looks {
        true => prepared.start(&mut seen, &Stop::new()),
        false => prepared.start(&mut Silent, &Stop::new()),
    };
    let report = whole(report)?;
    let client = report.sessions.iter().find(|group| group.end == SessionEnd::Client);
    let client = client.ok_or("the report has no clients")?;
    let there: u64 = client.ends.failed_there().iter().map(|(_, count)| count).sum();
    let late = &client.start_lateness_ns;
    let of = |ns: Option<i64>| ns.map(|ns| ns as f64).ok_or("no session was started");
    Ok(Held {
        ready,
        open: client.most_open as f64,
        failed: (there + client.ends.failed_here + client.starts.expired.unwrap_or(0)) as f64,
        p99: of(late.percentiles.p99)?,
        max: of(late.max)?,
        looks: seen.0 as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn looks_and_failures_are_judged() {
        let went = |open, failed, p99| Measured {
            values: vec![Held { ready: 1.0, open, failed, p99, ..Held::default() }],
            failures: Vec::new(),
        };
        let outcomes = |measured: &[Measured<Held>]| -> Vec<Outcome> {
            shown(measured, 1000).1.into_iter().map(|one| one.outcome).collect()
        };
        let good = [went(1000.0, 0.0, 120.0), went(1000.0, 0.0, 100.0)];
        assert_eq!(outcomes(&good), [Outcome::Met, Outcome::Met, Outcome::Met]);
        let bad = [went(1000.0, 1.0, 200.0), went(1000.0, 0.0, 100.0)];
        assert_eq!(outcomes(&bad), [Outcome::Missed, Outcome::Met, Outcome::Missed]);
    }
}
