//! The terminal: taken for the live view, and given back whatever happens.
//!
//! The view is on standard error, as all that is shown while a run goes on; keys come from the terminal that standard input is, or
//! the one that controls this process. It is given back when the view ends, when any thread panics, and when a second signal ends the
//! program at once.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stderr, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wirebeat_units::fault;

use super::draw::draw;
use super::view::{Key, View};
use crate::failure::Failure;

/// The terminal that controls this process.
const CONTROLLING: &str = "/dev/tty";

/// Fails where there is no terminal to show a view on, or none to press keys at.
pub fn check() -> Result<(), Failure> {
    let keys = io::stdin().is_terminal() || File::open(CONTROLLING).is_ok();
    match io::stderr().is_terminal() && keys {
        true => Ok(()),
        false => Err(Failure::usage(fault!(
            "standard error is not a terminal, so there is no place for the live view";
            "run it in a terminal, or leave --tui out; --metrics and --interval need none"
        ))
        .at("--tui")),
    }
}

/// Gives the terminal back, once.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    taken: Arc<AtomicBool>,
}

impl Restore {
    /// Whether the terminal is the view's.
    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Leaves the terminal as it was found. What cannot be done is not: there is nobody left to be told.
    pub fn restore(&self) {
        if self.taken.swap(false, Ordering::AcqRel) {
            let mut terminal = io::stderr();
            let _ = execute!(terminal, LeaveAlternateScreen, Show);
            let _ = disable_raw_mode();
        }
    }
}

/// A terminal that shows a view until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    /// Where keys come from.
    keys: Option<File>,
    restore: Restore,
}

impl Screen {
    /// Takes the terminal. A panic of any thread gives it back before it is told.
    ///
    /// # Errors
    /// The terminal does not do what it is asked for.
    pub fn take(restore: Restore) -> io::Result<Screen> {
        let keys = if io::stdin().is_terminal() { None } else { Some(File::open(CONTROLLING)?) };
        enable_raw_mode()?;
        restore.taken.store(true, Ordering::Release);
        let at_panic = restore.clone();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            at_panic.restore();
            before(what);
        }));
        let open = || {
            execute!(io::stderr(), EnterAlternateScreen)?;
            let backend = CrosstermBackend::new(BufWriter::new(io::stderr()));
            let viewport = Viewport::Fixed(drawn(backend.size()?));
            Terminal::with_options(backend, TerminalOptions { viewport })
        };
        match open() {
            Ok(terminal) => Ok(Screen { terminal, keys, restore }),
            Err(error) => {
                restore.restore();
                Err(error)
            }
        }
    }

    /// Shows the view as it is now.
    pub fn show(&mut self, view: &View) -> io::Result<()> {
        // a thread that panicked has given it back
        if self.restore.is_taken() {
            let area = drawn(self.terminal.size()?);
            if area != self.terminal.get_frame().area() {
                self.terminal.resize(area)?;
            }
            self.terminal.draw(|frame| draw(view, frame))?;
        }
        Ok(())
    }

    /// Whether the terminal has another size than the view that it shows.
    pub fn has_changed(&mut self) -> bool {
        let size = self.terminal.size().ok();
        size.is_some_and(|size| drawn(size) != self.terminal.get_frame().area())
    }

    /// The keys that were pressed; others and what else a terminal says are left out. It never waits for one.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let mut bytes = [0; 256];
        let mut ready = [PollFd::new(self, PollFlags::IN)];
        match poll(&mut ready, Some(&Timespec::default())) {
            Ok(1..) if ready.iter().any(|one| one.revents().contains(PollFlags::IN)) => {}
            Ok(_) | Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let count = rustix::io::read(self, &mut bytes)?;
        Ok(keys_in(bytes.get(..count).unwrap_or_default()))
    }
}

/// What becomes readable when a key is pressed.
impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.keys {
            Some(file) => file.as_fd(),
            None => rustix::stdio::stdin(),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = Write::flush(self.terminal.backend_mut());
        self.restore.restore();
    }
}

/// The part of a terminal that is drawn on. Its size is what anybody says it is, and memory follows it.
fn drawn(size: Size) -> Rect {
    const COLUMNS: u16 = 500;
    const ROWS: u16 = 300;
    Rect::new(0, 0, size.width.min(COLUMNS), size.height.min(ROWS))
}

/// The keys of this view in what a terminal says: characters, arrows (CSI or SS3 with A to D, ECMA-48 and VT100), Escape alone, and Ctrl-C.
/// All else is passed over, bytes that are no text as well.
fn keys_in(bytes: &[u8]) -> Vec<Key> {
    const ESCAPE: u8 = 0x1b;
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (&ESCAPE, [b'[' | b'O', sequence @ ..]) => {
                // parameters and intermediate bytes, then the final one
                let last = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte));
                let plain = sequence.first().copied().filter(|_| last == Some(0));
                keys.extend(plain.and_then(arrow));
                last.and_then(|last| sequence.get(last + 1..)).unwrap_or_default()
            }
            // Alt with a key
            (&ESCAPE, [_, behind @ ..]) => behind,
            (&ESCAPE, []) => {
                keys.push(Key::Escape);
                behind
            }
            (0x03, _) => {
                keys.push(Key::Interrupt);
                behind
            }
            _ => {
                let end = behind.iter().position(|byte| *byte == ESCAPE || *byte == 0x03);
                let (text, behind) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
                let chunks = text.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
                keys.extend(chunks.filter(|c| !c.is_control()).map(Key::Char));
                behind
            }
        };
    }
    keys
}

fn arrow(last: u8) -> Option<Key> {
    match last {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_testbed::{Capability, require};

    use super::*;

    #[test]
    fn keys_are_taken_as_they_are_meant() {
        let (up, down) = (Key::Up, Key::Down);
        for (bytes, keys) in [
            (&b"q+"[..], vec![Key::Char('q'), Key::Char('+')]),
            (b"\x1b[A\x1bOBq", vec![up, down, Key::Char('q')]),
            (b"\x1b[C\x1b[D", vec![Key::Right, Key::Left]),
            (b"\x1b", vec![Key::Escape]),
            (b"a\x03b", vec![Key::Char('a'), Key::Interrupt, Key::Char('b')]),
            // Alt with q, F5, Ctrl with an arrow, a sequence that is cut off, and Ctrl-Q
            (b"\x1bq\x1b[15~\x1b[1;5A\x1b[1;", vec![]),
            (b"\x11", vec![]),
            ("é".as_bytes(), vec![Key::Char('é')]),
            // no UTF-8: a letter of Latin-1, half a letter, and what stands behind them
            (b"\xe9q\xc3xq\xff\x80", vec![Key::Char('q'), Key::Char('x'), Key::Char('q')]),
            (b"", vec![]),
        ] {
            assert_eq!(keys_in(bytes), keys, "{bytes:x?}");
        }
    }

    /// A pseudo-terminal may be said to be of any size.
    #[test]
    fn what_is_drawn_has_an_end() {
        assert_eq!(drawn(Size::new(80, 24)), Rect::new(0, 0, 80, 24));
        assert!(drawn(Size::new(u16::MAX, u16::MAX)).area() <= 150_000);
    }

    /// Says to the test, as a program of its own on a terminal, that it is to panic while it holds that.
    const PANICS: &str = "WIREBEAT_TEST_PANICS";

    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back_before_it_is_told() {
        if std::env::var_os(PANICS).is_some() {
            let _screen = Screen::take(Restore::default()).unwrap();
            let panics = std::thread::spawn(|| panic!("of a thread"));
            assert!(panics.join().is_err());
            return;
        }
        require!(Capability::Program("script"));
        let program = std::env::current_exe().unwrap();
        let test =
            "tui::terminal::tests::a_panic_of_any_thread_gives_the_terminal_back_before_it_is_told";
        let line = format!("{} --exact {test} --nocapture; stty -a", program.display());
        let output = std::process::Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env(PANICS, "1")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?}: {text:?}"));
        let (enter, leave, told) =
            (place("\u{1b}[?1049h"), place("\u{1b}[?1049l"), place("of a thread"));
        assert!(enter < leave && leave < told, "{text:?}");
        let flags: Vec<&str> = text[told..].split_whitespace().collect();
        for flag in ["icanon", "echo", "isig"] {
            assert!(flags.contains(&flag), "no {flag}: {text:?}");
        }
    }

    #[test]
    fn a_terminal_that_was_not_taken_is_not_given_back() {
        // it would write into the output of the tests
        Restore::default().restore();
    }
}
