//! The sending half: datagrams straight from the slots, in batches, joined where that is allowed.
//!
//! Each distinct endpoint has a connected socket: a connected socket looks up its route once (a tenth
//! faster than one that is told the address each time, measured), and changing sockets within a batch
//! costs no more than a system call.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, socket_error};
use wirebeat_engine::port::{CardStamps, PortError, TxCaps, TxMeta, View};
use wirebeat_netlink::LinkIndex;
use wirebeat_units::{Nanos, fault};

use super::joining::joinable;
use super::{Checksum, ENGINE, Endpoint, Joining, SocketTransmit};
use crate::card::{Asked, Card, REQUEST_WORDS, SentStamps, request};
use crate::slot_port::{SlotPort, tx_port_of_slots};
use crate::slots::{BATCH, Slots};
use crate::sys::{self, Messages, refused};

/// How often a datagram is tried again after an error that may have been meant for an earlier one.
const ATTEMPTS: u32 = 4;
/// Bytes that stamps of a card may wait in; there is one at a time.
const STAMPS_ROOM: usize = 64 << 10;
/// Words of a control message with one 16-bit number: header and padded number.
const CONTROL_WORDS: usize = 3;

/// Sockets and slots.
#[derive(Debug)]
pub struct SocketTx {
    caps: TxCaps,
    /// The only interface that is used, if it was named, and its number.
    interface: Option<String>,
    index: Option<LinkIndex>,
    /// Where it was opened to send to, and whether joined.
    endpoints: Vec<Option<Endpoint>>,
    joining: Joining,
    peers: Vec<Peer>,
    /// Index of the peer, by tag; `None` for flows of other ports.
    peer_of: Vec<Option<u32>>,
    slots: Slots,
    messages: Messages,
    /// Frames of each message.
    counts: Vec<usize>,
    /// Room for each message's segment size.
    controls: Vec<[u64; CONTROL_WORDS]>,
    stalls: u64,
    /// Where the card stamps.
    stamps: Option<Box<Asking>>,
}

/// Asks for the stamps of datagrams.
#[derive(Debug)]
struct Asking {
    sent: SentStamps,
    /// The control messages of the one that asks: its segment size, if it has one, and the request.
    control: [u64; CONTROL_WORDS + REQUEST_WORDS],
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    /// Datagrams of this length and longer are sent singly.
    join_below: usize,
    /// For messages.
    name: String,
}

impl Peer {
    fn open(
        endpoint: &Endpoint,
        joining: Joining,
        interface: Option<&str>,
    ) -> Result<Self, PortError> {
        // the kernel refuses to join datagrams without checksum
        let joins = joining == Joining::WhereSizesAllow && endpoint.checksum == Checksum::Sent;
        Ok(Peer {
            socket: endpoint.connect(interface)?,
            join_below: if joins { usize::MAX } else { 0 },
            name: endpoint.destination.to_string(),
        })
    }
}

impl SocketTx {
    /// Opens a socket for every distinct endpoint; by the named interface alone, or as the routes say. `card` stamps what leaves,
    /// that of the interface, or the system does. It sends nothing yet.
    pub fn open(
        interface: Option<&str>,
        options: &SocketTransmit,
        card: Option<&Card>,
    ) -> Result<Self, PortError> {
        let link = interface.map(|name| crate::link::find(ENGINE, name)).transpose()?;
        super::check(options)?;
        let joins = options.joining == Joining::WhereSizesAllow;
        let way = if joins { "sendmmsg, GSO where sizes allow" } else { "sendmmsg" };
        let caps = TxCaps {
            engine: ENGINE,
            mode: super::mode(way, card),
            frame_max: options.plan.frame_max.size(),
            batch: BATCH,
            view: View::Datagram,
            holds: false,
            lead: Nanos::ZERO,
            repeats: 0,
            external: None,
            large: false,
            link: link.as_ref().and_then(|link| link.speed),
        };
        let mut known = HashMap::new();
        let mut peers = Vec::new();
        let mut peer_of = Vec::with_capacity(options.endpoints.len());
        for endpoint in &options.endpoints {
            let Some(endpoint) = endpoint else {
                peer_of.push(None);
                continue;
            };
            let next = peers.len() as u32;
            let index = *known.entry(*endpoint).or_insert(next);
            if index == next {
                peers.push(Peer::open(endpoint, options.joining, interface)?);
            }
            peer_of.push(Some(index));
        }
        let asking = |card: &Card| {
            let sockets: Vec<&OwnedFd> = peers.iter().map(|peer: &Peer| &peer.socket).collect();
            // stamps wait in the room for what is received, of which there is nearly none
            for socket in &sockets {
                set_socket_recv_buffer_size(socket, STAMPS_ROOM)?;
            }
            let sent = SentStamps::start(&sockets, card.clock())?;
            Ok(Box::new(Asking { sent, control: [0; CONTROL_WORDS + REQUEST_WORDS] }))
        };
        let stamps = card.map(asking).transpose();
        let stamps =
            stamps.map_err(|e: io::Error| refused("asking for the card's stamps", ENGINE, e))?;
        Ok(SocketTx {
            caps,
            interface: interface.map(str::to_owned),
            index: link.map(|link| link.index),
            endpoints: options.endpoints.clone(),
            joining: options.joining,
            stamps,
            peers,
            peer_of,
            slots: Slots::new(&options.plan).map_err(|e| refused("making slots", ENGINE, e))?,
            messages: Messages::new(BATCH),
            counts: vec![0; BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            stalls: 0,
        })
    }

    /// Gets ready for another run by the same sockets, with counters from zero. In the namespace of the interface. Says
    /// `false`, and does nothing, where that takes another port: other endpoints, another interface of that name, or a card
    /// that stamps.
    ///
    /// # Errors
    /// The interface is gone, or the datagrams are too long.
    pub fn rearm(
        &mut self,
        interface: Option<&str>,
        options: &SocketTransmit,
    ) -> Result<bool, PortError> {
        let link = interface.map(|name| crate::link::find(ENGINE, name)).transpose()?;
        super::check(options)?;
        let alike = self.endpoints == options.endpoints && self.joining == options.joining;
        if !alike || link.as_ref().map(|link| link.index) != self.index || self.stamps.is_some() {
            return Ok(false);
        }
        self.slots.rearm(&options.plan).map_err(|e| refused("making slots", ENGINE, e))?;
        for peer in &self.peers {
            // what an ICMP message said of a datagram of before is none of the next run
            let _ = socket_error(&peer.socket);
        }
        self.caps.frame_max = options.plan.frame_max.size();
        self.caps.link = link.and_then(|link| link.speed);
        self.stalls = 0;
        Ok(true)
    }

    /// How often there was no room, so that datagrams had to wait.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Sends what is in front for one peer; returns how many messages were taken, at least one.
    fn send(&mut self, peer_index: u32) -> Result<usize, Errno> {
        let front = self.slots.front();
        let peer = &self.peers[peer_index as usize];
        let ours = |index| self.peer_of.get(front.tag(index) as usize) == Some(&Some(peer_index));
        let messages = self.messages.get();
        let (mut frames, mut used) = (0, 0);
        while frames < front.len() && ours(frames) {
            let size = front.bytes(frames);
            let joins = size < peer.join_below;
            let count = if joins { joinable(&front, frames, &self.peer_of) } else { 1 };
            let header = &mut messages[used].msg_hdr;
            header.msg_iov = front.iovecs[frames..].as_ptr().cast_mut();
            header.msg_iovlen = count;
            if count > 1 {
                let control = &mut self.controls[used];
                *control = segment_size(size as u16);
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = size_of_val(control);
            } else {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
            self.counts[used] = count;
            used += 1;
            frames += count;
        }
        if let Some(asking) = &mut self.stamps
            && let Some((place, at)) = asking.sent.pick(used)
        {
            // the first of those that are joined has the stamp
            let due = front.due(self.counts[..place].iter().sum());
            let socket = peer_index as usize;
            asking.ask(&mut messages[place].msg_hdr, Asked { socket, due, at });
            // SAFETY: as below.
            let result = unsafe { sys::send_messages(&peer.socket, &mut messages[..used]) };
            if result.as_ref().map_or(0, |count| *count) <= place {
                asking.sent.not_sent();
            }
            return result;
        }
        if let [datagram] = &front.iovecs[..frames] {
            // SAFETY: an iovec of the slots is valid for its length.
            return unsafe { sys::send_message(&peer.socket, datagram) }.map(|()| 1);
        }
        // SAFETY: iovecs of the slots are valid for their lengths, as many as the message says are
        // in front; control data lives in `controls`. The kernel only reads them.
        unsafe { sys::send_messages(&peer.socket, &mut messages[..used]) }
    }

    /// What to do when the first message in front cannot be sent.
    fn refused(&mut self, peer_index: u32, errno: Errno) -> Result<(), PortError> {
        let peer = &mut self.peers[peer_index as usize];
        if self.counts[0] > 1 {
            // Joined they are refused: too long for the path to go unfragmented, or the route does not
            // allow it. Singly they may pass.
            let size = self.slots.front().bytes(0);
            peer.join_below = if errno == Errno::MSGSIZE { size } else { 0 };
            return Ok(());
        }
        match errno {
            // longer than the path takes, forbidden by a filter, or refused over and over
            Errno::MSGSIZE | Errno::PERM | Errno::ACCESS => self.slots.failed(1),
            Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::HOSTDOWN => self.slots.failed(1),
            Errno::PROTO | Errno::NOPROTOOPT | Errno::OPNOTSUPP => self.slots.failed(1),
            // There was a route when the port was opened. Without its source address the kernel
            // says EINVAL (ip_route_output_key_hash).
            Errno::NETUNREACH
            | Errno::NETDOWN
            | Errno::NODEV
            | Errno::NXIO
            | Errno::INVAL
            | Errno::ADDRNOTAVAIL => {
                self.slots.fail_all();
                let towards = || format!("towards {}", peer.name);
                return Err(PortError::Gone(self.interface.clone().unwrap_or_else(towards)));
            }
            errno => {
                self.slots.fail_all();
                return Err(refused("sending datagrams", &peer.name, errno.into()));
            }
        }
        Ok(())
    }
}

impl Asking {
    /// Has a message ask for its stamp, beside what it says already.
    fn ask(&mut self, header: &mut libc::msghdr, asked: Asked) {
        let said = header.msg_controllen / size_of::<u64>();
        let mut words = 0;
        if said == CONTROL_WORDS {
            // SAFETY: the control data of the message are so many words in `controls`.
            let size = unsafe { header.msg_control.cast::<[u64; CONTROL_WORDS]>().read() };
            self.control[..CONTROL_WORDS].copy_from_slice(&size);
            words = CONTROL_WORDS;
        }
        self.control[words..words + REQUEST_WORDS].copy_from_slice(&request());
        header.msg_control = self.control.as_mut_ptr().cast();
        header.msg_controllen = ((words + REQUEST_WORDS) * size_of::<u64>()) as _;
        self.sent.ask(asked);
    }
}

tx_port_of_slots!(SocketTx);

impl SlotPort for SocketTx {
    fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }

    fn check(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        for meta in metas {
            if let Some(None) = self.peer_of.get(meta.tag as usize) {
                return Err(PortError::Unsupported {
                    engine: ENGINE,
                    what: fault!("send flow {}: it was opened without an endpoint", meta.tag),
                });
            }
        }
        Ok(())
    }

    fn stamps_of_card(&mut self) -> Option<CardStamps> {
        self.stamps.as_mut()?.sent.finish()
    }

    fn send_slots(&mut self) -> Result<(), PortError> {
        let mut attempts = 0;
        while !self.slots.is_empty() {
            let tag = self.slots.front().tag(0) as usize;
            let Some(peer) = self.peer_of.get(tag).copied().flatten() else {
                // refused on commit; never sent to somebody else
                self.slots.failed(1);
                continue;
            };
            match self.send(peer) {
                Ok(messages) => {
                    self.slots.sent(self.counts[..messages].iter().sum());
                    attempts = 0;
                }
                Err(Errno::INTR) => {}
                // The socket's buffer or a queue below is full: nothing of the message was sent.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.stalls += 1;
                    return Ok(());
                }
                // What an ICMP message says of an earlier datagram is reported once, to the next
                // call, which sends nothing; that datagram is not to blame, and is sent again.
                Err(_) if attempts < ATTEMPTS => attempts += 1,
                Err(errno) => {
                    attempts = 0;
                    self.refused(peer, errno)?;
                }
            }
        }
        Ok(())
    }
}

/// A control message that says how long each datagram of a message is (cmsg(3), udp(7)).
fn segment_size(size: u16) -> [u64; CONTROL_WORDS] {
    let mut control = [0; CONTROL_WORDS];
    // SAFETY: the words are aligned for a header and hold it and the number.
    unsafe {
        let header: *mut libc::cmsghdr = control.as_mut_ptr().cast();
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write(size);
    }
    control
}
