//! The headers of what scripts send: datagrams between two ports, over either version of IP.

use std::net::IpAddr;

use wirebeat_traffic::law::Law;
use wirebeat_traffic::spec::header::Header;
use wirebeat_traffic::spec::header::ipv4::Ipv4;
use wirebeat_traffic::spec::header::ipv6::Ipv6;
use wirebeat_traffic::spec::header::payload::Payload;
use wirebeat_traffic::spec::header::udp::Udp;
use wirebeat_traffic::spec::number::Number;
use wirebeat_traffic::spec::pattern::Field;
use wirebeat_traffic::spec::size::{Drawn, Length, MAX_PAYLOAD, Of, Size};
use wirebeat_units::Bytes;
use wirebeat_wire::ip::Version;

/// UDP payload that a packet of 1500 bytes holds without fragmenting, over IPv4.
const UNFRAGMENTED: u64 = 1500 - 20 - 8;
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
    /// `None`: as Linux does, which sets it unless it has to fragment.
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

    /// As UDP, of these sizes.
    pub fn udp(&self, size: Option<&Size>) -> Vec<Header> {
        let udp = Udp {
            source: self.source_port.map(number),
            destination: Some(number(self.destination_port)),
            ..Udp::default()
        };
        self.with(Header::Udp(udp), size)
    }

    /// With another header behind IP.
    pub fn with(&self, transport: Header, size: Option<&Size>) -> Vec<Header> {
        let mut headers = vec![self.network(size), transport];
        if self.payload != Payload::Zeros {
            headers.push(Header::Payload(self.payload.clone()));
        }
        headers
    }

    fn network(&self, size: Option<&Size>) -> Header {
        let multicast = self.destination.is_multicast();
        let ttl = self.ttl.or_else(|| multicast.then_some(MULTICAST_TTL));
        match self.destination {
            IpAddr::V4(destination) => {
                let usual = Ipv4::default();
                let fits = size.and_then(largest).is_none_or(|bytes| bytes <= UNFRAGMENTED);
                Header::Ipv4(Ipv4 {
                    source: match self.source {
                        Some(IpAddr::V4(source)) => Some(source.into()),
                        _ => None,
                    },
                    destination: Some(destination.into()),
                    ttl: ttl.map_or(usual.ttl, number),
                    tos: self.tos.map(number),
                    dont_fragment: self.dont_fragment.or((!fits).then_some(false)),
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

/// So many bytes of payload. `None`: more than any datagram holds.
pub(crate) fn payload_size(bytes: u64) -> Option<Size> {
    payload_length(bytes).map(Size::Fixed)
}

/// So many bytes of payload. `None`: more than any datagram holds.
pub(crate) fn payload_length(bytes: u64) -> Option<Length> {
    let bytes = u16::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_PAYLOAD)?;
    Some(Length { bytes, of: Of::Payload })
}

/// Payload that is drawn, with its bounds in bytes.
pub(crate) fn drawn_payload(law: Law<Bytes>, min: Option<u64>, max: Option<u64>) -> Size {
    Size::Drawn(Drawn { law, min: min.map(Bytes::new), max: max.map(Bytes::new), of: Of::Payload })
}

/// The shortest payload of a size that is written in payload; `None` where that is left to the flow.
pub(crate) fn smallest(size: &Size) -> Option<u64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::Mix(mix) => mix.keys().map(|length| length.bytes.into()).min(),
        Size::List(list) => list.iter().map(|length| length.bytes.into()).min(),
        Size::Drawn(Drawn { law: Law::Uniform(uniform), .. }) => Some(uniform.min.get()),
        Size::Drawn(drawn) => drawn.min.map(Bytes::get),
        Size::File(_) | Size::Capture(_) => None,
    }
}

/// The longest payload of a size that is written in payload.
fn largest(size: &Size) -> Option<u64> {
    match size {
        Size::Fixed(length) => Some(length.bytes.into()),
        Size::Mix(mix) => mix.keys().map(|length| length.bytes.into()).max(),
        Size::List(list) => list.iter().map(|length| length.bytes.into()).max(),
        Size::Drawn(drawn) => drawn.max.map(Bytes::get),
        Size::File(_) | Size::Capture(_) => None,
    }
}
