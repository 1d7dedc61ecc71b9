//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use wirebeat_units::Nanos;

use crate::studies::Which;
use crate::studies::constant_sender::Constant;

/// Measures Wirebeat and its peers in turn over one virtual cable, and writes what came of it as
/// docs/benchmarks.md. Needs root; sends nothing outside its own namespaces.
#[derive(Clone, Debug, Parser)]
#[command(name = "wirebeat-bench")]
pub struct Options {
    /// One round of short measurements: to see that it works, not to learn anything.
    #[arg(long)]
    pub quick: bool,
    /// What takes hours or tens of gigabytes as well: replays of 100 million records and of 20 GiB, 40 million sessions.
    /// With --quick it is a trial all the same.
    #[arg(long)]
    pub full: bool,
    /// Only these chapters.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CHAPTER,...")]
    pub only: Vec<Chapters>,
    /// Only those whose name has this in it, for example "kernel": for comparing changes quickly.
    #[arg(long, value_name = "TEXT")]
    pub named: Option<String>,
    /// Length of one measurement. Default: 2s; 500ms with --quick.
    #[arg(long, value_name = "TIME")]
    pub time: Option<Nanos>,
    /// How often everything is measured. Default: 5; 1 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Repeat a published study instead, and write one HTML file. Measurements of 1s by default.
    #[arg(long, value_enum, value_name = "STUDY", conflicts_with_all = ["full", "only"])]
    pub study: Option<Which>,
    /// Where to write. Default: docs/benchmarks.md for all chapters in full length, else standard
    /// output, which '-' is as well.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Install nothing; peers that are missing are reported as missing.
    #[arg(long)]
    pub no_install: bool,
    /// Send constant traffic until it is killed: ADDRESS:PORT,RATE,PAYLOAD. The benchmark calls itself so.
    #[arg(long, hide = true, value_name = "WHAT", exclusive = true)]
    pub constant_sender: Option<Constant>,
    /// Run this scenario in the namespace that there is, and say how much memory it took: the benchmark calls itself so.
    #[arg(long, hide = true, value_name = "SCENARIO", exclusive = true)]
    pub memory_of: Option<PathBuf>,
    /// Hold so many idle sessions in memory, and say how many bytes an endpoint took: the benchmark calls itself so.
    #[arg(long, hide = true, value_name = "SESSIONS", exclusive = true)]
    pub idle_endpoints: Option<usize>,
    /// Run a scenario in which so many sessions wait, with so many seconds of TIME-WAIT, and say how many bytes an end took: the benchmark
    /// calls itself so.
    #[arg(long, hide = true, num_args = 2, value_names = ["SESSIONS", "SECONDS"], exclusive = true)]
    pub idle_run: Vec<usize>,
    /// Open, use and close so many sessions in memory, and say what it took: the benchmark calls itself so.
    #[arg(long, hide = true, value_name = "SESSIONS", exclusive = true)]
    pub scale: Option<usize>,
    /// Open and close so many sessions a second for so many seconds in memory, and say what it took: the benchmark calls itself so.
    #[arg(long, hide = true, num_args = 2, value_names = ["RATE", "SECONDS"], exclusive = true)]
    pub turnover: Vec<u64>,
}

/// How much is measured of what grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A tenth: to see that it works.
    Trial,
    /// What takes minutes.
    Usual,
    /// All of it.
    Full,
}

/// The chapters that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Chapters {
    /// As fast as possible.
    Flat,
    /// The traffic model at speed.
    Model,
    /// Constant rates.
    Rates,
    /// The receiver confirmed by a capture.
    Capture,
    /// CPU time of each way to wait.
    Cpu,
    /// What it costs to be told of each frame; only when it is asked for.
    Observations,
    /// The engine xdp beside bare loops over AF_XDP sockets; only when it is asked for.
    AfXdp,
    /// Captures and packet logs beside the same receivers without them; only when it is asked for.
    Kept,
    /// Sends of a few frames each that a caller decides on; only when it is asked for.
    Sends,
    /// One rate while other programs keep all CPUs; only when it is asked for.
    Pressure,
    /// One-way delay against a line that knows its own; only when it is asked for.
    DelayLine,
    /// What `--metrics`, `--otlp` and `--tui` cost a run; only when it is asked for.
    Watched,
    /// Devices whose limits are known, tested by RFC 2544; only when it is asked for.
    Limits,
    /// The same distribution from several tools, as it arrives; only when it is asked for.
    Profiles,
    /// Archives sent again; only when it is asked for.
    Replay,
    /// Our own TCP in memory; only when it is asked for.
    InMemory,
    /// Millions of sessions at a time in memory; only when it is asked for.
    Scale,
    /// Segments of our own TCP over the cable beside bare loops; only when it is asked for.
    Wire,
    /// A mix of applications over the cable beside bare loops and one application; only when it is asked for.
    Mix,
    /// HTTP beside nginx and wrk; only when it is asked for.
    Http,
    /// Bulk data beside iperf3; only when it is asked for.
    Bulk,
    /// When sessions start beside frames; only when it is asked for.
    Starts,
    /// Our own CUBIC beside Linux's; only when it is asked for.
    Fairness,
}

/// Whose tools a document lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Those that send frames.
    Frames,
    /// Those that open connections.
    Sessions,
}

impl Chapters {
    /// Whether it belongs to the benchmark when nothing is said.
    fn is_usual(self) -> bool {
        !matches!(
            self,
            Chapters::Observations
                | Chapters::AfXdp
                | Chapters::Kept
                | Chapters::Sends
                | Chapters::Pressure
                | Chapters::DelayLine
                | Chapters::Watched
                | Chapters::Limits
                | Chapters::Profiles
                | Chapters::Replay
        ) && !self.is_of_sessions()
    }

    /// Whether its peers are those that open connections.
    fn is_of_sessions(self) -> bool {
        matches!(
            self,
            Chapters::InMemory
                | Chapters::Scale
                | Chapters::Wire
                | Chapters::Mix
                | Chapters::Http
                | Chapters::Bulk
                | Chapters::Starts
                | Chapters::Fairness
        )
    }
}

impl Options {
    /// Whether a chapter is wanted.
    pub fn wants(&self, chapter: Chapters) -> bool {
        (self.only.is_empty() && chapter.is_usual()) || self.only.contains(&chapter)
    }

    /// Whose tools its chapters are about.
    pub fn peers(&self) -> Peers {
        match self.only.is_empty() || !self.only.iter().all(|one| one.is_of_sessions()) {
            true => Peers::Frames,
            false => Peers::Sessions,
        }
    }

    /// How much is measured of what grows.
    pub fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => Extent::Trial,
            (false, true) => Extent::Full,
            (false, false) => Extent::Usual,
        }
    }

    /// Whether this is the benchmark as it is meant to be, and not a part or a trial of it.
    pub fn in_full(&self) -> bool {
        let shorter = self.rounds() < ROUNDS || self.time() < FULL;
        self.only.is_empty() && self.named.is_none() && !shorter
    }

    /// Whether too little is measured for figures that others cite: a single measurement is the machine's mood.
    pub fn is_trial(&self) -> bool {
        let shorter = self.rounds() < CITED_ROUNDS || self.time() < CITED;
        self.quick || self.named.is_some() || shorter
    }

    /// Length of one measurement.
    pub fn time(&self) -> Duration {
        let default = if self.quick { TRIAL } else { FULL };
        self.time.map_or(default, Nanos::to_duration)
    }

    /// How often everything is measured.
    pub fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { 1 } else { ROUNDS }, usize::from)
    }

    /// The file to write; `None`: standard output.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.output {
            Some(path) if path.as_os_str() == "-" => None,
            Some(path) => Some(path.clone()),
            None => self.in_full().then(|| PathBuf::from("docs/benchmarks.md")),
        }
    }
}

/// A machine that others use as well has moods of seconds, in which it is faster or slower by a third: the median is to
/// stand on more than one or two of them.
const ROUNDS: usize = 5;
const FULL: Duration = Duration::from_secs(2);
/// The least that a page of some chapters is made of.
const CITED_ROUNDS: usize = 3;
const CITED: Duration = Duration::from_secs(1);
const TRIAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Options {
        let words = words.split_ascii_whitespace();
        Options::try_parse_from(["wirebeat-bench"].into_iter().chain(words)).unwrap()
    }

    #[test]
    fn only_the_whole_benchmark_replaces_the_document() {
        assert_eq!(options("").file(), Some("docs/benchmarks.md".into()));
        assert_eq!(options("--rounds 7 --time 4s").file(), Some("docs/benchmarks.md".into()));
        for part in
            ["--quick", "--only flat", "--named kernel", "--rounds 4", "--time 1s", "--output -"]
        {
            assert_eq!(options(part).file(), None, "{part}");
        }
        assert_eq!(options("--quick --output x.md").file(), Some("x.md".into()));
    }

    #[test]
    fn chapters_are_a_list() {
        let some = options("--only flat,cpu");
        assert!(some.wants(Chapters::Flat) && some.wants(Chapters::Cpu));
        assert!(!some.wants(Chapters::Rates));
        assert!(options("").wants(Chapters::Rates) && !options("").wants(Chapters::Replay));
        assert!(options("--only replay").wants(Chapters::Replay));
        assert!(!options("").wants(Chapters::Pressure));
        assert!(!options("").wants(Chapters::Bulk));
        assert_eq!(options("--only bulk,in-memory").peers(), Peers::Sessions);
        assert_eq!(options("--only bulk,flat").peers(), Peers::Frames);
        assert_eq!(options("").peers(), Peers::Frames);
        assert!(Options::try_parse_from(["wirebeat-bench", "--only", "x"]).is_err());
        assert!(Options::try_parse_from(["wirebeat-bench", "--rounds", "0"]).is_err());
    }
}
