//! A test for people: the results by frame size, then what they rest on.

use super::{
    BackToBack, Recovery, Reset, SearchOutcome, SizeReport, TestReport, Throughput, TrialReport,
};
use crate::format::Rendering;
use crate::human;
use crate::model::Verdict;
use crate::text::WIDTH;
use crate::text::environment;
use crate::text::style::{Style, clean, hang};
use crate::text::table::{Cell, Table};

/// Writes a test.
pub(super) fn test(test: &TestReport, rendering: Rendering) -> String {
    let style = Style::new(rendering.colour);
    let mut parts = vec![headline(test, style)];
    parts.push(throughput(test, style));
    parts.push(latency(test, style));
    parts.push(loss_rate(test, style));
    parts.push(back_to_back(test, style));
    parts.push(recovery(test, style));
    parts.push(reset(test, style));
    parts.push(notes("findings", &test.findings, style));
    parts.push(notes("not as the standard has it", &test.deviations, style));
    if rendering.details {
        test.sizes.iter().for_each(|size| parts.push(trials(size, style)));
        parts.push(run(test, style));
    } else {
        parts.push("every trial: --details, or --json FILE\n".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn headline(test: &TestReport, style: Style) -> String {
    let trials: usize = test.sizes.iter().map(|size| size.trials.len()).sum();
    let outcome = match (test.outcome(), test.verdict) {
        (None, _) => String::new(),
        (Some(word), Verdict::Done) => style.strong(word) + "  ",
        (Some(word), _) => style.bad(word) + "  ",
    };
    let verdict = match test.verdict {
        Verdict::Done => sentence(test),
        _ => style.bad(&sentence(test)),
    };
    let Parameters { search, max_load, .. } = &test.parameters;
    format!(
        "{outcome}{}  {}  {}  {}\n{verdict} {}. Trials of {}, {search} to {}, highest load {}.\n",
        style.strong(&clean(&test.test)),
        style.strong(&format!("wirebeat {}", clean(&test.wirebeat_version))),
        clean(&test.started),
        human::long_time(test.duration_ns),
        human::counted(trials as u64, "trial"),
        human::long_time(test.parameters.trial_ns),
        human::percent(test.parameters.width),
        clean(max_load),
    )
}

/// What came of it: PASS or FAIL where something was required, and a sentence.
pub(super) fn verdict(test: &TestReport) -> String {
    let outcome = test.outcome().map_or_else(String::new, |word| format!("{word}. "));
    outcome + &sentence(test)
}

fn sentence(test: &TestReport) -> String {
    let required = test.parameters.required.as_deref().map(clean);
    let short = test.sizes.iter().filter(|size| size.met() == Some(false)).count();
    let left_out = test.sizes.iter().filter(|size| size.skipped.is_some()).count() as u64;
    let left_out = match left_out {
        0 => String::new(),
        some => format!(" {} left out.", human::counted(some, "frame size")),
    };
    let verdict = match (test.verdict, required) {
        (Verdict::Done, None) => "Done.".to_owned(),
        (Verdict::Done, Some(required)) => {
            format!("Every throughput that was measured is at least {required}.")
        }
        (Verdict::Unmet, required) => format!(
            "{} of {} not known to reach the required {}.",
            human::count(short as u64),
            human::counted(test.sizes.len() as u64, "frame size"),
            required.unwrap_or_default()
        ),
        _ => format!(
            "Unfinished, {}: what is here is right as far as the test went.",
            clean(&human::end(&test.end))
        ),
    };
    verdict + &left_out
}

use super::Parameters;

/// A rate of a port, with the words for a bound.
pub(super) fn rate(of: &Throughput) -> String {
    let rate = of.lower.map_or_else(|| "-".to_owned(), human::fine_frame_rate);
    match of.outcome {
        SearchOutcome::Found => rate,
        _ if of.lower.is_none() && of.outcome == SearchOutcome::AtLeastByTester => rate,
        SearchOutcome::AtLeast | SearchOutcome::AtLeastByTester => format!("at least {rate}"),
        SearchOutcome::NothingBorne => "0".to_owned(),
        SearchOutcome::NoConvergence => format!("{rate} ?"),
        SearchOutcome::Unfinished if of.lower.is_some() => format!("{rate} so far"),
        SearchOutcome::Unfinished => "-".to_owned(),
    }
}

/// What a reader has to know of an outcome; empty where it is found.
pub(super) fn remark(of: &Throughput) -> &'static str {
    match of.outcome {
        SearchOutcome::Found => "",
        SearchOutcome::AtLeast => "the highest load",
        SearchOutcome::AtLeastByTester => "limited by the tester",
        SearchOutcome::NothingBorne => "no load is borne",
        SearchOutcome::NoConvergence => "no convergence",
        SearchOutcome::Unfinished => "unfinished",
    }
}

pub(super) fn tolerance(ratio: f64) -> String {
    if ratio == 0.0 { "none".to_owned() } else { human::percent(ratio) }
}

/// The bound of loss at the throughput.
pub(super) fn certainty(of: &Throughput) -> String {
    of.loss_below.map_or_else(String::new, |below| {
        let below = human::percent(below);
        if below.starts_with('<') { below } else { format!("< {below}") }
    })
}

fn throughput(test: &TestReport, style: Style) -> String {
    let heading =
        ["frame", "loss allowed", "throughput", "on the line", "of max", "loss, 95 %", ""];
    let mut table = Table::new(&heading);
    let mut left_out = Vec::new();
    let optional =
        |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), show);
    for size in &test.sizes {
        if let Some(why) = &size.skipped {
            let mut row: Vec<Cell> = vec![clean(&size.size).into()];
            row.extend((0..5).map(|_| Cell::from("-".to_owned())));
            row.push(Cell { text: "left out".to_owned(), bad: true });
            table.row(row);
            left_out.push(format!("{}: {}", size.size, why));
        }
        for of in &size.throughput {
            let bad = !matches!(of.outcome, SearchOutcome::Found | SearchOutcome::AtLeast);
            table.row(vec![
                clean(&size.size).into(),
                tolerance(of.loss_ratio).into(),
                Cell { text: rate(of), bad: of.outcome == SearchOutcome::NothingBorne },
                optional(of.line_bits_per_second, human::bit_rate).into(),
                optional(of.of_max, human::percent).into(),
                certainty(of).into(),
                Cell { text: remark(of).to_owned(), bad },
            ]);
        }
    }
    let notes = left_out.iter().map(|why| hang("  left out: ", &clean(why), WIDTH) + "\n");
    titled("throughput of each sending port", &table, style) + &notes.collect::<String>()
}

fn latency(test: &TestReport, style: Style) -> String {
    let mut table = Table::new(&["frame", "load", "tagged", "min", "p50", "p99", "max", "trials"]);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), human::time);
    for size in &test.sizes {
        let Some(latency) = &size.latency else { continue };
        let last = latency.delay_ns.last();
        let real = |value: Option<i64>| time(value.map(|ns| ns as f64));
        table.row(vec![
            clean(&size.size).into(),
            human::fine_frame_rate(latency.load).into(),
            time(latency.tagged_mean_ns).into(),
            real(last.and_then(|stats| stats.min)).into(),
            real(last.and_then(|stats| stats.percentiles.p50)).into(),
            real(last.and_then(|stats| stats.percentiles.p99)).into(),
            real(last.and_then(|stats| stats.max)).into(),
            human::count(latency.tagged_ns.len() as u64).into(),
        ]);
    }
    titled("latency at the throughput", &table, style)
}

fn loss_rate(test: &TestReport, style: Style) -> String {
    let mut table = Table::new(&["frame", "load", "of max", "loss"]);
    for size in &test.sizes {
        for at in &size.loss_rate {
            table.row(vec![
                clean(&size.size).into(),
                human::fine_frame_rate(at.load).into(),
                human::percent(at.of_max).into(),
                human::percent(at.loss_ratio).into(),
            ]);
        }
    }
    titled("frame loss rate", &table, style)
}

/// Frames of a burst in words.
pub(super) fn burst(of: &BackToBack) -> String {
    let mean = of.mean.map_or_else(|| "-".to_owned(), human::number);
    if of.at_least { format!("at least {mean}") } else { mean }
}

/// The words before a bound.
fn bound(of: &BackToBack) -> String {
    if of.at_least { "at least ".to_owned() } else { String::new() }
}

/// How fast bursts left, of the highest load.
fn sent_at(size: &SizeReport, of: &BackToBack) -> Cell {
    let share = size.max_frames_per_second.map_or(1.0, |max| (of.burst_rate / max).min(1.0));
    Cell { text: human::percent(share), bad: share < 0.999 }
}

fn back_to_back(test: &TestReport, style: Style) -> String {
    let heading =
        ["frame", "longest burst", "min", "max", "deviation", "buffer", "corrected", "sent at"];
    let mut table = Table::new(&heading);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), human::time);
    for size in &test.sizes {
        let Some(of) = &size.back_to_back else { continue };
        let count = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), human::count);
        table.row(vec![
            clean(&size.size).into(),
            burst(of).into(),
            count(of.min).into(),
            count(of.max).into(),
            of.standard_deviation.map_or_else(|| "-".to_owned(), human::number).into(),
            (bound(of) + &time(of.implied_buffer_ns)).into(),
            time(of.corrected_buffer_ns).into(),
            sent_at(size, of),
        ]);
    }
    titled("back-to-back frames", &table, style)
}

/// A time until which frames were lost, in words.
pub(super) fn recovery_time(of: &Recovery) -> String {
    let mean = of.mean_ns.map_or_else(|| "-".to_owned(), human::time);
    match of.times.iter().all(|time| time.recovered) {
        true if of.mean_ns == Some(0.0) => "at once".to_owned(),
        true => mean,
        false => format!("not within {}", human::long_time(of.window_ns)),
    }
}

fn recovery(test: &TestReport, style: Style) -> String {
    let mut table =
        Table::new(&["frame", "overload", "then", "recovery", "shortest", "longest", "trials"]);
    for size in &test.sizes {
        let Some(of) = &size.recovery else { continue };
        let most = of.times.iter().map(|time| time.most_ns);
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| human::time(ns as f64));
        table.row(vec![
            clean(&size.size).into(),
            human::fine_frame_rate(of.overload).into(),
            human::fine_frame_rate(of.load).into(),
            recovery_time(of).into(),
            time(most.clone().min()).into(),
            time(most.max()).into(),
            human::count(of.times.len() as u64).into(),
        ]);
    }
    titled("system recovery", &table, style)
}

/// The silence of a reset in words.
pub(super) fn silence(of: &Reset) -> String {
    match (of.silence_ns, of.returned) {
        (Some(ns), true) => human::time(ns as f64),
        _ => format!("not back within {}", human::long_time(of.time_ns)),
    }
}

fn reset(test: &TestReport, style: Style) -> String {
    let mut table = Table::new(&["frame", "load", "longest silence"]);
    for size in &test.sizes {
        let Some(of) = &size.reset else { continue };
        table.row(vec![
            clean(&size.size).into(),
            human::fine_frame_rate(of.load).into(),
            Cell { text: silence(of), bad: !of.returned },
        ]);
    }
    titled("reset", &table, style)
}

fn titled(title: &str, table: &Table, style: Style) -> String {
    match table.is_empty() {
        true => String::new(),
        false => format!("{}\n{}", style.strong(title), table.render(2, style)),
    }
}

fn notes(title: &str, notes: &[String], style: Style) -> String {
    let lines = notes.iter().map(|note| hang("  ", &clean(note), WIDTH) + "\n");
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("{}\n{lines}", style.strong(title)) }
}

fn trials(size: &SizeReport, style: Style) -> String {
    let heading =
        ["trial", "for", "load", "offered", "time", "sent", "lost", "loss", "p99 delay", ""];
    let mut table = Table::new(&heading);
    for (number, trial) in (1u64..).zip(&size.trials) {
        let TrialReport { intended, offered, trial_ns, sent, lost, loss_ratio, doubt, .. } = trial;
        let again = match trial.repeated {
            0 => String::new(),
            again => format!("made {} times", u64::from(again) + 1),
        };
        let remarks = [again, doubt.as_ref().map_or_else(String::new, |_| "doubtful".into())];
        let remarks: Vec<String> = remarks.into_iter().filter(|of| !of.is_empty()).collect();
        let delay = trial.delay_p99_ns.map_or_else(|| "-".to_owned(), |ns| human::time(ns as f64));
        table.row(vec![
            human::count(number).into(),
            trial.purpose.clone().into(),
            human::fine_frame_rate(*intended).into(),
            Cell { text: human::fine_frame_rate(*offered), bad: trial.is_limited() },
            human::long_time(*trial_ns).into(),
            human::count(*sent).into(),
            human::count(*lost).into(),
            human::percent(*loss_ratio).into(),
            delay.into(),
            Cell { text: remarks.join(", "), bad: true },
        ]);
    }
    titled(&format!("trials with {}", clean(&size.size)), &table, style)
}

fn run(test: &TestReport, style: Style) -> String {
    let Some(last) = &test.last_trial else { return String::new() };
    let mut out = style.strong("last trial") + "\n";
    for (label, lines) in environment(last) {
        for (place, line) in lines.iter().enumerate() {
            let label = if place == 0 { label.as_str() } else { "" };
            out += &(hang(&format!("  {label:<10}"), line, WIDTH) + "\n");
        }
    }
    out
}
