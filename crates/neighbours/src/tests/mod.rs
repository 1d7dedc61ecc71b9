//! Frames by hand against our hosts: 10.0.0.1 to 10.0.0.3, 10.0.0.9, and fd00::1 to fd00::3, at 02:00:00:00:00:01.

mod any_bytes;
mod arp;
mod check;
mod discovery;
mod echo;
mod next_hops;
mod stations;
mod two;

use std::net::IpAddr;

use wirebeat_units::Nanos;
use wirebeat_wire::checksum::{Sum, checksum};
use wirebeat_wire::ethernet::EtherType;
use wirebeat_wire::ip::Protocol;
use wirebeat_wire::mac::MacAddr;

use crate::*;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const T0: Nanos = Nanos::from_secs(100);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn hosts() -> Hosts {
    let ranges = [("10.0.0.1", "10.0.0.3"), ("10.0.0.9", "10.0.0.9"), ("fd00::1", "fd00::3")];
    Hosts::new(ranges.map(|(first, last)| (ip(first), ip(last)))).unwrap()
}

fn settings() -> Settings {
    Settings::new(Link { mac: OURS, vlan: None }, hosts(), [7, 1 << 40])
}

fn neighbours() -> Neighbours {
    Neighbours::new(settings()).unwrap()
}

/// All frames that are to be sent now.
fn sent(neighbours: &mut Neighbours, now: Nanos) -> Vec<Vec<u8>> {
    let mut buffer = [0xee; FRAME_MAX];
    let mut frames = Vec::new();
    while let Some(len) = neighbours.next_frame(now, &mut buffer) {
        frames.push(buffer[..len].to_vec());
        assert!(frames.len() < 5000);
    }
    assert!(neighbours.counters().balance());
    frames
}

/// Bytes from hexadecimal digits; spaces and line breaks between them do not count.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A frame, padded to the shortest.
fn frame(to: MacAddr, from: MacAddr, ether_type: u16, carried: &[u8]) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &ether_type.to_be_bytes(), carried].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// An ARP packet.
fn arp_packet(operation: u8, (mac, sender): (MacAddr, &str), target: &str) -> Vec<u8> {
    let octets = |text: &str| match ip(text) {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("ARP is of IPv4"),
    };
    [&[0, 1, 8, 0, 6, 4, 0, operation], &mac.0[..], &octets(sender), &[0; 6], &octets(target)]
        .concat()
}

/// A frame to everybody that asks who has `target`.
fn request(sender: (MacAddr, &str), target: &str) -> Vec<u8> {
    frame(MacAddr::BROADCAST, sender.0, 0x0806, &arp_packet(1, sender, target))
}

/// A reply to our host `target`.
fn reply(sender: (MacAddr, &str), target: &str) -> Vec<u8> {
    frame(OURS, sender.0, 0x0806, &arp_packet(2, sender, target))
}

/// An IP packet of this protocol, with the checksum of ICMPv6 where it is that; `ttl` is its hop limit.
fn packet(protocol: u8, ttl: u8, source: &str, destination: &str, content: &[u8]) -> Vec<u8> {
    match (ip(source), ip(destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = (20 + content.len() as u16).to_be_bytes();
            let mut header = vec![0x45, 0, total[0], total[1], 0, 1, 0, 0, ttl, protocol, 0, 0];
            header.extend([source.octets(), destination.octets()].concat());
            let sum = checksum(&header).to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            [&header, content].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = (content.len() as u16).to_be_bytes();
            let mut content = content.to_vec();
            if protocol == 58 && content.len() >= 4 {
                content[2..4].fill(0);
                let sum = Sum::pseudo(
                    source.into(),
                    destination.into(),
                    Protocol(58),
                    content.len() as u32,
                );
                let sum = sum.unwrap().add_bytes(&content).checksum().to_be_bytes();
                content[2..4].copy_from_slice(&sum);
            }
            let header = [0x60, 0, 0, 0, len[0], len[1], protocol, ttl];
            [&header[..], &source.octets(), &destination.octets(), &content].concat()
        }
        _ => panic!("two versions"),
    }
}

fn ether_type(address: &str) -> u16 {
    if ip(address).is_ipv4() { 0x0800 } else { 0x86dd }
}

/// The first segment of a connection to port 80, without a checksum.
fn syn(from: MacAddr, source: &str, destination: &str) -> Vec<u8> {
    let segment = [0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0];
    frame(OURS, from, ether_type(source), &packet(6, 64, source, destination, &segment))
}

/// An echo request with these bytes as data.
fn echo_request(from: MacAddr, source: &str, destination: &str, data: &[u8]) -> Vec<u8> {
    let is_v4 = ip(source).is_ipv4();
    let mut message = [&[if is_v4 { 8 } else { 128 }, 0, 0, 0, 0x12, 0x34, 0, 1], data].concat();
    if is_v4 {
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
    }
    let protocol = if is_v4 { 1 } else { 58 };
    frame(OURS, from, ether_type(source), &packet(protocol, 64, source, destination, &message))
}
