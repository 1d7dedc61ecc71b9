//! Archives and captures sent again: how many records miss their time, how many go each second, and what it takes. One part is one
//! file; a part gives tables and verdicts.
//!
//! Reading order: `series` makes the archives, `violations` and `seismic` send them at their times, `throughput` and
//! `readers` as fast as it goes; `captures` does both with captures; `memory` and `making` are what it takes.

mod captures;
mod making;
mod memory;
mod readers;
mod seismic;
mod series;
mod throughput;
mod violations;

use std::path::Path;

use wirebeat_report::model::Report;
use wirebeat_run::Stop;
use wirebeat_traffic::scenario::Scenario;

use super::Chapter;
use crate::frames::NEAR;
use crate::lab::{Failure, Lab};
use crate::rounds::Bench;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::wirebeat;

pub use memory::memory_of;

const PROSE: &str = "\
Archives are made for the purpose, lie in the system's cache, and are sent from one transmit core over veth into an XDP \
program that counts and drops; each packet that was sent was counted there. Sizes are those of the data, the UDP payload. \
\"Published\" are the figures of the time-series traffic generator for IoT, measured by its authors on other hardware \
with a network driver of its own; nothing of it ran here. Times of an archive are whole microseconds, so of two records per \
microsecond both have the same time. T_d is the drift window: a record that is later is dropped and counted. Beside each \
count stands the machine's own noise, twice: how the transmitting CPU was taken away meanwhile, by the gaps between two \
readings of the sender's clock (its report lists them, from 1 µs on while it waits, from 10 µs on while it sends); and the gaps of a busy loop \
on that CPU, half of the time listened to right before the measurement and half right after. A record that is due in a gap is \
late by what is left of it; so many, of those that come evenly, even a perfect sender would drop in the gaps that were \
heard. Both are estimates: the sender does not hear short ones while it sends, and before and after are other times. A count \
near the first is the machine's. \"Late from the reader\" are records that were due already when \
they came from the thread that reads: the machine kept that one from running, or the disk did not keep up.";

/// What one part measured.
#[derive(Debug, Default)]
struct Part {
    tables: Vec<(String, Table)>,
    verdicts: Vec<Verdict>,
}

/// The parts in their order.
const PARTS: [fn(&mut Bench) -> Part; 7] = [
    violations::measure,
    seismic::measure,
    throughput::measure,
    readers::measure,
    captures::measure,
    memory::measure,
    making::measure,
];

/// Measures everything.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut chapter = Chapter { title: "Replay", prose: PROSE, ..Chapter::default() };
    for part in PARTS {
        let Part { tables, verdicts } = part(bench);
        chapter.tables.extend(tables);
        chapter.verdicts.extend(verdicts);
    }
    chapter
}

/// The scenario that replays an archive from the near end.
fn scenario(lab: &Lab, engine: &str, archive: &Path, keys: &str) -> Result<Scenario, Failure> {
    let port = format!(
        "interface: {}, namespace: {NEAR}, engine: {engine}, cores: [{}]",
        lab.near().interface(),
        lab.cores.send
    );
    Ok(Scenario::from_yaml(&text(&port, lab, archive, keys), "bench")?)
}

/// A scenario with one port that is given.
fn text(port: &str, lab: &Lab, archive: &Path, keys: &str) -> String {
    let source = match keys.contains("flow-of") {
        true => "{ source: { increment: 1024, per: sub-flow } }",
        false => "{}",
    };
    format!(
        "ports:\n  {NEAR}: {{ {port} }}\nflows:\n  replay:\n    from: {NEAR}\n    packet: [ {{ ipv4: {{ destination: {} }} \
         }}, {{ udp: {source} }} ]\n    probe: off\n    replay: {{ archive: '{}', {keys} }}\nrun: {{ wait: spin }}\n",
        lab.far().ipv4,
        archive.display()
    )
}

/// Replays an archive to its end.
fn replayed(lab: &Lab, archive: &Path, keys: &str) -> Result<Report, Failure> {
    wirebeat::run(lab, &scenario(lab, "kernel", archive, keys)?, &Stop::new())
}
