//! The document: what was measured, where, and how to do it again.

use std::fmt::{self, Write};
use std::time::Duration;

use wirebeat_host::Machine;

use crate::options::Options;
use crate::peers::{self, Need, Pace};
use crate::rounds::Bench;
use crate::sections::Chapter;
use crate::table::Table;
use crate::verdict::{self, Verdict};
use crate::{format, install};

/// What stands above the chapters.
#[derive(Clone, Debug)]
pub struct Heading {
    /// How to repeat it.
    pub command: String,
    /// When it began: RFC 3339, UTC.
    pub started: String,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it is the whole benchmark.
    pub in_full: bool,
}

/// The command that repeats this run.
pub fn command(options: &Options, arguments: &[String]) -> String {
    match options.in_full() && arguments.is_empty() {
        true => "make bench".to_owned(),
        false => format!("make bench ARGS='{}'", arguments.join(" ")),
    }
}

/// Writes everything down.
pub fn document(
    bench: &Bench,
    heading: &Heading,
    chapters: &[Chapter],
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(out, "# Benchmarks\n")?;
    introduction(&mut out, bench, heading)?;
    let verdicts: Vec<Verdict> = chapters.iter().flat_map(|c| c.verdicts.clone()).collect();
    if !verdicts.is_empty() {
        let (met, missed, unmeasured) = verdict::count(&verdicts);
        writeln!(out, "## Targets\n")?;
        writeln!(out, "{met} met, {missed} missed, {unmeasured} not measured.\n")?;
        writeln!(out, "{}", verdict::table(&verdicts))?;
    }
    for chapter in chapters {
        writeln!(out, "## {}\n\n{}\n", chapter.title, chapter.prose)?;
        for (line, table) in &chapter.tables {
            writeln!(out, "{line}\n\n{table}")?;
        }
    }
    writeln!(out, "## Peers\n\n{}\n\n{}", PEERS, peers_table(bench))?;
    Ok(out)
}

fn introduction(out: &mut String, bench: &Bench, heading: &Heading) -> fmt::Result {
    let Heading { command, started, elapsed, in_full } = heading;
    if !in_full {
        writeln!(
            out,
            "> A part or a trial of the benchmark, not the whole: its figures are not to be cited.\n"
        )?;
    }
    writeln!(
        out,
        "Wirebeat {} and its peers, measured in turn over the same pair of virtual interfaces (veth) \
         between two network namespaces of one machine, in one run. This page is written by the command \
         that repeats it, figures and verdicts alike:\n\n```sh\n{command}\n```\n",
        env!("CARGO_PKG_VERSION"),
    )?;
    let machine = Machine::observe();
    let unknown = || "unknown".to_owned();
    let mut table = Table::new(&["", ""]);
    let cores = bench.lab.cores;
    for (what, is) in [
        ("begun", started.clone()),
        ("took", format!("{:.0} s", elapsed.as_secs_f64())),
        ("measurements", measurements(bench)),
        ("kernel", format!("Linux {}", machine.kernel.release.unwrap_or_else(unknown))),
        ("processor", machine.cpu.model.unwrap_or_else(unknown)),
        ("CPUs", machine.cpu.online.map_or_else(unknown, |online| online.cpus().len().to_string())),
        ("clock source", machine.kernel.clocksource.unwrap_or_else(unknown)),
        ("senders run on", format!("CPU {}", cores.send)),
        ("receivers that read run on", format!("CPU {}", cores.other)),
    ] {
        table.row(vec![what.to_owned(), is]);
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "Each figure is the median of the rounds, with the smallest and the largest in brackets. A ratio \
         is that of the medians, with those of the single rounds in brackets. Absolute figures change \
         from machine to machine and from hour to hour: compare within this page.\n"
    )
}

fn measurements(bench: &Bench) -> String {
    let time = format::time(bench.time.as_nanos() as f64);
    format!("{} rounds of {time} each", bench.rounds)
}

const PEERS: &str = "\
How each was run, at 100,000 frames per second where it was given a rate. RUDE is left out: Debian has no \
package of it.";

fn peers_table(bench: &Bench) -> Table {
    let mut table = Table::new(&["peer", "package", "sender", "receiver"]);
    let mac = bench.lab.far().mac.to_string();
    for peer in peers::ALL {
        let pace = if peer.sinks.is_empty() { Pace::Frames(100_000) } else { Pace::FlatOut };
        let job = |pace| peers::job(&bench.lab, &bench.files, pace, &mac);
        let line = |command: peers::Command| format!("`{}`", command.join(" "));
        let mut senders = vec![line((peer.sender)(&job(pace)))];
        if peer.busy_waits && pace == Pace::FlatOut {
            senders.push(line((peer.sender)(&job(Pace::Frames(100_000)))));
        }
        let receiver = peer.receiver.map_or(format::NOTHING.to_owned(), |receiver| {
            let when = if peer.needs_receiver == Need::Always { "" } else { " (to read)" };
            format!("{}{when}", line(receiver(&job(pace))))
        });
        let version = install::version(peer.package);
        let version = version.unwrap_or_else(|| "not installed".to_owned());
        table.row(vec![
            peer.name.to_owned(),
            format!("{} {version}", peer.package),
            senders.join("; at a rate "),
            receiver,
        ]);
    }
    table
}
