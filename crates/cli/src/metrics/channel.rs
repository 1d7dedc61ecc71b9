//! A connection, with TLS or without: bytes in and out, and nothing that waits.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection that does not block.
#[derive(Debug)]
pub(super) enum Channel {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Channel {
    /// Of a connection that was accepted; `None` where it cannot be used.
    pub(super) fn new(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> Option<Channel> {
        stream.set_nonblocking(true).ok()?;
        Some(match tls {
            None => Channel::Plain(stream),
            Some(config) => {
                let connection = ServerConnection::new(Arc::clone(config)).ok()?;
                Channel::Tls(Box::new(StreamOwned::new(connection, stream)))
            }
        })
    }

    /// Whether there is something to send that it was not given here: a part of the handshake.
    pub(super) fn has_to_write(&self) -> bool {
        match self {
            Channel::Plain(_) => false,
            Channel::Tls(tls) => tls.conn.wants_write(),
        }
    }

    /// Sends what is left, and says that no more comes.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.shutdown(Shutdown::Write),
            Channel::Tls(tls) => {
                // said once, however often this is called
                tls.conn.send_close_notify();
                tls.flush()?;
                tls.sock.shutdown(Shutdown::Write)
            }
        }
    }
}

impl Read for Channel {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(bytes),
            Channel::Tls(tls) => tls.read(bytes),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(bytes),
            Channel::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.flush(),
            Channel::Tls(tls) => tls.flush(),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Channel::Plain(stream) => stream.as_fd(),
            Channel::Tls(tls) => tls.sock.as_fd(),
        }
    }
}
