//! The ports that flows go to, the connections of those over TCP, and which flow a packet belongs to.
//!
//! A sender announces a flow, and the first packet that fits (from the host of its signalling connection, with the number of the
//! flow) says where the flow comes from; from then on only packets of that address and port are its own. Flows may share a port,
//! and so may those of several senders; a socket of datagrams is there as long as a flow uses it. Where two flows of one host have
//! one number and one port, the one that was announced first gets the first packet.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use wirebeat_meter::session::SessionCounts;
use wirebeat_sockets::{Poller, clock};
use wirebeat_units::{Fault, Nanos, fault};

use super::flow::{Flow, Flows, UNDER_WAY};
use super::signalling::Peer;
use super::slots::Slots;
use super::{Limits, Mark};
use crate::LogFile;
use crate::control::{FlowRequest, Meter, PayloadKind, Transport};
use crate::event::FlowBegins;
use crate::payload::{Header, flow_of};
use crate::result::{FlowEnd, FlowResult};
use crate::socket::{canonical, in_family_of, listen, udp};

mod data;

use data::{Data, DataEnd};

/// Datagrams that a socket may give before the next one's turn.
const TURN: usize = 64;
/// Bytes that are read at once: the largest datagram.
const READ: usize = 65_535;

/// What receives at a port.
#[derive(Debug)]
enum PortSocket {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

/// A port that flows go to.
#[derive(Debug)]
struct Port {
    socket: PortSocket,
    transport: Transport,
    address: SocketAddr,
    /// Places of flows, by where their packets come from and their number; those without a number have none.
    known: HashMap<(SocketAddr, Option<u32>), usize>,
    /// Places of flows of which nothing came yet, in the order in which they were announced.
    expected: Vec<usize>,
    /// Flows that use it.
    users: usize,
}

impl Port {
    /// The flow that a packet is the first of, which is known from then on.
    fn claim(
        &mut self,
        flows: &mut Flows,
        source: SocketAddr,
        number: Option<u32>,
    ) -> Option<usize> {
        let fits = |place: &usize, headless: bool| {
            let flow = flows.open.get(*place);
            flow.is_some_and(|flow| {
                flow.has_no_header() == headless && flow.may_begin(source.ip(), number)
            })
        };
        let first = |headless| self.expected.iter().position(|place| fits(place, headless));
        let place = self.expected.remove(first(false).or_else(|| first(true))?);
        let flow = flows.open.get_mut(place)?;
        flow.claim(source);
        let number = (!flow.has_no_header()).then_some(flow.request.flow);
        self.known.insert((source, number), place);
        Some(place)
    }
}

/// A flow that is over.
#[derive(Debug)]
pub(super) struct Over {
    /// The number of its signalling connection.
    pub connection: u64,
    /// What came of it.
    pub result: FlowResult,
}

/// The receiving side of all flows.
#[derive(Debug)]
pub(super) struct Receiver {
    limits: Limits,
    /// Where the server listens: at the same address flows are received, unless it is any.
    listening: IpAddr,
    flows: Flows,
    ports: Slots<Port>,
    data: Slots<Data>,
    over: VecDeque<Over>,
    buffer: Box<[u8]>,
}

impl Receiver {
    pub fn new(limits: Limits, listening: IpAddr, log: Option<LogFile>) -> Receiver {
        Receiver {
            limits,
            listening,
            flows: Flows::new(limits.flows, log),
            ports: Slots::new(limits.flows),
            data: Slots::new(limits.flows),
            over: VecDeque::new(),
            buffer: vec![0; READ].into(),
        }
    }

    pub fn counts(&self) -> SessionCounts {
        self.flows.counts
    }

    pub fn open_flows(&self) -> u64 {
        self.flows.open.len() as u64
    }

    /// The next flow that is over.
    pub fn next_over(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    pub fn finish_log(&mut self) -> io::Result<()> {
        self.flows.finish_log()
    }

    /// Opens a flow.
    ///
    /// # Errors
    /// Why a sender does not get it.
    pub fn open(
        &mut self,
        peer: &Peer,
        request: FlowRequest,
        poller: &Poller,
    ) -> Result<FlowBegins, Fault> {
        let FlowRequest { flow, transport, meter, payload, to, .. } = request;
        if let Transport::Other(_) = transport {
            return Err(
                fault!("flow {flow} is over {}, which is not received", transport.name(); "send it over UDP or TCP"),
            );
        }
        if meter == Meter::RoundTrip && payload != PayloadKind::Standard {
            return Err(fault!("flow {flow} has round trips and no times"; "send it with -p 0"));
        }
        if (1..self.limits.lowest_port).contains(&to.1) {
            let lowest = self.limits.lowest_port;
            return Err(
                fault!("flow {flow} is for port {}", to.1; "choose one from {lowest} on with -rp"),
            );
        }
        if self.place_of(peer.serial, flow).is_some() {
            return Err(fault!("flow {flow} is there already"));
        }
        let Some(place) = self.flows.open.next_place() else {
            let limit = self.limits.flows;
            return Err(fault!("flow {flow} is one more than {limit} flows at a time"));
        };
        let port = self.port(peer, &request, poller)?;
        let Some(of_port) = self.ports.get_mut(port) else {
            return Err(fault!("flow {flow} has no port"));
        };
        of_port.users += 1;
        of_port.expected.push(place);
        let destination = canonical(of_port.address);
        let deadline = clock().saturating_add(self.limits.time);
        let from = (peer.serial, peer.address.ip());
        self.flows.open.put(place, Flow::new(request, from, (port, destination), deadline));
        self.flows.counts.opened += 1;
        self.flows.counts.established += 1;
        let port = destination.port();
        Ok(FlowBegins { flow, peer: peer.address, transport, meter, port })
    }

    /// The place of the port that a flow asks for, which is opened where it is not open yet.
    fn port(
        &mut self,
        peer: &Peer,
        request: &FlowRequest,
        poller: &Poller,
    ) -> Result<usize, Fault> {
        let (asked, number) = request.to;
        // a server at one address receives there; one at any, where the sender sends to, as far as that is an address of this
        // machine
        let asked = Some(asked).filter(|_| self.listening.is_unspecified());
        let asked = asked.filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
        // that of the connection knows the interface of a link-local one
        let asked = asked.filter(|ip| *ip != peer.local.ip());
        let mut local = peer.local;
        local.set_port(number);
        let asked = asked.map(|ip| SocketAddr::new(ip, number));
        let candidates = [asked, Some(local)].into_iter().flatten();
        let mut failed = None;
        for address in candidates {
            let same = |port: &Port| {
                number != 0
                    && port.transport == request.transport
                    && canonical(port.address) == canonical(address)
            };
            if let Some((place, _)) = self.ports.iter().find(|(_, port)| same(port)) {
                return Ok(place);
            }
            match self.open_port(request.transport, address, poller) {
                Ok(place) => return Ok(place),
                Err(error) => {
                    let elsewhere = error.kind() == io::ErrorKind::AddrNotAvailable;
                    failed = Some((address, error));
                    if !elsewhere {
                        break;
                    }
                }
            }
        }
        let flow = request.flow;
        Err(match failed {
            Some((address, error)) => {
                fault!("flow {flow} cannot be received at {address}: {error}"; "choose another port with -rp")
            }
            None => fault!("flow {flow} has no address"),
        })
    }

    fn open_port(
        &mut self,
        transport: Transport,
        address: SocketAddr,
        poller: &Poller,
    ) -> io::Result<usize> {
        let Some(place) = self.ports.next_place() else {
            return Err(io::Error::other("too many ports are open"));
        };
        let word = Mark::Port(place).to_word();
        let (socket, address) = match transport {
            Transport::Tcp => {
                let listener = listen(address)?;
                poller.add(&listener, word, EventFlags::IN)?;
                let address = listener.local_addr()?;
                (PortSocket::Tcp(listener), address)
            }
            Transport::Udp | Transport::Other(_) => {
                let socket = udp(address)?;
                poller.add(&socket, word, EventFlags::IN)?;
                let address = socket.local_addr()?;
                (PortSocket::Udp(socket), address)
            }
        };
        let (known, expected) = (HashMap::new(), Vec::new());
        self.ports.put(place, Port { socket, transport, address, known, expected, users: 0 });
        Ok(place)
    }

    fn place_of(&self, connection: u64, number: u32) -> Option<usize> {
        let is = |flow: &Flow| flow.connection == connection && flow.request.flow == number;
        self.flows.open.iter().find(|(_, flow)| is(flow)).map(|(place, _)| place)
    }

    /// The sender has sent all of a flow; whether there is one. It is over when what is under way has come.
    pub fn close(&mut self, connection: u64, number: u32, now: Nanos) -> bool {
        let Some(place) = self.place_of(connection, number) else { return false };
        let Some(flow) = self.flows.open.get_mut(place) else { return false };
        flow.closing.get_or_insert(now.saturating_add(UNDER_WAY));
        if flow.data_ended {
            self.finish(place, FlowEnd::InOrder);
        }
        true
    }

    /// The sender could not send a flow.
    pub fn give_up(&mut self, connection: u64, number: u32) {
        if let Some(place) = self.place_of(connection, number) {
            self.finish(place, FlowEnd::ClosedEarly);
        }
    }

    /// A sender is gone, and with it its flows.
    pub fn sender_gone(&mut self, connection: u64, why: FlowEnd) {
        self.finish_all(why, |flow| flow.connection == connection);
    }

    /// Ends all flows.
    pub fn stop(&mut self) {
        self.finish_all(FlowEnd::Stopped, |_| true);
    }

    /// Ends flows, each in order where its sender has sent all.
    fn finish_all(&mut self, why: FlowEnd, which: impl Fn(&Flow) -> bool) {
        let of = self.flows.open.iter().filter(|(_, flow)| which(flow));
        let of: Vec<(usize, bool)> = of.map(|(at, flow)| (at, flow.closing.is_some())).collect();
        for (place, closing) in of {
            self.finish(place, if closing { FlowEnd::InOrder } else { why });
        }
    }

    /// Ends what is over by time.
    pub fn look(&mut self, now: Nanos) {
        let open = self.flows.open.iter();
        let ends = open.filter_map(|(place, flow)| Some((place, flow.over_at(now)?)));
        let ends: Vec<(usize, FlowEnd)> = ends.collect();
        for (place, end) in ends {
            self.finish(place, end);
        }
        let late = self.data.iter().filter(|(_, data)| data.is_late(now));
        let late: Vec<usize> = late.map(|(place, _)| place).collect();
        for place in late {
            self.data.remove(place);
        }
    }

    /// A flow is over: its connection is closed, and its port where nobody else uses it.
    fn finish(&mut self, place: usize, end: FlowEnd) {
        let Some((flow, result)) = self.flows.take(place, end) else { return };
        if let Some(data) = flow.data {
            self.data.remove(data);
        }
        if let Some(port) = self.ports.get_mut(flow.port) {
            port.expected.retain(|expected| *expected != place);
            port.known.retain(|_, known| *known != place);
            port.users = port.users.saturating_sub(1);
            if port.users == 0 {
                self.ports.remove(flow.port);
            }
        }
        self.over.push_back(Over { connection: flow.connection, result });
    }

    /// Takes what came to a port.
    pub fn port_ready(&mut self, place: usize, poller: &Poller) {
        let Receiver { ports, flows, buffer, .. } = self;
        let Some(port) = ports.get_mut(place) else { return };
        match &port.socket {
            PortSocket::Udp(_) => take_datagrams(port, flows, buffer),
            PortSocket::Tcp(_) => self.accept(place, poller),
        }
    }

    /// Accepts the connections of flows that are expected; others are closed.
    fn accept(&mut self, place: usize, poller: &Poller) {
        let Receiver { ports, flows, data, .. } = self;
        let Some(Port { socket: PortSocket::Tcp(listener), expected, .. }) = ports.get(place)
        else {
            return;
        };
        for _ in 0..TURN {
            let (stream, peer) = match listener.accept() {
                Ok((stream, peer)) => (stream, canonical(peer)),
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => continue,
                    _ => return,
                },
            };
            let of_host =
                |at: &&usize| flows.open.get(**at).is_some_and(|flow| flow.host == peer.ip());
            let expected = expected.iter().filter(of_host).count();
            let waiting = data.iter().filter(|(_, data)| data.waits_at(place, peer.ip())).count();
            let Some(free) = data.next_place().filter(|_| waiting < expected) else { continue };
            let word = Mark::Data(free).to_word();
            let ready = stream.set_nonblocking(true).is_ok()
                && poller.add(&stream, word, EventFlags::IN).is_ok();
            if ready {
                data.put(free, Data::new(stream, peer, place, clock()));
            }
        }
    }

    /// Takes what came over the connection of a flow.
    pub fn data_ready(&mut self, place: usize, poller: &Poller) {
        let Receiver { ports, flows, data, buffer, .. } = self;
        let Some(connection) = data.get_mut(place) else { return };
        let Some(port) = ports.get_mut(connection.port) else {
            data.remove(place);
            return;
        };
        let ended = connection.take(place, port, flows, buffer);
        let flow = connection.flow;
        match ended {
            None => {
                let wanted = connection.wanted();
                let _ = poller.modify(&connection.stream, Mark::Data(place).to_word(), wanted);
            }
            Some(DataEnd::Closed) => {
                data.remove(place);
                let Some(of) = flow.and_then(|flow| flows.open.get_mut(flow)) else { return };
                (of.data, of.data_ended) = (None, true);
                if let (Some(flow), true) = (flow, of.closing.is_some()) {
                    self.finish(flow, FlowEnd::InOrder);
                }
            }
            Some(DataEnd::Malformed) => {
                data.remove(place);
                if let Some(flow) = flow {
                    flows.record_malformed(flow);
                    if let Some(of) = flows.open.get_mut(flow) {
                        of.data = None;
                    }
                    self.finish(flow, FlowEnd::Malformed);
                }
            }
        }
    }
}

/// Takes datagrams, one turn's worth.
fn take_datagrams(port: &mut Port, flows: &mut Flows, buffer: &mut [u8]) {
    for _ in 0..TURN {
        let PortSocket::Udp(socket) = &port.socket else { return };
        let (len, from) = match recvfrom(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((len, _, Some(from))) => (len, SocketAddr::try_from(from)),
            Ok((_, _, None)) => continue,
            Err(Errno::INTR | Errno::CONNREFUSED) => continue,
            Err(_) => return,
        };
        let Ok(from) = from.map(canonical) else { continue };
        let payload = buffer.get(..len).unwrap_or_default();
        let number = flow_of(payload);
        let known = number.and_then(|number| port.known.get(&(from, Some(number))).copied());
        let known = known.or_else(|| port.known.get(&(from, None)).copied());
        let place = match known {
            Some(place) => place,
            // what nobody announced is left aside
            None if port.expected.is_empty() => continue,
            None => match port.claim(flows, from, number) {
                Some(place) => place,
                None => continue,
            },
        };
        let Some(flow) = flows.open.get(place) else { continue };
        let FlowRequest { payload: kind, meter, .. } = flow.request;
        let header = Header::read(payload, Transport::Udp, kind);
        if header.is_none() && kind != PayloadKind::None {
            flows.record_malformed(place);
            continue;
        }
        flows.record(place, header.as_ref(), len);
        if meter == Meter::RoundTrip {
            let PortSocket::Udp(socket) = &port.socket else { return };
            let ip = in_family_of(from.ip(), port.address.ip());
            // one that the device has no room for is lost, as on any path
            let _ = sendto(socket, payload, SendFlags::NOSIGNAL, &SocketAddr::new(ip, from.port()));
        }
    }
}
