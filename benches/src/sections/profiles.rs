//! The same distribution asked of several tools, as it arrives: a comparison that a thesis on traffic generators made
//! first, and whether what Wirebeat sends is of the distribution that was asked for.

use std::thread::sleep;
use std::time::Duration;

use wirebeat_engine_linux::kernel::Fate;
use wirebeat_import::{Dialect, Options as ScriptOptions, Source, convert};
use wirebeat_meter::histogram;
use wirebeat_meter::summary::Distribution;
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::Program;
use wirebeat_traffic::compile::{Files, Link, Links, compile};
use wirebeat_traffic::distribution::fit::{Fit, chi_square, ks_critical};
use wirebeat_traffic::program::Pace;
use wirebeat_traffic::scenario::{EngineChoice, Scenario};
use wirebeat_units::Nanos;

use super::Chapter;
use super::model::port;
use crate::exactness;
use crate::format::{self, NOTHING};
use crate::frames::NEAR;
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks;
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
One receiver measures all: the kernel engine's, before the stack. The first table: the same times between packets, \
asked of D-ITG by its options, of MGEN where it knows the distribution, and of Wirebeat, which reads D-ITG's options by itself. A \
packet every millisecond or so; the distribution's own quantiles stand first, the distance is the largest between the two \
distribution functions, and the bound that of the test of Kolmogorov and Smirnov at 1 % for as many gaps. The second: \
Wirebeat's kernel engine at 10,000 packets per second and, in full length, a million gaps of each distribution; cells of equal \
probability, a χ² test at 1 %. What takes a core away for longer than a cell is wide shows in it: see the noise above.";

/// The distributions of the first table: D-ITG's option, and MGEN's pattern where it has one. About 1,000 packets per second.
const ASKED: [(&str, &str, Option<&str>); 8] = [
    ("constant", "-C 1000", Some("PERIODIC [1000 28]")),
    ("uniform", "-U 500 2000", None),
    ("exponential", "-E 1000", Some("POISSON [1000 28]")),
    ("normal", "-N 1 0.2", None),
    ("Pareto", "-V 3 0.667", None),
    ("Cauchy", "-Y 1 0.05", None),
    ("gamma", "-G 2 0.5", None),
    ("Weibull", "-W 1.1 1.5", None),
];
/// Who sends them.
const SENDERS: [&str; 5] =
    ["Wirebeat kernel", "Wirebeat packet", "D-ITG", "D-ITG -poll", "MGEN precise"];
/// The distributions of the second table, with a mean of 100 µs: a machine that takes a core away for tens of microseconds some
/// hundred times a second, as virtual ones do, displaces a share of the gaps by less than a cell.
const DISTRIBUTIONS: [(&str, &str); 8] = [
    ("uniform", "departures: { uniform: { min: 50us, max: 150us } }"),
    ("exponential", "rate: 10kpps, departures: exponential"),
    ("normal", "rate: 10kpps, departures: { normal: { deviation: 25% } }"),
    ("Pareto", "rate: 10kpps, departures: { pareto: { shape: 3 } }"),
    ("Cauchy", "departures: { cauchy: { location: 100us, scale: 10us }, min: 1us, max: 500us }"),
    ("gamma", "rate: 10kpps, departures: { gamma: { shape: 2 } }"),
    ("Weibull", "rate: 10kpps, departures: { weibull: { shape: 1.5 } }"),
    ("log-normal", "rate: 10kpps, departures: { log-normal: { deviation: 50% } }"),
];
/// Cells of the χ² test.
const CELLS: u32 = 20;
/// Of the times that are shown.
const QUANTILES: [f64; 5] = [0.01, 0.1, 0.5, 0.9, 0.99];
/// The first table takes so many times as long for each row as other measurements, and the second.
const SHARE: (u32, u32) = (5, 100);
/// What a tool may need beside its time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Times between packets, against a distribution.
#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    mean: f64,
    quantiles: [f64; 5],
    /// The largest distance between the distribution functions, and its bound.
    distance: (f64, f64),
    chi: Fit,
}

/// The probability of a time up to so many nanoseconds.
type Cdf = Box<dyn Fn(f64) -> f64>;

impl Seen {
    fn of(gaps: &Distribution, distribution: &Cdf) -> Result<Seen, Failure> {
        let count = gaps.moments.count;
        if count < 100 {
            return Err(format!("only {count} gaps arrived").into());
        }
        let highest = |bucket: u16| histogram::highest(bucket.into()) as i64;
        let (mut observed, mut expected) = (Vec::new(), Vec::new());
        let (mut cell, mut from) = ((gaps.negative, 0.0), 1);
        for &(bucket, number) in &gaps.buckets {
            cell.0 += number;
            let up_to = distribution(end_of(highest(bucket)));
            if up_to >= f64::from(from) / f64::from(CELLS) {
                observed.push(cell.0);
                expected.push((up_to - cell.1) * count as f64);
                cell = (0, up_to);
                from = (up_to * f64::from(CELLS)) as u32 + 1;
            }
        }
        observed.push(cell.0);
        expected.push((1.0 - cell.1).max(0.0) * count as f64);
        let quantile = |q| gaps.quantile(q).map_or(f64::NAN, |ns| ns as f64);
        Ok(Seen {
            count,
            mean: gaps.moments.sum as f64 / count as f64,
            quantiles: QUANTILES.map(quantile),
            distance: distance(
                gaps.buckets.iter().map(|&(at, number)| (highest(at), number)),
                count,
                distribution,
            ),
            chi: chi_square(&observed, &expected),
        })
    }
}

/// The end of a bucket that holds times up to `highest`: they are whole nanoseconds.
fn end_of(highest: i64) -> f64 {
    highest as f64 + 0.5
}

/// The largest distance between a distribution and `count` times, at the ends of the buckets that they are in, in order; and
/// the bound of the Kolmogorov-Smirnov test at 1 %.
pub fn distance(
    buckets: impl Iterator<Item = (i64, u64)>,
    count: u64,
    distribution: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let (mut below, mut worst) = (0, 0.0_f64);
    for (highest, number) in buckets {
        below += number;
        worst = worst.max((below as f64 / count as f64 - distribution(end_of(highest))).abs());
    }
    (worst, ks_critical(count))
}

/// Measures both.
pub fn measure(bench: &mut Bench) -> Chapter {
    let compared = compared(bench);
    let fitted = fitted(bench);
    let passed = |measured: &Measured<Seen>| {
        !measured.values.is_empty() && measured.values.iter().all(|seen| seen.chi.passes())
    };
    let count = fitted.iter().filter(|(_, measured)| passed(measured)).count();
    let verdict = Verdict::of(
        "every distribution passes the χ² test at the receiver",
        format!("{count} of {}", fitted.len()),
        count == fitted.len(),
    );
    Chapter {
        title: "Distributions as they arrive",
        prose: PROSE,
        tables: vec![
            (
                "A packet every millisecond, by the same distribution from each:".into(),
                comparison(&compared),
            ),
            ("A packet every 100 µs from Wirebeat's kernel engine:".into(), fits(&fitted)),
        ],
        picture: None,
        verdicts: vec![verdict],
    }
}

type Row = (&'static str, &'static str, Result<Cdf, Failure>, Measured<Seen>);

fn compared(bench: &mut Bench) -> Vec<Row> {
    let mut contestants = Vec::new();
    let mut rows = Vec::new();
    for (name, ditg, mgen) in ASKED {
        for sender in SENDERS {
            if sender.starts_with("MGEN") && mgen.is_none() {
                continue;
            }
            rows.push((name, sender));
            contestants.push(Contestant::new(
                format!("{name} by {sender}"),
                move |bench: &Bench| {
                    let (lab, time) = (&bench.lab, bench.time * SHARE.0 / 2);
                    let scenario = of_ditg(lab, ditg)?;
                    let distribution = distribution_of(&scenario)?;
                    let gaps = match sender {
                        "Wirebeat kernel" => {
                            of_wirebeat(lab, &scenario, time, EngineChoice::Kernel)?
                        }
                        "Wirebeat packet" => {
                            of_wirebeat(lab, &scenario, time, EngineChoice::Packet)?
                        }
                        "D-ITG" => of_itgsend(lab, ditg, time)?,
                        "D-ITG -poll" => of_itgsend(lab, &format!("{ditg} -poll"), time)?,
                        _ => of_mgen(lab, mgen.unwrap_or_default(), time)?,
                    };
                    Seen::of(&gaps, &distribution)
                },
            ));
        }
    }
    let measured = in_turn(bench, &contestants, brief);
    let distribution = |name: &str| {
        let asked =
            ASKED.iter().find(|(asked, ..)| *asked == name).ok_or("no such distribution")?;
        distribution_of(&of_ditg(&bench.lab, asked.1)?)
    };
    rows.into_iter()
        .zip(measured)
        .map(|((name, sender), seen)| (name, sender, distribution(name), seen))
        .collect()
}

fn brief(seen: &Seen) -> String {
    let (distance, bound) = seen.distance;
    format!("mean {}, distance {distance:.4} (bound {bound:.4})", format::time(seen.mean))
}

fn fitted(bench: &mut Bench) -> Vec<(&'static str, Measured<Seen>)> {
    let contestants: Vec<_> = DISTRIBUTIONS
        .iter()
        .map(|(name, keys)| {
            Contestant::new(format!("{name} at 10,000/s"), move |bench: &Bench| {
                let (lab, time) = (&bench.lab, bench.time * SHARE.1 / 2);
                let text = format!(
                    "ports:\n{}flows:\n  bench: {{ from: {NEAR}, packet: [ {{ ipv4: {{ destination: {} }} }}, {{ udp: \
                     {{}} }} ], size: 64B, {keys} }}\n",
                    port(lab, NEAR),
                    lab.far().ipv4
                );
                let scenario = Scenario::from_yaml(&text, "bench")?;
                let distribution = distribution_of(&scenario)?;
                Seen::of(&of_wirebeat(lab, &scenario, time, EngineChoice::Kernel)?, &distribution)
            })
        })
        .collect();
    let measured = in_turn(bench, &contestants, brief);
    DISTRIBUTIONS.iter().map(|(name, _)| *name).zip(measured).collect()
}

/// The scenario that D-ITG's options mean, to leave by the near end.
fn of_ditg(lab: &Lab, options: &str) -> Result<Scenario, Failure> {
    let line = format!("-a {} -T UDP -c 64 {options} -t 1000\n", lab.far().ipv4);
    let read = |file: &str| Err(format!("there is no file '{file}'"));
    let source =
        Source { name: "bench", text: &line, read: &read, sessions: &wirebeat_import::no_sessions };
    let made = convert(Dialect::Ditg, &source, &ScriptOptions::default())?;
    let mut text = format!("ports:\n{}flows: {{}}\n", port(lab, NEAR));
    text.push_str("run: { wait: spin }\n");
    let mut scenario = Scenario::from_yaml(&text, "bench")?;
    for (name, mut flow) in made.scenario.flows {
        flow.from = NEAR.to_owned();
        flow.stop = None;
        flow.probe = Default::default();
        scenario.flows.insert(name, flow);
    }
    Ok(scenario)
}

/// The distribution of the times between the packets of the only flow.
fn distribution_of(scenario: &Scenario) -> Result<Cdf, Failure> {
    let links = Links { ports: [(NEAR.to_owned(), Link::imaginary(0))].into() };
    let program = compile(scenario, &links, &Files::default())?;
    let stream = program.streams.first().ok_or("there is no flow")?;
    Ok(match &stream.departures.pace {
        Pace::Constant(rate) => {
            let gap = rate.deadline(1).get() as f64;
            Box::new(move |x| if x < gap { 0.0 } else { 1.0 })
        }
        Pace::Drawn(gaps) => {
            let sampler = gaps.sampler.clone();
            Box::new(move |x| sampler.cdf(x))
        }
        _ => return Err("these are no times of a distribution".into()),
    })
}

/// The gaps of what leaves the near end while `send` does; `probed` says whose they are.
fn gaps(
    lab: &Lab,
    probed: bool,
    send: impl FnOnce() -> Result<(), Failure>,
) -> Result<Distribution, Failure> {
    let fate = if probed { Fate::Drop } else { Fate::Pass };
    let receiver = exactness::receiver(lab, 1000, fate)?;
    send()?;
    // what is on its way arrives
    sleep(Duration::from_millis(50));
    let summary = receiver.summary();
    let flow = if probed { summary.flows.get(&0) } else { Some(&summary.unprobed) };
    Ok(flow.ok_or("nothing arrived")?.inter_arrival.clone())
}

fn of_wirebeat(
    lab: &Lab,
    scenario: &Scenario,
    time: Duration,
    engine: EngineChoice,
) -> Result<Distribution, Failure> {
    let mut scenario = scenario.clone();
    scenario.run.time = Some(Nanos::new(time.as_nanos() as u64));
    for port in scenario.ports.values_mut() {
        port.engine = engine;
    }
    let mut options = Options::default();
    options.namespaces.insert(NEAR.to_owned(), lab.near().namespace.clone());
    gaps(lab, true, || {
        prepare(&scenario, options)?.start(&mut Silent, &Stop::new());
        Ok(())
    })
}

fn of_itgsend(lab: &Lab, options: &str, time: Duration) -> Result<Distribution, Failure> {
    let near = |program: &str| Program::new(&lab.near().namespace, program);
    let receiver = Program::new(&lab.far().namespace, "ITGRecv").spawn()?;
    sleep(Duration::from_millis(500));
    let line = format!("-a {} -T UDP -c 64 {options} -t {}", lab.far().ipv4, time.as_millis());
    let core = lab.cores.send.to_string();
    let words = ["-c", &core, "ITGSend"].into_iter().chain(line.split(' '));
    let seen = gaps(lab, false, || {
        let output = near("taskset").args(words).output(time + PATIENCE)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("ITGSend ended with {}: {}", output.status, output.stderr).into()),
        }
    });
    receiver.interrupt();
    let _ = receiver.wait(PATIENCE);
    seen
}

fn of_mgen(lab: &Lab, pattern: &str, time: Duration) -> Result<Distribution, Failure> {
    // nobody must answer that the port is closed
    let _socket = sinks::unread(lab)?;
    let event = format!("ON 1 UDP DST {}/{} {pattern}", lab.far().ipv4, sinks::PORT);
    let core = lab.cores.send.to_string();
    let words = ["-c", &core, "mgen", "nolog", "precise", "on", "event", &event];
    gaps(lab, false, || {
        let running = Program::new(&lab.near().namespace, "taskset").args(words).spawn()?;
        sleep(time);
        running.kill();
        let _ = running.wait(PATIENCE);
        Ok(())
    })
}

fn comparison(rows: &[Row]) -> Table {
    let mut head = vec!["distribution", "from", "gaps", "mean"];
    head.extend(["p1", "p10", "p50", "p90", "p99", "distance", "bound", "remark"]);
    let mut table = Table::new(&head);
    let mut last = "";
    for (name, sender, distribution, measured) in rows {
        if *name != last {
            last = name;
            let quantiles = distribution
                .as_ref()
                .map_or([f64::NAN; 5], |distribution| QUANTILES.map(|q| inverse(distribution, q)));
            let mut cells =
                vec![(*name).to_owned(), "as asked".to_owned(), NOTHING.into(), NOTHING.into()];
            cells.extend(quantiles.map(format::time));
            cells.extend([NOTHING.into(), NOTHING.into(), String::new()]);
            table.row(cells);
        }
        let median = |figure: fn(&Seen) -> f64, show: fn(f64) -> String| {
            measured.series(figure).median().map_or(NOTHING.into(), show)
        };
        let mut cells = vec![(*name).to_owned(), (*sender).to_owned()];
        cells.push(median(|seen| seen.count as f64, |count| format!("{count:.0}")));
        cells.push(median(|seen| seen.mean, format::time));
        cells.push(median(|seen| seen.quantiles[0], format::time));
        cells.push(median(|seen| seen.quantiles[1], format::time));
        cells.push(median(|seen| seen.quantiles[2], format::time));
        cells.push(median(|seen| seen.quantiles[3], format::time));
        cells.push(median(|seen| seen.quantiles[4], format::time));
        // of a constant rate every gap is beside the only one that the distribution knows
        let drawn = *name != "constant";
        let distance = |figure: fn(&Seen) -> f64| match drawn {
            true => median(figure, |x| format!("{x:.4}")),
            false => NOTHING.into(),
        };
        cells.push(distance(|seen| seen.distance.0));
        cells.push(distance(|seen| seen.distance.1));
        cells.push(measured.remark());
        table.row(cells);
    }
    table
}

/// The time that a share `q` of a distribution's does not exceed.
fn inverse(distribution: &Cdf, q: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1e12_f64);
    while high - low > 0.5 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < q { low = middle } else { high = middle }
    }
    high
}

fn fits(rows: &[(&str, Measured<Seen>)]) -> Table {
    let head = ["distribution", "gaps", "mean", "χ²", "critical", "distance", "bound", "remark"];
    let mut table = Table::new(&head);
    for (name, measured) in rows {
        let median = |figure: fn(&Seen) -> f64, show: fn(f64) -> String| {
            measured.series(figure).median().map_or(NOTHING.into(), show)
        };
        table.row(vec![
            (*name).to_owned(),
            median(|seen| seen.count as f64, |count| format!("{count:.0}")),
            median(|seen| seen.mean, format::time),
            median(|seen| seen.chi.statistic, |x| format!("{x:.1}")),
            median(|seen| seen.chi.critical, |x| format!("{x:.1}")),
            median(|seen| seen.distance.0, |x| format!("{x:.4}")),
            median(|seen| seen.distance.1, |x| format!("{x:.4}")),
            measured.remark(),
        ]);
    }
    table
}
