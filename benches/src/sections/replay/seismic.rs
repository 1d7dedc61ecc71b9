//! The shape of a seismic archive: many devices that share timestamps, and a window of 100 µs.

use super::Part;
use super::series::Series;
use super::violations::{COLUMNS, Missed, at_its_times, brief, cells, per_million, shortened};
use crate::format::{self, NOTHING};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;

const ABOVE: &str = "\
The shape of a seismic archive: 28 bytes of data, 1,399 devices, T_d = 100 µs, engine `kernel`. Records of one time leave one \
after the other, so that the last of n is late by n times what a record takes; all 1,399 at one time fit the window \
only where a record takes less than 71 ns. So devices share their times by the hundred, the hundreds evenly after each \
other; once all 1,399 share one, for comparison and without a target. The archive that figures were published of has 2.8 \
billion records in 24 hours, 32,400 each second; one row has that pace, the others a million each second.";

const LEFT_OUT: &str = "minutes and gigabytes: only with --full";
const DEVICES: u64 = 1_399;
const WINDOW_US: u64 = 100;
/// The most of a million that may be missed.
const TARGET: f64 = 2.0;

struct Case {
    name: &'static str,
    series: Series,
    published: &'static str,
    /// Whether the target is meant for it, and whether it takes its time.
    target: bool,
    long: bool,
}

const fn series(records: u64, together: u64, every_us: u64) -> Series {
    Series { records, together, every_us, devices: DEVICES, size: 28 }
}

const CASES: [Case; 5] = [
    Case {
        name: "1 M at the published pace",
        series: series(1_000_000, 100, 3_086),
        published: "118",
        target: true,
        long: false,
    },
    Case {
        name: "1 M",
        series: series(1_000_000, 100, 100),
        published: "118",
        target: true,
        long: false,
    },
    Case {
        name: "10 M",
        series: series(10_000_000, 100, 100),
        published: NOTHING,
        target: true,
        long: false,
    },
    Case {
        name: "100 M",
        series: series(100_000_000, 100, 100),
        published: "173 of 2.8 billion",
        target: true,
        long: true,
    },
    Case {
        name: "1 M, all devices at one time",
        series: series(1_000_000, DEVICES, DEVICES),
        published: NOTHING,
        target: false,
        long: false,
    },
];

/// Measures all cases.
pub fn measure(bench: &mut Bench) -> Part {
    let mut head = vec!["records", "each second", "at one time"];
    head.extend(COLUMNS);
    let mut table = Table::new(&head);
    let mut verdicts = Vec::new();
    for Case { name, series, published, target, long } in CASES {
        let series = shortened(series, bench.extent);
        let left_out = long && bench.extent != Extent::Full;
        let measured = if left_out { Measured::default() } else { one(bench, name, &series) };
        let mut row = vec![
            format::rate(series.records as f64),
            format::rate(series.together as f64 * 1e6 / series.every_us as f64),
            series.together.to_string(),
        ];
        row.extend(cells(&measured, WINDOW_US, published.to_owned()));
        if left_out {
            row.pop();
            row.push(LEFT_OUT.to_owned());
        }
        table.row(row);
        if target && left_out {
            verdicts.push(Verdict::unmeasured(target_of(name), LEFT_OUT));
        } else if target {
            verdicts.push(verdict(name, &measured));
        }
    }
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts }
}

fn one(bench: &mut Bench, name: &str, series: &Series) -> Measured<Missed> {
    let name = format!("seismic, {name}");
    if !bench.wants(&name) {
        return Measured::default();
    }
    let archive = match series.write(&bench.lab) {
        Ok(archive) => archive,
        Err(why) => return Measured::failed(&why),
    };
    let archive = &archive;
    let contestant =
        Contestant::new(name, |bench| at_its_times(bench, (series, archive), WINDOW_US, ""));
    in_turn(bench, &[contestant], brief).pop().unwrap_or_default()
}

fn target_of(name: &str) -> String {
    format!("seismic shape, {name}: missed ≤ {TARGET} of a million within 100 µs")
}

fn verdict(name: &str, measured: &Measured<Missed>) -> Verdict {
    let target = target_of(name);
    let missed = measured.series(per_million);
    match missed.median() {
        Some(median) => {
            let noise = measured.series(|missed| missed.expected(WINDOW_US));
            let of_million =
                measured.values.first().map_or(0, |missed| missed.records) as f64 / 1e6;
            let noise = noise.median().unwrap_or(0.0) / of_million.max(f64::MIN_POSITIVE);
            let shown = format::series(&missed, format::number);
            let figure = format!("{shown} (interruptions alone: {})", format::number(noise));
            Verdict::at_most(target, figure, (median, TARGET, noise))
        }
        None => Verdict::unmeasured(target, measured.reason()),
    }
}
