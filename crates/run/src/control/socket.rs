//! The control socket: one thread that answers the owner of the run, and nobody else.
//!
//! The socket is made with its mode before it has a name, listens before it has its final one, and is gone with
//! its run. The kernel says who is at the other end; anyone but the owner and root is sent away. Everything
//! a client can use up is bounded: connections, bytes of a line, time without a whole line. Those who follow what the run counts
//! are sent what they take without waiting for them (`following.rs`).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, RenameFlags, fchmod, renameat_with};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use wirebeat_units::fault;

use super::Control;
use super::following::{Following, Reading};
use super::message::{Answer, LINE_MAX, Response, answer, line};
use super::place::{self, Directory};
use super::stats::Counting;
use crate::error::RunError;
use crate::observe::Observer;

/// The most connections at a time.
const CONNECTIONS: usize = 8;
/// The most of them that follow what the run counts, so that it can still be changed.
const FOLLOWERS: usize = 4;
/// How long the end of a run waits for those who follow it to take the rest.
const FLUSH: Duration = Duration::from_millis(200);
/// A connection without a whole line for so long is closed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may take to be read.
const WRITE: Duration = Duration::from_secs(1);
/// How long is waited after an error of the system.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the end of the run is looked for.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A socket that listens and that nobody is answered on yet. Its file is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    directory: Directory,
    name: PathBuf,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.directory.remove(&self.name);
    }
}

impl ControlSocket {
    /// Makes one at `path`, or at the default place.
    pub(crate) fn open(path: Option<&Path>) -> Result<ControlSocket, RunError> {
        let (directory, name) = match path {
            Some(path) => {
                let name = path.file_name().map(PathBuf::from).ok_or_else(|| {
                    RunError::usage(fault!("'{}' names no socket", path.display(); "write a path"))
                })?;
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                (Directory::open(parent).map_err(RunError::usage)?, name)
            }
            None => place::default_place().map_err(RunError::machine)?,
        };
        let path = directory.path_of(&name);
        if directory.is_dead(&name) {
            directory.remove(&name);
        }
        let failed = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    fault!("there is something already"; "choose another path")
                }
                _ => error.to_string().into(),
            };
            RunError::usage(why.at(format!("no control socket at '{}'", path.display())))
        };
        let listener = listening(&directory, &name).map_err(failed)?;
        Ok(ControlSocket { listener, directory, name, path })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Answers until what it returns is dropped.
    fn serve(self, control: Control) -> io::Result<Serving> {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let work = move || {
            let mut server = ControlServer { socket: self, control, connections: Vec::new() };
            while !stop.load(Ordering::Acquire) {
                server.turn(&LOOK);
            }
            server.end();
        };
        let thread = thread::Builder::new().name("wb-control".to_owned()).spawn(work)?;
        Ok(Serving { over, thread: Some(thread) })
    }
}

/// Has the control socket of a run answered, if there is one, until `run` has ended, and keeps what it counts for those who ask.
pub(crate) fn answered<T>(
    socket: Option<(ControlSocket, Control)>,
    observer: &mut dyn Observer,
    run: impl FnOnce(&mut dyn Observer) -> T,
) -> T {
    let Some((socket, control)) = socket else { return run(observer) };
    let serving = socket.serve(control.clone());
    if let Err(error) = &serving {
        observer.notice(&format!("nothing answers on the control socket: {error}"));
    }
    let result = run(&mut Counting { inner: observer, control: control.clone() });
    control.stats().end();
    drop(serving);
    result
}

/// A socket at work.
#[derive(Debug)]
struct Serving {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket of mode 0600 that listens under `name`, where nothing may be.
fn listening(directory: &Directory, name: &Path) -> io::Result<UnixListener> {
    // Not by the ending that others look for: until it listens it would seem dead to them. A name of its own whatever
    // the socket is called, and short, because a path of a socket has 107 bytes at most.
    let new = PathBuf::from(format!(".wirebeat-{}.new", std::process::id()));
    if directory.is_dead(&new) {
        directory.remove(&new);
    }
    // A client that is gone before it is accepted must not hold the thread up.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode that the socket has when it is bound.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(directory.reach(&new))?)?;
    let file = directory.file();
    let named = listen(&socket, CONNECTIONS as i32)
        .and_then(|()| renameat_with(file, &new, file, name, RenameFlags::NOREPLACE));
    if let Err(error) = named {
        directory.remove(&new);
        return Err(error.into());
    }
    Ok(UnixListener::from(socket))
}

struct ControlServer {
    socket: ControlSocket,
    control: Control,
    connections: Vec<ControlClient>,
}

/// A client.
struct ControlClient {
    stream: UnixStream,
    /// What came and is not a whole line.
    rest: Vec<u8>,
    /// When it is closed unless a line comes, or is taken.
    until: Instant,
    /// What it is told of what the run counts.
    following: Option<Following>,
    /// It has not taken what was sent.
    behind: bool,
}

impl ControlServer {
    /// Waits for something to do, at most so long, and does it.
    fn turn(&mut self, longest: &Timespec) {
        let mut files = vec![PollFd::new(&self.socket.listener, PollFlags::IN)];
        files.extend(self.connections.iter().map(|connection| {
            let sends = if connection.behind { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(connection.stream.as_fd(), PollFlags::IN | sends)
        }));
        if poll(&mut files, Some(longest)).is_err() {
            thread::sleep(PAUSE);
            return;
        }
        let ready: Vec<PollFlags> = files.iter().map(PollFd::revents).collect();
        drop(files);
        let mut came = ready.iter().skip(1);
        let (control, now) = (&self.control, Instant::now());
        let follows = |connection: &&ControlClient| connection.follows();
        let mut room = FOLLOWERS.saturating_sub(self.connections.iter().filter(follows).count());
        self.connections.retain_mut(|connection| {
            let ready = came.next().copied().unwrap_or(PollFlags::empty());
            let reads = !ready.difference(PollFlags::OUT).is_empty();
            let goes_on = (!reads || connection.read()) && connection.serve(control, &mut room);
            goes_on && (connection.follows() || now < connection.until)
        });
        if ready.first().is_some_and(|ready| !ready.is_empty()) {
            match self.socket.listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                // Without a file for it the one who waits stays there: not to be looked at again at once.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// Those who read what the run counted get the rest, unless they are slow.
    fn end(&mut self) {
        let until = Instant::now() + FLUSH;
        let briefly = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        self.turn(&Timespec { tv_sec: 0, tv_nsec: 0 });
        let reads = |connection: &ControlClient| connection.following.is_some();
        while self.connections.iter().any(reads) && Instant::now() < until {
            self.turn(&briefly);
        }
    }

    /// Lets the owner and root in.
    fn welcome(&mut self, mut stream: UnixStream) {
        let set = stream.set_write_timeout(Some(WRITE));
        let user = socket_peercred(&stream).map(|peer| peer.uid.as_raw());
        let refusal = match user {
            Ok(user) if user != 0 && user != place::user() => "this run belongs to another user",
            Err(_) => "it is not known who you are",
            Ok(_) if self.connections.len() >= CONNECTIONS => "too many connections; try again",
            Ok(_) if set.is_ok() => {
                let until = Instant::now() + PATIENCE;
                let (rest, following, behind) = (Vec::new(), None, false);
                self.connections.push(ControlClient { stream, rest, until, following, behind });
                return;
            }
            Ok(_) => return,
        };
        let _ = stream.write_all(&line(&Answer::Error(refusal.to_owned())));
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Writes an answer that is read within [`WRITE`], all of it.
fn write_within(stream: &mut UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    let until = Instant::now() + WRITE;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

impl ControlClient {
    /// Whether it is told what the run counts until that ends.
    fn follows(&self) -> bool {
        self.following.as_ref().is_some_and(Following::follows)
    }

    /// Reads what came; whether the connection goes on.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let Ok(count @ 1..) = self.stream.read(&mut bytes) else { return false };
        self.rest.extend_from_slice(bytes.get(..count).unwrap_or_default());
        true
    }

    /// Answers whole lines, and tells one who follows what there is to tell, while there is `room` for such; whether the
    /// connection goes on.
    fn serve(&mut self, control: &Control, room: &mut usize) -> bool {
        loop {
            let end = self.rest.iter().position(|&byte| byte == b'\n');
            if let Some(following) = &mut self.following {
                let read = following.advance(&self.stream, control.stats(), end.is_some());
                self.behind = matches!(read, Ok(Reading::Behind));
                match read {
                    Ok(Reading::Done) => {
                        *room = room.saturating_add(following.follows().into());
                        self.following = None;
                    }
                    Ok(Reading::Waits | Reading::Behind) => break,
                    Err(_) => return false,
                }
                self.until = Instant::now() + PATIENCE;
                continue;
            }
            let Some(end) = end else { break };
            let request: Vec<u8> = self.rest.drain(..=end).collect();
            let answer = match answer(control, &request) {
                Response::Line(answer) => answer,
                Response::Stats(following) if following.follows() && *room == 0 => {
                    Answer::Error(format!("{FOLLOWERS} others follow this run already"))
                }
                Response::Stats(following) => {
                    *room = room.saturating_sub(following.follows().into());
                    self.following = Some(following);
                    continue;
                }
            };
            if write_within(&mut self.stream, &line(&answer)).is_err() {
                return false;
            }
            self.until = Instant::now() + PATIENCE;
        }
        if self.rest.len() < LINE_MAX {
            return true;
        }
        let why = format!("a line has at most {LINE_MAX} bytes");
        let _ = write_within(&mut self.stream, &line(&Answer::Error(why)));
        false
    }
}
