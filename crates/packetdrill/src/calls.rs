//! The calls of sockets, as functions of the world: what they answer now, `EAGAIN` where a blocking call waits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wirebeat_stack::{Open, Tuple};
use wirebeat_units::Nanos;

use crate::sockets::{Errno, FIRST, Link, Socket};
use crate::tcp_info;
use crate::world::World;

/// The most that a send or receive buffer may be asked for, and the least that is given (`tcp_wmem`, `SOCK_MIN_SNDBUF`).
const BUFFER_MAX: u32 = 1 << 29;
const BUFFER_MIN: u32 = 4608;

/// What came with a `recvmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    /// Bytes read.
    pub len: usize,
    /// How many more there are, where `TCP_INQ` asks for it.
    pub queue: Option<i32>,
}

/// A value of a socket option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number.
    Word(i32),
    /// A structure.
    Bytes(Vec<u8>),
}

impl World {
    /// `socket`.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32, Errno> {
        let is_v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let type_alone = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if type_alone != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }
        self.sockets.system = crate::settings::System::read();
        let number = self.sockets.insert(is_v6).ok_or(Errno(libc::EMFILE))?;
        if let Some(socket) = self.sockets.get_mut(number) {
            socket.nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        }
        self.sockets.wishes_changed(number);
        Ok(FIRST + number as i32)
    }

    /// `bind`.
    pub fn bind(&mut self, descriptor: i32, address: SocketAddr) -> Result<(), Errno> {
        let port = if address.port() == 0 { self.sockets.free_port() } else { address.port() };
        self.sockets.open(descriptor)?.local = Some(SocketAddr::new(address.ip(), port));
        Ok(())
    }

    /// `listen`.
    pub fn listen(&mut self, descriptor: i32) -> Result<(), Errno> {
        let number = self.sockets.number(descriptor)?;
        let port = self.sockets.free_port();
        let socket = self.sockets.open(descriptor)?;
        if socket.link != Link::None {
            return if socket.is_listening() { Ok(()) } else { Err(Errno::INVAL) };
        }
        let any: IpAddr =
            if socket.is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        socket.local.get_or_insert(SocketAddr::new(any, port));
        socket.link = Link::Listening(Default::default());
        self.sockets.wishes_changed(number);
        Ok(())
    }

    /// `accept`: a descriptor and the peer's end.
    pub fn accept(&mut self, descriptor: i32) -> Result<(i32, SocketAddr), Errno> {
        let Link::Listening(queue) = &mut self.sockets.open(descriptor)?.link else {
            return Err(Errno::INVAL);
        };
        let number = queue.pop_front().ok_or(Errno::AGAIN)?;
        let peer = self.sockets.get(number).and_then(|socket| socket.remote);
        Ok((FIRST + number as i32, peer.ok_or(Errno::INVAL)?))
    }

    /// `connect`: begins it. `EINPROGRESS` the first time.
    pub fn connect(&mut self, descriptor: i32, peer: SocketAddr) -> Result<(), Errno> {
        let number = self.sockets.number(descriptor)?;
        let port = self.sockets.free_port();
        let sources = self.sockets.addresses.clone();
        let socket = self.sockets.open(descriptor)?;
        match socket.link {
            Link::None => {}
            _ if socket.is_established => return Err(Errno(libc::EISCONN)),
            Link::Session(_) => return Err(Errno(libc::EALREADY)),
            _ => return Err(Errno::INVAL),
        }
        let source = sources.into_iter().find(|source| source.is_ipv4() == peer.is_ipv4());
        let bound = socket.local.filter(|local| !local.ip().is_unspecified());
        let port = socket.local.map_or(port, |local| local.port());
        let source = bound.map(|local| local.ip()).or(source).ok_or(Errno(libc::EADDRNOTAVAIL))?;
        let local = SocketAddr::new(source, port);
        (socket.local, socket.remote) = (Some(local), Some(peer));
        self.sockets.wishes_changed(number);
        self.run();
        let tuple = Tuple {
            local: local.ip(),
            remote: peer.ip(),
            local_port: local.port(),
            remote_port: peer.port(),
        };
        let open = Open { tuple, profile: number as u8, user: number as u32 };
        let session = self.stack.connect(self.now, &open).map_err(|_| Errno(libc::EADDRINUSE))?;
        if let Some(socket) = self.sockets.get_mut(number) {
            socket.link = Link::Session(session);
        }
        Err(Errno(libc::EINPROGRESS))
    }

    /// What became of a connection that was begun.
    pub fn connected(&mut self, descriptor: i32) -> Result<(), Errno> {
        let socket = self.sockets.open(descriptor)?;
        match socket.error.take() {
            Some(error) => Err(error),
            None if socket.is_established => Ok(()),
            None if socket.session().is_some() => Err(Errno::AGAIN),
            None => Err(Errno(libc::ECONNABORTED)),
        }
    }

    /// `read` and its kin: copies into `into`, of which nothing is taken with `MSG_PEEK`.
    pub fn read(&mut self, descriptor: i32, into: &mut [u8], flags: i32) -> Result<Got, Errno> {
        let socket = self.sockets.open(descriptor)?;
        if !socket.is_established && socket.error.is_none() {
            let opens = socket.session().is_some();
            return Err(if opens { Errno::AGAIN } else { Errno(libc::ENOTCONN) });
        }
        let len = into.len().min(socket.unread.len());
        if len > 0 {
            for (to, from) in into.iter_mut().zip(&socket.unread) {
                *to = *from;
            }
            if flags & libc::MSG_PEEK == 0 {
                socket.unread.drain(..len);
                socket.consumed += len as u32;
            }
        } else if let Some(error) = socket.error.take() {
            return Err(error);
        } else if !into.is_empty() && !socket.at_end && !socket.shut_read {
            return Err(Errno::AGAIN);
        }
        // One more where the end follows, as Linux tells it.
        let queue =
            socket.unread.len() as i32 + i32::from(socket.at_end && socket.unread.is_empty());
        Ok(Got { len, queue: socket.wishes.tells_queue.then_some(queue) })
    }

    /// `write` and its kin: how many of `bytes` were taken.
    pub fn write(&mut self, descriptor: i32, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
        let system = self.sockets.system.clone();
        let socket = self.sockets.open(descriptor)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.shut_write || socket.link == Link::Ended {
            return Err(Errno(libc::EPIPE));
        }
        if !socket.is_established {
            let opens = socket.session().is_some();
            return Err(if opens { Errno::AGAIN } else { Errno(libc::EPIPE) });
        }
        let room = usize::try_from(socket.room(&system)).unwrap_or(usize::MAX);
        if room == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        let taken = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        socket.written.extend_from_slice(taken);
        socket.more_follows = flags & libc::MSG_MORE != 0;
        socket.is_released = false;
        if flags & libc::MSG_EOR != 0 {
            socket.records.push_back(socket.written.len() as u64);
        }
        Ok(taken.len())
    }

    /// `close`.
    pub fn close(&mut self, descriptor: i32) -> Result<(), Errno> {
        let socket = self.sockets.open(descriptor)?;
        socket.close();
        let waiting = match std::mem::replace(&mut socket.link, Link::Ended) {
            Link::Listening(queue) => queue,
            link => {
                socket.link = link;
                return Ok(());
            }
        };
        for number in waiting {
            if let Some(socket) = self.sockets.get_mut(number) {
                socket.close();
                socket.disconnect();
            }
        }
        Ok(())
    }

    /// `shutdown`.
    pub fn shutdown(&mut self, descriptor: i32, how: i32) -> Result<(), Errno> {
        let socket = self.sockets.open(descriptor)?;
        if !socket.is_established || socket.link == Link::Ended {
            return Err(Errno(libc::ENOTCONN));
        }
        let (reads, writes) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno::INVAL),
        };
        socket.shut_read |= reads;
        socket.shut_write |= writes;
        socket.read_news += u64::from(reads);
        Ok(())
    }

    /// `ioctl` with an answer.
    pub fn ioctl(&mut self, descriptor: i32, request: u64) -> Result<i32, Errno> {
        let unsent = self.unsent(descriptor);
        let socket = self.sockets.open(descriptor)?;
        match request {
            // FIONREAD is SIOCINQ. Linux tells of the FIN as of a byte once it is next.
            libc::FIONREAD if !socket.is_listening() => Ok(socket.unread.len() as i32),
            libc::TIOCOUTQ => Ok(socket.queued() as i32),
            // SIOCOUTQNSD
            0x894b => Ok(unsent as i32),
            _ => Err(Errno::INVAL),
        }
    }

    /// Bytes that were written and did not leave yet.
    pub fn unsent(&self, descriptor: i32) -> u64 {
        let Ok(number) = self.sockets.number(descriptor) else { return 0 };
        let Some(socket) = self.sockets.get(number) else { return 0 };
        let sent = socket
            .session()
            .and_then(|id| self.stack.info(id))
            .map_or(0, |info| info.acked + u64::from(info.outstanding));
        (socket.written.len() as u64).saturating_sub(sent)
    }

    /// `getsockopt`.
    pub fn get_option(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
    ) -> Result<OptionValue, Errno> {
        let now = self.now;
        let number = self.sockets.number(descriptor)?;
        let socket = self.sockets.get(number).ok_or(Errno::BADF)?;
        let info = socket.session().and_then(|id| self.stack.info(id));
        let system = &self.sockets.system;
        let wishes = &socket.wishes;
        let word = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = self.sockets.open(descriptor)?.error.take();
                error.map_or(0, |error| error.0)
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => socket.send_buffer(system) as i32,
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let [_, usual, _] = system.receive_buffer;
                let set = wishes.receive_buffer;
                if set > 0 { set as i32 } else { usual as i32 }
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => wishes.keep_alive.into(),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => wishes.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => wishes.cork.into(),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => wishes.unsent_mark as i32,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => wishes.user_timeout as i32,
            (libc::IPPROTO_TCP, libc::TCP_INQ) => wishes.tells_queue.into(),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
                let at = (name - libc::TCP_KEEPIDLE) as usize;
                let own = wishes.keep_alive_times.get(at).filter(|own| **own > 0);
                own.or(system.keep_alive.get(at)).map_or(0, |value| *value as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => match &info {
                Some(info) if info.mss > 0 => info.mss.into(),
                _ if wishes.max_segment > 0 => wishes.max_segment.into(),
                _ => 536,
            },
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let bytes = tcp_info::write(now, socket, info.as_ref());
                return Ok(OptionValue::Bytes(bytes.to_vec()));
            }
            // What congestion control tells of itself: nothing; and what memory is taken: not counted.
            (libc::IPPROTO_TCP, libc::TCP_CC_INFO) => return Ok(OptionValue::Bytes(Vec::new())),
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => return Ok(OptionValue::Bytes(vec![0; 36])),
            (libc::IPPROTO_IP, libc::IP_TOS) => wishes.tos.into(),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(OptionValue::Word(word))
    }

    /// `setsockopt`; `value` is the whole of what was handed over.
    pub fn set_option(
        &mut self,
        descriptor: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let number = self.sockets.number(descriptor)?;
        let word = match value {
            [a, b, c, d, ..] => i32::from_ne_bytes([*a, *b, *c, *d]),
            [a] => i32::from(*a),
            _ => return Err(Errno::INVAL),
        };
        let socket = self.sockets.open(descriptor)?;
        let wishes = &mut socket.wishes;
        let positive = u32::try_from(word).unwrap_or(0);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT)
            | (libc::IPPROTO_IP, libc::IP_FREEBIND)
            // Data is copied whatever is asked for, and path MTUs are not discovered.
            | (libc::SOL_SOCKET, libc::SO_ZEROCOPY)
            | (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER) => {}
            // Linux doubles both.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                wishes.send_buffer = positive.min(BUFFER_MAX).saturating_mul(2).max(BUFFER_MIN);
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                wishes.receive_buffer = positive.min(BUFFER_MAX).saturating_mul(2).max(2304);
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => wishes.keep_alive = word != 0,
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = value.get(4..8).and_then(|bytes| bytes.try_into().ok());
                let seconds = seconds.map_or(0, u32::from_ne_bytes);
                wishes.linger = (word != 0).then_some(seconds);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                wishes.no_delay = word != 0;
                if word != 0 {
                    // It pushes what `TCP_CORK` and `MSG_MORE` hold back.
                    socket.release();
                }
            }
            (libc::IPPROTO_TCP, libc::TCP_CORK) => wishes.cork = word != 0,
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                wishes.max_segment = u16::try_from(word).map_err(|_| Errno::INVAL)?;
            }
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => wishes.unsent_mark = word as u32,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => wishes.user_timeout = positive,
            (libc::IPPROTO_TCP, libc::TCP_INQ) => wishes.tells_queue = word != 0,
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
                let at = (name - libc::TCP_KEEPIDLE) as usize;
                if let Some(time) = wishes.keep_alive_times.get_mut(at) {
                    *time = positive;
                }
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => match value.split(|byte| *byte == 0).next() {
                Some(b"cubic") => wishes.cubic = Some(true),
                Some(b"reno") => wishes.cubic = Some(false),
                _ => return Err(Errno(libc::ENOENT)),
            },
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                wishes.tos = word as u8;
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        self.sockets.wishes_changed(number);
        Ok(())
    }

    /// `fcntl`.
    pub fn control(&mut self, descriptor: i32, command: i32, word: i32) -> Result<i32, Errno> {
        let socket = self.sockets.open(descriptor)?;
        match command {
            libc::F_GETFL => {
                Ok(libc::O_RDWR | if socket.nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                socket.nonblocking = word & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// Whether calls with this descriptor wait.
    pub fn blocks(&self, descriptor: i32, flags: i32) -> bool {
        let number = self.sockets.number(descriptor).ok();
        let socket = number.and_then(|number| self.sockets.get(number));
        flags & libc::MSG_DONTWAIT == 0 && socket.is_some_and(|socket| !socket.nonblocking)
    }

    /// `poll` of one descriptor: which of `events` are there now, and those that nobody has to ask for.
    pub fn poll(&self, descriptor: i32, events: i16) -> i16 {
        let Ok(number) = self.sockets.number(descriptor) else { return libc::POLLNVAL };
        let Some(socket) = self.sockets.get(number) else { return libc::POLLNVAL };
        let ready = self.readiness(descriptor, socket);
        ready & (events | libc::POLLERR | libc::POLLHUP)
    }

    fn readiness(&self, descriptor: i32, socket: &Socket) -> i16 {
        if let Link::Listening(queue) = &socket.link {
            return if queue.is_empty() { 0 } else { libc::POLLIN | libc::POLLRDNORM };
        }
        let mut ready = 0;
        let both_shut = socket.shut_write && (socket.at_end || socket.shut_read);
        if socket.link == Link::None || socket.link == Link::Ended || both_shut {
            ready |= libc::POLLHUP;
        }
        if socket.at_end || socket.shut_read {
            ready |= libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
        }
        if socket.error.is_some() {
            ready |= libc::POLLERR | libc::POLLIN | libc::POLLOUT;
        }
        if socket.link == Link::None {
            return ready | libc::POLLOUT | libc::POLLWRNORM;
        }
        if !socket.unread.is_empty() {
            ready |= libc::POLLIN | libc::POLLRDNORM;
        }
        let is_open = socket.is_established && socket.session().is_some();
        let unsent = self.unsent(descriptor);
        if socket.shut_write || is_open && socket.is_writable(&self.sockets.system, unsent) {
            ready |= libc::POLLOUT | libc::POLLWRNORM;
        }
        ready
    }

    /// When a wait of `timeout` milliseconds ends; a negative one does not.
    pub fn deadline(&self, timeout: i32) -> Option<Nanos> {
        let span = u64::try_from(timeout).ok()?;
        Some(self.now.saturating_add(Nanos::from_millis(span)))
    }
}
