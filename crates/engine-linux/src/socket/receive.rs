//! The receiving half: batches of datagrams from one or more sockets, with the kernel's timestamps.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{bind, sockopt};
use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, PortError};
use wirebeat_netlink::{Link, LinkEvent, LinkState, LinkWatch, NetlinkError};
use wirebeat_units::Nanos;
use wirebeat_wire::ip::Version;

use super::buffers::Buffers;
use super::control::Control;
use super::{Gro, SocketReceive, endpoint};
use crate::sys::{self, poll_until, refused};
use crate::time::RealtimeToMonotonic;

/// Batches that are read from a socket before the next has its turn.
const TURNS: usize = 16;

/// Listening sockets and the memory that they share.
#[derive(Debug)]
pub(super) struct Receiver {
    listeners: Vec<Listener>,
    /// The listeners and the watch, to wait for. Not an epoll instance: it would be called for every
    /// datagram, waiting or not, at the expense of its sender.
    files: Vec<libc::pollfd>,
    buffers: Buffers,
    time: RealtimeToMonotonic,
    gather: Nanos,
    /// Whether the last call found something.
    flowing: bool,
    watch: Option<LinkWatch>,
}

#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    version: Version,
    address: SocketAddr,
    /// The kernel's counter of drops as it was last read, and all drops so far.
    drops: Cell<(u32, u64)>,
}

impl Receiver {
    /// Listens from now on.
    pub(super) fn open(options: &SocketReceive, link: Option<&Link>) -> Result<Self, PortError> {
        let open = |address| Listener::open(address, options, link);
        let listeners = options.listen.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let watch = match link {
            Some(link) => Some(LinkWatch::open(std::slice::from_ref(link)).map_err(unwatched)?),
            None => None,
        };
        let mut files: Vec<_> = listeners.iter().map(|l| sys::readable(&l.socket)).collect();
        files.extend(watch.as_ref().map(sys::readable));
        Ok(Receiver {
            listeners,
            files,
            buffers: Buffers::new().map_err(|e| refused("making buffers", super::ENGINE, e))?,
            time: RealtimeToMonotonic::new(),
            gather: options.gather,
            flowing: false,
            watch,
        })
    }

    /// The addresses that it listens on, with the ports that the kernel chose.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().map(|listener| listener.address)
    }

    /// [`wirebeat_engine::port::Port::receive`].
    pub(super) fn receive(
        &mut self,
        until: Nanos,
        mut sink: impl FnMut(&Arrival<'_>),
    ) -> Result<usize, PortError> {
        loop {
            self.gather(until);
            let count = self.take(&mut sink)?;
            if count > 0 {
                self.flowing = true;
                return Ok(count);
            }
            self.check()?;
            if MonotonicClock.now() >= until || !self.wait(until)? {
                return Ok(0);
            }
        }
    }

    /// Lets datagrams gather while they keep coming. Who sleeps in a socket, or takes each datagram at
    /// once, makes it dearer for the sender, who has to wake him or to share the queue's lock.
    fn gather(&mut self, until: Nanos) {
        let now = MonotonicClock.now();
        if std::mem::take(&mut self.flowing) && now < until {
            MonotonicClock.sleep_until(now.saturating_add(self.gather).min(until));
        }
    }

    /// Gives what the sockets hold to `sink`.
    fn take(&mut self, sink: &mut impl FnMut(&Arrival<'_>)) -> Result<usize, PortError> {
        let mut count = 0;
        for listener in &self.listeners {
            for _ in 0..TURNS {
                let received = match self.buffers.receive(&listener.socket) {
                    Ok(received) => received,
                    Err(Errno::AGAIN | Errno::INTR) => break,
                    Err(errno) => {
                        let on = listener.address.to_string();
                        return Err(refused("receiving datagrams", &on, errno.into()));
                    }
                };
                let now = MonotonicClock.now();
                self.time.refresh(now);
                for index in 0..received {
                    let (bytes, control) = self.buffers.message(index);
                    let control = Control::parse(control);
                    let at = control.realtime.map_or(now, |realtime| self.time.convert(realtime));
                    count += listener.deliver(bytes, control.segment, at, sink);
                }
                if received < self.buffers.len() {
                    break;
                }
            }
        }
        Ok(count)
    }

    /// Waits until there is something to look at, at most until `until`; says whether there is.
    fn wait(&mut self, until: Nanos) -> Result<bool, PortError> {
        poll_until(&mut self.files, until)
            .map_err(|e| refused("waiting for datagrams", super::ENGINE, e))
    }

    /// Whether the interface is still there.
    fn check(&mut self) -> Result<(), PortError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let events = watch.events().map_err(unwatched)?;
        for event in events {
            let (LinkEvent::State { name, .. } | LinkEvent::Removed { name, .. }) = &event;
            match &event {
                LinkEvent::State { state, .. } if *state != LinkState::Down => {}
                _ => return Err(PortError::Gone(name.clone())),
            }
        }
        Ok(())
    }

    /// How far the times of arrivals can be off by conversion.
    pub(super) fn timestamp_error(&self) -> Nanos {
        self.time.error()
    }

    /// [`wirebeat_engine::port::Port::receive_drops`].
    pub(super) fn drops(&self) -> u64 {
        self.listeners.iter().map(Listener::drops).sum()
    }
}

fn unwatched(error: NetlinkError) -> PortError {
    refused("watching the interface", super::ENGINE, io::Error::other(error))
}

impl Listener {
    fn open(
        address: &SocketAddr,
        options: &SocketReceive,
        link: Option<&Link>,
    ) -> Result<Self, PortError> {
        let socket = endpoint::open(address, link.map(|link| link.name.as_str()))?;
        let on = address.to_string();
        prepare(&socket, address, options)
            .map_err(|e| refused("setting up a UDP socket", &on, e))?;
        bind(&socket, address).map_err(|e| refused("listening", &on, e.into()))?;
        let bound =
            rustix::net::getsockname(&socket).map_err(|e| refused("listening", &on, e.into()))?;
        Ok(Listener {
            socket,
            version: if address.is_ipv4() { Version::V4 } else { Version::V6 },
            address: SocketAddr::try_from(bound).unwrap_or(*address),
            drops: Cell::new((0, 0)),
        })
    }

    /// Gives a message to `sink`, or each of the datagrams that are joined in it.
    fn deliver(
        &self,
        bytes: &[u8],
        segment: Option<usize>,
        at: Nanos,
        sink: &mut impl FnMut(&Arrival<'_>),
    ) -> usize {
        let arrival = |bytes: &[u8]| {
            let frame_len = self.version.shortest_frame(bytes.len()) as u32;
            sink(&Arrival { at, bytes, frame_len });
        };
        arrivals(bytes, segment, arrival)
    }

    /// Datagrams that came and found no room, and those with a wrong checksum.
    fn drops(&self) -> u64 {
        let (last, sum) = self.drops.get();
        let memory: io::Result<[u32; 9]> =
            sys::option(&self.socket, (libc::SOL_SOCKET, libc::SO_MEMINFO));
        let Ok(memory) = memory else { return sum };
        let now = memory[libc::SK_MEMINFO_DROPS as usize];
        let sum = sum + u64::from(now.wrapping_sub(last));
        self.drops.set((now, sum));
        sum
    }
}

/// Takes a message apart; returns how many datagrams it was.
fn arrivals(bytes: &[u8], segment: Option<usize>, mut sink: impl FnMut(&[u8])) -> usize {
    match segment {
        Some(size) if size < bytes.len() => bytes.chunks(size).map(&mut sink).count(),
        _ => {
            sink(bytes);
            1
        }
    }
}

fn prepare(socket: &OwnedFd, address: &SocketAddr, options: &SocketReceive) -> io::Result<()> {
    const ON: libc::c_int = 1;
    sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), &ON)?;
    let buffer = options.buffer.get() as usize;
    // more than the system's limit takes CAP_NET_ADMIN; with less a slow reader loses sooner
    if sockopt::set_socket_recv_buffer_size_force(socket, buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, buffer)?;
    }
    if options.gro == Gro::On {
        // since Linux 5.0; before, datagrams come singly
        let _ = sys::set_option(socket, (libc::SOL_UDP, libc::UDP_GRO), &ON);
    }
    if address.is_ipv6() {
        sys::set_option(socket, (libc::SOL_UDP, libc::UDP_NO_CHECK6_RX), &ON)?;
    }
    if let Some(time) = options.busy_poll {
        let microseconds = libc::c_int::try_from(time.get() / 1_000).unwrap_or(libc::c_int::MAX);
        sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_BUSY_POLL), &microseconds)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8], segment: Option<usize>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let count = arrivals(bytes, segment, |bytes| out.push(bytes.to_vec()));
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn joined_datagrams_come_apart() {
        assert_eq!(split(b"aabbc", Some(2)), [b"aa".to_vec(), b"bb".to_vec(), b"c".to_vec()]);
        assert_eq!(split(b"aabb", Some(2)), [b"aa".to_vec(), b"bb".to_vec()]);
    }

    #[test]
    fn single_datagrams_stay_whole() {
        assert_eq!(split(b"aabb", None), [b"aabb".to_vec()]);
        assert_eq!(split(b"aabb", Some(4)), [b"aabb".to_vec()]);
        assert_eq!(split(b"aabb", Some(5)), [b"aabb".to_vec()]);
        assert_eq!(split(b"", None), [b"".to_vec()]);
        assert_eq!(split(b"", Some(2)), [b"".to_vec()], "an empty datagram counts");
    }
}
