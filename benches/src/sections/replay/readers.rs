//! The ways to read a file, and how many threads prepare what was read.

use super::Part;
use super::series::Series;
use super::throughput::flat_out;
use crate::format::{self, NOTHING};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::table::Table;

const ABOVE: &str = "\
Ways to read, and threads that prepare (`workers`): 28 bytes of data, engine `kernel`, as fast as it goes. The archive lies in \
the system's cache; `direct` reads past it, and is as fast as the disk.";

const READERS: [&str; 3] = ["buffered", "direct", "mmap"];
const WORKERS: [u8; 2] = [1, 2];
const RECORDS: u64 = 1_000_000;

/// Measures all of them.
pub fn measure(bench: &mut Bench) -> Part {
    let ways: Vec<(&str, u8)> =
        READERS.iter().flat_map(|&reader| WORKERS.map(|workers| (reader, workers))).collect();
    let measured = all(bench, &ways);
    let first = measured.first().map(|first| first.series(|&rate| rate)).unwrap_or_default();
    let mut table = Table::new(&["reader", "workers", "records/s", "of the first", "remark"]);
    for ((reader, workers), measured) in ways.into_iter().zip(&measured) {
        let rate = measured.series(|&rate| rate);
        table.row(vec![
            reader.to_owned(),
            workers.to_string(),
            format::series(&rate, format::rate),
            rate.over(&first).map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            measured.remark(),
        ]);
    }
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts: Vec::new() }
}

fn all(bench: &mut Bench, ways: &[(&'static str, u8)]) -> Vec<Measured<f64>> {
    let name = |&(reader, workers): &(&str, u8)| format!("reader {reader}, workers {workers}");
    if !ways.iter().any(|way| bench.wants(&name(way))) {
        return ways.iter().map(|_| Measured::default()).collect();
    }
    let archive = match Series::untimed(RECORDS, 28).write(&bench.lab) {
        Ok(archive) => archive,
        Err(why) => return ways.iter().map(|_| Measured::failed(&why)).collect(),
    };
    let archive = &archive;
    let contestants: Vec<Contestant<'_, f64>> = ways
        .iter()
        .map(|way| {
            let keys = format!(", reader: {}, workers: {}", way.0, way.1);
            Contestant::new(name(way), move |bench: &Bench| {
                flat_out(bench, "kernel", archive, &keys)
            })
        })
        .collect();
    in_turn(bench, &contestants, |&rate| format::rate(rate))
}
