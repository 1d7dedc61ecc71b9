//! Senders that are none: whatever they do, the next one is served, and nobody gets more than a flow of its own allows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::time::Duration;

use wirebeat_ditg::control::{FlowFault, FlowRequest, Message, Meter, PayloadKind, Transport};
use wirebeat_ditg::payload::Header;
use wirebeat_ditg::result::FlowEnd;
use wirebeat_ditg::{Limits, ServerOptions};
use wirebeat_testbed::{Capability, require};
use wirebeat_units::Nanos;

use crate::world::{Served, bed, serving, until};

/// A receiver that is impatient with us.
fn options() -> ServerOptions {
    let limits = Limits {
        connections: 40,
        flows: 8,
        patience: Nanos::from_millis(500),
        ..Limits::default()
    };
    ServerOptions { limits, ..ServerOptions::default() }
}

/// A signalling connection.
struct Sender(TcpStream);

impl Sender {
    fn connect(to: SocketAddr) -> Sender {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Sender(stream)
    }

    /// One that has greeted.
    fn greeted(to: SocketAddr) -> Sender {
        let mut sender = Sender::connect(to);
        sender.send(Message::Connect);
        assert_eq!(sender.next(), Some(Message::AckConnect));
        sender
    }

    fn send(&mut self, message: Message) {
        self.0.write_all(&message.to_bytes()).unwrap();
    }

    /// The next message; `None` at the end.
    fn next(&mut self) -> Option<Message> {
        let mut bytes = Vec::new();
        loop {
            let mut byte = [0; 1];
            match self.0.read(&mut byte) {
                Ok(1) => bytes.push(byte[0]),
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
            if let Some((message, _)) = Message::read(&bytes).unwrap() {
                return Some(message);
            }
        }
    }

    /// Asks for a flow: the port, or why not.
    fn ask(&mut self, request: FlowRequest) -> Result<u16, FlowFault> {
        self.send(Message::SendFlow(request));
        match self.next() {
            Some(Message::AckSendFlow { flow, port }) if flow == request.flow => Ok(port),
            Some(Message::Refused { why, flow }) if flow == request.flow => Err(why),
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, flow: u32) {
        self.send(Message::ClosedFlow(flow));
        assert_eq!(self.answer(), Some(Message::AckClosedFlow(flow)));
    }

    /// The next message but the question of an impatient receiver, which is answered.
    fn answer(&mut self) -> Option<Message> {
        loop {
            match self.next() {
                Some(Message::Discovery) => self.send(Message::AckDiscovery),
                other => return other,
            }
        }
    }
}

fn request(transport: Transport, flow: u32) -> FlowRequest {
    FlowRequest {
        transport,
        application: 0,
        meter: Meter::OneWay,
        ds: 0,
        flow,
        payload: PayloadKind::Standard,
        to: ("127.0.0.1".parse().unwrap(), 8999),
    }
}

/// A packet of this size.
fn packet(transport: Transport, flow: u32, sequence: u32, len: usize) -> Vec<u8> {
    let size = (transport == Transport::Tcp).then_some(len as u32);
    let mut bytes = vec![7; len];
    Header { flow, sequence, sent: Some(Default::default()), size }.write(&mut bytes);
    bytes
}

/// A whole flow of three packets, as ITGSend sends it: whether it is served says whether the receiver is alive.
fn is_served(to: SocketAddr) {
    let mut sender = Sender::greeted(to);
    let port = sender.ask(FlowRequest { to: (to.ip(), 0), ..request(Transport::Udp, 77) }).unwrap();
    let socket = UdpSocket::bind((to.ip(), 0)).unwrap();
    for number in 1..=3 {
        socket.send_to(&packet(Transport::Udp, 77, number, 100), (to.ip(), port)).unwrap();
    }
    sender.close(77);
    sender.send(Message::Release);
    assert_eq!(sender.answer(), Some(Message::AckRelease));
}

/// Runs `work` against a receiver in namespace `a`; then another sender has to be served.
fn survives(work: impl FnOnce(SocketAddr, &Mutex<Served>) + Send) -> Served {
    survives_with(options(), work)
}

fn survives_with(
    options: ServerOptions,
    work: impl FnOnce(SocketAddr, &Mutex<Served>) + Send,
) -> Served {
    let bed = bed();
    let (served, ()) = serving(&bed, ("127.0.0.1:0", options, None), |address, served| {
        bed.a
            .namespace
            .run(|| {
                work(address, served);
                is_served(address);
            })
            .unwrap();
    });
    let last = served.flows.iter().find(|flow| flow.flow == 77).unwrap();
    assert_eq!((last.packets, last.end), (3, FlowEnd::InOrder));
    served
}

#[test]
fn silent_connections_and_garbage_hold_nobody_up() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, _| {
        let silent: Vec<TcpStream> =
            (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
        // those beyond the limit wait until those before them have had their time
        let mut http = Sender::connect(address);
        http.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(http.next(), None);
        // what only a receiver says
        let mut asks_us = Sender::greeted(address);
        asks_us.send(Message::AckSendFlow { flow: 1, port: 9 });
        assert_eq!(asks_us.next(), None);
        drop(silent);
    });
    assert_eq!(served.refused.len(), 2, "{served:?}");
    assert!(served.refused[1].contains("a request of a sender"), "{served:?}");
}

/// Until their time was over, silent connections kept a sender out that had something to say.
#[test]
fn silent_connections_give_place_long_before_their_time_is_over() {
    require!(Capability::NetworkNamespaces);
    let limits = Limits { patience: Nanos::from_secs(3600), ..options().limits };
    let mut silent = Vec::new();
    survives_with(ServerOptions { limits, ..options() }, |address, _| {
        silent.extend((0..100).map(|_| TcpStream::connect(address).unwrap()));
    });
    // they are there until the other sender was served
    assert_eq!(silent.len(), 100);
}

#[test]
fn what_a_sender_may_not_have_is_refused_and_it_may_go_on() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, _| {
        let _taken = UdpSocket::bind("127.0.0.1:20000").unwrap();
        let mut sender = Sender::greeted(address);
        let udp = request(Transport::Udp, 1);
        let refused = [
            FlowRequest { to: (udp.to.0, 20_000), ..udp },
            FlowRequest { to: (udp.to.0, 53), ..udp },
            FlowRequest { transport: Transport::Other(4), ..udp },
            FlowRequest { meter: Meter::RoundTrip, payload: PayloadKind::None, ..udp },
        ];
        for request in refused {
            assert_eq!(sender.ask(request), Err(FlowFault::Bind), "{request:?}");
        }
        for flow in 1..=8 {
            assert_eq!(sender.ask(request(Transport::Udp, flow)), Ok(8999));
        }
        // it is there, and one too many
        assert_eq!(sender.ask(request(Transport::Udp, 8)), Err(FlowFault::Bind));
        assert_eq!(sender.ask(request(Transport::Udp, 9)), Err(FlowFault::Bind));
        // the end of a flow that there is not
        sender.close(9);
        sender.send(Message::ClosedError(1));
        sender.close(2);
        sender.send(Message::SenderDown);
        assert_eq!(sender.next(), None);
    });
    assert_eq!(served.refused.len(), 6, "{served:?}");
    assert_eq!(served.flow(1).end, FlowEnd::ClosedEarly);
    assert_eq!(served.flow(2).end, FlowEnd::InOrder);
    assert_eq!(served.flow(3).end, FlowEnd::ClosedEarly);
    // flows to another address of the sender's choice are received where the owner listens
    assert!(served.flows.iter().all(|flow| flow.destination.ip().is_loopback()));
}

#[test]
fn a_sender_that_falls_silent_or_leaves_half_way_loses_its_flows() {
    require!(Capability::NetworkNamespaces);
    let limits = Limits { silence: Nanos::from_millis(500), ..options().limits };
    let served = survives_with(ServerOptions { limits, ..options() }, |address, served| {
        let mut silent = Sender::greeted(address);
        silent.ask(request(Transport::Udp, 1)).unwrap();
        let mut leaves = Sender::greeted(address);
        leaves.ask(request(Transport::Tcp, 2)).unwrap();
        let data = TcpStream::connect("127.0.0.1:8999").unwrap();
        // half a message
        (&data).write_all(&packet(Transport::Tcp, 2, 1, 100)[..50]).unwrap();
        leaves.0.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(leaves.next(), None);
        assert_eq!(silent.next(), Some(Message::Discovery));
        silent.send(Message::AckDiscovery);
        assert_eq!(silent.next(), Some(Message::Discovery));
        // it does not answer any more
        assert_eq!(silent.next(), None);
        until("both flows are over", || served.lock().unwrap().flows.len() == 2);
    });
    assert_eq!(served.flow(1).end, FlowEnd::Silent);
    assert_eq!((served.flow(2).end, served.flow(2).packets), (FlowEnd::ClosedEarly, 0));
}

#[test]
fn only_packets_of_the_sender_are_counted_and_sent_back() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, _| {
        let mut sender = Sender::greeted(address);
        let round_trip = FlowRequest { meter: Meter::RoundTrip, ..request(Transport::Udp, 5) };
        sender.ask(round_trip).unwrap();
        let mine = UdpSocket::bind("127.0.0.1:0").unwrap();
        let another_host = UdpSocket::bind("127.0.0.9:0").unwrap();
        let another_port = UdpSocket::bind("127.0.0.1:0").unwrap();
        for socket in [&mine, &another_host, &another_port] {
            socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        }
        let send = |socket: &UdpSocket, bytes: &[u8]| socket.send_to(bytes, "127.0.0.1:8999");
        let back = |socket: &UdpSocket| socket.recv(&mut [0; 2000]).ok();
        send(&another_host, &packet(Transport::Udp, 5, 1, 200)).unwrap();
        assert_eq!(back(&another_host), None);
        // the number of no flow
        send(&mine, &packet(Transport::Udp, 6, 1, 200)).unwrap();
        assert_eq!(back(&mine), None);
        send(&mine, &packet(Transport::Udp, 5, 1, 200)).unwrap();
        assert_eq!(back(&mine), Some(200));
        send(&another_port, &packet(Transport::Udp, 5, 2, 200)).unwrap();
        assert_eq!(back(&another_port), None);
        // too short for a header
        send(&mine, &packet(Transport::Udp, 5, 2, 200)[..9]).unwrap();
        assert_eq!(back(&mine), None);
        sender.close(5);
    });
    let flow = served.flow(5);
    assert_eq!((flow.packets, flow.summary.counts.malformed_messages), (1, 1));
}

/// Numbers that no sender comes to say nothing of what was lost.
#[test]
fn forged_numbers_are_malformed_packets() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, _| {
        let mut sender = Sender::greeted(address);
        sender.ask(request(Transport::Udp, 5)).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in [1, 0, u32::MAX, (1 << 31) + 1, 2, 4] {
            let packet = packet(Transport::Udp, 5, number, 200);
            socket.send_to(&packet, "127.0.0.1:8999").unwrap();
        }
        sender.close(5);
    });
    let flow = served.flow(5);
    let counts = &flow.summary.counts;
    assert_eq!((flow.packets, counts.messages_received, counts.malformed_messages), (3, 3, 3));
    assert_eq!((counts.messages_lost, counts.messages_out_of_order), (1, 0));
}

#[test]
fn a_stream_of_garbage_ends_its_flow_alone() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, served| {
        let mut sender = Sender::greeted(address);
        sender.ask(request(Transport::Tcp, 1)).unwrap();
        sender.ask(request(Transport::Tcp, 2)).unwrap();
        // no flow of this number: closed
        let mut stranger = TcpStream::connect("127.0.0.1:8999").unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0);
        let mut good = TcpStream::connect("127.0.0.1:8999").unwrap();
        good.write_all(&packet(Transport::Tcp, 2, 1, 30_000)).unwrap();
        // a message that says that it is too long
        let mut bad = TcpStream::connect("127.0.0.1:8999").unwrap();
        let mut message = packet(Transport::Tcp, 1, 1, 100);
        message[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        bad.write_all(&message).unwrap();
        let refused = Message::Refused { why: FlowFault::Broken, flow: 1 };
        assert_eq!(sender.next(), Some(refused));
        // no more connections than flows that are expected
        let mut more = TcpStream::connect("127.0.0.1:8999").unwrap();
        assert_eq!(more.read(&mut [0; 8]).unwrap_or(0), 0);
        good.write_all(&packet(Transport::Tcp, 2, 2, 20)).unwrap();
        drop(good);
        sender.close(2);
        until("both flows are over", || served.lock().unwrap().flows.len() == 2);
    });
    assert_eq!(served.flow(1).end, FlowEnd::Malformed);
    assert_eq!((served.flow(2).packets, served.flow(2).bytes), (2, 30_020));
}

#[test]
fn a_sender_that_does_not_read_what_comes_back_stops_itself() {
    require!(Capability::NetworkNamespaces);
    let served = survives(|address, _| {
        let mut sender = Sender::greeted(address);
        let round_trip = FlowRequest { meter: Meter::RoundTrip, ..request(Transport::Tcp, 1) };
        sender.ask(round_trip).unwrap();
        let mut data = TcpStream::connect("127.0.0.1:8999").unwrap();
        data.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let message = packet(Transport::Tcp, 1, 1, 60_000);
        let mut written = 0_usize;
        while data.write_all(&message).is_ok() {
            written += message.len();
            assert!(written < 200_000_000, "the receiver takes whatever comes");
        }
        is_served(address);
        drop(data);
        sender.close(1);
    });
    assert_eq!(served.flows.iter().filter(|flow| flow.flow == 77).count(), 2);
}

#[test]
fn a_receiver_that_does_not_answer_does_not_hold_a_sender_up() {
    require!(Capability::NetworkNamespaces);
    let bed = bed();
    bed.a
        .namespace
        .run(|| {
            let mute = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = mute.local_addr().unwrap();
            let other = std::thread::spawn(move || {
                let (mut stream, _) = mute.accept().unwrap();
                // it sends what only a sender says
                stream.write_all(&Message::Release.to_bytes()).unwrap();
                stream
            });
            let spec = wirebeat_ditg::FlowSpec::default();
            let ended = wirebeat_ditg::client::run(address, &spec, None, &|| false, &mut |_| {});
            let error = ended.unwrap_err().fault().to_string();
            assert!(error.contains("RELEASE where an answer to the greeting belongs"), "{error}");
            drop(other.join().unwrap());
        })
        .unwrap();
}
