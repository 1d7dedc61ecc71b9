//! The traffic model at speed: fields that change, sizes and times that are drawn, many flows and sub-flows.

use std::fmt::Write;
use std::time::{Duration, Instant};

use wirebeat_engine_linux::kernel::FarEnd;
use wirebeat_report::model::{End, Report, Verdict as Outcome};
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_traffic::compile::{Files, Link, Links, compile};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::BitRate;

use super::Chapter;
use super::flat::{bare_limit, copied_limit, timed_limit};
use super::profiles::distance;
use crate::format::{self, NOTHING};
use crate::frames::{FAR, NEAR};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::Sink;
use crate::stats::{Ratio, Series};
use crate::table::Table;
use crate::verdict::Verdict;

const PROSE: &str = "\
The kernel engine at one end and its meter at the other, as in the first chapter. A flow whose frames or \
times repeat within 4,096 frames is written to the ring once; any other is streamed into it by a feeder on \
the second core, which builds each frame from its number. The limit is that of the first chapter, measured \
again beside these; so is a loop that copies frames of the mix's lengths, one after the other out of the same memory, and \
reads the clock at each arrival: the least that anybody does who sends such a mix and measures its delay. Times between frames are held against their distribution at the receiver: the mean, and the \
largest distance between the two distribution functions at the borders of the histogram's buckets, beside \
the bound of the Kolmogorov-Smirnov test at 1 %. The departures of ten thousand flows at once are measured \
by the sender, against their schedule; a single flow at the same rate, which the ring repeats by itself, says how late \
frames are here in any case.";

const LIMIT: &str = "bare loop";
const TIMED: &str = "bare loop, timed";
const COPIED: &str = "bare loop, timed, the mix's lengths copied";
const PLAIN: &str = "64 bytes, nothing changes";
const LISTED: &str = "two fields change, a list of sizes 64 to 512, repeated";
const SAME_LIST: &str = "nothing changes, the same list of sizes, repeated";
const MIXED: &str = "two fields change, a mix of sizes 64 to 512, streamed";
const ONE_SUB_FLOW: &str = "one sub-flow, streamed";
const MANY_SUB_FLOWS: &str = "a million sub-flows, streamed";
const POISSON: &str = "exponential gaps of 2 µs";
const MILLION: &str = "one flow, a million frames a second";
const TEN_THOUSAND: &str = "10,000 flows, a million frames a second";

/// Lengths of the mix in its shares, without FCS.
const MIX: [u16; 8] = [60, 60, 60, 60, 124, 124, 252, 508];
/// Flows of the last row.
const FLOWS: u32 = 10_000;
/// The mean of exponential gaps, in nanoseconds.
const GAP: f64 = 2000.0;

/// What came of a run.
#[derive(Clone, Copy, Debug)]
struct Reached {
    /// Frames per second that arrived, or left where nobody receives.
    rate: f64,
    /// Frames sent and not received.
    lost: u64,
    /// Of gaps: how far the mean is off, as a share; the distance from the distribution; and its bound.
    fit: Option<(f64, f64, f64)>,
    /// 99th percentile of the send lateness in nanoseconds.
    late: f64,
}

/// Measures everything.
pub fn measure(bench: &mut Bench) -> Chapter {
    let fields = "packet: [ { ipv4: { source: { increment: 10.9.0.1, count: 64 } } }, { udp: { source: \
                  { increment: 1024, count: 16 } } } ]";
    let many = |count: u32| {
        format!(
            "sub-flows: {{ count: {count}, length: 10 }}, size: 64B, packet: [ {{ ipv4: {{ source: {{ \
             increment: 10.0.0.1, per: sub-flow }} }} }}, {{ udp: {{}} }} ]"
        )
    };
    let list = "size: { list: [64B, 64B, 64B, 64B, 128B, 128B, 256B, 512B] }";
    let rows: Vec<(&str, String)> = vec![
        (PLAIN, "size: 64B".to_owned()),
        (SAME_LIST, list.to_owned()),
        (LISTED, format!("{fields}, {list}")),
        (MIXED, format!("{fields}, size: {{ mix: {{ 64B: 4, 128B: 2, 256B: 1, 512B: 1 }} }}")),
        (ONE_SUB_FLOW, many(1)),
        (MANY_SUB_FLOWS, many(1_000_000)),
        (POISSON, "size: 64B, rate: 500kpps, departures: exponential".to_owned()),
        (MILLION, "size: 64B, rate: 1Mpps".to_owned()),
    ];
    let mut contestants: Vec<Contestant<'static, Reached>> = vec![
        Contestant::new(LIMIT, |bench| limit(bare_limit(&bench.lab, bench.time)?)),
        Contestant::new(TIMED, |bench| limit(timed_limit(&bench.lab, bench.time)?)),
        Contestant::new(COPIED, |bench| {
            limit(copied_limit(&bench.lab, (&MIX, FarEnd::Times), bench.time)?)
        }),
    ];
    let mut names = vec![LIMIT, TIMED, COPIED];
    for (name, keys) in rows {
        names.push(name);
        contestants.push(Contestant::new(name, move |bench| one_flow(bench, &keys)));
    }
    names.push(TEN_THOUSAND);
    contestants.push(Contestant::new(TEN_THOUSAND, |bench| ten_thousand(&bench.lab, bench.time)));
    let brief = |reached: &Reached| {
        format!("{}, p99 late {}", format::rate(reached.rate), format::time(reached.late))
    };
    let all = in_turn(bench, &contestants, brief);
    let entries: Vec<(&str, Measured<Reached>)> = names.into_iter().zip(all).collect();
    let compiled = compile_time();
    Chapter {
        title: "The traffic model",
        prose: PROSE,
        tables: vec![("From one transmit core:".into(), table(&entries))],
        picture: None,
        verdicts: verdicts(&entries, compiled),
    }
}

fn limit(rate: f64) -> Result<Reached, Failure> {
    Ok(Reached { rate, lost: 0, fit: None, late: 0.0 })
}

/// Runs one flow with these keys, metered.
fn one_flow(bench: &Bench, keys: &str) -> Result<Reached, Failure> {
    let lab = &bench.lab;
    let far = lab.far();
    let text = format!(
        "ports:\n{}{}flows:\n  bench: {{ from: {NEAR}, to: {FAR}, {keys} }}\nrun: {{ time: {}ns, wait: \
         spin }}\n",
        port(lab, NEAR),
        format_args!(
            "  {FAR}: {{ interface: {}, namespace: {FAR}, engine: kernel, addresses: [{}] }}\n",
            far.interface(),
            far.ipv4
        ),
        bench.time.as_nanos(),
    );
    let report = run(lab, &text)?;
    let total = &report.total;
    let received = total.received.as_ref().ok_or("nothing arrived")?;
    let rate = received.rates.as_ref().ok_or("nothing arrived")?.frames_per_second;
    let gaps = &received.inter_arrival_ns;
    let distribution = |x: f64| 1.0 - (-x / GAP).exp();
    let fit = keys.contains("exponential").then(|| {
        let buckets = gaps.histogram.iter().map(|bucket| (bucket.1, bucket.2));
        let (worst, bound) = distance(buckets, gaps.count, distribution);
        (gaps.mean.unwrap_or(0.0) / GAP - 1.0, worst, bound)
    });
    Ok(Reached {
        rate,
        lost: total.loss.as_ref().map_or(0, |loss| loss.frames),
        fit,
        late: late(&report),
    })
}

/// The near end as a port of a scenario.
pub fn port(lab: &Lab, name: &str) -> String {
    let near = lab.near();
    format!(
        "  {name}: {{ interface: {}, namespace: {name}, engine: kernel, cores: [{}], addresses: [{}], \
         next-hop: '{}' }}\n",
        near.interface(),
        lab.cores.send,
        near.ipv4,
        lab.far().mac
    )
}

/// Ten thousand flows of different rates and distributions, which nobody receives.
fn ten_thousand(lab: &Lab, time: Duration) -> Result<Reached, Failure> {
    let _sink = Sink::Dropping.open(lab)?;
    let destination = lab.far().ipv4;
    let mut text = format!("ports:\n{}flows:\n", port(lab, NEAR));
    flows(
        &mut text,
        &format!("packet: [ {{ ipv4: {{ destination: {destination} }} }}, {{ udp: {{}} }} ]"),
    );
    let _ = writeln!(text, "run: {{ time: {}ns, wait: spin }}", time.as_nanos());
    let report = run(lab, &text)?;
    let sent = report.total.sent.as_ref().and_then(|sent| sent.rates).ok_or("nothing was sent")?;
    Ok(Reached { rate: sent.frames_per_second, lost: 0, fit: None, late: late(&report) })
}

/// Adds the flows: 50 to 150 frames a second, 100 on average, by seven distributions in turn.
fn flows(text: &mut String, packet: &str) {
    const DISTRIBUTIONS: [&str; 7] = [
        "constant",
        "exponential",
        "{ gamma: { shape: 2 } }",
        "{ weibull: { shape: 1.5 } }",
        "{ normal: { deviation: 20% } }",
        "{ pareto: { shape: 3 } }",
        "{ jitter: 30% }",
    ];
    for flow in 0..FLOWS {
        let (rate, distribution) =
            (50 + flow % 101, DISTRIBUTIONS[flow as usize % DISTRIBUTIONS.len()]);
        let _ = writeln!(
            text,
            "  f{flow}: {{ from: {NEAR}, rate: {rate}pps, departures: {distribution}, {packet} }}"
        );
    }
}

/// How long it takes to read and compile ten thousand flows.
fn compile_time() -> Result<Duration, Failure> {
    let mut text = format!("ports: {{ {NEAR}: {{}} }}\nflows:\n");
    flows(&mut text, "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ]");
    let link = Link { speed: Some(BitRate(100_000_000_000)), ..Link::imaginary(0) };
    let links = Links { ports: [(NEAR.to_owned(), link)].into() };
    let begun = Instant::now();
    let scenario = Scenario::from_yaml(&text, "ten thousand flows")?;
    compile(&scenario, &links, &Files::default())?;
    Ok(begun.elapsed())
}

fn late(report: &Report) -> f64 {
    let sent = report.total.sent.as_ref();
    sent.and_then(|sent| sent.send_lateness_ns.percentiles.p99).unwrap_or(0) as f64
}

fn run(lab: &Lab, text: &str) -> Result<Report, Failure> {
    let mut options = Options::default();
    for (name, end) in [(NEAR, lab.near()), (FAR, lab.far())] {
        options.namespaces.insert(name.to_owned(), end.namespace.clone());
    }
    let scenario = Scenario::from_yaml(text, "bench")?;
    let report = prepare(&scenario, options)?.start(&mut Silent, &Stop::new());
    match (&report.end, report.verdict) {
        (End::Failed { message }, _) => Err(message.clone().into()),
        (_, Outcome::CountersInconsistent) => Err("its counters are inconsistent".into()),
        _ => Ok(report),
    }
}

fn table(entries: &[(&str, Measured<Reached>)]) -> Table {
    let mut table = Table::new(&[
        "what",
        "frames/s",
        "of the limit",
        "of the timed one",
        "late, p99",
        "lost",
        "remark",
    ]);
    for (name, measured) in entries {
        let share =
            |of| ratio(entries, name, of).map_or(NOTHING.into(), |share| format::ratio(&share));
        let lost: u64 = measured.values.iter().map(|reached| reached.lost).sum();
        table.row(vec![
            (*name).to_owned(),
            format::series(&measured.series(|reached| reached.rate), format::rate),
            share(LIMIT),
            share(TIMED),
            format::series(&measured.series(|reached| reached.late), format::time),
            lost.to_string(),
            measured.remark(),
        ]);
    }
    table
}

fn series(entries: &[(&str, Measured<Reached>)], name: &str) -> Option<Series> {
    let (_, measured) = entries.iter().find(|(entry, _)| *entry == name)?;
    (!measured.values.is_empty()).then(|| measured.series(|reached| reached.rate))
}

fn ratio(entries: &[(&str, Measured<Reached>)], name: &str, of: &str) -> Option<Ratio> {
    series(entries, name)?.over(&series(entries, of)?)
}

fn verdicts(
    entries: &[(&str, Measured<Reached>)],
    compiled: Result<Duration, Failure>,
) -> Vec<Verdict> {
    let at_least = |name: &str, of: &str, bound: f64| {
        let target = format!("{name} ≥ {bound} of '{of}'");
        match ratio(entries, name, of) {
            Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= bound),
            None => Verdict::unmeasured(target, "it was not measured"),
        }
    };
    let measured = |name: &str| {
        let entry = entries.iter().find(|(entry, _)| *entry == name);
        entry.map(|(_, measured)| measured).filter(|measured| !measured.values.is_empty())
    };
    let mut verdicts = vec![
        at_least(MIXED, LIMIT, 0.5),
        at_least(LISTED, SAME_LIST, 0.95),
        at_least(MANY_SUB_FLOWS, ONE_SUB_FLOW, 0.95),
    ];
    let bounded =
        |name: &str, target: &str, figure: fn(&Reached) -> f64, show, bound: f64| match measured(
            name,
        )
        .and_then(|measured| measured.series(figure).median().zip(Some(measured)))
        {
            Some((median, measured)) => {
                let shown = format::series(&measured.series(figure), show);
                Verdict::of(target, shown, median <= bound)
            }
            None => Verdict::unmeasured(target, "it was not measured"),
        };
    verdicts.push(bounded(
        POISSON,
        "exponential gaps of 2 µs: the mean within 0.1 %",
        |reached| reached.fit.map_or(f64::MAX, |(mean, ..)| mean.abs()),
        format::share,
        0.001,
    ));
    verdicts.push(bounded(
        POISSON,
        "exponential gaps of 2 µs: distance from the distribution, as a multiple of the bound ≤ 1",
        |reached| reached.fit.map_or(f64::MAX, |(_, distance, bound)| distance / bound),
        format::number,
        1.0,
    ));
    verdicts.push(bounded(
        TEN_THOUSAND,
        "10,000 flows at a million frames a second: 99 % of departures within 5 µs",
        |reached| reached.late,
        format::time,
        5000.0,
    ));
    let target = "10,000 flows are read and compiled in less than a second";
    verdicts.push(match compiled {
        Ok(time) => {
            let shown = format::time(time.as_nanos() as f64);
            Verdict::of(target, shown, time < Duration::from_secs(1))
        }
        Err(why) => Verdict::unmeasured(target, why.to_string()),
    });
    verdicts
}
