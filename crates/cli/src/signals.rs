//! Signals that end a run: the first asks it to stop and report, a second one ends the program.
//!
//! They are blocked in every thread and awaited by one of their own, so that no handler has to be safe
//! at any moment of any other thread.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use wirebeat_run::Stop;

use crate::failure::Failure;
use crate::tui::Restore;

/// What a shell adds to the number of the signal that ended a program.
const SHELL_OFFSET: i32 = 128;
/// Signals that come together are one wish: `timeout` and others send theirs to the process and to its
/// group. Nobody presses a key twice as fast.
const ONE_WISH: Duration = Duration::from_millis(100);

/// What SIGINT, SIGTERM and SIGHUP do from now on.
#[derive(Debug)]
pub struct Signals {
    stop: Stop,
    running: Arc<AtomicBool>,
    remains: Arc<Mutex<Remains>>,
}

/// What is put in order where a signal ends the program at once.
#[derive(Debug, Default)]
struct Remains {
    files: Vec<PathBuf>,
    terminal: Option<Restore>,
}

impl Signals {
    /// Takes charge of them. Until [`Signals::running`] they end the program, for there is nothing to
    /// report. Call it before other threads are started: they inherit that these signals are blocked.
    pub fn watch() -> Result<Signals, Failure> {
        let failed =
            |error: io::Error| Failure::machine(format!("cannot watch for signals: {error}"));
        let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        // it asks for nothing but an end; the terminal is given back all the same
        if !is_ignored(Signal::SIGQUIT) {
            signals.add(Signal::SIGQUIT);
        }
        // A terminal that goes away ends the run as a key does; under nohup it is to go on.
        if !is_ignored(Signal::SIGHUP) {
            signals.add(Signal::SIGHUP);
        }
        signals.thread_block().map_err(|error| failed(error.into()))?;
        let (stop, running) = (Stop::new(), Arc::new(AtomicBool::new(false)));
        let (asked, runs) = (stop.clone(), Arc::clone(&running));
        let remains = Arc::new(Mutex::new(Remains::default()));
        let leaving = Arc::clone(&remains);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut first = None;
                while let Ok(signal) = signals.wait() {
                    let since = first.map(|first: Instant| first.elapsed());
                    let runs = runs.load(Ordering::Acquire) && signal != Signal::SIGQUIT;
                    match answer(runs, since) {
                        SignalAnswer::Stop => {
                            first = Some(Instant::now());
                            asked.ask(signal as u8);
                        }
                        SignalAnswer::Nothing => {}
                        SignalAnswer::End => {
                            put_in_order(&leaving);
                            process::exit(SHELL_OFFSET + signal as i32)
                        }
                    }
                }
            })
            .map_err(failed)?;
        Ok(Signals { stop, running, remains })
    }

    /// Removes this file, too, where a signal ends the program at once. All else that a run makes goes with its process.
    pub fn remove_at_end(&self, path: &Path) {
        let mut remains = self.remains.lock().unwrap_or_else(PoisonError::into_inner);
        remains.files.push(path.to_owned());
    }

    /// Gives the terminal back, too.
    pub fn restore_at_end(&self, terminal: Restore) {
        let mut remains = self.remains.lock().unwrap_or_else(PoisonError::into_inner);
        remains.terminal = Some(terminal);
    }

    /// What the first one asks, also before [`Signals::running`].
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// From now on the first one asks the run to stop.
    pub fn running(&self) -> &Stop {
        self.running.store(true, Ordering::Release);
        &self.stop
    }
}

fn put_in_order(remains: &Mutex<Remains>) {
    let remains = remains.lock().unwrap_or_else(PoisonError::into_inner);
    for path in &remains.files {
        let _ = fs::remove_file(path);
    }
    remains.terminal.iter().for_each(Restore::restore);
}

/// Whether the process that started the program had this signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let mask = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:").map(str::to_owned));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
    };
    let ignored = fs::read_to_string("/proc/self/status").ok().and_then(mask).unwrap_or(0);
    ignored >> (signal as u32 - 1) & 1 == 1
}

/// What a signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalAnswer {
    Stop,
    Nothing,
    End,
}

/// What a signal does, so long `after` the first one.
fn answer(running: bool, after: Option<Duration>) -> SignalAnswer {
    match after {
        _ if !running => SignalAnswer::End,
        None => SignalAnswer::Stop,
        Some(after) if after < ONE_WISH => SignalAnswer::Nothing,
        Some(_) => SignalAnswer::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_stops_a_run_and_a_second_ends_it() {
        let soon = ONE_WISH / 2;
        assert_eq!(answer(true, None), SignalAnswer::Stop);
        assert_eq!(answer(true, Some(soon)), SignalAnswer::Nothing);
        assert_eq!(answer(true, Some(ONE_WISH)), SignalAnswer::End);
    }

    #[test]
    fn a_run_that_has_not_begun_has_nothing_to_report() {
        assert_eq!(answer(false, None), SignalAnswer::End);
    }
}
