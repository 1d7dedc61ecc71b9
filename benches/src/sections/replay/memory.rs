//! How much memory a replay takes, by the size of the archive and the way to read it. The benchmark calls itself for it:
//! the high-water mark is one of a whole process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use wirebeat_report::model::End;
use wirebeat_run::{Options, Silent, Stop, prepare};
use wirebeat_testbed::Program;
use wirebeat_traffic::scenario::Scenario;

use super::series::{Archive, Series};
use super::{Part, text};
use crate::format;
use crate::lab::{Failure, Lab};
use crate::options::Extent;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sinks::Sink;
use crate::table::Table;
use crate::verdict::Verdict;

const ABOVE: &str = "\
Memory: the high-water mark of a process (VmHWM) that replays an archive of records with 28 bytes of data once, as fast as it \
goes, engine `kernel`, two buffers of 64 MiB as what has times has by default. Pages of a mapped file count as memory of the process \
although they are the system's to take back.";

/// Bytes of a record.
const RECORD: u64 = 58;
const READERS: [&str; 3] = ["buffered", "direct", "mmap"];
/// The most that it may take, in bytes.
const MOST: f64 = 300e6;
/// The longest that a replay may take.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The word before each figure that the called one prints.
const PEAK: &str = "peak-kib";
const SENT: &str = "sent";
const SECONDS: &str = "seconds";

/// What a replay took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Took {
    peak: f64,
    rate: f64,
}

/// Measures a quarter of an archive and all of it.
pub fn measure(bench: &mut Bench) -> Part {
    let whole: u64 = match bench.extent {
        Extent::Trial => 128 << 20,
        Extent::Usual => 1 << 30,
        Extent::Full => 20 << 30,
    };
    let mut table = Table::new(&["archive", "reader", "peak memory", "records/s", "remark"]);
    let mut verdicts = Vec::new();
    for (bytes, readers) in [(whole / 4, &READERS[..1]), (whole, &READERS[..])] {
        let size = format!("{} MiB", bytes >> 20);
        for (reader, measured) in readers.iter().zip(all(bench, (bytes, &size), readers)) {
            let peak = measured.series(|took| took.peak);
            table.row(vec![
                size.clone(),
                (*reader).to_owned(),
                format::series(&peak, megabytes),
                format::series(&measured.series(|took| took.rate), format::rate),
                measured.remark(),
            ]);
            if bytes == whole && *reader == READERS[0] {
                let target = format!("an archive of {size} replays with at most 300 MB of memory");
                verdicts.push(match peak.range() {
                    Some((_, most)) => {
                        Verdict::of(target, format::series(&peak, megabytes), most <= MOST)
                    }
                    None => Verdict::unmeasured(target, measured.reason()),
                });
            }
        }
    }
    Part { tables: vec![(ABOVE.to_owned(), table)], verdicts }
}

fn megabytes(bytes: f64) -> String {
    format!("{} MB", format::number(bytes / 1e6))
}

fn all(bench: &mut Bench, (bytes, size): (u64, &str), readers: &[&str]) -> Vec<Measured<Took>> {
    let name = |reader: &str| format!("memory of {size}, {reader}");
    if !readers.iter().any(|reader| bench.wants(&name(reader))) {
        return readers.iter().map(|_| Measured::default()).collect();
    }
    let archive = match Series::untimed(bytes / RECORD, 28).write(&bench.lab) {
        Ok(archive) => archive,
        Err(why) => return readers.iter().map(|_| Measured::failed(&why)).collect(),
    };
    let archive = &archive;
    let contestants: Vec<Contestant<'_, Took>> = readers
        .iter()
        .map(|&reader| {
            Contestant::new(name(reader), move |bench: &Bench| {
                one(&bench.lab, archive, reader, bytes / RECORD)
            })
        })
        .collect();
    let brief = |took: &Took| format!("{}, {}", megabytes(took.peak), format::rate(took.rate));
    in_turn(bench, &contestants, brief)
}

fn one(lab: &Lab, archive: &Archive, reader: &str, records: u64) -> Result<Took, Failure> {
    let _sink = Sink::Dropping.open(lab)?;
    let port = format!(
        "interface: {}, engine: kernel, cores: [{}]",
        lab.near().interface(),
        lab.cores.send
    );
    let keys = format!("tight-loop: 0, buffer: 64MiB, reader: {reader}");
    let scenario = lab.folder.file("memory.yaml");
    fs::write(&scenario, text(&port, lab, archive.path(), &keys))?;
    let program = Program::new(&lab.near().namespace, std::env::current_exe()?);
    let program = program.args(["--memory-of".as_ref(), scenario.as_os_str()]);
    let output = program.output(PATIENCE)?;
    if !output.status.success() {
        return Err(output.stderr.trim().to_owned().into());
    }
    let figure = |name: &str| {
        let value =
            output.stdout.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| format!("it did not say '{name}'"))
    };
    let (peak, sent, seconds): (f64, f64, f64) = (figure(PEAK)?, figure(SENT)?, figure(SECONDS)?);
    if sent != records as f64 {
        return Err(format!("{sent} of {records} records were sent").into());
    }
    Ok(Took { peak: peak * 1024.0, rate: sent / seconds })
}

/// Runs a scenario where this process is, and prints what it took: the other half of [`one`].
pub fn memory_of(scenario: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(scenario)?;
    let scenario = Scenario::from_yaml(&text, &scenario.display().to_string())?;
    let report = prepare(&scenario, Options::default())?.start(&mut Silent, &Stop::new());
    if let End::Failed { message } = &report.end {
        return Err(message.clone().into());
    }
    let sent = report.total.sent.as_ref().ok_or("nothing was sent")?;
    let (first, last) =
        sent.first_departure_ns.zip(sent.last_departure_ns).ok_or("nothing was sent")?;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = high_water_mark(&status).ok_or("/proc/self/status has no VmHWM")?;
    println!("{PEAK} {peak}\n{SENT} {}", sent.sent.frames);
    println!("{SECONDS} {}", last.saturating_sub(first).max(1) as f64 / 1e9);
    Ok(())
}

/// The peak of the resident memory in KiB, of `/proc/self/status` (proc(5)).
fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found_by_its_name() {
        let status = "Name:\tbench\nVmPeak:\t  9000 kB\nVmHWM:\t  142512 kB\nVmRSS:\t 100 kB\n";
        assert_eq!(high_water_mark(status), Some(142_512));
        assert_eq!(high_water_mark("VmRSS:\t 100 kB\n"), None);
    }
}
