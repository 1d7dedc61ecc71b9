//! What the tests share: a cable, frames and datagrams that can be told apart, and the two loops of a
//! sender and a receiver.

use std::net::{IpAddr, SocketAddr};

use wirebeat_engine::clock::{Clock, MonotonicClock};
use wirebeat_engine::port::{Amount, PortError, RxPort, TxMeta, TxPlan, TxPort, TxTotals};
use wirebeat_engine_linux::packet::{Accept, PacketReceive, PacketRx, PacketTx, PromptRx};
use wirebeat_engine_linux::socket::{
    Checksum, Endpoint, Joining, SocketReceive, SocketRx, SocketTransmit, SocketTx,
};
use wirebeat_testbed::{End, Neighbours, Options, Testbed};
use wirebeat_units::{BufferLen, Nanos};
use wirebeat_wire::testing::udp_frame;

/// Long enough for a loaded machine; nothing here takes more than a fraction of it.
pub const PATIENCE: Nanos = Nanos::from_secs(10);
/// The port that datagrams are sent to.
pub const PORT: u16 = 5000;

/// Two ends that know each other's addresses.
pub fn cable() -> Testbed {
    Testbed::pair(&Options { neighbours: Neighbours::Fixed, ..Options::default() }).unwrap()
}

/// Both versions of IP, where the kernel has them.
pub fn versions(cable: &Testbed) -> Vec<(IpAddr, IpAddr)> {
    let v4 = (cable.a.ipv4.into(), cable.b.ipv4.into());
    let v6 = cable.a.ipv6.zip(cable.b.ipv6).map(|(a, b)| (a.into(), b.into()));
    [Some(v4), v6].into_iter().flatten().collect()
}

/// A plan for frames of up to `frame_max` bytes.
pub fn plan(tags: u32, frame_max: u16) -> TxPlan {
    let frame_max = BufferLen::new(frame_max.into());
    TxPlan { tags, frame_max, ..TxPlan::default() }
}

pub fn packet_sender(end: &End, tags: u32) -> PacketTx {
    let open = || PacketTx::open(end.interface(), &plan(tags, 1518), None);
    end.namespace.run(open).unwrap().unwrap()
}

pub fn packet_opened(end: &End, interface: &str, frame_max: u16) -> Result<PacketTx, PortError> {
    end.namespace.run(|| PacketTx::open(interface, &plan(1, frame_max), None)).unwrap()
}

pub fn packet_receiver(end: &End, receive: PacketReceive) -> PacketRx {
    end.namespace.run(|| PacketRx::open(end.interface(), &receive, None)).unwrap().unwrap()
}

pub fn prompt_receiver(end: &End, accept: Accept) -> PromptRx {
    end.namespace.run(|| PromptRx::open(end.interface(), accept)).unwrap().unwrap()
}

/// To `destination`, from wherever the kernel likes.
pub fn endpoint(destination: SocketAddr) -> Endpoint {
    let source = match destination {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    Endpoint { source, destination, ttl: 64, tos: 0, checksum: Checksum::Sent }
}

pub fn socket_sender(end: &End, endpoints: &[Endpoint], joining: Joining) -> SocketTx {
    let transmit = SocketTransmit {
        plan: plan(endpoints.len() as u32, 4000),
        endpoints: endpoints.iter().copied().map(Some).collect(),
        joining,
    };
    sending(end, &transmit).unwrap()
}

pub fn sending(end: &End, transmit: &SocketTransmit) -> Result<SocketTx, PortError> {
    end.namespace.run(|| SocketTx::open(None, transmit, None)).unwrap()
}

pub fn socket_receiver(end: &End, receive: SocketReceive) -> SocketRx {
    listening(end, None, &receive).unwrap()
}

pub fn listening(
    end: &End,
    interface: Option<&str>,
    receive: &SocketReceive,
) -> Result<SocketRx, PortError> {
    end.namespace.run(|| SocketRx::open(interface, receive, None)).unwrap()
}

/// Payload number `index`: its number, then bytes that depend on it.
pub fn payload(index: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = index.to_be_bytes().to_vec();
    bytes.resize_with(len, || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    bytes
}

/// A frame from `a` to `b` that is filled by `payload`, or padded to the shortest.
pub fn frame(cable: &Testbed, (source, destination): (IpAddr, IpAddr), payload: &[u8]) -> Vec<u8> {
    let end = |address, port| SocketAddr::new(address, port).to_string();
    let mut frame = udp_frame(&end(source, 40_000), &end(destination, PORT), payload);
    frame[..12].copy_from_slice(&[cable.b.mac.0, cable.a.mac.0].concat());
    frame
}

/// Hands all frames over in batches of up to `batch`, each of one commit, and waits until they are sent.
/// Fails when the port fails or stays full.
pub fn send<P: TxPort>(port: &mut P, batch: usize, frames: &[(u32, Vec<u8>)]) {
    let deadline = MonotonicClock.now().saturating_add(PATIENCE);
    let mut left = frames;
    while !left.is_empty() {
        let want = batch.min(left.len());
        let got = port.reserve(want).unwrap().min(want);
        let (now, later) = left.split_at(got);
        commit(port, now).unwrap();
        port.flush().unwrap();
        left = later;
        assert!(MonotonicClock.now() < deadline, "the port stays full");
    }
    assert!(port.drain(deadline).unwrap());
}

/// Builds frames in reserved slots and commits them.
pub fn commit<P: TxPort>(port: &mut P, frames: &[(u32, Vec<u8>)]) -> Result<(), PortError> {
    let mut metas = Vec::new();
    for (index, (tag, bytes)) in frames.iter().enumerate() {
        port.slot(index)[..bytes.len()].copy_from_slice(bytes);
        metas.push(TxMeta { len: bytes.len() as u16, tag: *tag, ..TxMeta::default() });
    }
    port.commit(&metas)
}

/// Commits copies of `frame` until the port is full; returns how many it took.
pub fn fill<P: TxPort>(port: &mut P, frame: &[u8]) -> u64 {
    let mut committed = 0;
    loop {
        let got = port.reserve(16).unwrap();
        if got == 0 {
            return committed;
        }
        commit(port, &vec![(0, frame.to_vec()); got]).unwrap();
        committed += got as u64;
    }
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    pub at: Nanos,
    pub bytes: Vec<u8>,
    pub frame_len: u32,
}

/// Where the systems of both ends report to which groups they listen (RFC 3810 §5.2.14), on a busy machine long after the
/// cable was laid.
pub const LISTENERS: [u8; 6] = [0x33, 0x33, 0, 0, 0, 0x16];

/// Receives until `count` have come, and looks once more whether there are others.
pub fn receive<P: RxPort>(port: &mut P, count: usize) -> Vec<Arrived> {
    let deadline = MonotonicClock.now().saturating_add(PATIENCE);
    let mut arrived = Vec::new();
    loop {
        // whatever is left comes within a few milliseconds, one after the other
        let settle = MonotonicClock.now().saturating_add(Nanos::from_millis(20));
        let until = if arrived.len() < count { deadline } else { settle };
        let got = port.receive(until, |a| {
            if !a.bytes.starts_with(&LISTENERS) {
                arrived.push(Arrived { at: a.at, bytes: a.bytes.to_vec(), frame_len: a.frame_len });
            }
        });
        if got.unwrap() == 0 && MonotonicClock.now() >= until {
            return arrived;
        }
    }
}

/// The bytes of arrivals.
pub fn bytes(arrived: &[Arrived]) -> Vec<Vec<u8>> {
    arrived.iter().map(|arrival| arrival.bytes.clone()).collect()
}

/// What became of the frames of each tag.
pub fn totals<P: TxPort>(port: &P, tags: usize) -> Vec<TxTotals> {
    let mut totals = vec![TxTotals::default(); tags];
    port.totals(&mut totals);
    totals
}

/// `count` frames sent.
pub fn sent(count: u64) -> TxTotals {
    TxTotals { sent: frames(count), ..TxTotals::default() }
}

/// `count` frames, as the tests here commit them: without saying how long they are.
pub fn frames(count: u64) -> Amount {
    Amount { frames: count, ..Amount::default() }
}

/// Fails unless times are between `from` and `to`, give or take what conversion may cost, and in order.
pub fn assert_times(arrived: &[Arrived], from: Nanos, to: Nanos) {
    let slack = Nanos::from_micros(20);
    let from = from.saturating_sub(slack);
    let to = to.saturating_add(slack);
    for arrival in arrived {
        assert!(from <= arrival.at && arrival.at <= to, "{:?} in {from:?}..{to:?}", arrival.at);
    }
    assert!(arrived.is_sorted_by_key(|arrival| arrival.at));
}
