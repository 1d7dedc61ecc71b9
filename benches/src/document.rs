//! The document: what was measured, where, and how to do it again.

use std::fmt::{self, Write};
use std::fs;
use std::path::Path;
use std::time::Duration;

use wirebeat_host::Machine;
use wirebeat_report::pictures::Picture;

use crate::frames::Files;
use crate::options::{Options, Peers};
use crate::peers::{self, Need, Pace};
use crate::rounds::Bench;
use crate::sections::{Chapter, bulk};
use crate::table::Table;
use crate::verdict::{self, Verdict};
use crate::{format, install, web};

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
    /// Whether too little is measured for figures that others cite.
    pub is_trial: bool,
    /// The machine's load average of a minute before it began, where the system tells it.
    pub load: Option<f64>,
    /// Whose tools are listed.
    pub peers: Peers,
}

/// The load average of the last minute (proc(5)).
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_ascii_whitespace().next()?.parse().ok()
}

/// The command that repeats this run.
pub fn command(options: &Options, arguments: &[String]) -> String {
    match options.in_full() && arguments.is_empty() {
        true => "make bench".to_owned(),
        false => format!("make bench ARGS='{}'", arguments.join(" ")),
    }
}

/// The name of the file of a picture of the page `file`, in the same folder.
pub fn picture_file(file: &Path, picture: &Picture) -> String {
    let page = file.file_stem().unwrap_or_default().to_string_lossy();
    format!("{page}-{}.svg", picture.name)
}

/// Writes everything down. Pictures stand beside `file`.
pub fn document(
    bench: &Bench,
    heading: &Heading,
    chapters: &[Chapter],
    file: Option<&Path>,
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    writeln!(out, "# Benchmarks\n")?;
    introduction(&mut out, bench, heading)?;
    let verdicts: Vec<Verdict> = chapters.iter().flat_map(|c| c.verdicts.clone()).collect();
    if !verdicts.is_empty() {
        writeln!(out, "## Targets\n\n{}\n", verdict::count(&verdicts))?;
        writeln!(out, "{}", verdict::table(&verdicts))?;
    }
    for chapter in chapters {
        writeln!(out, "## {}\n\n{}\n", chapter.title, wrapped(chapter.prose))?;
        for (line, table) in &chapter.tables {
            writeln!(out, "{line}\n\n{table}")?;
        }
        // a page that is no file has no files beside it
        if let Some((picture, file)) = chapter.picture.as_ref().zip(file) {
            writeln!(out, "![{}]({})\n", picture.title, picture_file(file, picture))?;
            writeln!(
                out,
                "{}\n",
                wrapped(&format!("{}: {}.", picture.title, picture.description))
            )?;
        }
    }
    if heading.in_full {
        writeln!(out, "## Further\n\n{}\n", wrapped(FURTHER))?;
    }
    match heading.peers {
        Peers::Frames => {
            writeln!(out, "## Peers\n\n{}\n", wrapped(PEERS))?;
            peers_list(&mut out, bench)?;
        }
        Peers::Sessions => sessions_peers(&mut out, bench)?,
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    Ok(out)
}

fn introduction(out: &mut String, bench: &Bench, heading: &Heading) -> fmt::Result {
    let Heading { command, started, elapsed, in_full, is_trial, load, .. } = heading;
    if *is_trial {
        writeln!(out, "> A trial of the benchmark: its figures are not to be cited.\n")?;
    } else if !in_full {
        writeln!(out, "> Some chapters of the benchmark.\n")?;
    }
    let machine = Machine::observe();
    let cpus = machine.cpu.online.as_ref().map(|online| online.cpus().len());
    if let Some((load, cpus)) = load.zip(cpus).filter(|(load, cpus)| *load > *cpus as f64) {
        let busy = format!(
            "> Other programs kept this machine busy: its load average was {load:.2} before the first measurement, with {cpus} CPUs. \
             What they took is in these figures."
        );
        writeln!(out, "{busy}\n")?;
    }
    let what = format!(
        "Wirebeat {} and its peers, measured in turn over the same pair of virtual interfaces (veth) \
         between two network namespaces of one machine, in one run. This page is written by the command \
         that repeats it, figures and verdicts alike:",
        env!("CARGO_PKG_VERSION"),
    );
    writeln!(out, "{}\n\n```sh\n{command}\n```\n", wrapped(&what))?;
    let unknown = || "unknown".to_owned();
    let mut table = Table::new(&["", ""]);
    let cores = bench.lab.cores;
    for (what, is) in [
        ("begun", started.clone()),
        ("took", format!("{:.0} s", elapsed.as_secs_f64())),
        ("measurements", measurements(bench)),
        ("kernel", format!("Linux {}", machine.kernel.release.unwrap_or_else(unknown))),
        ("processor", machine.cpu.model.unwrap_or_else(unknown)),
        ("CPUs", cpus.map_or_else(unknown, |cpus| cpus.to_string())),
        ("load average before", load.map_or_else(unknown, |load| format!("{load:.2}"))),
        ("clock source", machine.kernel.clocksource.unwrap_or_else(unknown)),
        ("senders run on", format!("CPU {}", cores.send)),
        ("receivers that read run on", format!("CPU {}", cores.other)),
    ] {
        table.row(vec![what.to_owned(), is]);
    }
    writeln!(out, "{table}")?;
    let how = "Each figure is the median of the rounds, with the smallest and the largest in brackets. A ratio \
         is that of the medians, with those of the single rounds in brackets. Absolute figures change \
         from machine to machine and from hour to hour: compare within this page.";
    writeln!(out, "{}\n", wrapped(how))
}

fn measurements(bench: &Bench) -> String {
    let time = format::time(bench.time.as_nanos() as f64);
    format!("{} rounds of {time} each", bench.rounds)
}

const PEERS: &str = "\
How each was run: flat out, at 100,000 frames per second where it was given rates, and its receiver. \
RUDE is left out: Debian has no package of it.";

const SESSIONS_PEERS: &str = "\
How each was run, besides `taskset`, which bound clients to one CPU and servers to the other. A peer that is missing is a row that says so; \
`scripts/setup.sh peers` installs them.";

const FURTHER: &str = "\
Some chapters have their own pages: `make bench-profiles` writes [distributions as they arrive](profiles.md), `make \
bench-replay` [archives sent again](benchmarks-replay.md), `make bench-frames` [every frame seen](benchmarks-frames.md), `make \
bench-measuring` [what measuring is worth](benchmarks-measuring.md), `make bench-sessions` [sessions](benchmarks-sessions.md). Two published studies are repeated: `make bench-generators` [a comparison of \
generators](generators.html), `make bench-pktgen` [the study of pktgen](pktgen.html).";

/// The names of the files in commands.
fn files() -> Files {
    Files { capture: "frames.pcap".into(), description: "frame.cfg".into() }
}

/// The programs that chapters of sessions are measured beside.
fn sessions_peers(out: &mut String, bench: &Bench) -> fmt::Result {
    writeln!(out, "## Peers\n\n{}\n", wrapped(SESSIONS_PEERS))?;
    let version = |package| install::version(package).unwrap_or_else(|| "not installed".to_owned());
    let server = bench.lab.far().ipv4;
    let wrk = |closes| line(&web::wrk_words(server, 50, (bench.time, closes)));
    writeln!(out, "wrk, of the package wrk {}:\n\n```sh", version("wrk"))?;
    writeln!(out, "{}\n{}\n```\n", wrk(false), wrk(true))?;
    writeln!(out, "nginx, of the package nginx {}:\n\n```nginx", version("nginx"))?;
    writeln!(
        out,
        "{}```\n",
        web::configuration("FOLDER").replace(&"x".repeat(web::CONTENT), "CONTENT")
    )?;
    let [server, client] = bulk::iperf3_words(server, bench.time).map(|words| line(&words));
    writeln!(out, "iperf3, of the package iperf3 {}:\n\n```sh", version("iperf3"))?;
    writeln!(out, "{server}\n{client}\n```\n")
}

fn peers_list(out: &mut String, bench: &Bench) -> fmt::Result {
    let mac = bench.lab.far().mac.to_string();
    let files = files();
    for peer in peers::ALL {
        let version = install::version(peer.package);
        let version = version.unwrap_or_else(|| "not installed".to_owned());
        writeln!(out, "{}, of the package {} {version}:\n\n```sh", peer.name, peer.package)?;
        let job = |pace| peers::job(&bench.lab, &files, pace, &mac);
        let flat_out = (!peer.sinks.is_empty()).then_some(Pace::FlatOut);
        let paced = peer.busy_waits.then_some(Pace::Frames(100_000));
        for pace in flat_out.into_iter().chain(paced) {
            writeln!(out, "{}", line(&(peer.sender)(&job(pace))))?;
        }
        if let Some(receiver) = peer.receiver {
            let when = match peer.needs_receiver {
                Need::Always => "",
                Need::ToRead => "  # where somebody reads",
            };
            writeln!(out, "{}{when}", line(&receiver(&job(Pace::FlatOut))))?;
        }
        writeln!(out, "```\n")?;
    }
    Ok(())
}

/// A command as a shell takes it.
fn line(command: &peers::Command) -> String {
    let quoted = |word: &String| match word.contains(|c: char| " []'\"$*".contains(c)) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Breaks a paragraph into lines.
fn wrapped(paragraph: &str) -> String {
    const WIDTH: usize = 100;
    let mut out = String::new();
    let mut width = 0;
    for word in paragraph.split_ascii_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            out.push('\n');
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_between_words() {
        let words = ["abcdefghi"; 25].join(" ");
        let lines: Vec<usize> = wrapped(&words).lines().map(str::len).collect();
        assert_eq!(lines, [99, 99, 49]);
        assert_eq!(wrapped("  a\n b "), "a b");
    }

    #[test]
    fn words_with_spaces_are_quoted_in_commands() {
        let command = ["mgen", "event", "ON 1 UDP"].map(str::to_owned);
        assert_eq!(line(&command.to_vec()), "mgen event 'ON 1 UDP'");
    }
}
