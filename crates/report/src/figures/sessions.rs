//! Pictures of sessions: what groups did over time, and how long things took.

use super::{Figure, Named, Subject, box_plots, functions};
use crate::model::{
    PlannedActual, Report, SessionInterval, SessionIntervals, SessionReport, SessionTimes,
};
use crate::pictures::COLOURS;
use crate::pictures::scale::Unit;
use crate::pictures::series::{Height, Line, over_time as series};
use crate::pictures::thin::Span;

/// Finds a time of sessions.
type Find = fn(&SessionTimes) -> Option<&PlannedActual>;

const TIMES: [(&str, &str, Find); 5] = [
    ("connect", "Time to connect", |times| times.connect.as_ref()),
    ("first-byte", "Time to the first byte", |times| times.first_byte.as_ref()),
    ("response", "Response time", |times| times.response.as_ref()),
    ("message-delay", "Delay of messages", |times| times.delay.as_ref()),
    ("session", "Time of a session", |times| times.session.as_ref()),
];

/// What is shown of a group over time.
type Value = fn(&SessionInterval, f64) -> f64;

const OVER_TIME: [(&str, &str, Unit, Value); 6] = [
    ("sessions-open", "Open sessions", Unit::Count, |of, _| of.open as f64),
    ("sessions-established", "Sessions established per second", Unit::PerSecond, |of, over| {
        of.established as f64 / over
    }),
    ("sessions-failed", "Sessions that failed, in each interval", Unit::Count, |of, _| {
        of.failed as f64
    }),
    ("sessions-responses", "Responses per second", Unit::PerSecond, |of, over| {
        of.responses as f64 / over
    }),
    ("sessions-goodput", "Goodput: delivered bits per second", Unit::BitRate, |of, over| {
        of.delivered_bytes as f64 * 8.0 / over
    }),
    ("sessions-retransmitted", "Segments sent again, in each interval", Unit::Count, |of, _| {
        of.retransmitted_segments as f64
    }),
];

/// Groups over time: the first ones, and of each only what is not always zero.
pub fn over_time(report: &Report) -> Vec<Figure> {
    let groups: Vec<&SessionReport> = report.sessions.iter().take(COLOURS).collect();
    if report.session_intervals.is_empty() {
        return Vec::new();
    }
    let note = match report.sessions.len() {
        more if more > COLOURS => format!("The first {COLOURS} of {more} groups and ends."),
        _ => String::new(),
    };
    let figure = |&(file, title, unit, value): &(&str, &str, Unit, Value)| {
        let lines = groups.iter().map(|group| Line {
            name: named(group),
            spans: report.session_intervals.iter().map(|of| span(of, group, value)).collect(),
        });
        let some = |line: &Line| line.spans.iter().any(|span| span.value.is_some_and(|v| v > 0.0));
        let lines: Vec<Line> = lines.filter(some).collect();
        let picture =
            (!lines.is_empty()).then(|| series(file, title, &lines, unit, Height::FromZero))?;
        Some(Figure::Picture { picture, note: note.clone() })
    };
    OVER_TIME.iter().filter_map(figure).collect()
}

/// How long things took: distribution functions, from the plan and from the start where they differ, and box plots.
pub fn distributions(report: &Report) -> Vec<Figure> {
    let mut figures: Vec<Figure> = TIMES
        .iter()
        .filter_map(|(file, title, find)| {
            let file = format!("distribution-{file}");
            let note = "Planned: from when it was to begin. Actual: from when it began.".to_owned();
            let subject = Subject { file: &file, title, unit: Unit::Time, note };
            functions(&subject, &curves(report, *find))
        })
        .collect();
    let lateness = report.sessions.iter().filter(|group| group.start_lateness_ns.count > 0);
    let lateness: Vec<Named<'_>> =
        lateness.take(12).map(|group| (named(group), &group.start_lateness_ns)).collect();
    let note = "How much later than planned sessions started.".to_owned();
    let subject =
        Subject { file: "boxes-start-lateness", title: "Start lateness", unit: Unit::Time, note };
    figures.extend(box_plots(&subject, &lateness));
    figures
}

fn curves(report: &Report, find: Find) -> Vec<Named<'_>> {
    let mut curves = Vec::new();
    for group in &report.sessions {
        let Some(PlannedActual { planned_ns, actual_ns }) = find(&group.times) else { continue };
        let two =
            planned_ns.percentiles != actual_ns.percentiles || planned_ns.max != actual_ns.max;
        let (planned, actual) = match two {
            true => (", planned", Some(", actual")),
            false => ("", None),
        };
        let name = |of: &str| format!("{}{of}", named(group));
        curves.push((name(planned), planned_ns));
        curves.extend(actual.map(|of| (name(of), actual_ns)));
        if curves.len() >= COLOURS {
            break;
        }
    }
    curves.truncate(COLOURS);
    curves
}

/// A group and its end.
fn named(group: &SessionReport) -> String {
    format!("{} ({})", group.name, group.end.name())
}

fn span(of: &SessionIntervals, group: &SessionReport, value: Value) -> Span {
    let over = of.to_ns.saturating_sub(of.from_ns).max(1) as f64 / 1e9;
    let of_group = |one: &&SessionInterval| one.name == group.name && one.end == group.end;
    let value = of.sessions.iter().find(of_group).map_or(0.0, |one| value(one, over));
    Span { from_ns: of.from_ns as f64, to_ns: of.to_ns as f64, value: Some(value) }
}
