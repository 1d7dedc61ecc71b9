//! Which pictures a report has: from the model to the data of each.
//!
//! Pages and files of pictures have the same ones. With many flows, a picture has those of them that stand out, and says so; a picture
//! whose histograms are not there (JSON without `--histograms`) is replaced by the reason. `pictures/` draws; this knows the model.

mod flows;
mod sessions;
pub mod side_by_side;

use crate::model::{Report, Stats};
use crate::pictures::Picture;
use crate::pictures::boxes::{Row, boxes, signed_boxes};
use crate::pictures::distribution::{Curve, distribution};
use crate::pictures::quantiles::Quantiles;
use crate::pictures::scale::Unit;

pub use flows::received_over_time;

/// A picture of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// It is there.
    Picture {
        /// The picture.
        picture: Picture,
        /// What a reader has to know of it, in a sentence; empty where nothing is.
        note: String,
    },
    /// Its data is not.
    Missing {
        /// What it would show.
        title: String,
        /// Why it is not there, in a sentence.
        why: String,
    },
}

/// Pictures under a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Gallery {
    /// The heading.
    pub title: &'static str,
    /// The pictures, in their order.
    pub figures: Vec<Figure>,
}

/// What is said where histograms are missing.
const WITHOUT_HISTOGRAMS: &str =
    "The histogram is not in this report: write the JSON with --histograms to have it.";

/// All pictures of a report, by what they show.
pub fn of(report: &Report) -> Vec<Gallery> {
    let mut galleries = vec![
        Gallery { title: "Over time", figures: flows::over_time(report) },
        Gallery { title: "Distributions", figures: flows::distributions(report) },
        Gallery { title: "Box plots", figures: flows::box_plots(report) },
        Gallery { title: "Sessions over time", figures: sessions::over_time(report) },
        Gallery { title: "Times of sessions", figures: sessions::distributions(report) },
    ];
    galleries.retain(|gallery| !gallery.figures.is_empty());
    galleries
}

/// The pictures that there are, for files.
pub fn pictures(galleries: Vec<Gallery>) -> Vec<Picture> {
    let figures = galleries.into_iter().flat_map(|gallery| gallery.figures);
    let drawn = figures.filter_map(|figure| match figure {
        Figure::Picture { picture, .. } => Some(picture),
        Figure::Missing { .. } => None,
    });
    drawn.collect()
}

/// What a picture of distributions is of.
struct Subject<'a> {
    /// The name of its file.
    file: &'a str,
    title: &'a str,
    unit: Unit,
    /// What has to be known of it.
    note: String,
}

/// A distribution with the name of what it is of.
type Named<'a> = (String, &'a Stats);

/// Distribution functions of what has a histogram; `None` where nothing was measured.
fn functions(subject: &Subject<'_>, all: &[Named<'_>]) -> Option<Figure> {
    drawn(subject, all, |of| {
        let curve = |(name, quantiles)| Curve { name, quantiles };
        let curves: Vec<Curve> = of.into_iter().map(curve).collect();
        distribution(subject.file, subject.title, &curves, subject.unit)
    })
}

/// Box plots of what has a histogram; `None` where nothing was measured.
fn box_plots(subject: &Subject<'_>, all: &[Named<'_>]) -> Option<Figure> {
    let below = |stats: &Stats| stats.min.is_some_and(|min| min < 0);
    let above = |stats: &Stats| stats.max.is_some_and(|max| max > 0);
    let signs =
        all.iter().any(|(_, stats)| below(stats)) && all.iter().any(|(_, stats)| above(stats));
    let boxes = if signs { signed_boxes } else { boxes };
    drawn(subject, all, |of| {
        let row = |(name, quantiles)| Row { name, quantiles };
        let rows: Vec<Row> = of.into_iter().map(row).collect();
        boxes(subject.file, subject.title, &rows, subject.unit)
    })
}

fn drawn(
    subject: &Subject<'_>,
    all: &[Named<'_>],
    draw: impl FnOnce(Vec<(String, Quantiles)>) -> Picture,
) -> Option<Figure> {
    if all.iter().all(|(_, stats)| stats.count == 0) {
        return None;
    }
    let known = all.iter().filter_map(|(name, stats)| Some((name.clone(), Quantiles::of(stats)?)));
    let known: Vec<_> = known.collect();
    Some(match known.is_empty() {
        false => Figure::Picture { picture: draw(known), note: subject.note.clone() },
        true => {
            Figure::Missing { title: subject.title.to_owned(), why: WITHOUT_HISTOGRAMS.to_owned() }
        }
    })
}
