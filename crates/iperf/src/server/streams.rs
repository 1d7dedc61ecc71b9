//! The streams that a client opens once its parameters are accepted, over TCP or UDP.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::net::sockopt;
use wirebeat_host::set_tcp_max_segment;
use wirebeat_units::Nanos;

use super::LOOK_AROUND;
use super::admission::{Admission, Arrived};
use crate::control::Cookie;
use crate::control::datagram::hello_reply;
use crate::data::{Carrier, Stream};
use crate::error::{Refusal, code};
use crate::socket::{now, set_data, udp};
use crate::{Error, Protocol, Stop, TestSpec};
use wirebeat_units::fault;

/// Datagrams that are looked at on one socket before others get their turn.
const HELLOS: usize = 256;

/// What the streams of a test need to know of it.
pub(super) struct Agreed<'a> {
    pub spec: &'a TestSpec,
    pub cookie: Cookie,
    /// Both ends of the control connection.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub patience: Nanos,
    pub stop: &'a Stop,
}

impl Agreed<'_> {
    /// Whether the stream that is created as number `index` is one that the server sends. Those that it receives come first.
    fn sends(&self, index: usize) -> bool {
        let received =
            if self.spec.direction.client_sends() { self.spec.streams as usize } else { 0 };
        index >= received
    }

    fn count(&self) -> usize {
        let directions = usize::from(self.spec.direction.client_sends())
            + usize::from(self.spec.direction.server_sends());
        self.spec.streams as usize * directions
    }
}

/// Where streams come to: made before the client is told to open them.
#[derive(Debug)]
pub(super) enum Entrance {
    Tcp,
    Udp(UdpSocket),
}

impl Entrance {
    pub fn open(admission: &Admission<Cookie>, agreed: &Agreed<'_>) -> Result<Entrance, Error> {
        match agreed.spec.protocol {
            Protocol::Tcp => {
                if let Some(mss) = agreed.spec.mss {
                    // connections inherit it, and tell it in their SYN-ACK
                    set_tcp_max_segment(admission.listener(), mss)
                        .map_err(Error::socket("limit segments"))?;
                }
                Ok(Entrance::Tcp)
            }
            Protocol::Udp => {
                // only the address that the client connected to: an answer has to come from there
                let address = canonical(agreed.local);
                let socket = udp(address).map_err(|source| {
                    let fault = fault!("cannot listen on UDP {address}: {source}");
                    Error::Refused(Refusal::new(code::STREAM_LISTEN, fault))
                })?;
                Ok(Entrance::Udp(socket))
            }
        }
    }

    /// Takes back what was set for one test.
    pub fn close(self, admission: &Admission<Cookie>) {
        if matches!(self, Entrance::Tcp) {
            // no limit
            let _ = set_tcp_max_segment(admission.listener(), 0);
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Entrance::Tcp => None,
            Entrance::Udp(socket) => Some(socket.as_fd()),
        }
    }
}

/// An IPv4 address in the clothes of IPv6 as the IPv4 address that it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            (address.ip().to_canonical(), address.port()).into()
        }
        other => other,
    }
}

/// Waits until the client has opened all streams.
pub(super) fn collect(
    admission: &mut Admission<Cookie>,
    entrance: &mut Entrance,
    agreed: &Agreed<'_>,
    control: BorrowedFd<'_>,
    denied: &mut dyn FnMut(SocketAddr),
) -> Result<Vec<Arc<Stream>>, Error> {
    let deadline = now().saturating_add(agreed.patience);
    let mut tcp: Vec<Arrived<Cookie>> = Vec::new();
    let mut udp: Vec<UdpSocket> = Vec::new();
    while tcp.len() + udp.len() < agreed.count() {
        if agreed.stop.asked() {
            return Err(Error::Stopped);
        }
        if now() >= deadline {
            let waited = agreed.patience;
            return Err(Error::Silent { waiting_for: "streams", waited });
        }
        let look = deadline.min(now().saturating_add(LOOK_AROUND));
        // a client that says something now is not read, and would be ready all the time
        let others: Vec<BorrowedFd<'_>> = entrance.fd().into_iter().collect();
        admission.turn(&others, look)?;
        if gone(control) {
            return Err(Error::Closed { waiting_for: "streams" });
        }
        while let Some(arrived) = admission.next() {
            let wanted = agreed.spec.protocol == Protocol::Tcp && tcp.len() < agreed.count();
            if wanted && arrived.greeting == agreed.cookie {
                tcp.push(arrived);
            } else {
                denied(arrived.peer);
                admission.deny(arrived);
            }
        }
        if let Entrance::Udp(socket) = entrance {
            accept_udp(socket, agreed, &mut udp)?;
        }
    }
    // as the client opened them, whichever cookie came first
    tcp.sort_by_key(|arrived| arrived.number);
    let tcp = tcp.into_iter().map(|arrived| {
        set_tcp(&arrived, agreed.spec)?;
        Ok(Carrier::Tcp(arrived.stream))
    });
    let udp = udp.into_iter().map(|socket| Ok(Carrier::Udp(socket)));
    let stream = |(index, carrier): (usize, io::Result<Carrier>)| {
        Stream::new(index, agreed.sends(index), carrier?).map(Arc::new)
    };
    let streams: io::Result<Vec<Arc<Stream>>> = tcp.chain(udp).enumerate().map(stream).collect();
    streams.map_err(Error::socket("set up a stream"))
}

/// Whether the other end of a connection has closed it.
fn gone(control: BorrowedFd<'_>) -> bool {
    let peek = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(control, &mut [0_u8; 1][..], peek), Ok((0, _)))
}

fn set_tcp(arrived: &Arrived<Cookie>, spec: &TestSpec) -> io::Result<()> {
    let socket = arrived.stream.as_fd();
    set_data(socket, spec, canonical(arrived.peer))?;
    sockopt::set_tcp_nodelay(socket, spec.no_delay)?;
    if let Some(congestion) = &spec.congestion {
        // as iperf3: what this machine does not have is not used, and the results say what was
        let _ = sockopt::set_tcp_congestion(socket, congestion);
    }
    Ok(())
}

/// Takes hellos from `entrance`: each gets a socket of its own, connected to where it came from.
fn accept_udp(
    entrance: &UdpSocket,
    agreed: &Agreed<'_>,
    streams: &mut Vec<UdpSocket>,
) -> Result<(), Error> {
    let mut hellos = receive_hellos(entrance, agreed);
    let mut taken = 0;
    while let Some(&(from, reply)) = hellos.get(taken) {
        taken += 1;
        if streams.len() >= agreed.count() {
            return Ok(());
        }
        let known = streams.iter().any(|stream| stream.peer_addr().is_ok_and(|peer| peer == from));
        if known {
            continue;
        }
        let failed = || Error::socket("open a UDP stream");
        let local = entrance.local_addr().map_err(failed())?;
        let socket = udp(local).map_err(failed())?;
        socket.connect(from).map_err(failed())?;
        // between both calls it took the hellos of other streams from the entrance
        if hellos.len() < HELLOS {
            hellos.extend(receive_hellos(&socket, agreed));
        }
        set_data(socket.as_fd(), agreed.spec, from).map_err(failed())?;
        socket.send(&reply).map_err(failed())?;
        streams.push(socket);
    }
    Ok(())
}

/// The hellos that wait on a socket, and what answers them. Only those of the host that the control connection comes from count: no
/// other is ever sent to.
fn receive_hellos(socket: &UdpSocket, agreed: &Agreed<'_>) -> Vec<(SocketAddr, [u8; 4])> {
    let mut hellos = Vec::new();
    let mut datagram = [0; 8];
    for _ in 0..HELLOS {
        match socket.recv_from(&mut datagram) {
            Ok((len, from)) => {
                let reply = datagram.get(..len).and_then(hello_reply);
                let ours = from.ip().to_canonical() == agreed.peer.ip().to_canonical();
                if let (true, Some(reply)) = (ours, reply) {
                    hellos.push((from, reply));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // an answer that a host refused
            Err(_) => {}
        }
    }
    hellos
}
