//! Pictures of several runs on the same axes.

use super::flows::{COMPARED, seconds, span};
use super::{Figure, Gallery, Named, Subject, functions};
use crate::model::Report;
use crate::pictures::COLOURS;
use crate::pictures::scale::Unit;
use crate::pictures::series::{Height, Line, over_time};

/// All pictures of these runs by their names; the first [`COLOURS`] of them.
pub fn of(runs: &[(&str, &Report)]) -> Vec<Gallery> {
    let shown = runs.get(..COLOURS).unwrap_or(runs);
    let note = match runs.len() {
        more if more > COLOURS => format!("The first {COLOURS} of {more} runs."),
        _ => String::new(),
    };
    let received: Vec<Line> = shown.iter().filter_map(|(name, run)| rate(name, run)).collect();
    let rates = (!received.is_empty()).then(|| {
        let (file, title) = ("compared-rate", "Frames received per second");
        let picture = over_time(file, title, &received, Unit::FrameRate, Height::FromZero);
        Figure::Picture { picture, note: note.clone() }
    });
    let distributions = COMPARED.iter().filter_map(|(file, title, unit, find)| {
        let named =
            shown.iter().filter_map(|(name, run)| Some(((*name).to_owned(), find(&run.total)?)));
        let named: Vec<Named<'_>> = named.collect();
        let (file, title) = (format!("compared-{file}"), format!("{title}, all flows"));
        let subject = Subject { file: &file, title: &title, unit: *unit, note: note.clone() };
        functions(&subject, &named)
    });
    let galleries = vec![
        Gallery { title: "Over time", figures: rates.into_iter().collect() },
        Gallery { title: "Distributions", figures: distributions.collect() },
    ];
    galleries.into_iter().filter(|gallery| !gallery.figures.is_empty()).collect()
}

/// What a run received over time.
fn rate(name: &str, run: &Report) -> Option<Line> {
    let spans = run.intervals.iter().map(|of| {
        let received = of.total.received.as_ref();
        span(of, received.map(|received| received.frames as f64 / seconds(of)))
    });
    let spans: Vec<_> = spans.collect();
    let some = spans.iter().any(|span| span.value.is_some());
    some.then(|| Line { name: name.to_owned(), spans })
}
