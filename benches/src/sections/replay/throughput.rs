//! As many records as go through one core, beside a plain sender and tcpreplay.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use wirebeat_engine_linux::kernel::FarEnd;
use wirebeat_traffic::scenario::{FlowSpec, Size};
use wirebeat_units::FrameLen;

use super::series::{Archive, Series};
use super::{Part, scenario};
use crate::format::{self, NOTHING};
use crate::frames::{self, Files};
use crate::lab::{Failure, Lab};
use crate::peers::{self, Addressed, Pace, TCPREPLAY};
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sections::flat::copied_limit;
use crate::sinks::Sink;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::{pcap, window, wirebeat};

const ABOVE: &str = "\
As fast as it goes (`tight-loop: 0`), again and again over one archive, one transmit core, records per second that \
arrived. The raw socket is the published baseline: one `send` on a packet socket for each record, by a program of a few \
lines that has the archive in memory (what `mmap` gives it once the pages are there) and the headers ready; Wirebeat reads, \
checks and sums the archive while it sends, on the other CPU, or has it in memory as well (`preload: on`). tcpreplay sends a \
capture of frames of the same length, 64 bytes with FCS at least. The loop that copies sends frames of the same length out \
of one place in its cache, and does nothing else: it is what this machine could do.";

/// Bytes of data, and how many records there are of it: about 100 MB at most.
const SIZES: [(usize, u64); 4] = [(4, 1_000_000), (28, 1_000_000), (512, 200_000), (1472, 60_000)];
const RAW: &str = "raw socket";
const KERNEL: &str = "Wirebeat kernel";
/// The least that anybody does who sends from a kernel program what others wrote.
pub const COPIES: &str = "bare loop that copies";
const PRELOADED: &str = "Wirebeat kernel, preloaded";
const WHO: [&str; 7] =
    [KERNEL, PRELOADED, "Wirebeat packet", "Wirebeat socket", RAW, TCPREPLAY.name, COPIES];
/// The published figures for data of 4 and 28 bytes, records per second: the generator on one core, and the raw socket.
const PUBLISHED: [(&str, &str); 2] = [(KERNEL, "2.4 M"), (RAW, "0.98 M")];
const LEAST: f64 = 2_400_000.0;
const TIMES: f64 = 5.0;
/// Frames of the capture: enough that going back to its beginning does not count.
const CAPTURED: u32 = 50_000;
/// Bytes of the headers of Ethernet, IPv4 and UDP, and of the FCS.
const AROUND: u16 = 14 + 20 + 8 + 4;

/// What is sent of a size.
struct Given {
    archive: Archive,
    /// The archive as the raw socket has it, and its headers.
    bytes: Vec<u8>,
    frame: Addressed,
    /// What tcpreplay sends.
    files: Files,
    /// Of its frames.
    len: FrameLen,
}

impl Given {
    fn make(lab: &Lab, (size, records): (usize, u64)) -> Result<Given, Failure> {
        let archive = Series::untimed(records, size).write(lab)?;
        let bytes = fs::read(archive.path())?;
        let len = FrameLen::with_fcs((size as u16 + AROUND).max(FrameLen::MIN.get()));
        let flow = FlowSpec { size: Some(Size::frame(len)), ..frames::flow(lab) };
        let frame = frames::first(lab, flow)?;
        let capture = lab.folder.file("records.pcap");
        fs::write(&capture, pcap::repeated(&frame, CAPTURED))?;
        let frame = Addressed::like(&frame)?;
        let files = Files { capture, description: Default::default() };
        Ok(Given { archive, bytes, frame, files, len })
    }
}

/// Measures all sizes.
pub fn measure(bench: &mut Bench) -> Part {
    let head = ["data", "from", "records/s", "of the raw socket", "published", "remark"];
    let mut table = Table::new(&head);
    let mut verdicts = Vec::new();
    for (size, records) in SIZES {
        let measured = one_size(bench, (size, records));
        let of = |name: &str| WHO.iter().zip(&measured).find(|(who, _)| **who == name);
        let raw = of(RAW).map(|(_, raw)| raw.series(|&rate| rate)).unwrap_or_default();
        for (name, measured) in WHO.into_iter().zip(&measured) {
            let rate = measured.series(|&rate| rate);
            let published = PUBLISHED.iter().find(|(who, _)| *who == name && size <= 28);
            table.row(vec![
                format!("{size} B"),
                name.to_owned(),
                format::series(&rate, format::rate),
                rate.over(&raw).map_or(NOTHING.into(), |ratio| format::ratio(&ratio)),
                published.map_or(NOTHING, |(_, rate)| rate).to_owned(),
                measured.remark(),
            ]);
        }
        for (who, how) in [(KERNEL, "read meanwhile"), (PRELOADED, "in memory")] {
            if let Some((_, kernel)) = of(who) {
                verdicts.extend(judged((size, how), kernel, &raw));
            }
        }
    }
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts }
}

fn judged(
    (size, how): (usize, &str),
    kernel: &Measured<f64>,
    raw: &crate::stats::Series,
) -> Vec<Verdict> {
    let rate = kernel.series(|&rate| rate);
    let least = (size <= 28).then(|| {
        let target = format!("records of {size} B, {how}, kernel, one core: ≥ 2.4 M each second");
        match rate.median() {
            Some(median) => {
                Verdict::of(target, format::series(&rate, format::rate), median >= LEAST)
            }
            None => Verdict::unmeasured(target, kernel.reason()),
        }
    });
    let target = format!("records of {size} B, {how}, kernel: ≥ {TIMES} × a raw socket");
    let times = match rate.over(raw) {
        Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= TIMES),
        None => Verdict::unmeasured(target, "one of the two was not measured"),
    };
    least.into_iter().chain([times]).collect()
}

fn one_size(bench: &mut Bench, (size, records): (usize, u64)) -> Vec<Measured<f64>> {
    let names = WHO.map(|name| format!("{size} B, {name}"));
    if !names.iter().any(|name| bench.wants(name)) {
        return WHO.map(|_| Measured::default()).into();
    }
    let given = match Given::make(&bench.lab, (size, records)) {
        Ok(given) => given,
        Err(why) => return WHO.map(|_| Measured::failed(&why)).into(),
    };
    let given = &given;
    let contestants: Vec<Contestant<'_, f64>> = WHO
        .into_iter()
        .zip(names)
        .map(|(who, name)| {
            Contestant::new(name, move |bench: &Bench| match who {
                RAW => raw_socket(bench, given),
                COPIES => copies(bench, &[given.len]),
                PRELOADED => flat_out(bench, "kernel", &given.archive, ", preload: on"),
                who if who == TCPREPLAY.name => tcpreplay(bench, &given.files),
                who => {
                    let engine = who.rsplit(' ').next().unwrap_or_default();
                    flat_out(bench, engine, &given.archive, "")
                }
            })
        })
        .collect();
    in_turn(bench, &contestants, |&rate| format::rate(rate))
}

/// Records per second of Wirebeat, as they arrive.
pub fn flat_out(
    bench: &Bench,
    engine: &str,
    archive: &Archive,
    keys: &str,
) -> Result<f64, Failure> {
    let lab = &bench.lab;
    let keys = format!("tight-loop: 0, loop: 1000000{keys}");
    let scenario = scenario(lab, engine, archive.path(), &keys)?;
    let run = |stop: &_| wirebeat::run(lab, &scenario, stop);
    Ok(wirebeat::counted(lab, Sink::Dropping, bench.time, run)?.sent)
}

fn raw_socket(bench: &Bench, given: &Given) -> Result<f64, Failure> {
    let lab = &bench.lab;
    let sink = Sink::Dropping.open(lab)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let frame = given.frame.clone();
        let sender = scope.spawn(|| peers::send_all(lab, frame, &given.bytes, &stop));
        let seen = window::observe(lab, &sink, bench.time, || !sender.is_finished());
        stop.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| "the sender panicked")??;
        Ok(seen?.sent)
    })
}

/// Frames per second of a bare loop that copies frames of these lengths from one place in its cache.
pub fn copies(bench: &Bench, lengths: &[FrameLen]) -> Result<f64, Failure> {
    let lengths: Vec<u16> = lengths.iter().map(|len| len.buffer()).collect();
    copied_limit(&bench.lab, (&lengths, FarEnd::Counts), bench.time)
}

/// Frames per second of tcpreplay, as they arrive.
pub fn tcpreplay(bench: &Bench, files: &Files) -> Result<f64, Failure> {
    let lab = &bench.lab;
    let sink = Sink::Dropping.open(lab)?;
    let running = peers::start(lab, files, &TCPREPLAY, Pace::FlatOut, Some(Sink::Dropping))?;
    let seen = window::observe(lab, &sink, bench.time, || true);
    running.end()?;
    Ok(seen?.sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn short_records_have_two_targets_and_long_ones_one() {
        let kernel = Measured { values: vec![2_500_000.0], failures: Vec::new() };
        let raw = crate::stats::Series::new(vec![600_000.0]);
        let outcomes = |size| -> Vec<Outcome> {
            judged((size, ""), &kernel, &raw).into_iter().map(|verdict| verdict.outcome).collect()
        };
        assert_eq!(outcomes(28), [Outcome::Met, Outcome::Missed]);
        assert_eq!(outcomes(512), [Outcome::Missed]);
        let none = judged((4, ""), &Measured::default(), &raw);
        assert!(none.iter().all(|v| matches!(v.outcome, Outcome::Unmeasured(_))));
    }
}
