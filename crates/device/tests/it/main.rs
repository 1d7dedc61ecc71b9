//! A device does what it was told to, to the frame.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use wirebeat_device::{Carried, Device, Limits, TokenBucket};
use wirebeat_testbed::{Addressing, Capability, Neighbours, Options, require};

/// Bytes that an empty UDP datagram over IPv4 takes on a line: a frame of 64 bytes, preamble and gap (IEEE 802.3).
const LINE: u64 = 64 + 20;
/// What fills the frame of an empty datagram to 60 bytes without FCS.
const PAYLOAD: [u8; 18] = [0; 18];

fn device(limits: Limits) -> Device {
    // nobody else sends
    let (addressing, neighbours) = (Addressing::V4, Neighbours::Fixed);
    Device::new(&Options { addressing, neighbours, ..Options::default() }, limits).unwrap()
}

/// Sends datagrams from `a` to `b` while `more` says so, and counts what arrives.
fn send(device: &Device, mut more: impl FnMut(u64) -> bool + Send) -> u64 {
    let (a, b) = (&device.bed.a, &device.bed.b);
    let receiver = b.namespace.run(|| UdpSocket::bind("0.0.0.0:9")).unwrap().unwrap();
    receiver.set_nonblocking(true).unwrap();
    let sender = a.namespace.run(|| UdpSocket::bind("0.0.0.0:9")).unwrap().unwrap();
    let (mut sent, mut arrived) = (0, 0);
    let mut drain = || {
        while receiver.recv(&mut [0; 64]).is_ok() {
            arrived += 1;
        }
    };
    while more(sent) {
        sender.send_to(&PAYLOAD, (b.ipv4, 9)).unwrap();
        sent += 1;
        drain();
    }
    std::thread::sleep(Duration::from_millis(100));
    drain();
    arrived
}

#[test]
fn a_device_without_limits_carries_all() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let device = device(Limits::default());
    assert_eq!(send(&device, |sent| sent < 1_000), 1_000);
    let carried = Carried { came: 1_000, passed: 1_000, ..Carried::default() };
    assert_eq!(device.carried().unwrap(), carried);
}

#[test]
fn each_tenth_frame_is_dropped() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let device = device(Limits { every: Some(10), ..Limits::default() });
    assert_eq!(send(&device, |sent| sent < 1_009), 909);
    let carried = Carried { came: 1_009, passed: 909, dropped: 100, ..Carried::default() };
    assert_eq!(device.carried().unwrap(), carried);
}

#[test]
fn a_share_is_dropped_at_random() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let device = device(Limits { loss: 0.25, ..Limits::default() });
    let arrived = send(&device, |sent| sent < 10_000);
    // six standard deviations
    assert!(arrived.abs_diff(7_500) < 6 * 44, "{arrived}");
    assert_eq!(device.carried().unwrap().passed, arrived);
}

/// What passes is what fits into the time, and the depth.
#[test]
fn a_bucket_passes_its_rate_and_its_depth() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let (rate, depth) = (1_000, 100);
    let bucket = TokenBucket {
        bits_per_second: rate * LINE * 8,
        depth: depth * LINE,
        ..TokenBucket::default()
    };
    let device = device(Limits { bucket: Some(bucket), ..Limits::default() });
    let begun = Instant::now();
    let arrived = send(&device, |_| begun.elapsed() < Duration::from_secs(1));
    let borne = rate as f64 * begun.elapsed().as_secs_f64() + depth as f64;
    let carried = device.carried().unwrap();
    assert_eq!((carried.passed, carried.came), (arrived, carried.passed + carried.over));
    // the last 100 ms nothing was sent
    assert!((arrived as f64) < borne && arrived as f64 > borne - 150.0, "{arrived} of {borne}");
}

#[test]
fn a_device_that_is_off_carries_nothing() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let device = device(Limits::default());
    device.switch(false).unwrap();
    assert_eq!(send(&device, |sent| sent < 100), 0);
    device.switch(true).unwrap();
    assert_eq!(send(&device, |sent| sent < 100), 100);
}

/// Ten frames leave, the eleventh finds no token: from then on nothing does for half a second.
#[test]
fn a_device_recovers_after_its_penalty() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bits_per_second = 100 * LINE * 8;
    let penalty = Duration::from_millis(500);
    let bucket = TokenBucket { bits_per_second, depth: 10 * LINE, penalty };
    let device = device(Limits { bucket: Some(bucket), ..Limits::default() });
    let first = send(&device, |sent| sent < 100);
    assert!((10..15).contains(&first), "{first}");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(send(&device, |sent| sent < 5), 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(send(&device, |sent| sent < 5), 5);
}
