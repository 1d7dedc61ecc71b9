//! Pictures of flows: rates, loss and delay over time, distributions, box plots.

use std::collections::BTreeMap;

use super::{Figure, Named, Subject, box_plots as boxes, functions};
use crate::human;
use crate::model::{
    FlowInterval, FlowReport, Interval, IntervalExtremes, IntervalPart, Report, Stats,
};
use crate::pictures::COLOURS;
use crate::pictures::scale::Unit;
use crate::pictures::series::{Height, Line, over_time as series};
use crate::pictures::thin::Span;

/// Rows of a picture of box plots.
const BOXES: usize = 12;
/// What all flows together are called.
const ALL: &str = "all flows";

/// Finds a distribution of a flow.
type Find = fn(&FlowReport) -> Option<&Stats>;

/// A distribution that flows have.
struct Measure {
    file: &'static str,
    title: &'static str,
    unit: Unit,
    find: Find,
    /// What has to be known of it.
    note: &'static str,
}

const DELAY: Measure = Measure {
    file: "delay",
    title: "One-way delay",
    unit: Unit::Time,
    find: |flow| flow.received.as_ref()?.one_way_delay_ns.as_ref(),
    note: "",
};
const INTER_ARRIVAL: Measure = Measure {
    file: "inter-arrival",
    title: "Inter-arrival time",
    unit: Unit::Time,
    find: |flow| Some(&flow.received.as_ref()?.inter_arrival_ns),
    note: "",
};
const JITTER: Measure = Measure {
    file: "jitter",
    title: "Jitter (RFC 4689)",
    unit: Unit::Time,
    find: |flow| Some(&flow.received.as_ref()?.jitter_rfc4689_ns),
    note: "",
};
const LATENESS: Measure = Measure {
    file: "send-lateness",
    title: "Send lateness",
    unit: Unit::Time,
    find: |flow| Some(&flow.sent.as_ref()?.send_lateness_ns),
    note: "Departure less deadline: what the sender itself adds.",
};
const INTER_DEPARTURE: Measure = Measure {
    file: "inter-departure",
    title: "Inter-departure time",
    unit: Unit::Time,
    find: |flow| Some(&flow.sent.as_ref()?.inter_departure_ns),
    note: "Between frames of a flow, by the sender's clock.",
};
const DEPARTURE_GAP_ERROR: Measure = Measure {
    file: "departure-gap-error",
    title: "Departure gap error",
    unit: Unit::Time,
    find: |flow| Some(&flow.sent.as_ref()?.gap_error_ns),
    note: "By how much inter-departure times differ from the planned ones, without sign.",
};
const SIGNED_DEPARTURE_GAP_ERROR: Measure = Measure {
    file: "signed-departure-gap-error",
    title: "Departure gap error, signed",
    unit: Unit::Time,
    find: |flow| Some(&flow.sent.as_ref()?.signed_gap_error_ns),
    note: "Inter-departure time less the planned one: below zero, a frame left too early after the one before.",
};
const GAP_ERROR: Measure = Measure {
    file: "gap-error",
    title: "Gap error",
    unit: Unit::Time,
    find: |flow| Some(&flow.received.as_ref()?.gap_error_ns),
    note: "By how much inter-arrival times differ from the nominal gap, without sign.",
};

const SIGNED_GAP_ERROR: Measure = Measure {
    file: "signed-gap-error",
    title: "Gap error, signed",
    unit: Unit::Time,
    find: |flow| Some(&flow.received.as_ref()?.signed_gap_error_ns),
    note: "Inter-arrival time less the nominal gap: below zero, a frame came too early after the one before.",
};

/// The measures of two runs that are put side by side.
pub(super) const COMPARED: [(&str, &str, Unit, Find); 4] = [
    (DELAY.file, DELAY.title, DELAY.unit, DELAY.find),
    (INTER_ARRIVAL.file, INTER_ARRIVAL.title, INTER_ARRIVAL.unit, INTER_ARRIVAL.find),
    (JITTER.file, JITTER.title, JITTER.unit, JITTER.find),
    (LATENESS.file, LATENESS.title, LATENESS.unit, LATENESS.find),
];

/// Distribution functions.
pub fn distributions(report: &Report) -> Vec<Figure> {
    let all =
        [DELAY, INTER_ARRIVAL, INTER_DEPARTURE, JITTER, LATENESS, GAP_ERROR, DEPARTURE_GAP_ERROR];
    let figure = |measure: &Measure| {
        let (named, told) = chosen(report, measure, COLOURS);
        let subject = measure.subject("distribution", told);
        functions(&Subject { file: &subject.0, note: subject.1, ..measure.bare() }, &named)
    };
    all.iter().filter_map(figure).collect()
}

/// Box plots.
pub fn box_plots(report: &Report) -> Vec<Figure> {
    let figure = |measure: &Measure| {
        let (named, told) = chosen(report, measure, BOXES);
        let subject = measure.subject("boxes", told);
        boxes(&Subject { file: &subject.0, note: subject.1, ..measure.bare() }, &named)
    };
    let all = [
        LATENESS,
        DEPARTURE_GAP_ERROR,
        SIGNED_DEPARTURE_GAP_ERROR,
        GAP_ERROR,
        SIGNED_GAP_ERROR,
        DELAY,
    ];
    all.iter().filter_map(figure).collect()
}

impl Measure {
    /// The name of the file of a picture of it, and what is to be said below.
    fn subject(&self, kind: &str, told: String) -> (String, String) {
        let notes = [self.note.to_owned(), told];
        let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        (format!("{kind}-{}", self.file), notes.join(" "))
    }

    fn bare(&self) -> Subject<'static> {
        Subject { file: self.file, title: self.title, unit: self.unit, note: String::new() }
    }
}

/// Distributions of all flows where they are few enough; otherwise of their total and those with the highest 99th percentile. With
/// that, what is to be said of the choice.
fn chosen<'a>(report: &'a Report, of: &Measure, most: usize) -> (Vec<Named<'a>>, String) {
    let measured = |flow: &'a FlowReport| {
        let stats = (of.find)(flow)?;
        (stats.count > 0).then(|| (flow.name.clone(), stats))
    };
    let mut flows: Vec<Named<'_>> = report.flows.iter().filter_map(measured).collect();
    let total = (of.find)(&report.total).map(|stats| (ALL.to_owned(), stats));
    let total: Vec<Named<'_>> = total.into_iter().filter(|_| flows.len() != 1).collect();
    let count = flows.len();
    if count + total.len() <= most {
        return (flows.into_iter().chain(total).collect(), String::new());
    }
    // those whose histogram is in another's cannot be drawn
    flows.retain(|(_, stats)| !stats.histogram.is_empty());
    flows.sort_by_key(|(_, stats)| std::cmp::Reverse((stats.percentiles.p99, stats.max)));
    flows.truncate(most.saturating_sub(total.len()));
    let shown = human::counted(flows.len() as u64, "flow");
    let told = match flows.len() {
        0 => String::new(),
        _ => format!(
            "All {} flows together, and the {shown} with the highest 99th percentile.",
            human::count(count as u64)
        ),
    };
    (total.into_iter().chain(flows).collect(), told)
}

/// Rates, loss and delay over time.
pub fn over_time(report: &Report) -> Vec<Figure> {
    let intervals = &report.intervals;
    if intervals.is_empty() {
        return Vec::new();
    }
    let length = intervals.first().map_or(0, |of| of.to_ns.saturating_sub(of.from_ns));
    let line = |name: &str, value: &dyn Fn(&FlowInterval, f64) -> Option<f64>| Line {
        name: name.to_owned(),
        spans: intervals.iter().map(|of| span(of, value(&of.total, seconds(of)))).collect(),
    };
    let rate =
        |name: &str, count: fn(&FlowInterval) -> Option<u64>, parts: Parts, amount: Amount| {
            let spans = intervals.iter().flat_map(|of| {
                let count = count(&of.total).filter(|_| !is_sliver(seconds(of), length));
                let Some(count) = count else { return vec![span(of, None)] };
                let parts = of.total.extremes.as_ref().map(parts).unwrap_or_default();
                told_apart(of, (count, amount), parts)
            });
            Line { name: name.to_owned(), spans: spans.collect() }
        };
    let sent = rate("sent", |of| Some(of.sent?.frames), SENT, FRAMES);
    let received = rate("received", |of| Some(of.received.as_ref()?.frames), RECEIVED, FRAMES);
    let sent_bits = rate("sent", |of| Some(of.sent?.frame_bytes.saturating_mul(8)), SENT, BITS);
    let received_bits = rate(
        "received",
        |of| Some(of.received.as_ref()?.frame_bytes.saturating_mul(8)),
        RECEIVED,
        BITS,
    );
    let lost = line("lost", &|of, _| of.lost.map(|lost| lost as f64));
    let delay = |of: &FlowInterval, value: fn(&Stats) -> Option<i64>| {
        let stats = of.received.as_ref()?.one_way_delay_ns.as_ref()?;
        value(stats).map(|ns| ns as f64)
    };
    let delays = [
        line("median", &|of, _| delay(of, |stats| stats.percentiles.p50)),
        line("99th percentile", &|of, _| delay(of, |stats| stats.percentiles.p99)),
        line("maximum", &|of, _| delay(of, |stats| stats.max)),
    ];
    let told = format!("Intervals of {}.", human::time(length as f64));
    let figures = [
        ("rate", "Frames per second", vec![sent, received], Unit::FrameRate, Height::FromZero),
        (
            "bit-rate",
            "Bits of frames per second",
            vec![sent_bits, received_bits],
            Unit::BitRate,
            Height::FromZero,
        ),
        ("loss", "Frames lost in each interval", vec![lost], Unit::Count, Height::FromZero),
        ("delay-over-time", "One-way delay", delays.into(), Unit::Time, Height::Fitting),
    ];
    let figures = figures.into_iter().filter_map(|(file, title, mut lines, unit, height)| {
        lines.retain(|line| line.spans.iter().any(|span| span.value.is_some()));
        let picture = (!lines.is_empty()).then(|| series(file, title, &lines, unit, height))?;
        Some(Figure::Picture { picture, note: told.clone() })
    });
    figures.collect()
}

/// The intervals that stand out among those that were merged to one.
type Parts = fn(&IntervalExtremes) -> [Option<IntervalPart>; 2];
/// What is counted of a part.
type Amount = fn(&IntervalPart) -> u64;

const SENT: Parts = |of| [of.sent_least, of.sent_most];
const RECEIVED: Parts = |of| [of.received_least, of.received_most];
const FRAMES: Amount = |part| part.frames;
const BITS: Amount = |part| part.frame_bytes.saturating_mul(8);

/// The rate over a merged interval in which `count` were counted: the intervals in it that stand out each by itself, with what is left on
/// average before, between and after them.
fn told_apart(
    of: &Interval,
    (count, amount): (u64, Amount),
    parts: [Option<IntervalPart>; 2],
) -> Vec<Span> {
    let inside = |part: &IntervalPart| of.from_ns <= part.from_ns && part.to_ns <= of.to_ns;
    let mut parts: Vec<IntervalPart> = parts.into_iter().flatten().filter(inside).collect();
    parts.sort_by_key(|part| part.from_ns);
    parts.dedup();
    let length = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    let taken: u64 = parts.iter().map(amount).fold(0, u64::saturating_add);
    let times = parts.iter().map(|part| length(part.from_ns, part.to_ns));
    let left = (length(of.from_ns, of.to_ns) - times.sum::<f64>()).max(1e-9);
    let rest = count.saturating_sub(taken) as f64 / left;
    let mut spans = Vec::new();
    let mut span = |from: u64, to: u64, value: f64| {
        if to > from {
            spans.push(Span { from_ns: from as f64, to_ns: to as f64, value: Some(value) });
        }
    };
    let mut at = of.from_ns;
    for part in &parts {
        span(at, part.from_ns, rest);
        let seconds = length(part.from_ns, part.to_ns).max(1e-9);
        span(part.from_ns, part.to_ns, amount(part) as f64 / seconds);
        at = part.to_ns;
    }
    span(at, of.to_ns, rest);
    spans
}

/// What each flow received over time, or sent where nothing was received; by its name. Empty where intervals do not have flows.
pub fn received_over_time(report: &Report) -> BTreeMap<&str, Line> {
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    // intervals in which something stands out, by their places
    let mut apart: BTreeMap<&str, BTreeMap<usize, Vec<Span>>> = BTreeMap::new();
    let receives = report.intervals.iter().any(|of| of.total.received.is_some());
    for (place, interval) in report.intervals.iter().enumerate() {
        for flow in &interval.flows {
            let line = lines.entry(flow.name.as_str()).or_insert_with(|| silent(report, receives));
            let frames = match receives {
                true => flow.received.as_ref().map(|received| received.frames),
                false => flow.sent.map(|sent| sent.frames),
            };
            if let Some(span) = line.spans.get_mut(place).filter(|span| span.value.is_some()) {
                span.value = Some(frames.unwrap_or(0) as f64 / seconds(interval));
                let parts = if receives { RECEIVED } else { SENT };
                if let Some(extremes) = &flow.extremes {
                    let spans =
                        told_apart(interval, (frames.unwrap_or(0), FRAMES), parts(extremes));
                    apart.entry(flow.name.as_str()).or_default().insert(place, spans);
                }
            }
        }
    }
    for (name, mut apart) in apart {
        let Some(line) = lines.get_mut(name) else { continue };
        let spans = std::mem::take(&mut line.spans).into_iter().enumerate();
        line.spans =
            spans.flat_map(|(place, span)| apart.remove(&place).unwrap_or(vec![span])).collect();
    }
    lines
}

/// A flow of which nothing was seen in any interval.
fn silent(report: &Report, receives: bool) -> Line {
    let length = report.intervals.first().map_or(0, |of| of.to_ns.saturating_sub(of.from_ns));
    let value = |of: &Interval| Some(0.0).filter(|_| !is_sliver(seconds(of), length));
    let spans = report.intervals.iter().map(|of| span(of, value(of))).collect();
    Line { name: if receives { "received" } else { "sent" }.to_owned(), spans }
}

pub(super) fn span(of: &Interval, value: Option<f64>) -> Span {
    Span { from_ns: of.from_ns as f64, to_ns: of.to_ns as f64, value }
}

/// Whether an interval is too short beside the first for a rate: what is left when a run ends.
pub(super) fn is_sliver(seconds: f64, first_ns: u64) -> bool {
    seconds * 1e9 < first_ns as f64 / 10.0
}

pub(super) fn seconds(of: &Interval) -> f64 {
    of.to_ns.saturating_sub(of.from_ns).max(1) as f64 / 1e9
}
