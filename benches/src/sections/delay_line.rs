//! One-way delay against a line that knows how long it holds each frame.

use std::collections::BTreeMap;
use std::time::Duration;

use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::{ImpairedCable, Impairment, Options as Cable};
use wirebeat_traffic::scenario::Scenario;

use super::Chapter;
use crate::format;
use crate::lab::Failure;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat::whole;

const PROSE: &str = "\
A thread reads each frame from one interface, holds it, and writes it to the other. It notes how long it had each frame. Wirebeat (packet engine) \
sends 1,000 frames of 64 bytes a second through it and measures their one-way delay. The medians of a line that holds frames and of one that holds \
none differ by what the line says, if the measurement is right: what the tester and the interfaces take is in both. One round measures all lines, \
one after the other.";

/// How long lines hold a frame. Steps of a histogram are 1/128 of a value: 1.6 µs at 200 µs.
const HELD: [Duration; 3] =
    [Duration::ZERO, Duration::from_micros(100), Duration::from_micros(200)];
/// The target for the difference.
const WITHIN: f64 = 5_000.0;

/// The medians of a run, in ns.
#[derive(Clone, Copy, Debug)]
struct Delays {
    measured: f64,
    logged: f64,
}

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let contestants: Vec<Contestant<'_, Delays>> = HELD
        .into_iter()
        .map(|held| {
            let name = format!("a line of {}", format::time(held.as_nanos() as f64));
            Contestant::new(name, move |bench: &Bench| one(held, bench.time))
        })
        .collect();
    let all = in_turn(bench, &contestants, |of| {
        format!("{}, of which the line {}", format::time(of.measured), format::time(of.logged))
    });
    let mut table = Table::new(&["line", "measured, median", "held, median", "off by", "remark"]);
    let mut verdicts = Vec::new();
    for (held, of) in HELD.iter().zip(&all) {
        let off = all.first().map(|none| off(none, of)).unwrap_or_default();
        let line = format::time(held.as_nanos() as f64);
        table.row(vec![
            line.clone(),
            format::series(&of.series(|of| of.measured), format::time),
            format::series(&of.series(|of| of.logged), format::time),
            if held.is_zero() { format::NOTHING.to_owned() } else { format::series(&off, signed) },
            of.remark(),
        ]);
        if held.is_zero() {
            continue;
        }
        let target = format!("one-way delay behind a line of {line}: within 5 µs of what it says");
        verdicts.push(match off.median() {
            Some(median) => Verdict::of(target, signed(median), median.abs() <= WITHIN),
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    Chapter {
        title: "One-way delay behind a line that knows its own",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts,
    }
}

/// What was measured less what was logged, each less that of a line that holds nothing, round by round.
fn off(none: &Measured<Delays>, of: &Measured<Delays>) -> Series {
    let rounds = none.values.iter().zip(&of.values);
    let off = rounds.map(|(none, of)| (of.measured - none.measured) - (of.logged - none.logged));
    Series::new(off.collect())
}

fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format::time(ns.abs()))
}

fn one(held: Duration, time: Duration) -> Result<Delays, Failure> {
    let there = Impairment { delay: held, ..Impairment::default() };
    let line = ImpairedCable::new(&Cable::default(), there, Impairment::default())?;
    let text = format!(
        "ports: {{ a: {{ interface: wb0, namespace: a, engine: packet }}, b: {{ interface: wb1, namespace: b, engine: packet }} }}\n\
         flows: {{ x: {{ from: a, to: b, rate: 1kpps, size: 64B, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: {{}} }} ] }} }}\n\
         run: {{ time: {}ms }}\n",
        line.bed.b.ipv4,
        time.as_millis(),
    );
    let scenario = Scenario::from_yaml(&text, "line")?;
    let namespaces = [("a", &line.bed.a.namespace), ("b", &line.bed.b.namespace)];
    let namespaces = namespaces.map(|(name, of)| (name.to_owned(), of.clone()));
    let options = Options { namespaces: BTreeMap::from(namespaces), ..Options::default() };
    let prepared = prepare(&scenario, options)?;
    // neighbours were asked for until now
    line.travelled();
    let report = whole(prepared.start(&mut Silent, &Stop::new()))?;
    let [travelled, _] = line.travelled();
    let logged = Series::new(travelled.iter().map(|time| time.as_nanos() as f64).collect());
    let delay = report.total.received.as_ref().and_then(|of| of.one_way_delay_ns.as_ref());
    let measured = delay.and_then(|of| of.percentiles.p50).ok_or("no delay was measured")?;
    let logged = logged.median().ok_or("the line carried nothing")?;
    Ok(Delays { measured: measured as f64, logged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_lines_have_cancels_out() {
        let of = |measured, logged| Measured {
            values: vec![Delays { measured, logged }],
            failures: Vec::new(),
        };
        let off = off(&of(30_000.0, 1_000.0), &of(131_500.0, 102_000.0));
        assert_eq!(off, Series::new(vec![500.0]));
        assert_eq!(signed(-1_500.0), "-1.50 µs");
    }
}
