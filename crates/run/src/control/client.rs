//! The other end of a control socket.
//!
//! Any program may listen there: an answer has a time and a length, and nothing of it is believed.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wirebeat_report::stats::StatsLine;
use wirebeat_traffic::scenario::MAX_FLOWS;
use wirebeat_units::{Fault, fault, into_fault};

use super::message::{Answer, ControlRequest, FLOW_MAX, LINE_MAX, line};
use super::{place, stats};

/// How a refusal begins.
const REFUSAL: &[u8] = b"{\"error\"";
/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Between two attempts to connect to a run that has too many connections.
const AGAIN: Duration = Duration::from_millis(20);

/// Why a run gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum ClientError {
    /// None is there.
    None,
    /// There are several.
    Several(Vec<PathBuf>),
    /// The place of sockets is not known, or not safe.
    Place(Fault),
    /// It cannot be reached.
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It gave no whole answer in time.
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited.
        within: Duration,
    },
    /// Its answer is longer than any.
    TooLong {
        /// The socket.
        path: PathBuf,
        /// The most that it can have.
        most: usize,
    },
    /// It ended before it said what it counted in all.
    Ended {
        /// The socket.
        path: PathBuf,
    },
    /// What it says is no answer.
    Answer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl ClientError {
    /// What an error of the system says of the run at `path`, which had `within` to answer.
    fn of(path: &Path, within: Duration, source: io::Error) -> ClientError {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ClientError::Silent { path, within },
            _ => ClientError::Unreachable { path, source },
        }
    }

    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ClientError::None => {
                fault!(
                    "no run of yours can be controlled";
                    "start one with --control, or name the socket of one that has it elsewhere with --control PATH"
                )
            }
            ClientError::Several(it) => {
                fault!(
                    "several runs of yours can be controlled";
                    "choose one with --control: {}", list(it)
                )
            }
            ClientError::Place(it) => it.clone(),
            ClientError::Unreachable { path, source } => {
                let hint = match source.kind() {
                    ErrorKind::PermissionDenied => "it is another user's: ask as that user",
                    _ => {
                        "the run has ended, or its path is another one: look with 'wirebeat ctl list'"
                    }
                };
                fault!("no run answers at '{}': {source}", path.display(); "{hint}")
            }
            ClientError::Silent { path, within } => {
                fault!(
                    "the run at '{}' gave no whole answer within {} s",
                    path.display(), within.as_secs_f64();
                    "give it more time with --timeout, or look whether its program hangs or is \
                     stopped"
                )
            }
            ClientError::TooLong { path, most } => {
                fault!(
                    "the answer of '{}' is longer than the {most} bytes that it can have",
                    path.display();
                    "it is not a run of Wirebeat: choose another with --control"
                )
            }
            ClientError::Ended { path } => {
                fault!(
                    "the run at '{}' ended before it told its total", path.display();
                    "look whether it was killed, and read faster"
                )
            }
            ClientError::Answer { path, source } => {
                fault!(
                    "the answer of '{}' is not one of a run (at byte {})",
                    path.display(), source.column();
                    "choose another with --control, or use the same Wirebeat for both"
                )
            }
        }
    }
}

into_fault!(ClientError);

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The socket of this user's one run.
pub fn find() -> Result<PathBuf, ClientError> {
    let mut living = place::living().map_err(ClientError::Place)?;
    match living.len() {
        0 => Err(ClientError::None),
        1 => Ok(living.remove(0)),
        _ => Err(ClientError::Several(living)),
    }
}

/// Asks the run at `path`, which has to have answered `within` this time.
pub fn ask(path: &Path, request: &ControlRequest, within: Duration) -> Result<Answer, ClientError> {
    let until = Instant::now() + within;
    let unreachable = |source: io::Error| ClientError::of(path, within, source);
    let mut stream = connect(path, until).map_err(unreachable)?;
    // A run that refuses says why before it is asked, and may have closed by now.
    let sent = write(&mut stream, &line(request), until);
    let mut answer = Vec::new();
    let read = read(&mut stream, &mut answer, request, until);
    match read {
        Ok(Ended::TooLong(most)) => {
            return Err(ClientError::TooLong { path: path.to_owned(), most });
        }
        Ok(Ended::Whole) if !answer.is_empty() => {}
        Ok(Ended::Whole) => {
            let ended = sent.err().unwrap_or_else(|| ErrorKind::UnexpectedEof.into());
            return Err(unreachable(ended));
        }
        Err(error) => return Err(unreachable(error)),
    }
    serde_json::from_slice(&answer)
        .map_err(|source| ClientError::Answer { path: path.to_owned(), source })
}

/// What a run counts, line by line.
#[derive(Debug)]
pub struct StatsReader {
    path: PathBuf,
    stream: UnixStream,
    /// What came and was not read, and how much of it has no end of a line.
    came: Vec<u8>,
    looked: usize,
    within: Duration,
}

impl StatsReader {
    /// Connects with the run at `path`, which has to answer `within` this time.
    pub fn connect(path: &Path, within: Duration) -> Result<StatsReader, ClientError> {
        let path = path.to_owned();
        let connected = connect(&path, Instant::now() + within);
        let stream = connected.map_err(|source| ClientError::of(&path, within, source))?;
        Ok(StatsReader { path, stream, came: Vec::new(), looked: 0, within })
    }

    /// Asks for the `last` intervals that ended, for those that follow if it is to `follow`, and for the total. What was asked
    /// before ends at the next line.
    pub fn ask(&mut self, last: u32, follow: bool) -> Result<(), ClientError> {
        let request = line(&ControlRequest::Stats { last, follow });
        let sent = write(&mut self.stream, &request, Instant::now() + self.within);
        match sent {
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                Err(ClientError::of(&self.path, self.within, error))
            }
            // a run that refuses says why before it is asked, and may have closed by now: reading tells
            _ => Ok(()),
        }
    }

    /// The next line. One that `is_due` comes in the time that a run has to answer; any other may take as long as an interval.
    pub fn next(&mut self, is_due: bool) -> Result<StatsLine, ClientError> {
        let until = is_due.then(|| Instant::now() + self.within);
        let mut chunk = vec![0; CHUNK];
        loop {
            let new = self.came.get(self.looked..).unwrap_or_default();
            if let Some(end) = new.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.came.drain(..=self.looked + end).collect();
                self.looked = 0;
                let path = self.path.clone();
                return serde_json::from_slice(&line)
                    .map_err(|source| ClientError::Answer { path, source });
            }
            self.looked = self.came.len();
            let most = stats::BYTES + LINE_MAX;
            if self.came.len() > most {
                return Err(ClientError::TooLong { path: self.path.clone(), most });
            }
            let failed = |source| ClientError::of(&self.path, self.within, source);
            let left = until.map(left).transpose().map_err(failed)?;
            self.stream.set_read_timeout(left).map_err(failed)?;
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ClientError::Ended { path: self.path.clone() }),
                Ok(count) => self.came.extend_from_slice(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // it was killed with a request that it had not read
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return Err(ClientError::Ended { path: self.path.clone() });
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Connects; a run with too many connections is waited for.
fn connect(path: &Path, until: Instant) -> io::Result<UnixStream> {
    loop {
        match place::connect_at_once(path) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                left(until)?;
                thread::sleep(AGAIN);
            }
            connected => {
                let stream = connected?;
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn write(stream: &mut UnixStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How reading an answer ended.
enum Ended {
    /// With a line break, or with the connection.
    Whole,
    /// It went on beyond the most bytes that it can have.
    TooLong(usize),
}

/// Reads a line.
fn read(
    stream: &mut UnixStream,
    answer: &mut Vec<u8>,
    request: &ControlRequest,
    until: Instant,
) -> io::Result<Ended> {
    let mut chunk = vec![0; CHUNK];
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        let count = match stream.read(&mut chunk) {
            Ok(0) => return Ok(Ended::Whole),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let came = chunk.get(..count).unwrap_or_default();
        let end = came.iter().position(|&byte| byte == b'\n');
        answer.extend_from_slice(end.and_then(|end| came.get(..end)).unwrap_or(came));
        let most = longest(request, answer);
        if answer.len() > most {
            return Ok(Ended::TooLong(most));
        }
        if end.is_some() {
            return Ok(Ended::Whole);
        }
    }
}

/// The most bytes that the answer to a request can have, by how it begins: a line for each flow where it is about all.
fn longest(request: &ControlRequest, answer: &[u8]) -> usize {
    match request {
        ControlRequest::List {} | ControlRequest::StopAll {} if !answer.starts_with(REFUSAL) => {
            LINE_MAX + MAX_FLOWS * FLOW_MAX
        }
        _ => LINE_MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// What is made of a run that does this with a connection.
    fn asked(name: &str, session: impl FnOnce(UnixStream) + Send) -> Result<Answer, ClientError> {
        let path = std::env::temp_dir().join(format!("wb-client-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || session(listener.accept().unwrap().0));
            let answer = ask(&path, &ControlRequest::List {}, Duration::from_millis(500));
            std::fs::remove_file(&path).unwrap();
            answer
        })
    }

    #[test]
    fn a_session_that_says_nothing_or_no_whole_line_is_not_waited_for_for_ever() {
        let silent = asked("silent", |mut stream| _ = stream.read_to_end(&mut Vec::new()));
        let trickling = asked("trickle", |mut stream| {
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        for answer in [silent, trickling] {
            let error = answer.unwrap_err();
            assert!(matches!(error, ClientError::Silent { .. }), "{error}");
            assert!(error.to_string().contains("within 0.5 s; give it more time with --timeout"));
        }
    }

    #[test]
    fn an_answer_longer_than_any_is_not_read_to_its_end() {
        for begin in [&b"{\"error\":\""[..], b"{\"flows\":[\""] {
            let answer = asked("long", |mut stream| {
                let mut written = stream.write_all(begin);
                while written.is_ok() {
                    written = stream.write_all(&[b'x'; CHUNK]);
                }
            });
            // a machine too slow for that many bytes gives up all the same
            let error = answer.unwrap_err();
            let all = matches!(error, ClientError::Silent { .. }) && begin.starts_with(b"{\"flows");
            assert!(all || matches!(error, ClientError::TooLong { .. }), "{error}");
        }
    }

    #[test]
    fn lines_of_a_stream_are_read_as_they_come_and_anything_else_is_told() {
        let path = std::env::temp_dir().join(format!("wb-client-stats-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let streaming = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            for part in ["{\"missed\":3}\n{\"miss", "ed\":4}\n", "{\"x\":1}\n", "{\"missed\":"] {
                stream.write_all(part.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
            drop(stream);
            // one that has no end
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(&[b'x'; CHUNK]).is_ok() {}
        });
        let mut reader = StatsReader::connect(&path, Duration::from_secs(20)).unwrap();
        reader.ask(1, true).unwrap();
        assert_eq!(reader.next(true).unwrap(), StatsLine::Missed(3));
        assert_eq!(reader.next(false).unwrap(), StatsLine::Missed(4));
        assert!(matches!(reader.next(true), Err(ClientError::Answer { .. })));
        assert!(matches!(reader.next(true), Err(ClientError::Ended { .. })));
        let mut reader = StatsReader::connect(&path, Duration::from_secs(60)).unwrap();
        assert!(matches!(reader.next(true), Err(ClientError::TooLong { .. })));
        drop(reader);
        streaming.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_answer_that_is_none_is_told() {
        let answer = asked("junk", |mut stream| _ = stream.write_all(b"\x1b[2J\n"));
        assert!(matches!(answer, Err(ClientError::Answer { .. })), "{answer:?}");
        let answer = asked("gone", drop);
        assert!(matches!(answer, Err(ClientError::Unreachable { .. })), "{answer:?}");
        let answer = asked("flows", |mut stream| _ = stream.write_all(b"{\"flows\":[]}\n"));
        assert_eq!(answer.unwrap(), Answer::Flows(Vec::new()));
    }
}
