//! `wirebeat test`: standard tests of devices, one file each.

mod rfc2544;
mod soak;
mod y1564;

use clap::{Args as ClapArgs, Subcommand};

use crate::failure::Failure;
use crate::output::{Output, ReportArgs};
use crate::watch::WatchArgs;

/// Test a device by a standard
///
/// Finds out what a device between two ports bears, by the methods of the standards. The tester proves each load by its own books: where
/// it limits a result itself, the result says so.
#[derive(ClapArgs, Debug)]
pub struct Args {
    #[command(subcommand)]
    test: Test,
}

/// The table of the tests. Help texts stand with the arguments of each.
#[derive(Subcommand, Debug)]
enum Test {
    Rfc2544(Box<rfc2544::Args>),
    Soak(Box<soak::Args>),
    Y1564(Box<y1564::Args>),
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        match &self.test {
            Test::Rfc2544(args) => args.report(),
            Test::Soak(args) => args.report.clone(),
            Test::Y1564(args) => args.report(),
        }
    }

    /// Who watches the run that it makes.
    pub fn watch(&self) -> WatchArgs {
        match &self.test {
            Test::Soak(args) => args.watch.clone(),
            _ => WatchArgs::default(),
        }
    }
}

/// What a result that is handed on is headed with.
#[derive(ClapArgs, Clone, Debug)]
#[command(next_help_heading = "Report")]
pub struct TitleArgs {
    /// What the result is headed with: the name of the device or of the network
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Tests.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    match &args.test {
        Test::Rfc2544(args) => rfc2544::run(args, output),
        Test::Soak(args) => soak::run(args, output),
        Test::Y1564(args) => y1564::run(args, output),
    }
}
