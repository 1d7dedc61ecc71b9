//! Sends of a few frames each: what a loop pays that decides by what arrives what it sends next. The kernel engine without a
//! thread of its own, beside bare calls of as many frames.

use std::thread;
use std::time::Duration;

use wirebeat_engine_linux::kernel::{self, FarEnd, Flood};

use super::Chapter;
use super::flat::at_once;
use crate::format::{self, NOTHING};
use crate::lab::{Failure, Lab};
use crate::rounds::{Bench, Contestant, in_turn};
use crate::table::Table;
use crate::{direct, exactness};

const PROSE: &str = "\
One core sends 64-byte frames by calls that return when their frames have left: each call has so many. The far end meters and \
drops them. The limit is the bare loop with calls of as many frames, whose far end only counts; it touches no frame.";

/// Frames of a call.
const BATCHES: [u32; 3] = [1, 8, 64];
/// Until the last frames have arrived.
const SETTLE: Duration = Duration::from_millis(20);

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for batch in BATCHES {
        contestants
            .push(Contestant::new(format!("bare calls of {batch}"), move |bench: &Bench| {
                bare(&bench.lab, batch, bench.time)
            }));
        contestants.push(Contestant::new(format!("sends of {batch}"), move |bench: &Bench| {
            let receiver = exactness::observing(&bench.lab, None, true)?;
            direct::kernel_sends(&bench.lab, &receiver, (batch as usize, bench.time))
        }));
    }
    let measured = in_turn(bench, &contestants, |rate| format!("{:.3} M/s", rate / 1e6));
    let mut table = Table::new(&[
        "frames of a call",
        "sends, frames/s",
        "bare calls, frames/s",
        "of the bare",
        "remark",
    ]);
    for (batch, pair) in BATCHES.iter().zip(measured.chunks_exact(2)) {
        let [bare, sends] = pair else { continue };
        let rate = |rate: &f64| *rate;
        let ratio = sends.series(rate).over(&bare.series(rate));
        table.row(vec![
            batch.to_string(),
            format::series(&sends.series(rate), format::rate),
            format::series(&bare.series(rate), format::rate),
            ratio.map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
            [bare.remark(), sends.remark()].concat(),
        ]);
    }
    Chapter {
        title: "Sends of a few frames",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts: Vec::new(),
    }
}

/// Frames per second of bare calls of `batch` frames.
fn bare(lab: &Lab, batch: u32, time: Duration) -> Result<f64, Failure> {
    let far = lab.far().link.index.get();
    let sink = lab.far().namespace.run(|| kernel::sink(far, FarEnd::Counts))??;
    let flood = Flood { copied: &[], batch, call: batch, time };
    let took = at_once(lab, &[lab.cores.send], flood)?;
    thread::sleep(SETTLE);
    Ok(sink.count()? as f64 / took.as_secs_f64())
}
