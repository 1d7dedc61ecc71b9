//! The headers of what scripts send: datagrams between two ports, over either version of IP; and how long a
//! packet may be that a tool sends.

use std::fmt;
use std::net::IpAddr;

use wirebeat_traffic::distribution::{Bounded, Distribution};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::ipv4::Ipv4;
use wirebeat_traffic::scenario::header::ipv6::Ipv6;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::number::Number;
use wirebeat_traffic::scenario::pattern::Field;
use wirebeat_traffic::scenario::size::{Length, MAX_PAYLOAD, Of, Size};
use wirebeat_units::Bytes;
use wirebeat_wire::ip::Version;

/// The longest IP packet that leaves undivided, unless a link is said to take longer ones.
const MTU: u64 = 1500;
/// The length of a UDP header.
pub(crate) const UDP: u64 = 8;
/// The TTL of multicast where nothing is said (RFC 1112 §6.1).
const MULTICAST_TTL: u8 = 1;

/// Where datagrams go, and how the network treats them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Datagram {
    pub source: Option<IpAddr>,
    pub destination: IpAddr,
    /// `None`: the system chooses.
    pub source_port: Option<u16>,
    pub destination_port: u16,
    pub tos: Option<u8>,
    /// `None`: what Linux takes, 64 and for multicast 1.
    pub ttl: Option<u8>,
    /// IPv6 only.
    pub label: u32,
    /// `None`: as Linux does, which sets it unless the link takes fragments alone.
    pub dont_fragment: Option<bool>,
    pub payload: Payload,
}

impl Datagram {
    pub fn to(destination: IpAddr, port: u16) -> Datagram {
        Datagram {
            source: None,
            destination,
            source_port: None,
            destination_port: port,
            tos: None,
            ttl: None,
            label: 0,
            dont_fragment: None,
            payload: Payload::Zeros,
        }
    }

    pub fn version(&self) -> Version {
        Version::of(self.destination)
    }

    /// As UDP.
    pub fn udp(&self) -> Vec<Header> {
        let udp = Udp {
            source: self.source_port.map(number),
            destination: Some(number(self.destination_port)),
            ..Udp::default()
        };
        self.with(Header::Udp(udp))
    }

    /// With another header behind IP.
    pub fn with(&self, transport: Header) -> Vec<Header> {
        let mut headers = vec![self.network(), transport];
        if self.payload != Payload::Zeros {
            headers.push(Header::Payload(self.payload.clone()));
        }
        headers
    }

    /// The most payload that leaves in one undivided packet behind a header of so many bytes.
    pub fn undivided(&self, header: u64) -> u64 {
        let network = match self.version() {
            Version::V4 => 20,
            Version::V6 => 40,
        };
        MTU - network - header
    }

    fn network(&self) -> Header {
        let multicast = self.destination.is_multicast();
        let ttl = self.ttl.or_else(|| multicast.then_some(MULTICAST_TTL));
        match self.destination {
            IpAddr::V4(destination) => {
                let usual = Ipv4::default();
                Header::Ipv4(Ipv4 {
                    source: match self.source {
                        Some(IpAddr::V4(source)) => Some(source.into()),
                        _ => None,
                    },
                    destination: Some(destination.into()),
                    ttl: ttl.map_or(usual.ttl, number),
                    tos: self.tos.map(number),
                    dont_fragment: self.dont_fragment,
                    ..Ipv4::default()
                })
            }
            IpAddr::V6(destination) => Header::Ipv6(Ipv6 {
                source: match self.source {
                    Some(IpAddr::V6(source)) => Some(source.into()),
                    _ => None,
                },
                destination: Some(destination.into()),
                hop_limit: ttl.map_or(Ipv6::default().hop_limit, number),
                traffic_class: self.tos.map(number),
                flow_label: number(self.label),
                ..Ipv6::default()
            }),
        }
    }
}

/// A field that does not change.
pub(crate) fn number(value: impl Into<u64>) -> Field<Number> {
    Field::Fixed(Number::new(value.into()))
}

/// The payloads that a tool sends in one packet. What is longer than the MTU leaves in fragments; no tool
/// sends more than [`MAX_PAYLOAD`], the most that a datagram holds.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    min: u16,
    max: u16,
}

impl Sizes {
    pub const fn new(min: u16, max: u16) -> Sizes {
        Sizes { min, max: if max > MAX_PAYLOAD { MAX_PAYLOAD } else { max } }
    }

    pub fn max(self) -> u64 {
        self.max.into()
    }

    /// The number of bytes of payload. `None`: the tool does not send them.
    pub fn length(self, bytes: u64) -> Option<Length> {
        let bytes = u16::try_from(bytes).ok()?;
        (self.min..=self.max).contains(&bytes).then_some(Length { bytes, of: Of::Payload })
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} bytes", self.min, self.max)
    }
}

/// Payload that is drawn, with its bounds in bytes.
pub(crate) fn drawn_payload(
    distribution: Distribution<Bytes>,
    min: Option<u64>,
    max: Option<u64>,
) -> Size {
    let (min, max) = (min.map(Bytes::new), max.map(Bytes::new));
    Size::Drawn(Bounded { distribution, min, max }, Of::Payload)
}

/// The shortest payload of a size that is written in payload; `None` where that is left to the flow.
pub(crate) fn smallest(size: &Size) -> Option<u64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::Mix(mix) => mix.keys().map(|length| length.bytes.into()).min(),
        Size::List(list) => list.iter().map(|length| length.bytes.into()).min(),
        Size::Drawn(Bounded { distribution: Distribution::Uniform(uniform), .. }, _) => {
            Some(uniform.min.get())
        }
        Size::Drawn(drawn, _) => drawn.min.map(Bytes::get),
        Size::File(_) | Size::Capture(_) => None,
    }
}

/// The longest payload of a size that is written in payload.
pub(crate) fn largest(size: &Size) -> Option<u64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::Mix(mix) => mix.keys().map(|length| length.bytes.into()).max(),
        Size::List(list) => list.iter().map(|length| length.bytes.into()).max(),
        Size::Drawn(drawn, _) => drawn.max.map(Bytes::get),
        Size::File(_) | Size::Capture(_) => None,
    }
}

/// The mean of sizes in bytes of payload, where they have one.
pub(crate) fn mean_payload(size: &Size) -> Option<f64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::List(list) => {
            let sum: f64 = list.iter().map(|length| f64::from(length.bytes)).sum();
            Some(sum / list.len() as f64)
        }
        Size::Mix(mix) => {
            let total: f64 = mix.values().map(|weight| f64::from(*weight)).sum();
            let sum =
                mix.iter().map(|(length, weight)| f64::from(length.bytes) * f64::from(*weight));
            Some(sum.sum::<f64>() / total)
        }
        Size::Drawn(drawn, _) => drawn.sampler(None).ok()?.mean(),
        Size::File(_) | Size::Capture(_) => None,
    }
    .filter(|mean| *mean >= 1.0)
}
