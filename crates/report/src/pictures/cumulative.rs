//! Empirical distribution functions: the share of all values up to each value, over a part of the axis.

use super::Picture;
use super::distribution::Curve;
use super::plot::{Axis, Plot};
use super::scale::{Scale, Unit};
use crate::human;

/// Columns of the picture in which a line has a point.
const COLUMNS: usize = 320;
/// Ticks of the shares.
const SHARES: [(f64, &str); 5] =
    [(0.0, "0 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 %")];
/// Quantiles that the description names.
const NAMED: [f64; 5] = [0.01, 0.25, 0.5, 0.75, 0.99];

/// A picture of distribution functions between two values. Shares below and above are in the description.
pub fn cumulative(
    name: &str,
    title: &str,
    curves: &[Curve],
    (low, high): (f64, f64),
    (below, unit): (&str, Unit),
) -> Picture {
    let x = Scale::Linear { low, high: if high > low { high } else { low + 1.0 } };
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    let mut plot = Plot::new(title, &names);
    let shares = SHARES.iter().map(|(place, label)| (*place, (*label).to_owned()));
    plot.y_axis(&Axis { ticks: shares.collect(), title: String::new() });
    plot.x_axis(&Axis::of(x, x.ticks(unit), below));
    for (number, curve) in curves.iter().enumerate() {
        let mut points = Vec::with_capacity(COLUMNS * 2);
        let mut before = curve.quantiles.share_upto(low);
        points.push(Some((0.0, before)));
        for column in 1..=COLUMNS {
            let place = column as f64 / COLUMNS as f64;
            let share = curve.quantiles.share_upto(low + (high - low) * place);
            if share != before {
                points.extend([Some((place, before)), Some((place, share))]);
                before = share;
            }
        }
        points.push(Some((1.0, before)));
        plot.curve(number, points.into_iter());
    }
    let words = curves.iter().map(|curve| described(curve, (low, high), unit));
    plot.finish(name, title, words.collect::<Vec<_>>().join("; "))
}

fn described(curve: &Curve, (low, high): (f64, f64), unit: Unit) -> String {
    let Curve { name, quantiles } = curve;
    let at = |share: &f64| format!("{} up to {}", percent(*share), unit.show(quantiles.at(*share)));
    let named: Vec<String> = NAMED.iter().map(at).collect();
    let (before, upto) = (quantiles.share_upto(low), quantiles.share_upto(high));
    format!(
        "{name}: {}; {} left of the picture, {} right of it",
        named.join(", "),
        percent(before),
        percent(1.0 - upto)
    )
}

fn percent(share: f64) -> String {
    human::percent(share)
}
