//! A test for people: the results by frame size, then what they rest on.

use super::tables::{ResultTable, tables};
use super::{Parameters, SizeReport, TestReport, TrialReport};
use crate::format::{Colour, Rendering};
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
    parts.extend(tables(test).iter().map(|table| results(table, style)));
    parts.push(notes("findings", &test.findings, style));
    parts.push(notes("not as the standard has it", &test.deviations, style));
    if rendering.details {
        parts.push(details(test, style));
    } else {
        parts.push("every trial: --details, or --json FILE\n".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Every trial, and where the last one took place.
pub(super) fn trials_and_place(test: &TestReport) -> String {
    details(test, Style::new(Colour::Never))
}

fn details(test: &TestReport, style: Style) -> String {
    let mut parts: Vec<String> = test.sizes.iter().map(|size| trials(size, style)).collect();
    parts.push(run(test, style));
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
    let title = test.title.as_ref().map_or_else(String::new, |title| clean(title) + "  ");
    let Parameters { search, max_load, .. } = &test.parameters;
    format!(
        "{outcome}{}  {}  {}  {}\n{verdict} {}. Trials of {}, {search} to {}, highest load {}.\n",
        style.strong(&(title + &clean(&test.test))),
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

/// A table of results, with what is to be known of its rows.
fn results(of: &ResultTable, style: Style) -> String {
    let mut table = Table::new(of.heads);
    for row in &of.rows {
        let cells = row.iter().map(|cell| Cell { text: clean(&cell.text), bad: cell.bad });
        table.row(cells.collect());
    }
    let notes = of.notes.iter().map(|note| hang("  ", &clean(note), WIDTH) + "\n");
    titled(of.title, &table, style) + &notes.collect::<String>()
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
