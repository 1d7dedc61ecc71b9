//! How fast an archive is made from a table.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::thread;

use wirebeat_archive::csv::{Reader, Reading};
use wirebeat_archive::source::copy;
use wirebeat_archive::time_series::{Timestamp, Writer};
use wirebeat_engine_linux::affinity;
use wirebeat_host::CpuTime;

use super::Part;
use crate::format;
use crate::lab::Failure;
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;
use crate::verdict::Verdict;

const ABOVE: &str = "\
Making an archive of comma-separated values, as `wirebeat archive create --csv` does: rows like \
`2015-07-01T19:20:30.450000+01:00,sensor-000123,-12.345`, by one thread, for each second of its CPU time, reading and \
writing files that stay in the system's cache.";

const NAME: &str = "archive from CSV";
const DEVICES: u64 = 1_399;
/// 2015-07-01T18:20:30Z, and its zone in minutes.
const BEGIN_US: i64 = 1_435_774_830_000_000;
const ZONE: i16 = 60;
const LEAST: f64 = 1_000_000.0;

/// Measures it.
pub fn measure(bench: &mut Bench) -> Part {
    let rows: u64 = if bench.extent == Extent::Trial { 200_000 } else { 3_000_000 };
    let measured = match bench.wants(NAME) {
        true => made(bench, rows),
        false => Measured::default(),
    };
    let rate = measured.series(|&rate| rate);
    let mut table = Table::new(&["rows", "records/s and core", "remark"]);
    let shown = format::series(&rate, format::rate);
    table.row(vec![format::rate(rows as f64), shown.clone(), measured.remark()]);
    let target = "an archive is made of CSV at ≥ 1 M records a second and core";
    let verdict = match rate.median() {
        Some(median) => Verdict::of(target, shown, median >= LEAST),
        None => Verdict::unmeasured(target, measured.reason()),
    };
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts: vec![verdict] }
}

fn made(bench: &mut Bench, rows: u64) -> Measured<f64> {
    let (from, to) = (bench.lab.folder.file("rows.csv"), bench.lab.folder.file("made.wbar"));
    if let Err(why) = write(&from, rows) {
        return Measured::failed(&why);
    }
    let contestant = Contestant::new(NAME, |bench| {
        let core = bench.lab.cores.send;
        let convert = || convert(core, (&from, &to), rows);
        thread::scope(|scope| scope.spawn(convert).join().map_err(|_| "it panicked")?)
    });
    let mut measured = in_turn(bench, &[contestant], |&rate| format::rate(rate));
    for path in [from, to] {
        // the folder that they are in goes as well
        let _ = fs::remove_file(path);
    }
    measured.pop().unwrap_or_default()
}

/// Writes a table.
fn write(path: &Path, rows: u64) -> Result<(), Failure> {
    let mut to = BufWriter::new(File::create(path)?);
    writeln!(to, "time,sensor,value")?;
    for row in 0..rows {
        let time = Timestamp::new(BEGIN_US + row as i64 * 50_000, ZONE)?;
        let value = (row * 7919 % 100_000) as f64 / 1000.0 - 50.0;
        writeln!(to, "{time},sensor-{:06},{value:.3}", row % DEVICES)?;
    }
    to.flush()?;
    Ok(())
}

/// Makes the archive on a CPU; says how many records each second of CPU time.
fn convert(core: usize, (from, to): (&Path, &Path), rows: u64) -> Result<f64, Failure> {
    affinity::pin(core)?;
    let unknown = "the system does not tell the CPU time of a thread";
    let begun = CpuTime::of_thread().ok_or(unknown)?;
    let name = from.display().to_string();
    let mut source = Reader::new(File::open(from)?, name, Reading::default())?;
    let file = BufWriter::with_capacity(1 << 20, File::create(to)?);
    let mut sink = Writer::new(file);
    let records = copy(&mut source, &mut sink, |_, _| true)?;
    drop(sink.finish()?);
    let spent = CpuTime::of_thread().ok_or(unknown)?.since(&begun);
    if records != rows {
        return Err(format!("{records} of {rows} rows became records").into());
    }
    Ok(records as f64 * 1e9 / spent.total_ns().max(1) as f64)
}
