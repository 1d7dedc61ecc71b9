//! What frames run into at the far end. The cost of receiving is paid on the sending core, so that a
//! rate means nothing without it: each figure belongs to one of three columns.

use std::net::UdpSocket;

use wirebeat_engine_linux::kernel::{self, FarEnd};

use crate::lab::{Failure, Lab, Volume};

/// The discard service (RFC 863), where everybody sends who can be told.
pub const PORT: u16 = 9;

/// What frames run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// A program that reads each datagram.
    Reading,
    /// A UDP socket that nobody reads: the stack's work without a reader's.
    Unread,
    /// An XDP program that counts and drops, before the stack: a sink that costs next to nothing.
    Dropping,
}

impl Sink {
    /// The name of its column.
    pub fn column(self) -> &'static str {
        match self {
            Sink::Reading => "(1) reading receiver",
            Sink::Unread => "(2) socket nobody reads",
            Sink::Dropping => "(3) XDP drop",
        }
    }

    /// Opens it. A receiver that reads is its tool's own, and opened with the tool.
    pub fn open(self, lab: &Lab) -> Result<OpenSink, Failure> {
        let far = lab.far();
        Ok(match self {
            Sink::Reading => OpenSink::Reading,
            Sink::Unread => OpenSink::Unread { _socket: unread(lab)? },
            Sink::Dropping => {
                let index = far.link.index.get();
                OpenSink::Dropping(far.namespace.run(|| kernel::sink(index, FarEnd::Counts))??)
            }
        })
    }
}

/// A socket at the discard port of the far end.
pub fn unread(lab: &Lab) -> Result<UdpSocket, Failure> {
    let at = (lab.far().ipv4, PORT);
    Ok(lab.far().namespace.run(|| UdpSocket::bind(at))??)
}

/// A sink at work; closed when dropped.
#[derive(Debug)]
pub enum OpenSink {
    /// [`Sink::Reading`].
    Reading,
    /// [`Sink::Unread`].
    Unread {
        /// Held open.
        _socket: UdpSocket,
    },
    /// [`Sink::Dropping`].
    Dropping(kernel::Sink),
}

impl OpenSink {
    /// What has arrived so far.
    pub fn arrived(&self, lab: &Lab) -> Result<Volume, Failure> {
        let volume = lab.arrived()?;
        match self {
            OpenSink::Dropping(sink) => Ok(Volume { frames: sink.count()?, ..volume }),
            OpenSink::Reading | OpenSink::Unread { .. } => Ok(volume),
        }
    }
}
