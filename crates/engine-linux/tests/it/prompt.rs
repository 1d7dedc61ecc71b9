//! The packet engine's receiver that hands frames over at once: their order and bytes, super-frames of the system's TCP, and
//! what goes wrong.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Arrival, Fate, PortError, RxPort, Segments, TxMeta, TxPort};
use wirebeat_engine::steering::{Shard, core_of};
use wirebeat_engine_linux::packet::{Accept, PacketTx, PromptRx};
use wirebeat_testbed::{Capability, End, Neighbours, Offload, Offloads, Options, Testbed, require};
use wirebeat_units::Nanos;

use crate::counting::allocations;
use crate::lab::{
    LISTENERS, PATIENCE, assert_times, bytes, cable, frame, packet_sender, payload, plan,
    prompt_receiver, receive, send, versions,
};

/// More than a slot of the ring holds.
const SLOT_LEN: usize = 2048;
/// The most frames of one call.
const BATCH: usize = 256;

/// A cable on which the system's TCP hands over super-frames.
fn offloading() -> Testbed {
    let offloads = Offloads { gso: Offload::On, tso: Offload::On, ..Offloads::default() };
    let options = Options { neighbours: Neighbours::Fixed, offloads, ..Options::default() };
    Testbed::pair(&options).unwrap()
}

/// A connection of the system's TCP from `a` to `destination` of `b`, and the port that it goes to.
fn connection(cable: &Testbed, destination: IpAddr) -> (TcpStream, TcpStream, u16) {
    let listen = || TcpListener::bind(SocketAddr::new(destination, 0));
    let listener = cable.b.namespace.run(listen).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let near = cable.a.namespace.run(|| TcpStream::connect(address)).unwrap().unwrap();
    let (far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE.to_duration())).unwrap();
        stream.set_write_timeout(Some(PATIENCE.to_duration())).unwrap();
    }
    (near, far, address.port())
}

/// Has the system's TCP send `data`, and compares what comes out of it at the other end.
fn transfer((mut near, mut far): (TcpStream, TcpStream), data: &[u8]) {
    thread::scope(|scope| {
        scope.spawn(move || near.write_all(data).unwrap());
        let mut came = Vec::new();
        far.read_to_end(&mut came).unwrap();
        assert!(came == data, "{} bytes came out", came.len());
    });
}

/// The bytes of a connection, put together from the frames that carry them.
struct Stream {
    /// The destination's port.
    port: u16,
    /// The sequence number of the first byte.
    first: Option<u32>,
    bytes: Vec<u8>,
    seen: Vec<bool>,
    /// How many bytes were seen.
    covered: usize,
    /// Frames that a slot does not hold.
    long: usize,
}

impl Stream {
    fn new(port: u16, len: usize) -> Self {
        let (bytes, seen) = (vec![0; len], vec![false; len]);
        Stream { port, first: None, bytes, seen, covered: 0, long: 0 }
    }

    /// Takes a frame, of this connection or not.
    fn take(&mut self, arrival: &Arrival<'_>) {
        let frame = arrival.bytes;
        assert_eq!(arrival.frame_len as usize, frame.len().max(60) + 4);
        let half = |at: usize| u16::from_be_bytes(*frame[at..].first_chunk().unwrap());
        let word = |at: usize| u32::from_be_bytes(*frame[at..].first_chunk().unwrap());
        if frame.starts_with(&LISTENERS) {
            return;
        }
        let ip = 14;
        let (protocol, header_len, len) = match half(ip - 2) {
            0x0800 => (frame[ip + 9], usize::from(frame[ip] & 15) * 4, half(ip + 2).into()),
            0x86dd => (frame[ip + 6], 40, usize::from(half(ip + 4)) + 40),
            _ => return,
        };
        let tcp = ip + header_len;
        if protocol != 6 || half(tcp + 2) != self.port {
            return;
        }
        assert_eq!(frame.len(), ip + len, "the frame is as long as it says");
        self.long += usize::from(frame.len() > SLOT_LEN);
        if frame[tcp + 13] & 2 != 0 {
            self.first = Some(word(tcp + 4).wrapping_add(1));
        }
        let payload = &frame[tcp + usize::from(frame[tcp + 12] >> 4) * 4..];
        let at = word(tcp + 4).wrapping_sub(self.first.expect("it began with a SYN")) as usize;
        for (index, byte) in payload.iter().enumerate() {
            self.bytes[at + index] = *byte;
            self.covered += usize::from(!self.seen[at + index]);
            self.seen[at + index] = true;
        }
    }

    /// Takes what comes to `port` until all is seen, and what else there is.
    fn fill(&mut self, port: &mut PromptRx) {
        let deadline = MonotonicClock.now().saturating_add(PATIENCE);
        while self.covered < self.seen.len() && MonotonicClock.now() < deadline {
            let count = port.receive(deadline, |arrival| self.take(arrival)).unwrap();
            assert!(count <= BATCH, "{count} frames of one call");
        }
        self.drain(port);
    }

    /// Takes what is there; returns how many frames that were.
    fn drain(&mut self, port: &mut PromptRx) -> u64 {
        let mut frames = 0;
        loop {
            let soon = MonotonicClock.now().saturating_add(Nanos::from_millis(50));
            match port.receive(soon, |arrival| self.take(arrival)).unwrap() {
                0 if MonotonicClock.now() >= soon => return frames,
                count => frames += count as u64,
            }
        }
    }
}

#[test]
fn ten_thousand_frames_arrive_in_order_with_their_bytes() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    for addresses in versions(&cable) {
        let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
        let mut sender = packet_sender(&cable.a, 1);
        let from = MonotonicClock.now();
        for round in 0..5 {
            let indexes = round * 2_000..(round + 1) * 2_000;
            let frames: Vec<_> = indexes
                .map(|index| payload(index, 4 + (index as usize * 37) % 1449))
                .map(|payload| (0, frame(&cable, addresses, &payload)))
                .collect();
            send(&mut sender, 50, &frames);
            let arrived = receive(&mut receiver, frames.len());
            let expected: Vec<_> = frames.into_iter().map(|(_, bytes)| bytes).collect();
            assert!(bytes(&arrived) == expected, "{} arrived", arrived.len());
            assert!(arrived.iter().all(|a| a.frame_len as usize == a.bytes.len() + 4));
            assert_times(&arrived, from, MonotonicClock.now());
        }
        assert_eq!(receiver.receive_drops(), 0);
        assert!(receiver.timestamp_error() < Nanos::from_micros(20));
    }
}

#[test]
fn super_frames_of_the_systems_tcp_arrive_whole() {
    require!(Capability::NetworkNamespaces);
    let cable = offloading();
    for (_, destination) in versions(&cable) {
        let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
        let (near, far, port) = connection(&cable, destination);
        let data = payload(7, 8 << 20);
        let mut stream = Stream::new(port, data.len());
        thread::scope(|scope| {
            scope.spawn(|| transfer((near, far), &data));
            stream.fill(&mut receiver);
        });
        assert_eq!((stream.covered, receiver.receive_drops()), (data.len(), 0));
        assert!(stream.bytes == data, "the bytes are those that were sent");
        assert!(stream.long > 100, "{} super-frames", stream.long);
    }
}

/// Sends `frame` as one that is to be cut into segments.
fn send_super_frame(end: &End, segments: Segments, frame: &[u8]) {
    let open = || PacketTx::open_large(end.interface(), &plan(1, 1518));
    let mut port = end.namespace.run(open).unwrap().unwrap();
    assert_eq!(port.reserve(1).unwrap(), 1);
    port.slot(0)[..frame.len()].copy_from_slice(frame);
    port.commit(&[TxMeta { len: frame.len() as u16, segments, ..TxMeta::default() }]).unwrap();
    let deadline = MonotonicClock.now().saturating_add(PATIENCE);
    assert!(port.drain(deadline).unwrap(), "it is sent");
    let mut fate = None;
    port.settled(&mut |is, count| fate = Some((is, count)));
    assert_eq!(fate, Some((Fate::Sent, 1)));
}

/// TCP segments with this many bytes of payload as one frame with a VLAN tag, and how to cut it.
fn tagged_segments(cable: &Testbed, payload_len: usize) -> (Segments, Vec<u8>) {
    const TAG: [u8; 4] = [0x81, 0x00, 0x20, 0x07];
    const TCP: usize = 18 + 20;
    let plain = frame(cable, (cable.a.ipv4.into(), cable.b.ipv4.into()), &payload(5, 100));
    let mut frame =
        [&plain[..12], &TAG, &plain[12..34], &[0; 20], &payload(6, payload_len)].concat();
    frame[18 + 2..][..2].copy_from_slice(&((40 + payload_len) as u16).to_be_bytes());
    frame[18 + 9] = 6;
    frame[TCP + 12] = 5 << 4;
    let segments =
        Segments { len: 1448, tcp_at: TCP as u16, data_at: TCP as u16 + 20, is_v6: false };
    (segments, frame)
}

#[test]
fn super_frames_keep_their_vlan_tag() {
    require!(Capability::NetworkNamespaces);
    let cable = offloading();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let mut expected = Vec::new();
    for payload_len in [4_000, 20_000, 65_000] {
        let (segments, frame) = tagged_segments(&cable, payload_len);
        send_super_frame(&cable.a, segments, &frame);
        expected.push(frame);
    }
    let arrived = receive(&mut receiver, expected.len());
    assert!(bytes(&arrived) == expected, "{} arrived", arrived.len());
    assert!(arrived.iter().all(|a| a.frame_len as usize == a.bytes.len() + 4));
    assert_eq!(receiver.receive_drops(), 0);
}

/// Where the other end takes none, the kernel cuts.
#[test]
fn super_frames_are_cut_for_a_link_that_takes_none() {
    require!(Capability::NetworkNamespaces);
    const DATA: usize = 18 + 20 + 20;
    let offloads = Offloads { gso: Offload::Off, tso: Offload::Off, ..Offloads::default() };
    let options = Options { neighbours: Neighbours::Fixed, offloads, ..Options::default() };
    let cable = Testbed::pair(&options).unwrap();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let (segments, frame) = tagged_segments(&cable, 20_000);
    send_super_frame(&cable.a, segments, &frame);
    let arrived = receive(&mut receiver, 20_000_usize.div_ceil(1448));
    let mut data = Vec::new();
    for (number, cut) in (0_u32..).zip(bytes(&arrived)) {
        assert!(cut.len() <= DATA + 1448, "{} bytes", cut.len());
        assert_eq!(cut[18 + 20 + 4..][..4], (number * 1448).to_be_bytes(), "sequence number");
        data.extend_from_slice(&cut[DATA..]);
    }
    assert!(data == frame[DATA..], "the bytes are those that were sent");
}

#[test]
fn a_frame_that_is_too_long_and_not_to_be_cut_fails() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let open = || PacketTx::open_large(cable.a.interface(), &plan(1, 1518));
    let mut port = cable.a.namespace.run(open).unwrap().unwrap();
    assert_eq!(port.reserve(2).unwrap(), 2);
    for index in 0..2 {
        port.slot(index)[..4000].fill(0);
    }
    let meta = |len| TxMeta { len, ..TxMeta::default() };
    port.commit(&[meta(4000), meta(1000)]).unwrap();
    assert!(port.drain(MonotonicClock.now().saturating_add(PATIENCE)).unwrap());
    let mut fates = Vec::new();
    port.settled(&mut |fate, count| fates.push((fate, count)));
    assert_eq!(fates, [(Fate::Failed, 1), (Fate::Sent, 1)]);
}

#[test]
fn frames_that_find_the_ring_full_are_counted() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let mut sender = packet_sender(&cable.a, 1);
    let frame = frame(&cable, versions(&cable)[0], &payload(1, 18));
    send(&mut sender, 64, &vec![(0, frame.clone()); 20_000]);
    let arrived = receive(&mut receiver, 0).len() as u64;
    let drops = receiver.receive_drops();
    assert!(arrived > 4_000, "{arrived} arrived, {drops} dropped");
    assert_eq!(arrived + drops, 20_000);
    assert_eq!(receiver.receive_drops(), drops, "asking does not change it");
    send(&mut sender, 64, &vec![(0, frame); 1_000]);
    assert_eq!(receive(&mut receiver, 1_000).len(), 1_000, "it goes on");
}

#[test]
fn super_frames_that_find_the_queue_full_are_counted_and_the_next_come_whole() {
    require!(Capability::NetworkNamespaces);
    let cable = offloading();
    let to_b = || {
        let link = cable.b.netlink().unwrap().link_by_name(cable.b.interface()).unwrap();
        link.stats.rx_packets
    };
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let before = to_b();
    let destination = cable.b.ipv4.into();
    let (near, far, port) = connection(&cable, destination);
    let data = payload(9, 64 << 20);
    transfer((near, far), &data);
    let mut stream = Stream::new(port, data.len());
    let arrived = stream.drain(&mut receiver);
    let drops = receiver.receive_drops();
    assert!(drops > 100 && stream.long > 100, "{drops} drops, {} super-frames", stream.long);
    assert_eq!(arrived + drops, to_b() - before, "every frame is accounted for");
    assert!(stream.covered < data.len());
    for (index, byte) in data.iter().enumerate() {
        assert!(!stream.seen[index] || stream.bytes[index] == *byte, "byte {index}");
    }
    let (near, far, port) = connection(&cable, destination);
    let data = &data[..4 << 20];
    let mut stream = Stream::new(port, data.len());
    transfer((near, far), data);
    stream.fill(&mut receiver);
    assert_eq!((stream.covered, receiver.receive_drops()), (data.len(), drops));
    assert!(stream.bytes == data && stream.long > 10);
}

#[test]
fn super_frames_cost_no_allocation() {
    require!(Capability::NetworkNamespaces);
    let cable = offloading();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let (near, far, port) = connection(&cable, cable.b.ipv4.into());
    let data = payload(10, 4 << 20);
    let mut stream = Stream::new(port, data.len());
    transfer((near, far), &data);
    let ((), count) = allocations(|| stream.fill(&mut receiver));
    assert!(stream.bytes == data && stream.long > 10, "{} super-frames", stream.long);
    assert_eq!(count, 0);
}

#[test]
fn what_leaves_does_not_come_and_what_is_for_others_only_where_it_is_wanted() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut near = prompt_receiver(&cable.a, Accept::All);
    let mut ours = prompt_receiver(&cable.b, Accept::Ours);
    let mut all = prompt_receiver(&cable.b, Accept::All);
    let mut sender = packet_sender(&cable.a, 1);
    let mine = frame(&cable, versions(&cable)[0], &payload(1, 30));
    let mut other = mine.clone();
    other[5] ^= 0x55;
    // of any kind: no EtherType of IP
    let mut foreign = mine.clone();
    foreign[12..14].copy_from_slice(&[0x88, 0xb5]);
    let frames = [&other, &mine, &foreign, &other].map(|bytes| (0, bytes.clone()));
    send(&mut sender, 4, &frames);
    assert_eq!(bytes(&receive(&mut ours, 2)), [mine.clone(), foreign.clone()]);
    assert_eq!(bytes(&receive(&mut all, 4)), [other.clone(), mine, foreign, other]);
    // `a` is told that nobody listens; what it sent itself does not come
    assert!(receive(&mut near, 0).iter().all(|arrival| arrival.bytes[6..12] == cable.b.mac.0));
}

#[test]
fn an_interface_that_is_removed_is_noticed_after_the_last_frame() {
    require!(Capability::NetworkNamespaces);
    for waiting in [false, true] {
        let cable = offloading();
        let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
        let (near, far, port) = connection(&cable, cable.b.ipv4.into());
        let data = payload(11, 2 << 20);
        transfer((near, far), &data);
        cable.b.netlink().unwrap().delete_link(cable.b.link.index).unwrap();
        // the socket's error comes before the super-frames in its queue
        let mut stream = Stream::new(port, data.len());
        let until =
            if waiting { MonotonicClock.now().saturating_add(PATIENCE) } else { Nanos::ZERO };
        let mut looks = 0;
        let error = loop {
            match receiver.receive(until, |arrival| stream.take(arrival)) {
                Ok(_) => looks += 1,
                Err(error) => break error,
            }
            assert!(looks < 10_000, "it does not notice");
        };
        assert!(matches!(error, PortError::Gone(_)), "{error}");
        assert_eq!(error.to_string(), "interface wb1 went down or was removed");
        assert_eq!((stream.covered, receiver.receive_drops()), (data.len(), 0));
        assert!(stream.bytes == data && stream.long > 10);
    }
}

#[test]
fn an_interface_that_goes_down_is_noticed_by_who_only_looks() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    cable.b.netlink().unwrap().set_down(cable.b.link.index).unwrap();
    let looks = (0..1_000).take_while(|_| receiver.receive(Nanos::ZERO, |_| ()).is_ok()).count();
    assert!(looks < 1_000, "it does not notice");
    let open = || PromptRx::open(cable.b.interface(), Accept::Ours);
    assert!(matches!(cable.b.namespace.run(open).unwrap(), Err(PortError::Missing { .. })));
}

#[test]
fn receiving_waits_no_longer_than_asked() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut receiver = prompt_receiver(&cable.b, Accept::Ours);
    let until = MonotonicClock.now().saturating_add(Nanos::from_millis(30));
    // but for what the hosts say of the groups that they listen to
    while receiver.receive(until, |a| assert!(a.bytes.starts_with(&LISTENERS))).unwrap() > 0 {}
    assert!(MonotonicClock.now() >= until);
}

/// A frame to a host that nobody is, of this EtherType.
fn stray(tag: Option<u16>, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    const HOST: [u8; 6] = [0x06, 0x57, 0, 1, 2, 3];
    let tag: Vec<u8> =
        tag.map_or(Vec::new(), |id| [0x8100_u16.to_be_bytes(), id.to_be_bytes()].concat());
    let mut frame = [&HOST[..], &[2; 6], &tag, &ether_type.to_be_bytes(), packet].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An IP packet of this protocol, with options in its header or not.
fn packet(is_v6: bool, has_options: bool, protocol: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    match (is_v6, has_options) {
        (false, _) => {
            let header_len = if has_options { 28 } else { 20 };
            let mut header = vec![0; header_len];
            header[0] = 0x40 | (header_len / 4) as u8;
            header[2..4].copy_from_slice(&((header_len + len) as u16).to_be_bytes());
            (header[8], header[9]) = (64, protocol);
            header[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            [&header, content].concat()
        }
        (true, _) => {
            let mut header = vec![0; 40];
            header[0] = 0x60;
            (header[6], header[7]) = (if has_options { 60 } else { protocol }, 64);
            header[8..].fill(0xfd);
            let options: &[u8] = if has_options { &[protocol, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
            header[4..6].copy_from_slice(&((options.len() + len) as u16).to_be_bytes());
            [&header, options, content].concat()
        }
    }
}

/// What the kernel makes of the programs of two cores: each has its connections and the errors about them, both have what next hops
/// follow from, and the first has the rest.
#[test]
fn cores_share_what_arrives_by_the_ports_of_tcp() {
    require!(Capability::NetworkNamespaces);
    let cable = cable();
    let mut sender = packet_sender(&cable.a, 1);
    let mut cores = [0, 1].map(|core| {
        let open =
            || PromptRx::open_for_core(cable.b.interface(), Accept::All, Shard { core, cores: 2 });
        cable.b.namespace.run(open).unwrap().unwrap()
    });
    let mut sent: Vec<(Vec<u8>, Option<u32>)> = Vec::new();
    for client in 40_000..40_040_u16 {
        let core = core_of([client, 443], 2);
        let tcp = [&client.to_be_bytes()[..], &443_u16.to_be_bytes(), &[5; 16]].concat();
        let back = [&443_u16.to_be_bytes()[..], &client.to_be_bytes(), &[5; 16]].concat();
        for (is_v6, ether_type) in [(false, 0x0800), (true, 0x86dd)] {
            let quoted = packet(is_v6, false, 6, &tcp);
            let (icmp, kind) = if is_v6 { (58, 2) } else { (1, 3) };
            let error = [&[kind, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
            for (tag, has_options) in [(None, false), (Some(7), false), (None, true)] {
                for carried in [(6, &tcp), (6, &back), (icmp, &error)] {
                    let packet = packet(is_v6, has_options, carried.0, carried.1);
                    sent.push((stray(tag, ether_type, &packet), Some(core)));
                }
            }
        }
    }
    let mut fragment = packet(false, false, 6, &[9; 20]);
    fragment[6] = 0x20;
    sent.push((stray(None, 0x0800, &fragment), Some(0)));
    sent.push((stray(None, 0x0800, &packet(false, false, 17, &[9; 20])), Some(0)));
    sent.push((stray(None, 0x0800, &packet(false, false, 1, &[8, 0, 0, 0, 0, 0, 0, 0])), Some(0)));
    sent.push((stray(None, 0x88b5, &[1; 46]), Some(0)));
    sent.push((stray(None, 0x0806, &[0; 28]), None));
    sent.push((stray(Some(7), 0x0806, &[0; 28]), None));
    sent.push((stray(None, 0x86dd, &packet(true, false, 58, &[136; 24])), None));
    let frames: Vec<(u32, Vec<u8>)> = sent.iter().map(|(frame, _)| (0, frame.clone())).collect();
    send(&mut sender, 50, &frames);
    for (core, port) in (0..).zip(&mut cores) {
        let mine = sent.iter().filter(|(_, of)| of.is_none_or(|of| of == core));
        let mine: Vec<Vec<u8>> = mine.map(|(frame, _)| frame.clone()).collect();
        assert!(mine.len() > 100, "{}", mine.len());
        let arrived = receive(port, mine.len());
        assert!(bytes(&arrived) == mine, "core {core}: {} of {}", arrived.len(), mine.len());
        assert_eq!(port.receive_drops(), 0);
    }
    assert_eq!(cores[0].caps(), cores[1].caps());
}
