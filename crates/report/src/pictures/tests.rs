use proptest::prelude::*;

use super::boxes::{Row, boxes, signed_boxes};
use super::cumulative::cumulative;
use super::distribution::{Curve, distribution};
use super::means::{MeanRow, means};
use super::quantiles::{OUTLIERS, Quantiles};
use super::scale::{Scale, Unit, time_ticks};
use super::series::{Height, Line, over_time, small};
use super::thin::{Span, points};
use super::xy::{Point, Points, xy};
use super::{Picture, coordinate, escape};
use crate::golden::{Noise, golden};
use crate::model::{Bucket, Stats};

const SECOND: f64 = 1e9;
const UNITS: [Unit; 5] = [Unit::Time, Unit::FrameRate, Unit::BitRate, Unit::Count, Unit::PerSecond];

fn every_second(name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Line {
    let spans = values.into_iter().enumerate().map(|(second, value)| Span {
        from_ns: second as f64 * SECOND,
        to_ns: (second + 1) as f64 * SECOND,
        value,
    });
    Line { name: name.to_owned(), spans: spans.collect() }
}

fn histogram(buckets: &[(i64, i64, u64)]) -> Stats {
    let histogram: Vec<Bucket> = buckets.iter().map(|&(a, b, n)| Bucket(a, b, n)).collect();
    Stats {
        count: buckets.iter().fold(0_u64, |sum, bucket| sum.saturating_add(bucket.2)),
        min: buckets.first().map(|bucket| bucket.0),
        max: buckets.last().map(|bucket| bucket.1),
        histogram,
        ..Stats::default()
    }
}

fn quantiles(buckets: &[(i64, i64, u64)]) -> Quantiles {
    Quantiles::of(&histogram(buckets)).unwrap()
}

/// Delays of a network that is sometimes slow.
fn delays(seed: u64, median: f64) -> Quantiles {
    let mut noise = Noise(seed);
    let mut values: Vec<i64> = (0..100_000).map(|_| noise.time(median) as i64).collect();
    values.sort_unstable();
    let buckets: Vec<_> = values
        .chunk_by(|a, b| a / 50 == b / 50)
        .map(|of| (of[0] / 50 * 50, of[0] / 50 * 50 + 49, of.len() as u64))
        .collect();
    quantiles(&buckets)
}

/// Every number in the attributes that place something.
fn numbers(svg: &str) -> Vec<f64> {
    let mut numbers = Vec::new();
    for attribute in
        [" d=\"", " x=\"", " y=\"", " cx=\"", " cy=\"", " r=\"", " width=\"", " height=\""]
    {
        for part in svg.split(attribute).skip(1) {
            let value = part.split('"').next().unwrap();
            let words = value.split(['M', 'L', ' ']).filter(|word| !word.is_empty());
            numbers.extend(words.map(|word| word.parse::<f64>().unwrap_or(f64::NAN)));
        }
    }
    numbers
}

fn assert_sound(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf\"") && svg.len() < 80_000, "{}", svg.len());
    let wild =
        numbers(svg).into_iter().find(|number| !number.is_finite() || number.abs() > 9_999.0);
    assert_eq!(wild, None, "{svg}");
    assert!(svg.contains("role=\"img\"") && svg.contains("<title"), "{svg}");
}

fn assert_picture(picture: &Picture) {
    let svg = picture.element();
    assert_sound(&svg);
    assert!(svg.contains("<desc ") && !picture.description.is_empty());
}

/// In 1,000 columns for 3,600 intervals it could have been the second that is left out.
#[test]
fn an_outage_of_a_second_in_an_hour_stays_visible() {
    for at in [0, 1, 1_799, 2_347, 3_598, 3_599] {
        let rates = (0..3_600).map(|second| Some(if second == at { 0.0 } else { 1_000.0 }));
        let line = every_second("received", rates);
        for columns in [96, 400] {
            let points = points(&line.spans, columns);
            assert!(points.len() <= columns * 2);
            let silent = points.iter().flatten().filter(|(_, value)| *value == 0.0);
            let times: Vec<f64> = silent.map(|(time, _)| *time).collect();
            assert_eq!(times, [(at as f64 + 0.5) * SECOND], "second {at}, {columns} columns");
        }
        let picture = over_time(
            "rate",
            "Rate",
            std::slice::from_ref(&line),
            Unit::FrameRate,
            Height::FromZero,
        );
        assert!(picture.description.contains("least 0 pps at"), "{}", picture.description);
        // the line reaches the lower end of the picture and comes back
        let path = picture.element();
        let path = path.split("class=\"s s1\"").next().unwrap().rsplit(" d=\"").next().unwrap();
        let heights: Vec<f64> = path
            .trim_end_matches(['"', ' '])
            .split(['M', 'L'])
            .filter_map(|point| point.split_once(' ')?.1.parse().ok())
            .collect();
        let lowest = heights.iter().copied().fold(0.0, f64::max);
        assert_eq!(heights.iter().filter(|y| **y == lowest).count(), 1, "second {at}: {path}");
        let small = small(&line, Unit::FrameRate);
        assert!(small.len() < 4_000 && small.contains("least 0 pps"), "{}", small.len());
    }
}

#[test]
fn a_gap_in_a_series_is_a_gap_in_its_line() {
    let line = every_second("delay", [Some(1.0), None, Some(2.0)]);
    let svg = over_time("delay", "Delay", &[line], Unit::Time, Height::Fitting).element();
    let path = svg.split("class=\"s s1\"").next().unwrap().rsplit(" d=\"").next().unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
}

#[test]
fn ticks_are_round_and_few() {
    let labels = |ticks: Vec<(f64, String)>| -> Vec<String> {
        ticks.into_iter().map(|(_, label)| label).collect()
    };
    let scale = |values: &[f64]| Scale::fitting(values.iter().copied());
    for (scale, unit, expected) in [
        (
            scale(&[4_000.0, 250_000.0]),
            Unit::Time,
            vec!["1 µs", "2 µs", "5 µs", "10 µs", "20 µs", "50 µs", "100 µs", "200 µs"],
        ),
        (
            scale(&[4.0, 250_000.0]),
            Unit::Time,
            vec!["1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs"],
        ),
        (
            scale(&[0.0, 1_000.0]),
            Unit::Time,
            vec!["0 ns", "200 ns", "400 ns", "600 ns", "800 ns", "1 µs", "1.2 µs"],
        ),
        (
            Scale::from_zero([12_500.0].into_iter()),
            Unit::FrameRate,
            vec!["0 pps", "5 kpps", "10 kpps", "15 kpps"],
        ),
        (
            Scale::from_zero([0.0].into_iter()),
            Unit::Count,
            vec!["0", "0.2", "0.4", "0.6", "0.8", "1"],
        ),
        (Scale::from_zero([-3.0, 4.0].into_iter()), Unit::Count, vec!["-4", "-2", "0", "2", "4"]),
        (Scale::Percentile, Unit::Time, vec!["0", "50", "90", "99", "99.9", "99.99", "99.999"]),
    ] {
        assert_eq!(labels(scale.ticks(unit)), expected);
    }
    for (seconds, expected) in [
        (0.5, vec!["0", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms"]),
        (10.2, vec!["0", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (3_600.0, vec!["0", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]),
    ] {
        assert_eq!(labels(time_ticks(seconds * SECOND)), expected, "{seconds}");
    }
}

#[test]
fn each_nine_of_a_percentile_has_as_much_room() {
    let places = [0.0, 90.0, 99.0, 99.9, 99.99, 99.999].map(|of| Scale::Percentile.place(of));
    for (nines, place) in places.into_iter().enumerate() {
        assert!((place - nines as f64 / 5.0).abs() < 1e-9, "{nines} nines: {place}");
    }
}

/// The example of 1 to 100 in buckets of one value, with three values far away.
#[test]
fn boxes_are_those_of_tukey() {
    let mut buckets: Vec<(i64, i64, u64)> = (1..=100).map(|value| (value, value, 1)).collect();
    buckets.extend([(170, 170, 2), (400, 400, 1)]);
    let of = quantiles(&buckets).boxed();
    assert_eq!(of.quartiles, [26.0, 52.0, 78.0]);
    assert_eq!((of.min, of.low, of.high, of.max), (1.0, 1.0, 100.0, 400.0));
    assert_eq!(of.outliers, [(170.0, 2), (400.0, 1)]);
}

#[test]
fn thinned_outliers_keep_their_counts() {
    let inside = (1..=1_000).map(|value| (value, value, 1_000));
    let outside = (0..500).map(|n| (10_000 + n * 7, 10_000 + n * 7, n as u64 % 3 + 1));
    let all: Vec<(i64, i64, u64)> = inside.chain(outside).collect();
    let of = quantiles(&all).boxed();
    assert_eq!(of.outliers.len(), OUTLIERS);
    let counted: u64 = of.outliers.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, (0..500).map(|n| n % 3 + 1).sum::<u64>());
    assert!(of.outliers.iter().all(|(value, _)| *value >= 10_000.0));
}

#[test]
fn pictures_are_as_reviewed() {
    let rates = (0..40).map(|second| Some(if second == 23 { 310.0 } else { 12_500.0 }));
    let sent = every_second("sent", (0..40).map(|_| Some(12_500.0)));
    let received = every_second("received", rates);
    let rate = over_time(
        "rate",
        "Frames per second",
        &[sent, received],
        Unit::FrameRate,
        Height::FromZero,
    );
    golden("tests/golden/pictures/rate.svg", &rate.file());
    let curve =
        |name: &str, seed, median| Curve { name: name.to_owned(), quantiles: delays(seed, median) };
    let curves = [curve("voice", 1, 5_200.0), curve("<b>bulk</b>", 2, 90_000.0)];
    let delay = distribution("delay", "One-way delay", &curves, Unit::Time);
    golden("tests/golden/pictures/delay.svg", &delay.file());
    let row =
        |name: &str, seed, median| Row { name: name.to_owned(), quantiles: delays(seed, median) };
    let rows = [row("voice", 3, 800.0), row("a long name of a flow", 4, 20_000.0)];
    let lateness = boxes("lateness", "Send lateness", &rows, Unit::Time);
    golden("tests/golden/pictures/lateness.svg", &lateness.file());
    for picture in [rate, delay, lateness] {
        assert_picture(&picture);
    }
}

#[test]
fn names_are_text_in_pictures() {
    let wild = "</svg><script>alert(1)</script>\x1b[31m\"'&\r\n\u{202e}";
    let line = every_second(wild, [Some(1.0), Some(2.0)]);
    let rows = [Row { name: wild.to_owned(), quantiles: quantiles(&[(1, 2, 3)]) }];
    let other = every_second(wild, [Some(3.0)]);
    for picture in [
        over_time("a", wild, &[line, other], Unit::Count, Height::FromZero),
        boxes("b", wild, &rows, Unit::Count),
    ] {
        let svg = picture.file();
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(!svg.contains("<script") && !svg.contains('\x1b') && !svg.contains('\u{202e}'));
    }
    assert_eq!(escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
}

#[test]
fn coordinates_are_short_and_never_wild() {
    for (value, text) in [
        (1.0, "1"),
        (1.25, "1.3"),
        (-0.04, "0"),
        (-2.5, "-2.5"),
        (f64::NAN, "0"),
        (f64::INFINITY, "0"),
        (1e300, "9999"),
    ] {
        assert_eq!(coordinate(value), text);
    }
}

proptest! {
    #[test]
    fn any_series_makes_a_sound_picture(
        values in proptest::collection::vec(proptest::option::of(any::<f64>()), 0..1_500),
        unit in 0..UNITS.len(),
        fitting: bool,
    ) {
        let line = every_second("x", values.clone());
        let height = if fitting { Height::Fitting } else { Height::FromZero };
        assert_picture(&over_time("x", "x", std::slice::from_ref(&line), UNITS[unit], height));
        assert_sound(&small(&line, UNITS[unit]));
        // what stands out stays
        let spans = &line.spans;
        let kept = points(spans, 96);
        let finite = || values.iter().flatten().copied().filter(|value| !value.is_nan());
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        if values.iter().flatten().all(|value| !value.is_nan()) && finite().count() > 0 {
            prop_assert!(kept.iter().flatten().any(|(_, value)| *value == most));
        }
    }

    #[test]
    fn any_histogram_makes_sound_pictures(
        buckets in proptest::collection::vec((any::<i64>(), any::<i64>(), any::<u64>()), 0..200),
        min in proptest::option::of(any::<i64>()),
        max in proptest::option::of(any::<i64>()),
        below in any::<u64>(),
    ) {
        let stats = Stats {
            min,
            max,
            below_histogram: below,
            histogram: buckets.iter().map(|&(a, b, n)| Bucket(a, b, n)).collect(),
            ..Stats::default()
        };
        if let Some(quantiles) = Quantiles::of(&stats) {
            let of = quantiles.boxed();
            prop_assert!(of.outliers.len() <= 2 * OUTLIERS);
            prop_assert!(of.quartiles.is_sorted());
            let row = Row { name: "x".to_owned(), quantiles: quantiles.clone() };
            assert_picture(&boxes("x", "x", &[row], Unit::Time));
            let curve = Curve { name: "x".to_owned(), quantiles };
            assert_picture(&distribution("x", "x", &[curve], Unit::Time));
        }
    }
}

#[test]
fn values_as_they_are_have_the_quantiles_of_a_histogram() {
    let quantiles = Quantiles::of_values(&[3.0, 1.0, f64::NAN, 2.0, 2.0]).unwrap();
    assert_eq!((quantiles.min(), quantiles.at(0.5), quantiles.max()), (1.0, 2.0, 3.0));
    let shares = [0.5, 1.0, 2.5, 9.0].map(|value| quantiles.share_upto(value));
    assert_eq!(shares, [0.0, 0.25, 0.75, 1.0]);
    assert_eq!(Quantiles::of_values(&[f64::NAN]), None);
}

/// Of 20 values, one that was seen in none of them was drawn as far as 99.999 %.
#[test]
fn a_distribution_ends_at_its_last_value() {
    let path = |count: u32| {
        let values: Vec<f64> = (1..=count).map(f64::from).collect();
        let quantiles = Quantiles::of_values(&values).unwrap();
        let curves = [Curve { name: "a".into(), quantiles }];
        let picture = distribution("d", "D", &curves, Unit::Time);
        assert_picture(&picture);
        let svg = picture.element();
        let path = svg.split("class=\"s s1\"").next().unwrap().rsplit(" d=\"").next().unwrap();
        let points: Vec<(f64, f64)> = path
            .trim_end_matches(['"', ' '])
            .split(['M', 'L'])
            .filter_map(|point| {
                let (x, y) = point.split_once(' ')?;
                Some((x.parse().ok()?, y.parse().ok()?))
            })
            .collect();
        (points, svg.matches("<circle").count(), picture.description)
    };
    let (points, circles, described) = path(20);
    let [.., (before, second), (last, largest)] = points[..] else { panic!("{points:?}") };
    // from 82 to 464; 95 % are log10(0.05) of five decades
    let expected = 82.0 + 382.0 * 20_f64.log10() / 5.0;
    assert!((last - expected).abs() < 0.1 && before == last, "{points:?}");
    assert!(second > largest, "{points:?}");
    assert_eq!((circles, described.as_str()), (1, "a: min 1 ns, p50 10 ns, max 20 ns"));
    let (points, circles, _) = path(1);
    assert_eq!((points.last().map(|point| point.0), circles), (Some(82.0), 1));
    let (points, circles, _) = path(200_000);
    assert_eq!((points.last().map(|point| point.0), circles), (Some(464.0), 0));
}

#[test]
fn values_at_moments_are_marked_points() {
    let spans = [(0.0, 0.0), (1.0, 3.0), (2.0, 0.0)];
    let spans = spans.map(|(second, value)| Span::point(second * SECOND, value)).into();
    let line = Line { name: "open".to_owned(), spans };
    let svg = over_time("o", "Open", &[line], Unit::Count, Height::FromZero).element();
    let path = svg.split("class=\"s s1\"").next().unwrap().rsplit(" d=\"").next().unwrap();
    assert_eq!((path.matches('L').count(), svg.matches("<circle").count()), (2, 3), "{svg}");
}

#[test]
fn a_signed_scale_shows_both_signs_alike() {
    let scale = Scale::signed([-90_000.0, 3.0].into_iter());
    assert_eq!((scale.place(0.0), scale.place(-1e5), scale.place(1e5)), (0.5, 0.0, 1.0));
    let (one, other) = (scale.place(1_000.0), scale.place(-1_000.0));
    assert!((one + other - 1.0).abs() < 1e-12 && one > 0.6, "{one} {other}");
    let labels: Vec<String> = scale.ticks(Unit::Time).into_iter().map(|tick| tick.1).collect();
    let far = ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs"];
    let near = far.iter().rev().map(|label| format!("-{label}")).chain(["0 ns".to_owned()]);
    let expected: Vec<String> = near.chain(far.map(str::to_owned)).collect();
    assert_eq!(labels, expected);
    let none = Scale::signed(std::iter::empty());
    assert_eq!((none.place(0.0), none.place(f64::NAN)), (0.5, 0.0));
}

#[test]
fn distribution_functions_rise_from_the_share_before_to_the_share_after() {
    let values: Vec<f64> = (0..1_000).map(|n| f64::from(n % 100) * 2_000.0).collect();
    let curve = Curve { name: "a".into(), quantiles: Quantiles::of_values(&values).unwrap() };
    let axis = ("gap", Unit::Time);
    let picture = cumulative("gaps", "Gaps", &[curve], (50_000.0, 150_000.0), axis);
    assert_picture(&picture);
    assert!(picture.description.contains("26.0 % left of the picture"), "{}", picture.description);
    let nothing = cumulative("gaps", "Gaps", &[], (0.0, 0.0), axis);
    assert_sound(&nothing.element());
}

#[test]
fn means_have_their_intervals_and_what_they_are_held_against() {
    let row = |name: &str, mean, within| MeanRow { name: name.into(), mean, within, second: false };
    let rows = [row("a", Some(69e6), Some(1e6)), row("b", Some(12e6), None), row("c", None, None)];
    let picture = means("m", "Means", &rows, Some((70e6, "theory")), Unit::BitRate);
    assert_picture(&picture);
    assert!(
        picture.description.contains("a: 69.0 Mbit/s ± 1.00 Mbit/s"),
        "{}",
        picture.description
    );
    assert!(picture.description.contains("c: not measured; theory: 70.0 Mbit/s"));
    assert_sound(&means("m", "Means", &[], None, Unit::Time).element());
}

#[test]
fn signed_boxes_have_the_sign_of_what_they_show() {
    let quantiles = Quantiles::of_values(&[-1e6, -10.0, 0.0, 10.0, 2e6]).unwrap();
    let rows = [Row { name: "a".into(), quantiles }];
    let picture = signed_boxes("b", "Errors", &rows, Unit::Time);
    assert_picture(&picture);
    assert!(picture.element().contains("logarithmic on both sides of 0"));
}

/// A mean of several runs stands with its interval, on the picture and in its text; a single value has none.
#[test]
fn points_of_several_values_have_their_interval() {
    let three = Point::mean(2.0, &[9.0, 10.0, 11.0, f64::NAN]).unwrap();
    let [low, high] = three.ends();
    assert!((low - (10.0 - 2.484)).abs() < 0.01 && (high - 12.484).abs() < 0.01, "{three:?}");
    assert_eq!(Point::mean(2.0, &[f64::NAN]), None);
    let line = |points| Points { name: "sent".to_owned(), points };
    let below = ("offered", Unit::Count);
    let of = |points| xy("a", "a", &[line(points)], below, Unit::Count);
    let both = of(vec![Point::new(1.0, 5.0), three]);
    assert_eq!(both.element().matches("interval\"").count(), 3);
    assert!(both.description.contains("10 ± 2.48 at 2"), "{}", both.description);
    assert!(both.description.contains("5 at 1"), "{}", both.description);
    assert!(!of(vec![Point::new(1.0, 5.0)]).element().contains("interval\""));
    // the upper end is on the picture, and what would be below zero ends there
    let wide = of(vec![Point { x: 1.0, y: 5.0, within: Some(50.0) }]);
    assert!(numbers(&wide.element()).iter().all(|number| (0.0..=2_000.0).contains(number)));
}
