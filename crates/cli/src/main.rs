//! The `wirebeat` command: what is asked for on a command line becomes a call of `wirebeat-run`.
//!
//! `command.rs` is the table of the subcommands; each has a file of its own with its arguments and
//! what it does. `failure.rs` is how the command says no, `output.rs` where its results go. Nothing
//! here measures or sends: that is all behind `wirebeat_run`.

mod archive;
mod capture;
mod check;
mod command;
mod compare;
mod completions;
mod convert;
mod ctl;
mod demo;
mod destination;
mod doctor;
mod examples;
mod execute;
mod expect;
mod explain;
mod failure;
mod file;
mod kept;
mod key;
mod load;
mod man;
mod metrics;
mod otlp;
mod output;
mod packet;
mod pictures;
#[cfg(test)]
mod printed;
mod progress;
mod receive;
mod repeat;
mod replay;
mod report;
mod run;
mod script;
mod selftest;
mod send;
mod sender;
mod serve;
mod signals;
mod sweep;
mod test;
mod tui;
mod usage;
mod values;
mod watch;

use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};

fn main() -> ExitCode {
    // a file that becomes longer than a limit (ulimit -f) is told as one that cannot be written (EFBIG), and ends nothing
    let _ = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    ExitCode::from(command::run(std::env::args_os().collect()))
}
