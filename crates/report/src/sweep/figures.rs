//! The pictures of a sweep: a line for each combination of the other variables, over the one with the most numbers.

use wirebeat_units::{BitRate, Bytes, FrameRate, Nanos};

use super::{Metric, Sweep};
use crate::figures::{Figure, Gallery};
use crate::model::FlowReport;
use crate::pictures::scale::Unit;
use crate::pictures::xy::{Point, Points, xy};
use crate::pictures::{COLOURS, Picture};

const METRICS: [Metric; 4] = [
    ("sweep-received", "Frames received per second", Unit::FrameRate, |flow| {
        Some(flow.received.as_ref()?.rates?.frames_per_second)
    }),
    ("sweep-sent", "Frames sent per second", Unit::FrameRate, |flow| {
        flow.received.is_none().then_some(())?;
        Some(flow.sent.as_ref()?.rates?.frames_per_second)
    }),
    ("sweep-loss", "Frames lost, in percent", Unit::Count, |flow| Some(flow.loss?.ratio? * 100.0)),
    ("sweep-delay", "99th percentile of the one-way delay", Unit::Time, |flow| {
        Some(flow.received.as_ref()?.one_way_delay_ns.as_ref()?.percentiles.p99? as f64)
    }),
];

/// Where a run with these values is on the axis below, and the line that it belongs to.
type Find<'a> = Box<dyn Fn(&[String]) -> Option<(f64, String)> + 'a>;

/// The axis below: its name, its unit, where a run is on it, and the line that the run belongs to.
struct Below<'a> {
    name: &'a str,
    unit: Unit,
    find: Find<'a>,
}

/// The pictures that a sweep has.
pub(super) fn pictures(sweep: &Sweep) -> Vec<Picture> {
    let below = match &sweep.services {
        Some(_) => Some(of_services()),
        None => of_variables(sweep),
    };
    let Some(below) = below else { return Vec::new() };
    METRICS.iter().filter_map(|metric| picture(sweep, &below, metric)).collect()
}

/// Of a test of services: the steps of the configuration test, a line for each service.
fn of_services() -> Below<'static> {
    let find = |values: &[String]| match values {
        [test, service, load] if test == "configuration" => {
            let share = load.strip_suffix("% of CIR")?.parse::<f64>().ok()?;
            Some((share, service.clone()))
        }
        _ => None,
    };
    Below { name: "load, in percent of CIR", unit: Unit::Count, find: Box::new(find) }
}

/// The variable with the most numbers, a line for each combination of the others.
fn of_variables(sweep: &Sweep) -> Option<Below<'_>> {
    let (below, unit) = axis(sweep)?;
    let find = move |values: &[String]| {
        let (x, _) = values.get(below).and_then(|value| number(value))?;
        let others = sweep.variables.iter().zip(values).enumerate();
        let others: Vec<String> = others
            .filter(|(place, _)| *place != below)
            .map(|(_, (name, value))| format!("{name} {value}"))
            .collect();
        Some((x, others.join(", ")))
    };
    Some(Below { name: sweep.variables.get(below)?, unit, find: Box::new(find) })
}

/// The same for a page.
pub(super) fn gallery(sweep: &Sweep) -> Gallery {
    let figure = |picture| Figure::Picture { picture, note: String::new() };
    Gallery { title: "Pictures", figures: pictures(sweep).into_iter().map(figure).collect() }
}

/// The variable whose values are all numbers of one kind, and the most of them.
fn axis(sweep: &Sweep) -> Option<(usize, Unit)> {
    let of = |place: usize| {
        let mut values: Vec<&str> = sweep
            .points
            .iter()
            .filter_map(|point| point.values.get(place).map(String::as_str))
            .collect();
        values.sort_unstable();
        values.dedup();
        let (first, others) = values.split_first()?;
        let (_, unit) = number(first)?;
        let same = others.iter().all(|value| number(value).is_some_and(|(_, of)| of == unit));
        (same && !others.is_empty()).then_some((values.len(), place, unit))
    };
    let all = (0..sweep.variables.len()).filter_map(of);
    all.max_by_key(|(count, place, _)| (*count, usize::MAX - place))
        .map(|(_, place, unit)| (place, unit))
}

/// A value as a number, where it is one.
fn number(text: &str) -> Option<(f64, Unit)> {
    if let Ok(value) = text.parse::<f64>() {
        return value.is_finite().then_some((value, Unit::Count));
    }
    if let Ok(rate) = text.parse::<FrameRate>() {
        return Some((rate.per_second(), Unit::FrameRate));
    }
    if let Ok(rate) = text.parse::<BitRate>() {
        return Some((rate.0 as f64, Unit::BitRate));
    }
    if let Ok(time) = text.parse::<Nanos>() {
        return Some((time.get() as f64, Unit::Time));
    }
    let bytes = text.parse::<Bytes>().ok()?;
    Some((bytes.get() as f64, Unit::Count))
}

fn picture(sweep: &Sweep, below: &Below<'_>, metric: &Metric) -> Option<Picture> {
    let (file, title, of_metric, find) = metric;
    let mut lines: Vec<Points> = Vec::new();
    for of in sweep.repetitions() {
        let values: Vec<f64> =
            of.reports.iter().filter_map(|report| find(&report.total as &FlowReport)).collect();
        let Some((x, name)) = (below.find)(of.values) else { continue };
        let Some(point) = Point::mean(x, &values) else { continue };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Points { name, points: vec![point] }),
        }
    }
    lines.truncate(COLOURS);
    let (name, unit) = (below.name, below.unit);
    (!lines.is_empty()).then(|| xy(file, title, &lines, (name, unit), *of_metric))
}
