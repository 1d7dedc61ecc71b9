//! Other programs inside a namespace: peers of the benchmark, independent observers.
//!
//! The program dies with its [`Process`] handle and with this process, even when that is killed.
//! For the latter it is started through `setpriv --pdeathsig` of util-linux: the safe way to have
//! the kernel send the signal. The kernel sends it when the *thread* that started the program ends,
//! so each program has a thread of its own that waits for it. Only the program itself is reached
//! that way; its own children are killed with the handle, as long as they stay in its process group.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use wirebeat_netlink::{Namespace, NamespaceError};
use wirebeat_units::{Fault, fault, into_fault};

/// Bytes kept of each output stream unless said otherwise.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Characters of a program's output that an error quotes.
const QUOTE_MAX: usize = 2000;
/// How long the output of an ended program is read on; it is all there already, unless a child that
/// left the program's group goes on.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Becomes the program, unless the process that `$0` names is no longer the parent: it may have died
/// before the signal was asked for.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// Why a program did not run.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ProcessError {
    /// The namespace cannot be entered.
    #[error(transparent)]
    Enter(#[from] NamespaceError),
    /// The program is not there.
    Missing(String),
    /// It cannot be started.
    Start {
        /// Which one.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// It runs longer than it should; it has been killed.
    TooLong {
        /// Which one.
        program: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It did not print what was waited for.
    NotPrinted {
        /// Which one.
        program: String,
        /// What was waited for.
        text: String,
        /// What came instead.
        printed: String,
    },
}

impl ProcessError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ProcessError::Enter(inner) => inner.fault(),
            ProcessError::Missing(it) => {
                fault!("there is no program '{it}' here"; "install it, or put it into the PATH")
            }
            ProcessError::Start { program, source } => fault!("cannot start '{program}': {source}"),
            ProcessError::TooLong { program, waited } => {
                fault!("'{program}' did not end within {} s", waited.as_secs_f64())
            }
            ProcessError::NotPrinted { program, text, printed } => {
                fault!("'{program}' did not print '{text}'"; "it printed: {printed}")
            }
        }
    }
}

into_fault!(ProcessError);

/// A program to be run in a namespace.
#[derive(Clone, Debug)]
pub struct Program {
    namespace: Namespace,
    program: OsString,
    arguments: Vec<OsString>,
    output_limit: usize,
}

/// What a program printed and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output, up to the limit; bytes that are not UTF-8 replaced.
    pub stdout: String,
    /// What it wrote to its standard error, likewise.
    pub stderr: String,
    /// Bytes that went over the limits and were thrown away.
    pub discarded: u64,
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    program: String,
    group: Pid,
    shared: Arc<Shared>,
    ended: Receiver<io::Result<ExitStatus>>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    printed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    discarded: u64,
    /// Streams that have ended, of two.
    closed: u8,
    /// The program's number may be another's from now on.
    reaped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole at every moment; a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program {
    /// A program of this name or path, to be run in `namespace`.
    pub fn new(namespace: &Namespace, program: impl AsRef<OsStr>) -> Self {
        Program {
            namespace: namespace.clone(),
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            output_limit: OUTPUT_LIMIT,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Keeps at most this many bytes of each output stream; what is more is read and thrown away.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Starts it, with nothing to read on its standard input.
    pub fn spawn(self) -> Result<Process, ProcessError> {
        let program = self.program.to_string_lossy().into_owned();
        if !crate::require::on_path(&self.program) {
            return Err(ProcessError::Missing(program));
        }
        let (started, start) = channel();
        let (ends, ended) = channel();
        let shared = Arc::new(Shared::default());
        let keeper = thread::Builder::new()
            .name(format!("keeper of {program}"))
            .spawn({
                let (shared, program) = (Arc::clone(&shared), program.clone());
                move || match self.start(&program, &shared) {
                    Ok(child) => {
                        let group = Pid::from_child(&child);
                        let _ = started.send(Ok(group));
                        let _ = ends.send(keep(child, group, &shared));
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            })
            .map_err(|source| ProcessError::Start { program: program.clone(), source })?;
        match start.recv() {
            Ok(Ok(group)) => Ok(Process { program, group, shared, ended, keeper: Some(keeper) }),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                let source = io::Error::other("its thread ended");
                Err(ProcessError::Start { program, source })
            }
        }
    }

    /// Runs it to its end.
    pub fn output(self, timeout: Duration) -> Result<Output, ProcessError> {
        self.spawn()?.wait(timeout)
    }

    /// Starts it from the calling thread, which moves into the namespace, and has it read.
    fn start(&self, program: &str, shared: &Arc<Shared>) -> Result<Child, ProcessError> {
        self.namespace.enter()?;
        let failed = |source| ProcessError::Start { program: program.to_owned(), source };
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "sh", "-c", UNLESS_ORPHANED])
            .arg(process::id().to_string())
            // What runs in the background inherits that SIGINT is ignored, and would not hear `interrupt`.
            .args(["env", "--default-signal=INT"])
            .arg(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    ProcessError::Missing("setpriv (package util-linux)".to_owned())
                }
                _ => failed(source),
            })?;
        if let Err(source) = read(&mut child, shared, self.output_limit) {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(failed(source));
        }
        Ok(child)
    }
}

/// Waits for the program's end; then kills what it left behind.
fn keep(mut child: Child, group: Pid, shared: &Shared) -> io::Result<ExitStatus> {
    // Its end is seen before it is taken notice of: until then its number is its own, and its group
    // can be killed without hitting a stranger.
    let ended = loop {
        match waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => {}
            ended => break ended,
        }
    };
    {
        let mut state = shared.lock();
        let _ = kill_process_group(group, Signal::KILL);
        state.reaped = true;
    }
    ended?;
    child.wait()
}

/// Reads both streams on threads of their own. Nobody waits for these: a child that left the
/// program's group may hold a stream open for ever.
fn read(child: &mut Child, shared: &Arc<Shared>, limit: usize) -> io::Result<()> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = || thread::Builder::new().name("output reader".to_owned());
    let (out, err) = (Arc::clone(shared), Arc::clone(shared));
    reader().spawn(move || drain(stdout, &out, limit, |state| &mut state.stdout))?;
    reader().spawn(move || drain(stderr, &err, limit, |state| &mut state.stderr))?;
    Ok(())
}

/// Reads a stream to its end.
fn drain(
    stream: Option<impl Read>,
    shared: &Shared,
    limit: usize,
    kept: fn(&mut State) -> &mut Vec<u8>,
) {
    let mut chunk = [0; 4096];
    let mut stream = stream;
    while let Some(stream) = &mut stream {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                let mut state = shared.lock();
                let room = limit.saturating_sub(kept(&mut state).len()).min(read);
                kept(&mut state).extend_from_slice(&chunk[..room]);
                state.discarded += (read - room) as u64;
                shared.printed.notify_all();
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    shared.lock().closed += 1;
    shared.printed.notify_all();
}

impl Process {
    /// Waits until it has printed `text` on either stream.
    pub fn wait_for(&self, text: &str, timeout: Duration) -> Result<(), ProcessError> {
        let begun = Instant::now();
        let mut state = self.shared.lock();
        loop {
            let printed = [&state.stdout, &state.stderr].map(|s| String::from_utf8_lossy(s));
            if printed.iter().any(|stream| stream.contains(text)) {
                return Ok(());
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() || state.closed == 2 {
                return Err(ProcessError::NotPrinted {
                    program: self.program.clone(),
                    text: text.to_owned(),
                    printed: printed.concat().chars().take(QUOTE_MAX).collect(),
                });
            }
            state = self
                .shared
                .printed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// What it wrote to its standard output up to now, up to the limit; bytes that are not UTF-8 replaced.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.shared.lock().stdout).into_owned()
    }

    /// Its number, which is that of its process group too.
    pub fn id(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// Asks it to finish, as Ctrl-C would.
    pub fn interrupt(&self) {
        let state = self.shared.lock();
        if !state.reaped {
            let _ = kill_process(self.group, Signal::INT);
        }
    }

    /// Kills it and its children.
    pub fn kill(&self) {
        let state = self.shared.lock();
        if !state.reaped {
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }

    /// Waits for its end; kills it when that takes too long.
    pub fn wait(mut self, timeout: Duration) -> Result<Output, ProcessError> {
        let program = self.program.clone();
        let status = match self.ended.recv_timeout(timeout) {
            Ok(status) => status.map_err(|source| ProcessError::Start { program, source })?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(ProcessError::TooLong { program, waited: timeout });
            }
            Err(RecvTimeoutError::Disconnected) => {
                let source = io::Error::other("its thread ended");
                return Err(ProcessError::Start { program, source });
            }
        };
        self.join();
        let (state, _) = self
            .shared
            .printed
            .wait_timeout_while(self.shared.lock(), LAST_WORDS, |state| state.closed < 2)
            .unwrap_or_else(PoisonError::into_inner);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&state.stdout), text(&state.stderr));
        Ok(Output { status, stdout, stderr, discarded: state.discarded })
    }

    fn join(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has nothing left to keep.
            let _ = keeper.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.join();
    }
}
