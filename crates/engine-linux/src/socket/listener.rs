//! An address that is listened on: its socket, and one more for a source that sends much.
//!
//! For a connected socket the kernel need not look up a route for each datagram, nor the socket: it does
//! so much less on its way that a sender on the same machine sends a tenth more (measured, single
//! datagrams). So who sends most of what comes gets a socket of its own, connected to it. Its datagrams
//! and those of everybody else are given out in the order of the kernel's timestamps, as from one socket:
//! a flow may have several sources.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{bind, connect, sockopt};
use wirebeat_engine::port::PortError;
use wirebeat_meter::codecs::{Answer, Ends};
use wirebeat_netlink::Link;
use wirebeat_wire::ip::Version;

use super::buffers::Buffers;
use super::control::Control;
use super::{Gro, SocketReceive, endpoint, reply};
use crate::sys::{self, refused};

/// Messages that are read before it is looked at whom they come from.
const LOOK_EVERY: u32 = 4096;
/// Batches that are read before the next address has its turn.
const TURNS: usize = 16;
/// How often a read is tried again that told of something else.
const ATTEMPTS: u32 = 4;

const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// A classic BPF program that chooses the first socket of those that listen on one address.
const FIRST: [libc::sock_filter; 1] = [instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];
/// One that keeps what is addressed to this host alone: what is for many is given to all sockets that
/// listen, and would be counted twice.
const UNICAST: [libc::sock_filter; 4] = [
    instruction(
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        0,
        0,
        (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32,
    ),
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::PACKET_HOST as u32),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];

/// Who stamps what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StampSource {
    /// The system.
    OfSystem,
    /// The card, beside the system.
    OfCard,
}

/// An address that is listened on.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    pub(super) version: Version,
    main: Lane,
    /// For the source that sends much.
    own: Option<Lane>,
    /// What becomes that. It is made in advance because whoever reads may be in another network
    /// namespace.
    spare: Option<OwnedFd>,
    /// Messages until it is looked at where they come from.
    until_look: u32,
    /// Whether it is told of each where it comes from.
    ends: bool,
}

/// A socket and the last batch that was read from it.
#[derive(Debug)]
struct Lane {
    socket: OwnedFd,
    buffers: Buffers,
    /// The message that is next to be given out, what is said beside it, and how many there are.
    next: usize,
    beside: Control,
    held: usize,
    /// Whether the last read left nothing behind, and which of all reads of the listener it was.
    emptied: bool,
    number: u64,
    /// The kernel's counter of drops as it was last looked at, and all drops so far.
    drops: Cell<(u32, u64)>,
}

impl Listener {
    /// Listens from now on; `stamps` says who stamps what comes.
    pub(super) fn open(
        address: &SocketAddr,
        options: &SocketReceive,
        link: Option<&Link>,
        stamps: StampSource,
    ) -> Result<Self, PortError> {
        let interface = link.map(|link| link.name.as_str());
        let on = address.to_string();
        let open = || {
            let socket = endpoint::open(address, interface)?;
            prepare(&socket, address, options, stamps)
                .map_err(|e| refused("setting up a UDP socket", &on, e))?;
            Ok::<_, PortError>(socket)
        };
        let socket = open()?;
        // what is for many goes to every socket; and where the kernel cannot choose, there is one for all
        let own = !address.ip().is_multicast() && choose_first(&socket).is_ok();
        let spare = if own { open().ok() } else { None };
        bind(&socket, address).map_err(|e| endpoint::not_bound("listening", address, e))?;
        let bound =
            rustix::net::getsockname(&socket).map_err(|e| refused("listening", &on, e.into()))?;
        Ok(Listener {
            address: SocketAddr::try_from(bound).unwrap_or(*address),
            version: if address.is_ipv4() { Version::V4 } else { Version::V6 },
            main: Lane::new(socket)?,
            own: None,
            spare,
            until_look: LOOK_EVERY,
            ends: options.ends,
        })
    }

    /// Sends `answer` from this address, if that is where the datagram came to that asked for it; says whether it left.
    pub(super) fn answer(&self, answer: &Answer) -> bool {
        let Ends { source, destination } = answer.ends;
        let here = self.address.ip();
        let mine = self.address.port() == destination.port()
            && self.address.is_ipv4() == destination.is_ipv4()
            && (here.is_unspecified() || here == destination.ip());
        mine && reply::send(&self.main.socket, answer.payload(), &source, &destination).is_ok()
    }

    /// Gets nothing until it is re-armed: what comes meanwhile is dropped by the kernel.
    pub(super) fn rest(&self) -> io::Result<()> {
        self.sockets().try_for_each(|socket| sys::attach_filter(socket, &endpoint::DROP))
    }

    /// Gets datagrams again. Those that came before are dropped, and drops count from zero.
    pub(super) fn rearm(&mut self) -> io::Result<()> {
        let own = self.own.iter_mut();
        for lane in std::iter::once(&mut self.main).chain(own) {
            lane.empty()?;
        }
        self.until_look = LOOK_EVERY;
        sys::detach_filter(&self.main.socket)?;
        match &self.own {
            Some(own) if self.address.ip().is_unspecified() => sys::detach_filter(&own.socket),
            Some(own) => sys::attach_filter(&own.socket, &UNICAST),
            None => Ok(()),
        }
    }

    /// The sockets.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.lanes().map(|lane| &lane.socket)
    }

    /// Datagrams that came and found no room, and those with a wrong checksum.
    pub(super) fn drops(&self) -> u64 {
        self.lanes().map(Lane::drops).sum()
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        std::iter::once(&self.main).chain(&self.own)
    }

    /// Gives messages to `sink`, all or a good part of what has come, and where they came from if that was asked for.
    pub(super) fn take(
        &mut self,
        mut sink: impl FnMut(&[u8], Control, Option<SocketAddr>),
    ) -> Result<(), PortError> {
        for _ in 0..TURNS {
            if !self.read().map_err(|errno| {
                refused("receiving datagrams", &self.address.to_string(), errno.into())
            })? {
                return Ok(());
            }
            let Some(own) = &mut self.own else {
                while self.main.has() {
                    self.main.give(self.ends, &mut sink);
                }
                if self.main.emptied {
                    return Ok(());
                }
                continue;
            };
            while let Some(lane) = Lane::next_of(&mut self.main, own) {
                lane.give(self.ends, &mut sink);
            }
        }
        Ok(())
    }

    /// Reads from the sockets of which it has to be known what they hold; says whether anything is there
    /// to be given out.
    fn read(&mut self) -> Result<bool, Errno> {
        let last = self.lanes().map(|lane| lane.number).max().unwrap_or(0);
        let Some(own) = &mut self.own else {
            let looks = self.until_look == 0 && self.spare.is_some();
            self.main.read(last + 1, looks || self.ends)?;
            self.until_look = self.until_look.saturating_sub(self.main.held as u32);
            if looks {
                self.adopt();
            }
            return Ok(self.main.has());
        };
        if !self.main.has() && !self.main.is_behind(own) {
            self.main.read(last + 1, self.ends)?;
        }
        if !own.has() && !own.is_behind(&self.main) {
            own.read(last + 2, self.ends)?;
        }
        Ok(self.main.has() || own.has())
    }

    /// Gives the source of most of what was just read a socket of its own.
    fn adopt(&mut self) {
        self.until_look = LOOK_EVERY;
        let Some(source) = self.main.buffers.frequent(self.main.held) else { return };
        let Some(socket) = self.spare.take() else { return };
        let address = self.address;
        let connected = || {
            sys::attach_filter(&socket, &UNICAST)?;
            sockopt::set_socket_reuseport(&socket, true)?;
            bind(&socket, &address)?;
            // until it is connected, everything goes to the first
            connect(&socket, &source)?;
            sockopt::set_socket_reuseport(&socket, false)?;
            if address.ip().is_unspecified() {
                // connected, it has an address of its own
                sys::detach_filter(&socket)?;
            }
            io::Result::Ok(())
        };
        // only for this moment: the address is not to be shared with another program
        if sockopt::set_socket_reuseport(&self.main.socket, true).is_err() {
            return;
        }
        let connected = connected();
        let _ = sockopt::set_socket_reuseport(&self.main.socket, false);
        if connected.is_ok() {
            self.own = Lane::new(socket).ok();
        }
    }
}

impl Lane {
    fn new(socket: OwnedFd) -> Result<Self, PortError> {
        Ok(Lane {
            socket,
            buffers: Buffers::new().map_err(|e| refused("making buffers", super::ENGINE, e))?,
            next: 0,
            beside: Control::default(),
            held: 0,
            emptied: true,
            number: 0,
            drops: Cell::default(),
        })
    }

    /// Whether anything of the last batch is left.
    fn has(&self) -> bool {
        self.next < self.held
    }

    /// Whether all that will still be read here came later than what is left of the other.
    fn is_behind(&self, other: &Lane) -> bool {
        other.has() && self.emptied && self.number > other.number
    }

    /// The one of two whose next message came first, if that can be said yet.
    fn next_of<'a>(a: &'a mut Lane, b: &'a mut Lane) -> Option<&'a mut Lane> {
        match (a.has(), b.has()) {
            (true, true) => Some(if a.beside.realtime <= b.beside.realtime { a } else { b }),
            (true, false) if b.is_behind(a) => Some(a),
            (false, true) if a.is_behind(b) => Some(b),
            _ => None,
        }
    }

    /// Gives the next message to `sink`.
    fn give(&mut self, ends: bool, sink: &mut impl FnMut(&[u8], Control, Option<SocketAddr>)) {
        let source = if ends { self.buffers.source(self.next) } else { None };
        sink(self.buffers.message(self.next).0, self.beside, source);
        self.next += 1;
        self.look();
    }

    /// Reads what is said beside the next message.
    fn look(&mut self) {
        if self.has() {
            self.beside = Control::parse(self.buffers.message(self.next).1);
        }
    }

    /// Reads a batch, read number `number`.
    fn read(&mut self, number: u64, sources: bool) -> Result<(), Errno> {
        (self.next, self.held, self.emptied, self.number) = (0, 0, true, number);
        for _ in 0..ATTEMPTS {
            match self.buffers.receive(&self.socket, sources) {
                Ok(received) => {
                    self.held = received;
                    self.emptied = received < self.buffers.len();
                    self.look();
                    return Ok(());
                }
                Err(Errno::AGAIN) => return Ok(()),
                // a signal; or what somebody says by ICMP of a datagram that was never sent from here
                Err(Errno::INTR) => {}
                Err(errno) if sys::came_by_icmp(errno) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.emptied = false;
        Ok(())
    }

    /// Reads what is there, and forgets it. Nothing more comes meanwhile.
    fn empty(&mut self) -> io::Result<()> {
        loop {
            self.read(0, false)?;
            if self.emptied {
                break;
            }
        }
        (self.next, self.held) = (0, 0);
        self.drops();
        let (last, _) = self.drops.get();
        self.drops.set((last, 0));
        Ok(())
    }

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

/// Has datagrams go to `socket` that another might get which is bound to the same address as well.
fn choose_first(socket: &OwnedFd) -> io::Result<()> {
    sockopt::set_socket_reuseport(socket, true)?;
    sys::choose_socket(socket, &FIRST)?;
    Ok(sockopt::set_socket_reuseport(socket, false)?)
}

fn prepare(
    socket: &OwnedFd,
    address: &SocketAddr,
    options: &SocketReceive,
    stamps: StampSource,
) -> io::Result<()> {
    const ON: libc::c_int = 1;
    sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), &ON)?;
    if stamps == StampSource::OfCard {
        // beside those of the system, by which the order of two sockets is kept
        let wanted = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPING), &wanted)?;
    }
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
    if options.ends {
        let told = match address {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_PKTINFO),
            SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO),
        };
        sys::set_option(socket, told, &ON)?;
    }
    if let Some(time) = options.busy_poll {
        let microseconds = libc::c_int::try_from(time.get() / 1_000).unwrap_or(libc::c_int::MAX);
        sys::set_option(socket, (libc::SOL_SOCKET, libc::SO_BUSY_POLL), &microseconds)?;
    }
    Ok(())
}
