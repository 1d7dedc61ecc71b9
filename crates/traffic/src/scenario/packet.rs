//! What the headers of a flow mean together.

use std::net::IpAddr;

use wirebeat_units::{Fault, FrameLen, fault};
use wirebeat_wire::ethernet;
use wirebeat_wire::ip::Version;

use super::header::Header;
use super::header::arp::Arp;
use super::header::ethernet::Ethernet;
use super::header::ipv4::Ipv4;
use super::header::ipv6::Ipv6;
use super::header::payload::Payload;
use super::header::raw::Raw;
use super::header::udp::Udp;
use super::pattern::Field;
use super::{FlowSpec, Invalid, KeyPath};

/// The most headers of a packet.
pub const MAX_HEADERS: usize = 32;

/// The headers of a packet, as they follow one another.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    /// All of them but the payload, from the outside in. Ethernet comes first whether it is here or not.
    pub headers: Vec<&'a Header>,
    /// What follows them.
    pub payload: &'a Payload,
    /// The outermost Ethernet header, where it is written out.
    pub ethernet: Option<&'a Ethernet>,
    /// The outermost network header.
    pub network: Option<Network<'a>>,
    /// The UDP header right behind it, where nothing but payload follows: a packet that a socket sends.
    pub udp: Option<&'a Udp>,
    /// A whole frame instead of headers.
    pub raw: Option<&'a Raw>,
}

/// A network layer.
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// IPv4.
    V4(&'a Ipv4),
    /// IPv6.
    V6(&'a Ipv6),
    /// ARP.
    Arp(&'a Arp),
}

impl Network<'_> {
    /// Of which version of the Internet Protocol its addresses are.
    pub fn version(&self) -> Version {
        match self {
            Network::V4(_) | Network::Arp(_) => Version::V4,
            Network::V6(_) => Version::V6,
        }
    }
    /// The source address of the first frame, where it is written out.
    pub fn source(&self) -> Option<IpAddr> {
        match self {
            Network::V4(header) => first(&header.source).map(IpAddr::V4),
            Network::V6(header) => first(&header.source).map(IpAddr::V6),
            Network::Arp(header) => first(&header.sender).map(IpAddr::V4),
        }
    }
    /// The destination address of the first frame, where it is written out.
    pub fn destination(&self) -> Option<IpAddr> {
        match self {
            Network::V4(header) => first(&header.destination).map(IpAddr::V4),
            Network::V6(header) => first(&header.destination).map(IpAddr::V6),
            Network::Arp(header) => first(&header.target).map(IpAddr::V4),
        }
    }
    /// Whether an address is of this family.
    pub fn speaks(&self, address: &IpAddr) -> bool {
        match self.version() {
            Version::V4 => address.is_ipv4(),
            Version::V6 => address.is_ipv6(),
        }
    }
}

fn first<T: super::pattern::FieldValue>(field: &Option<Field<T>>) -> Option<T> {
    field.as_ref().map(Field::first)
}

impl FlowSpec {
    /// The headers as they follow one another, none of a capture; an error when one cannot follow the one before
    /// it. `name` is the flow's.
    pub fn headers(&self, name: &str) -> Result<Packet<'_>, Invalid> {
        let at = || KeyPath::flow(name).key("packet");
        if self.packet.len() > MAX_HEADERS {
            let why = format!("a packet has at most {MAX_HEADERS} headers");
            return Err(at().index(MAX_HEADERS).invalid(why));
        }
        if self.is_captured() {
            return Ok(Packet::EMPTY);
        }
        let (mut headers, mut payload) = (Vec::with_capacity(self.packet.len()), None);
        for (index, header) in self.packet.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| self.packet.get(before));
            check_order(before, header)
                .map_err(|why| at().index(index).key(header.name()).invalid(why))?;
            match header {
                Header::Payload(content) => payload = Some(content),
                header => headers.push(header),
            }
        }
        let mut packet = Packet {
            ethernet: None,
            network: None,
            udp: None,
            raw: None,
            payload: payload.unwrap_or(&Payload::Zeros),
            headers,
        };
        packet.find_parts();
        if packet.headers.is_empty() {
            return Err(at().invalid(
                fault!("a packet needs a header"; "add '- ipv4: {{}}' and '- udp: {{}}'"),
            ));
        }
        Ok(packet)
    }
}

impl<'a> Packet<'a> {
    /// Without headers: they are not known here.
    const EMPTY: Packet<'static> = Packet {
        ethernet: None,
        network: None,
        udp: None,
        raw: None,
        payload: &Payload::Zeros,
        headers: Vec::new(),
    };

    /// Names what others ask for.
    fn find_parts(&mut self) {
        let mut behind = false;
        for header in &self.headers {
            match header {
                Header::Ethernet(header) if !behind && self.network.is_none() => {
                    self.ethernet = Some(header);
                }
                Header::Ipv4(header) if self.network.is_none() => {
                    self.network = Some(Network::V4(header));
                }
                Header::Ipv6(header) if self.network.is_none() => {
                    self.network = Some(Network::V6(header));
                }
                Header::Arp(header) if self.network.is_none() => {
                    self.network = Some(Network::Arp(header));
                }
                Header::Raw(raw) => self.raw = Some(raw),
                _ => {}
            }
            behind = true;
        }
        let written = self.headers.get(usize::from(self.ethernet.is_some())..);
        if let Some([Header::Ipv4(_) | Header::Ipv6(_), Header::Udp(udp)]) = written {
            self.udp = Some(udp);
        }
    }

    /// Bytes of all headers.
    pub fn headers_len(&self) -> usize {
        let begun = self.raw.is_some() || self.ethernet.is_some();
        let ethernet = if begun { 0 } else { ethernet::LEN };
        let laid = self.headers.iter().map(|header| usize::from(header.laid().len()));
        ethernet + laid.sum::<usize>()
    }
}

/// What stands where it cannot.
fn check_order(before: Option<&Header>, header: &Header) -> Result<(), Fault> {
    let Some(before) = before else {
        // Whatever has an EtherType may follow the Ethernet header that is not written.
        let begins = matches!(header, Header::Ethernet(_) | Header::Raw(_))
            || Header::Ethernet(Ethernet::default()).may_carry(header);
        return match begins {
            true if !matches!(header, Header::Payload(_)) => Ok(()),
            _ => Err(fault!(
                "{} cannot begin a packet: it is carried by another header", header.name();
                "write that one before it"
            )),
        };
    };
    if before.may_carry(header) && !matches!(before, Header::Payload(_) | Header::Raw(_)) {
        return Ok(());
    }
    Err(match before {
        Header::Payload(_) => {
            fault!("nothing follows the payload"; "a packet is written from the outside in")
        }
        Header::Raw(_) => fault!("a whole frame stands alone"; "write headers or a frame"),
        _ => {
            fault!(
                "{} cannot follow {}", header.name(), before.name();
                "a packet is written from the outside in, for example ipv4, udp, payload"
            )
        }
    })
}

impl FlowSpec {
    /// The shortest frame that holds the headers and, if there is one, the probe.
    pub fn shortest(&self, name: &str) -> Result<FrameLen, Invalid> {
        let packet = self.headers(name)?;
        let len = packet.headers_len() + self.probe_len(&packet);
        let align = packet.headers.iter().map(|header| header.laid().alignment()).max();
        let len = len.next_multiple_of(usize::from(align.unwrap_or(1).max(1)));
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        Ok(FrameLen::without_fcs(len).max(FrameLen::MIN))
    }
}
