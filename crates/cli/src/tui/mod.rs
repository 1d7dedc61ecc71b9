//! `--tui`: a live view of a run on the terminal.
//!
//! An observer hands what the run tells to a thread of its own, which draws it and reads keys: the run waits for neither. `view.rs` is
//! the state, `draw.rs` and `columns.rs` are how it looks (both pure), `terminal.rs` takes the terminal and gives it back.

mod columns;
mod draw;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Signal, getpid, kill_process};
use wirebeat_run::{Control, Interval, Observer, Progress, Stop};

use terminal::Screen;
pub use terminal::{Restore, check};
pub use view::PortFlows;
use view::{View, Wish};

use crate::failure::Failure;
use crate::output::tell;

/// How often the size of the terminal is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// What a view needs of its run.
pub struct ViewedRun {
    /// The handle for rates, where the run was started with one.
    pub control: Option<Control>,
    /// Its ports.
    pub ports: Vec<PortFlows>,
    /// Asks it to stop.
    pub stop: Stop,
    /// Gives the terminal back.
    pub restore: Restore,
    /// Whether there are colours.
    pub coloured: bool,
}

/// What a run tells its view.
enum Told {
    Progress(Box<Progress>),
    Interval(Box<Interval>),
    Notice(String),
}

/// Shows a run on the terminal until it is dropped. What was said meanwhile is said again then: the view has left with it.
pub struct ViewObserver {
    /// `None` once the run is over.
    tells: Option<Sender<Told>>,
    /// Wakes the thread.
    wakes: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    notices: Vec<String>,
}

impl fmt::Debug for ViewObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewObserver").finish_non_exhaustive()
    }
}

impl ViewObserver {
    /// Takes the terminal and begins.
    ///
    /// # Errors
    /// The terminal does not do what it is asked for, or there is no room for a thread.
    pub fn start(mut run: ViewedRun) -> Result<ViewObserver, Failure> {
        let failed = |error: std::io::Error| {
            Failure::machine(format!("cannot show the live view: {error}")).at("--tui")
        };
        let (tells, told) = channel();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wakes = Arc::new(eventfd(0, flags).map_err(|error| failed(error.into()))?);
        let woken = Arc::clone(&wakes);
        let screen = Screen::take(run.restore.clone()).map_err(failed)?;
        let view = View::new(run.control.is_some(), run.coloured);
        let view = view.with_ports(std::mem::take(&mut run.ports));
        let mut work = Work { screen, view, told, woken, run };
        let thread = thread::Builder::new().name("wb-view".to_owned());
        let thread = thread.spawn(move || work.run()).map_err(failed)?;
        Ok(ViewObserver { tells: Some(tells), wakes, thread: Some(thread), notices: Vec::new() })
    }

    fn tell(&self, told: Told) {
        if let Some(tells) = &self.tells {
            let _ = tells.send(told);
        }
        self.wake();
    }

    fn wake(&self) {
        // a counter that is full wakes as well
        let _ = rustix::io::write(&self.wakes, &1_u64.to_ne_bytes());
    }
}

impl Observer for ViewObserver {
    fn progress(&mut self, progress: &Progress) {
        self.tell(Told::Progress(Box::new(*progress)));
    }

    fn wants_histograms(&self) -> bool {
        true
    }

    fn interval(&mut self, interval: &Interval) {
        self.tell(Told::Interval(Box::new(interval.clone())));
    }

    fn notice(&mut self, message: &str) {
        self.notices.push(message.to_owned());
        self.tell(Told::Notice(message.to_owned()));
    }
}

impl Drop for ViewObserver {
    fn drop(&mut self) {
        self.tells = None;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.notices.iter().for_each(|notice| tell(notice));
    }
}

/// What the thread works on.
struct Work {
    screen: Screen,
    view: View,
    told: Receiver<Told>,
    woken: Arc<OwnedFd>,
    run: ViewedRun,
}

impl Work {
    /// Draws and reads keys until the run is over, or the terminal is gone; then the run goes on without a view.
    fn run(&mut self) {
        let mut changed = true;
        while self.take_in(&mut changed) {
            if (changed || self.screen.has_changed()) && self.screen.show(&self.view).is_err() {
                return;
            }
            changed = false;
            if !self.wait() {
                return;
            }
            let Ok(keys) = self.screen.keys() else { return };
            for key in keys {
                changed = true;
                if let Some(wish) = self.view.key(key) {
                    self.fulfil(wish);
                }
            }
        }
    }

    /// Takes in what was told; whether the run goes on.
    fn take_in(&mut self, changed: &mut bool) -> bool {
        loop {
            match self.told.try_recv() {
                Ok(Told::Progress(progress)) => self.view.progress(&progress),
                Ok(Told::Interval(interval)) => self.view.interval(&interval),
                Ok(Told::Notice(notice)) => self.view.notice(&notice),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
            *changed = true;
        }
    }

    /// Waits for a key, for something that is told, or until the size is looked at; whether the terminal is still there.
    fn wait(&self) -> bool {
        let mut files = [
            PollFd::new(&*self.woken, PollFlags::IN),
            PollFd::from_borrowed_fd(self.screen.as_fd(), PollFlags::IN),
        ];
        if poll(&mut files, Some(&LOOK)).is_err() {
            // a signal of this thread's own; it is looked again
            return true;
        }
        let [_, keys] = &files;
        let there = !keys.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        // what was told since is taken in at once
        let _ = rustix::io::read(&self.woken, &mut [0_u8; 8]);
        there
    }

    fn fulfil(&mut self, wish: Wish) {
        match wish {
            Wish::Stop => self.run.stop.ask(0),
            // the second one ends the program, as anywhere
            Wish::Interrupt => {
                let _ = kill_process(getpid(), Signal::INT);
            }
            Wish::Scale { name, percent } => {
                let Some(control) = &self.run.control else { return };
                let told = match control.scale(&name, percent) {
                    Ok((at, rate)) => format!("{name}: {rate} from {:.3} s on", at.as_secs_f64()),
                    Err(error) => error.to_string(),
                };
                self.view.tell(&told);
            }
        }
    }
}
