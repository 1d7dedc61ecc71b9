//! Tests of devices by RFC 2544 against devices whose limits are known.

use std::collections::BTreeMap;
use std::time::Duration;

use wirebeat_device::{Device, Limits, TokenBucket};
use wirebeat_methods::MaxLoad;
use wirebeat_methods::rfc2544::{Rfc2544, Watch};
use wirebeat_report::test_report::{SearchOutcome, SizeReport};
use wirebeat_run::{Options, Silent, Stop};
use wirebeat_testbed::Options as Cable;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::{FrameRate, Nanos, Rate};

use super::Chapter;
use crate::format;
use crate::lab::Failure;
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::stats::Series;
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
The device between two interfaces is a program of ours (XDP), which polices by a token bucket, drops each so many-th frame, or drops at random. \
`test rfc2544` (engine kernel, frames of 64 bytes, zero loss tolerated) looks for its throughput. A line of N frames a second with a bucket of D frames bears \
N + D/T in trials of T; here T is 200·D/N, 2 s, and the search goes down to 0.5 %. A loss of one in a million is looked for in the first trial of a search, \
of 2 million frames where each millionth is dropped and of 3 million where one in a million is dropped at random: by chance 95 % of such trials lose one.";

/// Frames a second of the lines.
const LINES: [u64; 4] = [300, 3_000, 30_000, 300_000];
/// How long their trials take.
const TRIAL: Nanos = Nanos::from_secs(2);
/// How far from the truth a throughput may be.
const WITHIN: f64 = 0.01;
/// Bits that a frame of 64 bytes takes on the line.
const BITS: u64 = (64 + 20) * 8;
/// Frames a second of trials that look for rare losses.
const RATE: u64 = 500_000;
/// One in so many is lost.
const ONE_IN: u64 = 1_000_000;
/// Trials at random in each round.
const TRIES: u32 = 3;
/// The share of such trials that find one, by chance, and the least that many tries have to come to.
const CHANCE: f64 = 0.95;

/// The share of trials that find a loss of one in so many.
type Find = fn(u64) -> Result<f64, Failure>;

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    // a trial of the benchmark looks at a thousandth
    let part = if bench.extent == Extent::Trial { 1_000 } else { 1 };
    let lines: Vec<Contestant<'_, f64>> = LINES
        .into_iter()
        .map(|rate| {
            Contestant::new(format!("a line of {}", format::rate(rate as f64)), move |_: &Bench| {
                throughput(rate, if part > 1 { Nanos::from_millis(200) } else { TRIAL })
            })
        })
        .collect();
    let found = in_turn(bench, &lines, |found| format::rate(*found));
    drop(lines);
    let kinds: [(&str, Find); 2] =
        [("each millionth frame lost", each), ("one in a million lost at random", at_random)];
    let losses: Vec<Contestant<'_, f64>> = kinds
        .into_iter()
        .map(|(name, find)| Contestant::new(name, move |_: &Bench| find(ONE_IN / part)))
        .collect();
    let lost = in_turn(bench, &losses, |share| format!("found by {:.0} %", share * 100.0));
    let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
    chapter(&found, &names, &lost)
}

fn chapter(found: &[Measured<f64>], kinds: &[&str], lost: &[Measured<f64>]) -> Chapter {
    let mut lines = Table::new(&["N, frames/s", "N + D/T", "found", "off by", "remark"]);
    let mut verdicts = Vec::new();
    for (rate, of) in LINES.iter().zip(found) {
        let borne = borne(*rate);
        let found = of.series(|found| *found);
        let off = Series::new(of.values.iter().map(|found| found / borne - 1.0).collect());
        lines.row(vec![
            rate.to_string(),
            format::number(borne),
            format::series(&found, format::number),
            format::series(&off, format::percent),
            of.remark(),
        ]);
        let target = format!("throughput of a line of {rate} frames/s: within 1 % of N + D/T");
        let worst = of.values.iter().map(|found| (found / borne - 1.0).abs()).reduce(f64::max);
        verdicts.push(match worst {
            Some(worst) => Verdict::of(
                target,
                format!("at worst {} off", format::percent(worst)),
                worst <= WITHIN && of.failures.is_empty(),
            ),
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    let mut losses = Table::new(&["device", "trials that found it", "remark"]);
    for (place, (name, of)) in kinds.iter().zip(lost).enumerate() {
        let found: f64 = of.values.iter().sum();
        let share = (!of.values.is_empty()).then(|| found / of.values.len() as f64);
        let tries = if place == 0 { 1 } else { TRIES } as usize * of.values.len();
        let shown = share.map(|share| format!("{:.0} of {tries}", share * tries as f64));
        losses.row(vec![
            (*name).to_owned(),
            shown.clone().unwrap_or_else(|| format::NOTHING.to_owned()),
            of.remark(),
        ]);
        let least = if place == 0 { 1.0 } else { least_found(tries) };
        let target = match place {
            0 => format!("{name}: found by every trial of 2 million"),
            _ => format!(
                "{name}: found by {:.0} % of trials of 3 million, as far as so few tries tell",
                CHANCE * 100.0
            ),
        };
        verdicts.push(match share.zip(shown) {
            Some((share, shown)) => Verdict::of(target, shown, share >= least - 1e-9),
            None => Verdict::unmeasured(target, of.reason()),
        });
    }
    Chapter {
        title: "Devices whose limits are known",
        prose: PROSE,
        tables: vec![
            ("Medians of the rounds, and their range:".to_owned(), lines),
            ("Rare losses:".to_owned(), losses),
        ],
        picture: None,
        verdicts,
    }
}

/// The least share of so many trials that may find a loss which 95 % of them find by chance: fewer come in one of a thousand benchmarks.
fn least_found(tries: usize) -> f64 {
    // the share that misses, of which there are k by the binomial distribution
    let (miss, mut chance) = (1.0 - CHANCE, CHANCE.powi(tries as i32));
    let (mut sum, mut misses) = (chance, 0_usize);
    while sum < 0.999 && misses < tries {
        chance *= (tries - misses) as f64 / (misses + 1) as f64 * miss / CHANCE;
        sum += chance;
        misses += 1;
    }
    1.0 - misses as f64 / tries.max(1) as f64
}

/// What a line bears, in frames a second.
fn borne(rate: u64) -> f64 {
    rate as f64 + depth(rate) as f64 / (TRIAL.get() as f64 / 1e9)
}

/// Frames of its bucket: a two hundredth of a trial.
fn depth(rate: u64) -> u64 {
    rate / 100
}

fn test(device: &Device, (trial, max, width): (Nanos, u64, f64)) -> Result<SizeReport, Failure> {
    let text = "ports: { a: { interface: wb0, namespace: a, engine: kernel }, b: { interface: wb1, namespace: b, engine: kernel } }\n\
                flows: { x: { from: a, to: b, packet: [ { ipv4: { destination: 10.77.0.2 } }, { udp: {} } ] } }\n\
                run: { settle: 100ms }\n";
    let per_second = FrameRate { frames: max, per: Nanos::from_secs(1) };
    let max = MaxLoad::Rate(Rate::Frames(per_second));
    let size = ("64B".to_owned(), "64B".parse()?);
    let scenario = Scenario::from_yaml(text, "limits")?;
    let method = Rfc2544::throughput(scenario, size, (trial, max, width));
    let namespaces = [("a", &device.bed.a.namespace), ("b", &device.bed.b.namespace)];
    let namespaces = namespaces.map(|(name, of)| (name.to_owned(), of.clone()));
    let options = Options { namespaces: BTreeMap::from(namespaces), ..Options::default() };
    let mut keep = |_: &_| {};
    let watch = Watch { observer: &mut Silent, stop: &Stop::new(), keep: &mut keep };
    let report = method.run(options, None, watch)?;
    report.sizes.into_iter().next().ok_or_else(|| "no size was tested".into())
}

/// The throughput that is found of a line, in frames a second.
fn throughput(rate: u64, trial: Nanos) -> Result<f64, Failure> {
    let bucket = TokenBucket {
        bits_per_second: rate * BITS,
        depth: depth(rate) * BITS / 8,
        penalty: Duration::ZERO,
    };
    let device =
        Device::new(&Cable::default(), Limits { bucket: Some(bucket), ..Limits::default() })?;
    // the tester is no limit of the fastest one
    let max = if rate >= 100_000 { rate * 2 } else { rate * 20 };
    let found = test(&device, (trial, max, 0.005))?;
    let found = found.throughput.into_iter().next().ok_or("no throughput was looked for")?;
    match (found.outcome, found.lower) {
        (SearchOutcome::Found, Some(lower)) => Ok(lower),
        (outcome, _) => Err(format!("the search ended with {outcome:?}").into()),
    }
}

/// Whether trials of twice as many frames find that each so many-th is dropped.
fn each(one_in: u64) -> Result<f64, Failure> {
    share_found(Limits { every: Some(one_in), ..Limits::default() }, 2 * one_in, 1)
}

/// The share of trials of three times as many frames that find that one in so many is dropped at random.
fn at_random(one_in: u64) -> Result<f64, Failure> {
    share_found(Limits { loss: 1.0 / one_in as f64, ..Limits::default() }, 3 * one_in, TRIES)
}

/// The share of first trials that lose something and show that the highest load is not borne.
fn share_found(limits: Limits, frames: u64, tries: u32) -> Result<f64, Failure> {
    let trial = Nanos::new(frames * 1_000_000_000 / RATE);
    let mut found = 0;
    for _ in 0..tries {
        let device = Device::new(&Cable::default(), limits)?;
        // half as much is as close as it has to come
        let size = test(&device, (trial, RATE, 0.5))?;
        let first = size.trials.first().ok_or("there was no trial")?;
        if first.sent < frames * 99 / 100 {
            return Err(format!("the first trial sent {} of {frames} frames", first.sent).into());
        }
        let outcome = size.throughput.first().map(|found| found.outcome);
        found += u32::from(first.lost > 0 && outcome != Some(SearchOutcome::AtLeast));
    }
    Ok(f64::from(found) / f64::from(tries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_tries_may_miss_by_chance() {
        // of 21 tries five miss at most in 999 of 1000 benchmarks, and of 3 two
        assert!((least_found(21) - 16.0 / 21.0).abs() < 1e-9, "{}", least_found(21));
        assert!((least_found(3) - 1.0 / 3.0).abs() < 1e-9, "{}", least_found(3));
    }

    #[test]
    fn a_line_bears_a_little_more_than_its_rate() {
        assert_eq!(borne(300_000), 301_500.0);
        assert_eq!(borne(300), 301.5);
    }
}
