//! Text for people: a summary that fits a screen (a table of the flows, each group of sessions, our own TCP, then what
//! limited the run), and by choice the details.
//!
//! At most 100 columns where the numbers allow. Names come from users and peers, so nothing in them
//! reaches a terminal as a control sequence.

mod bins;
mod blocks;
mod card;
mod expectations;
mod flow;
pub mod interval;
mod members;
pub(crate) mod mix;
mod overview;
mod run;
mod sessions;
pub(crate) mod side_by_side;
mod stacks;
pub mod style;
pub mod table;
mod trends;

use crate::document::ErrorReport;
use crate::format::{Colour, Rendering};
use crate::human;
use crate::model::{Report, Verdict};
pub(crate) use overview::capture;
pub(crate) use run::{checks, command, command_of, environment};
use style::{Style, clean};
pub(crate) use trends::{HEADS as TREND_HEADS, cells as trend_cells};

/// Columns that a line should not exceed.
pub const WIDTH: usize = 100;

/// Writes a report.
pub fn report(report: &Report, rendering: Rendering) -> String {
    let style = Style::new(rendering.colour);
    let mut parts = vec![headline(report, style)];
    parts.extend(expectations::expectations(report, style));
    let sessions = !report.sessions.is_empty() || !report.stacks.is_empty();
    if !sessions || !report.flows.is_empty() {
        parts.push(overview::table(report, style));
    }
    parts.push(mix::mix(report, style));
    parts.extend(sessions::sessions(report, style));
    parts.extend(stacks::stacks(report, style));
    parts.extend(trends::trends(report, style));
    parts.extend(overview::findings(report, style));
    parts.extend(overview::changes(report, style));
    parts.extend(overview::captures(report, style));
    if rendering.details {
        parts.extend(flow::flows(report, style));
        parts.push(run::run(report, style));
    } else {
        parts.push("every measurement: --details, or --json FILE\n".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Writes an error.
pub fn error(error: &ErrorReport, colour: Colour) -> String {
    let style = Style::new(colour);
    format!("{} {}\n", style.bad("error:"), clean(&error.error.message))
}

/// What ran, when, how long, and what to make of it.
fn headline(report: &Report, style: Style) -> String {
    let verdict = match report.verdict {
        Verdict::Done => format!("Counters consistent.{}", met(report)),
        Verdict::Unfinished => style.bad("Unfinished."),
        Verdict::CountersInconsistent => style.bad("Counters inconsistent."),
        Verdict::Unmet => style.bad(&unmet(report)),
    };
    let outcome = expectations::outcome(report, style).map_or_else(String::new, |of| of + "  ");
    format!(
        "{outcome}{}  {}  {}\n{}. {verdict}\n",
        style.strong(&format!("wirebeat {}", clean(&report.wirebeat_version))),
        clean(&report.started),
        human::time(report.duration_ns as f64),
        clean(&sentence(&human::end(&report.end))),
    ) + &short_of(report, style)
}

/// That all expectations were met, where there are any.
fn met(report: &Report) -> String {
    match report.expectations().count() {
        0 => String::new(),
        1 => " The expectation was met.".to_owned(),
        all => format!(" All {} expectations were met.", human::count(all as u64)),
    }
}

/// How many expectations were not met.
fn unmet(report: &Report) -> String {
    let unmet = report.expectations().filter(|of| !of.expectation.met).count() as u64;
    if report.expectations().count() == 1 {
        return "Counters consistent. The expectation was not met.".to_owned();
    }
    let of = human::counted(report.expectations().count() as u64, "expectation");
    let (count, were) = (human::count(unmet), if unmet == 1 { "was" } else { "were" });
    format!("Counters consistent. {count} of {of} {were} not met.")
}

/// With a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What became of the frames that were asked for, where one in a hundred or more was not sent.
fn short_of(report: &Report, style: Style) -> String {
    let Some(sent) = &report.total.sent else { return String::new() };
    let (requested, left) = (sent.requested.frames, sent.sent.frames);
    if left.saturating_mul(100) > requested.saturating_mul(99) || left >= requested {
        return String::new();
    }
    let parts =
        [(sent.expired, "expired"), (sent.not_reached, "not reached"), (sent.failed, "failed")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(frames, _)| *frames > 0)
        .map(|(frames, word)| format!("{} {word}", human::count(frames)))
        .collect();
    let text = format!(
        "{} of {}{} requested were sent: {}",
        human::count(left),
        sent.at_least(),
        human::counted(requested, "frame"),
        parts.join(", ")
    );
    style.bad(&text) + "\n"
}
