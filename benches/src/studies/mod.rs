//! Published studies repeated, each as one command that writes one HTML file.
//!
//! A study is a folder with the file that puts its chapters in order. What they share: `sender` (who sends), `condition` (what
//! senders lack), `measurement` (one measurement of the comparison), `words` (sentences out of figures), and `page` (what stands
//! above the chapters). The page itself is written by `wirebeat_report::study`.

mod condition;
pub mod constant_sender;
mod generators;
mod measurement;
mod page;
mod pktgen;
mod process_stats;
mod restorer;
mod sender;
mod words;

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use wirebeat_units::Nanos;

use self::page::Heading;
use crate::frames::Files;
use crate::install;
use crate::lab::{Between, Failure, Lab};
use crate::options::Options;
use crate::rounds::Bench;

/// The studies that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Iperf, D-ITG, MGEN and RUDE compared (Papadopoulos 2012).
    Generators,
    /// Pktgen: measuring performance on high speed networks (Turull, Sjödin, Olsson 2016).
    Pktgen,
}

impl Which {
    /// Rounds where nothing is said: half an hour of the one, 20 minutes of the other. With fewer, nobody is found better or worse.
    const ROUNDS: usize = words::LEAST_PAIRS;
}

const GENERATORS: &str = "G. Z. Papadopoulos, Experimental Assessment of Traffic Generators, Universidad Carlos III de Madrid, 2012";
const PKTGEN: &str = "D. Turull, P. Sjödin, R. Olsson, Pktgen: Measuring performance on high speed networks, Computer Communications 82, 2016";

/// What the studies start.
const PACKAGES: [&str; 9] = [
    "d-itg",
    "iperf",
    "iperf3",
    "iputils-ping",
    "mgen",
    "netsniff-ng",
    "stress-ng",
    "tcpdump",
    "util-linux",
];

/// Length of a measurement where nothing is said: what takes minutes.
const TIME: Duration = Duration::from_secs(1);
const TRIAL: Duration = Duration::from_millis(500);
/// Senders run for a minute, and need time to begin.
const LONGEST: Duration = Duration::from_secs(50);

/// Repeats a study, and writes its page.
pub fn repeat(options: &Options, which: Which) -> Result<(), Failure> {
    if !options.no_install {
        install::install(|package| PACKAGES.contains(&package));
    }
    let lab = match which {
        Which::Generators => Lab::with(Between::Bucket(generators::BUCKET))?,
        Which::Pktgen => Lab::lay()?,
    };
    let files = Files::write(&lab)?;
    let (rounds, time) = match options.quick {
        true => (1, TRIAL),
        false => (Which::ROUNDS, TIME),
    };
    let rounds = options.rounds.map_or(rounds, usize::from);
    let time = options.time.map_or(time, Nanos::to_duration);
    if time > LONGEST {
        return Err(format!("tools send for a minute: --time is at most {LONGEST:?}").into());
    }
    let (extent, named) = (options.extent(), options.named.clone());
    let mut bench = Bench { lab, files, rounds, time, extent, named };
    let (target, source) = match which {
        Which::Generators => ("bench-generators", GENERATORS),
        Which::Pktgen => ("bench-pktgen", PKTGEN),
    };
    let heading = Heading::now(command(options, target), source);
    let study = match which {
        Which::Generators => generators::study(&mut bench, &heading),
        Which::Pktgen => pktgen::study(&mut bench, &heading),
    };
    let page = study.html();
    match options.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            fs::write(path, page)
                .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
            eprintln!("written to {}", path.display());
        }
        None => io::stdout().write_all(page.as_bytes())?,
    }
    Ok(())
}

/// The command that repeats this run.
fn command(options: &Options, target: &str) -> String {
    let mut words = Vec::new();
    if options.quick {
        words.push("--quick".to_owned());
    }
    words.extend(options.rounds.map(|rounds| format!("--rounds {rounds}")));
    words.extend(options.time.map(|time| format!("--time {time}")));
    match words.is_empty() {
        true => format!("make {target}"),
        false => format!("make {target} ARGS='{}'", words.join(" ")),
    }
}
