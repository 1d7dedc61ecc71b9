//! The benchmark: Wirebeat and its peers in turn, over one virtual cable, in one run.
//!
//! Reading order: `rounds` measures everybody in turn; `sections` are the chapters of the result, one
//! file each; `peers` are the other tools, one file each; `lab`, `sinks` and `window` are what all
//! measurements share; `document` writes it down; `studies` are published studies repeated, each a page of its own. Verdicts are computed (`verdict`), never written.
//!
//! Exit codes: 0 measured, whatever the figures; 2 wrong usage; 3 this machine cannot.

mod bare;
mod bare_walk;
mod direct;
mod document;
mod exactness;
mod format;
mod frames;
mod gaps;
mod idle_run;
mod in_memory;
mod install;
mod lab;
mod memory;
mod options;
mod pcap;
mod peers;
mod rounds;
mod sections;
mod sessions;
mod sinks;
mod stats;
mod studies;
mod table;
mod tcpdump;
mod threads;
mod verdict;
mod web;
mod window;
mod wirebeat;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use clap::Parser;
use wirebeat_host::CpuTimes;
use wirebeat_report::time::rfc3339;
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::document::{Heading, document};
use crate::frames::Files;
use crate::lab::{Failure, Lab};
use crate::options::{Chapters, Options};
use crate::rounds::Bench;
use crate::sections::{
    af_xdp, bulk, capture, cpu, delay_line, fairness, flat, http, in_memory as many, kept, limits,
    mix, model, noise, observations, pressure, profiles, rates, replay, scale, sends, starts,
    watched, wire,
};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("wirebeat-bench: {why}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    if let Some(scenario) = &options.memory_of {
        return replay::memory_of(scenario);
    }
    if let Some(sessions) = options.idle_endpoints {
        return in_memory::idle_endpoints(sessions);
    }
    if let [sessions, time_wait] = options.idle_run[..] {
        return idle_run::idle_run(sessions, time_wait);
    }
    if let Some(sessions) = options.scale {
        return in_memory::scale(sessions);
    }
    if let [each_second, seconds] = options.turnover[..] {
        return in_memory::turnover(each_second, Nanos::from_secs(seconds));
    }
    if let Some(constant) = &options.constant_sender {
        return studies::constant_sender::send(constant);
    }
    require(Capability::NetworkNamespaces)?;
    require(Capability::XdpLiveFrames)?;
    if let Some(which) = options.study {
        return studies::repeat(options, which);
    }
    if !options.no_install {
        install::install(|_| true);
    }
    let load = document::load_average();
    let (begun, started) = (Instant::now(), rfc3339(SystemTime::now()));
    let lab = Lab::lay()?;
    let files = Files::write(&lab)?;
    let (rounds, time, extent) = (options.rounds(), options.time(), options.extent());
    let mut bench = Bench { lab, files, rounds, time, extent, named: options.named.clone() };

    let mut heard = noise::listen(&bench, "before");
    let before = CpuTimes::now();
    let mut chapters = Vec::new();
    for (chapter, measure) in CHAPTERS {
        if options.wants(chapter) {
            chapters.push(measure(&mut bench));
        }
    }
    let spent = CpuTimes::now().since(&before);
    heard.extend(noise::listen(&bench, "after"));
    chapters.insert(0, noise::chapter(&heard, &spent));

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let heading = Heading {
        command: document::command(options, &arguments),
        started,
        elapsed: begun.elapsed(),
        load,
        peers: options.peers(),
        in_full: options.in_full(),
        is_trial: options.is_trial(),
    };
    let file = options.file();
    let text = document(&bench, &heading, &chapters, file.as_deref())?;
    match file {
        Some(path) => {
            let write = |path: &Path, text: &str| {
                let written = fs::write(path, text);
                written.map_err(|why| format!("cannot write {}: {why}", path.display()))
            };
            for picture in chapters.iter().filter_map(|chapter| chapter.picture.as_ref()) {
                let file = document::picture_file(&path, picture);
                write(&path.with_file_name(file), &picture.file())?;
            }
            write(&path, &text)?;
            eprintln!("written to {}", path.display());
        }
        None => io::stdout().write_all(text.as_bytes())?,
    }
    Ok(())
}

/// A chapter, and what measures it.
type Measure = fn(&mut Bench) -> sections::Chapter;

/// The chapters in their order.
const CHAPTERS: [(Chapters, Measure); 23] = [
    (Chapters::Flat, flat::measure),
    (Chapters::Model, model::measure),
    (Chapters::Rates, rates::measure),
    (Chapters::Capture, capture::measure),
    (Chapters::Cpu, cpu::measure),
    (Chapters::Observations, observations::measure),
    (Chapters::AfXdp, af_xdp::measure),
    (Chapters::Kept, kept::measure),
    (Chapters::Sends, sends::measure),
    (Chapters::Pressure, pressure::measure),
    (Chapters::DelayLine, delay_line::measure),
    (Chapters::Watched, watched::measure),
    (Chapters::Limits, limits::measure),
    (Chapters::Profiles, profiles::measure),
    (Chapters::Replay, replay::measure),
    (Chapters::InMemory, many::measure),
    (Chapters::Scale, scale::measure),
    (Chapters::Wire, wire::measure),
    (Chapters::Mix, mix::measure),
    (Chapters::Http, http::measure),
    (Chapters::Bulk, bulk::measure),
    (Chapters::Starts, starts::measure),
    (Chapters::Fairness, fairness::measure),
];
