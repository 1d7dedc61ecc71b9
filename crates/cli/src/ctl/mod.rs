//! `wirebeat ctl`: changes the flows of a run, and the starts of its sessions, through its local control socket, and shows what it
//! counts (`stats.rs`).

mod stats;

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use wirebeat_run::Controlled;
use wirebeat_run::control::client::{self, ClientError};
use wirebeat_run::control::message::{Answer, ControlRequest, Effect, FlowState, State};
use wirebeat_traffic::scenario::change::Settings;
use wirebeat_traffic::scenario::{Change, Departures, FlowRate, Size};
use wirebeat_units::Nanos;
use wirebeat_units::printable::printable;

use crate::failure::Failure;
use crate::output::{ReportArgs, print, tell};

const EXAMPLES: &str = "\
Examples:
  wirebeat run scenario.yaml --control
  wirebeat ctl list
  wirebeat ctl set voice --rate 20kpps --size 128B
  wirebeat ctl pause voice
  wirebeat ctl stats --follow
  wirebeat ctl stats --count 6 --interval 10s --json-lines
  wirebeat ctl stop --all";

/// Whether a run can be changed while it goes on.
#[derive(ClapArgs, Debug)]
pub struct ControlArgs {
    /// Let `wirebeat ctl` change flows and starts of sessions while the run goes on, through a local socket
    ///
    /// Only you may use the socket. --control=PATH says where it lies [default: in $XDG_RUNTIME_DIR/wirebeat, or for
    /// root in /run/wirebeat].
    ///
    /// The kernel engine then streams what it could repeat by itself, and there is room for frames of up to 1518
    /// bytes, or the longest of the scenario.
    #[arg(
        long,
        value_name = "PATH",
        num_args = 0..=1,
        require_equals = true,
        help_heading = "Control"
    )]
    control: Option<Option<PathBuf>>,
}

impl ControlArgs {
    /// What was asked for.
    pub fn wanted(&self) -> Controlled {
        self.control.clone().map_or(Controlled::No, Controlled::BySocket)
    }
}

/// Change flows and starts of sessions while a run goes on, and see what it counts
///
/// Lists, changes, pauses, resumes and stops the flows of a run that was started with --control, and the starts of its sessions
/// that have a rate, and prints what it has counted so far. A change takes effect 150 ms after the run has taken it, on all cores at once, overrides what the
/// scenario planned for the flow, and is in the report with its time. Sessions that are open go on.
#[derive(ClapArgs, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The run's socket [default: that of your only run]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
    /// How long the run may take to answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::values::time, global = true)]
    timeout: Nanos,
    #[command(subcommand)]
    what: What,
}

impl Args {
    /// How its result is wanted: an error between lines of JSON is one, too.
    pub fn report(&self) -> ReportArgs {
        let json_lines = matches!(&self.what, What::Stats(stats) if stats.json_lines);
        ReportArgs { json_lines, ..ReportArgs::default() }
    }
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the flows and groups of sessions, and what they do
    List,
    /// Change what a flow sends, or how sessions start
    Set(Box<SetArgs>),
    /// Let a flow, or the starts of sessions, pause
    Pause {
        /// The name of the flow or the group of sessions
        #[arg(value_name = "FLOW")]
        flow: String,
    },
    /// Let a flow, or the starts of sessions, go on after a pause
    Resume {
        /// The name of the flow or the group of sessions
        #[arg(value_name = "FLOW")]
        flow: String,
    },
    /// End a flow or the starts of a group of sessions, or all of them; the run ends with the last
    Stop {
        /// The name of the flow or the group of sessions
        #[arg(value_name = "FLOW", required_unless_present = "all")]
        flow: Option<String>,
        /// All flows and groups of sessions
        #[arg(long, conflicts_with = "flow")]
        all: bool,
    },
    /// Print what the run has counted: its last intervals, those that follow, and the sum of all
    Stats(stats::StatsArgs),
}

#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat ctl set <FLOW> [--rate <RATE>] [--size <SIZE>] [--departures <HOW>] [--sub-flows <N>]"
)]
#[group(id = "settings", required = true, multiple = true, args = ["rate", "size", "departures", "sub_flows"])]
struct SetArgs {
    /// The name of the flow or the group of sessions
    #[arg(value_name = "FLOW")]
    flow: String,
    /// How fast, as in `wirebeat send` or `wirebeat load`
    #[arg(long, value_name = "RATE", value_parser = crate::values::rate)]
    rate: Option<FlowRate>,
    /// How long frames are with their FCS, as in `wirebeat send`
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size)]
    size: Option<Size>,
    /// How the times between frames vary, as in `wirebeat send`
    #[arg(long, value_name = "HOW", value_parser = crate::values::departures)]
    departures: Option<Departures>,
    /// Of what is replayed: records of the first so many sub-flows alone
    #[arg(long, value_name = "N", value_parser = crate::values::count::<NonZeroU32>)]
    sub_flows: Option<NonZeroU32>,
}

/// The widest column of names.
const NAME_MAX: usize = 200;
/// The longest words on what a flow sends.
const SENDS_MAX: usize = 400;
/// The longest reason of a refusal.
const WHY_MAX: usize = 2000;

/// Asks the run and prints its answer.
pub fn run(args: &Args) -> Result<u8, Failure> {
    if let What::Stats(args) = &args.what {
        args.check()?;
    }
    let path = match &args.control {
        Some(path) => path.clone(),
        None => client::find().map_err(|error| failure(&error))?,
    };
    let timeout = args.timeout.to_duration();
    let request = match &args.what {
        What::Stats(args) => return stats::run(args, &path, timeout),
        What::List => ControlRequest::List {},
        What::Set(set) => changed(&set.flow, Change::To(Box::new(set.settings()))),
        What::Pause { flow } => changed(flow, Change::Pause),
        What::Resume { flow } => changed(flow, Change::Resume),
        What::Stop { flow: Some(flow), .. } => ControlRequest::Stop { flow: flow.clone() },
        What::Stop { flow: None, .. } => ControlRequest::StopAll {},
    };
    let answer = client::ask(&path, &request, timeout).map_err(|error| failure(&error))?;
    match answer {
        Answer::Flows(flows) if flows.is_empty() => tell(
            "nothing of this run can be changed: groups of users and servers have no rate, and it has no flows",
        ),
        Answer::Flows(flows) => print(&table(&flows))?,
        Answer::Done(effects) => print(&effects.iter().map(effect).collect::<String>())?,
        Answer::Error(why) => return Err(Failure::usage(shown(&why, WHY_MAX))),
    }
    Ok(0)
}

fn changed(flow: &str, to: Change) -> ControlRequest {
    ControlRequest::Change { flow: flow.to_owned(), to }
}

fn failure(error: &ClientError) -> Failure {
    let told = error.fault().map(|text| shown(text, WHY_MAX));
    match error {
        ClientError::Place(_)
        | ClientError::Unreachable { .. }
        | ClientError::Silent { .. }
        | ClientError::TooLong { .. }
        | ClientError::Ended { .. }
        | ClientError::Answer { .. } => Failure::machine(told),
        ClientError::None | ClientError::Several(_) => Failure::usage(told),
    }
}

/// What can be shown of a text of a run, which may be anybody's: `most` characters.
fn shown(text: &str, most: usize) -> String {
    let end = text.char_indices().nth(most).map(|(at, _)| at);
    let rest = end.map_or("", |_| "…");
    format!("{}{rest}", printable(end.and_then(|end| text.get(..end)).unwrap_or(text)))
}

fn effect(effect: &Effect) -> String {
    format!("{} from {} on\n", shown(&effect.flow, NAME_MAX), Nanos::new(effect.at_ns))
}

fn table(flows: &[FlowState]) -> String {
    // The run may be anybody's, and its answer anything.
    let width = flows.iter().map(|flow| flow.flow.chars().count().min(NAME_MAX)).max().unwrap_or(0);
    let line = |flow: &FlowState| {
        let state = match flow.state {
            State::Waiting => "waiting",
            State::Sending => "sending",
            State::Paused => "paused",
            State::Ended => "ended",
        };
        let (name, sends) = (shown(&flow.flow, NAME_MAX), shown(&flow.sends, SENDS_MAX));
        let next = flow.next.as_ref().map(|next| format!("  ({})", shown(next, SENDS_MAX)));
        let line = format!("{name:width$}  {state:7}  {sends}{}", next.unwrap_or_default());
        line.trim_end().to_owned() + "\n"
    };
    flows.iter().map(line).collect()
}

impl SetArgs {
    fn settings(&self) -> Settings {
        Settings {
            rate: self.rate.clone(),
            departures: self.departures.clone(),
            size: self.size.clone(),
            packet: None,
            sub_flows: self.sub_flows,
        }
    }
}
