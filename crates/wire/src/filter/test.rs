//! What a frame is asked for. Each test looks at the places at which libpcap's do, and no others.

use std::net::IpAddr;

use super::relation::Relation;
use crate::ethernet::{self, EtherType};
use crate::ip::Protocol;
use crate::rewrite::Prefix;
use crate::walk::word;

/// RARP (RFC 903), and the old tag for stacked VLANs.
pub const RARP: EtherType = EtherType(0x8035);
const STACKED_VLAN: EtherType = EtherType(0x9100);

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    pub ask: Ask,
    /// Bytes of the tags that were asked for before.
    pub shift: usize,
}

/// Which of two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    Source,
    Destination,
    Either,
    Both,
}

/// The protocols whose addresses or numbers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    pub v4: bool,
    pub v6: bool,
    pub arp: bool,
    pub rarp: bool,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    EtherType(EtherType),
    Protocol(Families, Protocol),
    Address(Families, Ends, Prefix),
    /// The protocols that have them, the first port, and the last.
    Ports(&'static [Protocol], Ends, (u16, u16)),
    Mac(Ends, [u8; 6]),
    LinkBroadcast,
    LinkMulticast,
    Multicast(Families),
    Vlan(Option<u16>),
    AtMost(u32),
    AtLeast(u32),
    /// Over IPv6, right behind its header.
    NextHeader(Protocol),
    /// Over IPv4, and not a fragment behind the first.
    NoLaterFragment,
    Relation(Box<Relation>),
}

impl Ends {
    /// Asks the ends that are meant.
    #[inline]
    fn ask(self, mut holds: impl FnMut(usize) -> Option<bool>) -> Option<bool> {
        Some(match self {
            Ends::Source => holds(0)?,
            Ends::Destination => holds(1)?,
            Ends::Either => holds(0)? || holds(1)?,
            Ends::Both => holds(0)? && holds(1)?,
        })
    }
}

impl Test {
    /// Whether a frame has it; `None` where the frame ends before what is looked at.
    #[inline]
    pub fn holds(&self, frame: &[u8], len: usize) -> Option<bool> {
        // where the EtherType is, and what follows it
        let (link, at) = (12 + self.shift, ethernet::LEN + self.shift);
        let is = |ether_type: EtherType| Some(EtherType::read(frame, link)? == ether_type);
        match &self.ask {
            Ask::EtherType(ether_type) => is(*ether_type),
            Ask::Protocol(families, protocol) => {
                let v4 = families.v4 && is(EtherType::IPV4)? && *frame.get(at + 9)? == protocol.0;
                Some(v4 || families.v6 && is(EtherType::IPV6)? && v6_carries(frame, at, *protocol)?)
            }
            Ask::Address(families, ends, prefix) => match prefix.address() {
                IpAddr::V4(_) => {
                    // of source and destination in IP; of sender and target in ARP
                    for (wanted, ether_type, places) in [
                        (families.v4, EtherType::IPV4, [12, 16]),
                        (families.arp, EtherType::ARP, [14, 24]),
                        (families.rarp, RARP, [14, 24]),
                    ] {
                        if wanted && is(ether_type)? {
                            return ends.ask(|end| {
                                let octets: [u8; 4] = beginning(frame, at + places[end], prefix)?;
                                Some(prefix.contains(IpAddr::from(octets)))
                            });
                        }
                    }
                    Some(false)
                }
                IpAddr::V6(_) if families.v6 && is(EtherType::IPV6)? => ends.ask(|end| {
                    let octets: [u8; 16] = beginning(frame, at + [8, 24][end], prefix)?;
                    Some(prefix.contains(IpAddr::from(octets)))
                }),
                IpAddr::V6(_) => Some(false),
            },
            Ask::Ports(protocols, ends, range) => {
                let ports_at = match () {
                    () if is(EtherType::IPV4)? => v4_ports(frame, at, protocols)?,
                    () if is(EtherType::IPV6)? => {
                        protocols.contains(&Protocol(*frame.get(at + 6)?)).then_some(at + 40)
                    }
                    () => None,
                };
                let Some(ports_at) = ports_at else { return Some(false) };
                ends.ask(|end| {
                    Some((range.0..=range.1).contains(&word(frame, ports_at + 2 * end)?))
                })
            }
            // the destination stands first
            Ask::Mac(ends, mac) => {
                ends.ask(|end| Some(frame.get([6, 0][end]..)?.first_chunk::<6>()? == mac))
            }
            Ask::LinkBroadcast => Some(frame.first_chunk::<6>()? == &[0xff; 6]),
            Ask::LinkMulticast => Some(frame.first()? & 1 == 1),
            Ask::Multicast(families) => {
                let v4 = families.v4 && is(EtherType::IPV4)? && *frame.get(at + 16)? >= 224;
                Some(v4 || families.v6 && is(EtherType::IPV6)? && *frame.get(at + 24)? == 255)
            }
            Ask::Vlan(id) => {
                let tag = EtherType::read(frame, link)?;
                let tags = [EtherType::VLAN, EtherType::SERVICE_VLAN, STACKED_VLAN];
                Some(match id {
                    _ if !tags.contains(&tag) => false,
                    Some(id) => word(frame, at)? & 0x0fff == *id,
                    None => true,
                })
            }
            Ask::AtMost(most) => Some(len <= *most as usize),
            Ask::AtLeast(least) => Some(len >= *least as usize),
            Ask::NextHeader(protocol) => {
                Some(is(EtherType::IPV6)? && *frame.get(at + 6)? == protocol.0)
            }
            Ask::NoLaterFragment => {
                Some(is(EtherType::IPV4)? && word(frame, at + 6)? & 0x1fff == 0)
            }
            Ask::Relation(relation) => relation.holds(frame, len, self.shift),
        }
    }
}

/// The words of the address at `at` that a prefix reaches into; what lies behind need not be there.
#[inline]
fn beginning<const N: usize>(frame: &[u8], at: usize, prefix: &Prefix) -> Option<[u8; N]> {
    let len = usize::from(prefix.bits()).div_ceil(32) * 4;
    let mut octets = [0; N];
    octets.get_mut(..len)?.copy_from_slice(frame.get(at..at + len)?);
    Some(octets)
}

/// Whether an IPv6 packet carries this, right behind its header or behind that of a fragment.
#[inline]
fn v6_carries(frame: &[u8], at: usize, protocol: Protocol) -> Option<bool> {
    let next = Protocol(*frame.get(at + 6)?);
    Some(next == protocol || next == Protocol::FRAGMENT && *frame.get(at + 40)? == protocol.0)
}

/// Where the ports are, unless the packet has none or is not the first of its fragments.
#[inline]
fn v4_ports(frame: &[u8], at: usize, protocols: &[Protocol]) -> Option<Option<usize>> {
    if !protocols.contains(&Protocol(*frame.get(at + 9)?)) || word(frame, at + 6)? & 0x1fff != 0 {
        return Some(None);
    }
    Some(Some(at + usize::from(frame.get(at)? & 0x0f) * 4))
}
