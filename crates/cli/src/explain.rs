//! `wirebeat explain`: what a scenario means, before anything is sent.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_explain::{Shown, page};
use wirebeat_units::{fault, human};

use crate::check::checked;
use crate::failure::Failure;
use crate::file::FileArgs;
use crate::output;
use crate::values;

/// The most frames or departures that a page shows.
const MOST: u64 = 1000;

const EXAMPLES: &str = "\
Examples:
  wirebeat explain scenario.yaml
  wirebeat explain scenario.yaml --flow voice --frames 3 --departures 20
  wirebeat send --to 10.0.0.2 --rate 100kpps --print-scenario | wirebeat explain -";

/// Explain what a scenario sends, and send nothing
///
/// For each flow: where it goes, when, how fast on each layer, how its frames follow one another, how long
/// they are, what changes, and the first frames with every field named. For each port: whether an engine
/// can repeat a round of frames by itself, and if not, why. For each group of sessions: when they start,
/// what they say, how much data that is, and which ports and how much memory it takes. What a scenario
/// leaves to the machine (addresses, next hops) is made up.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON, or a script; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// Explain this flow, or group of sessions, alone
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// How many frames to show of each flow [default: 1, or 3 where they differ]
    #[arg(long, value_name = "N", value_parser = values::number)]
    frames: Option<u64>,
    /// How many departures to show of each flow [default: 6]
    #[arg(long, value_name = "N", value_parser = values::number)]
    departures: Option<u64>,
}

/// Explains.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let shown = Shown {
        frames: args.frames.map(|frames| frames.min(MOST)),
        departures: args.departures.unwrap_or(6).min(MOST),
    };
    let (file, checked) = checked(&args.scenario, &args.reading)?;
    let only = args.flow.as_deref();
    let names = file.scenario.flows.keys().chain(file.scenario.sessions.keys());
    if let Some(name) = only.filter(|only| !names.clone().any(|name| name == only)) {
        let names: Vec<&str> = names.map(String::as_str).take(12).collect();
        let why = fault!("there is no flow '{name}'"; "{}", human::present(&names));
        return Err(Failure::usage(why).at("--flow"));
    }
    let text = page(&checked, only, shown, output::colour())
        .map_err(|error| file.invalid(error.problem()))?;
    output::print(&text)?;
    Ok(0)
}
