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

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
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
            Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr())))
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
            self.terminal.draw(|frame| draw(view, frame))?;
        }
        Ok(())
    }

    /// Whether the terminal has another size than the view that it shows.
    pub fn has_changed(&mut self) -> bool {
        let size = self.terminal.size().ok();
        let area = self.terminal.get_frame().area();
        size.is_some_and(|size| (size.width, size.height) != (area.width, area.height))
    }

    /// The keys that were pressed; others and what else a terminal says are left out.
    pub fn keys(&self) -> io::Result<Vec<Key>> {
        let mut keys = Vec::new();
        while event::poll(std::time::Duration::ZERO)? {
            if let Event::Key(pressed) = event::read()?
                && pressed.kind != KeyEventKind::Release
            {
                keys.extend(meant(pressed.code, pressed.modifiers));
            }
        }
        Ok(keys)
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
        let _ = self.terminal.backend_mut().flush();
        self.restore.restore();
    }
}

/// What a key means here.
fn meant(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    let control = modifiers.contains(KeyModifiers::CONTROL);
    match code {
        KeyCode::Char('c') if control => Some(Key::Interrupt),
        KeyCode::Char(_) if control || modifiers.contains(KeyModifiers::ALT) => None,
        KeyCode::Char(c) => Some(Key::Char(c)),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::Left => Some(Key::Left),
        KeyCode::Right => Some(Key::Right),
        KeyCode::Esc => Some(Key::Escape),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wirebeat_testbed::{Capability, require};

    use super::*;

    #[test]
    fn keys_are_taken_as_they_are_meant() {
        let plain = KeyModifiers::NONE;
        assert_eq!(meant(KeyCode::Char('q'), plain), Some(Key::Char('q')));
        assert_eq!(meant(KeyCode::Char('+'), KeyModifiers::SHIFT), Some(Key::Char('+')));
        assert_eq!(meant(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(meant(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(meant(KeyCode::F(1), plain), None);
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
