//! The other end of a control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::message::{Answer, Request, line};
use super::place;

/// How long an answer may take: a change of a large scenario is compiled and tried some times.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// Why a session gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// None is there.
    #[error("no session of yours can be controlled; start one with --control")]
    None,
    /// There are several.
    #[error("several sessions of yours can be controlled; choose one with --control: {}", list(.0))]
    Several(Vec<PathBuf>),
    /// The place of sockets is not known, or not safe.
    #[error("{0}")]
    Place(String),
    /// It cannot be reached.
    #[error("no session answers at '{}': {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says is no answer.
    #[error("the session's answer makes no sense: {0}")]
    Answer(#[from] serde_json::Error),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The socket of this user's one session.
pub fn find() -> Result<PathBuf, ClientError> {
    let mut living = place::living().map_err(ClientError::Place)?;
    match living.len() {
        0 => Err(ClientError::None),
        1 => Ok(living.remove(0)),
        _ => Err(ClientError::Several(living)),
    }
}

/// Asks the session at `path`.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, ClientError> {
    let asked = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // A session that refuses says why before it is asked, and may have closed by now.
        let sent = stream.write_all(&line(request));
        let mut answer = Vec::new();
        let read = BufReader::new(stream.take(ANSWER_MAX)).read_until(b'\n', &mut answer);
        match answer.is_empty() {
            true => sent.and(read).and(Err(io::ErrorKind::UnexpectedEof.into())),
            false => Ok(answer),
        }
    };
    let answer =
        asked().map_err(|source| ClientError::Unreachable { path: path.to_owned(), source })?;
    Ok(serde_json::from_slice(&answer)?)
}
