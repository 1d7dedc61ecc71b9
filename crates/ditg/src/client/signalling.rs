//! The signalling connection of a sender: asks, and waits for answers with a bound on its patience.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::net::{SendFlags, send};
use wirebeat_sockets::clock;
use wirebeat_units::Nanos;

use crate::Error;
use crate::control::{ControlError, Inbox, Message};
use crate::socket::{connect, wait_for};

/// How long an answer may take. ITGRecv takes a second for each flow that is closed, one after the other.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// How often it is looked whether to stop.
const LOOK_AROUND: Nanos = Nanos::from_millis(50);
/// Bytes that are read at once.
const READ: usize = 4 << 10;

/// A signalling connection.
#[derive(Debug)]
pub(super) struct Signalling {
    stream: TcpStream,
    inbox: Inbox,
}

impl Signalling {
    /// Connects and greets.
    pub fn connect(receiver: SocketAddr, deadline: Nanos) -> Result<Signalling, Error> {
        let failed = |source| Error::Connect { address: receiver, source };
        let stream = connect(receiver, 0, deadline).map_err(failed)?;
        let mut signalling = Signalling { stream, inbox: Inbox::default() };
        signalling.send(Message::Connect)?;
        match signalling.wait("answer to the greeting", &|| false)? {
            Message::AckConnect => Ok(signalling),
            got => Err(unexpected(got, "an answer to the greeting")),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Writes a message: a receiver that leaves so few unread for so long is gone.
    pub fn send(&mut self, message: Message) -> Result<(), Error> {
        let bytes = message.to_bytes();
        let mut left = bytes.as_slice();
        let deadline = clock().saturating_add(PATIENCE);
        while !left.is_empty() {
            match send(&self.stream, left, SendFlags::NOSIGNAL) {
                Ok(sent) => left = left.get(sent..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let ready = wait_for(self.stream.as_fd(), PollFlags::OUT, deadline);
                    if !ready.map_err(Error::socket("wait for the signalling connection"))? {
                        let waiting_for = "reading by the peer of what is sent to it";
                        return Err(Error::Silent { waiting_for, waited: PATIENCE });
                    }
                }
                Err(error) => {
                    let failed = Error::socket("write to the signalling connection");
                    return Err(failed(error.into()));
                }
            }
        }
        Ok(())
    }

    /// The port at which a flow is expected.
    pub fn flow_taken(&mut self, number: u32, stop: &dyn Fn() -> bool) -> Result<u16, Error> {
        match self.wait("port for a flow", stop)? {
            Message::AckSendFlow { flow, port } if flow == number && port > 0 => Ok(port),
            Message::Refused { why, flow } => Err(Error::FlowRefused { flow, why }),
            got => Err(unexpected(got, "a port for the flow")),
        }
    }

    /// Waits until so many flows are closed.
    pub fn all_closed(&mut self, mut flows: usize) -> Result<(), Error> {
        while flows > 0 {
            match self.wait("end of a flow", &|| false)? {
                Message::AckClosedFlow(_) => flows -= 1,
                Message::Refused { why, flow } => return Err(Error::FlowRefused { flow, why }),
                got => return Err(unexpected(got, "the end of a flow")),
            }
        }
        Ok(())
    }

    /// Waits for the end of all.
    pub fn released(&mut self) -> Result<(), Error> {
        match self.wait("answer to the release", &|| false)? {
            Message::AckRelease => Ok(()),
            got => Err(unexpected(got, "an answer to the release")),
        }
    }

    /// Looks without waiting at what came while flows are sent.
    pub fn look(&mut self) -> Result<(), Error> {
        while self.fill("the end of the flows")? {
            while let Some(message) = self.inbox.message()? {
                match message {
                    Message::Discovery => self.send(Message::AckDiscovery)?,
                    Message::Refused { why, flow } => {
                        return Err(Error::FlowRefused { flow, why });
                    }
                    got => return Err(unexpected(got, "nothing")),
                }
            }
        }
        Ok(())
    }

    /// The next message. A receiver that only asks whether this end is there is answered, and not waited for any longer.
    fn wait(
        &mut self,
        waiting_for: &'static str,
        stop: &dyn Fn() -> bool,
    ) -> Result<Message, Error> {
        let deadline = clock().saturating_add(PATIENCE);
        loop {
            while let Some(message) = self.inbox.message()? {
                match message {
                    Message::Discovery => self.send(Message::AckDiscovery)?,
                    message => return Ok(message),
                }
            }
            if self.fill(waiting_for)? {
                continue;
            }
            let now = clock();
            if stop() {
                return Err(Error::Stopped);
            }
            if now >= deadline {
                return Err(Error::Silent { waiting_for, waited: PATIENCE });
            }
            let until = deadline.min(now.saturating_add(LOOK_AROUND));
            let waited = wait_for(self.stream.as_fd(), PollFlags::IN, until);
            waited.map_err(Error::socket("wait for the signalling connection"))?;
        }
    }

    /// Reads what is there: whether something was.
    fn fill(&mut self, waiting_for: &'static str) -> Result<bool, Error> {
        let mut bytes = [0; READ];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Error::Closed { waiting_for }),
            Ok(read) => {
                self.inbox.add(bytes.get(..read).unwrap_or_default());
                Ok(true)
            }
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => Ok(false),
                _ => Err(Error::socket("read the signalling connection")(error)),
            },
        }
    }
}

fn unexpected(got: Message, expected: &'static str) -> Error {
    ControlError::Unexpected { got: got.name(), expected }.into()
}
