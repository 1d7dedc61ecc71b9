//! Pictures of sessions: what groups did over time, and how long things took.

use std::collections::BTreeMap;

use super::flows::is_sliver;
use super::{Figure, Named, Subject, box_plots, functions};
use crate::human;
use crate::model::{
    PlannedActual, Report, SessionEnd, SessionInterval, SessionIntervals, SessionReport,
    SessionTimes,
};
use crate::pictures::COLOURS;
use crate::pictures::scale::Unit;
use crate::pictures::series::{Height, Line, over_time as series};
use crate::pictures::thin::Span;

/// Finds a time of sessions.
type Find = fn(&SessionTimes) -> Option<&PlannedActual>;

const TIMES: [(&str, &str, Find); 6] = [
    ("connect", "Time to connect", |times| times.connect.as_ref()),
    ("handshake", "TLS handshake", |times| times.handshake.as_ref()),
    ("first-byte", "Time to the first byte", |times| times.first_byte.as_ref()),
    ("response", "Response time", |times| times.response.as_ref()),
    ("message-delay", "Delay of messages", |times| times.delay.as_ref()),
    ("session", "Time of a session", |times| times.session.as_ref()),
];

/// What is shown of a group over time.
struct OverTime {
    file: &'static str,
    title: &'static str,
    unit: Unit,
    kind: Kind,
    value: fn(&SessionInterval) -> u64,
}

/// How the values of intervals are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What is so when an interval ends: a point at that time.
    AtTheEnd,
    /// What was counted in an interval, all through it.
    InAll,
    /// The same in a second.
    InASecond,
    /// The same as bits in a second, of groups whose other end is not in the report: there it would be the goodput of that one.
    SentInASecond,
}

const OVER_TIME: [OverTime; 8] = [
    OverTime {
        file: "sessions-open",
        title: "Open sessions",
        unit: Unit::Count,
        kind: Kind::AtTheEnd,
        value: |of| of.open,
    },
    OverTime {
        file: "sessions-established",
        title: "Sessions established per second",
        unit: Unit::PerSecond,
        kind: Kind::InASecond,
        value: |of| of.established,
    },
    OverTime {
        file: "sessions-handshakes",
        title: "TLS handshakes per second",
        unit: Unit::PerSecond,
        kind: Kind::InASecond,
        value: |of| of.handshakes,
    },
    OverTime {
        file: "sessions-failed",
        title: "Sessions that failed, in each interval",
        unit: Unit::Count,
        kind: Kind::InAll,
        value: |of| of.failed,
    },
    OverTime {
        file: "sessions-responses",
        title: "Responses per second",
        unit: Unit::PerSecond,
        kind: Kind::InASecond,
        value: |of| of.responses,
    },
    OverTime {
        file: "sessions-goodput",
        title: "Goodput: delivered bits per second",
        unit: Unit::BitRate,
        kind: Kind::InASecond,
        value: |of| of.delivered_bytes.saturating_mul(8),
    },
    OverTime {
        file: "sessions-sent",
        title: "Sent bits per second",
        unit: Unit::BitRate,
        kind: Kind::SentInASecond,
        value: |of| of.sent_bytes.saturating_mul(8),
    },
    OverTime {
        file: "sessions-retransmitted",
        title: "Segments sent again, in each interval",
        unit: Unit::Count,
        kind: Kind::InAll,
        value: |of| of.retransmitted_segments,
    },
];

/// Groups over time: of each picture the first ones that have something in it, and a note on the others.
pub fn over_time(report: &Report) -> Vec<Figure> {
    if report.session_intervals.is_empty() {
        return Vec::new();
    }
    let intervals: Vec<Groups<'_>> = report.session_intervals.iter().map(Groups::of).collect();
    OVER_TIME.iter().filter_map(|of| figure(report, &intervals, of)).collect()
}

/// An interval with its groups by their names and ends: there may be thousands.
struct Groups<'a> {
    interval: &'a SessionIntervals,
    groups: BTreeMap<(&'a str, SessionEnd), &'a SessionInterval>,
}

impl<'a> Groups<'a> {
    fn of(interval: &'a SessionIntervals) -> Groups<'a> {
        let keyed = |one: &'a SessionInterval| ((one.name.as_str(), one.end), one);
        Groups { interval, groups: interval.sessions.iter().map(keyed).collect() }
    }

    fn get(&self, group: &SessionReport) -> Option<&'a SessionInterval> {
        self.groups.get(&(group.name.as_str(), group.end)).copied()
    }
}

fn figure(report: &Report, intervals: &[Groups<'_>], of: &OverTime) -> Option<Figure> {
    let paired = |group: &SessionReport| group.paired_with.is_some();
    let groups =
        report.sessions.iter().filter(|group| of.kind != Kind::SentInASecond || !paired(group));
    let some = |line: &Line| line.spans.iter().any(|span| span.value.is_some_and(|v| v > 0.0));
    let (mut lines, mut left_out) = (Vec::new(), Vec::new());
    for group in groups {
        let line = line(intervals, group, of);
        match some(&line) {
            true => lines.push(line),
            false if of.kind == Kind::AtTheEnd && group.most_open > 0 => left_out.push(group),
            false => {}
        }
    }
    let mut notes = Vec::new();
    if of.kind == Kind::AtTheEnd && !lines.is_empty() {
        notes.push("A point is how many were open when an interval ended.".to_owned());
    }
    if lines.len() > COLOURS {
        notes.push(format!("The first {COLOURS} of {} groups and ends.", lines.len()));
        lines.truncate(COLOURS);
    }
    let (between, unknown): (Vec<_>, Vec<_>) =
        left_out.into_iter().partition(|group| intervals.iter().any(|of| of.get(group).is_some()));
    let most = |group: &SessionReport| {
        format!("{}, {} at the most", named(group), human::count(group.most_open))
    };
    notes.extend(listed("Never open when an interval ended", &between, most));
    notes.extend(listed("Without intervals", &unknown, named));
    let OverTime { file, title, unit, .. } = of;
    if lines.is_empty() {
        let missing = || Figure::Missing { title: (*title).to_owned(), why: notes.join(" ") };
        return (!notes.is_empty()).then(missing);
    }
    let picture = series(file, title, &lines, *unit, Height::FromZero);
    Some(Figure::Picture { picture, note: notes.join(" ") })
}

/// Groups that are not drawn, and why; `None` where there are none.
fn listed(
    why: &str,
    groups: &[&SessionReport],
    told: impl Fn(&SessionReport) -> String,
) -> Option<String> {
    let shown: Vec<String> = groups.iter().take(COLOURS).map(|group| told(group)).collect();
    let more = match groups.len().saturating_sub(COLOURS) {
        0 => String::new(),
        more => format!("; and {} more", human::count(more as u64)),
    };
    (!shown.is_empty()).then(|| format!("{why}: {}{more}.", shown.join("; ")))
}

fn line(intervals: &[Groups<'_>], group: &SessionReport, of: &OverTime) -> Line {
    let first = intervals.first().map(|first| first.interval);
    let length = first.map_or(0, |first| first.to_ns.saturating_sub(first.from_ns));
    let span = |groups: &Groups<'_>| {
        let value = groups.get(group).map_or(0, of.value) as f64;
        let interval = groups.interval;
        let (from, to) = (interval.from_ns as f64, interval.to_ns as f64);
        let seconds = interval.to_ns.saturating_sub(interval.from_ns).max(1) as f64 / 1e9;
        match of.kind {
            Kind::AtTheEnd => Span::point(to, value),
            Kind::InAll => Span { from_ns: from, to_ns: to, value: Some(value) },
            Kind::InASecond | Kind::SentInASecond => Span {
                from_ns: from,
                to_ns: to,
                value: Some(value / seconds).filter(|_| !is_sliver(seconds, length)),
            },
        }
    };
    let mut spans: Vec<Span> = intervals.iter().map(span).collect();
    // before a run nothing is open
    if of.kind == Kind::AtTheEnd && first.is_some_and(|first| first.from_ns == 0) {
        spans.insert(0, Span::point(0.0, 0.0));
    }
    Line { name: named(group), spans }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn group(name: &str, most_open: u64) -> SessionReport {
        SessionReport { name: name.to_owned(), most_open, ..SessionReport::default() }
    }

    /// A run of these groups, of which so many sessions were open when each of its seconds ended.
    fn run(groups: &[(SessionReport, &[u64])]) -> Report {
        let seconds = groups.iter().map(|(_, open)| open.len()).max().unwrap_or(0);
        let of = |second: usize| SessionIntervals {
            from_ns: second as u64 * SECOND,
            to_ns: (second as u64 + 1) * SECOND,
            sessions: groups
                .iter()
                .filter_map(|(group, open)| {
                    Some(SessionInterval {
                        name: group.name.clone(),
                        end: group.end,
                        open: *open.get(second)?,
                        sent_bytes: 125_000_000,
                        ..SessionInterval::default()
                    })
                })
                .collect(),
        };
        Report {
            sessions: groups.iter().map(|(group, _)| group.clone()).collect(),
            session_intervals: (0..seconds).map(of).collect(),
            ..one_flow()
        }
    }

    fn one_flow() -> Report {
        let (sender, receiver) = crate::golden::both(&[crate::golden::VOICE]);
        crate::assemble::assemble(
            crate::golden::facts("wirebeat run"),
            Some(sender),
            Some(receiver),
        )
    }

    fn titled<'a>(figures: &'a [Figure], wanted: &str) -> Option<(&'a str, &'a str)> {
        figures.iter().find_map(|figure| match figure {
            Figure::Picture { picture, note } if picture.title == wanted => {
                Some((picture.description.as_str(), note.as_str()))
            }
            Figure::Missing { title, why } if title == wanted => Some(("", why.as_str())),
            _ => None,
        })
    }

    /// Sessions that were open for 3.98 s seemed to be closed at 3 s: how many were open at the end was drawn for all of the interval.
    #[test]
    fn open_sessions_are_points_at_the_ends_of_intervals() {
        let report = run(&[(group("web", 13), &[5, 7, 6, 0])]);
        let intervals: Vec<Groups<'_>> = report.session_intervals.iter().map(Groups::of).collect();
        let line = line(&intervals, &report.sessions[0], &OVER_TIME[0]);
        let points: Vec<_> = line.spans.iter().map(|of| (of.from_ns / 1e9, of.value)).collect();
        let expected = [(0.0, 0.0), (1.0, 5.0), (2.0, 7.0), (3.0, 6.0), (4.0, 0.0)];
        assert_eq!(points, expected.map(|(at, open)| (at, Some(open))));
        assert!(line.spans.iter().all(Span::is_point));
    }

    #[test]
    fn every_group_that_had_open_sessions_is_drawn_or_named() {
        let report = run(&[
            (group("web", 13), &[0, 0]),
            (group("dns", 11), &[0, 0]),
            (group("mail", 1), &[1, 1]),
            (group("idle", 0), &[0, 0]),
            (group("theirs", 2), &[]),
        ]);
        let figures = over_time(&report);
        let (drawn, note) = titled(&figures, "Open sessions").unwrap();
        assert!(drawn.starts_with("mail (client): "), "{drawn}");
        assert!(!drawn.contains("web") && !note.contains("idle"), "{drawn} {note}");
        for told in [
            "Never open when an interval ended: web (client), 13 at the most; dns (client), 11 at the most.",
            "Without intervals: theirs (client).",
        ] {
            assert!(note.contains(told), "{note}");
        }
        let none = run(&[(group("web", 13), &[0, 0])]);
        let (drawn, why) =
            titled(&over_time(&none), "Open sessions").map(|(a, b)| (a.len(), b.len())).unwrap();
        assert!(drawn == 0 && why > 0);
        let many: Vec<_> = (0..8).map(|n| (group(&format!("g{n}"), 1), &[1][..])).collect();
        let figures = over_time(&run(&many));
        let (_, note) = titled(&figures, "Open sessions").unwrap();
        assert!(note.ends_with("The first 6 of 8 groups and ends."), "{note}");
    }

    /// Of a client that only sends, there was no rate at all.
    #[test]
    fn what_is_sent_to_an_end_that_is_not_here_is_drawn() {
        let theirs = SessionReport { end: SessionEnd::Client, ..group("iperf3", 2) };
        let report = run(&[(theirs.clone(), &[2, 2])]);
        let figures = over_time(&report);
        let (drawn, _) = titled(&figures, "Sent bits per second").unwrap();
        assert_eq!(drawn, "iperf3 (client): 1.00 Gbit/s all the time");
        let ours = SessionReport { paired_with: Some(0), ..theirs };
        assert_eq!(titled(&over_time(&run(&[(ours, &[2, 2])])), "Sent bits per second"), None);
    }
}
