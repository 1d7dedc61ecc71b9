//! `wirebeat send`: flows from the command line.
//!
//! The command line is a scenario in short: `scenario.rs` writes it out, `--print-scenario` shows it.
//! `flow.rs` has the flags that say what a flow is, and `blame.rs` tells what is wrong in their words.

pub mod blame;
mod flow;
mod scenario;

use clap::Args as ClapArgs;
use wirebeat_explain::Checked;
use wirebeat_run::{Options, read_files};
use wirebeat_traffic::scenario::{LateChoice, Scenario};
use wirebeat_units::Nanos;

use crate::ctl::ControlArgs;
use crate::destination::Hosts;
use crate::expect::ExpectArgs;
use crate::failure::Failure;
use crate::output::{Output, ReportArgs, print_data};
use crate::repeat::RepeatArgs;
use crate::sender::{PeerArgs, PortArgs, StartArgs};
use crate::values;
use crate::watch::WatchArgs;
use flow::{FlowArgs, NamedFlow};

const EXAMPLES: &str = "\
Examples:
  wirebeat send --to 10.0.0.2:9 --rate 100kpps
  wirebeat send --to 10.0.0.2 --rate unlimited --interface eth1 --engine kernel --size 64B --time 30s
  wirebeat send --to 10.0.0.2 --flow name=voice,rate=12500pps,size=214B,dscp=ef \\
                              --flow name=bulk,rate=2Gbps,size=1518B
  wirebeat send --to 10.0.0.2 --rate 100kpps --peer 10.0.0.2 --key-file lab.key
  wirebeat send --to 10.0.0.2:7 --rate 1kpps --round-trips";

/// Send flows of UDP datagrams
///
/// Sends flows of UDP datagrams and reports how exactly they left. With --peer, a receiver on another host
/// measures what arrives, and the report holds both ends.
#[derive(ClapArgs, Debug)]
#[command(
    override_usage = "wirebeat send --to <HOST[:PORT]> --rate <RATE> [OPTIONS]",
    after_long_help = EXAMPLES
)]
pub struct Args {
    #[command(flatten)]
    flow: FlowArgs,
    /// A flow of its own, given once for each: name=voice,rate=12500pps,size=214B
    ///
    /// The keys are 'name' and the flags under 'Flow' and 'Packet', which hold for every flow that does
    /// not say otherwise. A flag without a value is a key without one: no-probe. A comma within a value
    /// is doubled.
    #[arg(
        long = "flow",
        visible_alias = "flows",
        value_name = "KEY=VALUE,...",
        help_heading = "Flow"
    )]
    flows: Vec<NamedFlow>,
    /// Receive what a reflector sends back, and measure round trips
    ///
    /// Delays are those of round trips then, and loss is that of both ways. 'wirebeat serve echo --transport udp' is a reflector. The
    /// source port is 49152 unless it is given: reflectors answer no port below 1024.
    #[arg(
        long,
        conflicts_with_all = ["peer", "no_probe"],
        help_heading = "Flow",
        hide_short_help = true
    )]
    round_trips: bool,
    #[command(flatten)]
    port: PortArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    peer: PeerArgs,
    #[command(flatten)]
    control: ControlArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    pub watch: WatchArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print the scenario that this command line means, and send nothing
    #[arg(long, conflicts_with = "json", help_heading = "Report")]
    print_scenario: bool,
}

/// How long, and how exactly.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Run")]
struct RunArgs {
    /// How long to send [default: 10s, or until --count is reached]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    time: Option<Nanos>,
    #[command(flatten)]
    start: StartArgs,
    /// What happens to a frame that cannot leave in time
    #[arg(long, value_name = "WHAT", value_parser = values::late(), default_value = "send")]
    late: LateChoice,
    /// With --late drop: how late a frame may leave [default: 100us]
    #[arg(long, value_name = "TIME")]
    drift: Option<Nanos>,
    /// Seed of every random choice: the same seed gives the same traffic [default: 1]
    #[arg(long, value_name = "N", value_parser = values::number)]
    seed: Option<u64>,
}

/// Sends.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let mut tell = |line: &str| output.notice(line);
    let scenario = scenario::scenario(args, &mut Hosts::new(&mut tell))?;
    if args.print_scenario {
        let yaml = scenario.to_yaml().map_err(|error| Failure::usage(error.to_string()))?;
        print_data(&yaml)?;
        return Ok(0);
    }
    args.repeat.check(&args.watch, &args.report)?;
    let (peer, control) = (args.peer.peer()?, args.control.wanted());
    let abort_on_fail = args.expect.abort.abort_on_fail;
    let more = |own: Options| {
        let (peer, control) = (peer.clone(), control.clone());
        Options { peer, control, abort_on_fail, ..own }
    };
    check(&scenario, &more(output.options()))?;
    scenario::check_rates(args)?;
    args.repeat.execute(&scenario, &more, output, &|error| blame::error(error, &scenario))
}

/// Finds what is invalid on any machine, before this one is asked.
fn check(scenario: &Scenario, options: &Options) -> Result<(), Failure> {
    let files = read_files(scenario, options).map_err(|error| blame::error(error, scenario))?;
    match Checked::new(scenario, &files) {
        Err(error) => Err(blame::invalid(error.problem(), scenario)),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The scenario of a command line without quotes.
    pub(crate) fn scenario(line: &str) -> Result<Scenario, Failure> {
        let line = Line::try_parse_from(line.split_whitespace());
        let line = line.map_err(|error| crate::usage::explain(&error))?;
        super::scenario::scenario(&line.args, &mut Hosts::new(&mut |_| {}))
    }
}
