//! `wirebeat explain`: what a scenario means, before anything is sent.
//!
//! Everything is read from the compiled program, so that what is explained is what would be sent. This
//! machine is not asked. `flow.rs` explains a flow, `frame.rs` its frames, `port.rs` what engines make of
//! the flows of a port; `words.rs` puts values into words and `page.rs` lays them out.

mod flow;
mod frame;
mod page;
mod port;
mod words;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use wirebeat_report::format::Colour;
use wirebeat_units::human;

use crate::check::{Checked, checked};
use crate::failure::Failure;
use crate::file::{ASSUMED_SPEED, FileArgs};
use crate::output;
use crate::values;
use page::Page;

/// The most frames or departures that a page shows.
const MOST: u64 = 1000;

const EXAMPLES: &str = "\
Examples:
  wirebeat explain scenario.yaml
  wirebeat explain scenario.yaml --flow voice --frames 3 --departures 20
  wirebeat send --to 10.0.0.2 --rate 100kpps --print-scenario | wirebeat explain -";

/// Say what a scenario means, and send nothing
///
/// For each flow: where it goes, when, how fast on each layer, how its frames follow one another, how long
/// they are, what changes, and the first frames with every field named. For each port: whether an engine
/// can repeat a round of frames by itself, and if not, why. What a scenario leaves to the machine
/// (addresses, next hops) is made up.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The scenario, in YAML or JSON, or a script; '-' reads standard input
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    reading: FileArgs,
    /// Explain this flow alone
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// How many frames to show of each flow [default: 1, or 3 where they differ]
    #[arg(long, value_name = "N", value_parser = values::number)]
    frames: Option<u64>,
    /// How many departures to show of each flow [default: 6]
    #[arg(long, value_name = "N", value_parser = values::number)]
    departures: Option<u64>,
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
struct Shown {
    frames: Option<u64>,
    departures: u64,
}

/// Explains.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let shown = Shown {
        frames: args.frames.map(|frames| frames.min(MOST)),
        departures: args.departures.unwrap_or(6).min(MOST),
    };
    let checked = checked(&args.scenario, &args.reading)?;
    let text = text(&checked, args.flow.as_deref(), shown, output::colour())?;
    output::print(&text)?;
    Ok(0)
}

fn text(
    checked: &Checked,
    only: Option<&str>,
    shown: Shown,
    colour: Colour,
) -> Result<String, Failure> {
    let mut page = Page::new(colour);
    let scenario = &checked.file.scenario;
    if let Some(name) = only
        && !scenario.flows.contains_key(name)
    {
        let names: Vec<&str> = scenario.flows.keys().map(String::as_str).take(12).collect();
        let why = format!("there is no flow '{name}'; there is {}", names.join(", "));
        return Err(Failure::usage(&why).at("--flow"));
    }
    for (number, (name, spec)) in (0_u32..).zip(&scenario.flows) {
        if only.is_none_or(|only| only == name) {
            flow::explain(&mut page, checked, (number, name, spec), shown)
                .map_err(|error| checked.file.invalid(error.problem()))?;
        }
    }
    for (name, spec) in &scenario.ports {
        let flows = checked.program.flows_from(name);
        let asked = |name| flows.iter().any(|flow| flow::name(checked, *flow) == name);
        if only.is_none_or(asked) {
            port::explain(&mut page, checked, (name, spec), &flows);
        }
    }
    if only.is_none() {
        notes(&mut page, checked);
    }
    Ok(page.into_text())
}

/// What holds for all of it.
fn notes(page: &mut Page, checked: &Checked) {
    page.heading("the run");
    let run = &checked.file.scenario.run;
    let time = match run.time {
        Some(time) => format!("nothing is sent at or after {time}"),
        None => "until every flow has ended".to_owned(),
    };
    page.fact("ends", &format!("{time}; receiving goes on for {} more", run.settle));
    page.fact("seed", &format!("{}: the same seed gives the same traffic", checked.program.seed));
    let mut assumed = "addresses and next hops that the scenario does not write are made up here \
                       (198.18.0.0/15, 2001:2::/48), and found when it runs"
        .to_owned();
    if checked.links.ports.values().any(|link| link.speed.is_some()) {
        let speed = human::bit_rate(ASSUMED_SPEED.0 as f64);
        assumed += &format!("; shares of a link are those of {speed}");
    }
    page.fact("assumed", &assumed);
}
