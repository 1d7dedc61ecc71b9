//! The pictures of a test: throughput by frame size, loss by load, the distribution of delays.

use super::TestReport;
use crate::figures::{Figure, Gallery};
use crate::pictures::distribution::{Curve, distribution};
use crate::pictures::quantiles::Quantiles;
use crate::pictures::scale::Unit;
use crate::pictures::xy::{Point, Points, xy};
use crate::pictures::{COLOURS, Picture};

/// The pictures that a test has.
pub(super) fn pictures(test: &TestReport) -> Vec<Picture> {
    [throughput(test), loss(test), delays(test)].into_iter().flatten().collect()
}

/// The same for a page.
pub(super) fn gallery(test: &TestReport) -> Gallery {
    let figure = |picture| Figure::Picture { picture, note: String::new() };
    Gallery { title: "Pictures", figures: pictures(test).into_iter().map(figure).collect() }
}

fn throughput(test: &TestReport) -> Option<Picture> {
    let goals = test.sizes.iter().map(|size| size.throughput.len()).max().unwrap_or(0);
    let line = |goal: usize| -> Option<Points> {
        let of = |size: &super::SizeReport| {
            let reached = size.throughput.get(goal)?.line_bits_per_second?;
            Some(Point::new(size.frame_bytes?, reached))
        };
        let points: Vec<Point> = test.sizes.iter().filter_map(of).collect();
        let ratio =
            test.sizes.iter().find_map(|size| Some(size.throughput.get(goal)?.loss_ratio))?;
        let name = format!("loss allowed: {}", super::tables::tolerance(ratio));
        (points.len() > 1).then_some(Points { name, points })
    };
    let mut lines: Vec<Points> = (0..goals.min(COLOURS - 1)).filter_map(line).collect();
    if lines.is_empty() {
        return None;
    }
    let max = |size: &super::SizeReport| {
        let bytes = size.frame_bytes?;
        // preamble, start delimiter and gap (IEEE 802.3)
        Some(Point::new(bytes, size.max_frames_per_second? * (bytes + 20.0) * 8.0))
    };
    let points: Vec<Point> = test.sizes.iter().filter_map(max).collect();
    lines.push(Points { name: "highest load".to_owned(), points });
    let title = "Throughput on the line by frame size";
    Some(xy("throughput", title, &lines, ("bytes of a frame", Unit::Count), Unit::BitRate))
}

fn loss(test: &TestReport) -> Option<Picture> {
    let line = |size: &super::SizeReport| {
        let points = size.loss_rate.iter();
        let points = points.map(|at| Point::new(at.of_max * 100.0, at.loss_ratio * 100.0));
        let points: Vec<Point> = points.collect();
        (points.len() > 1).then(|| Points { name: size.size.clone(), points })
    };
    let lines: Vec<Points> = test.sizes.iter().filter_map(line).take(COLOURS).collect();
    let title = "Frames lost, in percent, by load";
    let axis = ("load, in percent of the highest", Unit::Count);
    (!lines.is_empty()).then(|| xy("loss-rate", title, &lines, axis, Unit::Count))
}

fn delays(test: &TestReport) -> Option<Picture> {
    let curve = |size: &super::SizeReport| {
        let stats = size.latency.as_ref()?.delay_ns.last()?;
        Some(Curve { name: size.size.clone(), quantiles: Quantiles::of(stats)? })
    };
    let curves: Vec<Curve> = test.sizes.iter().filter_map(curve).take(COLOURS).collect();
    let title = "One-way delay at the throughput";
    (!curves.is_empty()).then(|| distribution("latency", title, &curves, Unit::Time))
}
