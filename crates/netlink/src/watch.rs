//! Watching interfaces: which one went down, came up or was removed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkBuffer;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

use crate::channel::MSG_TRUNC;
use crate::link::{RTM_DELLINK, RTM_NEWLINK, parse_state};
use crate::{
    Link, LinkError, LinkIndex, LinkState, Namespace, NamespaceError, Netlink, NetlinkError,
};

/// `RTMGRP_LINK` of `linux/rtnetlink.h`: news about links.
const RTMGRP_LINK: u32 = 1;
/// More than news of one interface take; what does not fit is looked up instead.
const DATAGRAM_MAX: usize = 64 * 1024;

/// What happened to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// It is in another state than before.
    State {
        /// Its number.
        index: LinkIndex,
        /// Its name.
        name: String,
        /// Its state now.
        state: LinkState,
    },
    /// It is gone: deleted, unplugged, or moved to another namespace.
    Removed {
        /// The number that it had.
        index: LinkIndex,
        /// The name that it had.
        name: String,
    },
}

/// Tells of changes to some interfaces. Never blocks; [`AsFd`] gives what to poll for reading.
#[derive(Debug)]
pub struct LinkWatch {
    socket: Socket,
    netlink: Netlink,
    links: BTreeMap<LinkIndex, (String, LinkState)>,
    buffer: Vec<u8>,
    /// What happened between the reading of the interfaces and the opening of the watch.
    before: Vec<LinkEvent>,
}

impl LinkWatch {
    /// Watches these interfaces of the calling thread's namespace. A change after the interfaces
    /// were read, and before this call, is told too.
    pub fn open(links: &[Link]) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(NetlinkError::Open)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK)).map_err(NetlinkError::Open)?;
        socket.set_non_blocking(true).map_err(NetlinkError::Open)?;
        let links =
            links.iter().map(|link| (link.index, (link.name.clone(), link.state))).collect();
        let buffer = Vec::with_capacity(DATAGRAM_MAX);
        let mut before = Vec::new();
        let mut watch =
            LinkWatch { socket, netlink: Netlink::open()?, links, buffer, before: vec![] };
        watch.look(&mut before)?;
        watch.before = before;
        Ok(watch)
    }

    /// The same for interfaces of another namespace.
    pub fn open_in(namespace: &Namespace, links: &[Link]) -> Result<Self, NamespaceError> {
        Ok(namespace.run(|| LinkWatch::open(links))??)
    }

    /// What has happened since the last call, in order; nothing most of the time.
    ///
    /// Costs one system call when nothing happened.
    pub fn events(&mut self) -> Result<Vec<LinkEvent>, NetlinkError> {
        let mut events = std::mem::take(&mut self.before);
        let mut overrun = false;
        loop {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, MSG_TRUNC) {
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok((length, _)) if length > self.buffer.len() => overrun = true,
                Ok(_) => self.read(&mut events),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !std::mem::take(&mut overrun) {
                        return Ok(events);
                    }
                    self.look(&mut events)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // More happened than the socket can hold: look for ourselves, once the old news
                // that it still holds have been read.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::NOBUFS) => overrun = true,
                Err(source) => {
                    return Err(NetlinkError::Socket {
                        attempt: "watch the interfaces".to_owned(),
                        source,
                    });
                }
            }
        }
    }

    /// Reads the messages of a datagram.
    fn read(&mut self, events: &mut Vec<LinkEvent>) {
        let mut at = 0;
        while let Some(message) =
            self.buffer.get(at..).and_then(|rest| NetlinkBuffer::new_checked(rest).ok())
        {
            let kind = message.message_type();
            if let Some((index, name, state)) = parse_state(message.payload()) {
                match kind {
                    RTM_NEWLINK => note_state(&mut self.links, events, index, name, state),
                    // A port that leaves a bridge is told of with the same message, of the
                    // bridge's family; only one of no family is the end of the interface.
                    RTM_DELLINK if message.payload().first() == Some(&0) => {
                        note_removed(&mut self.links, events, index);
                    }
                    _ => {}
                }
            }
            at += (message.length() as usize).next_multiple_of(4);
        }
    }

    /// Compares what is there with what was known.
    fn look(&mut self, events: &mut Vec<LinkEvent>) -> Result<(), NetlinkError> {
        let known: Vec<LinkIndex> = self.links.keys().copied().collect();
        for index in known {
            match self.netlink.link_by_index(index) {
                Ok(link) => {
                    note_state(&mut self.links, events, index, Some(link.name), link.state);
                }
                Err(LinkError::NoSuchIndex(_) | LinkError::NoSuchName { .. }) => {
                    note_removed(&mut self.links, events, index);
                }
                Err(LinkError::Netlink(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

type Known = BTreeMap<LinkIndex, (String, LinkState)>;

fn note_state(
    links: &mut Known,
    events: &mut Vec<LinkEvent>,
    index: LinkIndex,
    name: Option<String>,
    state: LinkState,
) {
    let Some((known_name, known_state)) = links.get_mut(&index) else { return };
    if let Some(name) = name {
        *known_name = name;
    }
    if *known_state != state {
        *known_state = state;
        events.push(LinkEvent::State { index, name: known_name.clone(), state });
    }
}

fn note_removed(links: &mut Known, events: &mut Vec<LinkEvent>, index: LinkIndex) {
    if let Some((name, _)) = links.remove(&index) {
        events.push(LinkEvent::Removed { index, name });
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
