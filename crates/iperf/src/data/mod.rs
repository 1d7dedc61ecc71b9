//! The threads that move the payload: one for all streams of a direction.
//!
//! A [`Group`] is such a thread. Its sockets are non-blocking: it moves what it can, then waits until one of them is ready,
//! the next block is due, or it is woken. What it counts stands in the [`Tally`] of each stream, which others read at any
//! time. Knows nothing of states and results.

mod lanes;
mod tally;
mod tcp;
mod udp;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::net::sockopt;
use wirebeat_host::{TcpInfo, tcp_info};
use wirebeat_units::BitRate;

use crate::Error;
use crate::control::datagram::Counter;
use crate::socket::Waker;
pub(crate) use tally::{Counts, Tally};

/// What carries one stream.
#[derive(Debug)]
pub(crate) enum Carrier {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Carrier::Tcp(socket) => socket.as_fd(),
            Carrier::Udp(socket) => socket.as_fd(),
        }
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub id: u32,
    pub sending: bool,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub carrier: Carrier,
    pub tally: Tally,
}

impl Stream {
    /// The stream that is created as number `index` of its test.
    pub fn new(index: usize, sending: bool, carrier: Carrier) -> io::Result<Stream> {
        let (local, remote) = match &carrier {
            Carrier::Tcp(socket) => (socket.local_addr()?, socket.peer_addr()?),
            Carrier::Udp(socket) => (socket.local_addr()?, socket.peer_addr()?),
        };
        Ok(Stream { id: id_of(index), sending, local, remote, carrier, tally: Tally::default() })
    }

    /// Tells the peer that nothing more will come.
    pub fn finish(&self) {
        if let Carrier::Tcp(socket) = &self.carrier {
            // fails only where the peer has ended it already
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    /// What the kernel knows of its connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match &self.carrier {
            Carrier::Tcp(socket) => tcp_info(socket.as_fd()).ok(),
            Carrier::Udp(_) => None,
        }
    }
}

/// The number of the stream that is created at this index: iperf3 leaves out 2.
fn id_of(index: usize) -> u32 {
    u32::try_from(if index == 0 { 1 } else { index.saturating_add(2) }).unwrap_or(u32::MAX)
}

/// The name of the congestion control that a stream uses.
pub(crate) fn congestion(streams: &[Arc<Stream>]) -> Option<String> {
    streams.iter().find_map(|stream| match &stream.carrier {
        Carrier::Tcp(socket) => sockopt::tcp_congestion(socket).ok(),
        Carrier::Udp(_) => None,
    })
}

/// What a group does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Send {
        /// Bytes of a block.
        block: usize,
        /// Of each stream.
        rate: Option<BitRate>,
        counter: Counter,
        /// Bytes of all streams after which it pauses.
        limit: u64,
        /// Bytes after which a stream ends, and says so to its peer; those that were counted before included.
        each: u64,
    },
    Receive {
        /// Bytes that are read at once.
        block: usize,
        counter: Counter,
    },
}

/// What the threads of a test tell the one that runs it.
#[derive(Debug)]
pub(crate) struct Notice {
    pub waker: Waker,
    broken: Mutex<Option<io::Error>>,
}

impl Notice {
    pub fn new() -> io::Result<Arc<Notice>> {
        Ok(Arc::new(Notice { waker: Waker::new()?, broken: Mutex::new(None) }))
    }

    /// The first error of a stream, once.
    pub fn take_broken(&self) -> Option<io::Error> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn broke(&self, error: io::Error) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.waker.wake();
    }
}

const RUN: u8 = 0;
const DRAIN: u8 = 1;
const STOP: u8 = 2;

/// What a group's thread is told, and tells.
#[derive(Debug)]
pub(super) struct Shared {
    order: AtomicU8,
    limit: AtomicU64,
    exhausted: AtomicBool,
    waker: Waker,
    notice: Arc<Notice>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.order.load(Ordering::Acquire) == STOP
    }
    fn draining(&self) -> bool {
        self.order.load(Ordering::Acquire) == DRAIN
    }
    fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }
    fn exhaust(&self) {
        if !self.exhausted.swap(true, Ordering::AcqRel) {
            self.notice.waker.wake();
        }
    }
    fn broke(&self, error: impl Into<io::Error>) {
        self.notice.broke(error.into());
    }
}

/// The thread of all streams of one direction.
#[derive(Debug)]
pub(crate) struct Group {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Group {
    pub fn start(
        streams: Vec<Arc<Stream>>,
        work: Work,
        notice: &Arc<Notice>,
    ) -> Result<Group, Error> {
        let limit = match work {
            Work::Send { limit, .. } => limit,
            Work::Receive { .. } => u64::MAX,
        };
        let shared = Arc::new(Shared {
            order: AtomicU8::new(RUN),
            limit: AtomicU64::new(limit),
            exhausted: AtomicBool::new(false),
            waker: Waker::new().map_err(Error::socket("make an event file"))?,
            notice: Arc::clone(notice),
        });
        let name = match work {
            Work::Send { .. } => "iperf sender",
            Work::Receive { .. } => "iperf receiver",
        };
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&streams, work, &of_thread))
            .map_err(Error::Thread)?;
        Ok(Group { shared, thread: Some(thread) })
    }

    /// Whether a sender has sent all that its limits allow, or all streams of a receiver have ended.
    pub fn exhausted(&self) -> bool {
        self.shared.exhausted.load(Ordering::Acquire)
    }

    /// Sets the bytes after which a sender pauses.
    pub fn set_limit(&self, bytes: u64) {
        self.shared.limit.store(bytes, Ordering::Release);
        self.shared.exhausted.store(false, Ordering::Release);
        self.shared.waker.wake();
    }

    /// Stops at once.
    pub fn stop(&mut self) {
        self.end(STOP);
    }

    /// Receives what is there already, then stops.
    pub fn drain(&mut self) {
        self.end(DRAIN);
    }

    fn end(&mut self, order: u8) {
        self.shared.order.store(order, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // a thread that panicked has nothing more to count
            let _ = thread.join();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(streams: &[Arc<Stream>], work: Work, shared: &Shared) {
    let udp = streams.iter().any(|stream| matches!(stream.carrier, Carrier::Udp(_)));
    let done = match (work, udp) {
        (Work::Send { block, rate, each, .. }, false) => {
            tcp::send(streams, tcp::Plan { block, rate, each }, shared)
        }
        (Work::Receive { block, .. }, false) => tcp::receive(streams, block, shared),
        (Work::Send { block, rate, counter, .. }, true) => {
            udp::send(streams, udp::Plan { block, rate, counter }, shared)
        }
        (Work::Receive { block, counter }, true) => udp::receive(streams, block, counter, shared),
    };
    if let Err(error) = done {
        shared.broke(error);
    }
}
