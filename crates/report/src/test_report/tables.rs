//! The tables of a test, one for each thing that was measured, as text, page and Markdown have them.

use super::{
    BackToBack, Baseline, Latency, Recovery, Reset, SearchOutcome, Searches, SizeReport,
    TestReport, Throughput,
};
use crate::human;
use crate::model::Stats;
use crate::text::table::Cell;

/// A table in words.
pub(super) struct ResultTable {
    /// What it holds.
    pub title: &'static str,
    /// What stands above its columns; the first has the frame size.
    pub heads: &'static [&'static str],
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// What is to be known of single rows.
    pub notes: Vec<String>,
}

/// Those of a test that have rows.
pub(super) fn tables(test: &TestReport) -> Vec<ResultTable> {
    let all = [
        throughput(test),
        latency(test),
        loss_rate(test),
        back_to_back(test),
        recovery(test),
        reset(test),
    ];
    all.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// A rate of a port, with the words for a bound.
fn rate(of: &Throughput) -> String {
    let rate = of.lower.map_or_else(|| "-".to_owned(), human::fine_frame_rate);
    match of.outcome {
        SearchOutcome::Found => rate,
        _ if of.lower.is_none() && of.outcome == SearchOutcome::AtLeastByTester => rate,
        SearchOutcome::AtLeast | SearchOutcome::AtLeastByTester => format!("at least {rate}"),
        SearchOutcome::NothingBorne => "0".to_owned(),
        SearchOutcome::NoConvergence | SearchOutcome::ByChance => format!("{rate} ?"),
        SearchOutcome::Unfinished if of.lower.is_some() => format!("{rate} so far"),
        SearchOutcome::Unfinished => "-".to_owned(),
    }
}

/// What a reader has to know of an outcome; empty where it is found.
fn remark(of: &Throughput) -> &'static str {
    match of.outcome {
        SearchOutcome::Found => "",
        SearchOutcome::AtLeast => "the highest load",
        SearchOutcome::AtLeastByTester => "limited by the tester",
        SearchOutcome::NothingBorne => "no load is borne",
        SearchOutcome::NoConvergence => "no convergence",
        SearchOutcome::ByChance => "by chance",
        SearchOutcome::Unfinished => "unfinished",
    }
}

/// What a trial may lose, in words.
pub(super) fn tolerance(ratio: f64) -> String {
    if ratio == 0.0 { "none".to_owned() } else { human::percent(ratio) }
}

/// The bound of loss at the throughput.
fn certainty(of: &Throughput) -> String {
    of.loss_below.map_or_else(String::new, |below| {
        let below = human::percent(below);
        if below.starts_with('<') { below } else { format!("< {below}") }
    })
}

/// A value in words, or a dash where there is none.
fn shown<T>(value: Option<T>, show: impl Fn(T) -> String) -> Cell {
    value.map_or_else(|| "-".to_owned(), show).into()
}

fn time(ns: Option<f64>) -> Cell {
    shown(ns, human::time)
}

fn throughput(test: &TestReport) -> ResultTable {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for size in &test.sizes {
        if let Some(why) = &size.skipped {
            let mut row: Vec<Cell> = vec![size.size.clone().into()];
            row.extend((0..5).map(|_| Cell::from("-".to_owned())));
            row.push(Cell { text: "left out".to_owned(), bad: true });
            rows.push(row);
            notes.push(format!("left out: {}: {why}", size.size));
        }
        for of in &size.throughput {
            let bad = !matches!(of.outcome, SearchOutcome::Found | SearchOutcome::AtLeast);
            rows.push(vec![
                size.size.clone().into(),
                tolerance(of.loss_ratio).into(),
                Cell { text: rate(of), bad: of.outcome == SearchOutcome::NothingBorne },
                shown(of.line_bits_per_second, human::bit_rate),
                shown(of.of_max, human::percent),
                certainty(of).into(),
                Cell { text: remark(of).to_owned(), bad },
            ]);
            notes.extend(of.searches.as_ref().map(|searches| in_words(size, of, searches)));
        }
    }
    let heads = &["frame", "loss allowed", "throughput", "on the line", "of max", "loss, 95 %", ""];
    ResultTable { title: "throughput of each sending port", heads, rows, notes }
}

/// What several searches for a throughput came to.
fn in_words(size: &SizeReport, of: &Throughput, searches: &Searches) -> String {
    let name = match of.loss_ratio {
        0.0 => size.size.clone(),
        loss => format!("{}, {} loss", size.size, human::percent(loss)),
    };
    let each = searches.each.iter().map(|one| one.lower);
    let each: Vec<String> =
        each.map(|lower| lower.map_or_else(|| "-".to_owned(), human::fine_frame_rate)).collect();
    let mean = match (searches.mean, searches.within) {
        (Some(mean), Some(within)) => {
            let (mean, share) = (human::fine_frame_rate(mean), human::percent(within / mean));
            format!("mean {mean} ± {share} (95 %), ")
        }
        _ => String::new(),
    };
    let count = match searches.each.len() {
        1 => "1 search".to_owned(),
        more => format!("{more} searches"),
    };
    format!("{name}: {count}, {mean}each: {}", each.join(", "))
}

/// The columns of delays, those of all frames from `stats`.
fn delays(
    (name, load, tagged_mean): (String, f64, Option<f64>),
    stats: Option<&Stats>,
    trials: u64,
) -> Vec<Cell> {
    let real = |value: fn(&Stats) -> Option<i64>| time(stats.and_then(value).map(|ns| ns as f64));
    vec![
        name.into(),
        human::fine_frame_rate(load).into(),
        time(tagged_mean),
        time(stats.and_then(|stats| stats.mean)),
        real(|stats| stats.min),
        real(|stats| stats.percentiles.p50),
        real(|stats| stats.percentiles.p99),
        real(|stats| stats.max),
        human::count(trials).into(),
    ]
}

fn latency(test: &TestReport) -> ResultTable {
    let rows = |size: &SizeReport, of: &Latency| {
        let count = of.tagged_ns.len() as u64;
        let first =
            delays((size.size.clone(), of.load, of.tagged_mean_ns), of.delay_ns.last(), count);
        let tester = of.baseline.as_ref().map(
            |Baseline { load, tagged_mean_ns, tagged, delay_ns, .. }| {
                delays(
                    ("  tester alone".to_owned(), *load, *tagged_mean_ns),
                    delay_ns.as_ref(),
                    *tagged,
                )
            },
        );
        [first].into_iter().chain(tester).collect::<Vec<_>>()
    };
    let all = || test.sizes.iter().filter_map(|size| Some((size, size.latency.as_ref()?)));
    let baseline = all().find_map(|(_, of)| of.baseline.as_ref());
    let note = baseline.map(|of| {
        format!(
            "tester alone: back to back, without a device, measured at {}; it is subtracted from nothing",
            of.started
        )
    });
    let heads = &["frame", "load", "tagged", "mean", "min", "p50", "p99", "max", "trials"];
    ResultTable {
        title: "latency at the throughput",
        heads,
        rows: all().flat_map(|(size, of)| rows(size, of)).collect(),
        notes: note.into_iter().collect(),
    }
}

fn loss_rate(test: &TestReport) -> ResultTable {
    let rows = test.sizes.iter().flat_map(|size| {
        size.loss_rate.iter().map(|at| {
            vec![
                size.size.clone().into(),
                human::fine_frame_rate(at.load).into(),
                human::percent(at.of_max).into(),
                human::percent(at.loss_ratio).into(),
            ]
        })
    });
    let heads = &["frame", "load", "of max", "loss"];
    ResultTable { title: "frame loss rate", heads, rows: rows.collect(), notes: Vec::new() }
}

/// The words before a bound.
fn bound(of: &BackToBack) -> &'static str {
    if of.at_least { "at least " } else { "" }
}

/// How fast bursts left, of the highest load.
fn sent_at(size: &SizeReport, of: &BackToBack) -> Cell {
    let share = size.max_frames_per_second.map_or(1.0, |max| (of.burst_rate / max).min(1.0));
    Cell { text: human::percent(share), bad: share < 0.999 }
}

fn back_to_back(test: &TestReport) -> ResultTable {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for size in &test.sizes {
        let Some(of) = &size.back_to_back else { continue };
        let limited = if of.limited_by_tester > 0 { "limited by the tester" } else { "" };
        rows.push(vec![
            size.size.clone().into(),
            (bound(of).to_owned() + &shown(of.mean, human::number).text).into(),
            shown(of.min, human::count),
            shown(of.max, human::count),
            shown(of.standard_deviation, human::number),
            (bound(of).to_owned() + &time(of.implied_buffer_ns).text).into(),
            time(of.corrected_buffer_ns),
            sent_at(size, of),
            Cell { text: limited.to_owned(), bad: true },
        ]);
        if let Some(why) = &of.uncorrected {
            notes.push(format!("no corrected buffer with {}: {why}", size.size));
        }
    }
    let heads = &[
        "frame",
        "longest burst",
        "min",
        "max",
        "deviation",
        "buffer",
        "corrected",
        "sent at",
        "",
    ];
    ResultTable { title: "back-to-back frames", heads, rows, notes }
}

/// A time until which frames were lost, in words.
fn recovery_time(of: &Recovery) -> String {
    let mean = of.mean_ns.map_or_else(|| "-".to_owned(), human::time);
    match of.times.iter().all(|time| time.recovered) {
        _ if !of.overloaded => "not overloaded".to_owned(),
        true if of.mean_ns == Some(0.0) => "at once".to_owned(),
        true => mean,
        false => format!("not within {}", human::long_time(of.window_ns)),
    }
}

fn recovery(test: &TestReport) -> ResultTable {
    let row = |size: &SizeReport, of: &Recovery| {
        let most = || of.times.iter().map(|time| time.most_ns);
        vec![
            size.size.clone().into(),
            human::fine_frame_rate(of.overload).into(),
            human::fine_frame_rate(of.load).into(),
            recovery_time(of).into(),
            time(most().min().map(|ns| ns as f64)),
            time(most().max().map(|ns| ns as f64)),
            human::count(of.times.len() as u64).into(),
        ]
    };
    let rows = test.sizes.iter().filter_map(|size| Some(row(size, size.recovery.as_ref()?)));
    let heads = &["frame", "overload", "then", "recovery", "shortest", "longest", "trials"];
    ResultTable { title: "system recovery", heads, rows: rows.collect(), notes: Vec::new() }
}

/// The silence of a reset in words.
fn silence(of: &Reset) -> String {
    match (of.silence_ns, of.returned) {
        (Some(ns), true) => human::time(ns as f64),
        _ => format!("not back within {}", human::long_time(of.time_ns)),
    }
}

fn reset(test: &TestReport) -> ResultTable {
    let row = |size: &SizeReport, of: &Reset| {
        vec![
            size.size.clone().into(),
            human::fine_frame_rate(of.load).into(),
            Cell { text: silence(of), bad: !of.returned },
        ]
    };
    let rows = test.sizes.iter().filter_map(|size| Some(row(size, size.reset.as_ref()?)));
    let heads = &["frame", "load", "longest silence"];
    ResultTable { title: "reset", heads, rows: rows.collect(), notes: Vec::new() }
}
