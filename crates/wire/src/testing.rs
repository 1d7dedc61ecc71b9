//! Frames for the tests of this crate and of those above it (feature `testing`).

#![allow(clippy::expect_used, reason = "helpers of tests fail the test that uses them")]

use std::net::{IpAddr, SocketAddr};

use crate::checksum::{Sum, checksum};
use crate::ethernet::FRAME_MIN;
use crate::ip::Protocol;
use crate::udp;

/// An Ethernet frame without FCS of a UDP datagram between two addresses with ports: TTL 64, ToS 0xb8, every checksum right,
/// padded if it is short. It goes from 02:02:02:02:02:02 to the broadcast address.
///
/// # Panics
/// Where an address is not one, the two are of different versions, or the payload does not fit.
pub fn udp_frame(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let [source, destination]: [SocketAddr; 2] =
        [source, destination].map(|end| end.parse().expect("an address with a port"));
    let len = u16::try_from(udp::LEN + payload.len()).expect("a payload that fits");
    let mut datagram = [source.port(), destination.port(), len, 0].map(u16::to_be_bytes).concat();
    datagram.extend_from_slice(payload);
    let pseudo = Sum::pseudo(source.ip(), destination.ip(), Protocol::UDP, len.into());
    let sum = match pseudo.expect("addresses of one version").add_bytes(&datagram).checksum() {
        0 => 0xffff,
        sum => sum,
    };
    datagram[udp::CHECKSUM..udp::LEN].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [[0xff; 6], [2; 6]].concat();
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = vec![0x45, 0xb8, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
            ip.extend([source.octets(), destination.octets()].concat());
            let total = len.checked_add(ip.len() as u16).expect("a payload that fits");
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            let sum = checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([&[8, 0], &ip[..]].concat());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = len.to_be_bytes();
            frame.extend([0x86, 0xdd, 0x6b, 0x80, 0, 0, high, low, 17, 64]);
            frame.extend([source.octets(), destination.octets()].concat());
        }
        _ => {}
    }
    frame.extend(datagram);
    frame.resize(frame.len().max(FRAME_MIN), 0);
    frame
}
