//! Records out of a capture: what each packet carries, at the time it was captured, of the device that its
//! addresses name.
//!
//! Nothing is left out silently: [`Payloads::skipped`] says how many frames held nothing that was asked for, and
//! why. Times keep their nanoseconds, and do not run backwards: [`Steady`] sees to it.

use std::io::Read;
use std::net::IpAddr;
use std::ops::Range;

use super::dissect::{self, Packet, Reason};
use super::steady::{HeldBack, Steady};
use super::{Defect, ReadError, Window};
use crate::source::{Error, Source};
use crate::time_series::{DATA_MAX, Device, OnBad, Record, Timestamp};

/// What becomes data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// The payload of UDP datagrams.
    #[default]
    Udp,
    /// What any IP packet carries, with the header of its transport protocol.
    Ip,
}

/// What becomes the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceOf {
    /// The source address as an IPv6 address; an IPv4 address as `::ffff:a.b.c.d`.
    #[default]
    Source,
    /// The destination address, likewise.
    Destination,
    /// Over IPv4: source and destination address, source and destination port, protocol, and three zeros. Over
    /// IPv6, where these do not fit: their 128-bit FNV-1a hash.
    Flow,
}

/// Frames that gave no record, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped([u64; Skipped::REASONS.len()]);

impl Skipped {
    /// The reasons, as what the frames are.
    pub const REASONS: [&'static str; 8] = [
        "of a link type that is not known here",
        "not IP",
        "fragments of IP packets",
        "not UDP",
        "cut short in the capture",
        "malformed",
        "without a time",
        "with more data than a record holds",
    ];

    /// Each reason, and how many frames there were.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Skipped::REASONS.into_iter().zip(self.0)
    }

    /// How many frames there were.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn count(&mut self, reason: Reason) {
        let at = match reason {
            Reason::Link => 0,
            Reason::NotIp => 1,
            Reason::Fragment => 2,
            Reason::NotUdp => 3,
            Reason::Cut => 4,
            Reason::Malformed => 5,
            Reason::Timeless => 6,
            Reason::Long => 7,
        };
        self.0[at] += 1;
    }
}

/// What the packets of a capture carry, as records.
#[derive(Debug)]
pub struct Payloads<R> {
    frames: Window<R>,
    take: Take,
    device_of: DeviceOf,
    skipped: Skipped,
    steady: Steady,
    /// Of the record that it is at; the data by its place in the frame.
    current: (Timestamp, Device, Range<usize>),
}

impl<R: Read> Payloads<R> {
    /// Of `frames`.
    pub fn new(frames: Window<R>, take: Take, device_of: DeviceOf) -> Payloads<R> {
        Payloads {
            frames,
            take,
            device_of,
            skipped: Skipped::default(),
            steady: Steady::default(),
            current: (Timestamp::EPOCH, Device::default(), 0..0),
        }
    }

    /// What it reads.
    pub fn frames(&self) -> &Window<R> {
        &self.frames
    }

    /// Frames that gave no record, by reason.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Packets with a time before that of the one before them, which have its time as records.
    pub fn held_back(&self) -> &HeldBack {
        self.steady.held_back()
    }

    /// Goes to the next packet; says whether there is one.
    ///
    /// # Errors
    /// Those of [`Window::advance`]. Where the reading is to end at what is wrong, also frames of a link type that is
    /// not known.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        while self.frames.advance()? {
            match self.look() {
                Ok(current) => {
                    self.current = current;
                    return Ok(true);
                }
                Err(reason) => {
                    if reason == Reason::Link {
                        self.bad(Defect::Link(self.frames.frame().link))?;
                    }
                    self.skipped.count(reason);
                }
            }
        }
        Ok(false)
    }

    fn bad(&self, defect: Defect) -> Result<(), ReadError> {
        match self.frames.on_bad() {
            OnBad::Stop => Err(self.frames.error(defect)),
            OnBad::Skip => Ok(()),
        }
    }

    /// The record that the frame becomes.
    fn look(&mut self) -> Result<(Timestamp, Device, Range<usize>), Reason> {
        let frame = self.frames.frame();
        let packet = dissect::packet(&frame)?;
        let data = match self.take {
            Take::Udp => dissect::datagram(&frame, &packet)?,
            Take::Ip => packet.carried.clone(),
        };
        if data.len() > DATA_MAX {
            return Err(Reason::Long);
        }
        let utc = |ns: i64| Timestamp::from_ns(ns.into(), 0).map_err(|_| Reason::Timeless);
        let time = frame.time_ns.ok_or(Reason::Timeless)?;
        utc(time)?;
        let device = device(&packet, self.device_of);
        Ok((utc(self.steady.time(time, || self.frames.place()))?, device, data))
    }
}

impl<R: Read> Source for Payloads<R> {
    fn advance(&mut self) -> Result<bool, Error> {
        Ok(Payloads::advance(self)?)
    }

    fn record(&self) -> Record<'_> {
        let (time, device, ref data) = self.current;
        let data = self.frames.frame().bytes.get(data.clone()).unwrap_or_default();
        Record { time, device, data }
    }

    fn position(&self) -> u64 {
        self.frames.frames().position()
    }
}

fn device(packet: &Packet, of: DeviceOf) -> Device {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    Device(match of {
        DeviceOf::Source => address(packet.source),
        DeviceOf::Destination => address(packet.destination),
        DeviceOf::Flow => flow(packet),
    })
}

fn flow(packet: &Packet) -> [u8; Device::LEN] {
    let mut flow = [0; 37];
    let mut at = 0;
    let mut push = |bytes: &[u8]| {
        if let Some(place) = flow.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        at += bytes.len();
    };
    for address in [packet.source, packet.destination] {
        match address {
            IpAddr::V4(address) => push(&address.octets()),
            IpAddr::V6(address) => push(&address.octets()),
        }
    }
    for port in packet.ports {
        push(&port.to_be_bytes());
    }
    push(&[packet.protocol.0]);
    match (packet.source, flow.first_chunk()) {
        (IpAddr::V4(_), Some(flow)) => *flow,
        _ => fnv(&flow),
    }
}

/// FNV-1a of 128 bits (RFC 9923 §5).
fn fnv(bytes: &[u8]) -> [u8; 16] {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = |hash: u128, &byte: &u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET, hash).to_be_bytes()
}

#[cfg(test)]
mod tests;
