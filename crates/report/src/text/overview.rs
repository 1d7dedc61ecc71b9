//! The part that is read in one look: a line for each flow, and what limited the run.

use super::WIDTH;
use super::style::{Style, clean, cut, hang};
use super::table::{Cell, NOTHING, Table};
use crate::human;
use crate::model::{Capture, CaptureKind, Change, ChangeOrigin, FlowReport, Rates, Report, Stats};

/// Flows that have a line of their own.
const FLOWS: usize = 50;
/// Changes that have a line of their own.
const CHANGES: usize = 20;
/// Captures that have a line of their own.
const CAPTURES: usize = 20;
/// Columns of a flow's name.
const NAME: usize = 16;

/// The table of all flows and their total.
pub fn table(report: &Report, style: Style) -> String {
    if report.flows.is_empty() {
        let kept = report.captures.iter().any(|capture| capture.frames > 0);
        let told = if kept { "no flow was measured\n" } else { "nothing arrived\n" };
        return told.to_owned();
    }
    let heading = [
        "flow",
        "sent",
        "received",
        "lost",
        "loss",
        "duplicates",
        "rate",
        "Mbit/s",
        "p50",
        "p99",
        "max",
        "p50",
        "p99",
    ];
    let mut table =
        Table::new(&heading).group("one-way delay", 8, 10).group("send lateness", 11, 12);
    for flow in report.flows.iter().take(FLOWS) {
        table.row(line(flow));
    }
    if let Some(more) = report.flows.len().checked_sub(FLOWS).filter(|&more| more > 0) {
        table.row(vec![format!("… {} more", human::count(more as u64)).into()]);
    }
    if report.flows.len() != 1 {
        table.row(line(&report.total));
    }
    table.without_empty(1).render(0, style)
}

/// The line of a flow.
pub fn line(flow: &FlowReport) -> Vec<Cell> {
    let sent = flow.sent.as_ref();
    let received = flow.received.as_ref();
    let delay = received.and_then(|received| received.one_way_delay_ns.as_ref());
    let error = sent.map(|sent| &sent.send_lateness_ns);
    let rates: Option<Rates> =
        received.and_then(|side| side.rates).or(sent.and_then(|side| side.rates));
    let lost = flow.loss.map(|loss| loss.frames);
    // a column only where there are some
    let duplicates = received.map(|side| side.duplicates).filter(|count| *count > 0);
    let at = |stats: Option<&Stats>, value: fn(&Stats) -> Option<i64>| {
        Cell::from(stats.map_or_else(nothing, |stats| time(stats, value(stats).map(|v| v as f64))))
    };
    vec![
        cut(&clean(&flow.name), NAME).into(),
        count(sent.map(|sent| sent.sent.frames)),
        count(received.map(|received| received.received.frames)),
        Cell { bad: lost.is_some_and(|lost| lost > 0), ..count(lost) },
        flow.loss.and_then(|loss| loss.ratio).map_or_else(nothing, human::percent).into(),
        Cell { bad: duplicates.is_some(), ..count(duplicates) },
        rates.map_or_else(nothing, |rates| human::frame_rate(rates.frames_per_second)).into(),
        rates.map_or_else(nothing, |rates| human::number(rates.frame_bits_per_second / 1e6)).into(),
        at(delay, |stats| stats.percentiles.p50),
        at(delay, |stats| stats.percentiles.p99),
        at(delay, |stats| stats.max),
        at(error, |stats| stats.percentiles.p50),
        at(error, |stats| stats.percentiles.p99),
    ]
}

fn count(value: Option<u64>) -> Cell {
    value.map_or_else(nothing, human::count).into()
}

pub fn nothing() -> String {
    NOTHING.to_owned()
}

/// A value of `stats` as a time. What the clocks are not exact enough for shows as its bound.
pub fn time(stats: &Stats, value: Option<f64>) -> String {
    match (value, stats.uncertain_below) {
        (Some(value), _) => human::short_time(value),
        (None, Some(bound)) if stats.count > 0 => format!("<{}", human::short_time(bound as f64)),
        (None, _) => nothing(),
    }
}

/// What changed while the flows were sent; `None` when nothing did.
pub fn changes(report: &Report, style: Style) -> Option<String> {
    if report.changes.is_empty() {
        return None;
    }
    let mut out = style.strong("changes") + "\n";
    for Change { at_ns, flow, change, origin } in report.changes.iter().take(CHANGES) {
        let by = match origin {
            ChangeOrigin::Scenario => "planned",
            ChangeOrigin::Control => "by ctl or key",
        };
        let at = human::time(*at_ns as f64);
        let text = format!("{at}, {}: {} ({by})", cut(&clean(flow), NAME), clean(change));
        out += &hang("  - ", &text, WIDTH);
        out.push('\n');
    }
    if let Some(more) = report.changes.len().checked_sub(CHANGES).filter(|&more| more > 0) {
        out += &format!("  - … {} more\n", human::count(more as u64));
    }
    Some(out)
}

/// What was kept of the frames; `None` when nothing was.
pub fn captures(report: &Report, style: Style) -> Option<String> {
    if report.captures.is_empty() {
        return None;
    }
    let mut out = style.strong("files") + "\n";
    for capture in report.captures.iter().take(CAPTURES) {
        out += &hang("  - ", &clean(&self::capture(capture)), WIDTH);
        out.push('\n');
    }
    if let Some(more) = report.captures.len().checked_sub(CAPTURES).filter(|&more| more > 0) {
        out += &format!("  - … {} more\n", human::count(more as u64));
    }
    Some(out)
}

/// A capture in words.
pub(crate) fn capture(capture: &Capture) -> String {
    let kind = match capture.kind {
        CaptureKind::Frames => "capture",
        CaptureKind::PacketLog => "packet log",
    };
    let of = capture.port.as_ref().map_or_else(String::new, |port| format!(" of port '{port}'"));
    let files = match &capture.files[..] {
        [] => "standard output".to_owned(),
        [one] => one.clone(),
        [first, .., last] => {
            format!("{}, {first} to {last}", human::counted(capture.files.len() as u64, "file"))
        }
    };
    let (frames, bytes) =
        (human::counted(capture.frames, "frame"), human::bytes(capture.bytes as f64));
    let mut text = format!("{kind}{of}: {frames}, {bytes}, {files}");
    let others = [
        (capture.filtered, "left out"),
        (capture.removed, "removed with older files"),
        (capture.lost, "lost for it"),
    ];
    for (frames, what) in others {
        if frames > 0 {
            text += &format!("; {} {what}", human::count(frames));
        }
    }
    text += &format!("; times: {}", capture.timestamps);
    text
}

/// What limited the run; `None` when nothing did.
pub fn findings(report: &Report, style: Style) -> Option<String> {
    if report.findings.is_empty() {
        return None;
    }
    let mut out = style.bad("findings") + "\n";
    for finding in &report.findings {
        out.push_str(&hang("  - ", &clean(&finding.message), WIDTH));
        out.push('\n');
    }
    Some(out)
}
