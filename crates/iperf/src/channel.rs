//! The control connection: reads what came into an [`Inbox`], writes with a deadline, and waits for what is expected.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::net::{SendFlags, send};
use wirebeat_units::Nanos;

use crate::Error;
use crate::control::{ControlError, Inbox, State, message};
use crate::socket::{now, wait_for};

/// Bytes that are read at once.
const READ: usize = 16 << 10;
/// How long a peer that does not read may hold up what is written.
const WRITE: Nanos = Nanos::from_secs(10);

/// What reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Some bytes.
    Some,
    /// Nothing yet.
    Nothing,
    /// The peer will send no more.
    End,
}

/// What is waited for, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub what: &'static str,
    pub patience: Nanos,
}

/// One control connection.
#[derive(Debug)]
pub(crate) struct Channel {
    pub stream: TcpStream,
    pub inbox: Inbox,
}

impl Channel {
    pub fn new(stream: TcpStream) -> Channel {
        Channel { stream, inbox: Inbox::default() }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Reads what is there, at most `limit` bytes, without waiting.
    pub fn fill(&mut self, limit: usize) -> io::Result<Filled> {
        let mut bytes = [0; READ];
        let room = bytes.get_mut(..limit.min(READ)).unwrap_or_default();
        match self.stream.read(room) {
            Ok(0) => Ok(Filled::End),
            Ok(read) => {
                self.inbox.add(bytes.get(..read).unwrap_or_default());
                Ok(Filled::Some)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Filled::Nothing),
                _ => Err(error),
            },
        }
    }

    /// Writes all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let deadline = now().saturating_add(WRITE);
        let mut left = bytes;
        while !left.is_empty() {
            match send(&self.stream, left, SendFlags::NOSIGNAL) {
                Ok(sent) => left = left.get(sent..).unwrap_or_default(),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    let ready = wait_for(self.fd(), PollFlags::OUT, deadline);
                    if !ready.map_err(Error::socket("wait for the control connection"))? {
                        let waiting_for = "reading by the peer of what is sent to it";
                        return Err(Error::Silent { waiting_for, waited: WRITE });
                    }
                }
                Err(error) => {
                    return Err(Error::socket("write to the control connection")(error.into()));
                }
            }
        }
        Ok(())
    }

    pub fn send_state(&mut self, state: State) -> Result<(), Error> {
        self.send(&[state.byte()])
    }

    pub fn send_message(&mut self, text: &str) -> Result<(), Error> {
        self.send(&message(text))
    }

    /// Waits until `take` finds what it wants in the inbox. `wait` waits for the connection to become readable until a time, and
    /// does meanwhile whatever else there is to do.
    pub fn expect<T>(
        &mut self,
        expected: Expected,
        wait: &mut dyn FnMut(BorrowedFd<'_>, Nanos) -> Result<(), Error>,
        mut take: impl FnMut(&mut Inbox) -> Result<Option<T>, ControlError>,
    ) -> Result<T, Error> {
        let deadline = now().saturating_add(expected.patience);
        loop {
            if let Some(taken) = take(&mut self.inbox)? {
                return Ok(taken);
            }
            match self.fill(READ).map_err(Error::socket("read the control connection"))? {
                Filled::Some => continue,
                Filled::End => return Err(Error::Closed { waiting_for: expected.what }),
                Filled::Nothing => {}
            }
            if now() >= deadline {
                let waited = expected.patience;
                return Err(Error::Silent { waiting_for: expected.what, waited });
            }
            wait(self.stream.as_fd(), deadline)?;
        }
    }

    /// Looks without waiting whether a state came.
    pub fn state(&mut self) -> Result<Option<State>, Error> {
        if let Some(state) = self.inbox.state()? {
            return Ok(Some(state));
        }
        match self.fill(1).map_err(Error::socket("read the control connection"))? {
            Filled::Some => Ok(self.inbox.state()?),
            Filled::Nothing => Ok(None),
            Filled::End => Err(Error::Closed { waiting_for: "the end of the test" }),
        }
    }
}
