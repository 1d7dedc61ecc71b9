//! The pictures of the comparison, each with a sentence that is computed of what it shows.

use wirebeat_report::pictures::Picture;
use wirebeat_report::pictures::boxes::{Row, signed_boxes};
use wirebeat_report::pictures::cumulative::cumulative;
use wirebeat_report::pictures::distribution::Curve;
use wirebeat_report::pictures::means::{MeanRow, means};
use wirebeat_report::pictures::quantiles::Quantiles;
use wirebeat_report::pictures::scale::Unit;
use wirebeat_report::pictures::xy::{Point, Points, xy};
use wirebeat_report::student::mean_within;
use wirebeat_units::human;

use super::super::condition::Condition;
use super::super::sender::{Load, Sender};
use super::super::words::{cpu, median, row};
use super::data::{Data, FLOOD, LINE, LONG_LOADS, NINETY, SENDERS};
use crate::format;

/// A picture and what it shows.
pub type Shown = (Picture, String);

/// Who is as good as theory: within this share of it.
const NEAR: f64 = 0.01;
/// Gaps that are exact enough for most, in nanoseconds.
const EXACT_NS: f64 = 10_000.0;

/// The other tools, or ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Others,
    Wirebeat,
}

impl Group {
    pub const BOTH: [Group; 2] = [Group::Others, Group::Wirebeat];

    fn senders(self) -> Vec<Sender> {
        let ours = self == Group::Wirebeat;
        SENDERS.into_iter().filter(|sender| sender.is_wirebeat() == ours).collect()
    }

    fn name(self) -> &'static str {
        match self {
            Group::Others => "other tools",
            Group::Wirebeat => "Wirebeat",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Group::Others => "others",
            Group::Wirebeat => "wirebeat",
        }
    }
}

/// Who is within [`NEAR`] of theory at all these loads, and who is not, with the worst of each.
pub fn against_theory(
    data: &Data,
    senders: &[Sender],
    condition: Condition,
    loads: &[Load],
) -> String {
    let mut near = Vec::new();
    let mut far = Vec::new();
    let mut missing = Vec::new();
    for &sender in senders {
        let shares = loads.iter().map(|&load| (load, data.of_theory(sender, condition, load)));
        let known: Vec<(Load, f64)> =
            shares.filter_map(|(load, share)| Some((load, share? - 1.0))).collect();
        let worst = known.iter().copied().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        match worst {
            Some((_, off)) if off.abs() <= NEAR => near.push(sender.name().to_owned()),
            Some((load, off)) => {
                let at = load.payload_bits() / 1e6;
                far.push(format!("{} ({} at {at:.0} Mbit/s)", sender.name(), format::percent(off)));
            }
            None => missing.push(sender.name()),
        }
        if worst.is_some() && known.len() < loads.len() {
            missing.push(sender.name());
        }
    }
    let mut sentence = match (near.is_empty(), far.is_empty()) {
        (_, true) => format!("Within 1 % of the theory at every load: {}.", row(&near)),
        (true, _) => format!("Nobody is within 1 % of the theory at every load: {}.", row(&far)),
        _ => format!("Within 1 % of the theory at every load: {}. Not: {}.", row(&near), row(&far)),
    };
    if !missing.is_empty() {
        sentence += &format!(" Not measured everywhere: {}.", row(&missing));
    }
    sentence
}

/// Throughput against offered load, with packets of one size.
pub fn throughput(data: &Data, group: Group, loads: &[Load]) -> Shown {
    let senders = group.senders();
    let bytes = loads.first().map_or(0, |load| load.payload);
    let theory = loads.iter().map(|load| Point::new(load.payload_bits(), load.theory(LINE)));
    let mut lines = vec![Points { name: "theory".to_owned(), points: theory.collect() }];
    lines.extend(senders.iter().map(|&sender| Points {
        name: sender.name().to_owned(),
        points: points(data, sender, loads, |seen| seen.throughput),
    }));
    let title = format!("Throughput, {bytes} bytes: {}", group.name());
    let axis = ("offered load (payload)", Unit::BitRate);
    let file = format!("throughput-{bytes}-{}", group.file());
    let picture = xy(&file, &title, &lines, axis, Unit::BitRate);
    (picture, against_theory(data, &senders, Condition::Ideal, loads))
}

fn points(
    data: &Data,
    sender: Sender,
    loads: &[Load],
    figure: fn(&super::super::measurement::Seen) -> f64,
) -> Vec<Point> {
    let point = |load: &Load| {
        let values = data.values(sender, (Condition::Ideal, *load), figure);
        Point::mean(load.payload_bits(), &values)
    };
    loads.iter().filter_map(point).collect()
}

/// Throughput with 147 bytes at 89,285 packets a second: when nothing is short, and under another condition.
pub fn flood(data: &Data, condition: Option<Condition>) -> Shown {
    beside_ideal(data, condition, FLOOD, "flood")
}

/// Throughput at a load when nothing is short, and under another condition.
pub fn beside_ideal(data: &Data, condition: Option<Condition>, load: Load, file: &str) -> Shown {
    let theory = load.theory(LINE);
    let mut rows = Vec::new();
    for sender in SENDERS {
        let conditions = [Some(Condition::Ideal), condition];
        for (second, condition) in conditions.into_iter().flatten().enumerate() {
            let values = data.values(sender, (condition, load), |seen| seen.throughput);
            let (mean, within) = mean_within(&values).unzip();
            let name = if second == 0 { sender.name() } else { "  limited" }.to_owned();
            rows.push(MeanRow { name, mean, within: within.flatten(), second: second > 0 });
        }
    }
    let of = condition.unwrap_or(Condition::Ideal);
    let what = format!("{} bytes at {}/s", load.payload, human::count(load.rate));
    let title = match condition {
        None => format!("Throughput, {what}"),
        Some(condition) => format!("{what}: ideal, and {}", condition.name()),
    };
    let dashed = format!("dashed: theory, {:.1} Mbit/s", theory / 1e6);
    let file = format!("{file}-{}", of.name().replace(' ', "-").to_lowercase());
    let picture = means(&file, &title, &rows, Some((theory, &dashed)), Unit::BitRate);
    let sentence = match condition {
        None => against_theory(data, &SENDERS, of, &[load]),
        Some(condition) => format!(
            "{} {}",
            against_theory(data, &SENDERS, condition, &[load]),
            lost(data, condition, load)
        ),
    };
    (picture, sentence)
}

/// Who lost most of its throughput by a condition.
pub fn lost(data: &Data, condition: Condition, load: Load) -> String {
    let losses = SENDERS.iter().filter_map(|&sender| {
        let of =
            |condition| median(&data.values(sender, (condition, load), |seen| seen.throughput));
        let (ideal, now) = (of(Condition::Ideal)?, of(condition)?);
        Some((sender.name(), now / ideal - 1.0))
    });
    let losses: Vec<(&str, f64)> = losses.collect();
    let most = losses.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let kept = losses.iter().filter(|(_, change)| change.abs() <= NEAR).count();
    match most {
        Some((name, change)) => format!(
            "{kept} of {} keep their throughput within 1 % of what it was when nothing was short; {name} changes most, by {}.",
            losses.len(),
            format::percent(*change)
        ),
        None => "Nothing can be compared with what was measured when nothing was short.".to_owned(),
    }
}

/// The distribution of the times between two packets.
pub fn gaps(data: &Data, condition: Condition, load: Load, group: Group) -> Shown {
    let gap = load.gap_ns();
    let errors =
        group.senders().into_iter().map(|sender| (sender, data.errors(sender, condition, load)));
    let errors: Vec<(Sender, Vec<f64>)> = errors.collect();
    let curve = |(sender, errors): &(Sender, Vec<f64>)| {
        let gaps: Vec<f64> = errors.iter().map(|error| error + gap).collect();
        let quantiles = Quantiles::of_values(&gaps)?;
        Some(Curve { name: sender.name().to_owned(), quantiles })
    };
    let curves: Vec<Curve> = errors.iter().filter_map(curve).collect();
    let percent = if load == NINETY { 90 } else { 60 };
    let title = format!("Gaps at {percent} % ({:.0} µs): {}", gap / 1e3, group.name());
    let file = format!(
        "gaps-{percent}-{}-{}",
        condition.name().replace(' ', "-").to_lowercase(),
        group.file()
    );
    let axis = ("time between two packets", Unit::Time);
    let picture = cumulative(&file, &title, &curves, (0.0, gap * 2.0), axis);
    (picture, exactness(&errors))
}

/// How many gaps are within [`EXACT_NS`], and how wide the middle 98 % are.
fn exactness(errors: &[(Sender, Vec<f64>)]) -> String {
    let mut shares: Vec<(&str, f64)> = errors
        .iter()
        .filter(|(_, errors)| !errors.is_empty())
        .map(|(sender, errors)| {
            let exact = errors.iter().filter(|error| error.abs() <= EXACT_NS).count();
            (sender.name(), exact as f64 / errors.len() as f64)
        })
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> =
        shares.iter().map(|(name, share)| format!("{name} {:.1} %", share * 100.0)).collect();
    let missing = errors.iter().filter(|(_, errors)| errors.is_empty());
    let missing: Vec<&str> = missing.map(|(sender, _)| sender.name()).collect();
    let not = match missing.is_empty() {
        true => String::new(),
        false => format!(" Not measured: {}.", row(&missing)),
    };
    format!("Gaps within 10 µs of what they should be: {}.{not}", row(&words))
}

/// Box plots of the signed errors of the gaps.
pub fn boxes(data: &Data, condition: Condition, load: Load) -> Shown {
    let rows = SENDERS.iter().filter_map(|&sender| {
        let quantiles = Quantiles::of_values(&data.errors(sender, condition, load))?;
        Some(Row { name: sender.name().to_owned(), quantiles })
    });
    let rows: Vec<Row> = rows.collect();
    let percent = if load == NINETY { 90 } else { 60 };
    let title = format!("Errors of gaps at {percent} %, signed: {}", condition.name());
    let file = format!("boxes-{percent}-{}", condition.name().replace(' ', "-").to_lowercase());
    let spread = |row: &Row| row.quantiles.at(0.75) - row.quantiles.at(0.25);
    let least = rows.iter().min_by(|a, b| spread(a).total_cmp(&spread(b)));
    let most = rows.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)));
    let centred = rows.iter().filter(|row| row.quantiles.at(0.5).abs() <= EXACT_NS).count();
    let sentence = match (least, most) {
        (Some(least), Some(most)) => format!(
            "The median error is within 10 µs of 0 for {centred} of {}. Half of the gaps are within {} for {}, the narrowest, and within {} \
             for {}, the widest.",
            rows.len(),
            format::time(spread(least)),
            least.name,
            format::time(spread(most)),
            most.name
        ),
        _ => "Nothing was captured.".to_owned(),
    };
    (signed_boxes(&file, &title, &rows, Unit::Time), sentence)
}

/// CPU time against offered load.
pub fn cpu_time(data: &Data, group: Group) -> Shown {
    let senders = group.senders();
    let lines: Vec<Points> = senders
        .iter()
        .map(|&sender| Points {
            name: sender.name().to_owned(),
            points: points(data, sender, &LONG_LOADS, |seen| seen.cpu_mean() * 100.0),
        })
        .collect();
    let title = format!("CPU time in percent of one CPU, 1470 bytes: {}", group.name());
    let axis = ("offered load (payload); the line is full at 95.7 Mbit/s", Unit::BitRate);
    let picture = xy(&format!("cpu-{}", group.file()), &title, &lines, axis, Unit::Count);
    (picture, cpu_sentence(&senders, &lines))
}

fn cpu_sentence(senders: &[Sender], lines: &[Points]) -> String {
    let words = senders.iter().zip(lines).filter_map(|(sender, line)| {
        let values: Vec<f64> = line.points.iter().map(|point| point.y / 100.0).collect();
        let (first, last) = (values.first()?, values.last()?);
        let most = values.iter().copied().fold(0.0, f64::max);
        let beyond = match (values.len().checked_sub(2).and_then(|at| values.get(at)), last) {
            (Some(full), last) if *last < full * 0.9 => ", falling past saturation",
            (Some(full), last) if *last > full * 1.1 => ", rising past saturation",
            _ => ", level past saturation",
        };
        let (first, most) = (cpu(*first), cpu(most));
        Some(format!("{} from {first} to at most {most}{beyond}", sender.name()))
    });
    let words: Vec<String> = words.collect();
    format!("CPU time of the process from the lowest load on: {}.", row(&words))
}
