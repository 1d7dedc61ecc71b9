//! The table of the subcommands, and the way through one.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use wirebeat_run::Exit;

use crate::failure::Failure;
use crate::output::{self, Output, ReportArgs};
use crate::watch::WatchArgs;
use crate::{
    archive, capture, check, compare, completions, convert, ctl, demo, doctor, examples, explain,
    load, man, receive, replay, report, run, send, serve, sweep, test, usage,
};

/// What the program is called.
pub const NAME: &str = "wirebeat";

/// Columns of help texts on a wide terminal; wider lines are hard to read.
const HELP_WIDTH: usize = 80;

const FIRST_STEPS: &str = "\
First steps:
  wirebeat demo                                exact traffic on a virtual cable
  wirebeat doctor                              what works on this machine
  wirebeat examples                            scenarios to begin with
  wirebeat receive --interface eth1            on one host, and then
  wirebeat send --to 10.0.0.2 --rate 100kpps   on another";

const CONVENTIONS: &str = "\
Signals:
  The first SIGINT, SIGTERM or SIGHUP ends a run with its report, the second ends it at once.

Environment:
  WIREBEAT_KEY  the key for --peer and --listen
  NO_COLOR      if it is set, reports have no colours";

/// The table of exit codes, and which of several counts.
fn exit_codes() -> String {
    let line = |(exit, meaning): &(Exit, &str)| format!("  {}  {meaning}\n", exit.code());
    let lines: String = Exit::TABLE.iter().map(line).collect();
    format!("Exit codes:\n{lines}  Where several are true: 1 before 4 before 5.")
}

/// Sends exactly timed traffic and measures what arrives
#[derive(Parser, Debug)]
#[command(
    name = NAME,
    version,
    max_term_width = HELP_WIDTH,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = FIRST_STEPS,
    after_long_help = format!("{FIRST_STEPS}\n\n{}\n\n{CONVENTIONS}", exit_codes())
)]
struct Wirebeat {
    #[command(subcommand)]
    command: Command,
}

/// The table. Help texts stand with the arguments of each.
#[derive(Subcommand, Debug)]
enum Command {
    Send(Box<send::Args>),
    Receive(Box<receive::Args>),
    Capture(Box<capture::Args>),
    Replay(Box<replay::Args>),
    Load(Box<load::Args>),
    Serve(Box<serve::Args>),
    Run(Box<run::Args>),
    Sweep(Box<sweep::Args>),
    Test(test::Args),
    Report(report::Args),
    Compare(compare::Args),
    Check(check::Args),
    Explain(explain::Args),
    Convert(convert::Args),
    Archive(archive::Args),
    Ctl(ctl::Args),
    Demo(demo::Args),
    Examples(examples::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// How its result is wanted.
    fn report(&self) -> ReportArgs {
        match self {
            Command::Send(args) => args.report.clone(),
            Command::Receive(args) => args.report.clone(),
            Command::Capture(args) => args.report.clone(),
            Command::Replay(args) => args.report.clone(),
            Command::Load(args) => args.report.clone(),
            Command::Serve(args) => args.report.clone(),
            Command::Run(args) => args.report.clone(),
            Command::Sweep(args) => args.report(),
            Command::Test(args) => args.report(),
            Command::Report(args) => args.report(),
            Command::Compare(args) => args.report(),
            Command::Check(args) => args.report(),
            Command::Demo(args) => args.report.clone(),
            Command::Doctor(args) => args.report(),
            Command::Archive(args) => args.report(),
            Command::Ctl(args) => args.report(),
            Command::Explain(_)
            | Command::Convert(_)
            | Command::Examples(_)
            | Command::Completions(_)
            | Command::Man(_) => ReportArgs::default(),
        }
    }

    /// Who watches the run that it makes.
    fn watch(&self) -> WatchArgs {
        match self {
            Command::Send(args) => args.watch.clone(),
            Command::Receive(args) => args.watch.clone(),
            Command::Replay(args) => args.watch.clone(),
            Command::Load(args) => args.watch.clone(),
            Command::Serve(args) => args.watch.clone(),
            Command::Run(args) => args.watch.clone(),
            Command::Test(args) => args.watch(),
            _ => WatchArgs::default(),
        }
    }

    fn run(&self, output: &mut Output) -> Result<u8, Failure> {
        match self {
            Command::Send(args) => send::run(args, output),
            Command::Receive(args) => receive::run(args, output),
            Command::Capture(args) => capture::run(args, output),
            Command::Replay(args) => replay::run(args, output),
            Command::Load(args) => load::run(args, output),
            Command::Serve(args) => serve::run(args, output),
            Command::Run(args) => run::run(args, output),
            Command::Sweep(args) => sweep::run(args, output),
            Command::Test(args) => test::run(args, output),
            Command::Report(args) => report::run(args, output),
            Command::Compare(args) => compare::run(args, output),
            Command::Check(args) => check::run(args, output),
            Command::Explain(args) => explain::run(args),
            Command::Convert(args) => convert::run(args),
            Command::Archive(args) => archive::run(args, output),
            Command::Ctl(args) => ctl::run(args),
            Command::Demo(args) => demo::run(args, output),
            Command::Examples(args) => examples::run(args),
            Command::Doctor(args) => doctor::run(args, output),
            Command::Completions(args) => completions::run(args),
            Command::Man(args) => man::run(args),
        }
    }
}

/// The whole command line.
pub fn definition() -> clap::Command {
    // What looks like a negative number is a wrong value, not an unknown flag.
    let valued = |argument: Arg| match argument.get_action().takes_values() {
        true => argument.allow_negative_numbers(true),
        false => argument,
    };
    Wirebeat::command().mut_subcommands(|command| command.mut_args(valued))
}

/// Runs a command line, and gives the exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let mut output = Output::before_parsing(&arguments);
    let outcome = parse(&arguments).and_then(|parsed| match parsed {
        Parsed::Answered(code) => Ok(code),
        Parsed::Command(command) => {
            output = Output::open(command.report(), command.watch(), &arguments)?;
            command.run(&mut output)
        }
    });
    outcome.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit_code()
    })
}

enum Parsed {
    Command(Box<Command>),
    /// Help or version was asked for and given.
    Answered(u8),
}

fn parse(arguments: &[OsString]) -> Result<Parsed, Failure> {
    let matches = definition().try_get_matches_from(arguments);
    match matches.and_then(|matches| Wirebeat::from_arg_matches(&matches)) {
        Ok(parsed) => Ok(Parsed::Command(Box::new(parsed.command))),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                output::print(&error.render().to_string())?;
                Ok(Parsed::Answered(0))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                output::tell(&error.render().to_string());
                Ok(Parsed::Answered(2))
            }
            _ => Err(usage::explain_line(&error, arguments, &definition())),
        },
    }
}
