//! Sockets: the buffers and the bookkeeping that the stack leaves to its embedder.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use wirebeat_stack::{
    Accept, Application, Event, Info, Reason, Received, Session, SessionId, Stack, Tuple,
};
use wirebeat_units::Nanos;

use crate::settings::{PROFILES, QUICK_ACKS, System, Wishes};

/// Descriptors begin here, so that none is one of the kernel's.
pub const FIRST: i32 = 1 << 20;
/// Data that is held back by `TCP_CORK` or `MSG_MORE` goes after this time, as in Linux.
const CORK_TIME: Nanos = Nanos::from_millis(200);

/// An error of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// It would block.
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    /// No such descriptor.
    pub const BADF: Errno = Errno(libc::EBADF);
    /// Not as it is now, or not with these arguments.
    pub const INVAL: Errno = Errno(libc::EINVAL);
}

/// What a socket is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing yet.
    None,
    /// It listens; numbers of sockets that wait to be accepted.
    Listening(VecDeque<usize>),
    /// A session of the stack, which is being opened or is open.
    Session(SessionId),
    /// It had a session.
    Ended,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// Its session.
    pub link: Link,
    /// Whether the session is established, or was.
    pub is_established: bool,
    /// Its own end, where it was bound or connected.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: Option<SocketAddr>,
    /// Whether it is of IPv6.
    pub is_v6: bool,
    /// Socket options.
    pub wishes: Wishes,
    /// `O_NONBLOCK`.
    pub nonblocking: bool,
    /// All that was written, from the first byte.
    pub written: Vec<u8>,
    /// Of it, how much the stack knows of.
    offered: u64,
    /// How much the peer has acknowledged.
    pub acked: u64,
    /// Where records end that `MSG_EOR` closed: none shares a segment with what follows, and all but the last go whatever Nagle says.
    pub records: VecDeque<u64>,
    /// More was written behind the record that the stack has.
    pub is_followed: bool,
    /// The last write said that more follows.
    pub more_follows: bool,
    /// Data that `MSG_MORE` holds back goes all the same, since an acknowledgment came or `TCP_NODELAY` was set.
    pub is_released: bool,
    /// When held-back data goes.
    cork_until: Option<Nanos>,
    /// Data out of order, by offset.
    pieces: BTreeMap<u64, Vec<u8>>,
    arrived: u64,
    /// Data in order that was not read.
    pub unread: VecDeque<u8>,
    /// Read, and the stack does not know yet.
    pub consumed: u32,
    /// The peer has closed.
    pub at_end: bool,
    /// What the next call answers.
    pub error: Option<Errno>,
    /// `SHUT_RD`.
    pub shut_read: bool,
    /// `SHUT_WR`, or closed.
    pub shut_write: bool,
    closed_stack: bool,
    /// The program has closed it.
    pub is_orphan: bool,
    resets: bool,
    /// How long something was not acknowledged yet, and of that, how long the peer's window did not take what was next.
    pub busy: Nanos,
    /// See `busy`.
    pub window_limited: Nanos,
    /// When data arrived last.
    pub data_at: Nanos,
    /// The largest segment that arrived, in bytes of data.
    pub segment_seen: u32,
    /// Counts what made it readable, for edge-triggered `epoll`.
    pub read_news: u64,
    /// Counts what made it writable.
    pub write_news: u64,
    was_full: bool,
}

impl Socket {
    fn new(is_v6: bool) -> Socket {
        Socket {
            link: Link::None,
            is_established: false,
            local: None,
            remote: None,
            is_v6,
            wishes: Wishes::default(),
            nonblocking: false,
            written: Vec::new(),
            offered: 0,
            acked: 0,
            records: VecDeque::new(),
            is_followed: false,
            more_follows: false,
            is_released: false,
            cork_until: None,
            pieces: BTreeMap::new(),
            arrived: 0,
            unread: VecDeque::new(),
            consumed: 0,
            at_end: false,
            error: None,
            shut_read: false,
            shut_write: false,
            closed_stack: false,
            is_orphan: false,
            resets: false,
            busy: Nanos::ZERO,
            window_limited: Nanos::ZERO,
            data_at: Nanos::ZERO,
            segment_seen: 0,
            read_news: 0,
            write_news: 0,
            was_full: false,
        }
    }

    /// Whether it listens.
    pub fn is_listening(&self) -> bool {
        matches!(self.link, Link::Listening(_))
    }

    /// Its session, if it has one now.
    pub fn session(&self) -> Option<SessionId> {
        match self.link {
            Link::Session(id) => Some(id),
            _ => None,
        }
    }

    /// Bytes written and not acknowledged.
    pub fn queued(&self) -> u64 {
        self.written.len() as u64 - self.acked
    }

    /// The send buffer in bytes.
    pub fn send_buffer(&self, system: &System) -> u32 {
        let [_, usual, _] = system.send_buffer;
        if self.wishes.send_buffer > 0 { self.wishes.send_buffer } else { usual }
    }

    /// How many bytes more may be written now.
    pub fn room(&self, system: &System) -> u64 {
        u64::from(self.send_buffer(system)).saturating_sub(self.queued())
    }

    /// Whether a third of the send buffer is free (Linux's `sk_stream_is_writeable`), and what was not sent is below the mark.
    pub fn is_writable(&self, system: &System, unsent: u64) -> bool {
        let buffer = u64::from(self.send_buffer(system));
        let mark = match self.wishes.unsent_mark {
            0 => system.unsent_mark,
            mark => mark,
        };
        self.queued() * 3 <= buffer * 2 && unsent < u64::from(mark)
    }

    /// Puts data where it belongs, and what is in order now into the buffer.
    fn take(&mut self, received: &Received<'_>) {
        self.pieces.insert(received.offset, received.bytes.to_vec());
        while let Some(piece) = self.pieces.remove(&self.arrived) {
            self.arrived += piece.len() as u64;
            self.unread.extend(piece);
        }
    }

    /// Whether something was written behind the record that is sent now.
    fn is_followed(&self) -> bool {
        self.records.front().is_some_and(|end| *end < self.written.len() as u64)
    }

    /// How much of what was written the stack may know of now.
    fn may_offer(&self, now: Nanos, mss: u64) -> u64 {
        let written = self.written.len() as u64;
        let holds_back =
            (self.wishes.cork || self.more_follows) && !self.is_released && !self.shut_write;
        if !holds_back || self.cork_until.is_some_and(|until| until <= now) {
            return written;
        }
        let full = (written - self.offered) / mss * mss;
        self.offered + full
    }
}

/// All sockets, and what the stack asks of them.
#[derive(Debug)]
pub struct Sockets {
    sockets: Vec<Option<Socket>>,
    /// Sysctls as they were when they were read last.
    pub system: System,
    /// Until when a blocked call waits.
    pub alarm: Option<Nanos>,
    /// The largest packet.
    pub mtu: u16,
    /// See `Profile::quick_acks`.
    quick_acks: u8,
    /// Sources of connections that are not bound.
    pub addresses: Vec<IpAddr>,
    /// Profiles that the stack is to learn, and sessions that change theirs.
    profiles_due: Vec<usize>,
    next_port: u16,
    /// The time, for what the stack tells of.
    pub now: Nanos,
    /// Whether it tells of what an ICMP message did.
    pub is_icmp: bool,
}

impl Sockets {
    /// None yet.
    pub fn new(system: System) -> Sockets {
        Sockets {
            sockets: Vec::new(),
            system,
            alarm: None,
            mtu: 1500,
            quick_acks: QUICK_ACKS,
            addresses: Vec::new(),
            profiles_due: Vec::new(),
            next_port: 32_768,
            now: Nanos::ZERO,
            is_icmp: false,
        }
    }

    /// Takes what the command line says, parted by commas: addresses of this side, the MTU, and how many segments are acknowledged
    /// without delay. Other words are ignored.
    pub fn configure(&mut self, flags: &str) {
        for word in flags.split(',').map(str::trim) {
            if let Some(mtu) = word.strip_prefix("mtu=").and_then(|mtu| mtu.parse().ok()) {
                self.mtu = mtu;
            } else if let Some(acks) = word.strip_prefix("quick_acks=") {
                self.quick_acks = acks.parse().unwrap_or(QUICK_ACKS);
            } else {
                self.addresses.extend(word.parse::<IpAddr>());
            }
        }
    }

    /// A new socket's number.
    pub fn insert(&mut self, is_v6: bool) -> Option<usize> {
        if self.sockets.len() >= PROFILES {
            return None;
        }
        self.sockets.push(Some(Socket::new(is_v6)));
        Some(self.sockets.len() - 1)
    }

    /// The number of a descriptor.
    pub fn number(&self, descriptor: i32) -> Result<usize, Errno> {
        let number = usize::try_from(descriptor.wrapping_sub(FIRST)).map_err(|_| Errno::BADF)?;
        let is_open = self.get(number).is_some_and(|socket| !socket.is_orphan);
        if is_open { Ok(number) } else { Err(Errno::BADF) }
    }

    /// A socket by its number.
    pub fn get(&self, number: usize) -> Option<&Socket> {
        self.sockets.get(number)?.as_ref()
    }

    /// A socket by its number.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut Socket> {
        self.sockets.get_mut(number)?.as_mut()
    }

    /// The socket of a descriptor.
    pub fn open(&mut self, descriptor: i32) -> Result<&mut Socket, Errno> {
        let number = self.number(descriptor)?;
        self.get_mut(number).ok_or(Errno::BADF)
    }

    /// A port that nobody has.
    pub fn free_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(32_768);
        self.next_port
    }

    /// The wishes of a socket changed: the stack is to know.
    pub fn wishes_changed(&mut self, number: usize) {
        self.profiles_due.push(number);
    }

    /// Adds up what sockets spend time with.
    pub fn pass(&mut self, stack: &Stack, span: Nanos) {
        for socket in self.sockets.iter_mut().flatten() {
            let Some(info) = socket.session().and_then(|id| stack.info(id)) else { continue };
            if socket.queued() == 0 || !socket.is_established {
                continue;
            }
            socket.busy = socket.busy.saturating_add(span);
            let unsent = socket.queued().saturating_sub(info.outstanding.into());
            let next = unsent.min(info.mss.into());
            if next > 0 && u64::from(info.outstanding) + next > info.peer_window.into() {
                socket.window_limited = socket.window_limited.saturating_add(span);
            }
        }
    }

    /// When a socket is to act by itself, or a blocked call ends.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let corks = self.sockets.iter().flatten().filter_map(|socket| socket.cork_until);
        corks.chain(self.alarm).min()
    }

    /// Brings the stack what sockets want now. Whether there was something.
    pub fn act(&mut self, stack: &mut Stack, now: Nanos) -> bool {
        self.alarm = self.alarm.filter(|alarm| *alarm > now);
        let mut acted = self.learn_profiles(stack);
        for number in 0..self.sockets.len() {
            let Some(Socket { link: Link::Session(id), resets, .. }) = self.get(number) else {
                continue;
            };
            let (id, resets) = (*id, *resets);
            if resets {
                acted |= stack.abort(now, id, self).is_ok();
                continue;
            }
            let Some(info) = stack.info(id) else { continue };
            let Some(socket) = self.get_mut(number) else { continue };
            let followed = socket.is_followed();
            if followed != std::mem::replace(&mut socket.is_followed, followed) {
                self.profiles_due.push(number);
                acted = true;
                continue;
            }
            acted |= socket.act(stack, id, now, &info);
            let closes = socket.shut_write
                && !socket.closed_stack
                && socket.offered == socket.written.len() as u64;
            if closes {
                socket.closed_stack = true;
                acted |= stack.close(now, id, self).is_ok();
            }
            if self.get(number).is_some_and(|socket| socket.is_orphan && socket.closed_stack) {
                let _ = stack.close_both(now, id, self);
            }
        }
        acted
    }

    fn learn_profiles(&mut self, stack: &mut Stack) -> bool {
        let due = std::mem::take(&mut self.profiles_due);
        for number in &due {
            let Some(socket) = self.get(*number) else { continue };
            let mut profile = self.system.profile_for(&socket.wishes, !socket.is_listening());
            profile.nagle &= !socket.is_followed;
            (profile.mtu, profile.quick_acks) = (self.mtu, self.quick_acks);
            let _ = stack.set_profile(*number as u8, profile);
            if let Some(id) = socket.session() {
                let _ = stack.use_profile(id, *number as u8);
            }
        }
        !due.is_empty()
    }
}

impl Socket {
    /// Offers what may be sent and tells what was read.
    fn act(&mut self, stack: &mut Stack, id: SessionId, now: Nanos, info: &Info) -> bool {
        let mut acted = false;
        let mss = if info.mss > 0 { info.mss } else { 536 };
        let mut may = self.may_offer(now, mss.into());
        let sent = info.acked + u64::from(info.outstanding);
        while self.records.front().is_some_and(|end| self.offered >= *end && sent >= *end) {
            self.records.pop_front();
            acted = true;
        }
        if let Some(end) = self.records.front() {
            may = may.min(*end);
        }
        if may > self.offered {
            // What a timer releases is pushed, what an option or an acknowledgment does is not, as in Linux.
            let more = self.more_follows && self.cork_until.is_none_or(|until| until > now);
            let bytes = may - self.offered;
            let done = if more { stack.send_more(id, bytes) } else { stack.send(id, bytes) };
            if done.is_ok() {
                self.offered = may;
                acted = true;
            }
        }
        if self.offered == self.written.len() as u64 {
            self.cork_until = None;
        } else if self.cork_until.is_none() {
            self.cork_until = Some(now.saturating_add(CORK_TIME));
        }
        if self.consumed > 0 {
            let consumed = std::mem::take(&mut self.consumed);
            acted |= stack.consume(id, consumed).is_ok();
        }
        acted
    }

    /// The program closes it: what it did not read is lost, and the peer is to know (RFC 9293 §3.10.4, RFC 1122 §4.2.2.13).
    pub fn close(&mut self) {
        self.is_orphan = true;
        self.shut_write = true;
        self.resets = !self.unread.is_empty() || self.wishes.linger == Some(0);
    }

    /// Data that is held back goes.
    pub fn release(&mut self) {
        self.is_released = true;
    }

    /// The connection is given up.
    pub fn disconnect(&mut self) {
        self.resets = true;
    }
}

impl Application for Sockets {
    fn accept(&mut self, tuple: &Tuple) -> Accept {
        let listener = self.sockets.iter().position(|socket| {
            socket.as_ref().is_some_and(|socket| {
                let here = socket.local.filter(|_| socket.is_listening() && !socket.is_orphan);
                here.is_some_and(|here| {
                    here.port() == tuple.local_port
                        && (here.ip().is_unspecified() || here.ip() == tuple.local)
                })
            })
        });
        let Some(listener) = listener else { return Accept::Refuse };
        let Some(number) = self.insert(tuple.local.is_ipv6()) else { return Accept::Ignore };
        let wishes = self.get(listener).map(|socket| socket.wishes.clone()).unwrap_or_default();
        if let Some(socket) = self.get_mut(number) {
            socket.wishes = wishes;
            socket.local = Some(SocketAddr::new(tuple.local, tuple.local_port));
            socket.remote = Some(SocketAddr::new(tuple.remote, tuple.remote_port));
        }
        Accept::Session { profile: listener as u8, user: number as u32 }
    }

    fn payload(&mut self, session: Session, offset: u64, into: &mut [u8]) {
        let bytes = self
            .get(session.user as usize)
            .and_then(|socket| socket.written.get(offset as usize..offset as usize + into.len()));
        if let Some(bytes) = bytes {
            into.copy_from_slice(bytes);
        }
    }

    fn received(&mut self, session: Session, received: Received<'_>) {
        let now = self.now;
        let Some(socket) = self.get_mut(session.user as usize) else { return };
        socket.data_at = now;
        socket.segment_seen = socket.segment_seen.max(received.bytes.len() as u32);
        socket.read_news += 1;
        socket.take(&received);
    }

    fn event(&mut self, session: Session, event: Event) {
        let number = session.user as usize;
        let listener = self.listener_of(number);
        let (system, now, is_icmp) = (self.system.clone(), self.now, self.is_icmp);
        let Some(socket) = self.get_mut(number) else { return };
        match event {
            Event::Established => {
                socket.is_established = true;
                socket.data_at = now;
                socket.write_news += 1;
                let is_accepted = socket.link == Link::None;
                socket.link = Link::Session(session.id);
                if let Some(listener) = listener.filter(|_| is_accepted)
                    && let Some(parent) = self.get_mut(listener)
                {
                    parent.read_news += 1;
                    if let Link::Listening(queue) = &mut parent.link {
                        queue.push_back(number);
                    }
                }
            }
            Event::Acknowledged { offset } => {
                socket.is_released |= socket.more_follows && !socket.wishes.cork;
                let was_full = socket.queued() * 3 > u64::from(socket.send_buffer(&system)) * 2;
                socket.acked = offset;
                let is_full = socket.queued() * 3 > u64::from(socket.send_buffer(&system)) * 2;
                if (was_full || socket.was_full) && !is_full {
                    socket.write_news += 1;
                }
                socket.was_full = is_full;
            }
            Event::PeerClosed => {
                socket.at_end = true;
                socket.read_news += 1;
            }
            Event::Closed(reason) => {
                socket.link = Link::Ended;
                socket.read_news += 1;
                socket.write_news += 1;
                socket.at_end = true;
                socket.error = match reason {
                    Reason::InOrder | Reason::Aborted => None,
                    Reason::Refused => Some(Errno(libc::ECONNREFUSED)),
                    Reason::TimedOut => Some(Errno(libc::ETIMEDOUT)),
                    // That there is no such port or protocol ends it at once.
                    Reason::Unreachable if is_icmp => Some(Errno(libc::ECONNREFUSED)),
                    Reason::Unreachable => Some(Errno(libc::EHOSTUNREACH)),
                    Reason::Reset => Some(Errno(libc::ECONNRESET)),
                };
            }
        }
    }
}

impl Sockets {
    /// The socket that listens where `number` is.
    fn listener_of(&self, number: usize) -> Option<usize> {
        let here = self.get(number)?.local?;
        self.sockets.iter().position(|socket| {
            socket.as_ref().is_some_and(|socket| {
                socket.is_listening() && socket.local.is_some_and(|at| at.port() == here.port())
            })
        })
    }
}
