//! Signals that end a run: the first asks it to stop and report, the second ends the program.
//!
//! They are blocked in every thread and awaited by one of their own, so that no handler has to be safe
//! at any moment of any other thread.

use std::io;
use std::process;
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use wirebeat_run::Stop;

use crate::failure::Failure;

/// What a shell adds to the number of the signal that ended a program.
const SHELL_OFFSET: i32 = 128;

/// Gives what SIGINT and SIGTERM ask to stop. Call it before other threads are started: they inherit
/// that these signals are blocked.
pub fn stop() -> Result<Stop, Failure> {
    let failed = |error: io::Error| Failure::machine(&format!("cannot watch for signals: {error}"));
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().map_err(|error| failed(error.into()))?;
    let stop = Stop::new();
    let asked = stop.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            while let Ok(signal) = signals.wait() {
                if asked.asked() {
                    process::exit(SHELL_OFFSET + signal as i32);
                }
                asked.ask(signal as u8);
            }
        })
        .map_err(failed)?;
    Ok(stop)
}
