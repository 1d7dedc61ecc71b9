//! How many records miss their time, beside what the machine alone would cost.

use std::thread;
use std::time::Duration;

use wirebeat_host::CpuTimes;

use super::series::{Archive, Series};
use super::{Part, replayed};
use crate::format::{self, NOTHING};
use crate::gaps::Gaps;
use crate::lab::Failure;
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::Sink;
use crate::stats;
use crate::table::Table;
use crate::verdict::Verdict;

const ABOVE: &str = "\
Time violations: 70 bytes of data, engine `kernel`. A record leaves in the first instant after its time at the \
soonest; with T_d = 0 Wirebeat drops what does not leave within the microsecond that the archive knows.";

/// Drift windows in microseconds.
const WINDOWS: [u64; 5] = [0, 5, 10, 20, 25];

/// A way that records come, and what was published of it: for each of [`WINDOWS`] from how many to how many dropped.
struct Case {
    series: Series,
    published: [Option<(u64, u64)>; 5],
}

const fn case(
    (records, together): (u64, u64),
    devices: u64,
    published: [Option<(u64, u64)>; 5],
) -> Case {
    Case { series: Series { records, together, every_us: 1, devices, size: 70 }, published }
}

const ONE: [Option<(u64, u64)>; 5] =
    [Some((463, 463)), Some((32, 40)), Some((0, 0)), Some((0, 0)), Some((0, 0))];
/// Of these the window of the first figure is not named; it stands in the place of the case before, at 0.
const FIVE: [Option<(u64, u64)>; 5] =
    [Some((2_700, 2_700)), None, Some((128, 173)), Some((0, 0)), Some((0, 0))];
const TWICE: [Option<(u64, u64)>; 5] = [Some((12_000, 26_000)), None, None, None, Some((0, 0))];

const CASES: [Case; 6] = [
    case((1_000_000, 1), 1, ONE),
    case((1_000_000, 1), 100, ONE),
    case((5_000_000, 1), 1, FIVE),
    case((5_000_000, 1), 100, FIVE),
    case((5_000_000, 2), 1, TWICE),
    case((5_000_000, 2), 100, TWICE),
];

/// What came of sending records at their times.
#[derive(Clone, Debug)]
pub struct Missed {
    /// Records that were to be sent.
    pub records: u64,
    /// Those that were later than the window.
    pub dropped: u64,
    /// Those that came too late from the reader.
    starved: u64,
    /// The gaps of the machine before and after it, and those that came between while it waited.
    gaps: Gaps,
    heard: Gaps,
    /// Time that the hypervisor took from the machine meanwhile; `None` where it is not told.
    steal_ns: Option<u64>,
}

impl Missed {
    /// How many records a perfect sender would have dropped in the gaps that it heard meanwhile.
    pub fn expected(&self, window_us: u64) -> f64 {
        self.heard.share(window_us * 1000) * self.records as f64
    }

    /// The same by the gaps before and after.
    fn expected_beside(&self, window_us: u64) -> f64 {
        self.gaps.share(window_us * 1000) * self.records as f64
    }
}

/// Replays an archive at its times, with a window. The machine is listened to before and after.
pub fn at_its_times(
    bench: &Bench,
    (series, archive): (&Series, &Archive),
    window_us: u64,
    keys: &str,
) -> Result<Missed, Failure> {
    let lab = &bench.lab;
    let half = Duration::from_micros(series.span_us() / 2).clamp(SHORTEST, LONGEST);
    let sink = Sink::Dropping.open(lab)?;
    let before = Gaps::on(lab.cores.send, half)?;
    let (began, arrived) = (CpuTimes::now(), sink.arrived(lab)?.frames);
    let report = replayed(lab, archive.path(), &format!("drift: {window_us}us{keys}"))?;
    let spent = CpuTimes::now().since(&began);
    let after = Gaps::on(lab.cores.send, half)?;
    thread::sleep(SETTLE);
    let arrived = sink.arrived(lab)?.frames - arrived;
    let sent = report.total.sent.as_ref().ok_or("nothing was sent")?;
    if (sent.requested.frames, sent.sent.frames) != (series.records, arrived) {
        return Err(format!(
            "of {} records {} were asked for, {} were sent and {arrived} arrived",
            series.records, sent.requested.frames, sent.sent.frames
        )
        .into());
    }
    Ok(Missed {
        records: series.records,
        dropped: sent.expired,
        starved: report.replays.iter().map(|replay| replay.starved).sum(),
        gaps: before.and(after),
        heard: Gaps::heard_in(&report),
        steal_ns: spent.steal_ns(),
    })
}

/// How long is listened at least and at most, before and after each.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// Until packets on their way have arrived.
const SETTLE: Duration = Duration::from_millis(20);

/// The columns that say what was missed.
pub const COLUMNS: [&str; 10] = [
    "dropped",
    "of a million",
    "published",
    "late from the reader",
    "by interruptions (estimate)",
    "by noise beside it",
    "longer interruptions",
    "longest",
    "steal",
    "remark",
];

/// The cells of these columns.
pub fn cells(measured: &Measured<Missed>, window_us: u64, published: String) -> Vec<String> {
    let whole = |value: f64| format!("{value:.0}");
    let shown = |figure: &dyn Fn(&Missed) -> f64, show: fn(f64) -> String| {
        format::series(&measured.series(figure), show)
    };
    let steal: Option<Vec<f64>> =
        measured.values.iter().map(|missed| missed.steal_ns.map(|ns| ns as f64)).collect();
    let steal = steal.map(stats::Series::new).map(|steal| format::series(&steal, format::time));
    vec![
        shown(&|missed| missed.dropped as f64, whole),
        shown(&per_million, format::number),
        published,
        shown(&|missed| missed.starved as f64, whole),
        shown(&|missed| missed.expected(window_us), whole),
        shown(&|missed| missed.expected_beside(window_us), whole),
        shown(&|missed| missed.heard.count(window_us * 1000) as f64, whole),
        shown(&|missed| missed.heard.longest() as f64, format::time),
        steal.unwrap_or_else(|| NOTHING.to_owned()),
        measured.remark(),
    ]
}

/// Records of a million that were dropped.
pub fn per_million(missed: &Missed) -> f64 {
    missed.dropped as f64 * 1e6 / missed.records.max(1) as f64
}

/// Measures all cases.
pub fn measure(bench: &mut Bench) -> Part {
    let mut head = vec!["records", "per µs", "devices", "T_d"];
    head.extend(COLUMNS);
    let mut table = Table::new(&head);
    let mut verdicts = Vec::new();
    for Case { series, published } in CASES {
        let series = shortened(series, bench.extent);
        let measured = windows(bench, &series);
        for ((window, measured), published) in WINDOWS.into_iter().zip(measured).zip(published) {
            let published = published.filter(|_| bench.extent != Extent::Trial);
            let mut row = vec![
                format::rate(series.records as f64),
                series.together.to_string(),
                series.devices.to_string(),
                format!("{window} µs"),
            ];
            row.extend(cells(&measured, window, published.map_or(NOTHING.into(), range)));
            table.row(row);
            verdicts.extend(published.map(|most| verdict(&series, (window, most), &measured)));
        }
    }
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts }
}

/// A tenth of it in a trial.
pub fn shortened(series: Series, extent: Extent) -> Series {
    let part = if extent == Extent::Trial { 10 } else { 1 };
    Series { records: series.records / part, ..series }
}

fn windows(bench: &mut Bench, series: &Series) -> Vec<Measured<Missed>> {
    let name = |window: u64| {
        let Series { records, together, devices, .. } = series;
        format!("{records} records of {devices} devices, {together} per µs, T_d = {window} µs")
    };
    if !WINDOWS.iter().any(|&window| bench.wants(&name(window))) {
        return WINDOWS.map(|_| Measured::default()).into();
    }
    let archive = match series.write(&bench.lab) {
        Ok(archive) => archive,
        Err(why) => return WINDOWS.map(|_| Measured::failed(&why)).into(),
    };
    let archive = &archive;
    let keys = if series.devices > 1 { ", flow-of: device" } else { "" };
    let contestants: Vec<Contestant<'_, Missed>> = WINDOWS
        .into_iter()
        .map(|window| {
            Contestant::new(name(window), move |bench: &Bench| {
                at_its_times(bench, (series, archive), window, keys)
            })
        })
        .collect();
    in_turn(bench, &contestants, brief)
}

/// For the one who waits.
pub fn brief(missed: &Missed) -> String {
    let longest = format::time(missed.heard.longest() as f64);
    format!("{} dropped of {}, longest interruption {longest}", missed.dropped, missed.records)
}

fn range((least, most): (u64, u64)) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

fn verdict(
    series: &Series,
    (window, published): (u64, (u64, u64)),
    measured: &Measured<Missed>,
) -> Verdict {
    let Series { records, together, devices, .. } = series;
    let target = format!(
        "{} records, {together} per µs, devices: {devices}, T_d = {window} µs: dropped ≤ {} (published: {})",
        format::rate(*records as f64),
        published.1,
        range(published)
    );
    let dropped = measured.series(|missed| missed.dropped as f64);
    let noise = measured.series(|missed| missed.expected(window));
    match (dropped.median(), noise.median()) {
        (Some(median), Some(noise)) => Verdict::at_most(
            target,
            format!(
                "{} (interruptions alone: {noise:.0})",
                format::series(&dropped, |value| format!("{value:.0}"))
            ),
            (median, published.1 as f64, noise),
        ),
        _ => Verdict::unmeasured(target, measured.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    fn missed(dropped: u64) -> Missed {
        let gaps = Gaps::default();
        let heard = gaps.clone();
        Missed { records: 1_000_000, dropped, starved: 0, gaps, heard, steal_ns: Some(0) }
    }

    #[test]
    fn as_few_as_published_is_met() {
        let series = CASES[0].series;
        let outcome = |dropped: &[u64]| {
            let values = dropped.iter().map(|&dropped| missed(dropped)).collect();
            let measured = Measured { values, failures: Vec::new() };
            verdict(&series, (5, (32, 40)), &measured).outcome
        };
        assert_eq!(outcome(&[40]), Outcome::Met);
        assert_eq!(outcome(&[41]), Outcome::Missed);
        assert!(matches!(outcome(&[]), Outcome::Unmeasured(_)));
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let measured = Measured { values: vec![missed(3), missed(5)], failures: Vec::new() };
        let cells = cells(&measured, 5, "0".into());
        assert_eq!(cells.len(), COLUMNS.len());
        assert_eq!(cells[0], "4 (3 to 5)");
    }
}
